//! Stage of a run: a configuration with captures for devices, in a folder of its own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::conformance::captures::{self, OnCaptures};
use crate::conformance::text::{self, Declaration};
use crate::conformance::{devices, traffic::Addresses};
use crate::shell;

use super::Programs;

/// The names of the configuration and of its program.
pub(super) const FILE: &str = "example.click";
pub(super) const PROGRAM: &str = "example";

/// Mark in front of the name of each handler whose value follows.
pub(super) const MARK: &str = "## ";

/// Handlers that differ from run to run: cycles are the machine's.
const VARYING: [&str; 1] = ["cycles"];
/// Classes with handlers that are functions, and not values.
const FUNCTIONS: [&str; 2] = ["Script", "DriverManager"];
/// Packets of a source that has no end.
const LIMIT: &str = "LIMIT 20000";

/// Folder in which a configuration runs.
#[derive(Debug)]
pub(super) struct Stage {
    folder: tempfile::TempDir,
    on_captures: OnCaptures,
    /// Classes of elements that others stand for.
    stood_in: Vec<String>,
}

impl Stage {
    /// Writes the configuration, and the captures it reads.
    pub(super) fn new(flat: &str, programs: &Programs) -> Result<Stage> {
        let folder = tempfile::tempdir().context("cannot make a folder to work in")?;
        let declarations = text::declarations(flat);
        let mut addresses = Addresses::parse(flat);
        addresses.add_v6_of(flat);
        addresses.add_numbers_of(flat);
        // No interface has to be there: its address is given here.
        let mut interfaces = Vec::new();
        for (number, name) in (1..).zip(devices::interfaces(&declarations)) {
            let mac = [2, 0, 0, 0, number, 1];
            addresses.add_mac(mac);
            if !name.contains(':') {
                let mac = mac.map(|octet| format!("{octet:02x}")).join(":");
                interfaces.push(format!("{name} {mac}"));
            }
        }
        let other = |one: &Declaration| stand_in(one, &declarations);
        let on_captures = captures::substitute(flat, &declarations, other);
        let stood_in = declarations.iter().filter(|one| one.class == FOLLOWER);
        let stood_in = stood_in.map(|one| one.class.clone()).collect();
        let stage = Stage { folder, on_captures, stood_in };
        stage.on_captures.write_inputs(stage.folder(), &addresses)?;
        let interfaces = match interfaces.as_slice() {
            [] => String::new(),
            some => format!("\nAddressInfo({});", some.join(", ")),
        };
        let text = format!("{}{interfaces}\n", stage.on_captures.text);
        stage.write(&text)?;
        let handlers = stage.handlers(programs, &declarations)?;
        stage.write(&format!("{text}{}", captures::end(&handlers)))?;
        Ok(stage)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The captures that are written.
    pub(super) fn outputs(&self) -> impl Iterator<Item = String> {
        (0..self.on_captures.outputs).map(captures::output)
    }

    /// Classes of which no element runs.
    pub(super) fn stood_in(&self) -> &[String] {
        &self.stood_in
    }

    /// Copies all there is.
    pub(super) fn keep(&self, to: &Path) -> Result<()> {
        let copy = || {
            fs::create_dir_all(to)?;
            for entry in fs::read_dir(self.folder())? {
                let entry = entry?;
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
            Ok::<_, std::io::Error>(())
        };
        copy().with_context(|| format!("cannot copy to {}", to.display()))
    }

    fn write(&self, text: &str) -> Result<()> {
        let path = self.folder().join(FILE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Instructions that print the values of all handlers that can be read and are values.
    fn handlers(&self, programs: &Programs, declarations: &[Declaration]) -> Result<Vec<String>> {
        let mut command = programs.command("click");
        command.args(["-q", "-h", "*.handlers", FILE]).current_dir(self.folder());
        let all = shell::output(&mut command)?;
        let mut instructions = Vec::new();
        let mut element = None;
        for line in all.lines() {
            if let Some(name) = line.strip_suffix(".handlers:") {
                let is_function = |one: &Declaration| FUNCTIONS.contains(&one.class.as_str());
                let found = declarations.iter().find(|one| one.name == name);
                element = Some(name).filter(|_| !found.is_some_and(is_function));
            } else if let (Some(element), Some((handler, "r" | "rw"))) =
                (element, line.split_once('\t'))
                && !VARYING.contains(&handler)
            {
                let name = format!("{element}.{handler}");
                instructions.push(format!("print \"{MARK}{name}\""));
                instructions.push(format!("print {name}"));
            }
        }
        Ok(instructions)
    }
}

/// The class that asks the kernel for routes.
const FOLLOWER: &str = "FollowKernel";

/// Returns the replacement of an element that differs from run to run, or does not end.
fn stand_in(one: &Declaration, all: &[Declaration]) -> Option<String> {
    match one.class.as_str() {
        "InfiniteSource" if !one.arguments.iter().any(|argument| argument.starts_with("LIMIT")) => {
            let arguments = one.arguments.iter().map(String::as_str).chain([LIMIT]);
            Some(format!("InfiniteSource({})", arguments.collect::<Vec<_>>().join(", ")))
        }
        FOLLOWER => Some(connected_routes(one, all)),
        _ => devices::in_sequence(one),
    }
}

/// A script that adds the routes which the kernel would have for the addresses of taps.
fn connected_routes(follower: &Declaration, all: &[Declaration]) -> String {
    let network = |device: &str| {
        let tap = all.iter().find(|one| one.class == "FromHost" && one.first() == device)?;
        tap.arguments.get(1)
    };
    let routes = follower.arguments.iter().skip(1).filter_map(|argument| {
        let mut words = argument.split_whitespace();
        let network = network(words.next()?)?;
        Some(format!("write {}.add {network} {}", follower.first(), words.next()?))
    });
    format!("Script({})", routes.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_and_what_asks_the_kernel_is_replaced() {
        let text = "a :: InfiniteSource; b :: InfiniteSource(LIMIT 3); \
                    c :: FollowKernel(rt, tap0 1 arp, eth9 2, OTHERS 0); \
                    d :: FromHost(tap0, 10.0.0.1/8); e :: Queue;";
        let all = text::declarations(text);
        let stands: Vec<_> = all.iter().map(|one| stand_in(one, &all)).collect();
        let some = |text: &str| Some(text.to_owned());
        let source = some("InfiniteSource(LIMIT 20000)");
        let script = some("Script(write rt.add 10.0.0.1/8 1)");
        assert_eq!(stands, [source, None, script, None, None]);
    }
}
