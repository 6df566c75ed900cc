//! Consumers that are killed, and consumers of a killed server.

use std::sync::Barrier;

use super::*;

/// Resources of this process: descriptors, mappings, and KiB of memory.
fn resources() -> [usize; 3] {
    let lines = |file: &str| fs::read_to_string(file).unwrap();
    let resident = lines("/proc/self/status");
    let resident = resident.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = resident.split_whitespace().next().unwrap().parse().unwrap();
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
    [descriptors, lines("/proc/self/maps").lines().count(), resident]
}

/// Kills from which on a server needs no more than it has.
const WARM: u32 = 5;

/// `LINERATE_KILLS=1000` sets the number of kills. In a process of its own, since it counts the
/// resources of that.
#[test]
fn one_of_four_is_killed_again_and_again_and_only_its_flows_move() {
    let name = "killed::one_of_four_is_killed_again_and_again_and_only_its_flows_move";
    if !is_by_itself(name) {
        return;
    }
    let kills: u32 = env::var("LINERATE_KILLS").map_or(15, |text| text.parse().unwrap());
    let mut server = Server::new();
    let names = ["a", "b", "c", "d"];
    server.add("balancer", &names, Granted { access: Access::Write, cells: 256 });
    let steady: Vec<Process> =
        names[..3].iter().map(|name| Process::start("reads", &server.address, name)).collect();
    let connection = Connection::open(&server.address).unwrap();
    let figures = connection.figures().unwrap();
    let line = |name: &str| figures.consumers().into_iter().find(|(_, of)| of == name).unwrap().0;
    let lines = names.map(line);
    let state = |at: usize| figures.figures(lines[at]).state;
    server.wait_for("three are there", |_| (0..3).all(|at| state(at) == 1));
    let (mut slowest, mut shared, mut lost) = (Duration::ZERO, 0u64, 0u64);
    // Never faster than consumers that are to lose nothing, which return packets some 160 at a
    // time.
    let mut push = |server: &mut Server| {
        while (0..3).any(|at| figures.figures(lines[at]).held > 192) {
            server.take_back();
            std::thread::yield_now();
        }
        lost += server.share_out(8) as u64;
        shared += 8;
    };
    let owners = |server: &Server| server.balancers[0].shares();
    let mut warm = None;
    for kill in 0..kills {
        if kill == WARM {
            warm = Some(resources());
        }
        let mut victim = Process::start("reads", &server.address, "d");
        while state(3) != 1 {
            push(&mut server);
        }
        let home: Vec<(u32, usize)> = owners(&server);
        assert_eq!(home, [(1, 256); 4], "its flows have come back");
        let until = Instant::now() + Duration::from_micros(u64::from(kill) * 331 % 20_000);
        while Instant::now() < until {
            push(&mut server);
        }
        let killed = Instant::now();
        // Traffic goes on while it dies, until the server has seen its end.
        victim.0.kill().unwrap();
        while state(3) != 0 {
            push(&mut server);
        }
        slowest = slowest.max(killed.elapsed());
        drop(victim);
        assert!(owners(&server)[..3].iter().all(|share| share.1 > 256));
    }
    if let Some(warm) = warm {
        // Threads of the server close the descriptors of a client that has gone.
        server.wait_for("descriptors are left", |_| resources()[0] <= warm[0]);
        let now = resources();
        println!(
            "descriptors, mappings, KiB of memory: {warm:?} behind {WARM} kills, {now:?} behind {kills}"
        );
        // The allocator has a mapping more or less; a member of this arena has hundreds of KiB.
        assert!(now[1] <= warm[1] + 8, "mappings are left");
        assert!(now[2] <= warm[2] + 1024, "memory is left");
    }
    let counted: Vec<u64> = steady.into_iter().map(Process::result).collect();
    let figures_of = |at: usize| figures.figures(lines[at]);
    for (at, counted) in counted.iter().enumerate() {
        let figures = figures_of(at);
        assert_eq!(
            (*counted, figures.lost_full),
            (figures.packets, 0),
            "{} has lost some",
            names[at]
        );
    }
    let victims = figures_of(3);
    assert_eq!(counted.iter().sum::<u64>() + victims.packets + lost, shared);
    println!(
        "{kills} kills: {shared} packets, {} of them for the killed, {lost} lost by it; {} buffers taken \
         back, at most {slowest:?} from the kill on",
        victims.packets, victims.reclaimed
    );
    assert_eq!((victims.attached, victims.held), (u64::from(kills), 0));
    server.finish();
}

#[test]
fn a_consumer_notices_the_loss_of_its_server_and_attaches_to_the_next() {
    for waits in [true, false] {
        let address = address();
        let mut before = Process::start("serves", &address, "");
        let mut said = BufReader::new(before.0.stdout.take().unwrap()).lines();
        while said.next().unwrap().unwrap() != "ready" {}
        let mut consumer = Consumer::attach(&address, "one").unwrap();
        assert_eq!(consumer.receive().unwrap(), 0);
        let figures = Connection::open(&address).unwrap().figures().unwrap();
        let killed = Instant::now();
        before.kill();
        let error = loop {
            // One that never waits finds out as well.
            let heard = if waits { consumer.wait(None).map(|_| 0) } else { consumer.receive() };
            if let Err(error) = heard {
                break error;
            }
        };
        println!("noticed {:?} behind the kill", killed.elapsed());
        assert!(matches!(error, ClientError::ServerGone), "{error}");
        assert_eq!(figures.consumers()[0].1, "one", "figures stay");
        assert!(matches!(Connection::open(&address), Err(ClientError::Connect { .. })));
        let mut next = Process::start("serves", &address, "");
        let mut said = BufReader::new(next.0.stdout.take().unwrap()).lines();
        while said.next().unwrap().unwrap() != "ready" {}
        consumer = Consumer::attach(&address, "one").unwrap();
        assert_eq!(consumer.receive().unwrap(), 0);
        drop(next.stdin());
        assert!(matches!(consumer.wait(None), Err(ClientError::Ended(Reason::Gone))));
    }
}

/// The last packets may come between a program's look for packets and its look at the server.
#[test]
fn packets_before_the_end_of_the_server_arrive() {
    for round in 0..500 {
        let mut server = Server::new();
        server.add("b", &["one"], READ);
        let mut consumer = Consumer::attach(&server.address, "one").unwrap();
        let waits = Barrier::new(2);
        let received = std::thread::scope(|scope| {
            let waits = &waits;
            let program = scope.spawn(move || {
                waits.wait();
                let mut received = 0;
                loop {
                    match consumer.prepare_wait() {
                        Ok(_) => received += consumer.receive().unwrap(),
                        Err(error) if error.is_end() => return received,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            waits.wait();
            assert_eq!(server.share_out(3), 0);
            drop((server.balancers, server.broker));
            program.join().unwrap()
        });
        assert_eq!(received, 3, "round {round}");
    }
}
