//! Links of Markdown documents.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::read;

/// A link to a file, or to a heading of one.
pub(crate) struct Link {
    pub(crate) text: String,
    pub(crate) target: String,
}

/// The lines of a document that are text.
pub(super) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The links of a text, without those to other hosts.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let text = prose(text).collect::<Vec<_>>().join("\n");
    let mut links = Vec::new();
    for (at, _) in text.match_indices("](") {
        let (Some(start), Some(end)) = (text[..at].rfind('['), text[at..].find(')')) else {
            continue;
        };
        let target = text[at + 2..at + end].to_owned();
        links.push(Link { text: text[start + 1..at].replace('\n', " "), target });
    }
    links.retain(|link| !link.target.contains("://"));
    links
}

impl Link {
    /// The file that the link of a document leads to, without `..`, and the heading in it.
    pub(super) fn file(&self, document: &Path) -> (PathBuf, String) {
        let (file, heading) = self.target.split_once('#').unwrap_or((&self.target, ""));
        let mut path = document.to_owned();
        if !file.is_empty() {
            path.pop();
            for part in Path::new(file).components() {
                match part {
                    Component::ParentDir => drop(path.pop()),
                    part => path.push(part),
                }
            }
        }
        (path, heading.into())
    }
}

/// The links of a document that lead to no file or to no heading of it, each with the reason.
///
/// # Errors
///
/// When the document, or one that it links to, cannot be read.
pub(crate) fn broken(document: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for link in links(&read(document)?) {
        let (path, heading) = link.file(document);
        let fault = if !path.exists() {
            "no such file"
        } else if !heading.is_empty() && !has_heading(&read(&path)?, &heading) {
            "no such heading"
        } else {
            continue;
        };
        broken.push(format!("{}: [{}]({}): {fault}", document.display(), link.text, link.target));
    }
    Ok(broken)
}

fn has_heading(text: &str, heading: &str) -> bool {
    let mut headings = prose(text).filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line.trim_start_matches('#')) == heading)
}

/// A heading as links name it.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
