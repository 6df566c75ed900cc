//! The fast path while its tables change, and while every packet of a port is new.
//!
//! As tests these are short. The long runs are:
//! `cargo test --release -p linerate-ofswitch --lib stress -- --ignored --nocapture --test-threads 1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache, Slot};

use super::{Counts, Drop, FlowCache, Options, Outlet};
use crate::switch::{Switch, SwitchOptions};
use crate::text::Syntax;
use crate::wire::{FlowModCommand, Message, Port, PortConfig, PortNumber, PortState, Version};

const FRAME: usize = 256;

/// Counts the packets sent by each port, and looks at the last byte of the destination.
struct Counted {
    pool: PoolCache,
    sent: [u64; 4],
    /// The versions that packets were marked with, the last one, and how often one came behind a
    /// later.
    version: u32,
    backwards: u64,
    dropped: [u64; Drop::NAMES.len()],
}

impl Counted {
    fn look(&mut self, output: usize, slot: &Slot) {
        self.sent[output] += 1;
        if output == 1
            && let Some(mark) = self.pool.arena().packet(slot).get(2..6)
        {
            let version = mark.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
            self.backwards += u64::from(version < self.version);
            self.version = version;
        }
    }
}

impl Outlet for Counted {
    fn pool(&mut self) -> &mut PoolCache {
        &mut self.pool
    }

    fn send(&mut self, output: usize, slot: Slot) {
        self.look(output, &slot);
        self.pool.give_one(slot);
    }

    fn send_frame(&mut self, output: usize, frame: &mut Frame) {
        frame.drain_front(frame.len(), |slot| self.send(output, slot));
    }

    fn distribute(&mut self, frame: &mut Frame, outputs: &[u32]) {
        let mut outputs = outputs.iter();
        frame.drain_front(frame.len(), |slot| {
            let output = outputs.next().map_or(0, |output| *output as usize);
            self.send(output, slot);
        });
    }

    fn drop_packet(&mut self, slot: Slot, why: Drop) {
        self.dropped[why as usize] += 1;
        self.pool.give_one(slot);
    }

    fn drop_frame(&mut self, frame: &mut Frame, why: Drop) {
        self.dropped[why as usize] += frame.len() as u64;
        self.pool.give(frame);
    }
}

/// A switch with four ports, and time in nanoseconds.
struct Bench {
    switch: Arc<Switch>,
    arena: Arena,
    begin: Instant,
}

impl Bench {
    fn new(flows: &str) -> Bench {
        let switch = Switch::new(SwitchOptions { tables: 4, ..SwitchOptions::default() });
        for number in 1..=4 {
            let port = Port {
                number: PortNumber(number),
                address: [2, 0, 0, 0, 0, number as u8],
                name: number.to_string(),
                config: PortConfig::default(),
                state: PortState::LIVE,
                ethernet: None,
                others: Vec::new(),
            };
            switch.add_port(port, 0);
        }
        let arena = ArenaOptions { size: 4 << 20, ..Default::default() }.create().unwrap();
        let bench = Bench { switch, arena, begin: Instant::now() };
        bench.change(flows);
        bench
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Applies the flows of these lines as one bundle.
    fn change(&self, lines: &str) {
        let syntax = Syntax::new(Version::V13);
        let flow = |line| syntax.flow_line(line, FlowModCommand::Add).expect("a flow");
        let messages = lines.lines().map(|line| Ok(Message::FlowMod(flow(line))));
        self.switch.bundle(messages, Version::V13, self.now()).expect("it can be done");
    }

    fn out(&self) -> Counted {
        let pool = self.arena.cache(512);
        Counted { pool, sent: [0; 4], version: 0, backwards: 0, dropped: [0; Drop::NAMES.len()] }
    }

    /// A frame of UDP packets of flows of these numbers.
    fn fill(&self, out: &mut Counted, frame: &mut Frame, mut flow: impl FnMut() -> u64) {
        out.pool.take(frame, FRAME, 60);
        self.arena.for_each_mut(frame, |bytes| {
            let flow = flow();
            bytes.fill(0);
            bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
            bytes[26..30].copy_from_slice(&(0x0a00_0000 | (flow >> 16) as u32).to_be_bytes());
            bytes[30..34].copy_from_slice(&[10, 0, 0, 1]);
            bytes[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
            bytes[36..40].copy_from_slice(&[0, 53, 0, 26]);
        });
    }
}

/// Results of a worker.
struct WorkerResult {
    packets: u64,
    counts: Counts,
    sent: [u64; 4],
    backwards: u64,
    dropped: [u64; Drop::NAMES.len()],
}

/// A pair of flows in two tables is changed again and again, both at once, under full load: no
/// packet meets one of a pair and not the other, none is lost, none goes by older tables than one
/// before it, and the counters say how many there were.
fn changes(count: u32, pause: Duration) -> (u64, WorkerResult) {
    let pair = |version: u32, old: u32| {
        format!(
            "modify_strict table=0,priority=1,udp actions=set_field:{version}->reg0,goto_table:1\n\
             add table=1,priority=5,udp,reg0={version} actions=set_field:02:00:{}->eth_dst,output:2\n\
             delete_strict table=1,priority=5,udp,reg0={old}",
            version.to_be_bytes().map(|byte| format!("{byte:02x}")).join(":")
        )
    };
    let bench =
        Bench::new("table=0,priority=1,udp actions=drop\ntable=1,priority=0 actions=output:3");
    bench.change(&pair(1, 0));
    let stop = AtomicBool::new(false);
    let worker = bench.switch.worker();
    let (made, found) = thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut path = FlowCache::new(&[1, 2, 3, 4], Options::default());
            let (mut out, mut frame) = (bench.out(), Frame::new(FRAME));
            let (mut packets, mut flow, mut ticked) = (0, 0, 0);
            worker.set_working(true);
            while !stop.load(Relaxed) {
                bench.fill(&mut out, &mut frame, || {
                    flow = (flow + 1) % 1000;
                    flow
                });
                packets += frame.len() as u64;
                let now = bench.now();
                if worker.is_due() {
                    path.refresh(&*bench.switch);
                    path.flush(now);
                    worker.done();
                }
                path.process(&*bench.switch, &mut out, 0, &mut frame, now);
                if now - ticked > 10_000_000 {
                    ticked = now;
                    path.tick(now);
                }
            }
            path.flush(bench.now());
            worker.set_working(false);
            let Counted { sent, backwards, dropped, .. } = out;
            WorkerResult { packets, counts: path.counts(), sent, backwards, dropped }
        });
        let mut version = 1;
        for _ in 0..count {
            version += 1;
            bench.change(&pair(version, version - 1));
            thread::sleep(pause);
        }
        stop.store(true, Relaxed);
        (u64::from(version), work.join().expect("the worker"))
    });
    let snapshot = bench.switch.snapshot();
    let first: u64 = snapshot.flows(0).map(|flow| flow.counters.packets()).sum();
    assert_eq!(first, found.packets, "the counter of the flow that was only modified");
    assert_eq!(found.sent, [0, found.packets, 0, 0], "old or new tables, and nothing is lost");
    assert_eq!((found.backwards, found.dropped), (0, [0; Drop::NAMES.len()]));
    let ports = bench.switch.port_counters(PortNumber(2)).expect("a port");
    assert_eq!(ports.get(crate::table::PortCount::Sent), found.packets);
    (made, found)
}

/// Returns true for a minute of changes and ten million flows: with `LINERATE_STRESS`, for which a
/// release build and a quiet machine are wanted.
fn is_long() -> bool {
    std::env::var_os("LINERATE_STRESS").is_some()
}

#[test]
fn packets_meet_old_tables_or_new_ones() {
    let count = if is_long() { 60_000 } else { 200 };
    let (made, found) = changes(count, Duration::from_micros(900));
    assert!(found.packets > 0);
    println!("{made} changes, {} packets, {:?}", found.packets, found.counts);
}

/// Every packet of a port is a new flow, while another port has packets of flows that are known,
/// and flows are added: of the other port nothing is lost. Returns how long additions took, in
/// order.
fn storm(flows: u64) -> (Vec<Duration>, WorkerResult) {
    // The other port's flows have to be decided anew whenever this is written again.
    const KNOWN: &str = "priority=1,in_port=2,udp \
                         actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:4";
    // Fields that are copied into a register are looked at.
    let bench = Bench::new(
        "table=0,priority=1,in_port=1,udp actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],\
         move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:3",
    );
    bench.change(KNOWN);
    let stop = AtomicBool::new(false);
    let known = AtomicU64::new(0);
    let (mut times, found) = thread::scope(|scope| {
        let work = scope.spawn(|| {
            // So few that they are soon found to be of no use.
            let options = Options { entries: 4096, ..Options::default() };
            let mut path = FlowCache::new(&[1, 2, 3, 4], options);
            let (mut out, mut frame) = (bench.out(), Frame::new(FRAME));
            let (mut new, mut other, mut ticked) = (0_u64, 0, 0);
            while new < flows {
                bench.fill(&mut out, &mut frame, || {
                    new += 1;
                    new
                });
                path.process(&*bench.switch, &mut out, 0, &mut frame, bench.now());
                bench.fill(&mut out, &mut frame, || {
                    other = (other + 1) % 1000;
                    other
                });
                known.fetch_add(frame.len() as u64, Relaxed);
                path.process(&*bench.switch, &mut out, 1, &mut frame, bench.now());
                let now = bench.now();
                if now - ticked > 10_000_000 {
                    ticked = now;
                    path.tick(now);
                }
            }
            stop.store(true, Relaxed);
            let Counted { sent, backwards, dropped, .. } = out;
            WorkerResult { packets: new, counts: path.counts(), sent, backwards, dropped }
        });
        let mut times = Vec::new();
        let mut number = 0_u32;
        while !stop.load(Relaxed) {
            number += 1;
            let address = std::net::Ipv4Addr::from(number);
            let line = format!("table=2,priority=9,tcp,nw_dst={address} actions=output:1\n{KNOWN}");
            let begin = Instant::now();
            bench.change(&line);
            times.push(begin.elapsed());
            thread::sleep(Duration::from_micros(500));
        }
        (times, work.join().expect("the worker"))
    });
    let known = known.load(Relaxed);
    // The first packets of the other port's flows are new, too.
    assert_eq!(found.sent[3], known, "established flows lose nothing");
    let refused = found.dropped[Drop::Budget as usize];
    assert_eq!(found.sent[2] + refused, found.packets, "what is not decided is counted");
    assert_eq!(refused, found.counts.refused);
    times.sort_unstable();
    (times, found)
}

#[test]
fn a_storm_of_new_flows_harms_no_other_port() {
    let flows = if is_long() { 10_000_000 } else { 100_000 };
    let (times, found) = storm(flows);
    assert!(found.counts.refused > flows / 2, "{:?}", found.counts);
    let at = |part: usize| times.get(times.len() * part / 1000);
    println!(
        "{} flows added: half in {:?}, 99 % in {:?}, 99.9 % in {:?}; {:?}",
        times.len(),
        at(500),
        at(990),
        at(999),
        found.counts
    );
}
