//! Cut and corrupted files: everything before the damage is delivered, nothing after it is made up.

use linerate_port::pcap::Fault;

use crate::golden::Order;
use crate::{Packet, data_files, read, read_whole};

/// Offsets of the records or blocks of a valid file, and of its end.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let u32_at = |at: usize, big: bool| {
        let raw = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        (if big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }) as usize
    };
    let mut at = 0;
    let mut found = Vec::new();
    if bytes[..4] == [0x0a, 0x0d, 0x0d, 0x0a] {
        let mut big = false;
        while at < bytes.len() {
            if bytes[at..at + 4] == [0x0a, 0x0d, 0x0d, 0x0a] {
                big = bytes[at + 8] == 0x1a;
            }
            found.push(at);
            at += u32_at(at + 4, big);
        }
    } else {
        let big = bytes[0] == 0xa1;
        let modified = bytes[..4] == [0x34, 0xcd, 0xb2, 0xa1];
        at = 24;
        while at < bytes.len() {
            found.push(at);
            at += u32_at(at + 8, big) + if modified { 24 } else { 16 };
        }
    }
    assert_eq!(at, bytes.len());
    found.push(at);
    found
}

/// Number of packets in a prefix of whole records: those of the valid file that end in it.
fn whole_packets(bytes: &[u8], end: usize) -> usize {
    let outcome = read(&bytes[..end]);
    assert!(outcome.error.is_none() && outcome.tail.is_none(), "{outcome:?}");
    outcome.packets.len()
}

#[test]
fn every_place_a_file_can_end() {
    for path in data_files() {
        let bytes = std::fs::read(&path).unwrap();
        let all = read_whole(&bytes);
        let starts = boundaries(&bytes);
        let header = if bytes[0] == 0x0a { starts[1] } else { starts[0] };
        for cut in 0..bytes.len() {
            let outcome = read(&bytes[..cut]);
            if cut < header {
                let fault = outcome.error.unwrap().fault;
                let expected = match cut {
                    0 => matches!(fault, Fault::Empty),
                    1..4 => matches!(fault, Fault::NotACapture { .. }),
                    _ => matches!(fault, Fault::ShortHeader { have, .. } if have == cut as u64),
                };
                assert!(expected, "{path:?} cut at {cut}: {fault:?}");
                continue;
            }
            assert!(outcome.error.is_none(), "{path:?} cut at {cut}: {outcome:?}");
            let last = *starts.iter().rfind(|&&start| start <= cut).unwrap();
            let expected = &all[..whole_packets(&bytes, last)];
            assert_eq!(outcome.packets, expected, "{path:?} cut at {cut}");
            match outcome.tail {
                None => assert_eq!(last, cut, "{path:?}: a cut went unnoticed"),
                Some(tail) => {
                    assert_eq!(tail.offset, last as u64, "{path:?} cut at {cut}");
                    assert_eq!(tail.have, (cut - last) as u64, "{path:?} cut at {cut}");
                    assert!(tail.need > tail.have, "{path:?} cut at {cut}: {tail:?}");
                }
            }
        }
    }
}

/// Returns true if `part` can be had from `whole` by leaving packets out.
fn is_subsequence(part: &[Packet], whole: &[Packet]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|packet| rest.any(|other| other == packet))
}

#[test]
fn every_single_byte_corrupted() {
    for path in data_files() {
        let bytes = std::fs::read(&path).unwrap();
        let all = read_whole(&bytes);
        let starts = boundaries(&bytes);
        for place in starts[0]..bytes.len() {
            let record = starts.iter().rposition(|&start| start <= place).unwrap();
            let (first, next) = (starts[record], starts[record + 1]);
            let section_header = bytes[0] == 0x0a && first == 0;
            let before = if section_header { 0 } else { whole_packets(&bytes, first) };
            let through = whole_packets(&bytes, next);
            for flip in [0x01, 0x80, 0xff, bytes[place]] {
                if flip == 0 {
                    continue;
                }
                let mut damaged = bytes.clone();
                damaged[place] ^= flip;
                let outcome = read(&damaged);
                let what = format!("{path:?} byte {place} ^ {flip:#x}: {outcome:?}");

                // Packets before the damage are untouched by it.
                assert!(outcome.packets.len() >= before, "{what}");
                assert_eq!(outcome.packets[..before], all[..before], "{what}");
                if outcome.error.is_some() || outcome.tail.is_some() {
                    continue;
                }
                // Read to the end without complaint. A described interface has a say in the time
                // and number of all its packets, so only their bytes can be compared; else all that
                // follows must be as it was, and the damaged record itself may differ.
                let interface = bytes[0] == 0x0a && (through == before);
                if interface {
                    let payloads = |packets: &[Packet]| -> Vec<Vec<u8>> {
                        packets.iter().map(|packet| packet.data.clone()).collect()
                    };
                    assert_eq!(payloads(&outcome.packets), payloads(&all), "{what}");
                } else {
                    let after = &all[through..];
                    let got = &outcome.packets[before..];
                    let rest = &got[got.len().saturating_sub(after.len())..];
                    assert!(got.len() <= after.len() + 1 && is_subsequence(rest, after), "{what}");
                    assert!(rest.len() == after.len(), "{what}");
                }
            }
        }
    }
}

#[test]
fn lengths_beyond_the_file_cost_no_memory() {
    // A skipped block claims almost 4 GiB, and the file ends.
    let order = Order::Little;
    let block = [order.u32(0x0bad), order.u32(0xffff_fffc), order.u32(0)].concat();
    let outcome = read(&[order.section(), block].concat());
    let tail = outcome.tail.unwrap();
    assert_eq!((tail.offset, tail.have, tail.need), (28, 12, 0xffff_fffc));
}
