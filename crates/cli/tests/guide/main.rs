//! The guide in `docs/guide` is true: its links lead somewhere, its configurations are accepted,
//! its commands do as it says, and the messages it explains are the programs'. That its commands
//! are ones of the command line is tested where that is declared (`src/args`).
//!
//! A block of code is `click`, a configuration (`click project` where it needs elements of the project in
//! `examples/elements`, whose tests run it); `sh` or `console`, commands, those of `sh` for
//! interfaces that are there; `console run`, commands that work without privileges; `console root`,
//! commands that work as root where no interface is.

mod book;

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use book::{Block, Page, folder, pages, repository};
use tempfile::TempDir;

/// A folder to type commands in, with the examples in it.
fn desk() -> TempDir {
    let desk = tempfile::tempdir().unwrap();
    symlink(repository().join("examples").canonicalize().unwrap(), desk.path().join("examples"))
        .unwrap();
    desk
}

/// Has a shell run `script`, with the program under test.
fn shell(script: &str, desk: &Path, mut command: Command) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_linerate"));
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    command.args(["-eu", "-c", script]).current_dir(desk).env("PATH", path);
    command.stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn assert_done(output: &Output, of: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{of}\n{}: {said}", output.status);
}

/// The blocks of a kind, with their pages.
fn blocks<'a>(pages: &'a [Page], info: &'a str) -> impl Iterator<Item = (&'a str, &'a Block)> {
    let all = pages.iter().flat_map(|page| page.blocks.iter().map(|block| (&*page.name, block)));
    all.filter(move |(_, block)| block.info == info)
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    for page in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { &page.name } else { file };
            let from = format!("{}: {link}", page.name);
            let to = pages.iter().find(|page| page.name == file);
            let to = to.unwrap_or_else(|| panic!("{from}: no such page of the guide"));
            assert!(heading.is_empty() || to.anchors.contains(heading), "{from}: no such heading");
        }
    }
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let pages = pages();
    let (summary, others): (Vec<_>, Vec<_>) =
        pages.iter().partition(|page| page.name == "SUMMARY.md");
    let mut listed = summary[0].links.clone();
    listed.sort();
    let names: Vec<&str> = others.iter().map(|page| &*page.name).collect();
    assert_eq!(listed, names);
    assert!(folder().join("book.toml").exists());
}

#[test]
fn files_it_names_are_there() {
    for page in pages() {
        let folders = ["examples/", "docs/", "crates/"];
        let files =
            page.spans.iter().filter(|span| folders.iter().any(|folder| span.starts_with(folder)));
        for file in files {
            assert!(repository().join(file).exists(), "{}: {file}", page.name);
        }
    }
}

/// Interfaces become ports in memory, which take the same place.
fn in_memory(configuration: &str) -> String {
    let mut text = configuration.replace("packet:eth", "eth").replace("xdp:eth", "eth");
    for number in 0..4 {
        text = text.replace(&format!("eth{number}"), "null:");
    }
    text
}

#[test]
fn configurations_are_accepted() {
    let pages = pages();
    let desk = desk();
    let make = "linerate generate --quiet --count 10 pcap:trace.pcap";
    assert_done(&shell(make, desk.path(), Command::new("sh")), make);
    let mut checked = 0;
    for (page, block) in blocks(&pages, "click") {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        let text = in_memory(&block.text);
        let output =
            command.current_dir(desk.path()).args(["check", "-e", &text]).output().unwrap();
        assert_done(&output, &format!("{page}:\n{text}"));
        checked += 1;
    }
    assert!(checked > 5, "{checked} configurations");
}

#[test]
fn commands_in_memory_do_as_the_guide_says() {
    let pages = pages();
    let runs: Vec<_> = blocks(&pages, "console run").collect();
    assert!(runs.len() > 10, "{} blocks", runs.len());
    thread::scope(|scope| {
        for (page, block) in runs {
            scope.spawn(move || {
                let desk = desk();
                let script = block.typed().join("\n");
                let output = shell(&script, desk.path(), Command::new("sh"));
                assert_done(&output, &format!("{page}:\n{script}"));
                assert_shown(page, block, &output);
            });
        }
    });
}

/// Lines that the guide shows of a command were printed, where no figures are in them.
fn assert_shown(page: &str, block: &Block, output: &Output) {
    let printed = [&*output.stdout, &*output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    for line in block.text.lines().filter(|line| !line.starts_with("$ ") && !line.is_empty()) {
        assert!(printed.lines().any(|printed| printed == line), "{page}: {line}\n{printed}");
    }
}

#[test]
#[ignore = "needs root"]
fn commands_on_interfaces_do_as_the_guide_says() {
    for program in ["ip", "unshare", "ping"] {
        linerate_test_support::require(program);
    }
    let pages = pages();
    let mut runs = 0;
    for (page, block) in blocks(&pages, "console root") {
        let desk = desk();
        // Interfaces, and the names of namespaces, that no other process sees.
        let script = format!(
            "mkdir -p /run/netns\nmount -t tmpfs none /run/netns\n{}\nwait",
            block.typed().join("\n")
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh"]);
        let output = shell(&script, desk.path(), command);
        assert_done(&output, &format!("{page}:\n{script}"));
        runs += 1;
    }
    assert!(runs > 0);
}

/// Wrapper of `linerate` while commands of the guide are tried: none takes long, those with a
/// control socket end with the block, and cores are those there are.
const SHIM: &str = r#"#!/bin/sh
left=$#
socket=
cluster=
while [ $left -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    case $word in
    --cores | --duration) shift; left=$((left - 1)); continue ;;
    --control) socket=$1 ;;
    --socket) cluster=$1 ;;
    esac
    set -- "$@" "$word"
done
if [ -n "$socket" ]; then
    "$PROGRAM" "$@" >/dev/null 2>errors &
    until "$PROGRAM" call "$socket" version >/dev/null 2>&1; do
        kill -0 $! 2>/dev/null || { cat errors >&2; exit 1; }
        sleep 0.05
    done
    exit
fi
case "$1 ${2-}" in
"cluster serve")
    "$PROGRAM" "$@" >/dev/null 2>errors &
    until "$PROGRAM" cluster status "$cluster" >/dev/null 2>&1; do
        kill -0 $! 2>/dev/null || { cat errors >&2; exit 1; }
        sleep 0.05
    done
    exit ;;
"cluster attach" | "cluster top") set -- "$@" --duration 300ms ;;
"switch add" | "switch remove" | "switch list" | "switch show") ;;
"switch "*)
    "$PROGRAM" "$@" >/dev/null 2>errors &
    until "$PROGRAM" switch list >/dev/null 2>&1; do
        kill -0 $! 2>/dev/null || { cat errors >&2; exit 1; }
        sleep 0.05
    done
    exit ;;
esac
case $1 in
run | forward | generate | sink | capture | replay) set -- "$@" --duration 300ms ;;
esac
exec "$PROGRAM" "$@"
"#;

/// A place for sockets, interfaces with cables that lead nowhere, and files that the guide takes for granted.
const PLACE: &str = r#"
mount -t tmpfs none /run
ip link set lo up
for number in 0 1 2 3; do
    ip link add eth$number type veth peer name far$number
    ip link set eth$number up
    ip link set far$number up
done
echo 'FromPort(packet:eth1) -> Queue -> ToPort(packet:eth2);' > router.click
"$PROGRAM" generate --quiet --count 10 pcap:trace.pcap 2>/dev/null
"#;

#[test]
#[ignore = "needs root"]
fn commands_and_configurations_for_interfaces_work_on_them() {
    for program in ["ip", "unshare", "tcpdump"] {
        linerate_test_support::require(program);
    }
    let pages = pages();
    let configurations = blocks(&pages, "click").map(|(page, block)| {
        (page, format!("cat > guide.click <<'END'\n{}END\nlinerate run guide.click", block.text))
    });
    // Of the others some would change the machine; and a search takes its time.
    let is_tried =
        |line: &&str| line.starts_with("linerate ") && !line.starts_with("linerate lab ");
    let commands = blocks(&pages, "sh").map(|(page, block)| {
        (page, block.typed().into_iter().filter(is_tried).collect::<Vec<_>>().join("\n"))
    });
    let scripts: Vec<_> =
        configurations.chain(commands).filter(|(_, script)| !script.is_empty()).collect();
    assert!(scripts.len() > 20, "{} blocks", scripts.len());
    thread::scope(|scope| {
        for (page, script) in scripts {
            scope.spawn(move || {
                let desk = desk();
                let bin = desk.path().join("bin");
                fs::create_dir(&bin).unwrap();
                fs::write(bin.join("linerate"), SHIM).unwrap();
                fs::set_permissions(bin.join("linerate"), Permissions::from_mode(0o755)).unwrap();
                // With a namespace of processes, so that those in the background end with it.
                let mut command = Command::new("unshare");
                command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh"]);
                command.env("PROGRAM", env!("CARGO_BIN_EXE_linerate"));
                let set_up = format!("{PLACE}PATH=$PWD/bin:$PATH\n{script}");
                let output = shell(&set_up, desk.path(), command);
                assert_done(&output, &format!("{page}:\n{script}"));
            });
        }
    });
}

/// The sources as texts for the quotes: lines that go on are one.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let mut lines = source.split("\\\n");
            text.push_str(lines.next().unwrap_or(""));
            lines.for_each(|line| text.push_str(line.trim_start()));
        }
    }
}

#[test]
fn messages_it_explains_are_those_of_the_programs() {
    let mut text = String::new();
    for folder in [
        "base/linux",
        "base/memory",
        "io/port",
        "graph/engine",
        "graph/language",
        "graph/worker",
        "cli",
        "elements/control",
        "elements/devices",
    ] {
        sources(&repository().join("crates").join(folder).join("src"), &mut text);
    }
    let pages = pages();
    let quotes = pages.iter().flat_map(|page| &page.quotes);
    assert!(quotes.clone().count() > 15);
    for quote in quotes {
        // Names and numbers are of the moment; of each message some words in a row are not.
        let words: Vec<&str> = quote.split_whitespace().collect();
        let row = words.len().div_ceil(2).clamp(2, 4);
        let found = words.windows(row).any(|words| text.contains(&words.join(" ")));
        assert!(found, "no program says: {quote}");
    }
}
