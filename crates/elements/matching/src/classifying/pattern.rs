//! Patterns of `Classifier`: clauses `[!]offset/value[%mask]`, cut into tests of four bytes.

use crate::decision::{Formula, Test};

/// A conjunction of clauses; without any it matches every packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) clauses: Vec<Clause>,
}

impl Pattern {
    /// Returns the condition on packets.
    pub(super) fn formula(&self) -> Formula {
        if self.clauses.is_empty() {
            return Formula::Test(Test::ALWAYS);
        }
        let clause = |clause: &Clause| {
            let tests = clause.tests.iter().map(|test| Formula::Test(*test));
            let all = Formula::All(tests.collect());
            if clause.negated { Formula::Not(Box::new(all)) } else { all }
        };
        Formula::All(self.clauses.iter().map(clause).collect())
    }
}

/// Bytes a packet must have, or must not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) negated: bool,
    /// All must succeed; at least one.
    pub(super) tests: Vec<Test>,
}

/// Reads a pattern; everything wrong with it goes to `errors`, in Click's
/// words.
pub(super) fn parse(number: usize, text: &str, errors: &mut Vec<String>) -> Pattern {
    let mut pattern = Pattern::default();
    let mut rest = text.as_bytes();
    if rest == b"-" {
        return pattern;
    }
    let mut wrong = |what: &str| errors.push(format!("pattern {number}: {what}"));
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return pattern;
        }
        let negated = rest[0] == b'!';
        if negated {
            rest = rest[1..].trim_ascii_start();
        }
        let digits = take_while(&mut rest, u8::is_ascii_digit);
        if digits.is_empty() {
            wrong("expected a digit");
            return pattern;
        }
        let Some((b'/', behind)) = rest.split_first() else {
            wrong("expected '/'");
            return pattern;
        };
        rest = behind;
        let mut value = take_while(&mut rest, is_nibble);
        let mut mask = None;
        if let Some((b'%', behind)) = rest.split_first() {
            rest = behind;
            mask = Some(take_while(&mut rest, is_nibble));
        }
        if value.len() < 2 {
            wrong("value has less than 2 hex digits");
            continue;
        }
        if !value.len().is_multiple_of(2) {
            wrong("value has odd number of hex digits");
            value = &value[..value.len() - 1];
            mask = mask.map(|mask| &mask[..mask.len().saturating_sub(1)]);
        }
        if let Some(mask) = mask.filter(|mask| mask.len() != value.len()) {
            let much = if mask.len() > value.len() { "many" } else { "few" };
            wrong(&format!("mask has too {much} hex digits"));
            continue;
        }
        let offset = digits.iter().fold(0usize, |offset, digit| {
            offset.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
        });
        pattern.clauses.push(Clause { negated, tests: tests(offset, value, mask) });
    }
}

/// The tests of a clause: one for each aligned word it touches.
fn tests(offset: usize, value: &[u8], mask: Option<&[u8]>) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    for (at, digits) in value.chunks_exact(2).enumerate() {
        let (value, mut bits) = byte(digits);
        if let Some(digits) = mask.and_then(|mask| mask.get(2 * at..2 * at + 2)) {
            let (mask, known) = byte(digits);
            bits &= mask & known;
        }
        let at = offset.saturating_add(at);
        let word = at & !3;
        if tests.last().is_none_or(|test| test.offset != word) {
            tests.push(Test::new(word, 0, 0));
        }
        if let Some(test) = tests.last_mut() {
            let shift = 8 * (3 - at % 4);
            test.mask |= u32::from(bits) << shift;
            test.value |= u32::from(value & bits) << shift;
        }
    }
    tests
}

/// Two digits as a value and the bits of it that are known.
fn byte(digits: &[u8]) -> (u8, u8) {
    digits.iter().fold((0, 0), |(value, known), digit| match char::from(*digit).to_digit(16) {
        Some(nibble) => (value << 4 | nibble as u8, known << 4 | 0xf),
        None => (value << 4, known << 4),
    })
}

fn is_nibble(byte: &u8) -> bool {
    byte.is_ascii_hexdigit() || *byte == b'?'
}

fn take_while<'a>(rest: &mut &'a [u8], accept: impl Fn(&u8) -> bool) -> &'a [u8] {
    let end = rest.iter().position(|byte| !accept(byte)).unwrap_or(rest.len());
    let (taken, behind) = rest.split_at(end);
    *rest = behind;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clause(negated: bool, tests: &[(usize, u32, u32)]) -> Clause {
        let test = |&(offset, value, mask): &(usize, u32, u32)| Test::new(offset, mask, value);
        Clause { negated, tests: tests.iter().map(test).collect() }
    }

    #[test]
    fn clauses_become_tests_of_words() {
        for (text, expected) in [
            ("-", vec![]),
            ("", vec![]),
            ("12/0800", vec![clause(false, &[(12, 0x0800_0000, 0xffff_0000)])]),
            ("! 13/4?", vec![clause(true, &[(12, 0x0040_0000, 0x00f0_0000)])]),
            (
                "3/1234567890",
                vec![clause(false, &[(0, 0x12, 0xff), (4, 0x3456_7890, 0xffff_ffff)])],
            ),
            ("0/ff%81", vec![clause(false, &[(0, 0x8100_0000, 0x8100_0000)])]),
            ("0/ff%?1", vec![clause(false, &[(0, 0x0100_0000, 0x0100_0000)])]),
            ("12/????", vec![clause(false, &[(12, 0, 0)])]),
            (
                "23/06!20/1fff%1fff",
                vec![
                    clause(false, &[(20, 0x06, 0xff)]),
                    clause(true, &[(20, 0x1fff_0000, 0x1fff_0000)]),
                ],
            ),
        ] {
            let mut errors = Vec::new();
            assert_eq!(parse(0, text, &mut errors).clauses, expected, "{text}");
            assert_eq!(errors, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_click() {
        for (text, expected) in [
            ("abc", "expected a digit"),
            ("!", "expected a digit"),
            ("12", "expected '/'"),
            ("12/1", "value has less than 2 hex digits"),
            ("12/", "value has less than 2 hex digits"),
            ("12/123", "value has odd number of hex digits"),
            ("12/1234%12", "mask has too few hex digits"),
            ("12/1234%123456", "mask has too many hex digits"),
            ("12/1234x", "expected a digit"),
            ("- -", "expected a digit"),
        ] {
            let mut errors = Vec::new();
            parse(3, text, &mut errors);
            assert_eq!(errors, [format!("pattern 3: {expected}")], "{text}");
        }
    }
}
