//! `PortInfo`: names for ports of TCP and UDP.

use linerate_graph::{
    Arg, Class, ElementBuilder, ElementStatements, IpProtocol, integer_in, lang::config::words,
};

use super::INFORMATION;

const TCP: u32 = 6;
const UDP: u32 = 17;

pub(super) const CLASS: Class = Class {
    name: "PortInfo",
    summary: "gives names to ports",
    description: "Each argument is a name, a port, and perhaps a protocol: `NAME PORT[/PROTOCOL]`. \
        Without one the name holds for TCP and UDP. Lines of `/etc/services` can be used as \
        arguments: further names follow, and what is behind a `#` does not count.\n\n\
        A name holds in the compound it is defined in and inside it. The usual names (`ssh`, `dns`, \
        `www`...) are known, and those in `/etc/services`.",
    args: &[Arg::rest("NAME PORT", "name and port", "a name and the port it stands for")],
    example: "PortInfo(web 8080/tcp, game 27015);\n\
        InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    prepare: Some(define),
    file: file!(),
    ..INFORMATION
};

fn define(make: &mut ElementBuilder<'_>, said: &mut ElementStatements) {
    for argument in make.rest() {
        let parts = words(&argument);
        let Some(name) = parts.first().filter(|name| !name.starts_with('#')) else { continue };
        let place = parts.get(1).copied().unwrap_or_default();
        let (number, protocol) = match place.split_once('/') {
            Some((number, protocol)) => (number, Some(protocol)),
            None => (place, None),
        };
        let number = integer_in(number, 0, false).and_then(|number| u32::try_from(number).ok());
        let Some(port) = number else {
            make.error("expected 'NAME PORT/PROTO'");
            continue;
        };
        let protocols = match protocol.map(|protocol| make.parse::<IpProtocol>(protocol)) {
            None => vec![TCP, UDP],
            Some(Ok(IpProtocol(protocol))) => vec![protocol],
            // One that is not known can be no port's either.
            Some(Err(_)) => continue,
        };
        let more = parts[2..].iter().take_while(|name| !name.starts_with('#'));
        for name in std::iter::once(name).chain(more) {
            for protocol in &protocols {
                said.names.define_port(make.name(), *protocol, name, port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn wrong_ports_are_refused() {
        assert_eq!(
            Run::errors("PortInfo(a x); PortInfo(a); PortInfo(a 1/no-such, b 2/99, # 3, c 4)"),
            "config:1: While configuring 'PortInfo@1 :: PortInfo':\n  \
             expected 'NAME PORT/PROTO'\n\
             config:1: While configuring 'PortInfo@2 :: PortInfo':\n  \
             expected 'NAME PORT/PROTO'\n"
        );
    }
}
