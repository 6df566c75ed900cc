//! Packets in a file that other programs read.

use std::fs;
use std::path::Path;

pub(crate) fn write(path: &Path, packets: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, 1u32] {
        bytes.extend(word.to_le_bytes());
    }
    for (nth, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        for word in [nth as u32, 0, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(packet);
    }
    fs::write(path, bytes).expect("a file can be written");
}
