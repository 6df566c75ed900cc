//! `ProtocolTranslator46`, `ProtocolTranslator64`: translate packets between IPv4 and IPv6.

use linerate_graph::{Arguments, Class, Exit, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::{Head, Outcome, Prefix, Reason, V4, V6, to_v4, to_v6};
use crate::FAMILY;

pub(super) const FROM_V4: Class = Class {
    name: "ProtocolTranslator46",
    family: FAMILY,
    summary: "makes IPv4 packets IPv6 packets",
    description: "A packet begins with its IPv4 header. Its addresses are put behind the 96 bits \
        of `PREFIX`, and it is translated as RFC 7915 section 4 says: the header, with a fragment \
        header for a fragment; ICMP messages, with the packet an error quotes; the checksums of \
        TCP, UDP and ICMP, of which those that were wrong stay wrong. Dropped are messages that \
        IPv6 has not got, fragments of ICMP messages, datagrams of several fragments without a \
        checksum, and packets with a source route. Options are left out, and so are extensions of \
        ICMP errors (RFC 4884).\n\n\
        The hops left are the same: `DecIPTTL` counts them. Packets that become longer than 1,280 \
        bytes are not cut: `IP6Fragmenter` does that. The destination annotation is the new \
        destination, and the header's place is known behind it. Click's translator changes the \
        hops left by -191 and does not translate what errors quote.",
    ports: "1/1",
    annotates: true,
    cost: "Reads and writes the headers; checksums are updated, not computed, but for datagrams \
        without one and ICMP errors, which are also copied.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> UDPIPEncap(1.0.0.1, 53, 2.0.0.1, 53)\n  \
        -> ProtocolTranslator46(PREFIX 64:ff9b::/96) -> CheckIP6Header -> Discard;",
    ..Translator::<false>::CLASS
};

pub(super) const FROM_V6: Class = Class {
    name: "ProtocolTranslator64",
    summary: "makes IPv6 packets IPv4 packets",
    description: "A packet begins with its IPv6 header. Both of its addresses begin with `PREFIX`, \
        and their last 32 bits are the IPv4 addresses; `AddressTranslator` gives other packets such \
        addresses. It is translated as RFC 7915 section 5 says: the header, without its \
        extensions; ICMP messages, with the packet an error quotes; the checksums of TCP, UDP and \
        ICMP, of which those that were wrong stay wrong. Dropped are messages that IPv4 has not \
        got, neighbour discovery among them, fragments of ICMP messages, and packets with a routing \
        header that is not done with. Extensions of ICMP errors (RFC 4884) are left out.\n\n\
        The hops left are the same: `DecIP6HLIM` counts them. Packets of at most 1,260 bytes may be \
        fragmented on their way and get an identification of their own; longer ones may not. The \
        destination annotation is the new destination, and the header's place is known behind it. \
        Click's translator forbids fragments always, and its ICMP packets have wrong checksums.",
    example: "InfiniteSource(DATA \\<6000000000083b4000000000000000000000ffff01000001\
        00000000000000000000ffff020000010000000000000000>, LIMIT 10, STOP true)\n  \
        -> ProtocolTranslator64 -> CheckIPHeader -> Discard;",
    make: Translator::<true>::CLASS.make,
    ..FROM_V4
};

#[derive(Arguments)]
struct Translator<const TO_V4: bool> {
    /// the bits in front of IPv4 addresses
    #[arg(keyword, kind = "IPv6 prefix", shown = "::ffff:0:0/96", with = Prefix::from_args)]
    prefix: Prefix,
    /// Identification of the last packet that may be fragmented.
    ident: u16,
    /// A message that has been made anew.
    message: Vec<u8>,
}

impl<const TO_V4: bool> Step<Writes, Reason> for Translator<TO_V4> {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let Translator { prefix, ident, message } = self;
        let outcome = if TO_V4 {
            // Zero is for packets that are not fragmented.
            *ident = ident.checked_add(1).unwrap_or(1);
            to_v4::translate(packet.bytes_mut(), prefix, *ident, message)
        } else {
            to_v6::translate(packet.bytes_mut(), prefix, message)
        };
        match outcome? {
            Outcome::Header(head) => {
                packet.truncate(head.replaced + head.payload);
                packet.pull(head.replaced);
                put::<TO_V4>(packet, &head)
            }
            Outcome::Message(head) => {
                if !packet.resize(message.len()) {
                    return Err(Exit::Drop(Reason::TooLong));
                }
                packet.bytes_mut().copy_from_slice(message);
                put::<TO_V4>(packet, &head)
            }
        }
    }
}

/// Puts a header in front of a packet.
fn put<const TO_V4: bool>(packet: &mut PacketMut<'_>, head: &Head) -> Verdict<Reason> {
    let length = head.bytes().len();
    if !packet.prepend(length) {
        return Err(Exit::Drop(Reason::TooLong));
    }
    let (bytes, meta) = packet.parts();
    bytes[..length].copy_from_slice(head.bytes());
    let destination = if TO_V4 { &head.bytes[16..V4] } else { &head.bytes[24..V6] };
    meta.destination = [0; 16];
    meta.destination[..destination.len()].copy_from_slice(destination);
    packet.mark_headers(0, length);
    Ok(())
}
