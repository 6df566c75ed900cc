//! Filters as programs of classic BPF: checked once, run on each packet.

/// An instruction of classic BPF: `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip when a condition holds.
    pub jt: u8,
    /// How many when it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// A program that cannot be run: libpcap would not run it either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("BPF program is not valid")]
pub struct Invalid;

/// Words of scratch memory.
const MEMORY: u32 = 16;
/// Most instructions, as in libpcap.
const INSTRUCTIONS_MAX: usize = 4096;

/// A program that has been checked.
#[derive(Debug, Clone)]
pub struct Program {
    instructions: Box<[Instruction]>,
}

impl Program {
    /// Checks a program: every jump leads forward to an instruction, every word of scratch memory is
    /// there, nothing is divided by a constant zero, and it ends.
    ///
    /// # Errors
    ///
    /// When it does not hold.
    pub fn new(instructions: &[Instruction]) -> Result<Program, Invalid> {
        let length = instructions.len();
        if length == 0 || length > INSTRUCTIONS_MAX {
            return Err(Invalid);
        }
        for (at, instruction) in instructions.iter().enumerate() {
            let Instruction { code, jt, jf, k } = *instruction;
            let left = length - at - 1;
            let valid = match code & 0x07 {
                // Loads.
                0x00 | 0x01 => match code & 0xe0 {
                    0x00 | 0x20 | 0x40 | 0x80 | 0xa0 => true,
                    0x60 => k < MEMORY,
                    _ => false,
                },
                // Stores.
                0x02 | 0x03 => k < MEMORY,
                // Arithmetic.
                0x04 => match code & 0xf0 {
                    0x30 | 0x90 => code & 0x08 != 0 || k != 0,
                    operation => operation <= 0xa0,
                },
                // Jumps.
                0x05 => match code & 0xf0 {
                    0x00 => (k as usize) < left,
                    0x10 | 0x20 | 0x30 | 0x40 => (jt as usize) < left && (jf as usize) < left,
                    _ => false,
                },
                _ => true,
            };
            if !valid {
                return Err(Invalid);
            }
        }
        if instructions[length - 1].code & 0x07 != 0x06 {
            return Err(Invalid);
        }
        Ok(Program { instructions: instructions.into() })
    }

    /// How many bytes of a packet are wanted: 0 when it is not. Of the packet, which had `wire_len` bytes
    /// on its link, there is `packet`.
    pub fn accepts(&self, packet: &[u8], wire_len: u32) -> u32 {
        self.run(packet, wire_len).unwrap_or(0)
    }

    /// `None` when the packet is too short for a load, or something is divided by zero.
    fn run(&self, packet: &[u8], wire_len: u32) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY as usize]);
        let byte = |at: u32| packet.get(at as usize).copied();
        let half = |at: u32| {
            let bytes = packet.get(at as usize..)?.first_chunk()?;
            Some(u32::from(u16::from_be_bytes(*bytes)))
        };
        let word = |at: u32| Some(u32::from_be_bytes(*packet.get(at as usize..)?.first_chunk()?));
        let sized = |size: u16, at: u32| match size {
            0x00 => word(at),
            0x08 => half(at),
            _ => byte(at).map(u32::from),
        };
        let mut at = 0;
        loop {
            let Instruction { code, jt, jf, k } = *self.instructions.get(at)?;
            at += 1;
            let operand = if code & 0x08 != 0 { x } else { k };
            match code & 0x07 {
                0x00 => {
                    a = match code & 0xe0 {
                        0x00 => k,
                        0x20 => sized(code & 0x18, k)?,
                        0x40 => sized(code & 0x18, x.checked_add(k)?)?,
                        0x60 => memory[k as usize],
                        0x80 => wire_len,
                        _ => return None,
                    };
                }
                0x01 => {
                    x = match code & 0xe0 {
                        0x00 => k,
                        0x60 => memory[k as usize],
                        0x80 => wire_len,
                        _ => u32::from(byte(k)? & 0x0f) << 2,
                    };
                }
                0x02 => memory[k as usize] = a,
                0x03 => memory[k as usize] = x,
                0x04 => {
                    a = match code & 0xf0 {
                        0x00 => a.wrapping_add(operand),
                        0x10 => a.wrapping_sub(operand),
                        0x20 => a.wrapping_mul(operand),
                        0x30 => a.checked_div(operand)?,
                        0x40 => a | operand,
                        0x50 => a & operand,
                        0x60 => a.checked_shl(operand).unwrap_or(0),
                        0x70 => a.checked_shr(operand).unwrap_or(0),
                        0x80 => a.wrapping_neg(),
                        0x90 => a.checked_rem(operand)?,
                        _ => a ^ operand,
                    };
                }
                0x05 => {
                    let holds = match code & 0xf0 {
                        0x00 => {
                            at += k as usize;
                            continue;
                        }
                        0x10 => a == operand,
                        0x20 => a > operand,
                        0x30 => a >= operand,
                        _ => a & operand != 0,
                    };
                    at += usize::from(if holds { jt } else { jf });
                }
                0x06 => return Some(if code & 0x18 == 0x10 { a } else { k }),
                _ if code & 0xf8 == 0 => x = a,
                _ => a = x,
            }
        }
    }
}
