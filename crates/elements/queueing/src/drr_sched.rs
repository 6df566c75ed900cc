//! `DRRSched`: serves inputs in turn, by bytes.
//!
//! Deficit round robin (Shreedhar and Varghese, 1995).

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder};
use linerate_memory::Frame;

use super::{FAMILY, ahead::Ahead};

pub(super) const CLASS: Class = Class {
    name: "DRRSched",
    family: FAMILY,
    summary: "pulls the same number of bytes from each input",
    description: "Each input in turn may send `QUANTUM` bytes more than it has sent so far; what \
        it does not use, because its next packet is longer, it keeps for its next turn, unless it \
        has no packets.",
    ports: "-/1",
    processing: "l/l",
    args: &[Arg::optional("QUANTUM", "bytes", "500", "bytes per turn")],
    cost: "Where packets come from ports, one call per input and turn: it pulls as many packets as \
        the bytes are enough for if none is longer than those before, and the next, whose length \
        decides the turn; it holds the ones too many. Elsewhere one call per packet, unless the \
        bytes are enough for several of any length.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => DRRSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Drr::new(make)),
    ..Class::here()
};

struct Drr {
    quantum: u64,
    /// Its own, and behind them those of the element it has replaced which are
    /// no more and of which packets are held: these stay until the last has gone.
    inputs: Vec<Input>,
    /// Number of its own inputs.
    own: usize,
    next: usize,
    /// Set if packets that arrive between two packets of a burst show in the order.
    turns_show: bool,
}

struct Input {
    ahead: Ahead,
    /// Bytes it may send.
    deficit: u64,
    /// Whether it has sent packets in the current burst.
    sent: bool,
}

impl Drr {
    fn new(make: &mut ElementBuilder<'_>) -> Drr {
        let quantum = make.or("QUANTUM", 500);
        if quantum <= 0 {
            make.error("bad QUANTUM");
        }
        let own = make.inputs();
        let input = |_| Input { ahead: Ahead::new(make), deficit: 0, sent: false };
        let inputs = (0..own).map(input).collect();
        let turns_show = !make.plan().is_live();
        Drr { quantum: quantum.max(1) as u64, inputs, own, next: 0, turns_show }
    }

    fn go_on(&mut self) {
        if self.next >= self.own && self.inputs[self.next].ahead.is_empty() {
            self.inputs.remove(self.next);
        } else {
            self.next += 1;
        }
        if self.next >= self.inputs.len() {
            self.next = 0;
        }
        if let Some(next) = self.inputs.get_mut(self.next) {
            next.deficit = next.deficit.saturating_add(self.quantum);
        }
    }

    /// No input may send though some have packets: as many rounds as none
    /// could send in are over at once.
    fn skip_rounds(&mut self) {
        let rounds = self.inputs.iter().filter_map(|input| {
            let length = input.ahead.next_len()?;
            Some(length.saturating_sub(input.deficit).div_ceil(self.quantum))
        });
        let rounds = rounds.min().unwrap_or(0).saturating_sub(1);
        let waiting = self.inputs.iter_mut().filter(|input| !input.ahead.is_empty());
        waiting.for_each(|input| input.deficit += rounds * self.quantum);
    }
}

impl Element for Drr {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.inputs.iter_mut().for_each(|input| input.sent = false);
        // Turns since something was sent.
        let mut turns = 0;
        while frame.len() < count && !self.inputs.is_empty() {
            let input = &mut self.inputs[self.next];
            let room = count - frame.len();
            if self.next < self.own {
                input.ahead.refill(cx, self.next, input.deficit, room);
            }
            let mut left = input.deficit;
            let (sent, bytes) = input.ahead.release(frame, room, |length| {
                let may = length <= left;
                left = left.saturating_sub(length);
                may
            });
            input.deficit -= bytes;
            if sent > 0 {
                input.sent = true;
                turns = 0;
                continue;
            }
            if input.ahead.is_empty() {
                // More may come of the input whose packets have just been used up: then it is still
                // its turn. So may the first.
                if input.sent || self.turns_show && !frame.is_empty() {
                    break;
                }
                input.deficit = 0;
            }
            self.go_on();
            turns += 1;
            if turns >= self.inputs.len() {
                if self.inputs.iter().all(|input| input.ahead.is_empty()) {
                    break;
                }
                self.skip_rounds();
                turns = 0;
            }
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Drr>() {
            let gone = old.inputs.split_off(old.own.min(self.own));
            for (input, old) in self.inputs.iter_mut().zip(&mut old.inputs) {
                input.ahead.take_state(&mut old.ahead);
                input.deficit = old.deficit;
            }
            self.inputs.extend(gone.into_iter().filter(|input| !input.ahead.is_empty()));
            cx.notify();
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.inputs.iter_mut().for_each(|input| input.ahead.close(cx));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The lengths of the packets in their order.
    fn order(quantum: usize, frame_limit: usize) -> Vec<usize> {
        let mut run = Run::new(&format!(
            "InfiniteSource(LENGTH 1000, LIMIT 30) -> a :: Queue; \
                InfiniteSource(LENGTH 100, LIMIT 500) -> b :: Queue; \
                a, b => DRRSched({quantum}) -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard"
        ))
        .frame_limit(frame_limit);
        run.run();
        run.read("out.lengths").lines().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn inputs_get_the_same_number_of_bytes() {
        for quantum in [1, 60, 500, 1000, 3300] {
            let lengths = order(quantum, 256);
            assert_eq!(lengths.len(), 530, "{quantum}");
            let mut bytes = [0usize; 2];
            for length in lengths {
                bytes[usize::from(length == 100)] += length;
                if bytes[0] < 30_000 && bytes[1] < 50_000 {
                    assert!(bytes[0].abs_diff(bytes[1]) <= 2 * (quantum + 1000), "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn the_order_is_that_of_click() {
        // How many of a length follow each other.
        let expected = [3, 3, 3, 4, 3, 3, 4, 3, 3, 1].map(|long| [(100, 33), (1000, long)]);
        let mut expected = expected.concat();
        expected.push((100, 170));
        for frame_limit in [1, 256] {
            let lengths = order(3300, frame_limit);
            let runs = lengths.chunk_by(|a, b| a == b).map(|run| (run[0], run.len()));
            assert_eq!(runs.collect::<Vec<_>>(), expected);
        }
        assert_eq!(order(1, 1), order(500, 256));
    }

    #[test]
    fn a_turn_is_a_quantum() {
        let lengths = order(2000, 256);
        let turn = [vec![1000; 2], vec![100; 20]].concat();
        // The second input is first: the first has no bytes at the start.
        let expected: Vec<usize> =
            vec![100; 20].into_iter().chain(turn.iter().copied().cycle().take(22 * 14)).collect();
        assert_eq!(lengths[..expected.len()], expected);
    }
}
