//! The program `click-flatten`: writes a configuration without compound elements, with directives
//! that name the origin of each element.
//!
//! A configuration in an archive is written as that archive again. As in Click it knows no element
//! classes: every name that is no element's is one. Unlike Click's it always puts the values of
//! global variables in their places, as that does under `--expand-vars`.

use std::{env, fmt::Write as _, path::Path, process::ExitCode};

use linerate_graph::lang::{Classes, Flat, Globals};
use linerate_linux::files;

use super::{
    command_line::{EarlyExit, done, prefixed, wrong},
    options::{Item, OptionType, Options, Quotes, Spec},
    print, program_name,
};
use crate::{
    archive::{self, Member},
    configuration::{CONFIG, Parsed, Source, click_path, system_message, variable},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Classes,
    ClickPath,
    Config,
    Declarations,
    Elements,
    ExpandVariables,
    Expression,
    File,
    Help,
    Output,
    Version,
}

const fn spec(long: &'static str, short: char, id: Id, value: OptionType) -> Spec<Id> {
    let short = if short == ' ' { None } else { Some(short) };
    Spec { long, short, id, value, negate: matches!(id, Id::ExpandVariables), whole: false }
}

static SPECS: &[Spec<Id>] = &[
    spec("classes", 'c', Id::Classes, OptionType::Flag),
    spec("clickpath", 'C', Id::ClickPath, OptionType::Text),
    spec("config", ' ', Id::Config, OptionType::Flag),
    spec("decls", 'd', Id::Declarations, OptionType::Flag),
    spec("declarations", 'd', Id::Declarations, OptionType::Flag),
    spec("elements", 'n', Id::Elements, OptionType::Flag),
    spec("expand-vars", ' ', Id::ExpandVariables, OptionType::Flag),
    spec("expression", 'e', Id::Expression, OptionType::Text),
    spec("file", 'f', Id::File, OptionType::Text),
    spec("help", ' ', Id::Help, OptionType::Flag),
    spec("names", 'n', Id::Elements, OptionType::Flag),
    spec("output", 'o', Id::Output, OptionType::Text),
    spec("version", 'v', Id::Version, OptionType::Flag),
];

/// Options of a run.
#[derive(Debug)]
struct CommandLine {
    source: Source,
    globals: Globals,
    output: Option<String>,
    action: Id,
    click_path: Option<String>,
    remarks: String,
}

/// The program `click-flatten`.
pub fn click_flatten() -> ExitCode {
    let mut arguments = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = program_name(&arguments.next().unwrap_or_default());
    match parse(&name, arguments) {
        Ok(line) => {
            eprint!("{}", line.remarks);
            run(&line).into()
        }
        Err(EarlyExit { out, err, code }) => {
            print(&out);
            eprint!("{err}");
            code.into()
        }
    }
}

fn parse(
    program: &str,
    arguments: impl IntoIterator<Item = String>,
) -> Result<CommandLine, EarlyExit> {
    let mut options = Options::new(SPECS, arguments, Quotes::from_env());
    let mut line = CommandLine {
        source: Source::Input,
        globals: Globals::default(),
        output: None,
        action: Id::ExpandVariables,
        click_path: None,
        remarks: String::new(),
    };
    let mut source = None;
    while let Some(item) = options.next() {
        let remarks = line.remarks.clone();
        let wrong = |message: &str| wrong(program, remarks.clone() + &prefixed(program, message));
        let (id, value) = match item.map_err(|message| wrong(&message))? {
            Item::Option { id, value, .. } => (id, value),
            Item::Argument(word) => {
                match variable(&word) {
                    Some((name, _)) if line.globals.variables.iter().any(|v| v.0 == name) => {
                        return Err(EarlyExit {
                            out: String::new(),
                            err: format!("{program}: parameter '{name}' multiply defined\n"),
                            code: 1,
                        });
                    }
                    Some(variable) => line.globals.variables.push(variable),
                    None if source.is_some() => return Err(wrong(TWO_SOURCES)),
                    None => source = Some(Source::file(&word)),
                }
                continue;
            }
        };
        match id {
            Id::File | Id::Expression if source.is_some() => return Err(wrong(TWO_SOURCES)),
            Id::File => source = Some(Source::file(&value.text())),
            Id::Expression => source = Some(Source::Expression(value.text())),
            Id::Output if line.output.is_some() => {
                return Err(wrong("--output file specified twice"));
            }
            Id::Output => line.output = Some(value.text()),
            Id::ClickPath => line.click_path = Some(value.text()),
            Id::Classes | Id::Declarations | Id::Elements | Id::Config => line.action = id,
            Id::ExpandVariables => {}
            Id::Help => return Err(done(remarks, help(program))),
            Id::Version => {
                let version = env!("CARGO_PKG_VERSION");
                let text =
                    format!("click-flatten (Linerate) {version}, compatible with Click 2.1\n");
                return Err(done(remarks, text));
            }
        }
    }
    if let Some(source) = source {
        line.source = source;
    }
    Ok(line)
}

const TWO_SOURCES: &str = "router configuration specified twice";

fn help(program: &str) -> String {
    format!(
        "\
Writes a Click configuration without compound elements.

Usage: {program} [OPTION]... [ROUTERFILE] [VARIABLE=VALUE]...

Options:
  -c, --classes             write the classes in use, one a line
  -n, --names               write the names of elements
  -d, --declarations        write the declarations of elements
  -f, --file FILE           read the configuration from this file
  -e, --expression EXPR     take it from the command line
      --config              write the configuration (the default, but for archives)
      --expand-vars         put in the values of variables (always done)
  -o, --output FILE         write to this file
  -C, --clickpath PATH      search libraries here instead of in CLICKPATH
      --help                print this and exit
  -v, --version             print the version and exit
"
    )
}

fn run(line: &CommandLine) -> u8 {
    let _guard = line.source.guard();
    let name = line.source.name();
    let (text, members) = match line.source.read_members() {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{name}: {}", system_message(&error));
            return 1;
        }
    };
    let path = line.click_path.clone().unwrap_or_else(click_path);
    if text.is_empty() {
        eprintln!("{name}: warning: empty configuration");
    }
    let parsed = Parsed::new(name, &text, &line.globals, &AnyClass, &path);
    eprint!("{}", parsed.found.click());
    if parsed.found.has_errors() {
        return 1;
    }
    let flat = &parsed.flat;
    let elements = flat.elements.iter();
    let text = match line.action {
        Id::Classes => sorted(elements.map(|element| element.class.clone()).collect()),
        Id::Elements => sorted(elements.map(|element| element.name.clone()).collect()),
        Id::Declarations => sorted(
            elements.map(|element| format!("{} :: {}", element.name, element.class)).collect(),
        ),
        _ => with_directives(flat),
    };
    let bytes = match line.action {
        Id::ExpandVariables if members.len() > 1 => archived(members, text),
        _ => text.into_bytes(),
    };
    match line.output.as_deref() {
        None | Some("-") => print(&bytes),
        Some(file) => {
            if let Err(error) = files::replace(Path::new(file), &bytes) {
                eprintln!("{file}: {}", system_message(&error));
                return 1;
            }
        }
    }
    0
}

/// The archive the configuration was in, with this one in its place.
fn archived(mut members: Vec<Member>, text: String) -> Vec<u8> {
    if let Some(config) = members.iter_mut().find(|member| member.name == CONFIG) {
        config.data = text.into_bytes();
    }
    archive::archive(&members)
}

/// Sorts names, one a line, each once.
fn sorted(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    names.into_iter().fold(String::new(), |text, name| text + &name + "\n")
}

/// The configuration, each declaration behind a directive that says where it
/// was written, the connections behind one that counts this text's own lines.
fn with_directives(flat: &Flat) -> String {
    let mut text = flat.requirements_text();
    for element in &flat.elements {
        let landmark = &element.landmark;
        let _ = writeln!(text, "# {} \"{}\"", landmark.line, landmark.file);
        let _ = write!(text, "{} :: {}", element.name, element.class);
        if !element.config.is_empty() {
            let _ = write!(text, "({})", element.config);
        }
        text.push_str(";\n");
    }
    if !flat.connections.is_empty() {
        let _ = writeln!(text, "# {} \"\"", text.lines().count() + 2);
        text.push_str(&flat.connections_text());
    }
    text
}

/// A name is a class from its first use as one.
struct AnyClass;

impl Classes for AnyClass {
    fn contains(&self, _: &str) -> bool {
        false
    }

    fn names(&self) -> Vec<&str> {
        Vec::new()
    }

    fn is_open(&self) -> bool {
        true
    }
}
