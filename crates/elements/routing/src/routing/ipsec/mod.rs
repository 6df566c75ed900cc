//! `RadixIPsecLookup`: routes that may lead into tunnels.
//!
//! Packets of a tunnel that arrive are found by their security parameters index, those that are to
//! go into one by their route. They are then treated by the elements of [`crate::ipsec`].

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, Inert, NoBuffer, OffWorker,
    Scope,
};
use linerate_memory::{Frame, Meta, Slot};

use super::element::shared_table;
use crate::ipsec;
use linerate_element_support::{
    annotations,
    ip::{LEAST, PROTOCOL, get_four},
};

mod handlers;
mod target;
mod tunnels;

use handlers::Routes;
use target::Target;
use tunnels::Tunnels;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no route
    NoRoute,
    #[from(NoBuffer)]
    NoBuffer,
    /// unknown security parameters index
    Unknown,
}

/// Purposes of the outputs.
const ARRIVED: i32 = 0;
const INTO_TUNNEL: i32 = 1;
const FOR_HOST: i32 = 2;
/// The protocol number of ESP.
const ESP: u8 = 50;

pub(super) const CLASS: Class = Class {
    name: "RadixIPsecLookup",
    family: ipsec::FAMILY,
    summary: "routes IPv4 packets, some of them into ESP tunnels",
    description: "Routes and handlers are those of RadixIPLookup. Behind the output of a route into a \
        tunnel are its security parameters index, two keys of 16 characters, one to encrypt and one \
        to authenticate, the first sequence number, and how far packets may be out of order.\n\n\
        Three outputs have a meaning. What goes by output 1 is to enter the tunnel of its route \
        (IPsecESPEncap, IPsecAuthHMACSHA1, IPsecAES, IPsecEncap). What a route leads to output 0 is \
        for this host: ESP packets whose index is that of a route leave by it (StripIPHeader, \
        IPsecAES, IPsecAuthHMACSHA1, IPsecESPUnencap), those with another are dropped with a \
        message, and other packets leave by output 2. (Click says so of the latter and drops them.) \
        Packets begin with their IP headers.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::rest(
        "ROUTE",
        "ADDR/MASK [GW] OUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE]",
        "a route: where packets to these addresses go, and the tunnel they take",
    )],
    handlers: &[
        Handler::write("add", "adds a route, unless there is one for the prefix").off_worker(),
        Handler::write("set", "adds a route or changes where it leads").off_worker(),
        Handler::write("remove", "removes a route, ADDR/MASK [[GW] OUT]").off_worker(),
        Handler::write("ctrl", "several of `add ROUTE`, `set ROUTE`, `remove ROUTE`: all or none")
            .off_worker(),
        Handler::read("table", "the routes, and the keys of tunnels").off_worker(),
        Handler::read("lookup", "the output and gateway for an address, -1 without a route")
            .with_parameter()
            .off_worker(),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "One or two memory accesses in a DIR-24-8 structure and one to the route, packet by packet.",
    example: ipsec::EXAMPLE,
    make: Lookup::make,
    ..Class::here()
};

/// Times it is said that there is no route for a packet.
const COMPLAINTS: usize = 5;

/// Reports made already, by all elements together.
#[derive(Debug, Default)]
struct ReportCount(AtomicUsize);

struct Lookup {
    outputs: usize,
    tunnels: Arc<Tunnels>,
    slots: Vec<Slot>,
}

impl Lookup {
    fn make(make: &mut ElementBuilder<'_>) -> Box<dyn Element> {
        let associations = make.world.common();
        let new = || Tunnels::new(associations);
        let Some(tunnels) = shared_table(make, new) else { return Box::new(Inert) };
        let outputs = make.outputs();
        if make.replica().index == 0 {
            for (at, text) in (1..).zip(make.rest()) {
                let scope =
                    Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
                let say = |text: &str| make.world.console.report(text);
                let route = tunnels.parse(&text, &scope, false, &say);
                match route.filter(|route| (0..outputs as i32).contains(&route.target.output)) {
                    // Of several for a prefix the first counts.
                    Some(route) => drop(tunnels.add(&route, false)),
                    None => {
                        make.error(format!("argument {at} should be 'ADDR/MASK [GATEWAY] OUTPUT'"));
                    }
                }
            }
        }
        Box::new(Lookup { outputs, tunnels, slots: Vec::new() })
    }

    /// Annotates a packet by its route, and returns its output, or the reason of its drop.
    fn judge(
        &self,
        cx: &Context,
        bytes: &[u8],
        meta: &mut Meta,
        target: Option<Target>,
    ) -> Result<usize, Reason> {
        let address = || Ipv4Addr::from(get_four(&meta.destination, 0));
        let Some(Target { gateway, mut output, index, association }) = target else {
            let said = &cx.world().common::<ReportCount>().0;
            if said.fetch_add(1, Relaxed) < COMPLAINTS {
                let text = format!("IPsecRouteTable: no route for {}\n", address());
                cx.console().report(&text);
            }
            return Err(Reason::NoRoute);
        };
        match output {
            INTO_TUNNEL => {
                if index == 0 || association == 0 {
                    let text = format!("No Ipsec tunnel for {}. Wrong tunnel setup\n", address());
                    cx.console().report(&text);
                }
                annotations::set_parameters_index(meta, index);
                annotations::set_association(meta, association);
            }
            ARRIVED if bytes.get(PROTOCOL) != Some(&ESP) => output = FOR_HOST,
            ARRIVED => {
                let index = u32::from_be_bytes(get_four(bytes, LEAST));
                let Some(association) = self.tunnels.association(index) else {
                    let index = index.cast_signed();
                    cx.console().report(&format!("Invalid SPI {index}, Dropping packet\n"));
                    return Err(Reason::Unknown);
                };
                annotations::set_association(meta, association);
            }
            _ => {}
        }
        if gateway != 0 {
            meta.destination[..4].copy_from_slice(&gateway.to_be_bytes());
        }
        Ok(output as usize)
    }
}

impl Element for Lookup {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let mut slots = std::mem::take(&mut self.slots);
        frame.drain_front(frame.len(), |slot| slots.push(slot));
        let targets = self.tunnels.targets();
        for mut slot in slots.drain(..) {
            let arena = cx.pool.arena();
            let mut meta = *arena.meta(&slot);
            let address = u32::from_be_bytes(get_four(&meta.destination, 0));
            let target = targets.get(self.tunnels.place(address)).copied();
            let verdict = self.judge(cx, arena.packet(&slot), &mut meta, target);
            if let Some(place) = arena.meta_mut(&mut slot) {
                *place = meta;
            }
            match verdict {
                Ok(output) => cx.out.emit(output, slot),
                Err(reason) => cx.drop_packet(slot, reason),
            }
        }
        drop(targets);
        self.slots = slots;
    }

    fn off_worker(&self) -> Option<Arc<dyn OffWorker>> {
        let tunnels = Arc::clone(&self.tunnels);
        Some(Arc::new(Routes { tunnels, outputs: self.outputs }))
    }
}
