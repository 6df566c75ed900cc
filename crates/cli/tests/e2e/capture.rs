//! Files of `capture` are read by tshark, tcpdump and capinfos; files of tcpdump are sent by
//! `replay` byte for byte.

use std::{
    fs,
    io::{Read, Write as _},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use linerate_port::pcap::{self, ReadOptions};
use linerate_test_support::{Lab, Namespace, require, wait_until};

use crate::{
    support::{
        DRIVERS, LINERATE, Program, Scratch, TIMEOUT, drops, linerate, linerate_in, number, words,
    },
    wire::{Listener, assert_same, frames, records, send},
};

/// Runs a peer program that must have nothing to complain about.
#[track_caller]
fn peer(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(require(program)).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    let harmless = ["reading from file", "Running as user"];
    let complaint = stderr.lines().find(|line| !harmless.iter().any(|text| line.starts_with(text)));
    assert_eq!(complaint, None, "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The frames of a file as tshark reads them.
#[track_caller]
fn dissected(file: &str) -> Vec<Vec<u8>> {
    let hex = peer("tshark", &["-n", "-r", file, "-T", "json", "-x", "-j", ""]);
    let packets: serde_json::Value = serde_json::from_str(&hex).unwrap();
    let packets = packets.as_array().expect("a list of packets");
    packets
        .iter()
        .map(|packet| {
            let hex = packet["_source"]["layers"]["frame_raw"][0].as_str().expect("raw bytes");
            (0..hex.len()).step_by(2).map(|at| byte(&hex[at..at + 2])).collect()
        })
        .collect()
}

fn byte(hex: &str) -> u8 {
    u8::from_str_radix(hex, 16).unwrap()
}

/// Two joined namespaces with interfaces `a0` and `b0`.
fn pair() -> (Namespace, Namespace) {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    (a, b)
}

/// Captures our standard set of frames at `b0` and returns the scratch directory of the files.
#[track_caller]
fn captured(driver: &str, file: &str, options: &str) -> Scratch {
    let (a, b) = pair();
    let scratch = Scratch::new();
    let count = frames().len();
    let line = format!("capture {driver}:b0 {} --count {count} {options}", scratch.file(file));
    let capture = Program::ready(&b, &line);
    send(&a, "a0", &frames());
    let summary = capture.end().summary();
    let flow = &summary["flows"][0];
    assert_eq!(number(flow, "sent_packets"), count as u64, "{summary}");
    assert_eq!((drops(flow, "receive_drops"), drops(flow, "transmit_drops")), (0, 0), "{summary}");
    scratch
}

#[test]
#[ignore = "needs root"]
fn peers_read_every_frame_of_either_format() {
    for driver in DRIVERS {
        for (file, kind) in [("c.pcap", "pcap"), ("c.pcapng", "pcapng")] {
            let scratch = captured(driver, file, "");
            let file = scratch.file(file);
            assert_same(&dissected(&file), &frames());
            let info = peer("capinfos", &["-t", "-c", "-o", &file]);
            let named = info.lines().any(|line| line.ends_with(&format!(" {kind}")));
            assert!(named, "not of the type {kind}: {info}");
            assert!(info.contains("Strict time order:   True"), "{info}");
            // tcpdump reads both, and writes them again as classic files.
            let copy = scratch.file("copy.pcap");
            peer("tcpdump", &["-Z", "root", "-r", &file, "-w", &copy]);
            assert_same(&records(&fs::read(&copy).unwrap()), &frames());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_snapshot_keeps_the_beginning_and_the_true_length() {
    for file in ["c.pcap", "c.pcapng"] {
        let scratch = captured("xdp", file, "--snaplen 96");
        let file = scratch.file(file);
        let cut: Vec<Vec<u8>> =
            frames().into_iter().map(|frame| frame[..frame.len().min(96)].to_vec()).collect();
        assert_same(&dissected(&file), &cut);
        let lengths = peer("tshark", &["-n", "-r", &file, "-T", "fields", "-e", "frame.len"]);
        let lengths: Vec<usize> = lengths.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lengths, frames().iter().map(Vec::len).collect::<Vec<_>>());
    }
}

/// Linux takes the outer tag out of a frame before the filter of a socket sees it.
#[test]
#[ignore = "needs root"]
fn filters_on_an_interface_have_its_tags_beside_frames() {
    let frame = |tags: &[u16], protocol: u8| {
        let tags = tags.iter().flat_map(|tag| [0x81, 0, (tag >> 8) as u8, *tag as u8]);
        let mut packet = vec![0; 46];
        packet[..4].copy_from_slice(&[0x45, 0, 0, 46]);
        packet[8..10].copy_from_slice(&[64, protocol]);
        [vec![2; 12], tags.collect(), vec![8, 0], packet].concat()
    };
    let last = frame(&[], 132);
    let sent = [
        frame(&[], 17),
        frame(&[7], 17),
        frame(&[7], 6),
        frame(&[8, 7], 17),
        frame(&[8], 17),
        last.clone(),
    ];
    for (expression, wanted) in [
        ("udp and vlan", &[1, 4][..]),
        ("udp", &[0, 1, 4]),
        ("vlan and vlan and udp", &[3]),
        ("vlan 7", &[1, 2]),
        ("ether proto 0x8100", &[3]),
    ] {
        let (a, b) = pair();
        let scratch = Scratch::new();
        let file = scratch.file("c.pcap");
        // The last packet ends the run.
        let count = wanted.len() + 1;
        let line =
            format!("capture -i b0 -w {file} --count {count} ip proto 132 or ({expression})");
        let capture = Program::ready(&b, &line);
        send(&a, "a0", &sent);
        let summary = capture.end().summary();
        assert_eq!(number(&summary["flows"][0], "sent_packets"), count as u64, "{expression}");
        let mut chosen: Vec<_> = wanted.iter().map(|at| sent[*at].clone()).collect();
        chosen.push(last.clone());
        assert_same(&records(&fs::read(&file).unwrap()), &chosen);
    }
}

#[test]
#[ignore = "needs root"]
fn rotated_files_are_whole_and_lose_nothing_between_them() {
    let scratch = captured("xdp", "c.pcapng", "--rotate-packets 30");
    let mut names: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), frames().len().div_ceil(30), "{names:?}");
    let files: Vec<_> = names.iter().map(|name| dissected(name)).collect();
    assert!(files.iter().all(|frames| !frames.is_empty() && frames.len() <= 30), "{names:?}");
    assert_same(&files.concat(), &frames());
}

/// A connection that goes on for as long as it is asked to: lines there and back over TCP.
struct Echo {
    client: TcpStream,
    lines: u32,
}

impl Echo {
    /// Between two namespaces with addresses.
    fn start(a: &Namespace, b: &Namespace) -> Echo {
        let server = b.enter(|| TcpListener::bind("198.18.0.2:22").unwrap());
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut line = [0; 16];
            while stream.read_exact(&mut line).is_ok() && stream.write_all(&line).is_ok() {}
        });
        let client = a.enter(|| TcpStream::connect("198.18.0.2:22").unwrap());
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.set_nodelay(true).unwrap();
        Echo { client, lines: 0 }
    }

    /// Sends a line and waits for it to come back.
    #[track_caller]
    fn goes_on(&mut self) {
        self.lines += 1;
        let (sent, mut back) = (format!("line {:011}", self.lines), [0; 16]);
        self.client.write_all(sent.as_bytes()).unwrap();
        self.client.read_exact(&mut back).expect("the connection stands still");
        assert_eq!(back, sent.as_bytes());
    }
}

fn addressed_pair() -> (Namespace, Namespace) {
    let (a, b) = pair();
    a.add_address("a0", "198.18.0.1/24");
    b.add_address("b0", "198.18.0.2/24");
    (a, b)
}

/// Traffic over the interface that is captured goes on: the packets are copies, of both directions,
/// and only of those asked for.
#[test]
#[ignore = "needs root"]
fn capturing_disturbs_no_traffic() {
    for port in ["xdp:b0", "packet:b0", "b0"] {
        let (a, b) = addressed_pair();
        let mut echo = Echo::start(&a, &b);
        echo.goes_on();
        let scratch = Scratch::new();
        let file = scratch.file("c.pcap");
        let line = format!("capture {port} {file} --count 40 tcp port 22 and greater 70");
        let capture = Program::ready(&b, &line);
        // Packets that the filter does not want do not count.
        a.expect(["ping", "-c", "1", "-W", "2", "198.18.0.2"]);
        (0..20).for_each(|_| echo.goes_on());
        let summary = capture.end().summary();
        let flow = &summary["flows"][0];
        assert_eq!(number(flow, "received_packets"), 40, "{summary}");
        assert_eq!(drops(flow, "receive_drops"), 0, "{summary}");
        let packets = dissected(&file);
        assert_eq!(packets.len(), 40);
        let lines = |packets: &[Vec<u8>], from: u8| {
            packets
                .iter()
                .filter(|packet| packet[29] == from)
                .map(|packet| packet[66..].to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&packets, 1), lines(&packets, 2), "{port}: not both directions");
        assert_eq!(lines(&packets, 1)[0], b"line 00000000002");
        assert!(!b.ip(["link", "show", "b0"]).contains("xdp"));
    }
}

#[test]
#[ignore = "needs root"]
fn a_direction_alone_can_be_captured() {
    for (direction, from) in [("in", 1), ("out", 2)] {
        let (a, b) = addressed_pair();
        let mut echo = Echo::start(&a, &b);
        let scratch = Scratch::new();
        let file = scratch.file("c.pcap");
        let line = format!("capture -i xdp:b0 -w {file} -c 10 -Q {direction} tcp and greater 70");
        let capture = Program::ready(&b, &line);
        (0..10).for_each(|_| echo.goes_on());
        capture.end().summary();
        let packets = dissected(&file);
        assert_eq!(packets.len(), 10);
        assert!(packets.iter().all(|packet| packet[29] == from), "{direction}");
    }
}

/// A command that would cut the host off says so, asks for confirmation, and has an exit code of
/// its own.
#[test]
#[ignore = "needs root"]
fn no_command_takes_an_interface_in_use_without_confirmation() {
    let (a, b) = addressed_pair();
    let mut echo = Echo::start(&a, &b);
    let scratch = Scratch::new();
    let file = scratch.file("c.pcap");
    let told = ["takes what b0 receives away from the host", "198.18.0.2/24 on b0", "--disconnect"];
    let taking = format!("capture xdp:b0 {file} --take");
    for line in ["sink xdp:b0", "forward xdp:b0 null:", &taking] {
        linerate_in(&b, line).failed(9, &told);
        echo.goes_on();
        Program::ready(&b, &format!("{line} --disconnect")).stop();
        Program::ready(&b, &line.replace("xdp:b0", "xdp:b0?disconnect")).stop();
    }
    let refused = linerate_in(&b, "run -e FromPort(xdp:b0)->Discard");
    assert!(told.iter().all(|part| refused.stderr.contains(part)), "{refused:#?}");
    assert_eq!(refused.code, Some(9), "{refused:#?}");
    let line = "run --disconnect --duration 100ms -e FromPort(xdp:b0)->Discard";
    linerate_in(&b, line).summary();
    echo.goes_on();
    linerate_in(&b, &format!("capture xdp:b0?zerocopy {file}")).failed(2, &["--take"]);
    linerate_in(&b, &format!("capture xdp:b0 {file} --take -Q out")).failed(2, &["-Q out"]);
}

/// Segments that the sender left to its interface to make are decided on one by one.
#[test]
#[ignore = "needs root"]
fn filters_see_segments_and_not_merged_packets() {
    let (a, b) = addressed_pair();
    for (namespace, interface) in [(&a, "a0"), (&b, "b0")] {
        namespace
            .expect(["ethtool", "-K", interface, "tx", "on", "sg", "on", "tso", "on", "gso", "on"]);
    }
    let server = b.enter(|| TcpListener::bind("198.18.0.2:22").unwrap());
    let mut client = a.enter(|| TcpStream::connect("198.18.0.2:22").unwrap());
    let (mut stream, _) = server.accept().unwrap();
    let scratch = Scratch::new();
    let file = scratch.file("c.pcap");
    let line = format!("capture b0 {file} -c 1 -Q in tcp and greater 100 and less 1000");
    let capture = Program::ready(&b, &line);
    // Two segments of 1448 bytes and the rest.
    client.write_all(&[7; 2 * 1448 + 100]).unwrap();
    stream.read_exact(&mut [0; 2 * 1448 + 100]).unwrap();
    capture.end().summary();
    let packets = dissected(&file);
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [66 + 100]);
}

/// Lines on standard output, all else on standard error.
#[test]
#[ignore = "needs root"]
fn packets_are_shown_as_tcpdump_shows_them() {
    let (a, b) = addressed_pair();
    a.expect(["ping", "-c", "1", "-W", "2", "198.18.0.2"]);
    let line = "capture b0 --print -c 4 -t icmp";
    let all = [&[LINERATE][..], &words(line)].concat();
    let mut capture = Program::start_command(&b, b.command(all), line);
    capture.wait_for("b0");
    a.expect(["ping", "-c", "2", "-i", "0.2", "-s", "16", "198.18.0.2"]);
    let ended = capture.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ended:#?}");
    let id = lines[0].split([' ', ',']).nth(9).unwrap();
    for (at, line) in lines.iter().enumerate() {
        let (ends, kind) = match at % 2 {
            0 => ("198.18.0.1 > 198.18.0.2", "request"),
            _ => ("198.18.0.2 > 198.18.0.1", "reply"),
        };
        let sequence = at / 2 + 1;
        let expected = format!("IP {ends}: ICMP echo {kind}, id {id}, seq {sequence}, length 24");
        assert_eq!(*line, expected);
    }
    assert!(ended.stderr.contains("captured 4 packets"), "{ended:#?}");
}

/// Each packet of the loopback interface is there once, at any length; a frame longer than a buffer
/// has its length recorded.
#[test]
#[ignore = "needs root"]
fn the_loopback_interface_and_all_interfaces_are_captured_without_options() {
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let host = lab.namespace("host");
    host.ip(["link", "set", "lo", "up"]);
    for port in ["lo", "any"] {
        let file = scratch.file(port);
        let line = format!("capture -i {port} -w {file} --print -c 4 -t icmp");
        let all = [&[LINERATE][..], &words(&line)].concat();
        let mut capture = Program::start_command(&host, host.command(all), &line);
        capture.wait_for("linerate: ready");
        for size in ["56", "65507"] {
            host.expect(["ping", "-c", "1", "-W", "10", "-s", size, "127.0.0.1"]);
        }
        let ended = capture.end();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let lengths: Vec<_> =
            ended.stdout.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(lengths, ["64", "64", "65515", "65515"], "{ended:#?}");
        let options = ReadOptions { cooked: true, ..ReadOptions::default() };
        let mut reader = pcap::Reader::open_with(&file, &options).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            records.push((record.orig_len, record.data.len()));
        }
        // The header of a cooked capture is six bytes longer than that of Ethernet.
        let more = if port == "any" { 6 } else { 0 };
        let expected = [(98, 98), (98, 98), (65_549, 65_344), (65_549, 65_344)];
        assert_eq!(records, expected.map(|(long, kept)| (long + more, kept + more as usize)));
    }
}

/// The interface and the direction of each packet are those that tcpdump says, in lines and in files.
#[test]
#[ignore = "needs root"]
fn packets_of_all_interfaces_say_by_which_they_came() {
    let ((a, b), scratch) = (addressed_pair(), Scratch::new());
    b.ip(["link", "set", "lo", "up"]);
    // Resolves the addresses.
    a.expect(["ping", "-c", "1", "-W", "5", "198.18.0.2"]);
    let (ours, theirs, log) = (scratch.file("ours"), scratch.file("theirs"), scratch.file("log"));
    let options = ["--immediate-mode", "-U", "-Z", "root", "-n", "-i", "any", "-c", "7", "-w"];
    let mut command = b.command([&["tcpdump"][..], &options, &[theirs.as_str(), "icmp"]].concat());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let mut tcpdump = b.spawn_command(command);
    let listening = || fs::read_to_string(&log).unwrap().contains("listening on");
    assert!(wait_until(listening, TIMEOUT), "{}", fs::read_to_string(&log).unwrap());
    let line = format!("capture -i any -w {ours} --print -c 7 -t icmp");
    let all = [&[LINERATE][..], &words(&line)].concat();
    let mut capture = Program::start_command(&b, b.command(all), &line);
    capture.wait_for("linerate: ready");
    a.expect(["ping", "-c", "1", "-W", "10", "198.18.0.2"]);
    b.expect(["ping", "-c", "1", "-W", "10", "127.0.0.1"]);
    // To all, to a group, and to another host.
    let frames = [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [2, 0, 0, 0, 0, 0x99]].map(|to| {
        let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 198, 18, 0, 1, 198, 18, 9, 9];
        [&to[..], &[2, 0, 0, 0, 0, 1, 8, 0], &ip, &[8, 0, 0, 0, 0, 0, 0, 0]].concat()
    });
    send(&a, "a0", &frames);
    let ended = capture.end();
    tcpdump.wait(TIMEOUT);
    let [ours, theirs] = [ours, theirs].map(|file| (fs::read(&file).unwrap(), file));
    assert_eq!(ours.0[20..24], theirs.0[20..24], "link types");
    assert_same(&records(&ours.0), &records(&theirs.0));
    let run = |words: &[&str]| {
        let output = b.command(words.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let read = |more: &[&str]| {
        let tcpdump = ["tcpdump", "-n", "-t", "-r", theirs.1.as_str()];
        let text = run(&[&tcpdump[..], more].concat());
        for (_, file) in [&ours, &theirs] {
            let capture = [LINERATE, "capture", "-t", "-q", "-r", file.as_str()];
            let mine = run(&[&capture[..], more].concat());
            assert_eq!(mine, text, "{more:?} {file}");
        }
        text
    };
    let lines = read(&[]);
    assert_eq!(ended.stdout, lines);
    let starts = ["b0    In ", "b0    Out", "lo    In ", "b0    B  ", "b0    M  ", "b0    P  "];
    assert!(
        starts.iter().all(|start| lines.lines().any(|line| line.starts_with(start))),
        "{lines}"
    );
    read(&["-e"]);
    let copy = scratch.file("copy");
    run(&[LINERATE, "capture", "-q", "-r", theirs.1.as_str(), "-w", copy.as_str()]);
    assert_same(&records(&fs::read(&copy).unwrap()), &records(&theirs.0));
    let json = run(&[LINERATE, "capture", "--json", "-r", theirs.1.as_str()]);
    let packet = json.lines().find(|line| line.contains("\"packet\"")).unwrap();
    let packet: serde_json::Value = serde_json::from_str(packet).unwrap();
    assert_eq!([&packet["interface"], &packet["direction"]], ["b0", "in"], "{packet}");
}

/// An interface whose packets an `xdp:` port takes shows a copying socket none of them.
#[test]
#[ignore = "needs root"]
fn a_capture_beside_an_xdp_port_warns() {
    let (a, _b) = pair();
    let quiet = linerate_in(&a, "capture -i a0 --duration 10ms");
    assert!(!quiet.stderr.contains("XDP program"), "{quiet:#?}");
    assert!(!quiet.stderr.contains("null:"), "no port was named but a0: {quiet:#?}");
    let sink = Program::ready(&a, "sink xdp:a0");
    let warned = linerate_in(&a, "capture -i a0 --duration 10ms");
    let warning = "warning: an XDP program is attached to a0";
    assert!(warned.stderr.contains(warning), "{warned:#?}");
    sink.stop();
}

/// tcpdump, at one end, writes a file; replayed to a link, tcpdump at its other end gets the same.
#[test]
#[ignore = "needs root"]
fn captures_of_tcpdump_are_replayed_byte_for_byte() {
    let scratch = Scratch::new();
    let recording = scratch.file("recording.pcap");
    {
        let (a, b) = pair();
        let listener = Listener::start(&b, "b0");
        send(&a, "a0", &frames());
        let got = listener.frames_and_file(frames().len(), &recording);
        assert_same(&got, &frames());
    }
    for driver in DRIVERS {
        for rate in ["max", "recorded", "2000pps"] {
            let (a, b) = pair();
            let listener = Listener::start(&b, "b0");
            let line = format!("replay {recording} {driver}:a0 --rate {rate}");
            let summary = Program::start(&a, &line).end().summary();
            let flow = &summary["flows"][0];
            assert_eq!(number(flow, "sent_packets"), frames().len() as u64, "{summary}");
            assert_same(&listener.frames(frames().len()), &frames());
            // Nothing but the file was sent.
            assert_eq!(a.counters("a0").tx_packets, frames().len() as u64);
        }
    }
}

/// The words of the command line are a port, a file and an expression, as far as nothing else says.
#[test]
fn words_are_found_where_they_belong() {
    let scratch = Scratch::new();
    let [all, some, none] = ["all.pcap", "some.pcapng", "none.pcap"].map(|name| scratch.file(name));
    let captured = |line: &str| {
        let summary = linerate(&format!("{line} --json")).summary();
        number(&summary["flows"][0], "sent_packets")
    };
    assert_eq!(captured(&format!("capture null:?count=9&copy {all} ether proto 0x88b5")), 9);
    assert_eq!(captured(&format!("capture -r {all} -w {some} ether broadcast and less 60")), 9);
    assert_eq!(captured(&format!("capture -i pcap:{some} -w {none} tcp or greater 61")), 0);
    assert_eq!(captured(&format!("capture -w {none} -c 4 pcap:{some}")), 4);
    let shown = linerate(&format!("capture -r {all} -c 2 -nn -l -U -tt -e less 60"));
    assert_eq!(shown.stdout.lines().count(), 2, "{shown:#?}");
    assert!(
        shown.stdout.lines().all(|line| line.contains(", ethertype Unknown (0x88b5), length 60: "))
    );
    let program = linerate("capture -d ip proto 6");
    assert!(
        program.stdout.starts_with("6\n40 0 0 12\n21 0 3 2048\n48 0 0 23\n21 0 1 6\n"),
        "{program:#?}"
    );
    for (line, part) in [
        ("capture", "the PORT to capture from is missing"),
        ("capture eth0", "the FILE to write, or --print, is missing"),
        ("capture -d tcp 80", "syntax error at '80', in the filter \"tcp 80\""),
        ("capture null: --print -w -", "cannot both go to standard output"),
        ("capture null: --print -Q in", "-Q and -p are about interfaces"),
        ("capture null: --print -C 1", "-C and -G are about files"),
        ("capture null: t.pcap -W 3", "-W is about the files of -C and -G"),
        ("capture -r t.pcap -w u.pcap -G 5 -W 3", "a file that is read ends by itself"),
        ("capture -i 9999 --print", "there is no interface number 9999"),
    ] {
        linerate(line).failed(2, &[part]);
    }
    let interfaces = linerate("capture -D");
    assert!(interfaces.stdout.contains(".lo ["), "{interfaces:#?}");
}

/// The names of the files in a directory that begin so, and how many records each has.
fn files(scratch: &Scratch, prefix: &str) -> Vec<(String, usize)> {
    let mut files: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(prefix))
        .map(|name| (name.clone(), records(&fs::read(scratch.file(&name)).unwrap()).len()))
        .collect();
    files.sort();
    files
}

/// Files are full and named as those of tcpdump.
#[test]
fn files_are_rotated_as_tcpdump_rotates_them() {
    let scratch = Scratch::new();
    let all = scratch.file("all.pcap");
    linerate(&format!("capture null:?size=128&count=40 {all} --quiet --json")).summary();
    let packets = records(&fs::read(&all).unwrap());
    // A file is full when it is larger than this before a packet: after a whole one.
    let each = 1000 / (16 + packets[0].len()) + 1;
    let count = packets.len().div_ceil(each);
    assert!((3..9).contains(&count), "{count}");
    let captured = |name: &str, options: &str| {
        let file = scratch.file(name);
        linerate(&format!("capture -r {all} -w {file} {options} --quiet --json")).summary();
    };

    captured("c", "-C 1k");
    let mut expected = vec![("c".to_owned(), each)];
    expected.extend((1..count).map(|number| (format!("c{number}"), each)));
    expected[count - 1].1 = packets.len() - (count - 1) * each;
    assert_eq!(files(&scratch, "c"), expected);
    let written =
        expected.iter().flat_map(|(name, _)| records(&fs::read(scratch.file(name)).unwrap()));
    assert_same(&written.collect::<Vec<_>>(), &packets);

    // The last two, of which the older one may be the second.
    captured("ring", "-C 1k -W 2");
    let names: Vec<_> = files(&scratch, "ring").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ring0", "ring1"]);
    captured("wide", "-C 1k -W 11");
    assert_eq!(files(&scratch, "wide")[1], ("wide01".to_owned(), each));
    // Nothing came, and the file says so.
    captured("empty", "-C 1k greater 2000");
    assert_eq!(files(&scratch, "empty"), [("empty".to_owned(), 0)]);
}

/// A file for each span of time, named by its beginning.
#[test]
fn files_are_named_by_their_time_as_tcpdump_names_them() {
    let scratch = Scratch::new();
    let all = scratch.file("all.pcap");
    let options = pcap::Options::new(pcap::Format::Pcap);
    let mut writer = pcap::Writer::create(&all, &options).unwrap();
    // Seconds are the same in all time zones.
    for seconds in [5, 6, 66, 67, 130] {
        let time = (1_700_000_000 / 60 * 60 + seconds) * 1_000_000_000;
        writer.write(time, 60, &[2; 60]).unwrap();
    }
    writer.finish().unwrap();
    for (name, options, expected) in [
        ("g", "-G 60", [("g-05", 2), ("g-06", 2), ("g-10", 1)]),
        ("b", "-G 60 -C 1", [("b-05", 2), ("b-06", 2), ("b-10", 1)]),
        ("w", "-G 60 -C 1 -W 3", [("w-050", 2), ("w-060", 2), ("w-100", 1)]),
    ] {
        let file = scratch.file(&format!("{name}-%S"));
        linerate(&format!("capture -r {all} -w {file} {options} --quiet --json")).summary();
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(files(&scratch, &format!("{name}-")), expected, "{options}");
    }
}

/// A packet under a snap length is read, with the length the packet had.
#[test]
fn cut_packets_are_read_and_keep_their_length() {
    let scratch = Scratch::new();
    let [cut, again] = ["cut.pcap", "again.pcapng"].map(|name| scratch.file(name));
    for kept in [10, 40] {
        let line = format!("capture null:?size=128&count=5 {cut} -s {kept} --quiet --json");
        linerate(&line).summary();
        let shown = linerate(&format!("capture -r {cut} --quiet"));
        assert_eq!(shown.stdout.lines().count(), 5, "{shown:#?}");
        for (expression, count) in [("greater 100", 5), ("less 100", 0), ("", 5)] {
            let line = format!("capture -r {cut} -w {again} --quiet --json {expression}");
            let summary = linerate(&line).summary();
            let flow = &summary["flows"][0];
            assert_eq!(number(flow, "sent_packets"), count, "{kept} {expression}: {summary}");
            assert_eq!(drops(flow, "receive_drops"), 0, "{summary}");
        }
        let mut reader = pcap::Reader::open(&again).unwrap();
        let mut lengths = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            lengths.push((record.data.len(), record.orig_len));
        }
        assert_eq!(lengths.len(), 5);
        assert!(lengths.iter().all(|(data, had)| *data == kept && *had > 100), "{lengths:?}");
    }
}

/// Merged segments are as long as a packet of IP can be, whatever the MTU.
#[test]
fn long_packets_of_files_are_read() {
    let scratch = Scratch::new();
    let [long, again] = ["long.pcap", "again.pcap"].map(|name| scratch.file(name));
    let options = pcap::Options::new(pcap::Format::Pcap);
    let mut writer = pcap::Writer::create(&long, &options).unwrap();
    for (at, length) in [(1, 1514), (2, 9014), (3, 65_226)] {
        writer.write(at, length, &vec![2; length as usize]).unwrap();
    }
    writer.finish().unwrap();
    linerate(&format!("capture -r {long} -w {again} --quiet --json")).summary();
    assert_same(&records(&fs::read(&again).unwrap()), &records(&fs::read(&long).unwrap()));
}

/// Without any interface: from file to file, in both formats, nothing changes.
#[test]
fn a_file_survives_copying_from_format_to_format() {
    let scratch = Scratch::new();
    let [first, second, third] = ["a.pcap", "b.pcapng", "c.pcap"].map(|name| scratch.file(name));
    linerate(&format!("capture null:?size=128&count=1000 {first} --quiet --json")).summary();
    for (from, to) in [(&first, &second), (&second, &third)] {
        let line = format!("forward --wait pcap:{from} pcap:{to} --quiet --json");
        let summary = linerate(&line).summary();
        assert_eq!(number(&summary["flows"][0], "sent_packets"), 1000, "{summary}");
    }
    let [first, third] = [first, third].map(|name| fs::read(name).unwrap());
    assert_eq!(records(&first).len(), 1000);
    assert_same(&records(&third), &records(&first));
}
