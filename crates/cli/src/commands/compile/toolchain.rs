//! The Rust toolchain that programs are built by.

use std::{
    env,
    ffi::OsString,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, anyhow, bail};
use linerate_linux::closest;

use crate::exit::UsageError;

/// The oldest compiler that will do.
const LEAST: &str = env!("CARGO_PKG_RUST_VERSION");
const GET_ONE: &str = "get one from https://rustup.rs";

/// The toolchain found.
#[derive(Debug)]
pub(super) struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    /// The machines it makes programs for.
    pub(super) host: String,
    /// The compiler's name of the processor.
    pub(super) processor: String,
    /// Key of builds by one compiler for one processor.
    pub(super) key: String,
}

impl Toolchain {
    /// Finds it, and how it calls the processor `asked` for.
    pub(super) fn find(asked: &str) -> Result<Toolchain> {
        let Some(cargo) = cargo() else { bail!(missing()) };
        let beside = cargo.with_file_name("rustc");
        let rustc = match env::var_os("RUSTC") {
            Some(rustc) => rustc.into(),
            None if beside.is_file() => beside,
            None => "rustc".into(),
        };
        let version = said(&rustc, &["-vV"])?;
        let fact = |name: &str| {
            let line = version.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
                .ok_or_else(|| anyhow!("{} does not say its version", rustc.display()))
        };
        let (release, host) = (fact("release:")?, fact("host:")?);
        if older(&release, LEAST) {
            bail!(
                "the Rust compiler is {release}, and Linerate needs {LEAST} or newer: \
                 `rustup update`, or {GET_ONE}"
            );
        }
        let processors = said(&rustc, &["--print", "target-cpus"])?;
        let processor = processor(&processors, asked)?;
        // The capabilities of a processor, too: "native" is another one on another machine with
        // this home.
        let flag = format!("target-cpu={asked}");
        let capabilities = said(&rustc, &["-C", &flag, "--print", "cfg"])?;
        let mut hasher = DefaultHasher::new();
        (version.as_str(), capabilities.as_str()).hash(&mut hasher);
        let key = format!("{processor}-{:016x}", hasher.finish());
        Ok(Toolchain { cargo, rustc, host, processor, key })
    }

    /// A call of cargo, for the processor.
    pub(super) fn cargo(&self, processor: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        // Those of the user hold, too: there may be a linker to be used.
        let mut flags: Vec<OsString> = match env::var("RUSTFLAGS") {
            Ok(flags) => flags.split_whitespace().map(OsString::from).collect(),
            Err(_) => Vec::new(),
        };
        flags.extend(["-C".into(), format!("target-cpu={processor}").into()]);
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f".as_ref()));
        command.env("RUSTC", &self.rustc);
        // The variables describe the package whose test or task runs this program, if there is one.
        let leaks = |name: &OsString| name.to_string_lossy().starts_with("CARGO_PKG_");
        for (name, _) in env::vars_os().filter(|(name, _)| leaks(name)) {
            command.env_remove(name);
        }
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
        command
    }
}

/// Cargo: the one that has started this program, that in the path, or that of the user.
fn cargo() -> Option<PathBuf> {
    let said = env::var_os("CARGO").map(PathBuf::from);
    let paths = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&paths).map(|folder| folder.join("cargo"));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo")));
    let at_home = home.map(|home| home.join("bin/cargo"));
    said.into_iter().chain(in_path).chain(at_home).find(|path| path.is_file())
}

/// Advice where there is none.
fn missing() -> String {
    let sudo = match env::var_os("SUDO_USER") {
        Some(_) => "; nothing here needs root: compile without sudo, if that user has one",
        None => "",
    };
    format!(
        "there is no Rust toolchain: cargo is not in PATH nor in ~/.cargo/bin. Linerate needs \
         {LEAST} or newer, and a C linker: {GET_ONE}{sudo}"
    )
}

/// The output of the compiler.
fn said(rustc: &Path, arguments: &[&str]) -> Result<String> {
    let name = rustc.display();
    let output = Command::new(rustc).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("there is cargo, but no rustc beside it: {GET_ONE}"),
        _ => anyhow!("cannot start {name}: {error}"),
    })?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{name} {}: {}", arguments.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The compiler's name of the processor asked for, if there is one in its list.
fn processor(list: &str, asked: &str) -> Result<String, UsageError> {
    let lines = || list.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.collect();
    if !names.contains(&asked) {
        let hint = match closest(asked, names.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "`rustc --print target-cpus` lists those there are".into(),
        };
        return Err(UsageError(format!("--target-cpu {asked}: no such processor; {hint}")));
    }
    let of_this_host = lines().find_map(|line| {
        let behind = line.trim_start().strip_prefix("native")?;
        Some(behind.split_once("(currently ")?.1.split_once(')')?.0.trim_end_matches('.'))
    });
    Ok(of_this_host.filter(|_| asked == "native").unwrap_or(asked).to_owned())
}

/// Returns true if a release comes before another.
fn older(release: &str, least: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let plain = text.split(['-', '+']).next().unwrap_or_default();
        plain.split('.').map_while(|number| number.parse().ok()).collect()
    };
    numbers(release) < numbers(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_those_of_the_list() {
        let list = "Available CPUs for this target:\n    \
                    native                  - Select the CPU of the current host (currently znver4).\n    \
                    x86-64\n    x86-64-v3\n    znver4\n";
        assert_eq!(processor(list, "native").unwrap(), "znver4");
        assert_eq!(processor(list, "x86-64-v3").unwrap(), "x86-64-v3");
        let wrong = processor(list, "x86-64-v33").unwrap_err().to_string();
        assert!(wrong.ends_with("did you mean x86-64-v3?"), "{wrong}");
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, is_older) in [
            ("1.90.0", true),
            ("1.91.0", false),
            ("1.100.0", false),
            ("1.91.0-beta.2", false),
            ("2.0.0", false),
            ("0.9", true),
        ] {
            assert_eq!(older(release, "1.91"), is_older, "{release}");
        }
    }
}
