//! The example `router.click` between two hosts of the kernel's: pings, errors, fragments, path MTU
//! discovery, and routes changed while it runs.

use std::{path::Path, process::Output};

use linerate_testlab::{Lab, Namespace, Running, wait_until};

use crate::support::{LINERATE, PATIENCE};

/// Two hosts and a router between them, which runs the example.
struct Net {
    a: Namespace,
    router: Namespace,
    b: Namespace,
    _program: Running,
}

/// The example runs once a ping comes back.
#[track_caller]
fn net(arguments: &[&str]) -> Net {
    let lab = Lab::new();
    let (a, router, b) = (lab.namespace("a"), lab.namespace("router"), lab.namespace("b"));
    lab.veth(&a, "a0", &router, "left");
    lab.veth(&b, "b0", &router, "right");
    a.add_address("a0", "198.18.0.2/24");
    b.add_address("b0", "198.19.0.2/24");
    a.ip(["route", "add", "default", "via", "198.18.0.1"]);
    b.ip(["route", "add", "default", "via", "198.19.0.1"]);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router.click");
    let example = example.to_str().expect("a UTF-8 path");
    let words = [&[LINERATE, "run", example, "--quiet"], arguments].concat();
    let program = router.spawn(words);
    let net = Net { a, router, b, _program: program };
    let up = wait_until(|| ping(&net.a, &["-W", "1"], "198.19.0.2").status.success(), PATIENCE);
    assert!(up, "no ping comes through the router");
    net
}

fn ping(from: &Namespace, arguments: &[&str], to: &str) -> Output {
    from.run([&["ping", "-c", "1"], arguments, &[to]].concat())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs root"]
fn hosts_reach_each_other_and_are_told_what_is_wrong() {
    let Net { a, b, router, .. } = &net(&["RIGHT_MTU=1280"]);
    let reply = text(&ping(b, &["-W", "5"], "198.18.0.2"));
    assert!(reply.contains("ttl=63"), "{reply}");
    // Both ways in fragments: those for the right are divided once more.
    let reply = text(&ping(a, &["-W", "5", "-s", "4000"], "198.19.0.2"));
    assert!(reply.contains("4008 bytes from 198.19.0.2"), "{reply}");
    for (arguments, to, expected) in [
        (&["-t", "1"][..], "198.19.0.2", "From 198.18.0.1 icmp_seq=1 Time to live exceeded"),
        (&["-M", "do", "-s", "1400"], "198.19.0.2", "Frag needed and DF set (mtu = 1280)"),
        (&[], "203.0.113.1", "From 198.18.0.1 icmp_seq=1 Destination Net Unreachable"),
        (&[], "198.18.0.1", "From 198.18.0.1 icmp_seq=1 Destination Protocol Unreachable"),
    ] {
        let output = text(&ping(a, &[&["-W", "5"], arguments].concat(), to));
        assert!(output.contains(expected), "{to} {arguments:?}: {output}");
    }
    // The kernel of the router's namespace has no part in it.
    assert_eq!(router.expect(["cat", "/proc/sys/net/ipv4/ip_forward"]).trim(), "0");
}
