//! A program in both forms, on packets in front of memory that cannot be read, and a third opinion.
//! Tests and the fuzz target `filter` share it.

use std::{ptr, slice};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::{Instruction, Invalid, Metadata, Program};

/// A program in both forms.
#[derive(Debug)]
pub(super) struct Both {
    pub(super) program: Program,
    pub(super) portable: Program,
    /// Whether it gives the same whenever it is run: it asks for no random number, nor for its processor.
    is_steady: bool,
}

/// Loads of a processor's number and of random numbers.
const UNSTEADY: [u32; 2] = [0xffff_f024, 0xffff_f038];

impl Both {
    /// # Errors
    ///
    /// When both refuse it.
    pub(super) fn new(instructions: &[Instruction]) -> Result<Both, Invalid> {
        let (program, portable) = (Program::new(instructions), Program::portable(instructions));
        assert_eq!(program.as_ref().err(), portable.as_ref().err());
        let is_steady = !instructions.iter().any(|it| it.code & 7 == 0 && UNSTEADY.contains(&it.k));
        Ok(Both { program: program?, portable: portable?, is_steady })
    }

    /// The result, equal of both forms.
    #[track_caller]
    pub(super) fn accepts(&self, packet: &[u8], length: u32) -> u32 {
        self.accepts_with(packet, length, &Metadata::default())
    }

    /// Runs the program on a packet with metadata.
    #[track_caller]
    pub(super) fn accepts_with(&self, packet: &[u8], length: u32, about: &Metadata) -> u32 {
        let given = self.program.accepts_with(packet, length, about);
        let portable = self.portable.accepts_with(packet, length, about);
        assert!(
            given == portable || !self.is_steady,
            "{given} by machine code, {portable} else: {self:02x?} on {packet:02x?} of {length}"
        );
        given
    }
}

/// Memory that ends where nothing can be read: a program that looks behind a packet dies.
pub(super) struct Edge {
    pages: *mut u8,
}

/// Bytes that can be read.
const READABLE: usize = 1 << 16;
/// More than a page of any processor.
const FORBIDDEN: usize = 1 << 16;

impl Edge {
    pub(super) fn new() -> Edge {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where nothing else is.
        let pages = unsafe {
            mmap_anonymous(ptr::null_mut(), READABLE + FORBIDDEN, protection, MapFlags::PRIVATE)
        };
        let pages = pages.expect("memory").cast::<u8>();
        // SAFETY: the second half of the mapping, to which there are no references.
        unsafe { mprotect(pages.add(READABLE).cast(), FORBIDDEN, MprotectFlags::empty()) }
            .expect("memory that is forbidden");
        Edge { pages }
    }

    /// Puts a packet at the end.
    pub(super) fn put(&mut self, packet: &[u8]) -> &[u8] {
        assert!(packet.len() <= READABLE);
        // SAFETY: so many bytes before the end of the readable and writable part, which `self`
        // owns.
        unsafe {
            let at = self.pages.add(READABLE - packet.len());
            at.copy_from_nonoverlapping(packet.as_ptr(), packet.len());
            slice::from_raw_parts(at, packet.len())
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which no reference is left.
        unsafe { munmap(self.pages.cast(), READABLE + FORBIDDEN) }.expect("memory");
    }
}

/// Result of a valid program, by an interpreter that shares nothing with the tested code: it reads
/// instructions as they come, as `bpf_filter` does. `None` when it goes on for too long, or asks
/// for metadata.
pub(super) fn reference(program: &[Instruction], packet: &[u8], length: u32) -> Option<u32> {
    let load = |size: u16, at: u64| {
        let bytes = [4, 2, 1][usize::from(size >> 3 & 3)];
        let end = usize::try_from(at + bytes).ok()?;
        let loaded = packet.get(at as usize..end)?;
        Some(loaded.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
    let mut at = 0;
    for _ in 0..1 << 18 {
        let Instruction { code, jt, jf, k } = program[at];
        let operand = if code & 0x08 == 0 { k } else { x };
        at += 1;
        match code {
            // `SKF_AD_ALU_XOR_X`; the packet is one to this host, and no tag was taken out of it.
            0x20 | 0x28 | 0x30 if k == 0xffff_f028 => a ^= x,
            0x20 | 0x28 | 0x30 if matches!(k, 0xffff_f004 | 0xffff_f02c | 0xffff_f030) => a = 0,
            0x20 | 0x28 | 0x30 if k >= 0xffff_f000 => return None,
            0x20 | 0x28 | 0x30 => match load(code, k.into()) {
                Some(number) => a = number,
                None => return Some(0),
            },
            0x40 | 0x48 | 0x50 => match load(code, u64::from(x) + u64::from(k)) {
                Some(number) => a = number,
                None => return Some(0),
            },
            0xb1 => match load(0x10, k.into()) {
                Some(number) => x = (number & 15) * 4,
                None => return Some(0),
            },
            0x80 => a = length,
            0x81 => x = length,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = memory[k as usize],
            0x61 => x = memory[k as usize],
            0x02 => memory[k as usize] = a,
            0x03 => memory[k as usize] = x,
            0x34 | 0x3c | 0x94 | 0x9c if operand == 0 => return Some(0),
            0x04 | 0x0c => a = a.wrapping_add(operand),
            0x14 | 0x1c => a = a.wrapping_sub(operand),
            0x24 | 0x2c => a = a.wrapping_mul(operand),
            0x34 | 0x3c => a /= operand,
            0x44 | 0x4c => a |= operand,
            0x54 | 0x5c => a &= operand,
            0x64 | 0x6c => a = if operand < 32 { a << operand } else { 0 },
            0x74 | 0x7c => a = if operand < 32 { a >> operand } else { 0 },
            0x84 => a = 0u32.wrapping_sub(a),
            0x94 | 0x9c => a %= operand,
            0xa4 | 0xac => a ^= operand,
            0x05 => at = (at as u32).wrapping_add(k) as usize,
            0x15 | 0x1d => at += usize::from(if a == operand { jt } else { jf }),
            0x25 | 0x2d => at += usize::from(if a > operand { jt } else { jf }),
            0x35 | 0x3d => at += usize::from(if a >= operand { jt } else { jf }),
            0x45 | 0x4d => at += usize::from(if a & operand != 0 { jt } else { jf }),
            0x06 => return Some(k),
            0x16 => return Some(a),
            0x07 => x = a,
            0x87 => a = x,
            _ => panic!("no instruction {code:#x}"),
        }
    }
    None
}
