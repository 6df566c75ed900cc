//! Programs of classic BPF, as a program on libpcap may set any on a handle: the checker and the two
//! forms, beside an interpreter that shares nothing with them.
//!
//! A packet ends where memory does, so that machine code that looks behind it dies.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::Bytes;
use linerate_pcap::bpf::{Instruction, Invalid, Metadata, Program};

#[path = "../../crates/libpcap/src/bpf/tests/exercise.rs"]
mod exercise;

use exercise::{Both, Edge, reference};

/// Codes that are allowed, so that not all of an input is about finding them.
const CODES: [u8; 49] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20, 0x24,
    0x25, 0x28, 0x2c, 0x2d, 0x30, 0x34, 0x35, 0x3c, 0x3d, 0x40, 0x44, 0x45, 0x48, 0x4c, 0x4d, 0x50,
    0x54, 0x5c, 0x60, 0x61, 0x64, 0x6c, 0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0x94, 0x9c, 0xa4, 0xac,
    0xb1,
];

thread_local! {
    static EDGE: RefCell<Edge> = RefCell::new(Edge::new());
}

/// An instruction: its code as it is or as a number of [`CODES`], its operand small or whole.
fn instruction(bytes: &mut Bytes<'_>) -> Instruction {
    let kind = bytes.byte();
    let code = if kind & 0xc0 == 0xc0 {
        u16::from(bytes.byte()) | u16::from(kind & 1) << 8
    } else {
        u16::from(CODES[usize::from(kind & 0x3f) % CODES.len()])
    };
    let (jt, jf) = if code & 7 == 5 { (bytes.byte(), bytes.byte()) } else { (0, 0) };
    let small = bytes.byte();
    let k = match small {
        0xff => u32::from_be_bytes(std::array::from_fn(|_| bytes.byte())),
        // Codes that the kernel is asked for, and jumps that lead backwards.
        0xe0..0xff => u32::MAX - 0xfff + u32::from(bytes.byte()),
        0xd0..0xe0 => 0u32.wrapping_sub(u32::from(small & 0x0f) + 1),
        small => u32::from(small),
    };
    Instruction { code, jt, jf, k }
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let count = bytes.below(64);
    let mut program: Vec<Instruction> = (0..count).map(|_| instruction(&mut bytes)).collect();
    if !bytes.one_in(8) {
        program.push(Instruction::give(u32::MAX));
    }
    let beside = bytes.below(1 << 16) as u32;
    let Ok(forms) = Both::new(&program) else { return };
    let packet = bytes.0;
    for captured in [packet.len(), packet.len() / 2, 0] {
        let packet = &packet[..captured.min(1 << 12)];
        let length = packet.len() as u32 + beside;
        let given = EDGE.with_borrow_mut(|edge| forms.accepts(edge.put(packet), length));
        // A program that goes on for too long is ended somewhere.
        if let Some(expected) = reference(&program, packet, length) {
            let ended = forms.program.machine_code().is_none() && given == 0;
            assert!(
                given == expected || ended,
                "{given} and {expected}: {program:x?} on {packet:02x?}"
            );
        }
    }
});
