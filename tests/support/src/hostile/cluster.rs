//! Hostile programs at the socket of a cluster: clients of its messages, and consumers that share its memory
//! or have memory of their own.

use std::{
    os::fd::AsFd,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    Address, Attack, AttackUser, Case, Connection, Honest, Listener, Scene, Turn,
    connection::open_all,
};
use crate::cluster::{ATTACH, Attachment, LOOK, MaliciousPeer, SIZE, message, receive_message};
use crate::descriptors::{Descriptor, KINDS};

/// The socket's name, in a namespace where all are free.
const SOCKET: &str = "cluster";
/// Names that hostile programs attach as: a consumer, one that sends, and an inline consumer.
const NAMES: [&str; 3] = ["hostile", "sends", "asked"];
/// Greatest number of bytes that drive a malicious program.
const BYTES: usize = 2000;
/// Time that an honest program may take for some packets.
const PACKETS: Duration = Duration::from_secs(30);

/// `linerate cluster serve`, attacked by programs of the server's own user that share its memory.
pub const SHARING: Listener = Listener {
    name: "cluster-sharing",
    summary: "the socket and the shared memory of `linerate cluster serve`, as its own user",
    prepare: |scene| {
        let attach = format!("cluster attach @{SOCKET} honest --count 8 --quiet");
        prepare(scene, AttackUser::Own, &attach)
    },
};

/// `linerate cluster serve`, attacked by programs of another user.
pub const ISOLATED: Listener = Listener {
    name: "cluster-isolated",
    summary: "the socket of `linerate cluster serve` and memory of its own, as another user",
    prepare: |scene| {
        let attach = format!("cluster attach @{SOCKET} honest --count 8 --quiet");
        prepare(scene, AttackUser::Nobody, &attach)
    },
};

/// `linerate cluster serve` with a program on libpcap as an honest consumer.
pub const PCAP: Listener = Listener {
    name: "cluster-pcap",
    summary: "the socket of `linerate cluster serve` where tcpdump takes packets, as another user",
    prepare: |scene| {
        let map = format!("pcap --quiet --only-mapped --map x=cluster:@{SOCKET}?name=honest");
        prepare(
            scene,
            AttackUser::Nobody,
            &format!("{map} -- tcpdump -i x -c 8 -Z root -w /dev/null"),
        )
    },
};

/// A case with a program that takes some packets and ends, by its arguments.
fn prepare(scene: &Scene, account: AttackUser, takes: &str) -> Case {
    let [a, b] = Scene::PORTS;
    // Consumers have packets of a source, which are there before honest datagrams pass.
    let config = format!(
        "FromPort({a}) -> ToPort({b}); FromPort({b}) -> ToPort({a});
        RatedSource(LENGTH 100, RATE 1000, LIMIT -1) -> fan :: Tee
        -> ConsumerFanOut(honest, hostile, CELLS 256);
        fan [1] -> InlineConsumer(asked, ACCESS write, FAIL open, LIMIT 1ms) -> Discard;
        fan [2] -> ToConsumer(sends, ACCESS write, CELLS 64);
        FromConsumer(sends, SPARE 16) -> Discard;"
    );
    let mut command = scene.linerate(["cluster", "serve", "--quiet", "--no-huge", "-e"]);
    command.args([&config, "--socket", &format!("@{SOCKET}")]);
    let honest = |arguments: &str| Administrator {
        program: scene.program().to_owned(),
        arguments: arguments.to_owned(),
    };
    Case::new(command)
        .honest(honest(takes))
        .honest(honest(&format!("cluster status @{SOCKET}")))
        .attacks(attacks(account))
}

/// A program of the administrator, which makes one request and ends.
struct Administrator {
    program: PathBuf,
    arguments: String,
}

impl Honest for Administrator {
    fn name(&self) -> String {
        format!("linerate {}", self.arguments)
    }

    fn step(&mut self) -> Result<(), String> {
        let mut command = Command::new("timeout");
        command.arg(PACKETS.as_secs().to_string()).arg(&self.program);
        let arguments = self.arguments.split(' ');
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        match output.status.code() {
            Some(0) => Ok(()),
            code => {
                Err(format!("ended with {code:?}: {}", String::from_utf8_lossy(&output.stderr)))
            }
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// Attacks by programs of a user.
fn attacks(account: AttackUser) -> Vec<Attack> {
    let attack = |name, run: fn(&mut Turn<'_>)| Attack::new(name, account, run);
    vec![
        attack("leave-at-each-step", leave_at_each_step),
        attack("stall", stall),
        attack("read-no-answer", read_no_answer),
        attack("flood-the-socket", flood_socket),
        attack("open-all", open_all_and_hold),
        attack("look-and-hold", look_and_hold),
        attack("attach-and-keep-files", attach_and_keep_files),
        attack("flood-the-doorbell", flood_doorbell),
        attack("flood-the-rings", flood_rings),
        attack("descriptors", send_descriptors),
        attack("any-bytes", any_bytes),
    ]
}

fn address() -> Address {
    Address::Abstract(SOCKET.to_owned())
}

/// A connection, or after a moment none.
fn connect(turn: &mut Turn<'_>) -> Option<Connection> {
    let connection = Connection::new(&address());
    match connection {
        Ok(_) => turn.count(),
        Err(_) => turn.breathe(),
    }
    connection.ok()
}

/// Attaches as one of the names; after a moment nothing where that is another's now.
fn attach(turn: &mut Turn<'_>) -> Option<(Connection, Attachment)> {
    let connection = connect(turn)?;
    let name = turn.choice(&NAMES);
    connection.send(&message(ATTACH, [2, 0, 0], name)).ok()?;
    let attachment = receive_message(connection.as_fd())
        .and_then(|(message, files)| Attachment::parse(&message, files));
    if attachment.is_none() {
        turn.breathe();
    }
    Some((connection, attachment?))
}

fn leave_at_each_step(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        for sent in [0, 1, SIZE - 1, SIZE] {
            let Some(connection) = connect(turn) else { break };
            let _ = connection.send(&message(ATTACH, [2, 0, 0], turn.choice(&NAMES))[..sent]);
            if turn.rng.bool() {
                let _ = receive_message(connection.as_fd());
            }
        }
        if let Some((_connection, mut attachment)) = attach(turn) {
            thread::sleep(Duration::from_millis(turn.rng.u64(..5)));
            if turn.rng.bool() {
                attachment.take();
            }
        }
    }
}

/// Connects and says nothing, or attaches and takes nothing.
fn stall(turn: &mut Turn<'_>) {
    let silent: Vec<_> = (0..8).filter_map(|_| connect(turn)).collect();
    let attached: Vec<_> = (0..NAMES.len()).filter_map(|_| attach(turn)).collect();
    turn.hold();
    drop((silent, attached));
}

/// Asks for figures without end, each with a descriptor, and takes none of them.
fn read_no_answer(turn: &mut Turn<'_>) {
    let look = message(LOOK, [0; 3], "");
    while turn.goes_on() {
        let connections: Vec<_> = (0..16).filter_map(|_| connect(turn)).collect();
        for _ in 0..100 {
            let sent = connections.iter().filter(|connection| connection.send(&look).is_ok());
            if sent.count() == 0 {
                break;
            }
        }
    }
}

fn flood_socket(turn: &mut Turn<'_>) {
    let look = message(LOOK, [0; 3], "");
    while turn.goes_on() {
        let Some(connection) = connect(turn) else { continue };
        while turn.goes_on() && connection.send(&look).is_ok() {
            turn.count();
            let _ = receive_message(connection.as_fd());
        }
    }
}

/// Opens as many as it can, and opens another whenever one is closed.
fn open_all_and_hold(turn: &mut Turn<'_>) {
    let mut open = Vec::new();
    while turn.goes_on() {
        open_all(&address(), &mut open, turn);
        open.retain(|connection: &Connection| !connection.is_over());
        turn.breathe();
    }
}

/// Opens all the connections it can, asks for figures once on each, and holds them.
fn look_and_hold(turn: &mut Turn<'_>) {
    let mut open = Vec::new();
    while turn.goes_on() {
        let Some(connection) = connect(turn) else { continue };
        if connection.send(&message(LOOK, [0; 3], "")).is_ok() {
            let _ = receive_message(connection.as_fd());
        }
        open.push(connection);
        open.retain(|connection: &Connection| !connection.is_over());
    }
}

/// Attaches again and again and keeps the memory it was handed, which the server has made.
fn attach_and_keep_files(turn: &mut Turn<'_>) {
    let mut kept = Vec::new();
    while turn.goes_on() {
        if let Some((connection, attachment)) = attach(turn) {
            drop(connection);
            kept.push(attachment);
        }
        kept.truncate(64);
    }
}

fn flood_doorbell(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some((connection, attachment)) = attach(turn) else { continue };
        let end = Instant::now() + Duration::from_millis(200);
        while turn.goes_on() && Instant::now() < end {
            attachment.ring(64);
            turn.count();
        }
        drop(connection);
    }
}

/// Publishes words as fast as they are taken, most of which name nothing that it has.
fn flood_rings(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some((connection, mut attachment)) = attach(turn) else { continue };
        let end = Instant::now() + Duration::from_millis(200);
        while turn.goes_on() && Instant::now() < end {
            if turn.rng.u8(..) == 0 {
                attachment.take();
            }
            attachment.flood();
            turn.count();
        }
        drop(connection);
    }
}

/// Sends a descriptor of each kind beside a message: nothing asks for any.
fn send_descriptors(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(connection) = connect(turn) else { continue };
        let kind = turn.choice(KINDS);
        let Ok(descriptor) = Descriptor::new(kind) else { continue };
        let many = turn.choice(&[1, 5, 6, 253]);
        let what = turn.choice(&[ATTACH, LOOK]);
        let message = message(what, [2, 0, 0], turn.choice(&NAMES));
        let _ = connection.send_with(&message, &vec![descriptor.as_fd(); many]);
        descriptor.sent();
        let _ = receive_message(connection.as_fd());
    }
}

/// Lets random bytes drive the peer, mostly as it should be.
fn any_bytes(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let mut bytes = vec![0; turn.rng.usize(1..BYTES)];
        turn.rng.fill(&mut bytes);
        let mut attacker = MaliciousPeer::new(SOCKET, &NAMES, &bytes);
        while turn.goes_on() && attacker.step() {
            turn.count();
        }
    }
}
