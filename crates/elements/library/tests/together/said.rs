//! Messages that an element prints once, also where several workers have a replica of it.

use super::Run;

/// Packets of 100 bytes that must not be taken apart.
const UNDIVIDED: &str = r"\<45000064 00004000 40110000 0a000001 0a000002>, LENGTH 100";
/// Packets of no kind.
const TEXT: &str = r#""a text of sixty-four bytes or so that begins as no header does at all""#;

/// Returns the messages of elements with packets on two workers.
fn said(data: &str, elements: &str) -> String {
    let mut run = Run::new(&format!(
        "StaticThreadSched(a 0, b 1); DriverManager(wait_stop 2);
         a :: InfiniteSource({data}, LIMIT 10, STOP true) -> n :: Null -> {elements} -> Discard;
         b :: InfiniteSource({data}, LIMIT 10, STOP true) -> n"
    ))
    .workers(2);
    run.run();
    run.output()
}

#[test]
fn replicas_of_an_element_say_it_once() {
    for (elements, saying, times) in [
        ("CheckIPHeader", "IP header check failed", 1),
        ("CheckARPHeader", "ARP header check failed", 1),
        ("CheckIP6Header", "IP6 header check failed", 1),
        ("SetIPChecksum", "bad input packet", 1),
        ("IPInputCombo(1)", "IP checksum failed", 1),
        ("SetPacketType(BROADCAST) -> DropBroadcasts", "dropped a packet", 1),
        ("CycleCountAccum", "zero cycle counter annotation", 1),
        ("IPsecAuthSHA1(1)", "Invalid SHA1 authentication digest", 1),
        ("q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1); Idle -> [1] q; q", "would query for 0.0.0.0", 1),
        ("MarkIPHeader -> IPFragmenter(68)", "IPFragmenter(68) DF", 5),
    ] {
        let data = if elements.contains("Fragmenter") { UNDIVIDED } else { TEXT };
        let output = said(data, elements);
        assert_eq!(output.matches(saying).count(), times, "{elements}: {output}");
    }
}
