//! Tests of the repository's own documents, which name files and items in them.
//!
//! A link must lead somewhere. Where its text is code, as in ``[`Context::run`](…/worker.rs)``, the
//! file must have that name in it. In a walk (`docs/where-is.md`) each step must also name the next
//! one, so that a reader who follows it never has to search.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    DOCUMENT, drawn,
    link::{anchor, broken, links, prose},
    replaced,
    workspace::Workspace,
};
use crate::shell::root;

/// Most lines of a document.
const LIMITS: [(&str, usize); 4] =
    [("README.md", 120), ("ARCHITECTURE.md", 250), ("BENCHMARKS.md", 150), ("CHANGELOG.md", 80)];
/// Most lines of a page in `docs/design`.
const DESIGN: usize = 150;
/// Most lines written by hand in all documents outside of the guide.
const TOTAL: usize = 2_600;

/// Headings of each page in `docs/design`.
const HEADINGS: [&str; 6] =
    ["Purpose", "Data structures", "Invariants", "Alternatives rejected", "Cost", "Sources"];

fn read(path: &Path) -> String {
    super::read(path).unwrap_or_else(|error| panic!("{error:#}"))
}

/// The documents written by hand.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/design", "bench"].map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = files.map(|file| file.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Every document below a folder but those of the guide, of programs and of caches.
fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_left_out = name.starts_with('.') || name == "target" || path.ends_with("docs/guide");
        if path.is_dir() && !is_left_out {
            markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The number of lines that are in no generated part.
fn written_lines(text: &str) -> usize {
    let mut is_generated = false;
    let written = text.lines().filter(|line| {
        if line.starts_with("<!-- ") {
            is_generated = line.ends_with(": by `cargo xtask documents` -->");
        }
        !is_generated
    });
    written.count()
}

/// Of `Context::run`, `run`.
fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_one = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(part_of_one) && !text[at + word.len()..].starts_with(part_of_one)
    })
}

/// The name a file goes by where something leads to it.
fn name_of(path: &Path) -> String {
    let part = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match part(path).as_str() {
        "mod" => part(path.parent().expect("a folder")),
        // A crate.
        "lib" | "main" => {
            part(path.parent().and_then(Path::parent).expect("the folder of a crate"))
        }
        stem => stem.to_owned(),
    }
}

#[test]
fn links_lead_somewhere() {
    let broken: Vec<String> =
        documents().iter().flat_map(|document| broken(document).expect("a document")).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn generated_parts_are_current() {
    let text = read(&root().join(DOCUMENT));
    let current = drawn(&text).expect("the generated parts");
    assert!(current == text, "{DOCUMENT} is out of date: run `cargo xtask documents`");
}

#[test]
fn a_generated_part_is_between_its_marks() {
    let text = |content: &str| {
        format!("a\n<!-- p: by `cargo xtask documents` -->\n{content}\n<!-- end of p -->\nb\n")
    };
    assert_eq!(replaced(&text("old\nlines"), "p", "new").unwrap(), text("new"));
    assert_eq!(written_lines(&text("old\nlines")), 3);
    let fault = replaced(&text(""), "q", "new").unwrap_err().to_string();
    assert!(fault.contains("<!-- q: by `cargo xtask documents` -->"), "{fault}");
}

#[test]
fn every_page_on_design_belongs_to_a_crate() {
    let workspace = Workspace::read().expect("the workspace");
    for entry in fs::read_dir(root().join("docs/design")).expect("the pages") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let page = format!("docs/design/{name}");
        let named = workspace.documents().contains(page.as_str());
        assert!(named, "no crate names {page} in `package.metadata.linerate` of its Cargo.toml");
    }
}

#[test]
fn pages_on_design_have_the_same_headings() {
    for page in documents().iter().filter(|page| page.starts_with(root().join("docs/design"))) {
        let text = read(page);
        let headings: Vec<&str> =
            prose(&text).filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, HEADINGS, "{}", page.display());
        let lines = text.lines().count();
        assert!(lines <= DESIGN, "{} has {lines} lines, of at most {DESIGN}", page.display());
    }
}

/// Invariant 14 of `ARCHITECTURE.md`.
#[test]
fn crates_without_a_reason_for_unsafe_code_forbid_it() {
    const FENCED: [&str; 6] = [
        "crates/base/linux",
        "crates/base/memory",
        "crates/cluster/client-c",
        "crates/cluster/client-python",
        "crates/io/port",
        "crates/libpcap",
    ];
    let workspace = Workspace::read().expect("the workspace");
    for folder in workspace.folders() {
        let text = read(&root().join(folder).join("src/lib.rs"));
        let is_forbidden = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
        assert_ne!(is_forbidden, FENCED.contains(&folder), "{folder}/src/lib.rs");
    }
}

#[test]
fn documents_are_short() {
    for (name, limit) in LIMITS {
        let lines = read(&root().join(name)).lines().count();
        assert!(lines <= limit, "{name} has {lines} lines, of at most {limit}");
    }
    let mut all = Vec::new();
    markdown(&root(), &mut all);
    assert!(all.len() > 20, "{all:?}");
    let lines: usize = all.iter().map(|path| written_lines(&read(path))).sum();
    assert!(lines <= TOTAL, "{lines} lines of documents outside of the guide, of at most {TOTAL}");
}

#[test]
fn what_a_document_names_is_in_the_file_it_names() {
    for document in documents() {
        for link in links(&read(&document)) {
            let (path, _) = link.file(&document);
            let name = link.text.trim();
            let code = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let Some(name) = code.filter(|name| !name.contains('`')) else { continue };
            let from = format!("{}: [`{name}`]({})", document.display(), link.target);
            if name.contains(['/', '.']) {
                let named = path.to_string_lossy().contains(name);
                assert!(named, "{from}: another file");
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let named = name_of(&path) == name || has_word(&read(&path), last_part(name));
                assert!(named, "{from}: not in that file");
            }
        }
    }
}

#[test]
fn files_that_a_document_names_in_code_are_there() {
    for document in documents() {
        let text = read(&document);
        let text = prose(&text).collect::<Vec<_>>().join("\n");
        let spans = text.split('`').skip(1).step_by(2).filter(|span| !span.contains([' ', '*']));
        for file in spans.filter(|span| {
            ["crates/", "xtask/", "examples/"].iter().any(|folder| span.starts_with(folder))
        }) {
            assert!(root().join(file).exists(), "{}: no file {file}", document.display());
        }
    }
}

#[test]
fn a_walk_names_what_is_in_the_files_it_passes() {
    for page in ["walk-of-a-packet.md", "where-is.md"] {
        let document = root().join("docs").join(page);
        for section in read(&document).split("\n## ").skip(1) {
            let links = links(section);
            let files = links.iter().map(|link| read(&link.file(&document).0));
            let files: Vec<String> = files.collect();
            // Without the heading.
            let text = prose(section).skip(1).collect::<Vec<_>>().join("\n");
            let spans = text.split('`').skip(1).step_by(2);
            let is_name =
                |span: &&str| span.chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
            for name in spans.filter(is_name).filter(|span| !span.ends_with(':')) {
                let named = files.iter().any(|file| has_word(file, last_part(name)));
                let named = named || links.iter().any(|link| link.text == format!("`{name}`"));
                assert!(named, "{page}: `{name}` is in no file of its section:\n{section}");
            }
        }
    }
}

#[test]
fn no_step_of_a_walk_needs_a_search() {
    let document = root().join("docs/where-is.md");
    let text = read(&document);
    let walks: Vec<&str> = text.split("\n## ").skip(1).collect();
    assert!(walks.len() >= 10, "{} walks", walks.len());
    for walk in walks {
        let steps = links(walk);
        let paths: Vec<PathBuf> = steps.iter().map(|link| link.file(&document).0).collect();
        let readme = root().join("README.md");
        assert_eq!(paths[0], readme, "{walk}");
        for pair in paths.windows(2).filter(|pair| pair[0] != pair[1]) {
            let next = name_of(&pair[1]);
            let named = has_word(&read(&pair[0]).to_lowercase(), &next.to_lowercase());
            assert!(named, "{} does not name {next}:\n{walk}", pair[0].display());
        }
    }
}

#[test]
fn a_name_is_found_as_a_word_and_not_as_part_of_one() {
    assert!(has_word("fn run_task(", "run_task") && !has_word("fn run_tasks(", "run_task"));
    assert_eq!(anchor(" Where does a tap read?"), "where-does-a-tap-read");
    assert_eq!(name_of(Path::new("crates/io/port/src/xdp/mod.rs")), "xdp");
    assert_eq!(name_of(Path::new("crates/io/port/src/lib.rs")), "port");
    let found = links("a [`b`](c.rs)\n```\n[no](link)\n```\n[d\ne](f#g) [h](https://i)");
    let found: Vec<_> = found.iter().map(|link| (&*link.text, &*link.target)).collect();
    assert_eq!(found, [("`b`", "c.rs"), ("d e", "f#g")]);
}
