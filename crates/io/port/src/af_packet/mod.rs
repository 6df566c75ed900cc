//! `packet:IF` sends and receives through an `AF_PACKET` socket: any Linux
//! network interface, no change to it, one copy per packet each way.
//!
//! # Kernel behaviour that it handles
//!
//! - Packets this host sends on the interface are not received, unless asked
//!   for.
//! - A VLAN tag the kernel took out is put back.
//! - Checksums and segmentation that the sender, on this host, left to the
//!   interface are done here (see `offload`), so nothing has to be turned off
//!   with ethtool. Frames that are longer than a slot come through the
//!   socket's queue, one system call each: one call per twenty segments or so.
//! - Setting the interface down stops the port and setting it up continues
//!   it; only when it is deleted has the port to be opened again.
//!
//! # System calls
//!
//! None to receive, one per 64 packets to send, one or two per wait.
//!
//! # Why this ring and this way to send
//!
//! The receive ring is of version 2, where each packet is handed over as it
//! comes. Version 3 hands over blocks, when full or after at least a
//! millisecond: over a veth pair, an answer from a receiver that sleeps in
//! poll(2) came back after 43 us with version 2 and 626 us with version 3
//! (medians of 500). The rate of the two was the same within 3 %. Sending
//! is by sendmmsg(2), which copies from our buffers, and not by a transmit
//! ring, into which we would copy and from which the kernel would make
//! fragments: 1522 ns of processor time per packet of 60 bytes against 1911
//! for a ring of version 2 and 2147 for one of version 3, all the way into the
//! receiver's ring (best of five, 2 virtual cores, Linux 6.18).

mod bpf_equivalence;
mod program;
mod receive;
mod ring;
mod socket;
mod tpacket;
mod transmit;

use std::{os::fd::AsFd, sync::Arc};

use linerate_linux::interface::{self, Link, Promiscuous};
use linerate_memory::stride_for;
use linerate_packet::MacAddr;

use self::{
    program::Outbound,
    receive::{PacketReceive, ReceiveOptions},
    ring::Ring,
    socket::Fanout,
    transmit::PacketTransmit,
};
use crate::{
    driver::Driver,
    error::OpenError,
    kernel::{FRAMING, OpenErrors},
    options::{OptionGroup, PortOption, QUEUES, Value},
    port::{Context, Copies, Port, PortInfo, Queue},
    uri::PortUri,
};

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "packet",
    object: "IF",
    summary: "any network interface, through an AF_PACKET socket; one copy",
    description: "\
Works with every Ethernet interface of Linux and changes nothing about it. The kernel's network
stack receives the packets as well: this port has a copy of each. A VLAN tag that the kernel took
out is put back, and what a sender on this host left to the interface (checksums, segmentation) is
done here, so nothing has to be turned off with ethtool.",
    needs: "It needs the capability `cap_net_raw`, which root has.",
    examples: &[
        ("packet:eth1", "what eth1 receives, for whomever it is"),
        ("packet:eth1?promisc=off&time=on", "what is for this host, with the time it came at"),
        ("packet:eth1?queues=4&slots=16384", "four queues with longer rings"),
    ],
    options: &[OptionGroup {
        when: "",
        options: &[
            PortOption {
                name: "queues",
                default: "one for each worker that uses it",
                help: "Sockets that share the packets received, each flow on one of them.",
                ..QUEUES
            },
            PortOption {
                name: "slots",
                value: Value::Number { least: 8, most: 1 << 18 },
                // 4 ms of packets at a million per second, about as long as a worker is kept
                // from running now and then.
                default: "4096",
                help: "Packets that each queue holds until they are taken; fewer, unless asked for, where \
                       frames are so long that they would take more than 64 MiB.",
            },
            PortOption {
                name: "promisc",
                value: Value::Switch,
                default: "on",
                help: "Frames for other hosts are received, too.",
            },
            PortOption {
                name: "qdisc",
                value: Value::Switch,
                default: "off",
                help: "Sends through the interface's queueing discipline instead of past it.",
            },
            PortOption {
                name: "time",
                value: Value::Switch,
                default: "off",
                help: "Notes when the kernel received each packet.",
            },
            PortOption {
                name: "outbound",
                value: Value::Text { form: "on|off|only", expected: "on, off or only" },
                default: "off",
                help: "Receives what this host sends on the interface as well, or only that.",
            },
            PortOption {
                name: "long",
                value: Value::Word(&[
                    ("drop", "they are counted as too long"),
                    (
                        "cut",
                        "their beginning comes, with the length they had noted, as to be looked at",
                    ),
                ]),
                default: "drop",
                help: "What becomes of frames longer than a packet buffer.",
            },
            PortOption {
                name: "origin",
                value: Value::Switch,
                default: "off",
                help: "Notes by which interface each packet came, for captures from all interfaces \
                       (packet:any).",
            },
        ],
    }],
    interface: true,
    open,
};

/// The name that stands for all interfaces, as in tcpdump.
const ANY: &str = "any";
/// Most bytes of a receive ring without `slots=`.
const RING_UNASKED: usize = 64 << 20;

/// Returns true if a port is on all interfaces and not on one.
pub(crate) fn is_any(uri: &PortUri) -> bool {
    uri.driver() == DRIVER.name && uri.name() == ANY
}

/// A link that stands for all interfaces: their longest frames, and the index that means all of them.
fn every_interface(errors: &OpenErrors) -> Result<Link, OpenError> {
    let links = interface::links().map_err(|error| errors.interface(error))?;
    let longest = links.iter().filter(|link| link.ethernet).map(|link| link.mtu).max();
    Ok(Link {
        name: ANY.into(),
        index: 0,
        mtu: longest.unwrap_or(1500),
        mac: Some([0; 6]),
        ..Link::default()
    })
}

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let mut options = uri.options(DRIVER.options);
    let queues = options.number("queues")?.map(|n| n as usize);
    let slots = options.number("slots")?.map(|n| n as usize);
    let default_slots = options.default_of("slots") as usize;
    let promiscuous = options.is_on("promisc")?;
    let qdisc = options.is_on("qdisc")?;
    let time = options.is_on("time")?;
    let outbound = options.value("outbound")?.unwrap_or(Outbound::No);
    let cut = options.word("long")? == Some("cut");
    let origin = options.is_on("origin")?;
    options.finish()?;
    let queues = queues.or(context.queues).unwrap_or(1);
    let errors = OpenErrors::new(uri, "cap_net_raw");
    let failed = |step| errors.failed(step);

    let any = is_any(uri);
    if any && context.direction.transmits() {
        return Err(errors.unsupported(
            "packets are received from all interfaces, and sent on one: name it".into(),
        ));
    }
    let link = if any { every_interface(&errors)? } else { errors.find(uri.name())? };
    if link.mac.is_none() {
        return Err(errors.unsupported(format!(
            "{} carries {} packets, not Ethernet frames",
            link.name, link.kind
        )));
    }
    let mtu = link.mtu as usize;
    if !cut {
        errors.check_room(mtu, &context.arena)?;
    }
    let stride = stride_for(tpacket::FRAME_AT + mtu + FRAMING);
    // Of an interface with very long frames a ring of so many would be larger than most machines.
    let slots = slots.unwrap_or(default_slots.min(RING_UNASKED / stride));

    let mut opened = Vec::with_capacity(queues);
    let program = program::build(outbound, context.filter.as_deref());
    let (direction, outbound) = (outbound, outbound != Outbound::No);
    let mut fanout = Fanout::new(queues, outbound);
    let promiscuous = (promiscuous && !any && context.direction.receives())
        .then(|| Promiscuous::enable(&link).map(Arc::new))
        .transpose()
        .map_err(|error| errors.interface(error))?;
    for _ in 0..queues {
        let receive = || -> Result<_, OpenError> {
            let socket = socket::open().map_err(failed("open a packet socket"))?;
            socket::prepare_receive(&socket, outbound).map_err(failed("set up a packet socket"))?;
            let ring =
                Ring::new(socket.as_fd(), slots, stride).map_err(failed("make a receive ring"))?;
            socket::bind_receive(&socket, link.index, &mut fanout, &program)
                .map_err(failed("bind a packet socket"))?;
            Ok(PacketReceive::new(
                uri,
                socket,
                ring,
                promiscuous.clone(),
                ReceiveOptions { time, types: context.types, outbound, any, cut, origin },
                (context.filter.is_none()).then_some(direction),
            ))
        };
        let receive = context.direction.receives().then(receive).transpose()?;
        let transmit = || -> Result<_, OpenError> {
            let socket = socket::open().map_err(failed("open a packet socket"))?;
            socket::prepare_transmit(&socket, link.index, qdisc)
                .map_err(failed("bind a packet socket"))?;
            Ok(PacketTransmit::new(uri, socket, &link.name))
        };
        let transmit = context.direction.transmits().then(transmit).transpose()?;
        opened.push(Queue {
            receive: receive.map(|side| Box::new(side) as _),
            transmit: transmit.map(|side| Box::new(side) as _),
        });
    }
    let mode = format!(
        "TPACKET_V2 ring, {slots} slots{}{}{}; sendmmsg{}",
        if queues > 1 { ", fan-out by hash" } else { "" },
        if promiscuous.is_some() { ", promiscuous" } else { "" },
        if program.is_empty() { "" } else { ", filtered by the kernel" },
        if qdisc { " through the queueing discipline" } else { ", past the queueing discipline" },
    );
    Ok(Port {
        info: PortInfo {
            link: None,
            uri: uri.clone(),
            interface: (!any).then_some(link.name),
            mac: link.mac.filter(|_| !any).map(MacAddr),
            frame_limit: Some(mtu + FRAMING),
            speed: None,
            copies: Copies::Driver,
            stamps: time,
            types: context.types,
            mode,
        },
        queues: opened,
    })
}
