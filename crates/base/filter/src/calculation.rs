//! Numbers calculated from packets.

use crate::{
    lex,
    names::Names,
    offset_slots::NoMetadata,
    parse,
    tree::{Number, Tree},
};

/// One side of a filter's relation by itself, as `ip[12:4] ^ ip[16:4]`: a number for each packet
/// that has the bytes asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calculation {
    /// Conditions, as that the packet is of the protocol whose bytes are asked for.
    needed: Tree,
    number: Number,
}

impl Calculation {
    /// Reads a calculation.
    ///
    /// # Errors
    ///
    /// The fault of the text; also when the number is the same for all packets.
    pub fn new(text: &str) -> Result<Calculation, String> {
        let (needed, number) = parse::parse_number(lex::words(text)?, Names::NONE)?;
        match number.constant() {
            Some(value) => Err(format!("it is {value} for all packets")),
            None => Ok(Calculation { needed, number }),
        }
    }

    /// The number; `None` when the packet is of another protocol, a fragment that does not have the
    /// bytes asked for, or too short, or the calculation divides by zero.
    pub fn evaluate(&self, packet: &[u8]) -> Option<u32> {
        self.needed.holds(packet, NoMetadata)?.then(|| self.number.evaluate(packet, NoMetadata))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{ethernet, ipv4};

    const UDP: u8 = 17;

    /// UDP from port 7 to 53.
    fn udp(fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
        let header = [0, 7, 0, 53, 0, (8 + payload.len()) as u8, 0, 0];
        ethernet(0x800, &ipv4(UDP, fragment, options, &[&header[..], payload].concat()))
    }

    #[test]
    fn numbers_are_of_packets_that_have_the_field() {
        let packet = udp(0, 0, &[1, 2, 3, 4]);
        for (text, expected) in [
            ("len", Some(packet.len() as u32)),
            ("ether[12:2]", Some(0x800)),
            ("ip[9]", Some(17)),
            ("udp[0:2]", Some(7)),
            ("udp[8:4]", Some(0x0102_0304)),
            ("(udp[0:2] + udp[2:2]) * 2", Some(120)),
            ("ip[9] ^ 1", Some(16)),
            ("udp[9:4]", None),
            ("tcp[0:2]", None),
            ("ip6[8:4]", None),
            ("1 / (ip[9] - 17)", None),
        ] {
            assert_eq!(Calculation::new(text).unwrap().evaluate(&packet), expected, "{text}");
        }
        let ports = Calculation::new("udp[0:2]").unwrap();
        assert_eq!(ports.evaluate(&udp(0, 8, &[])), Some(7), "behind options");
        assert_eq!(ports.evaluate(&udp(0x2000, 0, &[])), Some(7), "the first fragment has ports");
        assert_eq!(ports.evaluate(&udp(1, 0, &[])), None, "others do not");
        assert_eq!(ports.evaluate(&[]), None);
    }

    #[test]
    fn wrong_calculations_are_refused() {
        for (text, error) in [
            ("", "something is missing"),
            ("tcp", "syntax error"),
            ("tcp port 80", "syntax error"),
            ("ip[0] = 4", "syntax error at '='"),
            ("luck", "syntax error at 'luck'"),
            ("ip[0:3]", "data size must be 1, 2, or 4"),
            ("ip[0", "something is missing"),
            ("1 + 2", "it is 3 for all packets"),
            ("ip[0] / 0", "division by zero"),
        ] {
            let found = Calculation::new(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
