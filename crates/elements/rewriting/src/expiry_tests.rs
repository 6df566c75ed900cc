//! Tests of packets whose flow has ended but was not removed yet, of the flow that makes room for
//! another, and of flows that are their own answers.

use std::fs;

use linerate_elements_testing::Scratch;

use crate::testing::Run;

const INSIDE: &str = "10.0.0.2, 5000, 2.0.0.2, 53";
const OUTSIDE: &str = "2.0.0.2, 53, 1.0.0.1, 1024";

/// A rewriter with a host inside and one outside, which send a packet when they are made active.
fn run(config: &str, script: &str) -> Vec<String> {
    let text = format!(
        "rw :: IPRewriter(pattern 1.0.0.1 1024-1024 - - 0 1, drop, {config});
         inside :: InfiniteSource(LIMIT 1, ACTIVE false) -> UDPIPEncap({INSIDE})
             -> CheckIPHeader -> [0] rw;
         outside :: InfiniteSource(LIMIT 1, ACTIVE false) -> UDPIPEncap({OUTSIDE})
             -> CheckIPHeader -> [1] rw;
         rw [0] -> out :: Counter -> Discard; rw [1] -> in :: Counter -> Discard;
         Script({script}, stop);"
    );
    let mut run = Run::new(&text);
    run.run();
    run.output().lines().map(str::to_owned).collect()
}

/// A packet from inside, and so many seconds later one from outside.
fn after(seconds: &str) -> String {
    format!(
        "write inside.active true, wait {seconds}, print rw.table_size, write outside.active true, \
         wait 1ms, print rw.table_size, print in.count, print out.count"
    )
}

#[test]
fn nothing_comes_in_when_a_flow_has_ended() {
    let config = "UDP_TIMEOUT 10, UDP_STREAMING_TIMEOUT 10";
    for (seconds, comes) in [("9.9s", "1"), ("10.1s", "0"), ("200s", "0")] {
        let shown = run(config, &after(seconds));
        assert_eq!(shown, ["1", comes, comes, "1"], "{seconds}");
    }
    // Nor before the guarantee is over.
    let config = "UDP_TIMEOUT 1, UDP_GUARANTEE 10";
    for (seconds, comes) in [("9.9s", "1"), ("10.1s", "0")] {
        let shown = run(config, &after(seconds));
        assert_eq!(shown, ["1", comes, comes, "1"], "{seconds}");
    }
}

/// A packet one way lets answers in for as long, at any distance from the last.
#[test]
fn either_direction_keeps_a_flow_alive() {
    let script = "write inside.active true, wait 9s, write inside.reset, write inside.active true, \
        wait 9s, write outside.active true, wait 1ms, print in.count, print out.count";
    let shown = run("UDP_TIMEOUT 10", script);
    assert_eq!(shown, ["1", "2"]);
}

/// The ports there are go to the next flows.
#[test]
fn ports_of_flows_that_have_ended_are_free() {
    for (seconds, shown) in [("9s", ["1", "2", "2"]), ("11s", ["0", "1", "3"])] {
        let mut run = Run::new(&format!(
            "rw :: IPRewriter(pattern 1.0.0.1 1024-1025 - - 0 1, UDP_TIMEOUT 10);
             InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.2, 5000, 2.0.0.2, 53) -> ip :: CheckIPHeader
                 -> rw;
             InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.3, 5000, 2.0.0.2, 53) -> ip;
             third :: InfiniteSource(LIMIT 1, ACTIVE false)
                 -> UDPIPEncap(10.0.0.4, 5000, 2.0.0.2, 53) -> ip;
             rw [0] -> out :: Counter -> Discard; rw [1] -> Discard;
             Script(wait {seconds}, write third.active true, wait 1ms, print rw.mapping_failures,
                    print rw.table_size, print out.count, stop);"
        ));
        run.run();
        assert_eq!(run.output().lines().collect::<Vec<_>>(), shown, "{seconds}");
    }
}

/// Errors about packets of a flow that has ended find no host they are for.
#[test]
fn errors_about_flows_that_have_ended_are_dropped() {
    for (seconds, comes) in [("9s", "1"), ("11s", "0")] {
        let mut run = Run::new(&format!(
            "rw :: IPRewriter(pattern 1.0.0.1 1024-1024 - - 0 1, drop, UDP_TIMEOUT 10);
             InfiniteSource(LIMIT 1) -> UDPIPEncap({INSIDE}) -> CheckIPHeader -> [0] rw;
             rw [0] -> Queue -> late :: Unqueue(ACTIVE false) -> ICMPError(2.0.0.1, unreachable, host)
                 -> CheckIPHeader -> icmp :: ICMPRewriter(rw) -> in :: Counter -> Discard;
             Idle -> [1] rw; rw [1] -> Discard;
             Script(wait {seconds}, write late.active true, wait 1ms, print in.count, stop);"
        ));
        run.run();
        assert_eq!(run.output().trim(), comes, "{seconds}");
    }
}

/// Where a flow is mapped to itself, its first packet goes on and those behind it are answers.
#[test]
fn a_flow_that_is_its_own_answer_leaves_as_in_click() {
    for (rewriter, ends) in [
        ("IPRewriter(keep 0 1)", "1.1.1.1, 5, 1.1.1.1, 5"),
        ("UDPRewriter(keep 0 1)", "1.1.1.1, 5, 1.1.1.1, 5"),
        ("IPAddrPairRewriter(keep 0 1)", "1.1.1.1, 5, 1.1.1.1, 5"),
        ("IPRewriter(pattern 1.1.1.1 5 2.2.2.2 7 0 1)", "2.2.2.2, 7, 1.1.1.1, 5"),
    ] {
        for frame_limit in [1, 2, 7, 256] {
            let mut run = Run::new(&format!(
                "InfiniteSource(LIMIT 5, STOP true) -> UDPIPEncap({ends}) -> CheckIPHeader
                    -> rw :: {rewriter} -> a :: Counter -> Discard; rw [1] -> b :: Counter -> Discard"
            ))
            .frame_limit(frame_limit);
            run.run();
            let counts = ["a.count", "b.count", "rw.table_size"].map(|handler| run.read(handler));
            assert_eq!(counts, ["1", "4", "1"], "{rewriter} by {frame_limit}");
        }
    }
}

/// Click's answers. The first packet goes forward, the others back: the connection is closed
/// when a packet each way has closed it, and streams from the third on.
#[test]
fn a_flow_that_is_its_own_answer_is_shown_as_in_click() {
    for (packet, left) in [
        ("T F", ["300", "30", "30"]),
        ("T R", ["30", "30", "30"]),
        ("T A", ["300", "300", "300"]),
        ("U .", ["50", "50", "100"]),
    ] {
        for (count, left) in (1..).zip(left) {
            let scratch = Scratch::new(&format!("own-answer-{}-{count}", packet.replace(' ', "")));
            let packets = format!("9.0.0.1 5 9.0.0.1 5 {packet}\n").repeat(count);
            let file = scratch.path("packets");
            let fields = "ip_src sport ip_dst dport ip_proto tcp_flags";
            fs::write(&file, format!("!data {fields}\n{packets}")).unwrap();
            let mut run = Run::new(&format!(
                "FromIPSummaryDump({file}, STOP true)
                 -> rw :: IPRewriter(keep 0 1, TCP_TIMEOUT 300, TCP_GUARANTEE 1, UDP_GUARANTEE 2,
                     UDP_TIMEOUT 50, UDP_STREAMING_TIMEOUT 100, TCP_DONE_TIMEOUT 30)
                 -> Discard; rw [1] -> Discard"
            ));
            run.run();
            let table = run.read("rw.tcp_table") + &run.read("rw.udp_table");
            let flow = "(9.0.0.1, 5, 9.0.0.1, 5)";
            let line = format!("{flow} => {flow} [0 *1] i0 exp{left}");
            assert_eq!(table.trim(), line, "{count} of {packet}");
        }
    }
}

/// Click's answer: the time a guarantee adds to the life of a flow is not shown.
#[test]
fn guarantees_do_not_show() {
    let mut run = Run::new(
        "InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.1, 5)
             -> rw :: UDPRewriter(keep 0 1, GUARANTEE 10, TIMEOUT 5) -> Discard; rw [1] -> Discard",
    );
    run.run();
    let lines = ["[0 *1] i0 exp5", "[*0 1] i0 exp5"];
    let table = run.read("rw.table");
    assert!(table.lines().zip(lines).all(|(line, end)| line.ends_with(end)), "{table}");
}

/// As in Click, where each packet has gone all the way before the next comes: clients say where
/// they are called, and servers call, in one frame.
#[test]
fn a_port_mapper_and_its_rewriter_know_a_flow_at_once() {
    const CLIENTS: u32 = 40;
    let packets: String = (1..=CLIENTS)
        .map(|client| {
            let (port, mapped) = (5000 + client, 1023 + 2 * client);
            format!(
                "10.0.0.{client} {port} 2.0.0.2 21 T \"\"\n\
                 10.0.0.{client} {port} 2.0.0.2 21 T \"PORT 10,0,0,{client},40,1\\r\\n\"\n\
                 2.0.0.2 20 1.0.0.1 {mapped} T \"\"\n"
            )
        })
        .collect();
    let scratch = Scratch::new("ftp");
    let file = scratch.path("clients");
    fs::write(&file, format!("!data ip_src sport ip_dst dport ip_proto payload\n{packets}"))
        .unwrap();
    for frame_limit in [1, 7, 32, 256, 2048] {
        let mut run = Run::new(&format!(
            "FromIPSummaryDump({file}, STOP true, CHECKSUM true) -> CheckIPHeader
                 -> c :: IPClassifier(dst port 21, -);
             rw :: TCPRewriter(pattern 1.0.0.1 1024-2000# - - 0 1, drop);
             c [0] -> FTPPortMapper(rw, rw, 0) -> [0] rw; c [1] -> [1] rw;
             rw [0] -> out :: Counter -> Discard; rw [1] -> in :: Counter -> Discard"
        ))
        .frame_limit(frame_limit);
        run.run();
        let counts = ["out.count", "in.count", "rw.table_size"].map(|handler| run.read(handler));
        assert_eq!(counts, ["80", "40", "80"], "frames of {frame_limit}");
    }
}

/// Click's answer: the second flow was used last, and ends first.
#[test]
fn the_flow_that_ends_first_makes_room() {
    let host = |name: &str, address: &str| {
        format!(
            "{name} :: InfiniteSource(LIMIT 1, ACTIVE false)
                -> UDPIPEncap({address}, 1000, 2.0.0.1, 53) -> forth;
             r{name} :: InfiniteSource(LIMIT 1, ACTIVE false)
                -> UDPIPEncap(2.0.0.1, 53, {address}, 1000) -> back;"
        )
    };
    let hosts = [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3")];
    let mut run = Run::new(&format!(
        "rw :: UDPRewriter(keep 0 1, drop, MAPPING_CAPACITY 2, TIMEOUT 300,
             STREAMING_TIMEOUT 250, UDP_GUARANTEE 1);
         forth :: CheckIPHeader -> [0] rw; back :: CheckIPHeader -> [1] rw; {}
         rw [0] -> out :: Counter -> Discard; rw [1] -> in :: Counter -> Discard;
         Script(write a.active true, wait 2s, write b.active true, wait 1ms,
             write rb.active true, wait 1ms, write b.reset, write b.active true, wait 8s,
             print out.count, print in.count, write c.active true, wait 1ms, print out.count,
             write ra.active true, wait 1ms, print in.count, write rb.reset,
             write rb.active true, wait 1ms, print in.count, print rw.mapping_failures,
             print rw.size, stop)",
        hosts.map(|(name, address)| host(name, address)).concat()
    ));
    run.run();
    assert_eq!(run.output().split_whitespace().collect::<Vec<_>>().join(" "), "3 1 4 2 2 0 2");
}
