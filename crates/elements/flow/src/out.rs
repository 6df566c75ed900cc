//! The outputs of an element, as the fast path knows them.

use linerate_graph::{Context, DropReason};
use linerate_memory::{Frame, PoolCache, Slot};
use linerate_ofswitch::cache::{Drop, Outlet};

/// Drop reason: one of the flow cache.
#[derive(Clone, Copy)]
pub(crate) struct Reason(pub(crate) Drop);

impl DropReason for Reason {
    const REASONS: &'static [&'static str] = &Drop::NAMES;

    fn index(self) -> usize {
        self.0 as usize
    }
}

pub(crate) struct Out<'a>(pub(crate) &'a mut Context);

impl Outlet for Out<'_> {
    #[inline]
    fn pool(&mut self) -> &mut PoolCache {
        &mut self.0.pool
    }

    #[inline]
    fn send(&mut self, output: usize, slot: Slot) {
        self.0.out.emit(output, slot);
    }

    #[inline]
    fn send_frame(&mut self, output: usize, frame: &mut Frame) {
        // Packets left in the frame leave by the first output.
        if output != 0 {
            self.0.out.emit_frame(output, frame);
        }
    }

    #[inline]
    fn distribute(&mut self, frame: &mut Frame, outputs: &[u32]) {
        self.0.out.distribute(frame, outputs);
    }

    fn drop_packet(&mut self, slot: Slot, why: Drop) {
        self.0.drop_packet(slot, Reason(why));
    }

    fn drop_frame(&mut self, frame: &mut Frame, why: Drop) {
        self.0.drop_frame(frame, Reason(why));
    }
}
