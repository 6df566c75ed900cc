//! Sample files read by pcap-parser, an independent implementation, for comparison.

use std::path::Path;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, pcapng::InterfaceDescriptionBlock};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};

use crate::{Packet, data_files, read_whole};

/// Time of a packet as pcap-parser has it: resolution and offset from the interface.
fn nanoseconds(interface: &InterfaceDescriptionBlock<'_>, units: u64) -> u64 {
    let per_second = u128::from(interface.ts_resolution().unwrap());
    let offset = i128::from(interface.if_tsoffset) * 1_000_000_000;
    (i128::try_from(u128::from(units) * 1_000_000_000 / per_second).unwrap() + offset) as u64
}

pub(crate) fn read_ng(bytes: &[u8]) -> Vec<Packet> {
    let mut reader = PcapNGReader::new(1 << 20, bytes).unwrap();
    let mut packets = Vec::new();
    // Clocks of this section's interfaces as functions of the raw time.
    let mut clocks: Vec<Box<dyn Fn(u64) -> u64>> = Vec::new();
    let mut base = 0;
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                        base += clocks.len() as u32;
                        clocks.clear();
                    }
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        let (resolution, tsoffset) = (interface.if_tsresol, interface.if_tsoffset);
                        clocks.push(Box::new(move |units| {
                            let interface = InterfaceDescriptionBlock {
                                block_type: 1,
                                block_len1: 20,
                                linktype: pcap_parser::Linktype::ETHERNET,
                                reserved: 0,
                                snaplen: 0,
                                options: Vec::new(),
                                block_len2: 20,
                                if_tsresol: resolution,
                                if_tsoffset: tsoffset,
                            };
                            nanoseconds(&interface, units)
                        }));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => packets.push(Packet {
                        ts_ns: clocks[packet.if_id as usize](
                            u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                        ),
                        orig_len: packet.origlen,
                        data: packet.data[..packet.caplen as usize].to_vec(),
                        interface: base + packet.if_id,
                    }),
                    _ => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("pcap-parser: {error:?}"),
        }
    }
}

pub(crate) fn read_pcap(bytes: &[u8]) -> Vec<Packet> {
    let mut reader = LegacyPcapReader::new(1 << 20, bytes).unwrap();
    let mut packets = Vec::new();
    let mut unit = 0;
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
                    }
                    PcapBlockOwned::Legacy(packet) => packets.push(Packet {
                        ts_ns: u64::from(packet.ts_sec) * 1_000_000_000
                            + u64::from(packet.ts_usec) * unit,
                        orig_len: packet.origlen,
                        data: packet.data.to_vec(),
                        interface: 0,
                    }),
                    PcapBlockOwned::NG(_) => unreachable!(),
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("pcap-parser: {error:?}"),
        }
    }
}

#[test]
fn files_of_other_programs_read_alike() {
    for path in data_files() {
        // pcap-parser takes the modified format for the plain one; tshark is its judge instead.
        if path.file_name() == Path::new("editcap-modified.pcap").file_name() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let theirs = if bytes[0] == 0x0a { read_ng(&bytes) } else { read_pcap(&bytes) };
        assert!(theirs.len() >= 4, "{path:?}");
        assert_eq!(read_whole(&bytes), theirs, "{path:?}");
    }
}
