//! `packet:IF` sends and receives through an `AF_PACKET` socket: any Linux
//! network interface, no change to it, one copy per packet each way.
//!
//! Options: `queues=N` sockets that share the packets received by flow hash
//! (1), `slots=N` places in each receive ring (4096), `promisc=off` leaves
//! out frames for other hosts, `qdisc=on` sends through the interface's queueing
//! discipline instead of around it, `time=on` notes when each packet was
//! received, `outbound=on` receives what this host sends as well.
//!
//! # What it does about the kernel's ways
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

mod receive;
mod ring;
mod socket;
mod tpacket;
mod transmit;

use std::{os::fd::AsFd, sync::Arc};

use linerate_host::interface::Promiscuous;
use linerate_memory::stride_for;
use linerate_packet::MacAddr;

use self::{
    receive::{PacketReceive, Wanted},
    ring::Ring,
    socket::Fanout,
    transmit::PacketTransmit,
};
use crate::{
    error::OpenError,
    kernel::{FRAMING, OpenErrors},
    port::{Context, Copies, Port, PortInfo, Queue},
    uri::PortUri,
};

/// Slots of a receive ring unless told otherwise: 4 ms of packets at a million
/// per second, about as long as a worker is kept from running now and then.
const SLOTS_DEFAULT: usize = 4096;

pub(crate) fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let mut options = uri.options();
    let queues = options.number("queues", 1..=64)?.map(|n| n as usize);
    let slots = options.number("slots", 8..=1 << 18)?.map_or(SLOTS_DEFAULT, |n| n as usize);
    let promiscuous = options.switch("promisc")?.unwrap_or(true);
    let qdisc = options.switch("qdisc")?.unwrap_or(false);
    let time = options.switch("time")?.unwrap_or(false);
    let outbound = options.switch("outbound")?.unwrap_or(false);
    options.finish()?;
    let queues = queues.or(context.queues).unwrap_or(1);
    let errors = OpenErrors::new(uri, "cap_net_raw");
    let failed = |step| errors.failed(step);

    let link = errors.find(uri.name())?;
    if link.mac.is_none() {
        return Err(errors.unsupported(format!(
            "{} carries {} packets, not Ethernet frames",
            link.name, link.kind
        )));
    }
    let mtu = link.mtu as usize;
    errors.check_room(mtu, &context.arena)?;
    let stride = stride_for(tpacket::FRAME_AT + mtu + FRAMING);

    let mut opened = Vec::with_capacity(queues);
    let mut fanout = Fanout::new(queues, outbound);
    let promiscuous = (promiscuous && context.direction.receives())
        .then(|| Promiscuous::enable(&link).map(Arc::new))
        .transpose()
        .map_err(|error| errors.interface(error))?;
    for _ in 0..queues {
        let receive = || -> Result<_, OpenError> {
            let socket = socket::open().map_err(failed("open a packet socket"))?;
            socket::prepare_receive(&socket, outbound).map_err(failed("set up a packet socket"))?;
            let ring =
                Ring::new(socket.as_fd(), slots, stride).map_err(failed("make a receive ring"))?;
            socket::bind_receive(&socket, link.index, &mut fanout)
                .map_err(failed("bind a packet socket"))?;
            Ok(PacketReceive::new(
                uri,
                socket,
                ring,
                promiscuous.clone(),
                Wanted { time, types: context.types, outbound },
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
        "TPACKET_V2 ring, {slots} slots{}{}; sendmmsg{}",
        if queues > 1 { ", fan-out by hash" } else { "" },
        if promiscuous.is_some() { ", promiscuous" } else { "" },
        if qdisc { " through the queueing discipline" } else { ", past the queueing discipline" },
    );
    Ok(Port {
        info: PortInfo {
            uri: uri.clone(),
            interface: Some(link.name),
            mac: link.mac.map(MacAddr),
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
