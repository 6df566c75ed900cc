//! `ReplayUnqueue`: reads packets once, and sends them again and again.
//!
//! Not in Click; in `FastClick`, whose defaults, messages and handlers these are.
//! Packets are kept outside of the arena, so that a capture may be larger than
//! that, and every one that is sent has a buffer of its own.

use linerate_graph::{
    Arguments, Class, Context, Element, Handler, HandlerError, HandlerResult, Next,
};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_kit::written::{boolean_or, integer};

mod recording;

use recording::Recording;

/// Drop reasons.
const NO_BUFFER: usize = 0;
const LEFT_OVER: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "ReplayUnqueue",
    family: FAMILY,
    summary: "pulls packets until there are no more, and then sends them again and again",
    description: "Of several inputs the packet with the oldest timestamp is next, painted with the \
        number of its input; when one has no more packets, that is the end. Packets are then sent by \
        output 0, `STOP` times, after which the run ends. `TIMING` is the pace in hundredths: 100 \
        sends packets as far apart as their timestamps are, 200 twice as fast; 0 as fast as \
        possible. A function for it (FastClick's `TIMING_FNT`) there is not.",
    ports: "1-/=",
    processing: "l/h",
    flow: "#/#",
    handlers: &[
        Handler::value("active", "whether it works"),
        Handler::button("reset", "forgets the packets, and reads new ones"),
        Handler::read("loaded", "whether all packets have been read"),
        Handler::value("stop", "how often packets are still to be sent"),
        Handler::value("timing", "pace, of the timestamps'"),
    ],
    annotates: true,
    drops: &["no buffer", "left over at another input"],
    observes: |plan, at| if plan.is_live() { Vec::new() } else { plan.stores_before(at) },
    cost: "A copy of each packet and its metadata. When a queue that it reads is empty is seen, so \
        tasks that fill it, and its own, take a turn at a time.",
    example: "FromIPSummaryDump(STOP false, FIELDS ip_src, DATA \"1.0.0.1\") \
        -> ReplayUnqueue(STOP 3) -> Discard;",
    ..Class::of::<ReplayUnqueue>()
};

pub(super) const MULTI: Class = Class {
    name: "MultiReplayUnqueue",
    description: "What ReplayUnqueue is, by the name it once had for several inputs.",
    example: "FromIPSummaryDump(STOP false, FIELDS ip_src, DATA \"1.0.0.1\") \
        -> MultiReplayUnqueue(STOP 3) -> Discard;",
    ..CLASS
};

/// The timer for the next packet.
const TIMER: u32 = 0;
const SECOND: u64 = 1_000_000_000;
/// A packet that is due within so many nanoseconds is sent.
const SOON: u64 = 10_000;

#[derive(Arguments)]
struct ReplayUnqueue {
    /// how often packets are sent
    #[arg(keyword, kind = "times", default = -1, shown = "-1: no end")]
    stop: i32,
    /// after how long no round is begun
    #[arg(keyword, kind = "seconds", default = 0, shown = "0: no limit")]
    stop_time: i32,
    /// accepted; packets have buffers of their own
    #[arg(name = "QUICK_CLONE", keyword, default = false)]
    _quick_clone: bool,
    /// most packets sent at a time
    #[arg(keyword, kind = "packets", default = 64)]
    burst: u32,
    /// whether it tells of each round
    #[arg(keyword, default = false)]
    verbose: bool,
    /// accepted
    #[arg(name = "FREEONTERMINATE", keyword, default = true)]
    _free_on_terminate: bool,
    /// most packets kept
    #[arg(keyword, kind = "packets", default = -1, shown = "-1: no limit")]
    limit: i32,
    /// whether it works
    #[arg(keyword, default = true)]
    active: bool,
    /// whether inputs that may have more are waited for
    #[arg(name = "USE_SIGNAL", keyword, default = false)]
    waits: bool,
    /// pace, of the timestamps'
    #[arg(name = "TIMING", keyword, kind = "hundredths", default = 0, shown = "0: none")]
    pace: u32,
    recording: Recording,
    /// While reading: the oldest packet of each input.
    #[init((0..make.inputs()).map(|_| None).collect())]
    heads: Vec<Option<Slot>>,
    loading: bool,
    loaded: bool,
    /// The next packet.
    next: usize,
    /// When the round began, in steady time.
    began: u64,
    /// When the first one did.
    started: Option<u64>,
}

impl ReplayUnqueue {
    /// Reads packets until an input has no more, and returns true if it has them all; if not, there
    /// may be more later.
    fn load(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        if !self.loading {
            self.loading = true;
            let text = format!("Loading {} with {} inputs.\n", cx.name(), self.heads.len());
            cx.console().report(&text);
        }
        let full = |recording: &Recording, limit: i32| {
            usize::try_from(limit).is_ok_and(|limit| recording.len() >= limit.max(1))
        };
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
            if full(&self.recording, self.limit) {
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
            cx.drop_packet(slot, LEFT_OVER);
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

    fn end(&mut self, cx: &mut Context) -> Next {
        cx.driver.stop();
        self.active = false;
        self.started = None;
        Next::Sleep
    }

    /// Returns the time a packet is due, in steady time.
    fn due(&self, at: usize) -> u64 {
        let apart = self.recording.time(at).saturating_sub(self.recording.time(0));
        match u64::from(self.pace) {
            0 => self.began,
            pace => {
                let wait = u128::from(apart) * 100 / u128::from(pace);
                self.began.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
            }
        }
    }

    /// A round is over: whether there is another.
    fn has_another_round(&mut self, cx: &Context) -> bool {
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
    fn seconds(&self, cx: &Context) -> i64 {
        let since = self.started.unwrap_or_else(|| cx.steady());
        (cx.steady().saturating_sub(since) / SECOND) as i64
    }
}

impl Element for ReplayUnqueue {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if !self.active {
            return Next::Sleep;
        }
        if !self.loaded && !self.load(cx, frame) {
            return Next::Idle;
        }
        if self.stop == 0 {
            return self.end(cx);
        }
        let now = cx.steady();
        let mut left = (self.burst as usize).min(frame.limit());
        while left > 0 && self.next < self.recording.len() {
            let due = self.due(self.next);
            if due > now + SOON {
                if self.stop_time > 0 && self.seconds(cx) >= i64::from(self.stop_time) {
                    return self.end(cx);
                }
                cx.set_timer(TIMER, due);
                return Next::Sleep;
            }
            if frame.room() == 0 {
                cx.out.emit_frame(0, frame);
            }
            match self.recording.packet(cx, self.next) {
                Some(slot) => drop(frame.push(slot)),
                None => cx.count_drops(NO_BUFFER, 1),
            }
            self.next += 1;
            left -= 1;
        }
        // Behind those that have been sent.
        cx.out.emit_frame(0, frame);
        if self.next >= self.recording.len() {
            self.begin(cx);
            if !self.has_another_round(cx) {
                return self.end(cx);
            }
            if self.recording.len() == 0 {
                return Next::Idle;
            }
        }
        Next::Again
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn close(&mut self, cx: &mut Context) {
        for slot in self.heads.iter_mut().filter_map(Option::take) {
            cx.pool.give_one(slot);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "active" => Ok(self.active.to_string()),
            "loaded" => Ok(self.loaded.to_string()),
            "stop" => Ok(self.stop.to_string()),
            "timing" => Ok(self.pace.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
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
            "timing" => self.pace = integer(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        cx.schedule();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests;
