//! Packets whose destinations come in an order.

use crate::{
    point::Destinations,
    traffic::{Order, Traffic},
    values::Values,
};

/// 198.19.0.0 (RFC 2544, C.2.2).
const FIRST: u128 = 0xc613_0000;
/// Frames of traffic, which then comes round again.
const FRAMES: usize = 16_384;

/// UDP frames of `size` bytes, FCS counted and not in them, to be sent over and
/// over: to one address, to `addresses` from 198.19.0.0 on one after the other,
/// or to any of them at random.
///
/// # Errors
///
/// When the size is none of a UDP frame.
pub fn frames(
    order: Destinations,
    addresses: u32,
    size: u32,
    seed: u64,
) -> Result<Vec<Vec<u8>>, String> {
    let (order, addresses, count) = match order {
        // As many frames as the other orders have: the cost of bringing them must be equal.
        Destinations::Static => (Order::Sequential, 1, FRAMES),
        // Whole rounds.
        Destinations::RoundRobin => {
            let rounds = FRAMES.div_ceil(addresses.max(1) as usize);
            (Order::Sequential, addresses, addresses as usize * rounds)
        }
        Destinations::Uniform => (Order::Random, addresses, FRAMES),
    };
    let last = FIRST + u128::from(addresses.max(1)) - 1;
    let mut traffic = Traffic::new(size.to_string().parse()?, false);
    // As many as 32 bits count.
    traffic.variation.destinations = Values::between(FIRST, last).unwrap_or(Values::one(FIRST));
    let traffic = Traffic { order, signed: false, seed, ..traffic };
    let mut maker = traffic.maker(0).map_err(|error| error.to_string())?;
    Ok((0..count)
        .map(|_| {
            let mut frame = vec![0; maker.next_len()];
            maker.make(&mut frame, 0);
            frame
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn destinations(order: Destinations, addresses: u32) -> Vec<u32> {
        let frames = frames(order, addresses, 64, 5).unwrap();
        assert!(frames.iter().all(|frame| frame.len() == 60));
        let address = |frame: &Vec<u8>| u32::from_be_bytes(frame[30..34].try_into().unwrap());
        frames.iter().map(address).collect()
    }

    #[test]
    fn destinations_come_in_the_named_order() {
        assert!(destinations(Destinations::Static, 9).iter().all(|to| *to == FIRST as u32));
        let turns = destinations(Destinations::RoundRobin, 1000);
        assert_eq!(turns.len() % 1000, 0);
        assert!(turns.len() >= 2048);
        for (index, to) in turns.iter().enumerate() {
            assert_eq!(*to, FIRST as u32 + index as u32 % 1000);
        }
        let uniform = destinations(Destinations::Uniform, 1000);
        let different: BTreeSet<_> = uniform.iter().collect();
        assert_eq!(different.len(), 1000);
        assert!(!uniform.is_sorted());
        assert_eq!(uniform, destinations(Destinations::Uniform, 1000));
    }

    #[test]
    fn frames_too_short_are_refused() {
        assert!(frames(Destinations::Static, 1, 20, 1).is_err());
    }
}
