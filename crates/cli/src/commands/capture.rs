//! `linerate capture`: from a port to a file, to standard output as text, or to both.
//!
//! Capturing does not disturb: an interface is copied from through an `AF_PACKET` socket, in both
//! directions, also where an `xdp:` port is named, unless taking is asked for. What the filter does
//! not want the kernel does not copy.

use std::{fs, path::Path, sync::Arc};

use anyhow::Result;
use linerate_filter::{Filter, Names};
use linerate_graph::{
    device_ipv4, known_protocol, system_host, system_network, system_port, system_station,
};
use linerate_port::PortUri;
use linerate_worker::{OnFull, Rewrite};

use super::forward::{Plan, carry_out};
use crate::{
    args::Capture,
    exit::{UsageError, cannot_read},
    output::{self, Output},
    view::{Bytes, Style},
};

pub(crate) fn run(args: &Capture) -> Result<()> {
    let Task { from, file, print, filter } = Task::of(args)?;
    if args.dump {
        return Ok(output::data(&dump(&filter))?);
    }
    let to = match &file {
        Some(file) => recording(args, &from, file)?,
        None => PortUri::new("null", ""),
    };
    if print && file.as_deref() == Some("-") {
        let reason = "packets and their lines cannot both go to standard output";
        return Err(UsageError(reason.into()).into());
    }
    let bytes = match (args.hex, args.hex_text) {
        (_, true) => Bytes::HexAndText,
        (true, false) => Bytes::Hex,
        (false, false) => Bytes::None,
    };
    let running = args.running();
    let port = source(args, from.clone())?;
    if port.driver() != from.driver() && !running.showing.quiet {
        let text = format!(
            "{from} would take packets away from the host, and capturing does not: it copies them \
             from packet:{}; --take takes them",
            from.name(),
        );
        Output::new(running.showing.json).line(&text);
    }
    carry_out(&Plan {
        command: "capture",
        verb: "captured",
        from: port,
        to,
        bidirectional: false,
        rewrite: Rewrite::None,
        on_full: OnFull::Wait,
        disconnect: args.host.disconnect,
        exit_on_loss: true,
        filter: Some(Arc::new(filter)),
        view: print.then_some(Style { link: args.link, time: args.time, bytes }),
        controlled: None,
        running: &running,
    })
    .map(drop)
}

/// What the words of the command line say.
struct Task {
    from: PortUri,
    file: Option<String>,
    print: bool,
    filter: Filter,
}

impl Task {
    fn of(args: &Capture) -> Result<Task> {
        let mut words = args.words.iter();
        let mut next = |missing: &str| {
            words.next().cloned().ok_or_else(|| UsageError(format!("{missing} is missing")))
        };
        let from = match (&args.read, &args.interface) {
            _ if args.dump => PortUri::new("null", ""),
            (Some(file), _) => PortUri::new("pcap", file_name(file)?),
            (None, Some(port)) => named_port(port)?,
            (None, None) => named_port(&next("the PORT to capture from")?)?,
        };
        let says_less = args.read.is_some() || args.interface.is_some();
        let file = match &args.write {
            Some(file) => Some(file_name(file)?.to_owned()),
            None if says_less || args.print || args.dump => None,
            None => Some(next("the FILE to write, or --print,")?),
        };
        let mut expression: Vec<String> = Vec::new();
        if let Some(file) = &args.filter_file {
            let name = file.display().to_string();
            expression.push(fs::read_to_string(file).map_err(|error| cannot_read(&name, error))?);
        }
        expression.extend(words.cloned());
        let print = args.print || file.is_none();
        let filter = filter(&expression.join(" "), &from)?;
        Ok(Task { from, file, print, filter })
    }
}

/// The filter of an expression, for packets of a port.
fn filter(expression: &str, from: &PortUri) -> Result<Filter, UsageError> {
    // Files and rings have the names of no interface, or of one by chance.
    let interface = matches!(from.driver(), "packet" | "xdp").then(|| device_ipv4(from.name()));
    let names = Names {
        port: &|name, protocol| system_port(name, protocol).and_then(|port| port.try_into().ok()),
        protocol: &|name| known_protocol(name).filter(|number| *number <= u8::MAX.into()),
        host: &system_host,
        network: &system_network,
        station: &|name| system_station(name).map(|station| station.0),
        netmask: Some(interface.flatten().map_or(0, |(_, mask)| mask.to_bits())),
    };
    Filter::new(expression, names).map_err(|error| {
        let shown = expression.trim();
        UsageError(format!("{error}, in the filter {shown:?}; see pcap-filter(7)"))
    })
}

/// A port, or an interface's name alone.
fn named_port(text: &str) -> Result<PortUri, UsageError> {
    if text.contains(':') {
        text.parse().map_err(|error| UsageError(format!("{error}")))
    } else {
        Ok(PortUri::new("packet", text))
    }
}

/// The port that is opened for the one that was named.
fn source(args: &Capture, from: PortUri) -> Result<PortUri, UsageError> {
    let mut port = match from.driver() {
        "xdp" if !args.take => copying(&from)?,
        "packet" | "xdp" => from,
        _ if args.direction != "inout" || args.no_promiscuous_mode => {
            let reason = format!("{from}: -Q and -p are about interfaces");
            return Err(UsageError(reason));
        }
        _ => return Ok(from),
    };
    if args.no_promiscuous_mode {
        port = port.without("promisc").with("promisc", "off");
    }
    if port.driver() == "xdp" {
        if args.direction == "out" {
            let reason = "what is taken is what arrives; do without -Q out or without --take";
            return Err(UsageError(format!("{port}: {reason}")));
        }
        return Ok(port);
    }
    if !port.written().iter().any(|(key, _)| key == "outbound") {
        port = port.with(
            "outbound",
            match args.direction.as_str() {
                "in" => "off",
                "out" => "only",
                _ => "on",
            },
        );
    }
    Ok(port.without("time").with("time", "on"))
}

/// The port that copies what an `xdp:` port would take.
fn copying(from: &PortUri) -> Result<PortUri, UsageError> {
    let mut to = PortUri::new("packet", from.name());
    for (key, value) in from.written() {
        if key != "promisc" {
            return Err(UsageError(format!(
                "{from}: {key} is about taking packets away from the host: add --take, or leave \
                 it out to have packets copied",
            )));
        }
        to = to.with(key, value.as_deref().unwrap_or("on"));
    }
    Ok(to)
}

/// The port that records.
fn recording(args: &Capture, from: &PortUri, file: &str) -> Result<PortUri, UsageError> {
    let mut to = PortUri::new("pcap", file).with("times", "packet");
    let seconds = args.rotate_time.map(|time| time.as_secs_f64());
    let interface = Some(from.name()).filter(|name| !name.is_empty() && args.read.is_none());
    let options = [
        ("snaplen", args.snaplen.filter(|bytes| *bytes > 0).map(|n| n.to_string())),
        ("format", args.format.clone()),
        ("rotate-bytes", args.rotate_size.map(|n| n.to_string())),
        ("rotate-seconds", seconds.map(|n| n.to_string())),
        ("rotate-packets", args.rotate_packets.map(|n| n.to_string())),
        ("keep", args.keep.map(|n| n.to_string())),
        ("interface", interface.map(Into::into)),
    ];
    for (key, value) in options {
        if let Some(value) = value {
            to = to.with(key, value);
        }
    }
    Ok(to)
}

/// A file's name as a part of a port's.
pub(super) fn file_name(path: &Path) -> Result<&str, UsageError> {
    path.to_str().ok_or_else(|| UsageError(format!("file name {path:?} is not UTF-8")))
}

/// The filter's program as `tcpdump -ddd` prints one: how many instructions, and each one's code,
/// jumps and operand.
fn dump(filter: &Filter) -> String {
    let Some(program) = filter.program() else {
        return "no program: it is decided outside of the kernel\n".into();
    };
    let lines = program.iter().map(|i| format!("{} {} {} {}\n", i.code, i.jt, i.jf, i.k));
    format!("{}\n{}", program.len(), lines.collect::<String>())
}
