//! Consumers that are not trusted: their packets are copied into memory of their own.

use super::*;

/// Shared packets are never copied; others are, once each way.
#[test]
fn isolated_consumers_get_copies_and_others_get_none() {
    let mut server = Server::new();
    server.add("sharing", &["reader"], READ);
    server.add("copies", &["one", "two"], ISOLATED);
    let from = ConsumerHandle::to_receive(&server.broker, "one", Access::Write, 4).unwrap();
    for access in [Access::Read, Access::Write] {
        let other = Consumer::attach_for(&server.address, "one", Some(access));
        assert!(matches!(other, Err(ClientError::Refused { reason: Reason::NotGranted, .. })));
    }
    let other = Consumer::attach_for(&server.address, "reader", Some(Access::Isolated));
    assert!(matches!(other, Err(ClientError::Refused { reason: Reason::NotGranted, .. })));
    let mut reader = Consumer::attach(&server.address, "reader").unwrap();
    let mut one = Consumer::attach(&server.address, "one").unwrap();
    let mut two = Consumer::attach_for(&server.address, "two", Some(Access::Isolated)).unwrap();
    assert_eq!((one.access(), two.access()), (Access::Isolated, Access::Isolated));
    let (mut bytes, mut counts, mut returned) = ([0; 3], [0; 3], 0);
    let mut frame = Frame::new(32);
    for _ in 0..50 {
        assert_eq!(server.share_out(32), 0);
        for (at, consumer) in [&mut reader, &mut one, &mut two].into_iter().enumerate() {
            counts[at] += consumer.receive().unwrap();
            let packets = consumer.packets().inspect(|packet| _ = check(packet));
            bytes[at] += packets.map(|packet| packet.len() as u64).sum::<u64>();
        }
        // They are its own, to write and to send.
        one.packet_mut(0).unwrap()[16..].fill(9);
        let sent = one.send(|packet| packet[16] == 9).unwrap();
        let taken =
            server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut frame);
        assert_eq!(taken, sent);
        assert!(server.arena.packets(&frame).all(|packet| packet[16..].iter().all(|b| *b == 9)));
        returned += frame.bytes();
        server.pool.give(&mut frame);
    }
    assert_eq!((counts[0], counts[1] + counts[2]), (1600, 1600));
    assert_eq!(bytes[0], bytes[1] + bytes[2]);
    let [of_reader, of_one, of_two] = [&reader, &one, &two].map(|consumer| consumer.figures());
    println!(
        "copied of {} bytes: {} where packets are shared; {} of {} and {} of {} in memory of their \
         own, and {returned} back",
        of_reader.bytes, of_reader.copied, of_one.copied, of_one.bytes, of_two.copied, of_two.bytes
    );
    assert_eq!((of_reader.bytes, of_reader.copied), (bytes[0], 0));
    assert_eq!((of_one.bytes, of_one.copied), (bytes[1], bytes[1] + returned));
    assert_eq!((of_two.bytes, of_two.copied), (bytes[2], bytes[2]));
    assert_eq!([of_reader, of_one, of_two].map(|of| of.lost_full + of.lost_absent), [0; 3]);
    // Packets of its own, for which it gets buffers anew.
    for number in 0..6 {
        let until = Instant::now() + Duration::from_secs(60);
        while !one.transmit(&[number; 77]).unwrap() {
            assert!(Instant::now() < until, "no buffer comes");
            server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut frame);
        }
    }
    server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut frame);
    assert!(server.arena.packets(&frame).eq((0..6).map(|number| [number; 77])));
    server.pool.give(&mut frame);
    drop((reader, one, two, from));
    server.finish();
}

/// Words that say nothing, and come as fast as they are taken.
#[test]
fn an_isolated_consumer_that_floods_its_ring_blocks_no_other() {
    const CELLS: u64 = 1 << 14;
    let mut server = Server::new();
    let from = ConsumerHandle::to_receive(&server.broker, "one", Access::Isolated, 0).unwrap();
    server.add("b", &["one"], Granted { cells: CELLS as u32, ..ISOLATED });
    let (socket, files) = attached(&server.address, "one");
    let channel = fs::File::from(files.into_iter().nth(2).unwrap());
    // Behind the header and the ring to the consumer: its own position, and the server's.
    let (tail, head) = (64 + 192 + 8 * CELLS, 64 + 192 + 8 * CELLS + 64);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A server that is kept is let go some day.
            let until = Instant::now() + Duration::from_secs(5);
            while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
                let mut word = [0; 8];
                channel.read_exact_at(&mut word, head).unwrap();
                let all = u64::from_ne_bytes(word) + CELLS;
                channel.write_all_at(&all.to_ne_bytes(), tail).unwrap();
            }
        });
        let (mut frame, mut before) = (Frame::new(32), 0);
        let until = Instant::now() + Duration::from_secs(20);
        while before < 100 * CELLS {
            assert!(Instant::now() < until, "nothing comes");
            server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut frame);
            let now = from.figures().malformed;
            assert!(now - before <= CELLS, "{} words in one go", now - before);
            before = now;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop((socket, from));
    server.finish();
}

/// Where all wait for the slowest, copies are packets like others.
#[test]
fn packets_wait_for_isolated_consumers_too() {
    let mut server = Server::new();
    server.add("sharing", &["reader"], READ);
    server.add("copies", &["slow"], Granted { cells: 8, ..ISOLATED });
    let mut reader = Consumer::attach(&server.address, "reader").unwrap();
    let mut slow = Consumer::attach(&server.address, "slow").unwrap();
    let ids: Vec<usize> = server.balancers.iter().map(BalancerHandle::balancer).collect();
    let (mut frame, mut absent) = (Frame::new(32), Frame::new(32));
    server.pool.take(&mut frame, 32, 60);
    server.arena.for_each_mut(&mut frame, |packet| packet.fill(1));
    let mut got = [0; 2];
    for left in [24, 16, 8, 0] {
        let (pool, absent) = (&mut server.pool, &mut absent);
        server.broker.dispatcher().share_out(&ids, &[0; 32], true, pool, &mut frame, absent);
        assert_eq!((frame.len(), absent.len()), (left, 0));
        for (consumer, got) in [&mut reader, &mut slow].into_iter().zip(&mut got) {
            *got += consumer.receive().unwrap();
            // And gives them back.
            assert_eq!(consumer.receive().unwrap(), 0);
        }
    }
    assert_eq!(got, [32, 32]);
    // Where nothing waits, a consumer without room misses packets and no other one does.
    for _ in 0..2 {
        server.share_out(32);
        reader.receive().unwrap();
        assert_eq!(reader.receive().unwrap(), 0);
    }
    assert_eq!((reader.figures().lost_full, slow.figures().lost_full), (0, 2 * 32 - 8));
    drop((reader, slow));
    server.finish();
}

/// A packet that pushed headers have made longer than a new one can be.
#[test]
fn a_packet_too_long_for_an_isolated_consumer_is_not_waited_with() {
    let mut server = Server::new();
    server.add("copies", &["one"], ISOLATED);
    let mut one = Consumer::attach(&server.address, "one").unwrap();
    let mut frame = Frame::new(32);
    let long = |server: &mut Server, frame: &mut Frame| {
        let mut slot = server.pool.take_one(server.arena.room()).unwrap();
        assert!(slot.push(1));
        frame.push(slot).unwrap();
    };
    let share = |server: &mut Server, all, frame: &mut Frame| {
        let ids: Vec<usize> = server.balancers.iter().map(BalancerHandle::balancer).collect();
        let (pool, absent) = (&mut server.pool, &mut server.absent);
        server.broker.dispatcher().share_out(&ids, &[0; 2], all, pool, frame, absent)
    };
    long(&mut server, &mut frame);
    frame.append(&mut server.packets(1), 1);
    assert_eq!((share(&mut server, true, &mut frame), frame.len()), (1, 0));
    assert_eq!(one.receive().unwrap(), 1);
    assert_eq!((one.figures().packets, one.figures().lost_full), (1, 1));
    // Where nothing waits it stays, as any packet without a receiver.
    long(&mut server, &mut frame);
    assert_eq!((share(&mut server, false, &mut frame), frame.len()), (0, 1));
    // Others get it.
    server.add("sharing", &["reader"], READ);
    let mut reader = Consumer::attach(&server.address, "reader").unwrap();
    assert_eq!((share(&mut server, true, &mut frame), frame.len()), (0, 0));
    assert_eq!(reader.receive().unwrap(), 1);
    assert_eq!(reader.packets().next().unwrap().len(), server.arena.room() + 1);
    drop((one, reader));
    server.finish();
}
