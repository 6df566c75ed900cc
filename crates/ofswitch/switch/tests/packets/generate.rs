//! Packets of all kinds, made up. Their checksums are right, computed the plain way.

/// Numbers that look random, the same for the same seed (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub(crate) fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 90 ^ u128::from(self.next()) << 45 ^ u128::from(self.next())
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    pub(crate) fn choose<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn word(&mut self) -> [u8; 2] {
        (self.next() as u16).to_be_bytes()
    }
}

/// A packet that is as it should be.
pub(crate) fn packet(random: &mut Random) -> Vec<u8> {
    let (mut kind, mut bytes) = match random.below(13) {
        0..5 => (0x0800, ipv4(random)),
        5..9 => (0x86dd, ipv6(random)),
        9 => (random.choose(&[0x0806, 0x8035]), arp(random)),
        10 => (random.choose(&[0x8847, 0x8848]), mpls(random)),
        11 => (0x894f, nsh(random)),
        _ => other(random),
    };
    if random.one_in(40) {
        let mut snap = vec![0xaa, 0xaa, 3, 0, 0, 0];
        snap.extend(u16::to_be_bytes(kind));
        snap.append(&mut bytes);
        (kind, bytes) = (snap.len().min(1500) as u16, snap);
    }
    for _ in 0..random.choose(&[0, 0, 0, 1, 1, 2, 3]) {
        let mut tagged = random.word().to_vec();
        tagged.extend(kind.to_be_bytes());
        tagged.append(&mut bytes);
        (kind, bytes) = (random.choose(&[0x8100, 0x8100, 0x88a8]), tagged);
    }
    let mut packet = random.bytes(12);
    packet[0] &= 0xfe;
    packet.extend(kind.to_be_bytes());
    packet.append(&mut bytes);
    if random.one_in(3) {
        let padding = random.below(20);
        packet.extend(random.bytes(padding));
    }
    packet
}

/// A packet with some changed bytes, truncated, or cut in half by a length.
pub(crate) fn damaged(random: &mut Random) -> Vec<u8> {
    let mut packet = packet(random);
    for _ in 0..random.below(3) {
        let at = random.below(packet.len().min(90));
        let any = random.next() as u8;
        packet[at] = random.choose(&[0, 1, 0xff, 0x80, any]);
    }
    if random.one_in(2) {
        packet.truncate(1 + random.below(packet.len()));
    }
    packet
}

fn ipv4(random: &mut Random) -> Vec<u8> {
    let any = random.next() as u8;
    let protocol = random.choose(&[6, 6, 17, 17, 132, 1, 2, 58, any]);
    let addresses = random.bytes(8);
    let options = random.choose(&[0, 0, 0, 0, 1, 10]);
    let fragment = fragment(random);
    let payload = carried(random, protocol, fragment, &addresses);
    let mut header = vec![0x45 + options, random.next() as u8];
    header.extend(((20 + 4 * usize::from(options) + payload.len()) as u16).to_be_bytes());
    header.extend(random.word());
    let word = match fragment {
        Fragment::No => random.choose(&[0, 0x4000]),
        Fragment::First => 0x2000,
        Fragment::Later => random.choose(&[1, 0x2001, 100]),
    };
    header.extend(u16::to_be_bytes(word));
    header.extend([random.next() as u8, protocol, 0, 0]);
    header.extend(addresses);
    header.extend(vec![1; 4 * usize::from(options)]);
    let check = !sum(&header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header.extend(payload);
    header
}

fn ipv6(random: &mut Random) -> Vec<u8> {
    let any = 64 + random.below(190) as u8;
    let protocol = random.choose(&[6, 6, 17, 17, 132, 58, 58, 58, 59, 50, 1, any]);
    let addresses = random.bytes(32);
    let mut kinds: Vec<u8> = Vec::new();
    if random.one_in(3) {
        for _ in 0..1 + random.below(4) {
            kinds.push(random.choose(&[0, 43, 44, 51, 60]));
        }
    }
    let mut fragment = Fragment::No;
    let mut end = addresses[16..].to_vec();
    let mut headers = Vec::new();
    let mut first = kinds.first().copied().unwrap_or(protocol);
    for (nth, &kind) in kinds.iter().enumerate() {
        let next = kinds.get(nth + 1).copied().unwrap_or(protocol);
        match kind {
            44 => {
                let word = random.choose(&[0, 1, 1, 8, 9]);
                if fragment != Fragment::Later {
                    fragment = match word {
                        0 => fragment,
                        1 => Fragment::First,
                        _ => Fragment::Later,
                    };
                }
                headers.extend([next, 0, 0, word]);
                headers.extend(random.bytes(4));
            }
            51 => {
                headers.extend([next, 4, 0, 0]);
                headers.extend(random.bytes(20));
            }
            43 => {
                let last = random.bytes(16);
                // With segments left, it goes on to the last address.
                let left = u8::from(random.one_in(2));
                headers.extend([next, 2, 0, left, 0, 0, 0, 0]);
                headers.extend(&last);
                if left != 0 {
                    end = last;
                }
            }
            _ => {
                let more = random.below(2);
                headers.extend([next, more as u8, 1, 4, 0, 0, 0, 0]);
                headers.extend([[1, 6, 0, 0, 0, 0, 0, 0]].iter().cycle().take(more).flatten());
            }
        }
    }
    if kinds.is_empty() {
        first = protocol;
    }
    let pseudo = [&addresses[..16], &end].concat();
    headers.extend(carried(random, protocol, fragment, &pseudo));
    let mut header = random.bytes(4);
    header[0] = 0x60 | header[0] & 0xf;
    header.extend((headers.len() as u16).to_be_bytes());
    header.extend([first, random.next() as u8]);
    header.extend(addresses);
    header.extend(headers);
    header
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fragment {
    No,
    First,
    Later,
}

fn fragment(random: &mut Random) -> Fragment {
    random.choose(&[
        Fragment::No,
        Fragment::No,
        Fragment::No,
        Fragment::No,
        Fragment::First,
        Fragment::Later,
    ])
}

/// Returns the payload of IP.
fn carried(random: &mut Random, protocol: u8, fragment: Fragment, addresses: &[u8]) -> Vec<u8> {
    let length = random.below(60);
    let mut bytes = random.bytes(4);
    if fragment == Fragment::Later {
        return [bytes, random.bytes(length)].concat();
    }
    match protocol {
        6 => {
            bytes.extend(random.bytes(8));
            let options = random.below(3);
            bytes.extend([
                (5 + options as u8) << 4 | random.next() as u8 & 0xf,
                random.next() as u8,
            ]);
            bytes.extend(random.word());
            bytes.extend([0; 4]);
            bytes.extend(vec![1; 4 * options]);
            bytes.extend(random.bytes(length));
        }
        17 => {
            bytes.extend(((8 + length) as u16).to_be_bytes());
            bytes.extend([0; 2]);
            bytes.extend(random.bytes(length));
        }
        132 => {
            bytes.extend(random.bytes(4));
            bytes.extend([0; 4]);
            // A chunk of data.
            bytes.extend([0, 3, 0, 16 + (length as u8 & !3)]);
            bytes.extend(random.bytes(12 + (length & !3)));
        }
        58 => return icmpv6(random, addresses),
        _ => {
            bytes[2..4].fill(0);
            if protocol == 1 {
                bytes[0] = random.choose(&[0, 8, 11]);
            }
            bytes.extend(random.bytes(4 + length));
        }
    }
    seal(&mut bytes, protocol, addresses);
    if protocol == 17 && addresses.len() == 8 && random.one_in(4) {
        bytes[6..8].fill(0);
    }
    bytes
}

fn icmpv6(random: &mut Random, addresses: &[u8]) -> Vec<u8> {
    let (kind, code) = (random.choose(&[135, 136, 128, 1]), random.choose(&[0, 0, 0, 1]));
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(random.bytes(4));
    if matches!(kind, 135 | 136) {
        bytes.extend(random.bytes(16));
        for _ in 0..random.choose(&[0, 1, 1, 1, 2]) {
            bytes.extend([random.choose(&[1, 2, 5]), 1]);
            bytes.extend(random.bytes(6));
        }
    } else {
        let length = random.below(40);
        bytes.extend(random.bytes(length));
    }
    seal(&mut bytes, 58, addresses);
    bytes
}

/// Puts the checksum in.
fn seal(bytes: &mut [u8], protocol: u8, addresses: &[u8]) {
    let check = check(bytes, protocol, addresses);
    match protocol {
        6 => bytes[16..18].copy_from_slice(&(check as u16).to_be_bytes()),
        17 => {
            let check = if check == 0 { 0xffff } else { check as u16 };
            bytes[6..8].copy_from_slice(&check.to_be_bytes());
        }
        132 => bytes[8..12].copy_from_slice(&check.to_le_bytes()),
        1 | 58 => bytes[2..4].copy_from_slice(&(check as u16).to_be_bytes()),
        _ => {}
    }
}

/// Computes the checksum of the payload of IP, with zero in the checksum's place; over a right
/// checksum, zero for those that are sums.
pub(crate) fn check(bytes: &[u8], protocol: u8, addresses: &[u8]) -> u32 {
    if protocol == 132 {
        return crc32c(bytes);
    }
    let mut all = Vec::new();
    if protocol == 6 || protocol == 17 || (protocol == 58 && addresses.len() == 32) {
        all.extend(addresses);
        all.extend((bytes.len() as u32).to_be_bytes());
        all.extend([0, protocol]);
    }
    all.extend(bytes);
    u32::from(!sum(&all))
}

/// The one's complement sum (RFC 1071).
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| {
        u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or_default()]))
    });
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Bit by bit (RFC 9260 appendix A).
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78);
        }
    }
    !crc
}

fn arp(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0, 1, 8, 0, 6, 4];
    let operation = random.choose(&[0, 0, 0, 1]);
    bytes.extend([operation, random.choose(&[1, 2, 3, 4])]);
    bytes.extend(random.bytes(20));
    bytes
}

fn mpls(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(5) {
        bytes.extend(random.bytes(4));
    }
    bytes.extend(ipv4(random));
    bytes
}

fn nsh(random: &mut Random) -> Vec<u8> {
    let (next, inside) = match random.below(3) {
        0 => (1, ipv4(random)),
        1 => (2, ipv6(random)),
        _ => (3, [&random.bytes(12)[..], &[8, 0], &ipv4(random)].concat()),
    };
    let md_type = random.choose(&[1, 1, 2, 3]);
    let words = if md_type == 1 { 4 } else { random.below(4) };
    // Version 0.
    let first = random.next() as u8 & 0x3f;
    let second = random.next() as u8 & 0xc0 | (2 + words as u8);
    let rest = random.bytes(4 + 4 * words);
    [&[first, second, md_type, next][..], &rest, &inside].concat()
}

fn other(random: &mut Random) -> (u16, Vec<u8>) {
    match random.below(3) {
        0 => {
            let mut bytes = random.bytes(4);
            bytes.extend(random.bytes(12));
            bytes.extend([8, 0]);
            bytes.extend(ipv4(random));
            (0x88e7, bytes)
        }
        1 => (random.below(0x600) as u16, random.bytes(40)),
        _ => (0x0600 + random.below(0xf000) as u16, random.bytes(40)),
    }
}
