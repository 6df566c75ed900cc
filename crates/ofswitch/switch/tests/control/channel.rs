//! Connections: how they begin and end, and that one controller is no harm to another.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use linerate_ofswitch::control::{Agent, AgentError, AgentOptions, Target};
use linerate_openflow::wire::{Fault, Header, Hello, Message, Role, Version};
use linerate_test_support::{is_by_itself, wait_until};

use crate::controller::{Controller, PATIENCE, Served, switch};

fn passive(text: &str) -> AgentOptions {
    AgentOptions { targets: vec![text.parse().expect("a target")], ..AgentOptions::default() }
}

/// The port a listener has.
fn port(agent: &Agent) -> u16 {
    match agent.status().targets[0].target {
        Target::Listen { address, .. } => address.port(),
        ref other => panic!("{other}"),
    }
}

#[test]
fn sides_agree_on_the_newest_version_both_have() {
    let served = Served::new(|options| options.versions = vec![Version::V10, Version::V13]);
    for (said, agreed) in [
        (vec![Version::V10], Version::V10),
        (vec![Version::V10, Version::V13, Version::V15], Version::V13),
    ] {
        let mut stream = UnixStream::connect(served.path()).expect("a socket");
        let newest = *said.last().expect("a version");
        let hello = Message::Hello(Hello::from_versions(&said)).encode(newest, 7).expect("a hello");
        stream.write_all(&hello).expect("room");
        let echo = Message::EchoRequest(vec![1, 2]).encode(agreed, 8).expect("an echo");
        stream.write_all(&echo).expect("room");
        let mut bytes = [0; 16 + 10];
        stream.read_exact(&mut bytes).expect("hello and echo");
        assert_eq!(Header::read(&bytes).map(|header| header.version), Some(4));
        let reply = Message::decode(&bytes[16..]).expect("an echo");
        assert_eq!(reply, (agreed, 8, Message::EchoReply(vec![1, 2])));
    }
}

#[test]
fn without_a_common_version_it_is_said_and_ended() {
    let served = Served::new(|options| options.versions = vec![Version::V13, Version::V14]);
    let stream = UnixStream::connect(served.path()).expect("a socket");
    let mut controller = Controller::over(Box::new(stream), Version::V10);
    let (_, message) = controller.next();
    let Message::Error(error) = message else { panic!("{message:?}") };
    assert_eq!(error.code, Fault::HelloIncompatible.code(Version::V10));
    assert_eq!(error.data, b"this switch speaks OpenFlow 1.3, 1.4");
    controller.end();
    let status = || served.agent.status().targets.remove(0);
    assert!(wait_until(|| status().controllers.is_empty(), PATIENCE));
    assert!(status().last_error.expect("a reason").contains("no version"));
    assert_eq!(status().connections, 0);
}

#[test]
fn a_peer_that_does_not_begin_with_hello_is_disconnected() {
    let served = Served::new(|_| {});
    for bytes in [
        // An echo, a page of the web, no length.
        &[4, 2, 0, 8, 0, 0, 0, 1][..],
        b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n",
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[0xff; 70_000],
    ] {
        let mut stream = UnixStream::connect(served.path()).expect("a socket");
        let _gone = stream.write_all(bytes);
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest);
        assert!(rest.len() <= 16 + 12, "no more than hello: {rest:02x?}");
    }
    served.controller(Version::V13).barrier();
}

#[test]
fn messages_of_another_version_are_refused() {
    let served = Served::new(|_| {});
    let mut controller = served.controller(Version::V13);
    controller.write(&Message::BarrierRequest.encode(Version::V14, 9).expect("a barrier"));
    let (xid, message) = controller.next();
    let Message::Error(error) = message else { panic!("{message:?}") };
    assert_eq!((xid, error.code), (9, Fault::BadVersion.code(Version::V13)));
    // A message that the version lacks, and one that only a switch sends.
    controller.write(&[4, 30, 0, 8, 0, 0, 0, 3]);
    let (xid, message) = controller.next();
    let Message::Error(error) = message else { panic!("{message:?}") };
    assert_eq!((xid, error.code), (3, Fault::BadType.code(Version::V13)));
    assert_eq!(error.data, [4, 30, 0, 8, 0, 0, 0, 3]);
    assert_eq!(controller.fault(&Message::BarrierReply), Fault::BadType);
    controller.barrier();
}

#[test]
fn listeners_say_where_they_are_and_why_they_cannot() {
    let first = Agent::start(switch(), passive("ptcp:0:127.0.0.1")).expect("an agent");
    let number = port(&first);
    let stream = TcpStream::connect(("127.0.0.1", number)).expect("it listens");
    Controller::over(Box::new(stream), Version::V15).barrier();
    let again = Agent::start(switch(), passive(&format!("ptcp:{number}:127.0.0.1")));
    let error = again.expect_err("the port is taken").to_string();
    assert!(error.starts_with(&format!("cannot listen at ptcp:{number}:127.0.0.1: ")), "{error}");
    drop(first);
    let second = Agent::start(switch(), passive(&format!("ptcp:{number}:127.0.0.1")));
    assert_eq!(port(&second.expect("the port is free again")), number);
}

#[test]
fn a_socket_of_unix_is_the_owners_and_goes() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("switch");
    let target = format!("punix:{}", path.display());
    // A socket without a listener is replaced.
    drop(UnixListener::bind(&path).expect("a socket"));
    let agent = Agent::start(switch(), passive(&target)).expect("an agent");
    assert_eq!(fs::metadata(&path).expect("a socket").permissions().mode() & 0o077, 0);
    let error = Agent::start(switch(), passive(&target)).expect_err("somebody listens");
    assert!(matches!(error, AgentError::Listen { .. }), "{error}");
    Controller::at(&path, Version::V13).barrier();
    drop(agent);
    assert!(!path.exists());
    fs::write(&path, "no socket").expect("a file");
    Agent::start(switch(), passive(&target)).expect_err("a file that is somebody's");
    assert_eq!(fs::read_to_string(&path).expect("it is still there"), "no socket");
}

#[test]
fn a_controller_that_comes_back_is_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut options = passive(&format!("tcp:{address}"));
    options.backoff = (Duration::from_millis(10), Duration::from_millis(40));
    let agent = Agent::start(switch(), options).expect("an agent");
    for nth in 1..=3 {
        let (stream, _) = listener.accept().expect("the switch connects");
        let mut controller = Controller::over(Box::new(stream), Version::V14);
        controller.barrier();
        let status = agent.status().targets.remove(0);
        assert_eq!(status.connections, nth);
        assert_eq!(status.controllers[0].version, Some(Version::V14));
        assert_eq!(status.controllers[0].role, Role::Equal);
        assert_eq!(status.controllers[0].address, address.to_string());
    }
    drop(listener);
    let refused = |status: &linerate_ofswitch::control::AgentStatus| {
        status.targets[0].last_error.as_ref().is_some_and(|error| error.contains("refused"))
    };
    assert!(wait_until(|| refused(&agent.status()), PATIENCE));
}

#[test]
fn a_silent_controller_is_probed_and_given_up() {
    let served = Served::new(|options| options.probe_interval = Duration::from_millis(200));
    let mut controller = served.controller(Version::V13);
    let (xid, message) = controller.next();
    assert_eq!(message, Message::EchoRequest(Vec::new()));
    controller.write(&Message::EchoReply(Vec::new()).encode(Version::V13, xid).expect("a reply"));
    // Asked once more, and then given up.
    assert_eq!(controller.next().1, Message::EchoRequest(Vec::new()));
    controller.end();
    let status = served.agent.status().targets.remove(0);
    assert!(status.last_error.expect("a reason").contains("silent"));
}

#[test]
fn half_a_message_is_waited_for() {
    let served = Served::new(|_| {});
    let mut slow = served.controller(Version::V13);
    let echo = Message::EchoRequest(vec![7; 3000]).encode(Version::V13, 5).expect("an echo");
    slow.write(&echo[..1000]);
    // Others are served meanwhile.
    for _ in 0..3 {
        served.controller(Version::V13).barrier();
    }
    slow.silence();
    for part in echo[1000..].chunks(700) {
        slow.write(part);
    }
    assert_eq!(slow.next(), (5, Message::EchoReply(vec![7; 3000])));
}

#[test]
fn requests_of_a_controller_that_does_not_read_wait() {
    let served = Served::new(|options| options.probe_interval = Duration::ZERO);
    let mut stream = UnixStream::connect(served.path()).expect("a socket");
    let version = Version::V13;
    let hello =
        Message::Hello(Hello::from_versions(&[version])).encode(version, 0).expect("a hello");
    stream.write_all(&hello).expect("room");
    // Each is answered by as much as it has, and none is read: at some point the socket is full.
    let echo = Message::EchoRequest(vec![0; 60_000]).encode(version, 1).expect("an echo");
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a time");
    let mut written = 0;
    let full = loop {
        match stream.write(&echo) {
            Ok(count) => written += count,
            Err(error) => break error,
        }
        // Both sockets' buffers, and the switch's queue.
        assert!(written < 8 << 20, "the switch reads on");
    };
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    let mut other = served.controller(version);
    other.barrier();
    // As soon as it reads, its messages are handled again.
    let reader = thread::spawn(move || {
        let (mut read, mut buffer) = (0, vec![0; 1 << 16]);
        while read < written / 2 {
            read += stream.read(&mut buffer).expect("answers");
        }
    });
    reader.join().expect("all is answered");
}

#[test]
fn a_controller_that_never_reads_is_given_up() {
    let served = Served::new(|options| options.probe_interval = Duration::from_millis(200));
    let mut stream = UnixStream::connect(served.path()).expect("a socket");
    let version = Version::V13;
    let hello =
        Message::Hello(Hello::from_versions(&[version])).encode(version, 0).expect("a hello");
    stream.write_all(&hello).expect("room");
    let echo = Message::EchoRequest(vec![0; 60_000]).encode(version, 1).expect("an echo");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    while stream.write_all(&echo).is_ok() {}
    let status = served.agent.status().targets.remove(0);
    let reason = status.last_error.expect("a reason");
    assert!(reason.contains("not read"), "{reason}");
}

#[test]
fn a_flood_delays_no_other_controller() {
    let served = Served::new(|_| {});
    let path = served.path();
    let flooding = thread::spawn(move || {
        let mut controller = Controller::at(&path, Version::V13);
        let barrier = Message::BarrierRequest.encode(Version::V13, 3).expect("a barrier");
        let many = barrier.repeat(2000);
        let began = Instant::now();
        let mut answered = 0;
        while began.elapsed() < Duration::from_millis(500) {
            controller.write(&many);
            for _ in 0..2000 {
                controller.next_bytes(PATIENCE).expect("an answer");
                answered += 1;
            }
        }
        answered
    });
    let mut other = served.controller(Version::V13);
    for _ in 0..50 {
        other.barrier();
    }
    assert!(flooding.join().expect("a flood") >= 2000);
}

#[test]
fn only_so_many_come() {
    let served =
        Served::new(|options| (options.limits.controllers, options.limits.reserved) = (2, 0));
    let mut first = served.controller(Version::V13);
    let second = served.controller(Version::V13);
    let mut third = UnixStream::connect(served.path()).expect("a socket");
    third.set_read_timeout(Some(PATIENCE)).expect("a time");
    let hello = Message::Hello(Hello::from_versions(&[Version::V13])).encode(Version::V13, 0);
    third.write_all(&hello.expect("a hello")).expect("room");
    let _reset = third.read_to_end(&mut Vec::new());
    assert_eq!(served.agent.status().targets[0].rejected, 1);
    drop(second);
    let here = || served.agent.status().targets[0].controllers.len();
    assert!(wait_until(|| here() == 1, PATIENCE), "{} are left of two", here());
    served.controller(Version::V13).barrier();
    first.barrier();
}

/// Files and threads of this process.
fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).expect("proc").count()
}

#[test]
fn nothing_is_left_behind() {
    // Other tests of this program have files and threads, too.
    if !is_by_itself("channel::nothing_is_left_behind") {
        return;
    }
    let (files, threads) = (count("fd"), count("task"));
    let unreachable = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = unreachable.local_addr().expect("an address");
    let served = Served::new(|options| {
        options.targets.push("ptcp:0:127.0.0.1".parse().expect("a target"));
        options.targets.push(format!("tcp:{silent}").parse().expect("a target"));
        options.targets.push("tcp:127.0.0.1:1".parse().expect("a target"));
    });
    let path = served.path();
    let mut controllers: Vec<_> = (0..4).map(|_| served.controller(Version::V13)).collect();
    controllers[0].write(&[4, 2, 0, 200, 0]);
    controllers[1].barrier();
    assert!(count("task") > threads);
    let began = Instant::now();
    drop(served.agent);
    assert!(!path.exists(), "the socket is gone");
    assert_eq!(count("task"), threads);
    for controller in &mut controllers {
        controller.end();
    }
    drop((controllers, unreachable, served.folder));
    assert_eq!(count("fd"), files);
    assert!(began.elapsed() < PATIENCE);
}
