//! Toeplitz hash of receive-side scaling: the one network cards compute.
//!
//! Input bit i, if set, adds (exclusive or) the 32 bits of the key that begin at key bit i. The table
//! holds that sum for every value of every 4-bit piece of the input: 4.5 KiB, two look-ups per byte.
//! Whole-byte tables would halve the look-ups and take 36 KiB, more than the first-level cache
//! that the packet headers want to be in. Source: Microsoft, "RSS hashing functions".

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::flow::{FlowKey, FlowV4, FlowV6};

/// Length of a key: 36 bytes of input and the 32 bits behind the last.
pub const KEY_LEN: usize = 40;

/// The key of Microsoft's specification, the default of many drivers.
pub const MICROSOFT_KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key that gives both directions of a flow the same hash. It repeats every 16 bits, so exchanging
/// addresses (a multiple of 16 bits apart) or ports changes nothing (Woo and Park, 2012). Its
/// distribution is the worse for it: at most 16 bits of the hash are independent.
pub const SYMMETRIC_KEY: [u8; KEY_LEN] = {
    let mut key = [0x6d; KEY_LEN];
    let mut i = 1;
    while i < KEY_LEN {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

const INPUT_LEN: usize = KEY_LEN - 4;

/// A key, expanded for hashing.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    /// For each input byte, the hash contributions of the values of its upper and of its lower
    /// half.
    table: [[[u32; 16]; 2]; INPUT_LEN],
}

impl Toeplitz {
    /// Microsoft's key.
    pub const MICROSOFT: &'static Toeplitz = &Toeplitz::new(&MICROSOFT_KEY);
    /// The symmetric key.
    pub const SYMMETRIC: &'static Toeplitz = &Toeplitz::new(&SYMMETRIC_KEY);

    /// Expands a key.
    #[must_use]
    pub const fn new(key: &[u8; KEY_LEN]) -> Toeplitz {
        let mut table = [[[0; 16]; 2]; INPUT_LEN];
        let mut byte = 0;
        while byte < INPUT_LEN {
            // The key bits that input bits of this byte select: 32 from each of 8 starts.
            let window = u64::from_be_bytes([
                0,
                0,
                0,
                key[byte],
                key[byte + 1],
                key[byte + 2],
                key[byte + 3],
                key[byte + 4],
            ]);
            let mut value = 1;
            while value < 16 {
                // The lowest set bit, added to the sum of the other bits.
                let bit = (value as u32).trailing_zeros();
                let rest = value & (value - 1);
                table[byte][0][value] = table[byte][0][rest] ^ (window >> (bit + 5)) as u32;
                table[byte][1][value] = table[byte][1][rest] ^ (window >> (bit + 1)) as u32;
                value += 1;
            }
            byte += 1;
        }
        Toeplitz { table }
    }

    /// The hash of the first 36 bytes of any input.
    #[inline]
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let mut hash = 0;
        for (byte, [high, low]) in input.iter().zip(&self.table) {
            hash ^= high[usize::from(byte >> 4)] ^ low[usize::from(byte & 0xf)];
        }
        hash
    }

    /// The hash of an IPv4 address pair.
    #[inline]
    #[must_use]
    pub fn hash_v4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> u32 {
        let mut input = [0; 8];
        input[..4].copy_from_slice(&src.octets());
        input[4..].copy_from_slice(&dst.octets());
        self.hash(&input)
    }

    /// The hash of an IPv4 address and port quadruple.
    #[inline]
    #[must_use]
    pub fn hash_v4_ports(&self, src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16)) -> u32 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&src.0.octets());
        input[4..8].copy_from_slice(&dst.0.octets());
        input[8..10].copy_from_slice(&src.1.to_be_bytes());
        input[10..].copy_from_slice(&dst.1.to_be_bytes());
        self.hash(&input)
    }

    /// The hash of an IPv6 address pair.
    #[inline]
    #[must_use]
    pub fn hash_v6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> u32 {
        let mut input = [0; 32];
        input[..16].copy_from_slice(&src.octets());
        input[16..].copy_from_slice(&dst.octets());
        self.hash(&input)
    }

    /// The hash of an IPv6 address and port quadruple.
    #[inline]
    #[must_use]
    pub fn hash_v6_ports(&self, src: (Ipv6Addr, u16), dst: (Ipv6Addr, u16)) -> u32 {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&src.0.octets());
        input[16..32].copy_from_slice(&dst.0.octets());
        input[32..34].copy_from_slice(&src.1.to_be_bytes());
        input[34..].copy_from_slice(&dst.1.to_be_bytes());
        self.hash(&input)
    }

    /// The hash a card computes for a flow: over addresses and ports if the key has ports, else over
    /// the addresses. The VLAN is not part of it.
    #[inline]
    #[must_use]
    pub fn hash_flow(&self, key: &FlowKey) -> u32 {
        match *key {
            FlowKey::V4(FlowV4 { src, dst, src_port: 0, dst_port: 0, .. }) => {
                self.hash_v4(src, dst)
            }
            FlowKey::V4(FlowV4 { src, dst, src_port, dst_port, .. }) => {
                self.hash_v4_ports((src, src_port), (dst, dst_port))
            }
            FlowKey::V6(FlowV6 { src, dst, src_port: 0, dst_port: 0, .. }) => {
                self.hash_v6(src, dst)
            }
            FlowKey::V6(FlowV6 { src, dst, src_port, dst_port, .. }) => {
                self.hash_v6_ports((src, src_port), (dst, dst_port))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use proptest::prelude::*;

    /// Microsoft's verification suite: destination, source, hash of addresses, hash with ports.
    const V4: [(&str, &str, u32, u32); 5] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
    ];
    const V6: [(&str, &str, u32, u32); 3] = [
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    /// The definition, bit by bit.
    fn reference(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
        let window = |at: usize| (at..at + 32).fold(0, |w, i| w << 1 | u32::from(bit(key, i)));
        (0..input.len() * 8).filter(|&i| bit(input, i) == 1).fold(0, |hash, i| hash ^ window(i))
    }

    #[test]
    fn microsofts_ipv4_vectors() {
        for (dst, src, addresses, ports) in V4 {
            let (dst, src): (core::net::SocketAddrV4, core::net::SocketAddrV4) =
                (dst.parse().unwrap(), src.parse().unwrap());
            let toeplitz = Toeplitz::MICROSOFT;
            assert_eq!(toeplitz.hash_v4(*src.ip(), *dst.ip()), addresses);
            let (src, dst) = ((*src.ip(), src.port()), (*dst.ip(), dst.port()));
            assert_eq!(toeplitz.hash_v4_ports(src, dst), ports);
            let protocol = IpProtocol::TCP;
            let flow = FlowV4 {
                src: src.0,
                dst: dst.0,
                src_port: src.1,
                dst_port: dst.1,
                vlan: 7,
                protocol,
            };
            assert_eq!(toeplitz.hash_flow(&FlowKey::V4(flow)), ports);
            let fragment = FlowV4 { src_port: 0, dst_port: 0, ..flow };
            assert_eq!(toeplitz.hash_flow(&FlowKey::V4(fragment)), addresses);
        }
    }

    #[test]
    fn microsofts_ipv6_vectors() {
        for (dst, src, addresses, ports) in V6 {
            let (dst, src): (core::net::SocketAddrV6, core::net::SocketAddrV6) =
                (dst.parse().unwrap(), src.parse().unwrap());
            let toeplitz = Toeplitz::MICROSOFT;
            assert_eq!(toeplitz.hash_v6(*src.ip(), *dst.ip()), addresses);
            let (src, dst) = ((*src.ip(), src.port()), (*dst.ip(), dst.port()));
            assert_eq!(toeplitz.hash_v6_ports(src, dst), ports);
            let protocol = IpProtocol::UDP;
            let flow = FlowV6 {
                src: src.0,
                dst: dst.0,
                src_port: src.1,
                dst_port: dst.1,
                vlan: 0,
                protocol,
            };
            assert_eq!(toeplitz.hash_flow(&FlowKey::V6(flow)), ports);
            let fragment = FlowV6 { src_port: 0, dst_port: 0, ..flow };
            assert_eq!(toeplitz.hash_flow(&FlowKey::V6(fragment)), addresses);
        }
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            key in proptest::array::uniform32(any::<u8>()),
            tail in proptest::array::uniform8(any::<u8>()),
            input in proptest::collection::vec(any::<u8>(), 0..=36),
        ) {
            let mut whole = [0; KEY_LEN];
            whole[..32].copy_from_slice(&key);
            whole[32..].copy_from_slice(&tail);
            prop_assert_eq!(Toeplitz::new(&whole).hash(&input), reference(&whole, &input));
        }

        #[test]
        fn the_symmetric_key_is_symmetric(
            src in any::<(u32, u16)>(),
            dst in any::<(u32, u16)>(),
            src6 in any::<u128>(),
            dst6 in any::<u128>(),
        ) {
            let toeplitz = Toeplitz::SYMMETRIC;
            let v4 = |(ip, port): (u32, u16)| (Ipv4Addr::from(ip), port);
            prop_assert_eq!(
                toeplitz.hash_v4_ports(v4(src), v4(dst)),
                toeplitz.hash_v4_ports(v4(dst), v4(src))
            );
            let (src6, dst6) = (Ipv6Addr::from(src6), Ipv6Addr::from(dst6));
            prop_assert_eq!(
                toeplitz.hash_v6_ports((src6, src.1), (dst6, dst.1)),
                toeplitz.hash_v6_ports((dst6, dst.1), (src6, src.1))
            );
        }
    }
}
