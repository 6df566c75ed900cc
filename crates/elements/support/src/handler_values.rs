//! Values written to handlers, refused in Click's words, and their effects.

use std::net::Ipv4Addr;

use linerate_graph::{
    Context, HandlerError, Value,
    lang::config::{shift_word, split},
    parse_bool, parse_integer,
};

/// A truth value.
pub fn boolean(value: &str) -> Result<bool, HandlerError> {
    boolean_or(value, "expected boolean")
}

/// As `boolean`, refused in other words.
pub fn boolean_or(value: &str, refusal: &str) -> Result<bool, HandlerError> {
    parse_bool(value.trim()).ok_or_else(|| HandlerError::refused(refusal))
}

/// An integer that fits.
pub fn integer<T: TryFrom<i128>>(value: &str) -> Result<T, HandlerError> {
    integer_or(value, "expected integer")
}

/// As `integer`, refused in other words.
pub fn integer_or<T: TryFrom<i128>>(value: &str, refusal: &str) -> Result<T, HandlerError> {
    let number = parse_integer(value.trim()).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| HandlerError::refused(refusal))
}

/// The port a handler with a number behind its name is about: 3 for `active3`.
pub fn port_of(handler: &str, name: &str, ports: usize) -> Option<usize> {
    let digits = handler.strip_prefix(name)?;
    let plain = digits == "0" || digits.starts_with(|c: char| matches!(c, '1'..='9'));
    digits.parse().ok().filter(|port| plain && *port < ports)
}

/// An IPv4 address, or a name for one.
pub fn address(cx: &Context, value: &str) -> Result<Ipv4Addr, HandlerError> {
    Ipv4Addr::parse_written(value, &cx.scope())
}

/// Reads a value that was written to a handler of the element at work.
pub fn value_of<T: Value>(cx: &Context, text: &str) -> Result<T, String> {
    T::parse(text.trim(), &cx.scope())
}

/// A positional argument has been changed by a handler: the configuration
/// string says so.
pub fn record_argument(cx: &mut Context, place: usize, keyword: &str, value: &str) {
    let mut arguments = split(cx.config());
    let named = arguments.iter().position(|argument| shift_word(argument).0 == keyword);
    match named {
        Some(at) => arguments[at] = format!("{keyword} {value}"),
        None if place < arguments.len() => arguments[place] = value.into(),
        None => arguments.push(format!("{keyword} {value}")),
    }
    cx.set_config(arguments.join(", "));
}
