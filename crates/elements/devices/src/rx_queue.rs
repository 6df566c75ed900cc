//! The receiving half of an element on a port: its queues, its counts, its wake-ups, and failures
//! of the port.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_graph::{
    Context, ElementBuilder, Handler, HandlerError, HandlerResult, Merge, Replica,
};
use linerate_linux::files::ReadGuard;
use linerate_memory::{Frame, Meta, PacketMut};
use linerate_packet::MacAddr;
use linerate_port::{Counts, DropReason, LeasedPort, PortError, PortInfo, PortUri, Receive, Wake};

use super::port_users::{PortUsers, Sharing};
use linerate_element_support::{annotations::packet_type, links::Links, template::stamp};

/// Time until a queue that another element still has is requested again.
const RETRY: Duration = Duration::from_millis(1);

/// Annotations to set on received packets, if any element reads them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Notes {
    /// When they came.
    pub(super) time: bool,
    /// Packet types: their link-layer destination.
    pub(super) types: bool,
}

/// Handlers for the link of an element's port. Those of several workers return the same.
pub(super) const LINK: [Handler; 3] = [
    Handler::read("link", "whether the other end is there: a peer, or what is behind a cable"),
    Handler::read("link_changes", "how often the link went up or down").merged(Merge::Max),
    Handler::read("link_detail", "who the other end is, or why it is not there"),
];

pub(super) struct RxQueue {
    uri: PortUri,
    replica: Replica,
    port: Option<Arc<LeasedPort>>,
    /// Keeps elements here from overwriting a file that the port reads. It is there from the start:
    /// other elements open theirs in an order of their own.
    _guard: Option<ReadGuard>,
    sides: Vec<Side>,
    /// Its number among the sharers of the port's queues, and their number.
    place: (usize, usize),
    /// Whether its queues are at hand.
    attached: bool,
    /// The queue to look at first.
    next: usize,
    /// Most packets received at a time.
    burst: usize,
    /// Annotations to set.
    wanted: Notes,
    /// Set if some element reads annotations.
    annotated: bool,
    /// Those that the port leaves to be set here; `None` for nothing.
    missing: Option<Missing>,
    /// Packets of its queues, up to the counts they were seen at.
    packets: u64,
    bytes: u64,
    /// Counts at the last reset.
    reset: (u64, u64),
    drops: [u64; DropReason::ALL.len()],
}

struct Side {
    queue: usize,
    receive: Box<dyn Receive>,
    /// Its counts when they were last looked at.
    seen: Counts,
}

/// Annotations to set on packets that have come.
#[derive(Debug, Clone, Copy, Default)]
struct Missing {
    /// Whether nothing is noted yet.
    begin: bool,
    time: bool,
    /// Whether to note how they were addressed, by their destination.
    types: bool,
    /// The port's own address.
    own: Option<MacAddr>,
}

impl RxQueue {
    pub(super) fn new(
        make: &mut ElementBuilder<'_>,
        uri: PortUri,
        burst: usize,
        wanted: Notes,
    ) -> RxQueue {
        RxQueue::shared(make, uri, burst, wanted, Sharing::Apart)
    }

    /// Makes one that may share the port's queues with others.
    pub(super) fn shared(
        make: &mut ElementBuilder<'_>,
        uri: PortUri,
        burst: usize,
        wanted: Notes,
        sharing: Sharing,
    ) -> RxQueue {
        let replica = make.replica();
        make.world.common::<PortUsers>().receives(&uri, make.element(), replica, sharing);
        let file = (uri.driver() == "pcap").then(|| Path::new(uri.name()));
        RxQueue {
            _guard: file.and_then(ReadGuard::of_input),
            uri,
            replica,
            port: None,
            sides: Vec::new(),
            place: (replica.index, replica.count),
            attached: false,
            next: 0,
            burst,
            wanted: Notes { types: wanted.types && make.world.types, ..wanted },
            annotated: make.world.annotated,
            missing: None,
            packets: 0,
            bytes: 0,
            reset: (0, 0),
            drops: Default::default(),
        }
    }

    pub(super) fn uri(&self) -> &PortUri {
        &self.uri
    }

    pub(super) fn port(&self) -> Option<&LeasedPort> {
        self.port.as_deref()
    }

    /// Opens the port.
    pub(super) fn open(&mut self, cx: &mut Context) -> Result<(), String> {
        let world = Arc::clone(cx.world());
        let share = world.common::<PortUsers>().receiver(&self.uri, cx.element(), self.replica);
        let (port, opened) = share.open(&self.uri, &world, LeasedPort::receives, "received from");
        self.port = Some(port);
        self.place = (share.number, share.users);
        opened?;
        announce(cx, self.port());
        self.attach();
        Ok(())
    }

    /// Takes the queues that are this replica's.
    fn attach(&mut self) {
        let Some(port) = self.port.as_ref().filter(|port| !port.is_lost()) else { return };
        let held = |sides: &[Side], queue| sides.iter().any(|side: &Side| side.queue == queue);
        let mut all = true;
        let (first, step) = self.place;
        for queue in (first..port.receives()).step_by(step) {
            if held(&self.sides, queue) {
                continue;
            }
            match port.take_receive(queue) {
                Some(receive) => {
                    let seen = receive.counters().read();
                    self.sides.push(Side { queue, receive, seen });
                }
                None => all = false,
            }
        }
        let missing = port.info().and_then(|info| self.wanted.missing(&info, self.annotated));
        self.missing = missing;
        self.attached = all;
    }

    /// Receives into `frame`; a failure has been dealt with.
    #[inline]
    pub(super) fn receive(&mut self, cx: &mut Context, frame: &mut Frame) -> usize {
        let received = match &mut self.sides[..] {
            [side] if self.attached && frame.limit() <= self.burst => {
                side.receive.receive(&mut cx.pool, frame).map(|_| ())
            }
            _ => self.receive_apart(cx, frame),
        };
        if let Err(error) = received {
            self.failed(cx, &error);
        }
        if let Some(missing) = &self.missing
            && !frame.is_empty()
        {
            missing.note(cx, frame);
        }
        frame.len()
    }

    /// Receives from several queues, or less than fits.
    #[inline(never)]
    fn receive_apart(&mut self, cx: &mut Context, frame: &mut Frame) -> Result<(), PortError> {
        if !self.attached {
            self.attach();
        }
        let limit = frame.limit();
        frame.set_limit(limit.min(self.burst));
        let received = self.receive_in_turn(cx, frame);
        frame.set_limit(limit);
        received
    }

    fn receive_in_turn(&mut self, cx: &mut Context, frame: &mut Frame) -> Result<(), PortError> {
        for _ in 0..self.sides.len() {
            let at = if self.next < self.sides.len() { self.next } else { 0 };
            self.sides[at].receive.receive(&mut cx.pool, frame)?;
            self.next = at + 1;
            if frame.room() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Gives the port back after a failure: an interface that has gone may come back.
    #[cold]
    #[inline(never)]
    fn failed(&mut self, cx: &mut Context, error: &PortError) {
        report_failure(cx, self.port.as_deref(), error);
        self.give_back(cx);
    }

    /// Returns true if no packets will ever come again.
    pub(super) fn ended(&self) -> bool {
        self.attached && self.sides.iter().all(|side| side.receive.ended())
    }

    pub(super) fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        if !self.attached {
            add(Wake::At(Instant::now() + RETRY));
        }
        self.sides.iter_mut().for_each(|side| add(side.receive.wake()));
    }

    /// Brings drop counters up to date; looks after a port that was lost.
    pub(super) fn tick(&mut self, cx: &mut Context) {
        let is_lost = self.port().is_some_and(LeasedPort::is_lost);
        if is_lost {
            self.give_back(cx);
            self.reopen(cx);
        }
        self.sides.iter_mut().for_each(|side| side.receive.refresh());
        self.settle(cx);
    }

    #[cold]
    fn reopen(&mut self, cx: &mut Context) {
        let world = Arc::clone(cx.world());
        let share = world.common::<PortUsers>().receiver(&self.uri, cx.element(), self.replica);
        let Some(port) = &self.port else { return };
        if port.open(&share.context(&world.ports)).is_ok() && !port.is_lost() {
            report_return(cx, port);
            self.attach();
        }
    }

    /// Adds the queues' counts since the last look. The queues are this element's alone.
    fn settle(&mut self, cx: &Context) {
        for side in &mut self.sides {
            let now = side.receive.counters().read();
            self.packets += now.packets - side.seen.packets;
            self.bytes += now.bytes - side.seen.bytes;
            add_drops(cx, &mut self.drops, &mut side.seen, now);
        }
    }

    fn give_back(&mut self, cx: &mut Context) {
        self.settle(cx);
        let Some(port) = &self.port else { return };
        for side in self.sides.drain(..) {
            port.give_receive(side.queue, side.receive, &mut cx.pool);
        }
        self.attached = false;
    }

    /// Continues the counts of the predecessor.
    pub(super) fn take_state(&mut self, cx: &Context, old: &mut RxQueue) {
        old.settle(cx);
        self.packets += old.packets;
        self.bytes += old.bytes;
        self.reset = (self.reset.0 + old.reset.0, self.reset.1 + old.reset.1);
        self.drops.iter_mut().zip(old.drops).for_each(|(drops, old)| *drops += old);
    }

    pub(super) fn close(&mut self, cx: &mut Context) {
        self.sides.iter_mut().for_each(|side| side.receive.refresh());
        self.give_back(cx);
        if let Some(port) = self.port.take() {
            leave(cx, &port);
        }
    }

    pub(super) fn reset_counts(&mut self, cx: &Context) {
        self.settle(cx);
        self.reset = (self.packets, self.bytes);
    }

    /// Returns the packets and bytes received.
    pub(super) fn received(&mut self, cx: &Context) -> (u64, u64) {
        let (packets, bytes) = self.ever(cx);
        (packets - self.reset.0, bytes - self.reset.1)
    }

    /// Likewise, without resets.
    pub(super) fn ever(&mut self, cx: &Context) -> (u64, u64) {
        self.settle(cx);
        (self.packets, self.bytes)
    }

    /// Drops of the port for a reason.
    pub(super) fn dropped_for(&mut self, cx: &mut Context, reason: DropReason) -> u64 {
        self.tick(cx);
        self.drops[reason as usize]
    }

    /// Takes packets and bytes out of the counts, which are not wanted.
    pub(super) fn uncount(&mut self, cx: &Context, (packets, bytes): (u64, u64)) {
        self.settle(cx);
        self.packets -= packets;
        self.bytes -= bytes;
    }

    /// The counts, a line each.
    pub(super) fn counters(&mut self, cx: &mut Context) -> String {
        self.tick(cx);
        let (packets, bytes) = self.received(cx);
        counters_text(packets, bytes, &self.drops)
    }
}

impl Notes {
    /// Returns those that a port does not set, when packets are `annotated`.
    fn missing(self, port: &PortInfo, annotated: bool) -> Option<Missing> {
        let noted = port.stamps || port.types;
        let missing = Missing {
            begin: annotated && !noted,
            time: self.time && !port.stamps,
            types: self.types && !port.types && port.uri.driver() != "tun",
            // Packets of this machine's stack to one station are for us.
            own: port.mac.filter(|_| port.uri.driver() != "tap"),
        };
        (missing.begin || missing.time || missing.types).then_some(missing)
    }
}

impl Missing {
    #[inline(never)]
    fn note(&self, cx: &mut Context, frame: &mut Frame) {
        if self.begin {
            cx.begin_packets(frame);
        }
        if self.time {
            stamp(cx, frame);
        }
        if self.types {
            self.note_types(cx, frame);
        }
    }

    /// Sets packet types. A packet without a type counts as for this host, so where the port has no
    /// address of its own that is left as it is.
    fn note_types(&self, cx: &Context, frame: &mut Frame) {
        let arena = cx.pool.arena();
        match self.own {
            None => arena.edit_packets(frame, |packet| note_type(packet, None)),
            own => arena.edit_packets(frame, |packet| note_type(packet, own)),
        }
    }
}

#[inline(always)]
fn note_type(packet: &mut PacketMut<'_>, own: Option<MacAddr>) {
    let (bytes, meta) = packet.parts();
    let Some(destination) = bytes.first_chunk() else { return };
    let kind = packet_type(MacAddr(*destination), own);
    if own.is_some() || kind != Meta::TO_HOST {
        meta.packet_type = kind;
    }
}

/// Tells the graph of the link of an element's port.
pub(super) fn announce(cx: &Context, port: Option<&LeasedPort>) {
    if let Some(port) = port {
        Links::opened(cx.world(), cx.element(), port.link());
    }
}

/// Reads the handlers of a port's link.
pub(super) fn read_link(port: Option<&LeasedPort>, handler: &str) -> HandlerResult {
    let link = port.map(LeasedPort::link);
    match handler {
        "link" => Ok(link.is_some_and(|link| link.is_up()).to_string()),
        "link_changes" => Ok(link.map_or(0, |link| link.changes()).to_string()),
        "link_detail" => Ok(link.map(|link| link.detail()).unwrap_or_default()),
        _ => Err(HandlerError::missing(handler)),
    }
}

/// Reports a failure; ends the run unless the port can come back.
#[cold]
pub(super) fn report_failure(cx: &mut Context, port: Option<&LeasedPort>, error: &PortError) {
    let name = cx.name().to_owned();
    let comes_back = error.comes_back();
    match port {
        Some(port) if comes_back => {
            if !port.is_lost() {
                cx.console().report(&format!("{name}: {error}; waiting for it to come back\n"));
            }
            port.lose();
        }
        _ => fail(cx, &format!("{name}: {error}")),
    }
}

/// Fails the run. It ends with the first reason; the others are reported, so that each is printed
/// once.
fn fail(cx: &Context, reason: &str) {
    if !cx.driver.fail(reason) {
        cx.console().report(&format!("{reason}\n"));
    }
}

pub(super) fn report_return(cx: &Context, port: &LeasedPort) {
    cx.console().report(&format!("{}: {}: open again\n", cx.name(), port.uri()));
}

/// Leaves a port; packets that could not be sent at the end are a failure of the run.
pub(super) fn leave(cx: &mut Context, port: &LeasedPort) {
    if let Err(error) = port.leave(&mut cx.pool) {
        fail(cx, &format!("{}: {error}", cx.name()));
    }
}

/// Adds the drops of a port since the last look.
pub(super) fn add_drops(
    cx: &Context,
    drops: &mut [u64; DropReason::ALL.len()],
    seen: &mut Counts,
    now: Counts,
) {
    let since = now - *seen;
    *seen = now;
    for ((reason, dropped), sum) in DropReason::ALL.into_iter().zip(since.drops).zip(drops) {
        if dropped > 0 {
            *sum += dropped;
            cx.count_drops(reason, dropped as usize);
        }
    }
}

pub(super) fn counters_text(
    packets: u64,
    bytes: u64,
    drops: &[u64; DropReason::ALL.len()],
) -> String {
    let mut text = format!("packets {packets}\nbytes {bytes}");
    for (reason, dropped) in DropReason::ALL.into_iter().zip(drops) {
        text.push_str(&format!("\n{} {dropped}", reason.name()));
    }
    text
}
