//! Hostile peers of `memif:` ports, in both roles.

use std::{os::fd::AsFd, time::Duration};

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    net::SocketType,
};

use super::{Attack, AttackUser, Case, Growth, Honest, Listener, Scene, Turn};
use crate::descriptors::{Descriptor, HUGE, KINDS, memory};
use crate::stalling::{
    channel::Channel,
    close, fill, lingering_socket,
    memif::{Client, SIZE, Server, Stage},
};

/// Time that a hostile peer waits for an answer.
const IMPATIENT: Duration = Duration::from_millis(100);
/// The sockets, which have no files, so that every user can make them.
const SERVER: &str = "@linerate-hostile-memif-server";
const CLIENT: &str = "@linerate-hostile-memif-client";
/// Interfaces of the server: that which is attacked, and another.
const ATTACKED: u32 = 0;
const OTHER: u32 = 1;

/// Clients of a server.
pub const MEMIF_SERVER: Listener = Listener {
    name: "memif-server",
    summary: "a `memif:` port that listens, with hostile clients",
    prepare: server,
};

/// Servers of a client.
pub const MEMIF_CLIENT: Listener = Listener {
    name: "memif-client",
    summary: "a `memif:` port that connects, to hostile servers",
    prepare: client,
};

/// A configuration that joins the hosts, and sends a copy of their packets to ports that are attacked.
pub(super) fn tee(scene: &Scene, attacked: &[String]) -> String {
    let [a, b] = Scene::PORTS;
    let outputs = 1 + attacked.len();
    let mut text = format!(
        "ta :: Tee({outputs}); tb :: Tee({outputs});\n\
         FromPort({a}) -> ta -> ToPort({b}); FromPort({b}) -> tb -> ToPort({a});\n",
    );
    for (at, port) in attacked.iter().enumerate() {
        text += &format!(
            "t{at} :: ToPort(\"{port}\"); ta[{0}] -> t{at}; tb[{0}] -> t{at}; \
             FromPort(\"{port}\") -> Discard;\n",
            at + 1,
        );
    }
    scene.write("attacked.click", &text)
}

fn server(scene: &Scene) -> Case {
    let port = |id: u32| format!("memif:{SERVER}?role=server&mode=666&id={id}");
    let configuration = tee(scene, &[port(ATTACKED), port(OTHER)]);
    let command = scene.linerate(["run", &configuration]);
    let nobody = |name, run: fn(&mut Turn<'_>)| Attack::new(name, AttackUser::Nobody, run);
    Case::new(command).bounds(Growth::shared_memory()).honest(HonestClient).attacks([
        nobody("leave-at-each-step", leave_at_each_step),
        nobody("stall-at-each-step", stall_at_each_step),
        nobody("full-eventfd", full_eventfd),
        nobody("leave-with-a-full-eventfd", leave_with_a_full_eventfd),
        nobody("watched-eventfd", watched_eventfd),
        nobody("open-all", open_all),
        nobody("flood", flood),
        nobody("descriptors", descriptors),
        nobody("lingering-descriptors", lingering_descriptors),
        nobody("regions", regions),
        nobody("huge-regions", huge_regions),
        nobody("cut-memory", cut_memory),
        Attack::new("full-eventfd-as-the-same-user", AttackUser::Own, full_eventfd),
    ])
}

fn client(scene: &Scene) -> Case {
    let configuration = tee(scene, &[format!("memif:{CLIENT}?slots=64")]);
    let command = scene.linerate(["run", &configuration]);
    let nobody = |name, run: fn(&mut Turn<'_>)| Attack::new(name, AttackUser::Nobody, run);
    Case::new(command).bounds(Growth::shared_memory()).one_attack_at_a_time().attacks([
        nobody("leave-at-each-step", serve_and_leave),
        nobody("stall-at-each-step", serve_and_stall),
        nobody("full-eventfd", serve_with_full_eventfds),
        nobody("accept-nobody", never_accept),
        nobody("descriptors", serve_descriptors),
        nobody("any-bytes", serve_any_bytes),
    ])
}

/// A client of the other interface, which is let in each time.
#[derive(Debug)]
struct HonestClient;

impl Honest for HonestClient {
    fn name(&self) -> String {
        format!("a client of interface {OTHER} at {SERVER}")
    }

    fn step(&mut self) -> Result<(), String> {
        let step = || {
            let mut client = Client::connect(SERVER, OTHER)?;
            client.advance(Stage::Up)
        };
        match step() {
            // The server has not noticed yet that the client before has gone.
            Err(error) if error.to_string().contains("already connected") => Ok(()),
            done => done.map_err(|error| error.to_string()),
        }
    }
}

fn connect(turn: &mut Turn<'_>) -> Option<Client> {
    let channel = Channel::connect(SERVER, SocketType::SEQPACKET);
    let client = channel.and_then(|channel| Client::over(channel.patient(IMPATIENT), ATTACKED));
    match client {
        Ok(_) => turn.count(),
        Err(_) => turn.breathe(),
    }
    client.ok()
}

fn connect_up(turn: &mut Turn<'_>) -> Option<Client> {
    let mut client = connect(turn)?;
    let done = client.advance(Stage::Up);
    if done.is_err() {
        turn.breathe();
    }
    done.ok().map(|()| client)
}

fn leave_at_each_step(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        for stage in Stage::ALL {
            if let Some(mut client) = connect(turn) {
                let _ = client.advance(stage);
            }
        }
    }
}

fn stall_at_each_step(turn: &mut Turn<'_>) {
    let clients: Vec<_> = Stage::ALL
        .into_iter()
        .filter_map(|stage| {
            let mut client = connect(turn)?;
            let _ = client.advance(stage);
            Some(client)
        })
        .collect();
    turn.hold();
    drop(clients);
}

/// Takes its packets, and never the interrupts.
fn full_eventfd(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(client) = connect_up(turn) else { continue };
        while turn.goes_on() {
            let _ = client.take();
            turn.breathe();
        }
    }
}

fn leave_with_a_full_eventfd(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(client) = connect_up(turn) else { continue };
        for _ in 0..20 {
            let _ = client.take();
            turn.breathe();
        }
    }
}

/// Has each signal run through thousands of watches.
fn watched_eventfd(turn: &mut Turn<'_>) {
    let Some(client) = connect_up(turn) else { return };
    let Ok(watch) = epoll::create(CreateFlags::CLOEXEC) else { return };
    let [_, event] = client.events();
    let mut watched = Vec::new();
    while turn.goes_on() {
        if watched.len() < 10_000
            && let Ok(copy) = event.try_clone()
        {
            let _ = epoll::add(&watch, &copy, EventData::new_u64(0), EventFlags::IN);
            watched.push(copy);
            turn.count();
            if !watched.len().is_multiple_of(100) {
                continue;
            }
        }
        let _ = client.take();
        turn.breathe();
    }
}

fn open_all(turn: &mut Turn<'_>) {
    let mut open = Vec::new();
    while turn.goes_on() {
        match connect(turn) {
            Some(client) => open.push(client),
            None => open.retain(|client: &Client| client.channel().send(&[0; 1], &[]).is_ok()),
        }
    }
}

fn flood(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(client) = connect(turn) else { continue };
        let mut message = [0; SIZE];
        turn.rng.fill(&mut message[2..]);
        message[0] = turn.choice(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        while turn.goes_on() && client.channel().send(&message, &[]).is_ok() {
            turn.count();
        }
    }
}

fn descriptors(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Ok(descriptor) = Descriptor::new(turn.choice(KINDS)) else { continue };
        let stage = turn.choice(&[Stage::Connected, Stage::Interface, Stage::Region]);
        let Some(mut client) = connect(turn) else { continue };
        let _ = client.advance(stage);
        let _ = match stage {
            Stage::Interface => {
                client.add_region(0, turn.choice(&[1, 4096, HUGE]), descriptor.as_fd())
            }
            Stage::Region => client.add_ring(0, descriptor.as_fd()),
            _ => {
                let many = turn.choice(&[1, 2, 253]);
                client.channel().send(&[0; SIZE], &vec![descriptor.as_fd(); many])
            }
        };
        descriptor.sent();
    }
}

/// Sockets that take an hour to close.
fn lingering_descriptors(turn: &mut Turn<'_>) {
    let mut peers = Vec::new();
    while turn.goes_on() {
        if peers.len() == 8 {
            turn.hold();
            return;
        }
        let Some(client) = connect(turn) else { continue };
        let (socket, peer) = lingering_socket();
        let _ = client.channel().send(&[0; SIZE], &[socket.as_fd()]);
        close(socket);
        peers.push(peer);
    }
}

fn regions(turn: &mut Turn<'_>) {
    let Ok(file) = memory(4096, true) else { return };
    let mut clients = Vec::new();
    while turn.goes_on() {
        let Some(mut client) = connect(turn) else { continue };
        let _ = client.advance(Stage::Interface);
        let taken = (0..256).take_while(|at| client.add_region(*at, 4096, file.as_fd()).is_ok());
        if taken.count() > 0 {
            clients.push(client);
        }
    }
}

fn huge_regions(turn: &mut Turn<'_>) {
    let Ok(file) = memory(HUGE, false) else { return };
    let mut clients = Vec::new();
    while turn.goes_on() {
        let Some(mut client) = connect(turn) else { continue };
        let size = turn.choice(&[1 << 30, 100 << 30, 1 << 40, HUGE / 2, HUGE]);
        let _ = client.advance(Stage::Interface);
        let taken = (0..256).take_while(|at| client.add_region(*at, size, file.as_fd()).is_ok());
        if taken.count() > 0 {
            clients.push(client);
        }
    }
}

fn cut_memory(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Ok(file) = memory(1 << 20, false) else { continue };
        let Some(mut client) = connect(turn) else { continue };
        let _ = client.advance(Stage::Interface);
        let _ = client.add_region(0, 1 << 20, file.as_fd());
        let Ok(event) = Descriptor::new(crate::descriptors::DescriptorType::EventFull) else {
            continue;
        };
        let _ = client.add_ring(0, event.as_fd());
        let _ = rustix::fs::ftruncate(&file, 0);
        let _ = client.add_ring(1, event.as_fd());
    }
}

/// A server, until the turn ends: another thread may have the socket.
fn listen(turn: &mut Turn<'_>) -> Option<Server> {
    while turn.goes_on() {
        match Channel::listen(CLIENT, SocketType::SEQPACKET, 1) {
            Ok(listener) => return Some(Server::at(listener.patient(IMPATIENT))),
            Err(_) => turn.breathe(),
        }
    }
    None
}

fn serve_and_leave(turn: &mut Turn<'_>) {
    let Some(mut server) = listen(turn) else { return };
    while turn.goes_on() {
        for stage in Stage::ALL {
            if server.accept(stage).is_ok() {
                turn.count();
            }
        }
    }
}

fn serve_and_stall(turn: &mut Turn<'_>) {
    let stage = turn.choice(&Stage::ALL);
    let Some(mut server) = listen(turn) else { return };
    while turn.goes_on() && server.accept(stage).is_err() {
        turn.breathe();
    }
    turn.count();
    turn.hold();
}

fn serve_with_full_eventfds(turn: &mut Turn<'_>) {
    let Some(mut server) = listen(turn) else { return };
    while turn.goes_on() {
        if server.accept(Stage::Up).is_err() {
            continue;
        }
        turn.count();
        server.events().for_each(fill);
        let _ = server.ask_for_interrupts();
        let takes = turn.choice(&[10, 1000]);
        for _ in 0..takes {
            if !turn.goes_on() {
                break;
            }
            let _ = server.take();
            turn.breathe();
        }
    }
}

fn never_accept(turn: &mut Turn<'_>) {
    let server = listen(turn);
    turn.count();
    turn.hold();
    drop(server);
}

fn serve_descriptors(turn: &mut Turn<'_>) {
    let Some(mut server) = listen(turn) else { return };
    while turn.goes_on() {
        let Ok(descriptor) = Descriptor::new(turn.choice(KINDS)) else { continue };
        let stage = turn.choice(&[Stage::Connected, Stage::Interface, Stage::Up]);
        if server.accept(stage).is_ok()
            && let Some(channel) = server.channel()
        {
            turn.count();
            let many = turn.choice(&[1, 2, 253]);
            let mut message = [0; SIZE];
            message[0] = turn.choice(&[1, 2, 7]);
            let _ = channel.send(&message, &vec![descriptor.as_fd(); many]);
            descriptor.sent();
        }
    }
}

fn serve_any_bytes(turn: &mut Turn<'_>) {
    let Some(mut server) = listen(turn) else { return };
    while turn.goes_on() {
        let stage = turn.choice(&Stage::ALL);
        if server.accept(stage).is_ok()
            && let Some(channel) = server.channel()
        {
            turn.count();
            let mut message = [0; SIZE + 1];
            turn.rng.fill(&mut message);
            message[..2].copy_from_slice(&u16::from(turn.rng.u8(0..10)).to_ne_bytes());
            let length = turn.choice(&[0, 1, SIZE - 1, SIZE, SIZE, SIZE, SIZE + 1]);
            let _ = channel.send(&message[..length], &[]);
        }
    }
}
