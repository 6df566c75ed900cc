//! Vhost-user peers in either role.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
};

use rustix::net::SocketType;

use super::{channel::Channel, fill, full_eventfd};
use crate::descriptors::memory;

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
/// Version 1 and nothing else: queues are enabled when they are started.
const FEATURES: u64 = 1 << 32;
const HEADER: usize = 12;
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;

/// Addresses of a frontend's memory, for the guest and for the frontend.
const GUEST: u64 = 0x1_0000;
const USER: u64 = 0x7000_0000;
/// Descriptors in a queue, where its areas are from where it begins, and where the next queue begins.
const SLOTS: u16 = 64;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const QUEUE: u64 = 0x4000;
const BUFFERS: u64 = 2 * QUEUE;
const BUFFER: u64 = 2048;
const WRITE: u16 = 2;

/// Stage of a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The socket is connected.
    Connected,
    /// Features are negotiated.
    Features,
    /// There is memory.
    Memory,
    /// There is a queue for packets to the driver.
    Queue,
    /// There is one in the other direction.
    Up,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 5] =
        [Stage::Connected, Stage::Features, Stage::Memory, Stage::Queue, Stage::Up];
}

/// A frontend and its driver, which asks for interrupts by eventfds to which a `write` blocks.
#[derive(Debug)]
pub struct Frontend {
    channel: Channel,
    memory: File,
    stage: Stage,
}

impl Frontend {
    /// Connects to a device.
    ///
    /// # Errors
    ///
    /// When nothing listens.
    pub fn connect(socket: &str) -> io::Result<Frontend> {
        Frontend::over(Channel::connect(socket, SocketType::STREAM)?)
    }

    /// A peer over an open connection.
    ///
    /// # Errors
    ///
    /// None but of a file in memory.
    pub fn over(channel: Channel) -> io::Result<Frontend> {
        let memory = File::from(memory(BUFFERS + u64::from(SLOTS) * BUFFER, true)?);
        for slot in 0..SLOTS {
            let mut descriptor = [0; 16];
            let address = GUEST + BUFFERS + u64::from(slot) * BUFFER;
            descriptor[..8].copy_from_slice(&address.to_le_bytes());
            descriptor[8..12].copy_from_slice(&(BUFFER as u32).to_le_bytes());
            descriptor[12..14].copy_from_slice(&WRITE.to_le_bytes());
            memory.write_all_at(&descriptor, 16 * u64::from(slot))?;
            memory.write_all_at(&slot.to_le_bytes(), AVAILABLE + 4 + 2 * u64::from(slot))?;
        }
        memory.write_all_at(&SLOTS.to_le_bytes(), AVAILABLE + 2)?;
        Ok(Frontend { channel, memory, stage: Stage::Connected })
    }

    /// The socket.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// When the device is gone or does not read.
    pub fn send_request(
        &self,
        request: u32,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.channel.send(&message(request, VERSION, payload), files)
    }

    /// Requests the features: the device answers after it has handled the messages before.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn ask(&self) -> io::Result<u64> {
        self.send_request(GET_FEATURES, &[], &[])?;
        let (answer, _) = self.channel.receive_all(HEADER + 8)?;
        let features = answer.last_chunk().copied().unwrap_or_default();
        Ok(u64::from_ne_bytes(features))
    }

    /// Negotiates up to a stage.
    ///
    /// # Errors
    ///
    /// When the device refuses.
    pub fn advance(&mut self, to: Stage) -> io::Result<()> {
        while self.stage < to {
            self.stage = match self.stage {
                Stage::Connected => {
                    self.send_request(SET_OWNER, &[], &[])?;
                    self.ask()?;
                    self.send_request(SET_FEATURES, &FEATURES.to_ne_bytes(), &[])?;
                    Stage::Features
                }
                Stage::Features => {
                    let len = self.memory.metadata()?.len();
                    self.set_memory(&[(GUEST, len, USER, 0)], &[self.memory.as_fd()])?;
                    Stage::Memory
                }
                Stage::Memory => {
                    self.set_queue(0)?;
                    Stage::Queue
                }
                Stage::Queue | Stage::Up => {
                    self.set_queue(1)?;
                    Stage::Up
                }
            };
            self.ask()?;
        }
        Ok(())
    }

    /// Sends the memory table: guest address, size, address and offset of each region.
    ///
    /// # Errors
    ///
    /// As of [`Frontend::send_request`].
    pub fn set_memory(
        &self,
        regions: &[(u64, u64, u64, u64)],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut payload = (regions.len() as u64).to_ne_bytes().to_vec();
        for (guest, size, user, offset) in regions {
            [guest, size, user, offset].iter().for_each(|n| payload.extend(n.to_ne_bytes()));
        }
        self.send_request(SET_MEM_TABLE, &payload, files)
    }

    /// Sends the eventfd by which a queue is signalled.
    ///
    /// # Errors
    ///
    /// As of [`Frontend::send_request`].
    pub fn set_call(&self, queue: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.send_request(SET_VRING_CALL, &u64::from(queue).to_ne_bytes(), &[event])
    }

    /// Sends the eventfd by which a queue signals, and starts the queue.
    ///
    /// # Errors
    ///
    /// As of [`Frontend::send_request`].
    pub fn set_kick(&self, queue: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.send_request(SET_VRING_KICK, &u64::from(queue).to_ne_bytes(), &[event])
    }

    fn set_queue(&self, queue: u32) -> io::Result<()> {
        let at = USER + u64::from(queue) * QUEUE;
        self.send_request(SET_VRING_NUM, &state(queue, SLOTS.into()), &[])?;
        self.send_request(SET_VRING_BASE, &state(queue, 0), &[])?;
        let mut address = state(queue, 0).to_vec();
        [at, at + USED, at + AVAILABLE, 0].iter().for_each(|n| address.extend(n.to_ne_bytes()));
        self.send_request(SET_VRING_ADDR, &address, &[])?;
        self.set_call(queue, full_eventfd().as_fd())?;
        self.set_kick(queue, full_eventfd().as_fd())
    }

    /// Takes the packets there are, and gives their buffers back. Returns how many there were.
    ///
    /// # Errors
    ///
    /// None but of a file in memory.
    pub fn take(&self) -> io::Result<u16> {
        let mut counts = [[0; 2]; 2];
        self.memory.read_exact_at(&mut counts[0], USED + 2)?;
        self.memory.read_exact_at(&mut counts[1], AVAILABLE + 2)?;
        let [used, available] = counts.map(u16::from_le_bytes);
        let posted = used.wrapping_add(SLOTS);
        self.memory.write_all_at(&posted.to_le_bytes(), AVAILABLE + 2)?;
        Ok(posted.wrapping_sub(available))
    }
}

/// A queue, as the driver said where it is.
#[derive(Debug, Clone, Copy, Default)]
struct Vring {
    size: u32,
    used: u64,
    available: u64,
}

/// A device, which makes each eventfd that it is given one to which a `write` blocks.
#[derive(Debug)]
pub struct Device {
    listener: Channel,
    channel: Option<Channel>,
    memory: Option<(File, u64)>,
    rings: [Vring; 2],
    events: Vec<OwnedFd>,
}

impl Device {
    /// Listens.
    ///
    /// # Errors
    ///
    /// When something listens there already.
    pub fn listen(socket: &str, backlog: i32) -> io::Result<Device> {
        Ok(Device::at(Channel::listen(socket, SocketType::STREAM, backlog)?))
    }

    /// A peer at a listening socket.
    #[must_use]
    pub fn at(listener: Channel) -> Device {
        let (channel, memory, events) = (None, None, Vec::new());
        Device { listener, channel, memory, rings: Default::default(), events }
    }

    /// The connection, once there is one.
    #[must_use]
    pub fn channel(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    /// Accepts a driver, answers so many of its questions, and stops at the next. It asks three, and
    /// then uses its queues.
    ///
    /// # Errors
    ///
    /// When the driver does not do its part.
    pub fn accept(&mut self, answers: usize) -> io::Result<()> {
        self.channel = Some(self.listener.accept()?);
        for _ in 0..answers {
            self.answer()?;
        }
        Ok(())
    }

    fn answer(&mut self) -> io::Result<()> {
        let Some(channel) = &self.channel else { return Err(io::ErrorKind::NotConnected.into()) };
        loop {
            let (header, mut files) = channel.receive_all(HEADER)?;
            let word = |bytes: &[u8], at: usize| {
                bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied())
            };
            let word = |bytes: &[u8], at| u32::from_ne_bytes(word(bytes, at).unwrap_or_default());
            let (payload, more) = channel.receive_all(word(&header, 8) as usize)?;
            files.extend(more);
            let long = |at| u64::from(word(&payload, at)) | u64::from(word(&payload, at + 4)) << 32;
            match word(&header, 0) {
                GET_FEATURES => {
                    let answer = message(GET_FEATURES, VERSION | REPLY, &FEATURES.to_ne_bytes());
                    return channel.send(&answer, &[]);
                }
                SET_MEM_TABLE if !files.is_empty() => {
                    self.memory = Some((files.swap_remove(0).into(), long(24)));
                }
                SET_VRING_NUM => self.rings[payload[0] as usize % 2].size = word(&payload, 4),
                SET_VRING_ADDR => {
                    let ring = &mut self.rings[payload[0] as usize % 2];
                    (ring.used, ring.available) = (long(16), long(24));
                }
                SET_VRING_KICK | SET_VRING_CALL => {
                    files.iter().for_each(fill);
                    self.events.append(&mut files);
                }
                _ => {}
            }
        }
    }

    /// Takes the packets there are. Returns how many there were.
    ///
    /// # Errors
    ///
    /// None but of a file in memory.
    pub fn take(&self) -> io::Result<u16> {
        let Some((memory, start)) = &self.memory else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let Vring { size, used, available } = self.rings[1];
        let [used, available] = [used - start, available - start];
        let read = |at| {
            let mut bytes = [0; 2];
            memory.read_exact_at(&mut bytes, at).map(|()| u16::from_le_bytes(bytes))
        };
        let (from, to) = (read(used + 2)?, read(available + 2)?);
        for count in 0..to.wrapping_sub(from) {
            let place = u64::from(u32::from(from.wrapping_add(count)) % size);
            let head = u32::from(read(available + 4 + 2 * place)?);
            memory.write_all_at(&head.to_le_bytes(), used + 4 + 8 * place)?;
        }
        memory.write_all_at(&to.to_le_bytes(), used + 2)?;
        Ok(to.wrapping_sub(from))
    }
}

fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    [request, flags, payload.len() as u32].iter().for_each(|n| bytes.extend(n.to_ne_bytes()));
    bytes.extend(payload);
    bytes
}

fn state(queue: u32, number: u32) -> [u8; 8] {
    let mut state = [0; 8];
    state[..4].copy_from_slice(&queue.to_ne_bytes());
    state[4..].copy_from_slice(&number.to_ne_bytes());
    state
}
