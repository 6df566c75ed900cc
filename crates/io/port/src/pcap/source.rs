//! Source of a replay's records: the file as it is read, or a copy of it in memory.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use linerate_linux::files::ReadGuard;

use super::LINUX_SLL2;
use super::cooked::{self, Cooked, ETHERNET_HEADER};
use super::error::Error;
use super::reader::{Interface, ReadOptions, Reader, Record};

/// Files up to this size are held in memory when they are replayed more than once.
const PRELOAD_LIMIT: u64 = 1 << 30;

/// A record's frame, without a recorded frame check sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded<'a> {
    /// At least 1: in a packet's metadata 0 is an unknown time.
    pub(super) ts_ns: u64,
    pub(super) frame: &'a [u8],
    /// Bytes that the capture cut off.
    pub(super) missing: u32,
    /// The header in front of `frame`, which then begins behind it, in a cooked capture.
    pub(super) cooked: Option<Cooked>,
}

impl<'a> Recorded<'a> {
    fn new(record: Record<'a>, interfaces: &[Interface]) -> Self {
        let Record { ts_ns, orig_len, data, interface } = record;
        // A cut packet has lost its check sequence already.
        let missing = orig_len.saturating_sub(data.len() as u32);
        let fcs = interfaces.get(interface as usize).map_or(0, |interface| interface.fcs_length);
        let length = if missing == 0 { data.len().saturating_sub(fcs.into()) } else { data.len() };
        let ts_ns = ts_ns.max(1);
        let link = interfaces.get(interface as usize).map(|interface| interface.link);
        if link == Some(LINUX_SLL2) {
            let (cooked, frame) = match cooked::split(&data[..length]) {
                Some((cooked, frame)) => (Some(cooked), frame),
                None => (None, &[][..]),
            };
            return Self { ts_ns, frame, missing, cooked };
        }
        Self { ts_ns, frame: &data[..length], missing, cooked: None }
    }

    /// The length of the frame as it is received.
    pub(super) fn length(&self) -> usize {
        self.frame.len() + self.cooked.map_or(0, |_| ETHERNET_HEADER)
    }

    /// Writes the frame, to which there is place of its length.
    pub(super) fn write(&self, to: &mut [u8]) {
        let frame = match &self.cooked {
            None => to,
            Some(cooked) => {
                let (header, frame) = to.split_at_mut(ETHERNET_HEADER);
                header.copy_from_slice(&cooked.ethernet);
                frame
            }
        };
        frame.copy_from_slice(self.frame);
    }
}

/// A file's records, one after the other, as often as wanted.
#[derive(Debug)]
pub(super) enum Source {
    Stream {
        path: PathBuf,
        options: ReadOptions,
        reader: Box<Reader>,
    },
    Memory {
        /// Each record's time and where its bytes end; they begin where those of the one before end.
        records: Vec<(u64, usize)>,
        bytes: Vec<u8>,
        /// Bytes cut off each record; empty where none was cut.
        missing: Vec<u32>,
        /// Lengths of the shortest and the longest.
        lengths: (usize, usize),
        next: usize,
        /// The file ends inside a record.
        cut: bool,
        /// Guard against writing over the file, which is named to be read.
        _guard: Option<ReadGuard>,
    },
}

impl Source {
    /// Opens a file that will be replayed once, or repeatedly.
    pub(super) fn open(path: &Path, repeat: bool, cooked: bool) -> Result<Self, Error> {
        let options = ReadOptions { cooked, ..ReadOptions::default() };
        let mut reader = Reader::open_with(path, &options)?;
        let small = |data: std::fs::Metadata| data.is_file() && data.len() <= PRELOAD_LIMIT;
        if repeat && std::fs::metadata(path).is_ok_and(small) {
            return Self::preload(reader);
        }
        reader.next()?;
        Ok(Self::Stream { path: path.to_owned(), options, reader: Box::new(reader) })
    }

    pub(super) fn preload(mut reader: Reader) -> Result<Self, Error> {
        let (mut records, mut bytes, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengths = (usize::MAX, 0);
        while reader.next()?.is_some() {
            if let Some(record) = reader.current() {
                let record = Recorded::new(record, reader.interfaces());
                let (start, length) = (bytes.len(), record.length());
                bytes.resize(start + length, 0);
                record.write(&mut bytes[start..]);
                lengths = (lengths.0.min(length), lengths.1.max(length));
                records.push((record.ts_ns, bytes.len()));
                if record.missing > 0 {
                    missing.resize(records.len() - 1, 0);
                    missing.push(record.missing);
                }
            }
        }
        let (cut, guard) = (reader.tail().is_some(), reader.guard.take());
        Ok(Self::Memory { records, bytes, missing, lengths, next: 0, cut, _guard: guard })
    }

    /// The next record; `None` at the end of the file.
    pub(super) fn current(&self) -> Option<Recorded<'_>> {
        match self {
            Self::Stream { reader, .. } => {
                Some(Recorded::new(reader.current()?, reader.interfaces()))
            }
            Self::Memory { records, bytes, missing, next, .. } => {
                let &(ts_ns, end) = records.get(*next)?;
                let start = next.checked_sub(1).map_or(0, |before| records[before].1);
                let missing = missing.get(*next).copied().unwrap_or(0);
                Some(Recorded { ts_ns, frame: &bytes[start..end], missing, cooked: None })
            }
        }
    }

    /// Goes on to the record after.
    pub(super) fn advance(&mut self) -> Result<(), Error> {
        match self {
            Self::Stream { reader, .. } => reader.next().map(|_| ()),
            Self::Memory { next, .. } => {
                *next += 1;
                Ok(())
            }
        }
    }

    /// Of a file in memory, how many records are to come and how long the longest
    /// of the file is; `None` if any of the file's lengths is not in that range, or any was cut.
    pub(super) fn ahead(&self, allowed: RangeInclusive<usize>) -> Option<(usize, usize)> {
        let Self::Memory { records, missing, lengths: (shortest, longest), next, .. } = self else {
            return None;
        };
        let fit = allowed.contains(shortest) && allowed.contains(longest);
        (fit && missing.is_empty()).then_some((records.len() - next, *longest))
    }

    /// Takes that many records in memory, or those there are.
    pub(super) fn take_run(&mut self, count: usize) -> impl Iterator<Item = Recorded<'_>> {
        let (records, bytes, from) = match self {
            Self::Stream { .. } => (&[][..], &[][..], 0),
            Self::Memory { records, bytes, next, .. } => {
                let from = *next;
                *next = records.len().min(from + count);
                (&records[..*next], &bytes[..], from)
            }
        };
        let mut start = from.checked_sub(1).map_or(0, |before| records[before].1);
        records[from..].iter().map(move |&(ts_ns, end)| {
            let frame = &bytes[start..end];
            start = end;
            Recorded { ts_ns, frame, missing: 0, cooked: None }
        })
    }

    /// Returns true if the file ends inside a record.
    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Stream { reader, .. } => reader.tail().is_some(),
            Self::Memory { cut, .. } => *cut,
        }
    }

    /// Goes back to the first record.
    pub(super) fn rewind(&mut self) -> Result<(), Error> {
        match self {
            Self::Stream { path, options, reader } => {
                **reader = Reader::open_with(path, options)?;
                reader.next().map(|_| ())
            }
            Self::Memory { next, .. } => {
                *next = 0;
                Ok(())
            }
        }
    }

    /// Describes the source, for the port's mode.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Stream { reader, .. } => format!("{} read as it is replayed", reader.format()),
            Self::Memory { records, bytes, .. } => {
                format!("{} packets, {} bytes in memory", records.len(), bytes.len())
            }
        }
    }
}
