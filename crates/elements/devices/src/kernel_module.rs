//! `PollDevice`, `ToHostSniffers`: devices by elements of Click in the kernel.

use linerate_graph::{Arg, Class, ElementBuilder, Handler};
use linerate_port::PortUri;

use super::{
    device_info::named,
    dpdk,
    from_port::FromPort,
    names::{Framework, Naming},
    port_users::quietly,
    to_port::ToPort,
};

const NAMING: Naming =
    Naming { kind: Framework::Interface, argument: "DEVNAME", options: by_promisc };

pub(super) const POLL_DEVICE: Class = Class {
    name: "PollDevice",
    summary: "receives packets from a network interface, past the kernel",
    description: "As `FromPort(xdp:DEVNAME)`, unless `--device DEVNAME=PORT` or DeviceInfo says \
        that it is another port. A ToDevice of the same name sends there.",
    args: &[
        Arg::required("DEVNAME", "device", "the interface"),
        Arg::optional("BURST", "packets", "1, many times", "packets received in a turn"),
        Arg::keyword("PROMISC", "bool", "false", "whether frames for other hosts are received"),
        Arg::keyword("TIMESTAMP", "bool", "true", "whether packets carry the time of reception"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "false", "whether there need be no such device"),
        Arg::keyword("HEADROOM", "bytes", "", "has no effect"),
        Arg::keyword("LENGTH", "bytes", "", "has no effect"),
        Arg::keyword("QUIET", "bool", "", "has no effect"),
        Arg::keyword("UP_CALL", "handler", "", "has no effect"),
        Arg::keyword("DOWN_CALL", "handler", "", "has no effect"),
    ],
    handlers: &[
        Handler::count("count", "packets received"),
        Handler::count("packets", "packets received, an older name").flags("D"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    example: "DeviceInfo(eth7 null:?count=10);\n\
        PollDevice(eth7) -> Discard; DriverManager(wait 10ms, stop);",
    prepare: Some(|make, _| NAMING.prepare(make)),
    make: |make| {
        make.or("PROMISC", false);
        let time = make.or("TIMESTAMP", true);
        let uri = NAMING.source(make);
        Box::new(FromPort::sharing(make, uri, time, true))
    },
    file: file!(),
    ..dpdk::FROM
};

pub(super) const TO_HOST_SNIFFERS: Class = Class {
    name: "ToHostSniffers",
    summary: "shows packets to those who listen, and to nobody else",
    description: "Packets go to the port that `--device DEVNAME=PORT` or DeviceInfo names, as a \
        `tap:` that tcpdump listens on or a `pcap:` file. Without one nobody listens, and packets \
        are discarded.",
    processing: "h/h",
    args: &[
        Arg::optional("DEVNAME", "device", "none", "what listeners listen on"),
        Arg::keyword("SNIFFERS", "bool", "", "has no effect"),
        Arg::keyword("TYPE", "ETHER or IP", "ETHER", "what packets begin with; has no effect"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "", "has no effect"),
        Arg::keyword("QUIET", "bool", "", "has no effect"),
        Arg::keyword("UP_CALL", "handler", "", "has no effect"),
        Arg::keyword("DOWN_CALL", "handler", "", "has no effect"),
    ],
    handlers: &[
        Handler::count("count", "packets shown or discarded"),
        Handler::count("drops", "packets the port had no place for"),
        Handler::read("uri", "the port's name"),
    ],
    example: "InfiniteSource(LIMIT 10, STOP true) -> ToHostSniffers;",
    make: |make| {
        if !matches!(make.or("TYPE", String::new()).as_str(), "" | "ETHER" | "IP") {
            make.error("bad TYPE");
        }
        let name: Option<String> = make.get("DEVNAME");
        let uri = name.and_then(|name| named(make, &name));
        let uri = uri.unwrap_or_else(|| PortUri::new("null", ""));
        Box::new(ToPort::queueing(make, uri))
    },
    file: file!(),
    ..dpdk::TO
};

/// Sets the port to frames for this host alone, as Click's elements in the kernel do by default.
fn by_promisc(make: &mut ElementBuilder<'_>, uri: PortUri) -> PortUri {
    let on = quietly(make, "PROMISC").unwrap_or(false);
    uri.with("promisc", if on { "on" } else { "off" })
}
