//! Place of the Ethernet header for `ether host`.

use crate::testing::Run;

const MACS: &str = "020000000001 0200810000ff";
const IP: &str = "450000140000000040110000 01000001 02000002";

/// Packets by whether their addresses are those of [`MACS`], behind elements that
/// find the network header: so many of each.
fn sorted(front: &str, frame: &str, limit: usize) -> (String, String) {
    let mut run = Run::new(&format!(
        "InfiniteSource(DATA \\<{frame}>, LIMIT 5, STOP true) -> {front}
         -> f :: IPFilter(0 ether dst 2:0:0:0:0:1 and ether src 2:0:81:0:0:ff, 1 all)
         -> right :: Counter -> Discard; f [1] -> wrong :: Counter -> Discard;"
    ))
    .frame_limit(limit);
    run.run();
    (run.read("right.count"), run.read("wrong.count"))
}

#[test]
fn addresses_are_those_of_the_frame() {
    let (tag, service) = ("8100 0005", "88a8 0007");
    for limit in [1, 64] {
        for (front, frame) in [
            // Whole frames.
            ("CheckIPHeader(OFFSET 14)", format!("{MACS} 0800 {IP}")),
            ("CheckIPHeader(OFFSET 18)", format!("{MACS} {tag} 0800 {IP}")),
            ("CheckIPHeader(OFFSET 22)", format!("{MACS} {service} {tag} 0800 {IP}")),
            // Frames whose header was stripped.
            ("Strip(14) -> CheckIPHeader", format!("{MACS} 0800 {IP}")),
            ("Strip(18) -> CheckIPHeader", format!("{MACS} {tag} 0800 {IP}")),
            ("Strip(22) -> CheckIPHeader", format!("{MACS} {service} {tag} 0800 {IP}")),
            ("MarkIPHeader(18) -> StripToNetworkHeader", format!("{MACS} {tag} 0800 {IP}")),
            // At its marked place.
            (
                "MarkMACHeader(3) -> Strip(20) -> CheckIPHeader",
                format!("ffffff {MACS} 000000 0800 {IP}"),
            ),
            (
                "MarkMACHeader(3) -> CheckIPHeader(OFFSET 20)",
                format!("ffffff {MACS} 000000 0800 {IP}"),
            ),
        ] {
            let front = front.replace("CheckIPHeader", "CheckIPHeader2");
            assert_eq!(sorted(&front, &frame, limit), ("5".into(), "0".into()), "{front} {limit}");
        }
        // No frame, no addresses.
        let nothing = sorted("MarkIPHeader", &format!("{IP} {MACS} 0800"), limit);
        assert_eq!(nothing, ("0".into(), "5".into()));
    }
}

/// Packets are made in buffers of earlier ones.
#[test]
fn a_header_of_another_packet_is_not_looked_at() {
    for limit in [1, 64] {
        let mut run = Run::new(&format!(
            "InfiniteSource(LIMIT 600) -> EtherEncap(0x0800, 2:0:81:0:0:ff, 2:0:0:0:0:1) -> Discard;
             s :: InfiniteSource(DATA \\<{IP}>, LIMIT 5, ACTIVE false) -> MarkIPHeader
                -> f :: IPFilter(0 ether dst 2:0:0:0:0:1 and ether src 2:0:81:0:0:ff, 1 all)
                -> right :: Counter -> Discard; f [1] -> wrong :: Counter -> Discard;
             DriverManager(wait 1ms, write s.active true, wait 1ms, stop)"
        ))
        .frame_limit(limit);
        run.run();
        assert_eq!((run.read("right.count"), run.read("wrong.count")), ("0".into(), "5".into()));
    }
}
