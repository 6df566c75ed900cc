//! The writer: records to a file of either format.
//!
//! Numbers are written in little-endian order on every machine, so the same packets give the same
//! bytes. pcapng timestamps are always nanoseconds. One interface per file.
//!
//! Records are collected and written in blocks of 64 KiB, on [`Writer::flush`], at
//! [`Writer::finish`] and when the writer is dropped. The blocks begin at multiples of their size
//! in the file: the kernel then neither reads nor clears a page to fill the rest of it, and can
//! take large pages, which halves the cost where it does. A process that is killed loses the bytes
//! in the buffer and may leave a cut-off record, which readers recognise.
//!
//! A file that has contents keeps them until the first bytes are written: a program that opens it and
//! fails before it has a packet has destroyed nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use linerate_linux::files;

use super::error::{Error, Fault};
use super::{ETHERNET, Format, MAX_PACKET, ng};

/// Bytes written at once: few enough to be in the second-level cache when they are.
const BLOCK: usize = 64 << 10;
const STATISTICS: u32 = 5;

/// Resolution of pcap timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Microseconds, which programs from before 2012 need.
    Micro,
    /// Nanoseconds.
    #[default]
    Nano,
}

/// Options of a capture file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The format.
    pub format: Format,
    /// Resolution of timestamps in pcap; pcapng always has nanoseconds.
    pub precision: Precision,
    /// Longer packets are cut to this many bytes. Written to the file as it is; packets are cut to
    /// [`MAX_PACKET`] in any case.
    pub snaplen: u32,
    /// The registered link type of the packets.
    pub link: u32,
    /// Name of the interface, for pcapng.
    pub interface: Option<String>,
}

impl Options {
    /// Nanoseconds, whole packets, Ethernet, no interface name.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            precision: Precision::Nano,
            snaplen: MAX_PACKET,
            link: ETHERNET,
            interface: None,
        }
    }
}

/// Counts of the recorded port, for the statistics at the end of a pcapng file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets the port received, recorded or not.
    pub received: u64,
    /// Packets dropped for lack of buffers or time before they could be recorded.
    pub dropped: u64,
}

/// Writes one capture file.
pub struct Writer {
    file: PathBuf,
    sink: Box<dyn Write + Send>,
    /// The file, as long as it has its former contents.
    filled: Option<File>,
    buffer: Vec<u8>,
    /// Bytes of the buffer up to the end of the block of the file that is being collected.
    block: usize,
    format: Format,
    precision: Precision,
    snaplen: u32,
    link: u32,
    /// Bytes handed to the sink.
    written: u64,
    records: u64,
    /// Times of the first and the last record.
    span: Option<(u64, u64)>,
    counts: Option<Counts>,
    /// Nothing more is written: finished, or a write failed.
    closed: bool,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("file", &self.file)
            .field("format", &self.format)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Creates a capture file, replacing one of the same name; `-` is standard output.
    ///
    /// One that is there is emptied with the first [`Writer::flush`] or block, or by
    /// [`Writer::finish`], and stays as it is if the writer is dropped before without a record.
    ///
    /// # Errors
    ///
    /// The file cannot be created or written, or this process reads it.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let wrong = |source| Error::new(path, Fault::Open(source));
        if path == Path::new("-") {
            files::check_open_unread(io::stdout()).map_err(wrong)?;
            return Self::new(io::stdout(), path, options);
        }
        let file = files::open_to_write(path).map_err(wrong)?;
        let about = file.metadata().map_err(wrong)?;
        if !about.is_file() || about.len() == 0 {
            return Self::new(file, path, options);
        }
        let filled = file.try_clone().map_err(wrong)?;
        let mut writer = Self::with_header(file, path, options);
        writer.filled = Some(filled);
        Ok(writer)
    }

    /// Writes a capture to any sink of bytes; `file` is its name in errors.
    ///
    /// The header is written at once, so that the reader of a pipe sees it before the first record.
    ///
    /// # Errors
    ///
    /// The header cannot be written.
    pub fn new(
        sink: impl Write + Send + 'static,
        file: impl Into<PathBuf>,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut writer = Self::with_header(sink, file, options);
        writer.flush()?;
        Ok(writer)
    }

    /// A writer that has collected the header.
    fn with_header(
        sink: impl Write + Send + 'static,
        file: impl Into<PathBuf>,
        options: &Options,
    ) -> Self {
        let mut writer = Self {
            file: file.into(),
            sink: Box::new(sink),
            filled: None,
            buffer: Vec::with_capacity(2 * BLOCK),
            block: BLOCK,
            format: options.format,
            precision: options.precision,
            snaplen: options.snaplen.max(1),
            link: options.link,
            written: 0,
            records: 0,
            span: None,
            counts: None,
            closed: false,
        };
        match writer.format {
            Format::Pcap => writer.pcap_header(),
            Format::Pcapng => {
                writer.section();
                writer.interface(options.interface.as_deref());
            }
        }
        writer
    }

    /// Writes one packet of which `data` was captured and which had `orig_len` bytes on the wire.
    ///
    /// `data` beyond the snap length is cut. `orig_len` below `data.len()` is taken as the latter.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or the timestamp does not fit into the format (the record is then
    /// left out and the writer stays usable).
    pub fn write(&mut self, ts_ns: u64, orig_len: u32, data: &[u8]) -> Result<(), Error> {
        self.record(ts_ns, orig_len, data, None)
    }

    /// As [`Writer::write`], with the packet's flags word (direction, reception type, link errors) in
    /// pcapng. pcap has no place for it.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub fn write_flagged(
        &mut self,
        ts_ns: u64,
        orig_len: u32,
        data: &[u8],
        flags: u32,
    ) -> Result<(), Error> {
        self.record(ts_ns, orig_len, data, Some(flags))
    }

    fn record(
        &mut self,
        ts_ns: u64,
        orig_len: u32,
        data: &[u8],
        flags: Option<u32>,
    ) -> Result<(), Error> {
        if self.closed {
            return Err(Error::new(&self.file, Fault::Stopped));
        }
        // A packet longer than the formats allow is cut like any beyond the snap length.
        let original = orig_len.max(u32::try_from(data.len()).unwrap_or(u32::MAX));
        let data = &data[..data.len().min(self.snaplen.min(MAX_PACKET) as usize)];
        match self.format {
            Format::Pcap => self.pcap_record(ts_ns, original, data)?,
            Format::Pcapng => self.packet(ts_ns, original, data, flags),
        }
        self.records += 1;
        self.span = Some((self.span.map_or(ts_ns, |(first, _)| first), ts_ns));
        if self.buffer.len() >= self.block { self.write_blocks() } else { Ok(()) }
    }

    /// Sets the port's counts, which a pcapng file carries at its end.
    pub fn set_counts(&mut self, counts: Counts) {
        self.counts = Some(counts);
    }

    /// Hands everything collected to the operating system.
    ///
    /// # Errors
    ///
    /// The file cannot be written. Records not yet written are lost and no more are taken.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write_front(self.buffer.len())
    }

    /// Hands over the blocks that are complete.
    #[cold]
    #[inline(never)]
    fn write_blocks(&mut self) -> Result<(), Error> {
        let more = (self.buffer.len() - self.block) / BLOCK * BLOCK;
        self.write_front(self.block + more)
    }

    /// Hands over the first `length` bytes collected.
    fn write_front(&mut self, length: usize) -> Result<(), Error> {
        let emptied = self.filled.take().map_or(Ok(()), |file| empty(&file));
        let result = emptied
            .and_then(|()| self.sink.write_all(&self.buffer[..length]))
            .and_then(|()| self.sink.flush());
        if let Err(source) = result {
            self.buffer.clear();
            self.closed = true;
            return Err(Error::new(&self.file, Fault::Write { offset: self.written, source }));
        }
        self.buffer.drain(..length);
        self.written += length as u64;
        self.block = BLOCK - (self.written % BLOCK as u64) as usize;
        Ok(())
    }

    /// Completes the file, with the counts in pcapng, and closes it. Returns its size in bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.close()?;
        Ok(self.written)
    }

    fn close(&mut self) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        if let (Format::Pcapng, Some(counts)) = (self.format, self.counts) {
            self.statistics(counts);
        }
        let result = self.flush();
        self.closed = true;
        result
    }

    /// Records written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Size of the file with everything written so far, collected or not.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The file's name as given.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn put16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a pcapng timestamp: the upper half first, in either byte order.
    fn put_time(&mut self, ts_ns: u64) {
        self.put32((ts_ns >> 32) as u32);
        self.put32(ts_ns as u32);
    }

    fn pcap_header(&mut self) {
        self.put32(match self.precision {
            Precision::Micro => 0xa1b2_c3d4,
            Precision::Nano => 0xa1b2_3c4d,
        });
        self.put16(2);
        self.put16(4);
        // Two words that are zero in all files: time zone and accuracy.
        self.put32(0);
        self.put32(0);
        self.put32(self.snaplen);
        self.put32(self.link);
    }

    fn pcap_record(&mut self, ts_ns: u64, original: u32, data: &[u8]) -> Result<(), Error> {
        let Ok(seconds) = u32::try_from(ts_ns / 1_000_000_000) else {
            return Err(Error::new(&self.file, Fault::Timestamp { ts_ns }));
        };
        let fraction = (ts_ns % 1_000_000_000) as u32;
        let fraction = match self.precision {
            Precision::Micro => fraction / 1000,
            Precision::Nano => fraction,
        };
        let mut header = [0; 16];
        let words = [seconds, fraction, data.len() as u32, original];
        for (to, word) in header.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// Writes a block: its type, its length, the bytes that `body` adds (padded), its length again.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
        let start = self.buffer.len();
        self.put32(kind);
        self.put32(0);
        body(self);
        self.pad(start);
        // At most MAX_PACKET and an interface name of 64 KiB.
        let length = (self.buffer.len() - start + 4) as u32;
        self.put32(length);
        self.buffer[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    }

    /// Pads the bytes written since `start` to a multiple of four.
    fn pad(&mut self, start: usize) {
        let length = (self.buffer.len() - start).next_multiple_of(4);
        self.buffer.resize(start + length, 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        let start = self.buffer.len();
        self.put16(code);
        self.put16(value.len() as u16);
        self.buffer.extend_from_slice(value);
        self.pad(start);
    }

    fn end_of_options(&mut self) {
        self.put32(0);
    }

    fn section(&mut self) {
        self.block(ng::SECTION, |w| {
            w.put32(ng::BYTE_ORDER);
            w.put16(1);
            w.put16(0);
            // The section's length is not known in advance.
            w.put32(u32::MAX);
            w.put32(u32::MAX);
            w.option(4, concat!("linerate ", env!("CARGO_PKG_VERSION")).as_bytes());
            w.end_of_options();
        });
    }

    fn interface(&mut self, name: Option<&str>) {
        self.block(ng::INTERFACE, |w| {
            // pcapng has 16 bits for it, which all registered types fit.
            w.put16(w.link as u16);
            w.put16(0);
            w.put32(w.snaplen);
            if let Some(name) = name {
                w.option(2, name.as_bytes());
            }
            // Time in units of ten to the minus ninth.
            w.option(9, &[9]);
            w.end_of_options();
        });
    }

    fn packet(&mut self, ts_ns: u64, original: u32, data: &[u8], flags: Option<u32>) {
        self.block(ng::ENHANCED, |w| {
            w.put32(0);
            w.put_time(ts_ns);
            w.put32(data.len() as u32);
            w.put32(original);
            let start = w.buffer.len();
            w.buffer.extend_from_slice(data);
            w.pad(start);
            if let Some(flags) = flags {
                w.option(2, &flags.to_le_bytes());
                w.end_of_options();
            }
        });
    }

    fn statistics(&mut self, counts: Counts) {
        let (first, last) = self.span.unwrap_or_default();
        let time = |ts_ns: u64| ts_ns.rotate_left(32).to_le_bytes();
        self.block(STATISTICS, |w| {
            w.put32(0);
            w.put_time(last);
            w.option(2, &time(first));
            w.option(3, &time(last));
            w.option(4, &counts.received.to_le_bytes());
            w.option(5, &counts.dropped.to_le_bytes());
            w.end_of_options();
        });
    }
}

/// Empties a file, unless this process has begun to read it.
fn empty(file: &File) -> io::Result<()> {
    files::check_open_unread(file)?;
    file.set_len(0)
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.filled.is_some() && self.records == 0 {
            return;
        }
        // An error cannot be reported from here; `finish` reports it.
        let _ = self.close();
    }
}
