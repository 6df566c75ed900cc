//! `RoundRobinSched`: one packet from each input in turn.

use linerate_graph::{Class, Context, Element, Make};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "RoundRobinSched",
    family: FAMILY,
    summary: "pulls from its inputs in turn",
    description: "Each packet pulled comes from the input after the one the last came from, of \
        those that have any.",
    ports: "-/1",
    processing: "l/l",
    cost: "Every input is asked once per frame for its share, and again only when another had \
        less than its share; the packets are then put in turn, eight bytes copied twice.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => RoundRobinSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(RoundRobin::new(make)),
    ..Class::EMPTY
};

struct RoundRobin {
    next: usize,
    /// Packets of each input, empty between calls.
    shares: Vec<Frame>,
    /// Inputs that have no more, in the call that goes on.
    dry: Vec<bool>,
}

impl RoundRobin {
    fn new(make: &mut Make<'_>) -> RoundRobin {
        let inputs = make.inputs();
        let limit = make.world.frame_limit;
        let shares = (0..inputs).map(|_| Frame::new(limit)).collect();
        RoundRobin { next: 0, shares, dry: vec![false; inputs] }
    }

    /// Asks every input for its share of `count` packets.
    fn ask(&mut self, cx: &mut Context, count: usize) {
        let inputs = self.shares.len();
        let asked = self.dry.iter().filter(|dry| !**dry).count();
        if asked == 0 {
            return;
        }
        let (each, mut more) = (count / asked, count % asked);
        for input in (self.next..inputs).chain(0..self.next) {
            if self.dry[input] {
                continue;
            }
            let share = each + usize::from(more > 0);
            more = more.saturating_sub(1);
            if share == 0 {
                break;
            }
            self.dry[input] = cx.pull(input, share, &mut self.shares[input]) < share;
        }
        // From the back, which is where a frame can be taken from.
        self.shares.iter_mut().for_each(|share| share.slots_mut().reverse());
    }

    /// Puts the shares in turn.
    fn merge(&mut self, frame: &mut Frame) -> usize {
        let inputs = self.shares.len();
        let before = frame.len();
        let mut left: usize = self.shares.iter().map(Frame::len).sum();
        let mut input = self.next;
        while left > 0 {
            let slot = self.shares[input].pop();
            input = if input + 1 == inputs { 0 } else { input + 1 };
            if let Some(slot) = slot {
                let pushed = frame.push(slot);
                debug_assert!(pushed.is_ok(), "no more were asked for than there is room");
                left -= 1;
                self.next = input;
            }
        }
        frame.len() - before
    }
}

impl Element for RoundRobin {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.dry.fill(false);
        while frame.len() < count {
            let dry = self.dry.iter().filter(|dry| **dry).count();
            self.ask(cx, count - frame.len());
            let news = self.dry.iter().filter(|now| **now).count() > dry;
            if self.merge(frame) == 0 && !news {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Which of three inputs, with 300, 5 and 40 packets, each packet is from.
    fn order(frame_limit: usize) -> String {
        let mut run = Run::new(
            "InfiniteSource(\\<0a>, LIMIT 300) -> a :: Queue; \
                InfiniteSource(\\<0b>, LIMIT 5) -> b :: Queue; \
                InfiniteSource(\\<0c>, LIMIT 40) -> c :: Queue; \
                a, b, c => RoundRobinSched -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        )
        .frame_limit(frame_limit);
        run.run();
        run.read("out.packets").lines().map(|line| &line[1..]).collect()
    }

    #[test]
    fn inputs_take_turns_packet_by_packet() {
        let expected = "abc".repeat(5) + &"ac".repeat(35) + &"a".repeat(260);
        assert_eq!(order(256), expected);
        assert_eq!(order(7), expected);
    }
}
