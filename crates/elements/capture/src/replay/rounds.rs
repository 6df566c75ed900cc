//! Reading packets, and the rounds in which they are sent.

use linerate_element_support::handler_values::{boolean_or, integer};
use linerate_graph::{Context, ElementBuilder, HandlerError, HandlerResult, Next};
use linerate_memory::{Frame, Slot};

use super::{Reason, recording::Recording};

const SECOND: u64 = 1_000_000_000;
/// Default of `CAPACITY`.
const CAPACITY: usize = 1 << 30;

/// The packets of an element, and how often they are still to be sent.
pub(super) struct Rounds {
    /// Rounds left; no end below zero.
    pub(super) stop: i32,
    /// Seconds after which no round is begun; no limit up to zero.
    pub(super) stop_time: i32,
    verbose: bool,
    /// Most packets kept; no limit below zero.
    limit: i32,
    /// Most bytes kept.
    capacity: usize,
    pub(super) active: bool,
    /// Whether inputs that may have more are waited for.
    waits: bool,
    pub(super) recording: Recording,
    /// While reading: the oldest packet of each input.
    heads: Vec<Option<Slot>>,
    loading: bool,
    pub(super) loaded: bool,
    /// The next packet.
    next: usize,
    /// When the round began, in steady time.
    pub(super) began: u64,
    /// When the first one did.
    started: Option<u64>,
}

impl Rounds {
    pub(super) fn new(make: &mut ElementBuilder<'_>) -> Rounds {
        // Accepted, if they are what they should be.
        let _: (Option<bool>, Option<bool>) =
            (make.get("QUICK_CLONE"), make.get("FREEONTERMINATE"));
        Rounds {
            stop: make.or("STOP", -1),
            stop_time: make.or("STOP_TIME", 0),
            verbose: make.or("VERBOSE", false),
            limit: make.or("LIMIT", -1),
            capacity: make.or("CAPACITY", CAPACITY),
            active: make.or("ACTIVE", true),
            waits: make.or("USE_SIGNAL", false),
            recording: Recording::default(),
            heads: (0..make.inputs()).map(|_| None).collect(),
            loading: false,
            loaded: false,
            next: 0,
            began: 0,
            started: None,
        }
    }

    /// Whether no more packets are read.
    fn is_full(&self) -> bool {
        self.recording.memory() >= self.capacity
            || usize::try_from(self.limit).is_ok_and(|limit| self.recording.len() >= limit.max(1))
    }

    /// Reads packets until an input has no more, and says whether it has them
    /// all; if not, there may be more later.
    pub(super) fn load(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        if !self.loading {
            self.loading = true;
            let text = format!("Loading {} with {} inputs.\n", cx.name(), self.heads.len());
            cx.console().report(&text);
        }
        let mut dry = None;
        while dry.is_none() {
            for input in 0..self.heads.len() {
                if self.heads[input].is_none() {
                    cx.pull(input, 1, frame);
                    self.heads[input] = frame.pop();
                }
                if self.heads[input].is_none() {
                    if self.waits && cx.nothing_pulled() != Next::Sleep {
                        return false;
                    }
                    dry = Some(input);
                    break;
                }
            }
            if dry.is_some() {
                break;
            }
            let arena = cx.pool.arena();
            let time = |head: &Option<Slot>| head.as_ref().map(|slot| arena.meta(slot).timestamp);
            let oldest = (0..self.heads.len()).min_by_key(|input| time(&self.heads[*input]));
            if let Some(input) = oldest
                && let Some(slot) = self.heads[input].take()
            {
                self.recording.add(arena, &slot, input as u8);
                cx.pool.give_one(slot);
            }
            if self.is_full() {
                break;
            }
        }
        let dry = dry.map_or(-1, |input| input as i32);
        let count = self.recording.len();
        cx.console().report(&format!(
            "{} : Successfully loaded {count} packets. Input {dry} dried out.\n",
            cx.name()
        ));
        for slot in self.heads.iter_mut().filter_map(Option::take) {
            cx.drop_packet(slot, Reason::LeftOver);
        }
        (self.loaded, self.loading) = (true, false);
        self.begin(cx);
        true
    }

    /// Begins a round.
    fn begin(&mut self, cx: &Context) {
        (self.next, self.began) = (0, cx.steady());
        self.started.get_or_insert(self.began);
    }

    /// Ends the run.
    pub(super) fn end(&mut self, cx: &mut Context) {
        cx.driver.stop();
        self.active = false;
        self.started = None;
    }

    /// The number of the next packet, unless the round is over.
    pub(super) fn next(&self) -> Option<usize> {
        (self.next < self.recording.len()).then_some(self.next)
    }

    /// Packets of this round that have not been sent, or of the one that follows it.
    pub(super) fn left(&self) -> usize {
        match self.recording.len() - self.next.min(self.recording.len()) {
            _ if !self.active || !self.loaded || self.stop == 0 => 0,
            0 if self.stop != 1 => self.recording.len(),
            left => left,
        }
    }

    /// The next packet, in a buffer of its own. `None` when no buffer is free, and at the end of
    /// the round.
    pub(super) fn packet(&self, cx: &mut Context) -> Option<Slot> {
        self.recording.packet(cx, self.next)
    }

    /// The next packet has been sent, or dropped because there was no buffer for it.
    pub(super) fn pass(&mut self, cx: &Context, is_sent: bool) {
        self.next += 1;
        if !is_sent {
            cx.count_drops(Reason::NoBuffer, 1);
        }
    }

    /// Begins the next round where there is one, and returns whether there is.
    pub(super) fn go_on(&mut self, cx: &Context) -> bool {
        self.begin(cx);
        self.has_another(cx)
    }

    /// A round is over: whether there is another.
    fn has_another(&mut self, cx: &Context) -> bool {
        let class = cx.plan().elements[cx.element()].class.name;
        let name = format!("{} :: {class}", cx.name());
        let say = |text: String| {
            if self.verbose {
                cx.console().report(&text);
            }
        };
        let left = self.stop;
        if self.stop_time <= 0 {
            say(format!("{name}: Replay loop ({left} loops left)\n"));
            self.stop -= i32::from(left > 0);
            if self.stop == 0 {
                say(format!("{name}: stopped because there is 0 loops left\n"));
            }
            return self.stop != 0;
        }
        let past = self.seconds(cx);
        let limit = self.stop_time;
        if past >= i64::from(limit) {
            say(format!("Replay stopped after {past} seconds ({left} loops left)\n"));
            return false;
        }
        say(format!("{name}: continue after {past}/{limit} seconds ({left} loops left)\n"));
        self.stop -= i32::from(left > 0);
        if self.stop == 0 {
            say(format!(
                "{name}: stopped early after {past}/{limit} seconds because there is 0 loops left\n"
            ));
        }
        self.stop != 0
    }

    /// Seconds since the first packet was sent.
    pub(super) fn seconds(&self, cx: &Context) -> i64 {
        let since = self.started.unwrap_or_else(|| cx.steady());
        (cx.steady().saturating_sub(since) / SECOND) as i64
    }

    pub(super) fn close(&mut self, cx: &mut Context) {
        for slot in self.heads.iter_mut().filter_map(Option::take) {
            cx.pool.give_one(slot);
        }
    }

    pub(super) fn read(&self, handler: &str) -> HandlerResult {
        match handler {
            "active" => Ok(self.active.to_string()),
            "loaded" => Ok(self.loaded.to_string()),
            "stop" => Ok(self.stop.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    pub(super) fn write(
        &mut self,
        cx: &Context,
        handler: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match handler {
            "active" => {
                self.active = boolean_or(value, "type mismatch")?;
                self.began = cx.steady();
            }
            "reset" => {
                self.recording = Recording::default();
                self.loaded = false;
            }
            "stop" => self.stop = integer(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(())
    }
}
