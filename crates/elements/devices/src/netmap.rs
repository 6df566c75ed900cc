//! `FromNetmapDevice`, `ToNetmapDevice`, `NetmapInfo`: elements of configurations written for
//! netmap, on ports of ours.

use linerate_graph::{Arg, Class, Handler, Inert, Role};

use super::{
    dpdk::{self, only_one},
    from_port::FromPort,
    named_ports::named,
    names::{Framework, Naming, by_promisc},
    to_port::ToPort,
};

const NAMING: Naming = Naming { kind: Framework::Netmap, argument: "DEVNAME", options: by_promisc };

pub(super) const FROM: Class = Class {
    name: "FromNetmapDevice",
    summary: "receives packets from a device of netmap",
    description: "`DEVNAME` is an interface, as `eth0` or `netmap:eth0`: it is reached by `xdp:`, \
        unless `--device eth0=PORT` or DeviceInfo says otherwise. Otherwise as FromDPDKDevice.",
    args: &[
        Arg::required("DEVNAME", "device", "the interface"),
        Arg::optional("QUEUE", "number", "0", "its place among those on the same device"),
        Arg::optional("PROMISC", "bool", "true", "whether frames for other hosts are received"),
        Arg::optional("VLAN_FILTER", "bool", "false", "has no effect"),
        Arg::optional("VLAN_STRIP", "bool", "false", "has no effect"),
        Arg::optional("VLAN_EXTEND", "bool", "false", "has no effect"),
        Arg::optional("LRO", "bool", "false", "has no effect"),
        Arg::optional("JUMBO", "bool", "false", "has no effect"),
        Arg::keyword("N_QUEUES", "number", "as many as workers", "has no effect"),
        Arg::keyword("BURST", "packets", "1, many times", "packets received in a turn"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it receives"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "false", "whether there need be no such device"),
        Arg::keyword("KEEPHAND", "bool", "", "has no effect"),
        Arg::keyword("MAXTHREADS", "number", "", "has no effect"),
        Arg::keyword("THREADOFFSET", "number", "", "has no effect"),
        Arg::keyword("NUMA", "bool", "", "has no effect"),
        Arg::keyword("NUMA_NODE", "number", "", "has no effect"),
        Arg::keyword("SCALE", "word", "", "has no effect"),
        Arg::keyword("VERBOSE", "number", "", "has no effect"),
    ],
    handlers: &[
        Handler::count("count", "packets received"),
        Handler::count("dropped", "packets there was no place for"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    example: "DeviceInfo(eth7 null:?count=10);\n\
        FromNetmapDevice(netmap:eth7) -> Discard; DriverManager(wait 10ms, stop);",
    prepare: Some(|make, _| NAMING.prepare(make)),
    opens: |plan, at, devices| named(plan, at, devices, NAMING),
    make: |make| {
        let active = make.or("ACTIVE", true);
        make.or("PROMISC", true);
        let uri = NAMING.source(make);
        Box::new(FromPort::sharing(make, uri, true, active))
    },
    file: file!(),
    ..dpdk::FROM
};

pub(super) const TO: Class = Class {
    name: "ToNetmapDevice",
    summary: "sends packets to a device of netmap",
    description: "`DEVNAME` as for FromNetmapDevice, with which it shares a device. With a pull \
        input it pulls as fast as the device takes packets. What is pushed and the device has no \
        place for waits, up to `IQUEUE` packets; more are dropped, unless `BLOCKING true`: then \
        sources that ask whether there is room stop meanwhile.",
    processing: "a/a",
    args: &[
        Arg::required("DEVNAME", "device", "the interface"),
        Arg::optional("QUEUE", "number", "", "has no effect"),
        Arg::keyword("N_QUEUES", "number", "", "has no effect"),
        Arg::keyword("IQUEUE", "packets", "1024", "most packets that wait"),
        Arg::keyword("BLOCKING", "bool", "false", "whether sources stop while packets wait"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "false", "whether there need be no such device"),
        Arg::keyword("BURST", "packets", "1, many times", "packets pulled in a turn"),
        Arg::keyword("MAXTHREADS", "number", "", "has no effect"),
        Arg::keyword("VERBOSE", "number", "", "has no effect"),
        Arg::keyword("ACTIVE", "bool", "", "has no effect"),
    ],
    handlers: &[
        Handler::count("count", "packets the device has taken"),
        Handler::count("dropped", "packets that were dropped"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    example: "DeviceInfo(eth7 null:);\n\
        InfiniteSource(LIMIT 10, STOP true) -> Queue -> ToNetmapDevice(netmap:eth7);",
    opens: |plan, at, devices| named(plan, at, devices, NAMING),
    make: |make| {
        let uri = NAMING.sink(make);
        Box::new(ToPort::queueing(make, uri))
    },
    file: file!(),
    ..dpdk::TO
};

pub(super) const INFO: Class = Class {
    name: "NetmapInfo",
    summary: "says how netmap is to use memory; accepted and not needed",
    description: "`linerate run --arena` says how much memory there is for packets. There can be \
        only one.",
    role: Role::Information,
    args: &[Arg::optional("EXTRA_BUFFER", "number", "", "has no effect")],
    example: "NetmapInfo(1024);\nInfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| {
        only_one(make, "You cannot place multiple instances of NetmapInfo !");
        Box::new(Inert)
    },
    file: file!(),
    ..dpdk::INFO
};
