//! Malicious consumer of a cluster, driven by bytes.
//!
//! It speaks to the server's socket and writes into the memory that it is handed, and does any of
//! it wrong: messages out of turn, of other lengths, with other numbers or descriptors; positions
//! that run or go back, words for buffers it does not hold, twice, or with places outside of them;
//! doorbells that are full or gone. In memory of its own it writes anywhere, and makes holes. Most
//! of its messages are right, because a peer that is refused at once finds nothing. Property tests
//! and fuzz targets make up the bytes.
//!
//! It accesses memory by system calls alone, so that its faults reach only the others, and knows
//! the format from its description, not from the code under test.

use std::{
    fs::File,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::FallocateFlags,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    },
};

pub(crate) const SIZE: usize = 512;
pub(crate) const ATTACH: u32 = 1;
pub(crate) const LOOK: u32 = 2;
const ATTACHED: u32 = 17;
/// Grant of isolated memory, as the server writes it.
const ISOLATED: u32 = 3;
/// Bytes of a channel in front of its rings, and of a ring in front of its words.
const HEADER: u64 = 64;
const RING: u64 = 192;
/// Offsets in a ring of its positions, and of the flag that its reader sleeps.
const TAIL: u64 = 0;
const HEAD: u64 = 64;
const SLEEPS: u64 = 128;
/// Bits of a word.
const FLOW: u64 = 1 << 29;
const EMPTY: u64 = 1 << 30;
const KEPT: u64 = 1 << 31;
/// Time that an answer is waited for.
const ANSWER: Duration = Duration::from_millis(50);

/// The consumer.
#[derive(Debug)]
pub struct MaliciousPeer<'a> {
    socket_name: String,
    names: &'a [&'a str],
    rest: &'a [u8],
    socket: Option<OwnedFd>,
    attachment: Option<Attachment>,
}

/// Memory and descriptors it was handed.
#[derive(Debug)]
pub(crate) struct Attachment {
    directory: File,
    packets: File,
    channel: File,
    doorbell: Option<OwnedFd>,
    figures: File,
    isolated: bool,
    cells: u64,
    /// Words it has taken and put.
    head: u64,
    tail: u64,
    /// Words of the server's buffers that it holds.
    held: Vec<u64>,
}

impl MaliciousPeer<'_> {
    /// A consumer at an abstract socket, `@NAME`, which attaches as one of these names and asks for
    /// those of no other; the bytes drive it, one [`MaliciousPeer::step`] at a time.
    pub fn new<'a>(socket: &str, names: &'a [&'a str], bytes: &'a [u8]) -> MaliciousPeer<'a> {
        let socket_name = socket.trim_start_matches('@').to_string();
        MaliciousPeer { socket_name, names, rest: bytes, socket: None, attachment: None }
    }

    /// Does the next thing; `false` when there is none.
    pub fn step(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let what = self.below(26);
        match what {
            0 => self.send_random_message(),
            1 => self.attach(),
            _ if self.attachment.is_none() => self.attach(),
            2..=7 => self.take(),
            8..=18 => self.answer(),
            19 | 20 => self.lie(),
            21 => self.scribble(),
            22 => self.ring(),
            23 => {
                // Its files may stay open.
                self.socket = None;
                if self.below(2) == 0 {
                    self.attachment = None;
                }
            }
            _ => thread::sleep(Duration::from_micros(200)),
        }
        true
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn connect(&mut self) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .expect("a socket");
        let address =
            SocketAddrUnix::new_abstract_name(self.socket_name.as_bytes()).expect("a short name");
        let connected = rustix::net::connect(&socket, &address).is_ok();
        self.socket = connected.then_some(socket);
        connected
    }

    /// Attaches, mostly as it may.
    fn attach(&mut self) {
        let name = self.names[self.below(self.names.len())];
        let access = [2, 2, 2, 2, 0, 1, 3, 4][self.below(8)];
        if !self.connect() {
            return;
        }
        let Some(socket) = &self.socket else { return };
        send(socket, &message(ATTACH, [access, 0, 0], name), &[]);
        self.attachment =
            receive_message(socket).and_then(|(message, files)| Attachment::parse(&message, files));
    }

    /// Says something, mostly a message.
    fn send_random_message(&mut self) {
        if self.socket.is_none() && !self.connect() {
            return;
        }
        let kinds = [1, 2, 3, 4, 2, 17, 18, 19, 20, 21, 0, u32::MAX];
        let kind = kinds[self.below(kinds.len())];
        let numbers = [0, 1, 2].map(|_| match self.below(4) {
            0 => self.number() as u32,
            _ => u32::from(self.byte()) % 8,
        });
        let name = self.names[self.below(self.names.len())];
        let mut message = message(kind, numbers, name);
        if self.below(4) == 0 {
            let at = self.number() as usize % SIZE;
            message[at] = self.byte();
        }
        let length = match self.below(8) {
            0 => self.number() as usize % (SIZE + 1),
            _ => SIZE,
        };
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let zero = File::open("/dev/zero").expect("/dev/zero");
        let all = [read.as_fd(), write.as_fd(), zero.as_fd(), read.as_fd(), zero.as_fd()];
        let count = [0, 0, 0, 1, 3, 5][self.below(6)];
        let times = [1, 1, 1, 300][self.below(4)];
        let Some(socket) = &self.socket else { return };
        for _ in 0..times {
            send(socket, &message[..length], &all[..count]);
        }
        if self.below(2) == 0 {
            let _ = self.socket.as_ref().and_then(receive_message);
        }
    }

    /// Takes the words on its ring, as it should.
    fn take(&mut self) {
        let Some(attachment) = &mut self.attachment else { return };
        attachment.take();
    }

    /// Returns or sends something that it has, mostly as it should.
    fn answer(&mut self) {
        let (choice, how, other) = (self.byte(), self.below(8), self.number());
        let Some(attachment) = &mut self.attachment else { return };
        if attachment.held.is_empty() {
            return;
        }
        let at = usize::from(choice) % attachment.held.len();
        // Now and then it says it twice.
        let word = if how >= 6 { attachment.held[at] } else { attachment.held.swap_remove(at) };
        let plain = word & !(KEPT | EMPTY | FLOW);
        let word = match how {
            0 | 1 => plain,
            2 => plain | EMPTY,
            3 => plain | KEPT,
            4 => plain | FLOW,
            5 => plain | EMPTY | FLOW,
            // Another place, or another length.
            6 => word & 0xffff_ffff | other << 32,
            _ => plain | if choice & 1 == 0 { EMPTY } else { 0 },
        };
        let ring = attachment.to_server();
        attachment.set(attachment.cell(ring, attachment.tail), word);
        attachment.tail += 1;
        attachment.set(ring + TAIL, attachment.tail);
        if choice & 3 == 0 {
            attachment.ring(1);
        }
    }

    /// Writes something to where words are.
    fn lie(&mut self) {
        let (what, word) = (self.below(24), self.number());
        let word = match self.below(4) {
            0 => word,
            1 => word % 64,
            // As a buffer might be named.
            2 => word & 0x00ff_00ff_0000_000f,
            _ => word & 0x0fff_00ff_6000_00ff,
        };
        let Some(attachment) = &mut self.attachment else { return };
        let ring = attachment.to_server();
        match what {
            0 => attachment.set(ring + TAIL, word),
            1 => attachment.set(ring + HEAD, word),
            2 => attachment.set(HEADER + HEAD, word),
            3 => attachment.set(HEADER + TAIL, word),
            4 => attachment.set([HEADER, ring][word as usize % 2] + SLEEPS, word),
            5 => {
                let length = ring + RING + 8 * attachment.cells;
                attachment.set(word % (length / 8) * 8, word);
            }
            _ => {
                attachment.set(attachment.cell(ring, attachment.tail), word);
                attachment.tail += 1;
                attachment.set(ring + TAIL, attachment.tail);
            }
        }
    }

    /// Writes to packets: where it is isolated they are its own, all of them. Only the server can
    /// write the ledger and the figures.
    fn scribble(&mut self) {
        let (at, byte, what) = (self.number(), self.byte(), self.below(8));
        let Some(attachment) = &mut self.attachment else { return };
        for file in [&attachment.directory, &attachment.figures] {
            let written = file.write_at(&[byte], at % 4096);
            assert!(written.is_err(), "what is the server's alone can be written");
        }
        if !attachment.isolated {
            return;
        }
        let size = attachment.packets.metadata().expect("a file").len();
        let at = at % size;
        let make_holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match what {
            0 => drop(rustix::fs::fallocate(&attachment.packets, make_holes, at & !4095, 8192)),
            1 => drop(rustix::fs::fallocate(&attachment.channel, make_holes, 0, 4096)),
            2 => {
                assert!(attachment.packets.set_len(at).is_err(), "its memory can be cut short");
            }
            _ => {
                let _ = attachment.packets.write_at(&[byte; 256], at);
            }
        }
    }

    /// Rings, without end, or not any more.
    fn ring(&mut self) {
        let what = self.below(4);
        let Some(attachment) = &mut self.attachment else { return };
        match what {
            0 => attachment.ring(1 << 20),
            1 => attachment.doorbell = None,
            _ => attachment.ring(1),
        }
    }
}

impl Attachment {
    /// Takes the descriptors of a message, if it says that it is attached.
    pub(crate) fn parse(message: &[u8; SIZE], files: Vec<OwnedFd>) -> Option<Attachment> {
        let number =
            |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().expect("four bytes"));
        let [directory, packets, channel, doorbell, figures] =
            <[OwnedFd; 5]>::try_from(files).ok().filter(|_| number(8) == ATTACHED)?;
        let channel = File::from(channel);
        let mut cells = [0; 4];
        channel.read_exact_at(&mut cells, 16).expect("a channel has a header");
        Some(Attachment {
            directory: directory.into(),
            packets: packets.into(),
            channel,
            doorbell: Some(doorbell),
            figures: figures.into(),
            isolated: number(16) & 3 == ISOLATED,
            cells: u32::from_ne_bytes(cells).into(),
            head: 0,
            tail: 0,
            held: Vec::new(),
        })
    }

    fn to_server(&self) -> u64 {
        HEADER + (RING + 8 * self.cells).next_multiple_of(64)
    }

    fn cell(&self, ring: u64, number: u64) -> u64 {
        ring + RING + 8 * (number % self.cells)
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.channel.read_exact_at(&mut word, at).expect("inside of the channel");
        u64::from_ne_bytes(word)
    }

    fn set(&self, at: u64, word: u64) {
        self.channel.write_all_at(&word.to_ne_bytes(), at).expect("inside of the channel");
    }

    /// Takes the words on its ring, as it should.
    pub(crate) fn take(&mut self) {
        let tail = self.word(HEADER + TAIL).min(self.head + self.cells);
        while self.head < tail {
            let word = self.word(self.cell(HEADER, self.head));
            self.held.push(word);
            self.head += 1;
        }
        self.set(HEADER + HEAD, self.head);
    }

    /// Publishes as many words as there is room for: those it holds, twice, and the contents of
    /// cells.
    pub(crate) fn flood(&mut self) {
        let ring = self.to_server();
        for _ in 0..2 {
            if let Some(&word) = self.held.last() {
                self.set(self.cell(ring, self.tail), word & !(KEPT | FLOW) | EMPTY);
                self.tail += 1;
            }
        }
        self.held.pop();
        self.tail = self.tail.max(self.word(ring + HEAD).saturating_add(self.cells));
        self.set(ring + TAIL, self.tail);
    }

    pub(crate) fn ring(&self, times: usize) {
        let Some(doorbell) = &self.doorbell else { return };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        for _ in 0..times {
            if rustix::net::send(doorbell, &[1; 64], flags).is_err() {
                break;
            }
        }
    }
}

/// A message as it should be.
pub(crate) fn message(kind: u32, numbers: [u32; 3], name: &str) -> [u8; SIZE] {
    let mut message = [0; SIZE];
    message[..4].copy_from_slice(b"LRCL");
    for (at, number) in [1, kind, numbers[0], numbers[1], numbers[2]].into_iter().enumerate() {
        message[4 + 4 * at..][..4].copy_from_slice(&number.to_ne_bytes());
    }
    message[24..24 + name.len()].copy_from_slice(name.as_bytes());
    message
}

/// Sends bytes and descriptors, if there is room for them.
fn send(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
}

/// Waits a little for a message.
pub(crate) fn receive_message(socket: impl AsFd) -> Option<([u8; SIZE], Vec<OwnedFd>)> {
    let limit = Timespec { tv_sec: 0, tv_nsec: ANSWER.as_nanos() as i64 };
    rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&limit)).ok()?;
    let mut bytes = [0; SIZE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut to = [IoSliceMut::new(&mut bytes)];
    let got = rustix::net::recvmsg(socket, &mut to, &mut control, flags).ok()?;
    let files = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        })
        .flatten()
        .collect();
    (got.bytes == SIZE).then_some((bytes, files))
}
