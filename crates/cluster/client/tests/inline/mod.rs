//! Consumers that are asked about packets.

use super::*;

/// Options of an inline consumer for packets that wait so long for an answer.
fn terms(limit: Duration, open: bool) -> InlineConfig {
    InlineConfig { limit, open, most: 4096, flows: 0, flow_time: Duration::from_secs(1) }
}

const HOUR: Duration = Duration::from_secs(3600);

impl Server {
    /// Asks about so many packets.
    fn ask(&mut self, of: &InlineHandle, count: usize) {
        let mut frame = self.packets(count);
        assert_eq!(frame.len(), count);
        self.broker.dispatcher().ask(of, &mut self.pool, &mut frame);
        assert!(frame.is_empty());
    }

    /// Takes answers and settles packets: returns how many pass, and the drops.
    fn settle(&mut self, of: &InlineHandle) -> (usize, DropCounts) {
        let mut frame = Frame::new(2048);
        let settled = self.broker.dispatcher().drain(of, &mut self.pool, &mut frame);
        let passed = frame.len();
        self.pool.give(&mut frame);
        (passed, settled.refused)
    }
}

#[test]
fn a_consumer_that_keeps_one_packet_is_still_asked_about_others() {
    let mut server = Server::new();
    let first =
        InlineHandle::new(&server.broker, "one", READ, terms(Duration::ZERO, false)).unwrap();
    let mut one = Consumer::attach(&server.address, "one").unwrap();
    server.ask(&first, 1);
    let others = InlineHandle::new(&server.broker, "one", READ, terms(HOUR, false)).unwrap();
    server.ask(&others, 1);
    // The first one's time is over.
    assert_eq!(server.settle(&first), (0, DropCounts { silent: 1, ..DropCounts::default() }));
    server.ask(&others, 1);
    assert_eq!(first.figures().unasked, 1, "it is silent");
    let (mut kept, mut frame) = (Frame::new(1), Frame::new(32));
    assert!(one.wait(None).unwrap());
    assert_eq!(one.receive_into(&mut kept).unwrap(), 1);
    for _ in 0..3 {
        assert_eq!(one.receive_into(&mut frame).unwrap(), 1);
        one.answer_from(&mut frame, |_| Verdict::Pass).unwrap();
        assert_eq!(server.settle(&others).0, 1);
        server.ask(&others, 1);
    }
    let figures = first.figures();
    assert_eq!((figures.passed, figures.unasked, figures.held), (3, 1, 2));
    one.release(&mut kept).unwrap();
    server.settle(&others);
    assert_eq!(first.figures().late, 1);
    drop((one, first, others));
    server.finish();
}

#[test]
fn a_verdict_without_a_buffer_counts_as_no_verdict() {
    for open in [true, false] {
        let mut server = Server::new();
        let of = InlineHandle::new(&server.broker, "one", ISOLATED, terms(HOUR, open)).unwrap();
        let mut one = Consumer::attach(&server.address, "one").unwrap();
        server.ask(&of, 3);
        assert_eq!(one.receive().unwrap(), 3);
        one.answer(|_| Verdict::Pass).unwrap();
        let mut all = Vec::new();
        while all.last().is_none_or(|frame: &Frame| !frame.is_empty()) {
            let mut frame = Frame::new(2048);
            server.pool.take(&mut frame, 2048, 60);
            all.push(frame);
        }
        let (passed, refused) = server.settle(&of);
        assert_eq!((passed, refused.full), if open { (3, 0) } else { (0, 3) });
        let figures = of.figures();
        assert_eq!((figures.passed, figures.denied, figures.unanswered), (0, 0, 3));
        all.iter_mut().for_each(|frame| server.pool.give(frame));
        drop((one, of));
        server.finish();
    }
}

#[test]
fn packets_of_one_consumer_that_cannot_pass_are_counted() {
    let mut server = Server::new();
    let mut closed =
        InlineHandle::new(&server.broker, "one", WRITE, terms(Duration::ZERO, false)).unwrap();
    let one = Consumer::attach(&server.address, "one").unwrap();
    server.ask(&closed, 3);
    // A configuration follows that lets all pass.
    let mut open = InlineHandle::new(&server.broker, "one", WRITE, terms(HOUR, true)).unwrap();
    assert!(open.take_over(&mut closed));
    drop(closed);
    assert_eq!(server.settle(&open), (0, DropCounts { silent: 3, ..DropCounts::default() }));
    drop((one, open));
    server.finish();
}

#[test]
fn all_that_a_consumer_has_said_holds_when_it_is_gone() {
    let mut server = Server::new();
    let granted = Granted { cells: 2048, ..READ };
    let of = InlineHandle::new(&server.broker, "one", granted, terms(HOUR, false)).unwrap();
    let mut one = Consumer::attach(&server.address, "one").unwrap();
    // More than is heard in one go.
    (0..50).for_each(|_| server.ask(&of, 32));
    while one.receive().unwrap() > 0 {
        one.answer(|_| Verdict::Pass).unwrap();
    }
    drop(one);
    server.wait_for("it has gone", |_| of.figures().state == 0);
    assert_eq!(server.settle(&of), (1600, DropCounts::default()));
    let figures = of.figures();
    assert_eq!((figures.passed, figures.unanswered), (1600, 0));
    drop(of);
    server.finish();
}
