//! Open vSwitch as judge: random rule sets and random packets, the same out of both.
//!
//! `cargo xtask conformance openflow --differential 2000` does as many as that; the test below does
//! a few. A difference is made as small as can be, rule by rule, before it is shown, with the seed
//! that makes it again: `LINERATE_DIFFERENTIAL=SEED:1`.

mod chains;
mod first_header;
mod ipv6;
mod judge;
mod ours;
mod packets;
mod rules;
mod service_header;
mod stateful;

use std::collections::BTreeMap;
use std::env;

use fastrand::Rng;
use linerate_openflow::wire::{ALL_TABLES, FlowModCommand};
use linerate_openflow::wire::{FlowMod, GroupCommand, GroupMod, GroupType, Match, Message};

use self::judge::{Judge, hex};
use self::ours::{Fast, Ours};

/// Ports of both switches.
const PORTS: u32 = 4;

/// Packets for each rule set.
const PACKETS: usize = 40;

/// Packets sent, by port, in order.
type Sent = BTreeMap<u32, Vec<Vec<u8>>>;

/// A difference.
#[derive(Debug)]
enum Difference {
    /// Open vSwitch takes a rule that we refuse.
    Refused(usize, String),
    /// Something else comes of a packet.
    Packet { port: u32, packet: Vec<u8>, theirs: Sent, ours: Sent },
    /// Something else comes of packets on the fast path than on the slow one.
    Fast { port: u32, packets: Vec<Vec<u8>>, slow: Sent, fast: Sent },
}

/// Deletes all there is.
fn nothing() -> [Message; 2] {
    let mut flows = FlowMod::add(ALL_TABLES, 0, Match::new(), Vec::new());
    flows.command = FlowModCommand::Delete;
    flows.cookie = None;
    let groups = GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group: 0xffff_fffc,
        at: 0,
        buckets: Vec::new(),
        selection: None,
    };
    [Message::FlowMod(flows), Message::GroupMod(groups)]
}

/// Gives both a set of rules, and then packets. Rules that Open vSwitch refuses are left out of
/// ours; the number of rules taken by both is returned.
fn compare(
    judge: &mut Judge,
    set: &[Message],
    packets: &[(u32, Vec<u8>)],
) -> Result<usize, Difference> {
    let clear = nothing();
    let refused = judge.change(clear.iter().chain(set)).split_off(clear.len());
    judge.forget();
    let mut ours = Ours::new();
    let mut taken = 0;
    for (number, (rule, refused)) in set.iter().zip(&refused).enumerate() {
        if refused.is_some() {
            continue;
        }
        ours.change(rule).map_err(|fault| Difference::Refused(number, fault))?;
        taken += 1;
    }
    // Late packets of the set before are discarded.
    judge.look();
    let mut slow = Vec::new();
    for (port, packet) in packets {
        let mut theirs = judge.packet(*port, packet);
        let ours = ours.packet(*port, packet);
        slow.push(ours.clone());
        let mut patience = 20;
        while theirs != ours && patience > 0 {
            // Some actions are done by another thread.
            std::thread::sleep(std::time::Duration::from_millis(2));
            for (port, packets) in judge.look() {
                theirs.entry(port).or_default().extend(packets);
            }
            patience -= 1;
        }
        if theirs != ours && judge.gives_up(*port, packet) {
            // The scenario: time for packets it sends all the same.
            std::thread::sleep(std::time::Duration::from_millis(200));
            judge.look();
            continue;
        }
        if theirs != ours {
            return Err(Difference::Packet { port: *port, packet: packet.clone(), theirs, ours });
        }
    }
    fast(&mut ours, packets, &slow)?;
    Ok(taken)
}

/// Has the fast path take packets in frames, several times, so that there are entries for them at
/// last.
fn fast(ours: &mut Ours, packets: &[(u32, Vec<u8>)], slow: &[Sent]) -> Result<(), Difference> {
    let mut fast = Fast::new();
    let mut rng = Rng::with_seed(packets.len() as u64);
    for _ in 0..3 {
        for port in 1..=PORTS {
            let mut of: Vec<usize> =
                (0..packets.len()).filter(|at| packets[*at].0 == port).collect();
            rng.shuffle(&mut of);
            let mut rest = &of[..];
            while !rest.is_empty() {
                let (now, behind) = rest.split_at(rng.usize(1..=rest.len()));
                rest = behind;
                let frame: Vec<_> = now.iter().map(|at| packets[*at].1.clone()).collect();
                let mut wanted = Sent::new();
                for (port, sent) in now.iter().flat_map(|at| &slow[*at]) {
                    wanted.entry(*port).or_default().extend(sent.iter().cloned());
                }
                let found = fast.packets(ours, port, &frame);
                if found != wanted {
                    return Err(Difference::Fast {
                        port,
                        packets: frame,
                        slow: wanted,
                        fast: found,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Drops rules, and instructions of rules, while something still differs.
fn shrink(
    judge: &mut Judge,
    mut set: Vec<Message>,
    found: Difference,
) -> (Vec<Message>, Difference) {
    let mut found = found;
    let mut at = 0;
    while at < set.len() {
        let mut fewer = set.clone();
        fewer.remove(at);
        let packets = match &found {
            Difference::Packet { port, packet, .. } => vec![(*port, packet.clone())],
            Difference::Fast { port, packets, .. } => {
                packets.iter().map(|packet| (*port, packet.clone())).collect()
            }
            Difference::Refused(..) => Vec::new(),
        };
        match compare(judge, &fewer, &packets) {
            Err(difference)
                if std::mem::discriminant(&difference) == std::mem::discriminant(&found) =>
            {
                (set, found) = (fewer, difference);
            }
            _ => at += 1,
        }
    }
    (set, found)
}

/// A set and its packets, by a seed.
fn generate(seed: u64) -> (Vec<Message>, Vec<(u32, Vec<u8>)>) {
    let mut rng = Rng::with_seed(seed);
    let set = rules::random(&mut rng);
    let lengths = !set.iter().any(rules::adds_labels);
    let packets =
        (0..PACKETS).map(|_| (rng.u32(1..=PORTS), packets::random(&mut rng, lengths))).collect();
    (set, packets)
}

fn show(sent: &Sent) -> String {
    let lines = sent.iter().flat_map(|(port, packets)| {
        packets.iter().map(move |packet| format!("    port {port}: {}\n", hex(packet)))
    });
    lines.collect()
}

/// Describes a difference, with the output of Open vSwitch's own client.
fn explain(judge: &mut Judge, seed: u64, set: &[Message], found: &Difference) -> String {
    let clear = nothing();
    judge.change(clear.iter().chain(set));
    let flows = judge.flows();
    let mut text = format!("seed {seed}:\n{flows}");
    match found {
        Difference::Refused(number, fault) => {
            text += &format!("  ours refuses number {number} with {fault}: {:?}\n", set[*number]);
        }
        Difference::Fast { port, packets, slow, fast } => {
            for packet in packets {
                text += &format!("  in_port={port} {}\n", hex(packet));
            }
            text += &format!("  slow path:\n{}  fast path:\n{}", show(slow), show(fast));
        }
        Difference::Packet { port, packet, theirs, ours } => {
            text += &format!("  in_port={port} {}\n", hex(packet));
            text += &format!("  Open vSwitch:\n{}  ours:\n{}", show(theirs), show(ours));
            text += &judge.trace(*port, packet);
            let mut again = Ours::new();
            let refused = judge.change(clear.iter().chain(set)).split_off(clear.len());
            for (rule, refused) in set.iter().zip(refused) {
                let _ = refused.is_none().then(|| again.change(rule));
            }
            text += &again.trace(*port, packet);
        }
    }
    text
}

/// Returns the first seed, and the number of sets: `SEED:SETS`.
fn asked() -> (u64, u64) {
    let text = env::var("LINERATE_DIFFERENTIAL").unwrap_or_else(|_| "1:150".into());
    let (seed, sets) = text.split_once(':').expect("LINERATE_DIFFERENTIAL is SEED:SETS");
    (seed.parse().expect("a seed"), sets.parse().expect("a number"))
}

#[test]
#[ignore = "needs ovs-vswitchd"]
fn the_same_comes_out_of_open_vswitch() {
    let (seed, sets) = asked();
    let mut judge = Judge::start();
    let (mut rules, mut taken, mut differ) = (0, 0, 0);
    for seed in seed..seed + sets {
        let (set, packets) = generate(seed);
        rules += set.len();
        match compare(&mut judge, &set, &packets) {
            Ok(both) => taken += both,
            Err(found) => {
                differ += 1;
                // The first few are shown whole, which takes time.
                if differ <= 8 {
                    let (set, found) = shrink(&mut judge, set, found);
                    eprintln!("{}", explain(&mut judge, seed, &set, &found));
                } else {
                    eprintln!("seed {seed} differs, too");
                }
            }
        }
    }
    eprintln!("{sets} sets from seed {seed} on, {taken} of {rules} rules taken: {differ} differ");
    assert_eq!(differ, 0, "sets of which Open vSwitch makes something else");
    assert!(taken * 2 > rules, "Open vSwitch refuses most of the rules");
}
