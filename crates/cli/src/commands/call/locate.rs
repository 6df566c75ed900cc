//! Look-up of control sockets, and of the tokens beside them, for clients.
//!
//! A word is the name of an instance of this account, else of root's. Only the account that owns a runtime
//! directory makes entries in it, so another account cannot take a name.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use linerate_linux::RuntimeDirectory;
use rustix::fs::{Mode, OFlags};

use crate::{
    control::{SOCKET_SUFFIX, TOKEN_SUFFIX, port_of_token, token_file_name},
    control_address::is_listened_at,
    exit::UsageError,
};

/// Bytes of the longest token file.
const LONGEST: u64 = 4096;
/// Permission bits of other accounts.
const OTHERS: u32 = 0o077;

/// The address of a control socket, as on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A UNIX socket by its path.
    Path(PathBuf),
    /// An instance by its name.
    Named(String),
    /// A host, or nothing for this one, and a port.
    Tcp { host: String, port: String },
}

impl Address {
    pub(super) fn parse(text: &str) -> Address {
        if text.contains('/') {
            return Address::Path(text.into());
        }
        let tcp = |host: &str, port: &str| Address::Tcp { host: host.into(), port: port.into() };
        match text.rsplit_once(':') {
            Some((host, port)) => {
                let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                tcp(bare.unwrap_or(host), port)
            }
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => tcp("", text),
            None => Address::Named(text.into()),
        }
    }
}

/// The runtime directories in which names are looked up, that of this account first.
fn directories() -> Result<Vec<RuntimeDirectory>> {
    let mut directories: Vec<RuntimeDirectory> = RuntimeDirectory::open()?.into_iter().collect();
    // An unusable directory of root's is skipped.
    if let Ok(Some(root)) = RuntimeDirectory::of_root()
        && !directories.contains(&root)
    {
        directories.push(root);
    }
    Ok(directories)
}

/// The socket of an instance.
///
/// # Errors
///
/// When no instance has this name: the error lists the instances.
pub(super) fn socket(name: &str) -> Result<PathBuf> {
    if !RuntimeDirectory::is_name(name) {
        return Err(UsageError(format!(
            "{name} is not an address: write the name of an instance, a path with a slash, a TCP \
             port, or HOST:PORT"
        ))
        .into());
    }
    let directories = directories()?;
    for directory in &directories {
        let path = directory.path().join(format!("{name}{SOCKET_SUFFIX}"));
        if is_socket(&path) {
            return Ok(path);
        }
    }
    let known = instances().unwrap_or_default();
    let advice = if known.is_empty() {
        "none runs with --control".to_owned()
    } else {
        format!("there are: {}", known.join(", "))
    };
    let reason = format!("no instance is called {name}; {advice}");
    Err(io::Error::new(io::ErrorKind::NotFound, reason).into())
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// The names of instances, and the TCP ports of those that have one with a token made for it.
pub(super) fn instances() -> Result<Vec<String>> {
    let mut all = Vec::new();
    for directory in directories()? {
        let sockets = directory.names(SOCKET_SUFFIX)?.into_iter();
        all.extend(sockets.filter(|name| {
            is_listened_at(&directory.path().join(format!("{name}{SOCKET_SUFFIX}")))
        }));
        let tokens = directory.names(TOKEN_SUFFIX)?;
        all.extend(
            tokens.iter().filter_map(|name| port_of_token(name)).map(|port| port.to_string()),
        );
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The token that was made for a TCP port of this host, if there is one.
///
/// # Errors
///
/// When its file cannot be trusted.
pub(super) fn token(port: u16) -> Result<Option<String>> {
    for directory in directories()? {
        let path = directory.path().join(token_file_name(port));
        match read_token(&path) {
            Ok(None) => {}
            Ok(token) => return Ok(token),
            // Root's, for another account.
            Err(error) if is(&error, io::ErrorKind::PermissionDenied) => {}
            Err(error) => {
                return Err(error.context(format!("cannot use the token in {}", path.display())));
            }
        }
    }
    Ok(None)
}

fn is(error: &anyhow::Error, kind: io::ErrorKind) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == kind)
}

/// Reads a token; `None` if there is no file, or its process has ended.
fn read_token(path: &Path) -> Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
        bail!("it is not a file of this account: remove it");
    }
    if about.mode() & OTHERS != 0 {
        bail!("other accounts may have read it: remove it, and start the program anew");
    }
    // The process has the file under another name for as long as it lives.
    if about.nlink() < 2 {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).context("it has no text")?;
    Ok(Some(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let tcp = |host: &str, port: &str| Address::Tcp { host: host.into(), port: port.into() };
        for (text, address) in [
            ("7777", tcp("", "7777")),
            ("host:7777", tcp("host", "7777")),
            ("[::1]:7777", tcp("::1", "7777")),
            ("./7777", Address::Path("./7777".into())),
            ("/run/a:1", Address::Path("/run/a:1".into())),
            ("router", Address::Named("router".into())),
            ("7777x", Address::Named("7777x".into())),
        ] {
            assert_eq!(Address::parse(text), address, "{text}");
        }
    }

    #[test]
    fn a_token_is_of_a_living_process_and_of_this_account_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [own, link, symlink] = ["own", "link", "symlink"].map(|name| folder.path().join(name));
        assert_eq!(read_token(&link).unwrap(), None);
        fs::write(&own, "secret\n").unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&own, &link).unwrap();
        assert_eq!(read_token(&link).unwrap().as_deref(), Some("secret"));
        std::os::unix::fs::symlink(&own, &symlink).unwrap();
        assert!(read_token(&symlink).is_err());
        fs::set_permissions(&own, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_token(&link).unwrap_err().to_string().contains("may have read it"));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(&own).unwrap();
        assert_eq!(read_token(&link).unwrap(), None);
    }
}
