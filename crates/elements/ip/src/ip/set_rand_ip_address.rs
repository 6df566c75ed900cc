//! `SetRandIPAddress`: sets the destination annotation to random addresses of a prefix.

use linerate_graph::{Arguments, Class, Ipv4OrPrefix, Step, Verdict};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::random::{self, Random};

pub(super) const CLASS: Class = Class {
    name: "SetRandIPAddress",
    family: FAMILY,
    summary: "sets the destination annotation to addresses of a prefix, at random",
    description: "Any address of the prefix is as likely as another. With `LIMIT`, as many of \
        them are drawn before, which all workers share, and packets get one of these.",
    ports: "1/1",
    annotates: true,
    cost: "A random number, and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetRandIPAddress(10.0.0.0/8, 100) \
        -> Discard;",
    ..SetRandIpAddress::CLASS
};

#[derive(Arguments)]
struct SetRandIpAddress {
    /// the prefix
    #[arg(kind = "IP prefix")]
    prefix: Ipv4OrPrefix,
    /// most different addresses, if it is above 0
    #[arg(optional, kind = "addresses", default = -1)]
    limit: i32,
    #[init(Random::new(make))]
    random: Random,
    /// Seed of the `LIMIT` addresses, which are computed on demand and not stored.
    #[init(random::key(make)[0])]
    key: u64,
}

/// The output function of splitmix64.
#[inline]
fn scatter(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl SetRandIpAddress {
    #[inline]
    fn draw(&mut self) -> u32 {
        let Ipv4OrPrefix(prefix) = self.prefix;
        let (address, mask) = (prefix.address.to_bits(), prefix.mask.to_bits());
        let drawn = match usize::try_from(self.limit) {
            Ok(limit @ 1..) => {
                let which = self.random.below(limit) as u64 + 1;
                scatter(self.key.wrapping_add(which.wrapping_mul(0x9e37_79b9_7f4a_7c15))) as u32
            }
            _ => self.random.below(1 << 32) as u32,
        };
        address & mask | drawn & !mask
    }
}

impl Step for SetRandIpAddress {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let address = self.draw().to_be_bytes();
        packet.meta_mut().destination[..4].copy_from_slice(&address);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::testing::Run;

    /// Number of packets by destination address.
    fn drawn(arguments: &str, count: usize, frame_limit: usize) -> BTreeMap<u32, usize> {
        let mut run = Run::new(&format!(
            "InfiniteSource(DATA \\<00000000>, LIMIT {count}, STOP true)
                -> SetRandIPAddress({arguments}) -> StoreIPAddress(0) -> c :: Collect"
        ))
        .frame_limit(frame_limit);
        run.run();
        let mut found = BTreeMap::new();
        for packet in run.read("c.packets").lines() {
            *found.entry(u32::from_str_radix(packet, 16).unwrap()).or_default() += 1;
        }
        found
    }

    #[test]
    fn all_addresses_of_the_prefix_are_drawn() {
        let found = drawn("10.1.2.3/28", 1600, 256);
        assert_eq!(found.len(), 16);
        assert!(found.keys().all(|address| address >> 4 == 0x0a01_0200 >> 4));
        assert!(found.values().all(|count| (50..150).contains(count)), "{found:?}");
        assert_eq!(drawn("10.1.2.3/28", 1600, 1), found, "frames change nothing");
        assert_eq!(drawn("10.1.2.3", 9, 7), BTreeMap::from([(0x0a01_0203, 9)]));
        assert_eq!(drawn("0.0.0.0/0, 0", 200, 7).len(), 200);
        let high = drawn("0.0.0.0/0", 200, 7).keys().filter(|address| **address >> 31 > 0).count();
        assert!((60..140).contains(&high), "{high}");
    }

    #[test]
    fn no_more_than_the_limit_are_drawn() {
        let found = drawn("10.0.0.0/8, 5", 1000, 256);
        assert_eq!(found.len(), 5);
        assert!(found.keys().all(|address| address >> 24 == 10), "{found:?}");
        assert!(found.values().all(|count| (120..280).contains(count)), "{found:?}");
        assert_eq!(drawn("10.0.0.0/8, LIMIT 2147483647", 300, 256).len(), 300);
    }

    /// The error messages are those of Click.
    #[test]
    fn a_prefix_must_be_given() {
        for (arguments, error) in
            [("", "PREFIX: required argument missing"), ("x", "PREFIX: parse error")]
        {
            let errors = Run::errors(&format!("Idle -> SetRandIPAddress({arguments}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}
