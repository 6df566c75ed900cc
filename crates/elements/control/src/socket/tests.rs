//! Conversations with control sockets. Every answer expected is that of Click
//! 2.1, except where nothing a client sends may exhaust memory.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::PathBuf,
};

use linerate_elements_testing::{connect, conversation};

use crate::testing::Run;

/// A file name of its own for a test.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("linerate-control-{}-{name}", std::process::id()))
}

/// Returns the answers to `sent`, after which the client closes. The run ends with the answers.
fn talk(config: &str, name: &str, sent: &[&[u8]]) -> Vec<String> {
    talk_to(config, name, sent, |run| run)
}

/// The answers to `sent` of a run that `prepare` has set up.
fn talk_to(
    config: &str,
    name: &str,
    sent: &[&[u8]],
    prepare: impl FnOnce(Run) -> Run,
) -> Vec<String> {
    let path = file(name);
    let _ = std::fs::remove_file(&path);
    let text = format!("cs :: ControlSocket(UNIX, {}{config}", path.display());
    linerate_elements_testing::talk(prepare(Run::new(&text)), &path, sent)
}

/// The answers over TCP, of a run with a port of its own.
fn talk_by_port(config: &str, sent: &[&[u8]], prepare: impl FnOnce(Run) -> Run) -> Vec<String> {
    let port = free_port();
    let text = format!("cs :: ControlSocket(TCP, {port}, LOCALHOST true{config}");
    let sent: Vec<Vec<u8>> = sent.iter().map(|sent| sent.to_vec()).collect();
    let mut run = prepare(Run::new(&text).real_time());
    let control = run.control();
    let client = std::thread::spawn(move || {
        let connected = || connect(|| TcpStream::connect(("127.0.0.1", port)));
        let answers = sent.iter().map(|sent| conversation(connected(), sent)).collect();
        control.stop();
        answers
    });
    run.run();
    client.join().unwrap()
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn commands_are_answered_as_click_does() {
    let sent = include_bytes!("conversation.txt");
    let answers = talk_to(
        "); c :: Counter; Idle -> c -> Discard; s :: Script(TYPE PASSIVE, return \"<$args>\");
        e :: Script(TYPE PASSIVE, error bad thing)",
        "commands",
        &[sent],
        Run::insecure_control,
    );
    // Only lines of the protocol end in two bytes, so the file has one.
    assert_eq!(answers[0].replace("\r\n", "\n"), include_str!("answers.txt"));
    assert!(answers[0].starts_with("Click::ControlSocket/1.3\r\n200 "));
}

/// Commands that take longer than their turn wait for packets, and not the other way round.
#[test]
fn packets_have_their_turn_between_commands() {
    let answers = talk_to(
        "); InfiniteSource -> c :: Counter -> Discard;
        slow :: Script(TYPE PASSIVE, set n 0, label again, set n $(add $n 1), goto again $(lt $n 1000),
            return $n)",
        "turns",
        &[b"READ slow.run\nREAD c.count\n".repeat(8).as_slice()],
        // A frame of the source counts as many turns as it has packets.
        |run| run.insecure_control().frame_limit(1),
    );
    let counts: Vec<u64> = answers[0]
        .split("'c.count' OK\r\nDATA ")
        .skip(1)
        .map(|answer| {
            let (length, rest) = answer.split_once("\r\n").unwrap();
            rest[..length.parse().unwrap()].parse().unwrap()
        })
        .collect();
    assert!(counts.len() == 8 && counts.is_sorted_by(|a, b| a < b), "{counts:?}: {}", answers[0]);
}

/// A client of a port reads, and writes when it has sent the token.
#[test]
fn by_tcp_the_token_lets_write() {
    let token = file("secret");
    std::fs::write(&token, "s3cret\n").unwrap();
    let config = format!(", TOKEN file:{}); c :: Counter; Idle -> c -> Discard", token.display());
    let long = [b"WRITEDATA c.reset_counts 9999999\n".to_vec(), vec![b'x'; 100_000]].concat();
    let sent: [&[u8]; 5] = [
        b"read c.count\nauth s3cret\nwrite c.reset\ncheckwrite c.reset\nwrite c.count_call 1 stop\n",
        b"read c.count\nwrite c.reset\ncheckwrite c.reset\nread c.count\nwrite stop\nquit\n",
        b"auth s3crets\nread c.count\n",
        b"auth\nread s.switch\nllrpc s#80044006 4\n\x01\0\0\0read s.switch\n",
        &long,
    ];
    let config = config + "; Idle -> s :: Switch(0) -> Idle; s [1] -> Idle";
    let answers = talk_by_port(&config, &sent, |run| run);
    let _ = std::fs::remove_file(token);
    let greeting = "Click::ControlSocket/1.3\r\n";
    let said = |answer: &str| answer.strip_prefix(greeting).unwrap().to_owned();
    let all: Vec<String> = answers.iter().map(|answer| said(answer)).collect();
    let counted = "200 Read handler 'c.count' OK\r\nDATA 1\r\n0";
    let denied = |handler: &str| {
        format!("530 Permission denied for '{handler}': say AUTH and the token first\r\n")
    };
    let replaces = "530 Permission denied for 'c.count_call': it opens files, ports or scripts: only a \
        program started with --allow-reconfigure (-R) lets connections do that\r\n";
    let written = "200 AUTH OK\r\n".to_owned() + &"200 Write handler 'c.reset' OK\r\n".repeat(2);
    assert_eq!(all[0], format!("{counted}{written}{replaces}"));
    let (write, stop) = (denied("c.reset"), denied("stop"));
    assert_eq!(all[1], format!("{counted}{write}{write}{counted}{stop}200 Goodbye!\r\n"));
    assert_eq!(all[2], "530 Wrong token\r\n");
    let switch = "200 Read handler 's.switch' OK\r\nDATA 1\r\n0";
    let wrong = "500 Wrong number of arguments\r\n";
    assert_eq!(all[3], format!("{wrong}{switch}{}{switch}", denied("s#80044006")));
    assert_eq!(all[4], "530 Too much data before AUTH\r\n");
}

#[test]
fn a_port_without_a_token_is_for_reading() {
    let config = "); c :: Counter; Idle -> c -> Discard; p :: Script(TYPE PASSIVE, return 1);
        q :: HandlerProxy; all :: HandlerAggregate(ELEMENT p)";
    let sent: &[u8] = b"auth x\nread c.count\nwrite c.reset\nwrite q.c.reset\nread p.run\n\
        read q.p.run\nread all.add run\nread p.add 1 2\nwrite stop\n";
    let answers = talk_by_port(config, &[sent], |run| run);
    let lines: Vec<&str> = answers[0].split("\r\n").skip(1).collect();
    let wanted = [
        "530 There is no token",
        "200 Read handler 'c.count' OK",
        "DATA 1",
        "0530 Permission denied for 'c.reset': writing needs a token, and this socket has none \
         (TOKEN)",
        "530 Permission denied for 'q.c.reset': writing needs a token, and this socket has none \
         (TOKEN)",
        "530 Permission denied for 'p.run': it opens files, ports or scripts: only a program started \
         with --allow-reconfigure (-R) lets connections do that",
    ];
    assert_eq!(lines[..wanted.len()], wanted, "{}", answers[0]);
    assert!(lines[wanted.len()].starts_with("530-Read handler 'q.p.run' error"), "{lines:?}");
    assert!(answers[0].contains("Read handler 'all.add' error"), "{}", answers[0]);
    assert!(answers[0].contains("200 Read handler 'p.add' OK\r\nDATA 1\r\n3530 Permission"));
    // `--insecure-control` gives Click's behaviour.
    let sent = sent.strip_suffix(b"write stop\n").unwrap();
    let answers = talk_by_port(config, &[sent], Run::insecure_control);
    assert!(!answers[0].contains("530"), "{}", answers[0]);
}

#[test]
fn calls_by_number_are_handlers() {
    let sent = b"llrpc s#4004C005\nllrpc s#80044006 4\n\x01\0\0\0read s.switch\n\
        llrpc s#80044006 4\n\x09\0\0\0llrpc c#c004c003 4\n\0\0\0\0\
        llrpc c#4004c005\nllrpc s#80044006\nllrpc s#20000000\nllrpc x#4004c005\nquit\n";
    let answers = talk(
        "); Idle -> s :: Switch(0) -> Idle; s [1] -> Idle; c :: Counter; Idle -> c -> Discard",
        "numbers",
        &[sent],
    );
    let lines: Vec<&str> = answers[0].split("\r\n").skip(1).collect();
    // Click's answers.
    let expected = [
        "200 LLRPC 's#4004C005' OK",
        "DATA 4",
        "\0\0\0\x00200 LLRPC 's#80044006' OK",
        "DATA 0",
        "200 Read handler 's.switch' OK",
        "DATA 1",
        "1522 LLRPC 's#80044006' error: Invalid argument",
        "200 LLRPC 'c#c004c003' OK",
        "DATA 4",
        "\0\0\0\x00522 LLRPC 'c#4004c005' error: Invalid argument",
        "522 LLRPC 's#80044006' requires 4 bytes input data",
        "501 Cannot call LLRPC 's#20000000' remotely",
        "510 No element named 'x'",
        "200 Goodbye!",
        "",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_reader_cannot_write() {
    let answers = talk(
        ", READONLY true); c :: Counter; Idle -> c -> Discard; Script(wait 1s, stop)",
        "readonly",
        &[b"write c.reset\ncheckwrite c.reset\nset c.count 1\nread c.count\n"],
    );
    let expected = "Click::ControlSocket/1.3\r\n530 Permission denied for 'c.reset'\r\n\
        530 Permission denied for 'c.reset'\r\n530 Handler 'c.count' read-only\r\n\
        200 Read handler 'c.count' OK\r\nDATA 1\r\n0";
    assert_eq!(answers[0], expected);
}

#[test]
fn garbage_half_lines_and_endless_lines_end_alone() {
    let garbage: Vec<u8> = (0..=255u8).cycle().take(5000).collect();
    let endless = vec![b'x'; 3 << 20];
    let huge = b"WRITEDATA c.reset 99999999\r\n";
    let half = b"READ c.cou";
    let good = b"READ c.count\r\nQUIT\r\n";
    let answers = talk(
        "); c :: Counter; Idle -> c -> Discard",
        "garbage",
        &[&garbage, &endless, huge, half, b"", good],
    );
    assert!(answers[1].ends_with("\r\n521 Line longer than 1048576 bytes\r\n"), "{}", answers[1]);
    assert!(answers[2].ends_with("\r\n521 Data too large for handler 'c.reset'\r\n"));
    assert!(answers[3].ends_with("\r\n511 No handler named 'c.cou'\r\n"));
    assert_eq!(answers[4], "Click::ControlSocket/1.3\r\n");
    assert!(answers[5].ends_with("200 Read handler 'c.count' OK\r\nDATA 1\r\n0200 Goodbye!\r\n"));
}

#[test]
fn a_client_that_takes_no_answers_is_not_read_from() {
    // Many answers of some size: the client sends all commands before it reads.
    let commands = b"READ s.run\n".repeat(200);
    let text = "x".repeat(60_000);
    let answers = talk_to(
        &format!("); s :: Script(TYPE PASSIVE, return {text})"),
        "answers",
        &[&commands, b"READ s.length abc\n"],
        Run::grants_replace,
    );
    let answer = format!("200 Read handler 's.run' OK\r\nDATA 60000\r\n{text}");
    assert_eq!(answers[0], format!("Click::ControlSocket/1.3\r\n{}", answer.repeat(200)));
    assert!(answers[1].ends_with("\r\n3"));
}

#[test]
fn a_port_in_use_is_passed_over() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut run = Run::new(&format!(
        "cs :: ControlSocket(tcp, {port}+, LOCALHOST true); Script(wait 10ms, stop)"
    ))
    .real_time();
    run.run();
    let got: u16 = run.read("cs.port").parse().unwrap();
    assert!(got > port && got < port + 12, "{got} after {port}");
    let mut stream = TcpStream::connect(("127.0.0.1", got)).unwrap();
    stream.write_all(b"QUIT\n").unwrap();
    let errors = Run::errors(&format!("ControlSocket(TCP, {port}, LOCALHOST true)"));
    assert!(errors.contains("bind: Address already in use"), "{errors}");
}

#[test]
fn a_connected_socket_the_program_was_started_with_is_the_only_client() {
    for given in ["", "FD "] {
        let (mut client, inherited) = UnixStream::pair().unwrap();
        let number = inherited.as_raw_fd();
        let mut run = Run::new(&format!(
            "cs :: ControlSocket(SOCKET, {given}{number}); Idle -> c :: Counter -> Discard"
        ))
        .real_time();
        client.write_all(b"READ c.count\nWRITE stop\n").unwrap();
        run.run();
        drop((run, inherited));
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let lines: Vec<&str> = answer.split("\r\n").collect();
        assert_eq!(
            lines[..3],
            ["Click::ControlSocket/1.3", "200 Read handler 'c.count' OK", "DATA 1"],
            "{given}"
        );
        assert_eq!(lines[3], "0200 Write handler 'stop' OK", "{given}");
    }
}

#[test]
fn other_descriptors_than_sockets_are_refused() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let errors = Run::errors(&format!("ControlSocket(SOCKET, {})", file.as_raw_fd()));
    assert!(errors.contains("fd: Socket operation on non-socket"), "{errors}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let errors = Run::errors(&format!("ControlSocket(SOCKET, {})", listener.as_raw_fd()));
    assert!(errors.contains("fd: Transport endpoint is not connected"), "{errors}");
}

#[test]
fn wrong_arguments_are_refused() {
    for (text, expected) in [
        ("ControlSocket()", "TYPE: required argument missing"),
        ("ControlSocket(FOO)", "unknown socket type 'FOO'"),
        ("ControlSocket(TCP)", "PORT: required argument missing"),
        ("ControlSocket(UNIX)", "FILENAME: required argument missing"),
        ("ControlSocket(TCP, x)", "PORT requires TCP port"),
        ("ControlSocket(TCP, 0+)", "PORT requires TCP port"),
    ] {
        let errors = Run::errors(text);
        assert!(errors.contains(expected), "{text}: {errors}");
    }
}
