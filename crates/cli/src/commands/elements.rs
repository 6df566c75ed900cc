//! `linerate elements`: the reference, made from the classes themselves.

use std::io::{self, Write};

use anyhow::Result;
use linerate_graph::Library;
use linerate_linux::similar;

use crate::{
    absent,
    args::{Elements, ReferenceFormat},
    exit::UsageError,
    reference,
};

pub(crate) fn run(args: &Elements, library: &Library) -> Result<()> {
    if let Some(folder) = &args.write {
        return reference::write(folder, reference::pages(library));
    }
    let mut classes = Vec::new();
    for name in &args.names {
        classes.push(library.find(name).ok_or_else(|| unknown(name, library))?);
    }
    let object = |class| format!("{}\n", reference::json(class));
    let text = match (args.format, classes.as_slice()) {
        (_, []) if args.json => library.iter().map(object).collect(),
        (_, classes) if args.json => classes.iter().copied().map(object).collect(),
        (ReferenceFormat::Text, []) => list(library),
        (ReferenceFormat::Markdown, []) => reference::index(library),
        (format, classes) => {
            let pages = classes.iter().map(|class| match format {
                ReferenceFormat::Text => reference::text(class),
                ReferenceFormat::Markdown => reference::markdown(class),
            });
            pages.collect::<Vec<_>>().join("\n")
        }
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn list(library: &Library) -> String {
    let width = library.iter().map(|class| class.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (family, classes) in reference::families(library) {
        text += &format!("{family}\n");
        for class in classes {
            text += &format!("  {:<width$}  {}\n", class.name, class.summary);
        }
        text.push('\n');
    }
    text + "`linerate elements NAME` explains one.\n"
}

fn unknown(name: &str, library: &Library) -> UsageError {
    if let Some(reason) = absent::reason(name) {
        return UsageError(format!("Click's {name} is not here: {reason}"));
    }
    let close = similar(name, library.iter().map(|class| class.name));
    let hint = if close.is_empty() {
        "`linerate elements` lists all".to_owned()
    } else {
        format!("did you mean {}?", close.join(" or "))
    };
    UsageError(format!("no element is called {name}; {hint}"))
}
