//! The crate of a program. It is meant to be read.

use std::{collections::BTreeMap, path::PathBuf};

use linerate_graph::{Class, Plan};

use super::origin::Origin;
use crate::exit::UsageError;

/// The package, and the program it makes. Always the same, so that another configuration takes the
/// place of the one before in the folder it is built in.
pub(super) const NAME: &str = "linerate-program";

/// Mark at the beginning of each generated file.
pub(super) const MARK: &str = "written by `linerate compile`";

/// The crate with the element that `--control` adds.
const CONTROL: &str = "linerate-elements-control";

/// The crate with the elements of a cluster.
const CONSUMERS: &str = "linerate-elements-cluster";

/// Most characters of a line.
const WIDTH: usize = 100;

/// Crates in which packets of every graph meet code that is not generic.
const HOT: [&str; 11] = [
    "linerate-elements-neighbours",
    "linerate-filter",
    "linerate-graph",
    "linerate-element-support",
    "linerate-tables",
    "linerate-memory",
    "linerate-packet",
    "linerate-port",
    "linerate-worker",
    "memchr",
    "smallvec",
];

/// A library of the configuration.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) wanted: String,
    pub(super) asking: String,
    pub(super) path: String,
    pub(super) text: String,
}

/// Sources of the program.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) configuration: String,
    pub(super) text: String,
    pub(super) libraries: Vec<Text>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) devices: Vec<(String, String)>,
    /// Crates of elements, and the classes that are wanted of them.
    pub(super) crates: BTreeMap<&'static str, Vec<&'static str>>,
    pub(super) chains: Vec<String>,
    /// Number of elements.
    pub(super) elements: usize,
    pub(super) processor: String,
}

/// A file of the crate.
#[derive(Debug)]
pub(super) struct GeneratedFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The crates that have the elements of a graph, and their classes; or all there are.
pub(super) fn crates_of(
    plan: &Plan,
    all: bool,
) -> Result<BTreeMap<&'static str, Vec<&'static str>>, UsageError> {
    let mut crates = BTreeMap::from([(CONTROL, Vec::new())]);
    if all {
        crates.extend(linerate_elements::CRATES.iter().map(|(name, _)| (*name, Vec::new())));
    }
    for element in &plan.elements {
        let class = element.class;
        let name = crate_of(class).ok_or_else(|| {
            let Class { name, .. } = class;
            UsageError(format!(
                "{name} is no element of Linerate's: what compile makes has those of its crates \
                 alone; a program with others is written by hand, with linerate_cli::Program"
            ))
        })?;
        let classes: &mut Vec<&'static str> = crates.entry(name).or_default();
        if let Err(place) = classes.binary_search(&class.name) {
            classes.insert(place, class.name);
        }
    }
    Ok(crates)
}

fn crate_of(class: &'static Class) -> Option<&'static str> {
    // A class is a constant, which may have several addresses.
    let is = |one: &Class| (one.name, one.path()) == (class.name, class.path());
    let has =
        |families: &[&[&'static Class]]| families.iter().copied().flatten().any(|one| is(one));
    linerate_elements::CRATES.iter().find(|(_, families)| has(families)).map(|(name, _)| *name)
}

/// All files.
pub(super) fn files(description: &Description, origin: &Origin) -> Vec<GeneratedFile> {
    let file = |path: &str, text: String| GeneratedFile { path: path.into(), text };
    let mut files = vec![
        file("Cargo.toml", manifest(description, origin)),
        file(".cargo/config.toml", settings(description)),
        file("src/main.rs", main(description)),
        file(&configuration_file(description), description.text.clone()),
    ];
    for (number, library) in description.libraries.iter().enumerate() {
        files.push(file(&library_file(number, library), library.text.clone()));
    }
    files
}

/// A file name for the text from `path`.
fn file_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if name.ends_with(".click") { name } else { name + ".click" }
}

fn configuration_file(description: &Description) -> String {
    format!("configuration/{}", file_name(&description.configuration))
}

fn library_file(number: usize, library: &Text) -> String {
    format!("configuration/library-{}-{}", number + 1, file_name(&library.path))
}

/// Text in a comment of one line.
fn commented(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '`' { '?' } else { c }).collect()
}

fn manifest(description: &Description, origin: &Origin) -> String {
    let mut text = format!(
        "# `{}` as a program, {MARK}.\n\n\
         [package]\n\
         name = \"{NAME}\"\n\
         version = \"{}\"\n\
         edition = \"2024\"\n\
         publish = false\n\n\
         [dependencies]\n",
        commented(&description.configuration),
        env!("CARGO_PKG_VERSION"),
    );
    let line =
        |name: &str, more: &str| format!("{name} = {{ {}{more} }}\n", origin.dependency(name));
    // Dependencies of other commands are left out.
    text += &line("linerate", ", default-features = false");
    for name in description.crates.keys() {
        text += &line(name, "");
    }
    text += "\n\
        # Packets meet code that is optimised as far as it can be. What is generic is compiled where it\n\
        # is used, in this program most of all: in few pieces, and inlined across them (`lto = false`; \"off\"\n\
        # would keep them apart). The rest is built sooner.\n\
        [profile.release]\n\
        opt-level = 3\n\
        codegen-units = 4\n\
        lto = false\n\
        debug = false\n\
        strip = \"debuginfo\"\n\
        panic = \"unwind\"\n\n\
        [profile.release.package.\"*\"]\n\
        opt-level = 0\n\
        codegen-units = 16\n\n\
        [profile.release.package]\n";
    // Elements for `--control` alone, or for absent consumers, meet no packet.
    let elements = description.crates.iter();
    let elements = elements.filter(|(name, classes)| **name != CONTROL || !classes.is_empty());
    let mut hot: Vec<&str> = HOT.into_iter().chain(elements.map(|(name, _)| *name)).collect();
    if hot.contains(&CONSUMERS) {
        hot.push("linerate-cluster");
    }
    hot.sort_unstable();
    for name in hot {
        text += &format!("{name} = {{ opt-level = 3, codegen-units = 1 }}\n");
    }
    text += "\n\
        [profile.dev]\n\
        debug = false\n\n\
        # A project by itself, wherever its folder is.\n\
        [workspace]\n";
    text
}

fn settings(description: &Description) -> String {
    format!(
        "# The processor this is for, {MARK}.\n\n\
         [build]\n\
         rustflags = [\"-C\", \"target-cpu={}\"]\n",
        description.processor
    )
}

fn main(description: &Description) -> String {
    let plural = if description.elements == 1 { "" } else { "s" };
    let mut text = format!(
        "//! `{}` as a program, {MARK}.\n//!\n//! It has {} element{plural}, of these crates and \
         classes:\n//!\n",
        commented(&description.configuration),
        description.elements,
    );
    for (name, classes) in &description.crates {
        let classes = match (*name, classes.as_slice()) {
            (CONTROL, []) => "for `--control`".into(),
            (_, []) => "for what may take its place".into(),
            (_, some) => some.join(", "),
        };
        push_item(&mut text, &format!("`{name}`: {classes}"));
    }
    if !description.chains.is_empty() {
        text += "//!\n//! Packets go these ways, pushed (`->`) and pulled (`~>`):\n//!\n";
        for chain in &description.chains {
            push_item(&mut text, &format!("`{}`", commented(chain)));
        }
    }
    let pairs = |pairs: &[(String, String)]| {
        let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("({a:?}, {b:?})")).collect();
        list(&pairs)
    };
    let libraries: Vec<String> = description
        .libraries
        .iter()
        .enumerate()
        .map(|(number, library)| {
            format!(
                "LibraryText {{\n            wanted: {:?},\n            asking: {:?},\n            \
                 path: {:?},\n            text: include_str!({:?}),\n        }}",
                library.wanted,
                library.asking,
                library.path,
                format!("../{}", library_file(number, library))
            )
        })
        .collect();
    let elements: Vec<String> = description
        .crates
        .keys()
        .map(|name| format!("{}::FAMILIES", name.replace('-', "_")))
        .collect();
    let uses = if libraries.is_empty() { "Program" } else { "{LibraryText, Program}" };
    text += &format!(
        "\nuse std::process::ExitCode;\n\n\
         use linerate_cli::{uses};\n\n\
         /// Configuration that runs, and its element classes.\n\
         static PROGRAM: Program = Program {{\n    \
             configuration: {:?},\n    \
             text: include_str!({:?}),\n    \
             libraries: {},\n    \
             variables: {},\n    \
             devices: {},\n    \
             elements: {},\n    \
             processor: {:?},\n\
         }};\n\n\
         fn main() -> ExitCode {{\n    \
             PROGRAM.main()\n\
         }}\n",
        description.configuration,
        format!("../{}", configuration_file(description)),
        list(&libraries),
        pairs(&description.variables),
        pairs(&description.devices),
        list(&elements),
        description.processor,
    );
    text
}

/// A slice of Rust: an item a line, as rustfmt has it.
fn list(items: &[String]) -> String {
    if items.is_empty() {
        return "&[]".into();
    }
    let lines: String = items.iter().map(|item| format!("        {item},\n")).collect();
    format!("&[\n{lines}    ]")
}

/// An item of a list in the comment, in lines that are not too long.
fn push_item(text: &mut String, item: &str) {
    let mut line = String::from("//! -");
    for word in item.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            *text += &line;
            text.push('\n');
            line = "//!  ".into();
        }
        line.push(' ');
        line += word;
    }
    *text += &line;
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use linerate_graph::{lang::Globals, load};

    use super::*;

    fn description(configuration: &str, text: &str) -> Description {
        let library = linerate_elements::library();
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load(configuration, text, &library, &Globals::default(), &mut loader);
        let plan = loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click()));
        Description {
            configuration: configuration.into(),
            text: text.into(),
            libraries: Vec::new(),
            variables: Vec::new(),
            devices: Vec::new(),
            crates: crates_of(&plan, false).unwrap(),
            chains: super::super::chains::chains(&plan),
            elements: plan.elements.len(),
            processor: "native".into(),
        }
    }

    fn file(files: &[GeneratedFile], path: &str) -> String {
        files.iter().find(|file| file.path.ends_with(path)).unwrap().text.clone()
    }

    /// The guide shows the generated file.
    #[test]
    fn the_guide_shows_the_generated_program() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        let text = read("examples/first.click");
        let files =
            files(&description("examples/first.click", &text), &Origin::Folder("/src".into()));
        let main = file(&files, "src/main.rs");
        let page = read("docs/guide/compile.md");
        assert!(
            page.contains(&format!("```rust\n{main}```")),
            "docs/guide/compile.md has not\n{main}"
        );
        assert_eq!(file(&files, "configuration/first.click"), text);
    }

    #[test]
    fn the_program_has_text_variables_and_devices() {
        let mut description = description("a `b`/x y.click", "Idle -> Discard");
        description.variables.push(("DEV".into(), "a\"b".into()));
        description.devices.push(("0".into(), "null:".into()));
        description.libraries.push(Text {
            wanted: "l.click".into(),
            asking: "x y.click".into(),
            path: "lib/l.click".into(),
            text: "elementclass A { Null }".into(),
        });
        let files = files(&description, &Origin::Folder("/a \"b\"".into()));
        let main = file(&files, "src/main.rs");
        for part in [
            "//! `a ?b?/x y.click` as a program",
            "use linerate_cli::{LibraryText, Program};",
            "configuration: \"a `b`/x y.click\"",
            "include_str!(\"../configuration/x_y.click\")",
            "include_str!(\"../configuration/library-1-l.click\")",
            "(\"DEV\", \"a\\\"b\"),",
            "(\"0\", \"null:\"),",
        ] {
            assert!(main.contains(part), "no {part} in\n{main}");
        }
        let manifest: toml::Table = toml::from_str(&file(&files, "Cargo.toml")).unwrap();
        let path = manifest["dependencies"]["linerate"]["path"].as_str();
        assert_eq!(path, Some("/a \"b\"/crates/cli"));
        assert!(manifest["dependencies"].get("linerate-elements-ip").is_none());
        toml::from_str::<toml::Table>(&file(&files, ".cargo/config.toml")).unwrap();
    }
}
