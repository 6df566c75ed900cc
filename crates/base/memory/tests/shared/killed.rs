//! Processes that are killed while they take, hold, share and return buffers.

use std::{
    env,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use linerate_memory::{
    Arena, Frame, PoolCache,
    shared::{Access, Files, Member, MemberId, Server},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::FdFlags,
    pipe::{PipeFlags, pipe_with},
};

use crate::{CELLS, arena};

const FILES: &str = "LINERATE_TEST_FILES";
/// Of the last packet.
const END: usize = 1;

/// Numbers without a pattern (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) % limit
    }
}

/// A member in a process of its own: this program once more.
struct Process {
    id: MemberId,
    child: Child,
    /// Hung up when the process has ended, however.
    alive: OwnedFd,
}

impl Process {
    fn start(server: &mut Server, role: &str) -> Process {
        // SAFETY: `member_process` keeps to it.
        let (id, files) = unsafe { server.admit(Access::Write, CELLS).unwrap() };
        let (alive, theirs) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let handed = [files.directory, files.packets, files.channel, files.doorbell, theirs];
        let mut text = role.to_string();
        for file in &handed {
            rustix::io::fcntl_setfd(file, FdFlags::empty()).unwrap();
            text += &format!(" {}", file.as_raw_fd());
        }
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "killed::member_process", "--nocapture", "--test-threads=1"])
            .env(FILES, text)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process { id, child, alive }
    }

    fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.alive, PollFlags::empty())];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: the program of the member processes of the one below.
#[test]
fn member_process() {
    let Ok(text) = env::var(FILES) else { return };
    let mut words = text.split(' ');
    let role = words.next().unwrap();
    // SAFETY: numbers of files that were left open for this process, which owns them.
    let mut next = || unsafe { OwnedFd::from_raw_fd(words.next().unwrap().parse().unwrap()) };
    let files = Files { directory: next(), packets: next(), channel: next(), doorbell: next() };
    let _alive = next();
    // SAFETY: they come from `Process::start`.
    let member = unsafe { Member::attach(files).unwrap() };
    match role {
        "steady" => steady(member),
        _ => reckless(member),
    }
}

/// Sends each packet back, in order, until the last has come.
fn steady(mut member: Member) {
    let arena = member.arena().clone();
    let mut pool = arena.cache(16);
    let (mut frame, mut end) = (Frame::new(32), false);
    while !end {
        if member.receive(&mut pool, &mut frame).unwrap() == 0 && member.arm() {
            let mut polled = [PollFd::from_borrowed_fd(member.event(), PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 })).unwrap();
        }
        end = arena.packets(&frame).any(|packet| packet.len() == END);
        check_packets(&arena, &frame);
        while !frame.is_empty() {
            member.send(&mut pool, &mut frame).unwrap();
            member.give_back(&mut pool, 16).unwrap();
        }
    }
    assert_eq!(member.malformed(), 0);
    member.give_back(&mut pool, CELLS as usize).unwrap();
}

/// Whole packets consist of their number.
fn check_packets(arena: &Arena, frame: &Frame) {
    for packet in arena.packets(frame) {
        let number = packet[..packet.len().min(8)].to_vec();
        assert!(packet.chunks(8).all(|piece| *piece == number[..piece.len()]), "{packet:?}");
    }
}

/// Takes, writes, holds, shares, sends and returns, in no order, until it is killed.
fn reckless(mut member: Member) {
    let mut random = Random(std::process::id().into());
    let arena = member.arena().clone();
    let mut pool = arena.cache(8);
    let mut held = Frame::new(64);
    let mut out = Frame::new(64);
    loop {
        member.receive(&mut pool, &mut held).unwrap();
        arena.for_each_mut(&mut held, |bytes| bytes.fill(0xee));
        for _ in 0..random.below(12) {
            let Some(mut slot) = held.pop().or_else(|| pool.take_one(60)) else { break };
            match random.below(4) {
                0 => pool.give_one(slot),
                1 => {
                    let copy = pool.share(&mut slot).unwrap();
                    held.push(slot).unwrap();
                    out.push(copy).unwrap();
                }
                2 => out.push(slot).unwrap(),
                _ => held.push(slot).unwrap(),
            }
        }
        member.send(&mut pool, &mut out).unwrap();
        pool.give(&mut out);
        let count = random.below(8) as usize;
        member.give_back(&mut pool, count).unwrap();
    }
}

struct World {
    arena: Arena,
    pool: PoolCache,
    server: Server,
    random: Random,
    /// Packets sent to the steady member, and got back.
    sent: u64,
    got: u64,
    /// Packets from the other.
    others: u64,
}

impl World {
    fn packets(&mut self, count: usize) -> Frame {
        let mut frame = Frame::new(32);
        for at in 0..count {
            let length = 8 + self.random.below(1500) as usize;
            let Some(mut slot) = self.pool.take_one(length) else { break };
            let number = (self.sent + at as u64).to_le_bytes();
            for piece in self.arena.packet_mut(&mut slot).unwrap().chunks_mut(8) {
                piece.copy_from_slice(&number[..piece.len()]);
            }
            frame.push(slot).unwrap();
        }
        frame
    }

    fn turn(&mut self, steady: MemberId, other: Option<MemberId>) {
        let count = self.random.below(8) as usize;
        if self.server.held(steady) + count <= CELLS as usize {
            let mut frame = self.packets(count);
            let both: Vec<MemberId> =
                [steady].into_iter().chain(other.filter(|_| count.is_multiple_of(2))).collect();
            let lent = self.server.enqueue_shared(&both, &mut frame).unwrap();
            assert!(frame.is_empty(), "there was room for all");
            self.sent += lent.packets as u64;
        }
        self.receive(steady);
        let Some(other) = other else { return };
        let mut frame = self.packets(count);
        self.server.enqueue_shared(&[other], &mut frame).unwrap();
        self.pool.give(&mut frame);
        self.server.supply(other, &mut self.pool, count).unwrap();
        let mut frame = Frame::new(32);
        self.others += self.server.receive(other, &mut self.pool, &mut frame).unwrap() as u64;
        self.pool.give(&mut frame);
        assert_eq!(self.server.malformed(other), 0);
    }

    /// Packets that come back from the steady member are whole and in order.
    fn receive(&mut self, steady: MemberId) {
        let mut frame = Frame::new(32);
        self.server.receive(steady, &mut self.pool, &mut frame).unwrap();
        check_packets(&self.arena, &frame);
        for packet in self.arena.packets(&frame) {
            assert_eq!(packet[..8], self.got.to_le_bytes(), "order");
            self.got += 1;
        }
        self.pool.give(&mut frame);
        assert_eq!(self.server.malformed(steady), 0);
    }
}

/// Processor time of this thread: others may have the processors when a process is noticed to end.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `LINERATE_KILLS=1000` says how often.
#[test]
fn buffers_of_a_killed_member_come_back_without_loss_at_others() {
    let kills: u32 = env::var("LINERATE_KILLS").map_or(50, |text| text.parse().unwrap());
    let arena = arena();
    let server = Server::new(&arena).unwrap();
    let pool = arena.cache(32);
    let mut world =
        World { pool, server, random: Random(7), sent: 0, got: 0, others: 0, arena: arena.clone() };
    let mut steady = Process::start(&mut world.server, "steady");
    let (mut slowest, mut costliest, mut lost) = (Duration::ZERO, Duration::ZERO, 0);
    for kill in 0..kills {
        let mut other = Process::start(&mut world.server, "reckless");
        let before = world.others;
        // Some are killed while they start.
        while !kill.is_multiple_of(8) && world.others == before {
            world.turn(steady.id, Some(other.id));
            assert!(!other.has_ended() && !steady.has_ended(), "a member has failed");
        }
        let until = Instant::now() + Duration::from_micros(world.random.below(3000));
        while Instant::now() < until {
            world.turn(steady.id, Some(other.id));
        }
        other.child.kill().unwrap();
        while !other.has_ended() {
            world.turn(steady.id, Some(other.id));
        }
        let (noticed, worked) = (Instant::now(), processor_time());
        lost += world.server.remove(other.id, &mut world.pool);
        costliest = costliest.max(processor_time() - worked);
        slowest = slowest.max(noticed.elapsed());
        world.turn(steady.id, None);
    }
    let mut last = Frame::new(1);
    last.push(world.pool.take_one(END).unwrap()).unwrap();
    while world.got < world.sent {
        world.receive(steady.id);
        assert!(!steady.has_ended(), "the steady member has failed");
    }
    world.arena.for_each_mut(&mut last, |bytes| bytes.fill(world.got as u8));
    while world.server.enqueue_shared(&[steady.id], &mut last).unwrap().packets == 0 {
        world.receive(steady.id);
    }
    let status = steady.child.wait().unwrap();
    assert!(status.success(), "{status}");
    world.server.remove(steady.id, &mut world.pool);
    println!(
        "{kills} kills: {lost} buffers were held, back within {slowest:?}, {costliest:?} of \
         which the processor was ours; {} packets of the other in order",
        world.got
    );
    assert!(world.got > u64::from(kills) && lost > 0, "nothing was tried");
    drop((world.pool, world.server));
    assert_eq!(arena.accounting().free, arena.count(), "buffers are lost");
}
