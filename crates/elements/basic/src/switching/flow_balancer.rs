//! `FlowBalancer`: spreads flows over outputs and keeps each on its own.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    parse_integer,
};
use linerate_memory::Frame;
use linerate_packet::{
    affinity::{Affinity, HashFields},
    flow::VlanRule,
};
use linerate_tables::indirection::{BUCKETS_LIMIT, Indirection};

use super::{FAMILY, split};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no output in use
    NoOutput,
}

pub(super) const CLASS: Class = Class {
    name: "FlowBalancer",
    family: FAMILY,
    summary: "spreads flows over its outputs and keeps the packets of each together",
    description: "Takes Ethernet frames. The flow of an IP packet is its addresses, protocol, \
        ports and VLAN; fragments have no ports, so that all pieces of a datagram stay together. \
        Other frames go by their Ethernet addresses and type. With `SYMMETRIC true` both \
        directions of a flow leave by the same output.\n\n\
        A hash of the flow chooses one of `BUCKETS` buckets, and a table says which output each \
        bucket belongs to, as in receive side scaling. Outputs have buckets in proportion to \
        `WEIGHTS`. When weights or active outputs are changed, only as many buckets change \
        hands as must: taking one of four equal outputs away moves a quarter of the flows. \
        Packets of a flow that moves may overtake those that left before by the old output.\n\n\
        Who can choose addresses and does not know `SEED` cannot choose outputs.",
    ports: "1/1-",
    processing: "h/h",
    args: &[
        Arg::keyword("SYMMETRIC", "bool", "false", "whether both directions are one flow"),
        Arg::keyword("WEIGHTS", "weights", "1 each", "a weight per output, separated by spaces"),
        Arg::keyword("ACTIVE", "outputs", "all", "outputs in use, separated by spaces"),
        Arg::keyword("BUCKETS", "buckets", "256", "size of the table, at most 65536"),
        Arg::keyword("VLAN", "bool", "true", "whether the VLAN is part of the flow"),
        Arg::keyword("SEED", "number", "0", "of the hash"),
    ],
    handlers: &[
        Handler::value("active", "outputs in use"),
        Handler::value("weights", "the weight of each output"),
        Handler::read("table", "the output of each bucket"),
        Handler::read("moved", "buckets that changed hands when something was last changed"),
        Handler::count("counts", "packets sent by each output, a line per output"),
        Handler::count("other_count", "packets that were not IP, or not well-formed"),
        Handler::button("reset_counts", "sets the counts to zero"),
    ],
    drops: Reason::REASONS,
    cost: "Reads the headers of each packet and hashes its flow: two multiplications for IPv4, \
        four for IPv6, and a table lookup.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> b :: FlowBalancer(SYMMETRIC true) -> Discard; \
        b [1] -> Discard;",
    make: |make| Box::new(FlowBalancer::new(make)),
    ..Class::here()
};

struct FlowBalancer {
    affinity: Affinity,
    weights: Vec<u32>,
    active: Vec<bool>,
    table: Indirection,
    moved: usize,
    counts: Vec<u64>,
    others: u64,
}

impl FlowBalancer {
    fn new(make: &mut ElementBuilder<'_>) -> FlowBalancer {
        let outputs = make.outputs();
        let weights = make.get::<String>("WEIGHTS").map(|text| weights_of(&text, outputs));
        let active = make.get::<String>("ACTIVE").map(|text| active_of(&text, outputs));
        let mut told = |name: &str, error: String| make.error(format!("{name}: {error}"));
        let weights = weights.unwrap_or_else(|| Ok(vec![1; outputs])).unwrap_or_else(|error| {
            told("WEIGHTS", error);
            vec![1; outputs]
        });
        let active = active.unwrap_or_else(|| Ok(vec![true; outputs])).unwrap_or_else(|error| {
            told("ACTIVE", error);
            vec![true; outputs]
        });
        let buckets = make.or("BUCKETS", 256);
        if !(1..=BUCKETS_LIMIT).contains(&buckets) {
            make.error(format!("BUCKETS: must be between 1 and {BUCKETS_LIMIT}"));
        }
        let vlan = if make.or("VLAN", true) { VlanRule::Outer } else { VlanRule::Ignore };
        let symmetric = make.or("SYMMETRIC", false);
        let mut balancer = FlowBalancer {
            affinity: Affinity {
                parts: HashFields::Flow,
                inner: false,
                symmetric,
                vlan,
                seed: make.or("SEED", 0),
            },
            weights,
            active,
            table: Indirection::new(buckets),
            moved: 0,
            counts: vec![0; outputs],
            others: 0,
        };
        balancer.share_out();
        balancer
    }

    fn share_out(&mut self) {
        let weight = |(weight, active): (&u32, &bool)| if *active { *weight } else { 0 };
        let weights: Vec<u32> = self.weights.iter().zip(&self.active).map(weight).collect();
        self.moved = self.table.share_out(&weights);
    }
}

/// A weight for each of `outputs` outputs.
fn weights_of(text: &str, outputs: usize) -> Result<Vec<u32>, String> {
    let number = |word| parse_integer(word).and_then(|number| u32::try_from(number).ok());
    let weights: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
    let weights = weights.ok_or("weights are numbers of at least 0")?;
    if weights.len() == outputs {
        Ok(weights)
    } else {
        Err(format!("{} weights for {outputs} outputs", weights.len()))
    }
}

/// Parses the names of outputs; returns a flag for each of `outputs`, true if it is named.
fn active_of(text: &str, outputs: usize) -> Result<Vec<bool>, String> {
    let mut active = vec![false; outputs];
    for word in text.split_whitespace() {
        let output = parse_integer(word).and_then(|number| usize::try_from(number).ok());
        match output.and_then(|output| active.get_mut(output)) {
            Some(active) => *active = true,
            None => return Err(format!("there is no output {word}")),
        }
    }
    Ok(active)
}

impl Element for FlowBalancer {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let FlowBalancer { affinity, table, counts, others, .. } = self;
        if table.output(0).is_none() {
            return cx.drop_frame(frame, Reason::NoOutput);
        }
        split(cx, frame, |arena, slot| {
            let (hash, is_ip) = affinity.hash(arena.packet(slot));
            *others += u64::from(!is_ip);
            let output = table.output(hash).unwrap_or(0);
            counts[output] += 1;
            output
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<FlowBalancer>() else { return };
        if old.table.len() == self.table.len() {
            self.table = old.table.clone();
            self.share_out();
        }
        for (count, old) in self.counts.iter_mut().zip(&old.counts) {
            *count += *old;
        }
        self.others += old.others;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        fn words(items: impl Iterator<Item = impl ToString>) -> String {
            items.map(|item| item.to_string()).collect::<Vec<_>>().join(" ")
        }
        match handler {
            "active" => {
                let outputs = self.active.iter().enumerate();
                Ok(words(outputs.filter(|(_, active)| **active).map(|(output, _)| output)))
            }
            "weights" => Ok(words(self.weights.iter())),
            "table" => Ok(self.table.text()),
            "moved" => Ok(self.moved.to_string()),
            "counts" => Ok(self.counts.iter().map(|count| format!("{count}\n")).collect()),
            "other_count" => Ok(self.others.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let outputs = self.counts.len();
        match handler {
            "active" => self.active = active_of(value, outputs).map_err(HandlerError::Refused)?,
            "weights" => {
                self.weights = weights_of(value, outputs).map_err(HandlerError::Refused)?;
            }
            "reset_counts" => {
                self.counts.fill(0);
                self.others = 0;
                return Ok(String::new());
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        self.share_out();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Run;

    /// UDP from 10.0.0.`host` port `port` to 10.0.1.1 port 53, or back.
    fn udp(host: u8, port: u16, back: bool) -> Vec<u8> {
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        let (near, far) = ([10, 0, 0, host], [10, 0, 1, 1]);
        let (near_port, far_port) = (port.to_be_bytes(), 53u16.to_be_bytes());
        let ends = if back { (far, near) } else { (near, far) };
        packet.extend(ends.0.into_iter().chain(ends.1));
        let ports = if back { (far_port, near_port) } else { (near_port, far_port) };
        packet.extend(ports.0.into_iter().chain(ports.1));
        packet.extend([0, 8, 0, 0]);
        packet
    }

    const ANY: Affinity = Affinity {
        parts: HashFields::Flow,
        inner: false,
        symmetric: false,
        vlan: VlanRule::Outer,
        seed: 0,
    };

    /// 4000 flows over 4 outputs, 1000 each with a standard deviation of 27,
    /// and those of the table's 256 buckets on top.
    #[test]
    fn flows_spread_evenly() {
        let mut table = Indirection::new(256);
        table.share_out(&[1; 4]);
        let mut counts = [0; 4];
        for host in 0..40 {
            for port in 1000..1100 {
                let hash = ANY.hash(&udp(host, port, false)).0;
                counts[table.output(hash).unwrap()] += 1;
            }
        }
        assert!(counts.iter().all(|count| (870..1130).contains(count)), "{counts:?}");
    }

    /// A source of each of 32 flows, all into a balancer.
    fn config(arguments: &str) -> String {
        let mut text = format!(
            "b :: FlowBalancer({arguments}); b [0] -> a :: Collect; b [1] -> Discard;
             b [2] -> Discard; t :: Counter -> b;"
        );
        for host in 0..32 {
            let hex: String =
                udp(host, 7, false).iter().map(|byte| format!("{byte:02x}")).collect();
            let stop = if host == 31 { ", STOP true" } else { "" };
            text += &format!("InfiniteSource(DATA \\<{hex}>, LIMIT 8{stop}) -> t;");
        }
        text
    }

    fn counts(run: &mut Run) -> Vec<u64> {
        run.read("b.counts").lines().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn a_flow_stays_together_whatever_the_frames() {
        let mut packets = Vec::new();
        for frame_limit in [1, 256] {
            let mut run = Run::new(&config("")).frame_limit(frame_limit);
            run.run();
            let counts = counts(&mut run);
            assert_eq!(counts.iter().sum::<u64>(), 256);
            assert!(counts.iter().all(|count| count % 8 == 0 && *count > 0), "{counts:?}");
            let mut lines: Vec<String> = run.read("a.packets").lines().map(str::to_owned).collect();
            assert_eq!(lines.len() as u64, counts[0]);
            lines.sort();
            packets.push(lines);
        }
        assert_eq!(packets[0], packets[1]);
    }

    #[test]
    fn outputs_can_be_taken_away_and_weighted() {
        let mut run = Run::new(&config("ACTIVE \"0 2\", BUCKETS 90"));
        run.run();
        assert_eq!(counts(&mut run)[1], 0);
        assert_eq!(run.read("b.active"), "0 2");
        let before = run.read("b.table");
        run.write("b.active", "0 1 2").unwrap();
        assert_eq!(run.read("b.moved"), "30");
        let after = run.read("b.table");
        let stayed = before.split(' ').zip(after.split(' ')).filter(|(a, b)| a == b).count();
        assert_eq!(stayed, 60);
        run.write("b.weights", "4 1 1").unwrap();
        assert_eq!((run.read("b.moved"), run.read("b.weights")), ("30".into(), "4 1 1".into()));
        for (handler, value, refusal) in [
            ("b.active", "0 3", "there is no output 3"),
            ("b.weights", "1 2", "2 weights for 3 outputs"),
            ("b.weights", "1 -2 1", "weights are numbers of at least 0"),
        ] {
            assert_eq!(run.write(handler, value).unwrap_err().to_string(), refusal);
        }
        run.write("b.reset_counts", "").unwrap();
        assert_eq!(run.read("b.counts"), "0\n0\n0\n");
    }

    #[test]
    fn without_an_output_in_use_packets_are_dropped() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 9, STOP true) -> b :: FlowBalancer(WEIGHTS 0) -> Discard",
        );
        run.run();
        assert_eq!(run.read("b.drops"), "9\tno output in use\n");
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (config, error) in [
            ("WEIGHTS \"1 2\"", "WEIGHTS: 2 weights for 1 outputs"),
            ("ACTIVE 1", "ACTIVE: there is no output 1"),
            ("BUCKETS 0", "BUCKETS: must be between 1 and 65536"),
        ] {
            let errors = Run::errors(&format!("Idle -> FlowBalancer({config}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}
