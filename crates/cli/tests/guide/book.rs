//! The pages of `docs/guide`, taken apart.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page of the guide.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Its file's name.
    pub(crate) name: String,
    /// Its headings, as links name them.
    pub(crate) anchors: BTreeSet<String>,
    /// Targets of its links.
    pub(crate) links: Vec<String>,
    /// Its fenced code.
    pub(crate) blocks: Vec<Block>,
    /// Code within its text.
    pub(crate) spans: Vec<String>,
    /// Its quotes: messages of the programs.
    pub(crate) quotes: Vec<String>,
}

/// A fenced block of code.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// Its kind, behind the fence: `console run`.
    pub(crate) info: String,
    pub(crate) text: String,
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn folder() -> PathBuf {
    repository().join("docs/guide")
}

/// All pages, the table of contents among them.
pub(crate) fn pages() -> Vec<Page> {
    let files = fs::read_dir(folder()).expect("the guide").map(|entry| entry.expect("an entry"));
    let names = files.map(|file| file.file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    names.sort();
    assert!(names.len() > 8, "{names:?}");
    let read = |name: &String| fs::read_to_string(folder().join(name)).expect("a page");
    names.iter().map(|name| page(name, &read(name))).collect()
}

fn page(name: &str, text: &str) -> Page {
    let mut page = Page { name: name.into(), ..Page::default() };
    // The open parts: a heading, a block of code, a quote.
    let (mut heading, mut block, mut quote) = (None::<String>, None::<Block>, None::<String>);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                page.anchors.extend(heading.take().map(|heading| anchor(&heading)));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some(Block { info, text: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
            Event::Start(Tag::BlockQuote(_)) => quote = Some(String::new()),
            Event::End(TagEnd::BlockQuote(_)) => page.quotes.extend(quote.take()),
            Event::Start(Tag::Link { dest_url, .. }) => page.links.push(dest_url.to_string()),
            Event::Code(code) => {
                let collected = [heading.as_mut(), quote.as_mut()].into_iter().flatten();
                collected.for_each(|collected| *collected += &code);
                page.spans.push(code.to_string());
            }
            Event::Text(text) => {
                let block = block.as_mut().map(|block| &mut block.text);
                let collected = [heading.as_mut(), block, quote.as_mut()].into_iter().flatten();
                collected.for_each(|collected| *collected += &text);
            }
            Event::SoftBreak => quote.iter_mut().for_each(|quote| quote.push(' ')),
            _ => {}
        }
    }
    page
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

impl Block {
    /// The lines that are typed: behind a `$`, or all of a shell's.
    pub(crate) fn typed(&self) -> Vec<&str> {
        let lines = self.text.lines().filter(|line| !line.is_empty());
        match self.info.split(' ').next() {
            Some("console") => lines.filter_map(|line| line.strip_prefix("$ ")).collect(),
            Some("sh") => lines.collect(),
            _ => Vec::new(),
        }
    }
}

#[test]
fn pages_are_taken_apart() {
    let text =
        "# A *b* `c-d`, e!\n\n> no\n> `x` such\n\n[l](m.md#n) `o`\n\n```console run\n$ p\nq\n```\n";
    let page = page("x.md", text);
    assert_eq!(page.anchors, ["a-b-c-d-e".to_owned()].into());
    assert_eq!(page.quotes, ["no x such"]);
    assert_eq!((&*page.links, &*page.spans[2]), (&["m.md#n".to_owned()][..], "o"));
    assert_eq!((page.blocks[0].typed(), &*page.blocks[0].info), (vec!["p"], "console run"));
}
