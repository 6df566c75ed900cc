//! `linerate capture`: from a port to a file, to standard output as text, or to both.
//!
//! Capturing does not disturb: an interface is copied from through an `AF_PACKET` socket, in both
//! directions, also where an `xdp:` port is named, unless taking is asked for. The kernel copies
//! only packets that the filter wants, but where the filter asks for lengths that differ in packets
//! that the kernel has merged or not finished, as `less 100`.

use std::{fs, path::Path, sync::Arc};

use anyhow::Result;
use linerate_filter::{Filter, Link as FilterLink};
use linerate_graph::{device_ipv4, filter_names};
use linerate_linux::interface::{self, Link};
use linerate_memory::{ArenaOptions, BUFFER_MAX};
use linerate_port::{
    PortUri,
    pcap::{self, ReadOptions},
};
use linerate_worker::{OnFull, Rewrite};

use super::forward::{Plan, carry_out};
use crate::{
    args::Capture,
    exit::{UsageError, cannot_read},
    output::{self, Output},
    view::{Bytes, Style},
};

/// The name that stands for all interfaces.
const ALL: &str = "any";
/// Bytes of a frame beyond the MTU: the Ethernet header and a VLAN tag.
const FRAMING: usize = 18;

pub(crate) fn run(args: &Capture) -> Result<()> {
    if args.list {
        return Ok(output::data(&listing(&interfaces()?))?);
    }
    let Task { from, file, print, filter } = Task::from_args(args)?;
    if args.dump {
        return Ok(output::data(&dump(&filter))?);
    }
    let to = match &file {
        Some(file) => recording(args, &from, file)?,
        None if args.file_size.or(args.file_seconds.map(u64::from)).is_some() => {
            let reason = "-C and -G are about files: name one behind -w";
            return Err(UsageError(reason.into()).into());
        }
        None => PortUri::new("null", "").shown_as("standard output"),
    };
    if print && file.as_deref() == Some("-") {
        let reason = "packets and their lines cannot both go to standard output";
        return Err(UsageError(reason.into()).into());
    }
    let bytes = match (args.hex_text, args.hex, args.text) {
        (true, ..) => Bytes::HexAndText,
        (false, true, _) => Bytes::Hex,
        (false, false, true) => Bytes::Text,
        (false, false, false) => Bytes::None,
    };
    let running = args.running(buffer_size(&from));
    let port = source(args, from.clone())?;
    if port.driver() != from.driver() && !running.showing.quiet {
        let text = format!(
            "{from} would take packets away from the host, and capturing does not: it copies them \
             from packet:{}; --take takes them",
            from.name(),
        );
        Output::new(running.showing.json).line(&text);
    }
    if let Some(warning) = taken_before(&port) {
        Output::new(running.showing.json).line(&warning);
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
        view: print.then_some(Style {
            link: args.link,
            time: args.time,
            bytes,
            json: running.showing.json,
            verbose: args.verbose,
            absolute: args.absolute,
        }),
        controlled: None,
        running: &running,
    })
    .map(drop)
}

/// The task that the command line gives.
struct Task {
    from: PortUri,
    file: Option<String>,
    print: bool,
    filter: Filter,
}

impl Task {
    fn from_args(args: &Capture) -> Result<Task> {
        let mut words = args.words.iter();
        let mut next = |missing: &str| {
            words.next().cloned().ok_or_else(|| UsageError(format!("{missing} is missing")))
        };
        let from = match (&args.read, &args.interface) {
            _ if args.dump => PortUri::new("null", ""),
            // The rest of a packet under a snap length may be less than a frame.
            (Some(file), _) => {
                let file = file_name(file)?;
                let port = PortUri::new("pcap", file).with("short", "keep").with("cooked", "keep");
                port.shown_as(file)
            }
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
    let is_interface = matches!(from.driver(), "packet" | "xdp");
    let interface = is_interface.then(|| device_ipv4(from.name()));
    // In frames that an interface receives the outer tag is beside the frame, as for tcpdump.
    let link = if is_interface { FilterLink::Untagged } else { FilterLink::Ethernet };
    let mask = interface.flatten().map_or(0, |(_, mask)| mask.to_bits());
    Filter::on(link, expression, filter_names(Some(mask))).map_err(|error| {
        let shown = expression.trim();
        UsageError(format!("{error}, in the filter {shown:?}; see pcap-filter(7)"))
    })
}

/// A port, or an interface's name alone, or its number in the list of them.
fn named_port(text: &str) -> Result<PortUri> {
    if text.contains(':') {
        let port: Result<PortUri, _> = text.parse();
        return Ok(port.map_err(|error| UsageError(format!("{error}")))?);
    }
    // An interface may have a number for its name.
    if let Ok(number) = text.parse::<usize>()
        && interface::find(text).is_err()
    {
        let links = interfaces()?;
        let link = number.checked_sub(1).and_then(|before| links.get(before)).ok_or_else(|| {
            UsageError(format!("there is no interface number {number}: see linerate capture -D"))
        })?;
        return Ok(PortUri::new("packet", &link.name).shown_as(&link.name));
    }
    Ok(PortUri::new("packet", text).shown_as(text))
}

/// The interfaces that can be captured from: first those that are up, and the loopback interface
/// behind the others.
fn interfaces() -> Result<Vec<Link>> {
    let mut links = interface::links()?;
    links.retain(|link| link.ethernet);
    links.sort_by_key(|link| (!link.up, !link.carrier, is_loopback(link), link.index));
    Ok(links)
}

fn is_loopback(link: &Link) -> bool {
    link.kind == "loopback"
}

fn is_loopback_named(name: &str) -> bool {
    interface::find(name).is_ok_and(|link| is_loopback(&link))
}

/// A line for each, as `tcpdump -D` has it.
fn listing(links: &[Link]) -> String {
    let line = |(number, link): (usize, &Link)| {
        let connection = match (is_loopback(link), link.carrier) {
            (true, _) => "Loopback",
            (false, true) => "Connected",
            (false, false) => "Disconnected",
        };
        let flags = match (link.up, link.carrier) {
            (true, true) => format!("Up, Running, {connection}"),
            (true, false) => format!("Up, {connection}"),
            (false, _) if is_loopback(link) => connection.into(),
            (false, _) => "none".into(),
        };
        format!("{number}.{} [{flags}]\n", link.name)
    };
    (1..).zip(links).map(line).collect()
}

/// Bytes of a packet buffer for the frames of a port, where those of the default are too few: long
/// frames of an interface, and merged segments in files, which no MTU limits.
fn buffer_size(from: &PortUri) -> Option<usize> {
    let least = match from.driver() {
        "pcap" => BUFFER_MAX,
        "packet" | "xdp" => longest_frame(from.name())? + ArenaOptions::default().headroom,
        _ => return None,
    };
    (least > ArenaOptions::default().buffer_size).then_some(least.min(BUFFER_MAX))
}

/// The longest frame of an interface, or of all of them.
fn longest_frame(name: &str) -> Option<usize> {
    let links = interface::links().ok()?;
    let found = links.iter().filter(|link| link.name == name || (name == ALL && link.ethernet));
    found.map(|link| link.mtu as usize + FRAMING).max()
}

/// The warning for an interface whose packets an XDP program takes before they can be copied.
fn taken_before(port: &PortUri) -> Option<String> {
    let link = interface::find(port.name()).ok().filter(|_| port.driver() == "packet")?;
    (!link.xdp_programs.is_empty()).then(|| {
        format!(
            "warning: an XDP program is attached to {0}: packets that it takes, as for an xdp: port, \
             and those that such a port sends cannot be copied and are missing here; have that \
             program use packet:{0}, or record in its configuration by ToDump",
            link.name,
        )
    })
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
    // Messages have the port as the user wrote it, without the options added below.
    let shown = port.to_string();
    port = port.shown_as(shown);
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
        // Of a loopback interface each packet comes back, and would be there twice.
        let outbound = match args.direction.as_str() {
            "in" => "off",
            "out" => "only",
            _ if is_loopback_named(port.name()) => "off",
            _ => "on",
        };
        port = port.with("outbound", outbound);
    }
    if port.name() == ALL {
        port = port.without("origin").with("origin", "on");
    }
    Ok(port.without("time").with("time", "on").without("long").with("long", "cut"))
}

/// Whether packets are written without their Ethernet headers, which interfaces take the place of: those of
/// all interfaces, and of a file in which they are so.
fn is_cooked(from: &PortUri) -> bool {
    match from.driver() {
        "packet" => from.name() == ALL,
        // Standard input is read once.
        "pcap" if from.name() != "-" => {
            let options = ReadOptions { any_link: true, ..ReadOptions::default() };
            let reader = pcap::Reader::open_with(from.name(), &options);
            reader.is_ok_and(|mut reader| matches!(reader.link(), Ok(Some(pcap::LINUX_SLL2))))
        }
        _ => false,
    }
}

/// The port that copies the packets which an `xdp:` port would take.
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
    let mut to =
        as_tcpdump(args, PortUri::new("pcap", file).with("times", "packet"))?.shown_as(file);
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
    Ok(if is_cooked(from) { to.with("link", "cooked") } else { to })
}

/// The port with files that are begun and named as tcpdump does.
fn as_tcpdump(args: &Capture, mut to: PortUri) -> Result<PortUri, UsageError> {
    let Capture { file_size, file_seconds, file_count, .. } = args;
    if let Some(bytes) = file_size {
        to = to.with("rotate-bytes", bytes);
    }
    if let Some(seconds) = file_seconds {
        to = to.with("rotate-seconds", seconds);
    }
    let wrong = match (file_size, file_seconds, file_count) {
        (None, None, None) => return Ok(to),
        (None, None, Some(_)) => "-W is about the files of -C and -G: add one of them",
        (None, Some(_), Some(_)) if args.read.is_some() => {
            "-W with -G alone is a time after which to stop, and a file that is read ends by itself"
        }
        (Some(_), _, Some(files)) => return Ok(to.with("names", "tcpdump").with("keep", files)),
        _ => return Ok(to.with("names", "tcpdump")),
    };
    Err(UsageError(wrong.into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_listed_as_tcpdump_lists_them() {
        let link = |name: &str, kind: &str, up, carrier| Link {
            name: name.into(),
            kind: kind.into(),
            up,
            carrier,
            ..Link::default()
        };
        let links = [
            link("eth0", "device", true, true),
            link("lo", "loopback", true, true),
            link("eth1", "device", true, false),
            link("ifb0", "ifb", false, false),
        ];
        assert_eq!(
            listing(&links),
            "\
1.eth0 [Up, Running, Connected]
2.lo [Up, Running, Loopback]
3.eth1 [Up, Disconnected]
4.ifb0 [none]
"
        );
    }
}
