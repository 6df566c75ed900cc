//! Configurations with their expected output: the corpus in `tests/corpus`.
//!
//! Each file holds cases. A case is a command line, the configuration it reads from standard input,
//! and the result, byte for byte:
//!
//! ```text
//! === what the case shows
//! $ click -q -h c.config
//! Idle -> c :: Counter -> Discard;
//! --- file NAME          (a file in the folder the program runs in)
//! --- stdout             (empty when the section is missing)
//! --- stderr
//! --- exit 1             (0 when missing)
//! ```
//!
//! Expectations are those of Click 2.1's own programs; where ours must differ, a line `# differs:
//! WHY` below the title says so. The output of Click's programs is written into the files by
//!
//! ```text
//! RECORD_FROM=FOLDER:FOLDER cargo test -p linerate --test corpus
//! ```
//!
//! with the folders that `click` and `click-flatten` are in. It leaves cases that differ alone.
//!
//! `VECTOR=256 cargo test -p linerate --test corpus` runs them in frames of so many packets, where
//! `click` would choose single ones. A line `# in frames: WHY` below the title says that another
//! order of events shows then, which is left to chance (docs/design/order.md); such cases are left out.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// One case.
#[derive(Debug, Default)]
struct Case {
    place: String,
    /// Its lines in front of its expectations.
    head: String,
    differs: bool,
    /// Set if it is for packets one at a time.
    is_single: bool,
    command: Vec<String>,
    input: String,
    files: Vec<(String, String)>,
    stdout: String,
    stderr: String,
    exit: i32,
}

/// Section of a case that the next line belongs to.
enum Section {
    Nowhere,
    Input,
    File,
    Stdout,
    Stderr,
}

fn cases(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut section = Section::Nowhere;
    // The empty line in front of a case belongs to none.
    let text = text.replace("\n\n=== ", "\n=== ");
    for (number, line) in (1..).zip(text.lines()) {
        let place = || format!("{}: {number}: {line}", path.display());
        if let Some(title) = line.strip_prefix("=== ") {
            let file = path.file_name().unwrap().to_string_lossy();
            let (place, head) = (format!("{file}: {title}"), format!("{line}\n"));
            cases.push(Case { place, head, ..Case::default() });
            section = Section::Nowhere;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if let Some(command) = line.strip_prefix("$ ") {
            assert!(case.command.is_empty(), "{}: a second command", place());
            case.command = words(command);
            case.head += &format!("{line}\n");
            section = Section::Input;
            continue;
        }
        if let Some(rest) = line.strip_prefix("--- ") {
            section = match rest.split_once(' ').unwrap_or((rest, "")) {
                ("stdout", "") => Section::Stdout,
                ("stderr", "") => Section::Stderr,
                ("file", name) => {
                    case.files.push((name.into(), String::new()));
                    Section::File
                }
                ("exit", code) => {
                    case.exit = code.parse().unwrap_or_else(|_| panic!("{}", place()));
                    Section::Nowhere
                }
                _ => panic!("{}: no such section", place()),
            };
            if matches!(section, Section::File) {
                case.head += &format!("{line}\n");
            }
            continue;
        }
        if matches!(section, Section::Input | Section::File) {
            case.head += &format!("{line}\n");
        }
        let text = match section {
            Section::Nowhere => {
                assert!(line.is_empty() || line.starts_with('#'), "{}: stray line", place());
                if case.command.is_empty() {
                    case.head += &format!("{line}\n");
                    case.differs |= line.starts_with("# differs: ");
                    case.is_single |= line.starts_with("# in frames: ");
                }
                continue;
            }
            Section::Input => &mut case.input,
            Section::File => &mut case.files.last_mut().unwrap().1,
            Section::Stdout => &mut case.stdout,
            Section::Stderr => &mut case.stderr,
        };
        text.push_str(line);
        text.push('\n');
    }
    cases
}

/// Splits a command line at spaces outside of quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The frame limit asked for, as arguments of a case's program.
fn vector_of(case: &Case) -> Vec<String> {
    let vector = std::env::var("VECTOR").ok().filter(|_| case.command[0] == "click");
    vector.map(|vector| vec!["--vector".into(), vector]).unwrap_or_default()
}

/// Runs a case's program, which is at `program`.
fn output_of(case: &Case, program: &Path, folder: &Path) -> Output {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in &case.files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut child = Command::new(program)
        .args(vector_of(case))
        .args(&case.command[1..])
        .current_dir(folder)
        .env("LANG", "C")
        .env_remove("CLICKPATH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that ends without reading closes the pipe: no matter.
    let _ = child.stdin.take().unwrap().write_all(case.input.as_bytes());
    child.wait_with_output().unwrap()
}

fn run(case: &Case, folder: &Path) -> Result<(), String> {
    let program = match case.command.first().map(String::as_str) {
        Some("click") => env!("CARGO_BIN_EXE_click"),
        Some("click-flatten") => env!("CARGO_BIN_EXE_click-flatten"),
        Some("linerate") => env!("CARGO_BIN_EXE_linerate"),
        other => panic!("{}: no such program: {other:?}", case.place),
    };
    let output = output_of(case, Path::new(program), folder);
    let mut wrong = String::new();
    for (what, found, expected) in [
        ("stdout", String::from_utf8_lossy(&output.stdout), &case.stdout),
        ("stderr", String::from_utf8_lossy(&output.stderr), &case.stderr),
    ] {
        if found != expected.as_str() {
            let _ = write!(wrong, "{what} is\n{found}but should be\n{expected}");
        }
    }
    if output.status.code() != Some(case.exit) {
        let _ = writeln!(wrong, "{} but should exit with {}", output.status, case.exit);
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("=== {}\n{wrong}", case.place)) }
}

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some()).collect();
    paths.sort();
    paths
}

/// The next free case, and its number.
fn take<'c>(cases: &'c [Case], next: &AtomicUsize) -> Option<(usize, &'c Case)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    cases.get(number).map(|case| (number, case))
}

#[test]
fn every_case_comes_out_as_click_has_it() {
    if let Some(folders) = std::env::var_os("RECORD_FROM") {
        record(&folders);
    }
    let folder = std::env::temp_dir().join(format!("linerate-corpus-{}", std::process::id()));
    let mut cases: Vec<Case> = corpus().iter().flat_map(|path| cases(path)).collect();
    assert!(cases.len() >= 50, "the corpus has shrunk to {} cases", cases.len());
    cases.retain(|case| !case.is_single || vector_of(case).is_empty());
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((number, case)) = take(&cases, &next) {
                    let outcome = run(case, &folder.join(number.to_string()));
                    wrong.lock().unwrap().extend(outcome.err().map(|wrong| (number, wrong)));
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    let wrong: Vec<String> = wrong.into_iter().map(|(_, wrong)| wrong).collect();
    fs::remove_dir_all(&folder).unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} cases fail:\n\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// The input of a case, without its title.
fn configuration(case: &Case) -> &str {
    case.head.split_once('\n').map_or("", |(_, rest)| rest)
}

#[test]
fn every_class_is_in_a_case() {
    let cases: Vec<Case> = corpus().iter().flat_map(|path| cases(path)).collect();
    let part = |c: char| !c.is_alphanumeric() && c != '_' && c != '@';
    let words: HashSet<&str> =
        cases.iter().flat_map(|case| configuration(case).split(part)).collect();
    let library = linerate_elements::library();
    let missing: Vec<&str> =
        library.iter().map(|class| class.name).filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "no case has {}", missing.join(", "));
}

/// Writes the output of Click's programs, in these folders, into the corpus.
fn record(folders: &OsStr) {
    let folder = std::env::temp_dir().join(format!("linerate-record-{}", std::process::id()));
    for path in corpus() {
        let text = fs::read_to_string(&path).unwrap();
        let (preface, _) = text.split_once("\n=== ").unwrap();
        let mut recorded = format!("{preface}\n");
        for (number, case) in cases(&path).iter().enumerate() {
            let found = std::env::split_paths(folders).map(|at| at.join(&case.command[0]));
            let program = found.into_iter().find(|program| program.is_file());
            let separator = if number == 0 { "" } else { "\n" };
            recorded += &format!("{separator}{}", case.head);
            recorded += &match program.filter(|_| !case.differs) {
                Some(program) => expectations(&output_of(case, &program, &folder)),
                None => expected(&case.stdout, &case.stderr, case.exit),
            };
        }
        fs::write(&path, recorded).unwrap();
    }
    fs::remove_dir_all(&folder).unwrap();
}

fn expectations(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    expected(&text(&output.stdout), &text(&output.stderr), output.status.code().unwrap())
}

/// The sections of a case's expectations.
fn expected(stdout: &str, stderr: &str, exit: i32) -> String {
    let mut text = String::new();
    for (name, lines) in [("stdout", stdout), ("stderr", stderr)] {
        if !lines.is_empty() {
            text += &format!("--- {name}\n{lines}");
        }
    }
    if exit != 0 {
        text += &format!("--- exit {exit}\n");
    }
    text
}

#[test]
fn words_of_a_command_line() {
    assert_eq!(words("click -e 'a b' \"c'd\" ''"), ["click", "-e", "a b", "c'd", ""]);
}
