//! Ports, and elements that see what they tell about their packets.

use linerate_elements_testing::Scratch;

use super::Run;

/// As Click's: how much longer packets were is known behind it.
#[test]
fn the_length_beyond_a_snap_length_is_known() {
    let scratch = Scratch::new("snap-length");
    let (from, to) = (scratch.path("a.pcap"), scratch.path("b.pcap"));
    Run::new(&format!("InfiniteSource(LENGTH 100, LIMIT 3, STOP true) -> ToPort(pcap:{from})"))
        .run();
    Run::new(&format!(
        "FromDevice(pcap:{from}, SNAPLEN 20) -> ToDump({to});
         FromPort(null:?count=500, 1, STOP true) -> Discard"
    ))
    .run();
    let mut reader = linerate_port::pcap::Reader::open(&to).unwrap();
    for _ in 0..3 {
        let record = reader.next().unwrap().expect("three packets");
        assert_eq!((record.data.len(), record.orig_len), (20, 100));
    }
}

/// Broadcast, multicast and unicast packets of a file are without a type, as those of Click's
/// `FromDump`.
#[test]
fn packets_of_a_capture_have_no_type() {
    let scratch = Scratch::new("types");
    let file = scratch.path("a.pcap");
    let packets =
        ["ffffffffffff", "01005e000001", "020000000099"].map(|to| format!("{to}02000000000188b5"));
    let packets = [packets.join(" ").as_str(); 10].join(" ");
    Run::new(&format!("Packets({packets}) -> ToPort(pcap:{file})")).run();
    for frame_limit in [1, 7, 32, 256] {
        let mut run = Run::new(&format!(
            "FromDump({file}, STOP true) -> DropBroadcasts -> c :: Counter -> Discard"
        ))
        .frame_limit(frame_limit);
        run.run();
        assert_eq!(run.read("c.count"), "30", "frames of {frame_limit}");
    }
}
