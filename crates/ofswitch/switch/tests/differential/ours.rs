//! Our switch without a network: the slow path alone, its steps carried out here one by one, and
//! the fast path of a worker.

use std::sync::Arc;

use linerate_memory::{ArenaOptions, Frame, PoolCache, Slot};
use linerate_ofswitch::cache::{Drop, FlowCache, Options, Outlet};
use linerate_ofswitch::conntrack::Tracked;
use linerate_ofswitch::key::{self, Key};
use linerate_ofswitch::pipeline::{self, Continuation, Step};
use linerate_ofswitch::switch::{Switch, SwitchOptions};
use linerate_ofswitch::table::Snapshot;
use linerate_openflow::wire::{Field, Message, Port, PortConfig, PortNumber, PortState};

use crate::judge::VERSION;
use crate::{PORTS, Sent};

/// Looked up again so often, a packet is in a circle.
const TURNS: u32 = 64;

/// A switch with [`PORTS`] ports.
pub(crate) struct Ours {
    pub(crate) switch: Arc<Switch>,
    now: u64,
}

impl Ours {
    pub(crate) fn new() -> Ours {
        let switch = Switch::new(SwitchOptions::default());
        for number in 1..=PORTS {
            let port = Port {
                number: PortNumber(number),
                address: [2, 0, 0, 0, 0xff, number as u8],
                name: format!("p{number}"),
                config: PortConfig::default(),
                state: PortState::default(),
                ethernet: None,
                others: Vec::new(),
            };
            let _ = switch.add_port(port, 1);
        }
        Ours { switch, now: 1_000_000_000 }
    }

    /// Carries out a change, or returns its error.
    pub(crate) fn change(&mut self, message: &Message) -> Result<(), String> {
        self.now += 1_000_000;
        let done = match message {
            Message::FlowMod(change) => self.switch.flow_mod(change, VERSION, self.now),
            Message::GroupMod(change) => self.switch.group_mod(change, VERSION, self.now),
            _ => unreachable!("rules are of flows and groups"),
        };
        done.map_err(|fault| format!("{fault:?}"))
    }

    /// Returns the packets sent for one on the slow path.
    pub(crate) fn packet(&mut self, port: u32, packet: &[u8]) -> Sent {
        self.now += 1_000_000;
        let snapshot = self.switch.snapshot();
        let mut slow_path =
            SlowPath { ours: self, snapshot: &snapshot, sent: Sent::new(), turns: 0 };
        let mut key = Key::default();
        key.set(Field::InPort, u128::from(port));
        slow_path.look_up(packet.to_vec(), key, None);
        slow_path.sent
    }

    /// Returns our trace of a packet.
    pub(crate) fn trace(&self, port: u32, packet: &[u8]) -> String {
        let mut key = Key::default();
        key.set(Field::InPort, u128::from(port));
        key::extract(packet, &mut key);
        let snapshot = self.switch.snapshot();
        let (decision, text) =
            pipeline::trace(&snapshot, self.switch.shared_state(), &key, None, self.now);
        format!("{text}\n{:?}", decision.steps)
    }
}

/// Collects the packets of the fast path.
struct TestOutlet {
    pool: PoolCache,
    sent: Sent,
}

impl Outlet for TestOutlet {
    fn pool(&mut self) -> &mut PoolCache {
        &mut self.pool
    }

    fn send(&mut self, output: usize, slot: Slot) {
        let packet = self.pool.arena().packet(&slot).to_vec();
        self.sent.entry(output as u32 + 1).or_default().push(packet);
        self.pool.give_one(slot);
    }

    fn send_frame(&mut self, output: usize, frame: &mut Frame) {
        frame.drain_front(frame.len(), |slot| self.send(output, slot));
    }

    fn distribute(&mut self, frame: &mut Frame, outputs: &[u32]) {
        assert_eq!(frame.len(), outputs.len());
        let mut outputs = outputs.iter();
        frame.drain_front(frame.len(), |slot| {
            self.send(*outputs.next().expect("as many") as usize, slot);
        });
    }

    fn drop_packet(&mut self, slot: Slot, _: Drop) {
        self.pool.give_one(slot);
    }

    fn drop_frame(&mut self, frame: &mut Frame, _: Drop) {
        frame.drain_front(frame.len(), |slot| self.pool.give_one(slot));
    }
}

/// The fast path of a worker, from frames of random lengths on.
pub(crate) struct Fast {
    path: FlowCache,
    out: TestOutlet,
    frame: Frame,
}

impl Fast {
    pub(crate) fn new() -> Fast {
        let arena = ArenaOptions { size: 1 << 21, ..Default::default() }.create();
        let arena = arena.expect("memory");
        // Nothing is dropped for being new.
        let options = Options { budget: 1 << 20, saved: 1 << 24, ..Options::default() };
        let ports: Vec<u32> = (1..=PORTS).collect();
        Fast {
            path: FlowCache::new(&ports, options),
            out: TestOutlet { pool: arena.cache(64), sent: Sent::new() },
            frame: Frame::new(256),
        }
    }

    /// Returns the packets sent for some that come in by a port together.
    pub(crate) fn packets(&mut self, ours: &mut Ours, port: u32, packets: &[Vec<u8>]) -> Sent {
        ours.now += 1_000_000;
        for packet in packets {
            let mut slot = self.out.pool.take_one(packet.len()).expect("a buffer");
            let bytes = self.out.pool.arena().packet_mut(&mut slot).expect("nobody else's");
            bytes.copy_from_slice(packet);
            self.frame.push(slot).expect("room");
        }
        let place = port as usize - 1;
        self.path.process(&*ours.switch, &mut self.out, place, &mut self.frame, ours.now);
        assert!(self.frame.is_empty());
        std::mem::take(&mut self.out.sent)
    }
}

/// A packet on its way.
struct SlowPath<'a> {
    ours: &'a Ours,
    snapshot: &'a Snapshot,
    sent: Sent,
    turns: u32,
}

impl SlowPath<'_> {
    /// `known` has the fields outside of headers.
    fn look_up(&mut self, packet: Vec<u8>, mut known: Key, from: Option<&Continuation>) {
        self.turns += 1;
        if self.turns > TURNS {
            return;
        }
        known.set_continuation(from.map_or(0, |from| from.number));
        let mut key = known;
        key::extract(&packet, &mut key);
        let switch = &self.ours.switch;
        let decision = pipeline::decide(
            self.snapshot,
            switch.shared_state(),
            &**switch,
            &key,
            from,
            self.ours.now,
        );
        self.carry_out(&decision.steps, packet, known);
    }

    fn carry_out(&mut self, steps: &[Step], mut packet: Vec<u8>, mut known: Key) {
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Output { port, max_len, .. } => {
                    let length =
                        max_len.map_or(packet.len(), |most| packet.len().min(most as usize));
                    self.sent.entry(*port).or_default().push(packet[..length].to_vec());
                }
                Step::Copy(steps) => self.carry_out(steps, packet.clone(), known),
                Step::Continue(next) => return self.look_up(packet, known, Some(next)),
                Step::Larger { length, larger, other } => {
                    let next = if packet.len() > usize::from(*length) { larger } else { other };
                    return self.look_up(packet, known, Some(next));
                }
                Step::Track { action, zone } => {
                    key::extract(&packet, &mut known);
                    let tracker = &self.ours.switch.shared_state().tracker;
                    match tracker.track(action, *zone, &mut known, &mut packet, self.ours.now) {
                        Tracked::One => {}
                        Tracked::Waits => return,
                        Tracked::All(fragments) => {
                            for fragment in fragments {
                                self.carry_out(&steps[at + 1..], fragment.packet, fragment.key);
                            }
                            return;
                        }
                    }
                }
                Step::ClearTrack => linerate_ofswitch::conntrack::clear(&mut known),
                Step::Count(_) | Step::Controller(_) | Step::Meter(_) | Step::Sample(_) => {}
                Step::Select(_) => unreachable!("no rule selects"),
                edit => {
                    let done = edit.apply(&mut packet);
                    assert!(done, "a vector has room: {edit:?}");
                }
            }
        }
    }
}
