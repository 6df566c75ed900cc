//! Choices by the flow: `multipath` and `bundle`.
//!
//! The fields that make a flow are all in the mask then. How numbers follow from the hash is Open
//! vSwitch's; the hash is not, so that the same flow may get another number than there.

use super::{ActionOrigin, Translator};
use crate::wire::field::Needs;
use crate::wire::{Bundle, Field, Multipath, PortNumber};

/// Mixes a number into a hash (the finalizer of `SplitMix64`).
fn mix(hash: u64, number: u128) -> u64 {
    [number as u64, (number >> 64) as u64].iter().fold(hash, |hash, part| {
        let sum = (hash ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum ^ sum >> 31
    })
}

impl<'a> Translator<'a> {
    /// A hash of the fields Nicira's number stands for.
    fn hash(&mut self, fields: u16, basis: u16) -> u32 {
        let mut hash = mix(0, basis.into());
        let layer_3 = |translator: &mut Self| {
            if translator.has(Needs::Ipv4) {
                Some([Field::Ipv4Src, Field::Ipv4Dst])
            } else if translator.has(Needs::Ipv6) {
                Some([Field::Ipv6Src, Field::Ipv6Dst])
            } else {
                None
            }
        };
        const ETHERNET_SOURCE: u16 = 0;
        const LAYER_4: u16 = 1;
        const LAYER_3_4: u16 = 2;
        const LAYER_3_4_UDP: u16 = 3;
        const SOURCE: u16 = 4;
        const DESTINATION: u16 = 5;
        match fields {
            ETHERNET_SOURCE => hash = mix(hash, self.read(Field::EthSrc)),
            SOURCE | DESTINATION => {
                if let Some([source, destination]) = layer_3(self) {
                    let field = if fields == SOURCE { source } else { destination };
                    hash = mix(hash, self.read(field));
                }
            }
            _ => {
                if fields == LAYER_4 {
                    self.both(&mut hash, Field::EthSrc, Field::EthDst);
                    self.look(Field::VlanTci, 0xfff);
                    hash = mix(hash, self.packet.key.get(Field::VlanTci) & 0xfff);
                    hash = mix(hash, self.read(Field::EthType));
                }
                if let Some([source, destination]) = layer_3(self) {
                    self.both(&mut hash, source, destination);
                    let ports = match self.read(Field::IpProto) {
                        6 => Some([Field::TcpSrc, Field::TcpDst]),
                        132 => Some([Field::SctpSrc, Field::SctpDst]),
                        17 if fields == LAYER_3_4_UDP => Some([Field::UdpSrc, Field::UdpDst]),
                        _ => None,
                    };
                    hash = mix(hash, self.packet.key.get(Field::IpProto));
                    if matches!(fields, LAYER_4 | LAYER_3_4 | LAYER_3_4_UDP)
                        && let Some([source, destination]) = ports
                    {
                        self.both(&mut hash, source, destination);
                    }
                }
            }
        }
        hash as u32
    }

    /// Mixes two fields so that it is the same with both the other way round.
    fn both(&mut self, hash: &mut u64, one: Field, other: Field) {
        let (one, other) = (self.read(one), self.read(other));
        *hash = mix(mix(*hash, one.min(other)), one.max(other));
    }

    pub(super) fn multipath(&mut self, multipath: &Multipath) {
        let hash = self.hash(multipath.fields, multipath.basis);
        let links = u32::from(multipath.max_link) + 1;
        const MODULO: u16 = 0;
        const THRESHOLD: u16 = 1;
        const RANDOM_WEIGHT: u16 = 2;
        let weight = |link: u32| mix(mix(0, hash.into()), link.into());
        let link = match multipath.algorithm {
            MODULO => hash % links,
            THRESHOLD if links == 1 => 0,
            THRESHOLD => hash / (u32::MAX / links + 1),
            RANDOM_WEIGHT => (0..links).max_by_key(|&link| weight(link)).unwrap_or(0),
            // Iterated: as by weight, among as many as the argument says.
            _ => (0..links.max(multipath.argument.min(links)))
                .max_by_key(|&link| weight(link))
                .unwrap_or(0),
        };
        self.write_part(&multipath.destination, link.into());
    }

    pub(super) fn bundle(&mut self, bundle: &Bundle, place: ActionOrigin<'a>) {
        const FIRST: u16 = 0;
        let hash =
            if bundle.algorithm == FIRST { 0 } else { self.hash(bundle.fields, bundle.basis) };
        let weight = |member: &PortNumber| mix(mix(0, hash.into()), member.0.into());
        let live =
            |member: &&PortNumber| self.snapshot.port(**member).is_some_and(|port| port.is_live());
        let mut members = bundle.members.iter().filter(live);
        let chosen = if bundle.algorithm == FIRST {
            members.next()
        } else {
            members.max_by_key(|member| weight(member))
        };
        match (&bundle.destination, chosen.copied()) {
            (Some(part), chosen) => {
                let none = PortNumber::ANY;
                self.write_part(part, u128::from(chosen.unwrap_or(none).0 & 0xffff));
            }
            (None, Some(port)) => self.output(port, u16::MAX, None, place),
            (None, None) => {}
        }
    }
}
