//! What an expression asks of a packet.

/// A condition. Parts are looked at from left to right, as far as needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Constant(bool),
    Not(Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Compare { relation: Relation, left: Number, right: Number },
}

/// A number of 32 bits found out about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Number {
    Constant(u32),
    /// The length of the packet.
    Length,
    Load {
        base: Base,
        index: Box<Number>,
        /// Bytes: 1, 2 or 4.
        size: usize,
    },
    Calculate {
        operator: Operator,
        left: Box<Number>,
        right: Box<Number>,
    },
}

/// What the place of a load counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// A place in the packet.
    At(u32),
    /// The end of the IPv4 header that begins there.
    BehindIpv4(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Unequal,
    Greater,
    AtLeast,
    Less,
    AtMost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Left,
    Right,
}

impl Tree {
    /// Whether it holds; `None` when the packet is too short to say.
    pub(super) fn holds(&self, packet: &[u8]) -> Option<bool> {
        match self {
            Tree::Constant(value) => Some(*value),
            Tree::Not(of) => of.holds(packet).map(|holds| !holds),
            Tree::All(parts) => {
                for part in parts {
                    if !part.holds(packet)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Tree::Any(parts) => {
                for part in parts {
                    if part.holds(packet)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Tree::Compare { relation, left, right } => {
                let (left, right) = (left.of(packet)?, right.of(packet)?);
                Some(match relation {
                    Relation::Equal => left == right,
                    Relation::Unequal => left != right,
                    Relation::Greater => left > right,
                    Relation::AtLeast => left >= right,
                    Relation::Less => left < right,
                    Relation::AtMost => left <= right,
                })
            }
        }
    }

    /// A number of some bytes at a place, of which the bits in `mask` count,
    /// is `value`.
    pub(super) fn equal(at: u32, size: usize, mask: u32, value: u32) -> Tree {
        Number::load(Base::At(at), size).masked(mask).is(Relation::Equal, value)
    }
}

impl Number {
    /// Some bytes.
    pub(super) fn load(base: Base, size: usize) -> Number {
        Number::Load { base, index: Box::new(Number::Constant(0)), size }
    }

    /// Some of its bits.
    pub(super) fn masked(self, mask: u32) -> Number {
        match mask {
            u32::MAX => self,
            mask => Number::calculate(Operator::And, self, Number::Constant(mask)),
        }
    }

    pub(super) fn calculate(operator: Operator, left: Number, right: Number) -> Number {
        Number::Calculate { operator, left: Box::new(left), right: Box::new(right) }
    }

    pub(super) fn is(self, relation: Relation, value: u32) -> Tree {
        Tree::Compare { relation, left: self, right: Number::Constant(value) }
    }

    /// What it is for every packet, if that is known beforehand.
    pub(super) fn constant(&self) -> Option<u32> {
        match self {
            Number::Constant(value) => Some(*value),
            Number::Calculate { left, right, .. } => {
                left.constant().and(right.constant()).and_then(|_| self.of(&[]))
            }
            Number::Length | Number::Load { .. } => None,
        }
    }

    fn of(&self, packet: &[u8]) -> Option<u32> {
        match self {
            Number::Constant(value) => Some(*value),
            Number::Length => Some(packet.len() as u32),
            Number::Load { base, index, size } => {
                let at = index.of(packet)?.checked_add(base.place(packet)?)? as usize;
                let bytes = packet.get(at..)?.get(..*size)?;
                Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
            }
            Number::Calculate { operator, left, right } => {
                let (left, right) = (left.of(packet)?, right.of(packet)?);
                match operator {
                    Operator::Add => Some(left.wrapping_add(right)),
                    Operator::Subtract => Some(left.wrapping_sub(right)),
                    Operator::Multiply => Some(left.wrapping_mul(right)),
                    Operator::Divide => left.checked_div(right),
                    Operator::Remainder => left.checked_rem(right),
                    Operator::And => Some(left & right),
                    Operator::Or => Some(left | right),
                    Operator::Left => Some(left.checked_shl(right).unwrap_or(0)),
                    Operator::Right => Some(left.checked_shr(right).unwrap_or(0)),
                }
            }
        }
    }
}

impl Base {
    fn place(self, packet: &[u8]) -> Option<u32> {
        match self {
            Base::At(at) => Some(at),
            Base::BehindIpv4(at) => {
                let first = packet.get(at as usize)?;
                Some(at + u32::from(first & 15) * 4)
            }
        }
    }
}
