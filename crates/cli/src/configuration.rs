//! Reading a configuration: from a file, the command line or standard input,
//! with the libraries it requires and the control sockets asked for.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, Read},
    path::Path,
};

use anyhow::Result;
use linerate_graph::{
    Library, Plan,
    lang::{
        self, Classes, Diagnostics, Flat, FlatElement, Globals, Landmark, Library as LibraryText,
        Loader, SourceMap, Span, config::quote,
    },
};

use linerate_linux::{closest, files::ReadGuard};

use crate::{
    archive::{self, Member},
    control_address::{element_name, instance_name},
    exit::{ConfigurationError, UsageError},
    terminal,
};

/// Source of a configuration's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file.
    File(String),
    /// The command line.
    Expression(String),
    /// Standard input.
    Input,
    /// This program, which the configuration was compiled into.
    Program {
        /// Name of the text when it was compiled in.
        name: &'static str,
        text: &'static str,
    },
}

impl Source {
    /// A file name, in which nothing and `-` are standard input.
    pub(crate) fn file(name: &str) -> Source {
        match name {
            "" | "-" => Source::Input,
            name => Source::File(name.into()),
        }
    }

    /// Name of the text in messages, as in Click.
    pub(crate) fn name(&self) -> &str {
        match self {
            Source::File(name) => name,
            Source::Expression(_) => "config",
            Source::Input => "<stdin>",
            Source::Program { name, .. } => name,
        }
    }

    /// The instance's name, by which clients find its control socket: that of the file, or of the
    /// command.
    pub(crate) fn instance(&self, command: &str) -> String {
        let stem = match self {
            Source::File(name) => Path::new(name).file_stem(),
            Source::Program { name, .. } => Path::new(name).file_stem(),
            Source::Expression(_) | Source::Input => None,
        };
        instance_name(&stem.map_or(command.into(), OsStr::to_string_lossy))
    }

    /// Keeps this program from writing over the file.
    pub(crate) fn guard(&self) -> Option<ReadGuard> {
        match self {
            Source::File(name) => ReadGuard::of_name(Path::new(name)),
            Source::Input => ReadGuard::of_open(io::stdin()),
            Source::Expression(_) | Source::Program { .. } => None,
        }
    }

    /// The text. Bytes that are not UTF-8 become replacement characters. Of an
    /// archive it is the member `config`.
    pub(crate) fn read(&self) -> io::Result<String> {
        Ok(self.read_members()?.0)
    }

    /// The text, and all members where it is in an archive.
    pub(crate) fn read_members(&self) -> io::Result<(String, Vec<Member>)> {
        let bytes = match self {
            Source::Expression(text) => text.clone().into_bytes(),
            Source::Program { text, .. } => text.as_bytes().to_vec(),
            Source::File(name) => fs::read(name)?,
            Source::Input => {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes)?;
                bytes
            }
        };
        if !archive::is_archive(&bytes) {
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), Vec::new()));
        }
        let members = archive::members(&bytes).map_err(io::Error::other)?;
        let config = members.iter().find(|member| member.name == CONFIG);
        let config = config.ok_or_else(|| io::Error::other("archive has no 'config' section"))?;
        Ok((String::from_utf8_lossy(&config.data).into_owned(), members))
    }
}

/// The member of an archive that is the configuration.
pub(crate) const CONFIG: &str = "config";

/// A text that has been read and taken apart, not yet checked.
pub(crate) struct Parsed {
    pub(crate) sources: SourceMap,
    pub(crate) flat: Flat,
    /// Messages of reading it. With errors in it the rest is incomplete.
    pub(crate) found: Diagnostics,
}

impl Parsed {
    /// Parses `text`, which goes by `name`; `path` is where libraries are
    /// searched, in the form of `CLICKPATH`.
    pub(crate) fn new(
        name: &str,
        text: &str,
        globals: &Globals,
        classes: &dyn Classes,
        path: &str,
    ) -> Parsed {
        let mut loader = |wanted: &str, asking: &str| find_library(wanted, asking, path);
        Parsed::with_libraries(name, text, globals, classes, &mut loader)
    }

    /// Reads a text with libraries that `loader` finds.
    pub(crate) fn with_libraries(
        name: &str,
        text: &str,
        globals: &Globals,
        classes: &dyn Classes,
        loader: &mut Loader<'_>,
    ) -> Parsed {
        let mut sources = SourceMap::new();
        let file = sources.add(name, text);
        let (flat, found) = lang::load(&mut sources, file, classes, globals, loader);
        Parsed { sources, flat, found }
    }

    /// Adds a control socket, as if it had been declared.
    pub(crate) fn add_control_socket(&mut self, number: usize, config: String) {
        self.add(element_name(number), "ControlSocket", config);
    }

    /// Adds a place where consumers attach, as if it had been declared.
    pub(crate) fn add_cluster_socket(&mut self, address: &str) {
        self.add("cluster@@ClusterSocket".into(), "ClusterSocket", quote(address.as_bytes()));
    }

    fn add(&mut self, name: String, class: &str, config: String) {
        let span = Span { file: self.flat.file, start: 0, end: 0 };
        self.flat.elements.push(FlatElement {
            name,
            class: class.into(),
            config,
            landmark: Landmark { span, file: "click".into(), line: 0 },
        });
    }

    /// Refuses values of variables that the configuration does not have: the one that was meant would
    /// keep its default. Of a text with errors they are not all known.
    pub(crate) fn check_variables(&self, globals: &Globals) -> Result<(), UsageError> {
        let known = &self.flat.variables;
        let unknown = |(name, _): &&(String, String)| !known.contains(name);
        let given = globals.variables.iter().find(unknown).filter(|_| !self.found.has_errors());
        let Some((name, value)) = given else { return Ok(()) };
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = match closest(name, names.iter().copied()) {
            Some(meant) => format!("did you mean {meant}={value}?"),
            None if names.is_empty() => "it has none".into(),
            None => format!("it has {}", names.join(", ")),
        };
        Err(UsageError(format!(
            "{name}={value}: the configuration has no variable ${name}; {hint}"
        )))
    }

    /// The checked graph with the texts it was made from, or everything that
    /// is wrong with it, marked in its source. Warnings are written to standard
    /// error.
    pub(crate) fn into_plan(self, library: &Library) -> Result<(Plan, SourceMap)> {
        if self.found.has_errors() {
            return Err(ConfigurationError::new(&self.found, &self.sources).into());
        }
        eprint!("{}", self.found.rich(&self.sources, terminal::colours()));
        self.check(library)
            .map_err(|(sources, found)| ConfigurationError::new(&found, &sources).into())
    }

    /// The checked graph and warnings, or its errors as Click gives them to the writer of the
    /// `hotconfig` handler.
    pub(crate) fn into_plan_as_click(
        self,
        library: &Library,
    ) -> Result<(Plan, Diagnostics), String> {
        if self.found.has_errors() {
            return Err(self.found.click());
        }
        let found = self.found.clone();
        match self.check(library) {
            Ok((plan, _)) => Ok((plan, found)),
            Err((_, errors)) => Err(format!("{}{}", found.click(), not_initialized(&errors))),
        }
    }

    /// Checks the graph.
    pub(crate) fn check(
        self,
        library: &Library,
    ) -> Result<(Plan, SourceMap), (SourceMap, Diagnostics)> {
        let source = self.flat.config(&self.sources);
        match Plan::new(self.flat, source, library) {
            Ok(plan) => Ok((plan, self.sources)),
            Err(errors) => Err((self.sources, errors)),
        }
    }
}

/// Click's words about a graph that cannot be made.
pub(crate) fn not_initialized(errors: &Diagnostics) -> String {
    format!("{}Router could not be initialized!", errors.click())
}

/// The value of `CLICKPATH`.
pub(crate) fn click_path() -> String {
    env::var("CLICKPATH").unwrap_or_default()
}

/// Finds a library as Click does: in each folder of `path` under `conf/click`,
/// `conf` and itself; in the place of an empty folder, beside the text that
/// asks.
pub(crate) fn find_library(
    wanted: &str,
    asking: &str,
    path: &str,
) -> Result<LibraryText, Option<String>> {
    let beside = match asking.rfind('/') {
        Some(slash) if slash > 0 => &asking[..slash],
        _ => ".",
    };
    let mut candidates = Vec::new();
    for folder in path.split(':') {
        let (folder, places): (_, &[&str]) = match folder {
            "" => (beside, &[""]),
            folder => (folder, &["conf/click/", "conf/", ""]),
        };
        let folder = folder.strip_suffix('/').unwrap_or(folder);
        candidates.extend(places.iter().map(|place| format!("{folder}/{place}{wanted}")));
    }
    let found = if wanted.starts_with('/') {
        // Nowhere else: the system's error names it.
        Some(wanted.to_owned())
    } else {
        candidates.into_iter().find(|path| Path::new(path).is_file())
    };
    let Some(path) = found else { return Err(None) };
    match fs::read(&path) {
        Ok(bytes) => Ok(LibraryText { text: String::from_utf8_lossy(&bytes).into_owned(), path }),
        Err(error) => Err(Some(format!("{path}: {}", system_message(&error)))),
    }
}

/// The words of the system for an error, without its number.
pub(crate) fn system_message(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Splits `NAME=value`; `None` when it is something else.
pub(crate) fn variable(argument: &str) -> Option<(String, String)> {
    let (name, value) = argument.split_once('=')?;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(word)).then(|| (name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_file_names() {
        assert_eq!(variable("A_1=b=c"), Some(("A_1".into(), "b=c".into())));
        assert_eq!(variable("A="), Some(("A".into(), String::new())));
        for file in ["=x", "a/b=c", "file", "a.b=c"] {
            assert_eq!(variable(file), None, "{file}");
        }
    }

    struct KnownClasses;

    impl Classes for KnownClasses {
        fn contains(&self, name: &str) -> bool {
            self.names().contains(&name)
        }

        fn names(&self) -> Vec<&str> {
            vec!["Discard", "Idle", "Null"]
        }
    }

    #[test]
    fn values_of_no_variable_are_refused() {
        let check = |text: &str, name: &str| {
            let globals = Globals { variables: vec![(name.into(), "v".into())] };
            let mut loader = |_: &str, _: &str| {
                let text = "elementclass B { $x | input -> Null($x $OF_LIBRARY) -> output }";
                Ok(LibraryText { path: "more".into(), text: text.into() })
            };
            let parsed =
                Parsed::with_libraries("config", text, &globals, &KnownClasses, &mut loader);
            parsed.check_variables(&globals).map_err(|error| error.0)
        };
        let text = "require(library more) define($LEFT 1, $R_2 x);
            elementclass A { $in | input -> Null($in $DEEP) -> output }
            Idle -> A(${WHO}) -> B($LEFT) -> Discard";
        for known in ["DEEP", "LEFT", "OF_LIBRARY", "R_2", "WHO"] {
            assert_eq!(check(text, known), Ok(()), "{known}");
        }
        let slip = "LEFTT=v: the configuration has no variable $LEFTT; did you mean LEFT=v?";
        assert_eq!(check(text, "LEFTT"), Err(slip.into()));
        // A compound's parameter keeps the value that the compound is given.
        for other in ["NOSUCH", "in", "x"] {
            let error = format!(
                "{other}=v: the configuration has no variable ${other}; \
                 it has DEEP, LEFT, OF_LIBRARY, R_2, WHO"
            );
            assert_eq!(check(text, other), Err(error));
        }
        let none = "FOO=v: the configuration has no variable $FOO; it has none";
        assert_eq!(check("Idle -> Discard", "FOO"), Err(none.into()));
        // The error in the text is said instead.
        assert_eq!(check("Idle -> ; -> Null($LEFT)", "LEFT"), Ok(()));
    }

    #[test]
    fn libraries_are_found_beside_and_along_the_path() {
        let folder = std::env::temp_dir().join(format!("linerate-library-{}", std::process::id()));
        fs::create_dir_all(folder.join("conf")).unwrap();
        fs::write(folder.join("beside.click"), "beside").unwrap();
        fs::write(folder.join("conf/along.click"), "along").unwrap();
        let folder_name = folder.to_str().unwrap();
        let asking = format!("{folder_name}/main.click");
        let find = |wanted: &str, path: &str| find_library(wanted, &asking, path);
        assert_eq!(find("beside.click", "").unwrap().text, "beside");
        assert_eq!(find("along.click", folder_name).unwrap().text, "along");
        assert_eq!(find("along.click", "").unwrap_err(), None);
        assert_eq!(find(&format!("{folder_name}/beside.click"), "").unwrap().text, "beside");
        let missing = "/nonexistent/lib.click: No such file or directory";
        assert_eq!(find("/nonexistent/lib.click", "").unwrap_err(), Some(missing.into()));
        fs::remove_dir_all(folder).unwrap();
    }
}
