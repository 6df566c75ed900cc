use std::time::Instant;
use std::{hint, thread};

use crate::testing::Run;
use linerate_openflow::wire::Version;
use linerate_openflow::wire::multipart::{Reply, Request};

use crate::switches;
use crate::testing::{PATIENCE, StopOnDrop, replace, wait_until};

/// Ethernet of two hosts of a digit each, with IPv4 and UDP between 10.0.0.x hosts, and 8 bytes.
fn udp(from: u8, to: u8, port: u16) -> String {
    format!(
        "0200000000{to:02x}0200000000{from:02x}08004500001c00000000401100000a0000{from:02x}0a0000{to:02x}\
         04d2{port:04x}00080000"
    )
}

fn switch(flows: &str, feeds: [&str; 3], config: &str) -> Run {
    let mut text = format!("s :: FlowSwitch({config});");
    for (port, feed) in feeds.iter().enumerate() {
        text += &if feed.is_empty() {
            format!("Idle -> [{port}] s;")
        } else {
            format!("Packets({feed}) -> [{port}] s;")
        };
        text += &format!("s [{port}] -> c{port} :: Collect;");
    }
    let mut run = Run::new(&text);
    run.write("s.add_flow", flows).expect("flows");
    run
}

fn counts(run: &mut Run) -> [usize; 3] {
    [0, 1, 2].map(|port| run.read(&format!("c{port}.lengths")).lines().count())
}

#[test]
fn packets_go_as_flows_say_and_are_counted() {
    for frame_limit in [1, 7, 256] {
        let feed: Vec<_> = (0..40).map(|n| udp(1, 2 + n % 3, 50 + u16::from(n % 5))).collect();
        let mut run = Run::new(&format!(
            "s :: FlowSwitch(TABLES 2); Packets({}) -> s; Idle -> [1] s; Idle -> [2] s;
             s [0] -> c0 :: Collect; s [1] -> c1 :: Collect; s [2] -> c2 :: Collect;",
            feed.join(" ")
        ))
        .frame_limit(frame_limit);
        run.write(
            "s.add_flow",
            "table=0,priority=10,udp,nw_dst=10.0.0.2,actions=output:2\n\
             table=0,priority=10,udp,nw_dst=10.0.0.3,actions=output:2,output:3\n\
             table=0,priority=1,actions=goto_table:1\n\
             table=1,udp,tp_dst=50,actions=set_field:02:00:00:00:00:09->eth_dst,output:3\n",
        )
        .expect("flows");
        run.run();
        let to = |host: u8| (0..40).filter(|n| 2 + n % 3 == host).count();
        let rewritten = (0..40).filter(|n| n % 3 == 2 && n % 5 == 0).count();
        assert_eq!(counts(&mut run), [0, to(2) + to(3), to(3) + rewritten]);
        let third = run.read("c2.packets");
        assert_eq!(third.matches("020000000009").count(), rewritten);
        let flows = run.read("s.flows");
        assert!(flows.contains(&format!("n_packets={}", to(2))), "{flows}");
        assert!(flows.contains(&format!("n_packets={rewritten}")), "{flows}");
        let dropped = to(4) - rewritten;
        assert!(run.read("s.drops").starts_with(&format!("{dropped}\tno flow")));
        let ports = run.read("s.ports");
        assert!(ports.starts_with(&format!("1 1 40 {}", 40 * 42)), "{ports}");
    }
}

/// The trace through the tables comes once, and the entry of each worker's cache that has one.
#[test]
fn a_trace_names_the_entry_of_each_worker() {
    let mut run = Run::new(
        "a :: InfiniteSource(LENGTH 60, LIMIT 5) -> s :: FlowSwitch; Idle -> [1] s;
         b :: InfiniteSource(LENGTH 60, LIMIT 5) -> s; s -> Discard;
         s [1] -> Discard; StaticThreadSched(a 0, b 1); DriverManager(wait 1s, stop)",
    )
    .workers(2);
    run.write("s.add_flow", "in_port=1,actions=output:2").expect("a flow");
    let before = run.read_with("s.trace", "in_port=1,arp");
    assert!(!before.contains("fast path"), "{before}");
    run.run();
    let traced = run.read_with("s.trace", "in_port=1,arp");
    assert_eq!(traced.matches("table 0: ").count(), 1, "{traced}");
    for worker in [0, 1] {
        let entry = format!("fast path of worker {worker}: in_port=1, packets:5, ");
        assert!(traced.contains(&entry), "{traced}");
    }
}

#[test]
fn a_trace_takes_states_of_connections() {
    let mut run = Run::new("s :: FlowSwitch; Idle -> s -> Discard; Idle -> [1] s [1] -> Discard;");
    run.write(
        "s.add_flow",
        "table=0,ip,actions=ct(table=1,zone=5)\ntable=1,ip,ct_state=+est+trk,actions=output:2\n\
         table=1,ip,ct_state=+new+trk,actions=drop\n",
    )
    .expect("flows");
    let traced = run.read_with("s.trace", "in_port=1,ip");
    assert!(traced.contains("ct_state=+new+trk") && !traced.contains("output 2"), "{traced}");
    for state in ["ct-next=est|trk", "ct-next=+est+trk", "ct-next=trk,est"] {
        let traced = run.read_with("s.trace", &format!("{state} in_port=1,ip"));
        assert!(traced.contains("output 2"), "{traced}");
    }
}

/// A datagram of hosts 1 and 2 in two fragments, both of them of 1,200 bytes and more or the last.
fn fragments(from: u8, to: u8) -> [String; 2] {
    let head = |length: u16, word: u16| {
        let mut head = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
        head[2..4].copy_from_slice(&length.to_be_bytes());
        head[6..8].copy_from_slice(&word.to_be_bytes());
        let sum: u32 =
            head.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        head.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let ethernet = format!("0200000000{to:02x}0200000000{from:02x}0800");
    let udp = "04d2003505580000";
    [
        format!("{ethernet}{}{udp}{}", head(1220, 0x2000), "11".repeat(1192)),
        format!("{ethernet}{}{}", head(188, 150), "22".repeat(168)),
    ]
}

/// Fragments come out as they came in, both ways, and connections can be listed, forgotten and
/// limited.
#[test]
fn fragments_are_tracked_and_connections_told_of() {
    for frame_limit in [1, 7, 256] {
        let there = [fragments(1, 2)[1].clone(), fragments(1, 2)[0].clone(), udp(3, 2, 53)];
        let alone = fragments(4, 2)[0].clone();
        let mut run = Run::new(&format!(
            "s :: FlowSwitch; Packets({} {alone}) -> s; Idle -> [1] s;
             s [0] -> Discard; s [1] -> c1 :: Collect;",
            there.join(" ")
        ))
        .frame_limit(frame_limit);
        run.write("s.add_flow", "in_port=1,ip,actions=ct(commit,zone=9),output:2").expect("a flow");
        run.run();
        assert_eq!(run.read("c1.lengths").lines().count(), 3);
        let packets = run.read("c1.packets");
        for packet in &there {
            assert!(packets.contains(packet.as_str()), "{packets}");
        }
        let told = run.read("s.connections");
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with(
            "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1234,dport=53),\
             reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,dport=1234),zone=9,timeout="
        ));
        assert_eq!((lines.len(), run.read("s.connection_count").as_str()), (2, "2"));
        assert!(run.read("s.fragments").contains("accepted=3,completed=2"), "{told}");
        let waits = "zone=9,protocol=17,fragments=1,ends=first\n";
        assert!(run.read("s.fragments").ends_with(waits), "{}", run.read("s.fragments"));
        assert_eq!(run.read_with("s.connections", "ct_nw_src=10.0.0.3").lines().count(), 1);
        let one = run.read_with("s.connections", "limit=1 ct_zone=9");
        assert!(one.ends_with("… and 1 more\n"), "{one}");
        run.write("s.flush_connections", "ct_nw_src=10.0.0.3").expect("some");
        assert_eq!(run.read("s.connection_count"), "1");
        run.write("s.connection_limits", "9=5 default=100").expect("limits");
        let limits = "zone=default,limit=100\nzone=9,limit=5,count=1\n";
        assert_eq!(run.read("s.connection_limits"), limits);
        run.write("s.connection_limits", "9=none,default=none").expect("none");
        assert_eq!(run.read("s.connection_limits"), "zone=default,limit=none\n");
        run.write(
            "s.connection_timeouts",
            "zone=9 udp_first=5,icmp_reply=7 zone=default tcp_close=9",
        )
        .expect("time-outs");
        let timeouts = run.read("s.connection_timeouts");
        let [default, of] = &timeouts.lines().collect::<Vec<_>>()[..] else { panic!("{timeouts}") };
        assert!(default.starts_with("zone=default,tcp_syn_sent=30,"), "{default}");
        assert!(default.contains(",tcp_close=9,udp_first=60,"), "{default}");
        let rest = ",udp_first=5,udp_single=60,udp_multiple=30,icmp_first=60,icmp_reply=7";
        assert!(of.starts_with("zone=9,") && of.ends_with(rest), "{of}");
        run.write("s.connection_timeouts", "zone=9 none").expect("none");
        assert_eq!(run.read("s.connection_timeouts").lines().count(), 1);
        run.write("s.fragments", "most=500 shortest_v4=1000").expect("limits");
        assert!(
            run.read("s.fragments").starts_with("most=500\nversion=v4,shortest=1000,waiting=1")
        );
        for (handler, wrong) in [
            ("flush_connections", "nw_src=10.0.0.1"),
            ("flush_connections", "in_port=1"),
            ("connection_limits", "65536=1"),
            ("connection_limits", "5"),
            ("connection_timeouts", "udp_first=5"),
            ("connection_timeouts", "zone=9"),
            ("connection_timeouts", "zone=65536 udp_first=5"),
            ("connection_timeouts", "zone=9 udp_last=5"),
            ("connection_timeouts", "zone=9 udp_first=0"),
            ("connection_timeouts", "zone=9 udp_first=5 none"),
            ("connection_timeouts", "zone=9 none udp_first=5"),
            ("fragments", "most=5001"),
            ("fragments", "some=1"),
        ] {
            assert!(run.write(&format!("s.{handler}"), wrong).is_err(), "{handler} {wrong}");
        }
        assert_eq!(run.read("s.connection_count"), "1", "what is wrong forgets nothing");
        run.write("s.flush_connections", "").expect("all");
        assert_eq!(run.read("s.connections"), "");
    }
}

/// Each packet takes effect before the next, in frames of any size.
#[test]
fn normal_learns_within_a_frame() {
    for frame_limit in [1, 7, 256] {
        let feed = [udp(1, 2, 1), udp(2, 1, 1), udp(3, 1, 1), udp(1, 3, 1)].join(" ");
        let mut run = Run::new(&format!(
            "s :: FlowSwitch; Packets({feed}) -> s; Idle -> [1] s; Idle -> [2] s;
             s [0] -> c0 :: Collect; s [1] -> c1 :: Collect; s [2] -> c2 :: Collect;"
        ))
        .frame_limit(frame_limit);
        run.write("s.add_flow", "actions=NORMAL").expect("a flow");
        run.run();
        // The first is for an unknown host; later ones are for hosts at the port they came by.
        assert_eq!(counts(&mut run), [0, 1, 1]);
    }
}

#[test]
fn changes_take_effect_and_are_refused_where_they_are_wrong() {
    let mut run = switch("in_port=1,actions=output:2", [&udp(1, 2, 1), "", ""], "TABLES 3");
    assert!(run.write("s.add_flow", "in_port=1,actions=outptu:2").is_err());
    assert!(run.write("s.add_flow", "table=3,actions=drop").is_err());
    run.write("s.replace", "in_port=1,actions=output:3\ntable=2,actions=drop").expect("flows");
    assert_eq!(run.read("s.flows").lines().count(), 2);
    run.run();
    assert_eq!(counts(&mut run), [0, 0, 1]);
    assert_eq!(run.read("s.misses"), "1");
    let cache = run.read("s.cache");
    assert!(cache.contains("in_port=1, ") && cache.contains("steps:output 3"), "{cache}");
    run.write("s.del_flows", "").expect("all go");
    assert_eq!(run.read("s.flows"), "");
    run.write("s.cache_clear", "").expect("cleared");
    assert_eq!(run.read("s.cache_count"), "0");
}

/// Each source is on a worker of its own; the actions change all the time, and each packet goes one
/// way.
#[test]
fn several_workers_forward_by_the_same_tables() {
    const PACKETS: u64 = 200_000;
    let data = [udp(1, 2, 50), udp(2, 1, 51)];
    let mut text = "s :: FlowSwitch(TABLES 2); Idle -> [2] s;".to_owned();
    for (port, data) in data.iter().enumerate() {
        text += &format!(
            "i{port} :: InfiniteSource(DATA \\<{data}>, LIMIT {PACKETS}, BURST 7) -> [{port}] s;"
        );
    }
    for port in 0..3 {
        text += &format!("s [{port}] -> c{port} :: Counter -> Discard;");
    }
    let mut run = Run::new(&format!("{text} StaticThreadSched(i0 0, i1 1);")).workers(2);
    let flows = "in_port=1,actions=output:3\nin_port=2,actions=goto_table:1\n\
                 table=1,udp,actions=output:3";
    run.write("s.add_flow", flows).expect("flows");
    let control = run.control();
    let changer = thread::spawn(move || {
        let _stops = StopOnDrop(control.clone());
        let read = |handler: &str| control.read(handler, "").expect("a handler");
        let count = |handler: &str| read(handler).parse::<u64>().expect("a count");
        let (mut changes, mut left) = (0, true);
        while left {
            left = (0..3).map(|port| count(&format!("c{port}.count"))).sum::<u64>() < 2 * PACKETS;
            let (one, two) = [("output:2", "in_port"), ("output:3", "output:3")][changes % 2];
            let flows = format!("table=0,in_port=1,actions={one}\ntable=1,actions={two}");
            control.write("s.mod_flows", &flows).expect("a change");
            changes += 1;
        }
    });
    run.run();
    changer.join().expect("packets were forwarded");
    let mut count = |handler: &str| run.read(handler).parse::<u64>().expect("a count");
    assert_eq!(count("s.hits") + count("s.misses"), 2 * PACKETS);
    let [first, second, third] = ["c0", "c1", "c2"].map(|name| count(&format!("{name}.count")));
    // Port 1's go to 2 or 3, those of port 2 back or to 3.
    assert_eq!(first, 0);
    assert_eq!(second + third, 2 * PACKETS);
    let flows = run.read("s.flows");
    let counted = format!("n_packets={PACKETS}, ");
    assert_eq!(flows.matches(&counted).count(), 3, "{flows}");
    let ports = run.read("s.ports");
    let bytes = PACKETS * data[0].len() as u64 / 2;
    assert!(ports.starts_with(&format!("1 1 {PACKETS} {bytes} 0 0\n")), "{ports}");
    assert!(ports.contains(&format!("\n2 2 {PACKETS} {bytes} {second} ")), "{ports}");
    assert!(ports.contains(&format!("\n3 3 0 0 {third} ")), "{ports}");
}

/// A packet is counted before it can be seen, also when the worker had been asleep.
#[test]
fn a_packet_is_counted_before_it_is_reported() {
    const PACKETS: u64 = 2_000;
    let mut run = Run::new(&format!(
        "TimedSource(200us, LIMIT {PACKETS}) -> s :: FlowSwitch -> Discard;
         Idle -> [1] s [1] -> Discard;"
    ))
    .with(&[&super::CLASS])
    .real_time();
    // The worker has much to do yet when the event arrives.
    let flow = format!("actions=CONTROLLER{}", ",output:2".repeat(1000));
    run.write("s.add_flow", &flow).expect("a flow");
    let control = run.control();
    let switch = switches::find(&run.world(), "s").expect("it is there").switch();
    let heard = switch.subscribe();
    let listener = thread::spawn(move || {
        let _stops = StopOnDrop(control);
        let began = Instant::now();
        for nth in 1..=PACKETS {
            // A sleeping thread would see it too late to be early.
            while heard.events.try_recv().is_err() {
                assert!(began.elapsed() < PATIENCE, "{nth} of {PACKETS} packets");
                hint::spin_loop();
            }
            let answer = switch.answer(&Request::Table, Version::V13, 0);
            let Ok(Reply::Table(tables)) = answer else { panic!("{answer:?}") };
            assert!(tables[0].matches >= nth, "{} of {nth}", tables[0].matches);
        }
    });
    run.run();
    listener.join().expect("all are counted");
}

#[test]
fn where_a_name_says_so_there_is_no_port() {
    let mut run = switch("actions=all", [&udp(1, 2, 1), "", ""], "NAMES one -1 three");
    run.run();
    assert_eq!(counts(&mut run), [0, 0, 1]);
    let ports = run.read("s.ports");
    assert!(ports.starts_with("1 one 1 ") && ports.contains("\n3 three "), "{ports}");
    assert_eq!(ports.lines().count(), 2, "{ports}");
}

/// Another worker comes and goes: its replica has no predecessor, does nothing, and hands its state
/// on.
#[test]
fn replicas_that_come_and_go_have_the_same_tables() {
    let text = |third: &str, more: &str| {
        format!(
            "s :: FlowSwitch(TABLES 2); i0 :: InfiniteSource(DATA \\<{0}>, BURST 7) -> s;
             i1 :: InfiniteSource(DATA \\<{0}>, BURST 7) -> [1] s; i2 :: {third} -> [2] s;
             s -> c0 :: Counter -> Discard; s [1] -> c1 :: Counter -> Discard; s [2] -> Discard;
             StaticThreadSched(i0 0, i1 1{more});",
            udp(1, 2, 50)
        )
    };
    let texts = [text("Idle", ""), text("InfiniteSource(LIMIT 0)", ", i2 2")];
    let mut run = Run::new(&texts[0]).workers(3);
    let flows =
        "in_port=1,actions=output:2\nin_port=2,actions=goto_table:1\ntable=1,actions=output:1";
    run.write("s.add_flow", flows).expect("flows");
    let control = run.control();
    let changer = thread::spawn(move || {
        let _stops = StopOnDrop(control.clone());
        let read = |handler: &str| control.read(handler, "").expect("a handler");
        for round in 1..20 {
            replace(&control, &texts[round % 2]);
            let counts = || ["c0.count", "c1.count"].map(read);
            let before = counts();
            // Both go on.
            wait_until(|| counts().iter().zip(&before).all(|(now, before)| now != before));
            let drops = read("s.drops");
            assert!(drops.lines().all(|line| line.starts_with("0\t")), "round {round}: {drops}");
        }
    });
    run.run();
    changer.join().expect("all goes on");
    assert_eq!(run.read("s.flows").lines().count(), 3);
}

#[test]
fn arguments_are_checked() {
    for (config, error) in [
        ("TABLES 0", "TABLES: out of range"),
        ("TABLES 255", "TABLES: out of range"),
        ("NAMES a a b", "need 3 different names"),
        ("NAMES a b", "need 3 different names"),
    ] {
        let text = format!(
            "s :: FlowSwitch({config}); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard;
             Idle -> [2] s [2] -> Discard;"
        );
        let found = Run::errors(&text);
        assert!(found.contains(error), "{config}: {found}");
    }
}
