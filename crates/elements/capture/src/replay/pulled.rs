//! `Replay`.

use linerate_graph::{Context, Element, ElementBuilder, HandlerResult, Next};
use linerate_memory::Frame;

use super::rounds::Rounds;

pub(super) struct Replay {
    rounds: Rounds,
    /// Most packets that are pulled at once: one, where several outputs take from the same packets.
    most: usize,
}

impl Replay {
    pub(super) fn new(make: &mut ElementBuilder<'_>) -> Replay {
        // Accepted, if they are what they should be.
        let _: (Option<u32>, Option<u32>) = (make.get("BURST"), make.get("QUEUE"));
        let most = if make.outputs() > 1 { 1 } else { usize::MAX };
        Replay { rounds: Rounds::new(make), most }
    }
}

impl Element for Replay {
    /// Reads the packets; they are sent when they are pulled.
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if !self.rounds.active || self.rounds.loaded {
            return Next::Sleep;
        }
        if !self.rounds.load(cx, frame) {
            return Next::Idle;
        }
        cx.notify();
        if self.rounds.stop == 0 || self.rounds.stop > 0 && self.rounds.recording.len() == 0 {
            self.rounds.end(cx);
        }
        Next::Sleep
    }

    /// The end of a round, with its notices, comes behind its last packet: it is not seen before
    /// another packet is asked for.
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if !self.rounds.active || !self.rounds.loaded || self.rounds.recording.len() == 0 {
            return;
        }
        if self.rounds.next().is_none() && !self.rounds.go_on(cx) || self.rounds.stop == 0 {
            return self.rounds.end(cx);
        }
        let count = count.min(self.most);
        while frame.len() < count && self.rounds.next().is_some() {
            let Some(slot) = self.rounds.packet(cx) else {
                // All buffers are on their way: they come back.
                if frame.is_empty() {
                    cx.look_again();
                }
                return;
            };
            self.rounds.pass(cx, true);
            drop(frame.push(slot));
        }
    }

    fn ready(&self) -> Option<usize> {
        Some(self.rounds.left().min(self.most))
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn close(&mut self, cx: &mut Context) {
        self.rounds.close(cx);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.rounds.read(handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.rounds.write(cx, handler, value)?;
        cx.schedule();
        cx.notify();
        Ok(String::new())
    }
}
