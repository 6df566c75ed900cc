//! The state of a flow switch that is killed: changes confirmed by a barrier are there a second
//! later, and the state is that of one moment.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use linerate_openflow::wire::{
    Action, Field, FlowMod, FlowModCommand, Hello, Instruction, Match, Message, MultipartReply,
    MultipartRequest, PortNumber, Stream, Version,
    multipart::{FlowRequest, Reply, Request},
};

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

/// Longest start of a switch on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A switch that keeps its state, and a controller of it.
struct Switch {
    process: Child,
    connection: UnixStream,
    stream: Stream,
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Switch {
    fn start(folder: &Path) -> Switch {
        let file = |name: &str| folder.join(name);
        let (socket, state) = (file("socket"), file("state"));
        let _none = fs::remove_file(&socket);
        let configuration = format!(
            "s :: FlowSwitch(TABLES 2); OpenFlow(s, punix:{}, PROBE 0, STATE {}); Idle -> s -> Discard;",
            socket.display(),
            state.display()
        );
        let log = fs::File::create(file("log")).expect("a file");
        let mut command = Command::new(LINERATE);
        command.args(["run", "--no-huge", "-e", &configuration]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let mut process = command.spawn().expect("linerate runs");
        let began = Instant::now();
        let connection = loop {
            if let Ok(connection) = UnixStream::connect(&socket) {
                break connection;
            }
            let ended = process.try_wait().expect("a child");
            if ended.is_some() || began.elapsed() > TIMEOUT {
                let _ended = process.kill();
                panic!("{}", fs::read_to_string(file("log")).unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(5));
        };
        connection.set_read_timeout(Some(TIMEOUT)).expect("a time");
        let mut switch = Switch { process, connection, stream: Stream::new() };
        switch.send(&[Message::Hello(Hello::from_versions(&[Version::V13]))]);
        assert!(matches!(switch.next(), Message::Hello(_)));
        switch
    }

    fn send(&mut self, messages: &[Message]) {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend(message.encode(Version::V13, 1).expect("1.3 has it"));
        }
        self.connection.write_all(&bytes).expect("the switch reads");
    }

    fn next(&mut self) -> Message {
        let mut buffer = vec![0; 1 << 16];
        loop {
            if let Some(bytes) = self.stream.next_message().expect("messages") {
                return Message::decode(bytes).expect("a message").2;
            }
            let count = self.connection.read(&mut buffer).expect("the switch answers");
            assert_ne!(count, 0, "the switch has closed the connection");
            self.stream.push(&buffer[..count]);
        }
    }

    /// Makes changes, and waits until they are made.
    fn change(&mut self, mut changes: Vec<Message>) -> Instant {
        changes.push(Message::BarrierRequest);
        self.send(&changes);
        assert_eq!(self.next(), Message::BarrierReply);
        Instant::now()
    }

    /// The number of each flow's last change, by its address.
    fn flows(&mut self) -> BTreeMap<u32, u64> {
        let body = Request::Flow(FlowRequest::all());
        self.send(&[Message::MultipartRequest(MultipartRequest { more: false, body })]);
        let mut found = BTreeMap::new();
        loop {
            let Message::MultipartReply(MultipartReply { more, body: Reply::Flow(flows) }) =
                self.next()
            else {
                panic!("no flows")
            };
            for flow in flows {
                let address = flow.matching.exact(Field::Ipv4Dst).expect("an address");
                found.insert(address as u32, flow.cookie);
            }
            if !more {
                return found;
            }
        }
    }
}

/// A change of the flow of an address, by its number.
fn change(address: u32, number: u64, adds: bool) -> Message {
    let matching = Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, address.into());
    let output = Action::Output { port: PortNumber(1), max_len: 0 };
    let flow = FlowMod::add(0, 100, matching, vec![Instruction::ApplyActions(vec![output])]);
    Message::FlowMod(if adds {
        FlowMod { cookie: Some(number), ..flow }
    } else {
        FlowMod {
            command: FlowModCommand::DeleteStrict,
            cookie: None,
            instructions: Vec::new(),
            ..flow
        }
    })
}

/// Random numbers that are the same in every run (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Kills a switch with so many flows so often, at random moments while they change. Changes that were answered longer
/// ago than a time are to be there.
fn kill(flows: u32, kills: u32, within: Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().to_owned();
    let mut switch = Switch::start(&path);
    let all: Vec<u32> = (0..flows).collect();
    for some in all.chunks(500) {
        switch.change(some.iter().map(|address| change(*address, 0, true)).collect());
    }
    let mut known = switch.flows();
    assert_eq!(known.len(), flows as usize);
    // The first kill is of a switch whose flows have been there for the promised time.
    thread::sleep(within);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for kill in 0..kills {
        // Changes since the switch was started, numbered from 1 on, and when the last of some was answered.
        let mut made: Vec<(u32, Option<u64>)> = Vec::new();
        let mut answered = Vec::new();
        let time = Duration::from_millis(random.below(2500));
        let began = Instant::now();
        while began.elapsed() < time {
            let mut batch = Vec::new();
            for _ in 0..[1, 5, 100, 1000][random.below(4) as usize] {
                let address = random.below(flows.into()) as u32;
                let (number, adds) = (made.len() as u64 + 1, random.below(5) > 0);
                batch.push(change(address, number, adds));
                made.push((address, adds.then_some(number)));
            }
            answered.push((switch.change(batch), made.len()));
        }
        let end = Instant::now();
        drop(switch);
        let must = answered.iter().filter(|(at, _)| *at + within < end);
        let must = must.map(|(_, count)| *count).max().unwrap_or(0);
        switch = Switch::start(&path);
        let found = switch.flows();
        // The first changes, up to one, and not fewer than were promised.
        made[..must].iter().for_each(|change| apply(&mut known, *change));
        let mut kept = must;
        while known != found {
            assert!(
                kept < made.len(),
                "kill {kill}: {} flows are of no moment since change {must} of {}",
                found.len(),
                made.len()
            );
            apply(&mut known, made[kept]);
            kept += 1;
        }
        // Numbers begin anew.
        let anew = known.keys().map(|address| change(*address, 0, true)).collect::<Vec<_>>();
        for some in anew.chunks(500) {
            switch.change(some.to_vec());
        }
        known.values_mut().for_each(|number| *number = 0);
        // The promised time for these, too.
        thread::sleep(within);
    }
}

fn apply(flows: &mut BTreeMap<u32, u64>, (address, number): (u32, Option<u64>)) {
    match number {
        Some(number) => flows.insert(address, number),
        None => flows.remove(&address),
    };
}

#[test]
fn flows_answered_by_a_barrier_survive_a_kill() {
    // Longer than is promised, as other tests run beside it.
    match std::env::var("LINERATE_KILLS") {
        // The promise of the guide, on a machine without other load.
        Ok(kills) => kill(100_000, kills.parse().expect("a number"), Duration::from_secs(1)),
        Err(_) => kill(2000, 3, Duration::from_secs(3)),
    }
}
