//! From words to a tree.
//!
//! `and` and `or` bind alike and to the left. What a primitive says about protocol,
//! sides and kind goes for the bare values that follow: `tcp port 80 or 443`.

use super::{
    lex::Token,
    primitives::{Place, Protocol, Sides, TCP, UDP, iso_protocol},
    tree::{Number, Relation, Tree},
};

/// What names stand for.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "functions have none")]
pub struct Names<'a> {
    /// A port, by its name and its protocol.
    pub port: &'a dyn Fn(&str, u32) -> Option<u16>,
    /// A protocol of IP.
    pub protocol: &'a dyn Fn(&str) -> Option<u32>,
}

/// Keywords of what is not here.
const REFUSED: &[&str] = &[
    "action",
    "addr1",
    "addr2",
    "addr3",
    "addr4",
    "csnp",
    "dir",
    "direction",
    "fddi",
    "gateway",
    "geneve",
    "ifindex",
    "ifname",
    "inbound",
    "l1",
    "l2",
    "lsp",
    "metac",
    "on",
    "outbound",
    "protochain",
    "psnp",
    "ra",
    "reason",
    "rnr",
    "rset",
    "rulenum",
    "ruleset",
    "srnr",
    "subrulenum",
    "subtype",
    "ta",
    "tr",
    "type",
    "wlan",
];

/// Keywords that are no protocols.
const KEYWORDS: &[&str] = &[
    "and",
    "broadcast",
    "dst",
    "greater",
    "host",
    "len",
    "length",
    "less",
    "llc",
    "mask",
    "mpls",
    "multicast",
    "net",
    "not",
    "or",
    "port",
    "portrange",
    "pppoes",
    "proto",
    "src",
    "vlan",
];

/// Most words, and how deep they may nest: trees are walked by recursion.
const WORDS_MAX: usize = 2000;
const DEPTH_MAX: usize = 100;

/// What is said about bare values.
#[derive(Debug, Clone, Copy)]
struct Qualifier {
    protocol: Option<Protocol>,
    sides: Option<Sides>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    Range,
    Protocol,
    /// Not said: a host.
    Unsaid,
}

pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    pub(super) at: usize,
    pub(super) place: Place,
    names: Names<'a>,
    /// Signs and words that are still open.
    depth: usize,
    /// Whether something is calculated.
    calculates: bool,
}

/// Reads an expression; without words it holds for all packets. Also says whether it calculates with
/// the packet's bytes or length.
pub(super) fn parse(tokens: Vec<Token>, names: Names<'_>) -> Result<(Tree, bool), String> {
    if tokens.is_empty() {
        return Ok((Tree::Constant(true), false));
    }
    if tokens.len() > WORDS_MAX {
        return Err(format!("more than {WORDS_MAX} words"));
    }
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        place: Place::default(),
        names,
        depth: 0,
        calculates: false,
    };
    let (tree, _) = parser.expression(None)?;
    match parser.peek() {
        None => Ok((tree, parser.calculates)),
        Some(_) => Err(parser.unexpected()),
    }
}

type Found = Result<(Tree, Option<Qualifier>), String>;

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn word(&self) -> Option<&'a str> {
        self.word_at(0)
    }

    fn word_at(&self, ahead: usize) -> Option<&'a str> {
        match self.tokens.get(self.at + ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub(super) fn is_sign(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead), Some(Token::Sign(found)) if *found == sign)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(0, sign);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.word() == Some(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn unexpected(&self) -> String {
        match self.peek() {
            None => "syntax error: something is missing at the end".into(),
            Some(Token::Word(word)) if REFUSED.contains(&word.as_str()) => {
                format!("'{word}' is not supported")
            }
            Some(Token::Word(word) | Token::Escaped(word)) => format!("syntax error at '{word}'"),
            Some(Token::Sign(sign)) => format!("syntax error at '{sign}'"),
            Some(Token::Number(number)) => format!("syntax error at '{number}'"),
            Some(_) => "syntax error at an address".into(),
        }
    }

    fn expression(&mut self, qualifier: Option<Qualifier>) -> Found {
        let (mut tree, mut qualifier) = self.item(qualifier)?;
        while let Some(joint @ ("and" | "or")) = self.word() {
            self.at += 1;
            let (right, next) = self.item(qualifier)?;
            let parts = vec![tree, right];
            tree = if joint == "and" { Tree::All(parts) } else { Tree::Any(parts) };
            qualifier = next;
        }
        Ok((tree, qualifier))
    }

    fn item(&mut self, qualifier: Option<Qualifier>) -> Found {
        if self.take_word("not") {
            let (tree, qualifier) = self.nested(|parser| parser.item(qualifier))?;
            return Ok((Tree::Not(Box::new(tree)), qualifier));
        }
        if self.may_calculate() {
            let before = self.at;
            match self.relation() {
                Ok(Some(tree)) => {
                    self.calculates = true;
                    return Ok((tree, None));
                }
                Ok(None) => self.at = before,
                Err(_) if self.is_sign_at(before, "(") => {
                    // An expression in parentheses, perhaps.
                    self.at = before + 1;
                    return self.in_parentheses(qualifier);
                }
                Err(error) => return Err(error),
            }
        }
        if self.take_sign("(") {
            return self.in_parentheses(qualifier);
        }
        let Some(word) = self.word() else { return self.value(qualifier) };
        match word {
            "less" | "greater" => {
                self.at += 1;
                self.calculates = true;
                let most = word == "less";
                let relation = if most { Relation::AtMost } else { Relation::AtLeast };
                Ok((Number::Length.is(relation, self.number()?), None))
            }
            "vlan" | "mpls" | "pppoes" => {
                self.at += 1;
                let before = self.at;
                let number = self.number().ok();
                if number.is_none() {
                    self.at = before;
                }
                let tree = match word {
                    "vlan" => self.place.vlan(number),
                    "mpls" => self.place.mpls(number),
                    _ => self.place.session(number),
                };
                tree.map(|tree| (tree, None))
            }
            "llc" => {
                self.at += 1;
                let joints = ["and", "or", "not"];
                let kind = self.word().filter(|word| !joints.contains(word));
                self.at += usize::from(kind.is_some());
                self.place.llc(kind).map(|tree| (tree, None))
            }
            "src" | "dst" | "host" | "net" | "port" | "portrange" | "proto" | "broadcast"
            | "multicast" => self.primitive(),
            _ if Protocol::named(word).is_some() => self.primitive(),
            _ => self.value(qualifier),
        }
    }

    fn is_sign_at(&self, at: usize, sign: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Sign(found)) if *found == sign)
    }

    fn in_parentheses(&mut self, qualifier: Option<Qualifier>) -> Found {
        let found = self.nested(|parser| parser.expression(qualifier))?;
        if self.take_sign(")") { Ok(found) } else { Err(self.unexpected()) }
    }

    /// What is inside of something.
    pub(super) fn nested<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("nested too deeply".into());
        }
        let found = inside(self);
        self.depth -= 1;
        found
    }

    /// A number as such.
    pub(super) fn number(&mut self) -> Result<u32, String> {
        if self.take_sign("(") {
            let number = self.number()?;
            return if self.take_sign(")") { Ok(number) } else { Err(self.unexpected()) };
        }
        let Some(Token::Number(number)) = self.peek() else { return Err(self.unexpected()) };
        self.at += 1;
        Ok(*number)
    }

    /// A primitive that begins with a protocol, sides or a kind.
    fn primitive(&mut self) -> Found {
        let protocol = self.word().and_then(Protocol::named);
        self.at += usize::from(protocol.is_some());
        if self.take_word("broadcast") {
            return match protocol {
                None | Some(Protocol::Link) => self.place.broadcast().map(|tree| (tree, None)),
                _ => {
                    Err("'broadcast' of a protocol is not supported: its network is not known"
                        .into())
                }
            };
        }
        if self.take_word("multicast") {
            return self.place.multicast(protocol).map(|tree| (tree, None));
        }
        let sides = self.sides();
        let kind = match self.word() {
            Some("host") => Kind::Host,
            Some("net") => Kind::Net,
            Some("port") => Kind::Port,
            Some("portrange") => Kind::Range,
            Some("proto") if sides.is_none() => Kind::Protocol,
            _ => Kind::Unsaid,
        };
        self.at += usize::from(kind != Kind::Unsaid);
        if let (Some(protocol), None, Kind::Unsaid) = (protocol, sides, kind) {
            if self.word().is_some_and(|word| REFUSED.contains(&word)) {
                return Err(self.unexpected());
            }
            return self.place.of(protocol).map(|tree| (tree, None));
        }
        let qualifier = Some(Qualifier { protocol, sides, kind });
        if self.take_sign("(") {
            return self.in_parentheses(qualifier);
        }
        if self.take_word("not") {
            let (tree, qualifier) = self.value(qualifier)?;
            return Ok((Tree::Not(Box::new(tree)), qualifier));
        }
        self.value(qualifier)
    }

    fn sides(&mut self) -> Option<Sides> {
        let one = match self.word()? {
            "src" => Sides::Source,
            "dst" => Sides::Destination,
            _ => return None,
        };
        self.at += 1;
        let other = if one == Sides::Source { "dst" } else { "src" };
        let both = match self.word() {
            Some("or") => Sides::Either,
            Some("and") => Sides::Both,
            _ => return Some(one),
        };
        if self.word_at(1) != Some(other) {
            return Some(one);
        }
        self.at += 2;
        Some(both)
    }

    /// A bare value, by what is said about it.
    fn value(&mut self, qualifier: Option<Qualifier>) -> Found {
        let Some(token) = self.peek() else { return Err(self.unexpected()) };
        let Some(about) = qualifier.filter(|_| !matches!(token, Token::Sign(_))) else {
            return Err(self.unexpected());
        };
        if let Token::Word(word) = token
            && is_keyword(word)
        {
            return Err(self.unexpected());
        }
        self.at += 1;
        let Qualifier { protocol, kind, .. } = about;
        let sides = about.sides.unwrap_or(Sides::Either);
        let tree = match (token, kind) {
            (Token::Number(number), Kind::Port | Kind::Range) => {
                self.place.ports(protocol, sides, (port(*number)?, port(*number)?))
            }
            (Token::Number(number), Kind::Protocol) => self.protocol(protocol, *number),
            (Token::Number(number), Kind::Net) => {
                let (mut address, mut mask) = (*number, u32::MAX);
                while address != 0 && address >> 24 == 0 {
                    (address, mask) = (address << 8, mask << 8);
                }
                self.place.ipv4(protocol, sides, (address, mask))
            }
            (Token::Number(number), _) => self.place.ipv4(protocol, sides, (*number, u32::MAX)),
            (Token::Dotted(parts), Kind::Host | Kind::Net | Kind::Unsaid) => {
                let network = self.network(parts, kind)?;
                self.place.ipv4(protocol, sides, network)
            }
            (Token::Ipv6(address), Kind::Host | Kind::Net | Kind::Unsaid) => {
                let length = if self.take_sign("/") { self.number()? } else { 128 };
                if length > 128 {
                    return Err("mask length must be <= 128".into());
                }
                if length < 128 && kind != Kind::Net {
                    return Err("Mask syntax for networks only".into());
                }
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                if address.to_bits() & !mask != 0 {
                    return Err(format!("non-network bits set in \"{address}/{length}\""));
                }
                self.place.ipv6(protocol, sides, (*address, mask))
            }
            (Token::Mac(address), Kind::Host | Kind::Unsaid) => match protocol {
                Some(Protocol::Link) => self.place.link_address(sides, *address),
                _ => Err("ethernet address used in non-ether expression".into()),
            },
            (Token::Word(name) | Token::Escaped(name), Kind::Port) => {
                let port = self.named_port(protocol, name)?;
                self.place.ports(protocol, sides, (port, port))
            }
            (Token::Word(name) | Token::Escaped(name), Kind::Range) => {
                let wrong = || format!("illegal port range '{name}'");
                let (first, last) = name.split_once('-').ok_or_else(wrong)?;
                let (first, last) =
                    (self.named_port(protocol, first)?, self.named_port(protocol, last)?);
                self.place.ports(protocol, sides, (first.min(last), first.max(last)))
            }
            (Token::Word(name) | Token::Escaped(name), Kind::Protocol) => {
                let number = match protocol {
                    Some(Protocol::Link) => Protocol::ethertype(name),
                    Some(Protocol::Type(_)) => iso_protocol(name),
                    _ => (self.names.protocol)(name),
                };
                let number = number.ok_or_else(|| format!("unknown protocol '{name}'"))?;
                self.protocol(protocol, number)
            }
            (Token::Word(name) | Token::Escaped(name), _) => {
                Err(format!("names of hosts and networks are not looked up: '{name}'"))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        };
        Ok((tree?, qualifier))
    }

    /// The bytes of an IPv4 network, and a mask, which may follow.
    fn network(&mut self, parts: &[u8], kind: Kind) -> Result<(u32, u32), String> {
        let whole = |parts: &[u8]| {
            let bytes = parts.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
            let missing = 32 - 8 * parts.len() as u32;
            (bytes << missing, u32::MAX << missing)
        };
        let (address, mut mask) = whole(parts);
        if self.take_sign("/") {
            let length = self.number()?;
            if length > 32 {
                return Err("mask length must be <= 32".into());
            }
            mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        } else if self.take_word("mask") {
            let Some(Token::Dotted(parts)) = self.peek() else { return Err(self.unexpected()) };
            self.at += 1;
            mask = whole(parts).0;
        } else {
            return Ok((address, mask));
        }
        if kind != Kind::Net {
            return Err("Mask syntax for networks only".into());
        }
        if address & !mask != 0 {
            return Err("non-network bits set in a network".into());
        }
        Ok((address, mask))
    }

    fn protocol(&self, protocol: Option<Protocol>, number: u32) -> Result<Tree, String> {
        match protocol {
            Some(Protocol::Link) => self.place.has(number),
            None => self.place.carried(number, true, true),
            Some(Protocol::Ip) => self.place.carried(number, true, false),
            Some(Protocol::Ip6) => self.place.carried(number, false, true),
            Some(iso) if Some(iso) == Protocol::named("iso") => self.place.iso(number),
            Some(_) => Err("only ether, ip and ip6 carry protocols".into()),
        }
    }

    fn named_port(&self, protocol: Option<Protocol>, name: &str) -> Result<u32, String> {
        if let Ok(number) = name.parse() {
            return port(number);
        }
        let find = |protocol| (self.names.port)(name, protocol).map(u32::from);
        let found = match protocol {
            Some(Protocol::Carried { number: UDP, .. }) => find(UDP),
            _ => find(TCP).or_else(|| find(UDP)),
        };
        found.ok_or_else(|| format!("unknown port '{name}'"))
    }
}

/// Whether a word is no name.
fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || REFUSED.contains(&word) || Protocol::named(word).is_some()
}

fn port(number: u32) -> Result<u32, String> {
    if number > u32::from(u16::MAX) {
        return Err(format!("illegal port number {number} > 65535"));
    }
    Ok(number)
}
