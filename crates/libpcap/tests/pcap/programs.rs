//! Programs of Debian's, unmodified, once with the system's libpcap and once with this one, on the
//! same traffic: their outputs and files are equal.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use linerate_test_support::{
    Lab, Namespace, is_waiting,
    programs::{require, require_python},
    wait_until,
};

use crate::{
    support::{Handle, frame, numbers, ring},
    table::library,
};

/// Longest that a program may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Two namespaces with interfaces `a0` and `b0`, and a directory for files written meanwhile.
struct Bench {
    a: Namespace,
    b: Namespace,
    scratch: tempfile::TempDir,
}

/// Library that a program runs with, and kind of its interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LibraryChoice {
    System,
    Packet,
    Xdp,
    /// `xdp:` where the host has addresses.
    XdpDisconnect,
}

impl Bench {
    fn new() -> Bench {
        let lab = Lab::new();
        let (a, b) = (lab.namespace("a"), lab.namespace("b"));
        lab.veth(&a, "a0", &b, "b0");
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("library");
        fs::create_dir(&folder).unwrap();
        for name in ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"] {
            symlink(library(), folder.join(name)).unwrap();
        }
        Bench { a, b, scratch }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Gives both ends addresses: 10.9.0.1 and 10.9.0.2.
    fn addressed() -> Bench {
        let bench = Bench::new();
        bench.a.add_address("a0", "10.9.0.1/24");
        bench.b.add_address("b0", "10.9.0.2/24");
        bench
    }

    fn command(&self, namespace: &Namespace, with: LibraryChoice, words: &[&str]) -> Command {
        let mut command = namespace.command(words);
        // dumpcap and others say the same in English everywhere.
        command.env("LC_ALL", "C").env("HOME", self.scratch.path());
        let port = match with {
            LibraryChoice::System => return command,
            LibraryChoice::Packet => "packet:",
            LibraryChoice::Xdp => "xdp:",
            LibraryChoice::XdpDisconnect => "xdp:?disconnect=on",
        };
        command.env("LD_LIBRARY_PATH", self.file("library"));
        command.env("LINERATE_PCAP_PLAIN", port);
        // A library that would not be ours would not know it.
        command
    }

    /// Runs a program to its end.
    fn run(&self, namespace: &Namespace, with: LibraryChoice, words: &[&str]) -> Output {
        let mut command = self.command(namespace, with, words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        namespace.spawn_command(command).output(TIMEOUT)
    }

    /// A capture of frames of many kinds, written by the system's libpcap.
    fn traffic(&self) -> PathBuf {
        let path = self.file("traffic.pcap");
        let handle = Handle::open(&ring(), 0);
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a string; all arguments are used as they are meant.
        unsafe {
            use linerate_pcap::{abi::PacketHeader, exports::*};
            let dumper = pcap_dump_open(handle.0, name.as_ptr());
            for (number, bytes) in frames().iter().enumerate() {
                let time = libc::timeval { tv_sec: 1, tv_usec: number as i64 };
                let length = bytes.len() as u32;
                let header = PacketHeader { time, captured: length, length };
                pcap_dump(dumper.cast(), &raw const header, bytes.as_ptr());
            }
            pcap_dump_close(dumper);
        }
        path
    }

    /// Runs a program that reads the packets of `a0` until it ends by itself.
    fn watch(&self, with: LibraryChoice, words: &[&str]) -> Output {
        let traffic = self.traffic();
        let mut command = self.command(&self.b, with, words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut running = self.b.spawn_command(command);
        wait_for_socket(&self.b, running.id(), with);
        let replay = ["tcpreplay", "--topspeed", "-i", "a0", traffic.to_str().unwrap()];
        let sent = self.run(&self.a, LibraryChoice::System, &replay);
        assert!(sent.status.success(), "{sent:?}");
        if !wait_until(|| !running.is_running(), TIMEOUT) {
            running.signal(rustix::process::Signal::INT);
        }
        running.output(TIMEOUT)
    }
}

/// Waits until a program captures in the namespace, and has set its filter: then it waits for packets.
fn wait_for_socket(namespace: &Namespace, process: u32, with: LibraryChoice) {
    let captures = || {
        if matches!(with, LibraryChoice::Xdp | LibraryChoice::XdpDisconnect) {
            return namespace.expect(["ip", "link"]).contains("xdp");
        }
        namespace.expect(["cat", "/proc/net/packet"]).lines().count() > 1
    };
    assert!(wait_until(captures, TIMEOUT), "nobody captures");
    assert!(wait_until(|| is_waiting(process), TIMEOUT), "it does not wait for packets");
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    assert_eq!(maps.contains("liblinerate_pcap"), with != LibraryChoice::System, "another library");
}

fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = (0..20).map(frame).collect();
    // ARP, a tagged frame, one to all, IPv6, and the longest.
    let mut arp = frame(0);
    arp[12..14].copy_from_slice(&[8, 6]);
    arp[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    let mut tagged = frame(7);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let mut all = frame(8);
    all[..6].fill(0xff);
    let mut six = frame(0);
    six[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17, 64]);
    let mut long = frame(10);
    long.resize(1514, 0x5a);
    long[16..18].copy_from_slice(&1500u16.to_be_bytes());
    frames.extend([arp, tagged, all, six, long]);
    frames
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// Takes out lines with numbers that are times, or numbers of processes.
fn without(lines: Vec<String>, unsteady: &[&str]) -> Vec<String> {
    lines.into_iter().filter(|line| !unsteady.iter().any(|part| line.contains(part))).collect()
}

/// The output of a program on the traffic is equal with each library.
#[track_caller]
fn assert_same_output(words: &[&str], unsteady: &[&str], least: usize) {
    let all = [LibraryChoice::System, LibraryChoice::Packet, LibraryChoice::Xdp];
    assert_same_output_with(&all, words, unsteady, least);
}

#[track_caller]
fn assert_same_output_with(all: &[LibraryChoice], words: &[&str], unsteady: &[&str], least: usize) {
    let mut expected = None;
    for &with in all {
        let output = Bench::new().watch(with, words);
        let printed = without(lines(&output.stdout), unsteady);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.len() >= least, "{words:?} {with:?}: {printed:#?} {said}");
        match &expected {
            None => expected = Some(printed),
            Some(expected) => assert_eq!(&printed, expected, "{words:?} {with:?}: {said}"),
        }
    }
}

#[test]
#[ignore = "needs root"]
fn tcpdump_prints_the_same() {
    let words = ["tcpdump", "-n", "-t", "-e", "-XX", "-c", "25", "-i", "b0"];
    assert_same_output(&words, &[], 100);
    let words =
        ["tcpdump", "-n", "-t", "-s", "40", "-c", "1", "-i", "b0", "udp and port 9 and len > 60"];
    assert_same_output(&words, &[], 1);
    let words = ["tcpdump", "-n", "-t", "-Q", "in", "-c", "1", "-i", "b0", "vlan 5"];
    assert_same_output(&words, &[], 1);
}

/// The kernel leaves out packets that the last filter does not want, and they are not counted.
#[test]
#[ignore = "needs root"]
fn filters_that_the_kernel_has_are_changed() {
    let bench = Bench::new();
    let a = bench.a.enter(|| Handle::open("packet:a0", 0));
    let b = bench.b.enter(|| Handle::open("packet:b0", 100));
    let mut wanted = 0;
    for (filter, expected) in [
        ("udp dst port 771", &[3][..]),
        ("udp dst port 773 or arp", &[5]),
        // A length is asked for here alone.
        ("udp dst port 775 and greater 60", &[7]),
        ("udp dst portrange 768-775", &[1, 3, 5, 7]),
        ("udp dst port 9", &[0, 2, 4, 6]),
    ] {
        b.set_filter(filter);
        a.send(0, 8);
        let mut packets = Vec::new();
        let all = || {
            packets.extend(b.dispatch(-1).1);
            packets.len() >= expected.len()
        };
        assert!(wait_until(all, TIMEOUT), "{filter}");
        packets.extend(b.dispatch(-1).1);
        assert_eq!(numbers(&packets), expected, "{filter}");
        wanted += expected.len();
    }
    let statistics = b.statistics();
    assert_eq!((statistics.received as usize, statistics.dropped), (wanted, 0));
}

/// Filters by the direction of packets.
#[test]
#[ignore = "needs root"]
fn filters_choose_a_direction() {
    for (filter, wanted) in [
        ("icmp and inbound", "10.9.0.1 > 10.9.0.2: ICMP echo reply"),
        ("icmp and outbound", "10.9.0.2 > 10.9.0.1: ICMP echo request"),
    ] {
        for with in [LibraryChoice::System, LibraryChoice::Packet] {
            let bench = Bench::addressed();
            let words = ["tcpdump", "-n", "-t", "--immediate-mode", "-c", "3", "-i", "b0", filter];
            let mut command = bench.command(&bench.b, with, &words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
            let running = bench.b.spawn_command(command);
            wait_for_socket(&bench.b, running.id(), with);
            bench.run(
                &bench.b,
                LibraryChoice::System,
                &["ping", "-c", "20", "-i", "0.02", "10.9.0.1"],
            );
            let printed = lines(&running.output(TIMEOUT).stdout);
            assert_eq!(printed.len(), 3, "{filter} {with:?}: {printed:#?}");
            assert!(printed.iter().all(|line| line.contains(wanted)), "{with:?}: {printed:#?}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn tshark_and_dumpcap_print_and_write_the_same() {
    let fields = "frame.len,eth.src,eth.type,vlan.id,ip.src,udp.dstport,arp.opcode";
    let mut words = vec!["tshark", "-n", "-i", "b0", "-c", "25", "-T", "fields"];
    words.extend(fields.split(',').flat_map(|field| ["-e", field]));
    // dumpcap gives up the privileges that AF_XDP needs before it opens a device.
    assert_same_output_with(&[LibraryChoice::System, LibraryChoice::Packet], &words, &[], 25);
    let refused = Bench::new();
    // It removes the file again.
    let file = refused.file("none.pcap");
    let words = ["dumpcap", "-i", "b0", "-c", "1", "-w", file.to_str().unwrap()];
    let output = refused.run(&refused.b, LibraryChoice::Xdp, &words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let refusal = "not permitted to make an XDP socket map; programs that give up their rights";
    assert!(said.contains(refusal), "{said}");

    let mut expected: Option<Vec<String>> = None;
    for with in [LibraryChoice::System, LibraryChoice::Packet] {
        let bench = Bench::new();
        let file = bench.file("dumped.pcap");
        let words = ["dumpcap", "-q", "-P", "-i", "b0", "-c", "25", "-w", file.to_str().unwrap()];
        bench.watch(with, &words);
        let read = Command::new(require("tcpdump"))
            .args(["-n", "-t", "-XX", "-r", file.to_str().unwrap()])
            .output()
            .unwrap();
        let read = lines(&read.stdout);
        match &expected {
            None => expected = Some(read),
            Some(expected) => assert_eq!(&read, expected, "{with:?}"),
        }
    }
    assert!(expected.unwrap().len() > 100);
}

#[test]
#[ignore = "needs root"]
fn ngrep_prints_the_same() {
    let words = ["ngrep", "-q", "-x", "-n", "10", "-d", "b0", "", "udp and port 9"];
    assert_same_output(&words, &["interface: "], 10);
}

#[test]
#[ignore = "needs root"]
fn scapy_sniffs_and_sends_the_same() {
    let script = "\
from scapy.all import *
conf.use_pcap = True
for packet in sniff(iface='b0', count=25, timeout=20):
    print(packet.summary(), bytes(packet).hex())
";
    let python = require_python(&["scapy"], "python3-scapy").display().to_string();
    assert_same_output(&[&python, "-c", script], &[], 25);
}

#[test]
#[ignore = "needs root"]
fn tcpreplay_sends_the_same() {
    for with in [LibraryChoice::System, LibraryChoice::Packet, LibraryChoice::Xdp] {
        let bench = Bench::new();
        let traffic = bench.traffic();
        let file = bench.file("sent.pcap");
        let words = ["tcpdump", "-U", "-i", "b0", "-c", "25", "-w", file.to_str().unwrap()];
        let mut command = bench.command(&bench.b, LibraryChoice::System, &words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut capture = bench.b.spawn_command(command);
        wait_for_socket(&bench.b, capture.id(), LibraryChoice::System);
        let words = ["tcpreplay", "-i", "a0", "--topspeed", traffic.to_str().unwrap()];
        let sent = bench.run(&bench.a, with, &words);
        let said = String::from_utf8_lossy(&sent.stdout).into_owned();
        assert!(said.contains("Successful packets:        25"), "{with:?}: {sent:?}");
        assert!(wait_until(|| !capture.is_running(), TIMEOUT), "{with:?}");
        let handle = |path: &Path| {
            let name = format!("pcap:{}?short=keep", path.display());
            Handle::open(&name, 0).dispatch(-1).1
        };
        let bytes = |path| handle(path).into_iter().map(|packet| packet.bytes).collect::<Vec<_>>();
        assert_eq!(bytes(&file), bytes(&traffic), "{with:?}");
    }
}

/// Programs that ask and hear the answer. A program that still has its rights when it opens a
/// device can take it.
#[test]
#[ignore = "needs root"]
fn arping_and_arp_scan_hear_the_same_answers() {
    let bench = Bench::addressed();
    let answers = |with, words: &[&str]| {
        let output = bench.run(&bench.a, with, words);
        let printed = lines(&output.stdout);
        let answers = printed.iter().filter(|line| line.contains("10.9.0.2"));
        // Behind the address of the station there are times.
        let heard: Vec<String> = answers
            .map(|line| line.split("index=").next().unwrap().trim_end().to_owned())
            .collect();
        assert!(heard.len() >= 2 || words[0] == "arp-scan", "{with:?} {output:?}");
        assert!(!heard.is_empty(), "{with:?} {output:?}");
        heard
    };
    let arping = ["arping", "-c", "2", "-i", "a0", "10.9.0.2"];
    let expected = answers(LibraryChoice::System, &arping);
    assert_eq!(answers(LibraryChoice::Packet, &arping), expected);
    assert_eq!(answers(LibraryChoice::XdpDisconnect, &arping), expected);
    let scan = ["arp-scan", "-q", "-x", "-I", "a0", "10.9.0.2"];
    assert_eq!(answers(LibraryChoice::Packet, &scan), answers(LibraryChoice::System, &scan));
    let refused = bench.run(&bench.a, LibraryChoice::XdpDisconnect, &scan);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("give up their rights"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn nmap_finds_the_same_ports() {
    let bench = Bench::addressed();
    let mut serve = bench.b.command(["python3", "-m", "http.server", "8080"]);
    serve.stdout(Stdio::null()).stderr(Stdio::null());
    let _server = bench.b.spawn_command(serve);
    let listens = || bench.b.expect(["cat", "/proc/net/tcp"]).contains(":1F90 ");
    assert!(wait_until(listens, TIMEOUT));
    let words = ["nmap", "-n", "-sS", "-p", "8070-8090", "10.9.0.2"];
    let scan = |with| {
        let output = bench.run(&bench.a, with, &words);
        assert!(output.status.success(), "{output:?}");
        without(lines(&output.stdout), &["Starting", "latency", "scanned in"])
    };
    let found = scan(LibraryChoice::System);
    assert!(found.iter().any(|line| line.starts_with("8080/tcp open")), "{found:?}");
    assert_eq!(scan(LibraryChoice::Packet), found);
    assert_eq!(scan(LibraryChoice::XdpDisconnect), found);
}

#[test]
#[ignore = "needs root"]
fn p0f_recognises_the_same() {
    let seen = |with| {
        let bench = Bench::addressed();
        // A port that takes the interface's packets answers no ARP.
        let station = bench.a.mac("a0").map(|byte| format!("{byte:02x}")).join(":");
        bench.b.ip(["neigh", "replace", "10.9.0.1", "lladdr", &station, "dev", "b0"]);
        let log = bench.file("p0f.log");
        let log = log.to_str().unwrap();
        let mut command = bench.command(&bench.a, with, &["p0f", "-i", "a0", "-o", log]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let mut running = bench.a.spawn_command(command);
        wait_for_socket(&bench.a, running.id(), with);
        let connect = "import socket\ntry: socket.create_connection(('10.9.0.1', 9), 0.1)\nexcept OSError: pass";
        bench.b.expect(["python3", "-c", connect]);
        let written = || fs::read_to_string(log).unwrap_or_default();
        assert!(wait_until(|| written().contains("mod=syn"), TIMEOUT), "{with:?}");
        running.signal(rustix::process::Signal::INT);
        running.wait(TIMEOUT);
        let text = written();
        let line = text.lines().find(|line| line.contains("mod=syn|")).unwrap();
        // Times and the port of the connection differ.
        let parts =
            line.split('|').filter(|part| part.starts_with("raw_sig") || part.starts_with("os"));
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = seen(LibraryChoice::System);
    assert_eq!(seen(LibraryChoice::Packet), expected);
    assert_eq!(seen(LibraryChoice::XdpDisconnect), expected);
}

/// A program that is killed leaves the interface as it was.
#[test]
#[ignore = "needs root"]
fn a_killed_capture_leaves_nothing_behind() {
    for with in [LibraryChoice::Packet, LibraryChoice::Xdp] {
        let bench = Bench::new();
        let state = || bench.b.expect(["ip", "-d", "link", "show", "b0"]);
        let before = state();
        let mut command = bench.command(&bench.b, with, &["tcpdump", "-w", "-", "-i", "b0"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = bench.b.spawn_command(command);
        wait_for_socket(&bench.b, running.id(), with);
        let changed = || state() != before;
        assert!(wait_until(changed, TIMEOUT), "{with:?}: promiscuous at least");
        running.signal(rustix::process::Signal::KILL);
        running.wait(TIMEOUT);
        assert!(wait_until(|| state() == before, TIMEOUT), "{with:?}: {}", state());
    }
}
