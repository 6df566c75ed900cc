//! `linerate completions` and `linerate man`: both made from the command line
//! definition itself, so that they cannot differ from it.

use std::io;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::{
    Man as Page,
    roff::{Roff, bold, roman},
};
use linerate_linux::files;

use crate::{
    args::{Cli, Completions, Man},
    output,
};

pub(crate) fn completions(args: &Completions) -> Result<()> {
    // It would panic when the reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "linerate", &mut script);
    Ok(output::data(&String::from_utf8(script)?)?)
}

pub(crate) fn man(args: &Man) -> Result<()> {
    for (name, text) in pages()? {
        let path = args.folder.join(name);
        files::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// All pages, by file name.
fn pages() -> io::Result<Vec<(String, String)>> {
    // `help` would be a page on pages.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages("linerate", None, &command, &mut pages)?;
    Ok(pages)
}

fn add_pages(
    name: &str,
    above: Option<&str>,
    command: &clap::Command,
    pages: &mut Vec<(String, String)>,
) -> io::Result<()> {
    pages.push((format!("{name}.1"), page(name, above, command)?));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add_pages(&format!("{name}-{}", sub.get_name()), Some(name), sub, pages)?;
    }
    Ok(())
}

/// Writes one page, with the sections of man-pages(7) in its order.
fn page(name: &str, above: Option<&str>, command: &clap::Command) -> io::Result<String> {
    let version = command.get_version().unwrap_or(env!("CARGO_PKG_VERSION"));
    let page = Page::new(command.clone().display_name(name.to_owned()));
    // Written here because an argument that is empty, as the date, must be in quotes.
    let title = name.to_uppercase();
    let title = format!(".TH \"{title}\" 1 \"\" \"linerate {version}\" Linerate\n");
    let mut text = title.into_bytes();
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut options = Vec::new();
    page.render_options_section(&mut options)?;
    text.extend(as_one_section(&String::from_utf8_lossy(&options)).into_bytes());

    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    if let Some(above) = above {
        // All commands have those of the program.
        let top = above.split('-').next().unwrap_or(above);
        roff.control("SH", ["EXIT STATUS"]);
        roff.text([roman("The codes are listed in "), bold(top), roman("(1).")]);
    }
    for (title, body) in sections(&after) {
        roff.control("SH", [title]);
        match title {
            "EXIT STATUS" => exit_codes(&mut roff, body),
            "EXAMPLES" => examples(&mut roff, body),
            _ => paragraphs(&mut roff, body),
        }
    }
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let below = below.map(|sub| format!("{name}-{}", sub.get_name()));
    let related: Vec<String> = above.map(str::to_owned).into_iter().chain(below).collect();
    if !related.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        let last = related.len() - 1;
        for (at, name) in related.iter().enumerate() {
            roff.control("BR", [name.as_str(), if at == last { "(1)" } else { "(1)," }]);
        }
    }
    roff.to_writer(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Options under headings of their own are groups of one section.
fn as_one_section(options: &str) -> String {
    let mut text = String::from(".SH OPTIONS\n");
    for line in options.lines().filter(|line| *line != ".SH OPTIONS") {
        match line.strip_prefix(".SH ") {
            Some(heading) => {
                let heading = heading.trim_matches('"');
                let (first, rest) = heading.split_at(heading.len().min(1));
                text += &format!(".SS \"{first}{}\"", rest.to_lowercase());
            }
            None => text += line,
        }
        text.push('\n');
    }
    text
}

/// The sections of the help behind the options, as titles of a manual page and their text, in the
/// order that pages have.
fn sections(after: &str) -> Vec<(&'static str, &str)> {
    let mut found = Vec::new();
    let mut prose = "";
    for (at, block) in blocks(after) {
        if let Some(codes) = block.strip_prefix("Exit codes:\n") {
            found.push((0, "EXIT STATUS", codes));
        } else if let Some(lines) =
            block.strip_prefix("Examples:\n").or_else(|| block.strip_prefix("Example:\n"))
        {
            found.push((2, "EXAMPLES", lines));
        } else if prose.is_empty() {
            // Up to the end: nothing else comes behind prose.
            prose = &after[at..];
            found.push((1, "NOTES", prose));
        }
    }
    found.sort_by_key(|(order, ..)| *order);
    found.into_iter().map(|(_, title, body)| (title, body)).collect()
}

/// Blocks between empty lines, and where each begins.
fn blocks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split("\n\n").map(|block| (block.as_ptr() as usize - text.as_ptr() as usize, block))
}

/// `  0  done` becomes a list of codes.
fn exit_codes(roff: &mut Roff, body: &str) {
    for line in body.lines() {
        let (code, meaning) = line.trim().split_once("  ").unwrap_or((line, ""));
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(meaning)]);
    }
}

/// Commands as they are typed; lines further in below one describe it.
fn examples(roff: &mut Roff, body: &str) {
    let mut continued = false;
    for (number, line) in body.lines().enumerate() {
        let is_command = continued || !line.starts_with("      ");
        if is_command && !continued && number > 0 {
            roff.control("PP", []);
        }
        if is_command {
            roff.control("nf", []);
            roff.text([bold(line.trim_start_matches("  "))]);
            roff.control("fi", []);
        } else {
            roff.control("RS", ["4"]);
            roff.text([roman(line.trim())]);
            roff.control("RE", []);
        }
        continued = line.ends_with('\\');
    }
}

fn paragraphs(roff: &mut Roff, body: &str) {
    for (number, (_, block)) in blocks(body).enumerate() {
        if number > 0 {
            roff.control("PP", []);
        }
        for line in block.lines() {
            // A list, or the lines of a file.
            if line.starts_with("  ") {
                roff.control("br", []);
            }
            roff.text([roman(line.trim())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every page that a page names is there, and nothing is under a heading that says
    /// nothing.
    #[test]
    fn pages_name_pages_that_exist() {
        let pages = pages().unwrap();
        let names: BTreeSet<&str> =
            pages.iter().map(|(file, _)| file.strip_suffix(".1").unwrap()).collect();
        assert!(names.contains("linerate-lab-run"), "{names:?}");
        for (file, text) in &pages {
            let plain = text.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
            let plain = plain.replace(" (1)", "(1)");
            for (at, _) in plain.match_indices("(1)") {
                let from = plain[..at].rfind(|c: char| !(c.is_alphanumeric() || c == '-'));
                let name = &plain[from.map_or(0, |from| from + 1)..at];
                assert!(names.contains(name), "{file} refers to {name}");
            }
            assert!(!text.contains(".SH EXTRA"), "{file}");
            assert_eq!(text.matches(".SH \"EXIT STATUS\"").count(), 1, "{file}");
            assert!(!text.contains("Examples:"), "{file}");
            assert!(text.contains(".SH EXAMPLES") || file == "linerate.1", "{file}");
        }
    }

    #[test]
    fn groups_of_options_are_within_their_section() {
        let text = as_one_section(".SH \"PACKET MEMORY\"\n.TP\nx\n.SH OPTIONS\n.TP\ny\n");
        assert_eq!(text, ".SH OPTIONS\n.SS \"Packet memory\"\n.TP\nx\n.TP\ny\n");
    }

    #[test]
    fn sections_behind_the_options_are_sorted() {
        let after = "Examples:\n  a\n      b\n\nOne.\n\nTwo.";
        assert_eq!(sections(after), [("NOTES", "One.\n\nTwo."), ("EXAMPLES", "  a\n      b")]);
    }
}
