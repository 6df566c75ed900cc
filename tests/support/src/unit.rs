//! Programs run as a unit of systemd: with its user, group, umask, capabilities and directories, by
//! `setpriv` and without systemd.
//!
//! All of it is read from the unit's file, so that a test and a unit cannot drift apart. Settings
//! that only systemd can apply (its sandbox, `SystemCallFilter=`, notification) are left out.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of configurations and environment files in units.
const CONFIGURATIONS: &str = "/etc/linerate";
/// The program in units.
const PROGRAM: &str = "/usr/lib/linerate/linerate";

/// Substitutes for the paths and users that units name.
#[derive(Debug, Clone)]
pub struct Stage {
    /// In the place of the installed program.
    pub program: PathBuf,
    /// In the place of `/run`; it and the others must be reachable for the user.
    pub runtime: PathBuf,
    /// In the place of `/var/lib`.
    pub state: PathBuf,
    /// In the place of `/etc/linerate`.
    pub configurations: PathBuf,
    /// The number of the unit's user.
    pub user: u32,
    /// The number of the unit's group.
    pub group: u32,
}

/// A template unit.
#[derive(Debug, Clone)]
pub struct Unit {
    settings: Vec<(String, String)>,
}

impl Unit {
    /// Reads a unit's file.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    #[track_caller]
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let settings = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '[']));
        let split =
            |line: &str| line.split_once('=').map(|(key, value)| (key.into(), value.into()));
        Self { settings: settings.filter_map(split).collect() }
    }

    /// The value of a setting, if it is there.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let mut values = self.settings.iter().filter(|(name, _)| name == key);
        values.next_back().map(|(_, value)| value.as_str())
    }

    /// The command of an instance; its directories are made. Variables are those of its environment
    /// file.
    ///
    /// # Panics
    ///
    /// When directories cannot be made, or the unit has no `ExecStart=`.
    #[track_caller]
    #[must_use]
    pub fn command(&self, instance: &str, variables: &[(&str, &str)], stage: &Stage) -> Command {
        let line = self.value("ExecStart").expect("a service has a command");
        let words = self.words(line, instance, variables, stage);
        let directory = |key: &str, parent: &Path| {
            let name = self.value(key)?.replace("%i", instance);
            let mode = self.value(&format!("{key}Mode")).unwrap_or("0755");
            let mode = u32::from_str_radix(mode, 8).expect("modes are octal");
            let path = parent.join(name);
            make_directory(&path, mode, stage);
            Some(path)
        };
        directory("RuntimeDirectory", &stage.runtime);
        let state = directory("StateDirectory", &stage.state);

        let capabilities = |key: &str| {
            let names = self.value(key).unwrap_or_default().split_whitespace();
            let names = names.map(|name| name.trim_start_matches("CAP_").to_lowercase());
            names.fold("-all".to_owned(), |all, name| format!("{all},+{name}"))
        };
        let ambient = capabilities("AmbientCapabilities");
        let mut command = Command::new("sh");
        // Limits are raised before the right to do so is given up.
        let limit = if self.value("LimitMEMLOCK") == Some("infinity") {
            "ulimit -l unlimited 2>/dev/null; "
        } else {
            ""
        };
        let umask = self.value("UMask").unwrap_or("0022");
        command.args(["-c", &format!("{limit}umask {umask}; exec \"$@\""), "sh", "setpriv"]);
        command.args(["--reuid", &stage.user.to_string(), "--regid", &stage.group.to_string()]);
        command.args(["--clear-groups", "--inh-caps", &ambient, "--ambient-caps", &ambient]);
        command.args(["--bounding-set", &capabilities("CapabilityBoundingSet")]);
        if self.value("NoNewPrivileges") == Some("yes") {
            command.arg("--no-new-privs");
        }
        command.args(words).env_remove("XDG_RUNTIME_DIR");
        command.envs(variables.iter().copied());
        if let Some(state) = state {
            command.current_dir(state);
        }
        command
    }

    /// The words of a command, with specifiers and variables in their places.
    fn words(
        &self,
        line: &str,
        instance: &str,
        variables: &[(&str, &str)],
        stage: &Stage,
    ) -> Vec<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = Vec::new();
        for word in line.split_whitespace() {
            // An argument of its own is split; within one a variable is not.
            if let Some(name) = word.strip_prefix('$').filter(|rest| !rest.starts_with('{')) {
                let value = variables.iter().find(|(known, _)| *known == name);
                words.extend(
                    value.iter().flat_map(|(_, value)| value.split_whitespace()).map(str::to_owned),
                );
                continue;
            }
            let mut word = word.replace("%i", instance).replace("%t", &path(&stage.runtime));
            for (name, value) in variables {
                word = word.replace(&format!("${{{name}}}"), value);
            }
            if word == PROGRAM {
                word = path(&stage.program);
            } else if let Some(rest) = word.strip_prefix(CONFIGURATIONS) {
                word = path(&stage.configurations) + rest;
            } else if word.starts_with("/run/") {
                word = word.replacen("/run", &path(&stage.runtime), 1);
            }
            words.push(word);
        }
        words
    }
}

/// Makes a directory as systemd does: parents are root's and for all.
fn make_directory(path: &Path, mode: u32, stage: &Stage) {
    let parent = path.parent().expect("it is below another");
    fs::DirBuilder::new().recursive(true).mode(0o755).create(parent).expect("a parent directory");
    let _ = fs::create_dir(path);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    chown(path, Some(stage.user), Some(stage.group)).expect("its owner: needs root");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_unit() {
        let folder = std::env::temp_dir().join(format!("linerate-unit-{}", std::process::id()));
        fs::write(
            &folder,
            "# A comment=x\n[Service]\nExecStart=/usr/lib/linerate/linerate run --control %t/a/%i/c $OPTIONS \
             /run/b/${CLUSTER}/s /etc/linerate/%i.click\nUMask=0007\n",
        )
        .unwrap();
        let unit = Unit::read(&folder);
        fs::remove_file(folder).unwrap();
        assert_eq!(unit.value("UMask"), Some("0007"));
        assert_eq!(unit.value("A comment"), None);
        let stage = Stage {
            program: "/p".into(),
            runtime: "/r".into(),
            state: "/s".into(),
            configurations: "/e".into(),
            user: 1,
            group: 2,
        };
        let line = unit.value("ExecStart").unwrap();
        let variables = [("OPTIONS", "-q --json"), ("CLUSTER", "ids")];
        assert_eq!(
            unit.words(line, "x", &variables, &stage).join(" "),
            "/p run --control /r/a/x/c -q --json /r/b/ids/s /e/x.click"
        );
        assert_eq!(unit.words("a $OPTIONS b", "x", &[], &stage), ["a", "b"]);
    }
}
