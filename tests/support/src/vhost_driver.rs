//! Vhost-user frontend, and the driver behind it, that send packets with virtio headers of any
//! content, as the kernel of a guest does that leaves checksums and segmentation to the device.
//!
//! One split queue of 16 places in each direction; packets are not received. It accesses its memory by
//! system calls alone.

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

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;

/// Checksum, segmentation of TCP over IPv4 and IPv6 and with ECN, and of UDP; protocol features and
/// version 1.
const FEATURES: u64 = 1 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 56 | 1 << 30 | 1 << 32;

/// Addresses of its memory, for the guest and for the frontend.
const GUEST: u64 = 0x1_0000;
const USER: u64 = 0x7000_0000;
/// Each queue's areas begin at a multiple of this.
const QUEUE: u64 = 0x4000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const BUFFERS: u64 = 0x1_0000;
const BUFFER: u64 = 0x1_2000;
const PLACES: u16 = 16;
const MEMORY: u64 = BUFFERS + BUFFER * PLACES as u64;
/// The queue of packets of the guest.
const SENT: u64 = 1;
/// Bytes of a virtio header, with the number of buffers behind the part that a header has without
/// one.
const HEADER: usize = 12;

/// The driver.
#[derive(Debug)]
pub struct Driver {
    socket: UnixStream,
    memory: File,
    next: u16,
}

impl Driver {
    /// Connects to a device at an abstract socket, `@NAME`, and negotiates.
    ///
    /// # Panics
    ///
    /// When the device does not answer.
    #[must_use]
    pub fn connect(socket: &str) -> Driver {
        let name = socket.trim_start_matches('@');
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a short name");
        let socket = UnixStream::connect_addr(&address).expect("the device listens");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let flags = MemfdFlags::CLOEXEC;
        let memory: File = rustix::fs::memfd_create("driver", flags).expect("a memfd").into();
        memory.set_len(MEMORY).expect("memory");
        let mut driver = Driver { socket, memory, next: 0 };
        driver.negotiate();
        driver
    }

    /// Sends a frame with a virtio header in front of it.
    ///
    /// # Panics
    ///
    /// When the queue is full, or the frame is longer than one can be.
    pub fn send(&mut self, header: &[u8; 10], frame: &[u8]) {
        let mut used = [0; 2];
        self.memory.read_exact_at(&mut used, SENT * QUEUE + USED + 2).expect("memory");
        let ahead = self.next.wrapping_sub(u16::from_le_bytes(used));
        assert!(ahead < PLACES, "the device has not taken what was sent");
        let bytes = [&header[..], &[0; HEADER - 10], frame].concat();
        assert!(bytes.len() as u64 <= BUFFER, "a frame of {} bytes", frame.len());
        let place = self.next % PLACES;
        let buffer = BUFFERS + BUFFER * u64::from(place);
        self.put(buffer, &bytes);
        let mut descriptor = (GUEST + buffer).to_le_bytes().to_vec();
        descriptor.extend((bytes.len() as u32).to_le_bytes());
        descriptor.extend([0; 4]);
        self.put(SENT * QUEUE + 16 * u64::from(place), &descriptor);
        let available = SENT * QUEUE + AVAILABLE;
        self.put(available + 4 + 2 * u64::from(place), &place.to_le_bytes());
        self.next = self.next.wrapping_add(1);
        self.put(available + 2, &self.next.to_le_bytes());
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("memory");
    }

    fn negotiate(&mut self) {
        self.send_request(SET_OWNER, &[], &[]);
        let offered = self.ask_features();
        self.send_request(SET_FEATURES, &(FEATURES & offered).to_ne_bytes(), &[]);
        self.send_request(SET_PROTOCOL_FEATURES, &0u64.to_ne_bytes(), &[]);
        let mut table = pair(1, 0).to_vec();
        table.extend([GUEST, MEMORY, USER, 0].map(u64::to_ne_bytes).concat());
        let memory = self.memory.try_clone().expect("a descriptor");
        self.send_request(SET_MEM_TABLE, &table, &[memory.as_fd()]);
        for queue in 0..2u32 {
            let at = USER + QUEUE * u64::from(queue);
            self.send_request(SET_VRING_NUM, &pair(queue, PLACES.into()), &[]);
            self.send_request(SET_VRING_BASE, &pair(queue, 0), &[]);
            let areas = [u64::from(queue), at, at + USED, at + AVAILABLE, 0];
            self.send_request(SET_VRING_ADDR, &areas.map(u64::to_ne_bytes).concat(), &[]);
            for request in [SET_VRING_CALL, SET_VRING_KICK] {
                let event: OwnedFd =
                    rustix::event::eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
                self.send_request(request, &u64::from(queue).to_ne_bytes(), &[event.as_fd()]);
            }
            self.send_request(SET_VRING_ENABLE, &pair(queue, 1), &[]);
        }
        // Everything before it has been done when it is answered.
        self.ask_features();
    }

    fn ask_features(&mut self) -> u64 {
        self.send_request(GET_FEATURES, &[], &[]);
        let mut answer = [0; 20];
        self.socket.read_exact(&mut answer).expect("the device answers");
        u64::from_ne_bytes(answer[12..].try_into().expect("eight bytes"))
    }

    fn send_request(&mut self, request: u32, payload: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut bytes = [request, 1, payload.len() as u32].map(u32::to_ne_bytes).concat();
        bytes.extend(payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let message = [IoSlice::new(&bytes)];
        let sent = rustix::net::sendmsg(&self.socket, &message, &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(bytes.len()), "the device left");
    }
}

fn pair(a: u32, b: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&a.to_ne_bytes());
    bytes[4..].copy_from_slice(&b.to_ne_bytes());
    bytes
}
