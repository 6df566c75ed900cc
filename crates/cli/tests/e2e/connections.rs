//! TCP connections of `generate`, answered by `sink --answer` and by the kernel.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use linerate_test_support::{Lab, Namespace, wait_until};

use crate::{
    hosts::{run, stop},
    support::{DRIVERS, Program, Scratch, TIMEOUT, drops, linerate, linerate_in, number},
};

/// Writes a profile of connections with these keys.
fn profile(scratch: &Scratch, keys: &str) -> String {
    let file = scratch.file("connections.toml");
    fs::write(&file, format!("[[connections]]\n{keys}\n")).unwrap();
    file
}

/// Two namespaces with a link between `a0` and `b0`.
fn pair() -> [Namespace; 2] {
    let lab = Lab::new();
    let [a, b] = ["a", "b"].map(|label| lab.namespace(label));
    lab.veth(&a, "a0", &b, "b0");
    [a, b]
}

/// Both sides have equal counts, on ports of all kinds and over both families.
#[test]
#[ignore = "needs root"]
fn a_sink_answers_opened_connections() {
    let [a, b] = pair();
    let scratch = Scratch::new();
    for ipv6 in [false, true] {
        let file = profile(
            &scratch,
            &format!(
                "concurrent = 50\nrequest = 3000\nresponse = \"20k\"\nrequests = 2\nipv6 = {ipv6}"
            ),
        );
        for driver in DRIVERS {
            let sink = Program::ready(&b, &format!("sink --answer {driver}:b0 --count 300"));
            let line = format!("generate {driver}:a0 --profile {file} --count 300");
            let client = linerate_in(&a, &line).summary();
            let server = sink.end().summary();
            for summary in [&client, &server] {
                let counts = ["begun", "opened", "completed", "failed", "aborted", "malformed"]
                    .map(|key| number(summary, key));
                assert_eq!(counts, [300, 300, 300, 0, 0, 0], "{driver}: {summary}");
                assert!(summary["connection_ns"]["p50"].is_number(), "{summary}");
            }
            let (asked, answered) = (300 * 2 * 3000, 300 * 2 * 20 * 1024);
            assert_eq!(number(&client, "bytes_sent"), asked);
            assert_eq!(number(&client, "bytes_received"), answered);
            assert_eq!(number(&server, "bytes_received"), asked);
            assert_eq!(number(&server, "bytes_sent"), answered);
        }
    }
}

/// The longest frame of a port may count a tag, which these have not.
#[test]
#[ignore = "needs root"]
fn segments_are_no_longer_than_interfaces_carry() {
    let [a, b] = pair();
    a.set_mtu("a0", 1280);
    b.set_mtu("b0", 1280);
    let scratch = Scratch::new();
    let file = profile(&scratch, "concurrent = 5\nrequest = 3000\nresponse = \"20k\"");
    for driver in DRIVERS {
        let sink = Program::ready(&b, &format!("sink --answer {driver}:b0 --count 5"));
        let line = format!("generate {driver}:a0 --profile {file} --count 5");
        let client = linerate_in(&a, &line).summary();
        let server = sink.end().summary();
        for summary in [client, server] {
            assert_eq!(number(&summary, "completed"), 5, "{driver}: {summary}");
            assert_eq!(drops(&summary, "transmit_drops"), 0, "{driver}: {summary}");
        }
    }
}

const REQUEST: usize = 3000;
const RESPONSE: usize = 30_000;
const COUNT: usize = 60;

/// A server of the kernel's: takes a request, answers it, and either lets the client end the
/// connection or does so itself.
fn serve(listener: &TcpListener, waits: bool) -> Vec<Vec<u8>> {
    let answer = |listener: &TcpListener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        thread::spawn(move || {
            let mut request = vec![0; REQUEST];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&[7; RESPONSE]).unwrap();
            if waits {
                assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the client ends it");
            }
            request
        })
    };
    let answering: Vec<_> = (0..COUNT).map(|_| answer(listener)).collect();
    answering.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// The client asks for the server by ARP and answers for its own addresses, and its TCP is one
/// that the kernel understands.
#[test]
#[ignore = "needs root"]
fn the_kernel_answers_opened_connections() {
    let [a, b] = pair();
    b.add_address("b0", "198.18.0.2/16");
    let scratch = Scratch::new();
    let file = profile(
        &scratch,
        &format!(
            "concurrent = 20\npayload = \"hello\"\nrequest = {REQUEST}\nresponse = {RESPONSE}\n\
             src = \"198.18.1.0-198.18.1.3\"\ndst = \"198.18.0.2\"\ndport = 8080"
        ),
    );
    let line = format!("generate packet:a0 --profile {file} --count {COUNT}");
    let listener = b.enter(|| TcpListener::bind("198.18.0.2:8080")).unwrap();
    for waits in [true, false] {
        let listener = listener.try_clone().unwrap();
        let serving = thread::spawn(move || serve(&listener, waits));
        let summary = linerate_in(&a, &line).summary();
        assert_eq!(number(&summary, "completed"), COUNT as u64, "{summary}");
        assert_eq!(number(&summary, "bytes_sent"), (COUNT * REQUEST) as u64);
        assert_eq!(number(&summary, "bytes_received"), (COUNT * RESPONSE) as u64);
        let requests = serving.join().unwrap();
        assert!(requests.iter().all(|request| *request == b"hello".repeat(REQUEST / 5)));
    }
    drop(listener);
    let refused = linerate_in(&a, &line).summary();
    assert_eq!(refused["failures"]["refused"], COUNT, "{refused}");
}

/// A NAT in between has a flow for each, and the server sees one client.
#[test]
#[ignore = "needs root"]
fn connections_pass_a_nat() {
    let lab = Lab::new();
    let [inside, nat, outside] = ["inside", "nat", "outside"].map(|label| lab.namespace(label));
    lab.veth(&inside, "e0", &nat, "inside");
    lab.veth(&outside, "e0", &nat, "outside");
    let router = run(&nat, "nat.click", "");
    let scratch = Scratch::new();
    let file = profile(
        &scratch,
        "concurrent = 20\nresponse = \"20k\"\nsrc = \"198.18.0.16-198.18.0.31\"\n\
         dst = \"203.0.113.2\"\ngateway = \"198.18.0.1\"",
    );
    let sink = Program::ready(&outside, "sink --answer=203.0.113.2 packet:e0 --count 200");
    let line = format!("generate packet:e0 --profile {file} --count 200");
    let client = linerate_in(&inside, &line).summary();
    let server = sink.end().summary();
    for summary in [client, server] {
        assert_eq!(number(&summary, "completed"), 200, "{summary}");
        assert_eq!(number(&summary, "failed") + number(&summary, "malformed"), 0, "{summary}");
    }
    stop(router);
}

#[test]
#[ignore = "needs root"]
fn open_connections_end_on_both_sides() {
    let [a, b] = pair();
    let scratch = Scratch::new();
    let file = profile(&scratch, "concurrent = 20\nthink = \"1h\"");
    let sink = Program::ready(&b, "sink --answer packet:b0 --count 20");
    let client = Program::ready(&a, &format!("generate packet:a0 --profile {file}"));
    let talking = wait_until(|| a.counters("a0").rx_packets > 25, TIMEOUT);
    assert!(talking, "{}", client.stderr());
    let client = client.stop();
    assert_eq!((number(&client, "begun"), number(&client, "aborted")), (20, 20), "{client}");
    let server = sink.end().summary();
    assert_eq!(server["failures"]["reset"], 20, "{server}");
}

#[test]
#[ignore = "needs root"]
fn an_absent_host_is_named() {
    let [a, _b] = pair();
    let scratch = Scratch::new();
    let file = profile(&scratch, "dst = \"198.19.0.7\"");
    let ended = linerate_in(&a, &format!("generate packet:a0 --profile {file} --count 5"));
    ended.failed(1, &["nobody answers for 198.19.0.7", "dst_mac"]);
}

#[test]
fn options_that_are_not_for_connections_are_refused() {
    let scratch = Scratch::new();
    let file = profile(&scratch, "rate = 5");
    let ended = linerate(&format!("generate null: --rate 5pps --profile {file}"));
    ended.failed(2, &["--rate is for frames"]);
    let ended = linerate(&format!("generate null: --control 0 --profile {file}"));
    ended.failed(2, &["connections cannot be controlled"]);
    linerate("generate null: --disconnect").failed(2, &["--disconnect is for connections"]);
    linerate("sink null: --answer --concurrent 1000G").failed(6, &["allow fewer"]);
    let file = profile(&scratch, "");
    linerate(&format!("generate null: --buffer-size 192 --profile {file}"))
        .failed(2, &["frames of 64 bytes are too short", "--buffer-size"]);
    let file = profile(&scratch, "request = 5");
    linerate(&format!("generate null: --profile {file}"))
        .failed(2, &["connections 1: a request of 5 bytes is too short"]);
}
