//! Packets pulled ahead, of an input whose next packet may not go yet.
//!
//! Where bytes are rationed, how many packets may be pulled depends on their
//! lengths. A guess from the longest so far gives whole frames with a call each
//! where lengths are equal, and never more packets than Click has pulled: one too
//! many would make room in a full queue. Only of packets longer than any before
//! some too many may have been pulled, which are held and go first the next time.

use linerate_graph::Context;
use linerate_memory::{Frame, Slot};

/// Packets held, from one input.
pub(super) struct Ahead {
    held: Frame,
    /// Length of the longest packet that went; more than any has before the first.
    longest: u64,
}

impl Ahead {
    pub(super) fn new(frame_limit: usize) -> Ahead {
        // The first guess must not be too high: one packet.
        Ahead { held: Frame::new(frame_limit), longest: u64::MAX }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The length of the next packet, when one is held.
    pub(super) fn next_len(&self) -> Option<u64> {
        self.held.slots().first().map(|slot| slot.len() as u64)
    }

    /// Pulls from input `port` when none is held: packets that `bytes` are enough for, and one
    /// more.
    pub(super) fn refill(&mut self, cx: &mut Context, port: usize, bytes: u64, most: usize) {
        if self.held.is_empty() {
            let count = usize::try_from(bytes / self.longest.max(1)).unwrap_or(usize::MAX);
            cx.pull(port, count.saturating_add(1).min(most), &mut self.held);
        }
    }

    /// Moves the packets that `may` go to the end of `to`, at most `most` and
    /// as many as there is room for; returns their number and bytes.
    pub(super) fn release(
        &mut self,
        to: &mut Frame,
        most: usize,
        mut may: impl FnMut(u64) -> bool,
    ) -> (usize, u64) {
        let mut longest = if self.longest == u64::MAX { 0 } else { self.longest };
        let may_go = |slot: &&Slot| {
            let length = slot.len() as u64;
            let goes = may(length);
            if goes {
                longest = longest.max(length);
            }
            goes
        };
        let slots = self.held.slots().iter().take(most.min(to.room()));
        let count = slots.take_while(may_go).count();
        if count > 0 {
            self.longest = longest;
        }
        let gone = &self.held.slots()[..count];
        let bytes = Slot::total_len(gone);
        to.append(&mut self.held, count);
        (count, bytes)
    }

    /// Pulls and lets go packets one of which may go while those before it
    /// have at most `credit` bytes, and at most `most`; returns their bytes.
    pub(super) fn pull(
        &mut self,
        cx: &mut Context,
        credit: u64,
        most: usize,
        to: &mut Frame,
    ) -> u64 {
        let mut used = 0;
        let mut count = 0;
        while used <= credit && count < most && to.room() > 0 {
            self.refill(cx, 0, credit - used, most - count);
            let mut sum = used;
            let (moved, bytes) = self.release(to, most - count, |len| {
                let may = sum <= credit;
                sum += len;
                may
            });
            if moved == 0 {
                break;
            }
            count += moved;
            used += bytes;
        }
        used
    }

    /// Takes over the packets held by another one.
    pub(super) fn take_state(&mut self, old: &mut Ahead) {
        self.held.append(&mut old.held, usize::MAX);
        self.longest = old.longest;
    }

    /// Gives the held packets back.
    pub(super) fn close(&mut self, cx: &mut Context) {
        cx.discard(&mut self.held);
    }
}
