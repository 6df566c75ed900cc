//! A receiving side that passes on only the packets of a filter.
//!
//! It stands in front of every driver that is asked for a filter, also of one that has its kernel
//! decide: the kernel lets through packets that it does not see in the form received here (with the
//! VLAN tag taken out, or several merged). A filter for frames whose tag is known besides decides
//! on received ones, which have it in them, as the kernel would. Packets that are not wanted are
//! not counted: neither received nor dropped.

use std::sync::Arc;

use linerate_filter::Filter;
use linerate_memory::{Frame, PoolCache, Slot};

use crate::{
    counters::{Counters, Counts, DropReason},
    error::PortError,
    port::{Receive, Wake},
};

pub(crate) struct Filtered {
    from: Box<dyn Receive>,
    filter: Arc<Filter>,
    /// Whether the length that packets had before they were cut is asked for.
    lengths: bool,
    counters: Arc<Counters>,
    /// Counts of `from` at the last look.
    seen: Counts,
}

impl Filtered {
    /// In front of a receiver which may have packets that were cut, and says how much they lack.
    pub(crate) fn over(
        from: Box<dyn Receive>,
        filter: &Arc<Filter>,
        may_be_cut: bool,
    ) -> Box<dyn Receive> {
        Box::new(Filtered {
            from,
            filter: Arc::clone(filter),
            lengths: may_be_cut && filter.calculates(),
            counters: Counters::shared(),
            seen: Counts::default(),
        })
    }

    /// Counts the drops since the last look.
    fn count_drops(&mut self) {
        let now = self.from.counters().read();
        let since = now - self.seen;
        self.seen = now;
        for reason in DropReason::ALL {
            self.counters.dropped(reason, since.dropped_for(reason) as usize);
        }
    }
}

impl Receive for Filtered {
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let (before, already) = (frame.len(), frame.bytes());
        let received = self.from.receive(pool, frame);
        let (mut at, filter, lengths) = (0, &self.filter, self.lengths);
        let tagged = filter.has_tag_beside();
        let wanted = |pool: &mut PoolCache, slot: &mut Slot| {
            at += 1;
            if at <= before {
                return true;
            }
            let arena = pool.arena();
            if lengths || tagged {
                let missing = if lengths { arena.meta(slot).missing() } else { 0 };
                let length = (slot.len() as u32).saturating_add(missing);
                return match arena.packet_mut(slot) {
                    Some(frame) if tagged => filter.accepts_tagged(frame, length),
                    _ => filter.accepts_cut(arena.packet(slot), length),
                };
            }
            filter.accepts(arena.packet(slot))
        };
        frame.retain_with(pool, wanted, PoolCache::give_one);
        let (packets, bytes) = (frame.len() - before, frame.bytes() - already);
        self.counters.passed(packets, bytes);
        received.map(|_| packets)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        self.from.wake()
    }

    fn ended(&self) -> bool {
        self.from.ended()
    }

    fn refresh(&mut self) {
        self.from.refresh();
        self.count_drops();
    }

    fn close(&mut self, pool: &mut PoolCache) {
        self.from.close(pool);
        self.count_drops();
    }
}

#[cfg(test)]
mod tests {
    use linerate_filter::{Link, Names};
    use linerate_memory::ArenaOptions;

    use super::*;
    use crate::{Context, Direction, PortUri, open};

    /// Packets of 60 bytes from a port that makes them, of which `filter` wants all or none.
    fn received(filter: &str) -> (usize, Counts) {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = arena.create().unwrap();
        let filter = Some(Arc::new(Filter::new(filter, Names::NONE).unwrap()));
        let context = Context { filter, ..Context::new(arena.clone()) };
        let port = open(&"null:?size=60&count=50".parse().unwrap(), &context).unwrap();
        let (mut pool, mut frame) = (arena.cache(64), Frame::new(64));
        let mut receive = port.queues.into_iter().next().unwrap().receive.unwrap();
        let mut packets = 0;
        while !receive.ended() {
            packets += receive.receive(&mut pool, &mut frame).unwrap();
            pool.give(&mut frame);
        }
        receive.close(&mut pool);
        let counts = receive.counters().read();
        drop((receive, pool));
        assert_eq!(arena.accounting().held, 0);
        (packets, counts)
    }

    /// Frames with their tags in them, of a port, are chosen as a socket chooses those without.
    #[test]
    fn tags_that_filters_have_besides_are_taken_out_of_frames() {
        // The pool's frames are written by a port of rings: null: has no tags.
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = arena.create().unwrap();
        let filter = Filter::on(Link::Untagged, "udp and vlan 7", Names::NONE).unwrap();
        let context = Context::new(arena.clone());
        let ring: PortUri = "ring:tags".parse().unwrap();
        let (mut pool, mut frame) = (arena.cache(64), Frame::new(64));
        let mut send = open(&ring, &context.toward(Direction::Transmit)).unwrap();
        let wanted = Context { filter: Some(Arc::new(filter)), ..context.clone() };
        let mut receive = open(&ring, &wanted.toward(Direction::Receive)).unwrap();
        let tagged = |tag: &[u8]| {
            let udp = [&[8, 0, 0x45][..], &[0; 8], &[17], &[0; 34]].concat();
            [&[2; 12][..], tag, &udp].concat()
        };
        let sent = [tagged(&[]), tagged(&[0x81, 0, 0, 7]), tagged(&[0x81, 0, 0, 8])];
        for bytes in &sent {
            let mut slot = pool.take_one(bytes.len()).unwrap();
            pool.arena().packet_mut(&mut slot).unwrap().copy_from_slice(bytes);
            frame.push(slot).unwrap();
        }
        send.queues[0].transmit.as_mut().unwrap().transmit(&mut pool, &mut frame).unwrap();
        let receive = receive.queues[0].receive.as_mut().unwrap();
        receive.receive(&mut pool, &mut frame).unwrap();
        let packets: Vec<&[u8]> = pool.arena().packets(&frame).collect();
        assert_eq!(packets, [&sent[1][..]]);
        pool.give(&mut frame);
    }

    #[test]
    fn unwanted_packets_are_neither_received_nor_dropped() {
        let (packets, counts) = received("less 60");
        assert_eq!((packets, counts.packets, counts.bytes), (50, 50, 3000));
        let (packets, counts) = received("greater 61");
        assert_eq!((packets, counts), (0, Counts::default()));
    }
}
