//! Random packets through the router's path, one at a time and many together,
//! against etherparse.

use etherparse::{Ipv4Header, PacketBuilder};
use proptest::prelude::*;

use crate::testing::Run;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).unwrap_or_default() as u8).collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

/// Packets that leave a configuration by each of its `Collect`s `a` and `b`.
fn through(path: &str, packets: &[Vec<u8>], frame_limit: usize) -> [Vec<Vec<u8>>; 2] {
    let words: Vec<String> = packets.iter().map(|packet| hex(packet)).collect();
    let text = format!("Packets({}) -> {path}", words.join(" "));
    let mut run = Run::new(&text).frame_limit(frame_limit);
    run.run();
    ["a.packets", "b.packets"].map(|handler| run.read(handler).lines().map(unhex).collect())
}

/// Fields of a packet.
#[derive(Debug, Clone)]
struct Sample {
    source: [u8; 4],
    destination: [u8; 4],
    ttl: u8,
    ports: (u16, u16),
    payload: Vec<u8>,
    dont_fragment: bool,
}

fn sample() -> impl Strategy<Value = Sample> {
    let payload = prop::collection::vec(any::<u8>(), 0..600);
    (any::<[u8; 4]>(), any::<[u8; 4]>(), 0..5u8, any::<(u16, u16)>(), payload, any::<bool>())
        .prop_map(|(source, destination, ttl, ports, payload, dont_fragment)| Sample {
            source,
            destination,
            ttl,
            ports,
            payload,
            dont_fragment,
        })
}

impl Sample {
    fn bytes(&self) -> Vec<u8> {
        let mut header =
            Ipv4Header::new(0, self.ttl, 17.into(), self.source, self.destination).unwrap();
        header.dont_fragment = self.dont_fragment;
        let mut bytes = Vec::new();
        PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
            .udp(self.ports.0, self.ports.1)
            .write(&mut bytes, &self.payload)
            .unwrap();
        bytes
    }
}

fn header_of(bytes: &[u8]) -> Ipv4Header {
    let (header, _) = Ipv4Header::from_slice(bytes).unwrap();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    header
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// One hop: those that may live go on with one hop less, in order, and all
    /// sums are right.
    #[test]
    fn a_hop(samples in prop::collection::vec(sample(), 1..40)) {
        let packets: Vec<Vec<u8>> = samples.iter().map(Sample::bytes).collect();
        let path = "CheckIPHeader -> d :: DecIPTTL -> a :: Collect; d [1] -> b :: Collect";
        let one = through(path, &packets, 1);
        prop_assert_eq!(&one, &through(path, &packets, 256));
        let live = |packet: &&Vec<u8>| packet[8] > 1;
        let on: Vec<_> = packets.iter().filter(live).collect();
        prop_assert_eq!(one[0].len(), on.len());
        for (before, after) in on.into_iter().zip(&one[0]) {
            let mut header = header_of(before);
            header.time_to_live -= 1;
            header.header_checksum = header.calc_header_checksum();
            prop_assert_eq!(&header, &header_of(after));
            prop_assert_eq!(&before[20..], &after[20..]);
        }
        let expired: Vec<_> = packets.iter().filter(|packet| !live(packet)).cloned().collect();
        prop_assert_eq!(&one[1], &expired);
    }

    /// Pieces are no longer than allowed, and the original when put together.
    #[test]
    fn pieces(samples in prop::collection::vec(sample(), 1..20), mtu in 28..700usize) {
        let packets: Vec<Vec<u8>> = samples.iter().map(Sample::bytes).collect();
        let path = format!(
            "CheckIPHeader -> f :: IPFragmenter({mtu}) -> CheckIPHeader -> a :: Collect;
             f [1] -> b :: Collect"
        );
        let found = through(&path, &packets, 1);
        prop_assert_eq!(&found, &through(&path, &packets, 256));
        let (mut pieces, mut refused) = (found[0].iter(), found[1].iter());
        for (packet, sample) in packets.iter().zip(&samples) {
            if packet.len() > mtu && sample.dont_fragment {
                prop_assert_eq!(refused.next(), Some(packet));
                continue;
            }
            let mut payload = Vec::new();
            loop {
                let piece = pieces.next().unwrap();
                let header = header_of(piece);
                prop_assert!(piece.len() <= mtu);
                prop_assert_eq!(usize::from(header.total_len), piece.len());
                prop_assert_eq!(usize::from(header.fragment_offset.value()) * 8, payload.len());
                payload.extend_from_slice(&piece[20..]);
                if !header.more_fragments {
                    break;
                }
            }
            prop_assert_eq!(&payload, &packet[20..]);
        }
        prop_assert!(pieces.next().is_none() && refused.next().is_none());
    }

    /// Anything at all may come.
    #[test]
    fn any_bytes(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..90), 1..40)) {
        let packets: Vec<Vec<u8>> = packets
            .into_iter()
            .map(|mut packet| {
                // Mostly like an IP header, without which nothing would happen.
                packet[0] = 0x40 | packet[0] & 15;
                packet
            })
            .collect();
        for path in [
            "CheckIPHeader(CHECKSUM false) -> g :: IPGWOptions(1.2.3.4) -> IPFragmenter(40)
                -> a :: Collect; g [1] -> ICMPError(1.2.3.4, parameterproblem) -> b :: Collect",
            "MarkIPHeader -> t :: Tee -> IPGWOptions(1.2.3.4) -> DecIPTTL -> IPFragmenter(30, false)
                -> SetIPDSCP(3) -> MarkIPCE(true) -> StoreIPAddress(9.9.9.9, dst)
                -> SetIPChecksum -> IPEncap(ipip, 1.1.1.1, DST_ANNO) -> StripIPHeader
                -> UnstripIPHeader -> a :: Collect;
             t [1] -> ICMPError(1.2.3.4, timeexceeded) -> FixIPSrc(4.3.2.1) -> b :: Collect",
        ] {
            let one = through(path, &packets, 1);
            let all = through(path, &packets, 256);
            prop_assert_eq!(one[0].len(), all[0].len());
            prop_assert_eq!(&one[1], &all[1]);
        }
    }
}
