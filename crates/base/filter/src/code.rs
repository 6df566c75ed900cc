//! Names of the instructions of classic BPF: parts of their codes, to be joined by `|`.
//!
//! Source: Linux's `linux/bpf_common.h` and `linux/filter.h`.

/// The part of a code with the kind of instruction.
pub const KIND: u16 = 0x07;
/// Loads A.
pub const LOAD: u16 = 0x00;
/// Loads X.
pub const LOAD_X: u16 = 0x01;
/// Stores A in scratch memory.
pub const STORE: u16 = 0x02;
/// Stores X in scratch memory.
pub const STORE_X: u16 = 0x03;
/// Calculates with A.
pub const CALCULATE: u16 = 0x04;
/// Goes on elsewhere.
pub const JUMP: u16 = 0x05;
/// Ends the program.
pub const RETURN: u16 = 0x06;
/// Copies A to X.
pub const A_TO_X: u16 = 0x07;
/// Copies X to A.
pub const X_TO_A: u16 = 0x87;

/// Four bytes are loaded.
pub const WORD: u16 = 0x00;
/// Two bytes.
pub const HALF: u16 = 0x08;
/// One byte.
pub const BYTE: u16 = 0x10;

/// The operand is loaded.
pub const CONSTANT: u16 = 0x00;
/// Bytes of the packet are loaded, at the operand.
pub const ABSOLUTE: u16 = 0x20;
/// In the packet, at the sum of X and the operand.
pub const INDEXED: u16 = 0x40;
/// In scratch memory.
pub const MEMORY: u16 = 0x60;
/// The length of the packet.
pub const LENGTH: u16 = 0x80;
/// Four times the lower half of a byte of the packet: the length of an IPv4 header.
pub const HEADER_LENGTH: u16 = 0xa0;

/// The operand is X instead of a constant.
pub const FROM_X: u16 = 0x08;
/// A is returned instead of a constant.
pub const FROM_A: u16 = 0x10;

/// Calculates a sum.
pub const ADD: u16 = 0x00;
/// Calculates a difference.
pub const SUBTRACT: u16 = 0x10;
/// Calculates a product.
pub const MULTIPLY: u16 = 0x20;
/// Calculates a quotient.
pub const DIVIDE: u16 = 0x30;
/// Sets bits.
pub const OR: u16 = 0x40;
/// Keeps bits.
pub const AND: u16 = 0x50;
/// Shifts to the left.
pub const LEFT: u16 = 0x60;
/// Shifts to the right.
pub const RIGHT: u16 = 0x70;
/// Calculates the negative of A.
pub const NEGATE: u16 = 0x80;
/// Calculates a remainder.
pub const REMAINDER: u16 = 0x90;
/// Inverts bits.
pub const XOR: u16 = 0xa0;

/// Skips as many instructions as the operand says.
pub const ALWAYS: u16 = 0x00;
/// Skips by whether A equals the operand.
pub const EQUAL: u16 = 0x10;
/// By whether A is greater.
pub const GREATER: u16 = 0x20;
/// By whether A is greater or equal.
pub const AT_LEAST: u16 = 0x30;
/// By whether A has bits of the operand.
pub const ANY_BITS: u16 = 0x40;

/// Offsets in the packet from here on stand for its metadata in the kernel.
pub const ANCILLARY: u32 = 0xffff_f000;
/// There, the tag that was taken out of the packet.
pub const VLAN_TAG: u32 = 44;
/// There, whether a tag was taken out of the packet.
pub const VLAN_TAG_PRESENT: u32 = 48;
/// Words of scratch memory.
pub const WORDS: u32 = 16;
