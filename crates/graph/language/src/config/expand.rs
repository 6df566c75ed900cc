//! Expansion of variables in configuration strings.
//!
//! `$name`, `${name}`, `${name-default}` and `${name[2]}` (the third word of the value), and
//! `$(...)` for a scope that expands it. Nothing is substituted in single quotes and comments; in
//! double quotes the value is escaped so that it stays one string. Unknown references stay as
//! written.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::{comment, is_space, quote, quoted, shift_word};

/// Values that contain variables are substituted in to this depth; it also
/// ends definitions in a circle.
const DEPTH_MAX: usize = 10;

/// Syntax of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `$name`
    Plain,
    /// `${...}`
    Braces,
    /// `$(...)`
    Parentheses,
}

/// Something that knows values.
pub trait Variables {
    /// The value of a reference, variables in it already substituted, or nothing if it is not
    /// known.
    fn value(&self, reference: &str, form: Form, depth: usize) -> Option<String>;

    /// Returns true if values outside quotes are put in quotes, so that they stay as they are when
    /// quotes are taken off.
    fn quotes(&self) -> bool {
        false
    }

    /// Accounts for `bytes` written; whether it may go on.
    fn spend(&self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }
}

/// `config` with its variables replaced by their values. `depth` is 0, except
/// for an implementation of [`Variables`] that expands a value in turn.
pub fn expand(config: &str, variables: &dyn Variables, depth: usize) -> String {
    let bytes = config.as_bytes();
    let mut out = String::new();
    let mut written = 0;
    let mut in_quotes = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_quotes => at += 2,
            b'"' => {
                in_quotes = !in_quotes;
                at += 1;
            }
            b'\'' if !in_quotes => at += quoted(&bytes[at..]),
            b'/' if !in_quotes => at += comment(&bytes[at..]).max(1),
            b'$' if depth <= DEPTH_MAX => {
                let Some((form, inner, end)) = reference(bytes, at) else {
                    at += 1;
                    continue;
                };
                let Some(end) = end else {
                    // Not closed: nothing after it is a reference.
                    break;
                };
                if !variables.spend(end - at) {
                    break;
                }
                let inner = &config[inner.0..inner.1];
                let nested = form != Form::Plain && inner.contains('$');
                let name =
                    if nested { expand(inner, variables, depth + 1) } else { inner.to_owned() };
                match variables.value(&name, form, depth) {
                    Some(value) => {
                        if !variables.spend(value.len()) {
                            break;
                        }
                        out.push_str(&config[written..at]);
                        if in_quotes {
                            let value = quote(value.as_bytes());
                            out.push_str(&value[1..value.len() - 1]);
                        } else if depth == 0 && variables.quotes() {
                            out.push_str(&quote(value.as_bytes()));
                        } else {
                            out.push_str(&value);
                        }
                        written = end;
                    }
                    None if nested => {
                        out.push_str(&config[written..at + 2]);
                        out.push_str(&name);
                        written = end - 1;
                    }
                    None => {}
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    // Click takes a text that starts with nothing but empty values for one
    // without references.
    if out.is_empty() {
        return config.to_owned();
    }
    out.push_str(&config[written..]);
    out
}

/// The reference that starts with the `$` at `at`: its form, the range of its name, and its end
/// (nothing if it is not closed).
#[allow(clippy::type_complexity)]
fn reference(bytes: &[u8], at: usize) -> Option<(Form, (usize, usize), Option<usize>)> {
    let start = at + 2;
    match bytes.get(at + 1)? {
        b'{' => {
            let close = bytes[start..].iter().position(|&b| b == b'}');
            let close = close.map(|length| start + length);
            Some((Form::Braces, (start, close.unwrap_or(start)), close.map(|at| at + 1)))
        }
        b'(' => {
            let close = parenthesis(bytes, start);
            Some((Form::Parentheses, (start, close.unwrap_or(start)), close.map(|at| at + 1)))
        }
        b'?' | b'#' | b'$' => Some((Form::Plain, (at + 1, start), Some(start))),
        byte if byte.is_ascii_alphanumeric() || *byte == b'_' => {
            let length = bytes[at + 1..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                .count();
            let end = at + 1 + length;
            Some((Form::Plain, (at + 1, end), Some(end)))
        }
        _ => None,
    }
}

/// Returns the offset of the parenthesis that closes the one opened before `start`.
fn parenthesis(bytes: &[u8], start: usize) -> Option<usize> {
    let mut level = 1usize;
    let mut mark = None;
    let mut at = start;
    while at < bytes.len() {
        match (bytes[at], mark) {
            (b'(', None) => level += 1,
            (b')', None) => {
                level -= 1;
                if level == 0 {
                    return Some(at);
                }
            }
            (b'"' | b'\'', None) => mark = Some(bytes[at]),
            (b'\\', None | Some(b'"')) => at += 1,
            (byte, Some(open)) if byte == open => mark = None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Bytes that may still be written, shared by all scopes of a configuration: a few lines can ask
/// for more text than any machine has.
#[derive(Clone, Debug)]
pub struct Budget(Rc<Cell<usize>>);

impl Budget {
    /// This many bytes.
    pub fn new(bytes: usize) -> Budget {
        Budget(Rc::new(Cell::new(bytes)))
    }

    /// Takes `bytes`; whether there were as many.
    pub fn spend(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Returns true if nothing is left.
    pub fn exhausted(&self) -> bool {
        self.0.get() == 0
    }
}

/// Variables and their values, inside the scopes around them.
#[derive(Clone, Debug)]
pub struct Scope {
    parent: Option<Rc<Scope>>,
    depth: usize,
    variables: HashMap<String, String>,
    budget: Budget,
}

impl Scope {
    /// The outermost scope.
    pub fn global(budget: Budget) -> Scope {
        Scope { parent: None, depth: 0, variables: HashMap::new(), budget }
    }

    /// A scope inside the innermost of `around` (itself included) that is less
    /// deep than `depth`.
    pub fn inside(around: &Rc<Scope>, depth: usize) -> Scope {
        let mut parent = Some(around);
        while let Some(scope) = parent.filter(|scope| scope.depth >= depth) {
            parent = scope.parent.as_ref();
        }
        Scope {
            parent: parent.cloned(),
            depth: parent.map_or(0, |scope| scope.depth + 1),
            variables: HashMap::new(),
            budget: around.budget.clone(),
        }
    }

    /// Gives a variable a value; whether it had none in this scope. Unless
    /// `replace`, the first value stays.
    pub fn define(&mut self, name: &str, value: &str, replace: bool) -> bool {
        let known = self.variables.get_mut(name);
        let new = known.is_none();
        match known {
            Some(known) if replace => value.clone_into(known),
            Some(_) => {}
            None => {
                self.variables.insert(name.to_owned(), value.to_owned());
            }
        }
        new
    }

    /// The value of a variable, as it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some(value) = here.variables.get(name) {
                return Some(value);
            }
            scope = here.parent.as_deref();
        }
        None
    }

    /// `config` with the variables of this scope and those around it.
    pub fn expand(&self, config: &str) -> String {
        expand(config, self, 0)
    }
}

impl Variables for Scope {
    fn value(&self, reference: &str, form: Form, depth: usize) -> Option<String> {
        let parts = match form {
            Form::Plain | Form::Parentheses => Parts { name: reference, word: None, default: None },
            Form::Braces => Parts::parse(reference),
        };
        let Some(value) = self.get(parts.name) else {
            return parts.default.map(|text| expand(text, self, depth + 1));
        };
        if !self.budget.spend(value.len()) {
            return None;
        }
        let value = expand(value, self, depth + 1);
        let Some(index) = parts.word else {
            return Some(value);
        };
        let mut rest = value.as_str();
        for _ in 0..index {
            if rest.is_empty() {
                break;
            }
            rest = shift_word(rest).1;
        }
        Some(shift_word(rest).0.to_owned())
    }

    fn spend(&self, bytes: usize) -> bool {
        self.budget.spend(bytes)
    }
}

/// Collects the names of variables instead of replacing them.
#[derive(Default)]
struct References(RefCell<HashSet<String>>);

impl Variables for References {
    fn value(&self, reference: &str, form: Form, _: usize) -> Option<String> {
        let name = match form {
            Form::Plain => reference,
            Form::Braces => Parts::parse(reference).name,
            Form::Parentheses => "",
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !name.is_empty() && name.bytes().all(is_word) {
            self.0.borrow_mut().insert(name.to_owned());
        }
        None
    }
}

/// The names of the variables that would be replaced in `config`.
pub(crate) fn references(config: &str) -> HashSet<String> {
    let references = References::default();
    if config.contains('$') {
        expand(config, &references, 0);
    }
    references.0.into_inner()
}

/// The parts between braces.
struct Parts<'a> {
    name: &'a str,
    word: Option<usize>,
    default: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Parts<'a> {
        let space = |c: char| c.is_ascii() && is_space(c as u8);
        let text = text.trim_start_matches(space);
        let length =
            text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (name, rest) = text.split_at(length);
        let mut rest = rest.trim_start_matches(space);
        let mut word = None;
        if let Some((index, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && let Ok(index) = index.trim_start_matches(space).parse::<usize>()
        {
            word = Some(index);
            rest = after.trim_start_matches(space);
        }
        Parts { name, word, default: rest.strip_prefix('-') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(variables: &[(&str, &str)]) -> Scope {
        let mut scope = Scope::global(Budget::new(1 << 20));
        for (name, value) in variables {
            assert!(scope.define(name, value, false));
        }
        scope
    }

    #[test]
    fn substitution() {
        let scope = scope(&[
            ("a", "1"),
            ("b", "x \"y\" $a"),
            ("c", "$d"),
            ("d", "$c"),
            ("w", "A B 'C D'"),
            ("n", "a"),
            ("_1", "u"),
        ]);
        for (config, expected) in [
            ("$a", "1"),
            ("$a$a ${a}b $ab", "11 1b $ab"),
            ("'$a' \"$a\" '\"' $a", "'$a' \"1\" '\"' 1"),
            ("\"$b\" $b", "\"x \\\"y\\\" 1\" x \"y\" 1"),
            ("\"\\$a\" \\$a", "\"\\$a\" \\1"),
            ("/* $a */ $a // $a\n$a", "/* $a */ 1 // $a\n1"),
            ("${z-3} ${a-3} ${z-$a} ${z-}", "3 1 1 "),
            ("${z} $z ${ a } ${a", "${z} $z 1 ${a"),
            ("${w[0]}${w[2]} ${w[3]}|${w[ 1]}", "A'C D' |B"),
            ("${$n} ${$z}", "1 ${$z}"),
            ("$(f $a) $(", "$(f 1) $("),
            ("$_1 $ $- $", "u $ $- $"),
            ("é$aé", "é1é"),
            ("", ""),
        ] {
            assert_eq!(scope.expand(config), expected, "{config}");
        }
        // A circle ends.
        assert!(scope.expand("$c").starts_with('$'));
    }

    #[test]
    fn references_are_found_where_they_are_replaced() {
        for (config, names) in [
            ("$a ${b} ${c-$d} ${e[1]} \"$f\" $(g $h) $a", "a b c d e f h"),
            ("'$a' /* $a */ // $a\n $_1$? $# ${} $", "_1"),
            ("${$n}", "n"),
            ("none", ""),
        ] {
            let mut found: Vec<String> = references(config).into_iter().collect();
            found.sort_unstable();
            assert_eq!(found.join(" "), names, "{config}");
        }
    }

    #[test]
    fn scopes_hide_and_lexical_depth_counts() {
        let global = Rc::new(scope(&[("a", "global"), ("g", "G")]));
        let mut one = Scope::inside(&global, 1);
        one.define("a", "one", false);
        let one = Rc::new(one);
        let mut two = Scope::inside(&one, 2);
        two.define("b", "two", false);
        let two = Rc::new(two);
        assert_eq!(two.expand("$a $b $g"), "one two G");
        // A class of the outermost level used in there does not see them.
        assert_eq!(Scope::inside(&two, 1).expand("$a $b $g"), "global $b G");
    }

    #[test]
    fn work_is_bounded() {
        let mut scope = Scope::global(Budget::new(100_000));
        for level in 0..9 {
            let next = format!("${}", char::from(b'b' + level)).repeat(1000);
            scope.define(&char::from(b'a' + level).to_string(), &next, false);
        }
        scope.define("j", "", false);
        assert!(scope.expand("$a").len() < 1_000_000);
        assert!(scope.budget.exhausted());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a-c${}()\"'\\\\/* -\\[\\]0é]{0,40}", value in "[a-c${}()\"' -]{0,20}") {
            scope(&[("a", &value), ("b", "$a$c"), ("c", "x y")]).expand(&text);
        }
    }
}
