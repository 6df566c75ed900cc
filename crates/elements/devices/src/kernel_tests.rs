//! Elements on network interfaces, in network namespaces of the tests' own.

use std::{
    net::UdpSocket,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use linerate_graph::{Class, Context, Control, Element};
use linerate_memory::{FRAME_DEFAULT, Frame};
use linerate_test_support::{Lab, Namespace, wait_until};

use crate::testing::Run;

const PATIENCE: Duration = Duration::from_secs(20);

/// Fails at a packet without a time.
pub(super) const TIMESTAMPED: Class = Class {
    name: "Timestamped",
    ports: "1/1",
    annotates: true,
    make: |_| Box::new(Timestamped),
    ..Class::here()
};

struct Timestamped;

impl Element for Timestamped {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        for meta in frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot)) {
            assert_ne!(meta.timestamp, 0);
        }
    }
}

/// Runs a configuration in a namespace while `meanwhile` does something, then
/// reads handlers of it.
fn run_in(
    space: &Namespace,
    text: &str,
    meanwhile: impl FnOnce(&Control),
    handlers: &[&str],
) -> (Vec<String>, String) {
    run_limited_in(space, text, FRAME_DEFAULT, meanwhile, handlers)
}

/// Likewise with other frames.
fn run_limited_in(
    space: &Namespace,
    text: &str,
    frame_limit: usize,
    meanwhile: impl FnOnce(&Control),
    handlers: &[&str],
) -> (Vec<String>, String) {
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            space.enter(move || {
                let mut run = Run::new(text).frame_limit(frame_limit).real_time();
                sender.send(run.control()).expect("the test waits for it");
                run.run();
                let answers = handlers.iter().map(|handler| run.read(handler)).collect();
                (answers, run.output())
            })
        });
        if let Ok(control) = receiver.recv() {
            let outcome = catch_unwind(AssertUnwindSafe(|| meanwhile(&control)));
            control.stop();
            outcome.unwrap_or_else(|panic| resume_unwind(panic));
        }
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn count(control: &Control, element: &str) -> u64 {
    let answer = control.read(&format!("{element}.count"), "");
    answer.expect("a count").parse().expect("a number")
}

/// Two hosts on either side of a router.
fn line(lab: &Lab) -> [Namespace; 3] {
    let spaces = [lab.namespace("a"), lab.namespace("r"), lab.namespace("b")];
    let [a, router, b] = &spaces;
    lab.veth(a, "eth", router, "left");
    lab.veth(b, "eth", router, "right");
    a.add_address("eth", "10.1.0.1/24");
    b.add_address("eth", "10.1.0.2/24");
    for (space, interface) in [(a, "eth"), (b, "eth"), (router, "left"), (router, "right")] {
        space.link_up(interface);
    }
    spaces
}

#[test]
#[ignore = "needs root"]
fn devices_carry_a_ping_there_and_back() {
    for arguments in ["", ", METHOD LINUX, BURST 8", ", SNIFFER false", ", METHOD XDP"] {
        let lab = Lab::new();
        let [a, router, _b] = line(&lab);
        let text = format!(
            "l :: FromDevice(left{arguments}) -> Queue -> ToDevice(right);
             r :: FromDevice(right{arguments}) -> Queue -> ToDevice(left)"
        );
        let ping = |control: &Control| {
            a.expect(["ping", "-c", "5", "-i", "0.1", "-W", "5", "10.1.0.2"]);
            assert!(count(control, "l") >= 5 && count(control, "r") >= 5);
        };
        let (answers, _) = run_in(&router, &text, ping, &["l.uri", "r.kernel_drops"]);
        let xdp = arguments.contains("XDP") || arguments.contains("false");
        assert!(answers[0].starts_with(if xdp { "xdp:left" } else { "packet:left" }));
        assert_eq!(answers[1], "0");
    }
}

/// Sends frames, given as hexadecimal digits, in one burst.
fn send(space: &Namespace, interface: &str, frames: &[String]) {
    let frames = frames.join(" ");
    space.enter(|| Run::new(&format!("Packets({frames}) -> ToPort(packet:{interface})")).run());
}

/// Answers are libpcap's on a live interface, where the outer tag is beside a frame.
#[test]
#[ignore = "needs root"]
fn filters_of_devices_have_tags_beside_packets() {
    let frame = |tags: &str, protocol: u8| {
        let packet = format!("4500002e0000000040{protocol:02x}{}", "00".repeat(36));
        format!("{}{tags}0800{packet}", "02".repeat(12))
    };
    let (seven, eight) = ("81000007", "81000008");
    let both = format!("{eight}{seven}");
    let sent = [("", 17), (seven, 17), (seven, 6), (both.as_str(), 17), (eight, 17), ("", 132)];
    let frames: Vec<String> = sent.iter().map(|(tags, protocol)| frame(tags, *protocol)).collect();
    let lab = Lab::new();
    let [a, router, _b] = line(&lab);
    for arguments in ["", ", SNIFFER false"] {
        for (expression, wanted) in [
            ("udp and vlan", "2"),
            ("udp", "3"),
            ("vlan and vlan and udp", "1"),
            ("vlan 7", "2"),
            ("ether proto 0x8100", "1"),
        ] {
            let text = format!(
                "FromDevice(left, BPF_FILTER \"ip proto 132 or ({expression})\"{arguments})
                    -> k :: Classifier(12/0800 23/84, -) -> last :: Counter -> Discard;
                 k [1] -> c :: Counter -> Discard"
            );
            let sends = |control: &Control| {
                send(&a, "eth", &frames);
                assert!(wait_until(|| count(control, "last") == 1, PATIENCE), "{expression}");
            };
            let (answers, _) = run_in(&router, &text, sends, &["c.count"]);
            assert_eq!(answers, [wanted], "{expression}{arguments}");
        }
    }
}

/// Ten rounds of a broadcast, a multicast, and a frame to one station: by turns
/// `own` and another.
fn addressed(own: [u8; 6]) -> Vec<String> {
    let own: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
    let one = |round| if round % 2 == 0 { own.as_str() } else { "020000000099" };
    let to = (0..10).flat_map(|round| ["ffffffffffff", "01005e000001", one(round)]);
    to.map(|to| format!("{to}02000000000188b5{}", "00".repeat(46))).collect()
}

/// Click 2.1 on the same frames, by `METHOD LINUX`, with and without `PROMISC`:
/// 10 counted, 20 dropped.
#[test]
#[ignore = "needs root"]
fn broadcasts_of_the_link_are_known_behind_a_device() {
    let lab = Lab::new();
    let [a, router, _b] = line(&lab);
    let frames = addressed(router.mac("left"));
    for arguments in ["", ", PROMISC true", ", TIMESTAMP false", ", METHOD XDP"] {
        for frame_limit in [1, 7, 32, 256] {
            let text = format!(
                "f :: FromDevice(left{arguments}) -> only :: Classifier(12/88b5) -> d :: DropBroadcasts
                    -> c :: Counter -> Discard; d[1] -> gone :: Counter -> Discard"
            );
            let sends = |control: &Control| {
                send(&a, "eth", &frames);
                let all = || count(control, "c") + count(control, "gone") == 30;
                assert!(wait_until(all, PATIENCE), "{}", count(control, "f"));
            };
            let handlers = ["c.count", "gone.count"];
            let (answers, _) = run_limited_in(&router, &text, frame_limit, sends, &handlers);
            assert_eq!(answers, ["10", "20"], "{arguments} {frame_limit}");
        }
    }
}

/// Packets sent by this host have a type of their own.
#[test]
#[ignore = "needs root"]
fn packets_of_this_host_are_no_broadcasts() {
    let lab = Lab::new();
    let [_a, router, _b] = line(&lab);
    let frames = addressed(router.mac("left"));
    let text = "FromDevice(left, OUTBOUND true) -> Classifier(12/88b5) -> d :: DropBroadcasts
        -> c :: Counter -> Discard";
    let sends = |control: &Control| {
        send(&router, "left?qdisc=on", &frames);
        assert!(wait_until(|| count(control, "c") == 30, PATIENCE), "{}", count(control, "c"));
    };
    run_in(&router, text, sends, &[]);
}

#[test]
#[ignore = "needs root"]
fn devices_of_other_frameworks_carry_a_ping_there_and_back() {
    let info = "DeviceInfo(0 packet:left, 1 packet:right); DPDKInfo(65535); NetmapInfo(512);";
    for (from, to, uri) in [
        (
            "FromDPDKDevice(0, PROMISC true, BURST 8)",
            "ToDPDKDevice(1, BLOCKING true)",
            "packet:left",
        ),
        ("FromDPDKDevice(left)", "ToDPDKDevice(right, IQUEUE 64)", "xdp:left"),
        ("FromNetmapDevice(netmap:left, 0)", "Queue -> ToNetmapDevice(netmap:right)", "xdp:left"),
        ("FromNetmapDevice(left)", "ToNetmapDevice(right)", "xdp:left"),
        ("XDPFromDevice(DEV left, MODE skb)", "XDPToDevice(DEV right)", "xdp:left?mode=generic"),
        ("PollDevice(left, 8, PROMISC true)", "Queue -> ToDevice(right)", "xdp:left?promisc=on"),
    ] {
        let lab = Lab::new();
        let [a, router, _b] = line(&lab);
        let turned = |text: &str| {
            let text = text.replace("left", "*").replace("right", "left").replace('*', "right");
            text.replace("DPDKDevice(0", "DPDKDevice(*")
                .replace("DPDKDevice(1", "DPDKDevice(0")
                .replace("DPDKDevice(*", "DPDKDevice(1")
        };
        let text = format!("{info} l :: {from} -> {to}; r :: {} -> {}", turned(from), turned(to));
        let ping = |control: &Control| {
            a.expect(["ping", "-c", "5", "-i", "0.1", "-W", "5", "10.1.0.2"]);
            assert!(count(control, "l") >= 5 && count(control, "r") >= 5);
        };
        let (answers, _) = run_in(&router, &text, ping, &["l.uri"]);
        assert_eq!(answers, [uri]);
    }
}

#[test]
#[ignore = "needs root"]
fn a_port_is_opened_again_when_its_interface_is_back() {
    let lab = Lab::new();
    let [a, router, b] = line(&lab);
    let text = "l :: FromPort(packet:left) -> ToPort(packet:right);
                r :: FromPort(packet:right) -> ToPort(packet:left)";
    let ping = || a.run(["ping", "-c", "1", "-W", "1", "10.1.0.2"]).status.success();
    let meanwhile = |_: &Control| {
        assert!(wait_until(ping, PATIENCE));
        router.delete_link("right");
        assert!(!ping());
        lab.veth(&b, "eth", &router, "right");
        b.add_address("eth", "10.1.0.2/24");
        b.link_up("eth");
        router.link_up("right");
        // The new interface has another address.
        a.ip(["neigh", "flush", "all"]);
        assert!(wait_until(ping, PATIENCE));
    };
    let (_, output) = run_in(&router, text, meanwhile, &[]);
    assert!(output.contains("the interface has gone; waiting for it to come back"), "{output}");
    assert!(output.contains("packet:right: open again"), "{output}");
}

#[test]
#[ignore = "needs root"]
fn a_tap_receives_packets_of_the_stack() {
    let lab = Lab::new();
    let space = lab.namespace("t");
    let text = "tap :: KernelTap(10.9.0.1/24, 10.9.0.2) -> c :: Counter -> Discard";
    let meanwhile = |control: &Control| {
        assert_eq!(space.mac("tap0"), [0, 1, 2, 3, 4, 5]);
        assert!(space.ip(["route"]).contains("default via 10.9.0.2 dev tap0"));
        space.enter(|| {
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            // The stack asks for the address by ARP before it sends.
            socket.send_to(b"hello", "10.9.0.3:9").unwrap();
        });
        assert!(wait_until(|| count(control, "c") > 0, PATIENCE));
    };
    let (answers, _) = run_in(&space, text, meanwhile, &["tap.dev_name"]);
    assert_eq!(answers, ["tap0"]);
}

#[test]
#[ignore = "needs root"]
fn a_tun_carries_ip_packets_both_ways() {
    let lab = Lab::new();
    let space = lab.namespace("t");
    // 10.8.0.2 sends "hello" to UDP port 7777 of 10.8.0.1.
    let packet = "4500002100000000401166ba0a0800020a08000104d21e61000d000068656c6c6f";
    let text = format!(
        "s :: InfiniteSource(DATA \\<{packet}>, LIMIT 1) -> Queue -> tun :: KernelTun(10.8.0.1/24)
            -> c :: Counter -> o :: Collect; tun[1] -> Discard"
    );
    let (sender, receiver) = mpsc::channel();
    let meanwhile = |control: &Control| {
        let heard = space.enter(|| {
            let socket = UdpSocket::bind("10.8.0.1:7777").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(b"hi", "10.8.0.2:9").unwrap();
            // A packet from before the socket was there is lost: ask for another.
            control.write("s.reset", "").unwrap();
            let mut bytes = [0; 100];
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            (bytes[..length].to_vec(), from.to_string())
        });
        sender.send(heard).unwrap();
        assert!(wait_until(|| count(control, "c") > 0, PATIENCE));
    };
    let (answers, _) = run_in(&space, &text, meanwhile, &["o.packets", "tun.counters"]);
    assert_eq!(receiver.recv().unwrap(), (b"hello".to_vec(), "10.8.0.2:1234".into()));
    let sent = answers[0].lines().find(|line| line.ends_with("6869")).expect("the datagram");
    assert!(sent.starts_with("4500001e") && sent.contains("0a0800010a080002"), "{sent}");
}

#[test]
#[ignore = "needs root"]
fn from_host_and_to_host_share_an_interface() {
    let lab = Lab::new();
    let space = lab.namespace("t");
    let plain = "f :: FromHost(fake, 10.7.0.1/24) -> Queue -> Unqueue -> t :: ToHost(fake)";
    let named = "t :: ToHost(fake); f :: FromHost(fake, net) -> Queue -> Unqueue -> t;
        AddressInfo(net 10.7.0.1/24)";
    for text in [plain, named] {
        let meanwhile = |_: &Control| {
            space.enter(|| {
                let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
                socket.send_to(b"hello", "10.7.0.2:9").unwrap();
            });
            // The request for the address comes back to the stack.
            assert!(wait_until(|| space.counters("fake").rx_packets > 0, PATIENCE));
        };
        let (answers, _) = run_in(&space, text, meanwhile, &["f.dev_name", "t.dev_name"]);
        assert_eq!(answers, ["fake", "fake"]);
    }
}

#[test]
#[ignore = "needs root"]
fn a_raw_socket_carries_ip_packets_both_ways() {
    // As above, between addresses of the loopback interface.
    let packet = "4500002100000000401100007f0000027f00000104d21e61000d000068656c6c6f";
    for sockets in [
        "w :: RawSocket(UDP, 5000); q -> w -> c",
        "q -> ToRawSocket(UDP); FromRawSocket(UDP, 5000) -> c",
    ] {
        let lab = Lab::new();
        let space = lab.namespace("w");
        space.link_up("lo");
        let text = format!(
            "s :: InfiniteSource(DATA \\<{packet}>, LIMIT 1) -> q :: Queue; \
             c :: Counter -> o :: Collect; {sockets}"
        );
        let meanwhile = |control: &Control| {
            space.enter(|| {
                assert!(UdpSocket::bind("127.0.0.1:5000").is_err(), "the port is not reserved");
                let socket = UdpSocket::bind("127.0.0.1:7777").unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                control.write("s.reset", "").unwrap();
                let mut bytes = [0; 100];
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                assert_eq!(
                    (&bytes[..length], from.to_string()),
                    (&b"hello"[..], "127.0.0.2:1234".into())
                );
            });
            assert!(wait_until(|| count(control, "c") > 0, PATIENCE));
        };
        let (answers, _) = run_in(&space, &text, meanwhile, &["o.packets"]);
        let got = answers[0].lines().next().expect("the packet");
        assert!(got.starts_with("45000021") && got.ends_with("68656c6c6f"), "{got}");
    }
}

/// As Click's: a time stamp, and no packet type, from each of them.
#[test]
#[ignore = "needs root"]
fn packets_of_the_stack_carry_a_time_stamp() {
    for (element, protocol) in [
        ("KernelTap(10.9.0.1/24, DEVNAME made)", "0/ffffffffffff"),
        (
            "AddressInfo(me 10.9.0.1/24, by 10.9.0.9);
            KernelTap(me, by, DEVNAME made)",
            "0/ffffffffffff",
        ),
        ("AddressInfo(me 10.9.0.1/24); KernelTun(me:ipnet, DEVNAME made)", "0/45"),
        ("AddressInfo(me 10.9.0.1); FromHost(made, me/24)", "0/ffffffffffff"),
        ("KernelTun(10.9.0.1/24, DEVNAME made)", "0/45"),
        ("FromHost(made, 10.9.0.1/24)", "0/ffffffffffff"),
    ] {
        let lab = Lab::new();
        let space = lab.namespace("t");
        let text = format!(
            "{element} -> Classifier({protocol}) -> Timestamped -> d :: DropBroadcasts
                -> c :: Counter -> Discard"
        );
        let sends = |control: &Control| {
            space.enter(|| {
                let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
                socket.send_to(b"hello", "10.9.0.3:9").unwrap();
            });
            assert!(wait_until(|| count(control, "c") > 0, PATIENCE));
        };
        run_in(&space, &text, sends, &[]);
    }
}

/// Click 2.1 counts the packet too: its `FromHost` marks the IP header.
#[test]
#[ignore = "needs root"]
fn packets_from_the_host_have_their_headers_found() {
    let lab = Lab::new();
    let space = lab.namespace("t");
    let text = "FromHost(made, 10.9.0.1/24, ETHER 2:0:0:0:0:1)
        -> i :: IPClassifier(dst host 10.9.0.3 and dst udp port 9, -) -> Strip(14)
        -> rt :: StaticIPLookup(10.9.0.3/32 0, 0/0 1) -> c :: Counter -> Discard;
        rt[1] -> Discard; i[1] -> Discard";
    let sends = |control: &Control| {
        space.ip(["neigh", "replace", "10.9.0.3", "lladdr", "2:0:0:0:0:3", "dev", "made"]);
        space.enter(|| {
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            socket.send_to(b"hello", "10.9.0.3:9").unwrap();
        });
        assert!(wait_until(|| count(control, "c") > 0, PATIENCE));
    };
    run_in(&space, text, sends, &[]);
}

/// A router with the table of the kernel of its namespace.
#[test]
#[ignore = "needs root"]
fn tables_follow_the_host_s_routes() {
    let lab = Lab::new();
    let [_a, router, _b] = line(&lab);
    router.add_address("left", "10.2.0.1/24");
    router.ip(["route", "add", "10.5.0.0/16", "via", "10.2.0.9"]);
    let text = "Idle -> rt :: RadixIPLookup(0/0 2); d :: Discard;
        rt[0] -> d; rt[1] -> d; rt[2] -> d; rt[3] -> d;
        Idle -> st :: LookupIP6Route(::/0 0) -> d; st[1] -> d;
        f :: FollowKernel(rt, left 0, right 1, OTHERS 2, REFUSED 3, ROUTES6 st)";
    let changes = |control: &Control| {
        let leads = |handler: &str, to: &str, expected: &str| {
            let mut last = String::new();
            let found = wait_until(
                || {
                    last = control.read(handler, to).unwrap_or_else(|error| error.to_string());
                    last.trim() == expected
                },
                PATIENCE,
            );
            assert!(found, "{handler} {to}: {last:?} instead of {expected:?}");
        };
        leads("f.complete", "", "true");
        leads("rt.lookup", "10.2.0.77", "0");
        leads("rt.lookup", "10.5.1.1", "0 10.2.0.9");
        leads("rt.lookup", "8.8.8.8", "2");
        router.ip(["route", "add", "10.6.0.0/16", "dev", "right"]);
        leads("rt.lookup", "10.6.1.1", "1");
        router.ip(["route", "replace", "10.6.0.0/16", "via", "10.2.0.8"]);
        leads("rt.lookup", "10.6.1.1", "0 10.2.0.8");
        let (to, via) = ("10.6.0.0/16", "10.2.0.8");
        let [hop, weight] = ["nexthop", "weight"];
        router.ip(["route", "replace", to, hop, "via", via, weight, "3", hop, "dev", "right"]);
        let listed = wait_until(
            || control.read("rt.table", "").is_ok_and(|text| text.contains("- 1 | 10.2.0.8 0*3")),
            PATIENCE,
        );
        assert!(listed, "{:?}", control.read("rt.table", ""));
        router.ip(["route", "replace", "10.6.0.0/16", "via", "10.2.0.8"]);
        leads("rt.lookup", "10.6.1.1", "0 10.2.0.8");
        router.ip(["route", "add", "prohibit", "10.6.7.0/24"]);
        leads("rt.lookup", "10.6.7.1", "3");
        router.ip(["route", "del", "10.6.7.0/24"]);
        leads("rt.lookup", "10.6.7.1", "0 10.2.0.8");
        router.add_address("right", "2001:db8:1::1/64");
        router.ip(["-6", "route", "add", "2001:db8::/32", "dev", "right"]);
        leads("st.lookup", "2001:db8::1", "1");
        // Routes that go with an interface.
        router.link_down("left");
        leads("rt.lookup", "10.5.1.1", "2");
        leads("f.refused", "", "0");
    };
    let (answers, output) = run_in(&router, text, changes, &["f.table", "f.skipped"]);
    assert_eq!(output, "");
    assert!(answers[0].contains("2001:db8::/32 1\n"), "{answers:?}");
}

/// Nothing is dropped where nothing is if packets come one by one, as they do in Click: the
/// receiver of a burst sees the room behind it, and lets the tasks that empty the queue have their
/// turn.
#[test]
#[ignore = "needs root"]
fn bursts_longer_than_a_queue_are_not_dropped_there() {
    const BURST: usize = 150;
    const ROUNDS: usize = 4;
    let lab = Lab::new();
    let [a, router, _b] = line(&lab);
    let frame = format!("ffffffffffff02000000000188b5{}", "00".repeat(46));
    let frames = vec![frame; BURST];
    let burst = |control: &Control| {
        for round in 1..=ROUNDS {
            send(&a, "eth", &frames);
            let all = || count(control, "c") >= (round * BURST) as u64;
            assert!(wait_until(all, PATIENCE), "packets of round {round} were dropped");
        }
    };
    for path in [
        "q :: Queue(8)",
        "Null -> Paint(1) -> q :: Queue(8)",
        "t :: Tee -> q :: Queue(8); t [1] -> r :: Queue(16) -> Discard; q",
        "s :: RoundRobinSwitch -> q :: Queue(8); s [1] -> Null -> q; q",
    ] {
        for frame_limit in [1, 7, 32, 256, 2048] {
            let text = format!(
                "FromDevice(left) -> f :: Classifier(12/88b5, -); f [1] -> Discard;
                 f -> {path} -> c :: Counter -> ToDevice(right)"
            );
            let handlers = ["c.count", "q.drops", "q.highwater_length"];
            let (answers, _) = run_limited_in(&router, &text, frame_limit, burst, &handlers);
            assert_eq!(answers[..2], [(ROUNDS * BURST).to_string(), "0".into()], "{text}");
            assert!(answers[2].parse::<usize>().unwrap() <= 8);
        }
    }
}
