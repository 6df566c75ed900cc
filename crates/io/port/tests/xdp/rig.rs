//! Support for the tests: a veth pair with our port at one end and a packet socket at the other.

use std::{
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use linerate_linux::socket::set_option;
use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{Context, Direction, OpenError, Port, PortError, Queue, open};
use linerate_test_support::{Lab, Namespace};

/// Time that anything may take before a test gives up.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Two namespaces joined by a veth pair, `ours` and `theirs`.
pub(crate) struct Rig {
    pub(crate) ours: Namespace,
    pub(crate) theirs: Namespace,
    pub(crate) lab: Lab,
}

impl Rig {
    pub(crate) fn new(queues: u32) -> Rig {
        let lab = Lab::new();
        let (ours, theirs) = (lab.namespace("ours"), lab.namespace("theirs"));
        lab.veth_queues(&ours, "x0", &theirs, "p0", queues);
        Rig { ours, theirs, lab }
    }

    pub(crate) fn open(&self, uri: &str, arena: &Arena) -> Result<Opened, OpenError> {
        open_in(&self.ours, uri, arena, Direction::Both)
    }
}

pub(crate) fn arena() -> Arena {
    ArenaOptions { size: 8 << 20, huge: false, ..Default::default() }.create().unwrap()
}

/// A port with the pool and frame needed to use it.
pub(crate) struct Opened {
    pub(crate) port: Port,
    pub(crate) pool: PoolCache,
    pub(crate) frame: Frame,
}

pub(crate) fn open_in(
    namespace: &Namespace,
    uri: &str,
    arena: &Arena,
    direction: Direction,
) -> Result<Opened, OpenError> {
    let context = Context { direction, ..Context::new(arena.clone()) };
    let port = namespace.enter(|| open(&uri.parse().unwrap(), &context))?;
    Ok(Opened { port, pool: arena.cache(256), frame: Frame::new(256) })
}

impl Opened {
    pub(crate) fn queue(&mut self) -> (&mut Queue, &mut PoolCache, &mut Frame) {
        (&mut self.port.queues[0], &mut self.pool, &mut self.frame)
    }

    /// Receives on one queue until `count` packets have come or time is up.
    pub(crate) fn receive_on(&mut self, queue: usize, count: usize) -> Vec<Vec<u8>> {
        let receive = self.port.queues[queue].receive.as_mut().unwrap();
        let mut packets = Vec::new();
        let deadline = Instant::now() + TIMEOUT;
        while packets.len() < count && Instant::now() < deadline {
            receive.receive(&mut self.pool, &mut self.frame).unwrap();
            packets.extend(self.pool.arena().packets(&self.frame).map(<[u8]>::to_vec));
            self.pool.give(&mut self.frame);
        }
        packets
    }

    pub(crate) fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.receive_on(0, count)
    }

    /// Transmits packets on the first queue, all of them.
    pub(crate) fn transmit(&mut self, packets: &[Vec<u8>]) {
        let (queue, pool, frame) = self.queue();
        let transmit = queue.transmit.as_mut().unwrap();
        for packet in packets {
            frame.push(slot(pool, packet)).unwrap();
            if frame.room() == 0 {
                send_all(transmit.as_mut(), pool, frame).unwrap();
            }
        }
        send_all(transmit.as_mut(), pool, frame).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        while transmit.flush(pool).unwrap() > 0 {
            assert!(Instant::now() < deadline, "packets stay on the way");
        }
    }

    /// Closes the port and says how many buffers are still held.
    pub(crate) fn close(self) -> usize {
        let Opened { mut port, mut pool, mut frame } = self;
        pool.give(&mut frame);
        for queue in &mut port.queues {
            if let Some(receive) = &mut queue.receive {
                receive.close(&mut pool);
            }
            if let Some(transmit) = &mut queue.transmit {
                transmit.close(&mut pool);
            }
        }
        drop(port);
        pool.arena().accounting().held
    }
}

pub(crate) fn slot(pool: &mut PoolCache, packet: &[u8]) -> linerate_memory::Slot {
    let mut slot = pool.take_one(packet.len()).expect("a free buffer");
    pool.arena().packet_mut(&mut slot).unwrap().copy_from_slice(packet);
    slot
}

pub(crate) fn send_all(
    transmit: &mut dyn linerate_port::Transmit,
    pool: &mut PoolCache,
    frame: &mut Frame,
) -> Result<(), PortError> {
    let deadline = Instant::now() + TIMEOUT;
    while !frame.is_empty() {
        transmit.transmit(pool, frame)?;
        assert!(Instant::now() < deadline, "packets are not taken");
    }
    Ok(())
}

/// Frames of an experimental EtherType with lengths all over the range, tagged
/// ones among them, each different.
pub(crate) fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|n| {
            let length = 60 + n * 131 % (1514 - 60 + 1);
            let mut frame: Vec<u8> = (0..length).map(|at| (at * 7 + n * 13) as u8).collect();
            frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            let kind: &[u8] = match n % 4 {
                0 => &[0x81, 0x00, 0x00, 0x05, 0x88, 0xb5],
                _ => &[0x88, 0xb5],
            };
            frame[12..12 + kind.len()].copy_from_slice(kind);
            frame
        })
        .collect()
}

/// A packet socket on an interface, which sees all frames that arrive there.
pub(crate) struct Wire {
    fd: OwnedFd,
    /// Bytes of the virtio header in front of each frame.
    header: usize,
}

impl Wire {
    pub(crate) fn open(namespace: &Namespace, interface: &str) -> Wire {
        namespace.enter(|| {
            let protocol = (libc::ETH_P_ALL as u16).to_be();
            // SAFETY: each call gets valid arguments of the sizes it is told,
            // and its result is checked; the descriptor is new.
            unsafe {
                let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol));
                assert!(fd >= 0, "{}", std::io::Error::last_os_error());
                let fd = OwnedFd::from_raw_fd(fd);
                let name = std::ffi::CString::new(interface).unwrap();
                let mut address: libc::sockaddr_ll = std::mem::zeroed();
                address.sll_family = libc::AF_PACKET as u16;
                address.sll_protocol = protocol;
                address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
                let length = size_of::<libc::sockaddr_ll>() as u32;
                let done = libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length);
                assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
                for option in [libc::PACKET_IGNORE_OUTGOING, libc::PACKET_AUXDATA] {
                    set_option(&fd, libc::SOL_PACKET, option, 1).unwrap();
                }
                set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20).unwrap();
                Wire { fd, header: 0 }
            }
        })
    }

    /// Makes the socket send and receive a virtio header in front of each frame.
    #[allow(dead_code, reason = "those of other ports are tested with them")]
    pub(crate) fn with_headers(self) -> Wire {
        set_option(&self.fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).unwrap();
        Wire { header: 10, ..self }
    }

    pub(crate) fn send(&self, packet: &[u8]) {
        let sent = rustix::net::send(&self.fd, packet, rustix::net::SendFlags::empty());
        assert_eq!(sent, Ok(packet.len()));
    }

    /// The next packet, if one comes in time.
    pub(crate) fn receive(&self, patience: Duration) -> Option<Vec<u8>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as i64 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)).unwrap();
        let mut packet = vec![0; 70_000];
        let mut control = [0u64; 16];
        // SAFETY: the message names two buffers with their sizes; the kernel's data in the second
        // is read through the macros for it.
        unsafe {
            let mut vector = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: 70_000 };
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control);
            let fd = self.fd.as_raw_fd();
            let length = libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT);
            packet.truncate(usize::try_from(length).ok()?);
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            assert!(!header.is_null() && (*header).cmsg_type == libc::PACKET_AUXDATA);
            let extra: libc::tpacket_auxdata =
                libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned();
            // The kernel takes the outer tag out of the frame.
            if extra.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                let tag = [extra.tp_vlan_tpid.to_be_bytes(), extra.tp_vlan_tci.to_be_bytes()];
                packet.splice(self.header + 12..self.header + 12, tag.concat());
                // A checksum to be computed begins later.
                if self.header > 0 && packet[0] & 1 != 0 {
                    let start = u16::from_ne_bytes([packet[6], packet[7]]) + 4;
                    packet[6..8].copy_from_slice(&start.to_ne_bytes());
                }
            }
        }
        Some(packet)
    }

    /// Packets until `count` have come.
    pub(crate) fn receive_all(&self, count: usize) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + TIMEOUT;
        let mut packets = Vec::new();
        while packets.len() < count && Instant::now() < deadline {
            packets.extend(self.receive(Duration::from_millis(100)));
        }
        packets
    }
}
