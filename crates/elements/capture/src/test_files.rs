//! Files that tests read.

/// Returns the path of a capture made by another program.
pub(crate) fn capture(name: &str) -> String {
    format!("{}/../../io/port/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A capture of many kinds of packets, or Click's output for it.
pub(crate) fn data(name: &str) -> String {
    format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"))
}
