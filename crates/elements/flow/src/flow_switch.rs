//! `FlowSwitch`: forwards packets by the flows of a controller.

use std::{fs, path::PathBuf, sync::Arc};

use linerate_element_support::links::LinkWatcher;
use linerate_graph::{
    Arg, Class, Context, Copies, DropReason, Element, ElementBuilder, Filename, Handler,
    HandlerError, HandlerResult, Inert, Merge, Next, OffWorker, Text, lang::config::words,
};
use linerate_memory::Frame;
use linerate_ofswitch::cache::{Drop, FlowCache, Options};
use linerate_ofswitch::switch::{Switch, SwitchOptions, WorkerState};
use linerate_ofswitch::table::PortCount;
use linerate_openflow::wire::{FlowModCommand, Port, PortConfig, PortNumber, PortState};
use linerate_packet::MacAddr;
use linerate_port::{Interest, Wake};

use crate::{
    FAMILY, change,
    connections::Connections,
    dump,
    out::{Out, Reason},
    switches::{self, SwitchHandle},
    trace,
    wakeup::Wakeup,
};

/// The timer: adds counts, expires flows, and reads link states.
const TICK: u32 = 0;
/// Nanoseconds between two ticks while there are packets, and while there are none.
const TICK_TIME: u64 = 10_000_000;
const CALM_TIME: u64 = 1_000_000_000;
/// Flows that are expired at a time, between packets.
const EXPIRED: usize = 64;
/// Nanoseconds between expiries of flows and reads of link states.
const EXPIRE_TIME: u64 = 100_000_000;
/// Packets of controllers that are sent at once.
const INJECTED: usize = 64;

const TABLES: Arg = Arg::keyword("TABLES", "1 to 254", "8", "how many tables there are");
const FLOWS: Arg = Arg::keyword("FLOWS", "flows", "1000000", "how many flows each table may have");
const CACHE: Arg = Arg::keyword(
    "CACHE",
    "entries",
    "65536",
    "how many entries the fast path of a worker may have",
);
const DATAPATH: Arg = Arg::keyword(
    "DATAPATH",
    "Ethernet address",
    "02:00:00:00:00:01",
    "the address in its number, by which controllers know it",
);
const NAMES: Arg = Arg::keyword(
    "NAMES",
    "names",
    "numbers",
    "what the ports are called, in their order; where a name begins with - there is no port",
);
const FILE: Arg = Arg::keyword(
    "FILE",
    "filename",
    "none",
    "flows that are there from the start, a line each, in the syntax of ovs-ofctl; not where a `STATE` of \
     `OpenFlow` says what there is",
);

const HANDLERS: [Handler; 22] = [
    Handler::read("flows", "the flows of all tables, or those like the parameter").with_parameter(),
    Handler::write("add_flow", "adds flows, a line each, in the syntax of ovs-ofctl"),
    Handler::write("mod_flows", "has flows like these do something else"),
    Handler::write("del_flows", "deletes flows like these; all where nothing is written"),
    Handler::write("replace", "these flows take the place of all there are, at once"),
    Handler::write("add_group", "adds groups, a line each"),
    Handler::write("add_meter", "adds meters, a line each"),
    Handler::read(
        "trace",
        "what becomes of a packet: its fields as in a flow's match, or some of them, a space and its bytes in \
         hexadecimal; nothing is sent, learnt or counted. Before them `ct-next=STATE` says which state a \
         connection is taken to be in, once for each that is looked up; without it new|trk. Behind it the entry \
         of each fast path that has one",
    )
    .with_parameter()
    .merged(Merge::Lines),
    Handler::read("cache", "the entries of fast paths, those with most packets first")
        .merged(Merge::Lines),
    Handler::count("cache_count", "entries of fast paths"),
    Handler::count("hits", "packets an entry of a fast path was found for"),
    Handler::count("misses", "packets that were decided by the tables"),
    Handler::count("refused", "packets that were not, as too many of their port had to be"),
    Handler::read("ports", "number, name, and packets and bytes in and out of each port"),
    Handler::read("version", "how often the tables have changed"),
    Handler::button("cache_clear", "forgets all entries of fast paths"),
    Handler::read(
        "connections",
        "the connections that ct() remembers, a line each as of ovs-appctl dpctl/dump-conntrack, or those like \
         the parameter: `ct_zone=5,ct_nw_src=10.0.0.0/8`; 10000 of them, or behind `limit=N` so many",
    )
    .with_parameter()
    .off_worker(),
    Handler::read("connection_count", "how many connections are remembered").off_worker(),
    Handler::write("flush_connections", "forgets connections like these; all where nothing is written")
        .off_worker(),
    Handler::value(
        "connection_limits",
        "how many connections zones may have; writing `5=1000 default=none` limits zone 5, and others no more",
    )
    .off_worker(),
    Handler::value(
        "connection_timeouts",
        "how long connections of zones are remembered after a packet; writing `zone=5 udp_first=10 icmp_reply=5` gives \
         zone 5 time-outs of its own, in seconds, with the names of ovs-vsctl add-zone-tp, and `zone=5 none` takes \
         them away; connections that are there keep theirs",
    )
    .off_worker(),
    Handler::value(
        "fragments",
        "what became of fragments in ct(), what they are allowed, and the packets of which some wait; written as \
         `most=1000 shortest_v4=1200 shortest_v6=1280`: how many wait, and how short one is that is not the last \
         of its packet",
    )
    .off_worker(),
];

pub(crate) const CLASS: Class = Class {
    name: "FlowSwitch",
    family: FAMILY,
    summary: "a switch whose flow tables a controller writes",
    description: "Input and output of the same number are one port; those of OpenFlow count from 1, so \
        input 0 is port 1. What becomes of a packet is what the flows of its tables say: \
        `OpenFlow` is their channel to controllers. Without a flow that matches a packet is dropped.\n\n\
        Decisions are remembered by each worker, with those bits of packets that they depend on, so that \
        most packets never come to the tables: `cache` shows these entries. A change of the tables \
        takes effect with the next frame, without a pause: a packet goes by the tables as they were before \
        the change or as they are after it.\n\n\
        `ct` puts fragments together, tracks the packet, and sends them on as they came: they wait 15 s for the \
        others of their packet, 1,000 in all and a quarter of that from one source. `fragments` counts them.\n\n\
        Packets that have to be decided are bounded for each port while other ports have packets, too; \
        those over that are dropped and counted, so a flood of new flows at one port harms no other.\n\n\
        When the configuration is replaced, tables and counters are kept where `TABLES` stays the same.",
    ports: "1-/=",
    processing: "h/h",
    flow: "x/x",
    args: &[TABLES, FLOWS, CACHE, DATAPATH, NAMES, FILE],
    handlers: &HANDLERS,
    drops: Reason::REASONS,
    cost: "A frame whose packets all go the same way, whatever is in them, costs some cycles for \
        each. Where it depends on headers, these are read and hashed, and a line of 64 bytes is compared. \
        Each entry takes some 1,500 bytes in each worker.",
    example: "s :: FlowSwitch(TABLES 2); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard;",
    copies: Copies::Shared,
    // Flows may send a packet to a port as often as they like.
    multiplies: |_, _, _| usize::MAX,
    order_dependent: true,
    make: |make| match FlowSwitch::new(make) {
        Some(switch) => Box::new(switch),
        None => Box::new(Inert),
    },
    ..Class::here()
};

struct FlowSwitch {
    handle: Arc<SwitchHandle>,
    switch: Arc<Switch>,
    fast: FlowCache,
    worker: Arc<WorkerState>,
    ports: Vec<u32>,
    names: Vec<String>,
    address: MacAddr,
    options: Options,
    /// Of the first replica, which does the tasks that are done once.
    links: Option<LinkWatcher>,
    is_first: bool,
    /// Flows that are there from the start.
    file: Option<PathBuf>,
    /// Whether [`Element::idle`] was requested.
    asked: bool,
    expired: u64,
    /// Number of the last change of its handle's switch or exporter that was taken.
    changes: u64,
    /// When a flow expires next.
    next: Option<u64>,
    /// When the timer is due, where it is set: known here without a search for each frame.
    tick: Option<u64>,
    /// Set if a controller or command uses the switch.
    wakeup: Option<Arc<Wakeup>>,
}

impl FlowSwitch {
    fn new(make: &mut ElementBuilder<'_>) -> Option<FlowSwitch> {
        let tables: u32 = make.or("TABLES", 8);
        let flows: u32 = make.or("FLOWS", 1_000_000);
        let entries: u32 = make.or("CACHE", 65_536);
        let address = make.or("DATAPATH", MacAddr([2, 0, 0, 0, 0, 1]));
        if !(1..=254).contains(&tables) {
            make.error("TABLES: out of range, 1 to 254");
        }
        let ports = make.inputs();
        if ports > 0xff00 {
            make.error("too many ports");
        }
        let Text(names) = make.or("NAMES", Text(String::new()));
        let mut names: Vec<String> = words(&names).into_iter().map(str::to_owned).collect();
        let repeated = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
        if repeated || !(names.is_empty() || names.len() == ports) {
            make.error(format!("NAMES: need {ports} different names, one per port"));
        }
        names.resize_with(ports, String::new);
        for (number, name) in names.iter_mut().enumerate() {
            if name.is_empty() {
                *name = (number + 1).to_string();
            }
        }
        let file: Option<Filename> = make.get("FILE");
        let MacAddr([a, b, c, d, e, f]) = address;
        let options = SwitchOptions {
            tables: tables.clamp(1, 254) as u8,
            flows,
            datapath: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            ..SwitchOptions::default()
        };
        let handle = make.shared(|| SwitchHandle::new(Switch::new(options)));
        let is_first = make.replica().index == 0;
        if is_first {
            let name = make.plan().elements[make.element()].name.clone();
            switches::put(make.world, &name, &handle);
            if make.predecessor().is_some() {
                handle.await_predecessor();
            }
        }
        let switch = handle.switch();
        let options = Options { entries: entries as usize, ..Options::default() };
        let ports: Vec<u32> = (1..=ports as u32).collect();
        Some(FlowSwitch {
            fast: FlowCache::new(&ports, options).with_tables(switch.snapshot()),
            worker: switch.worker(),
            links: is_first.then(|| LinkWatcher::new(make)),
            switch,
            handle,
            ports,
            names,
            address,
            options,
            is_first,
            file: file.filter(|_| is_first).map(|Filename(file)| file),
            asked: false,
            expired: 0,
            changes: 0,
            next: None,
            tick: None,
            wakeup: None,
        })
    }

    /// Says which ports there are.
    fn add_ports(&self, now: u64) {
        let gone: Vec<_> = self.switch.snapshot().ports().map(|port| port.number()).collect();
        let named = self.ports.iter().zip(&self.names).filter(|(_, name)| !name.starts_with('-'));
        for number in gone {
            if named.clone().all(|(port, _)| *port != number.0) {
                self.switch.remove_port(number, now);
            }
        }
        let before = self.switch.snapshot();
        for (number, name) in named {
            let name: String = name.chars().take(15).collect();
            // A link is not up because the configuration is another.
            let same = before.port(PortNumber(*number)).filter(|port| port.port.name == name);
            let state = same.map_or(PortState::LIVE, |port| port.port.state);
            let MacAddr(mut address) = self.address;
            let low = u16::from_be_bytes([address[4], address[5]]).wrapping_add(*number as u16);
            address[4..].copy_from_slice(&low.to_be_bytes());
            let port = Port {
                number: PortNumber(*number),
                address,
                name,
                config: PortConfig::default(),
                state,
                ethernet: None,
                others: Vec::new(),
            };
            self.switch.add_port(port, now);
        }
    }

    /// Begins to work, as there are packets: sets the timer, and has requests for counts wait for
    /// it.
    fn arm(&mut self, cx: &mut Context, now: u64) {
        if self.tick.is_none_or(|at| at > now + TICK_TIME) {
            self.set_tick(cx, now + TICK_TIME);
        }
        if !self.asked {
            self.asked = true;
            self.worker.set_working(true);
            cx.when_idle();
        }
    }

    fn set_tick(&mut self, cx: &mut Context, at: u64) {
        self.tick = Some(at);
        cx.set_timer(TICK, at);
    }

    /// Takes the switch and the exporter that its handle has now.
    #[inline]
    fn settle(&mut self) {
        if self.handle.changes() != self.changes {
            self.move_in();
        }
    }

    #[cold]
    fn move_in(&mut self) {
        self.changes = self.handle.changes();
        let switch = self.handle.switch();
        if !Arc::ptr_eq(&switch, &self.switch) {
            self.worker = switch.worker();
            let fast = FlowCache::new(&self.ports, self.options);
            self.fast = fast.with_tables(switch.snapshot());
            self.switch = switch;
            self.asked = false;
        }
        self.fast.set_exporter(self.handle.exporter());
    }

    /// Returns the time of the next tick.
    fn next_tick(&self, now: u64) -> Option<u64> {
        if self.asked || self.has_due(now) {
            return Some(now + TICK_TIME);
        }
        if self.fast.has_flows_to_export() {
            return Some(now + EXPIRE_TIME);
        }
        let waits = self.switch.shared_state().tracker.has_fragments();
        let is_known = self.fast.totals().entries > 0 || self.wakeup.is_some() || waits;
        let calm = is_known.then_some(now + CALM_TIME);
        // The controlling thread expires flows.
        let expires = self.next.filter(|_| self.wakeup.is_none());
        let expires = expires.map(|next| next.max(now + EXPIRE_TIME));
        [calm, expires].into_iter().flatten().min()
    }

    /// Returns true if a flow's time-out has passed: it expires, or counts of other workers are
    /// requested.
    fn has_due(&self, now: u64) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Serves requests of other threads to this worker.
    #[inline]
    fn attend(&mut self, cx: &mut Context, now: u64) {
        if self.worker.is_due() {
            self.fast.refresh(&*self.switch);
            self.fast.flush(now);
            self.worker.done();
        }
        if self.handle.is_controlled() {
            self.send_injected(cx, now);
        }
    }

    /// Sends packets of controllers.
    fn send_injected(&mut self, cx: &mut Context, now: u64) {
        for _ in 0..INJECTED {
            let Some(injection) = self.switch.next_injection() else { break };
            self.arm(cx, now);
            let Some(mut slot) = packet_of(cx, &injection.packet) else {
                cx.count_drops(Reason(Drop::Room), 1);
                continue;
            };
            if let Some(bytes) = cx.arena().packet_mut(&mut slot) {
                bytes.copy_from_slice(&injection.packet);
            }
            let what = (&injection.key, &injection.decision);
            self.fast.inject(&*self.switch, &mut Out(cx), slot, what, now);
        }
    }

    fn follow_links(&mut self, now: u64) {
        let Some(links) = &mut self.links else { return };
        if !links.has_news() {
            return;
        }
        links.down();
        for (port, is_up) in links.states() {
            let Some(number) = self.ports.get(port) else { continue };
            let state = if is_up { PortState::LIVE } else { PortState::LINK_DOWN };
            self.switch.set_port_state(PortNumber(*number), state, now);
        }
    }
}

/// Returns a packet as long as these bytes, which are not copied.
fn packet_of(cx: &mut Context, bytes: &[u8]) -> Option<linerate_memory::Slot> {
    if bytes.len() > cx.arena().room() {
        return None;
    }
    let mut slot = cx.pool.take_one(bytes.len())?;
    if let Some(meta) = cx.arena().meta_mut(&mut slot) {
        meta.reset();
    }
    Some(slot)
}

impl Element for FlowSwitch {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let now = cx.steady();
        self.settle();
        self.arm(cx, now);
        self.attend(cx, now);
        self.fast.process(&*self.switch, &mut Out(cx), port, frame, now);
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let now = cx.steady();
        self.tick = None;
        self.settle();
        self.attend(cx, now);
        self.fast.tick(now);
        if self.is_first && (self.has_due(now) || now.saturating_sub(self.expired) >= EXPIRE_TIME) {
            self.expired = now;
            self.follow_links(now);
            self.next = self.switch.expire(now, EXPIRED);
            self.switch.expire_hosts(now);
            self.switch.shared_state().tracker.expire(now);
        }
        let tracker = &self.switch.shared_state().tracker;
        tracker.expire_fragments(now);
        let lost = tracker.take_lost_fragments();
        if lost > 0 {
            cx.count_drops(Reason(Drop::Fragment), lost as usize);
        }
        if let Some(at) = self.next_tick(now) {
            self.set_tick(cx, at);
        }
    }

    /// Sends packets of controllers.
    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        let Some(wakeup) = &self.wakeup else { return Next::Sleep };
        wakeup.clear();
        let now = cx.steady();
        self.settle();
        self.attend(cx, now);
        Next::Wait
    }

    fn wake(&mut self) -> Wake<'_> {
        self.wakeup.as_ref().map_or(Wake::Never, |wakeup| Wake::Fd(wakeup.as_fd(), Interest::Read))
    }

    fn idle(&mut self, cx: &mut Context) {
        self.asked = false;
        self.fast.flush(cx.steady());
        self.worker.set_working(false);
    }

    fn off_worker(&self) -> Option<Arc<dyn OffWorker>> {
        Some(Arc::new(Connections(Arc::clone(&self.handle))))
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let now = cx.steady();
        if self.is_first {
            self.handle.set_time(now);
            self.add_ports(now);
            if self.handle.is_controlled() {
                let wakeup = Arc::new(Wakeup::new().map_err(|error| error.to_string())?);
                self.handle.set_wakeup(&wakeup);
                self.wakeup = Some(wakeup);
                cx.schedule();
                self.set_tick(cx, now + CALM_TIME);
            }
        }
        if let Some(file) = self.file.as_ref().filter(|_| !self.handle.is_restored()) {
            let text = fs::read_to_string(file).map_err(|error| error.to_string());
            text.and_then(|text| change::add_flows(&self.switch, &text, now))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<FlowSwitch>() else { return };
        let now = cx.steady();
        old.fast.flush(now);
        old.worker.set_working(false);
        let switch = old.handle.switch();
        if switch.options().tables == self.switch.options().tables {
            // A replica on a worker that had none before takes nothing over: it sees that its
            // handle has changed.
            self.handle.adopt(&switch);
            self.settle();
            self.add_ports(now);
        }
        self.handle.settle();
    }

    fn close(&mut self, cx: &mut Context) {
        self.fast.flush(cx.steady());
        self.fast.set_exporter(None);
        self.worker.set_working(false);
        self.handle.settle();
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let now = cx.steady();
        self.settle();
        self.fast.flush(now);
        let counts = self.fast.counts();
        Ok(match handler {
            "cache" => {
                let mut entries: Vec<_> = self.fast.entries().collect();
                entries.sort_by_key(|shown| std::cmp::Reverse(shown.packets));
                entries.iter().map(|entry| dump::entry(entry, now)).collect()
            }
            "cache_count" => self.fast.totals().entries.to_string(),
            "hits" => (counts.frame_hits + counts.found + counts.searched).to_string(),
            "misses" => counts.decided.to_string(),
            "refused" => counts.refused.to_string(),
            "flows" => {
                // Its counts are added above; a worker that waits for others is not waited for.
                self.worker.set_working(false);
                let flows = change::flows(&self.switch, parameter, now);
                self.worker.set_working(self.asked);
                flows.map_err(HandlerError::refused)?
            }
            "trace" => {
                let worker = (cx.worker(), self.is_first);
                trace::trace(&self.switch, &self.names, parameter, &self.fast, worker, now)
                    .map_err(HandlerError::refused)?
            }
            "version" => self.switch.version().to_string(),
            "ports" => {
                let snapshot = self.switch.snapshot();
                let line = |port: &Arc<linerate_ofswitch::table::SwitchPort>| {
                    let count = |count| port.counters.get(count);
                    format!(
                        "{} {} {} {} {} {}\n",
                        port.number().0,
                        port.port.name,
                        count(PortCount::Received),
                        count(PortCount::ReceivedBytes),
                        count(PortCount::Sent),
                        count(PortCount::SentBytes),
                    )
                };
                snapshot.ports().map(line).collect()
            }
            _ => return Err(HandlerError::missing(handler)),
        })
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let now = cx.steady();
        self.settle();
        if handler == "cache_clear" {
            self.fast.clear(now);
            return Ok(String::new());
        }
        // All replicas are written to, and one does it.
        if !self.is_first {
            return Ok(String::new());
        }
        let switch = &self.switch;
        let value = change::without_quotes(value);
        let done = match handler {
            "add_flow" => change::add_flows(switch, value, now),
            "mod_flows" => change::change_flows(switch, value, FlowModCommand::Modify, now),
            "del_flows" => change::change_flows(switch, value, FlowModCommand::Delete, now),
            "replace" => change::replace(switch, value, now),
            "add_group" => change::add_groups(switch, value, now),
            "add_meter" => change::add_meters(switch, value, now),
            _ => return Err(HandlerError::missing(handler)),
        };
        done.map_err(HandlerError::refused)?;
        if self.tick.is_none() {
            self.set_tick(cx, now + TICK_TIME);
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests;
