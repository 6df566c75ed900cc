//! The configuration of a switch with these ports.
//!
//! Each port's packets wait apart in front of each other port, in as many queues as there are
//! groups of ports, and take turns. So a port that floods another, or all, has its share of them
//! and no more; with more ports than groups, of its group. Nothing waits for a port that does not
//! take packets: its queues are full, which is why sources have a number of packets in a turn
//! instead of asking for room.

use std::{fmt::Write as _, iter};

use linerate_graph::lang::config::quote;
use linerate_packet::MacAddr;
use linerate_port::packets_kept;

use super::open_flow::OpenFlow;
use super::port::Port;
use crate::{
    options::Memory,
    port_spec::{PortSpec, PortTarget},
    resources::{bytes_for, precompute},
};

/// Packet memory unless told otherwise: for queues of as many ports as may come.
pub(super) const ARENA: usize = 96 << 20;

/// Packets that come by a port in a turn, and that go by one for each port that may have some. Fewer
/// cost more each; twice as many no less.
pub(super) const BURST: usize = 256;
/// Most packets of one turn.
const BURST_LIMIT: usize = 1024;
/// Packets in a queue: at least, at least where a group of ports is added, and at most.
const QUEUE: (usize, usize, usize) = (32, 256, 2 * BURST);
/// Groups of ports at most.
const GROUPS: usize = 16;
/// Ports that there is room for in that memory, however they come, unless told otherwise.
pub(super) const ROOM: usize = 80;
/// Ports that the table has room for from the start.
const TABLE_PORTS: usize = 64;
/// Packets that a program of a cluster has at a time.
const CELLS: usize = 1024;

/// Settings of a switch, with any ports.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) vlans: bool,
    /// Seconds.
    pub(super) ageing: u64,
    /// At a port.
    pub(super) hosts: u32,
    pub(super) direct: bool,
    pub(super) workers: usize,
    /// Packets that all queues may hold.
    pub(super) waiting: usize,
    /// Ports that there is to be room for, however they come.
    pub(super) room: usize,
    /// Set if programs can attach.
    pub(super) has_socket: bool,
    /// The configuration under controllers, where it does not learn.
    pub(super) open_flow: Option<OpenFlow>,
}

/// Packets that all queues may hold in that memory. The other buffers are for ports, workers and
/// packets on their way.
pub(super) fn waiting(memory: &Memory) -> usize {
    let arena = Some(memory.arena.unwrap_or(ARENA));
    precompute(&Memory { arena, ..memory.clone() }, 0).buffers as usize / 2
}

/// The packet memory of a switch: the size asked for, or that for queues, and for the packets that
/// its first ports keep.
pub(super) fn arena(memory: &Memory, ports: &[PortSpec]) -> usize {
    let kept = ports.iter().map(|port| match &port.target {
        PortTarget::Uri(uri) => packets_kept(uri),
        PortTarget::Consumer => 0,
    });
    memory.arena.unwrap_or_else(|| ARENA + bytes_for(memory, kept.sum()))
}

/// Queues with these ports.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    queue: usize,
    /// Packets that come by a port in a turn: two turns have room in a queue.
    burst: usize,
}

impl Waiting {
    fn new(settings: &Settings, ports: usize, groups: usize) -> Waiting {
        let queue = (settings.waiting / (ports.max(1) * groups)).clamp(QUEUE.0, QUEUE.2);
        let burst = if settings.direct { BURST } else { (queue / 2).min(BURST) };
        Waiting { queue, burst }
    }
}

/// Has each port on a worker of its own, as far as there are some.
pub(super) fn places(settings: &Settings, ports: &[Port]) -> String {
    if settings.workers < 2 || ports.is_empty() {
        return String::new();
    }
    let places = ports.iter().map(|port| {
        let (name, worker) = (&port.name, port.number % settings.workers);
        format!("{name}_in {worker}, {name}_out {worker}")
    });
    format!("StaticThreadSched({});\n", places.collect::<Vec<_>>().join(", "))
}

/// Number of groups of ports, of which there were `before`. Numbers have gaps where ports have
/// gone, so the highest counts. None goes while the switch runs: packets wait in its queues, and
/// losses are counted there.
pub(super) fn groups(settings: &Settings, ports: &[Port], before: usize) -> usize {
    let numbers = ports.iter().map(|port| port.number + 1).max().unwrap_or(1);
    let now = settings.waiting / (ports.len().max(1) * QUEUE.1);
    // Groups do not go when others come: there are no more than all of those will have room for.
    let later = settings.waiting / (settings.room.max(1) * QUEUE.0);
    now.min(later).clamp(1, numbers.min(GROUPS)).max(before)
}

/// Returns true if the queues of so many ports have room in the memory for packets.
pub(super) fn has_room(settings: &Settings, ports: usize, groups: usize) -> bool {
    settings.direct || ports * groups * QUEUE.0 <= settings.waiting
}

/// The configuration's text. The element `learning` knows the hosts, `switch` takes requests for
/// other ports; those of port `a` are `a_in` and `a_out` and, with addresses of its own somewhere,
/// `a_forged`.
pub(super) fn text(settings: &Settings, ports: &[Port], groups: usize) -> String {
    if let Some(open_flow) = &settings.open_flow {
        return open_flow.text(settings, ports);
    }
    let mut text = "switch :: SwitchPorts;\n".to_owned();
    // A switch has two ports or more.
    let blanks = 2_usize.saturating_sub(ports.len());
    let names = ports.iter().map(|port| port.name.clone());
    let names = names.chain((0..blanks).map(|at| format!("-{at}")));
    let names = names.collect::<Vec<_>>().join(" ");
    let table = settings.hosts as usize * ports.len().next_power_of_two().max(TABLE_PORTS);
    let mut limits = format!(
        "TIMEOUT {}, CAPACITY {}, PORT_CAPACITY {}, NAMES {names}",
        settings.ageing,
        table.min(1 << 22),
        settings.hosts,
    );
    let pairs = ports
        .iter()
        .zip(0..)
        .flat_map(|(port, at)| port.macs.iter().map(move |mac| format!(" {at} {mac}")));
    let pairs = pairs.collect::<String>();
    if !pairs.is_empty() {
        // Others may have learnt one of them elsewhere before it was owned.
        limits += &format!(", OWNED{pairs}");
    }
    let _ = if settings.vlans {
        let vlans = ports.iter().map(|port| port.vlan.as_deref().unwrap_or("ACCESS 1"));
        let vlans = vlans.chain(iter::repeat_n("ACCESS 1", blanks));
        let vlans = vlans.collect::<Vec<_>>().join(", ");
        writeln!(text, "learning :: VLANSwitch({vlans}, {limits});")
    } else {
        writeln!(text, "learning :: EtherSwitch({limits});")
    };
    let waiting = Waiting::new(settings, ports.len(), groups);
    let owned: Vec<(&str, MacAddr)> = ports
        .iter()
        .flat_map(|port| port.macs.iter().map(|mac| (port.name.as_str(), *mac)))
        .collect();
    for (at, port) in ports.iter().enumerate() {
        let name = &port.name;
        let (from, to) = ends(port, ports.len(), waiting.burst);
        let group = port.number % groups;
        let mark = if settings.direct { "Null".to_owned() } else { format!("Paint({group})") };
        let _ = writeln!(text, "{name}_enters :: {mark} -> [{at}] learning;");
        let first = if owned.is_empty() { "enters" } else { "source" };
        text += &admission(port, &owned);
        let _ = writeln!(text, "{name}_in :: {from} -> BPDUGuard -> {name}_{first};");
        let _ = write!(text, "learning [{at}] -> ");
        if settings.direct {
            let _ = writeln!(text, "{name}_out :: {to};");
        } else {
            let _ = writeln!(
                text,
                "{name}_ways :: PaintSwitch; {name}_turns :: RoundRobinSched -> {name}_out :: {to};"
            );
            for group in 0..groups {
                let queue = waiting.queue;
                let _ = writeln!(
                    text,
                    "{name}_ways [{group}] -> {name}_from{group} :: Queue({queue}) -> [{group}] {name}_turns;"
                );
            }
        }
    }
    for at in ports.len()..ports.len() + blanks {
        let _ = writeln!(text, "Idle -> [{at}] learning; learning [{at}] -> Discard;");
    }
    text + &places(settings, ports)
}

/// The elements that receive from a port and send to it.
pub(super) fn ends(port: &Port, ports: usize, burst: usize) -> (String, String) {
    let least = (burst * ports).clamp(BURST, BURST_LIMIT);
    match &port.target {
        PortTarget::Uri(uri) => {
            let uri = quote(Port::opened(uri).to_string().as_bytes());
            (format!("FromPort({uri}, BURST {burst})"), format!("ToPort({uri}, BURST {least})"))
        }
        PortTarget::Consumer => {
            let name = &port.name;
            (
                format!("FromConsumer({name}, ACCESS isolated, BURST {burst})"),
                format!("ToConsumer({name}, ACCESS isolated, CELLS {CELLS}, BURST {least})"),
            )
        }
    }
}

/// The filter of packets whose source may be at this port: `owned` gives each address with its
/// port. Nothing where no port has any.
fn admission(port: &Port, owned: &[(&str, MacAddr)]) -> String {
    if owned.is_empty() {
        return String::new();
    }
    let name = &port.name;
    let digits = |mac: &MacAddr| mac.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let patterns = |macs: &[&MacAddr]| {
        macs.iter().map(|mac| format!("6/{}, ", digits(mac))).collect::<String>()
    };
    let (own, others): (Vec<_>, Vec<_>) = owned.iter().partition(|(of, _)| of == name);
    let macs: Vec<&MacAddr> = if own.is_empty() {
        others.iter().map(|(_, mac)| mac).collect()
    } else {
        own.iter().map(|(_, mac)| mac).collect()
    };
    // Its own pass and nothing else, or all but those of others.
    let (listed, rest) = if own.is_empty() { ("forged", "enters") } else { ("enters", "forged") };
    let mut text = format!(
        "{name}_forged :: Counter -> Discard;\n{name}_source :: Classifier({}-);\n",
        patterns(&macs)
    );
    for output in 0..macs.len() {
        let _ = writeln!(text, "{name}_source [{output}] -> {name}_{listed};");
    }
    let _ = writeln!(text, "{name}_source [{}] -> {name}_{rest};", macs.len());
    text
}

#[cfg(test)]
mod tests {
    use linerate_graph::lang::Globals;

    use super::*;
    use crate::{commands::switch::ask::CLASS, configuration::Parsed};

    fn settings() -> Settings {
        Settings {
            vlans: false,
            ageing: 300,
            hosts: 1024,
            direct: false,
            workers: 1,
            waiting: 20_000,
            room: 40,
            has_socket: true,
            open_flow: None,
        }
    }

    fn ports(count: usize) -> Vec<Port> {
        (0..count)
            .map(|number| {
                let target = match number % 3 {
                    0 => PortTarget::Consumer,
                    _ => PortTarget::Uri(format!("memif:/run/{number}, \"x").parse().unwrap()),
                };
                Port::new(format!("p{number}"), target, None, Vec::new(), number).unwrap()
            })
            .collect()
    }

    /// Checks the configuration, and returns the packets it may hold.
    fn check(settings: &Settings, ports: &[Port]) -> Result<usize, String> {
        let library = linerate_elements::library().with([&CLASS]).unwrap();
        let text = text(settings, ports, groups(settings, ports, 1));
        let mut parsed = Parsed::new("switch", &text, &Globals::default(), &library, "");
        parsed.add_cluster_socket("@switch");
        let plan = parsed.into_plan(&library).map_err(|error| format!("{error}\n{text}"))?;
        Ok(plan.0.packets_held())
    }

    #[test]
    fn every_number_of_ports_is_a_configuration() {
        for count in [0, 1, 2, 3, 4, 9, 17, 40, 130] {
            for direct in [false, true] {
                for vlans in [false, true] {
                    let settings = Settings { direct, vlans, ..settings() };
                    check(&settings, &ports(count)).unwrap();
                }
            }
            let settings = Settings { workers: 3, ..settings() };
            check(&settings, &ports(count)).unwrap();
        }
    }

    #[test]
    fn addresses_of_one_port_are_no_others() {
        let mut ports = ports(3);
        ports[1].macs =
            vec!["02:00:00:00:00:0a".parse().unwrap(), "02:00:00:00:00:0b".parse().unwrap()];
        check(&settings(), &ports).unwrap();
        let text = text(&settings(), &ports, 3);
        for line in [
            "OWNED 1 02:00:00:00:00:0a 1 02:00:00:00:00:0b);",
            "p1_source :: Classifier(6/02000000000a, 6/02000000000b, -);",
            "p1_source [1] -> p1_enters;",
            "p1_source [2] -> p1_forged;",
            "p2_source [1] -> p2_forged;",
            "p2_source [2] -> p2_enters;",
            "p2_in :: FromPort(\"memif:/run/2, \\\"x?role=server\", BURST 256) -> BPDUGuard -> p2_source;",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn queues_are_bounded_by_the_packet_memory() {
        let settings = settings();
        let waiting = |ports: &[Port], groups| Waiting::new(&settings, ports.len(), groups);
        for (count, expected, queue, burst) in [
            (4, 4, 512, 256),
            (8, 8, 312, 156),
            (16, 4, 312, 156),
            (40, 1, 500, 250),
            (312, 1, 64, 32),
        ] {
            let ports = ports(count);
            let groups = groups(&settings, &ports, 1);
            assert_eq!(groups, expected, "{count}");
            assert_eq!(waiting(&ports, groups), Waiting { queue, burst }, "{count}");
        }
        // As many as are let in, however they came.
        for before in [1, 8, GROUPS] {
            for count in (1..=1024).step_by(11) {
                let groups = groups(&settings, &ports(count), before);
                let Waiting { queue, burst } = Waiting::new(&settings, count, groups);
                assert!(2 * burst <= queue && burst > 0);
                if has_room(&settings, count, groups) {
                    assert!(count * groups * queue <= settings.waiting, "{before} {count}");
                }
            }
        }
        let most = |groups| (1..=1024).rev().find(|ports| has_room(&settings, *ports, groups));
        assert_eq!([1, 8, GROUPS].map(most), [Some(625), Some(78), Some(39)]);
    }

    #[test]
    fn packets_wait_apart_where_a_port_has_gone() {
        let settings = settings();
        let mut ports = ports(4);
        assert_eq!(groups(&settings, &ports, 1), 4);
        ports.remove(1);
        // Started so, or come to be so.
        for before in [1, 4] {
            let groups = groups(&settings, &ports, before);
            let text = text(&settings, &ports, groups);
            for number in [0, 2, 3] {
                let line = format!("p{number}_enters :: Paint({number}) -> ");
                assert!(text.contains(&line), "{line}\n{text}");
            }
            assert!(text.contains("p2_from3 :: Queue"), "{text}");
        }
        let many = self::ports(40);
        // Groups stay while ports come and go.
        assert_eq!(groups(&settings, &ports[..1], 4), 4);
        assert_eq!(groups(&settings, &many, 8), 8);
    }

    /// Loopback has long rings, as all interfaces that are no hardware.
    #[test]
    fn rings_of_ports_have_memory_of_their_own() {
        let memory = |arena| Memory { arena, buffer_size: None, no_huge: true, numa_node: None };
        let ports = |texts: &[&str]| -> Vec<PortSpec> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let (none, one) = (ports(&["a=tap:x", "b=consumer:"]), ports(&["a=xdp:lo", "b=tap:x"]));
        assert_eq!(arena(&memory(None), &none), ARENA);
        let more = arena(&memory(None), &one);
        let buffers = |bytes| precompute(&memory(Some(bytes)), 0).buffers as usize;
        assert!(buffers(more) - buffers(ARENA) >= packets_kept(&"xdp:lo".parse().unwrap()));
        // The size asked for is taken; queues are bounded by that, or as if there were no rings.
        assert_eq!(arena(&memory(Some(32 << 20)), &one), 32 << 20);
        assert_eq!(waiting(&memory(None)), waiting(&memory(Some(ARENA))));
    }

    /// The statements of help and the guide on ports and memory hold.
    #[test]
    fn memory_has_room_for_as_many_ports_as_the_help_says() {
        let settings = |arena| {
            let (arena, buffer_size) = (Some(arena), None);
            let memory = Memory { arena, buffer_size, no_huge: true, numa_node: None };
            Settings { waiting: waiting(&memory), room: ROOM, ..settings() }
        };
        let apart = |settings: &Settings| {
            (1..=64).rev().find(|count| groups(settings, &ports(*count), 1) == *count)
        };
        let (usual, more) = (settings(ARENA), settings(288 << 20));
        assert_eq!((apart(&usual), apart(&more)), (Some(9), Some(16)));
        let most = |settings: &Settings| {
            let apart = apart(settings).unwrap_or(1);
            (1..=1024).rev().find(|count| has_room(settings, *count, apart))
        };
        assert_eq!(most(&usual), Some(ROOM));
        let (hundreds, all) =
            (Settings { room: 240, ..usual.clone() }, Settings { room: 720, ..usual });
        assert_eq!((apart(&hundreds), most(&hundreds)), (Some(3), Some(240)));
        assert_eq!((apart(&all), most(&all)), (Some(1), Some(721)));
    }
}
