//! Malicious vhost-user frontend, and the driver behind it, driven by bytes.
//!
//! It connects to a device, gives it memory and queues, split or packed, and does any of it wrong:
//! messages out of turn, of other lengths, with other numbers or descriptors; memory that is too
//! small, goes round, or is cut short later; indices that run, chains that go round, tables in
//! tables, addresses at the ends of regions, headers that lie about their packets. Most of its
//! messages are right, because a peer that is refused at once finds nothing.
//!
//! It accesses memory by system calls alone, so that its faults reach only the others.

use std::{
    fs::File,
    io::{IoSlice, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::{
            fs::FileExt,
            net::{SocketAddr, UnixStream},
        },
    },
    time::Duration,
};

use rustix::{
    event::EventfdFlags,
    fs::MemfdFlags,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};

use crate::tunnels::{self, Transport};

/// Bytes that no packet may contain, since they lie behind the regions.
pub const SENTINEL: [u8; 16] = *b"\xf0BEHIND A REGION";
/// Byte that fills the packets of an orderly exchange.
pub const ORDERLY: u8 = 0x5a;

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const GET_VRING_BASE: u32 = 11;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;

/// Checksum, TCP segmentation, mergeable buffers, indirect descriptors, event index, protocol
/// features, version 1; and packed queues.
const FEATURES: u64 = 1 | 1 << 11 | 1 << 15 | 1 << 28 | 1 << 29 | 1 << 30 | 1 << 32;
const PACKED: u64 = 1 << 34;

/// Addresses of the regions, for the guest and for the frontend, and their length.
const GUEST: u64 = 0x1_0000;
const USER: u64 = 0x7000_0000;
const REGION: u64 = 0x1_0000;
/// Each queue's areas begin at a multiple of this.
const QUEUE: u64 = 0x4000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const BUFFERS: u64 = 0x8000;
const BUFFER: u64 = 0x400;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Numbers at which things end.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    12,
    13,
    26,
    255,
    256,
    1023,
    1024,
    0x7fff,
    0x8000,
    0xffff,
    GUEST,
    GUEST + REGION - 1,
    GUEST + REGION,
    GUEST + 2 * REGION - 8,
    GUEST + 2 * REGION,
    USER,
    USER + 2 * REGION,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX - 11,
    u64::MAX,
];

/// The frontend.
#[derive(Debug)]
pub struct MaliciousPeer<'a> {
    name: String,
    rest: &'a [u8],
    socket: Option<UnixStream>,
    packed: bool,
    size: u16,
    file: File,
    /// Whether the sentinel behind the regions has to be there still.
    whole: bool,
    negotiated: bool,
    /// The next place of each queue, counted on and on.
    next: [u32; 2],
}

impl MaliciousPeer<'_> {
    /// A frontend that connects to a device at an abstract socket, `@NAME`, driven by the bytes,
    /// one [`MaliciousPeer::step`] at a time.
    pub fn new<'a>(socket: &str, bytes: &'a [u8]) -> MaliciousPeer<'a> {
        let mut attacker = MaliciousPeer {
            name: socket.trim_start_matches('@').into(),
            rest: bytes,
            socket: None,
            packed: false,
            size: 8,
            file: memory(),
            whole: true,
            negotiated: false,
            next: [0; 2],
        };
        attacker.packed = attacker.byte() % 2 == 1;
        attacker.size = 1 << (attacker.byte() % 5);
        attacker
    }

    /// Returns true if it has negotiated to the end, as far as it knows.
    pub fn is_negotiated(&self) -> bool {
        self.negotiated
    }

    /// Does the next thing; `false` when it has done everything.
    ///
    /// # Panics
    ///
    /// When something was written behind its memory.
    pub fn step(&mut self) -> bool {
        if self.rest.is_empty() {
            self.check();
            return false;
        }
        match self.byte() % 20 {
            0..=3 => self.negotiate(false),
            4 => self.negotiate(true),
            5..=8 => self.exchange(),
            9..=11 => self.exchange_wrong(),
            12 => self.exchange_merged(),
            13 => self.scribble(),
            14 => self.run(),
            15 => self.send_garbage(),
            16 => {
                let queue = u32::from(self.byte() % 2);
                self.send_request(GET_VRING_BASE, &pair(queue, 0), &[]);
            }
            17 => self.regions(false),
            18 => self.cut(),
            _ => self.leave(),
        }
        true
    }

    /// Negotiates, offers a buffer and sends a packet, as it should be.
    pub fn serve(&mut self) {
        self.leave();
        self.negotiate(false);
        self.exchange();
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => GUEST + u64::from(self.byte()) * 0x210,
            1 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            _ => NUMBERS[usize::from(self.byte()) % NUMBERS.len()],
        }
    }

    fn check(&self) {
        let mut behind = [0; SENTINEL.len()];
        if self.whole && self.file.read_exact_at(&mut behind, 2 * REGION).is_ok() {
            assert_eq!(behind, SENTINEL, "something was written behind a region");
        }
    }

    fn leave(&mut self) {
        self.check();
        self.socket = None;
        self.negotiated = false;
        (self.file, self.whole) = (memory(), true);
    }

    // The socket.

    fn send_request(&mut self, request: u32, payload: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut bytes = [request, 1, payload.len() as u32].map(u32::to_ne_bytes).concat();
        bytes.extend(payload);
        self.send(&bytes, descriptors);
    }

    fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let Some(socket) = &self.socket else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(10))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
        if sent.is_err() {
            self.leave();
        }
    }

    /// Waits until earlier messages have been handled: a question is answered in turn.
    fn settle(&mut self) {
        self.send_request(GET_FEATURES, &[], &[]);
        let Some(socket) = &mut self.socket else { return };
        let mut answers = [0; 512];
        if !matches!(socket.read(&mut answers), Ok(1..)) {
            self.leave();
        }
    }

    fn connect(&mut self) {
        if self.socket.is_some() {
            return;
        }
        self.next = [0; 2];
        let address = SocketAddr::from_abstract_name(self.name.as_bytes()).expect("a short name");
        self.socket = UnixStream::connect_addr(&address).ok();
        if let Some(socket) = &self.socket {
            let _ = socket.set_read_timeout(Some(Duration::from_millis(200)));
        }
    }

    /// Everything an orderly frontend says, or all but one thing of it.
    fn negotiate(&mut self, wrong: bool) {
        self.connect();
        let mistake = if wrong { self.byte() % 16 } else { u8::MAX };
        let features = FEATURES | if self.packed { PACKED } else { 0 };
        let value = |attacker: &mut Self, at: u8, right: u64| {
            if at == mistake { attacker.number() } else { right }
        };
        self.send_request(SET_OWNER, &[], &[]);
        let features = value(self, 0, features);
        self.send_request(SET_FEATURES, &features.to_ne_bytes(), &[]);
        let protocol = value(self, 1, 1);
        self.send_request(SET_PROTOCOL_FEATURES, &protocol.to_ne_bytes(), &[]);
        self.regions(mistake == 2);
        for queue in 0..2u32 {
            let at = USER + QUEUE * u64::from(queue);
            let size = value(self, 3, self.size.into());
            self.send_request(SET_VRING_NUM, &pair(queue, size as u32), &[]);
            let base = value(self, 4, if self.packed { 0x8000 } else { 0 });
            self.send_request(SET_VRING_BASE, &pair(queue, base as u32), &[]);
            let areas = [
                u64::from(queue),
                value(self, 5, at),
                value(self, 6, at + USED),
                value(self, 7, at + AVAILABLE),
                0,
            ];
            self.send_request(SET_VRING_ADDR, &areas.map(u64::to_ne_bytes).concat(), &[]);
            for (number, request) in [(8, SET_VRING_CALL), (9, SET_VRING_KICK)] {
                let event: OwnedFd = if number == mistake {
                    rustix::pipe::pipe().expect("a pipe").1
                } else {
                    rustix::event::eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")
                };
                let queue = value(self, number + 2, queue.into());
                self.send_request(request, &queue.to_ne_bytes(), &[event.as_fd()]);
            }
            let enabled = value(self, 12, 1);
            self.send_request(SET_VRING_ENABLE, &pair(queue, enabled as u32), &[]);
        }
        self.settle();
        self.negotiated = self.socket.is_some();
    }

    /// Two regions of a file, one behind the other.
    fn regions(&mut self, wrong: bool) {
        if wrong {
            // The regions it announces may be all of the file.
            self.whole = false;
            self.put(2 * REGION, &[0; SENTINEL.len()]);
        }
        let mut payload = pair(2, 0).to_vec();
        for region in 0..2 {
            let numbers =
                [GUEST + region * REGION, REGION, USER + region * REGION, region * REGION];
            let numbers = numbers.map(|right| {
                if wrong && self.byte().is_multiple_of(4) { self.number() } else { right }
            });
            payload.extend(numbers.map(u64::to_ne_bytes).concat());
        }
        let file = self.file.try_clone().expect("a descriptor");
        let count = if wrong { usize::from(self.byte() % 4) } else { 2 };
        self.send_request(SET_MEM_TABLE, &payload, &vec![file.as_fd(); count]);
    }

    /// Any message, or bytes that are none.
    fn send_garbage(&mut self) {
        self.connect();
        let request = u32::from(self.byte() % 45);
        let length = usize::from(self.byte()) % 64;
        let payload: Vec<u8> = (0..length).map(|_| self.byte()).collect();
        let file = self.file.try_clone().expect("a descriptor");
        let descriptors = vec![file.as_fd(); usize::from(self.byte() % 10)];
        if self.byte().is_multiple_of(4) {
            self.send(&payload, &descriptors);
        } else {
            self.send_request(request, &payload, &descriptors);
        }
    }

    fn cut(&mut self) {
        let length = u64::from(self.byte()) * 0x400;
        self.whole = false;
        let _ = self.file.set_len(length);
    }

    // The queues.

    fn put(&self, at: u64, bytes: &[u8]) {
        // Behind its end it is another file than it was.
        if self.file.metadata().is_ok_and(|file| at + bytes.len() as u64 <= file.len()) {
            let _ = self.file.write_all_at(bytes, at);
        }
    }

    fn descriptor(&self, queue: u64, place: u64, at: u64, len: u32, flags: u16, other: u16) {
        let mut bytes = at.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        let (first, second) = if self.packed { (other, flags) } else { (flags, other) };
        bytes.extend([first, second].map(u16::to_le_bytes).concat());
        self.put(queue * QUEUE + 16 * place, &bytes);
    }

    /// The flags of a packed descriptor that is available in a round.
    fn available(&self, count: u32) -> u16 {
        if !self.packed {
            return 0;
        }
        if (count / u32::from(self.size)).is_multiple_of(2) { 1 << 7 } else { 1 << 15 }
    }

    /// Makes the descriptors from `head` on available.
    fn publish(&mut self, queue: usize, head: u64) {
        let count = self.next[queue];
        self.next[queue] = count.wrapping_add(1);
        if self.packed {
            return;
        }
        let place = u64::from(count) % u64::from(self.size);
        let at = queue as u64 * QUEUE + AVAILABLE;
        self.put(at + 4 + 2 * place, &(head as u16).to_le_bytes());
        self.put(at + 2, &(count.wrapping_add(1) as u16).to_le_bytes());
    }

    /// A buffer to be written, and a packet.
    fn exchange(&mut self) {
        for queue in 0..2 {
            let count = self.next[queue];
            let place = u64::from(count) % u64::from(self.size);
            let buffer = BUFFERS + BUFFER * (16 * queue as u64 + place);
            let mut packet = vec![0; 12];
            packet.extend([ORDERLY; 60]);
            self.put(buffer, &packet);
            let (len, flags) = if queue == 0 { (BUFFER as u32, WRITE) } else { (72, 0) };
            let flags = flags | self.available(count);
            self.descriptor(queue as u64, place, GUEST + buffer, len, flags, place as u16);
            self.publish(queue, place);
        }
    }

    /// As `exchange`, with descriptors that go anywhere.
    fn exchange_wrong(&mut self) {
        let queue = usize::from(self.byte() % 2);
        let count = self.next[queue];
        let head = u64::from(count) % u64::from(self.size);
        let header: [u8; 12] =
            std::array::from_fn(|_| if self.byte().is_multiple_of(3) { self.byte() } else { 0 });
        self.put(BUFFERS, &header);
        for step in 0..u64::from(self.byte() % 5) + 1 {
            let place = (head + step) % u64::from(self.size);
            let at = if self.byte().is_multiple_of(2) { GUEST + BUFFERS } else { self.number() };
            let len = if self.byte().is_multiple_of(2) { self.number() as u32 } else { 100 };
            let flags = match self.byte() % 6 {
                0 => NEXT,
                1 => INDIRECT,
                2 => WRITE,
                3 => NEXT | WRITE,
                4 => NEXT | INDIRECT,
                _ => 0,
            };
            let next =
                if self.byte().is_multiple_of(4) { self.number() as u16 } else { place as u16 + 1 };
            let flags = flags | self.available(count.wrapping_add(step as u32));
            self.descriptor(queue as u64, place, at, len, flags, next);
        }
        let head = if self.byte().is_multiple_of(8) { self.number() } else { head };
        self.publish(queue, head);
    }

    /// A packet in tunnels to be segmented, with some bytes changed.
    fn exchange_merged(&mut self) {
        let stacks = tunnels::stacks();
        let heads = &stacks[usize::from(self.byte()) % stacks.len()];
        let (transport, segmentation, offset) = if self.byte().is_multiple_of(2) {
            (Transport::Tcp, 1, 16)
        } else {
            (Transport::Udp, 5, 6)
        };
        let frame = tunnels::merged(heads, transport, &[ORDERLY; 200]);
        let start = tunnels::transport_of(heads) as u16;
        let numbers = [0, u16::from(self.byte()), start, offset, 0].map(u16::to_le_bytes);
        let mut packet = [&[1, segmentation][..], &numbers.concat(), &frame].concat();
        for _ in 0..self.byte() % 4 {
            let at = usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % packet.len();
            packet[at] = self.byte();
        }
        let count = self.next[1];
        let place = u64::from(count) % u64::from(self.size);
        let buffer = BUFFERS + BUFFER * (16 + place);
        self.put(buffer, &packet);
        let (len, flags) = (packet.len() as u32, self.available(count));
        self.descriptor(1, place, GUEST + buffer, len, flags, place as u16);
        self.publish(1, place);
    }

    /// Anything anywhere.
    fn scribble(&mut self) {
        let at = u64::from(self.byte()) << (self.byte() % 9);
        let bytes: Vec<u8> = (0..self.byte() % 32).map(|_| self.byte()).collect();
        self.put(at, &bytes);
    }

    /// An index that runs.
    fn run(&mut self) {
        let queue = u64::from(self.byte() % 2);
        let index = self.number() as u16;
        self.put(queue * QUEUE + AVAILABLE + 2, &index.to_le_bytes());
    }
}

fn pair(a: u32, b: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&a.to_ne_bytes());
    bytes[4..].copy_from_slice(&b.to_ne_bytes());
    bytes
}

/// Memory of two regions, with the sentinel behind.
fn memory() -> File {
    let file: File = rustix::fs::memfd_create("foul", MemfdFlags::CLOEXEC).expect("a memfd").into();
    file.set_len(2 * REGION + 4096).expect("memory");
    file.write_all_at(&SENTINEL, 2 * REGION).expect("memory");
    file
}
