//! Arguments and handlers that elements have which put UDP and IP headers in front of packets.

use linerate_graph::{
    Arg, Context, ElementBuilder, Handler, HandlerError, Scope, Text, UdpPort, Value, unquoted,
};

use crate::handler_values::{record_argument, value_of};

/// Value of `DST` that selects the destination annotation.
const ANNOTATION: &str = "DST_ANNO";
const PORTS: [&str; 2] = ["SPORT", "DPORT"];

/// `SPORT`, the second argument.
pub const SOURCE_PORT: Arg = Arg::required(PORTS[0], "port number", "source port");
/// `DPORT`, the fourth.
pub const DESTINATION_PORT: Arg = Arg::required(PORTS[1], "port number", "destination port");
/// A handler for each of the addresses and ports.
pub const HANDLERS: &[Handler] = &[
    Handler::value("src", "source address"),
    Handler::value("sport", "source port"),
    Handler::value("dst", "destination address"),
    Handler::value("dport", "destination port"),
];

/// Parses `DST`; `None` is the annotation.
pub fn parse_destination<T: Value>(
    text: &str,
    scope: &Scope<'_>,
) -> Result<Option<T>, &'static str> {
    let text = unquoted(text.trim());
    if text == ANNOTATION {
        return Ok(None);
    }
    T::parse(&text, scope).map(Some).map_err(|_| "bad DST")
}

/// `DST` of the element that is made; `None` is the annotation, or an error that was reported.
pub fn destination<T: Value>(make: &mut ElementBuilder<'_>) -> Option<T> {
    let Text(text) = make.get::<Text>("DST")?;
    let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
    parse_destination(&text, &scope).unwrap_or_else(|error| {
        make.error(error);
        None
    })
}

/// `SPORT` and `DPORT`.
pub fn ports(make: &mut ElementBuilder<'_>) -> [u16; 2] {
    PORTS.map(|name| make.need::<UdpPort>(name).0)
}

/// Changes the port that the handler `sport` or `dport` stands for.
///
/// # Errors
///
/// The value is no port.
pub fn write_port(
    cx: &mut Context,
    handler: &str,
    value: &str,
    ports: &mut [u16; 2],
) -> Result<(), HandlerError> {
    let place = usize::from(handler == "dport");
    let name = PORTS[place];
    let wrong = |error: String| HandlerError::refused(format!("{name}: {error}"));
    let UdpPort(port) = value_of(cx, value).map_err(wrong)?;
    ports[place] = port;
    record_argument(cx, 1 + 2 * place, name, value);
    Ok(())
}
