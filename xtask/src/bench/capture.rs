//! Capture files in memory, to read packets from and to write them to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::restore::{RestoreOnDrop, unique_name};
use crate::shell;

/// Packets in the file.
pub(super) const CAPTURED: usize = 1 << 20;

/// Page size of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// As large as a write, as file systems on disks have them, and tmpfs when it is told to
    /// (`huge=within_size`; since Linux 6.14 by the size of each write).
    Large,
    /// 4 KiB each: tmpfs by default.
    Small,
}

/// A folder of a file system in memory, removed at the end.
#[derive(Debug)]
pub(super) struct MemoryFolder {
    path: PathBuf,
    _undo: RestoreOnDrop,
}

impl MemoryFolder {
    /// Mounts a file system of its own.
    pub(super) fn new(pages: Pages) -> Result<MemoryFolder> {
        let path = std::env::temp_dir().join(unique_name());
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let gone = path.clone();
        let undo = RestoreOnDrop::by(move || {
            let _ = Command::new("umount").arg(&gone).status();
            let _ = fs::remove_dir(&gone);
        });
        let option = match pages {
            Pages::Large => "huge=within_size,size=1g",
            Pages::Small => "huge=never,size=1g",
        };
        let mut mount = Command::new("mount");
        shell::output(mount.args(["-t", "tmpfs", "-o", option, "tmpfs"]).arg(&path))?;
        Ok(MemoryFolder { path, _undo: undo })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// A capture of 64-byte packets.
pub(super) fn write_capture(path: &Path) -> Result<()> {
    let mut bytes = Vec::with_capacity(24 + CAPTURED * 80);
    // pcap, microseconds, version 2.4, snaplen 65535, Ethernet.
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for number in 0..CAPTURED as u32 {
        for word in [1_700_000_000 + number / 1_000_000, number % 1_000_000, 64, 64] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0xffu8; 60]);
        bytes.extend(number.to_be_bytes());
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
