//! Rotation: the records written are split over several files, of which only the newest may be
//! kept.
//!
//! Files are named as dumpcap names them: `trace.pcapng` becomes
//! `trace_00001_20260131235959.pcapng`, the number counting files and the time, in UTC, being that of
//! the first record; or as tcpdump names them ([`Naming`]). Time is that of the records, so the same
//! packets give the same files.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_linux::time::strftime;

use super::error::{Error, Fault};
use super::writer::{Counts, Options, Writer};

/// Bytes of a record beside its packet and of the blocks that may follow the last one, in the
/// larger of the two formats: a packet block's fixed parts and the statistics block. So a size
/// limit is never exceeded.
const OVERHEAD: u64 = 32 + 76;

/// Names of the files, and with that the treatment of old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// By a number and a time between the name and its extension. Old files are removed.
    #[default]
    Dumpcap,
    /// By a number behind the name, from the second file on, or, with as many digits for all as
    /// needed, from the first where only some are kept: then these are begun anew, from 0 on. With
    /// a duration the name is a format of strftime(3) besides, and numbers begin anew with each
    /// span of time; numbers are there where there is a size as well. A file that has a name
    /// already is replaced.
    Tcpdump,
}

/// Limits at which a new file is begun. A file gets at least one record with any limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Before a file would become larger than this many bytes; as tcpdump does it, when one is.
    pub bytes: Option<u64>,
    /// When a record is this much or more after the first of its file; as tcpdump does it, after
    /// the first record of all files since time last began a new one.
    pub duration: Option<Duration>,
    /// When a file has this many records.
    pub records: Option<u64>,
    /// Keep only this many files.
    pub files: Option<NonZeroUsize>,
    /// Naming of the files.
    pub naming: Naming,
}

impl Limits {
    /// Returns true if anything limits a file.
    fn are_set(self) -> bool {
        self.bytes.is_some() || self.duration.is_some() || self.records.is_some()
    }
}

/// Writes a sequence of capture files.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    options: Options,
    limits: Limits,
    current: Option<Writer>,
    /// Files begun so far.
    number: u64,
    /// The number in the name of the current file, as tcpdump counts.
    count: u64,
    /// The time of the first record since time last began a new file.
    since: Option<u64>,
    /// Finished files that are to be kept at most, oldest first. Empty if all are kept.
    kept: VecDeque<PathBuf>,
    records: u64,
    counts: Option<Counts>,
}

impl Rotating {
    /// Prepares to write files named after `path`. The first is created with the first record, or,
    /// where its name does not say when that was, at once.
    ///
    /// # Errors
    ///
    /// The directory does not exist, `path` is standard output, nothing limits a file, or the first
    /// cannot be created.
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
        if !limits.are_set() {
            return refuse("to keep the newest files, set a limit for each: size, time or packets");
        }
        // Told now, not when the first packet has come.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        // Which directory it is, time may say.
        let is_named = limits.naming == Naming::Dumpcap || limits.duration.is_none();
        if (is_named || !directory.to_string_lossy().contains('%'))
            && let Err(source) = std::fs::metadata(directory)
        {
            return Err(Error::new(&path, Fault::Open(source)));
        }
        let mut files = Self::named(path, options, limits);
        if limits.naming == Naming::Tcpdump && limits.duration.is_none() {
            files.current = Some(files.begin(0)?);
        }
        Ok(files)
    }

    /// Files named after `path`, of which there is none yet.
    fn named(path: PathBuf, options: Options, limits: Limits) -> Self {
        Self {
            path,
            options,
            limits,
            current: None,
            number: 0,
            count: 0,
            since: None,
            kept: VecDeque::new(),
            records: 0,
            counts: None,
        }
    }

    /// Writes one packet, to a new file if a limit of the current one is reached.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`] and [`Writer::write`].
    pub fn write(&mut self, ts_ns: u64, orig_len: u32, data: &[u8]) -> Result<(), Error> {
        let is_full =
            |writer: &Writer| writer.records() > 0 && self.is_full(writer, ts_ns, data.len());
        if self.current.as_ref().is_some_and(is_full) {
            self.end_file()?;
        }
        if self.current.is_none() {
            self.current = Some(self.begin(ts_ns)?);
        }
        if let Some(writer) = &mut self.current {
            writer.write(ts_ns, orig_len, data)?;
            self.records += 1;
        }
        Ok(())
    }

    fn is_full(&self, writer: &Writer, ts_ns: u64, length: usize) -> bool {
        let Limits { bytes, records, naming, .. } = self.limits;
        let next = match naming {
            Naming::Dumpcap => length.next_multiple_of(4) as u64 + OVERHEAD,
            Naming::Tcpdump => 0,
        };
        bytes.is_some_and(|limit| writer.bytes() + next > limit)
            || self.is_over(ts_ns)
            || records.is_some_and(|limit| writer.records() >= limit)
    }

    /// Returns true if it is time for a new file.
    fn is_over(&self, ts_ns: u64) -> bool {
        let since = self.since.unwrap_or(ts_ns);
        let age = Duration::from_nanos(ts_ns.saturating_sub(since));
        self.limits.duration.is_some_and(|limit| age >= limit)
    }

    /// Begins a file with a record of this time.
    fn begin(&mut self, ts_ns: u64) -> Result<Writer, Error> {
        let path = match self.limits.naming {
            Naming::Dumpcap => {
                self.since = Some(ts_ns);
                file_name(&self.path, self.number + 1, ts_ns)
            }
            Naming::Tcpdump => {
                self.count_file(ts_ns);
                self.tcpdump_name()?
            }
        };
        let writer = Writer::create(&path, &self.options)?;
        self.number += 1;
        if let (Some(files), Naming::Dumpcap) = (self.limits.files, self.limits.naming) {
            self.kept.push_back(path);
            while self.kept.len() > files.get() {
                if let Some(oldest) = self.kept.pop_front() {
                    // It may have been moved away by another program: then there is nothing to do.
                    let _ = std::fs::remove_file(oldest);
                }
            }
        }
        Ok(writer)
    }

    /// Gives the next file its number, as tcpdump does.
    fn count_file(&mut self, ts_ns: u64) {
        if self.since.is_none() || self.is_over(ts_ns) {
            (self.since, self.count) = (Some(ts_ns), 0);
            return;
        }
        self.count += 1;
        if self.limits.files.is_some_and(|files| self.count >= files.get() as u64) {
            self.count = 0;
        }
    }

    /// The name of the file with the current number.
    fn tcpdump_name(&self) -> Result<PathBuf, Error> {
        let Limits { bytes, duration, records, files, .. } = self.limits;
        let mut name = self.path.clone().into_os_string();
        if let (Some(_), Some(format)) = (duration, self.path.to_str()) {
            let seconds = self.since.unwrap_or(0) / 1_000_000_000;
            let reason = "with its time the file's name is empty, or too long";
            let text = strftime(format, seconds);
            name = text.ok_or_else(|| Error::new(&self.path, Fault::Rotation { reason }))?.into();
        }
        // As many digits as the last of the files needs.
        let last = files.map_or(0, |files| files.get() - 1);
        let width = if last > 0 { last.to_string().len() } else { 0 };
        if (bytes.is_some() || records.is_some()) && (self.count > 0 || width > 0) {
            name.push(format!("{:0width$}", self.count));
        }
        Ok(name.into())
    }

    fn end_file(&mut self) -> Result<(), Error> {
        let Some(mut writer) = self.current.take() else { return Ok(()) };
        if let Some(counts) = self.counts {
            writer.set_counts(counts);
        }
        writer.finish().map(|_| ())
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
        self.current.as_mut().map_or(Ok(()), Writer::flush)
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
        self.current.as_ref().map(Writer::file)
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
    use crate::pcap::Format;

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

    /// The names of files that are begun at these seconds.
    fn named(path: &str, limits: Limits, times: &[u64]) -> Vec<String> {
        let options = Options::new(Format::Pcap);
        let limits = Limits { naming: Naming::Tcpdump, ..limits };
        let mut files = Rotating::named(path.into(), options, limits);
        let mut names = Vec::new();
        for time in times {
            files.count_file(time * 1_000_000_000);
            names.push(files.tcpdump_name().unwrap().into_os_string().into_string().unwrap());
        }
        names
    }

    #[test]
    fn names_are_those_of_tcpdump() {
        let bytes = Limits { bytes: Some(1), ..Limits::default() };
        let ring = |files| Limits { files: NonZeroUsize::new(files), ..bytes };
        assert_eq!(named("t.pcap", bytes, &[0; 12])[..3], ["t.pcap", "t.pcap1", "t.pcap2"]);
        assert_eq!(named("t.pcap", bytes, &[0; 12])[11], "t.pcap11");
        assert_eq!(named("t", ring(1), &[0; 3]), ["t", "t", "t"]);
        assert_eq!(named("t", ring(3), &[0; 5]), ["t0", "t1", "t2", "t0", "t1"]);
        assert_eq!(named("t", ring(10), &[0; 11])[9..], ["t9", "t0"]);
        assert_eq!(named("t", ring(11), &[0; 12])[9..], ["t09", "t10", "t00"]);
        let minute = Limits { duration: Some(Duration::from_secs(60)), ..Limits::default() };
        // Seconds are the same in all time zones.
        let times = [5, 6, 64, 65, 130];
        let by_time = ["t-05", "t-05", "t-05", "t-05", "t-10"];
        assert_eq!(named("t-%S", minute, &times), by_time);
        let both = Limits { bytes: Some(1), ..minute };
        let numbered = ["t-05", "t-051", "t-052", "t-05", "t-10"];
        assert_eq!(named("t-%S", both, &times), numbered);
        let ring = Limits { files: NonZeroUsize::new(2), ..both };
        assert_eq!(named("t-%S", ring, &times), ["t-050", "t-051", "t-050", "t-050", "t-100"]);
        // Without a duration the name is as it is.
        assert_eq!(named("t-%S", bytes, &[5]), ["t-%S"]);
    }
}
