//! Malicious memif peer, driven by bytes.
//!
//! It speaks protocol 2.0 over a socket and writes into the shared memory, in either role, and does
//! any of it wrong: messages out of turn, of other lengths, with other numbers or descriptors;
//! memory that is too small, or cut short later; counts that run, chains that never end, places
//! outside of every region, and all of that while the other side looks at it. Most of its messages
//! are right, because a peer that is refused at once finds nothing. Property tests and fuzz targets
//! make up the bytes.
//!
//! It accesses memory by system calls alone, so that its faults reach only the others.

use std::{
    fs::File,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    fs::{FallocateFlags, MemfdFlags},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    },
};

/// Role of the malicious peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It connects, and owns the memory.
    Client,
    /// It listens.
    Server,
}

/// Bytes that no packet may contain, since they lie behind the regions.
pub const SENTINEL: [u8; 16] = *b"\xf0BEHIND A REGION";

const SIZE: usize = 128;
const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;
const COOKIE: u32 = 0x03E3_1F20;
/// Bytes in front of a ring's descriptors, and of each of them.
const HEADER: u64 = 128;
const DESCRIPTOR: u64 = 16;
/// Bytes of each of its buffers.
const BUFFER: u64 = 2048;
/// Time that an answer is waited for.
const ANSWER: Duration = Duration::from_millis(50);

/// Numbers at which things end.
const SHORT: &[u16] =
    &[0, 1, 2, 3, 13, 14, 15, 63, 64, 65, 255, 256, 0x7fff, 0x8000, 0xfffe, 0xffff];
const LONG: &[u32] =
    &[0, 1, 13, 14, 60, 1514, 2048, 9000, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// The peer.
#[derive(Debug)]
pub struct MaliciousPeer<'a> {
    role: Role,
    name: String,
    rest: &'a [u8],
    listener: Option<OwnedFd>,
    socket: Option<OwnedFd>,
    /// Number of messages sent of an orderly negotiation.
    said: usize,
    connected: bool,
    plan: Plan,
    regions: Vec<Region>,
    rings: Vec<Ring>,
    scribbler: Option<Scribbler>,
}

/// Rings of an orderly client.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    log2: u8,
    to_server: u16,
    to_client: u16,
}

#[derive(Debug)]
struct Region {
    file: Arc<File>,
    announced: u64,
    /// Whether the sentinel behind it must be there still.
    whole: bool,
}

#[derive(Debug, Clone)]
struct Ring {
    memory: Arc<File>,
    /// End of the region that it is announced in, which its cells may be behind.
    end: u64,
    at: u64,
    size: u16,
    event: Option<Arc<OwnedFd>>,
}

/// Writes into a ring until it is stopped.
#[derive(Debug)]
struct Scribbler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl MaliciousPeer<'_> {
    /// A peer at an abstract socket, `@NAME`, driven by the bytes, one
    /// [`MaliciousPeer::step`] at a time.
    ///
    /// # Panics
    ///
    /// When a server cannot listen there.
    pub fn new<'a>(role: Role, socket: &str, bytes: &'a [u8]) -> MaliciousPeer<'a> {
        let name = socket.trim_start_matches('@').to_string();
        let listener = (role == Role::Server).then(|| {
            let listener = seqpacket();
            let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a short name");
            rustix::net::bind(&listener, &address).expect("nobody else is there");
            rustix::net::listen(&listener, 8).expect("a bound socket");
            listener
        });
        let mut attacker = MaliciousPeer {
            role,
            name,
            rest: bytes,
            listener,
            socket: None,
            said: 0,
            connected: false,
            plan: Plan::default(),
            regions: Vec::new(),
            rings: Vec::new(),
            scribbler: None,
        };
        attacker.plan = Plan {
            log2: attacker.byte() % 7,
            to_server: u16::from(attacker.byte() % 3),
            to_client: u16::from(attacker.byte() % 3),
        };
        attacker
    }

    /// Returns true if it has negotiated to the end, as far as it knows.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Does the next thing; `false` when it has done everything.
    ///
    /// # Panics
    ///
    /// When something was written behind one of its regions.
    pub fn step(&mut self) -> bool {
        if let Some(scribbler) = self.scribbler.take() {
            scribbler.end();
        }
        if self.rest.is_empty() {
            self.check();
            return false;
        }
        match self.byte() % 20 {
            0..=3 => self.negotiate(),
            4 => self.proceed(false),
            5 => self.proceed(true),
            6 => self.send_garbage(),
            7..=9 => self.exchange(),
            10 => self.exchange_wrong(),
            11 => self.scribble_count(),
            12 => self.scribble_descriptor(),
            13 => self.scribble_anything(),
            14 => self.endless(),
            15 => self.run(),
            16 => self.cut(),
            17 | 18 => self.scribble_on(),
            _ => self.leave(),
        }
        true
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn choice<T: Copy>(&mut self, among: &[T]) -> T {
        among[usize::from(self.byte()) % among.len()]
    }

    /// A number near to where something ends: one of those above, of a region, or any.
    fn number(&mut self) -> u32 {
        match self.byte() % 4 {
            0 => self.choice(LONG),
            1 => u32::from(self.choice(SHORT)),
            2 => {
                let which = usize::from(self.byte());
                let ends: Vec<u64> = self.regions.iter().map(|region| region.announced).collect();
                let end = ends.get(which % ends.len().max(1)).copied().unwrap_or(0) as u32;
                end.wrapping_sub(u32::from(self.byte() % 128)).wrapping_add(2)
            }
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    // The socket.

    fn connect(&mut self) {
        if self.socket.is_some() {
            return;
        }
        (self.said, self.connected) = (0, false);
        self.check();
        self.regions.clear();
        self.rings.clear();
        self.socket = match &self.listener {
            Some(listener) => {
                wait(listener.as_fd());
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                rustix::net::accept_with(listener, flags).ok()
            }
            None => {
                let socket = seqpacket();
                let address = SocketAddrUnix::new_abstract_name(self.name.as_bytes());
                let connected = address.and_then(|address| rustix::net::connect(&socket, &address));
                connected.is_ok().then_some(socket)
            }
        };
    }

    fn leave(&mut self) {
        self.socket = None;
        self.connected = false;
    }

    /// Waits for a message, takes its descriptor as the peer's memory, and returns its kind.
    fn receive_message(&mut self) -> Option<u16> {
        let socket = self.socket.as_ref()?;
        wait(socket.as_fd());
        let mut bytes = [0; SIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        );
        let descriptor = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            })
            .flatten()
            .next();
        if got.ok()?.bytes == 0 {
            self.leave();
            return None;
        }
        let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let kind = short(0);
        match (kind, descriptor) {
            (ADD_REGION, Some(file)) => {
                let mut size = [0; 8];
                size.copy_from_slice(&bytes[4..12]);
                let (file, announced) = (Arc::new(file.into()), u64::from_ne_bytes(size));
                self.regions.push(Region { file, announced, whole: false });
            }
            (ADD_RING, event) => {
                let mut at = [0; 4];
                at.copy_from_slice(&bytes[8..12]);
                let region = self.regions.get(usize::from(short(6)));
                self.rings.extend(region.map(|region| Ring {
                    memory: Arc::clone(&region.file),
                    end: region.announced,
                    at: u32::from_ne_bytes(at).into(),
                    size: 1 << bytes[12].min(15),
                    event: event.map(Arc::new),
                }));
            }
            (CONNECTED, _) => self.connected = true,
            (DISCONNECT, _) => self.leave(),
            _ => {}
        }
        Some(kind)
    }

    fn send_message(&mut self, message: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let Some(socket) = &self.socket else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, flags);
        if sent.is_err() {
            self.leave();
        }
    }

    // Negotiation.

    /// All of it, as it should be.
    fn negotiate(&mut self) {
        for _ in 0..16 {
            if self.connected {
                return;
            }
            self.proceed(false);
        }
    }

    /// Sends the next message, possibly with a fault.
    fn proceed(&mut self, wrong: bool) {
        let fresh = self.socket.is_none();
        self.connect();
        match self.role {
            Role::Client => {
                if fresh {
                    self.receive_message();
                }
                let Some((message, descriptor)) = self.next_of_client() else { return };
                self.send_maybe_malformed(message, descriptor.as_deref(), wrong);
                self.said += 1;
                self.receive_message();
            }
            Role::Server => {
                if fresh {
                    let mut hello = message(HELLO, &[(34, 0x0200), (36, 0x0200), (38, 255)]);
                    hello[40..42].copy_from_slice(&1u16.to_ne_bytes());
                    hello[42..44].copy_from_slice(&1u16.to_ne_bytes());
                    hello[44] = self.plan.log2;
                    self.send_maybe_malformed(hello, None, wrong);
                } else {
                    let kind = self.receive_message();
                    let answer = if kind == Some(CONNECT) { CONNECTED } else { ACK };
                    self.send_maybe_malformed(message(answer, &[]), None, wrong);
                    self.connected |= kind == Some(CONNECT);
                }
            }
        }
    }

    fn send_maybe_malformed(
        &mut self,
        mut message: [u8; SIZE],
        descriptor: Option<&OwnedFd>,
        wrong: bool,
    ) {
        let other;
        let mut descriptors: Vec<BorrowedFd<'_>> =
            descriptor.map(AsFd::as_fd).into_iter().collect();
        if wrong {
            for _ in 0..self.byte() % 4 {
                // The numbers are all at the beginning, but for those of a HELLO.
                let at = usize::from(self.byte() % 46);
                let value = self.choice(SHORT).to_ne_bytes();
                message[at..at + 2].copy_from_slice(&value);
            }
            if let count @ 1.. = self.byte() % 8 {
                other = self.descriptor();
                descriptors = vec![other.as_fd(); usize::from(count - 1)];
            }
        }
        self.send_message(&message, &descriptors);
    }

    /// A file of a kind that is not wanted, or is.
    fn descriptor(&mut self) -> OwnedFd {
        match self.byte() % 7 {
            0 => event(EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK),
            // Writing to it waits when it is full.
            1 => {
                let event = event(EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
                let _ = rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes());
                let _ = rustix::io::ioctl_fionbio(&event, false);
                event
            }
            2 => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe").1,
            3 => File::open("/dev/null").expect("/dev/null").into(),
            4 => File::open("/proc/self/status").expect("/proc").into(),
            5 => seqpacket(),
            _ => {
                let len = u64::from(self.byte()) << self.choice(&[0, 4, 12]);
                memory(len).into()
            }
        }
    }

    /// Returns an orderly client's next message: which interface, two regions, rings, and that it
    /// is done.
    fn next_of_client(&mut self) -> Option<([u8; SIZE], Option<Arc<OwnedFd>>)> {
        let Plan { log2, to_server, to_client } = self.plan;
        let rings = usize::from(to_server + to_client);
        let size = 1u64 << log2;
        let ring_bytes = HEADER + DESCRIPTOR * size;
        match self.said {
            0 => Some((message(INIT, &[(2, 0x0200)]), None)),
            at @ 1..=2 => {
                let announced =
                    if at == 1 { ring_bytes * rings as u64 } else { BUFFER * size * rings as u64 };
                // Not a multiple of a page: the bytes behind it belong to no region.
                let announced = announced.max(64);
                let file = Arc::new(memory(announced + SENTINEL.len() as u64));
                file.write_all_at(&SENTINEL, announced).expect("memory");
                let mut message = message(ADD_REGION, &[(2, at as u16 - 1)]);
                message[4..12].copy_from_slice(&announced.to_ne_bytes());
                let descriptor = file.try_clone().expect("a descriptor").into();
                self.regions.push(Region { file, announced, whole: true });
                Some((message, Some(Arc::new(descriptor))))
            }
            at if at < 3 + rings => {
                let number = at - 3;
                let is_to_server = number < usize::from(to_server);
                let index = if is_to_server { number } else { number - usize::from(to_server) };
                let event = Arc::new(event(EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK));
                let (region, place) = (self.regions.first()?, ring_bytes * number as u64);
                let ring = Ring {
                    memory: Arc::clone(&region.file),
                    end: region.announced,
                    at: place,
                    size: size as u16,
                    event: Some(Arc::clone(&event)),
                };
                ring.put(0, &COOKIE.to_ne_bytes());
                // Where orderly packets and free buffers lie.
                for count in 0..ring.size {
                    let offset =
                        BUFFER as u32 * (number as u32 * u32::from(ring.size) + u32::from(count));
                    ring.describe(count, 0, 1, BUFFER as u32, offset);
                }
                self.rings.push(ring);
                let mut message =
                    message(ADD_RING, &[(2, is_to_server.into()), (4, index as u16), (6, 0)]);
                message[8..12].copy_from_slice(&(place as u32).to_ne_bytes());
                message[12] = log2;
                Some((message, Some(event)))
            }
            at if at == 3 + rings => Some((message(CONNECT, &[]), None)),
            _ => None,
        }
    }

    /// Says anything.
    fn send_garbage(&mut self) {
        self.connect();
        let mut bytes = [0; 2 * SIZE];
        bytes[..2].copy_from_slice(&u16::from(self.byte() % 10).to_ne_bytes());
        let len = self.choice(&[SIZE, SIZE, SIZE, 0, 1, SIZE - 1, SIZE + 1, 2 * SIZE]);
        for _ in 0..self.byte() % 16 {
            let at = usize::from(self.byte()) % SIZE;
            bytes[at] = self.byte();
        }
        let other = self.descriptor();
        let descriptors = vec![other.as_fd(); usize::from(self.byte() % 4)];
        self.send_message(&bytes[..len], &descriptors);
        // Now and then without waiting for an answer.
        if !self.byte().is_multiple_of(4) {
            self.receive_message();
        }
    }

    // Memory.

    fn ring(&mut self) -> Option<Ring> {
        let which = usize::from(self.byte());
        self.rings.get(which % self.rings.len().max(1)).cloned()
    }

    /// Sends a few packets, or gives buffers, as it should.
    fn exchange(&mut self) {
        let Some(ring) = self.ring() else { return };
        let length = 14 + u32::from(self.u16()) % 2000;
        let count = u16::from(self.byte() % 8);
        self.advance(&ring, count, 0, length);
    }

    /// As `exchange`, with descriptors that are wrong in some way.
    fn exchange_wrong(&mut self) {
        let Some(ring) = self.ring() else { return };
        let (flags, length) = (self.choice(SHORT), self.number());
        let count = u16::from(self.byte() % 8);
        self.advance(&ring, count, flags, length);
    }

    /// Writes descriptors of this length and moves its count behind them.
    fn advance(&self, ring: &Ring, count: u16, flags: u16, length: u32) {
        let ours = ring.get16(self.count_at());
        for at in 0..count.min(ring.size) {
            let at = ours.wrapping_add(at);
            // A client's buffers stay where they are.
            let (_, region, _, offset) = ring.description(at);
            ring.describe(at, flags, region, length, offset);
        }
        let theirs = ring.get16(self.their_count_at());
        // The room: packets behind those not taken yet, buffers up to a whole ring.
        let room = match self.role {
            Role::Client => ring.size.saturating_sub(ours.wrapping_sub(theirs)),
            Role::Server => theirs.wrapping_sub(ours).min(ring.size),
        };
        ring.put(self.count_at(), &ours.wrapping_add(count.min(room)).to_ne_bytes());
        ring.kick();
    }

    /// Offset in a ring of the count that this side moves.
    fn count_at(&self) -> u64 {
        if self.role == Role::Client { 6 } else { 64 }
    }

    fn their_count_at(&self) -> u64 {
        if self.role == Role::Client { 64 } else { 6 }
    }

    fn scribble_count(&mut self) {
        let Some(ring) = self.ring() else { return };
        let at = self.choice(&[self.count_at(), self.count_at(), self.their_count_at(), 4, 0]);
        let value = match self.byte() % 3 {
            0 => self.choice(SHORT),
            1 => ring.get16(at).wrapping_add(ring.size).wrapping_add(u16::from(self.byte() % 5)),
            _ => self.u16(),
        };
        ring.put(at, &value.to_ne_bytes());
        ring.kick();
    }

    fn scribble_descriptor(&mut self) {
        let Some(ring) = self.ring() else { return };
        for _ in 0..=self.byte() % 4 {
            let (count, flags, region) = (self.u16(), self.choice(SHORT), self.choice(SHORT) % 4);
            let (length, offset) = (self.number(), self.number());
            ring.describe(count, flags, region, length, offset);
        }
    }

    fn scribble_anything(&mut self) {
        let Some(ring) = self.ring() else { return };
        let (at, value) = (u64::from(self.u16()), self.number());
        ring.put(at, &value.to_ne_bytes());
    }

    /// All descriptors are one packet that does not end.
    fn endless(&mut self) {
        let Some(ring) = self.ring() else { return };
        let length = self.number();
        for count in 0..ring.size {
            let (_, region, _, offset) = ring.description(count);
            ring.describe(count, 1, region, length, offset);
        }
        let theirs = ring.get16(self.their_count_at());
        let count = if self.role == Role::Client { theirs.wrapping_add(ring.size) } else { theirs };
        ring.put(self.count_at(), &count.to_ne_bytes());
        ring.kick();
    }

    /// Counts as fast as it can, in any state of the other side.
    fn run(&mut self) {
        let Some(ring) = self.ring() else { return };
        let step = self.choice(&[1, ring.size, ring.size / 2, 0x4000, 0xffff]);
        for _ in 0..self.byte() {
            let ours = ring.get16(self.count_at());
            ring.put(self.count_at(), &ours.wrapping_add(step).to_ne_bytes());
        }
        ring.kick();
    }

    /// Takes memory away that was given.
    fn cut(&mut self) {
        let which = usize::from(self.byte());
        let len = u64::from(self.number());
        let hole = self.byte().is_multiple_of(2);
        let count = self.regions.len().max(1);
        let Some(region) = self.regions.get_mut(which % count) else { return };
        region.whole = false;
        if hole {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(&*region.file, flags, 0, len.max(1));
        } else {
            let _ = region.file.set_len(len % region.announced.max(1));
        }
    }

    /// Writes into a ring while the other side uses it, until the next step.
    fn scribble_on(&mut self) {
        let Some(ring) = self.ring() else { return };
        let values: Vec<(u64, u32)> = (0..1 + self.byte() % 8)
            .map(|_| {
                let descriptor = HEADER + DESCRIPTOR * u64::from(self.u16() % ring.size);
                let at = self.choice(&[4, 64, descriptor, descriptor + 4, descriptor + 8]);
                (at, self.number())
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                values.iter().for_each(|(at, value)| ring.put(*at, &value.to_ne_bytes()));
            }
        });
        self.scribbler = Some(Scribbler { stop, thread });
    }

    /// Checks that no bytes have been written behind a region.
    fn check(&self) {
        for region in self.regions.iter().filter(|region| region.whole) {
            let mut behind = [0; SENTINEL.len()];
            region.file.read_exact_at(&mut behind, region.announced).expect("it is whole");
            assert_eq!(behind, SENTINEL, "something was written behind a region");
        }
    }
}

impl Drop for MaliciousPeer<'_> {
    fn drop(&mut self) {
        if let Some(scribbler) = self.scribbler.take() {
            scribbler.end();
        }
    }
}

impl Scribbler {
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

impl Ring {
    /// Writes where there is memory still, without making any, and not behind the region, where
    /// bytes written by the other side are looked for.
    fn put(&self, at: u64, bytes: &[u8]) {
        let end = self.at + at + bytes.len() as u64;
        if end <= self.end && self.memory.metadata().is_ok_and(|memory| end <= memory.len()) {
            let _ = self.memory.write_all_at(bytes, self.at + at);
        }
    }

    fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let _ = self.memory.read_exact_at(&mut bytes, self.at + at);
        bytes
    }

    fn get16(&self, at: u64) -> u16 {
        u16::from_ne_bytes(self.get(at))
    }

    fn place(&self, count: u16) -> u64 {
        HEADER + DESCRIPTOR * u64::from(count & (self.size - 1))
    }

    fn describe(&self, count: u16, flags: u16, region: u16, length: u32, offset: u32) {
        let mut bytes = Vec::with_capacity(16);
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(region.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(offset.to_ne_bytes());
        self.put(self.place(count), &bytes);
    }

    fn description(&self, count: u16) -> (u16, u16, u32, u32) {
        let at = self.place(count);
        let long = |at: u64| u32::from_ne_bytes(self.get(at));
        (self.get16(at), self.get16(at + 2), long(at + 4), long(at + 8))
    }

    fn kick(&self) {
        if let Some(event) = &self.event {
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }
}

/// A message with these numbers at these places.
fn message(kind: u16, numbers: &[(usize, u16)]) -> [u8; SIZE] {
    let mut message = [0; SIZE];
    for (at, number) in [(0, kind)].iter().chain(numbers) {
        message[*at..*at + 2].copy_from_slice(&number.to_ne_bytes());
    }
    message
}

fn seqpacket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .expect("a socket")
}

fn event(flags: EventfdFlags) -> OwnedFd {
    rustix::event::eventfd(0, flags).expect("an eventfd")
}

fn memory(len: u64) -> File {
    let file = rustix::fs::memfd_create("foul", MemfdFlags::CLOEXEC).expect("a memfd");
    rustix::fs::ftruncate(&file, len).expect("memory");
    file.into()
}

fn wait(fd: BorrowedFd<'_>) {
    let limit = Timespec { tv_sec: 0, tv_nsec: ANSWER.as_nanos() as i64 };
    let _ = rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
}
