//! Conversations with control sockets about elements of other families. Every answer expected is that
//! of Click 2.1.

use linerate_elements_testing::{Scratch, talk};

use super::Run;

/// Returns the answer to `sent` of a run of these statements that `prepare` has set up.
fn answer(statements: &str, name: &str, sent: &[u8], prepare: impl FnOnce(Run) -> Run) -> String {
    let scratch = Scratch::new(name);
    let socket = scratch.path("socket");
    let run = Run::new(&format!("ControlSocket(UNIX, {socket}); {statements}"));
    talk(prepare(run), socket.as_ref(), &[sent]).concat()
}

#[test]
fn a_caller_has_no_more_right_by_way_of_others() {
    let scratch = Scratch::new("rights");
    let [printed, counted] = ["printed", "counted"].map(|name| scratch.path(name));
    let config = format!(
        "InfiniteSource(LIMIT 3) -> c :: Counter(COUNT_CALL 2 own.run started) -> Discard;
        own :: Script(TYPE PASSIVE, print >{printed} $args);
        a :: AggregateCounter; Idle -> a -> Discard; Script(write own.run started)"
    );
    let script: &[u8] = b"write own.run x\nread own.run\nwrite own.set args x\nwrite own.step\n\
        write own.goto x\nwrite c.count_call 1 own.run\nwrite a.count_call 1 own.run\nwrite \
        a.write_text_file";
    let script = [script, b" ", counted.as_bytes(), b"\n"].concat();
    let text = answer(&config, "rights-denied", &script, |run| run);
    assert_eq!(text.matches("\r\n530 Permission denied for '").count(), 8, "{text}");
    // The configuration itself has every right.
    assert_eq!(std::fs::read_to_string(&printed).unwrap(), "started\n");
    assert!(!std::path::Path::new(&counted).exists());
    let text = answer(&config, "rights-granted", &script, Run::grants_replace);
    assert!(!text.contains("530"), "{text}");
    assert!(std::path::Path::new(&counted).exists());
}

/// As `IPRewriter`s of Click answer: with the rewritten flow, or a request to ask again.
#[test]
fn rewritten_flows_are_asked_for_by_number() {
    let known = b"\x0a\0\0\x01\x0a\0\0\x09\x04\0\0\x50";
    let unknown = b"\x0a\0\0\x01\x0a\0\0\x09\x04\x01\0\x50";
    let call = b"llrpc r#c00c4008 12\n".as_slice();
    let sent = [call, known, call, unknown, b"llrpc i#c00c4008 12\n", known, b"quit\n"].concat();
    let text = answer(
        "i :: InfiniteSource(DATA \\<0400 0050 00000000 00000000 5002 0000 0000 0000>, LIMIT 1)
            -> IPEncap(6, 10.0.0.1, 10.0.0.9)
            -> r :: IPRewriter(pattern 11.0.0.2 4660 - - 0 0) -> Discard",
        "flows",
        &sent,
        |run| run,
    );
    let lines: Vec<&str> = text.split("\r\n").skip(1).collect();
    let expected = [
        "200 LLRPC 'r#c00c4008' OK",
        "DATA 12",
        "\x0b\0\0\x02\x0a\0\0\x09\x12\x34\0\x50\
         522 LLRPC 'r#c00c4008' error: Resource temporarily unavailable",
        "522 LLRPC 'i#c00c4008' error: Invalid argument",
        "200 Goodbye!",
        "",
    ];
    assert_eq!(lines, expected);
}

/// As `AnonymizeIPAddr` of Click answers, by which 0.0.0.0 stays.
#[test]
fn anonymous_addresses_are_asked_for_by_number() {
    let call = b"llrpc a#c0044007 4\n\0\0\0\0".as_slice();
    let sent = [
        call,
        b"read a.map 0.0.0.0\nllrpc a#c0044007\n",
        b"llrpc d#c0044007 4\n\0\0\0\0",
        b"quit\n",
    ];
    let config = "Idle -> a :: AnonymizeIPAddr -> d :: Discard";
    let text = answer(config, "addresses", &sent.concat(), |run| run);
    let lines: Vec<&str> = text.split("\r\n").skip(1).collect();
    let expected = [
        "200 LLRPC 'a#c0044007' OK",
        "DATA 4",
        "\0\0\0\x00200 Read handler 'a.map' OK",
        "DATA 7",
        "0.0.0.0522 LLRPC 'a#c0044007' requires 4 bytes input data",
        "522 LLRPC 'd#c0044007' error: Invalid argument",
        "200 Goodbye!",
        "",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn tables_are_changed_beside_the_workers_and_answers_stay_in_order() {
    let mut sent = String::new();
    for at in 0..200 {
        sent += &format!("WRITE r.add 10.{at}/16 0\r\nREAD c.count\r\n");
    }
    sent += "WRITE r.add 10.7/16 1\r\nREAD r.lookup 10.7.0.1\r\nREAD r.table\r\nREAD r.table x\r\n";
    let text = answer(
        "c :: Counter; InfiniteSource -> GetIPAddress(0) -> r :: RadixIPLookup(0/0 0) -> c -> Discard",
        "tables",
        sent.as_bytes(),
        |run| run,
    );
    let lines: Vec<&str> = text.split("\r\n").collect();
    // Each write, the answer to the reading behind it, its data with the next.
    let writes = lines.iter().filter(|line| line.ends_with("Write handler 'r.add' OK")).count();
    assert_eq!(writes, 200, "{:?}", &lines[..9]);
    assert!(text.contains("520-Write handler 'r.add' error:\r\n520 bad OUTPUT"), "{text}");
    assert!(text.contains("200 Read handler 'r.lookup' OK\r\nDATA 1\r\n0"));
    assert!(text.contains("10.199.0.0/16"));
}
