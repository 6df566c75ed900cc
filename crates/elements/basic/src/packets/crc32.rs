//! `SetCRC32` and `CheckCRC32`: a checksum behind the packet.
//!
//! The cyclic redundancy check of Ethernet's polynomial with the first bit of a
//! byte as the highest, begun with ones and not inverted at the end
//! (CRC-32/MPEG-2), stored lowest byte first, as Click does on most machines.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Reads, Step, Verdict, Writes,
};
use linerate_memory::{Packet, PacketMut};

use super::FAMILY;

/// Drop reason of `SetCRC32`.
#[derive(Clone, Copy, DropReason)]
enum SetReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// Drop reason of `CheckCRC32`.
#[derive(Clone, Copy, DropReason)]
enum CheckReason {
    /// wrong CRC
    Wrong,
}

pub(super) const SET: Class = Class {
    name: "SetCRC32",
    family: FAMILY,
    summary: "puts a CRC-32 behind packets",
    description: "Four bytes over all bytes of the packet, which CheckCRC32 checks and takes off. \
        They are not the checksum of an Ethernet frame, which has the bits the other way round.",
    ports: "1/1",
    cost: "Reads the packet, eight bytes at a time by eight tables of 1 KiB.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetCRC32 -> CheckCRC32 -> Discard;",
    ..SetCrc32::CLASS
};

pub(super) const CHECK: Class = Class {
    name: "CheckCRC32",
    family: FAMILY,
    summary: "checks the CRC-32 behind packets and takes it off",
    description: "Packets whose last four bytes are not what SetCRC32 puts there are dropped, \
        with a message each.",
    ports: "1/1",
    prints: true,
    cost: SET.cost,
    example: SET.example,
    ..CheckCrc32::CLASS
};

/// Bytes of the checksum.
const SIZE: usize = 4;

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Effect of a byte on the checksum with 0 to 7 bytes behind it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = sum << 1 ^ if sum >> 31 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum = tables[behind - 1][byte];
            tables[behind][byte] = sum << 8 ^ tables[0][(sum >> 24) as usize];
            byte += 1;
        }
        behind += 1;
    }
    tables
}

/// The checksum of some bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let sum = eights.iter().fold(u32::MAX, |sum, eight| {
        let word = u64::from_be_bytes(*eight) ^ u64::from(sum) << 32;
        let parts = word.to_le_bytes().into_iter().zip(&TABLES);
        parts.fold(0, |sum, (byte, table)| sum ^ table[usize::from(byte)])
    });
    rest.iter().fold(sum, |sum, byte| sum << 8 ^ TABLES[0][usize::from((sum >> 24) as u8 ^ byte)])
}

#[derive(Arguments)]
struct SetCrc32;

impl Step<Writes, SetReason> for SetCrc32 {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<SetReason> {
        if !packet.append(SIZE) {
            return Err(Exit::Drop(SetReason::TooLong));
        }
        if let Some((bytes, end)) = packet.bytes_mut().split_last_chunk_mut() {
            *end = crc32(bytes).to_le_bytes();
        }
        Ok(())
    }
}

#[derive(Arguments)]
struct CheckCrc32 {
    /// Lines about wrong packets.
    text: String,
}

impl Step<Reads, CheckReason> for CheckCrc32 {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<CheckReason> {
        match packet.bytes().split_last_chunk::<SIZE>() {
            Some((bytes, end)) if crc32(bytes).to_le_bytes() == *end => {
                packet.truncate(packet.len() - SIZE);
                Ok(())
            }
            _ => {
                self.text += &format!("CRC32 failed, len {}\n", packet.len());
                Err(Exit::Drop(CheckReason::Wrong))
            }
        }
    }

    fn end(&mut self, cx: &mut Context) {
        cx.console().report(&std::mem::take(&mut self.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Run;

    /// The check value of the catalogue of CRCs, and a byte at a time.
    #[test]
    fn sums_are_right() {
        assert_eq!(crc32(b"123456789"), 0x0376_e6e7);
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(31) ^ 0x5a).collect();
        for length in 0..bytes.len() {
            let slow = bytes[..length].iter().fold(u32::MAX, |sum, byte| {
                let sum = sum ^ u32::from(*byte) << 24;
                (0..8).fold(sum, |sum, _| (sum << 1) ^ ((sum >> 31) * POLYNOMIAL))
            });
            assert_eq!(crc32(&bytes[..length]), slow, "{length}");
        }
    }

    #[test]
    fn an_appended_crc_is_checked_and_removed() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "Packets(0102 - 010203 313233343536373839) -> t :: Tee -> SetCRC32 -> u :: Tee
                    -> CheckCRC32 -> c :: Collect;
                 t [1] -> d :: Collect; u [1] -> e :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), run.read("d.packets"));
            assert!(run.read("e.packets").ends_with("313233343536373839e7e67603"));
        }
    }

    #[test]
    fn wrong_sums_are_dropped_and_told() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "Packets(ffffffff 313233343536373839e7e67603 313233343536373839e7e67703 010203)
                    -> k :: CheckCRC32 -> c :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), "\n313233343536373839");
            assert_eq!(run.output(), "CRC32 failed, len 13\nCRC32 failed, len 3\n");
            assert_eq!(run.read("k.drops"), "2\twrong CRC\n");
        }
    }
}
