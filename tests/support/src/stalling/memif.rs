//! Memif peers in either role.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
};

use rustix::net::SocketType;

use super::{channel::Channel, full_eventfd};
use crate::descriptors::memory;

/// Bytes of a message.
pub const SIZE: usize = 128;
const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const COOKIE: u32 = 0x03E3_1F20;
/// Slots of a ring, as a power of two.
const LOG2: u8 = 6;
const SLOTS: u16 = 1 << LOG2;
const RING: u64 = 128 + 16 * SLOTS as u64;
const BUFFERS: u64 = 8192;
const BUFFER: u64 = 2048;
const HEAD: u64 = 6;
const TAIL: u64 = 64;

/// Stage of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The socket is connected.
    Connected,
    /// The interface is named, and its secret.
    Interface,
    /// There is memory.
    Region,
    /// There is a ring.
    Ring,
    /// Packets can flow.
    Up,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 5] =
        [Stage::Connected, Stage::Interface, Stage::Region, Stage::Ring, Stage::Up];
}

/// A client with memory that has a ring in each direction. It asks for interrupts by eventfds to
/// which a `write` blocks.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    memory: File,
    events: [OwnedFd; 2],
    id: u32,
    stage: Stage,
}

impl Client {
    /// Connects, to ask for that interface.
    ///
    /// # Errors
    ///
    /// When no server greets it.
    pub fn connect(socket: &str, id: u32) -> io::Result<Client> {
        Client::over(Channel::connect(socket, SocketType::SEQPACKET)?, id)
    }

    /// A peer over an open connection.
    ///
    /// # Errors
    ///
    /// When no server greets it.
    pub fn over(channel: Channel, id: u32) -> io::Result<Client> {
        expect(&channel, HELLO)?;
        let memory = File::from(memory(BUFFERS + 2 * u64::from(SLOTS) * BUFFER, true)?);
        let events = [full_eventfd(), full_eventfd()];
        let client = Client { channel, memory, events, id, stage: Stage::Connected };
        for ring in 0..2 {
            client.put(ring, 0, &COOKIE.to_ne_bytes())?;
            for slot in 0..SLOTS {
                let offset = BUFFERS + (ring * u64::from(SLOTS) + u64::from(slot)) * BUFFER;
                let mut descriptor = [0; 16];
                descriptor[4..8].copy_from_slice(&(BUFFER as u32).to_ne_bytes());
                descriptor[8..12].copy_from_slice(&(offset as u32).to_ne_bytes());
                client.put(ring, 128 + 16 * u64::from(slot), &descriptor)?;
            }
        }
        client.put(1, HEAD, &SLOTS.to_ne_bytes())?;
        Ok(client)
    }

    fn put(&self, ring: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, ring * RING + at)
    }

    fn count(&self, ring: u64, at: u64) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, ring * RING + at)?;
        Ok(u16::from_ne_bytes(bytes))
    }

    /// The eventfds of its rings: to the server, and to it.
    #[must_use]
    pub fn events(&self) -> &[OwnedFd; 2] {
        &self.events
    }

    /// The socket.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Negotiates up to a stage.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn advance(&mut self, to: Stage) -> io::Result<()> {
        while self.stage < to {
            self.stage = match self.stage {
                Stage::Connected => {
                    let mut init = message(INIT, &[(2, 0x0200)]);
                    init[4..8].copy_from_slice(&self.id.to_ne_bytes());
                    self.ask(&init, &[])?;
                    Stage::Interface
                }
                Stage::Interface => {
                    self.add_region(0, self.memory.metadata()?.len(), self.memory.as_fd())?;
                    Stage::Region
                }
                Stage::Region => {
                    self.add_ring(0, self.events[0].as_fd())?;
                    Stage::Ring
                }
                Stage::Ring | Stage::Up => {
                    self.add_ring(1, self.events[1].as_fd())?;
                    self.channel.send(&message(CONNECT, &[]), &[])?;
                    expect(&self.channel, CONNECTED)?;
                    Stage::Up
                }
            };
        }
        Ok(())
    }

    fn ask(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.channel.send(message, descriptors)?;
        expect(&self.channel, ACK).map(drop)
    }

    /// Announces a region.
    ///
    /// # Errors
    ///
    /// When the server refuses it.
    pub fn add_region(&self, index: u16, size: u64, file: BorrowedFd<'_>) -> io::Result<()> {
        let mut region = message(ADD_REGION, &[(2, index)]);
        region[4..12].copy_from_slice(&size.to_ne_bytes());
        self.ask(&region, &[file])
    }

    /// Announces a ring: 0 is to the server, 1 to the client.
    ///
    /// # Errors
    ///
    /// When the server refuses it.
    pub fn add_ring(&self, number: u16, event: BorrowedFd<'_>) -> io::Result<()> {
        let mut ring = message(ADD_RING, &[(2, 1 - number)]);
        ring[8..12].copy_from_slice(&(u32::from(number) * RING as u32).to_ne_bytes());
        ring[12] = LOG2;
        self.ask(&ring, &[event])
    }

    /// Takes the packets there are, and gives their buffers back. Returns how many there were.
    ///
    /// # Errors
    ///
    /// None but of a file in memory.
    pub fn take(&self) -> io::Result<u16> {
        let tail = self.count(1, TAIL)?;
        let head = self.count(1, HEAD)?;
        let posted = tail.wrapping_add(SLOTS);
        for count in 0..posted.wrapping_sub(head) {
            let slot = u64::from(head.wrapping_add(count) % SLOTS);
            self.put(1, 128 + 16 * slot + 4, &(BUFFER as u32).to_ne_bytes())?;
        }
        self.put(1, HEAD, &posted.to_ne_bytes())?;
        Ok(posted.wrapping_sub(head))
    }
}

/// A server, which notes the memory and the eventfds that it is given.
#[derive(Debug)]
pub struct Server {
    listener: Channel,
    channel: Option<Channel>,
    memory: Option<File>,
    rings: Vec<(u64, OwnedFd)>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    ///
    /// When something listens there already.
    pub fn listen(socket: &str, backlog: i32) -> io::Result<Server> {
        Ok(Server::at(Channel::listen(socket, SocketType::SEQPACKET, backlog)?))
    }

    /// A peer at a listening socket.
    #[must_use]
    pub fn at(listener: Channel) -> Server {
        Server { listener, channel: None, memory: None, rings: Vec::new() }
    }

    /// The connection, once there is one.
    #[must_use]
    pub fn channel(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    /// Accepts a client, and negotiates up to a stage.
    ///
    /// # Errors
    ///
    /// When the client does not do its part.
    pub fn accept(&mut self, to: Stage) -> io::Result<()> {
        let channel = self.channel.insert(self.listener.accept()?);
        self.rings.clear();
        if to == Stage::Connected {
            return Ok(());
        }
        let mut hello = message(HELLO, &[(34, 0x0200), (36, 0x0200), (38, 255)]);
        hello[44] = LOG2;
        channel.send(&hello, &[])?;
        loop {
            let (message_, mut descriptors) = channel.receive(SIZE)?;
            let number = |at: usize| u16::from_ne_bytes([message_[at], message_[at + 1]]);
            if message_.len() != SIZE {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let stage = match (number(0), descriptors.pop()) {
                (INIT, _) => Stage::Interface,
                (ADD_REGION, Some(file)) => {
                    // The first has the rings.
                    if number(2) == 0 {
                        self.memory = Some(file.into());
                    }
                    Stage::Region
                }
                (ADD_RING, Some(event)) => {
                    let at = u64::from(number(8)) | u64::from(number(10)) << 16;
                    self.rings.push((at, event));
                    Stage::Ring
                }
                (CONNECT, _) => Stage::Up,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            if stage >= to && stage != Stage::Up {
                return Ok(());
            }
            let answer = if stage == Stage::Up { CONNECTED } else { ACK };
            channel.send(&message(answer, &[]), &[])?;
            if stage == Stage::Up {
                return Ok(());
            }
        }
    }

    /// The eventfds, of the ring to the server first.
    pub fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        self.rings.iter().map(|(_, event)| event)
    }

    /// Asks for interrupts of the ring to the server.
    ///
    /// # Errors
    ///
    /// Only when the memory file cannot be accessed.
    pub fn ask_for_interrupts(&self) -> io::Result<()> {
        let (Some(memory), Some((at, _))) = (&self.memory, self.rings.first()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        memory.write_all_at(&[0; 2], at + 4)
    }

    /// Takes the packets there are. Returns how many there were.
    ///
    /// # Errors
    ///
    /// None but of a file in memory.
    pub fn take(&self) -> io::Result<u16> {
        let (Some(memory), Some((at, _))) = (&self.memory, self.rings.first()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut counts = [[0; 2]; 2];
        memory.read_exact_at(&mut counts[0], at + HEAD)?;
        memory.read_exact_at(&mut counts[1], at + TAIL)?;
        memory.write_all_at(&counts[0], at + TAIL)?;
        let [head, tail] = counts.map(u16::from_ne_bytes);
        Ok(head.wrapping_sub(tail))
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

/// The next message, which has to be of that kind; else the error has the text of a DISCONNECT.
fn expect(channel: &Channel, kind: u16) -> io::Result<Vec<u8>> {
    let (message, _) = channel.receive(SIZE)?;
    match message.first_chunk::<2>() {
        None => Err(io::ErrorKind::UnexpectedEof.into()),
        Some(first) if u16::from_ne_bytes(*first) == kind => Ok(message),
        Some(_) => {
            let text = message.get(6..).unwrap_or_default();
            let text: Vec<u8> = text.iter().copied().take_while(|&byte| byte != 0).collect();
            Err(io::Error::other(String::from_utf8_lossy(&text).into_owned()))
        }
    }
}
