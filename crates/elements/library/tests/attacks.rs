//! Floods, forgeries and exhaustion: memory stays bounded, refusals are counted, and other traffic
//! goes on.

mod common;

use common::bed::{Bed, FLOOD_ARGS, Flood, Packet, Piece, Udp, ethernet};
use linerate_graph::Class;

const FLOOD: Class = Class {
    name: "Flood",
    ports: "0/1",
    processing: "h/h",
    args: FLOOD_ARGS,
    make: |make| Box::new(Flood::new(make, kind)),
    ..Class::here()
};

const VICTIM: u64 = 0x02_00_00_00_00_99;
const ATTACKER: u64 = 0x02_00_00_00_00_66;
const HOST: u64 = 0x02_00_00_00_00_01;
const KNOWN: u32 = 0x0a00_0009;

/// Mixes the bits of a number, so that numbers made of it look random.
fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// An ARP reply with the station of an address.
fn reply(address: u32, is_at: u64) -> Vec<u8> {
    let mut arp = vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
    arp.extend(&is_at.to_be_bytes()[2..]);
    arp.extend(address.to_be_bytes());
    arp.extend(&HOST.to_be_bytes()[2..]);
    arp.extend([10, 0, 0, 1]);
    ethernet(HOST, is_at, &arp)
}

fn udp(from: (u32, u16), to: u32, mark: u32) -> Vec<u8> {
    Udp { from, to: (to, 53), mark }.packet()
}

/// The flow of a client of a NAT: number, and sequence number.
fn client(number: u64) -> Vec<u8> {
    let flow = (number % 100) as u32;
    udp((0x0a00_0100 + flow, 5000), 0x0200_0002, flow)
}

fn kind(name: &str) -> Packet {
    match name {
        "to-known" => |_| udp((0x0b00_0001, 7), KNOWN, 0),
        "scan" => |n| udp((0x0b00_0001, 7), 0x0a01_0000 + n as u32, 0),
        "answer" => |_| reply(KNOWN, VICTIM),
        "forged" => |_| reply(KNOWN, ATTACKER),
        "unsolicited" => |n| reply(0x0a02_0000 + n as u32, ATTACKER),
        "a-to-b" => |_| ethernet(0x02_0b, 0x02_0a, &[8, 0]),
        "b-to-a" => |_| ethernet(0x02_0a, 0x02_0b, &[8, 0]),
        "macs" => |n| ethernet(ATTACKER, mixed(n) & 0xfcff_ffff_ffff, &[8, 0]),
        "pieces" => |n| {
            let (id, source) = (n as u16, 0x0600_0000 + (n >> 16) as u32);
            Piece { source, id, offset: 0, units: 4, more: true, fill: 1 }.packet()
        },
        "tails" => |n| {
            let source = 0x0700_0000 + (n >> 16) as u32;
            Piece { source, id: n as u16, offset: 8000, units: 4, more: false, fill: 1 }.packet()
        },
        "pairs" => |n| {
            let (id, second) = ((n / 2) as u16, n % 2);
            let offset = 4 * second as u16;
            Piece { source: 0x0a00_0001, id, offset, units: 4, more: second == 0, fill: 2 }.packet()
        },
        "contradicting" => |n| {
            let (id, second) = ((n / 2) as u16, n % 2);
            let (offset, fill) = (second as u16, second as u8);
            Piece { source: 0x0a00_0002, id, offset, units: 2, more: true, fill }.packet()
        },
        "clients" => client,
        "flows" => {
            |n| udp((0x0c00_0000 + (n >> 10) as u32, 1024 + (n & 1023) as u16), 0x0200_0002, !0)
        }
        "one" => |_| udp((0x0a00_0001, 5), 0x0200_0002, 0),
        other => panic!("no packets are called {other}"),
    }
}

/// Floods an `ARPQuerier`: the known neighbour gets `expected` packets, with its own address, in
/// any case.
fn arp(arguments: &str, floods: &str) -> Bed {
    let text = format!(
        "q :: ARPQuerier(10.0.0.1/8, 2:0:0:0:0:1, CAPACITY 256, ENTRY_CAPACITY 1024, {arguments});
         q [0] -> c :: Classifier(0/020000000099, -) -> good :: Counter -> Discard;
         c [1] -> other :: Counter -> Discard; q [1] -> queries :: Counter -> Discard;
         ip :: CheckIPHeader -> GetIPAddress(16) -> [0] q;
         Flood(to-known, 1) -> ip; Flood(answer, 1, AFTER 1) -> [1] q;
         Flood(to-known, 500, AFTER 2) -> ip; Flood(to-known, 500, AFTER 9) -> ip;
         {floods} DriverManager(wait 10s, stop);"
    );
    Bed::new(&text, &[&FLOOD]).run()
}

#[test]
fn a_scan_through_arp_is_bounded_and_displaces_no_neighbour() {
    let mut bed = arp("", "Flood(scan, 100000, AFTER 2) -> ip;");
    assert_eq!((bed.number("good.count"), bed.number("other.count")), (1001, 0));
    assert!(bed.number("q.count") <= 1024);
    let waiting = bed.number("q.length");
    assert!(waiting <= 256 && bed.held() as u64 >= waiting);
    assert!(bed.held() < 600, "{} buffers", bed.held());
    let unanswered = bed.dropped("q", "no answer in time, or too many waiting");
    assert_eq!(unanswered + waiting, 100_000);
}

#[test]
fn unsolicited_replies_fill_no_table_and_displace_no_entry() {
    for arguments in ["UNSOLICITED true", "UNSOLICITED false"] {
        let mut bed = arp(arguments, "Flood(unsolicited, 100000, AFTER 2) -> [1] q;");
        assert_eq!((bed.number("good.count"), bed.number("other.count")), (1001, 0));
        assert!(bed.number("q.count") <= 1024);
        assert!(bed.number("q.spoofed") >= 100_000, "{arguments}");
        assert!(bed.text("q.table").contains("10.0.0.9"));
    }
}

#[test]
fn a_forged_reply_does_not_take_a_neighbour_over() {
    let mut bed = arp("UNSOLICITED false", "Flood(forged, 1000, AFTER 2) -> [1] q;");
    assert_eq!((bed.number("good.count"), bed.number("other.count")), (1001, 0));
    assert_eq!(bed.number("q.spoofed"), 1000);
}

#[test]
fn invented_hosts_do_not_make_a_switch_a_hub_for_others() {
    for limit in ["", ", PORT_CAPACITY 100"] {
        let text = format!(
            "s :: EtherSwitch(CAPACITY 4096{limit}); Flood(a-to-b, 1) -> s; Flood(b-to-a, 1) -> [1] s;
             Flood(macs, 200000, AFTER 1) -> [2] s;
             Flood(a-to-b, 1000, AFTER 1) -> s; Flood(b-to-a, 1000, AFTER 2) -> [1] s;
             s -> ca :: Classifier(0/00000000020a, -) -> a :: Counter -> Discard; ca [1] -> Discard;
             s [1] -> cb :: Classifier(0/00000000020b, -) -> b :: Counter -> Discard; cb [1] -> Discard;
             s [2] -> c :: Classifier(0/000000000200%ffffffffff00, -) -> astray :: Counter -> Discard;
             c [1] -> Discard; DriverManager(wait 3s, stop);"
        );
        let mut bed = Bed::new(&text, &[&FLOOD]).run();
        assert_eq!((bed.number("a.count"), bed.number("b.count")), (1001, 1001));
        // The first packet, to an unknown host.
        assert_eq!(bed.number("astray.count"), 1);
        let most = if limit.is_empty() { 4096 } else { 102 };
        assert!(bed.number("s.count") <= most, "{}", bed.number("s.count"));
        assert!(bed.number("s.refused") >= 200_000 - most, "{}", bed.number("s.refused"));
        assert_eq!(bed.held(), 0);
    }
}

#[test]
fn floods_of_fragments_are_bounded_and_others_are_put_together() {
    for flood in ["pieces", "tails"] {
        let mut bed = Bed::new(
            &format!(
                "r :: IPReassembler(HIMEM 65536); r -> whole :: Counter -> Discard;
                 check :: CheckIPHeader -> r; Flood({flood}, 50000) -> check;
                 Flood(pairs, 2000) -> check; Flood(pairs, 2000, AFTER 1) -> check;
                 DriverManager(wait 2s, stop);"
            ),
            &[&FLOOD],
        )
        .run();
        assert_eq!(bed.number("whole.count"), 2000, "{flood}");
        let (memory, held) = (bed.number("r.memory"), bed.number("r.held"));
        assert!(memory <= 65_536 + 65_536 && held <= 2000, "{flood}: {memory} bytes, {held}");
        let given_up = bed.dropped("r", "too many fragments");
        let too_long = bed.dropped("r", "longer than a buffer");
        assert_eq!(given_up + too_long + held, 50_000, "{flood}");
        assert_eq!(bed.held(), 0, "fragments are held as copies");
    }
}

#[test]
fn fragments_that_contradict_each_other_are_dropped_and_counted() {
    let mut bed = Bed::new(
        "r :: IPReassembler; r -> whole :: Counter -> Discard; check :: CheckIPHeader -> r;
         Flood(contradicting, 1000) -> check; Flood(pairs, 200) -> check;
         DriverManager(wait 1s, stop);",
        &[&FLOOD],
    )
    .run();
    assert_eq!(bed.number("whole.count"), 100);
    assert_eq!(bed.dropped("r", "fragments that contradict each other"), 500);
    assert_eq!(bed.number("r.held"), 0);
}

/// Clients' flows before, during and after a flood of new ones.
fn nat(pattern: &str, arguments: &str) -> Bed {
    let text = format!(
        "rw :: IPRewriter({pattern}, drop, {arguments}); Idle -> [1] rw; rw [1] -> Discard;
         check :: CheckIPHeader -> rw -> c :: Classifier(32/ffffffff, -);
         c -> flood :: Counter -> Discard; c [1] -> clients :: Same;
         Flood(clients, 100) -> check; Flood(flows, 50000, AFTER 1) -> check;
         Flood(clients, 5000, AFTER 1) -> check; Flood(clients, 5000, AFTER 2) -> check;
         DriverManager(wait 3s, stop);"
    );
    Bed::new(&text, &[&FLOOD]).run()
}

#[test]
fn a_nat_without_room_for_more_flows_keeps_those_it_has() {
    let mut bed = nat("pattern 1.0.0.1 1024-65535# - - 0 1", "MAPPING_CAPACITY 1000");
    assert_eq!((bed.number("clients.seen"), bed.number("clients.changed")), (10_100, 0));
    assert_eq!(bed.number("clients.flows"), 100);
    assert_eq!(bed.number("rw.size"), 1000);
    assert_eq!(bed.number("flood.count"), 900);
    assert_eq!(bed.number("rw.mapping_failures"), 49_100);
    assert_eq!(bed.dropped("rw", "no mapping left"), 49_100);
}

#[test]
fn a_nat_without_ports_left_keeps_the_flows_that_have_one() {
    let mut bed = nat("pattern 1.0.0.1 1024-1323# - - 0 1", "MAPPING_CAPACITY 100000");
    assert_eq!((bed.number("clients.seen"), bed.number("clients.changed")), (10_100, 0));
    assert_eq!(bed.number("rw.size"), 300);
    assert_eq!(bed.number("flood.count"), 200);
    assert_eq!(bed.dropped("rw", "no mapping left"), 49_800);
}

#[test]
fn flows_beyond_the_limit_get_no_number() {
    let mut bed = Bed::new(
        "a :: AggregateIPFlows(CAPACITY 1000, UDP_TIMEOUT 3600) -> known :: Counter -> Discard;
         a [1] -> others :: Counter -> Discard; check :: CheckIPHeader -> SetTimestamp -> a;
         Flood(one, 1) -> check; Flood(flows, 100000, AFTER 1) -> check;
         Flood(one, 1000, AFTER 2) -> check; DriverManager(wait 3s, stop);",
        &[&FLOOD],
    )
    .run();
    let flows = bed.number("a.flows");
    assert!((900..=1000).contains(&flows), "{flows}");
    assert_eq!(bed.number("a.refused"), bed.number("others.count"));
    // One pair of hosts is the known flow's, with the flow itself.
    assert_eq!(bed.number("known.count") + bed.number("others.count"), 101_001);
    assert!(bed.number("known.count") >= 1001 && bed.number("others.count") >= 99_000);
}

#[test]
fn flows_that_have_ended_make_room_for_others() {
    let mut bed = Bed::new(
        "a :: AggregateIPFlows(CAPACITY 1000, UDP_TIMEOUT 10) -> known :: Counter -> Discard;
         a [1] -> others :: Counter -> Discard; check :: CheckIPHeader -> SetTimestamp -> a;
         Flood(flows, 100000) -> check; Flood(one, 10, AFTER 60) -> check;
         DriverManager(wait 61s, stop);",
        &[&FLOOD],
    )
    .run();
    assert_eq!(bed.number("a.flows"), 2);
    assert!(bed.number("a.refused") >= 99_000);
}

#[test]
fn packets_held_behind_fragments_are_bounded() {
    let mut bed = Bed::new(
        "a :: AggregateIPFlows -> Discard; a [1] -> Discard;
         Flood(tails, 20000) -> check :: CheckIPHeader -> SetTimestamp -> a;
         Flood(one, 10, AFTER 1) -> check; DriverManager(wait 2s, stop);",
        &[&FLOOD],
    )
    .run();
    assert_eq!(bed.held(), 4096);
    assert_eq!(bed.dropped("a", "too many packets held"), 20_000 - 4096);
}

#[test]
fn a_source_of_flows_has_a_limit_too() {
    let flows = |count: u32| {
        let library = linerate_elements::library();
        let text = format!(
            "FastUDPFlows(0, 10, 60, 2:0:0:0:0:1, 1.0.0.1, 2:0:0:0:0:2, 1.0.0.2, {count}, 1)
             -> Discard; DriverManager(wait 0.1s, stop);"
        );
        let plan = common::load_text(&text, &library).unwrap();
        let arena =
            linerate_memory::ArenaOptions { size: 8 << 20, huge: false, ..Default::default() };
        let ports = linerate_port::Context::new(arena.create().unwrap());
        let options = linerate_graph::Options { simulated: true, ..Default::default() };
        linerate_graph::Router::new(plan, &library, ports, &options).map(|mut router| {
            router.run();
            router.close();
        })
    };
    assert!(flows(1 << 20).is_ok());
    assert!(flows((1 << 20) + 1).is_err());
}
