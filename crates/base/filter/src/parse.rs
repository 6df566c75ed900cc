//! Parser: from words to a tree.
//!
//! `and` and `or` bind alike and to the left. Protocol, sides and kind of a primitive hold for the
//! bare values that follow: `tcp port 80 or 443`.

use std::net::IpAddr;

use super::{
    Link,
    lex::Token,
    names::Names,
    primitives::{DECNET, Direction, HeaderContext, Protocol, SCTP, TCP, UDP, iso_protocol},
    refused::refused,
    tree::{Base, Number, Relation, Tree},
};

/// Keywords that are no protocols.
const KEYWORDS: &[&str] = &[
    "and",
    "broadcast",
    "byte",
    "dst",
    "geneve",
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
    "protochain",
    "src",
    "vlan",
];

/// Most words, and how deep they may nest: trees are walked by recursion.
const WORDS_MAX: usize = 2000;
const DEPTH_MAX: usize = 100;

/// Qualifiers that hold for bare values.
#[derive(Debug, Clone, Copy)]
struct Qualifier {
    protocol: Option<Protocol>,
    direction: Option<Direction>,
    kind: TypeQualifier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeQualifier {
    Host,
    Net,
    Port,
    Range,
    Protocol,
    /// A protocol somewhere in the chain of headers.
    Chain,
    /// Not said: a host.
    Unsaid,
}

pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    pub(super) at: usize,
    pub(super) headers: HeaderContext,
    names: Names<'a>,
    /// Signs and words that are still open.
    depth: usize,
    /// Whether something is calculated.
    calculates: bool,
}

/// Result of parsing.
pub(super) struct Parsed {
    pub(super) tree: Tree,
    /// Whether it calculates with a packet's bytes or length.
    pub(super) calculates: bool,
    /// Number of places that its conditions find.
    pub(super) places: u8,
}

/// Reads an expression about packets of a link; without words it holds for all.
pub(super) fn parse(tokens: Vec<Token>, link: Link, names: Names<'_>) -> Result<Parsed, String> {
    if tokens.is_empty() {
        return Ok(Parsed { tree: Tree::Constant(true), calculates: false, places: 0 });
    }
    let mut parser = Parser::new(&tokens, link, names)?;
    let (tree, _) = parser.expression(None)?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    Ok(Parsed { tree, calculates: parser.calculates, places: parser.headers.places })
}

/// Reads a number, and the conditions under which a packet has it.
pub(super) fn parse_number(tokens: Vec<Token>, names: Names<'_>) -> Result<(Tree, Number), String> {
    let mut parser = Parser::new(&tokens, Link::Ethernet, names)?;
    let mut needed = Vec::new();
    let number = parser.sum(0, &mut needed)?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    Ok((Tree::All(needed), number))
}

type ParseResult = Result<(Tree, Option<Qualifier>), String>;

impl<'a> Parser<'a> {
    fn new(tokens: &'a [Token], link: Link, names: Names<'a>) -> Result<Parser<'a>, String> {
        if tokens.len() > WORDS_MAX {
            return Err(format!("more than {WORDS_MAX} words"));
        }
        let headers = HeaderContext::on(link);
        Ok(Parser { tokens, at: 0, headers, names, depth: 0, calculates: false })
    }

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
            Some(Token::Word(word)) => match refused(word) {
                Some(reason) => reason.into(),
                None => format!("syntax error at '{word}'"),
            },
            Some(Token::Escaped(word)) => format!("syntax error at '{word}'"),
            Some(Token::Sign(sign)) => format!("syntax error at '{sign}'"),
            Some(Token::Number(number)) => format!("syntax error at '{number}'"),
            Some(_) => "syntax error at an address".into(),
        }
    }

    /// An expression inside of parentheses that follow something with this qualifier. It begins
    /// with a primitive; bare values may follow.
    fn expression(&mut self, qualifier: Option<Qualifier>) -> ParseResult {
        let (mut tree, mut qualifier) = self.item(qualifier, false)?;
        while let Some(joint @ ("and" | "or")) = self.word() {
            self.at += 1;
            let (right, next) = self.item(qualifier, true)?;
            tree = joined(joint, tree, right);
            qualifier = next;
        }
        Ok((tree, qualifier))
    }

    /// A primitive, or an expression in parentheses, or, where it may be one, a bare value with the
    /// qualifiers of the last one.
    fn item(&mut self, qualifier: Option<Qualifier>, may_be_value: bool) -> ParseResult {
        if self.take_word("not") {
            let (tree, qualifier) = self.nested(|parser| parser.item(qualifier, may_be_value))?;
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
                // An expression in parentheses, perhaps.
                Err(_) if self.is_sign_at(before, "(") => self.at = before,
                Err(error) => return Err(error),
            }
        }
        if self.is_sign(0, "(") {
            if may_be_value && self.are_values_next() {
                let before = self.at;
                match self.values(qualifier) {
                    Ok(tree) => return Ok((tree, qualifier)),
                    // With a number calculations begin, too.
                    Err(_) => self.at = before,
                }
            }
            self.at += 1;
            return self.in_parentheses(qualifier);
        }
        let is_value = !self.word().is_some_and(is_keyword);
        if is_value {
            if !may_be_value {
                return Err(self.unexpected());
            }
            return self.value(qualifier).map(|tree| (tree, qualifier));
        }
        let Some(word) = self.word() else { return Err(self.unexpected()) };
        match word {
            "less" | "greater" => {
                self.at += 1;
                self.calculates = true;
                let most = word == "less";
                let relation = if most { Relation::AtMost } else { Relation::AtLeast };
                Ok((Number::Length.is(relation, self.number()?), None))
            }
            "vlan" | "mpls" | "pppoes" | "geneve" => {
                self.at += 1;
                let before = self.at;
                let number = self.number().ok();
                if number.is_none() {
                    self.at = before;
                }
                let tree = match word {
                    "vlan" => self.headers.vlan(number),
                    "mpls" => self.headers.mpls(number),
                    "pppoes" => self.headers.session(number),
                    _ => self.headers.geneve(number),
                };
                tree.map(|tree| (tree, None))
            }
            "llc" => {
                self.at += 1;
                let joints = ["and", "or", "not"];
                let kind = self.word().filter(|word| !joints.contains(word));
                self.at += usize::from(kind.is_some());
                self.headers.llc(kind).map(|tree| (tree, None))
            }
            "byte" => self.byte().map(|tree| (tree, None)),
            "src" | "dst" | "host" | "net" | "port" | "portrange" | "proto" | "protochain"
            | "broadcast" | "multicast" => self.primitive(),
            _ if Protocol::named(word).is_some() => self.primitive(),
            _ => Err(self.unexpected()),
        }
    }

    fn is_sign_at(&self, at: usize, sign: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Sign(found)) if *found == sign)
    }

    /// An expression up to the parenthesis that ends it. Behind it the qualifiers from before hold
    /// again.
    fn in_parentheses(&mut self, qualifier: Option<Qualifier>) -> ParseResult {
        let (tree, _) = self.nested(|parser| parser.expression(qualifier))?;
        if self.take_sign(")") { Ok((tree, qualifier)) } else { Err(self.unexpected()) }
    }

    /// Returns true if a value comes first behind the parentheses that are next.
    fn are_values_next(&self) -> bool {
        let rest = self.tokens[self.at..].iter();
        let is_before =
            |token: &&Token| **token == Token::Sign("(") || **token == Token::Word("not".into());
        match rest.clone().find(|token| !is_before(token)) {
            Some(Token::Sign(_)) | None => false,
            Some(Token::Word(word)) => !is_keyword(word),
            Some(_) => true,
        }
    }

    /// Values with their qualifiers: one, or several in parentheses.
    fn values(&mut self, about: Option<Qualifier>) -> Result<Tree, String> {
        if self.take_word("not") {
            let tree = self.nested(|parser| parser.values(about))?;
            return Ok(Tree::Not(Box::new(tree)));
        }
        if !self.take_sign("(") {
            return self.value(about);
        }
        let tree = self.nested(|parser| {
            // The first of them is in no parentheses of its own, unless it is a number.
            let mut tree = if parser.is_sign(0, "(") {
                let number = parser.number()?;
                parser.numbered(number, about)?
            } else {
                parser.values(about)?
            };
            while let Some(joint @ ("and" | "or")) = parser.word() {
                parser.at += 1;
                tree = joined(joint, tree, parser.values(about)?);
            }
            Ok(tree)
        })?;
        if self.take_sign(")") { Ok(tree) } else { Err(self.unexpected()) }
    }

    /// Runs `inside` one level deeper; an error when the levels are too many.
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

    /// `byte 12 = 8`: a byte of the link's header, and bytes behind it.
    fn byte(&mut self) -> Result<Tree, String> {
        self.at += 1;
        self.calculates = true;
        let at = self.plain_number()?;
        let relation = match self.peek() {
            Some(Token::Sign("=")) => Relation::Equal,
            Some(Token::Sign("<")) => Relation::Less,
            Some(Token::Sign(">")) => Relation::Greater,
            // libpcap forgets to look at the packet for these.
            Some(Token::Sign(sign @ ("&" | "|"))) => {
                return Err(format!(
                    "'byte' with '{sign}' looks at nothing in libpcap: write ether[{at}] {sign} \
                     NUMBER != 0"
                ));
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        let value = self.plain_number()?;
        Ok(Number::load(Base::At(self.headers.link + at), 1).is(relation, value))
    }

    /// A number without parentheses around it.
    fn plain_number(&mut self) -> Result<u32, String> {
        if self.is_sign(0, "(") { Err(self.unexpected()) } else { self.number() }
    }

    /// A primitive that begins with a protocol, sides or a kind.
    fn primitive(&mut self) -> ParseResult {
        let protocol = self.word().and_then(Protocol::named);
        self.at += usize::from(protocol.is_some());
        if self.take_word("broadcast") {
            let tree = match protocol {
                None | Some(Protocol::Link) => self.headers.broadcast(),
                Some(Protocol::Ip) => self.headers.ipv4_broadcast(self.names.netmask),
                Some(_) => Err("only link-layer/IP broadcast filters supported".into()),
            };
            return tree.map(|tree| (tree, None));
        }
        if self.take_word("multicast") {
            return self.headers.multicast(protocol).map(|tree| (tree, None));
        }
        let direction = self.direction();
        let kind = match self.word() {
            Some("host") => TypeQualifier::Host,
            Some("net") => TypeQualifier::Net,
            Some("port") => TypeQualifier::Port,
            Some("portrange") => TypeQualifier::Range,
            Some("proto") if direction.is_none() => TypeQualifier::Protocol,
            Some("protochain") if direction.is_none() => TypeQualifier::Chain,
            _ => TypeQualifier::Unsaid,
        };
        self.at += usize::from(kind != TypeQualifier::Unsaid);
        if let (Some(protocol), None, TypeQualifier::Unsaid) = (protocol, direction, kind) {
            if self.word().is_some_and(|word| refused(word).is_some()) {
                return Err(self.unexpected());
            }
            return self.headers.has_protocol(protocol).map(|tree| (tree, None));
        }
        let qualifier = Some(Qualifier { protocol, direction, kind });
        self.values(qualifier).map(|tree| (tree, qualifier))
    }

    fn direction(&mut self) -> Option<Direction> {
        let one = match self.word()? {
            "src" => Direction::Source,
            "dst" => Direction::Destination,
            _ => return None,
        };
        self.at += 1;
        let other = if one == Direction::Source { "dst" } else { "src" };
        let both = match self.word() {
            Some("or") => Direction::Either,
            Some("and") => Direction::Both,
            _ => return Some(one),
        };
        if self.word_at(1) != Some(other) {
            return Some(one);
        }
        self.at += 2;
        Some(both)
    }

    /// A bare value, with its qualifiers.
    fn value(&mut self, qualifier: Option<Qualifier>) -> Result<Tree, String> {
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
        let direction = about.direction.unwrap_or(Direction::Either);
        match (token, kind) {
            (Token::Number(number), _) => self.numbered(*number, qualifier),
            (
                Token::Dotted(parts),
                TypeQualifier::Host | TypeQualifier::Net | TypeQualifier::Unsaid,
            ) => {
                let is_masked = self.is_sign(0, "/") || self.word() == Some("mask");
                if let (Some(Protocol::Type(DECNET)), [area, node, ..], false) =
                    (protocol, &parts[..], is_masked)
                {
                    self.headers.decnet(direction, ((area & 63) << 10 | (node & 1023)) as u16)
                } else {
                    let network = self.network(parts, kind)?;
                    if protocol == Some(Protocol::Type(DECNET)) {
                        // The rest of a mask there.
                        return self.headers.decnet(direction, network.0 as u16);
                    }
                    self.headers.ipv4(protocol, direction, network)
                }
            }
            (
                Token::Ipv6(address),
                TypeQualifier::Host | TypeQualifier::Net | TypeQualifier::Unsaid,
            ) => {
                let length = if self.take_sign("/") { self.number()? } else { 128 };
                if length > 128 {
                    return Err("mask length must be <= 128".into());
                }
                if length < 128 && kind != TypeQualifier::Net {
                    return Err("Mask syntax for networks only".into());
                }
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                if address.to_bits() & !mask != 0 {
                    return Err(format!("non-network bits set in \"{address}/{length}\""));
                }
                self.headers.ipv6(protocol, direction, (*address, mask))
            }
            (Token::Mac(address), TypeQualifier::Host | TypeQualifier::Unsaid) => match protocol {
                Some(Protocol::Link) => self.headers.link_address(direction, *address),
                _ => Err("ethernet address used in non-ether expression".into()),
            },
            (Token::Word(name) | Token::Escaped(name), _) => self.named(name, about),
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    /// A number, with its qualifiers.
    fn numbered(&self, number: u32, about: Option<Qualifier>) -> Result<Tree, String> {
        let Some(Qualifier { protocol, direction, kind }) = about else {
            return Err(format!("syntax error at '{number}'"));
        };
        let direction = direction.unwrap_or(Direction::Either);
        match kind {
            TypeQualifier::Port | TypeQualifier::Range => {
                self.headers.ports(protocol, direction, (port(number)?, port(number)?))
            }
            TypeQualifier::Protocol => self.protocol(protocol, number),
            TypeQualifier::Chain => self.chain(protocol, number),
            _ if protocol == Some(Protocol::Type(DECNET)) => {
                self.headers.decnet(direction, number as u16)
            }
            TypeQualifier::Net => self.headers.ipv4(protocol, direction, at_the_front(number)),
            _ => self.headers.ipv4(protocol, direction, (number, u32::MAX)),
        }
    }

    /// A value that has a name.
    fn named(&self, name: &str, about: Qualifier) -> Result<Tree, String> {
        let Qualifier { protocol, kind, .. } = about;
        let direction = about.direction.unwrap_or(Direction::Either);
        match kind {
            TypeQualifier::Port => {
                let unknown = || format!("unknown port '{name}'");
                let (port, only) = self.named_port(name).ok_or_else(unknown)??;
                self.headers.ports(with_ports(protocol, only, name)?, direction, (port, port))
            }
            TypeQualifier::Range => {
                let unknown = || format!("unknown port in range '{name}'");
                let (first, last) = name.split_once('-').ok_or_else(unknown)?;
                let (first, one) = self.named_port(first).ok_or_else(unknown)??;
                let (last, other) = self.named_port(last).ok_or_else(unknown)??;
                let only = one.filter(|_| one == other);
                let ports = (first.min(last), first.max(last));
                self.headers.ports(with_ports(protocol, only, name)?, direction, ports)
            }
            TypeQualifier::Protocol | TypeQualifier::Chain => {
                let (number, whose) = match protocol {
                    Some(Protocol::Link) => (Protocol::ethertype(name), "ether"),
                    Some(Protocol::Type(_)) => (iso_protocol(name), "osi"),
                    Some(Protocol::Iso(_) | Protocol::IsIs(_)) => (None, "isis"),
                    _ => ((self.names.protocol)(name), "ip"),
                };
                let number = number.ok_or_else(|| format!("unknown {whose} proto '{name}'"))?;
                if kind == TypeQualifier::Chain {
                    self.chain(protocol, number)
                } else {
                    self.protocol(protocol, number)
                }
            }
            TypeQualifier::Net => {
                let network = (self.names.network)(name);
                let network = network.ok_or_else(|| format!("unknown network '{name}'"))?;
                self.headers.ipv4(protocol, direction, at_the_front(network))
            }
            TypeQualifier::Host | TypeQualifier::Unsaid => {
                self.named_host(protocol, direction, name)
            }
        }
    }

    /// A host by its name: any of its addresses.
    fn named_host(
        &self,
        protocol: Option<Protocol>,
        direction: Direction,
        name: &str,
    ) -> Result<Tree, String> {
        match protocol {
            Some(Protocol::Link) => {
                let address = (self.names.station)(name);
                let address = address.ok_or_else(|| format!("unknown ether host '{name}'"))?;
                return self.headers.link_address(direction, address);
            }
            Some(Protocol::Type(DECNET)) => {
                let reason = "decnet name support not included";
                return Err(format!("{reason}, '{name}' cannot be translated"));
            }
            _ => {}
        }
        let addresses = (self.names.host)(name);
        if addresses.is_empty() {
            return Err(format!("unknown host '{name}'"));
        }
        let mut any = Vec::new();
        for address in addresses {
            match address {
                IpAddr::V4(_) if protocol == Some(Protocol::Ip6) => {}
                IpAddr::V6(_) if protocol == Some(Protocol::Ip) => {}
                IpAddr::V4(address) => {
                    any.push(self.headers.ipv4(
                        protocol,
                        direction,
                        (address.to_bits(), u32::MAX),
                    )?);
                }
                IpAddr::V6(address) => {
                    any.push(self.headers.ipv6(protocol, direction, (address, u128::MAX))?);
                }
            }
        }
        if any.is_empty() {
            return Err(format!("unknown host '{name}' for specified address family"));
        }
        Ok(Tree::Any(any))
    }

    /// The bytes of an IPv4 network, and a mask, which may follow.
    fn network(&mut self, parts: &[u32], kind: TypeQualifier) -> Result<(u32, u32), String> {
        let whole = |parts: &[u32]| {
            if parts.iter().any(|part| *part > 255) {
                let parts: Vec<String> = parts.iter().map(u32::to_string).collect();
                return Err(format!("invalid IPv4 address '{}'", parts.join(".")));
            }
            let bytes = parts.iter().fold(0_u32, |value, byte| value << 8 | byte);
            let missing = 32 - 8 * parts.len() as u32;
            Ok((bytes << missing, u32::MAX << missing))
        };
        let (address, mut mask) = whole(parts)?;
        if self.take_sign("/") {
            let length = self.number()?;
            if length > 32 {
                return Err("mask length must be <= 32".into());
            }
            mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        } else if self.take_word("mask") {
            let Some(Token::Dotted(parts)) = self.peek() else { return Err(self.unexpected()) };
            self.at += 1;
            mask = whole(parts)?.0;
        } else {
            return Ok((address, mask));
        }
        if kind != TypeQualifier::Net {
            return Err("Mask syntax for networks only".into());
        }
        if address & !mask != 0 {
            return Err("non-network bits set in a network".into());
        }
        Ok((address, mask))
    }

    fn protocol(&self, protocol: Option<Protocol>, number: u32) -> Result<Tree, String> {
        match protocol {
            Some(Protocol::Link) => self.headers.has(number),
            None => self.headers.carried(number, true, true),
            Some(Protocol::Ip) => self.headers.carried(number, true, false),
            Some(Protocol::Ip6) => self.headers.carried(number, false, true),
            Some(iso) if Some(iso) == Protocol::named("iso") => self.headers.iso(number),
            Some(other) => self.headers.of_kind(other, number),
        }
    }

    /// Packets in whose chain of headers there is one of a protocol.
    fn chain(&self, protocol: Option<Protocol>, number: u32) -> Result<Tree, String> {
        match protocol {
            None => Ok(Tree::Any(vec![
                self.headers.chain(false, number)?,
                self.headers.chain(true, number)?,
            ])),
            Some(Protocol::Ip) => self.headers.chain(false, number),
            Some(Protocol::Ip6) => self.headers.chain(true, number),
            Some(_) => Err("bad protocol applied for 'protochain'".into()),
        }
    }

    /// A port by its name or as a number, and the only protocol that knows it by that name.
    fn named_port(&self, name: &str) -> Option<Result<(u32, Option<u32>), String>> {
        if let Ok(number) = name.parse() {
            return Some(port(number).map(|port| (port, None)));
        }
        let find = |protocol| (self.names.port)(name, protocol).map(u32::from);
        Some(Ok(match (find(TCP), find(UDP)) {
            (Some(tcp), Some(udp)) if tcp == udp => (tcp, None),
            (Some(tcp), _) => (tcp, Some(TCP)),
            (None, Some(udp)) => (udp, Some(UDP)),
            (None, None) => return None,
        }))
    }
}

/// The protocol whose ports are asked for, where a name may be known to only one.
fn with_ports(
    protocol: Option<Protocol>,
    only: Option<u32>,
    name: &str,
) -> Result<Option<Protocol>, String> {
    match (protocol, only) {
        (None, Some(number)) => Ok(Some(Protocol::Carried { number, four: true, six: true })),
        (Some(Protocol::Carried { number: asked @ (TCP | UDP | SCTP), .. }), Some(only))
            if asked != only =>
        {
            let only = if only == TCP { "tcp" } else { "udp" };
            Err(format!("port '{name}' is {only}"))
        }
        _ => Ok(protocol),
    }
}

/// A network by its number alone: its first byte is not zero, and those that follow are free.
fn at_the_front(number: u32) -> (u32, u32) {
    let (mut address, mut mask) = (number, u32::MAX);
    while address != 0 && address >> 24 == 0 {
        (address, mask) = (address << 8, mask << 8);
    }
    (address, mask)
}

/// Two conditions by the word between them.
fn joined(joint: &str, left: Tree, right: Tree) -> Tree {
    let parts = vec![left, right];
    if joint == "and" { Tree::All(parts) } else { Tree::Any(parts) }
}

/// Returns true if a word is no name.
fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || refused(word).is_some() || Protocol::named(word).is_some()
}

fn port(number: u32) -> Result<u32, String> {
    if number > u32::from(u16::MAX) {
        return Err(format!("illegal port number {number} > 65535"));
    }
    Ok(number)
}
