//! `InlineConsumer`: has a program decide about packets.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_cluster::{Access, Broker, DrainResult, Granted, InlineConfig, InlineHandle};
use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Next, Right, Role, Word,
};
use linerate_memory::Frame;
use linerate_port::{Interest, Wake};

use super::{
    FAMILY,
    access::{self, ACCESS, CELLS},
    place::{BrokerState, Expected, broker},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// the program says so
    Denied,
    /// no program attached
    Absent,
    /// the program does not answer
    Silent,
    /// no room for more that wait
    Full,
}

/// Most packets that wait, most flows, and the longest time.
const QUEUE_LIMIT: usize = 1 << 20;
const FLOWS_LIMIT: usize = 1 << 24;
const TIME_LIMIT: Duration = Duration::from_secs(3600);
/// Interval of checks for answers whose wake-up another worker may have taken.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

pub(super) const CLASS: Class = Class {
    name: "InlineConsumer",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "asks a program about each packet, which passes, is changed or dropped",
    description: "A program attaches as `NAME` at the [ClusterSocket](ClusterSocket.md), gets each packet, \
        and says whether it passes or is dropped, and whether that holds from now on for all of its flow, \
        in both directions, of which it is not asked then (`Consumer::answer` of the client library; to send \
        a packet back says that it passes, to give it back that it is dropped). With `ACCESS write` it may \
        change packets, without a copy. With `ACCESS isolated`, and with `ACCESS write` if it has fewer \
        rights than this program, it gets copies in memory of its own, and the packet that it sends back \
        replaces the original.\n\n\
        A packet without an answer after `LIMIT` passes with `FAIL open` and is dropped with `FAIL \
        closed`. Behind that the program is not asked until it says something again: packets pass, or are \
        dropped, at once. So they are while nobody is attached, and those that the program has too many \
        others for, `CELLS`. What it says too late is counted and of no effect: no packet leaves twice.\n\n\
        Packets leave in the order they came in, so one that waits holds up those behind it, for `LIMIT` at \
        most. `QUEUE` of them wait at most, or two frames where those are more. With `FAIL open`, when half as many wait, the oldest pass; \
        with `FAIL closed` those that have no place are dropped.\n\n\
        `FLOWS` flows are remembered at most, and at least for `FLOW_TIME` from their last packet on \
        unless there are more. They stay when the program goes; `forget` forgets them.",
    ports: "1/1",
    processing: "h/h",
    args: &[
        Arg::required("NAME", "name", "what the program attaches as"),
        Arg::keyword("LIMIT", "time", "10ms", "how long a packet waits for an answer"),
        Arg::keyword("FAIL", "open or closed", "closed", "whether packets without an answer pass"),
        ACCESS,
        CELLS.holds(),
        Arg::keyword("QUEUE", "packets", "2048", "most packets that wait").holds(),
        Arg::keyword("FLOWS", "flows", "65536", "most flows that are remembered"),
        Arg::keyword("FLOW_TIME", "time", "60s", "how long a flow without packets is"),
    ],
    handlers: &[
        Handler::read("count", "packets that came in"),
        Handler::read("passed", "packets that the program let pass, or whose flows it did"),
        Handler::read("denied", "packets that the program had dropped, or whose flows it did"),
        Handler::read(
            "unanswered",
            "packets it was asked about and did not answer for in time, or with a packet that there was no buffer for",
        ),
        Handler::read(
            "unasked",
            "packets it was not asked about, for it was not there or not ready",
        ),
        Handler::read("late", "answers that came too late"),
        Handler::read("waiting", "packets that wait now"),
        Handler::read("flows", "flows that are remembered now"),
        Handler::read("process", "the program's process, or -"),
        Handler::button("forget", "forgets all flows"),
    ],
    drops: Reason::REASONS,
    role: Role::Io,
    external_input: true,
    cost: "Two locks per frame, eight bytes written and read per packet, and what a flow is called, \
        unless `FLOWS` is 0. With `ACCESS write` and `FAIL open` a copy of each packet is kept, with \
        `ACCESS isolated` there are two copies.",
    example: "ClusterSocket(@linerate-example-inline); \
        InfiniteSource(LIMIT 10) -> InlineConsumer(ids, FAIL open) -> Discard; \
        DriverManager(wait 10ms, stop);",
    make: |make| Box::new(InlineConsumer::new(make)),
    ..Class::here()
};

struct InlineConsumer {
    name: String,
    granted: Granted,
    terms: InlineConfig,
    expected: Option<Expected>,
    asks: Option<(Arc<Broker>, InlineHandle)>,
    /// When the first that waits has waited for long enough.
    due: Option<Instant>,
    packets: u64,
}

impl InlineConsumer {
    fn new(make: &mut ElementBuilder<'_>) -> InlineConsumer {
        let Word(name) = make.need("NAME");
        let word = make.get::<Word>("FAIL").map_or_else(|| "closed".into(), |Word(word)| word);
        if word != "open" && word != "closed" {
            make.error("FAIL: `open` or `closed`");
        }
        let time = |make: &mut ElementBuilder<'_>, name: &str, default| {
            let time = make.or::<Duration>(name, default);
            if time > TIME_LIMIT {
                make.error(format!("{name}: at most an hour"));
            }
            time
        };
        let (most, flows) = (make.or("QUEUE", 2048), make.or("FLOWS", 1 << 16));
        if !(2..=QUEUE_LIMIT).contains(&most) {
            make.error(format!("QUEUE: must be between 2 and {QUEUE_LIMIT}"));
        }
        if flows > FLOWS_LIMIT {
            make.error(format!("FLOWS: at most {FLOWS_LIMIT}"));
        }
        // A frame is to find a place while those of another leave.
        let most = most.max(2 * make.world.frame_limit);
        let limit = time(make, "LIMIT", Duration::from_millis(10));
        let flow_time = time(make, "FLOW_TIME", Duration::from_secs(60));
        let granted =
            Granted { access: access::parse(make, Access::Read), cells: access::cells(make) };
        let place = make.world.common::<BrokerState>();
        place.grant(make.name(), vec![(name.clone(), granted.access)]);
        InlineConsumer {
            name,
            granted,
            expected: Some(Expected::new(make)),
            terms: InlineConfig { limit, open: word == "open", most, flows, flow_time },
            asks: None,
            due: None,
            packets: 0,
        }
    }

    fn count_refused(cx: &mut Context, settled: &DrainResult) {
        let refused = settled.refused;
        for (reason, count) in [
            (Reason::Denied, refused.denied),
            (Reason::Absent, refused.absent),
            (Reason::Silent, refused.silent),
            (Reason::Full, refused.full),
        ] {
            if count > 0 {
                cx.count_drops(reason, count);
            }
        }
    }
}

impl Element for InlineConsumer {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let broker = broker(&Arc::clone(cx.world()))?;
        let access = cx.world().common::<BrokerState>().granted(&self.name);
        let granted = Granted { access, ..self.granted };
        let asks = InlineHandle::new(&broker, &self.name, granted, self.terms)?;
        self.asks = Some((broker, asks));
        self.expected = None;
        cx.schedule();
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.packets += frame.len() as u64;
        if let Some((broker, asks)) = &self.asks {
            broker.dispatcher().ask(asks, &mut cx.pool, frame);
        }
        if !frame.is_empty() {
            cx.drop_frame(frame, Reason::Full);
        }
        cx.schedule();
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let Some((broker, asks)) = &self.asks else { return Next::Sleep };
        let settled = broker.dispatcher().drain(asks, &mut cx.pool, frame);
        self.due = settled.due;
        Self::count_refused(cx, &settled);
        if settled.more || !frame.is_empty() { Next::Again } else { Next::Idle }
    }

    fn wake(&mut self) -> Wake<'_> {
        Wake::Never
    }

    fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        let Some((broker, asks)) = &self.asks else { return };
        if let Some(due) = self.due {
            add(Wake::At(if asks.others() > 0 {
                due.min(Instant::now() + LOOK_AGAIN)
            } else {
                due
            }));
        }
        asks.events().forget();
        if broker.dispatcher().arm(asks.endpoint()) {
            add(Wake::Fd(std::os::fd::AsFd::as_fd(asks.events()), Interest::Read));
        } else {
            add(Wake::Now);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<InlineConsumer>() else { return };
        self.packets += old.packets;
        if let (Some((_, asks)), Some((_, before))) = (&mut self.asks, &mut old.asks) {
            asks.take_over(before);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        let Some((_, asks)) = self.asks.take() else { return };
        let waiting = asks.waiting();
        if waiting > 0 {
            cx.count_drops(Reason::Full, waiting);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let (_, asks) = self.asks.as_ref().ok_or_else(|| HandlerError::missing(handler))?;
        let of = asks.figures();
        let number = match handler {
            "count" => self.packets,
            "passed" => of.passed,
            "denied" => of.denied,
            "unanswered" => of.unanswered,
            "unasked" => of.unasked,
            "late" => of.late,
            "waiting" => asks.waiting() as u64,
            "flows" => asks.flows() as u64,
            "process" if of.state == 0 => return Ok("-".into()),
            "process" => of.process,
            _ => return Err(HandlerError::missing(handler)),
        };
        Ok(number.to_string())
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match (handler, &self.asks) {
            ("forget", Some((_, asks))) => asks.forget(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
