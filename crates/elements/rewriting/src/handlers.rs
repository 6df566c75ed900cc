//! Handlers of rewriters.

use linerate_graph::{Context, Handler, HandlerError, HandlerResult, Scope, parse_integer};
use linerate_packet::IpProtocol;

use super::{
    locks::{alone, shared},
    names::Names,
    registry::RewriterHandle as Home,
    spec::Spec,
    table,
};

/// The specification of one input, `pattern0` and so on.
const PATTERN: Handler = Handler::value("pattern", "the specification of the input");

/// Reads a handler of a rewriter.
pub(super) fn read(
    home: &Home,
    cx: &Context,
    handler: &str,
    parameter: &str,
    now: u64,
) -> HandlerResult {
    let set = shared(&home.set);
    let rewriter = home.rewriter;
    let specs = &set.rewriters[usize::from(rewriter)].specs;
    let sum = |of: fn(&Spec) -> u32| specs.iter().map(|spec| u64::from(of(spec))).sum::<u64>();
    match handler {
        "table_size" | "nmappings" => Ok(sum(|spec| spec.count).to_string()),
        "mapping_failures" => Ok(sum(|spec| spec.failures).to_string()),
        "patterns" => Ok(specs.iter().map(Spec::line).collect()),
        "size" => Ok(set.len().to_string()),
        "capacity" => Ok(set.capacity().to_string()),
        "table" | "mappings" => Ok(table::text(&set, rewriter, None, now)),
        "tcp_table" | "tcp_mappings" => Ok(table::text(&set, rewriter, Some(IpProtocol::TCP), now)),
        "udp_table" | "udp_mappings" => Ok(table::text(&set, rewriter, Some(IpProtocol::UDP), now)),
        "lookup" | "tcp_lookup" => {
            let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
            let ends = table::flow(parameter, &scope).map_err(HandlerError::Refused)?;
            Ok(table::rewritten(&set, rewriter, ends))
        }
        _ => match input_of(handler).and_then(|input| specs.get(input)) {
            Some(spec) => Ok(spec.line()),
            None => Err(HandlerError::missing(handler)),
        },
    }
}

/// Writes a handler of a rewriter.
pub(super) fn write(
    home: &Home,
    names: &Names,
    cx: &Context,
    handler: &str,
    value: &str,
    now: u64,
) -> Result<(), HandlerError> {
    let mut set = alone(&home.set);
    match handler {
        "capacity" => {
            let mut words = value.split_whitespace();
            let number = words.next().map(parse_integer);
            let number = number
                .ok_or_else(|| HandlerError::refused("CAPACITY: required argument missing"))?;
            if words.next().is_some() {
                return Err(HandlerError::refused("too many arguments"));
            }
            let number = number.ok_or_else(|| HandlerError::refused("CAPACITY: invalid number"))?;
            let capacity = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
            if capacity > set.room() {
                let most = set.room();
                return Err(HandlerError::Refused(format!("CAPACITY: at most {most} here")));
            }
            set.set_capacity(capacity, now);
        }
        "clear" => set.clear(),
        _ => {
            let outputs = set.rewriters[usize::from(home.rewriter)].outputs;
            let input = input_of(handler).ok_or_else(|| HandlerError::missing(handler))?;
            let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
            let spec =
                Spec::parse(value, input, outputs, &scope, names).map_err(HandlerError::Refused)?;
            set.respecify(home.rewriter, input, spec);
        }
    }
    Ok(())
}

/// Returns the handler `patternN`, if there is that input.
pub(super) fn of_input(home: &Home, name: &str) -> Option<&'static Handler> {
    let set = shared(&home.set);
    let rewriter = set.rewriters.get(usize::from(home.rewriter))?;
    input_of(name).filter(|input| *input < rewriter.specs.len()).map(|_| &PATTERN)
}

/// The names of such handlers.
pub(super) fn of_inputs(home: &Home) -> Vec<String> {
    let set = shared(&home.set);
    let inputs = set.rewriters[usize::from(home.rewriter)].specs.len();
    (0..inputs).map(|input| format!("pattern{input}")).collect()
}

/// The input a handler `patternN` is about.
fn input_of(handler: &str) -> Option<usize> {
    let number = handler.strip_prefix("pattern")?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let plain = plain && (number.len() == 1 || !number.starts_with('0'));
    number.parse().ok().filter(|_| plain)
}
