//! A pseudo-terminal and the conversation with a program that prompts on it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// Our end of a pseudo-terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    ours: File,
    /// Output of the program that has not been asked for yet.
    pending: Vec<u8>,
    prompt: &'static str,
}

impl Terminal {
    /// A terminal for a program with this prompt, and the program's end of it.
    pub(super) fn open(prompt: &'static str) -> Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).context("cannot open a pseudo-terminal")?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags).context("cannot open a pseudo-terminal")?;
        Ok((Terminal { ours: File::from(ours), pending: Vec::new(), prompt }, theirs))
    }

    /// The program's end, for standard input, output and errors.
    pub(super) fn streams(theirs: OwnedFd) -> Result<[Stdio; 3]> {
        Ok([theirs.try_clone()?.into(), theirs.try_clone()?.into(), theirs.into()])
    }

    /// Types a line.
    pub(super) fn type_line(&mut self, line: &str) -> Result<()> {
        self.ours
            .write_all(format!("{line}\n").as_bytes())
            .with_context(|| format!("cannot type `{line}`"))
    }

    /// Everything up to the next prompt.
    pub(super) fn until_prompt(&mut self, limit: Duration) -> Result<String> {
        let prompt = self.prompt;
        self.until(prompt, limit)
    }

    /// Everything up to and with the next occurrence of `text`.
    pub(super) fn until(&mut self, text: &str, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = find(&self.pending, text.as_bytes()) {
                let rest = self.pending.split_off(end + text.len());
                let head = std::mem::replace(&mut self.pending, rest);
                return Ok(String::from_utf8_lossy(&head).into_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let read = if left.is_zero() { Some(0) } else { self.read_some(left)? };
            if read == Some(0) {
                let said = String::from_utf8_lossy(&self.pending);
                bail!("the program did not answer with `{text}`; it said:\n{}", said.trim());
            }
        }
    }

    /// Reads the bytes there within `limit`: nothing yet, nothing ever again (zero), or some bytes.
    fn read_some(&mut self, limit: Duration) -> Result<Option<usize>> {
        let timeout = Timespec::try_from(limit)?;
        let mut wanted = [PollFd::new(&self.ours, PollFlags::IN)];
        if poll(&mut wanted, Some(&timeout))? == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 4096];
        // A terminal whose other end is closed reads as an input/output error.
        let count = self.ours.read(&mut bytes).unwrap_or(0);
        self.pending.extend_from_slice(&bytes[..count]);
        Ok(Some(count))
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn start(script: &str) -> (Terminal, std::process::Child) {
        let (terminal, theirs) = Terminal::open("> ").expect("a terminal");
        let [input, output, errors] = Terminal::streams(theirs).expect("streams");
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(input).stdout(output).stderr(errors);
        let child = command.spawn().expect("a shell");
        (terminal, child)
    }

    #[test]
    fn converses_with_a_program_that_demands_a_terminal() {
        let script =
            "test -t 0 && stty -echo && printf '> ' && read x && echo got $x && printf '> '";
        let (mut terminal, mut child) = start(script);
        terminal.until_prompt(Duration::from_secs(10)).expect("first prompt");
        terminal.type_line("word").expect("typing");
        let answer = terminal.until_prompt(Duration::from_secs(10)).expect("second prompt");
        assert!(answer.contains("got word"), "{answer}");
        assert!(child.wait().expect("its end").success());
    }

    #[test]
    fn says_what_a_program_said_that_ended_early() {
        let (mut terminal, mut child) = start("echo no memory");
        child.wait().expect("its end");
        let error = terminal.until_prompt(Duration::from_secs(10)).expect_err("no prompt");
        assert!(error.to_string().contains("no memory"), "{error}");
    }
}
