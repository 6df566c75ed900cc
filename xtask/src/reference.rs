//! `cargo xtask reference`: the source of the guide's book, with a page for each element and each port.
//!
//! `linerate` generates those pages from classes and drivers, so they are not in git. Packages have the same pages. Each
//! link of the book must lead to a page of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    documents::link::{broken, links},
    shell,
};

/// The references: the command that generates one, which is also the name of its folder, and its title.
const REFERENCES: [(&str, &str); 2] = [("elements", "Elements"), ("ports", "Ports")];

/// The table of contents.
const SUMMARY: &str = "SUMMARY.md";

pub(crate) fn run() -> Result<()> {
    let book = shell::target().join("book");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("cannot remove {}", book.display()))?;
    }
    let arguments = ["run", "--quiet", "--package", "linerate", "--bin", "linerate", "--"];
    let pages = write(&book, || shell::cargo(&arguments))?;
    println!("{} pages; `mdbook build {}` makes a book of them", pages.len(), book.display());
    Ok(())
}

/// Writes the source of the book to a folder, which is made, and returns the paths of its pages.
///
/// # Errors
///
/// When a file cannot be read or written, the program fails, or a link leads to no page.
pub(crate) fn write(book: &Path, linerate: impl Fn() -> Command) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(book).with_context(|| format!("cannot make {}", book.display()))?;
    for path in files(&shell::root().join("docs/guide"))? {
        let name = path.file_name().context("a file has a name")?;
        fs::copy(&path, book.join(name))
            .with_context(|| format!("cannot copy {}", path.display()))?;
    }
    let summary = book.join(SUMMARY);
    let mut contents = read(&summary)? + "\n# Reference\n\n";
    for (command, title) in REFERENCES {
        let folder = book.join(command);
        shell::run(linerate().args([command, "--write"]).arg(&folder))?;
        contents += &chapters(command, title, &read(&folder.join("README.md"))?);
    }
    fs::write(&summary, contents).with_context(|| format!("cannot write {}", summary.display()))?;
    let mut pages = Vec::new();
    for folder in [""].into_iter().chain(REFERENCES.map(|(command, _)| command)) {
        pages.extend(files(&book.join(folder))?);
    }
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    check(&pages)?;
    Ok(pages)
}

/// Checks that each link leads to a page and a heading.
fn check(pages: &[PathBuf]) -> Result<()> {
    let mut faults = Vec::new();
    for page in pages {
        faults.extend(broken(page)?);
    }
    if !faults.is_empty() {
        bail!("links of the book that lead nowhere:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Lines of the table of contents for a folder: the pages that its index links to, under the headings that they have there.
fn chapters(folder: &str, title: &str, index: &str) -> String {
    let mut text = format!("- [{title}]({folder}/README.md)\n");
    let (mut heading, mut indent) = (None, "  ");
    for line in index.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            heading = Some(name);
        }
        for page in links(line).iter().filter(|link| link.target.ends_with(".md")) {
            if let Some(heading) = heading.take() {
                // A chapter without a page.
                text += &format!("  - [{heading}]()\n");
                indent = "    ";
            }
            text += &format!("{indent}- [{}]({folder}/{})\n", page.text, page.target);
        }
    }
    text
}

/// The files right in a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for `linerate`: writes an index that links to one page, whose only link is given.
    fn program(link: &str) -> Command {
        let script = format!(
            "mkdir \"$3\" && printf '# Index\\n\\n## family\\n\\n- [Page](Page.md): a page\\n' >\"$3/README.md\" &&
             printf '# Page\\n\\n[link]({link})\\n' >\"$3/Page.md\""
        );
        let mut command = Command::new("sh");
        command.args(["-euc", &script, "linerate"]);
        command
    }

    #[test]
    fn the_book_has_the_guide_and_a_chapter_for_each_page_of_the_reference() {
        let folder = tempfile::tempdir().unwrap();
        let book = folder.path().join("book");
        let pages = write(&book, || program("../tutorial.md")).unwrap();
        assert!(pages.contains(&book.join("elements/Page.md")), "{pages:?}");
        assert!(pages.contains(&book.join("glossary.md")), "{pages:?}");
        let summary = read(&book.join(SUMMARY)).unwrap();
        assert!(summary.contains("](recipes.md)"), "{summary}");
        let reference = summary.split_once("# Reference\n\n").unwrap().1;
        let chapters = |folder, title| {
            format!(
                "- [{title}]({folder}/README.md)\n  - [family]()\n    - [Page]({folder}/Page.md)\n"
            )
        };
        assert_eq!(reference, chapters("elements", "Elements") + &chapters("ports", "Ports"));
    }

    #[test]
    fn a_book_with_a_link_to_nowhere_is_refused() {
        for link in ["Other.md", "../tutorial.md#no-such-heading", "../../README.md"] {
            let folder = tempfile::tempdir().unwrap();
            let fault = write(&folder.path().join("book"), || program(link)).unwrap_err();
            let fault = fault.to_string();
            assert!(fault.contains(&format!("elements/Page.md: [link]({link})")), "{fault}");
        }
    }
}
