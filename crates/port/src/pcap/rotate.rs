//! Rotation: what is written is split over several files, of which only the newest may be kept.
//!
//! Files are named as dumpcap names them: `trace.pcapng` becomes
//! `trace_00001_20260131235959.pcapng`, the number counting files and the time, in UTC, being that of
//! the first record. Time is that of the records, so the same packets give the same files.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{Error, Fault};
use super::writer::{Counts, Options, Writer};

/// What a record takes beside its bytes and what may follow the last one, in the larger of the two
/// formats: a packet block's fixed parts and the statistics block. So a size limit is never exceeded.
const OVERHEAD: u64 = 32 + 76;

/// When a new file is begun. A file gets at least one record whatever the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Before a file would become larger than this many bytes.
    pub bytes: Option<u64>,
    /// When a record is this much or more after the first of its file.
    pub duration: Option<Duration>,
    /// When a file has this many records.
    pub records: Option<u64>,
    /// Keep only this many files: the oldest is removed.
    pub files: Option<NonZeroUsize>,
}

/// Writes a sequence of capture files.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    options: Options,
    limits: Limits,
    current: Option<Current>,
    /// Files begun so far.
    number: u64,
    /// Finished files that are to be kept at most, oldest first. Empty if all are kept.
    kept: VecDeque<PathBuf>,
    records: u64,
    counts: Option<Counts>,
}

#[derive(Debug)]
struct Current {
    writer: Writer,
    first_ts: u64,
}

impl Rotating {
    /// Prepares to write files named after `path`. The first is created with the first record.
    ///
    /// # Errors
    ///
    /// The directory does not exist, `path` is standard output, or nothing limits a file.
    pub fn create(
        path: impl Into<PathBuf>,
        options: Options,
        limits: Limits,
    ) -> Result<Self, Error> {
        let path = path.into();
        let refuse = |reason| Err(Error::new(&path, Fault::Rotation { reason }));
        if path == Path::new("-") {
            return refuse("standard output cannot be split; name a file");
        }
        if (Limits { files: None, ..limits }) == Limits::default() {
            return refuse("to keep the newest files, set a limit for each: size, time or packets");
        }
        // Told now, not when the first packet has come.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let found = std::fs::metadata(directory.unwrap_or(Path::new(".")));
        if let Err(source) = found {
            return Err(Error::new(&path, Fault::Open(source)));
        }
        Ok(Self {
            path,
            options,
            limits,
            current: None,
            number: 0,
            kept: VecDeque::new(),
            records: 0,
            counts: None,
        })
    }

    /// Writes one packet, to a new file if a limit of the current one is reached.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`] and [`Writer::write`].
    pub fn write(&mut self, ts_ns: u64, orig_len: u32, data: &[u8]) -> Result<(), Error> {
        if self.current.as_ref().is_some_and(|current| self.is_full(current, ts_ns, data.len())) {
            self.end_file()?;
        }
        let current = match &mut self.current {
            Some(current) => current,
            none => {
                self.number += 1;
                let name = file_name(&self.path, self.number, ts_ns);
                let writer = Writer::create(&name, &self.options)?;
                if let Some(files) = self.limits.files {
                    self.kept.push_back(name);
                    while self.kept.len() > files.get() {
                        if let Some(oldest) = self.kept.pop_front() {
                            // Somebody else may have moved it away: then there is nothing to do.
                            let _ = std::fs::remove_file(oldest);
                        }
                    }
                }
                none.insert(Current { writer, first_ts: ts_ns })
            }
        };
        current.writer.write(ts_ns, orig_len, data)?;
        self.records += 1;
        Ok(())
    }

    fn is_full(&self, current: &Current, ts_ns: u64, length: usize) -> bool {
        let next = length.next_multiple_of(4) as u64 + OVERHEAD;
        let Limits { bytes, duration, records, .. } = self.limits;
        let age = Duration::from_nanos(ts_ns.saturating_sub(current.first_ts));
        bytes.is_some_and(|limit| current.writer.bytes() + next > limit)
            || duration.is_some_and(|limit| age >= limit)
            || records.is_some_and(|limit| current.writer.records() >= limit)
    }

    fn end_file(&mut self) -> Result<(), Error> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if let Some(counts) = self.counts {
            current.writer.set_counts(counts);
        }
        current.writer.finish().map(|_| ())
    }

    /// Sets the port's counts so far, which every pcapng file finished from now on carries.
    pub fn set_counts(&mut self, counts: Counts) {
        self.counts = Some(counts);
    }

    /// Hands everything collected to the operating system.
    ///
    /// # Errors
    ///
    /// As [`Writer::flush`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.current.as_mut().map_or(Ok(()), |current| current.writer.flush())
    }

    /// Completes the current file. Returns how many files were begun.
    ///
    /// # Errors
    ///
    /// As [`Writer::finish`].
    pub fn finish(mut self) -> Result<u64, Error> {
        self.end_file()?;
        Ok(self.number)
    }

    /// Records written, to all files.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The file being written, once there is one.
    pub fn file(&self) -> Option<&Path> {
        self.current.as_ref().map(|current| current.writer.file())
    }
}

/// `dir/stem_NNNNN_YYYYMMDDhhmmss.ext`.
fn file_name(path: &Path, number: u64, ts_ns: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("_{number:05}_{}", utc(ts_ns / 1_000_000_000)));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// A time as `YYYYMMDDhhmmss` in UTC.
///
/// Civil date from days after Howard Hinnant, "chrono-compatible low-level date algorithms": years
/// start in March, so that the leap day is the last of its year.
fn utc(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        // Checked with: date -u -d @SECONDS +%Y%m%d%H%M%S
        let cases = [
            (0, "19700101000000"),
            (951_782_399, "20000228235959"),
            (951_782_400, "20000229000000"),
            (951_868_800, "20000301000000"),
            (1_700_000_000, "20231114221320"),
            (4_107_542_399, "21000228235959"),
            (4_107_542_400, "21000301000000"),
            (18_446_744_073, "25540721233433"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn names_keep_directory_and_extension() {
        let name = |path: &str| file_name(Path::new(path), 7, 0);
        assert_eq!(name("/a/b.c/t.pcapng"), Path::new("/a/b.c/t_00007_19700101000000.pcapng"));
        assert_eq!(name("trace"), Path::new("trace_00007_19700101000000"));
    }
}
