//! Types, codes and fields of ICMP messages in both versions (RFC 7915 sections
//! 4.2 and 5.2).

/// Echo request and reply, in both versions.
const ECHO: [(u8, u8); 2] = [(8, 128), (0, 129)];

/// MTUs of common links (RFC 1191 section 7), for routers that report none.
const PLATEAUS: [u32; 10] = [65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296];
/// The least MTU of an IPv6 link.
const LEAST_MTU: u32 = 1280;

/// The fields of an ICMP header: type, code, and the last four bytes.
pub(super) type Fields = (u8, u8, u32);

/// The type of an echo message in the other version.
pub(super) fn echo_v6(kind: u8) -> Option<u8> {
    ECHO.iter().find(|(v4, _)| *v4 == kind).map(|(_, v6)| *v6)
}

/// Likewise the other way.
pub(super) fn echo_v4(kind: u8) -> Option<u8> {
    ECHO.iter().find(|(_, v6)| *v6 == kind).map(|(v4, _)| *v4)
}

/// Returns the bytes of the quoted packet in an error, if it has the field (RFC 4884).
pub(super) fn quoted_v4((_, _, rest): Fields) -> Option<usize> {
    let words = usize::from(rest.to_be_bytes()[1]);
    (words > 0).then_some(words * 4)
}

/// Likewise for an `ICMPv6` error.
pub(super) fn quoted_v6((kind, _, rest): Fields) -> Option<usize> {
    let words = usize::from(rest.to_be_bytes()[0]);
    (matches!(kind, 1 | 3) && words > 0).then_some(words * 8)
}

/// Translates an error about an IPv4 packet of that length into `ICMPv6`.
pub(super) fn error_v6((kind, code, rest): Fields, length: u16) -> Option<Fields> {
    match (kind, code) {
        (3, 0 | 1 | 5 | 6 | 7 | 8 | 11 | 12) => Some((1, 0, 0)),
        (3, 9 | 10 | 13 | 15) => Some((1, 1, 0)),
        (3, 3) => Some((1, 4, 0)),
        // The field that is wrong is the next header.
        (3, 2) => Some((4, 1, 6)),
        (3, 4) => {
            let mtu = match rest & 0xffff {
                0 => {
                    let below = PLATEAUS.iter().find(|mtu| **mtu < u32::from(length));
                    below.copied().unwrap_or(0)
                }
                mtu => mtu,
            };
            Some((2, 0, (mtu + 20).max(LEAST_MTU)))
        }
        (11, 0 | 1) => Some((3, code, 0)),
        (12, 0 | 2) => {
            let pointer = match rest >> 24 {
                same @ (0 | 1) => same,
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..=15 => 8,
                16..=19 => 24,
                _ => return None,
            };
            Some((4, 0, pointer))
        }
        _ => None,
    }
}

/// Translates an error about an IPv6 packet, whose header would be `shorter` bytes shorter, into
/// ICMP.
pub(super) fn error_v4((kind, code, rest): Fields, shorter: u32) -> Option<Fields> {
    match (kind, code) {
        (1, 0 | 2 | 3) => Some((3, 1, 0)),
        (1, 1) => Some((3, 10, 0)),
        (1, 4) => Some((3, 3, 0)),
        (2, _) => Some((3, 4, rest.saturating_sub(shorter).min(0xffff))),
        (3, 0 | 1) => Some((11, code, 0)),
        (4, 1) => Some((3, 2, 0)),
        (4, 0) => {
            let pointer = match rest {
                same @ (0 | 1) => same,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..=23 => 12,
                24..=39 => 16,
                _ => return None,
            };
            Some((12, 0, pointer << 24))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors that both versions have come back as they were.
    #[test]
    fn errors_come_back() {
        for fields in [(3, 1, 0), (3, 10, 0), (3, 3, 0), (3, 2, 0), (11, 0, 0), (11, 1, 0)] {
            let there = error_v6(fields, 100).expect("a translation");
            assert_eq!(error_v4(there, 20), Some(fields), "{there:?}");
        }
        for pointer in [0, 1, 2, 8, 9, 12, 16] {
            let fields = (12, 0, pointer << 24);
            assert_eq!(error_v4(error_v6(fields, 100).unwrap(), 20), Some(fields));
        }
    }

    #[test]
    fn sizes_fit_the_other_header() {
        for (told, length, mtu) in [
            (1400, 1500, 1420),
            (500, 1500, 1280),
            (0, 1500, 1512),
            (0, 9000, 8186),
            (0, 300, 1280),
        ] {
            assert_eq!(error_v6((3, 4, told), length), Some((2, 0, mtu)), "{told} {length}");
        }
        for (told, shorter, mtu) in
            [(1280, 20, 1260), (1500, 28, 1472), (1 << 20, 20, 65535), (5, 20, 0)]
        {
            assert_eq!(error_v4((2, 0, told), shorter), Some((3, 4, mtu)));
        }
    }

    #[test]
    fn messages_of_one_version_alone_are_not_translated() {
        for kind in [4, 5, 9, 10, 13, 14, 15, 16, 17, 18, 40] {
            assert_eq!((error_v6((kind, 0, 0), 100), echo_v6(kind)), (None, None), "{kind}");
        }
        for kind in (130..=138).chain([100, 200]) {
            assert_eq!((error_v4((kind, 0, 0), 20), echo_v4(kind)), (None, None), "{kind}");
        }
        assert_eq!(error_v6((3, 14, 0), 100), None);
        assert_eq!(error_v4((4, 2, 0), 20), None);
        assert_eq!(error_v4((4, 0, 2), 20), None);
    }
}
