//! `XDPFromDevice`, `XDPToDevice`: `AF_XDP` by the names a patched Click has for it.

use linerate_graph::{Arg, Class, ElementBuilder, Handler};
use linerate_port::PortUri;

use super::{
    dpdk,
    from_port::FromPort,
    named_ports::named,
    names::{Framework, Naming},
    port_users::quietly,
    to_port::ToPort,
};

const NAMING: Naming = Naming { kind: Framework::Interface, argument: "DEV", options };

const ARGS: &[Arg] = &[
    Arg::required("DEV", "device", "the interface"),
    Arg::keyword("MODE", "skb, drv or hw", "the best there is", "where packets are taken"),
    Arg::keyword("ZEROCOPY", "bool", "the best there is", "whether the device fills our buffers"),
    Arg::keyword("PROG", "word", "", "has no effect"),
    Arg::keyword("TRACE", "bool", "", "has no effect"),
];

pub(super) const FROM: Class = Class {
    name: "XDPFromDevice",
    summary: "receives packets from a network interface by AF_XDP",
    description: "As `FromPort(xdp:DEV)`, unless `--device DEV=PORT` or DeviceInfo says that it \
        is another port. `MODE skb` takes packets where every interface has them, `drv` in the \
        interface's driver. The program that takes them is our own.",
    args: ARGS,
    handlers: &[
        Handler::count("count", "packets received"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    example: "DeviceInfo(eth7 null:?count=10);\n\
        XDPFromDevice(DEV eth7) -> Discard; DriverManager(wait 10ms, stop);",
    prepare: Some(|make, _| NAMING.prepare(make)),
    opens: |plan, at, devices| named(plan, at, devices, NAMING),
    make: |make| {
        check_mode(make);
        let uri = NAMING.source(make);
        Box::new(FromPort::sharing(make, uri, false, true))
    },
    file: file!(),
    ..dpdk::FROM
};

pub(super) const TO: Class = Class {
    name: "XDPToDevice",
    summary: "sends packets to a network interface by AF_XDP",
    description: "As `ToPort(xdp:DEV)`, by the port of the XDPFromDevice of the same device, if \
        there is one.",
    args: ARGS,
    handlers: &[
        Handler::count("count", "packets the device has taken"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    example: "DeviceInfo(eth7 null:);\nInfiniteSource(LIMIT 10, STOP true) -> XDPToDevice(DEV eth7);",
    opens: |plan, at, devices| named(plan, at, devices, NAMING),
    make: |make| {
        check_mode(make);
        let uri = NAMING.sink(make);
        Box::new(ToPort::queueing(make, uri))
    },
    file: file!(),
    ..dpdk::TO
};

/// The mode of a port by that of the interface's program; `None` for an unknown
/// one.
fn mode(text: &str) -> Option<&'static str> {
    match text {
        "skb" => Some("generic"),
        "drv" | "hw" => Some("native"),
        "" => Some("auto"),
        _ => None,
    }
}

fn check_mode(make: &mut ElementBuilder<'_>) {
    make.or("ZEROCOPY", false);
    if mode(&make.or("MODE", String::new())).is_none() {
        make.error("MODE must be skb, drv or hw");
    }
}

fn options(make: &mut ElementBuilder<'_>, uri: PortUri) -> PortUri {
    let asked = quietly::<String>(make, "MODE").and_then(|text| mode(&text));
    let uri = asked.into_iter().fold(uri, |uri, mode| uri.with("mode", mode));
    match quietly(make, "ZEROCOPY") {
        Some(true) => uri.with("zerocopy", "on"),
        Some(false) => uri.with("copy", "on"),
        None => uri,
    }
}
