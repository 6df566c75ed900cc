//! `ChatterSocket`: passes the elements' messages on to other programs.
//!
//! The console leaves a copy of each message here and rings; the element passes it on. A client
//! that does not keep up is left behind and then cut off, so that no worker waits for it.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Listener as Listens, Next, Role, TcpPort, Word,
};
use linerate_memory::Frame;
use linerate_port::{Interest, Wake};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use super::{
    FAMILY,
    socket::{
        client::Stream,
        is_own,
        place::{ListenAddress, Listener, mode},
        places::{Guest, Source, Verdict, admit},
    },
};
use linerate_element_support::output::reason;

const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";
/// Bytes a client may be behind.
const BACKLOG: usize = 500_000;
/// Clients taken in at a time.
const ARRIVALS: usize = 16;
/// A UNIX address holds that many bytes, with the end.
const NAME_LIMIT: usize = 108;
/// Time to wait before trying again, in nanoseconds.
const AGAIN: u64 = 1_000_000_000;
/// The timer that tries to listen, and the one that listens again.
const RETRY: u32 = 0;
const RESUME: u32 = 1;
/// Numbers in epoll of descriptors that are no clients.
const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

pub(super) const CLASS: Class = Class {
    name: "ChatterSocket",
    family: FAMILY,
    summary: "tells other programs what elements report",
    description: "`ChatterSocket(TCP, PORT)` listens on a TCP port, `ChatterSocket(UNIX, FILENAME)` \
        on a Unix socket. Clients get a line `Click::ChatterSocket/1.0` and then what is written to \
        the standard error stream from when they came: packets shown, warnings, errors. One \
        that is more than 500,000 bytes behind is cut off. There is one channel. Every client that \
        reaches a TCP port may read it; at a UNIX socket the user that runs the program, and the \
        users that its permissions (`MODE`) admit. 256 clients are served at a time, 64 of a user or host. A socket of the \
        same name and place in a new configuration takes the listener and all clients over.",
    args: &[
        Arg::required("TYPE", "TCP or UNIX", "what kind of socket"),
        Arg::optional("PORT", "port or file name", "", "where to listen"),
        Arg::keyword("FILENAME", "file name", "", "where to listen, for UNIX"),
        Arg::keyword("MODE", "octal", "0600", "permissions of the socket's file, for UNIX"),
        Arg::keyword("CHANNEL", "word", "default", "a channel of Click's; there is one here"),
        Arg::keyword("QUIET_CHANNEL", "bool", "true", "has no effect"),
        Arg::keyword("GREETING", "bool", "true", "whether clients get the first line"),
        Arg::keyword("RETRIES", "count", "0", "times to try again to listen, once a second"),
        Arg::keyword("RETRY_WARNINGS", "bool", "true", "whether each failure is reported"),
    ],
    role: Role::Information,
    cost: "Nothing per packet. What is reported is copied once more, and once for each client.",
    example: "ChatterSocket(TCP, 41940, RETRIES 1); \
        InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| Box::new(ChatterSocket::new(make)),
    ..Class::here()
};

/// Messages to be passed on.
struct Outbox {
    text: Mutex<Vec<u8>>,
    /// Set if there is a client to pass them on to.
    wanted: AtomicBool,
    bell: OwnedFd,
}

impl Outbox {
    fn post(&self, text: &str) {
        if !self.wanted.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = self.text.lock().expect("no panic while held");
        let rings = waiting.is_empty();
        // All clients would be too far behind.
        if waiting.len() <= BACKLOG {
            waiting.extend_from_slice(text.as_bytes());
        }
        drop(waiting);
        if rings {
            // It can only fail when the eventfd is at its maximum, and so readable.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<u8> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.text.lock().expect("no panic while held"))
    }
}

struct Client {
    stream: Stream,
    source: Source,
    output: Vec<u8>,
    /// Bytes of `output` that have been sent.
    sent: usize,
    /// Whether it is waited for to take more.
    waits: bool,
}

impl Client {
    /// Sends as much as the client takes; returns true if the client stays.
    fn send(&mut self) -> bool {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return false,
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.output.drain(..self.sent);
        self.sent = 0;
        self.output.len() <= BACKLOG
    }
}

#[derive(Default)]
struct ChatterSocket {
    place: Option<ListenAddress>,
    greets: bool,
    retries: i64,
    retry_warnings: bool,
    /// Whether it is to get its listener and its clients from the socket it
    /// takes over from.
    inherits: bool,
    open: Option<Open>,
}

/// State once it is initialized.
struct Open {
    epoll: OwnedFd,
    listener: Option<Listener>,
    outbox: Arc<Outbox>,
    /// The console's listener, as long as it is here.
    _console: Arc<Listens>,
    clients: BTreeMap<u64, Client>,
    /// The number of the next client.
    next: u64,
    /// Whether the last `accept` failed, which is reported once.
    exhausted: bool,
}

/// Returns the place to listen at; `None` after an error.
fn place(make: &mut ElementBuilder<'_>) -> Option<ListenAddress> {
    let kind = make.need::<String>("TYPE").to_uppercase();
    match kind.as_str() {
        "" => None,
        "TCP" => {
            if !make.is_given("PORT") {
                make.error("PORT: required argument missing");
            }
            let TcpPort(port) = make.get("PORT")?;
            Some(ListenAddress::Tcp { port, or_above: false, address: None })
        }
        "UNIX" => {
            let name = if make.is_given("PORT") { "PORT" } else { "FILENAME" };
            if !make.is_given(name) {
                make.error("FILENAME: required argument missing");
            }
            let name: String = make.get(name)?;
            if name.len() >= NAME_LIMIT {
                make.error("filename too long");
                return None;
            }
            Some(ListenAddress::Unix { name, mode: mode(make) })
        }
        _ => {
            make.error(format!("unknown socket type `{kind}'"));
            None
        }
    }
}

impl ChatterSocket {
    fn new(make: &mut ElementBuilder<'_>) -> ChatterSocket {
        make.or("CHANNEL", Word::default());
        make.or("QUIET_CHANNEL", true);
        let place = place(make);
        let before = make.predecessor().and_then(|mut before| self::place(&mut before));
        ChatterSocket {
            greets: make.or("GREETING", true),
            retries: make.or("RETRIES", 0),
            retry_warnings: make.or("RETRY_WARNINGS", true),
            inherits: place.is_some() && place == before,
            place,
            open: None,
        }
    }

    fn report(cx: &Context, text: &str) {
        cx.console().report(&format!("{} :: ChatterSocket: {text}\n", cx.name()));
    }

    /// Starts to listen, now or later.
    fn try_to_listen(&mut self, cx: &mut Context) -> Result<(), String> {
        let (Some(place), Some(open)) = (&self.place, &mut self.open) else { return Ok(()) };
        let Err(text) = open.listen(place) else { return Ok(()) };
        self.retries -= 1;
        if self.retries < 0 {
            return Err(text);
        }
        if self.retry_warnings {
            let left = self.retries + 1;
            let tries = if left == 1 { "try" } else { "tries" };
            Self::report(cx, &format!("warning: {text} ({left} {tries} left)"));
        }
        cx.set_timer(RETRY, cx.steady() + AGAIN);
        Ok(())
    }
}

impl Open {
    fn new(cx: &Context) -> Result<Open, String> {
        let failed = |call: &'static str| {
            move |error: rustix::io::Errno| format!("{call}: {}", reason(&error.into()))
        };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let outbox = Arc::new(Outbox {
            text: Mutex::default(),
            wanted: AtomicBool::new(false),
            bell: bell.map_err(failed("eventfd"))?,
        });
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll"))?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, &outbox.bell, data, epoll::EventFlags::IN).map_err(failed("epoll"))?;
        let its = Arc::clone(&outbox);
        let listener: Arc<Listens> = Arc::new(move |text: &str| its.post(text));
        cx.console().listen(&listener);
        Ok(Open {
            epoll,
            listener: None,
            outbox,
            _console: listener,
            clients: BTreeMap::new(),
            next: 0,
            exhausted: false,
        })
    }

    fn listen(&mut self, place: &ListenAddress) -> Result<(), String> {
        let Some((listener, _)) = Listener::bind(place, false).map_err(|error| error.as_click())?
        else {
            return Ok(());
        };
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&self.epoll, &listener, data, epoll::EventFlags::IN)
            .map_err(|error| format!("listen: {}", reason(&error.into())))?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Starts or stops waiting for connections.
    fn wait_for_clients(&self, waits: bool) -> rustix::io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, waits);
        epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(LISTENER), flags)
    }

    /// Accepts waiting connections; `false` when `accept` fails.
    fn accept(&mut self, cx: &Context, greets: bool) -> bool {
        for _ in 0..ARRIVALS {
            let Some(listener) = &self.listener else { return true };
            match listener.accept() {
                Ok(arrival) => {
                    self.exhausted = false;
                    self.admit(arrival.stream, arrival.source, cx.steady(), greets);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => {
                    if !std::mem::replace(&mut self.exhausted, true) {
                        ChatterSocket::report(cx, &format!("accept: {}", reason(&error)));
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Gives a new connection a place, if there is one for it. Clients send nothing here, so no
    /// client is quieter than another: a connection of another user displaces none.
    fn admit(&mut self, stream: Stream, source: Source, now: u64, greets: bool) {
        let guest = |(number, client): (&u64, &Client)| Guest {
            number: *number,
            source: client.source,
            writes: is_own(client.source),
            quiet_since: *number,
        };
        let guests: Vec<Guest> = self.clients.iter().map(guest).collect();
        match admit(&guests, source, is_own(source), now) {
            Verdict::InsteadOf(number) if is_own(source) => drop(self.clients.remove(&number)),
            Verdict::Enters => {}
            Verdict::InsteadOf(_) | Verdict::Refused => return,
        }
        let data = epoll::EventData::new_u64(self.next);
        let added = stream.set_nonblocking().is_ok()
            && epoll::add(&self.epoll, &stream, data, epoll::EventFlags::empty()).is_ok();
        if !added {
            return;
        }
        let output = if greets { GREETING.to_vec() } else { Vec::new() };
        self.clients.insert(self.next, Client { stream, source, output, sent: 0, waits: false });
        self.send(self.next);
        self.next += 1;
        self.outbox.wanted.store(true, Ordering::Release);
    }

    /// Sends to a client as much as it takes.
    fn send(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let mut stays = client.send();
        let waits = !client.output.is_empty();
        if stays && std::mem::replace(&mut client.waits, waits) != waits {
            let mut flags = epoll::EventFlags::empty();
            flags.set(epoll::EventFlags::OUT, waits);
            let data = epoll::EventData::new_u64(number);
            stays = epoll::modify(&self.epoll, &client.stream, data, flags).is_ok();
        }
        if !stays {
            self.clients.remove(&number);
            self.outbox.wanted.store(!self.clients.is_empty(), Ordering::Release);
        }
    }

    /// Passes the messages on.
    fn pass_on(&mut self) {
        let text = self.outbox.take();
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        for number in numbers {
            if let Some(client) = self.clients.get_mut(&number) {
                client.output.extend_from_slice(&text);
            }
            self.send(number);
        }
    }

    /// Returns the descriptors with an event, and whether each has gone.
    fn ready(&self) -> Vec<(u64, bool)> {
        let mut events = Vec::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An interruption looks as if there was nothing: the caller comes back.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now));
        let gone = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        let seen = |event: &epoll::Event| {
            let (number, flags) = (event.data.u64(), event.flags);
            (number, flags.intersects(gone))
        };
        events.iter().map(seen).collect()
    }
}

impl Element for ChatterSocket {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        if self.inherits {
            return Ok(());
        }
        self.open = Some(Open::new(cx)?);
        self.try_to_listen(cx)
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        let Some(open) = &mut self.open else { return Next::Sleep };
        let mut resume = false;
        for (number, gone) in open.ready() {
            match number {
                // Such as no descriptor left: the next call would only fail again.
                LISTENER if !open.accept(cx, self.greets) => {
                    let _ = open.wait_for_clients(false);
                    resume = true;
                }
                LISTENER => {}
                BELL => open.pass_on(),
                _ if gone => {
                    open.clients.remove(&number);
                    open.outbox.wanted.store(!open.clients.is_empty(), Ordering::Release);
                }
                _ => open.send(number),
            }
        }
        if resume {
            cx.set_timer(RESUME, cx.steady() + AGAIN);
        }
        Next::Wait
    }

    fn wake(&mut self) -> Wake<'_> {
        match &self.open {
            Some(open) => Wake::Fd(open.epoll.as_fd(), Interest::Read),
            None => Wake::Never,
        }
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        if timer == RESUME {
            if let Some(open) = &self.open {
                let _ = open.wait_for_clients(true);
            }
            return cx.schedule();
        }
        let listens = self.open.as_ref().is_some_and(|open| open.listener.is_some());
        if !listens && let Err(text) = self.try_to_listen(cx) {
            Self::report(cx, &text);
            cx.driver.stop();
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<ChatterSocket>().filter(|_| self.inherits) else {
            return;
        };
        self.open = old.open.take();
        cx.schedule();
        let waits = self.open.as_ref().is_some_and(|open| open.listener.is_none());
        // It was still trying.
        if waits && let Err(text) = self.try_to_listen(cx) {
            Self::report(cx, &text);
        }
    }

    fn close(&mut self, _: &mut Context) {
        let Some(mut open) = self.open.take() else { return };
        open.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::unix::net::UnixStream,
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
        thread,
        time::{Duration, Instant},
    };

    use linerate_graph::Control;

    use crate::testing::Run;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn connected(name: &str) -> UnixStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match UnixStream::connect(name) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            thread::yield_now();
        }
    }

    fn name(test: &str) -> String {
        let file = format!("linerate-chatter-{}-{test}", std::process::id());
        std::env::temp_dir().join(file).to_str().unwrap().to_owned()
    }

    /// Runs a configuration while a client does something.
    fn beside(text: &str, client: impl FnOnce(&Control) + Send) {
        let mut run = Run::new(text).real_time();
        let control = run.control();
        thread::scope(|scope| {
            let client = scope.spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| client(&control)));
                control.stop();
                outcome.unwrap_or_else(|panic| resume_unwind(panic));
            });
            run.run();
            drop(run);
            client.join().unwrap_or_else(|panic| resume_unwind(panic));
        });
    }

    /// Click 2.1 sends its clients the same.
    #[test]
    fn clients_get_the_reports() {
        let name = name("hear");
        let text = format!(
            "ChatterSocket(unix, {name}, CHANNEL default);
             s :: InfiniteSource(DATA hello, LIMIT 3, ACTIVE false, STOP true) -> Print(pk)
                -> Discard"
        );
        beside(&text, |control| {
            let mut clients = [connected(&name), connected(&name)];
            for client in &mut clients {
                let mut start = [0; 26];
                client.read_exact(&mut start).unwrap();
                assert_eq!(&start, b"Click::ChatterSocket/1.0\r\n");
            }
            control.write("s.active", "true").unwrap();
            for mut client in clients {
                let mut heard = String::new();
                client.read_to_string(&mut heard).unwrap();
                assert_eq!(heard, "pk:    5 | 68656c6c 6f\n".repeat(3));
            }
        });
        assert!(!std::path::Path::new(&name).exists());
    }

    #[test]
    fn the_greeting_can_be_left_out() {
        let name = name("silent");
        let text = format!(
            "ChatterSocket(UNIX, {name}, GREETING false);
             RatedSource(DATA hello, RATE 100) -> Print(pk) -> Discard"
        );
        beside(&text, |control| {
            let mut heard = [0; 23];
            connected(&name).read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"pk:    5 | 68656c6c 6f\n");
            control.stop();
        });
    }

    #[test]
    fn wrong_arguments_are_said_as_click_does() {
        for (arguments, error) in [
            ("", "TYPE: required argument missing"),
            ("TCP", "PORT: required argument missing"),
            ("tcp, 80x", "PORT: parse error"),
            ("UNIX", "FILENAME: required argument missing"),
            ("FOO, 3", "unknown socket type `FOO'"),
            ("TCP, 41999, CHANNEL a b", "CHANNEL: parse error"),
            ("TCP, 41999, FOO 2", "FOO: unknown argument"),
        ] {
            assert_eq!(
                Run::errors(&format!("c :: ChatterSocket({arguments})")),
                format!("config:1: While configuring 'c :: ChatterSocket':\n  {error}\n")
            );
        }
        let name = name("twice");
        let twice = format!("a :: ChatterSocket(UNIX, {name}); b :: ChatterSocket(UNIX, {name})");
        assert_eq!(
            Run::errors(&twice),
            "config:1: While initializing 'b :: ChatterSocket':\n  \
             bind: Address already in use\n"
        );
    }
}
