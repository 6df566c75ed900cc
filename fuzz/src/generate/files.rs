//! Files that configurations name.

use crate::Bytes;

/// Files to begin with: a capture, and a summary of one.
const CAPTURES: &[&[u8]] = &[
    include_bytes!("../../seeds/capture/scapy-nano-little.pcap"),
    include_bytes!("../../seeds/capture/scapy-micro-big.pcap"),
    include_bytes!("../../seeds/capture/editcap-snaplen.pcapng"),
];
const SUMMARY: &[u8] = b"!IPSummaryDump 1.3\n!data timestamp ip_src sport ip_dst dport ip_proto ip_len\n\
    1.5 1.0.0.1 5 1.0.0.2 6 U 60\n2 1.0.0.2 6 1.0.0.1 5 T 1500\n!flowid 1.0.0.1 5 1.0.0.2 6 U\n- - - -\n";

/// The files that `text` may name, and their contents.
pub fn files(bytes: &mut Bytes<'_>, text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let named = ["capture", "summary"].into_iter().filter(|name| text.contains(name));
    named
        .map(|name| {
            let captures = bytes.choice(CAPTURES);
            let mut contents = if name == "capture" { captures } else { SUMMARY }.to_vec();
            for _ in 0..bytes.below(8) {
                let (at, byte) = (bytes.below(contents.len().min(65536)), bytes.byte());
                contents[at] = byte;
            }
            if bytes.one_in(4) {
                let length = bytes.below(256);
                contents.extend(bytes.take(length));
            }
            (name, contents)
        })
        .collect()
}
