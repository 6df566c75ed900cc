//! The client beside switches that flood, stall, send too much or nothing: each call ends in its
//! time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_ofswitch::control::{Client, ClientError, ClientOptions, Target};
use linerate_openflow::wire::multipart::{FlowRequest, FlowStats, Parts, Reply, Request};
use linerate_openflow::wire::{
    FlowMod, HEADER, Header, Hello, Match, Message, MultipartReply, PacketIn, PacketInReason,
    Stream, Version,
};

use crate::controller::PATIENCE;

const VERSION: Version = Version::V13;

/// Limit of a call.
const TIME: Duration = Duration::from_millis(500);

/// An attack on a connection by a hostile switch, until it is to end or cannot go on.
type Act = fn(&mut TcpStream, &AtomicBool);

struct Hostile {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hostile {
    fn new(act: Act) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a time");
            stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
            act(&mut stream, &stops);
        });
        Hostile { address, stop, thread: Some(thread) }
    }

    fn target(&self) -> Target {
        format!("tcp:{}", self.address).parse().expect("a target")
    }

    fn connect(&self) -> Result<Client, ClientError> {
        let options = ClientOptions {
            versions: vec![VERSION],
            timeout: TIME,
            max_answer: 1 << 20,
            ..ClientOptions::default()
        };
        Client::connect(&self.target(), &options)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn encoded(message: &Message, xid: u32) -> Vec<u8> {
    message.encode(VERSION, xid).expect("a message")
}

fn greet(stream: &mut TcpStream) {
    stream.write_all(&encoded(&Message::Hello(Hello::from_versions(&[VERSION])), 0)).expect("room");
}

/// Writes until it is to end. A client that does not read does not stop it.
fn write_on(stream: &mut TcpStream, bytes: &[u8], stop: &AtomicBool) {
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes[at..]) {
            Ok(count) => at = (at + count) % bytes.len(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// The number of the first request that is no hello.
fn request(stream: &mut TcpStream, stop: &AtomicBool) -> u32 {
    let (mut messages, mut buffer) = (Stream::new(), [0; 4096]);
    while !stop.load(Ordering::Relaxed) {
        if let Ok(count) = stream.read(&mut buffer) {
            messages.push(&buffer[..count]);
        }
        while let Some(bytes) = messages.next_message().expect("lengths are right") {
            let header = Header::read(bytes).expect("a header");
            if header.kind != 0 {
                return header.xid;
            }
        }
    }
    0
}

/// Returns the result of a call, which may take a generous multiple of its time and not for ever.
#[track_caller]
fn in_time<T>(call: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = call();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    result
}

fn flows(client: &mut Client) -> Result<Vec<Reply>, ClientError> {
    in_time(|| client.request(Request::Flow(FlowRequest::all())))
}

fn echo_flood(stream: &mut TcpStream, stop: &AtomicBool) {
    greet(stream);
    let echo = encoded(&Message::EchoRequest(Vec::new()), 1);
    write_on(stream, &echo.repeat(20_000), stop);
}

#[test]
fn echo_requests_do_not_keep_a_call_alive() {
    let hostile = Hostile::new(echo_flood);
    let mut client = hostile.connect().expect("it says hello");
    assert!(matches!(flows(&mut client), Err(ClientError::TimedOut)));
    // Nor one that sends more than the switch reads.
    let flow = Message::FlowMod(FlowMod::add(0, 1, Match::new(), Vec::new()));
    let told = in_time(|| client.tell(&vec![flow.clone(); 20_000]));
    assert!(matches!(told, Err(ClientError::TimedOut)), "{told:?}");
    let bundle = in_time(|| client.bundle(&vec![flow; 20_000]));
    assert!(matches!(bundle, Err(ClientError::TimedOut)), "{bundle:?}");
}

#[test]
fn a_hello_that_comes_slowly_is_given_up() {
    for act in [
        // Nothing at all.
        (|_: &mut TcpStream, stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
        }) as Act,
        // A byte at a time.
        |stream, stop| {
            let mut bytes = [4u8, 0, 0xff, 0xff].into_iter().chain(std::iter::repeat(0));
            while !stop.load(Ordering::Relaxed)
                && bytes.next().is_some_and(|byte| stream.write_all(&[byte]).is_ok())
            {
                thread::sleep(Duration::from_millis(5));
            }
        },
    ] {
        let hostile = Hostile::new(act);
        let error = in_time(|| hostile.connect()).expect_err("no hello");
        assert!(matches!(error, ClientError::TimedOut), "{error}");
    }
}

fn endless_answer(stream: &mut TcpStream, stop: &AtomicBool) {
    greet(stream);
    let xid = request(stream, stop);
    let flow = FlowStats::new(0, 1, Match::new(), Vec::new());
    let body = Reply::Flow(vec![flow; 1000]);
    let part = Message::MultipartReply(MultipartReply { more: true, body });
    write_on(stream, &encoded(&part, xid), stop);
}

#[test]
fn an_answer_without_end_is_too_long() {
    let hostile = Hostile::new(endless_answer);
    let mut client = hostile.connect().expect("it says hello");
    let error = flows(&mut client).expect_err("it has no end");
    assert!(matches!(error, ClientError::TooLong(limit) if limit == 1 << 20), "{error}");
}

fn trickling_answer(stream: &mut TcpStream, stop: &AtomicBool) {
    greet(stream);
    let xid = request(stream, stop);
    let body = Reply::Flow(Vec::new());
    let part = encoded(&Message::MultipartReply(MultipartReply { more: true, body }), xid);
    while !stop.load(Ordering::Relaxed) && stream.write_all(&part).is_ok() {
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_answer_is_there_as_a_whole_in_its_time() {
    let hostile = Hostile::new(trickling_answer);
    let mut client = hostile.connect().expect("it says hello");
    assert!(matches!(flows(&mut client), Err(ClientError::TimedOut)));
}

fn answer_behind_a_flood(stream: &mut TcpStream, stop: &AtomicBool) {
    greet(stream);
    let xid = request(stream, stop);
    let packet = Message::PacketIn(PacketIn {
        buffer: None,
        total_len: 1000,
        reason: PacketInReason::Action,
        table: 0,
        cookie: 0,
        fields: Match::new().with(linerate_openflow::wire::Field::InPort, 1),
        data: vec![0; 1000],
        userdata: Vec::new(),
        continuation: Vec::new(),
    });
    let flood = encoded(&packet, 0).repeat(20_000);
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) && at < flood.len() {
        at += stream.write(&flood[at..]).unwrap_or(0);
    }
    let parts = Parts::new(&Reply::Flow(Vec::new()), VERSION, xid).expect("an answer");
    let _gone = stream.write_all(&parts.finish());
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn unsolicited_messages_are_dropped_when_too_many() {
    let hostile = Hostile::new(answer_behind_a_flood);
    let options = ClientOptions { versions: vec![VERSION], ..ClientOptions::default() };
    let mut client = Client::connect(&hostile.target(), &options).expect("it says hello");
    assert_eq!(flows(&mut client).expect("an answer").len(), 1);
    let mut kept = 0;
    while client.next(Duration::from_millis(1)).expect("it is there").is_some() {
        kept += 1;
    }
    assert_eq!(kept, 1024);
}

#[test]
fn a_length_that_leads_nowhere_ends_it() {
    let hostile = Hostile::new(|stream, stop| {
        greet(stream);
        write_on(stream, &[4, 2, 0, HEADER as u8 - 1, 0, 0, 0, 1], stop);
    });
    let mut client = hostile.connect().expect("it says hello");
    assert!(matches!(flows(&mut client), Err(ClientError::Malformed(_))));
}
