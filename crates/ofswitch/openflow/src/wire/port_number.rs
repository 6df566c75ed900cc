//! Numbers of ports, and reserved ones.

use std::fmt;

use super::fault::Fault;
use super::unencodable::Unencodable;

/// The number of a port, as OpenFlow 1.1 and later have it.
///
/// In OpenFlow 1.0, and in extensions older than 1.1, it has 16 bits: numbers from `0xff00` on are
/// those from `0xffff_ff00` on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

impl PortNumber {
    /// Numbers below this one, and above 0, are of ports.
    pub const MAX: PortNumber = PortNumber(0xffff_ff00);
    /// No output in an action set yet (OpenFlow 1.5).
    pub const UNSET: PortNumber = PortNumber(0xffff_fff7);
    /// The port the packet came from.
    pub const IN_PORT: PortNumber = PortNumber(0xffff_fff8);
    /// The first table; in a packet-out alone.
    pub const TABLE: PortNumber = PortNumber(0xffff_fff9);
    /// Forwarding as of a switch without OpenFlow.
    pub const NORMAL: PortNumber = PortNumber(0xffff_fffa);
    /// All ports but the packet's own and those that do not flood.
    pub const FLOOD: PortNumber = PortNumber(0xffff_fffb);
    /// All ports but the packet's own.
    pub const ALL: PortNumber = PortNumber(0xffff_fffc);
    /// The controllers.
    pub const CONTROLLER: PortNumber = PortNumber(0xffff_fffd);
    /// The port of the machine the switch runs on.
    pub const LOCAL: PortNumber = PortNumber(0xffff_fffe);
    /// Any port, in requests; no port (`OFPP_NONE`) in OpenFlow 1.0.
    pub const ANY: PortNumber = PortNumber(0xffff_ffff);

    /// Converts a number of 16 bits.
    #[must_use]
    pub const fn from_short(number: u16) -> PortNumber {
        if number < 0xff00 {
            PortNumber(number as u32)
        } else {
            PortNumber(0xffff_0000 | number as u32)
        }
    }

    /// Returns the number of 16 bits, where there is one.
    pub(crate) fn short(self) -> Result<u16, Unencodable> {
        match self.0 {
            number @ 0..0xff00 => Ok(number as u16),
            number @ 0xffff_ff00.. => Ok(number as u16),
            _ => Err(Unencodable::Port(self)),
        }
    }

    /// Returns true if it is the number of a port, which may exist or not.
    #[must_use]
    pub const fn is_port(self) -> bool {
        self.0 != 0 && self.0 < PortNumber::MAX.0
    }

    /// Checks that packets can be sent to the number: others are [`Fault::BadOutPort`].
    pub(crate) fn checked_output(self) -> Result<PortNumber, Fault> {
        let reserved = (PortNumber::IN_PORT..=PortNumber::LOCAL).contains(&self);
        if self.is_port() || reserved { Ok(self) } else { Err(Fault::BadOutPort) }
    }
}

impl fmt::Display for PortNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            PortNumber::UNSET => "UNSET",
            PortNumber::IN_PORT => "IN_PORT",
            PortNumber::TABLE => "TABLE",
            PortNumber::NORMAL => "NORMAL",
            PortNumber::FLOOD => "FLOOD",
            PortNumber::ALL => "ALL",
            PortNumber::CONTROLLER => "CONTROLLER",
            PortNumber::LOCAL => "LOCAL",
            PortNumber::ANY => "ANY",
            PortNumber(number) => return write!(formatter, "{number}"),
        };
        formatter.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_have_the_reserved_ones() {
        for number in [1, 0xfeff, 0xff00, 0xfffd, 0xffff] {
            assert_eq!(PortNumber::from_short(number).short(), Ok(number));
        }
        assert_eq!(PortNumber::from_short(0xfffd), PortNumber::CONTROLLER);
        for number in [0xff00, 0xffff, 0x1_0000, 0xffff_feff] {
            let port = PortNumber(number);
            assert_eq!(port.short(), Err(Unencodable::Port(port)));
        }
    }
}
