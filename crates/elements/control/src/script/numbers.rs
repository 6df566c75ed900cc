//! Arithmetic handlers of a script: pure functions of their parameters.
//!
//! As in Click, a handler computes in 64-bit integers if all its parameters are such, and in doubles
//! otherwise. Integer overflows wrap around.

use linerate_graph::{
    lang::config::{shift_word, words},
    parse_integer, unquoted,
};

use linerate_element_support::fmt_g::format_g;

/// Result of an arithmetic handler, or an error in its parameters.
pub(crate) type Answer = Result<String, String>;

/// Calls the arithmetic handler `name`; `None` if there is no such handler.
pub(crate) fn compute(name: &str, parameter: &str) -> Option<Answer> {
    Some(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => arithmetic(name, parameter),
        "avg" | "count" => count_or_mean(name, parameter),
        "mod" | "rem" => remainder(name, parameter),
        "neg" | "abs" => sign(name, parameter),
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => compare(name, parameter),
        "not" => boolean(parameter).map(|value| (!value).to_string()),
        "and" | "nand" | "or" | "nor" => logic(name, parameter),
        "if" => choose(parameter),
        "in" => Ok(is_in(parameter).to_string()),
        "first" => Ok(shift_word(parameter).0.to_owned()),
        "length" => Ok(parameter.len().to_string()),
        "unquote" => Ok(unquoted(parameter)),
        "htons" | "ntohs" => swap_bytes(parameter, |value| u32::from((value as u16).to_be())),
        "htonl" | "ntohl" => swap_bytes(parameter, |value| value.to_be()),
        _ => return None,
    })
}

/// Parses a truth value.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "y" | "true" | "yes" => Some(true),
        "0" | "f" | "n" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    truth(text).ok_or_else(|| "syntax error".into())
}

/// Parses a signed integer of 64 bits.
pub(super) fn integer(text: &str) -> Option<i64> {
    i64::try_from(parse_integer(text)?).ok()
}

/// Parses a double in C's notation.
fn double(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|value| sign * value as f64);
    }
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let named = matches!(digits.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan");
    let value: f64 = digits.parse().ok().filter(|_| plain || named)?;
    (value.is_finite() || named).then_some(sign * value)
}

fn arithmetic(name: &str, parameter: &str) -> Answer {
    let mut integers = Some(if matches!(name, "add" | "sub") { 0i64 } else { 1 });
    let mut doubles = integers.unwrap_or(0) as f64;
    if matches!(name, "div" | "idiv") {
        integers = None;
    }
    for (at, word) in words(parameter).into_iter().enumerate() {
        if let Some(so_far) = integers {
            match integer(word) {
                Some(value) => {
                    integers = Some(match name {
                        _ if at == 0 => value,
                        "add" => so_far.wrapping_add(value),
                        "sub" => so_far.wrapping_sub(value),
                        "min" => so_far.min(value),
                        "max" => so_far.max(value),
                        _ => so_far.wrapping_mul(value),
                    });
                    continue;
                }
                None => (integers, doubles) = (None, so_far as f64),
            }
        }
        let value = double(word).ok_or("expected list of numbers")?;
        doubles = match name {
            _ if at == 0 => value,
            "add" => doubles + value,
            "sub" => doubles - value,
            "min" => doubles.min(value),
            "max" => doubles.max(value),
            "mul" => doubles * value,
            _ => doubles / value,
        };
    }
    Ok(match integers {
        Some(value) => value.to_string(),
        None if name == "idiv" => (doubles as i64).to_string(),
        None => format_g(doubles),
    })
}

/// Returns the count of numbers, or their mean, which is truncated if all are integers. Both
/// handlers are `FastClick`'s.
fn count_or_mean(name: &str, parameter: &str) -> Answer {
    let count = words(parameter).len();
    // Also checks that the words are numbers, which `count` needs.
    let sum = arithmetic("add", parameter)?;
    if name == "count" {
        return Ok(count.to_string());
    }
    Ok(match integer(&sum) {
        _ if count == 0 => i32::MAX.to_string(),
        Some(sum) => (sum / count as i64).to_string(),
        None => format_g(double(&sum).unwrap_or(f64::NAN) / count as f64),
    })
}

fn two_words(parameter: &str) -> Result<(&str, &str), String> {
    match words(parameter)[..] {
        [a, b] => Ok((a, b)),
        _ => Err("expected two numbers".into()),
    }
}

fn remainder(name: &str, parameter: &str) -> Answer {
    let (a, b) = two_words(parameter)?;
    let error = || String::from("expected two numbers");
    match (integer(a), integer(b)) {
        (Some(_), Some(0)) => Err("division by zero".into()),
        (Some(a), Some(b)) => Ok(a.wrapping_rem(b).to_string()),
        _ if name == "mod" => Err(error()),
        _ => {
            let (a, b) = double(a).zip(double(b)).ok_or_else(error)?;
            Ok(format_g(a % b))
        }
    }
}

fn sign(name: &str, parameter: &str) -> Answer {
    if let Some(value) = integer(parameter) {
        let value = if name == "neg" || value < 0 { value.wrapping_neg() } else { value };
        return Ok(value.to_string());
    }
    let value = double(parameter).ok_or("expected one number")?;
    Ok(format_g(if name == "neg" { -value } else { value.abs() }))
}

fn compare(name: &str, parameter: &str) -> Answer {
    use std::cmp::Ordering;
    let (a, b) = two_words(parameter)?;
    let order = match (integer(a), integer(b), double(a), double(b)) {
        (Some(a), Some(b), ..) => a.cmp(&b),
        // Incomparable numbers count as greater, as in Click.
        (_, _, Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Greater),
        _ => unquoted(a).cmp(&unquoted(b)),
    };
    let answer = match name {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        "lt" => order.is_lt(),
        _ => order.is_le(),
    };
    Ok(answer.to_string())
}

fn logic(name: &str, parameter: &str) -> Answer {
    let decided_by = matches!(name, "or" | "nor");
    let mut value = !decided_by;
    for word in words(parameter) {
        if boolean(word)? == decided_by {
            value = decided_by;
            break;
        }
    }
    Ok((value != name.starts_with('n')).to_string())
}

fn choose(parameter: &str) -> Answer {
    let (condition, rest) = shift_word(parameter);
    let (first, rest) = shift_word(rest);
    Ok(if boolean(condition)? { first } else { shift_word(rest).0 }.to_owned())
}

fn is_in(parameter: &str) -> bool {
    let (word, rest) = shift_word(parameter);
    let word = unquoted(word);
    !word.is_empty() && words(rest).into_iter().any(|other| unquoted(other) == word)
}

fn swap_bytes(parameter: &str, swap: impl Fn(u32) -> u32) -> Answer {
    let value = parse_integer(parameter).and_then(|value| i32::try_from(value).ok());
    Ok(swap(value.ok_or("syntax error")? as u32).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_match_click() {
        for (call, expected) in [
            ("add 1 2 3", "6"),
            ("add 1.5 2", "3.5"),
            ("add", "0"),
            ("mul 1e10 1e10", "1e+20"),
            ("div 10 3", "3.33333333333"),
            ("div 75 2.5 5", "6"),
            ("div 1 0", "inf"),
            ("idiv 60 2 5", "6"),
            ("idiv 7 2", "3"),
            ("sub 5", "5"),
            ("sub 10 2 2", "6"),
            ("min", "1"),
            ("min 10 6 20", "6"),
            ("max -1 6 3", "6"),
            ("avg 1 2 4", "2"),
            ("avg 1 2.5 4", "2.5"),
            ("avg -3 0", "-1"),
            ("avg", "2147483647"),
            ("count 7 8.5 9", "3"),
            ("count", "0"),
            ("rem 7.5 2", "1.5"),
            ("mod -7 3", "-1"),
            ("neg 3", "-3"),
            ("abs -2.5", "2.5"),
            ("eq 1 1.0", "true"),
            ("eq 10 0xA", "true"),
            ("eq a \"a\"", "true"),
            ("lt abc abd", "true"),
            ("le 9 8", "false"),
            ("in foo bar foo", "true"),
            ("in foo bar", "false"),
            ("if true a b", "a"),
            ("if 0 a b", "b"),
            ("and true false", "false"),
            ("nand true false", "true"),
            ("or 0 1", "true"),
            ("nor 0 0", "true"),
            ("and", "true"),
            ("not n", "true"),
            ("length abcdef", "6"),
            ("first a b c", "a"),
            ("htons 1", "256"),
            ("htonl 1", "16777216"),
        ] {
            let (name, parameter) = call.split_once(' ').unwrap_or((call, ""));
            assert_eq!(compute(name, parameter), Some(Ok(expected.into())), "{call}");
        }
    }

    #[test]
    fn errors_match_click() {
        for (call, expected) in [
            ("add x", "expected list of numbers"),
            ("mod 1.5 2", "expected two numbers"),
            ("lt 1", "expected two numbers"),
            ("neg x", "expected one number"),
            ("not x", "syntax error"),
            ("or x", "syntax error"),
            ("htons x", "syntax error"),
        ] {
            let (name, parameter) = call.split_once(' ').unwrap_or((call, ""));
            assert_eq!(compute(name, parameter), Some(Err(expected.into())), "{call}");
        }
        assert_eq!(compute("mod", "1 0"), Some(Err("division by zero".into())));
        assert_eq!(compute("mod", "-9223372036854775808 -1"), Some(Ok("0".into())));
    }
}
