//! `ReplayUnqueue`.

use linerate_element_support::handler_values::integer;
use linerate_graph::{Context, Element, ElementBuilder, HandlerResult, Next};
use linerate_memory::Frame;

use super::rounds::Rounds;

/// The timer for the next packet.
const TIMER: u32 = 0;
/// A packet that is due within so many nanoseconds is due.
const SOON: u64 = 10_000;

pub(super) struct ReplayUnqueue {
    rounds: Rounds,
    /// Most packets sent at a time.
    burst: u32,
    /// Hundredths of the timestamps' pace; none at zero.
    pace: u32,
}

impl ReplayUnqueue {
    pub(super) fn new(make: &mut ElementBuilder<'_>) -> ReplayUnqueue {
        ReplayUnqueue {
            rounds: Rounds::new(make),
            burst: make.or("BURST", 64),
            pace: make.or("TIMING", 0),
        }
    }

    /// When a packet is due, in steady time.
    fn due(&self, at: usize) -> u64 {
        let Rounds { recording, began, .. } = &self.rounds;
        let apart = recording.time(at).saturating_sub(recording.time(0));
        match u64::from(self.pace) {
            0 => *began,
            pace => {
                let wait = u128::from(apart) * 100 / u128::from(pace);
                began.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
            }
        }
    }

    fn end(&mut self, cx: &mut Context) -> Next {
        self.rounds.end(cx);
        Next::Sleep
    }
}

impl Element for ReplayUnqueue {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if !self.rounds.active {
            return Next::Sleep;
        }
        if !self.rounds.loaded && !self.rounds.load(cx, frame) {
            return Next::Idle;
        }
        if self.rounds.stop == 0 {
            return self.end(cx);
        }
        let now = cx.steady();
        let mut left = (self.burst as usize).min(frame.limit());
        while left > 0
            && let Some(next) = self.rounds.next()
        {
            let due = self.due(next);
            if due > now + SOON {
                let limit = i64::from(self.rounds.stop_time);
                if limit > 0 && self.rounds.seconds(cx) >= limit {
                    return self.end(cx);
                }
                cx.set_timer(TIMER, due);
                return Next::Sleep;
            }
            if frame.room() == 0 {
                cx.out.emit_frame(0, frame);
            }
            let slot = self.rounds.packet(cx);
            self.rounds.pass(cx, slot.is_some());
            if let Some(slot) = slot {
                drop(frame.push(slot));
            }
            left -= 1;
        }
        // Behind those that have been sent.
        cx.out.emit_frame(0, frame);
        if self.rounds.next().is_none() {
            if !self.rounds.go_on(cx) {
                return self.end(cx);
            }
            if self.rounds.recording.len() == 0 {
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
        self.rounds.close(cx);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "timing" => Ok(self.pace.to_string()),
            _ => self.rounds.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "timing" => self.pace = integer(value)?,
            _ => self.rounds.write(cx, handler, value)?,
        }
        cx.schedule();
        Ok(String::new())
    }
}
