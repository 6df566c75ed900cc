//! Writing: byte for byte, read back by us and by others, split over files.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::time::Duration;

use linerate_port::pcap::{
    Counts, Error, Fault, Format, Limits, MAX_PACKET, Options, Precision, Reader, Rotating, Writer,
};
use proptest::prelude::*;

use crate::{Directory, Packet, Shared, drain, oracle, read_whole};

fn written(options: &Options, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let file = Shared::default();
    let mut writer = Writer::new(file.clone(), "test", options).unwrap();
    write(&mut writer);
    let size = writer.finish().unwrap();
    assert_eq!(file.bytes().len() as u64, size);
    file.bytes()
}

#[test]
fn a_pcap_byte_for_byte() {
    let mut options = Options { snaplen: 4, ..Options::new(Format::Pcap) };
    let write = |writer: &mut Writer| {
        writer.write(1_700_000_000_123_456_789, 60, &[1, 2, 3]).unwrap();
        writer.write(0, 0, &[5; 6]).unwrap();
    };
    let nano = [
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, //
        0x00, 0xf1, 0x53, 0x65, 0x15, 0xcd, 0x5b, 0x07, 3, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3, //
        0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 5, 5, 5, 5,
    ];
    assert_eq!(written(&options, write), nano);

    options.precision = Precision::Micro;
    let mut micro = nano;
    micro[..4].copy_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1]);
    micro[28..32].copy_from_slice(&123_456_u32.to_le_bytes());
    assert_eq!(written(&options, write), micro);
}

#[test]
fn a_pcapng_byte_for_byte() {
    let options = Options { interface: Some("eth0".into()), ..Options::new(Format::Pcapng) };
    let bytes = written(&options, |writer| {
        writer.write_flagged(0x0000_0001_0000_0002, 60, &[1, 2, 3], 2).unwrap();
        writer.set_counts(Counts { received: 9, dropped: 8 });
    });
    let section = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert_eq!(bytes[8..16], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
    let rest = [
        1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 4, 0, //
        2, 0, 4, 0, b'e', b't', b'h', b'0', 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0,
        0, //
        6, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0,
        0, //
        1, 2, 3, 0, 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0, //
        5, 0, 0, 0, 76, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, //
        2, 0, 8, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 8, 0, 1, 0, 0, 0, 2, 0, 0, 0, //
        4, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 0, 8, 0, 8, 0, 0, 0, 0, 0, 0, 0, //
        0, 0, 0, 0, 76, 0, 0, 0,
    ];
    assert_eq!(bytes[section..], rest);
}

#[test]
fn times_after_2106_need_pcapng() {
    let late = (1 << 32) * 1_000_000_000;
    let bytes = written(&Options::new(Format::Pcap), |writer| {
        let fault = writer.write(late, 1, &[1]).unwrap_err().fault;
        assert!(matches!(fault, Fault::Timestamp { ts_ns } if ts_ns == late), "{fault:?}");
        writer.write(late - 1, 1, &[2]).unwrap();
    });
    assert_eq!(read_whole(&bytes)[0].ts_ns, late - 1);
    let bytes = written(&Options::new(Format::Pcapng), |writer| {
        writer.write(u64::MAX, 1, &[1]).unwrap();
    });
    assert_eq!(read_whole(&bytes)[0].ts_ns, u64::MAX);
}

#[test]
fn the_largest_packet_is_read_back_and_a_longer_one_cut() {
    let data = vec![7; MAX_PACKET as usize + 1];
    for format in [Format::Pcap, Format::Pcapng] {
        let bytes = written(&Options::new(format), |writer| {
            for _ in 0..5 {
                writer.write(1, 0, &data).unwrap();
            }
        });
        let packets = read_whole(&bytes);
        assert_eq!(packets.len(), 5);
        assert_eq!(packets[4].data.len(), MAX_PACKET as usize);
        assert_eq!(packets[4].orig_len, MAX_PACKET + 1);
    }
}

/// Takes some bytes, then has no more space.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_once_and_stops_writing() {
    let mut writer = Writer::new(Full(100), "f", &Options::new(Format::Pcap)).unwrap();
    writer.write(1, 90, &[1; 90]).unwrap();
    let Error { file, fault } = writer.flush().unwrap_err();
    assert_eq!(file, std::path::Path::new("f"));
    assert!(matches!(fault, Fault::Write { offset: 24, .. }), "{fault:?}");
    assert!(matches!(writer.write(2, 1, &[1]).unwrap_err().fault, Fault::Stopped));
}

#[test]
fn a_dropped_writer_leaves_a_whole_file() {
    let file = Shared::default();
    let mut writer = Writer::new(file.clone(), "test", &Options::new(Format::Pcapng)).unwrap();
    writer.write(1, 3, &[1, 2, 3]).unwrap();
    drop(writer);
    assert_eq!(read_whole(&file.bytes()).len(), 1);
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (
        0..u64::from(u32::MAX) * 1_000_000_000,
        0..2000_u32,
        prop::collection::vec(any::<u8>(), 0..200),
    );
    let packet = packet.prop_map(|(ts_ns, more, data)| Packet {
        ts_ns,
        orig_len: data.len() as u32 + more,
        data,
        interface: 0,
    });
    prop::collection::vec(packet, 0..40)
}

proptest! {
    #[test]
    fn a_written_capture_is_read(
        packets in packets(),
        ng in any::<bool>(),
        micro in any::<bool>(),
        snaplen in 1..250_u32,
    ) {
        let format = if ng { Format::Pcapng } else { Format::Pcap };
        let precision = if micro { Precision::Micro } else { Precision::Nano };
        let options =
            Options { precision, snaplen, interface: Some("x0".into()), ..Options::new(format) };
        let bytes = written(&options, |writer| {
            for packet in &packets {
                writer.write(packet.ts_ns, packet.orig_len, &packet.data).unwrap();
            }
            writer.set_counts(Counts { received: packets.len() as u64, dropped: 1 });
        });
        let expected: Vec<Packet> = packets
            .into_iter()
            .map(|mut packet| {
                packet.data.truncate(snaplen as usize);
                if micro && !ng {
                    packet.ts_ns -= packet.ts_ns % 1000;
                }
                packet
            })
            .collect();
        prop_assert_eq!(&read_whole(&bytes), &expected);
        let theirs = if ng { oracle::read_ng(&bytes) } else { oracle::read_pcap(&bytes) };
        prop_assert_eq!(theirs, expected);
    }
}

#[test]
fn a_file_keeps_its_contents_until_there_is_something_to_write() {
    let directory = Directory::new("kept");
    let path = directory.0.join("old.pcap");
    let (old, options) = (b"what was there", Options::new(Format::Pcap));
    std::fs::write(&path, old).unwrap();
    let dropped = Writer::create(&path, &options).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), old);
    drop(dropped);
    assert_eq!(std::fs::read(&path).unwrap(), old);

    // An empty capture is contents, too, and so is a record that is written when the writer goes.
    assert_eq!(Writer::create(&path, &options).unwrap().finish().unwrap(), 24);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 24);
    std::fs::write(&path, [7; 100]).unwrap();
    let mut writer = Writer::create(&path, &options).unwrap();
    writer.write(0, 4, &[1, 2, 3, 4]).unwrap();
    drop(writer);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 24 + 16 + 4);
    std::fs::write(&path, [7; 100]).unwrap();
    Writer::create(&path, &options).unwrap().flush().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 24);
}

/// Writes packets of 100 bytes, a second apart, and returns each file's name and records.
fn rotated(name: &str, format: Format, limits: Limits, count: u64) -> Vec<(String, u64, u64)> {
    let directory = Directory::new(name);
    let path = directory.0.join("trace.pcapng");
    let mut writer = Rotating::create(path, Options::new(format), limits).unwrap();
    for index in 0..count {
        writer.set_counts(Counts { received: index, dropped: 0 });
        writer.write(index * 1_000_000_000, 100, &[index as u8; 100]).unwrap();
    }
    assert_eq!(writer.records(), count);
    writer.finish().unwrap();
    let mut files: Vec<_> = std::fs::read_dir(&directory.0)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let outcome = drain(Reader::open(&path).unwrap());
            assert!(outcome.error.is_none() && outcome.tail.is_none());
            let size = std::fs::metadata(&path).unwrap().len();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, outcome.packets.len() as u64, size)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn rotation_by_count_keeps_the_newest() {
    let limits = Limits { records: Some(3), files: NonZeroUsize::new(2), ..Limits::default() };
    let files = rotated("rotate-count", Format::Pcap, limits, 10);
    let names: Vec<_> = files.iter().map(|(name, records, _)| (name.as_str(), *records)).collect();
    let expected =
        [("trace_00003_19700101000006.pcapng", 3), ("trace_00004_19700101000009.pcapng", 1)];
    assert_eq!(names, expected);
}

#[test]
fn rotation_by_time_follows_the_records() {
    let limits = Limits { duration: Some(Duration::from_secs(4)), ..Limits::default() };
    let files = rotated("rotate-time", Format::Pcapng, limits, 10);
    assert_eq!(files.iter().map(|file| file.1).collect::<Vec<_>>(), [4, 4, 2]);
}

#[test]
fn rotation_by_size_never_exceeds_it() {
    for (name, format) in [("rotate-pcap", Format::Pcap), ("rotate-ng", Format::Pcapng)] {
        let limits = Limits { bytes: Some(700), ..Limits::default() };
        let files = rotated(name, format, limits, 20);
        assert_eq!(files.iter().map(|file| file.1).sum::<u64>(), 20);
        assert!(files.len() < 10 && files.iter().all(|file| file.2 <= 700), "{files:?}");
        // A limit too small for anything still gives every record a file.
        let limits = Limits { bytes: Some(1), ..Limits::default() };
        assert_eq!(rotated(name, format, limits, 5).len(), 5);
    }
}
