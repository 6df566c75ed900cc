//! The words of an expression, and the meanings of names among them.

use std::net::Ipv4Addr;

use linerate_graph::{IpProtocol, Ipv4Prefix, Scope, Value, parse_integer, parse_port};
use linerate_linux::closest;
use linerate_packet::MacAddr;

use super::kind::{Field, FieldKind, protocol};
use linerate_element_support::icmp_names;

/// Cuts a text into words: names and numbers with `-./@_:` in them, operators of
/// one or two characters, and any other character by itself. Space behind the last
/// word is an empty word.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let mut chars = rest.chars();
        let length = match (chars.next(), chars.next()) {
            (None, _) => 0,
            (Some(first @ ('&' | '|')), Some(second)) if first == second => 2,
            (Some('<' | '>' | '!' | '='), Some('=')) => 2,
            (Some(first), _) if !joins(first) => first.len_utf8(),
            _ => rest.find(|c| !joins(c)).unwrap_or(rest.len()),
        };
        let (word, behind) = rest.split_at(length);
        words.push(word.to_owned());
        rest = behind;
    }
    words
}

fn joins(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-./@_:".contains(c)
}

/// Names of kinds of primitives.
const KINDS: &[(&str, FieldKind)] = &[
    ("ce", FieldKind::Ce),
    ("dscp", FieldKind::Field(Field::DSCP)),
    ("ect", FieldKind::Ect),
    ("frag", FieldKind::Fragment),
    ("hl", FieldKind::Field(Field::HEADER_LENGTH)),
    ("host", FieldKind::Host),
    ("id", FieldKind::Field(Field::ID)),
    ("len", FieldKind::Field(Field::LENGTH)),
    ("net", FieldKind::Net),
    ("opt", FieldKind::TcpFlags),
    ("port", FieldKind::Port),
    ("proto", FieldKind::Protocol),
    ("tos", FieldKind::Field(Field::TOS)),
    ("ttl", FieldKind::Field(Field::TTL)),
    ("type", FieldKind::Field(Field::ICMP_TYPE)),
    ("unfrag", FieldKind::Unfragmented),
    ("vers", FieldKind::Field(Field::VERSION)),
    ("win", FieldKind::Field(Field::WINDOW)),
];

/// Words that are part of the language without being kinds.
const SYNTAX: [&str; 6] = ["dest", "dst", "ether", "ip", "not", "src"];

const TCP_FLAGS: [(&str, u32); 6] =
    [("ack", 16), ("fin", 1), ("psh", 8), ("rst", 4), ("syn", 2), ("urg", 32)];

/// Words between and in the place of primitives, actions in front of expressions, and the most
/// frequent protocols.
const OTHERS: [&str; 14] = [
    "all", "allow", "and", "any", "deny", "drop", "false", "icmp", "or", "tcp", "true", "udp",
    "echo", "gre",
];

/// The word of the language that was probably meant by another.
pub(super) fn meant(word: &str) -> Option<&'static str> {
    let known = KINDS.iter().map(|(name, _)| *name).chain(SYNTAX).chain(OTHERS);
    closest(word, known.chain(TCP_FLAGS.iter().map(|(name, _)| *name)))
}

fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// Meaning of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The kind of a primitive.
    Kind(FieldKind),
    /// A name for a value of such a kind.
    Value(FieldKind, u32),
    /// A name for values, but not of the expected kind, or of several; with a message about it.
    Unclear(String),
    /// No name.
    Other,
}

/// Scope of names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dictionary<'a>(pub(super) Scope<'a>);

impl Dictionary<'_> {
    /// Returns the meaning of a word where a value of that kind and protocol is expected.
    pub(super) fn meaning(
        &self,
        word: &str,
        kind: Option<FieldKind>,
        proto: Option<u32>,
    ) -> Meaning {
        if kind.is_none() {
            if SYNTAX.contains(&word) {
                return Meaning::Other;
            }
            if let Some(kind) = find(KINDS, word) {
                return Meaning::Kind(kind);
            }
        }
        let port = |protocol| parse_port(word, protocol, &self.0).ok().map(u32::from);
        let number = parse_integer(word).is_some();
        let known = |found: Option<u32>| found.filter(|_| !number);
        let icmp = FieldKind::Field(Field::ICMP_TYPE);
        // Each with the protocols it makes sense for.
        let found: [(FieldKind, Option<u32>, &[u32]); 5] = [
            (FieldKind::Protocol, known(self.value(word).map(|IpProtocol(n)| n)), &[]),
            (FieldKind::Port, known(port(protocol::TCP)), &[protocol::TCP, protocol::TCP_OR_UDP]),
            (FieldKind::Port, known(port(protocol::UDP)), &[protocol::UDP, protocol::TCP_OR_UDP]),
            (FieldKind::TcpFlags, find(&TCP_FLAGS, word), &[protocol::TCP, protocol::TCP_OR_UDP]),
            (icmp, icmp_names::number(None, word).map(|number| number as u32), &[protocol::ICMP]),
        ];
        let mut fitting: Vec<(FieldKind, u32)> = Vec::new();
        for (of, value, protocols) in found {
            let fits = kind.is_none_or(|kind| kind == of)
                && (protocols.is_empty() || proto.is_none_or(|proto| protocols.contains(&proto)));
            if let Some(value) = value.filter(|_| fits)
                && !fitting.contains(&(of, value))
            {
                fitting.push((of, value));
            }
        }
        if let [(kind, value)] = fitting[..] {
            return Meaning::Value(kind, value);
        }
        let tries: Vec<String> = found
            .iter()
            .filter(|(_, value, _)| value.is_some())
            .map(|(kind, ..)| format!("'{}'", written(Some(*kind), proto, word)))
            .collect();
        if tries.is_empty() {
            return Meaning::Other;
        }
        let what = if fitting.is_empty() { "meaningless" } else { "ambiguous" };
        let word = written(kind, proto, word);
        Meaning::Unclear(format!("'{word}' is {what}; try {}", tries.join(", ")))
    }

    fn value<T: Value>(&self, word: &str) -> Option<T> {
        T::parse(word, &self.0).ok()
    }

    pub(super) fn address(&self, word: &str) -> Option<Ipv4Addr> {
        self.value(word)
    }

    pub(super) fn prefix(&self, word: &str) -> Option<Ipv4Prefix> {
        self.value(word)
    }

    pub(super) fn ethernet(&self, word: &str) -> Option<MacAddr> {
        self.value(word)
    }
}

/// A word with its kind and protocol in front, as messages show it.
fn written(kind: Option<FieldKind>, proto: Option<u32>, word: &str) -> String {
    let kind = kind.map_or_else(|| "<none>".into(), |kind| kind.to_string());
    format!("{kind} {} {word}", proto.map(protocol::name).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_cut_as_click_cuts_them() {
        for (text, words) in [
            ("tcp&&udp", vec!["tcp", "&&", "udp"]),
            ("port>=80", vec!["port", ">=", "80"]),
            ("a==b != c", vec!["a", "==", "b", "!=", "c"]),
            ("!x|y||z", vec!["!", "x", "|", "y", "||", "z"]),
            ("ip[0:2] 10.0.0.0/8", vec!["ip", "[", "0:2", "]", "10.0.0.0/8"]),
            ("a ? b : c", vec!["a", "?", "b", ":", "c"]),
            ("a?b:c", vec!["a", "?", "b:c"]),
            ("tcp ", vec!["tcp", ""]),
            ("$é", vec!["$", "é"]),
            ("\x0b(\t)", vec!["(", ")"]),
            ("", vec![]),
        ] {
            assert_eq!(split(text), words, "{text}");
        }
    }
}
