//! `EtherSwitch` and `ListenEtherSwitch`: learning switches without VLANs.

use linerate_graph::{
    Arg, Class, Context, Copies, DropReason, Element, ElementBuilder, Handler, HandlerError,
    HandlerResult, Inert, Merge, NoBuffer, Seconds,
};
use linerate_memory::{Frame, Slot};

use super::{
    FAMILY,
    mac_table::{FLOOD, MacTable, NO_HOST, NOWHERE, keys_of},
};
use linerate_element_support::{ether::mac_text, handler_values::value_of};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// destination is where it came from
    SamePort,
    /// no Ethernet header
    Short,
    #[from(NoBuffer)]
    NoBuffer,
}

pub(super) const TIMEOUT: Arg = Arg::keyword(
    "TIMEOUT",
    "seconds",
    "300",
    "how long a silent host is remembered; 0: not at all",
);
pub(super) const CAPACITY: Arg =
    Arg::keyword("CAPACITY", "hosts", "65536", "most hosts remembered; at most 4194304");
pub(super) const PORT_CAPACITY: Arg =
    Arg::keyword("PORT_CAPACITY", "hosts", "0: no limit", "most hosts remembered at one port");
pub(super) const NAMES: Arg = Arg::keyword(
    "NAMES",
    "names",
    "none: numbers",
    "what the ports are called, in their order; by these they are known again",
);
pub(super) const OWNED: Arg = Arg::keyword(
    "OWNED",
    "port address pairs",
    "none",
    "hosts that are learnt at the port of this number only",
);

/// Handlers of all switches.
pub(super) const HANDLERS: [Handler; 6] = [
    Handler::read("table", "the hosts: address and port, a line each"),
    Handler::value("timeout", "how many seconds a silent host is remembered"),
    Handler::read("count", "hosts known").merged(Merge::Max),
    Handler::count("moves", "how often a host has come up at another port"),
    Handler::count("refused", "how often there was no room for a host"),
    Handler::button("clear", "forgets all hosts"),
];

pub(super) const CLASS: Class = Class {
    name: "EtherSwitch",
    family: FAMILY,
    summary: "a learning Ethernet switch",
    description: "Input and output of the same number are one port. From a packet that arrives, \
        the switch learns at which port its source is; a packet goes by the port its destination \
        is at, and by all but its own when that is not known, or is a group. What would go back \
        where it came from is dropped. A host that is silent for `TIMEOUT` is forgotten; with 0 \
        nothing is learnt, and every packet goes everywhere. A `timeout` that is written holds for \
        hosts already known, too.\n\n\
        A flood of invented addresses fills the table up to its limits and no further: packets to \
        hosts there was no room for go everywhere, others are not affected. Addresses of groups are \
        never learnt. With several workers each has a table, and hears from the others what they \
        learn.\n\n\
        When the configuration is replaced, hosts are remembered at the port of the same number, or \
        of the same name where ports have `NAMES` before and after: then ports can be put in and \
        taken out, and hosts of those that are gone are forgotten. \
        So are those that another port has come to own: with `OWNED 1 2:0:0:0:0:7`, that host is learnt \
        at port 1 only.\n\n\
        When the link of a port goes down, the hosts there are forgotten at once. Its link is that of \
        the `FromPort`, `FromDevice`, `ToPort` or `ToDevice` that is alone at the other end of the way \
        to its input or from its output.",
    ports: "2-/=",
    processing: "h/h",
    flow: "#/[^#]",
    args: &[TIMEOUT, CAPACITY, PORT_CAPACITY, NAMES, OWNED],
    handlers: &HANDLERS,
    drops: Reason::REASONS,
    cost: "Source and destination of \
        all packets of a frame are looked up together, and each packet is moved to its output. 28 \
        bytes of memory per host, and 8 to 16 for the index.",
    example: "s :: EtherSwitch; Idle -> s -> Discard; Idle -> [1] s [1] -> Discard;",
    copies: Copies::Shared,
    make: |make| match EtherSwitch::new(make) {
        Some(switch) => Box::new(switch),
        None => Box::new(Inert),
    },
    ..Class::here()
};

pub(super) const LISTEN: Class = Class {
    name: "ListenEtherSwitch",
    summary: "a learning Ethernet switch with a port that hears everything",
    description: "As EtherSwitch, with an output more than inputs: it gets a copy of every packet, \
        also of those that go back where they came from and so nowhere else.",
    ports: "-/=+",
    cost: "As EtherSwitch, and each packet is shared with the output that listens.",
    example: "s :: ListenEtherSwitch; Idle -> s -> Discard; Idle -> [1] s [1] -> Discard; \
        s [2] -> Discard;",
    ..CLASS
};

pub(super) struct EtherSwitch {
    hosts: MacTable,
    ports: u32,
    /// Whether there is an output more than ports, which gets everything.
    listens: bool,
}

impl EtherSwitch {
    fn new(make: &mut ElementBuilder<'_>) -> Option<EtherSwitch> {
        let ports = make.inputs();
        let listens = make.outputs() > ports;
        Some(EtherSwitch { hosts: MacTable::from_args(make, ports)?, ports: ports as u32, listens })
    }

    fn outputs(&self) -> usize {
        self.ports as usize + usize::from(self.listens)
    }

    /// Some packets do not go by one output.
    fn send_each(&mut self, cx: &mut Context, port: usize, frame: &mut Frame, outputs: &[u32]) {
        let mut outputs = outputs.iter();
        frame.drain_front(frame.len(), |slot| match outputs.next() {
            Some(&FLOOD) | None => flood(cx, slot, port, self.outputs()),
            Some(&NOWHERE) => cx.drop_packet(slot, Reason::Short),
            Some(&output) => self.send(cx, slot, port, output as usize),
        });
    }

    /// Sends a packet with a destination at a port.
    fn send(&self, cx: &mut Context, mut slot: Slot, port: usize, output: usize) {
        let listener = self.ports as usize;
        match (output == port, self.listens) {
            (true, true) => cx.out.emit(listener, slot),
            (true, false) => cx.drop_packet(slot, Reason::SamePort),
            (false, true) => {
                share(cx, &mut slot, listener);
                cx.out.emit(output, slot);
            }
            (false, false) => cx.out.emit(output, slot),
        }
    }
}

/// A packet by all outputs but one.
fn flood(cx: &mut Context, mut slot: Slot, port: usize, outputs: usize) {
    let last = usize::from(port == 0);
    for output in (last + 1..outputs).rev().filter(|output| *output != port) {
        share(cx, &mut slot, output);
    }
    cx.out.emit(last, slot);
}

/// A copy of a packet by an output.
fn share(cx: &mut Context, slot: &mut Slot, output: usize) {
    match cx.pool.share(slot) {
        Some(copy) => cx.out.emit(output, copy),
        None => cx.count_drops(Reason::NoBuffer, 1),
    }
}

impl Element for EtherSwitch {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let count = frame.len();
        if !self.hosts.learns() {
            let outputs = self.outputs();
            return frame.drain_front(count, |slot| flood(cx, slot, port, outputs));
        }
        let (sources, destinations) = self.hosts.begin(cx.steady(), count);
        let mut places = sources.iter_mut().zip(destinations);
        let mut shortest = 0;
        cx.pool.arena().for_each(frame, |bytes| {
            if let Some((source, destination)) = places.next() {
                (*destination, *source) = keys_of(bytes);
                shortest |= *source >> 63;
            }
        });
        let outputs = self.hosts.forward(port as u16);
        let special = outputs.iter().fold(self.listens, |special, output| {
            special | (*output >= self.ports) | (*output == port as u32)
        });
        if !special {
            return cx.out.distribute(frame, outputs);
        }
        let mut outputs = std::mem::take(outputs);
        if shortest != 0 {
            let destinations = self.hosts.destinations().iter();
            let short = outputs.iter_mut().zip(destinations).filter(|(_, key)| **key == NO_HOST);
            short.for_each(|(output, _)| *output = NOWHERE);
        }
        self.send_each(cx, port, frame, &outputs);
        self.hosts.give_back(outputs);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<EtherSwitch>() {
            self.hosts.take_from(&mut old.hosts, |_, _| true);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        if handler == "table" {
            let hosts = self.hosts.hosts(cx.steady());
            let line = |(mac, _, port)| format!("{} {}\n", mac_text(mac), self.hosts.name_of(port));
            return Ok(hosts.into_iter().map(line).collect());
        }
        read(cx, &mut self.hosts, handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        write(cx, &mut self.hosts, handler, value)
    }
}

/// Handlers of all switches but `table`.
pub(super) fn read(cx: &Context, hosts: &mut MacTable, handler: &str) -> HandlerResult {
    match handler {
        "timeout" => Ok(hosts.timeout().to_string()),
        "count" => Ok(hosts.count(cx.steady()).to_string()),
        "moves" => Ok(hosts.moves.to_string()),
        "refused" => Ok(hosts.refused.to_string()),
        _ => Err(HandlerError::missing(handler)),
    }
}

/// Writes a handler that all switches have.
pub(super) fn write(
    cx: &Context,
    hosts: &mut MacTable,
    handler: &str,
    value: &str,
) -> HandlerResult {
    match handler {
        "timeout" => {
            hosts.set_timeout(match value_of(cx, value) {
                Ok(Seconds::<0>(seconds)) => seconds,
                Err(error) if error == "out of range" => u32::MAX,
                Err(_) => return Err(HandlerError::refused("expected timeout (integer)")),
            });
        }
        "clear" => hosts.clear(),
        _ => return Err(HandlerError::missing(handler)),
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Packets as `DESTINATION SOURCE` of one digit each.
    fn packets(pairs: &str) -> String {
        let mac = |digit: char| match digit {
            'f' => "ff".repeat(6),
            digit => format!("02000000000{digit}"),
        };
        let packet = |pair: &str| pair.chars().map(mac).collect::<String>() + "0800";
        pairs.split(' ').map(packet).collect::<Vec<_>>().join(" ")
    }

    fn switch(config: &str, feeds: [&str; 3]) -> Run {
        let mut text = format!("s :: EtherSwitch({config});");
        for (port, feed) in feeds.iter().enumerate() {
            text += &if feed.is_empty() {
                format!("Idle -> [{port}] s;")
            } else {
                format!("Packets({}) -> [{port}] s;", packets(feed))
            };
            text += &format!("s [{port}] -> c{port} :: Collect;");
        }
        Run::new(&text)
    }

    fn counts(run: &mut Run) -> [usize; 3] {
        [0, 1, 2].map(|port| run.read(&format!("c{port}.lengths")).lines().count())
    }

    #[test]
    fn unknown_destinations_and_groups_go_everywhere_else() {
        for frame_limit in [1, 256] {
            let mut run = switch("", ["21 f1 21", "", ""]).frame_limit(frame_limit);
            run.run();
            assert_eq!(counts(&mut run), [0, 3, 3]);
            assert_eq!(run.read("s.table"), "02-00-00-00-00-01 0\n");
        }
    }

    #[test]
    fn known_destinations_alone_get_their_frames() {
        for frame_limit in [1, 256] {
            // Within the frame: 1 speaks, 2 answers no host, 1 to itself.
            let mut run = switch("", ["f1 f2 21 12 11", "", ""]).frame_limit(frame_limit);
            run.run();
            assert_eq!(counts(&mut run), [0, 2, 2]);
            assert!(run.read("s.drops").starts_with("3\tdestination is where it came from\n"));
        }
    }

    /// As in Click: the listening port gets every packet once, and nothing else changes.
    #[test]
    fn the_last_output_hears_everything() {
        for (config, sent) in [("", [0, 2, 2, 5]), ("TIMEOUT 0", [0, 5, 5, 5])] {
            for frame_limit in [1, 7, 256] {
                let mut run = Run::new(&format!(
                    "s :: ListenEtherSwitch({config}); Packets({}) -> s;
                     Idle -> [1] s; Idle -> [2] s; s [0] -> c0 :: Collect; s [1] -> c1 :: Collect;
                     s [2] -> c2 :: Collect; s [3] -> c3 :: Collect;",
                    packets("f1 f2 21 12 11"),
                ))
                .frame_limit(frame_limit);
                run.run();
                let ports = ["c0", "c1", "c2", "c3"];
                let counts = ports.map(|port| run.read(&format!("{port}.lengths")).lines().count());
                assert_eq!(counts, sent);
                let all = packets("f1 f2 21 12 11").replace(' ', "\n");
                assert_eq!(run.read("c3.packets"), all);
            }
        }
    }

    #[test]
    fn a_host_that_moves_is_found_again() {
        let text = format!(
            "s :: EtherSwitch; i :: InfiniteSource(DATA \\<{a}>, LIMIT 1) -> [0] s;
             j :: InfiniteSource(DATA \\<{a}>, LIMIT 1, ACTIVE false) -> [1] s;
             k :: InfiniteSource(DATA \\<{b}>, LIMIT 1, ACTIVE false) -> [2] s;
             s [0] -> c0 :: Collect; s [1] -> c1 :: Collect; s [2] -> c2 :: Collect;
             Script(wait 0.1s, write j.active true, wait 0.1s, write k.active true, wait 0.1s, stop);",
            a = packets("f1"),
            b = packets("12"),
        );
        let mut run = Run::new(&text);
        run.run();
        assert_eq!(counts(&mut run), [1, 2, 2]);
        assert_eq!(run.read("s.table"), "02-00-00-00-00-01 1\n02-00-00-00-00-02 2\n");
        assert_eq!(run.read("s.moves"), "1");
    }

    #[test]
    fn hosts_are_forgotten() {
        for (timeout, known) in [("1", 1), ("0.6", 1), ("4", 2), ("0", 0)] {
            let text = format!(
                "s :: EtherSwitch(TIMEOUT {timeout}); Idle -> [2] s;
                 InfiniteSource(DATA \\<{a}>, LIMIT 1) -> [0] s;
                 TimedSource(0.4, \\<{b}>) -> [1] s;
                 s [0] -> c0 :: Collect; s [1] -> c1 :: Collect; s [2] -> c2 :: Collect;
                 DriverManager(wait 3.1s, stop);",
                a = packets("f1"),
                b = packets("12"),
            );
            let mut run = Run::new(&text);
            run.run();
            assert_eq!(run.read("s.table").lines().count(), known, "{timeout}");
        }
    }

    /// A shorter one holds for hosts known before, whose places others get then.
    #[test]
    fn a_timeout_that_is_written_holds_at_once() {
        let text = format!(
            "s :: EtherSwitch(PORT_CAPACITY 1); Idle -> [2] s;
             InfiniteSource(DATA \\<{a}>, LIMIT 1) -> [0] s;
             b :: InfiniteSource(DATA \\<{b}>, LIMIT 1, ACTIVE false) -> [0] s;
             TimedSource(0.4, \\<{c}>) -> [1] s;
             s [0] -> c0 :: Collect; s [1] -> c1 :: Collect; s [2] -> c2 :: Collect;
             Script(wait 3s, print s.count, write s.timeout 4, print s.count,
                    write s.timeout 2, print s.count, print s.table, write s.timeout 100,
                    write b.active true, wait 5s, print s.table, print s.refused, stop);",
            a = packets("f1"),
            b = packets("f2"),
            c = packets("f3"),
        );
        let mut run = Run::new(&text);
        run.run();
        let output = run.output();
        let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
        let (second, third) = ("02-00-00-00-00-02 0", "02-00-00-00-00-03 1");
        assert_eq!(lines, ["2", "2", "1", third, second, third, "0"]);
    }

    #[test]
    fn limits_hold_and_learnt_hosts_stay() {
        for (config, known) in [("CAPACITY 2", 2), ("PORT_CAPACITY 1", 1), ("CAPACITY 0", 0)] {
            for frame_limit in [1, 256] {
                let mut run =
                    switch(config, ["f1 f2 f3 f4 f5 f1", "", ""]).frame_limit(frame_limit);
                run.run();
                let first = "02-00-00-00-00-01 0\n02-00-00-00-00-02 0\n";
                assert_eq!(run.read("s.table"), first[..20 * known], "{config}");
                let refused = run.read("s.refused").parse::<usize>().unwrap();
                assert_eq!(refused, if known == 0 { 6 } else { 5 - known }, "{config}");
            }
        }
    }

    /// Each port is another worker's, and each worker has a table.
    #[test]
    fn workers_share_learnt_hosts() {
        let mut run = Run::new(&format!(
            "s :: EtherSwitch; StaticThreadSched(a 0, b 1);
             a :: TimedSource(0.005, \\<{}>) -> [0] s; b :: TimedSource(0.005, \\<{}>) -> [1] s;
             Idle -> [2] s; s [0] -> c0 :: Counter -> Discard; s [1] -> c1 :: Counter -> Discard;
             s [2] -> c2 :: Counter -> Discard; DriverManager(wait 1s, stop);",
            packets("21"),
            packets("12"),
        ))
        .workers(2);
        run.run();
        assert_eq!(run.read("s.table"), "02-00-00-00-00-01 0\n02-00-00-00-00-02 1\n");
        let [a, b, other] = ["c0", "c1", "c2"]
            .map(|name| run.read(&format!("{name}.count")).parse::<f64>().unwrap());
        // Both only go everywhere until the other is known.
        assert!(a > 1.0 && b > 1.0 && other < (a + b) / 2.0, "{a} {b} {other}");
    }

    #[test]
    fn hosts_that_a_port_owns_are_learnt_there_only() {
        let owned = "OWNED 0 2:0:0:0:0:1 1 2:0:0:0:0:2";
        let mut run = switch(owned, ["f1 f2 f3", "", ""]);
        run.run();
        assert_eq!(run.read("s.table"), "02-00-00-00-00-01 0\n02-00-00-00-00-03 0\n");
        let text = "Idle -> s -> Discard; Idle -> [1] s [1] -> Discard";
        let errors = Run::errors(&format!("s :: EtherSwitch(OWNED 2 2:0:0:0:0:1); {text}"));
        let expected = "OWNED: need pairs of a port's number and an Ethernet address";
        assert!(errors.contains(expected), "{errors}");
    }

    #[test]
    fn names_are_one_for_each_port() {
        for names in ["a", "a b c", "a a"] {
            let text = "Idle -> s -> Discard; Idle -> [1] s [1] -> Discard";
            let errors = Run::errors(&format!("s :: EtherSwitch(NAMES {names}); {text}"));
            assert!(errors.contains("need 2 different names, one per port"), "{errors}");
        }
    }

    #[test]
    fn short_packets_and_sources_that_are_groups_teach_nothing() {
        let mut run = Run::new(
            "s :: EtherSwitch; Packets(- 0200 02000000000102000000000208
                    ffffffffffff0300000000010800) -> [0] s; Idle -> [1] s;
             s [0] -> c0 :: Collect; s [1] -> c1 :: Collect;",
        );
        run.run();
        assert_eq!(run.read("s.table"), "");
        assert_eq!(run.read("c1.lengths"), "14");
        assert!(run.read("s.drops").contains("3\tno Ethernet header\n"));
    }
}
