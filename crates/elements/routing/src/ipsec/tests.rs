//! Tests of tunnels, beside packets that Click has made.

use crate::testing::Run;

const ROUTES: &str = "r :: RadixIPsecLookup(
    10.0.0.0/8 1.2.3.4 1 305419896 \"0123456789abcdef\" \"fedcba9876543210\" 5 32, 1.2.3.4/32 0,
    11.0.0.0/8 5.6.7.8 1 7 aaaabbbbccccdddd 0000111122223333 1 64, 0/0 2);";

/// From Click: ESP, HMAC-SHA1 and AES over two IP packets.
const AES: [&str; 2] = [
    "1234567800000005a6eb320bdd119817b23fa2f06e2477cc73b197f1d261348a1cf76f3481ff46b4198d11ef12674dfe\
     01e007da6999ccc33b6ceb274cd4f85fc1bffd5f",
    "123456780000000695c0f20547ccda158750fdb4aec9ee01ae4a8aba4396a8f0b6e8c22a50c0700eab497e20bb3ca60f\
     7d2428c406416b0dd2668113c7171233a8c6323c",
];
/// As `AES`, with SHA-1 and DES.
const DES: &str = "1234567800000005a66cb81224f67c115631e8e62dee8fa6ed48a008e8a19fccc0bc769c5c8a9c0e\
    d39e19209855154121b238fdb63c243c9c4507db9365b1e0fe70ef23";
/// The packets inside them.
const PLAIN: [&str; 2] = [
    "450000220000000064114bc9010000010a00000200010002000eca9f616263646566",
    "450000210000000064114bc9010000010a00000300030004000dcc016465616263",
];

fn receive(packets: &[&str], path: &str, frame_limit: usize) -> Run {
    let mut run = Run::new(&format!(
        "{ROUTES} Packets({}) -> IPEncap(50, 9.9.9.9, 1.2.3.4) -> r -> StripIPHeader -> {path}
            -> u :: IPsecESPUnencap -> c :: Collect;
         r [1] -> Discard; r [2] -> Discard; v [1] -> d :: Collect;",
        packets.join(" ")
    ))
    .frame_limit(frame_limit);
    run.run();
    run
}

#[test]
fn packets_of_click_are_understood() {
    for frame_limit in [1, 7, 256] {
        let path = "IPsecAES(0) -> v :: IPsecAuthHMACSHA1(1)";
        assert_eq!(receive(&AES, path, frame_limit).read("c.packets"), PLAIN.join("\n"));
        let path = "IPsecDES(0) -> v :: IPsecAuthSHA1(1)";
        assert_eq!(receive(&[DES], path, frame_limit).read("c.packets"), PLAIN[0]);
    }
}

#[test]
fn packets_that_were_seen_or_changed_are_dropped() {
    let changed = AES[1].replace("8750", "8751");
    for frame_limit in [1, 7, 256] {
        // The first sequence number again would be a peer that begins anew.
        let packets = [AES[0], AES[1], &changed, AES[1], "1234567800000009", AES[1]];
        let path = "IPsecAES(0) -> v :: IPsecAuthHMACSHA1(1)";
        let mut run = receive(&packets, path, frame_limit);
        assert_eq!(run.read("c.packets"), PLAIN.join("\n"));
        assert_eq!(run.read("d.lengths"), "68");
        assert_eq!(run.read("v.drops"), "1");
        let output = run.output();
        assert_eq!(
            output.matches("Replay protection: This packet is already seen...\n").count(),
            2
        );
        assert_eq!(output.matches("Invalid SHA1 authentication digest\n").count(), 1);
        assert!(run.read("u.drops").contains("\n2\treplayed\n"), "{}", run.read("u.drops"));
    }
}

#[test]
fn packets_that_enter_a_tunnel_leave_it() {
    for (cipher, digest) in [
        ("IPsecAES", "IPsecAuthHMACSHA1"),
        ("IPsecDES", "IPsecAuthHMACSHA1"),
        ("IPsecAES", "IPsecAuthSHA1"),
    ] {
        let packets: Vec<String> = (20..84)
            .map(|length: usize| {
                let to = if length.is_multiple_of(3) { "0b000001" } else { "0a000001" };
                format!("45000000000000004011000001020304{to}{}", "5a".repeat(length - 20))
            })
            .collect();
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(&format!(
                "{ROUTES} Packets({}) -> MarkIPHeader -> GetIPAddress(16) -> r; r [2] -> Discard;
                 r [1] -> IPsecESPEncap -> e :: Tee -> {digest}(0) -> {cipher}(1) -> IPsecEncap(50)
                    -> FixIPSrc(6.6.6.6) -> CheckIPHeader -> t :: Tee -> StripIPHeader
                    -> {cipher}(0) -> {digest}(1) -> IPsecESPUnencap -> c :: Collect;
                 t [1] -> d :: Collect; e [1] -> f :: Collect; r [0] -> Discard;",
                packets.join(" ")
            ))
            .frame_limit(frame_limit);
            run.run();
            let came = run.read("c.packets");
            assert_eq!(came, packets.join("\n"), "{cipher}");
            for (at, packet) in run.read("d.packets").lines().enumerate() {
                let gateway = if (at + 20) % 3 == 0 { "05060708" } else { "01020304" };
                assert_eq!(packet[24..40], format!("06060606{gateway}"), "{at}");
                assert!(!packet.contains("5a5a5a5a"), "{packet}");
            }
            let lengths = run.read("f.lengths");
            assert!(lengths.lines().all(|length| length.parse::<usize>().unwrap() % 8 == 0));
        }
    }
}

#[test]
fn packets_without_keys_and_of_unknown_tunnels_are_dropped() {
    for frame_limit in [1, 7, 256] {
        let mut run =
            receive(&["0000000700000001", "0000000800000001"], "Null -> v :: Tee", frame_limit);
        assert_eq!(run.output(), "Invalid SPI 8, Dropping packet\n");
        assert!(run.read("r.drops").ends_with("1\tunknown security parameters index\n"));
        let mut run = Run::new(
            "Packets(000102) -> t :: Tee -> a :: IPsecAES(1) -> Discard; t [1] -> b :: IPsecESPEncap
                -> Discard; t [2] -> c :: IPsecAuthHMACSHA1(0) -> Discard;",
        )
        .frame_limit(frame_limit);
        run.run();
        for name in ["a", "b"] {
            assert!(run.read(&format!("{name}.drops")).contains("1\tno security association\n"));
        }
    }
}

#[test]
fn packets_that_fill_their_buffers_are_dropped_at_the_tunnel() {
    let mut run = Run::new(&format!(
        "{ROUTES} Packets({}) -> MarkIPHeader -> GetIPAddress(16) -> r; r [2] -> Discard;
         r [1] -> Pad(2112) -> e :: IPsecESPEncap -> c :: Collect; r [0] -> Discard;",
        PLAIN[0]
    ));
    run.run();
    assert_eq!(run.read("c.packets"), "");
    let drops = "0\tno buffer\n0\tno security association\n1\tlonger than a buffer\n";
    assert_eq!(run.read("e.drops"), drops);
}

/// `SPI` is accepted by place and as a keyword, and has no effect, as in Click.
#[test]
fn packets_have_the_index_of_their_tunnel() {
    for arguments in ["", "99", "SPI 99", "SPI 0x63"] {
        let mut run = Run::new(&format!(
            "{ROUTES} Packets({} {}) -> MarkIPHeader -> GetIPAddress(16) -> r; r [2] -> Discard;
             r [1] -> IPsecESPEncap({arguments}) -> c :: Collect; r [0] -> Discard;",
            PLAIN[0],
            PLAIN[0].replace("0a000002", "0b000002")
        ));
        run.run();
        let packets = run.read("c.packets");
        let heads: Vec<&str> = packets.lines().map(|packet| &packet[..16]).collect();
        // Behind it is the number of the packet, from which the tunnel's route counts.
        assert_eq!(heads, ["1234567800000005", "0000000700000001"], "{arguments}");
    }
    for arguments in ["SPI x", "SPI -1", "1, SPI 2, 3"] {
        let errors = Run::errors(&format!("Idle -> IPsecESPEncap({arguments}) -> Discard"));
        assert!(errors.contains("IPsecESPEncap"), "{arguments}: {errors}");
    }
}
