//! Values written to handlers, refused in Click's words.

use std::net::Ipv4Addr;

use linerate_graph::{Context, HandlerError, Scope, Value, parse_bool, parse_integer};

/// A truth value.
pub(crate) fn boolean(value: &str) -> Result<bool, HandlerError> {
    parse_bool(value.trim()).ok_or_else(|| HandlerError::refused("expected boolean"))
}

/// An integer that fits.
pub(crate) fn integer<T: TryFrom<i128>>(value: &str) -> Result<T, HandlerError> {
    let number = parse_integer(value.trim()).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| HandlerError::refused("expected integer"))
}

/// A number of one byte.
pub(crate) fn byte(value: &str) -> Result<u8, HandlerError> {
    let number = parse_integer(value.trim()).and_then(|number| u8::try_from(number).ok());
    number.ok_or_else(|| HandlerError::refused("expected uint8_t"))
}

/// The port a handler with a number behind its name is about: 3 for `active3`.
pub(crate) fn port_of(handler: &str, name: &str, ports: usize) -> Option<usize> {
    let digits = handler.strip_prefix(name)?;
    let plain = digits == "0" || digits.starts_with(|c: char| matches!(c, '1'..='9'));
    digits.parse().ok().filter(|port| plain && *port < ports)
}

/// An IPv4 address, or a name for one.
pub(crate) fn address(cx: &Context, value: &str) -> Result<Ipv4Addr, HandlerError> {
    let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
    let found = Ipv4Addr::parse(value.trim(), &scope);
    found.map_err(|_| HandlerError::refused("expected IP address"))
}
