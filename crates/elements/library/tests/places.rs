//! Packets that elements make, replace, hold and let go have the place in a frame of
//! those they come from.
//!
//! Chains of ways that part and meet, with such elements on them, are run with frames of
//! several packets and with single ones: the same packets come out in the same order.

#[path = "common/chains.rs"]
mod chains;

use chains::{Protocol, chain, run};
use linerate_memory::{Arena, ArenaOptions};
use proptest::{prelude::*, test_runner::Config};

thread_local! {
    static ARENA: Arena = {
        let options = ArenaOptions { size: 48 << 20, huge: false, ..Default::default() };
        options.create().expect("48 MiB")
    };
}

/// Compares a configuration under all frame limits; returns the number of packets, or a difference.
fn compare(protocol: Protocol, text: &str) -> Result<usize, String> {
    let run = |frame_limit| ARENA.with(|arena| run(protocol, text, frame_limit, arena));
    let single = run(1);
    for frame_limit in [7, 32, 256, 2048] {
        let frames = run(frame_limit);
        let pairs = single.iter().zip(&frames);
        let at = pairs.take_while(|(one, other)| one == other).count();
        if at < single.len().max(frames.len()) {
            let rest = |packets: &[String]| {
                packets[at.min(packets.len())..packets.len().min(at + 8)].join("\n  ")
            };
            return Err(format!(
                "frames of {frame_limit}: {} packets, not {}; from {at} on\n  {}\nnot\n  \
                 {}\n{text}",
                frames.len(),
                single.len(),
                rest(&frames),
                rest(&single)
            ));
        }
    }
    Ok(single.len())
}

/// Checks that the elements between the source, `v`, and the sink, `out`, keep the order.
fn check(protocol: Protocol, between: &str) {
    let text = format!("InfiniteSource(LIMIT 300) -> v :: Vary; out :: Record; {between}");
    match compare(protocol, &text) {
        Ok(packets) => assert!(packets > 5, "{packets} packets: {text}"),
        Err(difference) => panic!("{difference}"),
    }
}

/// Every second packet goes another way to `out`.
fn check_beside(protocol: Protocol, way: &str) {
    check(
        protocol,
        &format!("v -> r :: RoundRobinSwitch -> Null -> out; r [1] -> Null -> {way} -> out"),
    );
}

#[test]
fn errors() {
    for error in ["unreachable, host", "timeexceeded", "redirect, host"] {
        check_beside(Protocol::Four, &format!("ICMPError(9.0.0.1, {error})"));
    }
    check_beside(Protocol::Six, "ICMP6Error(2001:db8::9, 3, 0)");
    check(Protocol::Four, "v -> d :: DecIPTTL -> out; d [1] -> ICMPError(9.0.0.1, 11) -> out");
    check(
        Protocol::Six,
        "v -> d :: DecIP6HLIM -> out; d [1] -> ICMP6Error(2001:db8::9, 3, 0) -> out",
    );
}

#[test]
fn fragments() {
    check_beside(Protocol::Four, "IPFragmenter(100)");
    check_beside(Protocol::Six, "IP6Fragmenter(150)");
    check(
        Protocol::Four,
        "v -> f :: IPFragmenter(100) -> out; f [1] -> ICMPError(9.0.0.1, 3, 4) -> out",
    );
}

#[test]
fn fragments_of_one_packet_that_part() {
    let part = "-> r :: RoundRobinSwitch -> out; r [1] -> Null -> Null -> out";
    for mtu in [68, 100, 400] {
        check(Protocol::Four, &format!("v -> IPFragmenter({mtu}) {part}"));
    }
    check(Protocol::Six, &format!("v -> IP6Fragmenter(100) {part}"));
    let before = "v -> a :: RoundRobinSwitch -> b :: Null; a [1] -> b";
    check(Protocol::Four, &format!("{before}; b -> IPFragmenter(100) {part}"));
    check(Protocol::Six, &format!("{before}; b -> IP6Fragmenter(100) {part}"));
    let between = "-> c :: RoundRobinSwitch -> d :: Null; c [1] -> Null -> d";
    check(
        Protocol::Four,
        &format!("{before}; b -> IPFragmenter(300) {between}; d -> IPFragmenter(100) {part}"),
    );
}

#[test]
fn packets_put_together() {
    let cut = "v -> IPFragmenter(200) -> r :: RoundRobinSwitch";
    check(
        Protocol::Four,
        &format!("{cut} -> s :: IPReassembler -> out; r [1] -> Null -> Null -> s"),
    );
    check(
        Protocol::Four,
        "v -> IPFragmenter(200) -> c :: CheckLength(150) -> IPReassembler -> out;
         c [1] -> IPReassembler -> Null -> out;",
    );
    check_beside(Protocol::Four, "IPFragmenter(200) -> IPReassembler");
}

#[test]
fn packets_that_wait_for_an_answer() {
    let querier = "v -> q :: ARPQuerier(2.9.9.9/8, 2:0:0:0:0:1) -> out";
    check(Protocol::Four, &format!("{querier}; q [1] -> Null -> out; Idle -> [1] q"));
    let responder = "ARPResponder(2.0.0.0/8 2:0:0:0:0:2)";
    check(Protocol::Four, &format!("{querier}; q [1] -> {responder} -> [1] q"));
    check(
        Protocol::Four,
        "v -> r :: RoundRobinSwitch -> q :: ARPQuerier(2.9.9.9/8, 2:0:0:0:0:1) -> out;
         q [1] -> Null -> Null -> out; r [1] -> Null -> Reply -> [1] q",
    );
    let solicitor = "v -> q :: IP6NDSolicitor(2001:db8::ffff, 2:0:0:0:0:1) -> out";
    check(Protocol::Six, &format!("{solicitor}; q [1] -> Null -> out; Idle -> [1] q"));
    let advertiser = "IP6NDAdvertiser(2001:db8::/32 2:0:0:0:0:2)";
    check(Protocol::Six, &format!("{solicitor}; q [1] -> {advertiser} -> [1] q"));
}

#[test]
fn copies_that_are_written_to() {
    let copy = "v -> t :: Tee; t [1] -> Queue(500) -> Discard; t";
    for write in ["EnsureEther -> Strip(14)", "SetIPDSCP(3)", "RandomBitErrors(0.0000001)"] {
        check(
            Protocol::Four,
            &format!(
                "{copy} -> r :: RoundRobinSwitch -> Null -> out; r [1] -> Null -> {write} -> out"
            ),
        );
    }
}

fn cases() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        cases: cases.unwrap_or(64),
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn chains_keep_the_order_of_packets(
        six: bool,
        choices in proptest::collection::vec(any::<u8>(), 5..60)
    ) {
        let mut choices = choices.into_iter();
        let mut choose = |bound| usize::from(choices.next().unwrap_or(0)) % bound;
        let protocol = if six { Protocol::Six } else { Protocol::Four };
        let text = chain(protocol, &mut choose);
        compare(protocol, &text).map_err(TestCaseError::fail)?;
    }
}
