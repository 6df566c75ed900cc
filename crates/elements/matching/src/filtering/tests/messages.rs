//! Messages about wrong expressions, and handlers.

use crate::testing::Run;

/// Texts are those of Click 2.1.
#[test]
fn errors_are_those_of_click() {
    for (rule, errors) in [
        (
            "allow echo",
            vec!["'<none>  echo' is ambiguous; try 'port  echo', 'port  echo', 'icmp type  echo'"],
        ),
        (
            "allow icmp www",
            vec!["'<none> icmp www' is meaningless; try 'port icmp www', 'port icmp www'"],
        ),
        ("allow port tcp", vec!["'port': value missing"]),
        (
            "allow ip[0:5] 1",
            vec![
                "LEN in '[POS:LEN]' out of range, should be between 1 and 4",
                "specify header field or 'port'",
            ],
        ),
        (
            "allow ip[3:2] 1",
            vec!["field [3:2] does not fit in a single word", "specify header field or 'port'"],
        ),
        ("allow tcp ? udp", vec!["missing ':' in ternary expression"]),
        ("allow tcp and", vec!["missing expression"]),
        ("allow !", vec!["missing expression after '!'"]),
        ("allow tcp xyz", vec!["empty term near 'xyz'", "garbage after expression at 'xyz'"]),
        ("allow src src 1.2.3.4", vec!["'src' or 'dst' specified twice"]),
        ("allow tcp udp port 5", vec!["transport protocol specified twice"]),
        ("allow gre port 5", vec!["'port': bad protocol 47"]),
        ("allow ip[1] & 0 == 3", vec!["zero mask ignored"]),
        ("allow port 99999", vec!["'port': out of range, bound 65535"]),
        ("allow port & 70000 5", vec!["'port': mask out of range, bound 0xFFFF"]),
        ("allow tcp opt 300", vec!["'tcp opt': value 300 out of range"]),
        ("foo", vec!["unknown slot ID 'foo'"]),
        ("1 tcp", vec!["slot '1' out of range"]),
    ] {
        let found = Run::errors(&format!("Idle -> c :: IPFilter({rule}) -> Discard"));
        let mut expected = "config:1: While configuring 'c :: IPFilter':\n".to_owned();
        errors.iter().for_each(|error| expected += &format!("  pattern 0: {error}\n"));
        assert!(found.starts_with(&expected), "{rule}: {found}");
    }
}

#[test]
fn relations_that_are_always_so_are_warned_of() {
    let mut run = Run::new("Idle -> c :: IPFilter(allow src port < 0, deny src tcp) -> Discard");
    run.read("c.program");
    assert_eq!(
        run.output(),
        "config:1: While configuring 'c :: IPFilter':\n  \
         pattern 0: warning: relation '< 0' is always false (range 0-65535)\n  \
         pattern 1: warning: 'src proto': 'src' or 'dst' ignored\n"
    );
}

/// Programs are those of Click 2.1's own tests.
#[test]
fn programs_are_those_of_click() {
    let mut run = Run::new(
        "Idle -> c :: IPFilter(deny tcp && dst 10.0.0.0/32, 1 udp src port bootpc or 5353, allow all)
            -> Discard; c [1] -> Discard;
         Idle -> e :: IPFilter(allow transp[1] & 128 != 0, allow port > 1023) -> Discard;",
    );
    assert_eq!(
        run.read("c.program"),
        " 0 264/00060000%00ff0000  yes->step 1  no->step 2\n \
         1 272/0a000000%ffffffff  yes->[X]  no->[0]\n \
         2 264/00110000%00ff0000  yes->step 3  no->[0]\n \
         3 260/00000000%00001fff  yes->step 4  no->[0]\n \
         4 512/00440000%ffff0000  yes->[1]  no->step 5\n \
         5 512/14e90000%ffff0000  yes->[1]  no->[0]\nsafe length 514\nalignment offset 0"
    );
    assert!(run.read("e.program").contains("short->yes"));
}

#[test]
fn expressions_can_be_changed_one_by_one() {
    let mut run = Run::new(
        "Packets(4500001400000000400600000a0000010a000002) -> MarkNetwork(0)
            -> c :: IPClassifier(udp, tcp, -) -> a :: Counter -> Discard;
         c [1] -> b :: Counter -> Discard; c [2] -> Discard;",
    );
    assert_eq!(run.read("c.pattern1"), "tcp");
    assert_eq!(run.write("c.pattern0", "tcp"), Ok(String::new()));
    let error = run.write("c.pattern1", "port x").unwrap_err().to_string();
    assert!(error.contains("pattern 1: "), "{error}");
    assert!(run.write("c.pattern3", "tcp").is_err());
    assert_eq!(run.read("c.config"), "tcp, tcp, -");
    run.run();
    assert_eq!((run.read("a.count"), run.read("b.count")), ("1".into(), "0".into()));
}

/// Click's other messages are in the corpus.
#[test]
fn a_classifier_needs_an_expression_for_every_output() {
    let errors = Run::errors("Idle -> c :: IPClassifier(tcp, udp) -> Discard");
    assert!(errors.contains("need 1 arguments, one per output port"), "{errors}");
    let mut run = Run::new("Idle -> c :: IPClassifier(-, tcp); c -> Discard; c [1] -> Discard");
    run.read("c.program");
    assert!(run.output().ends_with("warning: output 1 matches no packets\n"), "{}", run.output());
}

/// Packets that go nowhere are dropped and counted, beside any others.
#[test]
fn denied_packets_are_counted() {
    let mut run = Run::new(
        "Packets(4500001400000000400600000a0000010a000002 4500001400000000401100000a0000010a000002
            4500001400000000400100000a0000010a000002 45) -> MarkNetwork(0)
            -> c :: IPFilter(allow tcp, 1 icmp, deny all) -> a :: Counter -> Discard;
         c [1] -> b :: Counter -> Discard;",
    );
    run.run();
    assert_eq!((run.read("a.count"), run.read("b.count")), ("1".into(), "1".into()));
    let drops = run.read("c.drops");
    assert!(drops.contains("denied") && drops.contains('2'), "{drops}");
}
