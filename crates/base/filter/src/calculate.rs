//! Calculations with bytes of packets, and relations of numbers.

use super::{
    lex::Token,
    parse::Parser,
    primitives::Protocol,
    tree::{Number, Operator, Relation, Tree},
};

/// Numbers that have names.
const NUMBERS: &[(&str, u32)] = &[
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141),
    ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143),
    ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145),
    ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147),
    ("icmp6-certpathsolicit", 148),
    ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151),
    ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153),
];

impl Parser<'_> {
    /// Returns true if the next token may begin a calculation.
    pub(super) fn may_calculate(&self) -> bool {
        match self.peek() {
            Some(Token::Number(_) | Token::Sign("(" | "-")) => true,
            Some(Token::Word(word)) => {
                matches!(word.as_str(), "len" | "length")
                    || NUMBERS.iter().any(|(name, _)| name == word)
                    || (Protocol::named(word).is_some() && self.is_sign(1, "["))
            }
            _ => false,
        }
    }

    /// Two numbers and their relation; `None` when it is a bare number.
    pub(super) fn relation(&mut self) -> Result<Option<Tree>, String> {
        let mut guards = Vec::new();
        let left = self.sum(0, &mut guards)?;
        let Some(Token::Sign(sign)) = self.peek() else {
            return if matches!(left, Number::Constant(_)) {
                Ok(None)
            } else {
                Err(self.unexpected())
            };
        };
        let relation = match *sign {
            "=" => Relation::Equal,
            "!=" => Relation::Unequal,
            ">" => Relation::Greater,
            ">=" => Relation::AtLeast,
            "<" => Relation::Less,
            "<=" => Relation::AtMost,
            _ if matches!(left, Number::Constant(_)) => return Ok(None),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        let right = self.sum(0, &mut guards)?;
        guards.push(Tree::Compare { relation, left, right });
        Ok(Some(Tree::All(guards)))
    }

    /// A calculation with operators that bind at least so much.
    pub(super) fn sum(&mut self, least: usize, guards: &mut Vec<Tree>) -> Result<Number, String> {
        const OPERATORS: &[(&str, usize, Operator)] = &[
            ("|", 0, Operator::Or),
            ("&", 1, Operator::And),
            ("<<", 2, Operator::Left),
            (">>", 2, Operator::Right),
            ("+", 3, Operator::Add),
            ("-", 3, Operator::Subtract),
            ("*", 4, Operator::Multiply),
            ("/", 4, Operator::Divide),
            ("%", usize::MAX, Operator::Remainder),
            ("^", usize::MAX, Operator::Xor),
        ];
        let mut left = self.operand(guards)?;
        loop {
            let Some(Token::Sign(sign)) = self.peek() else { return Ok(left) };
            let found = OPERATORS.iter().find(|(written, ..)| written == sign);
            let Some((_, binds, operator)) = found.filter(|(_, binds, _)| *binds >= least) else {
                return Ok(left);
            };
            self.at += 1;
            // libpcap does not say how the last two bind: they take all that comes.
            let takes_all = *binds == usize::MAX;
            // libpcap forgets the conditions of the number on the right.
            let right = self.sum(if takes_all { 0 } else { binds + 1 }, &mut Vec::new())?;
            match (operator, right.first_constant()) {
                (Operator::Divide, Some(0)) => return Err("division by zero".into()),
                (Operator::Remainder, Some(0)) => return Err("modulus by zero".into()),
                (Operator::Left | Operator::Right, Some(u32::BITS..)) => {
                    return Err("shift by more than 31 bits".into());
                }
                _ => {}
            }
            left = Number::calculate(*operator, left, right);
        }
    }

    fn operand(&mut self, guards: &mut Vec<Tree>) -> Result<Number, String> {
        if self.take_sign("-") {
            // With those operators of which it is not said how they bind.
            let of = self.nested(|parser| parser.sum(usize::MAX, guards))?;
            return Ok(Number::calculate(Operator::Multiply, of, Number::Constant(u32::MAX)));
        }
        if self.take_sign("(") {
            let inside = self.nested(|parser| parser.sum(0, guards))?;
            return if self.take_sign(")") { Ok(inside) } else { Err(self.unexpected()) };
        }
        if let Some(Token::Number(number)) = self.peek() {
            self.at += 1;
            return Ok(Number::Constant(*number));
        }
        let Some(word) = self.word() else { return Err(self.unexpected()) };
        if matches!(word, "len" | "length") {
            self.at += 1;
            return Ok(Number::Length);
        }
        if let Some((_, number)) = NUMBERS.iter().find(|(name, _)| *name == word) {
            self.at += 1;
            return Ok(Number::Constant(*number));
        }
        let Some(protocol) = Protocol::named(word).filter(|_| self.is_sign(1, "[")) else {
            return Err(self.unexpected());
        };
        self.at += 2;
        let index = self.nested(|parser| parser.sum(0, guards))?;
        let size = if self.take_sign(":") { self.number()? } else { 1 };
        if !matches!(size, 1 | 2 | 4) {
            return Err("data size must be 1, 2, or 4".into());
        }
        if !self.take_sign("]") {
            return Err(self.unexpected());
        }
        let (number, needed) = self.headers.load(protocol, index, size as usize)?;
        guards.extend(needed);
        Ok(number)
    }
}
