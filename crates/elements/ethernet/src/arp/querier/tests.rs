use std::cell::Cell;

use crate::testing::Run;

use super::CLASS;

/// UDP packets to these addresses, then the commands of `script`.
fn querier(config: &str, destinations: &[&str], script: &str) -> Run {
    let sources: String = (destinations.iter().enumerate())
        .map(|(at, to)| {
            format!("InfiniteSource(DATA \\<45{at:02}>, LIMIT 1) -> Destination({to}) -> q;")
        })
        .collect();
    Run::new(&format!(
        "q :: ARPQuerier(1.0.0.1/24, 2:0:0:0:0:1{config}); {sources}
         r :: InfiniteSource(DATA \\<{reply}>, LIMIT 1, ACTIVE false) -> [1] q;
         f :: InfiniteSource(DATA \\<{forged}>, LIMIT 1, ACTIVE false) -> [1] q;
         q [0] -> out :: Collect; q [1] -> asked :: Collect;
         Script({script}, stop);",
        reply = reply("020000000002", "01000002"),
        forged = reply("0200000000ff", "01000002"),
    ))
}

fn reply(mac: &str, ip: &str) -> String {
    format!("020000000001{mac}08060001080006040002{mac}{ip}02000000000101000001")
}

fn query(ip: &str) -> String {
    format!("ffffffffffff02000000000108060001080006040001020000000001010000010000000000 00{ip}")
        .replace(' ', "")
}

#[test]
fn packets_wait_for_the_reply() {
    let to = ["1.0.0.2", "1.0.0.2", "1.0.0.3"];
    let mut run = querier("", &to, "wait 0.05, write r.active true, wait 0.05");
    run.run();
    assert_eq!(run.read("asked.packets"), [query("01000002"), query("01000003")].join("\n"));
    let header = "0200000000020200000000010800";
    assert_eq!(run.read("out.packets"), format!("{header}4500\n{header}4501"));
    assert_eq!(run.read("q.length"), "1");
    let table = run.read("q.table");
    assert!(table.contains("1.0.0.2 1 02-00-00-00-00-02 0.05"), "{table}");
    assert!(table.contains("1.0.0.3 0 FF-FF-FF-FF-FF-FF 0.1"), "{table}");
    assert_eq!(run.read("q.stats"), "0 packets killed\n2 ARP queries sent\n");
    assert_eq!((run.read("q.responses"), run.read("q.spoofed")), ("1".into(), "0".into()));
}

#[test]
fn groups_need_no_query_and_nothing_is_dropped() {
    let to = ["255.255.255.255", "1.0.0.255", "224.129.2.3", "0.0.0.0"];
    let mut run = querier("", &to, "wait 0.05");
    run.run();
    let broadcast = "ffffffffffff0200000000010800";
    let expected = format!("{broadcast}4500\n{broadcast}4501\n01005e0102030200000000010800 4502");
    assert_eq!(run.read("out.packets"), expected.replace(' ', ""));
    assert_eq!((run.read("asked.packets"), run.read("q.drops")), (String::new(), "1".into()));
    assert!(run.output().contains("q :: ARPQuerier: would query for 0.0.0.0;"));
}

#[test]
fn waiting_packets_are_bounded() {
    let to = ["1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5", "1.0.0.2"];
    for (config, length, killed) in
        [(", CAPACITY 4", 2, 3), (", ENTRY_PACKET_CAPACITY 1", 4, 1), (", CAPACITY 1", 1, 4)]
    {
        let mut run = querier(config, &to, "wait 0.05");
        run.run();
        assert_eq!(run.read("q.length"), length.to_string(), "{config}");
        let stats = format!("{killed} packets killed\n4 ARP queries sent\n");
        assert_eq!(run.read("q.stats"), stats, "{config}");
    }
}

#[test]
fn a_scan_does_not_displace_neighbours() {
    let to = ["1.0.0.20", "1.0.0.21", "1.0.0.22", "1.0.0.23"];
    let mut run = querier(", ENTRY_CAPACITY 3", &to, "wait 0.05");
    run.write("q.insert", "1.0.0.9 2:0:0:0:0:9").unwrap();
    run.run();
    assert_eq!(run.read("q.count"), "3");
    assert!(run.read("q.table").starts_with("1.0.0.9 1 "));
}

#[test]
fn forged_replies_are_counted_and_refused_when_asked_to() {
    for (config, mac, spoofed) in [("", "FF", 1), (", UNSOLICITED false", "02", 1)] {
        let script = "wait 0.05, write r.active true, wait 0.05, write f.active true, wait 0.05";
        let mut run = querier(config, &["1.0.0.2"], script);
        run.run();
        let table = run.read("q.table");
        assert!(table.starts_with(&format!("1.0.0.2 1 02-00-00-00-00-{mac}")), "{table}");
        assert_eq!(run.read("q.spoofed"), spoofed.to_string(), "{config}");
    }
}

/// As Click has it, unless replies that were not asked for are refused.
#[test]
fn replies_for_the_own_address_and_for_groups_are_learnt() {
    for (config, entries) in [("", 2), (", UNSOLICITED false", 0)] {
        let reply = |from: &str| {
            format!(
                "InfiniteSource(LIMIT 1, DATA \\<ffffffffffff 020000000009 0806 0001 0800 0604 0002
                    020000000009 {from} 020000000001 0a000009>) -> [1] q;"
            )
        };
        let mut run = Run::new(&format!(
            "q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1{config}); Idle -> q -> Discard;
            {} {} DriverManager(wait 0.1s, stop);",
            reply("0a000001"),
            reply("e0000005")
        ));
        run.run();
        let table = run.read("q.table");
        assert_eq!(table.lines().count(), entries, "{table}");
        assert_eq!(run.read("q.spoofed"), "2", "{config}");
    }
}

#[test]
fn addresses_are_asked_for_again_and_forgotten() {
    let text = "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, POLL_TIMEOUT 2, TIMEOUT 5);
         TimedSource(0.5, \\<4500>) -> Destination(1.0.0.2) -> q -> out :: Collect;
         Idle -> [1] q; q [1] -> asked :: Collect; Script(wait 5.9, stop);";
    let mut run = Run::new(text);
    run.write("q.insert", "1.0.0.2 2:0:0:0:0:2").unwrap();
    run.run();
    let queries = run.read("asked.packets");
    let (polls, lost): (Vec<&str>, Vec<&str>) =
        queries.lines().partition(|query| query.starts_with("0200000000020200"));
    // From 2 s to 5 s, and then by broadcast.
    assert_eq!((polls.len(), lost.len()), (7, 1), "{queries}");
    assert_eq!(run.read("out.lengths").lines().count(), 10);
    assert_eq!(run.read("q.length"), "1");
}

#[test]
fn queriers_share_a_table() {
    let mut run = Run::new(
        "t :: ARPTable; a :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, TABLE t) -> Discard; Idle -> a;
         Idle -> [1] a; b :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, TABLE t) -> out :: Collect;
         Idle -> [1] b; b [1] -> Discard; a [1] -> Discard;
         InfiniteSource(DATA \\<4500>, LIMIT 1) -> Destination(1.0.0.2) -> b;
         Script(wait 0.05, write a.insert 1.0.0.2 2:0:0:0:0:2, wait 0.05, stop)",
    );
    run.run();
    assert_eq!(run.read("t.count"), "1");
    assert_eq!(run.read("b.table"), run.read("t.table"));
    assert_eq!(run.read("t.length"), "1", "it waits for a reply");
    run.write("t.clear", "").unwrap();
    assert_eq!((run.read("t.length"), run.read("t.drops")), ("0".into(), "1".into()));
}

/// Answers to one worker are for packets that wait on another.
#[test]
fn workers_share_learnt_addresses() {
    let mut run = Run::new(&format!(
        "q :: ARPQuerier(1.0.0.1/24, 2:0:0:0:0:1) -> out :: Counter -> Discard;
         StaticThreadSched(i 0, r 1); i :: TimedSource(0.005, \\<4500>) -> Destination(1.0.0.2) -> q;
         r :: TimedSource(0.1, \\<{}>) -> [1] q; q [1] -> asked :: Counter -> Discard;
         DriverManager(wait 1s, stop);",
        reply("020000000002", "01000002"),
    ))
    .workers(2);
    run.run();
    assert!(run.read("q.table").starts_with("1.0.0.2 1 02-00-00-00-00-02"));
    assert_eq!(run.read("q.length"), "0");
    let [sent, asked, responses] = ["out.count", "asked.count", "q.responses"]
        .map(|name| run.read(name).parse::<u64>().unwrap());
    assert!(sent > 10 && asked >= 1 && responses >= 1, "{sent} {asked} {responses}");
}

/// With a third output it is asked three times, a second apart, and waiting packets come back as
/// they were; a neighbour asked for then is new. Without one there is one query, and packets wait.
#[test]
fn a_silent_neighbour_is_given_up_by_the_third_output() {
    let config = |outputs: &str| {
        format!(
            "q :: ARPQuerier(1.0.0.1/24, 2:0:0:0:0:1); Idle -> [1] q;
             InfiniteSource(DATA \\<4500>, LIMIT 1) -> to :: Destination(1.0.0.2) -> q;
             InfiniteSource(DATA \\<4501>, LIMIT 1) -> to;
             later :: InfiniteSource(DATA \\<4502>, LIMIT 1, ACTIVE false) -> to;
             q [0] -> out :: Collect; q [1] -> asked :: Collect; {outputs}
             Script(wait 10s, write later.active true, wait 0.1s, stop);"
        )
    };
    let mut run = Run::new(&config("q [2] -> back :: Collect;"));
    run.run();
    assert_eq!(run.read("asked.packets"), vec![query("01000002"); 4].join("\n"));
    let times = run.read("asked.times");
    let times: Vec<u64> = times.lines().map(|time| time.parse().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1_000_000_000), "{times:?}");
    assert_eq!(
        (run.read("back.packets"), run.read("out.packets")),
        ("4500\n4501".into(), "".into())
    );
    assert_eq!((run.read("q.count"), run.read("q.length")), ("1".into(), "1".into()));
    assert_eq!(run.read("q.stats"), "0 packets killed\n4 ARP queries sent\n");

    let mut run = Run::new(&config(""));
    run.run();
    assert_eq!(run.read("asked.packets"), vec![query("01000002"); 2].join("\n"));
    assert_eq!(run.read("q.length"), "3");
}

thread_local! {
    /// Lookups of this thread in a table.
    pub(super) static RESOLVED: Cell<usize> = const { Cell::new(0) };
}

/// For any number of neighbours with any addresses, each is asked for once. Two in one place of an
/// array of 1,024 took a lock for every packet.
#[test]
fn neighbours_in_use_are_remembered_however_many_there_are() {
    use std::fmt::Write as _;

    const NEIGHBOURS: usize = 3000;
    for frame_limit in [1, 7, 32, 256] {
        let mut packets = String::new();
        for n in 0..NEIGHBOURS {
            let rest = "000000000000000000000000000000";
            write!(packets, " 45{rest}0a{:02x}{:02x}01", n >> 8, n & 0xff).unwrap();
        }
        let mut run = Run::new(&format!(
            "Packets({packets}{packets}{packets}) -> GetIPAddress(16)
             -> q :: ARPQuerier(10.255.0.1/8, 2:0:0:0:0:1) -> out :: Counter -> Discard;
             Idle -> [1] q; q [1] -> asked :: Counter -> Discard;"
        ))
        .frame_limit(frame_limit)
        .with(&[&CLASS]);
        for n in 0..NEIGHBOURS {
            let neighbour =
                format!("10.{}.{}.1 2:0:0:1:{:x}:{:x}", n >> 8, n & 0xff, n >> 8, n & 0xff);
            run.write("q.insert", &neighbour).unwrap();
        }
        let before = RESOLVED.get();
        run.run();
        assert_eq!(run.read("out.count"), (3 * NEIGHBOURS).to_string());
        assert_eq!(run.read("asked.count"), "0");
        assert_eq!(RESOLVED.get() - before, NEIGHBOURS, "at frames of {frame_limit}");
    }
}

/// As in Click: a neighbour that gets old is asked for before the packet that shows it goes.
#[test]
fn a_poll_goes_before_the_packet_it_is_for() {
    for frame_limit in [1, 7, 32, 256] {
        let mut run = Run::new(
            "q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, POLL_TIMEOUT 2);
             s :: InfiniteSource(LIMIT 2, ACTIVE false) -> UDPIPEncap(10.0.0.1, 5, 10.0.0.2, 6)
                -> q;
             q -> Print(ip, MAXLENGTH 0) -> Discard; q[1] -> Print(arp, MAXLENGTH 0) -> Discard;
             Idle -> [1] q;
             Script(write q.insert 10.0.0.2 2:0:0:0:0:2, wait 3s, write s.active true, wait 1ms,
                stop)",
        )
        .frame_limit(frame_limit);
        run.run();
        let lines: Vec<String> =
            run.output().lines().map(|line| line.split(':').next().unwrap_or("").into()).collect();
        assert_eq!(lines, ["arp", "ip", "ip"], "frames of {frame_limit}");
    }
}

/// Packets to neighbours that are known and that are not, and the queries for these, come to one
/// element in the order of packets one at a time.
#[test]
fn packets_and_queries_keep_their_order() {
    let order = |frame_limit| {
        let packet = |host: u8| format!("45{:030}0a0000{host:02x}", 0);
        let packets = [2, 3, 4, 2, 5, 3, 4, 2].map(packet).join(" ");
        let mut run = Run::new(&format!(
            "Packets({packets})
                -> GetIPAddress(16) -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1) -> c :: Collect;
             q[1] -> Null -> Null -> c; Idle -> [1] q;"
        ))
        .frame_limit(frame_limit);
        for host in [2, 4] {
            run.write("q.insert", &format!("10.0.0.{host} 2:0:0:0:0:{host}")).unwrap();
        }
        run.run();
        run.read("c.packets")
    };
    let single = order(1);
    assert_eq!(single.lines().count(), 7, "{single}");
    for frame_limit in [2, 7, 32, 256] {
        assert_eq!(order(frame_limit), single, "frames of {frame_limit}");
    }
}

/// Ages as Click's `table` has them, where an entry has had its time and is still wanted.
#[test]
fn entries_that_are_wanted_again_are_as_old_as_they_may_be() {
    for frame_limit in [1, 7, 32, 256] {
        let mut run = Run::new(
            "q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TIMEOUT 2);
             s :: InfiniteSource(LIMIT 1, ACTIVE false) -> UDPIPEncap(10.0.0.1, 5, 10.0.0.2, 6) -> q;
             q -> Discard; q[1] -> Discard; Idle -> [1] q;
             Script(write q.insert 10.0.0.2 2:0:0:0:0:2, wait 1s, print q.table,
                 write q.insert 10.0.0.3 2:0:0:0:0:3, wait 1.5s,
                 write s.active true, wait 0.25s, print q.table, stop)",
        )
        .frame_limit(frame_limit);
        run.run();
        let expected = "10.0.0.2 1 02-00-00-00-00-02 1.000000 \
            10.0.0.2 0 02-00-00-00-00-02 2.250000 10.0.0.3 1 02-00-00-00-00-03 1.750000";
        assert_eq!(run.output().split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }
}

/// Click 2.1's output.
#[test]
fn an_expired_entry_has_its_greatest_age_with_every_packet() {
    for frame_limit in [1, 256] {
        let mut run = Run::new(
            "t :: ARPTable(TIMEOUT 2, ENTRY_CAPACITY 2);
             q :: ARPQuerier(1.0.0.9, 2:0:0:0:0:9, TABLE t); Idle -> [1] q; q -> Discard;
             RatedSource(DATA \\<4500001400000000ff110000 01000009 01000003>, RATE 4, LIMIT 30)
                -> MarkIPHeader -> GetIPAddress(16) -> q;
             Script(write t.insert 1.0.0.3 2:0:0:0:0:c, wait 2.6s, print t.table, wait 0.9s,
                print t.table, wait 1s, print t.table, stop)",
        )
        .frame_limit(frame_limit);
        run.run();
        let line = "1.0.0.3 0 02-00-00-00-00-0C 2.";
        assert_eq!(
            run.output(),
            format!("{line}099000\n\n{line}249000\n\n{line}249000\n\n").replace("\n\n", "\n")
        );
    }
}
