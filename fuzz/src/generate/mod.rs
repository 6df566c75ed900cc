//! Configurations made of an input: chains of elements of the whole library.

use std::fmt::Write as _;

use linerate_graph::{Class, Library, Need, lang::Globals, load};

use crate::{BOUNDED, Bytes};

mod files;
mod values;

pub use files::files;
pub use values::VALUES;
use values::value;

/// Elements of a chain.
const CHAIN: usize = 6;
/// Ports of an element.
const PORTS: usize = 4;
/// Most packets a source sends.
const PACKETS: usize = 256;

/// A class, and the arguments of its elements in its example.
pub struct ClassExamples {
    pub class: &'static Class,
    examples: Vec<String>,
}

/// All classes of a library.
pub fn known(library: &Library) -> Vec<ClassExamples> {
    library
        .iter()
        .map(|class| {
            let mut loader = |_: &str, _: &str| Err(None);
            let loaded = load("example", class.example, library, &Globals::default(), &mut loader);
            let elements = loaded.plan.map(|plan| plan.elements).unwrap_or_default();
            let of_it = elements.into_iter().filter(|element| element.class.name == class.name);
            ClassExamples { class, examples: of_it.map(|element| element.config).collect() }
        })
        .collect()
}

/// Returns the number of ports of a side that an element is given, by its specification.
fn ports(bytes: &mut Bytes<'_>, side: &str, inputs: usize) -> usize {
    let number = |text: &str, otherwise| text.parse().unwrap_or(otherwise);
    if let Some(more) = side.strip_prefix('=') {
        return inputs + more.len();
    }
    let (low, high) = match side.split_once('-') {
        Some((low, high)) => (number(low, 0), number(high, PORTS)),
        None => (number(side, 0), number(side, 0)),
    };
    let high: usize = high.max(low);
    low + bytes.below(high - low + 1)
}

/// Whether port `port` of a side pushes; nothing if either will do.
fn pushes(side: &str, port: usize) -> Option<bool> {
    let code = side.as_bytes();
    match code.get(port).or(code.last()) {
        Some(b'h') => Some(true),
        Some(b'l') => Some(false),
        _ => None,
    }
}

fn sides(code: &str) -> (&str, &str) {
    code.split_once('/').unwrap_or((code, code))
}

/// Arguments for a class: those of its example, or others, some of them wrong.
fn arguments(bytes: &mut Bytes<'_>, known: &ClassExamples) -> String {
    if !known.examples.is_empty() && bytes.one_in(3) {
        return bytes.choice(&known.examples).clone();
    }
    let mut out = Vec::new();
    for arg in known.class.args {
        let value = value(bytes, arg);
        match arg.need {
            // Nothing goes on for ever.
            _ if arg.name == "LIMIT" => out.push(format!("LIMIT {}", bytes.byte())),
            Need::Positional { required: true } => out.push(value.to_owned()),
            Need::Keyword { required: true } => out.push(format!("{} {value}", arg.name)),
            Need::Rest => {
                for _ in 0..bytes.below(PORTS + 1) {
                    out.push(values::value(bytes, arg).to_owned());
                }
            }
            _ if bytes.one_in(3) => out.push(format!("{} {value}", arg.name)),
            _ => {}
        }
    }
    out.join(", ")
}

/// A source of packets, and a queue where they are pulled.
fn source(bytes: &mut Bytes<'_>, pushes: bool) -> String {
    let limit = 1 + bytes.below(PACKETS);
    let queue = if pushes { "" } else { " -> Queue(64)" };
    if bytes.one_in(4) {
        // One that says nothing about its packets.
        let length = bytes.below(80);
        let data: String = bytes.take(length).iter().map(|byte| format!("{byte:02x}")).collect();
        let burst = 1 + bytes.below(64);
        return format!("InfiniteSource(DATA \\<{data}>, LIMIT {limit}, BURST {burst}){queue}");
    }
    format!("Packets({limit}){queue}")
}

/// A configuration of some of the classes known.
pub fn configuration(bytes: &mut Bytes<'_>, usable: &[ClassExamples]) -> String {
    let mut text = BOUNDED.to_owned();
    let mut chain = source(bytes, true);
    let mut pushing = true;
    let mut rest = String::new();
    for at in 0..1 + bytes.below(CHAIN) {
        let known = bytes.choice(usable);
        let class = known.class;
        let _ = writeln!(text, "e{at} :: {}({});", class.name, arguments(bytes, known));
        if class.name == "ToHost" {
            // It shares an interface that another element makes.
            rest.push_str("FromHost(fake0) -> Discard;\n");
        }
        let ((ins, outs), (input, output)) = (sides(class.ports), sides(class.processing));
        let inputs = ports(bytes, ins, 0);
        let outputs = ports(bytes, outs, inputs);
        for port in 1..inputs {
            let from = source(bytes, pushes(input, port).unwrap_or(pushing));
            let _ = writeln!(rest, "{from} -> [{port}] e{at};");
        }
        for port in 1..outputs {
            let _ = writeln!(rest, "e{at} [{port}] -> Discard;");
        }
        if inputs > 0 {
            let wanted = pushes(input, 0).unwrap_or(pushing);
            match (pushing, wanted) {
                (true, false) => chain.push_str(" -> Queue(20)"),
                (false, true) => chain.push_str(" -> Unqueue"),
                _ => {}
            }
            pushing = wanted;
            let _ = write!(chain, " -> e{at}");
        } else {
            let _ = writeln!(rest, "{chain} -> Discard;");
            chain = format!("e{at}");
            pushing = true;
        }
        if outputs == 0 {
            let _ = writeln!(rest, "{chain};");
            chain = source(bytes, true);
            pushing = true;
        } else {
            pushing = pushes(output, 0).unwrap_or(pushing);
        }
    }
    let _ = write!(rest, "{chain} -> Discard;");
    text + &rest
}
