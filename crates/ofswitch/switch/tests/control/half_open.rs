//! Half-open connections, which send nothing, little, or never enough, and peers that ask for too
//! much.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use linerate_ofswitch::control::{Agent, Conversation, Target};
use linerate_ofswitch::switch::Switch;
use linerate_openflow::wire::multipart::{FlowRequest, Reply, Request};
use linerate_openflow::wire::{
    BundleAdd, BundleControl, BundleFlags, BundleStep, Fault, Field, FlowMod, Hello, Match,
    Message, MultipartRequest, Stream, Version,
};
use linerate_test_support::wait_until;

use crate::controller::{Controller, PATIENCE, Served};

const VERSION: Version = Version::V13;

/// Returns the address of the listener at this place.
fn address(agent: &Agent, nth: usize) -> SocketAddr {
    match agent.status().targets[nth].target {
        Target::Listen { address, .. } => address,
        ref other => panic!("{other}"),
    }
}

fn hello() -> Vec<u8> {
    Message::Hello(Hello::from_versions(&[VERSION])).encode(VERSION, 0).expect("a hello")
}

/// A switch that listens at a socket of UNIX and at a port.
fn both(
    change: impl FnOnce(&mut linerate_ofswitch::control::AgentOptions),
) -> (Served, SocketAddr) {
    let served = Served::new(|options| {
        options.targets.push("ptcp:0:127.0.0.1".parse().expect("a target"));
        change(options);
    });
    let address = address(&served.agent, 1);
    (served, address)
}

#[test]
fn half_open_connections_lock_no_controller_out() {
    let (served, address) = both(|_| {});
    let mut before = served.controller(VERSION);
    let half_open: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    served.controller(VERSION).barrier();
    let tcp = TcpStream::connect(address).expect("it listens");
    Controller::over(Box::new(tcp), VERSION).barrier();
    before.barrier();
    // Those that made room for others are gone, and few are left.
    let here = || served.agent.status().targets[1].controllers.len();
    assert!(wait_until(|| here() <= 8, PATIENCE), "{}", here());
    let mut first = half_open.first().expect("a connection");
    first.set_read_timeout(Some(PATIENCE)).expect("a time");
    let began = Instant::now();
    assert!(!read_out(&mut first).is_empty() && began.elapsed() < PATIENCE, "it has ended");
}

/// Reads to the end, and returns the bytes.
fn read_out(stream: &mut (impl Read + ?Sized)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _reset = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn a_hello_has_its_time_however_slowly_it_comes() {
    let served = Served::new(|options| options.limits.hello = Duration::from_millis(300));
    let mut stream = UnixStream::connect(served.path()).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
    // The head of a hello, a byte of it at a time.
    let began = Instant::now();
    let mut rest = [4u8, 0, 4, 0].into_iter().chain(std::iter::repeat(0));
    while rest.next().is_some_and(|byte| stream.write_all(&[byte]).is_ok()) {
        let _nothing = stream.read(&mut [0; 64]);
        assert!(began.elapsed() < PATIENCE, "it is waited for");
    }
    let status = served.agent.status().targets.remove(0);
    assert!(status.last_error.expect("a reason").contains("no hello in time"));
}

#[test]
fn a_hello_is_short() {
    let served = Served::new(|_| {});
    let mut stream = UnixStream::connect(served.path()).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.write_all(&[4, 0, 0xff, 0xff, 0, 0, 0, 0]).expect("room");
    read_out(&mut stream);
    let status = served.agent.status().targets.remove(0);
    assert!(status.last_error.expect("a reason").contains("did not begin with a hello"));
}

#[test]
fn half_a_message_has_its_time() {
    let served = Served::new(|options| {
        options.limits.message = Duration::from_millis(300);
        options.probe_interval = Duration::ZERO;
    });
    let mut slow = served.controller(VERSION);
    let echo = Message::EchoRequest(vec![7; 60_000]).encode(VERSION, 5).expect("an echo");
    let began = Instant::now();
    for byte in &echo {
        if slow.connection.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        assert!(began.elapsed() < PATIENCE, "it is waited for");
    }
    let error = || served.agent.status().targets[0].last_error.clone().unwrap_or_default();
    assert!(wait_until(|| error().contains("in the middle of a message"), PATIENCE), "{}", error());
    served.controller(VERSION).barrier();
}

fn flow(number: u32) -> FlowMod {
    let matching = Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, number.into());
    FlowMod::add(0, 100, matching, Vec::new())
}

fn fill(switch: &Switch, flows: u32) {
    for number in 0..flows {
        switch.flow_mod(&flow(number), VERSION, 0).expect("room");
    }
}

fn conversation(served: &Served) -> Conversation {
    let mut conversation = served.agent.conversation().expect("files are left");
    conversation.send(&hello()).expect("it begins right");
    conversation.recv();
    conversation
}

/// A long answer is made as it is read: a million flows are not written into memory for a peer that
/// reads none.
#[test]
fn a_long_answer_is_made_as_it_is_read() {
    const FLOWS: u32 = 20_000;
    let served = Served::new(|_| {});
    fill(served.switch(), FLOWS);
    let mut conversation = conversation(&served);
    let body = Request::Flow(FlowRequest::all());
    let ask = Message::MultipartRequest(MultipartRequest { more: false, body });
    let barrier = Message::BarrierRequest.encode(VERSION, 2).expect("a barrier");
    let both = [ask.encode(VERSION, 1).expect("a request"), barrier].concat();
    conversation.send(&both).expect("lengths are right");
    let (mut stream, mut found, mut said) = (Stream::new(), 0, 0);
    loop {
        let bytes = conversation.recv();
        assert!(!bytes.is_empty() && bytes.len() < 1 << 19, "{} bytes at once", bytes.len());
        said += bytes.len();
        stream.push(&bytes);
        while let Some(bytes) = stream.next_message().expect("lengths are right") {
            match Message::decode(bytes).expect("an answer") {
                (_, 1, Message::MultipartReply(reply)) => {
                    let Reply::Flow(flows) = reply.body else { panic!("{:?}", reply.body) };
                    found += flows.len();
                    assert_eq!(reply.more, found < FLOWS as usize);
                }
                (_, 2, Message::BarrierReply) => {
                    assert_eq!(found, FLOWS as usize, "what was asked first comes first");
                    assert!(said > 1 << 20);
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        conversation.send(&[]).expect("it goes on");
    }
}

/// Adds messages to bundles until it is refused, and returns how many there were.
fn fill_bundles(conversation: &mut Conversation) -> usize {
    let flags = BundleFlags::ATOMIC;
    let mut stream = Stream::new();
    for number in 0..100_000 {
        let message = Message::FlowMod(flow(number as u32)).encode(VERSION, 9).expect("a flow");
        let add = Message::BundleAdd(BundleAdd { bundle: 1, flags, message });
        conversation.send(&add.encode(VERSION, 9).expect("a message")).expect("lengths are right");
        stream.push(&conversation.recv());
        if let Some(bytes) = stream.next_message().expect("lengths are right") {
            let (_, _, Message::Error(error)) = Message::decode(bytes).expect("an error") else {
                panic!("{bytes:02x?}");
            };
            assert_eq!(error.fault(VERSION), Some(Fault::BundleTooMany));
            return number;
        }
    }
    panic!("there is no end");
}

#[test]
fn bundles_of_one_leave_room_for_others() {
    let served = Served::new(|options| options.limits.bundled = 8 << 20);
    let mut greedy = conversation(&served);
    let most = fill_bundles(&mut greedy);
    let mut next = conversation(&served);
    let others = fill_bundles(&mut next);
    assert!(others > most / 3, "{most}, and {others} of another");
    // However many there are, each has something.
    let mut all = vec![greedy, next];
    for _ in 0..6 {
        let mut one = conversation(&served);
        assert!(fill_bundles(&mut one) > 1000);
        all.push(one);
    }
    drop(all);
    assert_eq!(fill_bundles(&mut conversation(&served)), most, "it is given back");
}

#[test]
fn a_switch_that_stops_does_not_wait_for_a_bundle() {
    let mut served = Served::new(|options| options.probe_interval = Duration::ZERO);
    let mut controller = served.controller(VERSION);
    let flags = BundleFlags::ATOMIC;
    let mut bytes = Vec::new();
    for number in 0..300_000 {
        let message = Message::FlowMod(flow(number)).encode(VERSION, 9).expect("a flow");
        let add = Message::BundleAdd(BundleAdd { bundle: 1, flags, message });
        bytes.extend(add.encode(VERSION, 9).expect("a message"));
    }
    controller.write(&bytes);
    let control = |step| {
        Message::BundleControl(BundleControl { bundle: 1, step, flags, properties: Vec::new() })
    };
    assert_eq!(controller.ask(&control(BundleStep::CloseRequest)), control(BundleStep::CloseReply));
    controller.send(&control(BundleStep::CommitRequest));
    served.agent.stop();
    let snapshot = served.switch().snapshot();
    let flows = snapshot.table(0).map_or(0, |table| table.len());
    assert!(flows == 0 || flows == 300_000, "{flows}: all or nothing");
}
