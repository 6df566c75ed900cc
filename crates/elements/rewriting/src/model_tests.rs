//! Tests of rewriters beside a simple model: maps from ends to ends, and times.

use std::{collections::HashMap, net::Ipv4Addr, sync::Arc};

use linerate_packet::{
    IpProtocol,
    checksum::{checksum, pseudo_v4},
};
use proptest::prelude::*;

use super::{
    flow_set::{FlowSet, Rewriting, Unmapped},
    mapping::Ends,
    rewrite::{HeaderOffsets, rewrite, shown},
    rewriter_type::RewriterKind,
    spec::Spec,
    times::{AllTimes, Times},
};

const UDP: IpProtocol = IpProtocol::UDP;
const GUARANTEE: u64 = 50;
const IDLE: u64 = 200;

/// A set with one `IPRewriter` of a range of `ports`, and room for `capacity` flows.
fn set(ports: u16, mode: &str, capacity: usize) -> FlowSet {
    let mut set = FlowSet::new(vec!["rw".into()], capacity, 1).expect("memory");
    set.seed(7);
    let plan = linerate_graph::load(
        "config",
        "Idle -> Discard",
        &crate::testing::Run::library(),
        &linerate_graph::lang::Globals::default(),
        &mut |_: &str, _: &str| Err(None),
    );
    let plan = plan.plan.expect("right");
    let names = linerate_graph::Names::default();
    let scope = linerate_graph::Scope { plan: &plan, names: &names, name: "rw" };
    let text = format!("pattern 1.0.0.1 1000-{}{mode} - - 0 1", 999 + ports);
    let spec = Spec::parse(&text, 0, 2, &scope, &Arc::default()).expect("right");
    let times = Times::plain(IDLE, GUARANTEE);
    let times = AllTimes { tcp: times, other: times };
    set.install(0, Rewriting { kind: RewriterKind::Ip, times, specs: vec![spec], outputs: 2 });
    set
}

fn client(number: u8, port: u16, server: u8) -> Ends {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, number), Ipv4Addr::new(2, 0, 0, server));
    Ends { src, dst, src_port: port, dst_port: 53 }
}

/// A UDP packet with right checksums.
fn packet(ends: Ends, payload: u8) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 32, payload, 1, 0, 0, 64, 17, 0, 0];
    bytes.extend(ends.src.octets().into_iter().chain(ends.dst.octets()));
    let check = checksum(&bytes);
    bytes[10..12].copy_from_slice(&check.to_be_bytes());
    bytes.extend(ends.src_port.to_be_bytes().into_iter().chain(ends.dst_port.to_be_bytes()));
    bytes.extend([0, 12, 0, 0, payload, 7, 7, 7]);
    let check = udp_sum(&bytes);
    bytes[26..28].copy_from_slice(&check.to_be_bytes());
    bytes
}

fn udp_sum(bytes: &[u8]) -> u16 {
    let address = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
    let mut sum = pseudo_v4(address(12), address(16), UDP, 12);
    sum.add_bytes(&bytes[20..26]);
    sum.add_bytes(&bytes[28..]);
    linerate_packet::checksum::udp_nonzero(sum.finish())
}

/// Returns the rewritten ends of a packet with these ends, as rewriters do it.
fn send(set: &mut FlowSet, ends: Ends, now: u64, input: usize) -> Result<(Ends, u32), Unmapped> {
    let found = set.find(0, UDP, ends);
    let entry = match found {
        Some(entry) if !set.has_ended(entry, now) => entry,
        ended => {
            ended.into_iter().for_each(|entry| set.remove(entry));
            set.establish(0, input, UDP, UDP, ends, now)?.0
        }
    };
    let mapping = set.table.get_mut(entry).expect("just found");
    mapping.last.set(now);
    let mut bytes = packet(ends, now as u8);
    let place = HeaderOffsets { network: 0, transport: 20 };
    mapping.learn(shown(RewriterKind::Ip, &bytes, place, mapping));
    rewrite(RewriterKind::Ip, &mut bytes, place, mapping);
    let (to, output) = (mapping.to, mapping.output);
    assert_eq!(bytes, packet(to, now as u8), "the packet is one made for these ends");
    Ok((to, output))
}

type Key = (Ipv4Addr, u16, Ipv4Addr, u16);

#[derive(Default)]
struct Model {
    /// From ends to their rewritten form, the output, and the forward ends of the flow.
    map: HashMap<Key, (Ends, u32, Ends)>,
    last: Vec<(Ends, u64)>,
}

fn key(ends: Ends) -> Key {
    (ends.src, ends.src_port, ends.dst, ends.dst_port)
}

impl Model {
    fn touch(&mut self, flow: Ends, now: u64) {
        self.last.retain(|(other, _)| *other != flow);
        self.last.push((flow, now));
    }

    fn remove(&mut self, flow: Ends) {
        let (to, ..) = self.map.remove(&key(flow)).expect("there");
        self.map.remove(&key(to.reversed())).expect("there");
        self.last.retain(|(other, _)| *other != flow);
    }

    fn add(&mut self, flow: Ends, to: Ends, now: u64) {
        assert!(self.map.insert(key(flow), (to, 0, flow)).is_none());
        let back = (flow.reversed(), 1, flow);
        assert!(self.map.insert(key(to.reversed()), back).is_none(), "nobody has the port");
        self.last.push((flow, now));
    }

    fn has_ended(&self, flow: Ends, now: u64) -> bool {
        self.last.iter().any(|(other, last)| *other == flow && last + IDLE < now)
    }

    /// Flows least recently used come first.
    fn expire(&mut self, now: u64) {
        while let Some((flow, last)) = self.last.first().copied().filter(|(_, at)| at + IDLE <= now)
        {
            assert!(last <= now);
            self.remove(flow);
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Forward(u8, u16, u8),
    Reply(usize),
    Stranger(u16),
    Wait(u64),
    Reap,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..4u8, 998..1006u16, 0..3u8).prop_map(|(a, b, c)| Step::Forward(a, b, c)),
        4 => any::<usize>().prop_map(Step::Reply),
        1 => (990..1010u16).prop_map(Step::Stranger),
        3 => (0..120u64).prop_map(Step::Wait),
        1 => Just(Step::Reap),
    ];
    proptest::collection::vec(step, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flows_are_those_of_the_model(
        steps in steps(),
        ports in 2..12u16,
        mode in prop_oneof![Just(""), Just("#"), Just("?")],
        capacity in 1..20usize,
    ) {
        let mut set = set(ports, mode, capacity);
        let (mut model, mut now) = (Model::default(), 1000);
        let mut failures = 0;
        for step in steps {
            match step {
                Step::Wait(time) => now += time,
                Step::Reap => {
                    prop_assert!(!set.reap(now, 10_000));
                    model.expire(now);
                }
                Step::Stranger(port) => {
                    let ends = client(9, 53, 9).reversed();
                    let ends = Ends { dst: Ipv4Addr::new(1, 0, 0, 1), dst_port: port, ..ends };
                    // There is no such input, so no mapping can be made.
                    prop_assert_eq!(send(&mut set, ends, now, 1), Err(Unmapped::Drop));
                }
                Step::Reply(which) => {
                    let count = model.last.len();
                    let Some((flow, _)) = model.last.get(which % count.max(1)).copied() else { continue };
                    let (to, ..) = model.map[&key(flow)];
                    let answer = send(&mut set, to.reversed(), now, 1);
                    if model.has_ended(flow, now) {
                        prop_assert_eq!(answer, Err(Unmapped::Drop));
                        model.remove(flow);
                        continue;
                    }
                    prop_assert_eq!(answer, Ok((flow.reversed(), 1)));
                    model.touch(flow, now);
                }
                Step::Forward(host, port, server) => {
                    let flow = client(host, port, server);
                    let answer = send(&mut set, flow, now, 0);
                    if model.has_ended(flow, now) {
                        model.remove(flow);
                    }
                    if let Some((to, output, _)) = model.map.get(&key(flow)) {
                        prop_assert_eq!(answer, Ok((*to, *output)));
                        model.touch(flow, now);
                        continue;
                    }
                    let is_taken = |model: &Model, port: u16| {
                        let to = Ends { src: Ipv4Addr::new(1, 0, 0, 1), src_port: port, ..flow };
                        model.map.contains_key(&key(to.reversed()))
                    };
                    let range = 1000..1000 + ports;
                    if range.clone().all(|port| is_taken(&model, port)) {
                        // Those that have ended go, so that their ports are free.
                        model.expire(now);
                    }
                    let taken = |port: u16| is_taken(&model, port);
                    let free = range.clone().filter(|port| !taken(*port)).count();
                    let oldest = model.last.first().copied();
                    let full = model.last.len() == capacity;
                    let guaranteed = oldest.is_some_and(|(_, last)| last + GUARANTEE > now);
                    match answer {
                        Ok((to, 0)) => {
                            prop_assert!(free > 0 && !taken(to.src_port) && range.contains(&to.src_port));
                            if mode.is_empty() && range.contains(&port) && !taken(port) {
                                prop_assert_eq!(to.src_port, port);
                            }
                            if full {
                                prop_assert!(!guaranteed);
                                let gone = |(flow, _): &&(Ends, u64)| set.find(0, UDP, *flow).is_none();
                                let (gone, last) = *model.last.iter().find(gone).expect("one");
                                // The one that would end next.
                                prop_assert!(last + GUARANTEE <= now);
                                prop_assert_eq!(last, oldest.expect("full").1);
                                model.remove(gone);
                            }
                            model.add(flow, to, now);
                        }
                        other => {
                            prop_assert_eq!(other, Err(Unmapped::Failed));
                            prop_assert!(free == 0 || full && guaranteed);
                            failures += 1;
                        }
                    }
                }
            }
            prop_assert_eq!(set.len(), model.last.len());
            prop_assert_eq!(set.table.len(), model.map.len());
            prop_assert_eq!(set.rewriters[0].specs[0].count as usize, model.last.len());
            prop_assert_eq!(set.rewriters[0].specs[0].failures, failures);
            for (flow, last) in &model.last {
                let entry = set.find(0, UDP, *flow).expect("in both");
                prop_assert_eq!(set.end(entry), last + IDLE);
            }
        }
    }
}

/// All of a long range is given out, and returned ports are found again.
#[test]
fn a_long_range_is_used_up_to_the_last_port() {
    for mode in ["", "#", "?"] {
        let mut set = set(20_000, mode, 1 << 20);
        let flow = |number: u32| {
            let ends = client(1, number as u16, 1);
            Ends { src: (0x0b00_0000 + (number >> 8)).into(), ..ends }
        };
        let mut ports: Vec<u16> = (0..20_000)
            .map(|number| send(&mut set, flow(number), 5, 0).expect("a port is free").0.src_port)
            .collect();
        let given = ports.clone();
        ports.sort_unstable();
        assert!(ports.into_iter().eq(1000..21_000));
        assert_eq!(send(&mut set, flow(50_000), 5, 0), Err(Unmapped::Failed));
        for gone in [7, 12_345, 19_999] {
            let entry = set.find(0, UDP, flow(gone)).expect("there");
            set.remove(entry);
            let (to, _) = send(&mut set, flow(60_000 + gone), 5, 0).expect("one is free");
            assert_eq!(to.src_port, given[gone as usize]);
        }
        // To another server all are free.
        assert!(send(&mut set, client(1, 1, 2), 5, 0).is_ok());
        set.clear();
        assert_eq!((set.len(), set.table.len()), (0, 0));
        assert!(send(&mut set, client(1, 1, 1), 5, 0).is_ok());
    }
}

/// Times that have become shorter hold for flows there are, which are then removed in time.
#[test]
fn flows_end_by_the_times_of_a_new_configuration() {
    // When it takes over, and when the flows end then: of the first, none has come to where its
    // guarantee is over; of the second, all have.
    for (at, idle) in [(1010, 20), (1000 + GUARANTEE + 20, 100)] {
        let [mut set, mut shorter] = [0, 1].map(|_| set(10, "", 100));
        let times = Times::plain(idle, 0);
        shorter.rewriters[0].times = AllTimes { tcp: times, other: times };
        for port in 0..4 {
            send(&mut set, client(1, 1000 + port, 1), 1000, 0).expect("a port is free");
        }
        set.reap(at, 100);
        assert!(shorter.take(&mut set, 0, 0));
        shorter.reap(1000 + idle - 1, 100);
        assert_eq!(shorter.len(), 4, "{at}");
        shorter.reap(1000 + idle, 100);
        assert_eq!(shorter.len(), 0, "{at}");
    }
}
