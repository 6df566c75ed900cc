//! Primitives as written, and as completed.

use super::{
    kind::{Field, FieldKind, Sides, protocol},
    tree::{Comparison, Condition, Header, Primitive},
};

/// Comparison of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Relation {
    #[default]
    Equal,
    Greater,
    Less,
}

/// Value as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Data {
    #[default]
    None,
    Number,
    /// An address, a network, or a name for a value of that kind.
    Of(FieldKind),
}

/// Mask as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    Number(u32),
    Address(u32),
    Ethernet([u8; 6]),
}

impl Mask {
    /// Returns the number Click takes it for, on a machine where the first byte of an address is
    /// the lowest of the number.
    pub(super) fn number(self) -> u32 {
        match self {
            Mask::Number(number) => number,
            Mask::Address(address) => address.swap_bytes(),
            Mask::Ethernet([a, b, c, d, ..]) => u32::from_le_bytes([a, b, c, d]),
        }
    }
}

/// The header in front of a primitive: `ip` or `ether`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    Ip,
    Ethernet,
}

/// A primitive as written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    pub(super) kind: Option<FieldKind>,
    /// A name in it is unknown, which has been reported.
    pub(super) broken: bool,
    pub(super) data: Data,
    pub(super) relation: Relation,
    pub(super) negated: bool,
    pub(super) sides: Option<Sides>,
    pub(super) protocol: Option<u32>,
    pub(super) number: u32,
    pub(super) address: u32,
    pub(super) ethernet: [u8; 6],
    /// Mask of an address or a network.
    pub(super) address_mask: u32,
}

/// Errors and warnings about an expression, in order.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) text: String,
    pub(super) is_error: bool,
    /// The word that is not understood.
    pub(super) word: Option<String>,
}

impl Findings {
    pub(super) fn error(&mut self, text: impl Into<String>) {
        self.0.push(Finding { text: text.into(), is_error: true, word: None });
    }

    /// An error because of a word.
    pub(super) fn error_at(&mut self, word: &str, text: impl Into<String>) {
        let word = Some(word.to_owned()).filter(|word| !word.is_empty());
        self.0.push(Finding { text: text.into(), is_error: true, word });
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.0.push(Finding { text: text.into(), is_error: false, word: None });
    }
}

/// The kind and the sides in messages.
fn shown(kind: FieldKind, sides: Option<Sides>) -> String {
    match sides {
        Some(sides) => format!("{sides} {kind}"),
        None => kind.to_string(),
    }
}

impl Draft {
    pub(super) fn set_kind(&mut self, kind: FieldKind, found: &mut Findings) {
        if self.kind.is_some() {
            found.error("type specified twice");
        }
        self.kind = Some(kind);
    }

    pub(super) fn set_sides(&mut self, sides: Sides, found: &mut Findings) {
        if self.sides.is_some() {
            found.error("'src' or 'dst' specified twice");
        }
        self.sides = Some(sides);
    }

    pub(super) fn set_protocol(&mut self, protocol: u32, found: &mut Findings) {
        if self.protocol.is_some_and(|known| known != protocol) {
            found.error("transport protocol specified twice");
        }
        self.protocol = Some(protocol);
    }

    /// Completes the primitive behind `before` and with `prefix` in front; `None` with an error in
    /// `found` if that is impossible. Omitted parts are filled in.
    pub(super) fn complete(
        &mut self,
        before: &Draft,
        prefix: Option<Prefix>,
        mask: Option<Mask>,
        found: &mut Findings,
    ) -> Option<Primitive> {
        if self.broken {
            return None;
        }
        let sides_written = self.sides.is_some();
        let mut kind = match self.kind {
            Some(kind) => kind,
            None => self.guess(before).map_err(|error| found.error(error)).ok()?,
        };
        let prefix = prefix.unwrap_or(match self.data {
            Data::Of(FieldKind::Ethernet) => Prefix::Ethernet,
            _ => Prefix::Ip,
        });
        if prefix == Prefix::Ethernet && kind == FieldKind::Host {
            kind = FieldKind::Ethernet;
        }
        self.kind = Some(kind);
        let what = match self.check(kind, prefix, mask, found) {
            Ok(what) => what,
            Err(PrimitiveError::Said) => return None,
            Err(PrimitiveError::With(what)) => {
                let about = shown(self.kind.unwrap_or(kind), self.sides);
                found.error(format!("'{about}': {what}"));
                return None;
            }
        };
        if sides_written
            && !matches!(
                what,
                Condition::Host { .. } | Condition::Port { .. } | Condition::Ethernet { .. }
            )
        {
            let about = shown(self.kind.unwrap_or(kind), self.sides);
            found.warn(format!("'{about}': 'src' or 'dst' ignored"));
        }
        Some(Primitive { protocol: self.protocol, what, negated: self.negated })
    }

    /// The kind that goes with the value, or that of the primitive before.
    fn guess(&mut self, before: &Draft) -> Result<FieldKind, &'static str> {
        if self.data == Data::Number {
            match before.kind {
                Some(kind @ (FieldKind::Field(_) | FieldKind::Protocol | FieldKind::Port)) => {
                    self.data = Data::Of(kind);
                }
                _ => return Err("specify header field or 'port'"),
            }
        }
        let kind = match self.data {
            Data::Of(kind) => kind,
            _ if self.protocol.is_some() => FieldKind::Protocol,
            _ => return Err("partial directive"),
        };
        match kind {
            FieldKind::Host
            | FieldKind::Net
            | FieldKind::TcpFlags
            | FieldKind::Ethernet
            | FieldKind::Port => {
                self.sides = self.sides.or(before.sides);
            }
            _ => {}
        }
        match kind {
            FieldKind::Port => self.protocol = self.protocol.or(before.protocol),
            FieldKind::Field(field) => self.protocol = self.protocol.or(field.protocol),
            _ => {}
        }
        Ok(kind)
    }

    /// Checks that value, mask and relation go with the kind.
    fn check(
        &mut self,
        kind: FieldKind,
        prefix: Prefix,
        mask: Option<Mask>,
        found: &mut Findings,
    ) -> Result<Condition, PrimitiveError> {
        let number_mask = match mask {
            Some(Mask::Number(mask)) => Ok(Some(mask)),
            Some(_) => Err(PrimitiveError::With("bad mask")),
            None => Ok(None),
        };
        let sides = self.sides.unwrap_or(Sides::Either);
        match kind {
            FieldKind::Host | FieldKind::Net => {
                if prefix != Prefix::Ip || self.data != Data::Of(kind) {
                    return Err(PrimitiveError::With("address missing"));
                }
                if self.relation != Relation::Equal {
                    return Err(PrimitiveError::With("operator not supported"));
                }
                self.kind = Some(FieldKind::Host);
                let written = if kind == FieldKind::Host { u32::MAX } else { self.address_mask };
                let mask = match mask {
                    Some(Mask::Ethernet(_)) => return Err(PrimitiveError::With("bad mask")),
                    Some(mask) => mask.number().swap_bytes(),
                    None => written,
                };
                self.sides = Some(sides);
                Ok(Condition::Host { sides, address: self.address & mask, mask })
            }
            FieldKind::Ethernet => {
                if prefix != Prefix::Ethernet || self.data != Data::Of(FieldKind::Ethernet) {
                    return Err(PrimitiveError::With("address missing"));
                }
                if self.relation != Relation::Equal {
                    return Err(PrimitiveError::With("operator not supported"));
                }
                let mask = match mask {
                    Some(Mask::Ethernet(mask)) => mask,
                    Some(_) => return Err(PrimitiveError::With("bad mask")),
                    None => [0xff; 6],
                };
                self.sides = Some(sides);
                Ok(Condition::Ethernet { sides, address: self.ethernet, mask })
            }
            _ if prefix != Prefix::Ip => Err(PrimitiveError::With("ip only")),
            FieldKind::Protocol => self.check_protocol(mask, number_mask, found),
            FieldKind::Port => {
                self.need_number(FieldKind::Port)?;
                match self.protocol {
                    None => self.protocol = Some(protocol::TCP_OR_UDP),
                    Some(protocol::TCP | protocol::UDP | protocol::TCP_OR_UDP | protocol::DCCP) => {
                        number_mask?;
                    }
                    Some(other) => {
                        found.error(format!("'port': bad protocol {}", other as i32));
                        return Err(PrimitiveError::Said);
                    }
                }
                let number = self.compare(0xffff, mask.map(Mask::number), found)?;
                self.sides = Some(sides);
                Ok(Condition::Port { sides, number })
            }
            FieldKind::TcpFlags => {
                self.need_number(FieldKind::TcpFlags)?;
                match self.protocol {
                    None | Some(protocol::TCP) => self.protocol = Some(protocol::TCP),
                    Some(other) => {
                        found.error(format!("'tcp opt': bad protocol {}", other as i32));
                        return Err(PrimitiveError::Said);
                    }
                }
                if self.relation != Relation::Equal || self.negated || mask.is_some() {
                    return Err(PrimitiveError::With("operator or mask not supported"));
                }
                u8::try_from(self.number).map(Condition::TcpFlags).map_err(|_| {
                    let value = self.number as i32;
                    found.error(format!("'tcp opt': value {value} out of range"));
                    PrimitiveError::Said
                })
            }
            FieldKind::Ect => {
                match self.data {
                    Data::None => (self.number, self.negated) = (0, true),
                    Data::Number => {}
                    Data::Of(_) => return Err(PrimitiveError::With("value missing")),
                }
                let mask =
                    if self.data == Data::None { mask.map(Mask::number) } else { number_mask? };
                let value = self.compare(3, mask, found)?;
                self.kind = Some(FieldKind::Field(Field::TOS));
                Ok(field(Field::TOS, value))
            }
            FieldKind::Ce | FieldKind::Fragment | FieldKind::Unfragmented => {
                if self.data != Data::None || mask.is_some() {
                    return Err(PrimitiveError::With("value not supported"));
                }
                if kind == FieldKind::Ce {
                    self.kind = Some(FieldKind::Field(Field::TOS));
                    let value = Comparison { greater: false, value: 3, mask: 3 };
                    return Ok(field(Field::TOS, value));
                }
                self.negated |= kind == FieldKind::Unfragmented;
                self.kind = Some(FieldKind::Fragment);
                Ok(Condition::Fragment)
            }
            FieldKind::Field(of) => {
                self.need_number(kind)?;
                let value = self.compare(of.full(), number_mask?, found)?;
                Ok(field(of, value))
            }
        }
    }

    fn check_protocol(
        &mut self,
        mask: Option<Mask>,
        number_mask: Result<Option<u32>, PrimitiveError>,
        found: &mut Findings,
    ) -> Result<Condition, PrimitiveError> {
        let number = match self.data {
            Data::Number | Data::Of(FieldKind::Protocol) => {
                if self.protocol.is_some_and(|known| known != self.number) {
                    return Err(PrimitiveError::With("specified twice"));
                }
                self.number
            }
            Data::None => self.protocol.ok_or(PrimitiveError::With("value missing"))?,
            Data::Of(_) => return Err(PrimitiveError::With("value missing")),
        };
        (self.number, self.protocol, self.data) = (number, None, Data::None);
        if number as i32 >= 256 {
            if self.relation != Relation::Equal || mask.is_some() {
                let name = protocol::name(number);
                found.error(format!("'{name}': operator or mask not supported"));
                return Err(PrimitiveError::Said);
            }
            return Ok(Condition::Protocols(number));
        }
        let comparison = self.compare(0xff, number_mask?, found)?;
        if !comparison.greater && comparison.mask == 0xff && !self.negated {
            self.protocol = Some(number);
        }
        Ok(Condition::ProtocolNumber(comparison))
    }

    fn need_number(&self, kind: FieldKind) -> Result<(), PrimitiveError> {
        let fits = self.data == Data::Number || self.data == Data::Of(kind);
        if fits { Ok(()) } else { Err(PrimitiveError::With("value missing")) }
    }

    /// The condition on a number of which the bits of `full` exist.
    fn compare(
        &mut self,
        full: u32,
        mask: Option<u32>,
        found: &mut Findings,
    ) -> Result<Comparison, PrimitiveError> {
        let about = || shown(self.kind.unwrap_or(FieldKind::Host), self.sides);
        let mask = mask.filter(|mask| *mask != 0).unwrap_or(full);
        if mask & full != mask {
            found.error(format!("'{}': mask out of range, bound 0x{full:X}", about()));
            return Err(PrimitiveError::Said);
        }
        let value = self.number;
        let relation = self.relation;
        if relation == Relation::Equal {
            if value > full {
                found.error(format!("'{}': out of range, bound {full}", about()));
                return Err(PrimitiveError::Said);
            }
            return Ok(Comparison { greater: false, value: value & mask, mask });
        }
        let less = relation == Relation::Less;
        if less && (value == 0 || value > mask) || !less && value >= mask {
            let always = (less && value > mask) != self.negated;
            let sign = match (less, self.negated) {
                (true, false) => "<",
                (true, true) => ">=",
                (false, false) => ">",
                (false, true) => "<=",
            };
            found.warn(format!("relation '{sign} {value}' is always {always} (range 0-{mask})"));
            (self.relation, self.negated) = (Relation::Equal, !always);
            return Ok(Comparison { greater: false, value: 0, mask: 0 });
        }
        // Less than that is not greater than the number before.
        let mut value = value;
        if less {
            value -= 1;
            self.negated = !self.negated;
        }
        self.relation = Relation::Greater;
        // A number whose bits are all in the mask is greater than the value if it
        // is greater than the greatest such number not above the value.
        let missing = value & !mask;
        if missing != 0 {
            value = (value | ((1 << missing.ilog2()) - 1)) & mask;
        }
        Ok(Comparison { greater: true, value, mask })
    }
}

/// Fault of a primitive.
enum PrimitiveError {
    /// It has been reported.
    Said,
    With(&'static str),
}

fn field(field: Field, value: Comparison) -> Condition {
    let header = if field.protocol.is_some() { Header::Transport } else { Header::Network };
    Condition::Field { header, offset: field.offset, length: field.length, value }
}
