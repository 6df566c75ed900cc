//! Hostile peers of `vhost:` ports, in both roles.

use std::{os::fd::AsFd, time::Duration};

use rustix::net::SocketType;

use super::{Attack, AttackUser, Case, Growth, Listener, Scene, Turn, memif::tee};
use crate::descriptors::{Descriptor, HUGE, KINDS, memory};
use crate::stalling::{
    channel::Channel,
    close, full_eventfd, lingering_socket,
    vhost::{Device, Frontend, Stage},
};

/// Time that a hostile peer waits for an answer.
const IMPATIENT: Duration = Duration::from_millis(100);
/// The sockets, which have no files, so that every user can make them.
const DEVICE: &str = "@linerate-hostile-vhost-device";
const DRIVER: &str = "@linerate-hostile-vhost-driver";
/// Requests up to this one are known.
const REQUESTS: u32 = 44;
/// Addresses of a region, for the guest and for the frontend.
const GUEST: u64 = 0x1_0000;
const USER: u64 = 0x7000_0000;

/// Drivers of a device.
pub const VHOST_DEVICE: Listener = Listener {
    name: "vhost-device",
    summary: "a `vhost:` port that is the device, with hostile drivers",
    prepare: device,
};

/// Devices of a driver.
pub const VHOST_DRIVER: Listener = Listener {
    name: "vhost-driver",
    summary: "a `vhost:` port that is the driver, with hostile devices",
    prepare: driver,
};

fn device(scene: &Scene) -> Case {
    let configuration = tee(scene, &[format!("vhost:{DEVICE}?mode=666")]);
    let command = scene.linerate(["run", &configuration]);
    let nobody = |name, run: fn(&mut Turn<'_>)| Attack::new(name, AttackUser::Nobody, run);
    Case::new(command).bounds(Growth::shared_memory()).one_attack_at_a_time().attacks([
        nobody("leave-at-each-step", leave_at_each_step),
        nobody("stall-at-each-step", stall_at_each_step),
        nobody("full-eventfd", use_full_eventfds),
        nobody("call-before-anything", call_before_anything),
        nobody("read-no-answer", read_no_answer),
        nobody("open-all", open_all),
        nobody("flood", flood),
        nobody("descriptors", descriptors),
        nobody("lingering-descriptors", lingering_descriptors),
        nobody("huge-regions", huge_regions),
        nobody("cut-memory", cut_memory),
        nobody("in-flight-memory", in_flight_memory),
        Attack::new("full-eventfd-as-the-same-user", AttackUser::Own, use_full_eventfds),
    ])
}

fn driver(scene: &Scene) -> Case {
    let configuration = tee(scene, &[format!("vhost:{DRIVER}?role=driver&slots=64")]);
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

fn connect(turn: &mut Turn<'_>) -> Option<Frontend> {
    let channel = Channel::connect(DEVICE, SocketType::STREAM);
    let frontend = channel.and_then(|channel| Frontend::over(channel.patient(IMPATIENT)));
    // The device has one driver at a time, and may still be at the last one.
    turn.count();
    if frontend.is_err() {
        turn.breathe();
    }
    frontend.ok()
}

fn connect_to(stage: Stage, turn: &mut Turn<'_>) -> Option<Frontend> {
    let mut frontend = connect(turn)?;
    frontend.advance(stage).ok().map(|()| frontend)
}

fn leave_at_each_step(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        for stage in Stage::ALL {
            drop(connect_to(stage, turn));
        }
    }
}

fn stall_at_each_step(turn: &mut Turn<'_>) {
    let stage = turn.choice(&Stage::ALL);
    let frontend = connect_to(stage, turn);
    turn.hold();
    drop(frontend);
}

/// Takes its packets, and never the interrupts.
fn use_full_eventfds(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(frontend) = connect_to(Stage::Up, turn) else { continue };
        let takes = turn.choice(&[10, 1000]);
        for _ in 0..takes {
            if !turn.goes_on() {
                break;
            }
            let _ = frontend.take();
            turn.breathe();
        }
    }
}

fn call_before_anything(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(frontend) = connect(turn) else { continue };
        let _ = frontend.ask();
        for _ in 0..10 {
            let _ = frontend.set_call(0, full_eventfd().as_fd());
        }
        let _ = frontend.ask();
    }
}

fn read_no_answer(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(frontend) = connect(turn) else { continue };
        while turn.goes_on() && frontend.send_request(1, &[], &[]).is_ok() {
            turn.count();
        }
    }
}

fn open_all(turn: &mut Turn<'_>) {
    let mut open = Vec::new();
    while turn.goes_on() {
        open.extend(connect(turn));
        if open.len() > 64 {
            open.clear();
        }
    }
}

fn flood(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Some(frontend) = connect(turn) else { continue };
        let mut payload = vec![0; turn.choice(&[0, 8, 8, 40, 256, 512, 513])];
        turn.rng.fill(&mut payload);
        let request = turn.rng.u32(0..REQUESTS);
        while turn.goes_on() && frontend.send_request(request, &payload, &[]).is_ok() {
            turn.count();
        }
    }
}

fn descriptors(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Ok(descriptor) = Descriptor::new(turn.choice(KINDS)) else { continue };
        let Some(frontend) = connect_to(Stage::Memory, turn) else { continue };
        let size = turn.choice(&[1, 4096, HUGE]);
        let _ = match turn.rng.u8(0..4) {
            0 => frontend.set_memory(&[(GUEST, size, USER, 0)], &[descriptor.as_fd()]),
            1 => frontend.set_call(0, descriptor.as_fd()),
            2 => frontend.set_kick(1, descriptor.as_fd()),
            _ => {
                let many = turn.choice(&[1, 8, 9, 253]);
                frontend.send_request(
                    turn.rng.u32(0..REQUESTS),
                    &[0; 8],
                    &vec![descriptor.as_fd(); many],
                )
            }
        };
        descriptor.sent();
        let _ = frontend.ask();
    }
}

/// Sockets that take an hour to close.
fn lingering_descriptors(turn: &mut Turn<'_>) {
    let mut peers = Vec::new();
    while turn.goes_on() {
        if peers.len() == 4 {
            turn.hold();
            return;
        }
        let Some(frontend) = connect(turn) else { continue };
        let (socket, peer) = lingering_socket();
        let _ = frontend.set_call(0, socket.as_fd());
        close(socket);
        peers.push(peer);
    }
}

fn huge_regions(turn: &mut Turn<'_>) {
    let Ok(file) = memory(HUGE, false) else { return };
    while turn.goes_on() {
        let Some(frontend) = connect_to(Stage::Features, turn) else { continue };
        let count = turn.choice(&[1, 2, 8]);
        let size = turn.choice(&[1 << 30, 31 << 30, 200 << 30, 1 << 40, HUGE / 2, HUGE]);
        let regions: Vec<_> = (0..count).map(|at| (GUEST + at * size, size, USER, 0)).collect();
        for _ in 0..4 {
            let _ = frontend.set_memory(&regions, &vec![file.as_fd(); regions.len()]);
        }
        let _ = frontend.ask();
    }
}

fn cut_memory(turn: &mut Turn<'_>) {
    while turn.goes_on() {
        let Ok(file) = memory(1 << 20, false) else { continue };
        let Some(frontend) = connect_to(Stage::Up, turn) else { continue };
        let _ = frontend.set_memory(&[(GUEST, 1 << 20, USER, 0)], &[file.as_fd()]);
        let _ = rustix::fs::ftruncate(&file, 0);
        let _ = frontend.ask();
    }
}

/// Asks for in-flight memory, and keeps it.
fn in_flight_memory(turn: &mut Turn<'_>) {
    let mut kept = Vec::new();
    while turn.goes_on() {
        let Some(frontend) = connect_to(Stage::Features, turn) else { continue };
        let mut asked = [0; 24];
        asked[16..20].copy_from_slice(&[2, 0, 0, 0x80]);
        for _ in 0..8 {
            let _ = frontend.send_request(31, &asked, &[]);
            kept.extend(frontend.channel().receive(512).map(|(_, files)| files));
        }
    }
}

/// A device, until the turn ends: another thread may have the socket.
fn listen(turn: &mut Turn<'_>) -> Option<Device> {
    while turn.goes_on() {
        match Channel::listen(DRIVER, SocketType::STREAM, 1) {
            Ok(listener) => return Some(Device::at(listener.patient(IMPATIENT))),
            Err(_) => turn.breathe(),
        }
    }
    None
}

fn serve_and_leave(turn: &mut Turn<'_>) {
    let Some(mut device) = listen(turn) else { return };
    while turn.goes_on() {
        for answers in 0..=3 {
            if device.accept(answers).is_ok() {
                turn.count();
            }
        }
    }
}

fn serve_and_stall(turn: &mut Turn<'_>) {
    let answers = turn.choice(&[0, 1, 2, 3]);
    let Some(mut device) = listen(turn) else { return };
    while turn.goes_on() && device.accept(answers).is_err() {
        turn.breathe();
    }
    turn.count();
    turn.hold();
}

fn serve_with_full_eventfds(turn: &mut Turn<'_>) {
    let Some(mut device) = listen(turn) else { return };
    while turn.goes_on() {
        if device.accept(3).is_err() {
            continue;
        }
        turn.count();
        let takes = turn.choice(&[10, 1000]);
        for _ in 0..takes {
            if !turn.goes_on() {
                break;
            }
            let _ = device.take();
            turn.breathe();
        }
    }
}

fn never_accept(turn: &mut Turn<'_>) {
    let device = listen(turn);
    turn.count();
    turn.hold();
    drop(device);
}

fn serve_descriptors(turn: &mut Turn<'_>) {
    let Some(mut device) = listen(turn) else { return };
    while turn.goes_on() {
        let Ok(descriptor) = Descriptor::new(turn.choice(KINDS)) else { continue };
        let answers = turn.choice(&[0, 1, 3]);
        if device.accept(answers).is_ok()
            && let Some(channel) = device.channel()
        {
            turn.count();
            let many = turn.choice(&[1, 9, 253]);
            let mut message = [0; 20];
            message[..12].copy_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0]);
            let _ = channel.send(&message, &vec![descriptor.as_fd(); many]);
            descriptor.sent();
        }
    }
}

fn serve_any_bytes(turn: &mut Turn<'_>) {
    let Some(mut device) = listen(turn) else { return };
    while turn.goes_on() {
        let answers = turn.choice(&[0, 1, 2, 3]);
        if device.accept(answers).is_ok()
            && let Some(channel) = device.channel()
        {
            turn.count();
            let mut bytes = vec![0; turn.rng.usize(1..600)];
            turn.rng.fill(&mut bytes);
            bytes[0] = turn.rng.u8(0..44);
            let _ = channel.send(&bytes, &[]);
        }
    }
}
