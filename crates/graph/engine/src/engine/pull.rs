//! Pulling: packets are asked for, and the element behind answers at once.

use linerate_memory::Frame;

use crate::element::Context;

impl Context {
    /// Adds to `frame` at most `count` packets pulled from input `port`, and
    /// returns how many.
    pub fn pull(&mut self, port: usize, count: usize, frame: &mut Frame) -> usize {
        let count = count.min(frame.room());
        let sources = &self.nodes[self.node].sources;
        let Some(&Some((source, output))) = sources.get(port) else { return 0 };
        if count == 0 {
            return 0;
        }
        if !frame.is_empty() {
            let mut more = self.out.fresh();
            let pulled = self.pull(port, count, &mut more);
            frame.append(&mut more, pulled);
            self.out.recycle(more);
            return pulled;
        }
        let Some(mut element) = self.runtimes[source].take() else { return 0 };
        let (node, place) = (self.node, self.out.place());
        let charged = self.enter(source);
        // Packets that pulling one packet sends elsewhere go before the next is pulled.
        let count = if self.out.is_exact() { 1 } else { count };
        element.pull(self, output, count, frame);
        let runtime = &mut self.runtimes[source];
        runtime.put(element);
        // Packets that an element stored were counted when they arrived.
        if runtime.stores {
            self.taken += frame.len();
        } else {
            runtime.stats.called(frame.len());
        }
        self.delivered |= !frame.is_empty();
        if self.out.is_touched() {
            self.send_before_pulled();
        }
        self.node = node;
        self.out.enter(place);
        self.account.switch(charged);
        if node == self.task {
            self.pulled += frame.len();
        }
        if self.runtimes[node].meets_again {
            self.order.number(frame, self.pool.arena());
        }
        frame.len()
    }

    /// Pulls packets from input `port` until `pass` has left some of them in `frame` or there are no
    /// more: those that it drops meanwhile are no turns of the task.
    pub fn pull_on(
        &mut self,
        port: usize,
        count: usize,
        frame: &mut Frame,
        mut pass: impl FnMut(&mut Context, &mut Frame),
    ) {
        let before = self.taken;
        while frame.is_empty() && self.pull(port, count, frame) > 0 {
            pass(self, frame);
        }
        self.taken = before + frame.len();
    }
}
