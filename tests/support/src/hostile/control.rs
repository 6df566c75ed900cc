//! Hostile clients of control sockets, which speak in lines.

use std::{
    fs,
    io::{self, ErrorKind},
    os::{fd::AsFd, unix::fs::PermissionsExt},
    time::Duration,
};

use super::{
    Address, Attack, AttackUser, Case, Connection, Honest, Listener, Scene, Traffic, Turn,
    connection::open_all,
};
use crate::descriptors::{Descriptor, KINDS};

/// Time that an honest client waits for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Time that a hostile one waits.
const IMPATIENT: Duration = Duration::from_millis(50);
/// The port of the listener, in a namespace where all are free.
const PORT: u16 = 7777;

/// `linerate forward --control PORT`.
pub const FORWARD_TCP: Listener = Listener {
    name: "forward-control-tcp",
    summary: "the control socket of `linerate forward`, at a TCP port without a token",
    prepare: |scene| forward(scene, &Scene::tcp(PORT)),
};

/// `linerate forward --control FILE`.
pub const FORWARD_UNIX: Listener = Listener {
    name: "forward-control-unix",
    summary: "the control socket of `linerate forward`, at a UNIX socket",
    prepare: |scene| forward(scene, &Address::Unix(scene.path("control.sock"))),
};

/// `linerate generate --control FILE`.
pub const GENERATE_UNIX: Listener = Listener {
    name: "generate-control-unix",
    summary: "the control socket of `linerate generate`, at a UNIX socket",
    prepare: generate,
};

/// `linerate run --control PORT`.
pub const RUN_TCP: Listener = Listener {
    name: "control-tcp",
    summary: "the control socket of `linerate run`, at a TCP port, whose token hostile clients do not have",
    prepare: |scene| run(scene, &Scene::tcp(PORT), None),
};

/// `linerate run --control PORT --token-file FILE`, read by a client that sends the token.
pub const RUN_TOKEN: Listener = Listener {
    name: "control-token",
    summary: "the same with a token of its own, which the honest client says",
    prepare: |scene| run(scene, &Scene::tcp(PORT), Some("administrators-token")),
};

/// `linerate run --control FILE`.
pub const RUN_UNIX: Listener = Listener {
    name: "control-unix",
    summary: "the control socket of `linerate run`, at a UNIX socket that everybody may connect to",
    prepare: |scene| run(scene, &Address::Unix(scene.path("control.sock")), None),
};

fn run(scene: &Scene, address: &Address, token: Option<&str>) -> Case {
    let [a, b] = Scene::PORTS;
    let configuration =
        format!("FromPort({a}) -> c :: Counter -> ToPort({b}); FromPort({b}) -> ToPort({a});");
    let mut command = scene.linerate(["run", "--quiet", "-e", &configuration, "--control"]);
    command.arg(address.to_string());
    let mut reader = Reader::new(address.clone(), "c.count");
    if let Some(token) = token {
        let file = scene.write("token", token);
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, mode).expect("a file of our own");
        command.args(["--token-file", &file]);
        reader.token = Some(token.to_owned());
    }
    Case::new(command).open(address).honest(reader).attacks(attacks(address, "config"))
}

fn forward(scene: &Scene, address: &Address) -> Case {
    let [a, b] = Scene::PORTS;
    let words = ["forward", "--bidirectional", "--quiet", "--control"];
    let mut command = scene.linerate(words);
    command.args([&address.to_string(), a, b]);
    Case::new(command)
        .open(address)
        .honest(Reader::new(address.clone(), "forward.count"))
        .attacks(attacks(address, "forward.counts"))
}

fn generate(scene: &Scene) -> Case {
    let address = Address::Unix(scene.path("control.sock"));
    let [_, port] = Scene::PORTS;
    let mut command = scene.linerate(["generate", port, "--rate", "1kpps", "--quiet"]);
    command.args(["--dst", &Scene::HOSTS[1].to_string(), "--dst-mac", &scene.mac(1)]);
    command.args(["--dport", &Scene::DATAGRAMS.to_string(), "--control", &address.to_string()]);
    Case { traffic: Traffic::Generated, ..Case::new(command) }
        .open(&address)
        .honest(Reader::new(address.clone(), "generate.count"))
        .attacks(attacks(&address, "generate.counts"))
}

/// An honest client, which connects, reads a handler and disconnects.
#[derive(Debug)]
pub struct Reader {
    address: Address,
    handler: String,
    /// Commands that it sends before it reads.
    token: Option<String>,
}

impl Reader {
    /// A client that reads this handler.
    #[must_use]
    pub fn new(address: Address, handler: &str) -> Reader {
        Reader { address, handler: handler.to_owned(), token: None }
    }
}

impl Honest for Reader {
    fn name(&self) -> String {
        format!("the reader of {} at {}", self.handler, self.address)
    }

    fn step(&mut self) -> Result<(), String> {
        let asked = || -> io::Result<String> {
            let connection = Connection::within(&self.address, ANSWER)?;
            connection.receive_until("\n", ANSWER)?;
            if let Some(token) = &self.token {
                connection.send_all(format!("AUTH {token}\r\n").as_bytes(), ANSWER)?;
                let answer = connection.receive_until("\n", ANSWER)?;
                if !answer.starts_with("200") {
                    return Ok(answer);
                }
            }
            connection.send_all(format!("READ {}\r\n", self.handler).as_bytes(), ANSWER)?;
            connection.receive_until("\n", ANSWER)
        };
        match asked() {
            Ok(answer) if answer.starts_with("200") => Ok(()),
            Ok(answer) => Err(format!("answered {answer:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Attacks on a control socket with a handler that the client may read. As the program's own user, which may
/// write, the client only reads.
#[must_use]
pub fn attacks(address: &Address, handler: &str) -> Vec<Attack> {
    let nobody = |name, run: fn(&Target, &mut Turn<'_>)| {
        attack(name, AttackUser::Nobody, address, handler, run)
    };
    let mut attacks = vec![
        nobody("leave-at-each-step", leave_at_each_step),
        nobody("stall-within-a-line", stall_within_a_line),
        nobody("stall-within-data", stall_within_data),
        nobody("read-no-answer", read_no_answer),
        nobody("flood", flood),
        nobody("open-all", open_all_and_hold),
        nobody("endless-line", endless_line),
        nobody("much-data", much_data),
        nobody("guess-tokens", guess_tokens),
        nobody("any-bytes", any_bytes),
        attack("flood-as-the-same-user", AttackUser::Own, address, handler, flood),
        attack(
            "read-no-answer-as-the-same-user",
            AttackUser::Own,
            address,
            handler,
            read_no_answer,
        ),
    ];
    if matches!(address, Address::Unix(_)) {
        attacks.push(nobody("descriptors", send_descriptors));
    }
    attacks
}

struct Target {
    address: Address,
    handler: String,
}

fn attack(
    name: &'static str,
    account: AttackUser,
    address: &Address,
    handler: &str,
    run: fn(&Target, &mut Turn<'_>),
) -> Attack {
    let target = Target { address: address.clone(), handler: handler.to_owned() };
    Attack::new(name, account, move |turn| run(&target, turn))
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

    fn read(&self) -> String {
        format!("READ {}\r\n", self.handler)
    }
}

fn leave_at_each_step(target: &Target, turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let command = target.read();
        for said in [0, 1, command.len() - 1, command.len()] {
            let Some(connection) = target.connect(turn) else { break };
            let _ = connection.send(&command.as_bytes()[..said]);
            if turn.rng.bool() {
                let _ = connection.receive(&mut [0; 64], IMPATIENT);
            }
        }
    }
}

fn stall_within_a_line(target: &Target, turn: &mut Turn<'_>) {
    let connections: Vec<_> = (0..8).filter_map(|_| target.connect(turn)).collect();
    for connection in &connections {
        let _ = connection.send(b"READ ");
    }
    turn.hold();
}

fn stall_within_data(target: &Target, turn: &mut Turn<'_>) {
    let connections: Vec<_> = (0..8).filter_map(|_| target.connect(turn)).collect();
    for connection in &connections {
        let _ = connection.send(format!("WRITEDATA {} 1000000\r\nx", target.handler).as_bytes());
    }
    turn.hold();
}

/// Asks and asks, and takes none of the answers.
fn read_no_answer(target: &Target, turn: &mut Turn<'_>) {
    let commands = target.read().repeat(100);
    let connections: Vec<_> = (0..8).filter_map(|_| target.connect(turn)).collect();
    while turn.goes_on() {
        let room =
            connections.iter().any(|connection| connection.send(commands.as_bytes()).is_ok());
        if !room {
            turn.breathe();
        }
    }
}

fn flood(target: &Target, turn: &mut Turn<'_>) {
    let commands = target.read().repeat(100);
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        while turn.goes_on() {
            connection.discard();
            match connection.send(commands.as_bytes()) {
                Ok(_) => turn.count(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => turn.breathe(),
                Err(_) => break,
            }
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

fn endless_line(target: &Target, turn: &mut Turn<'_>) {
    let piece = [b'x'; 65536];
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        while turn.goes_on() {
            match connection.send(&piece) {
                Ok(_) => turn.count(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => turn.breathe(),
                Err(_) => break,
            }
        }
    }
}

fn much_data(target: &Target, turn: &mut Turn<'_>) {
    let piece = [b'x'; 65536];
    while turn.goes_on() {
        let connections: Vec<_> = (0..4).filter_map(|_| target.connect(turn)).collect();
        for connection in &connections {
            let data = turn.choice(&[60 << 20, 64 << 20, 65 << 20, u64::MAX]);
            let _ = connection.send(format!("WRITEDATA {} {data}\r\n", target.handler).as_bytes());
        }
        while turn.goes_on() && connections.iter().any(|connection| !connection.is_over()) {
            let room = connections.iter().any(|connection| connection.send(&piece).is_ok());
            if !room {
                turn.breathe();
            }
        }
    }
}

fn guess_tokens(target: &Target, turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        for _ in 0..100 {
            let token: String = (0..16).map(|_| turn.rng.alphanumeric()).collect();
            if connection.send(format!("AUTH {token}\r\n").as_bytes()).is_err() {
                break;
            }
        }
        let _ = connection.receive(&mut [0; 4096], IMPATIENT);
    }
}

fn any_bytes(target: &Target, turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        let mut bytes = vec![0; turn.rng.usize(1..4096)];
        turn.rng.fill(&mut bytes);
        let _ = connection.send(&bytes);
        let _ = connection.receive(&mut [0; 4096], IMPATIENT);
    }
}

/// Sends a descriptor of each kind beside a command: nothing asks for any.
fn send_descriptors(target: &Target, turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(connection) = target.connect(turn) else { continue };
        let kind = turn.choice(KINDS);
        let Ok(descriptor) = Descriptor::new(kind) else { continue };
        let many = turn.choice(&[1, 2, 16, 253]);
        for _ in 0..4 {
            let _ = connection.send_with(target.read().as_bytes(), &vec![descriptor.as_fd(); many]);
        }
        descriptor.sent();
        let _ = connection.receive(&mut [0; 4096], IMPATIENT);
    }
}
