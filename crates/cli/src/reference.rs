//! The reference of the elements, generated from their classes, for `linerate elements` and the guide's
//! book.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Result;
use linerate_graph::{Access, Class, Handler, Library, Need, Right};
use linerate_linux::files;
use serde_json::{Value, json};

use crate::exit::cannot_write;

/// The classes by family, families and classes in the order of their names.
pub(crate) fn families(library: &Library) -> Vec<(&'static str, Vec<&'static Class>)> {
    let mut families: Vec<(&str, Vec<&Class>)> = Vec::new();
    for class in library.iter() {
        match families.iter_mut().find(|(family, _)| *family == class.family) {
            Some((_, classes)) => classes.push(class),
            None => families.push((class.family, vec![class])),
        }
    }
    families.sort_by_key(|(family, _)| *family);
    families
}

/// All pages of the reference: file names and contents.
pub(crate) fn pages(library: &Library) -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index(library))];
    pages.extend(library.iter().map(|class| (format!("{}.md", class.name), markdown(class))));
    pages
}

/// Writes pages to a folder, which is made.
pub(crate) fn write(folder: &Path, pages: Vec<(String, String)>) -> Result<()> {
    for (name, text) in pages {
        let path = folder.join(name);
        fs::create_dir_all(folder)
            .and_then(|()| files::replace(&path, text.as_bytes()))
            .map_err(|error| cannot_write(&path, error))?;
    }
    Ok(())
}

/// The table of contents.
pub(crate) fn index(library: &Library) -> String {
    let mut text = "# Elements\n\n\
        Generated from the elements themselves by `cargo xtask reference`; `linerate elements`\n\
        prints the same.\n"
        .to_owned();
    for (family, classes) in families(library) {
        let _ = writeln!(text, "\n## {family}\n");
        for class in classes {
            let _ = writeln!(text, "- [{0}]({0}.md): {1}", class.name, class.summary);
        }
    }
    text + LEFT_OUT
}

/// Parts of Click's library that are not in this one.
const LEFT_OUT: &str = "\n## Not here\n\n\
    Of Click's elements for user level, the families `wifi` (802.11 frames, rates and stations)\n\
    and `grid` (geographic routing between radios) are left out: they serve drivers and radios\n\
    that are no longer made. What Click has only inside a kernel or the ns simulator is not here\n\
    either.\n";

/// An element's page.
pub(crate) fn markdown(class: &Class) -> String {
    let mut text = format!("# {}\n\n{}.\n\n", class.name, sentence(class.summary));
    let _ = writeln!(text, "{}\n", paragraphs(class.description));
    let _ = writeln!(text, "Ports: {}.", ports(class));
    if !class.args.is_empty() {
        text += "\n## Arguments\n\n| name | value | default | meaning |\n|---|---|---|---|\n";
        for arg in class.args {
            let default = match arg.need {
                Need::Positional { required: true } | Need::Keyword { required: true } => {
                    "required"
                }
                _ => arg.default,
            };
            let name = name_of(arg.name, arg.need);
            let row = [name.as_str(), arg.kind, default, arg.help].map(cell);
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    if !class.handlers.is_empty() {
        text += "\n## Handlers\n\n| name | access | meaning |\n|---|---|---|\n";
        for handler in class.handlers {
            let row = [handler.name, &access(handler), handler.help].map(cell);
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    if let Some(config) = reconfigured(class) {
        let _ = writeln!(text, "\n{config}");
    }
    if !class.drops.is_empty() {
        let _ =
            writeln!(text, "\n## Drops\n\nPackets are dropped for: {}.", class.drops.join(", "));
    }
    let _ = writeln!(text, "\n## Cost\n\n{}", paragraphs(class.cost));
    let _ = writeln!(text, "\n## Example\n\n```click\n{}\n```", class.example.trim());
    let _ = writeln!(text, "\n## Source\n\n`{}`", class.path());
    text
}

/// An element's page for a terminal.
pub(crate) fn text(class: &Class) -> String {
    let mut text = format!("{}: {}\n\n", class.name, class.summary);
    text += &wrap(class.description, 0);
    let _ = writeln!(text, "\nPorts\n  {}", ports(class));
    if !class.args.is_empty() {
        text += "\nArguments\n";
        for arg in class.args {
            let _ = write!(text, "  {} {}", name_of(arg.name, arg.need), arg.kind);
            text += &match arg.need {
                Need::Positional { required: true } | Need::Keyword { required: true } => {
                    " (required)".to_owned()
                }
                _ if arg.default.is_empty() => String::new(),
                _ => format!(" [{}]", arg.default),
            };
            text.push('\n');
            text += &wrap(arg.help, 6);
        }
    }
    if !class.handlers.is_empty() {
        text += "\nHandlers\n";
        let width = class.handlers.iter().map(|handler| handler.name.len()).max().unwrap_or(0);
        for handler in class.handlers {
            let access = access(handler);
            let _ = writeln!(text, "  {:<width$}  {access:<5}  {}", handler.name, handler.help);
        }
    }
    if let Some(config) = reconfigured(class) {
        let _ = write!(text, "\n{}", wrap(&config, 0));
    }
    if !class.drops.is_empty() {
        let _ = writeln!(text, "\nDrops packets for\n  {}", class.drops.join(", "));
    }
    let _ = write!(text, "\nCost\n{}", wrap(class.cost, 2));
    text += "\nExample\n";
    class.example.trim().lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    let _ = writeln!(text, "\nSource\n  {}", class.path());
    text
}

/// An element for programs.
pub(crate) fn json(class: &Class) -> Value {
    let args = class.args.iter().map(|arg| {
        let (place, required) = match arg.need {
            Need::Positional { required } => ("positional", required),
            Need::Keyword { required } => ("keyword", required),
            Need::Rest => ("rest", false),
        };
        json!({
            "name": arg.name,
            "place": place,
            "required": required,
            "value": arg.kind,
            "default": arg.default,
            "help": arg.help,
        })
    });
    let handlers = class.handlers.iter().map(
        |handler| json!({ "name": handler.name, "access": access(handler), "help": handler.help }),
    );
    let reconfigured = class.reconfigured.map(|right| match right {
        Right::Read | Right::Write => "write",
        Right::Replace => "replace",
    });
    json!({
        "name": class.name,
        "family": class.family,
        "summary": class.summary,
        "description": class.description,
        "ports": class.ports,
        "processing": class.processing,
        "flow": class.flow,
        "arguments": args.collect::<Vec<_>>(),
        "handlers": handlers.collect::<Vec<_>>(),
        "reconfigured": reconfigured,
        "drops": class.drops,
        "cost": class.cost,
        "example": class.example,
        "source": class.path(),
    })
}

/// Name of an argument by its place, or its keyword.
fn name_of(name: &str, need: Need) -> String {
    match need {
        Need::Rest => format!("{name}..."),
        Need::Positional { .. } => format!("[{name}]"),
        Need::Keyword { .. } => name.into(),
    }
}

/// Access to a handler, with a mark where it needs the right to replace the configuration.
fn access(handler: &Handler) -> String {
    let mark = |right: Right| if right == Right::Replace { " (-R)" } else { "" };
    let read = format!("read{}", mark(handler.read_right));
    let write = format!("write{}", mark(handler.write_right));
    match handler.access {
        Access::Read => read,
        Access::Write => write,
        Access::ReadWrite => format!("{read}, {write}"),
    }
}

/// The sentence about changing an element's configuration while it runs, if that is possible.
fn reconfigured(class: &Class) -> Option<String> {
    let mark = if class.reconfigured? == Right::Replace { " (-R)" } else { "" };
    Some(format!("Its configuration can be changed while it runs, by the handler `config`{mark}."))
}

/// Port counts and kinds in words.
fn ports(class: &Class) -> String {
    let (inputs, outputs) = class.ports.split_once('/').unwrap_or((class.ports, class.ports));
    let (input, output) =
        class.processing.split_once('/').unwrap_or((class.processing, class.processing));
    let side = |count: &str, what: &str, kinds: &str| {
        let count = match count {
            "0" => return format!("no {what}s"),
            "1" => format!("1 {what}"),
            "-" => format!("any number of {what}s"),
            "=" => format!("as many {what}s as inputs"),
            "=+" => format!("one {what} more than inputs"),
            count => match count.split_once('-') {
                Some((low, "")) => format!("{low} or more {what}s"),
                Some(("", high)) => format!("up to {high} {what}s"),
                Some((low, high)) => format!("{low} to {high} {what}s"),
                None => format!("{count} {what}s"),
            },
        };
        let kinds: Vec<&str> = kinds
            .chars()
            .map(|kind| match kind {
                'h' => "push",
                'l' => "pull",
                _ => "push or pull",
            })
            .collect();
        format!("{count} ({})", kinds.join(", then "))
    };
    format!("{}, {}", side(inputs, "input", input), side(outputs, "output", output))
}

pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Text from the source, whose lines are those of the source.
fn paragraphs(text: &str) -> String {
    text.trim().to_owned()
}

/// A cell of a table: a bar would end it.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Text in lines of at most 80 columns, each behind `indent` spaces.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    for (number, paragraph) in text.trim().split("\n\n").enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > 80 {
                let _ = writeln!(out, "{:indent$}{line}", "");
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        if !line.is_empty() {
            let _ = writeln!(out, "{:indent$}{line}", "");
        }
    }
    out
}

/// Asserts that a reference can be written, and that each link in it leads to one of its pages, the index to all.
#[cfg(test)]
pub(crate) fn assert_written(pages: Vec<(String, String)>) {
    use std::collections::BTreeSet;

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("reference");
    write(&folder, pages).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    for name in &names {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let mut links: BTreeSet<&str> = links.filter(|link| !link.contains("://")).collect();
        for link in &links {
            assert!(names.contains(*link), "{name}: {link} is no page");
        }
        if name == "README.md" {
            links.insert(name);
            assert!(names.iter().all(|name| links.contains(name.as_str())), "{links:?}");
        }
    }
    assert!(names.contains("README.md"), "{names:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_documented() {
        let library = linerate_elements::library();
        linerate_elements_testing::assert_documented(&library.iter().collect::<Vec<_>>(), &library);
    }

    /// Every class is named in its file, also one that completes another file's.
    #[test]
    fn every_class_is_in_its_source_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for class in linerate_elements::library().iter() {
            let text = fs::read_to_string(root.join(class.path())).unwrap_or_default();
            let (name, path) = (class.name, class.path());
            assert!(text.contains(&format!("\"{name}\"")), "{name} is not in {path}");
        }
    }

    #[test]
    fn the_reference_is_written_and_its_links_lead_to_pages() {
        assert_written(pages(&linerate_elements::library()));
    }

    #[test]
    #[should_panic(expected = "README.md: Queues.md is no page")]
    fn a_link_to_no_page_is_noticed() {
        let index = ("README.md".into(), "[Queue](Queue.md) [Queues](Queues.md)".into());
        assert_written(vec![index, ("Queue.md".into(), "# Queue".into())]);
    }

    #[test]
    fn ports_in_words() {
        let class = |ports, processing| Class { ports, processing, ..Class::here() };
        for (ports_code, processing, words) in [
            ("0/0", "a/a", "no inputs, no outputs"),
            ("1/1-2", "a/ah", "1 input (push or pull), 1 to 2 outputs (push or pull, then push)"),
            ("1-/=", "h/l", "1 or more inputs (push), as many outputs as inputs (pull)"),
            ("-/-6", "l", "any number of inputs (pull), up to 6 outputs (pull)"),
        ] {
            assert_eq!(ports(&class(ports_code, processing)), words);
        }
    }
}
