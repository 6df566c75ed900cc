//! `DropDuplicates`: each packet once.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
};

use linerate_graph::{Arguments, Class, DropReason, Exit, Packet, Reads, Step, Verdict};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// duplicate
    Duplicate,
}

pub(crate) const CLASS: Class = Class {
    name: "DropDuplicates",
    family: "example",
    summary: "drops packets that came a moment ago",
    description: "A packet is a duplicate when all its bytes are those of one of the `WINDOW` \
        packets before it that were none: a mirror port that sees a packet come in and go out \
        shows it twice. Each worker remembers the packets it has seen.",
    ports: "1/1",
    order_dependent: true,
    cost: "A hash of all bytes, and two operations on a table.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> DropDuplicates(100) -> Discard;",
    ..DropDuplicates::CLASS
};

#[derive(Arguments)]
struct DropDuplicates {
    /// packets that are remembered
    #[arg(optional, kind = "packets", default = 1024)]
    #[handler(value)]
    window: usize,
    /// packets that were dropped
    #[handler(count, kept)]
    duplicates: u64,
    /// Secret keys of the hash: a sender cannot make two packets of one hash.
    keys: RandomState,
    /// Hashes of the packets in the window, the oldest first.
    recent: VecDeque<u64>,
    /// Those hashes as a set.
    seen: HashSet<u64>,
}

impl Step<Reads, Reason> for DropDuplicates {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        let hash = self.keys.hash_one(packet.bytes());
        if !self.seen.insert(hash) {
            self.duplicates += 1;
            return Err(Exit::Drop(Reason::Duplicate));
        }
        self.recent.push_back(hash);
        while self.recent.len() > self.window
            && let Some(oldest) = self.recent.pop_front()
        {
            self.seen.remove(&oldest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn the_second_of_two_is_dropped() {
        for frame_limit in [1, 256] {
            let mut run =
                Run::new("Packets(aa bb aa cc bb aa) -> d :: DropDuplicates(2) -> c :: Collect")
                    .with(crate::CLASSES)
                    .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), "aa\nbb\ncc\naa");
            assert_eq!(run.read("d.duplicates"), "2");
            assert_eq!(run.read("d.drops"), "2\tduplicate\n");
        }
    }

    #[test]
    fn the_window_can_be_changed() {
        let mut run = Run::new("Packets(aa bb aa bb) -> d :: DropDuplicates -> c :: Collect")
            .with(crate::CLASSES);
        assert_eq!(run.read("d.window"), "1024");
        run.write("d.window", "1").unwrap();
        run.run();
        assert_eq!(run.read("c.packets"), "aa\nbb\naa\nbb");
        assert_eq!(run.write("d.window", "-1").unwrap_err().to_string(), "expected integer");
    }

    #[test]
    fn a_window_must_be_a_number() {
        let run = Run::new("Packets(00) -> DropDuplicates(many) -> Collect").with(crate::CLASSES);
        let errors = run.refused();
        assert!(errors.ends_with("\n  WINDOW: invalid number\n"), "{errors}");
    }
}
