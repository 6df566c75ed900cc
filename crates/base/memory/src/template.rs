//! Packets that are written once, for sources whose packets are all alike.
//!
//! A template is written into every buffer before the first is used. As long as nothing else writes
//! into the arena a fresh packet begins with it, and its source need not touch the packet. Nothing
//! here notices writes: programs that write packets, or let others do it, say so before they begin
//! ([`Arena::forget_template`]).

use crate::{
    arena::Arena,
    frame::{FRAME_LIMIT, Frame},
};

impl Arena {
    /// Writes `bytes` behind the headroom of every buffer, the first time, and returns true if fresh
    /// packets begin with them from now on, for as long as [`Arena::has_template`] does. Not where
    /// another template was written, some buffer is in use or not yet populated, or the template was
    /// forgotten.
    ///
    /// # Panics
    ///
    /// When `bytes` are longer than [`Arena::room`].
    pub fn set_template(&self, bytes: &[u8]) -> bool {
        self.set_template_by(bytes, || self.write_free_buffers(bytes))
    }

    /// Writes `bytes` into every buffer, and returns true if all were free.
    fn write_free_buffers(&self, bytes: &[u8]) -> bool {
        let mut pool = self.cache(FRAME_LIMIT);
        let mut taken = Vec::new();
        loop {
            let mut frame = Frame::new(FRAME_LIMIT);
            if pool.take(&mut frame, FRAME_LIMIT, bytes.len()) == 0 {
                break;
            }
            self.for_each_mut(&mut frame, |packet| packet.copy_from_slice(bytes));
            taken.push(frame);
        }
        let count: usize = taken.iter().map(Frame::len).sum();
        taken.iter_mut().for_each(|frame| pool.give(frame));
        count == self.count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Arena, ArenaOptions, Frame};

    fn arena(gradual: bool) -> Arena {
        let options = ArenaOptions { size: 1 << 20, huge: false, gradual, ..Default::default() };
        options.create().unwrap()
    }

    #[test]
    fn every_fresh_packet_begins_with_the_template() {
        let arena = arena(false);
        assert!(!arena.has_template());
        assert!(arena.set_template(b"template"));
        assert!(arena.has_template() && arena.set_template(b"temp") && !arena.set_template(b"pt"));
        let mut pool = arena.cache(64);
        let mut frame = Frame::new(2048);
        assert_eq!(pool.take(&mut frame, usize::MAX, 8), arena.count());
        assert!(arena.packets(&frame).all(|packet| packet == b"template"));
        pool.give(&mut frame);
        arena.forget_template();
        assert!(!arena.has_template() && !arena.set_template(b"template"));
    }

    #[test]
    fn there_is_no_template_where_a_buffer_is_in_use_or_not_populated() {
        let arena = arena(false);
        let mut pool = arena.cache(64);
        let slot = pool.take_one(60).unwrap();
        assert!(!arena.set_template(b"template") && !arena.has_template());
        pool.give_one(slot);
        assert_eq!(arena.accounting().held, 0);
        assert!(!self::arena(true).set_template(b"template"));
    }
}
