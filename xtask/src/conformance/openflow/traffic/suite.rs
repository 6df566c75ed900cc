//! The cases of Open vSwitch's `system-traffic.at`, compiled from its sources into a shell script
//! by autotest.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// The file of cases.
const FILE: &str = "system-traffic.at";
/// The shell script that autotest generates of the suite.
pub(super) const SCRIPT: &str = "system-userspace-testsuite";
/// Files and folders of the sources that the suite needs.
const NEEDED: [&str; 4] = ["tests", "python", "m4", "vswitchd/vswitch.ovsschema"];
/// Replacement for Open vSwitch's programs when ours is the switch.
const PROGRAMS: &str = include_str!("programs.py");
/// Shell script that runs one case.
const CASE: &str = include_str!("case.sh");
/// Names of Open vSwitch's programs that the replacement is linked to.
const NAMES: [&str; 5] = ["ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovs-dpctl"];

/// A case of the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) title: String,
}

impl Case {
    /// Returns true if `text` is the case's number or a part of its title.
    pub(super) fn is_like(&self, text: &str) -> bool {
        match text.parse::<usize>() {
            Ok(number) => self.number == number,
            Err(_) => self.title.contains(text),
        }
    }
}

/// The suite, ready to run.
#[derive(Debug)]
pub(super) struct Suite {
    /// Folder of the suite's files.
    pub(super) folder: PathBuf,
    pub(super) cases: Vec<Case>,
}

impl Suite {
    /// Builds the suite of a version from a checkout, or from a repository with the version's tag.
    pub(super) fn prepare(sources: &Path, version: &str, folder: &Path) -> Result<Suite> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        copy(sources, version, &folder)?;
        let path = folder.join("tests").join(FILE);
        ensure!(path.exists(), "there is no {FILE} in {}", sources.display());
        let python = ["/usr/bin/python3", "python3"];
        let python =
            python.into_iter().find(|python| runs(python)).context("there is no python3")?;
        let settings = fs::read_to_string(folder.join("tests/atlocal.in"))?;
        fs::write(folder.join("atlocal"), with_settings(&settings, python))?;
        fs::write(folder.join("package.m4"), package(version))?;
        fs::write(folder.join("case.sh"), CASE)?;
        programs(&folder.join("programs"))?;
        let mut autotest = Command::new("autom4te");
        autotest.args(["--language=autotest", "-I", ".", "-o", SCRIPT]);
        autotest.arg(format!("tests/{SCRIPT}.at")).current_dir(&folder);
        shell::output(&mut autotest)?;
        let cases = cases(&folder)?;
        ensure!(!cases.is_empty(), "the suite has no cases of {FILE}");
        Ok(Suite { folder, cases })
    }

    /// The source line at a place like `system-traffic.at:56`.
    pub(super) fn line(&self, place: &str) -> Option<String> {
        let (file, number) = place.split_once(':')?;
        let text = fs::read_to_string(self.folder.join("tests").join(file)).ok()?;
        let line = text.lines().nth(number.parse::<usize>().ok()?.checked_sub(1)?)?;
        Some(line.trim().to_owned())
    }
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Copies the files that the suite needs from the sources.
fn copy(sources: &Path, version: &str, folder: &Path) -> Result<()> {
    let shown = sources.display();
    let tag = format!("v{version}");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(sources).args(words);
        command
    };
    let has_tag = git(&["rev-parse", "--verify", "--quiet", &format!("{tag}^{{commit}}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let mut pack = if has_tag {
        git(&[&["archive", &tag][..], &NEEDED].concat())
    } else if sources.join("tests").join(FILE).exists() {
        eprintln!("{shown} has no tag {tag}: its files are taken as they are");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(sources).arg("-c").args(NEEDED);
        tar
    } else {
        bail!(
            "{shown} is neither a checkout of Open vSwitch nor a repository of it with the tag {tag}: git clone \
             https://github.com/openvswitch/ovs, and name its folder by --sources"
        );
    };
    let mut packing = pack.stdout(Stdio::piped()).spawn().context("cannot copy the sources")?;
    let packed = packing.stdout.take().context("cannot copy the sources")?;
    let mut unpack = Command::new("tar");
    unpack.arg("-C").arg(folder).arg("-x").stdin(packed);
    shell::output(&mut unpack)?;
    ensure!(packing.wait()?.success(), "cannot copy the sources in {shown}");
    Ok(())
}

/// Expands `@NAME@` in the test settings (`atlocal.in`), as `configure` would.
fn with_settings(text: &str, python: &str) -> String {
    let mut made = String::new();
    let mut rest = text;
    // Names in capital letters between two @.
    while let Some((before, behind)) = rest.split_once('@') {
        made.push_str(before);
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        match behind.split_once('@') {
            Some((name, after)) if is_name(name) => {
                made.push_str(match name {
                    "PYTHON3" => python,
                    "EGREP" => "grep -E",
                    _ => "",
                });
                rest = after;
            }
            _ => {
                made.push('@');
                rest = behind;
            }
        }
    }
    made + rest
}

fn package(version: &str) -> String {
    [
        ("NAME", "openvswitch"),
        ("TARNAME", "openvswitch"),
        ("VERSION", version),
        ("STRING", &format!("openvswitch {version}")),
        ("BUGREPORT", "nowhere"),
    ]
    .iter()
    .map(|(name, value)| format!("m4_define([AT_PACKAGE_{name}], [{value}])\n"))
    .collect()
}

/// Creates a folder with the replacement under the names of Open vSwitch's programs.
fn programs(folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    let path = folder.join("programs.py");
    fs::write(&path, PROGRAMS)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    for name in NAMES {
        symlink("programs.py", folder.join(name))?;
    }
    Ok(())
}

/// The cases, as the script lists them.
fn cases(folder: &Path) -> Result<Vec<Case>> {
    let mut command = Command::new("sh");
    command.args(["case.sh", "--list"]).current_dir(folder);
    command.env("SUITE", folder);
    Ok(read(&shell::output(&mut command)?))
}

/// Parses autotest's list: number, place and title of a case in a line, its keywords in the next.
fn read(list: &str) -> Vec<Case> {
    let case = |line: &str| {
        let (number, rest) = line.trim_start().split_once(": ")?;
        let (place, title) = rest.split_once(' ')?;
        let is_here = place.split_once(':').is_some_and(|(file, _)| file == FILE);
        let case = Case { number: number.parse().ok()?, title: title.trim().to_owned() };
        is_here.then_some(case)
    };
    list.lines().filter_map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cases_is_read() {
        let list = "openvswitch 3.1.0 test suite test groups:\n\n NUM: FILE-NAME:LINE     TEST-GROUP-NAME\n      \
                    KEYWORDS\n\n   1: system-traffic.at:3 datapath - ping between two ports\n  12: \
                    system-traffic.at:336 conntrack - ct_mark\n      words of it\n 162: system-route.at:1 other\n";
        let read = read(list);
        let numbers: Vec<usize> = read.iter().map(|case| case.number).collect();
        assert_eq!(numbers, [1, 12]);
        assert_eq!(read[0].title, "datapath - ping between two ports");
        assert!(read[1].is_like("12") && read[1].is_like("ct_mark") && !read[1].is_like("1"));
    }

    #[test]
    fn settings_are_put_in() {
        let text = "PYTHON3='@PYTHON3@'\nA='@HAVE_X@' b@example.org @\n";
        let expected = "PYTHON3='/bin/p'\nA='' b@example.org @\n";
        assert_eq!(with_settings(text, "/bin/p"), expected);
    }
}
