//! `-h` and `-x`: handlers read when the run is over.

use linerate_graph::{PlanElement, Router, parse_bool, parse_integer, unquoted};

use super::print;

/// Reads each handler and prints its value, with its name if there are several. Returns whether all
/// could be read.
pub(super) fn print_all(router: &mut Router, wanted: &[String]) -> bool {
    let names = wanted.len() > 1;
    let mut whole = true;
    for wanted in wanted {
        let Some((element, name)) = wanted.split_once('.') else {
            whole &= print_one(router, wanted, names);
            continue;
        };
        match expand(router, element, name) {
            Ok((handlers, many)) => {
                for handler in handlers {
                    whole &= print_one(router, &handler, names || many);
                }
            }
            Err(message) => {
                eprintln!("{message}");
                whole = false;
            }
        }
    }
    whole
}

/// The handlers meant by `name` behind the name of an element, a pattern or a
/// class, and whether that may mean several.
fn expand(router: &Router, wanted: &str, name: &str) -> Result<(Vec<String>, bool), String> {
    let plan = router.plan();
    if plan.find(wanted).is_some() {
        return Ok((vec![format!("{wanted}.{name}")], false));
    }
    let pattern = wanted.contains(['?', '*', '[']);
    let fits = |element: &&PlanElement| {
        if pattern {
            glob(wanted.as_bytes(), element.name.as_bytes())
        } else {
            element.class.name == wanted
        }
    };
    let found = plan.elements.iter().filter(fits);
    let mut found: Vec<_> = found.map(|element| format!("{}.{name}", element.name)).collect();
    if found.is_empty() {
        let matching = if pattern { "matching " } else { "" };
        return Err(format!("no element {matching}'{wanted}'"));
    }
    found.retain(|handler| is_read(router, handler) == Some(true));
    Ok((found, true))
}

/// Returns true if a handler can be read; `None` when there is no such handler.
fn is_read(router: &Router, handler: &str) -> Option<bool> {
    let handler = router.handler(handler)?;
    (!handler.private).then(|| handler.access.reads())
}

fn print_one(router: &mut Router, handler: &str, title: bool) -> bool {
    match is_read(router, handler) {
        None => {
            eprintln!("no '{handler}' handler");
            return false;
        }
        Some(false) => {
            eprintln!("'{handler}' is a write handler");
            return false;
        }
        Some(true) => {}
    }
    let mut text = router.read(handler, "").unwrap_or_else(|error| {
        eprintln!("{error}");
        String::new()
    });
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if title {
        print(format!("{handler}:\n{text}\n"));
    } else {
        print(&text);
    }
    true
}

/// The exit code a handler gives: a number, or a truth value that is a
/// success; 255 when it cannot be read or is neither.
pub(super) fn exit_code(router: &mut Router, wanted: &str) -> u8 {
    if wanted.trim().is_empty() {
        return 0;
    }
    match read_for_exit(router, wanted) {
        Ok(text) => {
            let text = unquoted(text.trim());
            match (parse_integer(&text), parse_bool(&text)) {
                // The byte of it that the system keeps.
                (Some(number), _) => number as u8,
                (None, Some(truth)) => u8::from(!truth),
                (None, None) => {
                    eprintln!("exit handler value should be integer");
                    u8::MAX
                }
            }
        }
        Err(message) => {
            eprintln!("{message}");
            u8::MAX
        }
    }
}

fn read_for_exit(router: &mut Router, wanted: &str) -> Result<String, String> {
    let (handler, parameter) = match wanted.trim().split_once(char::is_whitespace) {
        Some((handler, parameter)) => (handler, parameter.trim_start()),
        None => (wanted.trim(), ""),
    };
    let handler = match handler.rsplit_once('.') {
        Some((_, "")) => return Err("syntax error".into()),
        Some(("", name)) => name,
        Some((element, _)) if router.plan().find(element).is_none() => {
            return Err(format!("no element named '{element}'"));
        }
        _ => handler,
    };
    if !router.handler(handler).is_some_and(|handler| handler.access.reads()) {
        return Err(format!("no '{handler}' read handler"));
    }
    router.read(handler, parameter).map_err(|error| error.to_string())
}

/// Returns true if `text` fits a pattern of `*`, `?` and `[..]`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // Place to go on from when the rest after the last `*` does not fit.
    let mut retry: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    while t < text.len() {
        let fits = match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => set(&pattern[p..], text[t]),
            Some(byte) => (*byte == text[t]).then_some(1),
            None => None,
        };
        match (fits, retry) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((after, from))) => {
                retry = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// The length of a set `[..]` that has `byte`.
fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let except = matches!(pattern.get(1), Some(b'^' | b'!'));
    let start = 1 + usize::from(except);
    // A bracket right at the start stands for itself.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|byte| *byte == b']')?;
    let mut rest = &pattern[start..end];
    let mut has = false;
    while let [first, more @ ..] = rest {
        (has, rest) = match more {
            [b'-', last, more @ ..] => (has || (*first..=*last).contains(&byte), more),
            _ => (has || *first == byte, more),
        };
    }
    (has != except).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*b*b", "abab", true),
            ("?", "", false),
            ("c[0-9]", "c7", true),
            ("c[^0-9]", "c7", false),
            ("c[]x]", "c]", true),
            ("c[0-9", "c7", false),
            ("a/*", "a/b/c", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }
}
