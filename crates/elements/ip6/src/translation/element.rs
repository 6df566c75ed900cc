//! `ProtocolTranslator46`, `ProtocolTranslator64`.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::{Arena, Frame, Slot};

use super::{Head, Outcome, Prefix, Refused, V4, V6, to_v4, to_v6};
use crate::FAMILY;
use linerate_kit::room;

/// Drop reasons; those between are [`Refused`].
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;

const DROPS: &[&str] = &[
    "no buffer",
    "longer than a buffer",
    "no sound packet",
    "an address the other side cannot have",
    "nothing the other side has",
];

const PREFIX: Arg =
    Arg::keyword("PREFIX", "IPv6 prefix", "::ffff:0:0/96", "the bits in front of IPv4 addresses");

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
    args: &[PREFIX],
    annotates: true,
    drops: DROPS,
    cost: "Reads and writes the headers; checksums are updated, not computed, but for datagrams \
        without one and ICMP errors, which are also copied.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> UDPIPEncap(1.0.0.1, 53, 2.0.0.1, 53)\n  \
        -> ProtocolTranslator46(PREFIX 64:ff9b::/96) -> CheckIP6Header -> Discard;",
    make: |make| {
        let prefix = Prefix::from_args(make);
        Box::new(Translator {
            prefix,
            to_v4: false,
            ident: 0,
            message: Vec::new(),
            lost: Vec::new(),
        })
    },
    ..Class::here()
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
    make: |make| {
        let prefix = Prefix::from_args(make);
        Box::new(Translator {
            prefix,
            to_v4: true,
            ident: 0,
            message: Vec::new(),
            lost: Vec::new(),
        })
    },
    ..FROM_V4
};

struct Translator {
    prefix: Prefix,
    to_v4: bool,
    /// Identification of the last packet that may be fragmented.
    ident: u16,
    /// A message that has been made anew.
    message: Vec<u8>,
    /// Packets of a frame that are not translated, and why.
    lost: Vec<(Slot, usize)>,
}

impl Translator {
    /// Translates a packet, or says for what reason it is dropped.
    fn translate(&mut self, arena: &Arena, slot: &mut Slot) -> Result<(), usize> {
        let Translator { prefix, ident, message, .. } = self;
        let bytes = arena.packet_mut(slot).ok_or(NO_BUFFER)?;
        let outcome = if self.to_v4 {
            // Zero is what those have that are not fragmented.
            *ident = ident.checked_add(1).unwrap_or(1);
            to_v4::translate(bytes, prefix, *ident, message)
        } else {
            to_v6::translate(bytes, prefix, message)
        };
        let head = match outcome.map_err(|refused: Refused| refused as usize)? {
            Outcome::Header(head) => {
                slot.truncate(head.replaced + head.payload);
                slot.pull(head.replaced);
                head
            }
            Outcome::Message(head) => {
                if !arena.resize(slot, self.message.len()) {
                    return Err(TOO_LONG);
                }
                arena.packet_mut(slot).ok_or(NO_BUFFER)?.copy_from_slice(&self.message);
                head
            }
        };
        self.put(arena, slot, &head).then_some(()).ok_or(TOO_LONG)
    }

    fn put(&self, arena: &Arena, slot: &mut Slot, head: &Head) -> bool {
        let length = head.bytes().len();
        if !room::push(arena, slot, length) {
            return false;
        }
        let Some(to) = arena.packet_mut(slot).and_then(|bytes| bytes.get_mut(..length)) else {
            return false;
        };
        to.copy_from_slice(head.bytes());
        let Some(meta) = arena.meta_mut(slot) else { return false };
        (meta.network, meta.transport) = (0, length as u16);
        let destination = if self.to_v4 { &head.bytes[16..V4] } else { &head.bytes[24..V6] };
        meta.destination = [0; 16];
        meta.destination[..destination.len()].copy_from_slice(destination);
        true
    }
}

impl Element for Translator {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let mut lost = std::mem::take(&mut self.lost);
        let arena = cx.pool.arena();
        let reason = std::cell::Cell::new(NO_BUFFER);
        frame.sift(
            |slot| {
                let refused = self.translate(arena, slot).err();
                reason.set(refused.unwrap_or(NO_BUFFER));
                refused.is_none()
            },
            |slot| lost.push((slot, reason.get())),
        );
        lost.drain(..).for_each(|(slot, reason)| cx.drop_packet(slot, reason));
        self.lost = lost;
    }
}
