//! Files for tests.

use std::{fs, path::PathBuf};

/// A directory of a test's own, removed with everything in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let name = format!("linerate-elements-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory for temporary files");
        Scratch(path)
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One of the captures that other programs made.
pub(super) fn capture(name: &str) -> String {
    format!("{}/../port/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A capture of many kinds of packets, or what Click made of it.
pub(super) fn data(name: &str) -> String {
    format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"))
}
