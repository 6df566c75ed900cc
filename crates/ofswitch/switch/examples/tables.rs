//! Cost of table changes and lookups: `cargo run --release -p linerate-ofswitch --example tables`.
//!
//! Times are the best of several runs, for each change or lookup.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_ofswitch::key::{Key, Mask};
use linerate_ofswitch::switch::{Switch, SwitchOptions};
use linerate_openflow::wire::multipart::{FlowRequest, Request};
use linerate_openflow::wire::{
    Action, Field, FlowMod, FlowModCommand, Instruction, Match, Message, MultipartReply,
    PortNumber, Version,
};

const RUNS: usize = 7;
const FLOWS: u32 = 10_000;

fn best(mut run: impl FnMut() -> Duration) -> Duration {
    (0..RUNS).map(|_| run()).min().unwrap_or_default()
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn show(what: &str, time: Duration, count: u32) {
    println!("{what:<64} {:>9.3} us", time.as_secs_f64() * 1e6 / f64::from(count));
}

fn send(port: u32) -> Vec<Instruction> {
    let output = Action::Output { port: PortNumber(port), max_len: 0 };
    vec![Instruction::ApplyActions(vec![output])]
}

/// A number that is not like the one before.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1).rotate_left(13)
}

/// A flow of one connection.
fn exact(number: u32) -> FlowMod {
    let matching = Match::new()
        .with(Field::InPort, 1)
        .with(Field::EthType, 0x0800)
        .with(Field::IpProto, 17)
        .with(Field::Ipv4Src, (0x0a00_0000 + number).into())
        .with(Field::Ipv4Dst, scattered(number).into())
        .with(Field::UdpSrc, (number % 60_000).into())
        .with(Field::UdpDst, 53);
    FlowMod::add(0, 10, matching, send(2))
}

/// A route: its length is its priority.
fn route(number: u32) -> FlowMod {
    let length = 9 + number % 24;
    let mask = u32::MAX << (32 - length);
    let matching = Match::new().with(Field::EthType, 0x0800).with_masked(
        Field::Ipv4Dst,
        (scattered(number) & mask).into(),
        mask.into(),
    );
    FlowMod::add(0, length as u16, matching, send(2))
}

fn key(of: &FlowMod) -> Key {
    let (mut key, _) = linerate_ofswitch::key::of_match(&of.matching);
    key.set(Field::EthSrc, 0x0200_0000_0001);
    key.set(Field::IpTtl, 64);
    key
}

fn filled(flow: impl Fn(u32) -> FlowMod, count: u32) -> Arc<Switch> {
    let switch = Switch::new(SwitchOptions::default());
    (0..count).for_each(|number| {
        switch.flow_mod(&flow(number), Version::V13, 0).expect("added");
    });
    switch
}

fn changes(name: &str, flow: impl Fn(u32) -> FlowMod) {
    let flows: Vec<FlowMod> = (0..FLOWS).map(flow).collect();
    for read in [false, true] {
        let how = if read { "each version taken by a reader" } else { "nobody reads" };
        let fill = |switch: &Switch| {
            let mut seen = switch.snapshot();
            for flow in &flows {
                switch.flow_mod(flow, Version::V13, 0).expect("added");
                if read {
                    switch.refresh(&mut seen);
                }
            }
        };
        let time = best(|| {
            let switch = Switch::new(SwitchOptions::default());
            timed(|| fill(&switch))
        });
        show(&format!("add {FLOWS} {name}, {how}"), time, FLOWS);
        let strict =
            |flow: &FlowMod| FlowMod { command: FlowModCommand::DeleteStrict, ..flow.clone() };
        let deletes: Vec<FlowMod> = flows.iter().map(strict).collect();
        let time = best(|| {
            let switch = Switch::new(SwitchOptions::default());
            fill(&switch);
            let mut seen = switch.snapshot();
            timed(|| {
                for flow in &deletes {
                    switch.flow_mod(flow, Version::V13, 0).expect("deleted");
                    if read {
                        switch.refresh(&mut seen);
                    }
                }
            })
        });
        show(&format!("delete {FLOWS} {name} one by one, {how}"), time, FLOWS);
    }
    let messages: Vec<Message> = flows.iter().cloned().map(Message::FlowMod).collect();
    let time = best(|| {
        let switch = Switch::new(SwitchOptions::default());
        let messages = messages.iter().cloned().map(Ok);
        timed(|| switch.bundle(messages, Version::V14, 0).expect("done"))
    });
    show(&format!("add {FLOWS} {name} in a bundle"), time, FLOWS);
    let all =
        FlowMod { command: FlowModCommand::Delete, ..FlowMod::add(0, 0, Match::new(), Vec::new()) };
    let time = best(|| {
        let switch = Switch::new(SwitchOptions::default());
        fill_all(&switch, &flows);
        timed(|| switch.flow_mod(&all, Version::V13, 0).expect("deleted"))
    });
    show(&format!("delete {FLOWS} {name} at once"), time, FLOWS);
}

fn fill_all(switch: &Switch, flows: &[FlowMod]) {
    flows.iter().for_each(|flow| switch.flow_mod(flow, Version::V13, 0).expect("added"));
}

fn lookups(name: &str, flow: impl Fn(u32) -> FlowMod, count: u32) {
    let switch = filled(&flow, count);
    let tables = switch.snapshot();
    let keys: Vec<Key> = (0..4096).map(|nth| key(&flow(scattered(nth) % count))).collect();
    let other = |mut key: Key| {
        key.set(Field::Ipv4Dst, key.get(Field::Ipv4Dst) ^ 0x0100_0001);
        key
    };
    let misses: Vec<Key> = keys.iter().copied().map(other).collect();
    let masks = tables.table(0).map_or(0, |table| table.masks());
    for (kind, keys) in [("found", &keys), ("others", &misses)] {
        let time = best(|| {
            timed(|| {
                for key in keys {
                    let mut mask = Mask::default();
                    black_box(tables.lookup(0, black_box(key), &mut mask));
                    black_box(&mask);
                }
            })
        });
        show(&format!("look up one of {count} {name} ({masks} masks), {kind}"), time, 4096);
    }
}

fn main() {
    changes("exact flows", exact);
    changes("routes", route);
    lookups("exact flows", exact, FLOWS);
    lookups("exact flows", exact, 500_000);
    lookups("routes", route, 500);
    lookups("routes", route, FLOWS);
    let switch = filled(exact, FLOWS);
    let request = Request::Flow(FlowRequest::all());
    let time = best(|| {
        timed(|| {
            let _ = black_box(switch.answer(&request, Version::V13, 0));
        })
    });
    show(&format!("answer for {FLOWS} flows"), time, 1);
    let time = best(|| {
        let body = switch.answer(&request, Version::V13, 0).expect("an answer");
        let message = MultipartReply { more: false, body };
        timed(|| {
            let _ = black_box(Message::MultipartReply(message).encode(Version::V13, 1));
        })
    });
    show("and its encoding", time, 1);
}
