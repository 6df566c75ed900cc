//! A results directory: the machine, the experiments that were run, and one
//! line for every point.
//!
//! ```text
//! DIR/machine.json        the machine
//! DIR/points.jsonl        a line per point, appended and flushed as it is measured
//! DIR/experiments/*.toml  the experiments as they were run
//! ```
//!
//! A point without figures is measured again when the chance comes, and then has
//! several lines: the last one counts.
//!
//! A process that dies while it writes leaves a last line without its end, which
//! readers pass over and the next writer cuts off.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Serialize, de::DeserializeOwned};

use crate::point::{Key, Outcome, Record};

/// Name of the file of points.
pub const POINTS: &str = "points.jsonl";
/// Name of the file of the machine.
pub const MACHINE: &str = "machine.json";
/// Name of the folder of experiments.
pub const EXPERIMENTS: &str = "experiments";

/// The reason why a results directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("cannot {action} {path}")]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path}, line {line}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The mistake.
        reason: String,
    },
    /// Another process adds points.
    #[error("{0} is in use: another `linerate lab run` or `lab point` adds points to it")]
    InUse(PathBuf),
    /// Its points were measured on another machine.
    #[error(
        "{path} holds results of another machine ({found}, this is {expected}): \
         choose another directory"
    )]
    OtherMachine {
        /// The directory.
        path: PathBuf,
        /// The machine of its results.
        found: String,
        /// This one.
        expected: String,
    },
}

impl StoreError {
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::File { action, path: path.into(), source }
    }
}

/// A results directory that points are added to. One process at a time has it.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    points: File,
    known: BTreeMap<Key, PointOutcome>,
}

/// Outcome of a point, and the reason why it has no figures.
type PointOutcome = (Outcome, Option<String>);

fn known(record: &Record) -> (Key, PointOutcome) {
    (record.key.clone(), (record.outcome, record.reason.clone()))
}

impl Store {
    /// Opens a directory, or makes it. Its content stays: a run that was interrupted goes on.
    ///
    /// # Errors
    ///
    /// When files cannot be used, another process has it, or there is a line in it that is not a
    /// point.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(dir).map_err(StoreError::file("make", dir))?;
        let path = dir.join(POINTS);
        let points = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(StoreError::file("open", &path))?;
        flock(&points, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
            rustix::io::Errno::WOULDBLOCK => StoreError::InUse(dir.into()),
            errno => StoreError::file("lock", &path)(errno.into()),
        })?;
        let (records, whole) = read_points(&path)?;
        points.set_len(whole).map_err(StoreError::file("repair", &path))?;
        let known = records.iter().map(known).collect();
        Ok(Store { dir: dir.into(), points, known })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The outcome of the point of this key, if it is there.
    pub fn outcome(&self, key: &Key) -> Option<Outcome> {
        self.known.get(key).map(|(outcome, _)| *outcome)
    }

    /// Adds the record of a point, and returns whether it did: figures that are there stay, and an
    /// equal want of them is not noted twice.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn append(&mut self, record: &Record) -> Result<bool, StoreError> {
        let (key, new) = known(record);
        let old = self.known.get(&key);
        if old.is_some_and(|old| old.0 == Outcome::Measured || *old == new) {
            return Ok(false);
        }
        let mut line = serde_json::to_vec(record).expect("records have names for keys");
        line.push(b'\n');
        // In one piece, and no buffer behind it: a measured point is kept.
        let path = self.dir.join(POINTS);
        self.points.write_all(&line).map_err(StoreError::file("write", &path))?;
        self.known.insert(key, new);
        Ok(true)
    }

    /// Writes a file of the directory beside its points, replacing it in one
    /// step.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), StoreError> {
        let path = self.dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(StoreError::file("make", parent))?;
        }
        let fresh = path.with_added_extension("new");
        fs::write(&fresh, contents).map_err(StoreError::file("write", &fresh))?;
        fs::rename(&fresh, &path).map_err(StoreError::file("write", &path))
    }

    /// As [`Store::write`], of a value as JSON.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let mut text = serde_json::to_string_pretty(value).expect("values have names for keys");
        text.push('\n');
        self.write(name, text.as_bytes())
    }
}

/// The points of a directory, each by its last line, oldest first. A last line
/// without its end is passed over.
///
/// # Errors
///
/// When the file cannot be read or holds a line that is not a point.
pub fn read(dir: &Path) -> Result<Vec<Record>, StoreError> {
    let (mut records, _) = read_points(&dir.join(POINTS))?;
    let mut seen = BTreeSet::new();
    records.reverse();
    records.retain(|record| seen.insert(record.key.clone()));
    records.reverse();
    Ok(records)
}

/// A JSON file of a directory.
///
/// # Errors
///
/// When it cannot be read or holds something else.
pub fn read_json<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<T, StoreError> {
    let path = dir.join(name);
    let text = fs::read_to_string(&path).map_err(StoreError::file("read", &path))?;
    serde_json::from_str(&text).map_err(|error| StoreError::Content {
        line: error.line(),
        reason: error.to_string(),
        path,
    })
}

/// The records of a file, and the bytes of its whole lines.
fn read_points(path: &Path) -> Result<(Vec<Record>, u64), StoreError> {
    let bytes = fs::read(path).map_err(StoreError::file("read", path))?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut records = Vec::new();
    for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        let wrong = |reason| StoreError::Content { path: path.into(), line: index + 1, reason };
        let record: Record =
            serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
        if record.key != record.spec.key() {
            return Err(wrong(format!(
                "the key {} is not that of its spec, {}",
                record.key,
                record.spec.key()
            )));
        }
        records.push(record);
    }
    Ok((records, whole as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Outcome, Point, Spec, Values, Walk};

    fn record(bytes: u64) -> Record {
        let kind = Point::Walk(Walk { bytes, pages: Default::default(), chains: 1 });
        let values = Values::from([("latency_ns".into(), 0.1 + bytes as f64)]);
        Record::new(Spec::new(kind), "walk", "m", (Outcome::Measured, None, values))
    }

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn points_are_kept_once_and_read_as_written() {
        let dir = directory();
        let mut store = Store::open(dir.path()).unwrap();
        for bytes in [1, 2, 1] {
            store.append(&record(bytes)).unwrap();
        }
        assert_eq!(store.outcome(&record(2).key), Some(Outcome::Measured));
        assert_eq!(store.outcome(&record(3).key), None);
        drop(store);
        let read = read(dir.path()).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[1].value("latency_ns"), Some(2.1));
        let mut store = Store::open(dir.path()).unwrap();
        assert!(!store.append(&record(2)).unwrap());
        assert!(store.append(&record(3)).unwrap());
    }

    #[test]
    fn a_point_without_figures_gives_way_to_one_with() {
        let without = |outcome, reason: &str| Record {
            outcome,
            reason: Some(reason.into()),
            values: Values::new(),
            ..record(1)
        };
        let dir = directory();
        let mut store = Store::open(dir.path()).unwrap();
        store.append(&record(2)).unwrap();
        assert!(store.append(&without(Outcome::Void, "held up")).unwrap());
        assert!(!store.append(&without(Outcome::Void, "held up")).unwrap());
        assert!(store.append(&without(Outcome::Unsupported, "no root")).unwrap());
        drop(store);
        let found = |dir: &Path| -> Vec<Outcome> {
            read(dir).unwrap().iter().map(|record| record.outcome).collect()
        };
        assert_eq!(found(dir.path()), [Outcome::Measured, Outcome::Unsupported]);
        let mut store = Store::open(dir.path()).unwrap();
        assert_eq!(store.outcome(&record(1).key), Some(Outcome::Unsupported));
        assert!(store.append(&record(1)).unwrap());
        assert!(!store.append(&without(Outcome::Void, "held up")).unwrap());
        assert_eq!(found(dir.path()), [Outcome::Measured; 2]);
    }

    #[test]
    fn a_torn_line_is_passed_over_and_cut_off() {
        let dir = directory();
        let mut store = Store::open(dir.path()).unwrap();
        store.append(&record(1)).unwrap();
        store.append(&record(2)).unwrap();
        drop(store);
        let path = dir.path().join(POINTS);
        let length = fs::metadata(&path).unwrap().len();
        for cut in [1, 20, 200] {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(length - cut).unwrap();
            assert_eq!(read(dir.path()).unwrap().len(), 1, "{cut}");
            let mut store = Store::open(dir.path()).unwrap();
            assert_eq!(store.outcome(&record(2).key), None);
            store.append(&record(2)).unwrap();
            drop(store);
            assert_eq!(read(dir.path()).unwrap().len(), 2);
        }
    }

    #[test]
    fn lines_without_a_point_are_refused_by_number() {
        let dir = directory();
        let path = dir.path().join(POINTS);
        let mut forged = record(1);
        forged.key = Key::for_text("");
        let lines = ["{}\n".to_owned(), serde_json::to_string(&forged).unwrap() + "\n"];
        let good = serde_json::to_string(&record(1)).unwrap();
        for line in lines {
            fs::write(&path, format!("{good}\n{line}")).unwrap();
            let error = Store::open(dir.path()).unwrap_err().to_string();
            assert!(error.contains("points.jsonl, line 2: "), "{error}");
        }
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = directory();
        let first = Store::open(dir.path()).unwrap();
        assert!(matches!(Store::open(dir.path()), Err(StoreError::InUse(_))));
        drop(first);
        Store::open(dir.path()).unwrap();
    }

    #[test]
    fn files_beside_the_points() {
        let dir = directory();
        let store = Store::open(dir.path()).unwrap();
        store.write_json(MACHINE, &["a"]).unwrap();
        store.write("experiments/x.toml", b"name = 'x'").unwrap();
        let value: Vec<String> = read_json(dir.path(), MACHINE).unwrap();
        assert_eq!(value, ["a"]);
        assert!(read_json::<u8>(dir.path(), MACHINE).is_err());
        assert!(read_json::<u8>(dir.path(), "no.json").is_err());
    }
}
