//! Hostile controllers of `linerate switch --openflow`: peers that the switch refuses, peers that it accepts
//! by an option, and controllers that flood, stall and read nothing.

use std::{
    io::{self, ErrorKind},
    os::fd::AsFd,
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    Address, Attack, AttackUser, Case, Connection, Growth, Honest, Listener, Scene, Turn,
    connection::open_all,
};
use crate::authority::{Authority, EC};
use crate::descriptors::{Descriptor, KINDS};

/// Time that an honest controller waits for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The port of the listener, in a namespace where all are free.
const PORT: u16 = 6653;
/// Steps of an honest controller after which it connects anew.
const ANEW: u32 = 8;

/// `linerate switch --openflow ptcp:PORT:127.0.0.1`.
pub const SWITCH_TCP: Listener = Listener {
    name: "openflow-tcp",
    summary: "controllers of `linerate switch`, at a TCP port for its own user",
    prepare: |scene| at_port(scene, &[]),
};

/// `linerate switch --openflow ptcp:PORT:127.0.0.1 --insecure-openflow`.
pub const SWITCH_INSECURE: Listener = Listener {
    name: "openflow-tcp-insecure",
    summary: "controllers of `linerate switch --insecure-openflow`, at a TCP port that accepts every peer",
    prepare: |scene| at_port(scene, &["--insecure-openflow"]).bounds(Growth::controllers_of_all()),
};

/// `linerate switch --openflow punix:FILE`.
pub const SWITCH_UNIX: Listener = Listener {
    name: "openflow-unix",
    summary: "controllers of `linerate switch`, at a UNIX socket that everybody may connect to",
    prepare: |scene| {
        let address = Address::Unix(scene.path("flows.sock"));
        let case = switch(scene, &[&format!("punix:{address}")], &[]);
        let honest = Controller::new(address.clone());
        let mut attacks = attacks(&address);
        attacks.push(attack("descriptors", AttackUser::Nobody, &address, send_descriptors));
        attacks.push(attack("descriptors-as-own", AttackUser::Own, &address, send_descriptors));
        case.open(&address).honest(honest).attacks(attacks)
    },
};

/// `linerate switch --openflow pssl:PORT:127.0.0.1`.
pub const SWITCH_TLS: Listener = Listener {
    name: "openflow-tls",
    summary: "controllers of `linerate switch`, at a TCP port with TLS",
    prepare: at_tls,
};

/// A switch with two ports joined by flows, and with these listeners.
fn switch(scene: &Scene, listeners: &[&str], options: &[&str]) -> Case {
    let flows =
        scene.write("flows.txt", "in_port=1,actions=output:2\nin_port=2,actions=output:1\n");
    let mut command = scene.linerate(["switch", "--no-huge", "--quiet", "--tables", "4"]);
    command.args(["--control", &scene.file("control.sock"), "--flows", &flows]);
    command.args(listeners.iter().flat_map(|listener| ["--openflow", listener]));
    command.args(options);
    for (name, port) in ["a", "b"].iter().zip(Scene::PORTS) {
        command.args(["--port", &format!("{name}={port}")]);
    }
    Case::new(command).bounds(Growth::controllers())
}

/// One that listens at a port, where it is attacked, and at a socket beside it.
fn at_port(scene: &Scene, options: &[&str]) -> Case {
    let (address, beside) = (Scene::tcp(PORT), Address::Unix(scene.path("flows.sock")));
    let listeners = [format!("ptcp:{PORT}:127.0.0.1"), format!("punix:{beside}")];
    switch(scene, &listeners.each_ref().map(String::as_str), options)
        .honest(Controller::new(address.clone()))
        .honest(Controller::new(beside))
        .attacks(attacks(&address))
}

fn at_tls(scene: &Scene) -> Case {
    let folder = scene.path("certificates");
    std::fs::create_dir(&folder).expect("a folder");
    let authority = Authority::new(&folder, "authority");
    let options = |name: &str| {
        let issued = authority.issue(name, EC, "2");
        let files = [issued.key, issued.certificate, issued.authority];
        let names = ["--private-key", "--certificate", "--ca-cert"].into_iter();
        let file = |file: std::path::PathBuf| file.to_str().expect("a UTF-8 path").to_owned();
        let words = names.zip(files).flat_map(|(name, path)| [name.to_owned(), file(path)]);
        words.collect::<Vec<String>>()
    };
    let (address, beside) = (Scene::tcp(PORT), Address::Unix(scene.path("flows.sock")));
    let listeners = [format!("pssl:{PORT}:127.0.0.1"), format!("punix:{beside}")];
    let listeners = listeners.each_ref().map(String::as_str);
    let own = options("switch");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut words = vec!["flow".to_owned(), "--switch".into(), format!("ssl:127.0.0.1:{PORT}")];
    words.extend(options("controller"));
    words.push("ports".into());
    let honest = ByCommand { program: scene.program().to_owned(), words };
    switch(scene, &listeners, &own)
        .honest(honest)
        .honest(Controller::new(beside))
        .attacks(half_open(&address))
        .attacks([
            attack("half-a-handshake", AttackUser::Nobody, &address, half_a_handshake),
            attack("handshakes", AttackUser::Nobody, &address, handshakes),
        ])
}

/// A message of OpenFlow 1.3.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as u16;
    let mut bytes = vec![4, kind];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, 7]);
    bytes.extend(body);
    bytes
}

fn hello() -> Vec<u8> {
    message(0, &[])
}

fn echo(length: usize) -> Vec<u8> {
    message(2, &vec![0; length])
}

fn barrier() -> Vec<u8> {
    message(20, &[])
}

/// A request for all flows.
fn dump() -> Vec<u8> {
    let mut body = vec![0, 1, 0, 0, 0, 0, 0, 0];
    body.extend([0xff, 0, 0, 0]);
    body.extend([0xff; 8]);
    body.extend([0; 20]);
    // A match of all.
    body.extend([0, 1, 0, 4, 0, 0, 0, 0]);
    message(18, &body)
}

/// A flow of the third table, which no packet comes to.
fn flow(number: u32) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend([2, 0, 0, 0, 0, 0, 0, 10]);
    body.extend([0xff; 12]);
    body.extend([0; 4]);
    // Its match is a register's value: OXM's class of Nicira, register 0.
    body.extend([0, 1, 0, 12, 0, 1, 0, 4]);
    body.extend(number.to_be_bytes());
    body.extend([0; 4]);
    message(14, &body)
}

/// ONF's messages about bundles in 1.3.
fn bundle(kind: u32, body: &[u8]) -> Vec<u8> {
    let head = [0x4f4e_4600u32.to_be_bytes(), kind.to_be_bytes()].concat();
    message(4, &[&head, body].concat())
}

fn bundle_control(step: u16) -> Vec<u8> {
    bundle(2300, &[&[0, 0, 0, 1][..], &step.to_be_bytes(), &[0, 1]].concat())
}

fn bundle_add(message: &[u8]) -> Vec<u8> {
    bundle(2301, &[&[0, 0, 0, 1, 0, 0, 0, 1], message].concat())
}

/// An honest controller, which stays for some time, asks whether the switch is there and has its changes
/// confirmed.
#[derive(Debug)]
struct Controller {
    address: Address,
    connection: Option<Connection>,
    steps: u32,
}

impl Controller {
    fn new(address: Address) -> Controller {
        Controller { address, connection: None, steps: 0 }
    }

    /// Receives a message, and returns its kind. Whether this side is there is answered.
    fn receive(connection: &Connection) -> io::Result<u8> {
        let whole = |bytes: &mut [u8]| -> io::Result<()> {
            let mut got = 0;
            while got < bytes.len() {
                match connection.receive(&mut bytes[got..], ANSWER)? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    count => got += count,
                }
            }
            Ok(())
        };
        loop {
            let mut head = [0; 8];
            whole(&mut head)?;
            let mut body = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 8];
            whole(&mut body)?;
            if head[1] != 2 {
                return Ok(head[1]);
            }
            head[1] = 3;
            connection.send_all(&[&head[..], &body].concat(), ANSWER)?;
        }
    }

    fn ask(&mut self) -> io::Result<()> {
        let connection = match self.connection.take() {
            Some(connection) if !self.steps.is_multiple_of(ANEW) => connection,
            _ => {
                let connection = Connection::within(&self.address, ANSWER)?;
                connection.send_all(&hello(), ANSWER)?;
                expect(Controller::receive(&connection)?, 0)?;
                connection
            }
        };
        self.steps += 1;
        let asked = [flow(u32::MAX - self.steps % 2), echo(32), barrier()].concat();
        connection.send_all(&asked, ANSWER)?;
        expect(Controller::receive(&connection)?, 3)?;
        expect(Controller::receive(&connection)?, 21)?;
        self.connection = Some(connection);
        Ok(())
    }
}

fn expect(kind: u8, wanted: u8) -> io::Result<()> {
    if kind == wanted {
        return Ok(());
    }
    Err(io::Error::other(format!("a message of kind {kind} instead of {wanted}")))
}

impl Honest for Controller {
    fn name(&self) -> String {
        format!("the controller at {}", self.address)
    }

    fn step(&mut self) -> Result<(), String> {
        self.ask().map_err(|error| error.to_string())
    }
}

/// An honest controller that is a command.
#[derive(Debug)]
struct ByCommand {
    program: std::path::PathBuf,
    words: Vec<String>,
}

impl Honest for ByCommand {
    fn name(&self) -> String {
        format!("linerate {}", self.words[..3].join(" "))
    }

    fn step(&mut self) -> Result<(), String> {
        // A thread's children are in its namespace.
        let output = Command::new(&self.program).args(&self.words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[derive(Debug)]
struct Target {
    address: Address,
}

fn attack(
    name: &'static str,
    account: AttackUser,
    address: &Address,
    run: fn(&Target, &mut Turn<'_>),
) -> Attack {
    let target = Target { address: address.clone() };
    Attack::new(name, account, move |turn| run(&target, turn))
}

/// Attacks of a peer without a hello or a certificate.
fn half_open(address: &Address) -> Vec<Attack> {
    let nobody = |name, run: Run| attack(name, AttackUser::Nobody, address, run);
    vec![
        nobody("leave-at-each-step", leave_at_each_step),
        nobody("open-all", open_all_and_hold),
        nobody("half-a-hello", half_a_hello),
        nobody("endless-hello", endless_hello),
        nobody("any-bytes", any_bytes),
    ]
}

/// One attack on a listener, for a part of the time there is.
type Run = fn(&Target, &mut Turn<'_>);

/// Attacks of half-open connections and of controllers, as the user nobody and as the switch's own
/// user. Those of its own user leave places to the honest controllers, which run as that user.
fn attacks(address: &Address) -> Vec<Attack> {
    let nobody = |name, run: Run| attack(name, AttackUser::Nobody, address, run);
    let own = |name, run: Run| attack(name, AttackUser::Own, address, run);
    let mut attacks = half_open(address);
    attacks.extend([
        nobody("flood", flood),
        nobody("read-no-answer", read_no_answer),
        own("read-no-answer-as-own", read_no_answer),
        nobody("half-a-message", half_a_message),
        nobody("keep-bundles", keep_bundles),
        own("keep-bundles-as-own", keep_bundles),
        nobody("commit-bundles", commit_bundles),
        nobody("open-all-with-hello", open_all_with_hello),
        own("open-all-as-own", open_all_and_hold),
        own("some-with-hello-as-own", some_with_hello),
    ]);
    attacks
}

impl Target {
    /// A connection, or after a moment none.
    fn connect(&self, turn: &mut Turn<'_>) -> Option<Connection> {
        let connection = Connection::new(&self.address);
        match connection {
            Ok(_) => turn.count(),
            Err(_) => turn.breathe(),
        }
        connection.ok()
    }

    /// One that has said hello.
    fn controller(&self, turn: &mut Turn<'_>) -> Option<Connection> {
        let connection = self.connect(turn)?;
        connection.send(&hello()).is_ok().then_some(connection)
    }
}

fn leave_at_each_step(target: &Target, turn: &mut Turn<'_>) {
    let said = [hello(), barrier(), dump()].concat();
    while turn.goes_on() {
        for length in [0, 1, 7, 8, 12, 16, 20, said.len()] {
            let Some(connection) = target.connect(turn) else { break };
            let _ = connection.send(&said[..length]);
        }
    }
}

/// Opens as many as it can, and opens another whenever one is closed.
fn open_all_and_hold(target: &Target, turn: &mut Turn<'_>) {
    let mut open = Vec::new();
    while turn.goes_on() {
        open_all(&target.address, &mut open, turn);
        open.retain(|connection: &Connection| !connection.is_over());
        turn.breathe();
    }
}

fn half_a_hello(target: &Target, turn: &mut Turn<'_>) {
    let connections: Vec<_> = (0..16).filter_map(|_| target.connect(turn)).collect();
    for connection in &connections {
        let _ = connection.send(&hello()[..5]);
    }
    turn.hold();
}

fn endless_hello(target: &Target, turn: &mut Turn<'_>) {
    let piece = [&[4, 0, 0xff, 0xff, 0, 0, 0, 0][..], &[0; 60_000]].concat();
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        send_on(&connection, &piece, turn);
    }
}

/// Repeats a message until the switch ends the connection.
fn send_on(connection: &Connection, bytes: &[u8], turn: &mut Turn<'_>) {
    let mut at = 0;
    while turn.goes_on() {
        match connection.send(&bytes[at..]) {
            Ok(sent) => {
                turn.count();
                at = (at + sent) % bytes.len();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => turn.breathe(),
            Err(_) => return,
        }
    }
}

fn any_bytes(target: &Target, turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        let mut bytes = vec![0; turn.rng.usize(1..4096)];
        turn.rng.fill(&mut bytes);
        if turn.rng.bool() {
            let _ = connection.send(&hello());
        }
        let _ = connection.send(&bytes);
    }
}

fn flood(target: &Target, turn: &mut Turn<'_>) {
    let many = [echo(0).repeat(50), barrier().repeat(10), flow(1).repeat(10)].concat();
    let mut at = 0;
    while turn.goes_on() {
        let Some(connection) = target.controller(turn) else { continue };
        while turn.goes_on() {
            connection.discard();
            match connection.send(&many[at..]) {
                Ok(sent) => {
                    turn.count();
                    at = (at + sent) % many.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => turn.breathe(),
                Err(_) => break,
            }
        }
        at = 0;
    }
}

/// Asks and asks, and takes none of the answers.
fn read_no_answer(target: &Target, turn: &mut Turn<'_>) {
    let many = [dump().repeat(20), echo(60_000)].concat();
    let connections: Vec<_> = (0..4).filter_map(|_| target.controller(turn)).collect();
    for connection in &connections {
        let mut at = 0;
        while let Ok(sent) = connection.send(&many[at..])
            && turn.goes_on()
        {
            at = (at + sent) % many.len();
        }
    }
    turn.hold();
}

fn half_a_message(target: &Target, turn: &mut Turn<'_>) {
    let connections: Vec<_> = (0..8).filter_map(|_| target.controller(turn)).collect();
    for connection in &connections {
        let _ = connection.send(&echo(60_000)[..30_000]);
    }
    turn.hold();
}

fn keep_bundles(target: &Target, turn: &mut Turn<'_>) {
    let add = bundle_add(&flow(1)).repeat(100);
    let Some(connection) = target.controller(turn) else { return };
    let _ = connection.send(&bundle_control(0));
    // Some dozens of megabytes a turn.
    for _ in 0..3000 {
        if !turn.goes_on() || connection.send_all(&add, Duration::from_millis(100)).is_err() {
            break;
        }
        connection.discard();
        turn.count();
    }
    turn.hold();
}

fn commit_bundles(target: &Target, turn: &mut Turn<'_>) {
    let adds: Vec<u8> = (0..5000).flat_map(|number| bundle_add(&flow(number))).collect();
    let whole = [bundle_control(0), adds, bundle_control(4)].concat();
    while turn.goes_on() {
        let Some(connection) = target.controller(turn) else { continue };
        while turn.goes_on() && connection.send_all(&whole, Duration::from_millis(200)).is_ok() {
            connection.discard();
            turn.count();
        }
    }
}

/// Opens more controllers than the limit of one source.
fn open_all_with_hello(target: &Target, turn: &mut Turn<'_>) {
    hold_controllers(target, turn, 20);
}

/// As many controllers as leave places for others of the switch's own user, which may have all places of a
/// listener.
fn some_with_hello(target: &Target, turn: &mut Turn<'_>) {
    hold_controllers(target, turn, 8);
}

fn hold_controllers(target: &Target, turn: &mut Turn<'_>, count: usize) {
    let connections: Vec<_> = (0..count).filter_map(|_| target.controller(turn)).collect();
    while turn.goes_on() {
        for connection in &connections {
            connection.discard();
        }
        turn.breathe();
    }
}

/// Sends the beginning of a record of a handshake that is longer than its bytes.
fn half_a_handshake(target: &Target, turn: &mut Turn<'_>) {
    let connections: Vec<_> = (0..16).filter_map(|_| target.connect(turn)).collect();
    for connection in &connections {
        let _ = connection.send(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0]);
    }
    turn.hold();
}

/// Records without end: handshakes in pieces, alerts, and changes of ciphers.
fn handshakes(target: &Target, turn: &mut Turn<'_>) {
    let pieces: [&[u8]; 4] = [
        &[22, 3, 1, 0, 4, 1, 0, 0xff, 0xff],
        &[21, 3, 3, 0, 2, 1, 90],
        &[20, 3, 3, 0, 1, 1],
        &[23, 3, 3, 0, 0],
    ];
    while turn.goes_on() {
        let piece = turn.choice(&pieces).repeat(1000);
        let Some(connection) = target.connect(turn) else { continue };
        send_on(&connection, &piece, turn);
    }
}

/// Sends a descriptor of each kind beside messages: nothing asks for any.
fn send_descriptors(target: &Target, turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        let kind = turn.choice(KINDS);
        let Ok(descriptor) = Descriptor::new(kind) else { continue };
        let many = turn.choice(&[1, 2, 16, 253]);
        for said in [hello(), barrier(), echo(8)] {
            let _ = connection.send_with(&said, &vec![descriptor.as_fd(); many]);
        }
        descriptor.sent();
    }
}
