//! `IPsecESPEncap` and `IPsecESPUnencap`: the ESP header and the padding.

use aes::{
    Aes128,
    cipher::{BlockCipherEncrypt as _, KeyInit as _},
};
use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Exit, NoBuffer, Step, Verdict,
    Writes,
};
use linerate_memory::{Frame, PacketMut};

use super::{
    ESP, FAMILY,
    association::{AssociationCache, Replay},
};
use linerate_element_support::{
    annotations::parameters_index,
    ip::{PROTOCOL, get_four},
    random::Random,
};

/// Drop reason of `IPsecESPEncap`.
#[derive(Clone, Copy, DropReason)]
enum EncapReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no security association
    NoAssociation,
    /// longer than a buffer
    TooLong,
}

/// Drop reason of `IPsecESPUnencap`.
#[derive(Clone, Copy, DropReason)]
enum UnencapReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no security association
    NoAssociation,
    /// too short
    Short,
    /// replayed
    Replayed,
    /// wrong padding
    Padding,
}

pub(super) const ENCAP: Class = Class {
    name: "IPsecESPEncap",
    family: FAMILY,
    summary: "puts an ESP header in front of packets, and padding behind",
    description: "Packets become a multiple of 8 bytes long (RFC 2406). Parameters index and \
        sequence number are those of the tunnel RadixIPsecLookup has chosen. IPsecAuthHMACSHA1 and \
        IPsecAES come next.",
    ports: "1/1",
    annotates: true,
    cost: "The lines in front of the packet and behind it; a block of AES for its first bytes.",
    example: EXAMPLE,
    ..Encap::CLASS
};

pub(super) const UNENCAP: Class = Class {
    name: "IPsecESPUnencap",
    summary: "takes the ESP header and the padding off packets",
    description: "Packets that have come before, are too old to know, or whose padding is wrong are \
        dropped, with a message each. Sequence numbers up to 64 below the newest can be known.",
    drops: UnencapReason::REASONS,
    cost: "The packet's first and last line; a lock that only workers of the same tunnel contend \
        for.",
    args: &[],
    make: |make| Box::new(Unencap { known: AssociationCache::new(make) }),
    ..ENCAP
};

/// A tunnel from its beginning to its end.
pub(crate) const EXAMPLE: &str = "FromIPSummaryDump(STOP true, CHECKSUM true, FIELDS ip_dst, \
        DATA \"10.0.0.1\") -> CheckIPHeader\n  \
    -> r :: RadixIPsecLookup(10.0.0.0/8 1 99 0123456789abcdef fedcba9876543210 1 32)\n  \
    -> Discard;\n\
    r [1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecAES(0)\n  \
    -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> Discard;";

/// Padding makes packets a multiple of that.
const BLOCK: usize = 8;

#[derive(Arguments)]
struct Encap {
    /// has no effect, as in Click: the index is that of the tunnel
    #[arg(name = "SPI", optional, kind = "number", shown = "that of the tunnel")]
    _index: Option<u32>,
    #[init(AssociationCache::new(make))]
    known: AssociationCache,
    /// Generator of unpredictable initialization vectors.
    #[init(Encap::source(make))]
    source: Aes128,
    count: u128,
}

impl Encap {
    fn source(make: &ElementBuilder<'_>) -> Aes128 {
        let mut key = [0; 16];
        let random = if make.world.simulated {
            0
        } else {
            rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())
                .unwrap_or_default()
        };
        if random < key.len() {
            let mut random = Random::new(make);
            key.fill_with(|| random.below(256) as u8);
        }
        Aes128::new(&key.into())
    }

    fn first_bytes(&mut self) -> [u8; 8] {
        let mut block = self.count.to_le_bytes().into();
        self.count += 1;
        self.source.encrypt_block(&mut block);
        block.first_chunk().copied().unwrap_or_default()
    }
}

/// The protocol of the IP packet it is, where its header is known.
fn protocol(packet: &PacketMut<'_>) -> u8 {
    let header = packet.bytes().get(packet.network()..);
    header.and_then(|header| header.get(PROTOCOL)).copied().unwrap_or_default()
}

impl Step<Writes, EncapReason> for Encap {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<EncapReason> {
        let association = self.known.for_packet(packet.meta()).ok_or(EncapReason::NoAssociation)?;
        let sequence = association.next();
        let index = parameters_index(packet.meta());
        let protocol = protocol(packet);
        let length = packet.len();
        let padding = (BLOCK - (length + 2) % BLOCK) % BLOCK;
        if !packet.append(padding + 2) || !packet.prepend(ESP) {
            return Err(Exit::Drop(EncapReason::TooLong));
        }
        let first = self.first_bytes();
        let bytes = packet.bytes_mut();
        bytes[..4].copy_from_slice(&index.to_be_bytes());
        bytes[4..8].copy_from_slice(&sequence.to_be_bytes());
        bytes[8..ESP].copy_from_slice(&first);
        let end = &mut bytes[ESP + length..];
        end.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
        end[padding..].copy_from_slice(&[padding as u8, protocol]);
        Ok(())
    }
}

struct Unencap {
    known: AssociationCache,
}

/// Returns the bytes of padding at the end of a packet, with the two bytes of the trailer; or the
/// error in it.
fn padding(bytes: &[u8]) -> Result<usize, &'static str> {
    let [.., before, count, _] = bytes else { return Err("Invalid padding length") };
    if count != before && *count != 0 {
        return Err("Invalid padding length");
    }
    let all = usize::from(*count) + 2;
    let start = bytes.len().checked_sub(all).ok_or("Corrupt padding")?;
    let mut numbered = bytes[start..bytes.len() - 2].iter().zip(1..);
    if numbered.all(|(byte, number): (_, u8)| *byte == number) {
        Ok(all)
    } else {
        Err("Corrupt padding")
    }
}

impl Element for Unencap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let mut said = String::new();
        cx.retain::<Writes, UnencapReason>(frame, |packet| {
            let association =
                self.known.for_packet(packet.meta()).ok_or(UnencapReason::NoAssociation)?;
            let (header, payload) =
                packet.bytes().split_first_chunk::<ESP>().ok_or(UnencapReason::Short)?;
            let wrong = match association.receive(u32::from_be_bytes(get_four(header, 4))) {
                Replay::New => "",
                Replay::Zero => return Err(Exit::Drop(UnencapReason::Replayed)),
                Replay::TooOld => "This packet is too old to be accepted",
                Replay::Seen => "This packet is already seen...",
            };
            if !wrong.is_empty() {
                said += &format!("Replay protection: {wrong}\n");
                return Err(Exit::Drop(UnencapReason::Replayed));
            }
            let padding = padding(payload).map_err(|wrong| {
                said += &format!("{wrong}\n");
                Exit::Drop(UnencapReason::Padding)
            })?;
            packet.truncate(packet.len() - padding);
            packet.pull(ESP);
            Ok(())
        });
        if !said.is_empty() {
            cx.console().report(&said);
        }
    }
}
