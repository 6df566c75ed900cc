//! Parser: from words to a tree.
//!
//! ```text
//! expression  = either { "?" expression ":" either }
//! either      = both { ("or" | "||") both }
//! both        = factor { [ "and" | "&&" ] factor }
//! factor      = ("not" | "!") factor | "(" expression ")" | primitive
//! ```

use super::{
    kind::{Field, FieldKind, Sides},
    primitive::{Data, Draft, Findings, Mask, Prefix, Relation},
    tree::Tree,
    words::{Dictionary, Meaning},
};
use linerate_graph::{integer_in, parse_integer};

/// Depth of nested expressions, at most.
const DEPTH_LIMIT: usize = 200;

pub(super) struct Parser<'a> {
    words: &'a [String],
    at: usize,
    depth: usize,
    dictionary: Dictionary<'a>,
    found: &'a mut Findings,
    /// The last primitive, from which the next ones take omitted parts.
    before: Draft,
}

impl<'a> Parser<'a> {
    pub(super) fn new(
        words: &'a [String],
        dictionary: Dictionary<'a>,
        found: &'a mut Findings,
    ) -> Parser<'a> {
        Parser { words, at: 0, depth: 0, dictionary, found, before: Draft::default() }
    }

    /// The tree of all words.
    pub(super) fn parse(mut self) -> Tree {
        let tree = self.expression();
        if let Some(word) = self.word() {
            self.found.error_at(word, format!("garbage after expression at '{word}'"));
        }
        tree
    }

    fn word(&self) -> Option<&'a str> {
        self.words.get(self.at).map(String::as_str)
    }

    /// The word, unless it is the last, behind which there must be another.
    fn word_before_another(&self) -> Option<&'a str> {
        self.word().filter(|_| self.at + 1 < self.words.len())
    }

    fn accept(&mut self, words: &[&str]) -> bool {
        let accepted = self.word().is_some_and(|word| words.contains(&word));
        self.at += usize::from(accepted);
        accepted
    }

    fn expression(&mut self) -> Tree {
        if self.depth == DEPTH_LIMIT {
            if self.at < self.words.len() {
                self.found.error("expression nested too deeply");
                self.at = self.words.len();
            }
            return Tree::All(Vec::new());
        }
        self.depth += 1;
        let mut parts = vec![self.either()];
        while self.accept(&["?"]) {
            let start = self.at;
            parts.push(self.expression());
            if self.at == start || !self.accept(&[":"]) {
                self.found.error("missing ':' in ternary expression");
                break;
            }
            parts.push(self.either());
        }
        self.depth -= 1;
        single_or(parts, Tree::Choose)
    }

    fn either(&mut self) -> Tree {
        let mut parts = vec![self.both()];
        while self.accept(&["or", "||"]) {
            parts.push(self.both());
        }
        single_or(parts, Tree::Any)
    }

    fn both(&mut self) -> Tree {
        let mut parts = Vec::new();
        let mut needed = true;
        loop {
            let start = self.at;
            let part = self.factor();
            if self.at == start {
                if needed {
                    self.found.error("missing expression");
                }
                return single_or(parts, Tree::All);
            }
            parts.extend(part);
            needed = self.accept(&["and", "&&"]);
        }
    }

    fn factor(&mut self) -> Option<Tree> {
        let mut negated = false;
        let mut operator = None;
        while let Some(word @ ("not" | "!")) = self.word() {
            negated = !negated;
            operator = Some(word);
            self.at += 1;
        }
        let start = self.at;
        let tree = if self.accept(&["("]) {
            let start = self.at;
            let tree = self.expression();
            if self.at == start {
                self.found.error("missing expression after '('");
            }
            if !self.accept(&[")"]) && self.at != start {
                self.found.error("missing ')'");
            }
            Some(if negated { Tree::Not(Box::new(tree)) } else { tree })
        } else {
            self.test(negated)
        };
        if self.at == start
            && let Some(operator) = operator
        {
            self.found.error(format!("missing expression after '{operator}'"));
        }
        tree
    }

    /// `true`, `false` or a primitive.
    fn test(&mut self, mut negated: bool) -> Option<Tree> {
        match self.word()? {
            ")" | "||" | "or" | "?" | ":" => return None,
            word @ ("true" | "false") => {
                self.at += 1;
                return Some(Tree::Constant((word == "true") != negated));
            }
            _ => {}
        }
        let first = self.at;
        let mut draft = Draft::default();
        let mut prefix = self.qualifiers(&mut draft, &mut negated);
        if self.at != first {
            self.before = Draft::default();
        }
        if self.before.data == Data::Of(FieldKind::Ethernet) {
            prefix = Some(Prefix::Ethernet);
        }
        if self.at > first && draft.kind.is_none() && self.word_before_another() == Some("[") {
            self.brackets(&mut draft);
        }
        let mask = self.mask(prefix);
        self.relation(&mut draft);
        let near = self.word().unwrap_or_default();
        self.value(&mut draft, prefix);
        if self.at == first {
            self.found.error_at(near, format!("empty term near '{near}'"));
            return None;
        }
        let primitive = draft.complete(&self.before, prefix, mask, self.found)?;
        self.before = draft;
        let tree = Tree::Primitive(primitive);
        Some(if negated { Tree::Not(Box::new(tree)) } else { tree })
    }

    /// Parses the words in front of the value, or without one.
    fn qualifiers(&mut self, draft: &mut Draft, negated: &mut bool) -> Option<Prefix> {
        let mut prefix = None;
        while let Some(word) = self.word() {
            match (self.dictionary.meaning(word, None, None), word) {
                (Meaning::Kind(kind), _) => {
                    draft.set_kind(kind, self.found);
                    if let FieldKind::Field(Field { protocol: Some(protocol), .. }) = kind {
                        draft.set_protocol(protocol, self.found);
                    }
                }
                (Meaning::Value(FieldKind::Protocol, number), _) => {
                    draft.set_protocol(number, self.found);
                }
                (Meaning::Other, "src") => {
                    let sides = self.source();
                    draft.set_sides(sides, self.found);
                }
                (Meaning::Other, "dst" | "dest") => {
                    draft.set_sides(Sides::Destination, self.found);
                }
                (Meaning::Other, "ip") if prefix.is_none() => prefix = Some(Prefix::Ip),
                (Meaning::Other, "ether") if prefix.is_none() => prefix = Some(Prefix::Ethernet),
                (Meaning::Other, "not" | "!") => *negated = !*negated,
                _ => break,
            }
            self.at += 1;
        }
        prefix
    }

    /// Parses `src`, which may be the beginning of `src and dst`, and skips the rest of that.
    fn source(&mut self) -> Sides {
        let follows = |more: usize| self.words.get(self.at + more).map(String::as_str);
        let sides = match (follows(1), follows(2)) {
            (Some("and" | "&&"), Some("dst" | "dest")) => Sides::Both,
            (Some("or" | "||"), Some("dst" | "dest")) => Sides::Either,
            _ => return Sides::Source,
        };
        self.at += 2;
        sides
    }

    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`, in bytes.
    fn brackets(&mut self, draft: &mut Draft) {
        let inside = self.at + 1;
        let Some(length) = self.words[inside..].iter().position(|word| word == "]") else {
            self.found.error("missing ']'");
            self.at = inside;
            return;
        };
        let text = self.words[inside..inside + length].concat();
        self.at = inside + length + 1;
        let number =
            |text: &str| integer_in(text, 0, true).map(|n| n.clamp(-1 << 31, 1 << 31) as i64);
        let parts = match text.split_once(':').filter(|(_, behind)| !behind.is_empty()) {
            Some((position, length)) => number(position).zip(number(length)),
            None => match text.split_once(',').filter(|(_, behind)| !behind.is_empty()) {
                Some((first, last)) => {
                    number(first).zip(number(last)).map(|(first, last)| (first, last - first + 1))
                }
                None => number(&text).map(|position| (position, 1)),
            },
        };
        let Some((position, length)) = parts else {
            self.found.error("syntax error after '[', expected '[POS]' or '[POS:LEN]'");
            return;
        };
        if !(1..=4).contains(&length) {
            self.found.error("LEN in '[POS:LEN]' out of range, should be between 1 and 4");
            return;
        }
        // Beyond that Click's offsets overflow.
        let positions = 0..1 << 13;
        if position & !3 != (position + length - 1) & !3 || !positions.contains(&position) {
            self.found.error(format!("field [{position}:{length}] does not fit in a single word"));
            return;
        }
        let field = Field {
            protocol: draft.protocol.filter(|protocol| *protocol != 0),
            offset: position as u32 * 8,
            length: length as u32 * 8,
        };
        draft.set_kind(FieldKind::Field(field), self.found);
    }

    fn mask(&mut self, prefix: Option<Prefix>) -> Option<Mask> {
        if self.word_before_another() != Some("&") {
            return None;
        }
        let word = self.words[self.at + 1].as_str();
        let number = integer_in(word, 0, false).and_then(|number| u32::try_from(number).ok());
        let address = || {
            let address =
                self.dictionary.address(word).filter(|_| prefix != Some(Prefix::Ethernet));
            address.map(|address| Mask::Address(address.to_bits()))
        };
        let ethernet = || {
            let address = self.dictionary.ethernet(word).filter(|_| prefix != Some(Prefix::Ip));
            address.map(|address| Mask::Ethernet(address.octets()))
        };
        let mask = number.map(Mask::Number).or_else(address).or_else(ethernet)?;
        self.at += 2;
        if mask.number() == 0 && !matches!(mask, Mask::Ethernet(_)) {
            self.found.error("zero mask ignored");
            return None;
        }
        Some(mask)
    }

    fn relation(&mut self, draft: &mut Draft) {
        let (relation, negated) = match self.word_before_another() {
            Some("=" | "==") => (Relation::Equal, false),
            Some("!=") => (Relation::Equal, true),
            Some(">") => (Relation::Greater, false),
            Some("<") => (Relation::Less, false),
            Some(">=") => (Relation::Less, true),
            Some("<=") => (Relation::Greater, true),
            _ => return,
        };
        (draft.relation, draft.negated) = (relation, negated);
        self.at += 1;
    }

    /// The value, if there is one.
    fn value(&mut self, draft: &mut Draft, prefix: Option<Prefix>) {
        let Some(word) = self.word() else { return };
        self.at += 1;
        match self.dictionary.meaning(word, draft.kind, draft.protocol) {
            Meaning::Unclear(error) => {
                self.found.error_at(word, error);
                draft.broken = true;
            }
            Meaning::Value(kind, number) => (draft.data, draft.number) = (Data::Of(kind), number),
            Meaning::Kind(_) | Meaning::Other => {
                let number = parse_integer(word).and_then(|number| i32::try_from(number).ok());
                let ip = prefix != Some(Prefix::Ethernet);
                if let Some(number) = number {
                    (draft.data, draft.number) = (Data::Number, number as u32);
                } else if !(ip && self.address(word, draft)
                    || prefix != Some(Prefix::Ip) && self.ethernet(word, draft))
                {
                    if draft.relation != Relation::Equal || draft.negated {
                        self.found.error_at(word, format!("dangling operator near '{word}'"));
                    }
                    self.at -= 1;
                }
            }
        }
    }

    /// An IPv4 address or network; returns whether it is one.
    fn address(&mut self, word: &str, draft: &mut Draft) -> bool {
        let prefix = || self.dictionary.prefix(word);
        if let Some(address) = self.dictionary.address(word) {
            draft.address = address.to_bits();
            draft.data = Data::Of(FieldKind::Host);
            if self.word_before_another() == Some("mask")
                && let Some(mask) = self.dictionary.address(&self.words[self.at + 1])
            {
                self.at += 2;
                draft.address_mask = mask.to_bits();
                draft.data = Data::Of(FieldKind::Net);
                return true;
            }
            // A name may be that of an address and of a network.
            if draft.kind != Some(FieldKind::Net) {
                return true;
            }
        }
        if let Some(prefix) = prefix() {
            draft.address = prefix.address.to_bits();
            draft.address_mask = prefix.mask.to_bits();
            draft.data = Data::Of(FieldKind::Net);
        }
        draft.data != Data::None
    }

    fn ethernet(&mut self, word: &str, draft: &mut Draft) -> bool {
        let found = self.dictionary.ethernet(word);
        if let Some(address) = found {
            draft.ethernet = address.octets();
            draft.data = Data::Of(FieldKind::Ethernet);
        }
        found.is_some()
    }
}

/// The only one, or all of them together.
fn single_or(mut parts: Vec<Tree>, together: fn(Vec<Tree>) -> Tree) -> Tree {
    if parts.len() == 1 { parts.remove(0) } else { together(parts) }
}
