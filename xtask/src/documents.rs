//! Tests of the repository's own documents, which name files and items in them.
//!
//! A link must lead somewhere. Where its text is code, as in ``[`Context::run`](…/worker.rs)``, the
//! file must have that name in it. In a walk (`docs/where-is.md`) each step must also name the next
//! one, so that a reader who follows it never has to search.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// A link of a document.
struct Link {
    text: String,
    target: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents written by hand.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/design", "bench"].map(|folder| repository().join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = files.map(|file| file.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The lines of a document that are text.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

fn links(text: &str) -> Vec<Link> {
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

/// The file a link leads to, without `..`, and the heading in it.
fn file_of(document: &Path, link: &Link) -> (PathBuf, String) {
    let (file, heading) = link.target.split_once('#').unwrap_or((&link.target, ""));
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

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
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
    for document in documents() {
        for link in links(&read(&document)) {
            let (path, heading) = file_of(&document, &link);
            let from = format!("{}: [{}]({})", document.display(), link.text, link.target);
            assert!(path.exists(), "{from}: no such file");
            let text = if heading.is_empty() { String::new() } else { read(&path) };
            let mut headings = prose(&text).filter(|line| line.starts_with('#'));
            let found = headings.any(|line| anchor(line.trim_start_matches('#')) == heading);
            assert!(found || heading.is_empty(), "{from}: no such heading");
        }
    }
}

#[test]
fn what_a_document_names_is_in_the_file_it_names() {
    for document in documents() {
        for link in links(&read(&document)) {
            let (path, _) = file_of(&document, &link);
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
fn a_walk_names_what_is_in_the_files_it_passes() {
    for page in ["walk-of-a-packet.md", "where-is.md"] {
        let document = repository().join("docs").join(page);
        for section in read(&document).split("\n## ").skip(1) {
            let links = links(section);
            let files = links.iter().map(|link| read(&file_of(&document, link).0));
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
    let document = repository().join("docs/where-is.md");
    let text = read(&document);
    let walks: Vec<&str> = text.split("\n## ").skip(1).collect();
    assert!(walks.len() >= 10, "{} walks", walks.len());
    for walk in walks {
        let steps = links(walk);
        let paths: Vec<PathBuf> = steps.iter().map(|link| file_of(&document, link).0).collect();
        let readme = repository().join("README.md");
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
    assert_eq!(name_of(Path::new("crates/port/src/xdp/mod.rs")), "xdp");
    assert_eq!(name_of(Path::new("crates/port/src/lib.rs")), "port");
    let found = links("a [`b`](c.rs)\n```\n[no](link)\n```\n[d\ne](f#g) [h](https://i)");
    let found: Vec<_> = found.iter().map(|link| (&*link.text, &*link.target)).collect();
    assert_eq!(found, [("`b`", "c.rs"), ("d e", "f#g")]);
}
