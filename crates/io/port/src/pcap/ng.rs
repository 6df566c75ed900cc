//! Reading the pcapng format: a sequence of typed blocks, each with its length at both ends.
//!
//! Source: draft-ietf-opsawg-pcapng. Understood are section headers (also several, each with its own
//! byte order), interface descriptions (name, timestamp resolution and offset, frame check
//! sequence) and the three kinds of packet blocks. All other blocks are passed over without being
//! held. Per-packet options are checked for their lengths, not interpreted.

use super::error::{Corruption, Fault};
use super::order::Order;
use super::reader::{Head, Interface, ReadOptions, Step};
use super::time::Clock;
use super::window::Window;
use super::{MAX_INTERFACES, MAX_PACKET};

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
pub(super) const INTERFACE: u32 = 1;
pub(super) const ENHANCED: u32 = 6;
const OBSOLETE: u32 = 2;
const SIMPLE: u32 = 3;

/// Type and length in front, length again behind.
const OVERHEAD: usize = 12;
/// Bytes of a section header without options.
const SECTION_HEADER: usize = 28;
/// Largest block that is held at once: a packet of the largest size and ample options.
const MAX_BLOCK: usize = 1 << 20;
/// Longest interface name kept.
const MAX_NAME: usize = 256;

/// Returns true if a file that starts with these bytes is a pcapng file.
pub(super) fn is_ng(start: [u8; 4]) -> bool {
    // The type reads the same in both byte orders.
    u32::from_le_bytes(start) == SECTION
}

/// State of reading a pcapng file.
#[derive(Debug)]
pub(super) struct Ng {
    order: Order,
    /// Time unit and offset of each interface of this section.
    clocks: Vec<Clock>,
    /// Interfaces that earlier sections described.
    base: usize,
    last_ts: u64,
    skipped: u64,
    options: ReadOptions,
}

/// The start of a block: its type and length, checked, and its byte order.
struct Block {
    kind: u32,
    length: u32,
    order: Order,
}

/// The fixed part of a packet block, in any of its three forms.
struct Packet {
    interface: u32,
    /// Raw units, or none for a Simple Packet.
    ts: Option<u64>,
    captured: u32,
    original: u32,
    /// Offset of the packet within the block.
    start: usize,
}

impl Ng {
    /// Reads the first section header.
    pub(super) fn open(window: &mut Window, options: &ReadOptions) -> Result<Self, Fault> {
        let mut ng = Self {
            order: Order::Little,
            clocks: Vec::new(),
            base: 0,
            last_ts: 0,
            skipped: 0,
            options: *options,
        };
        match ng.step(window, &mut Vec::new())? {
            Step::End { need } => {
                let (have, need) = (window.bytes().len() as u64, need.max(SECTION_HEADER as u64));
                Err(Fault::ShortHeader { have, need })
            }
            // The first block is a section header, as its type said, so no packet and not passed over.
            Step::Record(_) | Step::Other | Step::Cut { .. } => Ok(ng),
        }
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Reads the next block; a packet stays in the window, anything else is consumed.
    pub(super) fn step(
        &mut self,
        window: &mut Window,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Step, Fault> {
        let offset = window.offset();
        let read = |source| Fault::Read { offset, source };
        let corrupt = |what| Fault::Corrupt { offset, what };
        if !window.need(OVERHEAD).map_err(read)? {
            return Ok(Step::End { need: OVERHEAD as u64 });
        }
        let block = self.block(window.bytes()).map_err(corrupt)?;
        let size = block.length as usize;
        if !matches!(block.kind, SECTION | INTERFACE | ENHANCED | OBSOLETE | SIMPLE) {
            return self.pass_over(window, &block);
        }
        if size > MAX_BLOCK {
            let Block { kind, length, .. } = block;
            return Err(corrupt(Corruption::BlockLength { kind, length }));
        }
        if !window.need(size).map_err(read)? {
            return Ok(Step::End { need: size as u64 });
        }
        let bytes = &window.bytes()[..size];
        let tail = block.order.u32(bytes, size - 4);
        if tail != block.length {
            return Err(corrupt(Corruption::LengthMismatch { head: block.length, tail }));
        }
        match block.kind {
            SECTION => {
                let (major, minor) = (block.order.u16(bytes, 12), block.order.u16(bytes, 14));
                if !matches!((major, minor), (1, 0 | 2)) {
                    return Err(Fault::Version { major, minor });
                }
                self.order = block.order;
                self.clocks.clear();
                self.base = interfaces.len();
                window.consume(size);
                Ok(Step::Other)
            }
            INTERFACE => {
                if interfaces.len() == MAX_INTERFACES {
                    return Err(corrupt(Corruption::TooManyInterfaces));
                }
                let (interface, clock) = self.interface(bytes).map_err(corrupt)?;
                interfaces.push(interface);
                self.clocks.push(clock);
                window.consume(size);
                Ok(Step::Other)
            }
            kind => {
                let packet = self.packet(kind, bytes, interfaces).map_err(corrupt)?;
                let clock = self.clocks[packet.interface as usize];
                let interface = self.base + packet.interface as usize;
                let link = interfaces[interface].link;
                let interface = interface as u32;
                if !self.options.takes(link) {
                    return Err(Fault::Link { interface, link });
                }
                if let Some(ts) = packet.ts {
                    self.last_ts = clock.nanoseconds(ts).ok_or(corrupt(Corruption::Timestamp))?;
                }
                Ok(Step::Record(Head {
                    ts_ns: self.last_ts,
                    original: packet.original,
                    interface,
                    data: packet.start..packet.start + packet.captured as usize,
                    size,
                }))
            }
        }
    }

    /// Checks the first 12 bytes of a block.
    fn block(&self, bytes: &[u8]) -> Result<Block, Corruption> {
        let kind = self.order.u32(bytes, 0);
        let mut order = self.order;
        if kind == SECTION {
            let magic = Order::Little.u32(bytes, 8);
            order = match magic {
                BYTE_ORDER => Order::Little,
                _ if magic.swap_bytes() == BYTE_ORDER => Order::Big,
                _ => return Err(Corruption::ByteOrder { magic }),
            };
        }
        let length = order.u32(bytes, 4);
        let least = match kind {
            SECTION => SECTION_HEADER,
            INTERFACE => OVERHEAD + 8,
            SIMPLE => OVERHEAD + 4,
            ENHANCED | OBSOLETE => OVERHEAD + 20,
            _ => OVERHEAD,
        };
        if (length as usize) < least || !length.is_multiple_of(4) {
            return Err(Corruption::BlockLength { kind, length });
        }
        Ok(Block { kind, length, order })
    }

    /// Passes over a block of any size, checking only that its two lengths agree.
    fn pass_over(&mut self, window: &mut Window, block: &Block) -> Result<Step, Fault> {
        let offset = window.offset();
        let read = |source| Fault::Read { offset, source };
        let need = u64::from(block.length);
        let have = window.skip(need - 4).map_err(read)?;
        if have < need - 4 || !window.need(4).map_err(read)? {
            let have = have + window.bytes().len() as u64;
            return Ok(Step::Cut { offset, have, need });
        }
        let tail = block.order.u32(window.bytes(), 0);
        if tail != block.length {
            let what = Corruption::LengthMismatch { head: block.length, tail };
            return Err(Fault::Corrupt { offset, what });
        }
        window.consume(4);
        self.skipped += 1;
        Ok(Step::Other)
    }

    /// Reads a whole interface description block.
    fn interface(&self, block: &[u8]) -> Result<(Interface, Clock), Corruption> {
        let order = self.order;
        let mut interface = Interface {
            name: None,
            link: u32::from(order.u16(block, 8)),
            snaplen: order.u32(block, 12),
            fcs_length: 0,
        };
        let (mut resolution, mut offset) = (6, 0);
        walk_options(order, &block[16..block.len() - 4], |code, value| match (code, value) {
            (2, name) => {
                let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
                interface.name = Some(name.trim_end_matches('\0').to_owned());
            }
            (9, &[value]) => resolution = value,
            (13, &[value]) => interface.fcs_length = value,
            (14, value) if value.len() == 8 => offset = order.u64(value, 0) as i64,
            _ => {}
        })?;
        let clock =
            Clock::new(resolution, offset).ok_or(Corruption::Resolution { value: resolution })?;
        Ok((interface, clock))
    }

    /// Reads the fixed part of a packet block and checks that the packet lies within the block.
    fn packet(
        &self,
        kind: u32,
        block: &[u8],
        interfaces: &[Interface],
    ) -> Result<Packet, Corruption> {
        let order = self.order;
        let known = self.clocks.len() as u32;
        let end = block.len() - 4;
        let packet = if kind == SIMPLE {
            let original = order.u32(block, 8);
            let Some(first) = interfaces.get(self.base) else {
                return Err(Corruption::UnknownInterface { id: 0, known });
            };
            let captured = match first.snaplen {
                0 => original,
                snaplen => original.min(snaplen),
            };
            Packet { interface: 0, ts: None, captured, original, start: 12 }
        } else {
            let interface = match kind {
                ENHANCED => order.u32(block, 8),
                _ => u32::from(order.u16(block, 8)),
            };
            let ts = u64::from(order.u32(block, 12)) << 32 | u64::from(order.u32(block, 16));
            let (captured, original) = (order.u32(block, 20), order.u32(block, 24));
            Packet { interface, ts: Some(ts), captured, original, start: 28 }
        };
        let Packet { interface, captured, original, start, .. } = packet;
        if interface >= known {
            return Err(Corruption::UnknownInterface { id: interface, known });
        }
        let room = (end - start) as u32;
        if captured > room {
            return Err(Corruption::PacketOutsideBlock { captured, room });
        }
        if captured > MAX_PACKET {
            return Err(Corruption::PacketLength { length: captured });
        }
        if captured > original {
            return Err(Corruption::LongerThanOriginal { captured, original });
        }
        // Both start and end are multiples of four, so the padding is within the block.
        let options = start + (captured as usize).next_multiple_of(4);
        if kind == SIMPLE {
            // A Simple Packet has no options: bytes behind it mean that its length is wrong.
            if options != end {
                return Err(Corruption::PacketOutsideBlock { captured, room });
            }
        } else {
            walk_options(order, &block[options..end], |_, _| {})?;
        }
        Ok(packet)
    }
}

/// Calls `each` with the code and value of every option.
fn walk_options(
    order: Order,
    mut options: &[u8],
    mut each: impl FnMut(u16, &[u8]),
) -> Result<(), Corruption> {
    while options.len() >= 4 {
        let (code, length) = (order.u16(options, 0), usize::from(order.u16(options, 2)));
        if code == 0 {
            // The end mark. It has no value, and nothing may follow.
            return if length == 0 && options.len() == 4 {
                Ok(())
            } else {
                Err(Corruption::Options)
            };
        }
        let padded = 4 + length.next_multiple_of(4);
        if padded > options.len() {
            return Err(Corruption::Options);
        }
        each(code, &options[4..4 + length]);
        options = &options[padded..];
    }
    if options.is_empty() { Ok(()) } else { Err(Corruption::Options) }
}
