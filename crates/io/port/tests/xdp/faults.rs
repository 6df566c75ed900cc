//! Faults, and the state they leave behind.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use linerate_memory::{Arena, ArenaOptions, Frame};
use linerate_port::{Context, Direction, DropReason, OpenError, PortFault, open, packets_kept};
use linerate_test_support::wait_until;
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CapabilitySet, capabilities, set_capabilities},
};

use crate::rig::{Rig, TIMEOUT, Wire, arena, frames, open_in, send_all, slot};

fn refused(rig: &Rig, uri: &str, arena: &Arena) -> OpenError {
    match rig.open(uri, arena) {
        Err(error) => error,
        Ok(_) => panic!("{uri} was opened"),
    }
}

#[test]
#[ignore = "needs root"]
fn errors_of_opening_have_reason_and_advice() {
    let rig = Rig::new(1);
    let error = refused(&rig, "xdp:x1", &arena());
    assert!(matches!(error, OpenError::NoInterface { .. }), "{error}");
    assert!(error.to_string().contains("did you mean x0"), "{error}");

    let error = refused(&rig, "xdp:x0?queues=2", &arena()).to_string();
    assert!(error.contains("ethtool -L x0 combined 2"), "{error}");

    let error = refused(&rig, "xdp:x0?zerocopy", &arena()).to_string();
    assert!(error.contains("no zero-copy") && error.contains("use copy"), "{error}");

    let small =
        ArenaOptions { buffer_size: 1024, size: 1 << 20, huge: false, ..Default::default() };
    let error = refused(&rig, "xdp:x0", &small.create().unwrap()).to_string();
    assert!(error.contains("2048 to 4096"), "{error}");

    rig.theirs.set_mtu("p0", 3000);
    rig.ours.set_mtu("x0", 3000);
    let error = refused(&rig, "xdp:x0", &arena()).to_string();
    for remedy in ["MTU of x0 is 3000", "mtu 1838", "--buffer-size 3274", "packet:x0"] {
        assert!(error.contains(remedy), "{remedy}: {error}");
    }
    let large = ArenaOptions { buffer_size: 3274, huge: false, ..Default::default() };
    rig.open("xdp:x0", &large.create().unwrap()).unwrap();
}

/// A child has the descriptors of its parent until it executes a program.
#[test]
#[ignore = "needs root"]
fn an_interface_is_free_again_though_another_thread_forks() {
    let rig = Rig::new(1);
    let arena = arena();
    let first = rig.open("xdp:x0", &arena).unwrap();
    let (forked, forks) = rustix::pipe::pipe().unwrap();
    let (goes_on, go_on) = rustix::pipe::pipe().unwrap();
    let mut program = Command::new("true");
    // SAFETY: reading and writing of pipes is allowed between fork and exec.
    unsafe {
        program.pre_exec(move || {
            rustix::io::write(&forks, &[1])?;
            rustix::io::read(&goes_on, &mut [0])?;
            Ok(())
        });
    }
    let starter = thread::spawn(move || program.status());
    rustix::io::read(&forked, &mut [0]).unwrap();
    // The child has descriptors that are the parent's now, and keeps them for a while yet.
    let waker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        rustix::io::write(&go_on, &[1]).unwrap();
    });
    first.close();
    rig.open("xdp:x0", &arena).unwrap().close();
    waker.join().unwrap();
    assert!(starter.join().unwrap().unwrap().success());
}

#[test]
#[ignore = "needs root"]
fn an_interface_in_use_is_busy() {
    let rig = Rig::new(1);
    let arena = arena();
    let first = rig.open("xdp:x0", &arena).unwrap();
    let error = refused(&rig, "xdp:x0", &arena);
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("xdp off"), "{error}");
    first.close();
    // Its queue may be let go of a moment later, which opening waits for.
    assert_eq!(rig.open("xdp:x0", &arena).unwrap().close(), 0);
}

#[test]
#[ignore = "needs root"]
fn without_privileges_the_remedy_is_named() {
    let rig = Rig::new(1);
    let arena = arena();
    let error = rig.ours.enter(|| {
        // SAFETY: takes no pointers. The raw call changes this thread alone,
        // which ends with the closure.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(done, 0);
        open(&"xdp:x0".parse().unwrap(), &Context::new(arena.clone())).unwrap_err()
    });
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
    let text = error.to_string();
    for part in
        ["run as root", "setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep", "packet:x0"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(arena.accounting().held, 0);
}

/// The kernel takes memory beyond the limit only from processes that may lock it, and calls that a
/// lack of buffers.
#[test]
#[ignore = "needs root"]
fn without_the_right_to_lock_memory_that_is_said() {
    let rig = Rig::new(1);
    let arena = arena();
    let limits = getrlimit(Resource::Memlock);
    // No other process is bound by it: all have that right.
    let low = Rlimit { current: Some(64 << 10), ..limits };
    setrlimit(Resource::Memlock, low).unwrap();
    let error = rig.ours.enter(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::IPC_LOCK);
        set_capabilities(None, sets).unwrap();
        open(&"xdp:x0".parse().unwrap(), &Context::new(arena.clone())).unwrap_err()
    });
    setrlimit(Resource::Memlock, limits).unwrap();
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("lock the packet memory; ") && text.contains("cap_ipc_lock"), "{text}");
}

/// Runs as a process of its own, see `killed_with_its_process`: opens the port
/// and waits to be killed.
#[test]
#[ignore = "needs root"]
fn child_that_holds_a_port() {
    if std::env::var_os("LINERATE_XDP_CHILD").is_none() {
        return;
    }
    let arena = arena();
    let port = open(&"xdp:x0?disconnect".parse().unwrap(), &Context::new(arena)).unwrap();
    println!("\nopen: {}", port.info.mode);
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "needs root"]
fn nothing_is_left_of_a_killed_process() {
    let rig = Rig::new(1);
    rig.ours.add_address("x0", "198.18.0.1/24");
    rig.theirs.add_address("p0", "198.18.0.2/24");
    let attached = || rig.ours.ip(["-d", "link", "show", "x0"]).contains("prog/xdp");
    assert!(!attached());
    let mut command: Command = rig.ours.command([std::env::current_exe().unwrap()]);
    command
        .args(["--exact", "faults::child_that_holds_a_port", "--ignored", "--nocapture"])
        .env("LINERATE_XDP_CHILD", "1")
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let opened = lines.map_while(Result::ok).any(|line| line.starts_with("open: native"));
    let was_attached = attached();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(opened && was_attached);
    assert!(wait_until(|| !attached(), TIMEOUT), "the program is still there");
    rig.theirs.expect(["ping", "-c", "1", "-W", "2", "198.18.0.1"]);
    let link = rig.ours.ip(["-d", "link", "show", "x0"]);
    assert!(link.contains("promiscuity 0"), "{link}");
    let arena = arena();
    assert_eq!(rig.open("xdp:x0?disconnect", &arena).unwrap().close(), 0);
}

#[test]
#[ignore = "needs root"]
fn a_link_that_was_down_works_again() {
    for down_ours in [true, false] {
        let rig = Rig::new(1);
        let arena = arena();
        let mut opened = rig.open("xdp:x0", &arena).unwrap();
        let (side, name) = if down_ours { (&rig.ours, "x0") } else { (&rig.theirs, "p0") };
        side.link_down(name);
        let state = |text: &str| rig.ours.ip(["link", "show", "x0"]).contains(text);
        assert!(wait_until(|| state("DOWN"), TIMEOUT));
        let sent = frames(100);
        for frame in &sent {
            let (queue, pool, burst) = opened.queue();
            burst.push(slot(pool, frame)).unwrap();
            queue.transmit.as_mut().unwrap().transmit(pool, burst).unwrap();
            assert!(burst.is_empty());
        }
        let counters = opened.port.queues[0].transmit.as_ref().unwrap().counters().clone();
        let dropped = counters.read();
        assert!(dropped.dropped_for(DropReason::LinkDown) > 90, "{dropped:?}");
        side.link_up(name);
        assert!(wait_until(|| state("state UP"), TIMEOUT));
        let wire = Wire::open(&rig.theirs, "p0");
        opened.transmit(&sent);
        // Packets in the ring when the link went down may come before.
        let came = wire.receive_all(counters.read().packets as usize);
        assert!(came.ends_with(&sent), "came {}", came.len());
        sent.iter().for_each(|frame| wire.send(frame));
        assert!(opened.receive(sent.len()) == sent);
        let counts = counters.read();
        // Each was sent or dropped, and for one reason.
        assert_eq!(counts.packets + counts.dropped(), 200, "{counts:?}");
        assert_eq!(opened.close(), 0);
    }
}

#[test]
#[ignore = "needs root"]
fn a_deleted_interface_is_noticed_and_its_successor_can_be_opened() {
    let rig = Rig::new(1);
    let arena = arena();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    rig.ours.delete_link("x0");
    rig.lab.veth(&rig.ours, "x0", &rig.theirs, "p0");
    let (queue, pool, frame) = opened.queue();
    let deadline = Instant::now() + TIMEOUT;
    let error = loop {
        if let Err(error) = queue.receive.as_mut().unwrap().receive(pool, frame) {
            break error;
        }
        assert!(Instant::now() < deadline, "nothing noticed");
    };
    assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
    frame.push(slot(pool, &frames(1)[0])).unwrap();
    let error = queue.transmit.as_mut().unwrap().transmit(pool, frame).unwrap_err();
    assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
    // Where it can be seen that the interface with the packet in its ring has gone.
    assert_eq!(rig.ours.enter(|| opened.close()), 0);

    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    let wire = Wire::open(&rig.theirs, "p0");
    let sent = frames(20);
    sent.iter().for_each(|frame| wire.send(frame));
    assert!(opened.receive(sent.len()) == sent);
    assert_eq!(opened.close(), 0);
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_comes_and_goes_takes_no_buffers_with_it() {
    let rig = Rig::new(1);
    let arena = arena();
    let sent = frames(50);
    for flap in 0..20 {
        let mut opened = rig.open("xdp:x0", &arena).unwrap();
        let wire = Wire::open(&rig.theirs, "p0");
        sent.iter().for_each(|frame| wire.send(frame));
        assert!(opened.receive(sent.len()) == sent, "flap {flap}");
        opened.transmit(&sent);
        assert!(wire.receive_all(sent.len()) == sent, "flap {flap}");
        // With packets in every ring.
        sent.iter().for_each(|frame| wire.send(frame));
        let (queue, pool, burst) = opened.queue();
        sent.iter().for_each(|frame| burst.push(slot(pool, frame)).unwrap());
        send_all(queue.transmit.as_mut().unwrap().as_mut(), pool, burst).unwrap();
        rig.ours.delete_link("x0");
        assert_eq!(opened.close(), 0, "flap {flap}");
        rig.lab.veth(&rig.ours, "x0", &rig.theirs, "p0");
    }
}

/// A packet that waits for its turn below the interface may be made of its
/// buffer's own pages, as `virtio_net` wants it.
#[test]
#[ignore = "needs root"]
fn packets_on_their_way_keep_their_buffers_after_the_port_is_closed() {
    let rig = Rig::new(1);
    let arena = arena();
    let shaped = ["tbf", "rate", "1kbit", "burst", "1600", "limit", "1000000"];
    rig.ours.expect([&["tc", "qdisc", "add", "dev", "x0", "root"][..], &shaped].concat());
    rig.ours.ip(["link", "add", "m0", "link", "x0", "type", "macvlan", "mode", "bridge"]);
    rig.ours.link_up("m0");
    let open = || open_in(&rig.ours, "xdp:m0", &arena, Direction::Transmit).unwrap();
    let mut opened = open();
    let (queue, pool, burst) = opened.queue();
    frames(30).iter().for_each(|frame| burst.push(slot(pool, frame)).unwrap());
    send_all(queue.transmit.as_mut().unwrap().as_mut(), pool, burst).unwrap();
    let held = opened.close();
    assert!(held > 20, "{held} buffers are held for 30 packets, of which few have gone out");

    rig.ours.expect(["tc", "qdisc", "del", "dev", "x0", "root"]);
    assert_eq!(open().close(), 0);
}

#[test]
#[ignore = "needs root"]
fn packets_that_were_never_sent_come_home_when_their_queue_is_free() {
    let rig = Rig::new(1);
    rig.lab.veth(&rig.ours, "x1", &rig.theirs, "p1");
    let arena = arena();
    let mut other = rig.open("xdp:x1", &arena).unwrap();
    let held = arena.accounting().held;
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    rig.ours.link_down("x0");
    let (queue, pool, burst) = opened.queue();
    frames(30).iter().for_each(|frame| burst.push(slot(pool, frame)).unwrap());
    queue.transmit.as_mut().unwrap().transmit(pool, burst).unwrap();
    assert!(burst.is_empty());
    assert_eq!(opened.close(), held + 30);
    // The other port finds out, where the queue can be seen.
    let mut found = || {
        let receive = other.port.queues[0].receive.as_mut().unwrap();
        rig.ours.enter(|| receive.refresh());
        arena.accounting().held == held
    };
    assert!(wait_until(&mut found, TIMEOUT), "{:?}", arena.accounting());
    // And leaves the queue to others.
    rig.ours.link_up("x0");
    rig.open("xdp:x0", &arena).unwrap();
}

#[test]
#[ignore = "needs root"]
fn new_queues_are_noticed() {
    let rig = Rig::new(2);
    rig.ours.expect(["ethtool", "-L", "x0", "rx", "1", "tx", "1"]);
    let arena = arena();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    assert_eq!(opened.port.queues.len(), 1);
    rig.ours.expect(["ethtool", "-L", "x0", "rx", "2", "tx", "2"]);
    let (queue, pool, frame) = opened.queue();
    let receive = queue.receive.as_mut().unwrap();
    receive.refresh();
    let error = receive.receive(pool, frame).unwrap_err();
    assert!(matches!(error.fault(), PortFault::Changed { .. }), "{error}");
    assert_eq!(opened.close(), 0);
    assert_eq!(rig.open("xdp:x0", &arena).unwrap().port.queues.len(), 2);
}

#[test]
#[ignore = "needs root"]
fn a_receiver_that_stops_loses_packets_by_count() {
    let rig = Rig::new(1);
    let arena = arena();
    let mut opened = rig.open("xdp:x0?ring=64", &arena).unwrap();
    let wire = Wire::open(&rig.theirs, "p0");
    let sent = frames(200);
    sent.iter().for_each(|frame| wire.send(frame));
    let received = opened.receive(64).len() as u64;
    let receive = opened.port.queues[0].receive.as_mut().unwrap();
    let mut balanced = || {
        receive.refresh();
        received + receive.counters().read().dropped() == 200
    };
    assert!(wait_until(&mut balanced, TIMEOUT), "{received} {:?}", receive.counters().read());
    // The arena has buffers enough: it is the ring that was full.
    let counts = receive.counters().read();
    assert_eq!(counts.dropped_for(DropReason::Overrun), counts.dropped(), "{counts:?}");
    assert_eq!(opened.close(), 0);
}

/// The packets that a few TCP connections have in flight find room in a port of a virtual link, with as much
/// memory as a program takes for it.
#[test]
#[ignore = "needs root"]
fn bursts_of_tcp_senders_fit_into_the_ring() {
    const BURST: usize = 4500;
    let rig = Rig::new(1);
    let kept = rig.ours.enter(|| packets_kept(&"xdp:x0".parse().unwrap()));
    let size = (16 << 20) + kept * 2180;
    let arena = ArenaOptions { size, huge: false, ..Default::default() }.create().unwrap();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    let wire = Wire::open(&rig.theirs, "p0");
    let sent = &frames(1)[0];
    (0..BURST).for_each(|_| wire.send(sent));
    assert_eq!(opened.receive(BURST).len(), BURST);
    let receive = opened.port.queues[0].receive.as_mut().unwrap();
    receive.refresh();
    assert_eq!(receive.counters().read().dropped(), 0);
    assert_eq!(opened.close(), 0);
}

#[test]
#[ignore = "needs root"]
fn frames_the_interface_does_not_take_are_counted() {
    let rig = Rig::new(1);
    let arena = arena();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    let wire = Wire::open(&rig.theirs, "p0");
    let (long, short, good) = (vec![1; 1519], vec![1; 13], frames(2));
    let packets = [good[0].clone(), long, good[1].clone(), short];
    opened.transmit(&packets);
    assert!(wire.receive_all(2) == good);
    let counts = opened.port.queues[0].transmit.as_ref().unwrap().counters().read();
    assert_eq!(counts.packets, 2);
    assert_eq!(counts.dropped_for(DropReason::TooLong), 1);
    assert_eq!(counts.dropped_for(DropReason::Malformed), 1);
    assert_eq!(opened.close(), 0);
}

#[test]
#[ignore = "needs root"]
fn an_empty_pool_loses_packets_by_count_and_recovers() {
    let rig = Rig::new(1);
    let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    // All remaining buffers are kept.
    let mut kept = Frame::new(2048);
    opened.pool.take(&mut kept, 2048, 60);
    let wire = Wire::open(&rig.theirs, "p0");
    let sent = frames(250);
    sent.iter().for_each(|frame| wire.send(frame));
    let deadline = Instant::now() + TIMEOUT;
    let mut received = 0;
    let mut held = Frame::new(2048);
    let receive = opened.port.queues[0].receive.as_mut().unwrap();
    while received + receive.counters().read().dropped() < 250 && Instant::now() < deadline {
        received += receive.receive(&mut opened.pool, &mut held).unwrap() as u64;
        receive.refresh();
    }
    let counts = receive.counters().read();
    assert!(counts.dropped_for(DropReason::NoBuffer) > 0, "{counts:?}");
    assert_eq!(received + counts.dropped(), 250);
    opened.pool.give(&mut kept);
    opened.pool.give(&mut held);
    let (queue, pool, frame) = opened.queue();
    queue.receive.as_mut().unwrap().receive(pool, frame).unwrap();
    sent[..32].iter().for_each(|frame| wire.send(frame));
    assert!(opened.receive(32) == sent[..32]);
    assert_eq!(opened.close(), 0);
}
