//! `MinTTL`: no packet leaves with a smaller time to live.

use linerate_graph::{
    Arguments, Class, Column, Context, DropReason, Exit, Frame, HeaderBatch, HeaderKernel,
    HeaderLane, HeaderLocation, NoBuffer, PacketMut, Step, Verdict, Writes,
};

/// Bytes of an IPv4 header without options.
const HEADER: usize = 20;
/// The word of four bytes with the time to live, the protocol and the checksum.
const TTL_WORD: usize = 2;
/// Words that are looked at.
const WORDS: usize = 3;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no IPv4 header
    NoHeader,
}

pub(crate) const CLASS: Class = Class {
    name: "MinTTL",
    family: "example",
    summary: "raises the time to live of IPv4 packets",
    description: "Packets with less leave with a time to live of `TTL`, so that no host sees by it \
        how far they have come. The IP header must be known (`CheckIPHeader`).",
    ports: "1/1",
    annotates: true,
    cost: "One pass over the packets' headers: the checksum is updated by one addition.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> MinTTL(64) -> Discard;",
    ..MinTtl::CLASS
};

#[derive(Arguments)]
struct MinTtl {
    /// the least time to live
    #[arg(kind = "0 to 255")]
    #[handler(value)]
    ttl: u8,
}

/// Raises the time to live in its word, and makes the checksum as much less (RFC 1624). Its first
/// byte is lowest: the sum comes to the same with the bytes of every pair exchanged.
#[inline(always)]
fn raised(word: u32, ttl: u8) -> u32 {
    let more = u32::from(ttl).saturating_sub(word & 0xff);
    let sum = (!word >> 16) + more;
    let sum = (sum & 0xffff) + (sum >> 16);
    ((word & 0xffff) + more) | (!sum << 16)
}

impl Step<Writes, Reason> for MinTtl {
    #[inline]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        cx.process_headers(frame, self);
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let network = packet.network();
        let header = packet.bytes_mut().get_mut(network..).and_then(<[u8]>::first_chunk_mut);
        let Some(header) = header.filter(|header: &&mut [u8; HEADER]| header[0] >> 4 == 4) else {
            return Err(Exit::Drop(Reason::NoHeader));
        };
        let word = &mut header.as_chunks_mut().0[TTL_WORD];
        *word = raised(u32::from_le_bytes(*word), self.ttl).to_le_bytes();
        Ok(())
    }
}

impl HeaderKernel<WORDS> for MinTtl {
    type Exit = Exit<Reason>;
    type LookResult = ();

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Network
    }

    #[inline(always)]
    fn look(&self, headers: &mut HeaderBatch<WORDS>) -> (Column, ()) {
        let ttl = self.ttl;
        headers.words[TTL_WORD] = headers.words[TTL_WORD].map(|word| raised(word, ttl));
        // Anything but version 4 is judged by itself.
        (headers.words[0].map(|word| word >> 4 & 0xf ^ 4), ())
    }

    #[inline(always)]
    fn finish(
        &mut self,
        headers: &HeaderBatch<WORDS>,
        (): &(),
        lane: usize,
        header: &mut HeaderLane<'_, WORDS>,
    ) {
        header.words()[TTL_WORD] = headers.words[TTL_WORD][lane].to_le_bytes();
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        self.step(packet)
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    use super::raised;

    /// A header with a right checksum, and two bytes behind it.
    fn packet(ttl: u8) -> String {
        let sum = (0x4500 + 0x0016 + (u32::from(ttl) << 8 | 17) + 2 * 0x0a00 + 1 + 2) % 0xffff;
        format!("4500001600000000{ttl:02x}11{:04x}0a0000010a000002ffff", !sum & 0xffff)
    }

    /// In frames of one packet and of many, some of them without an IPv4 header.
    #[test]
    fn packets_together_are_as_one_by_one() {
        let ttls = (0..=255).step_by(5);
        let sent =
            |ttl| if ttl % 35 == 0 { format!("{} 60{:038x}", packet(ttl), 0) } else { packet(ttl) };
        let sent: Vec<_> = ttls.clone().map(sent).collect();
        let expected: Vec<_> = ttls.map(|ttl| packet(ttl.max(64))).collect();
        for frame_limit in [1, 7, 8, 256] {
            let mut run = Run::new(&format!(
                "Packets({}) -> MarkNetwork(0) -> m :: MinTTL(64) -> c :: Collect",
                sent.join(" ")
            ))
            .with(crate::CLASSES)
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), expected.join("\n"));
            assert_eq!(run.read("m.drops"), "0\tno buffer\n8\tno IPv4 header\n");
        }
    }

    /// The sum of the word and of its complement is that of a right header.
    #[test]
    fn the_checksum_stays_right() {
        let sum = |word: u32| ((word & 0xffff) + (word >> 16)) % 0xffff;
        for ttl in 0..=255u8 {
            for checksum in (0..0xffff).step_by(251) {
                let word = checksum << 16 | 17 << 8 | u32::from(ttl);
                for least in [0, 1, 64, 255] {
                    let new = raised(word, least);
                    assert_eq!(sum(new), sum(word), "{word:08x} to {least}");
                    assert_eq!(new & 0xff, u32::from(ttl.max(least)));
                    assert_eq!(new >> 8 & 0xff, 17);
                }
            }
        }
    }
}
