//! IP protocols and their ports, by number or by name.

use super::{Value, or_parse_error, parse_integer};
use crate::{
    element::Scope,
    names::{TCP, UDP, known_port, known_protocol},
};

/// The number of an IP protocol. Some names stand for several protocols and have numbers beyond 255
/// (`tcpudp`, 256); the element that takes one checks that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IpProtocol(pub u32);

impl Value for IpProtocol {
    fn parse(text: &str, _: &Scope<'_>) -> Result<IpProtocol, String> {
        let number = || u32::try_from(parse_integer(text)?).ok();
        or_parse_error(known_protocol(text).or_else(number).map(IpProtocol))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

/// A port of an IP protocol: by a name `PortInfo` defined, a well-known name, or its number.
///
/// # Errors
///
/// The error of the text.
pub fn parse_port(text: &str, protocol: u32, scope: &Scope<'_>) -> Result<u16, String> {
    let named = || scope.names.port(scope.name, protocol, text);
    let number = || u32::try_from(parse_integer(text)?).ok();
    let port = number().or_else(named).or_else(|| known_port(text, protocol));
    u16::try_from(or_parse_error(port)?).map_err(|_| "overflow, range 0-65535".into())
}

/// A port of TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpPort(pub u16);

impl Value for TcpPort {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<TcpPort, String> {
        parse_port(text, TCP, scope).map(TcpPort)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

/// A port of UDP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpPort(pub u16);

impl Value for UdpPort {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<UdpPort, String> {
        parse_port(text, UDP, scope).map(UdpPort)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        element::value::tests::{read, read_with},
        names::Names,
    };

    #[test]
    fn by_number_and_by_name() {
        assert_eq!(read("tcp"), Ok(IpProtocol(6)));
        assert_eq!(read("0x11"), Ok(IpProtocol(17)));
        assert_eq!(read::<IpProtocol>("-1"), Err("parse error".into()));
        assert_eq!(read("ssh"), Ok(TcpPort(22)));
        assert_eq!(read("8080"), Ok(UdpPort(8080)));
        assert_eq!(read::<TcpPort>("65536"), Err("overflow, range 0-65535".into()));
        assert_eq!(read::<TcpPort>("no such port"), Err("parse error".into()));
        let mut names = Names::default();
        names.define_port("x", TCP, "web", 8080);
        names.define_port("x", TCP, "big", 70_000);
        assert_eq!(read_with("web", &names), Ok(TcpPort(8080)));
        assert_eq!(read_with::<UdpPort>("web", &names), Err("parse error".into()));
        assert!(read_with::<TcpPort>("big", &names).is_err());
    }
}
