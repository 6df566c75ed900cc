//! The reader: one record after another from a file of either format.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use linerate_linux::files::ReadGuard;

use super::classic::{self, Classic};
use super::error::{Error, Fault};
use super::ng::{self, Ng};
use super::window::Window;
use super::{ETHERNET, Format, LINUX_SLL2};

/// One captured packet. The bytes are the reader's and last until the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since 1970. A pcapng Simple Packet has no time of its own and gets that of the
    /// record before it (zero if it is the first).
    pub ts_ns: u64,
    /// Length the packet had on the wire; more than `data.len()` if the capture cut it.
    pub orig_len: u32,
    /// The bytes captured.
    pub data: &'a [u8],
    /// Index into [`Reader::interfaces`].
    pub interface: u32,
}

/// An interface the file describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, where the format records one.
    pub name: Option<String>,
    /// Its registered link type: 1, Ethernet, for an interface that delivers records, unless
    /// [`ReadOptions::any_link`] is set.
    pub link: u32,
    /// The most bytes that were captured of a packet; zero for no limit.
    pub snaplen: u32,
    /// Bytes of frame check sequence at the end of each packet, where the file says so.
    pub fcs_length: u8,
}

/// Deviations that a reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// Records of all link types are delivered, not only of Ethernet.
    pub any_link: bool,
    /// Records of Linux's cooked captures are delivered, too ([`LINUX_SLL2`]).
    pub cooked: bool,
    /// A pcap record with more bytes captured than the packet had, as tcptrace writes them, is cut
    /// to the packet's length instead of being corrupt.
    pub overlong: bool,
}

impl ReadOptions {
    /// Returns true if records of that link are delivered.
    pub(super) fn takes(&self, link: u32) -> bool {
        self.any_link || link == ETHERNET || self.cooked && link == LINUX_SLL2
    }
}

/// A record that the end of the file cuts off. Everything before it was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Offset of the incomplete record.
    pub offset: u64,
    /// Bytes there are of it.
    pub have: u64,
    /// Bytes it needs, as far as can be told.
    pub need: u64,
}

impl std::fmt::Display for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offset, have, need } = self;
        write!(f, "the last record, at byte {offset}, is cut off ({have} of {need} bytes)")
    }
}

/// Result of parsing at the current position.
pub(super) enum Step {
    /// A packet, now wholly in the window.
    Record(Head),
    /// Something that is not a packet, already consumed.
    Other,
    /// The stream ended; `need` bytes would have been needed to go on.
    End { need: u64 },
    /// The stream ended while passing over a block that started at `offset`.
    Cut { offset: u64, have: u64, need: u64 },
}

/// A packet in the window.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) ts_ns: u64,
    pub(super) original: u32,
    pub(super) interface: u32,
    /// Range of its bytes, from the start of the window.
    pub(super) data: Range<usize>,
    /// Bytes of the whole record, to be consumed once the caller is done with it.
    pub(super) size: usize,
}

#[derive(Debug)]
enum Layout {
    Classic(Classic),
    Ng(Ng),
}

/// Reads a capture file from its start to its end, in bounded memory.
#[derive(Debug)]
pub struct Reader {
    file: PathBuf,
    /// The window's source, for seeking; none where the source is not a file.
    seekable: Option<File>,
    /// Guard against writing over the file.
    pub(super) guard: Option<ReadGuard>,
    window: Window,
    layout: Layout,
    interfaces: Vec<Interface>,
    /// The record the caller holds, consumed at the next call.
    held: Option<Head>,
    records: u64,
    tail: Option<Tail>,
    finished: bool,
}

impl Reader {
    /// Opens a capture file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, is empty, is not a capture or not one of Ethernet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// As [`Reader::open`], with options.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        if path == Path::new("-") {
            let guard = ReadGuard::of_input(path);
            let reader = Self::from_source(Box::new(io::stdin()), path.to_owned(), options)?;
            return Ok(Self { guard, ..reader });
        }
        let open = |source| Error::new(path, Fault::Open(source));
        let file = File::open(path).map_err(open)?;
        let seekable = file.try_clone().map_err(open)?;
        let guard = ReadGuard::of_open(&file);
        let reader = Self::from_source(Box::new(file), path.to_owned(), options)?;
        Ok(Self { seekable: Some(seekable), guard, ..reader })
    }

    /// Reads a capture from any source of bytes; `file` is its name in errors.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`].
    pub fn new(
        source: impl Read + Send + 'static,
        file: impl Into<PathBuf>,
    ) -> Result<Self, Error> {
        Self::from_source(Box::new(source), file.into(), &ReadOptions::default())
    }

    fn from_source(
        source: Box<dyn Read + Send>,
        file: PathBuf,
        options: &ReadOptions,
    ) -> Result<Self, Error> {
        let mut window = Window::new(source);
        match Self::recognise(&mut window, options) {
            Ok((layout, interfaces)) => Ok(Self {
                file,
                seekable: None,
                guard: None,
                window,
                layout,
                interfaces,
                held: None,
                records: 0,
                tail: None,
                finished: false,
            }),
            Err(fault) => Err(Error { file, fault }),
        }
    }

    fn recognise(
        window: &mut Window,
        options: &ReadOptions,
    ) -> Result<(Layout, Vec<Interface>), Fault> {
        let whole = window.need(4).map_err(|source| Fault::Read { offset: 0, source })?;
        let bytes = window.bytes();
        if bytes.is_empty() {
            return Err(Fault::Empty);
        }
        let start: Vec<u8> = bytes.iter().take(4).copied().collect();
        let compressed = [
            (&b"\x1f\x8b"[..], "gzip"),
            (b"BZh", "bzip2"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"\xfd7zX", "xz"),
            (b"\x04\x22\x4d\x18", "lz4"),
        ];
        if let Some((_, program)) = compressed.iter().find(|(magic, _)| start.starts_with(magic)) {
            return Err(Fault::Compressed { program });
        }
        let Ok(magic) = <[u8; 4]>::try_from(&start[..]) else {
            debug_assert!(!whole);
            return Err(Fault::NotACapture { start });
        };
        if classic::is_classic(magic) {
            let (layout, interface) = Classic::open(window, options)?;
            Ok((Layout::Classic(layout), vec![interface]))
        } else if ng::is_ng(magic) {
            Ok((Layout::Ng(Ng::open(window, options)?), Vec::new()))
        } else {
            Err(Fault::NotACapture { start })
        }
    }

    /// The next record; `None` at the end of the file and after an error.
    ///
    /// A file that ends inside a record, as when its writer was killed, ends like any other: ask
    /// [`Reader::tail`] afterwards.
    ///
    /// # Errors
    ///
    /// The file is corrupt, recorded a link other than Ethernet, or cannot be read.
    // Not an iterator: the record borrows the reader's buffer.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.finished {
            return Ok(None);
        }
        if let Some(head) = self.held.take() {
            self.window.consume(head.size);
        }
        loop {
            let step = match &mut self.layout {
                Layout::Classic(classic) => classic.step(&mut self.window),
                Layout::Ng(ng) => ng.step(&mut self.window, &mut self.interfaces),
            };
            match step {
                Ok(Step::Record(head)) => {
                    self.held = Some(head);
                    self.records += 1;
                    return Ok(self.current());
                }
                Ok(Step::Other) => {}
                Ok(Step::End { need }) => {
                    let have = self.window.bytes().len() as u64;
                    let offset = self.window.offset();
                    self.tail = (have > 0).then_some(Tail { offset, have, need });
                    self.finished = true;
                    return Ok(None);
                }
                Ok(Step::Cut { offset, have, need }) => {
                    self.tail = Some(Tail { offset, have, need });
                    self.finished = true;
                    return Ok(None);
                }
                Err(fault) => {
                    self.finished = true;
                    return Err(Error::new(&self.file, fault));
                }
            }
        }
    }

    /// The link type of the first interface, which a pcapng file describes anywhere before its first
    /// record: reads up to there. `None` when the file ends before.
    ///
    /// # Errors
    ///
    /// The file is corrupt before its first interface, or cannot be read.
    pub fn link(&mut self) -> Result<Option<u32>, Error> {
        while let Layout::Ng(ng) = &mut self.layout
            && self.interfaces.is_empty()
        {
            match ng.step(&mut self.window, &mut self.interfaces) {
                Ok(Step::Other) => {}
                // No record can come before its interface.
                Ok(_) => break,
                Err(fault) => return Err(Error::new(&self.file, fault)),
            }
        }
        Ok(self.interfaces.first().map(|interface| interface.link))
    }

    /// Offset in the file of the record that [`Reader::next`] delivered last; at the end, of the
    /// place where reading stopped.
    pub fn position(&self) -> u64 {
        self.window.offset()
    }

    /// Offset in the file of the record after that.
    pub fn next_position(&self) -> u64 {
        self.window.offset() + self.held.as_ref().map_or(0, |head| head.size as u64)
    }

    /// Goes to byte `offset` of the file, where a record must start: whether one does is not known,
    /// and a wrong offset yields garbage or an error. A source that is not a file can only be moved
    /// forward.
    ///
    /// # Errors
    ///
    /// The file cannot be positioned or read.
    pub fn seek(&mut self, offset: u64) -> Result<(), Error> {
        let at = self.window.offset();
        let moved = match &mut self.seekable {
            Some(file) => file.seek(SeekFrom::Start(offset)).map(|_| self.window.restart(offset)),
            None if offset >= at => self.window.skip(offset - at).map(|_| ()),
            None => Err(io::ErrorKind::NotSeekable.into()),
        };
        moved.map_err(|source| Error::new(&self.file, Fault::Read { offset, source }))?;
        (self.held, self.tail, self.finished) = (None, None, false);
        Ok(())
    }

    /// The record that [`Reader::next`] delivered last, again; `None` at the end.
    pub fn current(&self) -> Option<Record<'_>> {
        let head = self.held.as_ref()?;
        Some(Record {
            ts_ns: head.ts_ns,
            orig_len: head.original,
            data: &self.window.bytes()[head.data.clone()],
            interface: head.interface,
        })
    }

    /// After the end: the record that the end of the file cuts off, if it does.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// The interfaces described so far. A pcapng file may add some between records.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Records delivered so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Blocks of kinds that carry no packets or are not known, passed over so far.
    pub fn skipped_blocks(&self) -> u64 {
        match &self.layout {
            Layout::Classic(_) => 0,
            Layout::Ng(ng) => ng.skipped(),
        }
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        match &self.layout {
            Layout::Classic(_) => Format::Pcap,
            Layout::Ng(_) => Format::Pcapng,
        }
    }

    /// The file's name as given.
    pub fn file(&self) -> &Path {
        &self.file
    }
}
