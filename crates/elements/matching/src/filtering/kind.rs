//! Kinds of primitives and their names in messages.

use std::fmt;

/// Numbers of protocols; those beyond 255 stand for several.
pub(super) mod protocol {
    pub(crate) const ICMP: u32 = 1;
    pub(crate) const TCP: u32 = 6;
    pub(crate) const UDP: u32 = 17;
    pub(crate) const DCCP: u32 = 33;
    pub(crate) const TCP_OR_UDP: u32 = 256;
    /// Any protocol with ports in its header.
    const TRANSPORT: u32 = 258;

    /// Returns its name in messages.
    pub(crate) fn name(number: u32) -> String {
        match number {
            ICMP => "icmp".into(),
            2 => "igmp".into(),
            4 => "ipip".into(),
            TCP => "tcp".into(),
            UDP => "udp".into(),
            TCP_OR_UDP => "tcpudp".into(),
            TRANSPORT => "transp".into(),
            other => format!("ip proto {}", other as i32),
        }
    }
}

/// Field or property that a primitive tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Host,
    Net,
    Protocol,
    Port,
    TcpFlags,
    Ethernet,
    Fragment,
    Unfragmented,
    Ect,
    Ce,
    Field(Field),
}

/// Bits of the network header, or of the transport header of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) protocol: Option<u32>,
    /// The first bit, from the start of the header.
    pub(super) offset: u32,
    /// Bits; they are all in one word of 32 bits.
    pub(super) length: u32,
}

impl Field {
    const fn ip(offset: u32, length: u32) -> Field {
        Field { protocol: None, offset, length }
    }

    pub(super) const VERSION: Field = Field::ip(0, 4);
    pub(super) const HEADER_LENGTH: Field = Field::ip(4, 4);
    pub(super) const TOS: Field = Field::ip(8, 8);
    pub(super) const DSCP: Field = Field::ip(8, 6);
    pub(super) const LENGTH: Field = Field::ip(16, 16);
    pub(super) const ID: Field = Field::ip(32, 16);
    pub(super) const TTL: Field = Field::ip(64, 8);
    pub(super) const WINDOW: Field =
        Field { protocol: Some(protocol::TCP), offset: 112, length: 16 };
    pub(super) const ICMP_TYPE: Field =
        Field { protocol: Some(protocol::ICMP), offset: 0, length: 8 };

    /// The greatest value.
    pub(super) fn full(self) -> u32 {
        u32::MAX >> 32_u32.saturating_sub(self.length).min(31)
    }
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldKind::Host => "ip host",
            FieldKind::Net => "ip net",
            FieldKind::Protocol => "proto",
            FieldKind::Port => "port",
            FieldKind::TcpFlags => "tcp opt",
            FieldKind::Ethernet => "ether host",
            FieldKind::Fragment => "ip frag",
            FieldKind::Unfragmented => "ip unfrag",
            FieldKind::Ect => "ip ect",
            FieldKind::Ce => "ip ce",
            FieldKind::Field(Field::LENGTH) => "ip len",
            FieldKind::Field(Field::ID) => "ip id",
            FieldKind::Field(Field::VERSION) => "ip vers",
            FieldKind::Field(Field::HEADER_LENGTH) => "ip hl",
            FieldKind::Field(Field::TOS) => "ip tos",
            FieldKind::Field(Field::DSCP) => "ip dscp",
            FieldKind::Field(Field::TTL) => "ip ttl",
            FieldKind::Field(Field::WINDOW) => "tcp win",
            FieldKind::Field(Field::ICMP_TYPE) => "icmp type",
            FieldKind::Field(Field { protocol: Some(number), .. }) => {
                return write!(f, "{}[...]", protocol::name(*number));
            }
            FieldKind::Field(_) => "ip[...]",
        })
    }
}

/// Choice of a packet's two addresses or ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sides {
    Source,
    Destination,
    Both,
    Either,
}

impl Sides {
    pub(super) fn source(self) -> bool {
        self != Sides::Destination
    }

    pub(super) fn destination(self) -> bool {
        self != Sides::Source
    }
}

impl fmt::Display for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sides::Source => "src",
            Sides::Destination => "dst",
            Sides::Both => "src and dst",
            Sides::Either => "src or dst",
        })
    }
}
