//! Files written out byte by byte.

use linerate_port::pcap::{Corruption, Fault, Format, Reader};

use crate::{Packet, read, read_whole};

/// One way of writing numbers.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub(crate) const BOTH: [Self; 2] = [Self::Little, Self::Big];

    pub(crate) fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    pub(crate) fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    fn pcap(self, magic: u32, minor: u16, network: u32) -> Vec<u8> {
        let mut file = self.u32(magic).to_vec();
        file.extend([self.u16(2), self.u16(minor)].concat());
        file.extend([0, 0, 65535, network].map(|word| self.u32(word)).concat());
        file
    }

    fn record(self, words: &[u32], data: &[u8]) -> Vec<u8> {
        let mut record: Vec<u8> = words.iter().flat_map(|&word| self.u32(word)).collect();
        record.extend(data);
        record
    }

    /// A pcapng block around a body whose length is a multiple of four.
    pub(crate) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        assert_eq!(body.len() % 4, 0);
        let length = self.u32(body.len() as u32 + 12);
        [&self.u32(kind)[..], &length, body, &length].concat()
    }

    pub(crate) fn section(self) -> Vec<u8> {
        let version = [self.u16(1), self.u16(0)].concat();
        let body = [&self.u32(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    pub(crate) fn interface(self, link: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
        let body = [&self.u16(link)[..], &[0, 0], &self.u32(snaplen), options].concat();
        self.block(1, &body)
    }

    pub(crate) fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.u16(code), self.u16(value.len() as u16)].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    pub(crate) fn enhanced(self, interface: u32, ts: u64, original: u32, data: &[u8]) -> Vec<u8> {
        let words = [interface, (ts >> 32) as u32, ts as u32, data.len() as u32, original];
        let mut body = self.record(&words, data);
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(6, &body)
    }
}

fn packet(ts_ns: u64, orig_len: u32, data: &[u8]) -> Packet {
    Packet { ts_ns, orig_len, data: data.to_vec(), interface: 0 }
}

fn error(bytes: &[u8]) -> Fault {
    read(bytes).error.expect("an error").fault
}

#[test]
fn a_literal_microsecond_pcap() {
    let bytes = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0, //
        0x00, 0xf1, 0x53, 0x65, 0x3f, 0x42, 0x0f, 0x00, 3, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb, 0xcc,
        0x01, 0xf1, 0x53, 0x65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let expected = [
        packet(1_700_000_000_999_999_000, 60, &[0xaa, 0xbb, 0xcc]),
        packet(1_700_000_001_000_000_000, 0, &[]),
    ];
    assert_eq!(read_whole(&bytes), expected);
}

#[test]
fn a_literal_big_endian_pcapng() {
    let bytes = [
        0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, //
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 28, //
        0, 0, 0, 1, 0, 0, 0, 32, 0, 1, 0, 0, 0, 0, 0, 96, //
        0, 9, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, //
        0, 0, 0, 6, 0, 0, 0, 36, 0, 0, 0, 0, 0x17, 0x97, 0x9c, 0xfe, 0x36, 0x2a, 0x00,
        0x07, //
        0, 0, 0, 3, 0, 0, 0, 70, 1, 2, 3, 0, 0, 0, 0, 36,
    ];
    assert_eq!(read_whole(&bytes), [packet(1_700_000_000_000_000_007, 70, &[1, 2, 3])]);
}

#[test]
fn every_pcap_magic_in_both_orders() {
    let data = [7; 20];
    for order in Order::BOTH {
        for (magic, fraction, ns, extra) in [
            (0xa1b2_c3d4, 999_999, 999_999_000, false),
            (0xa1b2_3c4d, 999_999_999, 999_999_999, false),
            (0xa1b2_cd34, 5, 5_000, true),
        ] {
            let mut file = order.pcap(magic, 4, 1);
            let mut words = vec![1_700_000_000, fraction, 20, 64];
            if extra {
                words.extend([3, 0x0800_0000]);
            }
            file.extend(order.record(&words, &data));
            let expected = packet(1_700_000_000_000_000_000 + ns, 64, &data);
            assert_eq!(read_whole(&file), std::slice::from_ref(&expected), "{magic:#x}");
        }
    }
}

#[test]
fn old_versions_have_the_lengths_swapped() {
    for order in Order::BOTH {
        for (minor, lengths) in [(2, [64, 3]), (3, [64, 3]), (3, [3, 64]), (4, [3, 64])] {
            let mut file = order.pcap(0xa1b2_c3d4, minor, 1);
            file.extend(order.record(&[1, 2, lengths[0], lengths[1]], &[9; 3]));
            assert_eq!(read_whole(&file), [packet(1_000_002_000, 64, &[9; 3])], "2.{minor}");
        }
    }
}

#[test]
fn a_pcap_header_may_name_the_check_sequence_length() {
    let file = Order::Little.pcap(0xa1b2_c3d4, 4, 0x2400_0001);
    let reader = Reader::new(std::io::Cursor::new(file), "x").unwrap();
    assert_eq!(reader.interfaces()[0].fcs_length, 4);
    assert_eq!(reader.format(), Format::Pcap);
}

#[test]
fn files_other_than_captures_are_named_so() {
    let header = |have| Fault::ShortHeader { have, need: 24 };
    let pcap = Order::Little.pcap(0xa1b2_c3d4, 4, 1);
    let cases: Vec<(&[u8], Fault)> = vec![
        (&[], Fault::Empty),
        (b"abc", Fault::NotACapture { start: b"abc".to_vec() }),
        (b"hello world", Fault::NotACapture { start: b"hell".to_vec() }),
        (b"\x1f\x8b\x08\x00", Fault::Compressed { program: "gzip" }),
        (b"\x28\xb5\x2f\xfd!", Fault::Compressed { program: "zstd" }),
        (&pcap[..4], header(4)),
        (&pcap[..23], header(23)),
    ];
    for (bytes, expected) in cases {
        assert_eq!(format!("{:?}", error(bytes)), format!("{expected:?}"), "{bytes:x?}");
    }
    let wrong = error(&Order::Big.pcap(0xa1b2_c3d4, 5, 1));
    assert!(matches!(wrong, Fault::Version { major: 2, minor: 5 }), "{wrong:?}");
    assert!(matches!(error(&Order::Little.section()[..20]), Fault::ShortHeader { have: 20, .. }));
}

#[test]
fn a_missing_file_is_named() {
    let text = Reader::open("/nonexistent/x.pcap").unwrap_err().to_string();
    assert!(text.starts_with("/nonexistent/x.pcap: cannot open"), "{text}");
}

#[test]
fn other_links_are_refused_by_name() {
    let fault = error(&Order::Little.pcap(0xa1b2_c3d4, 4, 113));
    assert!(matches!(fault, Fault::Link { interface: 0, link: 113 }), "{fault:?}");
    assert!(fault.to_string().contains("Linux cooked"), "{fault}");

    // A pcapng file may describe such an interface; only its packets are refused.
    let order = Order::Little;
    let mut file = [
        order.section(),
        order.interface(127, 0, &[]),
        order.interface(1, 0, &[]),
        order.enhanced(1, 1, 4, &[1; 4]),
    ]
    .concat();
    assert_eq!(read_whole(&file).len(), 1);
    file.extend(order.enhanced(0, 2, 4, &[2; 4]));
    let outcome = read(&file);
    assert_eq!(outcome.packets.len(), 1);
    let fault = outcome.error.unwrap().fault;
    assert!(matches!(fault, Fault::Link { interface: 0, link: 127 }), "{fault:?}");
}

#[test]
fn sections_interfaces_and_clocks() {
    let (little, big) = (Order::Little, Order::Big);
    let offset = little.option(14, &(-5_i64).to_le_bytes());
    let file = [
        big.section(),
        big.interface(1, 0, &[big.option(2, b"eth0"), big.option(9, &[0x80 | 20])].concat()),
        big.enhanced(0, 5 << 19, 2, &[1, 2]),
        // An unknown block, one with a name resolution, and one with custom data.
        big.block(0x0bad, &[0; 400]),
        big.block(4, &[0; 4]),
        little.section(),
        little.interface(1, 3, &[offset, little.option(0, &[])].concat()),
        little.interface(1, 0, &little.option(13, &[4])),
        little.enhanced(0, 6_000_001, 9, &[3; 3]),
        little.enhanced(1, 7, 1, &[4]),
        // A Simple Packet: cut to the first interface's three bytes, and without a time.
        little.block(3, &[&little.u32(9)[..], &[5, 6, 7, 0]].concat()),
        // An obsolete Packet Block: interface and drop count share a word.
        little
            .block(2, &[&[1, 0, 9, 9][..], &little.record(&[0, 8, 2, 70], &[8, 8, 0, 0])].concat()),
    ]
    .concat();
    let expected = [
        Packet { ts_ns: 2_500_000_000, orig_len: 2, data: vec![1, 2], interface: 0 },
        Packet { ts_ns: 1_000_001_000, orig_len: 9, data: vec![3; 3], interface: 1 },
        Packet { ts_ns: 7_000, orig_len: 1, data: vec![4], interface: 2 },
        Packet { ts_ns: 7_000, orig_len: 9, data: vec![5, 6, 7], interface: 1 },
        Packet { ts_ns: 8_000, orig_len: 70, data: vec![8, 8], interface: 2 },
    ];
    assert_eq!(read_whole(&file), expected);

    let mut reader = Reader::new(std::io::Cursor::new(file), "x").unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.skipped_blocks(), 2);
    let interfaces = reader.interfaces();
    assert_eq!(interfaces.len(), 3);
    assert_eq!(interfaces[0].name.as_deref(), Some("eth0"));
    assert_eq!((interfaces[1].snaplen, interfaces[2].fcs_length), (3, 4));
}

#[test]
fn corrupt_fields_are_named_with_their_place() {
    let order = Order::Little;
    let pcap = |words: &[u32]| {
        let mut file = order.pcap(0xa1b2_c3d4, 4, 1);
        file.extend(order.record(words, &[0; 64]));
        (24, file)
    };
    let start = [order.section(), order.interface(1, 0, &[])].concat();
    let ng = |block: Vec<u8>| (start.len() as u64, [start.clone(), block].concat());
    let enhanced = |words: &[u32], rest: &[u8]| order.block(6, &order.record(words, rest));
    let mut mismatch = order.enhanced(0, 0, 4, &[0; 4]);
    *mismatch.last_mut().unwrap() = 1;
    let block_length = |kind, length| Corruption::BlockLength { kind, length };
    let cases = [
        (pcap(&[0, 0, 262_145, 262_145]), Corruption::PacketLength { length: 262_145 }),
        (pcap(&[0, 0, u32::MAX, u32::MAX]), Corruption::PacketLength { length: u32::MAX }),
        (pcap(&[0, 0, 9, 8]), Corruption::LongerThanOriginal { captured: 9, original: 8 }),
        (pcap(&[0, 1_000_001, 8, 8]), Corruption::Fraction { value: 1_000_001, limit: 1_000_000 }),
        (ng(order.record(&[6, 0, 0, 0], &[])), block_length(6, 0)),
        (ng(order.record(&[6, 33, 0, 0], &[])), block_length(6, 33)),
        (ng(order.record(&[99, 8, 0, 0], &[])), block_length(99, 8)),
        (ng(order.record(&[6, 0xffff_fffc, 0, 0], &[])), block_length(6, 0xffff_fffc)),
        (ng(mismatch), Corruption::LengthMismatch { head: 36, tail: 0x0100_0024 }),
        (ng(enhanced(&[7, 0, 0, 0, 0], &[])), Corruption::UnknownInterface { id: 7, known: 1 }),
        (
            ng(enhanced(&[0, 0, 0, 5, 5], &[0; 4])),
            Corruption::PacketOutsideBlock { captured: 5, room: 4 },
        ),
        (
            ng(enhanced(&[0, 0, 0, 4, 3], &[0; 4])),
            Corruption::LongerThanOriginal { captured: 4, original: 3 },
        ),
        (ng(enhanced(&[0, 0, 0, 0, 3], &[2, 0, 5, 0, 0, 0, 0, 0])), Corruption::Options),
        (ng(enhanced(&[0, u32::MAX, 0, 0, 0], &[])), Corruption::Timestamp),
        (ng(order.interface(1, 0, &order.option(9, &[20]))), Corruption::Resolution { value: 20 }),
        (
            ng(order.record(&[0x0a0d_0d0a, 28, 0x1234_5678, 1, 0, 0, 28], &[])),
            Corruption::ByteOrder { magic: 0x1234_5678 },
        ),
    ];
    for ((expected_offset, file), expected) in cases {
        match read(&file).error.map(|error| error.fault) {
            Some(Fault::Corrupt { offset, what }) => {
                assert_eq!((offset, what), (expected_offset, expected));
            }
            other => panic!("{expected:?}: {other:?}"),
        }
    }
}

#[test]
fn a_packet_before_any_interface_is_refused() {
    let order = Order::Big;
    for block in [order.enhanced(0, 0, 0, &[]), order.block(3, &order.u32(0))] {
        let fault = error(&[order.section(), block].concat());
        assert!(
            matches!(
                fault,
                Fault::Corrupt { what: Corruption::UnknownInterface { id: 0, known: 0 }, .. }
            ),
            "{fault:?}"
        );
    }
}

#[test]
fn an_endless_run_of_interfaces_is_stopped() {
    let order = Order::Little;
    let mut file = order.section();
    for _ in 0..65_537 {
        file.extend(order.interface(1, 0, &[]));
    }
    let fault = error(&file);
    assert!(
        matches!(fault, Fault::Corrupt { what: Corruption::TooManyInterfaces, .. }),
        "{fault:?}"
    );
}
