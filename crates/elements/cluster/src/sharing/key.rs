//! Affinity key: packets with an equal one go to one program.

use linerate_filter::Calculation;
use linerate_graph::{ElementBuilder, Text, unquoted};
use linerate_packet::{
    affinity::{Affinity, HashFields, number_hash},
    flow::VlanRule,
};

/// Function from packets to hashes.
pub(super) struct Key {
    affinity: Affinity,
    /// The calculation of a number in its place, if the packet has the bytes.
    number: Option<Calculation>,
}

impl Key {
    /// Reads the argument `BY`; `None` where programs take turns.
    pub(super) fn read(make: &mut ElementBuilder<'_>) -> Option<Key> {
        let text =
            make.get::<Text>("BY").map_or_else(|| "flow".into(), |Text(text)| unquoted(&text));
        let mut number = None;
        let parts = match text.as_str() {
            "flow" => HashFields::Flow,
            "addresses" => HashFields::Addresses,
            "vlan" => HashFields::Vlan,
            "turns" => return None,
            text => {
                number = Calculation::new(text)
                    .map_err(|error| {
                        make.error(format!(
                            "BY: `flow`, `addresses`, `vlan`, `turns`, or a number as `ip[16:4]`: {error}"
                        ));
                    })
                    .ok();
                HashFields::Flow
            }
        };
        let (inner, symmetric) = (make.or("INNER", false), make.or("SYMMETRIC", true));
        let seed = make.or("SEED", 0);
        let affinity = Affinity { parts, inner, symmetric, vlan: VlanRule::Outer, seed };
        Some(Key { affinity, number })
    }

    /// Returns a hash that is equal for packets that stay together.
    #[inline]
    pub(super) fn hash(&self, packet: &[u8]) -> u64 {
        let number = self.number.as_ref().and_then(|number| number.evaluate(packet));
        number.map_or_else(
            || self.affinity.hash(packet).0,
            |number| number_hash(number, self.affinity.seed),
        )
    }
}
