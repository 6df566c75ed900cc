//! Sandbox of a configuration: a copy of its repository's files, and a network of its own with the
//! interfaces it names.

use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::{fs, io};

use anyhow::{Context, Result};
use linerate_test_support::{Lab, Namespace};

use super::list::Entry;

/// A folder and a network namespace, both gone when this is dropped.
#[derive(Debug)]
pub(super) struct Sandbox {
    folder: tempfile::TempDir,
    network: Namespace,
    /// The configuration's own folder, in which programs are started.
    here: PathBuf,
    /// The configuration.
    pub(super) file: PathBuf,
    interfaces: u8,
    seconds: u32,
}

/// End of a program.
#[derive(Debug)]
pub(super) struct ProgramResult {
    pub(super) success: bool,
    /// It did not end by itself.
    pub(super) endless: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl ProgramResult {
    /// The first complaint with content: lines ending in a colon give the place, and those that
    /// follow them the error.
    pub(super) fn complaint(&self) -> String {
        if self.endless {
            return "does not end".to_owned();
        }
        // `linerate` ends with the number of errors, which says nothing of them.
        let says = |line: &&str| !line.is_empty() && !line.starts_with("linerate: error: the conf");
        let mut lines = self.stderr.lines().map(str::trim).filter(says);
        if let Some(error) = lines.clone().find(|line| line.starts_with("error:")) {
            return error.to_owned();
        }
        let first = lines.clone().find(|line| !line.ends_with(':') && !line.contains("warning:"));
        first.or_else(|| lines.next_back()).unwrap_or("ended without a word").to_owned()
    }
}

impl From<Output> for ProgramResult {
    fn from(output: Output) -> ProgramResult {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ProgramResult {
            success: output.status.success(),
            // The status of timeout(1), for a program that obeyed and for one that had to be
            // killed.
            endless: matches!(output.status.code(), Some(124 | 137)),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

impl Sandbox {
    /// A room for a configuration of which a copy is in `files`; programs in it have so many
    /// seconds.
    pub(super) fn new(lab: &Lab, entry: &Entry, files: &Path, seconds: u32) -> Result<Sandbox> {
        let folder = tempfile::tempdir().context("cannot make a folder to work in")?;
        let tree = entry.tree(files);
        copy(&tree, folder.path()).with_context(|| format!("cannot copy {}", tree.display()))?;
        let file = folder.path().join(&entry.path);
        let here = file.parent().map_or_else(|| folder.path().to_owned(), Path::to_owned);
        let network = lab.namespace("public");
        Ok(Sandbox { folder, network, here, file, interfaces: 0, seconds })
    }

    /// The folder programs are started in.
    pub(super) fn here(&self) -> &Path {
        &self.here
    }

    /// The addresses of the interface that is made as this one, from 1.
    pub(super) fn addresses(number: u8) -> ([u8; 6], Ipv4Addr) {
        ([2, 0, 0, 0, number, 1], Ipv4Addr::new(198, 18, number, 1))
    }

    /// Makes an interface with addresses of its own. Names no interface can have are left out:
    /// elements that need them will report them.
    pub(super) fn add_interface(&mut self, name: &str) {
        self.interfaces += 1;
        let (mac, address) = Sandbox::addresses(self.interfaces);
        let mac = mac.map(|octet| format!("{octet:02x}")).join(":");
        let (address, peer) = (format!("{address}/24"), format!("peer-{}", self.interfaces));
        let commands: [&[&str]; 4] = [
            &["link", "add", "name", name, "address", &mac, "type", "veth", "peer", "name", &peer],
            &["address", "add", &address, "dev", name],
            &["link", "set", name, "up"],
            &["link", "set", &peer, "up"],
        ];
        for words in commands {
            if !self.network.run(["ip"].iter().chain(words)).status.success() {
                return;
            }
        }
    }

    /// Copies the files of the configuration's folder, so that a run can be repeated by hand.
    pub(super) fn keep(&self, folder: &Path) -> Result<()> {
        copy(&self.here, folder).with_context(|| format!("cannot copy to {}", folder.display()))
    }

    /// Runs a program in the configuration's folder; libraries are found there and in the root of
    /// the repository.
    pub(super) fn run(&self, program: &Path, words: &[&str]) -> Result<ProgramResult> {
        let seconds = self.seconds.to_string();
        let mut command = self.network.command(["timeout", "--kill-after=1", seconds.as_str()]);
        let libraries = format!("{}:{}:", self.here.display(), self.folder.path().display());
        command
            .arg(program)
            .args(words)
            .current_dir(&self.here)
            .env("CLICKPATH", libraries)
            .stdin(Stdio::null());
        let output =
            command.output().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(ProgramResult::from(output))
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            // Some repositories have links to folders, or to nothing.
            symlink(fs::read_link(entry.path())?, target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_copied_as_links() {
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("conf")).unwrap();
        fs::write(from.path().join("conf/a.click"), "Idle").unwrap();
        for (name, target) in [("folder", "conf"), ("file", "conf/a.click"), ("nothing", "gone")] {
            symlink(target, from.path().join(name)).unwrap();
        }
        copy(from.path(), to.path()).unwrap();
        for file in ["folder/a.click", "file"] {
            assert_eq!(fs::read_to_string(to.path().join(file)).unwrap(), "Idle");
        }
        assert_eq!(fs::read_link(to.path().join("nothing")).unwrap(), Path::new("gone"));
    }

    #[test]
    fn complaints_are_the_lines_that_say_what() {
        let ended = |stderr: &str| ProgramResult {
            success: false,
            endless: false,
            stdout: String::new(),
            stderr: stderr.to_owned(),
        };
        let text = "a.click:3: While configuring 'q :: Queue':\n  warning: old\n  bad CAPACITY\n";
        assert_eq!(ended(text).complaint(), "bad CAPACITY");
        assert_eq!(ended("").complaint(), "ended without a word");
    }
}
