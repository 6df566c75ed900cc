//! Malicious vhost-user device, driven by bytes.
//!
//! It listens, answers a driver's requests, notes where memory and queues are, and does any of it
//! wrong: answers that were not asked for, of other lengths, or with other numbers; buffers given
//! back that it never had, twice, or with more bytes than they have; indices that run; headers that
//! lie about their packets. Most of its answers are right, because a peer that is refused at once
//! finds nothing.
//!
//! It accesses memory by system calls alone, so that its faults reach only the others.

use std::{
    fs::File,
    io::{ErrorKind, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::FileExt,
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    time::{Duration, Instant},
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const GET_VRING_BASE: u32 = 11;
const GET_PROTOCOL_FEATURES: u32 = 15;
const GET_QUEUE_NUM: u32 = 17;
/// Checksum and segmentation left to the driver, mergeable buffers, indirect descriptors, event
/// index, protocol features, version 1; and packed queues.
const FEATURES: u64 = 1 << 1 | 1 << 7 | 1 << 15 | 1 << 28 | 1 << 29 | 1 << 30 | 1 << 32;
const PACKED: u64 = 1 << 34;
/// Bytes of a header, and where in it the number of buffers is.
const HEADER: usize = 12;
const COUNT: usize = 10;
/// Time that a driver's next message is waited for.
const PAUSE: Duration = Duration::from_millis(2);

/// Byte that fills the packets of an orderly exchange.
pub const ORDERLY: u8 = 0x5a;

/// Numbers at which things end.
const NUMBERS: &[u64] =
    &[0, 1, 2, 12, 13, 25, 26, 255, 256, 2048, 0x7fff, 0x8000, 0xffff, 0xffff_ffff, u64::MAX];

/// A queue, as the driver said it.
#[derive(Debug, Clone, Copy, Default)]
struct Vring {
    size: u64,
    descriptors: u64,
    used: u64,
    available: u64,
    /// The next place, counted on and on.
    next: u32,
}

/// The device.
#[derive(Debug)]
pub struct MaliciousPeer<'a> {
    rest: &'a [u8],
    listener: UnixListener,
    socket: Option<UnixStream>,
    incoming: Vec<u8>,
    files: Vec<OwnedFd>,
    offered: u64,
    packed: bool,
    /// The first address of the driver's memory, and its file.
    memory: Option<(u64, File)>,
    rings: [Vring; 2],
}

impl MaliciousPeer<'_> {
    /// A device that listens at an abstract socket, `@NAME`, driven by the bytes, one
    /// [`MaliciousPeer::step`] at a time.
    ///
    /// # Panics
    ///
    /// When another listens there already.
    pub fn new<'a>(socket: &str, bytes: &'a [u8]) -> MaliciousPeer<'a> {
        let name = socket.trim_start_matches('@');
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        let listener = UnixListener::bind_addr(&address).expect("a name of its own");
        listener.set_nonblocking(true).expect("a socket");
        let mut attacker = MaliciousPeer {
            rest: bytes,
            listener,
            socket: None,
            incoming: Vec::new(),
            files: Vec::new(),
            offered: FEATURES,
            packed: false,
            memory: None,
            rings: [Vring::default(); 2],
        };
        if attacker.byte() % 2 == 1 {
            attacker.offered |= PACKED;
        }
        attacker
    }

    /// Does the next thing; `false` when it has done everything.
    pub fn step(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        match self.byte() % 16 {
            0..=3 => self.attend(false),
            4 => self.attend(true),
            5..=9 => self.exchange(),
            10..=12 => self.exchange_wrong(),
            13 => self.scribble(),
            14 => self.send_garbage(),
            _ => self.leave(),
        }
        true
    }

    /// Answers all requests and uses a buffer of each queue, as it should be.
    pub fn serve(&mut self) {
        self.attend(false);
        self.exchange();
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        match self.byte() % 3 {
            0 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            _ => NUMBERS[usize::from(self.byte()) % NUMBERS.len()],
        }
    }

    /// Lets the driver go.
    pub fn leave(&mut self) {
        self.socket = None;
        self.memory = None;
        self.incoming.clear();
        self.files.clear();
        self.rings = [Vring::default(); 2];
    }

    // The socket.

    /// Answers requests, as long as there are any; one answer may be wrong.
    fn attend(&mut self, wrong: bool) {
        let mistake = if wrong { self.byte() % 6 } else { u8::MAX };
        let mut answers = 0;
        let mut until = Instant::now() + PAUSE;
        while Instant::now() < until {
            if self.socket.is_none() {
                self.socket = self.listener.accept().ok().map(|(socket, _)| socket);
                if let Some(socket) = &self.socket {
                    socket.set_nonblocking(true).expect("a socket");
                }
            }
            if !self.fill() {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            until = Instant::now() + PAUSE;
            while let Some((request, payload)) = self.message() {
                if let Some(right) = self.handle_request(request, &payload) {
                    let value = if answers == mistake { self.number() } else { right };
                    answers += 1;
                    self.answer(request, &value.to_ne_bytes());
                }
            }
        }
    }

    /// Receives the bytes there are; `false` when there are none.
    fn fill(&mut self) -> bool {
        let Some(socket) = &self.socket else { return false };
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut to = [IoSliceMut::new(&mut bytes)];
        let got = rustix::net::recvmsg(socket, &mut to, &mut control, RecvFlags::empty());
        match got {
            Ok(got) if got.bytes > 0 => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(files) = message {
                        self.files.extend(files);
                    }
                }
                self.incoming.extend(&bytes[..got.bytes]);
                true
            }
            Err(error) if std::io::Error::from(error).kind() == ErrorKind::WouldBlock => false,
            _ => {
                self.leave();
                false
            }
        }
    }

    fn message(&mut self) -> Option<(u32, Vec<u8>)> {
        let word = |at: usize| {
            let bytes = self.incoming.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let (request, length) = (word(0)?, word(8)? as usize);
        let payload = self.incoming.get(12..12 + length)?.to_vec();
        self.incoming.drain(..12 + length);
        Some((request, payload))
    }

    /// Notes the contents of a message. Returns the answer, if there is one.
    fn handle_request(&mut self, request: u32, payload: &[u8]) -> Option<u64> {
        let word = |at: usize| {
            let bytes = payload.get(8 * at..8 * at + 8);
            bytes.map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
        };
        let index = word(0) as u32 as usize % 2;
        match request {
            GET_FEATURES => return Some(self.offered),
            GET_PROTOCOL_FEATURES | GET_QUEUE_NUM => return Some(1),
            GET_VRING_BASE => return Some(word(0)),
            SET_FEATURES => self.packed = word(0) & PACKED != 0,
            SET_MEM_TABLE if !self.files.is_empty() => {
                self.memory = Some((word(3), self.files.remove(0).into()));
            }
            SET_VRING_NUM => self.rings[index].size = word(0) >> 32,
            SET_VRING_ADDR => {
                let ring = &mut self.rings[index];
                (ring.descriptors, ring.used, ring.available) = (word(1), word(2), word(3));
                ring.next = 0;
            }
            _ => {}
        }
        None
    }

    fn answer(&mut self, request: u32, payload: &[u8]) {
        let mut bytes = [request, 5, payload.len() as u32].map(u32::to_ne_bytes).concat();
        bytes.extend(payload);
        let sent = self.socket.as_mut().map(|socket| socket.write_all(&bytes));
        if matches!(sent, Some(Err(_))) {
            self.leave();
        }
    }

    /// An answer to no question, or bytes that are none.
    fn send_garbage(&mut self) {
        let request = u32::from(self.byte() % 45);
        let length = usize::from(self.byte()) % 64;
        let payload: Vec<u8> = (0..length).map(|_| self.byte()).collect();
        self.answer(request, &payload);
    }

    // The queues.

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some((start, file)) = &self.memory else { return false };
        file.read_exact_at(bytes, address.wrapping_sub(*start) & (u64::MAX >> 1)).is_ok()
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        let Some((start, file)) = &self.memory else { return };
        let at = address.wrapping_sub(*start);
        // It cannot be made longer, so a write behind its end is refused.
        if at < 1 << 40 {
            let _ = file.write_all_at(bytes, at);
        }
    }

    /// The descriptor of the next buffer of a queue, by its number, if there is one.
    fn next(&self, queue: usize) -> Option<(u16, u64, u32)> {
        let ring = &self.rings[queue];
        let place = u64::from(ring.next) % ring.size.max(1);
        let mut bytes = [0; 16];
        let mut number = place;
        if !self.packed {
            let mut index = [0; 2];
            if !self.read(ring.available + 2, &mut index)
                || u16::from_le_bytes(index) == ring.next as u16
                || !self.read(ring.available + 4 + 2 * place, &mut index)
            {
                return None;
            }
            number = u16::from_le_bytes(index).into();
        }
        if !self.read(ring.descriptors + 16 * number, &mut bytes) {
            return None;
        }
        let address = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let len = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        if self.packed {
            let flags = u16::from_le_bytes([bytes[14], bytes[15]]);
            let round = (u64::from(ring.next) / ring.size.max(1)).is_multiple_of(2);
            if (flags >> 7 & 1 == 1) != round || (flags >> 15 & 1 == 1) == round {
                return None;
            }
            number = u16::from_le_bytes([bytes[12], bytes[13]]).into();
        }
        Some((number as u16, address, len))
    }

    /// Gives a buffer back.
    fn give(&mut self, queue: usize, number: u32, written: u32) {
        let ring = self.rings[queue];
        let place = u64::from(ring.next) % ring.size.max(1);
        if self.packed {
            let round = (u64::from(ring.next) / ring.size.max(1)).is_multiple_of(2);
            let flags: u16 = if round { 1 << 7 | 1 << 15 } else { 0 };
            let mut bytes = written.to_le_bytes().to_vec();
            bytes.extend([number as u16, flags].map(u16::to_le_bytes).concat());
            self.write(ring.descriptors + 16 * place + 8, &bytes);
        } else {
            let bytes = [number, written].map(u32::to_le_bytes).concat();
            self.write(ring.used + 4 + 8 * place, &bytes);
            self.write(ring.used + 2, &(ring.next.wrapping_add(1) as u16).to_le_bytes());
        }
        self.rings[queue].next = ring.next.wrapping_add(1);
    }

    /// A packet to the driver, and one of its.
    fn exchange(&mut self) {
        if let Some((number, address, _)) = self.next(0) {
            let mut packet = vec![0; HEADER];
            packet[COUNT] = 1;
            packet.extend([ORDERLY; 60]);
            self.write(address, &packet);
            self.give(0, number.into(), packet.len() as u32);
        }
        if let Some((number, ..)) = self.next(1) {
            self.give(1, number.into(), 0);
        }
    }

    /// As `exchange`, with anything wrong.
    fn exchange_wrong(&mut self) {
        let queue = usize::from(self.byte() % 2);
        let Some((number, address, _)) = self.next(queue) else { return };
        let header: [u8; HEADER] =
            std::array::from_fn(|_| if self.byte().is_multiple_of(3) { self.byte() } else { 0 });
        self.write(address, &header);
        let number =
            if self.byte().is_multiple_of(4) { self.number() as u32 } else { number.into() };
        let written = if self.byte().is_multiple_of(2) { self.number() as u32 } else { 72 };
        self.give(queue, number, written);
        if self.byte().is_multiple_of(4) {
            let index = self.number() as u16;
            self.write(self.rings[queue].used + 2, &index.to_le_bytes());
        }
    }

    /// Anything anywhere in its memory.
    fn scribble(&mut self) {
        let at = u64::from(self.byte()) << (self.byte() % 13);
        let bytes: Vec<u8> = (0..self.byte() % 32).map(|_| self.byte()).collect();
        let start = self.memory.as_ref().map_or(0, |(start, _)| *start);
        self.write(start + at, &bytes);
    }
}
