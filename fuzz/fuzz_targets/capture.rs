//! Capture file reader on arbitrary bytes, and the writer on the records read.
//!
//! Asserted besides the absence of panics: records obey the format's limits; bytes that arrive in
//! small pieces read the same; the first half of a file reads as a beginning of the whole; and
//! records read can be written in both formats and read back.

#![no_main]

use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use linerate_port::pcap::{Format, MAX_PACKET, Options, Reader, Writer};

/// Time, original length, bytes.
type Packet = (u64, u32, Vec<u8>);

/// Delivers at most a few bytes per call.
struct ShortReads(Cursor<Vec<u8>>, usize);

impl Read for ShortReads {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let count = out.len().min(self.1);
        self.0.read(&mut out[..count])
    }
}

/// A file in memory that outlives its writer.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All records, and whether the file was read to its end without error.
fn read(source: impl Read + Send + 'static) -> (Vec<Packet>, bool) {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(source, "input") {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return (packets, false);
        }
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                assert!(record.data.len() <= MAX_PACKET as usize);
                assert!(record.data.len() <= record.orig_len as usize);
                packets.push((record.ts_ns, record.orig_len, record.data.to_vec()));
                let interface = record.interface as usize;
                assert_eq!(reader.interfaces()[interface].link, 1);
            }
            Ok(None) => {
                if let Some(tail) = reader.tail() {
                    assert!(tail.have < tail.need);
                }
                return (packets, true);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(reader.next().unwrap().is_none());
                return (packets, false);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (packets, whole) = read(Cursor::new(data.to_vec()));
    assert_eq!(read(ShortReads(Cursor::new(data.to_vec()), 0)), (packets.clone(), whole));
    let (half, _) = read(Cursor::new(data[..data.len() / 2].to_vec()));
    assert!(packets.starts_with(&half));

    for format in [Format::Pcap, Format::Pcapng] {
        let file = Shared::default();
        let mut writer = Writer::new(file.clone(), "output", &Options::new(format)).unwrap();
        // Times after 2106 do not fit into pcap.
        let fits = |packet: &&Packet| {
            format == Format::Pcapng || packet.0 / 1_000_000_000 <= u64::from(u32::MAX)
        };
        let expected: Vec<Packet> = packets.iter().filter(fits).cloned().collect();
        for (ts_ns, orig_len, data) in &packets {
            let _ = writer.write(*ts_ns, *orig_len, data);
        }
        writer.finish().unwrap();
        let bytes = file.0.lock().unwrap().clone();
        assert_eq!(read(Cursor::new(bytes)), (expected, true));
    }
});
