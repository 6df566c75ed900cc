use proptest::prelude::*;
use smoltcp::{
    phy::ChecksumCapabilities,
    wire::{Icmpv6Packet, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr, RawHardwareAddress},
};

use super::*;
use crate::testing::Run;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const THEIRS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHERS: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xff]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn bytes(message: &Message, to: MacAddr) -> Vec<u8> {
    let mut bytes = vec![0; message.length()];
    message.write(to, &mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An advertisement of `2001:db8::2` to `2001:db8::1`.
fn advertisement(flags: u8, mac: MacAddr) -> Message {
    Message {
        what: MessageType::Advertisement { flags },
        source: ip("2001:db8::2"),
        destination: ip("2001:db8::1"),
        target: ip("2001:db8::2"),
        mac: Some(mac),
        sender: mac,
    }
}

/// A question of `2001:db8::2` for `2001:db8::1`.
fn solicitation() -> Message {
    Message {
        what: MessageType::Solicitation,
        source: ip("2001:db8::2"),
        destination: ip("ff02::1:ff00:1"),
        target: ip("2001:db8::1"),
        mac: Some(THEIRS),
        sender: THEIRS,
    }
}

fn probe(sender: MacAddr) -> Message {
    Message { source: Ipv6Addr::UNSPECIFIED, mac: None, sender, ..solicitation() }
}

proptest! {
    /// smoltcp reads our messages, checksum included, and we read its messages.
    #[test]
    fn messages_are_those_of_smoltcp(
        addresses: [u128; 3],
        mac in any::<Option<[u8; 6]>>(),
        flags in prop::option::of(0u8..8),
    ) {
        // Not to groups, which not all messages may be to.
        let [source, destination, target] = addresses.map(|it| Ipv6Addr::from_bits(it >> 1 | 1));
        let mac = mac.map(|[first, rest @ .., last]| {
            let [b, c, d, e] = rest;
            MacAddr([first & !1, b, c, d, e, last | 1])
        });
        let what = match flags {
            None => MessageType::Solicitation,
            Some(flags) => MessageType::Advertisement { flags: flags << 5 },
        };
        let ours = Message { what, source, destination, target, mac, sender: OURS };
        let frame = bytes(&ours, THEIRS);
        prop_assert_eq!(Message::parse(&frame), Some(ours));

        let lladdr = mac.map(|mac| RawHardwareAddress::from_bytes(&mac.0));
        let theirs = Icmpv6Repr::Ndisc(match flags {
            None => NdiscRepr::NeighborSolicit { target_addr: target, lladdr },
            Some(flags) => NdiscRepr::NeighborAdvert {
                flags: NdiscNeighborFlags::from_bits_truncate(flags << 5),
                target_addr: target,
                lladdr,
            },
        });
        let capabilities = ChecksumCapabilities::default();
        let read = Icmpv6Packet::new_checked(&frame[HEADER + LEAST..]).unwrap();
        let read = Icmpv6Repr::parse(&source, &destination, &read, &capabilities);
        prop_assert_eq!(read.unwrap(), theirs);
        let mut written = vec![0; theirs.buffer_len()];
        let mut packet = Icmpv6Packet::new_unchecked(&mut written);
        theirs.emit(&source, &destination, &mut packet, &capabilities);
        prop_assert_eq!(&written[..], &frame[HEADER + LEAST..]);
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Message::parse(&bytes);
    }
}

/// RFC 4861 sections 7.1.1 and 7.1.2.
#[test]
fn messages_that_must_not_be_looked_at_are_not() {
    let refused = |what: &str, message: Message, spoil: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = bytes(&message, OURS);
        spoil(&mut frame);
        let (header, icmp) = frame[HEADER..].split_at_mut(LEAST);
        if what != "checksum" && !icmp.is_empty() {
            super::super::header::fill_checksum(header, 58, icmp, ICMP_CHECKSUM);
        }
        assert_eq!(Message::parse(&frame), None, "{what}");
    };
    let (asked, answer) = (solicitation(), advertisement(SOLICITED, THEIRS));
    for message in [asked, answer] {
        assert!(Message::parse(&bytes(&message, OURS)).is_some());
        refused("hop limit", message, &|frame| frame[21] = 254);
        refused("checksum", message, &|frame| frame[57] ^= 1);
        refused("code", message, &|frame| frame[55] = 1);
        refused("no length", message, &|frame| frame[79] = 0);
        refused("beyond the end", message, &|frame| frame[79] = 2);
        refused("target is a group", message, &|frame| frame[62] = 0xff);
        refused("type", message, &|frame| frame[54] = 137);
        refused("no IPv6", message, &|frame| frame[12] = 8);
        refused("cut off", message, &|frame| frame.truncate(85));
        let short = |frame: &mut Vec<u8>| {
            frame.truncate(77);
            frame[19] = 23;
        };
        refused("too short", message, &short);
        let group = MacAddr([3, 0, 0, 0, 0, 1]);
        refused("no host", Message { mac: Some(group), ..message }, &|_| {});
    }
    let nobody = Message { source: Ipv6Addr::UNSPECIFIED, ..asked };
    refused("nobody says where it is", nobody, &|_| {});
    let single = Message { destination: ip("2001:db8::1"), ..probe(THEIRS) };
    refused("nobody asks one host", single, &|_| {});
    refused("an answer to all", Message { destination: ALL_NODES, ..answer }, &|_| {});
    assert!(Message::parse(&bytes(&probe(THEIRS), OURS)).is_some());
}

fn advertiser(config: &str, message: &Message) -> String {
    let frame = hex(&bytes(message, OURS));
    let mut run = Run::new(&format!(
        "InfiniteSource(DATA \\<{frame}>, LIMIT 2, STOP true) -> IP6NDAdvertiser({config})
         -> out :: Collect;"
    ));
    run.run();
    let packets = run.read("out.packets");
    packets.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn questions_are_answered() {
    let own = "2001:db8::1/128 2:0:0:0:0:1";
    let answer = Message {
        what: MessageType::Advertisement { flags: ROUTER | SOLICITED | OVERRIDE },
        source: ip("2001:db8::1"),
        destination: ip("2001:db8::2"),
        target: ip("2001:db8::1"),
        mac: Some(OURS),
        sender: OURS,
    };
    assert_eq!(advertiser(own, &solicitation()), hex(&bytes(&answer, THEIRS)));
    // The place of the asker is in its option, or its frame.
    let elsewhere = Message { sender: OTHERS, ..solicitation() };
    assert_eq!(advertiser(own, &elsewhere), hex(&bytes(&answer, THEIRS)));
    let silent = Message { sender: OTHERS, mac: None, ..solicitation() };
    assert_eq!(advertiser(own, &silent), hex(&bytes(&answer, OTHERS)));
    // The addresses of a prefix may be others' too.
    let flags = ROUTER | SOLICITED;
    let proxy = Message { what: MessageType::Advertisement { flags }, ..answer };
    let prefix = "2001:db8::/32 1:1:1:1:1:1, 2001:db8::/64 2:0:0:0:0:1";
    assert_eq!(advertiser(prefix, &solicitation()), hex(&bytes(&proxy, THEIRS)));
    let flags = SOLICITED | OVERRIDE;
    let host = Message { what: MessageType::Advertisement { flags }, ..answer };
    let config = format!("{own}, ROUTER false");
    assert_eq!(advertiser(&config, &solicitation()), hex(&bytes(&host, THEIRS)));
    // A probe has no source address, so the answer goes to all.
    let flags = ROUTER | OVERRIDE;
    let taken =
        Message { what: MessageType::Advertisement { flags }, destination: ALL_NODES, ..answer };
    let all = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(advertiser(own, &probe(THEIRS)), hex(&bytes(&taken, all)));

    for other in ["2001:db8::3 2:0:0:0:0:1", "2001:db8:1::/48 2:0:0:0:0:1", ""] {
        assert_eq!(advertiser(other, &solicitation()), "", "{other}");
    }
    assert_eq!(advertiser(own, &advertisement(SOLICITED, THEIRS)), "");
    assert_eq!(advertiser(own, &probe(OURS)), "", "one's own");
}

#[test]
fn advertised_addresses_can_be_read() {
    let mut run = Run::new(
        "Idle -> a :: IP6NDAdvertiser(2001:db8::/32 ::1 2:0:0:0:0:1, 2001:db8::7 2:0:0:0:0:7)
         -> Discard; Script(print $(a.lookup 2001:db8::7) $(a.lookup 2001:db8::8) \
         x$(a.lookup 2001::), stop)",
    );
    run.run();
    let table = "2001:db8::/32 02-00-00-00-00-01\n::0.0.0.1/128 02-00-00-00-00-01\n\
        2001:db8::7/128 02-00-00-00-00-07\n";
    assert_eq!(run.read("a.table"), table);
    assert_eq!(run.output(), "02-00-00-00-00-07 02-00-00-00-00-01 x\n");
}

/// Runs packets to these addresses, messages that come on demand (`m0`, `m1`, ..), and a script.
fn solicitor(config: &str, to: &[&str], messages: &[(&Message, MacAddr)], script: &str) -> Run {
    let sources: String = (to.iter().enumerate())
        .map(|(at, to)| {
            format!("InfiniteSource(DATA \\<60{at:02}>, LIMIT 1) -> SetIP6Address({to}) -> s;")
        })
        .collect();
    let messages: String = (messages.iter().enumerate())
        .map(|(at, (message, to))| {
            let frame = hex(&bytes(message, *to));
            format!("m{at} :: InfiniteSource(DATA \\<{frame}>, LIMIT 1, ACTIVE false) -> [1] s;")
        })
        .collect();
    let mut run = Run::new(&format!(
        "s :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1{config}); {sources} {messages}
         Idle -> s; Idle -> [1] s; s [0] -> out :: Collect; s [1] -> asked :: Collect;
         Script({script}, stop);"
    ));
    run.run();
    run
}

/// The question for an address, for the first time or when it gets old.
fn question(target: &str, known: Option<MacAddr>) -> String {
    let group_of = solicited_node(ip(target));
    let message = Message {
        what: MessageType::Solicitation,
        source: ip("2001:db8::1"),
        destination: if known.is_some() { ip(target) } else { group_of },
        target: ip(target),
        mac: Some(OURS),
        sender: OURS,
    };
    hex(&bytes(&message, known.unwrap_or(group(group_of))))
}

#[test]
fn packets_wait_for_the_advertisement() {
    let to = ["2001:db8::2", "2001:db8::2", "2001:db8::3"];
    let answer = advertisement(SOLICITED | OVERRIDE, THEIRS);
    let script = "wait 0.05, write m0.active true, wait 0.05";
    let mut run = solicitor("", &to, &[(&answer, OURS)], script);
    let asked = [question("2001:db8::2", None), question("2001:db8::3", None)];
    assert!(asked[0].starts_with("3333ff000002020000000001 86dd".replace(' ', "").as_str()));
    assert_eq!(run.read("asked.packets"), asked.join("\n"));
    let header = "02000000000202000000000186dd";
    assert_eq!(run.read("out.packets"), format!("{header}6000\n{header}6001"));
    let table = run.read("s.table");
    assert!(table.contains("2001:db8::2 1 02-00-00-00-00-02\n"), "{table}");
    assert!(table.contains("2001:db8::3 0 00-00-00-00-00-00\n"), "{table}");
    assert_eq!(run.read("s.stats"), "0 packets killed\n2 ND Solicitation Message sent\n");
    assert_eq!((run.read("s.length"), run.read("s.responses")), ("1".into(), "1".into()));
    assert_eq!(run.read("s.state"), "valid");
}

#[test]
fn groups_need_no_question_and_nowhere_is_dropped() {
    let mut run = solicitor("", &["ff02::1:2", "::"], &[], "wait 0.05");
    assert_eq!(run.read("out.packets"), "33330001000202000000000186dd6000");
    assert_eq!((run.read("asked.packets"), run.read("s.drops")), (String::new(), "1".into()));
}

/// Three questions a second apart, then it is given up.
#[test]
fn a_silent_neighbour_is_given_up_after_three_solicitations() {
    let mut run = solicitor("", &["2001:db8::2", "2001:db8::2"], &[], "wait 10");
    assert_eq!(run.read("asked.packets"), vec![question("2001:db8::2", None); 3].join("\n"));
    let times = run.read("asked.times");
    let times: Vec<u64> = times.lines().map(|time| time.parse().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1_000_000_000), "{times:?}");
    assert_eq!(run.read("s.stats"), "2 packets killed\n3 ND Solicitation Message sent\n");
    assert_eq!((run.read("s.count"), run.read("s.length")), ("0".into(), "0".into()));
}

/// A packet that waits for an expired neighbour is not dropped with the old entry: there is a
/// solicitation at once, and the answer is in time.
#[test]
fn packets_for_an_expired_neighbour_wait() {
    let said = advertisement(SOLICITED | OVERRIDE, THEIRS);
    let frame = hex(&bytes(&said, OURS));
    // In tenths of a second after a whole one, at which expired entries are searched for.
    for later in 1..10 {
        let mut run = Run::new(&format!(
            "s :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1, TIMEOUT 3, POLL_TIMEOUT 2.{later});
             p :: InfiniteSource(DATA \\<6000>, LIMIT 1, ACTIVE false) -> SetIP6Address(2001:db8::2) -> s;
             m :: InfiniteSource(DATA \\<{frame}>, LIMIT 1, ACTIVE false) -> [1] s;
             s [0] -> out :: Collect; s [1] -> asked :: Collect;
             Script(write p.active true, write m.active true, wait 2.{later}s, wait 0.05s,
                    write p.reset, write p.active true, wait 0.9s,
                    write p.reset, write p.active true, wait 1.5s,
                    write m.reset, write m.active true, wait 0.1s, stop);"
        ));
        run.run();
        assert_eq!(run.read("out.packets").lines().count(), 3, "{later}");
        assert_eq!(run.read("s.stats").lines().next(), Some("0 packets killed"), "{later}");
    }
}

/// Packets that waited come back by a third output, unchanged.
#[test]
fn packets_for_a_silent_neighbour_come_back_by_the_third_output() {
    let mut run = Run::new(
        "s :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1); Idle -> [1] s;
         InfiniteSource(DATA \\<6000>, LIMIT 1) -> to :: SetIP6Address(2001:db8::2) -> s;
         InfiniteSource(DATA \\<6001>, LIMIT 1) -> to;
         s [0] -> out :: Collect; s [1] -> asked :: Collect; s [2] -> back :: Collect;
         Script(wait 10s, stop);",
    );
    run.run();
    assert_eq!(run.read("asked.packets"), vec![question("2001:db8::2", None); 3].join("\n"));
    assert_eq!(
        (run.read("back.packets"), run.read("out.packets")),
        ("6000\n6001".into(), "".into())
    );
    assert_eq!(run.read("s.stats"), "0 packets killed\n3 ND Solicitation Message sent\n");
    assert_eq!((run.read("s.count"), run.read("s.length")), ("0".into(), "0".into()));
}

#[test]
fn waiting_packets_are_bounded() {
    let to = ["2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5", "2001:db8::2"];
    for (config, length, killed) in
        [(", CAPACITY 4", 2, 3), (", ENTRY_PACKET_CAPACITY 1", 4, 1), (", ENTRY_CAPACITY 2", 2, 3)]
    {
        let mut run = solicitor(config, &to, &[], "wait 0.05");
        assert_eq!(run.read("s.length"), length.to_string(), "{config}");
        let stats = run.read("s.stats");
        assert!(stats.starts_with(&format!("{killed} packets killed\n")), "{config} {stats}");
    }
}

/// RFC 4861 section 7.2.5.
#[test]
fn only_overriding_advertisements_change_an_entry() {
    let to = ["2001:db8::2"];
    let first = advertisement(SOLICITED, THEIRS);
    let script = "wait 0.05, write m0.active true, wait 0.05, write m1.active true, wait 0.05";
    for (flags, mac, spoofed) in
        [(SOLICITED, "02", 0), (OVERRIDE, "FF", 1), (SOLICITED | OVERRIDE, "FF", 1), (0, "02", 0)]
    {
        let second = advertisement(flags, OTHERS);
        let mut run = solicitor("", &to, &[(&first, OURS), (&second, OURS)], script);
        let table = format!("2001:db8::2 1 02-00-00-00-00-{mac}\n");
        assert_eq!(run.read("s.table"), table, "{flags:x}");
        assert_eq!(run.read("s.spoofed"), spoofed.to_string());
    }
    // Without an address there is nothing to be known yet.
    let nothing = Message { mac: None, ..advertisement(SOLICITED | OVERRIDE, THEIRS) };
    let mut run = solicitor("", &to, &[(&nothing, OURS), (&nothing, OURS)], script);
    assert_eq!(run.read("s.table"), "2001:db8::2 0 00-00-00-00-00-00\n");
    // No packets go to it.
    let mut run = solicitor("", &[], &[(&first, OURS), (&first, OURS)], script);
    assert_eq!((run.read("s.count"), run.read("s.responses")), ("0".into(), "2".into()));
}

#[test]
fn a_soliciting_neighbour_is_learnt() {
    let script = "wait 0.05, write m0.active true, wait 0.05";
    let mut run = solicitor("", &["2001:db8::2"], &[(&solicitation(), OURS)], script);
    assert_eq!(run.read("s.table"), "2001:db8::2 1 02-00-00-00-00-02\n");
    assert_eq!(run.read("out.packets"), "02000000000202000000000186dd6000");
}

#[test]
fn neighbours_are_asked_again_and_forgotten() {
    let mut run = Run::new(
        "s :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1, POLL_TIMEOUT 2, TIMEOUT 5);
         TimedSource(0.5, \\<6000>) -> SetIP6Address(2001:db8::2) -> s -> out :: Collect;
         Idle -> [1] s; s [1] -> asked :: Collect; Script(wait 5.9, stop);",
    );
    run.write("s.insert", "2001:db8::2 2:0:0:0:0:2").unwrap();
    run.run();
    let asked = run.read("asked.packets");
    let (polls, lost): (Vec<&str>, Vec<&str>) =
        asked.lines().partition(|asked| *asked == question("2001:db8::2", Some(THEIRS)));
    assert_eq!(lost, [question("2001:db8::2", None)]);
    assert!((2..=3).contains(&polls.len()), "{polls:?}");
    assert_eq!(run.read("s.length"), "1");
}

#[test]
fn nothing_is_asked_before_the_address_is_known_to_be_free() {
    let mut run = solicitor(", DAD 2", &["2001:db8::2"], &[], "wait 1.5");
    assert_eq!((run.read("s.state"), run.read("s.length")), ("tentative".into(), "1".into()));
    let to = solicited_node(ip("2001:db8::1"));
    let probe = hex(&bytes(&probe(OURS), group(to)));
    assert_eq!(run.read("asked.packets").lines().next(), Some(&*probe));

    let mut run = solicitor(", DAD 2", &["2001:db8::2"], &[], "wait 3.2");
    assert_eq!(run.read("s.state"), "valid");
    let expected = [probe.clone(), probe, question("2001:db8::2", None)].join("\n");
    assert!(run.read("asked.packets").starts_with(&expected));
    assert_eq!(run.read("s.length"), "1");
}

#[test]
fn a_duplicate_address_is_not_used() {
    let taken = Message {
        source: ip("2001:db8::1"),
        destination: ALL_NODES,
        target: ip("2001:db8::1"),
        ..advertisement(OVERRIDE, THEIRS)
    };
    // Another host has it, or probes for it at the same time.
    for claim in [taken, probe(THEIRS)] {
        let script = "wait 1.1, write m0.active true, wait 3";
        let mut run = solicitor(", DAD 1", &["2001:db8::2"], &[(&claim, OURS)], script);
        assert_eq!(run.read("s.state"), "duplicate");
        assert_eq!(run.read("asked.lengths"), "78", "the probe");
        let told = "s :: IP6NDSolicitor: another host has the address 2001:db8::1, which is not \
            used\n";
        assert_eq!(run.output(), told);
    }
    // One's own probe that comes back means nothing.
    let script = "wait 1.1, write m0.active true, wait 3";
    let mut run = solicitor(", DAD 1", &[], &[(&probe(OURS), OURS)], script);
    assert_eq!(run.read("s.state"), "valid");
    // One that is in use stays so.
    let mut run = solicitor("", &[], &[(&taken, OURS)], script);
    assert_eq!((run.read("s.state"), run.read("s.spoofed")), ("valid".into(), "1".into()));
    assert_eq!(run.output(), "s :: IP6NDSolicitor: another host has the address 2001:db8::1\n");
}

/// An answer learnt by one worker serves packets that wait on another.
#[test]
fn workers_share_learnt_addresses() {
    let answer = hex(&bytes(&advertisement(SOLICITED, THEIRS), OURS));
    let mut run = Run::new(&format!(
        "s :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1) -> out :: Counter -> Discard;
         StaticThreadSched(i 0, r 1);
         i :: TimedSource(0.005, \\<6000>) -> SetIP6Address(2001:db8::2) -> s;
         r :: TimedSource(0.1, \\<{answer}>) -> [1] s; s [1] -> Discard;
         DriverManager(wait 1s, stop);"
    ))
    .workers(2);
    run.run();
    assert_eq!(run.read("s.table"), "2001:db8::2 1 02-00-00-00-00-02\n");
    assert_eq!(run.read("s.length"), "0");
    assert!(run.read("out.count").parse::<u64>().unwrap() > 10);
}
