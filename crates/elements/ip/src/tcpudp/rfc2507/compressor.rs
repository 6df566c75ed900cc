//! `RFC2507Comp`: compresses TCP/IP headers.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::{ANY, COMPRESSED, CONNECTIONS, FULL, HEADERS, Headers, change::Change};
use crate::tcpudp::FAMILY;
use linerate_element_support::{
    ip::{FRAGMENT, FRAGMENT_OFFSET, LEAST, MORE_FRAGMENTS, NoHeader, PROTOCOL, SOURCE, get16},
    random::Random,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// longer than a buffer
    TooLong,
}

const TCP: u8 = 6;
/// Offset of the TCP flags, and the mask and value of compressible segments.
const FLAGS: usize = LEAST + 13;
const FIN_SYN_RST_ACK: u8 = 0x17;
const ACK: u8 = 0x10;
/// Range of addresses and ports, which are adjacent.
const CONNECTION: std::ops::Range<usize> = SOURCE..LEAST + 4;

pub(in crate::tcpudp) const CLASS: Class = Class {
    name: "RFC2507Comp",
    family: FAMILY,
    summary: "compresses headers of TCP",
    description: "Packets begin with an IPv4 header whose place is known (`CheckIPHeader`). Of \
        packets of a TCP connection the headers are left out and said what has changed in them since \
        the packet before; RFC2507Decomp puts them back. All other packets, too, get a byte in front \
        that says what they are. Of 14 connections at a time it is known what their headers were; \
        others take their places. Headers are left out only where they come back as they were; such \
        as go backwards, by retransmission or by a window that shrinks, are sent whole. The link must \
        not change the order of packets; where it loses one, the next have wrong TCP checksums until \
        headers are sent.\n\n\
        Workers share the 14 connections out among themselves.",
    ports: "1/1",
    annotates: true,
    order_dependent: true,
    cost: "The headers of a packet, and those of 14 connections that it is looked for among.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 T\") \
        -> CheckIPHeader -> RFC2507Comp -> RFC2507Decomp -> Discard;",
    ..Compressor::CLASS
};

#[derive(Arguments)]
struct Compressor {
    /// Headers of each connection's last packet, by connection number.
    known: [Option<Headers>; CONNECTIONS],
    /// Connection numbers that this replica assigns.
    #[init((1..CONNECTIONS).skip(make.replica().index).step_by(make.replica().count.max(1)).collect())]
    own: Vec<usize>,
    #[init(Random::new(make))]
    random: Random,
}

/// The headers of a packet; `None` if they cannot be compressed.
#[inline]
fn compressible(bytes: &[u8]) -> Option<Headers> {
    let headers: &Headers = bytes.first_chunk()?;
    let is_whole = get16(headers, FRAGMENT) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == 0;
    let flags = headers[FLAGS] & FIN_SYN_RST_ACK;
    (headers[0] == 0x45 && is_whole && headers[PROTOCOL] == TCP && flags == ACK).then_some(*headers)
}

/// Puts bytes in front of a packet.
#[inline]
fn put<const N: usize>(packet: &mut PacketMut<'_>, bytes: [u8; N]) -> Verdict<Reason> {
    if !packet.prepend(N) {
        return Err(Exit::Drop(Reason::TooLong));
    }
    packet.bytes_mut()[..N].copy_from_slice(&bytes);
    Ok(())
}

impl Compressor {
    fn find(&self, headers: &Headers) -> Option<usize> {
        let is_known = |number: &usize| {
            let known = self.known[*number].as_ref();
            known.is_some_and(|known| known[CONNECTION] == headers[CONNECTION])
        };
        self.own.iter().copied().find(is_known)
    }

    /// Connection number for a new connection: a free one, or else that of a random victim.
    fn choose(&mut self) -> Option<usize> {
        let free = self.own.iter().copied().find(|number| self.known[*number].is_none());
        if free.is_some() || self.own.is_empty() {
            return free;
        }
        let at = self.random.below(self.own.len());
        self.own.get(at).copied()
    }
}

impl Step<Writes, Reason> for Compressor {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        if packet.network() != 0 {
            return Err(Exit::Drop(Reason::NoHeader));
        }
        let Some(headers) = compressible(packet.bytes()) else { return put(packet, [ANY]) };
        let length = packet.len();
        let known = self.find(&headers);
        let Some(number) = known.or_else(|| self.choose()) else { return put(packet, [ANY]) };
        let old = self.known[number].filter(|_| known.is_some());
        if let Some(change) = old.and_then(|old| Change::between(&old, &headers, length)) {
            let change = change.bytes();
            packet.pull(HEADERS - 2 - change.len());
            let bytes = packet.bytes_mut();
            (bytes[0], bytes[1]) = (COMPRESSED, number as u8);
            bytes[2..2 + change.len()].copy_from_slice(change);
        } else {
            put(packet, [FULL, number as u8])?;
        }
        self.known[number] = Some(headers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The bytes are those of Click, except that Click draws connection numbers at random.
    #[test]
    fn headers_go_whole_and_then_as_differences() {
        let packet = |id: u16, port: u16, seq: u32, flags: u8, data: &str| {
            let length = 40 + data.len() / 2;
            format!(
                "4500{length:04x}{id:04x}4000400600000a0000010b000001{port:04x}0050{seq:08x}\
                 0000000150{flags:02x}00ffabcd0000{data}"
            )
        };
        for frame_limit in [1, 7, 256] {
            let packets = [
                packet(1, 5, 1000, 0x10, "6162"),
                packet(2, 5, 1002, 0x18, "63"),
                packet(7, 6, 5, 0x10, ""),
                packet(3, 5, 1003, 0x10, "64"),
                packet(4, 5, 1002, 0x10, "64"),
                packet(5, 5, 1004, 0x11, ""),
            ];
            let mut run = Run::new(&format!(
                "Packets({} 4500001400000000401100000a0000010b000001 45) -> MarkIPHeader
                    -> SetIPChecksum -> t :: Tee -> r :: RFC2507Comp -> c :: Collect;
                 t [1] -> d :: Collect",
                packets.join(" ")
            ))
            .frame_limit(frame_limit);
            run.run();
            let (found, whole) = (run.read("c.packets"), run.read("d.packets"));
            let whole: Vec<&str> = whole.lines().collect();
            let expected = [
                format!("0101{}", whole[0]),
                "020118abcd0263".into(),
                format!("0102{}", whole[2]),
                "020108abcd0164".into(),
                format!("0101{}", whole[4]),
                format!("00{}", whole[5]),
                format!("00{}", whole[6]),
            ];
            assert_eq!(found.lines().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_header_must_be_known_and_in_front() {
        let mut run = Run::new("Packets(0000450000) -> c :: RFC2507Comp -> Discard");
        run.run();
        assert!(run.read("c.drops").contains("1\tno IP header\n"));
        let mut run =
            Run::new("Packets(0000450000) -> MarkNetwork(2) -> c :: RFC2507Comp -> Discard");
        run.run();
        assert!(run.read("c.drops").contains("1\tno IP header\n"));
    }
}
