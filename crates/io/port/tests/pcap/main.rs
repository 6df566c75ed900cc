//! Capture files from the outside: reading, writing, and the effects of damage.

mod damage;
mod golden;
mod oracle;
mod peers;
mod writing;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use linerate_port::pcap::{Error, Reader, Tail};

/// A record of its own: time, original length, bytes, interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet {
    ts_ns: u64,
    orig_len: u32,
    data: Vec<u8>,
    interface: u32,
}

/// Everything a reader said about some bytes.
#[derive(Debug)]
struct Outcome {
    packets: Vec<Packet>,
    tail: Option<Tail>,
    error: Option<Error>,
}

fn drain(mut reader: Reader) -> Outcome {
    let mut packets = Vec::new();
    let error = loop {
        match reader.next() {
            Ok(Some(record)) => packets.push(Packet {
                ts_ns: record.ts_ns,
                orig_len: record.orig_len,
                data: record.data.to_vec(),
                interface: record.interface,
            }),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    // After the end there is nothing, however often it is asked for.
    assert!(matches!(reader.next(), Ok(None)));
    assert_eq!(reader.records(), packets.len() as u64);
    Outcome { packets, tail: reader.tail(), error }
}

/// Reads bytes to their end.
fn read(bytes: &[u8]) -> Outcome {
    match Reader::new(io::Cursor::new(bytes.to_vec()), "test.pcap") {
        Ok(reader) => drain(reader),
        Err(error) => Outcome { packets: Vec::new(), tail: None, error: Some(error) },
    }
}

/// Reads bytes that must be a whole and valid file.
fn read_whole(bytes: &[u8]) -> Vec<Packet> {
    let outcome = read(bytes);
    assert!(outcome.error.is_none() && outcome.tail.is_none(), "{outcome:?}");
    outcome.packets
}

/// The captures other programs made.
fn data_files() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 12, "{files:?}");
    files
}

/// A file in memory that a test looks into after the writer is gone.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A directory of one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
