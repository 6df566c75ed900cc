//! `FromDPDKDevice`, `ToDPDKDevice`, `DPDKInfo`: elements of configurations written for DPDK, on
//! ports of ours.

use linerate_graph::{Arg, Class, ElementBuilder, Handler, Inert, Merge, Role, Signals};

use super::{
    DROPS, FAMILY,
    from_port::FromPort,
    named_ports::named,
    names::{Framework, Naming, by_promisc},
    to_port::ToPort,
};

const NAMING: Naming = Naming { kind: Framework::Dpdk, argument: "PORT", options: by_promisc };

pub(super) const FROM: Class = Class {
    name: "FromDPDKDevice",
    family: FAMILY,
    summary: "receives packets from the device that has a DPDK number",
    description: "`PORT` is a number or a place on the PCI bus. Which port of ours it is says \
        `--device 0=xdp:eth0`, or DeviceInfo; an interface's name means that interface by `xdp:`. \
        Several of the same `PORT` share its queues, in the order of `QUEUE`, so that each packet \
        comes to one of them. With several workers each has a queue of its own. `BURST` \
        packets are a turn; without it there are as many turns at once as nobody sees. Arguments \
        about hardware are accepted and of no effect. With `ALLOW_NONEXISTENT true` it is idle where there is no \
        such device.",
    ports: "0/1",
    processing: "a/h",
    args: &[
        Arg::required("PORT", "number, PCI address or interface", "the device"),
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
        Arg::keyword("TIMESTAMP", "bool", "false", "whether packets carry the time of reception"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "false", "whether there need be no such device"),
        Arg::keyword("MAXTHREADS", "number", "", "has no effect"),
        Arg::keyword("THREADOFFSET", "number", "", "has no effect"),
        Arg::keyword("NUMA", "bool", "", "has no effect"),
        Arg::keyword("NUMA_NODE", "number", "", "has no effect"),
        Arg::keyword("SCALE", "word", "", "has no effect"),
        Arg::keyword("VERBOSE", "number", "", "has no effect"),
        Arg::keyword("NDESC", "number", "", "has no effect"),
        Arg::keyword("MAC", "Ethernet address", "", "has no effect"),
        Arg::keyword("MTU", "bytes", "", "has no effect"),
        Arg::keyword("MODE", "word", "", "has no effect"),
        Arg::keyword("FLOW_RULES_FILE", "file name", "", "has no effect"),
        Arg::keyword("FLOW_ISOLATE", "bool", "", "has no effect"),
        Arg::keyword("VF_POOLS", "number", "", "has no effect"),
        Arg::keyword("VF_VLAN", "number", "", "has no effect"),
        Arg::keyword("MINQUEUES", "number", "", "has no effect"),
        Arg::keyword("MAXQUEUES", "number", "", "has no effect"),
        Arg::keyword("RX_INTR", "number", "", "has no effect"),
        Arg::keyword("MAX_RSS", "number", "", "has no effect"),
        Arg::keyword("RETA_SIZE", "number", "", "has no effect"),
        Arg::keyword("RSS_AGGREGATE", "bool", "false", "must be false"),
        Arg::keyword("PAINT_QUEUE", "bool", "false", "must be false"),
        Arg::keyword("CLEAR", "bool", "", "has no effect"),
        Arg::keyword("PAUSE", "word", "", "has no effect"),
        Arg::keyword("IPCO", "bool", "", "has no effect"),
        Arg::keyword("TCO", "bool", "", "has no effect"),
        Arg::keyword("UCO", "bool", "", "has no effect"),
        Arg::keyword("POWER_MGMT", "word", "", "has no effect"),
    ],
    handlers: &[
        Handler::count("count", "packets received"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::button("reset_count", "the same"),
        Handler::value("active", "whether it receives"),
        Handler::count("hw_count", "packets received, not to be reset"),
        Handler::count("hw_bytes", "bytes received, not to be reset"),
        Handler::count("hw_dropped", "packets there was no place for"),
        Handler::count("hw_errors", "packets malformed or too long"),
        Handler::count("nombufs", "packets there was no buffer for"),
        Handler::read("mac", "the device's Ethernet address"),
        Handler::read("driver", "the port's driver"),
        Handler::read("nb_rx_queues", "queues it can be received from"),
        Handler::read("nb_tx_queues", "queues it can be sent to"),
        Handler::read("counters", "packets, bytes, and drops by reason, a line each")
            .merged(Merge::Lines),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    drops: DROPS,
    role: Role::Io,
    replicates: true,
    external_input: true,
    cost: "What the port's driver costs; the element adds one call per frame.",
    example: "DeviceInfo(0 null:?count=10);\n\
        FromDPDKDevice(0) -> Discard; DriverManager(wait 10ms, stop);",
    prepare: Some(|make, _| NAMING.prepare(make)),
    opens: |plan, at, devices| named(plan, at, devices, NAMING),
    make: |make| Box::new(from(make)),
    ..Class::here()
};

fn from(make: &mut ElementBuilder<'_>) -> FromPort {
    for argument in ["RSS_AGGREGATE", "PAINT_QUEUE"] {
        if make.or(argument, false) {
            make.error(format!("{argument}: ports do not tell"));
        }
    }
    let (active, time) = (make.or("ACTIVE", true), make.or("TIMESTAMP", false));
    make.or("PROMISC", true);
    let uri = NAMING.source(make);
    FromPort::sharing(make, uri, time, active)
}

pub(super) const TO: Class = Class {
    name: "ToDPDKDevice",
    family: FAMILY,
    summary: "sends packets to the device that has a DPDK number",
    description: "`PORT` as for FromDPDKDevice, with which it shares a device. What the device \
        has no place for waits, up to `IQUEUE` packets; more are dropped, unless `BLOCKING true`: \
        then sources that ask whether there is room stop meanwhile. Frames are sent as they come.",
    ports: "1/0",
    processing: "h/h",
    args: &[
        Arg::required("PORT", "number, PCI address or interface", "the device"),
        Arg::optional("QUEUE", "number", "", "has no effect"),
        Arg::keyword("N_QUEUES", "number", "", "has no effect"),
        Arg::keyword("IQUEUE", "packets", "1024", "most packets that wait"),
        Arg::keyword("BLOCKING", "bool", "false", "whether sources stop while packets wait"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "false", "whether there need be no such device"),
        Arg::keyword("BURST", "packets", "", "has no effect"),
        Arg::keyword("TIMEOUT", "milliseconds", "", "has no effect"),
        Arg::keyword("NDESC", "number", "", "has no effect"),
        Arg::keyword("MAXQUEUES", "number", "", "has no effect"),
        Arg::keyword("MAXTHREADS", "number", "", "has no effect"),
        Arg::keyword("VERBOSE", "number", "", "has no effect"),
        Arg::keyword("ACTIVE", "bool", "", "has no effect"),
        Arg::keyword("ALLOC", "bool", "", "has no effect"),
        Arg::keyword("TSO", "bool", "", "has no effect"),
        Arg::keyword("IPCO", "bool", "", "has no effect"),
        Arg::keyword("TCO", "bool", "", "has no effect"),
        Arg::keyword("UCO", "bool", "", "has no effect"),
    ],
    handlers: &[
        Handler::count("count", "packets the device has taken"),
        Handler::count("dropped", "packets that were dropped"),
        Handler::button("reset_counts", "sets count to zero"),
        Handler::count("hw_count", "packets the device has taken, not to be reset"),
        Handler::count("hw_bytes", "bytes the device has taken, not to be reset"),
        Handler::count("hw_errors", "packets the device refused"),
        Handler::read("counters", "packets, bytes, and drops by reason, a line each")
            .merged(Merge::Lines),
        Handler::read("uri", "the port's name"),
        Handler::read("mode", "how the port was opened"),
    ],
    drops: DROPS,
    signals: Signals { empty: false, full: true },
    role: Role::Io,
    cost: "What the port's driver costs; the element adds one call per frame.",
    example: "DeviceInfo(0 null:);\nInfiniteSource(LIMIT 10, STOP true) -> ToDPDKDevice(0);",
    opens: |plan, at, devices| named(plan, at, devices, NAMING),
    make: |make| {
        let uri = NAMING.sink(make);
        Box::new(ToPort::queueing(make, uri))
    },
    ..Class::here()
};

pub(super) const INFO: Class = Class {
    name: "DPDKInfo",
    family: FAMILY,
    summary: "says how DPDK is to use memory; accepted and not needed",
    description: "`linerate run --arena` says how much memory there is for packets. There can be \
        only one.",
    ports: "0/0",
    role: Role::Information,
    args: &[
        Arg::optional("NB_MBUF", "number", "", "has no effect"),
        Arg::keyword("NB_SOCKET_MBUF", "number", "", "has no effect"),
        Arg::keyword("MBUF_SIZE", "bytes", "", "has no effect"),
        Arg::keyword("MBUF_CACHE_SIZE", "number", "", "has no effect"),
        Arg::keyword("RX_PTHRESH", "number", "", "has no effect"),
        Arg::keyword("RX_HTHRESH", "number", "", "has no effect"),
        Arg::keyword("RX_WTHRESH", "number", "", "has no effect"),
        Arg::keyword("TX_PTHRESH", "number", "", "has no effect"),
        Arg::keyword("TX_HTHRESH", "number", "", "has no effect"),
        Arg::keyword("TX_WTHRESH", "number", "", "has no effect"),
        Arg::keyword("MEMPOOL_PREFIX", "word", "", "has no effect"),
        Arg::keyword("DEF_RING_NDESC", "number", "", "has no effect"),
        Arg::keyword("DEF_BURST_SIZE", "number", "", "has no effect"),
        Arg::keyword("RING_SIZE", "number", "", "has no effect"),
        Arg::keyword("RING_POOL_CACHE_SIZE", "number", "", "has no effect"),
        Arg::keyword("RING_PRIV_DATA_SIZE", "number", "", "has no effect"),
    ],
    cost: "Nothing while packets are handled.",
    example: "DPDKInfo(65535);\nInfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| {
        only_one(make, "There can be only one instance of DPDKInfo!");
        Box::new(Inert)
    },
    ..Class::here()
};

/// Refuses a second element of the class.
pub(super) fn only_one(make: &mut ElementBuilder<'_>, refusal: &str) {
    let elements = &make.plan().elements;
    let class = elements[make.element()].class.name;
    if elements[..make.element()].iter().any(|element| element.class.name == class) {
        make.error(refusal);
    }
}
