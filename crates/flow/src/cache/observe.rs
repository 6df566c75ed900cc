//! Flow export from the cache: shows each packet as it came, with its output port.

use std::sync::Arc;

use linerate_memory::{Arena, Frame};

use super::{FastPath, NONE, TO_DROP, TO_GO_ON, TO_NOBODY, TO_STEPS};
use crate::export::{Exporter, Observer, Way};
use crate::pipeline::{Decision, Step};
use crate::wire::{Action, Sample};

/// A worker's part of an exporter, which ends after it.
#[derive(Debug)]
pub(super) struct Observed {
    observer: Observer,
    _exporter: Arc<Exporter>,
}

impl FastPath {
    /// Sets the exporter for packets, or none.
    pub fn set_exporter(&mut self, exporter: Option<Arc<Exporter>>) {
        self.observed = exporter.map(|exporter| {
            Box::new(Observed { observer: exporter.observer(), _exporter: exporter })
        });
    }

    /// Returns true if there are flows to export later, so that [`tick`](FastPath::tick) is to be
    /// called.
    #[must_use]
    pub fn has_to_tell(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.observer.has_flows())
    }

    /// Tells of flows that are over.
    pub(super) fn tick_observer(&mut self, now: u64) {
        if let Some(observed) = &mut self.observed {
            observed.observer.tick(now);
        }
    }

    /// Observes the packets of a frame, which all go out by one port, or none.
    #[cold]
    pub(super) fn observe_frame(
        &mut self,
        arena: &Arena,
        place: usize,
        output: Option<usize>,
        frame: &Frame,
        now: u64,
    ) {
        let way = self.way(place, output);
        let Some(observed) = &mut self.observed else { return };
        arena.packets(frame).for_each(|packet| observed.observer.see(packet, way, now));
    }

    /// Each packet of a frame goes out by the port of its place.
    #[cold]
    pub(super) fn observe_outputs(&mut self, arena: &Arena, place: usize, frame: &Frame, now: u64) {
        for (at, packet) in arena.packets(frame).enumerate() {
            self.observe(place, at, packet, now);
        }
    }

    /// Observes the packet of this place in the frame.
    #[cold]
    pub(super) fn observe(&mut self, place: usize, at: usize, packet: &[u8], now: u64) {
        let way = match self.outputs[at] {
            TO_DROP | TO_NOBODY => self.way(place, None),
            TO_STEPS | TO_GO_ON => {
                let entry = self.found[at];
                let decision = if entry == NONE {
                    self.alone.front().map(|decision| &**decision)
                } else {
                    self.entries.cold(entry).map(|cold| &*cold.decision)
                };
                let way = self.way(place, None);
                decision.map_or(way, |decision| by_steps(way, &decision.steps))
            }
            output => self.way(place, Some(output as usize)),
        };
        if let Some(observed) = &mut self.observed {
            observed.observer.see(packet, way, now);
        }
    }

    /// Likewise for a known decision.
    #[cold]
    pub(super) fn observe_decided(
        &mut self,
        place: usize,
        decision: &Decision,
        packet: &[u8],
        now: u64,
    ) {
        let way = by_steps(self.way(place, None), &decision.steps);
        if let Some(observed) = &mut self.observed {
            observed.observer.see(packet, way, now);
        }
    }

    /// Observes a packet for a flow's `sample`, with the steps behind that action.
    #[cold]
    pub(super) fn observe_sample(
        &mut self,
        place: usize,
        (action, steps): (&Action, &[Step]),
        packet: &[u8],
        now: u64,
    ) {
        let way = by_steps(self.way(place, None), steps);
        if let (Some(observed), Action::Sample(sample)) = (&mut self.observed, action) {
            let sample: &Sample = sample;
            observed.observer.sample(sample, packet, way, now);
        }
    }

    fn way(&self, place: usize, output: Option<usize>) -> Way {
        let number = |place: usize| self.ports.get(place).map_or(0, |port| port.number);
        let out_port = output.map_or(0, number);
        Way { in_port: number(place), out_port, copies: u32::from(output.is_some()) }
    }
}

/// Adds the ports that steps send a packet to, in this pass.
fn by_steps(mut way: Way, steps: &[Step]) -> Way {
    for step in steps {
        match step {
            Step::Output { port, .. } => {
                if way.copies == 0 {
                    way.out_port = *port;
                }
                way.copies += 1;
            }
            Step::Copy(steps) => way = by_steps(way, steps),
            _ => {}
        }
    }
    way
}
