//! Packets of an input: arbitrary bytes, lengths, times and headers that are known.

use std::cell::RefCell;

use linerate_graph::{Arg, Class, Context, Element, Next};
use linerate_memory::{Frame, HeaderStart, Meta};

use crate::Bytes;

/// Packets made for one input.
const COUNT: usize = 16;
/// Longest packet asked for; bytes beyond a buffer's room are cut.
const LENGTH: usize = 4096;

macro_rules! seeds {
    ($($name:literal)*) => {
        &[$(include_bytes!(concat!("../seeds/headers/", $name, ".bin"))),*]
    };
}

/// Packets to begin with.
const SEEDS: &[&[u8]] = seeds![
    "arp_request" "icmp_echo" "icmp_time_exceeded" "ipv4_later_fragment" "ipv6_extensions"
    "ipv6_first_fragment" "linux_last_fragment" "linux_ping_record_route" "linux_port_unreachable"
    "linux_tcp_data" "linux_tcp_syn_ack" "linux_udp" "tcp6_syn" "tcp_options" "tcp_sack"
    "udp6_qinq" "udp_vlan" "vxlan"
];

struct Packet {
    bytes: Vec<u8>,
    meta: Meta,
}

thread_local! {
    static PACKETS: RefCell<Vec<Packet>> = const { RefCell::new(Vec::new()) };
}

/// Makes the packets that `Packets` sends from now on.
pub fn make_packets(bytes: &mut Bytes<'_>) {
    let count = 1 + bytes.below(COUNT);
    PACKETS.set((0..count).map(|_| packet(bytes)).collect());
}

fn packet(bytes: &mut Bytes<'_>) -> Packet {
    let mut packet = match bytes.below(4) {
        0 => {
            let length = bytes.below(100);
            bytes.take(length).to_vec()
        }
        _ => bytes.choice(SEEDS).to_vec(),
    };
    for _ in 0..bytes.below(4) {
        let (at, byte) = (bytes.below(packet.len()), bytes.byte());
        if let Some(changed) = packet.get_mut(at) {
            *changed = byte;
        }
    }
    if bytes.one_in(4) {
        let byte = bytes.byte();
        packet.resize(bytes.below(LENGTH), byte);
    }
    let mut meta = Meta::EMPTY;
    if bytes.one_in(2) {
        meta.timestamp = u64::from(bytes.byte()) * 10_000_000;
    }
    if bytes.one_in(2) {
        let headers = packet.len().min(64);
        let network = *bytes.choice(&[14, 0, 18, 22, 3]).min(&headers);
        let transport = (bytes.choice(&[20, 24, 40]) + network).min(packet.len());
        meta.network = HeaderStart::new(0, network);
        meta.transport = HeaderStart::new(0, transport);
    }
    if bytes.one_in(4) {
        (meta.paint, meta.vlan) = (bytes.byte(), u16::from(bytes.byte()));
        meta.user.fill_with(|| bytes.byte());
        // The packets it stands for besides itself: where each is written, four
        // billion would be, which takes the time that takes.
        meta.user[4..8].copy_from_slice(&u32::from(bytes.byte()).to_ne_bytes());
    }
    Packet { bytes: packet, meta }
}

/// Sends the packets of the input, `COUNT` in all, again and again from the first.
pub(crate) const CLASS: Class = Class {
    name: "Packets",
    ports: "0/1",
    processing: "h/h",
    args: &[Arg::required("COUNT", "packets", "packets sent")],
    annotates: true,
    make: |make| Box::new(Packets { left: make.need("COUNT"), at: 0 }),
    ..Class::here()
};

struct Packets {
    left: usize,
    at: usize,
}

impl Element for Packets {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        PACKETS.with_borrow(|packets| {
            let room = cx.pool.arena().room();
            let burst = frame.room().min(self.left);
            for _ in 0..burst {
                let Some(Packet { bytes, meta }) = packets.get(self.at % packets.len()) else {
                    break;
                };
                let bytes = &bytes[..bytes.len().min(room)];
                if cx.pool.take(frame, 1, bytes.len()) == 0 {
                    break;
                }
                let slot = frame.slots_mut().last_mut().expect("just taken");
                cx.pool.arena().packet_mut(slot).expect("not shared").copy_from_slice(bytes);
                let headroom = slot.headroom();
                if let Some(known) = cx.pool.arena().meta_mut(slot) {
                    *known = *meta;
                    known.bytes_moved(headroom.cast_signed());
                }
                self.at += 1;
                self.left -= 1;
            }
        });
        if self.left == 0 { Next::Sleep } else { Next::Idle }
    }
}
