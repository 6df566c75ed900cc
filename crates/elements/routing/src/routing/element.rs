//! Element of the classes for IPv4.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use linerate_graph::{Context, Element, ElementBuilder, Inert, OffWorker, Scope};
use linerate_memory::Frame;

use super::{
    handlers::Routes4,
    list::Order,
    route,
    sending::Sending,
    table::{Refusal, Table},
};

/// Settings of one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) order: Order,
    /// Whether masks need not be those of prefixes.
    pub(super) noncontiguous_masks: bool,
    /// Report about an address without a route.
    pub(super) no_route: NoRoute,
}

/// Report about an address without a route.
#[derive(Debug, Clone, Copy)]
pub(super) enum NoRoute {
    Nothing,
    /// That there is none, in the name of this class, for the first packets.
    Few(&'static str),
    /// As `LookupIPRouteMP` does, for each packet.
    Each,
}

impl Style {
    pub(super) const PLAIN: Style = Style {
        order: Order::ByAddress,
        noncontiguous_masks: false,
        no_route: NoRoute::Few("IPRouteTable"),
    };
}

/// Times it is said that there is no route for a packet.
const COMPLAINTS: usize = 5;

/// Reports made already, by all elements together.
#[derive(Debug, Default)]
struct ReportCount(AtomicUsize);

/// An element that looks IPv4 addresses up.
pub(super) struct IpLookup {
    style: Style,
    outputs: usize,
    table: Arc<Table<u32>>,
    sending: Sending<u32>,
}

/// The table of the replicas there are now: a new configuration has a new one.
type Current<T> = Mutex<Option<Arc<T>>>;

/// A new table for the first replica, and the same for the others.
pub(super) fn shared_table<T: Send + Sync + 'static>(
    make: &mut ElementBuilder<'_>,
    new: impl FnOnce() -> Option<T>,
) -> Option<Arc<T>> {
    let current = make.shared(Current::<T>::default);
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    if make.replica().index == 0 || current.is_none() {
        *current = new().map(Arc::new);
        if current.is_none() {
            make.error("no memory for a table of routes");
        }
    }
    current.clone()
}

impl IpLookup {
    pub(super) fn make(make: &mut ElementBuilder<'_>, style: Style) -> Box<dyn Element> {
        IpLookup::configured(make, style, configure)
    }

    /// One with the routes that `configure` puts into the table.
    pub(super) fn configured(
        make: &mut ElementBuilder<'_>,
        style: Style,
        configure: impl FnOnce(&mut ElementBuilder<'_>, &Table<u32>),
    ) -> Box<dyn Element> {
        let new = || Table::new(style.order, style.noncontiguous_masks).ok();
        let Some(table) = shared_table::<Table<u32>>(make, new) else { return Box::new(Inert) };
        if make.replica().index == 0 {
            configure(make, &table);
        }
        let (outputs, sending) = (make.outputs(), Sending::new(make.world.frame_limit));
        Box::new(IpLookup { style, outputs, table, sending })
    }

    #[cold]
    fn complain(&self, cx: &Context) {
        let who = match self.style.no_route {
            NoRoute::Nothing => return,
            NoRoute::Few(who) => who,
            NoRoute::Each => {
                for address in self.sending.unrouted() {
                    // Click shows the word as it is in memory.
                    let word = u32::from_ne_bytes(address.to_be_bytes());
                    cx.console().report(&format!("LookupIPRouteMP: no gw for {word:x}\n"));
                }
                return;
            }
        };
        let complained = cx.world().common::<ReportCount>();
        for address in self.sending.unrouted() {
            if complained.0.fetch_add(1, Relaxed) >= COMPLAINTS {
                complained.0.store(COMPLAINTS, Relaxed);
                return;
            }
            let address = Ipv4Addr::from(address);
            cx.console().report(&format!("{who}: no route for {address}\n"));
        }
    }
}

/// Puts the routes of the configuration into the table.
fn configure(make: &mut ElementBuilder<'_>, table: &Table<u32>) {
    let outputs = make.outputs();
    let mut routes = Vec::new();
    for (at, text) in (1..).zip(make.rest()) {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        match route::parse(&text, &scope, false) {
            None => {
                make.error(format!("argument {at} should be 'ADDR/MASK [GATEWAY] OUTPUT'"));
            }
            Some(route) if route.outputs().1 < 0 || route.outputs().0 >= outputs as i32 => {
                make.error(format!("argument {at} bad OUTPUT"));
            }
            Some(route) => routes.push(route),
        }
    }
    match table.load(&routes, false) {
        Ok(0) => {}
        Ok(more) => {
            let noun = if more > 1 { "routes" } else { "route" };
            make.warn(format!("{more} {noun} replaced by later versions"));
        }
        Err(Refusal::Mask) => make.error("a mask is not that of a prefix; see LinearIPLookup"),
        Err(_) => make.error("no memory to store the routes"),
    }
}

impl Element for IpLookup {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.sending.look_up(cx, frame, &self.table);
        if self.sending.has_unrouted() {
            self.complain(cx);
        }
        self.sending.send(cx, frame);
    }

    fn off_worker(&self) -> Option<Arc<dyn OffWorker>> {
        Some(Arc::new(Routes4 { table: Arc::clone(&self.table), outputs: self.outputs }))
    }
}
