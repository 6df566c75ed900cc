//! Scanner of the declarations of a flat configuration.
//!
//! This reads the output of `click-flatten` and replaces some of it. It knows of the language no
//! more than where a string, a comment or a list of arguments ends: the language's own parser is
//! under test, and may not be its own judge.

use std::ops::Range;

/// `NAME :: CLASS(ARGUMENTS)`, somewhere in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) arguments: Vec<String>,
    /// Class and arguments in the text.
    place: Range<usize>,
}

impl Declaration {
    /// The first argument without quotes.
    pub(crate) fn first(&self) -> &str {
        let first = self.arguments.first().map_or("", String::as_str);
        first.trim_matches(['"', '\''])
    }
}

/// The text with other classes and arguments in place of those that `replace` answers for.
pub(crate) fn substitute(
    text: &str,
    declarations: &[Declaration],
    mut replace: impl FnMut(&Declaration) -> Option<String>,
) -> String {
    let mut out = String::new();
    let mut copied = 0;
    for declaration in declarations {
        if let Some(other) = replace(declaration) {
            out.push_str(&text[copied..declaration.place.start]);
            out.push_str(&other);
            copied = declaration.place.end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// All declarations, in order.
pub(crate) fn declarations(text: &str) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(after) = rest.strip_prefix("::") {
            let class_at = text.len() - after.trim_start().len();
            let class = word(&text[class_at..]);
            let name = text[..at].trim_end().rsplit(|byte| !is_name(byte)).next();
            let end = class_at + class.len();
            let (arguments, end) = match text[end..].trim_start().strip_prefix('(') {
                Some(inside) => arguments(text, text.len() - inside.len()),
                None => (Vec::new(), end),
            };
            let (name, class) = (name.unwrap_or_default().to_owned(), class.to_owned());
            found.push(Declaration { name, class, arguments, place: class_at..end });
            at = end;
        } else {
            at += token(rest);
        }
    }
    found
}

/// The arguments that begin here, and where the text goes on behind the parenthesis.
fn arguments(text: &str, start: usize) -> (Vec<String>, usize) {
    let mut arguments = Vec::new();
    let mut argument = String::new();
    let (mut at, mut depth) = (start, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let length = token(rest);
        let piece = &rest[..length];
        at += length;
        match piece {
            "(" => depth += 1,
            ")" if depth == 0 => break,
            ")" => depth -= 1,
            "," if depth == 0 => {
                arguments.push(std::mem::take(&mut argument).trim().to_owned());
                continue;
            }
            _ if piece.starts_with("//") || piece.starts_with("/*") => continue,
            _ => {}
        }
        argument.push_str(piece);
    }
    if !argument.trim().is_empty() || !arguments.is_empty() {
        arguments.push(argument.trim().to_owned());
    }
    (arguments, at)
}

/// The length of a part that cannot be taken apart: a comment, a string, or a character.
fn token(rest: &str) -> usize {
    let until = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len())
    };
    if rest.starts_with("//") || rest.starts_with("#") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return until("*/", 2);
    }
    if rest.starts_with("\\<") {
        return until(">", 2);
    }
    if rest.starts_with('\'') {
        return until("'", 1);
    }
    if let Some(inside) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = inside.find(|letter| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        return end.map_or(rest.len(), |end| end + 2);
    }
    rest.chars().next().map_or(0, char::len_utf8)
}

fn word(text: &str) -> &str {
    &text[..text.find(|letter| !is_name(letter)).unwrap_or(text.len())]
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '@' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_whatever_their_arguments() {
        let text = "# 1 \"a::b\"\na/b@1 :: Idle;\nf :: FromDevice(\"eth0\", SNIFFER false);\n\
                    s :: InfiniteSource(DATA \\<00 // a )\n 28>, LIMIT 3);\n\
                    p :: Print(\"a \\\", b)\", (x, y) /* ) */);\nf -> s;\n";
        let found = declarations(text);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.class.as_str(), one.arguments.len()))
            .collect();
        let expected = [
            ("a/b@1", "Idle", 0),
            ("f", "FromDevice", 2),
            ("s", "InfiniteSource", 2),
            ("p", "Print", 2),
        ];
        assert_eq!(shown, expected);
        assert_eq!((found[1].first(), found[3].arguments[1].as_str()), ("eth0", "(x, y)"));
    }

    #[test]
    fn only_what_is_replaced_changes() {
        let text = "a :: FromDevice(eth0, X 1) ; b::Discard; a -> b;";
        let found = declarations(text);
        let other = substitute(text, &found, |declaration| {
            (declaration.class == "FromDevice").then(|| "FromDump(x)".to_owned())
        });
        assert_eq!(other, "a :: FromDump(x) ; b::Discard; a -> b;");
    }
}
