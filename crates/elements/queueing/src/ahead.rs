//! Packets pulled ahead, of an input whose next packet may not go yet.
//!
//! Where bytes are rationed, how many packets may be pulled depends on their lengths, which are
//! unknown before. A packet too many leaves room in its queue, where another one is not dropped then,
//! or a source goes on. So no more are pulled than may go if each is as long as a buffer, and the one
//! whose length decides: mostly one at a time.
//!
//! Where packets come from outside ([`Class::external_input`]) it is chance anyway which ones find
//! room. There the longest packet so far stands for those to come, which gives whole frames with a
//! call each where lengths are equal. Of packets longer than any before some too many may have been
//! pulled, which are held and go first the next time.
//!
//! [`Class::external_input`]: linerate_graph::Class::external_input

use linerate_graph::{Context, ElementBuilder};
use linerate_memory::{Frame, Slot};

/// Packets held, from one input.
pub(super) struct Ahead {
    held: Frame,
    /// Most bytes that a packet counts for, if known.
    longest: Option<u64>,
    /// Whether it is that of the packets that went.
    is_guessed: bool,
}

impl Ahead {
    /// Of packets that count for no more bytes than a buffer holds.
    pub(super) fn new(make: &ElementBuilder<'_>) -> Ahead {
        Ahead::with_longest(make, Some(make.world.arena().buffer_size() as u64))
    }

    /// Of packets that count for at most so many bytes.
    pub(super) fn with_longest(make: &ElementBuilder<'_>, longest: Option<u64>) -> Ahead {
        let is_guessed = make.plan().is_live();
        Ahead {
            held: Frame::new(make.world.frame_limit),
            longest: if is_guessed { None } else { longest },
            is_guessed,
        }
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
            let count = self.longest.map_or(0, |longest| bytes / longest.max(1));
            let count = usize::try_from(count).unwrap_or(usize::MAX);
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
        let mut longest = 0;
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
            self.learn(longest);
        }
        let gone = &self.held.slots()[..count];
        let bytes = Slot::total_len(gone);
        to.append(&mut self.held, count);
        (count, bytes)
    }

    /// A packet has gone that counts for so many bytes.
    pub(super) fn learn(&mut self, bytes: u64) {
        if self.is_guessed {
            self.longest = self.longest.max(Some(bytes));
        }
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
        if self.is_guessed {
            self.longest = old.longest;
        }
    }

    /// Gives the held packets back.
    pub(super) fn close(&mut self, cx: &mut Context) {
        cx.discard(&mut self.held);
    }
}
