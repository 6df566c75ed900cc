//! Random programs that are valid, packets they look into, and faults that make programs invalid.

use fastrand::Rng;
use linerate_filter::{Instruction, code};

/// Bytes that packets are mostly made of, so that comparisons hold now and then.
const BYTES: [u8; 6] = [0, 1, 6, 8, 0x45, 0xff];
/// The longest packet.
const LONGEST: usize = 80;

/// A packet that a program of [`program`] looks into.
pub(super) fn packet(random: &mut Rng) -> Vec<u8> {
    let bytes = random.usize(..=LONGEST);
    (0..bytes)
        .map(|_| if random.u8(..8) == 0 { random.u8(..) } else { *random.choice(&BYTES).unwrap() })
        .collect()
}

/// A valid program with instructions of all kinds.
pub(super) fn program(random: &mut Rng) -> Vec<Instruction> {
    let mut program = Vec::new();
    let words = random.u32(..=code::WORDS);
    if words > 0 {
        program.push(plain(code::LOAD, number(random)));
        program.push(plain(code::LOAD_X | code::LENGTH, 0));
    }
    program.extend(
        (0..words).map(|word| plain(*random.choice(&[code::STORE, code::STORE_X]).unwrap(), word)),
    );
    // Programs often begin with X, since most loads behind it are beyond the packet otherwise.
    if random.bool() {
        program.push(plain(code::LOAD_X | code::HEADER_LENGTH | code::BYTE, place(random)));
    }
    let length = program.len() + random.usize(1..40);
    while program.len() < length - 1 {
        let left = length - 1 - program.len();
        program.push(instruction(random, words, left));
    }
    program.push(end(random));
    program
}

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn end(random: &mut Rng) -> Instruction {
    match random.u8(..4) {
        0 => plain(code::RETURN, 0),
        1 => plain(code::RETURN, random.u32(..)),
        _ => plain(code::RETURN | code::FROM_A, random.u32(..)),
    }
}

/// An instruction for programs that have written so many words of scratch memory and in which so
/// many instructions can be skipped.
fn instruction(random: &mut Rng, words: u32, left: usize) -> Instruction {
    let width = *random.choice(&[code::WORD, code::HALF, code::BYTE]).unwrap();
    match random.u8(..32) {
        0..=6 => plain(code::LOAD | code::ABSOLUTE | width, place(random)),
        7..=10 => plain(code::LOAD | code::INDEXED | width, place(random)),
        11 => plain(code::LOAD_X | code::HEADER_LENGTH | code::BYTE, place(random)),
        12 => plain(code::LOAD | code::LENGTH, 0),
        13 => plain(code::LOAD_X | code::LENGTH, 0),
        14 => plain(code::LOAD, number(random)),
        15 => plain(code::LOAD_X, small(random)),
        16 => plain(code::A_TO_X, 0),
        17 => plain(code::X_TO_A, 0),
        18 if words > 0 => {
            let kind = *random.choice(&[code::LOAD, code::LOAD_X]).unwrap();
            plain(kind | code::MEMORY, random.u32(..words))
        }
        19 if words > 0 => {
            plain(*random.choice(&[code::STORE, code::STORE_X]).unwrap(), random.u32(..words))
        }
        20 => plain(code::CALCULATE | code::NEGATE, 0),
        21 => end(random),
        22 => plain(code::JUMP, random.u32(..left as u32)),
        18 | 19 | 23..=26 => calculation(random),
        _ => Instruction {
            code: code::JUMP
                | random.u16(1..=4) << 4
                | *random.choice(&[0, 0, 0, code::FROM_X]).unwrap(),
            jt: random.usize(..left.min(8)) as u8,
            jf: random.usize(..left.min(8)) as u8,
            k: number(random),
        },
    }
}

fn calculation(random: &mut Rng) -> Instruction {
    let operators = [
        code::ADD,
        code::SUBTRACT,
        code::MULTIPLY,
        code::DIVIDE,
        code::OR,
        code::AND,
        code::AND,
        code::LEFT,
        code::RIGHT,
        code::REMAINDER,
        code::XOR,
    ];
    let operator = *random.choice(&operators).unwrap();
    let operand = *random.choice(&[0, 0, code::FROM_X]).unwrap();
    let k = match operator {
        code::LEFT | code::RIGHT => random.u32(..32),
        code::DIVIDE | code::REMAINDER if random.bool() => 1 << random.u32(..32),
        code::DIVIDE | code::REMAINDER => number(random).max(1),
        _ => number(random),
    };
    plain(code::CALCULATE | operator | operand, k)
}

/// Mostly a place in a packet; in front of the places that are none.
fn place(random: &mut Rng) -> u32 {
    match random.u8(..64) {
        0 => random.u32(..code::ANCILLARY),
        1 => i32::MAX as u32 - random.u32(..6),
        2 => i32::MAX as u32 + random.u32(..6),
        3 => random.u32(120..140),
        4 => random.u32(..200),
        _ => random.u32(..24),
    }
}

/// Mostly something that is in packets.
fn number(random: &mut Rng) -> u32 {
    let bytes = [(); 4].map(|()| *random.choice(&BYTES).unwrap());
    match random.u8(..8) {
        0 => random.u32(..),
        1..=3 => u32::from(bytes[0]),
        4 | 5 => u32::from_be_bytes([0, 0, bytes[0], bytes[1]]),
        6 => u32::from_be_bytes(bytes),
        _ => 1 << random.u32(..32),
    }
}

fn small(random: &mut Rng) -> u32 {
    if random.u8(..8) == 0 { random.u32(..) } else { random.u32(..40) }
}

/// Changes a program in one or two places, so that it mostly is none any more.
pub(super) fn damage(random: &mut Rng, program: &mut Vec<Instruction>) {
    for _ in 0..random.u8(1..3) {
        let at = random.usize(..program.len());
        let instruction = &mut program[at];
        match random.u8(..12) {
            0 => instruction.code ^= 1 << random.u8(..16),
            1 | 2 => instruction.code ^= 1 << random.u8(..8),
            3 => instruction.code = random.u16(..256),
            4 => instruction.k = random.u32(..20),
            5 => instruction.k = random.u32(code::ANCILLARY..=code::ANCILLARY + 80),
            6 => instruction.k = 0u32.wrapping_sub(random.u32(..20)),
            7 => (instruction.jt, instruction.jf) = (random.u8(..), random.u8(..)),
            8 => *instruction = plain(code::LOAD | code::MEMORY, random.u32(..18)),
            9 => *instruction = plain(code::CALCULATE | random.u16(..16) << 4, random.u32(..40)),
            10 => *instruction = plain(code::JUMP, random.u32(..40)),
            _ => {
                program.remove(at);
            }
        }
        if program.is_empty() {
            return;
        }
    }
}
