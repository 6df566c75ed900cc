//! `linerate pcap`: a program of another project with our library.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
};

use linerate_test_support::{Lab, is_waiting, wait_until};

use crate::{
    support::{LINERATE, Scratch, TIMEOUT},
    wire::{Listener, frames, send},
};

fn launch(words: &[&str]) -> Output {
    Command::new(LINERATE).arg("pcap").args(words).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_exit_code_is_the_programs() {
    let ended = launch(&["--", "sh", "-c", "exit 7"]);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("copied from"), "{ended:?}");
    let quiet = launch(&["--quiet", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!((quiet.status.code(), quiet.stderr), (None, Vec::new()));
    let missing = launch(&["-q", "--", "/nonesuch/program"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot run /nonesuch/program"));
    assert!(!missing.status.success());
}

#[test]
fn a_program_gets_the_variables_that_are_printed() {
    let options = ["--quiet", "--take", "--map", "wan=ring:x?slots=8"];
    let printed = launch(&[&options[..], &["--print"]].concat());
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("export LINERATE_PCAP_MAP='wan=ring:x?slots=8'\n"), "{printed}");
    assert!(printed.contains("export LINERATE_PCAP_PLAIN='xdp:'\n"), "{printed}");
    // Inherited variables are not meant for the program.
    let before = [("LINERATE_PCAP_SAY", "1"), ("LINERATE_PCAP_MAP", "lan=null:")];
    let script = format!("{printed} env");
    let by_shell = Command::new("sh").args(["-c", &script]).envs(before).output().unwrap();
    let words = [&["pcap"], &options[..], &["--", "env"]].concat();
    let by_us = Command::new(LINERATE).args(words).envs(before).output().unwrap();
    let ours = |output: Output| {
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("LINERATE_PCAP") || line.starts_with("LD_LIBRARY_PATH"))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    // A program that is named is not run.
    let named = launch(&[&options[..], &["--print", "--", "/nonesuch/program", "-x"]].concat());
    assert_eq!((named.status.code(), &named.stdout[..]), (Some(0), printed.as_bytes()));
    let variables = ours(by_us);
    assert_eq!(variables.len(), 3, "{variables:?}");
    assert_eq!(variables, ours(by_shell));
    let missing = launch(&["--system", "/nonesuch.so", "--print"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        !missing.status.success() && said.contains("cannot use the library /nonesuch.so: No such"),
        "{said}"
    );
    let wrong = launch(&["--map", "wan", "--print"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("NAME=PORT"), "{wrong:?}");
}

/// Loads a library by its path, and ends when its input does.
const LOADER: &str = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); sys.stdin.read()";

/// A program with a libpcap of its own is told about, whether that was found in its file or in its memory.
#[test]
#[ignore = "needs libpcap"]
fn a_libpcap_of_a_programs_own_is_told_about() {
    let scratch = Scratch::new();
    // As a wheel has it.
    let own = scratch.file("libpcap-1c8e.so.1.10.3");
    let system = format!("/usr/lib/{}-linux-gnu/libpcap.so.0.8", std::env::consts::ARCH);
    fs::copy(&system, &own).unwrap();
    for by in [&own, &system] {
        // One that the program starts, too.
        let script = format!("python3 -c '{LOADER}' {by}; exit $?");
        let mut command = Command::new(LINERATE);
        command.args(["pcap", "--", "sh", "-c", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(running.stderr.take().unwrap());
        while !said.contains("of its own") {
            let read = lines.read_line(&mut said).unwrap();
            assert!(read > 0, "it has ended: {said}");
        }
        assert!(said.contains("warning: python3 (process "), "{said}");
        drop(running.stdin.take());
        assert!(running.wait().unwrap().success());
        // All writers have ended.
        assert_eq!(lines.read_line(&mut said).unwrap(), 0, "{said}");
    }
    let by_name = ["--", "python3", "-c", LOADER, "libpcap.so.0.8"];
    let covered = launch(&by_name);
    let said = String::from_utf8_lossy(&covered.stderr).into_owned();
    assert!(covered.status.success() && !said.contains("of its own"), "{said}");
    assert!(launch(&[&["-q"], &by_name[..]].concat()).stderr.is_empty());
    // Linked with it: data behind a program's end do not harm it.
    let inside = scratch.file("inside");
    let shell = fs::read("/bin/sh").unwrap();
    fs::write(&inside, [&shell[..], b"libpcap version 1.10.4"].concat()).unwrap();
    fs::set_permissions(&inside, fs::metadata("/bin/sh").unwrap().permissions()).unwrap();
    let ended = launch(&["--", &inside, "-c", "exit 3"]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("has a libpcap inside of it"), "{said}");
    assert_eq!(ended.status.code(), Some(3));
    let printed = launch(&["--print", "--", &inside, "-c", "exit 3"]);
    let said = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert!(said.contains("has a libpcap inside of it"), "{said}");
    assert_eq!(printed.status.code(), Some(0));
}

#[test]
#[ignore = "needs root"]
fn tcpdump_captures_by_xdp_and_ends_by_a_signal() {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    let scratch = Scratch::new();
    let file = scratch.file("taken.pcap");
    let words = [LINERATE, "pcap", "--take", "--", "tcpdump", "-U", "-i", "b0", "-w", &file];
    let mut command = b.command(words);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut running = b.spawn_command(command);
    let taken = || b.expect(["ip", "link", "show", "b0"]).contains("xdp");
    assert!(wait_until(taken, TIMEOUT), "nobody takes it");
    assert!(wait_until(|| is_waiting(running.id()), TIMEOUT), "it does not wait for packets");
    send(&a, "a0", &frames());
    // With -U each packet is written as it comes.
    let whole = 24 + frames().iter().map(|frame| 16 + frame.len()).sum::<usize>();
    let written = || fs::metadata(&file).is_ok_and(|file| file.len() >= whole as u64);
    assert!(wait_until(written, TIMEOUT), "not all is written");
    running.signal(rustix::process::Signal::INT);
    let ended = running.output(TIMEOUT);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let captured = format!("{} packets captured", frames().len());
    assert!(said.contains(&captured) && said.contains("taken by AF_XDP"), "{said}");
    assert!(wait_until(|| !taken(), TIMEOUT), "it is left taken");
}

/// Broadcasts a hundred frames by libpcap, as the loader finds it.
const INJECTOR: &str = "\
import ctypes, sys
pcap = ctypes.CDLL('libpcap.so.0.8')
pcap.pcap_open_live.restype = ctypes.c_void_p
words = ctypes.create_string_buffer(256)
device = ctypes.c_void_p(pcap.pcap_open_live(sys.argv[1].encode(), 65535, 0, 0, words))
assert device, words.value
for number in range(100):
    frame = b'\\xff' * 6 + b'\\x02' + b'\\0' * 5 + b'\\x88\\xb5' + bytes([number]) * 50
    assert pcap.pcap_sendpacket(device, frame, len(frame)) == 0
pcap.pcap_close(device)
";

/// Sends as many packets as it is told in a loop, and ends without closing; or, until it cannot, and says why.
const LOOP: &str = "\
import ctypes, sys
pcap = ctypes.CDLL('libpcap.so.0.8')
pcap.pcap_open_live.restype = pcap.pcap_geterr.restype = ctypes.c_void_p
words = ctypes.create_string_buffer(256)
device = ctypes.c_void_p(pcap.pcap_open_live(sys.argv[1].encode(), 65535, 0, 0, words))
assert device, words.value
frame = ctypes.create_string_buffer(b'\\xff' * 6 + b'\\x02' + b'\\0' * 5 + b'\\x88\\xb5', 60)
send = pcap.pcap_inject
left = int(sys.argv[2])
while left:
    if send(device, frame, 60) == 60:
        left -= 1
        continue
    said = ctypes.string_at(pcap.pcap_geterr(device)).decode()
    # A packet may be in the midst of it when a link goes.
    if left > 0 or said != 'send: No buffer space available':
        print(said)
        break
";

/// Tries to send, and prints libpcap's error.
const MUTE: &str = "\
import ctypes, sys
pcap = ctypes.CDLL('libpcap.so.0.8')
pcap.pcap_open_live.restype = ctypes.c_void_p
pcap.pcap_geterr.restype = ctypes.c_char_p
words = ctypes.create_string_buffer(256)
device = ctypes.c_void_p(pcap.pcap_open_live(sys.argv[1].encode(), 65535, 0, 0, words))
assert device, words.value
print(pcap.pcap_sendpacket(device, b'x' * 60, 60), pcap.pcap_geterr(device).decode())
";

/// Two programs capture the frames of one interface, through a cluster, and one sends there.
#[test]
#[ignore = "needs root"]
fn two_captures_and_an_injector_share_a_port_through_a_cluster() {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    let configuration = "FromPort(xdp:b0) -> ConsumerFanOut(first, second);
                         FromConsumer(sender, SPARE 64) -> ToPort(xdp:b0)";
    let serve = [LINERATE, "cluster", "serve", "--quiet", "--socket", "@pcap", "-e", configuration];
    let mut command = b.command(serve);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = b.spawn_command(command);
    let taken = || b.expect(["ip", "link", "show", "b0"]).contains("xdp");
    assert!(wait_until(taken, TIMEOUT), "nobody takes it");

    let count = frames().len().to_string();
    let capture = |name: &str| {
        let map = format!("x=cluster:@pcap?name={name}");
        let tcpdump = ["tcpdump", "-n", "-t", "-XX", "-i", "x", "-c", &count];
        let mut command =
            b.command([&[LINERATE, "pcap", "-q", "-m", &map, "--"], &tcpdump[..]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        b.spawn_command(command)
    };
    let captures = ["first", "second"].map(capture);
    // The listening socket, and an accepted one for each.
    let sockets = || b.expect(["cat", "/proc/net/unix"]).matches("@pcap").count();
    assert!(wait_until(|| sockets() >= 3, TIMEOUT), "they do not attach");
    let wait = || captures.iter().all(|capture| is_waiting(capture.id()));
    assert!(wait_until(wait, TIMEOUT), "they do not wait for packets");
    let listener = Listener::start(&a, "a0");
    let map = "x=cluster:@pcap?name=sender";
    let injector = [LINERATE, "pcap", "-q", "-m", map, "--", "python3", "-c", INJECTOR, "x"];
    let injector = b.spawn_command(b.command(injector));
    send(&a, "a0", &frames());
    let ended = injector.output(TIMEOUT);
    assert!(ended.status.success(), "{ended:?}");
    let injected = |frame: &&Vec<u8>| frame[12..14] == [0x88, 0xb5];
    let arrived = listener.frames_until(|all| all.iter().filter(injected).count() >= 100);
    let numbers = arrived.iter().filter(injected).map(|frame| usize::from(frame[14]));
    assert!(numbers.eq(0..100), "{arrived:02x?}");
    let [first, second] = captures.map(|running| running.output(TIMEOUT));
    assert!(first.stdout.len() > 1000, "{first:?}");
    assert_eq!(String::from_utf8(first.stdout), String::from_utf8(second.stdout));
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(said.contains("0 packets dropped by kernel"), "{said}");
    // A place without a FromConsumer has no buffer to write to.
    let map = "x=cluster:@pcap?name=first";
    let words = [LINERATE, "pcap", "-q", "-m", map, "--", "python3", "-c", MUTE, "x"];
    let mute = b.expect(words);
    assert_eq!(mute.trim(), "-1 Writing packets is not supported on this device");
    server.signal(rustix::process::Signal::INT);
    server.wait(TIMEOUT);
}

/// Frames sent one after the other all go, whether the handle is closed or not; and a lost link is
/// an error.
#[test]
#[ignore = "needs root"]
fn a_loop_sends_all_frames_and_gets_an_error_when_the_link_is_lost() {
    const COUNT: u64 = 30_000;
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    for port in ["packet:b0", "xdp:b0"] {
        let map = format!("x={port}");
        let run = |count: &str| {
            let words =
                [LINERATE, "pcap", "-q", "-m", &map, "--", "python3", "-c", LOOP, "x", count];
            let mut command = b.command(words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            b.spawn_command(command)
        };
        let before = a.counters("a0").rx_packets;
        let ended = run(&COUNT.to_string()).output(TIMEOUT);
        assert!(ended.status.success() && ended.stdout.is_empty(), "{port}: {ended:?}");
        let arrived = || a.counters("a0").rx_packets - before;
        assert!(wait_until(|| arrived() >= COUNT, TIMEOUT), "{port}: {} arrive", arrived());

        let endless = run("-1");
        assert!(wait_until(|| arrived() >= 3 * COUNT, TIMEOUT), "{port}: nobody sends");
        b.expect(["ip", "link", "set", "b0", "down"]);
        let ended = endless.output(TIMEOUT);
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert_eq!(said.trim(), "send: Network is down", "{port}: {ended:?}");
        b.link_up("b0");
    }
}
