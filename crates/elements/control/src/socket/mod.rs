//! `ControlSocket`: handlers over a TCP or Unix connection.
//!
//! One descriptor, an epoll instance, stands for the listener and all clients,
//! so the element waits as any other task does. [`protocol`] takes commands
//! apart, [`client`] buffers both directions, [`places`] admits connections when places are short;
//! this module carries commands out, with the right of their connection.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, ElementRef, Handler, HandlerError, HandlerRef,
    HandlerResult, Next, Right, Role, parse_integer,
};
use linerate_memory::Frame;
use linerate_port::{Interest, Wake};
use rustix::{
    event::{Timespec, epoll},
    io::Errno,
};

mod answers;
pub(super) mod client;
mod llrpc;
pub(super) mod place;
pub(super) mod places;
mod protocol;
mod token;

use super::{FAMILY, proxy::is_proxy};
use answers::{answer_called, answer_read, answer_write, help, refuse};
use client::{Called, Client, Stream};
use place::{Arrival, CannotListen, ListenAddress, Listener, place};
use places::{Guest, Source, Verdict, admit};
use protocol::{Command, code};
use token::Token;

use linerate_element_support::output::reason;

/// Time that clients have before packets have theirs. Beyond it a command that has begun is carried
/// out.
const TURN: Duration = Duration::from_micros(50);
/// Clients taken in at a time.
const ARRIVALS: usize = 16;
/// Bytes that wait on behalf of all clients together: a command of the largest size, and as much
/// again.
const WAITING: usize = 2 * protocol::DATA_LIMIT;
/// Commands carried out at a time.
const COMMANDS: usize = 16;
/// Number of the listener among the clients.
const LISTENER: u64 = u64::MAX;
/// The global handler that replaces the configuration.
const HOTCONFIG: &str = "hotconfig";
/// Time to wait before trying again, in nanoseconds.
const AGAIN: u64 = 1_000_000_000;
/// The timer that tries to listen, and the one that listens again.
const RETRY: u32 = 0;
const RESUME: u32 = 1;

pub(super) const CLASS: Class = Class {
    name: "ControlSocket",
    family: FAMILY,
    summary: "lets other programs call handlers over a socket",
    description: "`ControlSocket(TCP, PORT)` listens on a TCP port, with `PORT+` on the first of \
        some that is free; `ControlSocket(UNIX, FILENAME)` on a Unix socket; \
        `ControlSocket(SOCKET, FD)` has one client, at a connected socket the program was \
        started with. Clients speak lines: \
        `READ`, `READDATA`, `READUNTIL`, `WRITE`, `WRITEDATA`, `WRITEUNTIL`, `CHECKREAD`, \
        `CHECKWRITE`, `LLRPC`, `HELP`, `QUIT`, with handlers named `element.handler`, \
        `number.handler` or, global, `handler`. Answers begin with a code of three digits, 2xx for \
        success. Lines of more than 1 MiB and data of more than 64 MiB (1 MiB up to a \
        terminator) end the connection with code 521. Where the program allows it, \
        writing `hotconfig` replaces the configuration. The answer comes when the new one runs, with \
        code 220 and its warnings where there are any, or when it cannot run; \
        a socket of the same name and place there takes the listener and all clients over.\n\n\
        A connection has one of three rights. *Read*: it reads handlers. *Write*: it also changes \
        state, `stop` included. *Replace*: it also writes `hotconfig`, runs scripts, and calls \
        handlers that open files or ports or keep handler calls; every connection that may write \
        has this right in a program started with `--allow-reconfigure` (`-R`), and in `linerate \
        switch`. A TCP connection, from this host too, may read, and write after `AUTH` and the \
        `TOKEN`, which is in a file or a variable of the environment. At a UNIX socket the user that \
        runs the program and root may write; other users that the permissions of its file (`MODE`) \
        admit may read, and write after `AUTH` and the token. The other end of `SOCKET` may write. \
        A refusal has code 530 and says what to do. The connection is not \
        encrypted. A program started with `--insecure-control` lets every connection do everything, \
        as Click does.\n\n\
        256 clients are served at a time, of those that only read 64 of a user or host and 224 in \
        all; one more takes the place of the client that has been quiet longest. The file of a UNIX \
        socket without a listener is replaced.",
    args: &[
        Arg::required("TYPE", "TCP, UNIX or SOCKET", "what kind of socket"),
        Arg::optional("PORT", "port, port+, file name or descriptor", "", "where to listen").late(),
        Arg::keyword("FILENAME", "file name", "", "where to listen, for UNIX").late(),
        Arg::keyword("FD", "descriptor", "", "the client's socket, for SOCKET").late(),
        Arg::keyword("READONLY", "bool", "false", "whether handlers cannot be written"),
        Arg::keyword("PROXY", "element", "none", "the element whose handlers are called instead"),
        Arg::keyword("VERBOSE", "bool", "false", "whether clients coming and going are reported"),
        Arg::keyword("LOCALHOST", "bool", "false", "whether only this host can connect, for TCP"),
        Arg::keyword("ADDRESS", "IP address", "all", "the address it listens on, for TCP"),
        Arg::keyword(
            "TOKEN",
            "file:NAME or env:NAME",
            "none",
            "where the token is that gives clients the right to write",
        ),
        Arg::keyword("MODE", "octal", "0600", "permissions of the socket's file, for UNIX"),
        Arg::keyword("RETRIES", "count", "0", "times to try again to listen, once a second"),
        Arg::keyword("RETRY_WARNINGS", "bool", "true", "whether each failure is reported"),
    ],
    handlers: &[
        Handler::read("port", "the TCP port it listens on"),
        Handler::read("filename", "the Unix socket it listens on"),
    ],
    role: Role::Information,
    cost: "Nothing per packet. A command costs its worker what the handler costs, between bursts; \
        handlers that need no worker (those of tables of routes) are carried out on a thread of \
        their own.",
    example: "ControlSocket(TCP, 41930+, LOCALHOST true); \
        InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| Box::new(ControlSocket::new(make)),
    ..Class::here()
};

/// The element; without a place it stands in for one at work.
struct ControlSocket {
    place: ListenAddress,
    /// The port it got.
    port: u16,
    read_only: bool,
    proxy: Option<usize>,
    verbose: bool,
    local: bool,
    /// The token that gives clients the right to write.
    token: Option<Token>,
    retries: i64,
    retry_warnings: bool,
    /// Whether it is to get its listener and its clients from the socket it
    /// takes over from.
    inherits: bool,
    listener: Option<Listener>,
    /// Set if the listener is registered in epoll.
    listening: bool,
    /// Whether the lack of descriptors or memory for clients has been reported.
    exhausted: bool,
    epoll: Option<OwnedFd>,
    clients: BTreeMap<u64, Client>,
    /// The number of the next client.
    next: u64,
    /// The client that was served last: those behind it have their turn.
    last: u64,
}

impl Default for ControlSocket {
    fn default() -> ControlSocket {
        ControlSocket {
            place: ListenAddress::Nowhere,
            port: 0,
            read_only: false,
            proxy: None,
            verbose: false,
            local: false,
            token: None,
            retries: 0,
            retry_warnings: true,
            inherits: false,
            listener: None,
            listening: false,
            exhausted: false,
            epoll: None,
            clients: BTreeMap::new(),
            next: 0,
            last: 0,
        }
    }
}

impl ControlSocket {
    fn new(make: &mut ElementBuilder<'_>) -> ControlSocket {
        let kind: String = make.need("TYPE");
        let mut socket = ControlSocket {
            read_only: make.or("READONLY", false),
            proxy: make.get("PROXY").map(|ElementRef(at)| at),
            verbose: make.or("VERBOSE", false),
            local: make.or("LOCALHOST", false),
            token: Token::from_argument(make, "TOKEN"),
            retries: make.or("RETRIES", 0),
            retry_warnings: make.or("RETRY_WARNINGS", true),
            ..ControlSocket::default()
        };
        socket.place = place(make, &kind.to_ascii_uppercase());
        socket.inherits = make.predecessor().is_some_and(|mut before| {
            let kind: String = before.need("TYPE");
            socket.place.can_be(&place(&mut before, &kind.to_ascii_uppercase()))
        });
        socket
    }

    /// Starts to listen.
    fn listen(&mut self, cx: &Context) -> Result<(), String> {
        let failed = |error: CannotListen| {
            let text = error.as_click();
            cx.world().failed(error);
            text
        };
        let bound = Listener::bind(&self.place, self.local).map_err(failed)?;
        let Some((listener, port)) = bound else { return Ok(()) };
        self.port = port;
        self.listener = Some(listener);
        self.wait_for_clients(true).map_err(|error| format!("listen: {}", reason(&error)))
    }

    /// Waits for clients, or no longer.
    fn wait_for_clients(&mut self, listening: bool) -> io::Result<()> {
        let (Some(epoll), Some(listener)) = (&self.epoll, &self.listener) else { return Ok(()) };
        if std::mem::replace(&mut self.listening, listening) == listening {
            return Ok(());
        }
        let data = epoll::EventData::new_u64(LISTENER);
        if listening {
            epoll::add(epoll, listener, data, epoll::EventFlags::IN)?;
        } else {
            epoll::delete(epoll, listener)?;
        }
        Ok(())
    }

    /// Takes in clients that have come.
    fn accept(&mut self, cx: &mut Context, end: Instant) {
        for _ in 0..ARRIVALS {
            let Some(listener) = &self.listener else { return };
            if Instant::now() >= end {
                return;
            }
            match listener.accept() {
                Ok(arrival) => {
                    self.exhausted = false;
                    self.admit(cx, arrival);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The connection was ended before it was accepted, or its user is not known.
                Err(error) if !is_for_want(&error) => {}
                Err(_) if self.end_quietest(cx) => {}
                Err(error) => {
                    // The next attempt would fail at once, too.
                    if !std::mem::replace(&mut self.exhausted, true) {
                        self.report(cx, &format!("accept: {}", reason(&error)));
                    }
                    let _ = self.wait_for_clients(false);
                    cx.set_timer(RESUME, cx.steady() + AGAIN);
                    return;
                }
            }
        }
    }

    /// Gives a new connection a place, if there is one for it.
    fn admit(&mut self, cx: &Context, arrival: Arrival) {
        let Arrival { mut stream, source, from } = arrival;
        let is_local = !matches!(stream, Stream::Tcp(_));
        let is_trusted = cx.world().insecure_control || is_local && is_own(source);
        let guests: Vec<Guest> =
            self.clients.iter().map(|(number, client)| client.guest(*number)).collect();
        match admit(&guests, source, is_trusted, cx.steady()) {
            Verdict::Enters => {}
            Verdict::InsteadOf(number) => self.send_away(cx, number),
            Verdict::Refused => {
                let text = format!("{} Too many connections\r\n", code::UNSPECIFIED);
                // The peer may have closed the connection.
                let _ = stream
                    .set_nonblocking()
                    .and_then(|()| stream.write(&[client::GREETING, text.as_bytes()].concat()));
                return;
            }
        }
        self.add(cx, stream, source, is_trusted, &from);
    }

    /// Ends the connection of a client to give its place to another.
    fn send_away(&mut self, cx: &Context, number: u64) {
        let Some(mut client) = self.clients.remove(&number) else { return };
        client.message(code::UNSPECIFIED, "Another client needs the place", false);
        client.send();
        if self.verbose {
            self.report(cx, &format!("closed connection {number}"));
        }
    }

    /// Ends the connection of the client that has been quiet longest of those that only read;
    /// `false` when there is none.
    fn end_quietest(&mut self, cx: &Context) -> bool {
        let readers = self.clients.iter().filter(|(_, client)| !client.writes());
        let quietest = readers.min_by_key(|(_, client)| client.quiet_since);
        let Some((&number, _)) = quietest else { return false };
        self.send_away(cx, number);
        true
    }

    fn add(&mut self, cx: &Context, stream: Stream, source: Source, is_trusted: bool, from: &str) {
        let Some(epoll) = &self.epoll else { return };
        let number = self.next;
        let data = epoll::EventData::new_u64(number);
        let added = stream
            .set_nonblocking()
            .and_then(|()| Ok(epoll::add(epoll, &stream, data, epoll::EventFlags::IN)?));
        if let Err(error) = added {
            self.report(cx, &format!("accept: {}", reason(&error)));
            return;
        }
        self.next += 1;
        if self.verbose {
            self.report(cx, &format!("opened connection {number}{from}"));
        }
        let mut client = Client::new(stream, source, is_trusted, cx.steady());
        client.send();
        self.clients.insert(number, client);
    }

    fn report(&self, cx: &Context, text: &str) {
        let name = cx.name();
        cx.console().report(&format!("{name} :: ControlSocket: {text}\n"));
    }

    /// Accepts clients and runs their commands, until the turn that has begun is over.
    fn serve_clients(&mut self, cx: &mut Context, begun: Instant) -> Next {
        let (new, mut ready) = self.ready();
        if new {
            // Connections without end leave half of the time.
            self.accept(cx, begun + TURN / 2);
        }
        for (number, client) in &mut self.clients {
            let sends = client.has_output() && !client.waits_to_send;
            if answer_called(client).is_some() || client.is_ready() || sends {
                ready.push(*number);
            }
        }
        ready.sort_unstable_by_key(|number| (*number <= self.last, *number));
        ready.dedup();
        let mut more = false;
        for number in ready {
            more |= self.serve(cx, number, begun + TURN);
            self.last = number;
            if begun.elapsed() >= TURN {
                // The others are ready at the next run, too.
                return Next::Again;
            }
        }
        if more { Next::Again } else { Next::Wait }
    }

    /// Returns whether the listener has an event, and the clients with one.
    fn ready(&mut self) -> (bool, Vec<u64>) {
        let Some(epoll) = &self.epoll else { return (false, Vec::new()) };
        let mut events = Vec::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An interruption looks as if there was nothing: the caller comes back.
        let _ = epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&now));
        let mut ready: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        let before = ready.len();
        ready.retain(|number| *number != LISTENER);
        (ready.len() < before, ready)
    }

    /// Serves a client until that time; returns whether it has more commands at hand.
    fn serve(&mut self, cx: &mut Context, number: u64, end: Instant) -> bool {
        // It is not among the others while its commands are carried out: one of
        // them may replace this element.
        let Some(mut client) = self.clients.remove(&number) else { return false };
        let waiting: usize = self.clients.values().map(Client::waiting).sum();
        client.room = WAITING.saturating_sub(waiting);
        client.receive();
        for _ in 0..COMMANDS {
            let Some(command) = client.command() else { break };
            if !matches!(command, Command::Nothing | Command::Wrong { .. }) {
                client.quiet_since = cx.steady();
            }
            let right = self.right_of(cx, &client);
            cx.with_right(right, |cx| self.carry_out(cx, &mut client, command));
            if Instant::now() >= end {
                break;
            }
        }
        client.send();
        if client.is_over() || self.wait_for(number, &mut client).is_err() {
            if self.verbose {
                self.report(cx, &format!("closed connection {number}"));
            }
            return false;
        }
        let more = client.is_ready();
        self.clients.insert(number, client);
        more
    }

    /// Registers the events to wait for from a client.
    fn wait_for(&self, number: u64, client: &mut Client) -> io::Result<()> {
        let Some(epoll) = &self.epoll else { return Ok(()) };
        let sends = client.has_output();
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::OUT, sends);
        // Its commands wait in the kernel while it does not take answers.
        flags.set(epoll::EventFlags::IN, !client.input_closed && !sends);
        if std::mem::replace(&mut client.waits_to_send, sends) != sends || client.input_closed {
            let data = epoll::EventData::new_u64(number);
            epoll::modify(epoll, &client.stream, data, flags)?;
        }
        Ok(())
    }

    /// The right of a client's calls.
    fn right_of(&self, cx: &Context, client: &Client) -> Right {
        match cx.world() {
            world if world.insecure_control => Right::ALL,
            world if client.writes() => world.writers,
            _ => Right::Read,
        }
    }

    /// Answers that the client lacks the right that a handler needs, and how to get it.
    fn deny(&self, cx: &Context, client: &mut Client, full: &str, needs: Right) {
        let why = if needs > cx.world().writers {
            "it opens files, ports or scripts: only a program started with --allow-reconfigure (-R) \
             lets connections do that"
        } else if self.token.is_some() {
            "say AUTH and the token first"
        } else if matches!(self.place, ListenAddress::Unix { .. }) {
            "only the user that runs the program and root can write here"
        } else {
            "writing needs a token, and this socket has none (TOKEN)"
        };
        let text = format!("Permission denied for '{full}': {why}");
        client.message(code::PERMISSION, &text, false);
    }

    fn authenticate(&self, client: &mut Client, said: &str) {
        match &self.token {
            Some(token) if token.is(said) => client.said_token = true,
            Some(_) => return refuse(client, "Wrong token"),
            None if client.writes() => {}
            None => return client.message(code::PERMISSION, "There is no token", false),
        }
        client.message(code::OK, "AUTH OK", false);
    }

    fn carry_out(&mut self, cx: &mut Context, client: &mut Client, command: Command) {
        match command {
            Command::Nothing => {}
            Command::Authenticate { token } => self.authenticate(client, &token),
            Command::Wrong { code, text } | Command::Lost { code, text } => {
                client.message(code, &text, false);
            }
            Command::Read { handler, parameter } => self.read(cx, client, &handler, &parameter),
            Command::Write { handler, value } => self.write(cx, client, &handler, &value),
            Command::Check { handler, write } => self.check(cx, client, &handler, write),
            Command::Llrpc { name, data } => self.llrpc(cx, client, &name, &data),
            Command::Help => help(client),
            Command::Quit { more } => {
                if more {
                    client.message(code::SYNTAX, "Bad command syntax", false);
                }
                client.message(code::OK, "Goodbye!", false);
            }
        }
    }

    /// Returns the handler of a client's name; if there is none, the client is answered so.
    fn find(&mut self, cx: &mut Context, client: &mut Client, full: &str) -> Option<Found> {
        let name = canonical(full);
        let global;
        let (element, handler) = match (self.proxy, name.split_once('.')) {
            (Some(proxy), None) if is_proxy(cx, proxy) => {
                global = format!(".{name}");
                (Some(proxy), global.as_str())
            }
            (Some(proxy), _) => (Some(proxy), name),
            (None, None) => (None, name),
            (None, Some((element, handler))) => {
                let plan = cx.plan();
                let number = || {
                    let number = parse_integer(element).and_then(|n| usize::try_from(n).ok())?;
                    (1..=plan.elements.len()).contains(&number).then(|| number - 1)
                };
                let found = plan.find(element).or_else(number);
                if found.is_none() {
                    let text = format!("No element named '{element}'");
                    client.message(code::NO_ELEMENT, &text, false);
                    return None;
                }
                (found, handler)
            }
        };
        let handler = HandlerRef { element, handler: handler.into() };
        // This element is in its place, so that it can be asked too.
        let about = cx.stand_in(self, |cx| cx.handler(&handler));
        let visible = |about: &&Handler| !about.private;
        let Some(about) = about.filter(visible) else {
            let proxied = if self.proxy.is_some() { "proxied " } else { "" };
            let text = format!("No {proxied}handler named '{full}'");
            client.message(code::NO_HANDLER, &text, false);
            return None;
        };
        Some(Found { handler, about })
    }

    fn read(&mut self, cx: &mut Context, client: &mut Client, full: &str, parameter: &str) {
        let Some(found) = self.find(cx, client, full) else { return };
        if !found.about.access.reads() {
            client.message(code::PERMISSION, &format!("Handler '{full}' write-only"), false);
            return;
        }
        if cx.right() < found.about.read_right {
            return self.deny(cx, client, full, found.about.read_right);
        }
        if let Some(answer) = cx.read_off_worker(&found.handler, parameter) {
            return wait_for(client, full, Called::Read(answer));
        }
        let read = cx.stand_in(self, |cx| cx.read_handler(&found.handler, parameter));
        answer_read(client, full, read);
    }

    fn write(&mut self, cx: &mut Context, client: &mut Client, full: &str, value: &str) {
        let Some(found) = self.find(cx, client, full) else { return };
        if !found.about.access.writes() {
            client.message(code::PERMISSION, &format!("Handler '{full}' read-only"), false);
        } else if self.read_only {
            let text = format!("Permission denied for '{full}'");
            client.message(code::PERMISSION, &text, false);
        } else if cx.right() < found.about.write_right {
            self.deny(cx, client, full, found.about.write_right);
        } else {
            let handler = &found.handler;
            if let Some(answer) = cx.write_off_worker(handler, value) {
                return wait_for(client, full, Called::Write(answer));
            }
            let written = if handler.element.is_none() && handler.handler == HOTCONFIG {
                match cx.replace_graph(value) {
                    Ok(replacement) => {
                        return wait_for(client, full, Called::Replacement(replacement));
                    }
                    Err(error) => Err(error),
                }
            } else {
                cx.stand_in(self, |cx| cx.write_handler(handler, value)).map(|_| ())
            };
            answer_write(client, full, written);
        }
    }

    fn check(&mut self, cx: &mut Context, client: &mut Client, full: &str, write: bool) {
        let Some(found) = self.find(cx, client, full) else { return };
        let Handler { access, read_right, write_right, .. } = found.about;
        let can = if write { access.writes() } else { access.reads() };
        let needs = if write { *write_right } else { *read_right };
        if can && cx.right() < needs && !(write && self.read_only) {
            return self.deny(cx, client, full, needs);
        }
        let (code, text) = if !can {
            let kind = if write { "writable" } else { "readable" };
            (code::NO_HANDLER, format!("Handler '{full}' not {kind}"))
        } else if write && self.read_only {
            (code::PERMISSION, format!("Permission denied for '{full}'"))
        } else {
            let kind = if write { "Write" } else { "Read" };
            (code::OK, format!("{kind} handler '{full}' OK"))
        };
        client.message(code, &text, false);
    }

    /// Carries out a call by number.
    fn llrpc(&mut self, cx: &mut Context, client: &mut Client, name: &str, data: &[u8]) {
        let (element, number) = name.split_once('#').unwrap_or((name, name));
        let digits = number.strip_prefix("0x").unwrap_or(number);
        let Ok(number) = u32::from_str_radix(digits, 16) else {
            let text = format!("Syntax error in LLRPC name '{name}'");
            return client.message(code::SYNTAX, &text, false);
        };
        let Some(found) = self.find(cx, client, &format!("{element}.name")) else { return };
        let element = found.handler.element;
        let Some((call, element)) = llrpc::Call::new(number).zip(element) else {
            let text = format!("Cannot call LLRPC '{name}' remotely");
            return client.message(code::UNIMPLEMENTED, &text, false);
        };
        // Which of them change something only the element knows.
        if self.read_only {
            let text = format!("Permission denied for '{name}'");
            return client.message(code::PERMISSION, &text, false);
        }
        if call.sent > 0 && data.len() != call.sent {
            let text = format!("LLRPC '{name}' requires {} bytes input data", call.sent);
            return client.message(code::LLRPC, &text, false);
        }
        let mut error = "Invalid argument";
        let action = call.action(&cx.plan().elements[element], data);
        if matches!(action, Some(llrpc::Action::Write(..))) && cx.right() < Right::Write {
            return self.deny(cx, client, name, Right::Write);
        }
        let answer = action.and_then(|action| {
            let handler = |name: &str| HandlerRef { element: Some(element), handler: name.into() };
            cx.stand_in(self, |cx| match action {
                llrpc::Action::Read(name) => {
                    let answer = cx.read_handler(&handler(name), "").ok()?;
                    llrpc::data(&answer).map(Vec::from)
                }
                llrpc::Action::Write(name, value) => {
                    cx.write_handler(&handler(name), &value).ok().map(|_| Vec::new())
                }
                llrpc::Action::Rewritten(name, flow) => {
                    let answer = cx.read_handler(&handler(name), &flow).ok()?;
                    // No known one, as Click reports it.
                    error = "Resource temporarily unavailable";
                    llrpc::flow_data(&answer)
                }
                llrpc::Action::Mapped(name, address) => {
                    let answer = cx.read_handler(&handler(name), &address).ok()?;
                    llrpc::address_data(&answer).map(Vec::from)
                }
            })
        });
        match answer {
            Some(answer) => {
                let data = if call.answers { &answer[..] } else { &[] };
                client.data(&format!("LLRPC '{name}' OK"), data);
            }
            None => {
                let text = format!("LLRPC '{name}' error: {error}");
                client.message(code::LLRPC, &text, false);
            }
        }
    }
}

/// A handler and its declaration.
struct Found {
    handler: HandlerRef,
    about: &'static Handler,
}

/// Has a client wait for a call elsewhere, which may be done already.
fn wait_for(client: &mut Client, full: &str, called: Called) {
    client.called = Some((full.into(), called));
    // Looked at again by the next run of the task otherwise.
    let _ = answer_called(client);
}

/// Returns true if `accept` failed for want of descriptors or memory.
fn is_for_want(error: &io::Error) -> bool {
    let want = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| want.contains(&errno))
}

/// Returns true if the user that runs this program, or root, is at the other end.
pub(super) fn is_own(source: Source) -> bool {
    match source {
        Source::User(user) => user == 0 || user == rustix::process::geteuid().as_raw(),
        Source::Parent => true,
        Source::LocalTcp(_) | Source::Host(_) => false,
    }
}

/// `handler` for `.handler` and `0.handler`, which are global too.
fn canonical(name: &str) -> &str {
    name.strip_prefix("0.").or_else(|| name.strip_prefix('.')).unwrap_or(name)
}

impl Element for ControlSocket {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let made = epoll::create(epoll::CreateFlags::CLOEXEC);
        self.epoll = Some(made.map_err(|error| format!("epoll: {}", reason(&error.into())))?);
        cx.schedule();
        if self.inherits {
            return Ok(());
        }
        if let ListenAddress::Given(number) = self.place {
            let stream =
                Stream::given(number).map_err(|error| format!("fd: {}", reason(&error)))?;
            self.add(cx, stream, Source::Parent, true, "");
            return Ok(());
        }
        self.try_to_listen(cx)
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let begun = Instant::now();
        let next = self.serve_clients(cx, begun);
        // A whole turn counts as a frame: else a busy source, whose packets are a turn each, would
        // wait for as many turns of clients.
        let parts = begun.elapsed().as_nanos() * frame.limit() as u128 / TURN.as_nanos();
        cx.take_turns(parts.min(frame.limit() as u128) as usize);
        next
    }

    fn wake(&mut self) -> Wake<'_> {
        match &self.epoll {
            Some(epoll) => Wake::Fd(epoll.as_fd(), Interest::Read),
            None => Wake::Never,
        }
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        if timer == RESUME {
            let _ = self.wait_for_clients(true);
            cx.schedule();
        } else if self.listener.is_none()
            && let Err(text) = self.try_to_listen(cx)
        {
            self.report(cx, &text);
            cx.driver.stop();
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<ControlSocket>() else { return };
        if !self.inherits || self.listener.is_some() {
            return;
        }
        self.inherits = false;
        self.port = old.port;
        self.epoll = old.epoll.take();
        self.listener = old.listener.take();
        self.listening = old.listening;
        self.clients = std::mem::take(&mut old.clients);
        if self.token != old.token {
            self.clients.values_mut().for_each(|client| client.said_token = false);
        }
        self.next = old.next;
        cx.schedule();
        // It was still trying.
        if self.listener.is_none()
            && !matches!(self.place, ListenAddress::Given(_))
            && let Err(text) = self.try_to_listen(cx)
        {
            self.report(cx, &text);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        for client in self.clients.values_mut() {
            let replaces = |(_, called): &mut (_, Called)| matches!(called, Called::Replacement(_));
            if cx.driver.count() > 0
                && let Some((full, _)) = client.called.take_if(replaces)
            {
                // The run goes on without this element, so the client's own
                // configuration has just come.
                answer_write(client, &full, Ok(()));
            }
            client.send();
        }
        self.listener = None;
        self.clients.clear();
        self.epoll = None;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match (handler, &self.place) {
            ("port", ListenAddress::Tcp { .. }) => Ok(self.port.to_string()),
            ("filename", ListenAddress::Unix { name, .. }) => Ok(name.clone()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

impl ControlSocket {
    /// Starts to listen, now or later.
    fn try_to_listen(&mut self, cx: &mut Context) -> Result<(), String> {
        let Err(text) = self.listen(cx) else { return Ok(()) };
        self.retries -= 1;
        if self.retries < 0 {
            return Err(text);
        }
        if self.retry_warnings {
            let left = self.retries + 1;
            let tries = if left == 1 { "try" } else { "tries" };
            self.report(cx, &format!("warning: {text} ({left} {tries} left)"));
        }
        cx.set_timer(RETRY, cx.steady() + AGAIN);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
