//! The folder in which programs find our library by libpcap's names.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use linerate_linux::RuntimeDirectory;

/// The name of the library as cargo builds it.
const BUILT: &str = "liblinerate_pcap.so";
/// The names by which programs ask for libpcap, and its file has in our folder.
pub(super) const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];

/// The folder that belongs to this program: where both were built, or where both are installed.
pub(super) fn find() -> Result<PathBuf> {
    let program = env::current_exe().context("this program's own file")?;
    let here = program.parent().unwrap_or(Path::new("/"));
    // Installed beside it, or below the prefix that it is in.
    let installed = ["pcap", "../pcap", "../lib/linerate/pcap", "../../lib/linerate/pcap"];
    for place in installed {
        let folder = here.join(place);
        if folder.join(NAMES[0]).exists() {
            return Ok(folder);
        }
    }
    // The library built with this program is in `deps`; one built alone is beside the program.
    for place in [here.join("deps").join(BUILT), here.join(BUILT)] {
        if place.exists() {
            return for_library(&place);
        }
    }
    bail!(
        "there is no {BUILT} beside {} or where it is installed: build it with `cargo build --release \
         -p linerate-pcap`, or name it with --library",
        program.display(),
    )
}

/// A folder in which a library has the names of libpcap: its own, or one that is made in this account's
/// runtime directory.
pub(super) fn for_library(library: &Path) -> Result<PathBuf> {
    let library = fs::canonicalize(library)
        .with_context(|| format!("cannot use the library {}", library.display()))?;
    let beside = library.parent().unwrap_or(Path::new("/"));
    let is_it = |name: &str| beside.join(name).canonicalize().is_ok_and(|file| file == library);
    if is_it(NAMES[0]) {
        return Ok(beside.into());
    }
    let advice = || {
        format!(
            "there is no folder for links to {}: name one with --library that has it as {}",
            library.display(),
            NAMES[0],
        )
    };
    let runtime = RuntimeDirectory::create().with_context(advice)?;
    linked(&library, &runtime.path().join("pcap"))
}

/// A folder of a library's own among those of others, with links to it by libpcap's names.
fn linked(library: &Path, folders: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let folder = folders.join(format!("{:016x}", hasher.finish()));
    let make = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        for name in NAMES {
            let link = folder.join(name);
            if fs::read_link(&link).is_ok_and(|to| to == library) {
                continue;
            }
            // Another program may do the same: the last one's stays.
            let fresh = folder.join(format!(".{name}.{}", std::process::id()));
            symlink(library, &fresh)?;
            fs::rename(&fresh, &link)?;
        }
        Ok(())
    };
    make().with_context(|| format!("cannot make links to the library in {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library installed under another name is found under the names that programs ask for, and nothing is
    /// written beside it.
    #[test]
    fn a_library_gets_the_names_that_programs_ask_for() {
        let scratch = tempfile::tempdir().unwrap();
        let (ours, folders) = (scratch.path().join("built"), scratch.path().join("links"));
        fs::create_dir(&ours).unwrap();
        let library = ours.join("any.so");
        fs::write(&library, "").unwrap();
        for _ in 0..2 {
            let folder = linked(&library, &folders).unwrap();
            for name in NAMES {
                assert_eq!(fs::canonicalize(folder.join(name)).unwrap(), library);
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), NAMES.len());
        }
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 1);
        // One that has the names needs no others.
        symlink(&library, ours.join(NAMES[0])).unwrap();
        assert_eq!(for_library(&library).unwrap(), ours);
        assert!(for_library(Path::new("/nonesuch.so")).is_err());
    }
}
