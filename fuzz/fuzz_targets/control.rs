//! Any bytes of a client of a control socket, sent in pieces to a router that runs, with elements
//! whose handlers can be read and written.
//!
//! Asserted besides the absence of panics: the client is always served, and its answers are the
//! protocol's; no buffer is lost. The first bytes of an input say how the client behaves.

#![no_main]

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    thread,
};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{Bytes, bounded_library, directory, inside, isolate, show};
use linerate_graph::{Console, Library, Options, Router, lang::Globals, load};
use linerate_memory::{Arena, ArenaOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const CONFIG: &str = "
source :: RatedSource(RATE 10000) -> c :: Counter -> q :: Queue(20) -> u :: Unqueue
    -> sw :: Switch(0) -> d :: Discard; sw[1] -> p :: Paint(1) -> Discard;
inside :: { proxy :: HandlerProxy; input -> x :: Null -> output };
sw[2] -> inside -> Discard;
script :: Script(TYPE PASSIVE, return $args);
all :: HandlerAggregate(ELEMENT c);
";
/// Further options of the control socket.
const FORMS: &[&str] = &["", ", READONLY true", ", PROXY script", ", PROXY inside/proxy"];
/// Bytes sent at a time, and read at a time.
const PIECES: &[usize] = &[usize::MAX, 1, 2, 3, 7, 64, 1000, 4096];
/// Numbers of times that the client repeats its text.
const TIMES: &[usize] = &[1, 1, 1, 1, 1, 2, 20, 1000];
/// Seconds that the router may leave its client alone.
const TIMEOUT: i64 = 8;

const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

struct World {
    library: Library,
    arena: Arena,
}

thread_local! {
    static WORLD: World = {
        let options = ArenaOptions { size: 16 << 20, huge: false, ..ArenaOptions::default() };
        World {
            library: bounded_library(inside()),
            arena: options.create().expect("16 megabytes can be had"),
        }
    };
}

/// Sends `said` in pieces and returns the answers until the other side has enough.
fn converse(mut stream: UnixStream, said: &[u8], send: usize, receive: usize) -> Vec<u8> {
    let mut answers = Vec::new();
    let mut piece = vec![0; receive.min(1 << 16)];
    let mut left = said;
    let mut talks = true;
    stream.set_nonblocking(true).expect("a socket");
    loop {
        let mut waits = PollFlags::IN;
        if talks {
            match stream.write(&left[..left.len().min(send)]) {
                Ok(sent) => left = &left[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => waits |= PollFlags::OUT,
                Err(_) => left = &[],
            }
            talks = !left.is_empty();
            if !talks {
                // The other side may be gone.
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
        match stream.read(&mut piece) {
            Ok(0) => return answers,
            Ok(read) => answers.extend(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !talks || waits.contains(PollFlags::OUT) {
                    let timeout = Timespec { tv_sec: TIMEOUT, tv_nsec: 0 };
                    let ready = poll(&mut [PollFd::new(&stream, waits)], Some(&timeout));
                    assert_ne!(ready, Ok(0), "the client is left alone");
                }
            }
            Err(_) => return answers,
        }
    }
}

/// Takes a line off, without its end.
fn line<'a>(answers: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = answers.windows(2).position(|end| end == b"\r\n")?;
    let line = &answers[..end];
    *answers = &answers[end + 2..];
    Some(line)
}

/// Checks answers: lines that begin with a code, and data of a given length. The last one may be
/// cut off: a client can stop the router.
fn check(mut answers: &[u8]) {
    if answers.len() < GREETING.len() {
        assert!(GREETING.starts_with(answers));
        return;
    }
    answers = answers.strip_prefix(GREETING).expect("a greeting");
    while let Some(line) = line(&mut answers) {
        if let Some(length) = line.strip_prefix(b"DATA ") {
            let length: usize = String::from_utf8_lossy(length).parse().expect("a length");
            answers = answers.get(length..).unwrap_or_default();
            continue;
        }
        let shown = String::from_utf8_lossy(line);
        let (code, text) = line.split_at_checked(3).unwrap_or_else(|| panic!("{shown}"));
        assert!(code.iter().all(u8::is_ascii_digit), "{shown}");
        assert!(text.starts_with(b" ") || text.starts_with(b"-"), "{shown}");
        assert!(text.iter().all(|byte| *byte >= b' '), "{shown}");
    }
}

/// Runs the router while its client talks.
fn talk(router: &mut Router, socket: &Path, said: &[u8], send: usize, receive: usize) -> Vec<u8> {
    let control = router.control();
    let stream = UnixStream::connect(socket).expect("somebody listens");
    thread::scope(|scope| {
        let client = scope.spawn(move || {
            let answers = converse(stream, said, send, receive);
            control.stop();
            answers
        });
        router.run();
        // A client that has stopped the router still waits for the end of the conversation.
        router.close();
        client.join().expect("an end of the conversation")
    })
}

fuzz_target!(init: isolate(), |data: &[u8]| {
    WORLD.with(|world| {
        let mut bytes = Bytes(data);
        let form = *bytes.choice(FORMS);
        let (send, receive) = (*bytes.choice(PIECES), *bytes.choice(PIECES));
        let times = *bytes.choice(TIMES);
        let said = bytes.0.repeat(times);
        let socket = directory().join("control");
        let _ = fs::remove_file(&socket);
        let text = format!("ControlSocket(UNIX, {}{form});{CONFIG}", socket.display());
        let shown = String::from_utf8_lossy(bytes.0);
        show(format!("{text}\n{send} sent, {receive} received, {times} times:\n{shown}"));
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", &text, &world.library, &Globals::default(), &mut loader);
        let plan = loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click()));
        let ports = linerate_port::Context::new(world.arena.clone());
        let console = Console::new(io::sink(), io::sink());
        let insecure_control = form.is_empty();
        let options = Options { console, insecure_control, ..Options::default() };
        let router = Router::new(plan, &world.library, ports, &options);
        let mut router = router.unwrap_or_else(|error| panic!("{error}"));
        check(&talk(&mut router, &socket, &said, send, receive));
        drop(router);
        assert_eq!(world.arena.accounting().held, 0, "buffers are lost");
    });
});
