//! Transfer of entries' counts to the shared counters.

use super::FlowCache;
use crate::pipeline::Decision;
use crate::table::PortCount;

/// Entries whose counters are added in a tick, at least, and entries that are checked for their
/// age.
const TICK: usize = 256;
const AGED: usize = 256;

impl FlowCache {
    /// Adds the counts of an entry to the shared counters.
    pub(super) fn add(&mut self, entry: u32, now: u64) {
        let hot = &mut self.entries.hot[entry as usize];
        let (packets, bytes) = (u64::from(hot.packets), hot.bytes);
        let output = hot.output;
        (hot.packets, hot.bytes) = (0, 0);
        if packets == 0 {
            return;
        }
        let Some(cold) = self.entries.cold_mut(entry) else { return };
        cold.packets += packets;
        cold.bytes += bytes;
        cold.used = now;
        cold.is_used |= cold.packets > 1;
        count(&cold.decision, packets, bytes, now);
        if let Some(port) = self.ports.get_mut(usize::from(output)) {
            port.counted[PortCount::Sent as usize] += packets;
            port.counted[PortCount::SentBytes as usize] += bytes;
        }
    }

    /// Adds some of the counts, and forgets some unused entries. To be called every 10 ms or so.
    pub fn tick(&mut self, now: u64) {
        for _ in 0..TICK.max(self.dirty.len() / 32) {
            let Some(entry) = self.dirty.pop() else { break };
            self.add(entry, now);
        }
        let since = now.saturating_sub(self.options.patience);
        for _ in 0..AGED {
            let Some(entry) = self.entries.advance() else { continue };
            let is_old = self.entries.cold(entry).is_some_and(|cold| cold.used < since);
            if is_old && self.entries.hot[entry as usize].packets == 0 {
                self.forget(entry, now);
            }
        }
        self.add_ports();
        self.tick_observer(now);
    }

    /// Adds everything that was counted to counters.
    pub fn flush(&mut self, now: u64) {
        while let Some(entry) = self.dirty.pop() {
            self.add(entry, now);
        }
        self.add_ports();
    }

    fn add_ports(&mut self) {
        for port in &mut self.ports {
            let Some(counters) = &port.counters else { continue };
            for count in PortCount::ALL {
                let more = std::mem::take(&mut port.counted[count as usize]);
                if more > 0 {
                    counters.add(count, more);
                }
            }
        }
    }
}

/// Adds packets to the counters of a decision.
pub(super) fn count(decision: &Decision, packets: u64, bytes: u64, now: u64) {
    decision.counted.iter().for_each(|counters| counters.add(packets, bytes, now));
    decision.touched.iter().for_each(|counters| counters.touch(now));
}
