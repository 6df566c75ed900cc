//! Quality of the flow hash: avalanche, distribution of structured keys, independence of seeds.
//!
//! Deterministic inputs and bounds far outside chance, so that these fail for a reason or not at all.

use std::collections::HashSet;

use linerate_packet::IpProtocol;
use linerate_packet::flow::{FlowV4, FlowV6};

/// A generator with nothing in common with the hash (xorshift64*'s shifts, Weyl sequence).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = self.0 ^ self.0 >> 30;
        let x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
}

fn v4(bits: u128) -> FlowV4 {
    FlowV4 {
        src: (bits as u32).into(),
        dst: ((bits >> 32) as u32).into(),
        src_port: (bits >> 64) as u16,
        dst_port: (bits >> 80) as u16,
        vlan: (bits >> 96) as u16 & 0xfff,
        protocol: IpProtocol((bits >> 112) as u8),
    }
}

fn v6(src: u128, dst: u128, rest: u64) -> FlowV6 {
    FlowV6 {
        src: src.into(),
        dst: dst.into(),
        src_port: rest as u16,
        dst_port: (rest >> 16) as u16,
        vlan: (rest >> 32) as u16 & 0xfff,
        protocol: IpProtocol((rest >> 48) as u8),
    }
}

/// Every key bit changes every hash bit in about half of all keys.
fn assert_avalanche(input_bits: usize, flip: impl Fn(&mut Random) -> (u64, Vec<u64>)) {
    const ROUNDS: u32 = 4000;
    let mut random = Random(1);
    let mut changed = vec![[0u32; 64]; input_bits];
    for _ in 0..ROUNDS {
        let (hash, flipped) = flip(&mut random);
        assert_eq!(flipped.len(), input_bits);
        for (counts, other) in changed.iter_mut().zip(flipped) {
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += ((hash ^ other) >> bit & 1) as u32;
            }
        }
    }
    for (input, counts) in changed.iter().enumerate() {
        for (output, &count) in counts.iter().enumerate() {
            let share = f64::from(count) / f64::from(ROUNDS);
            assert!((0.4..0.6).contains(&share), "bit {input} changes bit {output}: {share}");
        }
    }
}

#[test]
fn avalanche_v4() {
    // Addresses, ports, VLAN and protocol.
    let bits: Vec<u32> = (0..108).chain(112..120).collect();
    assert_avalanche(bits.len(), |random| {
        let key = u128::from(random.next()) << 64 | u128::from(random.next());
        let flipped = bits.iter().map(|bit| v4(key ^ 1 << bit).hash64(7)).collect();
        (v4(key).hash64(7), flipped)
    });
}

#[test]
fn avalanche_v6() {
    assert_avalanche(128 + 128 + 44 + 8, |random| {
        let mut wide = || u128::from(random.next()) << 64 | u128::from(random.next());
        let (src, dst) = (wide(), wide());
        let rest = random.next();
        let hash = |src, dst, rest| v6(src, dst, rest).hash64(7);
        let flipped = (0..128)
            .map(|bit| hash(src ^ 1 << bit, dst, rest))
            .chain((0..128).map(|bit| hash(src, dst ^ 1 << bit, rest)))
            .chain((0..44).chain(48..56).map(|bit| hash(src, dst, rest ^ 1 << bit)))
            .collect();
        (hash(src, dst, rest), flipped)
    });
}

/// Chi-squared statistic of `buckets` bins, in standard deviations from its mean.
fn chi_squared(hashes: &[u64], buckets: usize, index: impl Fn(u64) -> usize) -> f64 {
    let mut counts = vec![0u32; buckets];
    for &hash in hashes {
        counts[index(hash)] += 1;
    }
    let expected = hashes.len() as f64 / buckets as f64;
    let sum: f64 = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    let freedom = (buckets - 1) as f64;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Keys as real traffic has them: counters in one field or two.
fn structured_keys() -> Vec<(&'static str, Vec<u64>)> {
    let base = v4(0x0611_0035_1388_c0a8_0102_0a00_0001);
    let n = 1u32 << 16;
    type Key = Box<dyn Fn(u32) -> FlowV4>;
    let sets: [(&str, Key); 6] = [
        ("source ports", Box::new(move |i| FlowV4 { src_port: i as u16, ..base })),
        ("destination ports", Box::new(move |i| FlowV4 { dst_port: i as u16, ..base })),
        ("sources", Box::new(move |i| FlowV4 { src: (0x0a00_0000 + i).into(), ..base })),
        ("networks", Box::new(move |i| FlowV4 { dst: (i << 16).into(), ..base })),
        (
            "sources and ports",
            Box::new(move |i| FlowV4 {
                src: (0x0a00_0000 + (i >> 8)).into(),
                src_port: 1024 + (i & 0xff) as u16,
                ..base
            }),
        ),
        (
            "address pairs",
            Box::new(move |i| FlowV4 {
                src: (0x0a00_0000 + (i >> 8)).into(),
                dst: (0x0a00_0100 + (i & 0xff)).into(),
                ..base
            }),
        ),
    ];
    let mut all: Vec<(&str, Vec<u64>)> = sets
        .iter()
        .map(|(name, key)| (*name, (0..n).map(|i| key(i).hash64(0)).collect()))
        .collect();
    let prefix = 0x2001_0db8_u128 << 96;
    all.push((
        "ipv6 hosts",
        (0..n).map(|i| v6(prefix | u128::from(i), prefix, 0x11_0000_0035_0035).hash64(0)).collect(),
    ));
    all.push((
        "ipv6 networks",
        (0..n)
            .map(|i| v6(prefix, prefix | u128::from(i) << 64, 0x11_0000_0035_0035).hash64(0))
            .collect(),
    ));
    all
}

#[test]
fn structured_keys_spread_evenly_over_any_bits() {
    for (name, hashes) in structured_keys() {
        for buckets in [2usize, 16, 1024] {
            let mask = buckets - 1;
            let low = chi_squared(&hashes, buckets, |hash| hash as usize & mask);
            let middle = chi_squared(&hashes, buckets, |hash| (hash >> 32) as usize & mask);
            let high = chi_squared(&hashes, buckets, |hash| {
                ((u128::from(hash) * buckets as u128) >> 64) as usize
            });
            for (part, deviation) in [("low", low), ("middle", middle), ("high", high)] {
                assert!(deviation < 6.0, "{name}, {part} bits, {buckets}: {deviation:.1} sigma");
            }
        }
        let seven = chi_squared(&hashes, 7, |hash| (hash % 7) as usize);
        assert!(seven < 6.0, "{name} over seven workers: {seven:.1} sigma");
    }
}

#[test]
fn different_keys_have_different_hashes() {
    for (name, hashes) in structured_keys() {
        let distinct: HashSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len(), "{name}");
        // 65536 values of 32 bits: half a collision is expected.
        let halves: HashSet<_> = hashes.iter().map(|&hash| hash as u32).collect();
        assert!(hashes.len() - halves.len() < 8, "{name}");
    }
}

#[test]
fn keys_that_collide_under_one_seed_do_not_under_another() {
    let key = |i: u32| FlowV4 { src_port: i as u16, ..v4(0x06 << 112 | u128::from(i >> 16)) };
    let bucket = |i: u32, seed: u64| key(i).hash64(seed) >> 54;
    let colliding: Vec<u32> = (0..400_000).filter(|&i| bucket(i, 1) == 0).collect();
    assert!(colliding.len() > 300);
    let hashes: Vec<u64> = colliding.iter().map(|&i| key(i).hash64(2)).collect();
    let deviation = chi_squared(&hashes, 16, |hash| (hash >> 60) as usize);
    assert!(deviation < 6.0, "{deviation:.1} sigma");
}
