//! `StoreUDPTimeSeqRecord`: writes a sequence number and timestamps into the UDP payload.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, Exit, Handler, HandlerError, HandlerResult,
    NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::checksum::{udp_nonzero, update_bytes};

use super::FAMILY;
use linerate_element_support::ip::{LEAST, PROTOCOL, get16, is_first_fragment};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// not UDP
    NotUdp,
    /// too short for a record
    TooShort,
}

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IP6_HEADER: usize = 40;
/// Bytes of a record: sequence number, timestamp and delay, both times in seconds and nanoseconds.
const RECORD: usize = 20;
const NANOSECONDS: i64 = 1_000_000_000;

pub(super) const CLASS: Class = Class {
    name: "StoreUDPTimeSeqRecord",
    family: FAMILY,
    summary: "writes a number and the time into what UDP carries",
    description: "For the delay between two of them. The first 20 bytes behind the UDP header become \
        five numbers of 32 bits in the order of the network: the packet's number, counted from 1; \
        seconds and nanoseconds of the time at which its frame arrives; and two zeros. With `DELTA \
        true` the last two become the time that has passed since then, and the others stay. The UDP \
        checksum is updated, where there is one. `OFFSET` is where the header of IPv4 or IPv6 \
        begins: 14 behind an Ethernet header. Extension headers of IPv6 are not gone through.",
    ports: "1/1",
    cost: "A line of the packet; a clock reading per frame, and a counter that all workers share.",
    example: "InfiniteSource(LENGTH 30, LIMIT 10, STOP true) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.1, 6) \
        -> StoreUDPTimeSeqRecord(0) -> Discard;",
    make: Class::for_element::<StoreRecord>().make,
    ..StoreRecord::CLASS
};

#[derive(Arguments)]
#[arguments(handlers = [
    Handler::read("count", "records written"),
    Handler::button("reset", "counts packets from 1 again"),
])]
struct StoreRecord {
    /// where the IP header begins
    #[arg(kind = "bytes")]
    offset: u32,
    /// whether to write the time that has passed since the first record
    #[arg(keyword, default = false)]
    delta: bool,
    #[init(make.shared(AtomicU32::default))]
    count: Arc<AtomicU32>,
    /// Arrival time of the frame.
    now: u64,
}

/// Encodes a time as seconds and nanoseconds of a record.
fn parts(time: i64) -> [u8; 8] {
    let seconds = time.div_euclid(NANOSECONDS) as u32;
    let rest = time.rem_euclid(NANOSECONDS) as u32;
    (u64::from(seconds) << 32 | u64::from(rest)).to_be_bytes()
}

/// The UDP datagram behind an IPv4 or IPv6 header.
#[inline]
fn udp(ip: &mut [u8]) -> Result<&mut [u8], Exit<Reason>> {
    let start = match *ip.first_chunk::<UDP_HEADER>().ok_or(Exit::Drop(Reason::TooShort))? {
        [0x60..=0x6f, _, _, _, _, _, UDP, _] => IP6_HEADER,
        [0x40..=0x4f, ..] => {
            let head = ip.first_chunk::<LEAST>().ok_or(Exit::Drop(Reason::TooShort))?;
            let length = usize::from(head[0] & 15) * 4;
            if head[PROTOCOL] != UDP || !is_first_fragment(head) || length < LEAST {
                return Err(Exit::Drop(Reason::NotUdp));
            }
            length
        }
        _ => return Err(Exit::Drop(Reason::NotUdp)),
    };
    ip.get_mut(start..).ok_or(Exit::Drop(Reason::TooShort))
}

impl StoreRecord {
    /// The record that replaces `old`.
    #[inline]
    fn next(&self, old: &[u8; RECORD]) -> [u8; RECORD] {
        let number = self.count.fetch_add(1, Relaxed).wrapping_add(1);
        let now = self.now.cast_signed();
        let mut record = *old;
        if self.delta {
            let number = |at: usize| i64::from(u32::from_be_bytes(four(old, at)));
            let then = number(4) * NANOSECONDS + number(8);
            record[12..].copy_from_slice(&parts(now - then));
        } else {
            record[..4].copy_from_slice(&number.to_be_bytes());
            record[4..12].copy_from_slice(&parts(now));
            record[12..].fill(0);
        }
        record
    }
}

/// Four bytes of a record.
fn four(record: &[u8; RECORD], at: usize) -> [u8; 4] {
    record[at..].first_chunk().copied().unwrap_or_default()
}

impl Step<Writes, Reason> for StoreRecord {
    #[inline]
    fn begin(&mut self, cx: &mut Context, _: &mut Frame) -> bool {
        self.now = cx.now();
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let ip = packet.bytes_mut().get_mut(self.offset as usize..);
        let udp = udp(ip.ok_or(Exit::Drop(Reason::TooShort))?)?;
        let (header, data) =
            udp.split_first_chunk_mut::<UDP_HEADER>().ok_or(Exit::Drop(Reason::TooShort))?;
        let place = data.first_chunk_mut::<RECORD>().ok_or(Exit::Drop(Reason::TooShort))?;
        let record = self.next(place);
        let check = get16(header, 6);
        if check != 0 {
            let check = udp_nonzero(update_bytes(check, place, &record));
            header[6..].copy_from_slice(&check.to_be_bytes());
        }
        *place = record;
        Ok(())
    }
}

impl Element for StoreRecord {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<StoreRecord>() {
            self.count.store(old.count.load(Relaxed), Relaxed);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.load(Relaxed).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset" => self.count.store(0, Relaxed),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Records of packets that pass two, a tenth of a second apart; simulated time begins at
    /// 10^9 seconds.
    #[test]
    fn the_second_knows_how_long_it_took() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "InfiniteSource(DATA \\<ff>, LENGTH 22, LIMIT 3, STOP true)
                    -> UDPIPEncap(10.0.1.1, 6667, 20.0.0.2, 6667)
                    -> Unstrip(14)
                    -> a :: StoreUDPTimeSeqRecord(OFFSET 14) -> Queue -> DelayUnqueue(100ms)
                    -> b :: StoreUDPTimeSeqRecord(14, DELTA true) -> Strip(14) -> CheckIPHeader
                    -> CheckUDPHeader -> c :: Collect; DriverManager(wait_stop, wait 1s)",
            )
            .frame_limit(frame_limit);
            run.run();
            let packets = run.read("c.packets");
            let records: Vec<&str> = packets.lines().map(|packet| &packet[56..]).collect();
            let record = |number| format!("{number:08x}3b9aca00000000000000000005f5e100ffff");
            assert_eq!(records, [record(1), record(2), record(3)]);
            assert_eq!((run.read("a.count"), run.read("b.count")), ("3".into(), "3".into()));
        }
    }

    #[test]
    fn packets_of_ip6_have_records_and_a_missing_checksum_stays_so() {
        let udp = "00050006001e0000".to_owned() + &"11".repeat(22);
        let ip6 = format!("60000000001e11ff{}{udp}", "20".repeat(32));
        let ip = format!("4500003200010000401126b90100000102000002{udp}");
        let mut run = Run::new(&format!(
            "Packets({ip6} {ip} {ip6}) -> s :: StoreUDPTimeSeqRecord(0) -> c :: Collect"
        ));
        run.run();
        let packets = run.read("c.packets");
        for (packet, (start, number)) in packets.lines().zip([(40, 1), (20, 2), (40, 3)]) {
            assert_eq!(&packet[2 * start..][..16], "00050006001e0000");
            let record = format!("{number:08x}3b9aca000000000000000000000000001111");
            assert_eq!(packet[2 * start + 16..], record);
        }
        run.write("s.reset", "").unwrap();
        assert_eq!(run.read("s.count"), "0");
    }

    #[test]
    fn other_packets_are_dropped() {
        let ip = |first: &str, fragment: u16, protocol: u8| {
            format!("{first}0000320001{fragment:04x}40{protocol:02x}26b90100000102000002")
        };
        let long = "00".repeat(28);
        let packets = [
            format!("{}{long}", ip("45", 0, 6)),
            format!("{}{long}", ip("45", 1, 17)),
            format!("{}{long}", ip("44", 0, 17)),
            format!("50{long}"),
            format!("60000000001e06ff{long}"),
            ip("45", 0, 17),
            format!("{}{}", ip("45", 0, 17), &long[2..]),
            format!("{}{long}", ip("46", 0, 17)),
            "60000000001e11ff".into(),
            "60".into(),
            "4500003200010000".into(),
        ];
        let mut run = Run::new(&format!(
            "Packets({}) -> s :: StoreUDPTimeSeqRecord(0) -> c :: Collect",
            packets.join(" ")
        ));
        run.run();
        assert_eq!(run.read("c.packets"), "");
        assert_eq!(run.read("s.drops"), "0\tno buffer\n5\tnot UDP\n6\ttoo short for a record\n");
        assert_eq!(run.read("s.count"), "0");
    }
}
