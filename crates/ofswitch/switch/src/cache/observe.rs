//! Flow export from the cache: shows each packet as it came, with its output port.

use std::sync::Arc;

use linerate_memory::{Arena, Frame};

use super::{FlowCache, NONE, TO_DROP, TO_GO_ON, TO_STEPS, TO_UNDECIDED};
use crate::export::{Exporter, Observer, PortPair};
use crate::pipeline::{Decision, Step};
use crate::wire::{Action, Sample};

/// A worker's part of an exporter, which ends after it.
#[derive(Debug)]
pub(super) struct Observed {
    observer: Observer,
    _exporter: Arc<Exporter>,
}

impl FlowCache {
    /// Sets the exporter for packets, or none.
    pub fn set_exporter(&mut self, exporter: Option<Arc<Exporter>>) {
        self.observed = exporter.map(|exporter| {
            Box::new(Observed { observer: exporter.observer(), _exporter: exporter })
        });
    }

    /// Returns true if there are flows to export later, so that [`tick`](FlowCache::tick) is to be
    /// called.
    #[must_use]
    pub fn has_flows_to_export(&self) -> bool {
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
        let port_pair = self.port_pair(place, output);
        let Some(observed) = &mut self.observed else { return };
        arena.packets(frame).for_each(|packet| observed.observer.see(packet, port_pair, now));
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
        let port_pair = match self.outputs[at] {
            TO_DROP | TO_UNDECIDED => self.port_pair(place, None),
            TO_STEPS | TO_GO_ON => {
                let entry = self.found[at];
                let decision = if entry == NONE {
                    self.alone.front().map(|decision| &**decision)
                } else {
                    self.entries.cold(entry).map(|cold| &*cold.decision)
                };
                let port_pair = self.port_pair(place, None);
                decision.map_or(port_pair, |decision| by_steps(port_pair, &decision.steps))
            }
            output => self.port_pair(place, Some(output as usize)),
        };
        if let Some(observed) = &mut self.observed {
            observed.observer.see(packet, port_pair, now);
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
        let port_pair = by_steps(self.port_pair(place, None), &decision.steps);
        if let Some(observed) = &mut self.observed {
            observed.observer.see(packet, port_pair, now);
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
        let port_pair = by_steps(self.port_pair(place, None), steps);
        if let (Some(observed), Action::Sample(sample)) = (&mut self.observed, action) {
            let sample: &Sample = sample;
            observed.observer.sample(sample, packet, port_pair, now);
        }
    }

    fn port_pair(&self, place: usize, output: Option<usize>) -> PortPair {
        let number = |place: usize| self.ports.get(place).map_or(0, |port| port.number);
        let out_port = output.map_or(0, number);
        PortPair { in_port: number(place), out_port, copies: u32::from(output.is_some()) }
    }
}

/// Adds the ports that steps send a packet to, in this pass.
fn by_steps(mut port_pair: PortPair, steps: &[Step]) -> PortPair {
    for step in steps {
        match step {
            Step::Output { port, .. } => {
                if port_pair.copies == 0 {
                    port_pair.out_port = *port;
                }
                port_pair.copies += 1;
            }
            Step::Copy(steps) => port_pair = by_steps(port_pair, steps),
            _ => {}
        }
    }
    port_pair
}
