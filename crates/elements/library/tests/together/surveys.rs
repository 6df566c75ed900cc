//! Chains of elements with per-frame header caching, and without: the same packets, counters, drops
//! and handlers.

use super::Run;
use proptest::{collection::vec, prelude::*};

/// Elements that fill, use, change or invalidate the header cache. Those with further outputs send
/// packets there that do not go on.
const ELEMENTS: [(&str, usize); 33] = [
    ("CheckIPHeader", 1),
    ("CheckIPHeader(14)", 1),
    ("CheckIPHeader2", 1),
    ("MarkIPHeader(0)", 0),
    ("DecIPTTL", 1),
    ("DecIPTTL(MULTICAST false)", 1),
    ("IPGWOptions(10.0.0.9)", 1),
    ("FixIPSrc(10.0.0.9)", 0),
    ("RadixIPLookup(0/0 0)", 0),
    ("RadixIPLookup(0/0 192.168.0.1 0)", 0),
    ("RadixIPLookup(10.0.0.0/9 0, 10.128.0.0/9 1.2.3.4 0, 224.0.0.0/4 1)", 1),
    ("SetIPAddress(10.1.2.3)", 0),
    ("StoreIPAddress(16)", 0),
    ("GetIPAddress(16)", 0),
    ("Strip(14)", 0),
    ("Strip(34)", 0),
    ("Unstrip(14)", 0),
    ("Unstrip(200)", 0),
    ("EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)", 0),
    ("EtherRewrite(2:0:0:0:0:3, 2:0:0:0:0:4)", 0),
    ("Paint(3)", 0),
    ("Paint(200, 2)", 0),
    ("PaintTee(3)", 1),
    ("DropBroadcasts", 1),
    ("IPFragmenter(60)", 1),
    ("SetIPChecksum", 0),
    ("Truncate(24)", 0),
    ("StoreData(8, \\<40>)", 0),
    ("Align(8, 4)", 0),
    ("Pad(90)", 0),
    ("IPInputCombo(7)", 0),
    ("IPOutputCombo(7, 10.0.0.9, 70)", 4),
    ("Classifier(12/0800, -)", 1),
];

/// An Ethernet frame with an IPv4 packet, most of them as they are usually.
fn packet(kind: u8, at: usize) -> String {
    let mut header = etherparse::Ipv4Header {
        time_to_live: if kind & 7 == 1 { 1 } else { 2 + kind % 60 },
        identification: at as u16,
        source: if kind & 31 == 9 { [255; 4] } else { [10, 0, 0, 1] },
        destination: [if kind & 15 == 2 { 224 } else { 10 }, kind, 8, 7],
        ..Default::default()
    };
    if kind & 15 == 3 {
        header.options = [1, 1, 1, 0].into();
    }
    let length = 8 + usize::from(kind % 5) * 12;
    header.set_payload_len(length).unwrap();
    header.header_checksum = header.calc_header_checksum() ^ u16::from(kind & 31 == 4);
    let mut bytes = vec![0u8; 12];
    bytes.extend([8, 0]);
    bytes.extend(header.to_bytes());
    bytes.extend((0..length).map(|at| at as u8));
    if kind & 31 == 5 {
        bytes.truncate(30);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_header_cache_changes_no_result(
        kinds in vec(prop_oneof![5 => Just(0u8), 2 => any::<u8>()], 1..120),
        strip: bool,
        chain in vec(0..ELEMENTS.len(), 1..9),
        limit in prop_oneof![Just(8usize), Just(13), Just(32), Just(256)],
    ) {
        let packets: Vec<String> =
            kinds.iter().enumerate().map(|(at, kind)| packet(*kind, at)).collect();
        let mut text = format!("Packets({})", packets.join(" "));
        let mut beside = String::new();
        let mut read = vec!["c.packets".to_owned()];
        if strip {
            text += " -> Strip(14) -> CheckIPHeader";
        }
        for (at, element) in chain.iter().enumerate() {
            let (element, others) = ELEMENTS[*element];
            text += &format!(" -> e{at} :: {element}");
            for other in 1..=others {
                beside += &format!("e{at} [{other}] -> o{at}_{other} :: Collect;\n");
                read.push(format!("o{at}_{other}.packets"));
            }
            if element.contains("DecIPTTL") || element.contains("CheckIPHeader") {
                read.push(format!("e{at}.drops"));
            }
        }
        text += " -> c :: Collect;\n";
        text += &beside;
        let came = [true, false].map(|surveys| {
            let run = Run::new(&text).frame_limit(limit);
            let mut run = if surveys { run } else { run.without_surveys() };
            run.run();
            let mut came: Vec<String> = read.iter().map(|handler| run.read(handler)).collect();
            came.push(run.output().to_owned());
            came
        });
        prop_assert_eq!(&came[0], &came[1], "{}", text);
    }
}
