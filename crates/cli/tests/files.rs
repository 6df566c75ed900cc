//! Files that a command reads are not destroyed by its output.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
};

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../io/port/tests/data/scapy-nano-little.pcap");

/// A folder with a capture `x` that has three names, and a configuration.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::copy(CAPTURE, folder.path().join("x")).unwrap();
        fs::hard_link(folder.path().join("x"), folder.path().join("hard")).unwrap();
        symlink("x", folder.path().join("soft")).unwrap();
        fs::write(folder.path().join("y.click"), "Idle -> Discard;").unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, program: &str, arguments: &[&str], input: Stdio) -> Output {
        let mut command = Command::new(program);
        command.current_dir(self.path()).args(arguments).stdin(input).output().unwrap()
    }

    /// A command fails, says why, and leaves all as it was.
    fn refuses(&self, program: &str, arguments: &[&str], input: Stdio) {
        let output = self.run(program, arguments, input);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}: {said}");
        assert!(said.contains("writing would destroy it"), "{arguments:?}: {said}");
        assert!(!said.contains("check the path"), "{arguments:?}: {said}");
        assert_eq!(fs::read(self.path().join("x")).unwrap(), fs::read(CAPTURE).unwrap());
        let configuration = fs::read_to_string(self.path().join("y.click")).unwrap();
        assert_eq!(configuration, "Idle -> Discard;", "{arguments:?}");
    }
}

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

#[test]
fn a_command_does_not_write_the_file_that_it_reads() {
    let folder = Folder::new();
    for to in ["x", "hard", "soft", "./x"] {
        let port = format!("pcap:{to}");
        folder.refuses(LINERATE, &["capture", "-r", "x", "-w", to], Stdio::null());
        folder.refuses(LINERATE, &["replay", "x", &port], Stdio::null());
        folder.refuses(LINERATE, &["replay", "x", &port, "--loop", "2"], Stdio::null());
        folder.refuses(LINERATE, &["forward", "pcap:soft?rate=max", &port], Stdio::null());
        let both = format!("pcap:x?out={to}");
        folder.refuses(LINERATE, &["forward", &both, "null:", "--bidirectional"], Stdio::null());
        let input = File::open(folder.path().join("x")).unwrap();
        folder.refuses(LINERATE, &["capture", "-r", "-", "-w", to], input.into());
    }
}

/// Elements open their files in the order of the configuration: input files are known before.
#[test]
fn a_configuration_does_not_write_the_file_that_it_reads() {
    let folder = Folder::new();
    for to in ["x", "hard", "soft"] {
        for (from, to) in [
            ("FromDump(x)", format!("ToDump({to})")),
            ("FromDump(x)", format!("ToIPSummaryDump({to})")),
            ("FromPort(pcap:x)", format!("ToPort(pcap:{to}?format=pcap)")),
            ("FromPort(pcap:x)", format!("IPPrint(OUTFILE {to}) -> Discard")),
            ("FromIPSummaryDump(x)", format!("ToDump({to})")),
        ] {
            let config = format!("i :: Idle -> {to}; {from} -> Discard;");
            folder.refuses(LINERATE, &["run", "-e", &config], Stdio::null());
        }
    }
}

#[test]
fn a_checked_configuration_writes_nothing() {
    let folder = Folder::new();
    let before = fs::read(folder.path().join("x")).unwrap();
    for element in ["ToDump(x)", "IPPrint(OUTFILE x) -> Discard", "ToDump(new.pcap)"] {
        let text = format!("InfiniteSource -> {element};");
        let output = folder.run(LINERATE, &["check", "-e", &text], Stdio::null());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read(folder.path().join("x")).unwrap(), before, "{element}");
    }
    assert!(!folder.path().join("new.pcap").exists());
    let text = "InfiniteSource -> ToDump(missing/new.pcap);";
    let output = folder.run(LINERATE, &["check", "-e", text], Stdio::null());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("missing/new.pcap: No such file or directory"), "{said}");
}

#[test]
fn a_configuration_is_not_flattened_over_itself() {
    let folder = Folder::new();
    symlink("y.click", folder.path().join("z.click")).unwrap();
    let flatten = env!("CARGO_BIN_EXE_click-flatten");
    for to in ["y.click", "z.click"] {
        folder.refuses(flatten, &["y.click", "-o", to], Stdio::null());
    }
    let other = folder.run(flatten, &["y.click", "-o", "flat.click"], Stdio::null());
    assert!(other.status.success());
    assert!(fs::read_to_string(folder.path().join("flat.click")).unwrap().contains("Discard"));
}

/// A command that fails before there is a packet leaves its output as it was; a run without packets
/// does not.
#[test]
fn a_command_that_fails_keeps_the_file_it_would_write() {
    let folder = Folder::new();
    let before = fs::read(folder.path().join("x")).unwrap();
    for arguments in [
        ["generate", "pcap:x", "--protocol", "tcp"],
        ["generate", "pcap:x", "--size", "9000"],
        ["generate", "pcap:x", "--rate", "25%"],
        ["generate", "pcap:x", "--pcap", "missing"],
        ["generate", "pcap:x", "--control", "./missing/socket"],
    ] {
        let output = folder.run(LINERATE, &arguments, Stdio::null());
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!(fs::read(folder.path().join("x")).unwrap(), before, "{arguments:?}");
    }
    let forward = ["forward", "null:", "pcap:x", "--control", "./missing/socket"];
    assert!(!folder.run(LINERATE, &forward, Stdio::null()).status.success());
    assert_eq!(fs::read(folder.path().join("x")).unwrap(), before);
    for arguments in [
        ["forward", "null:?count=0", "pcap:x", "--duration", "100ms"],
        ["run", "-e", "Idle -> ToPort(pcap:hard?format=pcap)", "--duration", "100ms"],
    ] {
        fs::write(folder.path().join("x"), &before).unwrap();
        let output = folder.run(LINERATE, &arguments, Stdio::null());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read(folder.path().join("x")).unwrap().len(), 24, "{arguments:?}");
    }
}

/// Another file is written as ever, and the file that was read stays.
#[test]
fn another_file_is_written() {
    let folder = Folder::new();
    let output = folder.run(LINERATE, &["capture", "-r", "x", "-w", "new"], Stdio::null());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packets = |file: &str| {
        let mut reader = linerate_port::pcap::Reader::open(folder.path().join(file)).unwrap();
        let mut count = 0;
        while reader.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    assert_eq!(packets("new"), packets("x"));
    assert!(packets("x") > 0);
}
