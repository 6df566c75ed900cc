//! Programs of Debian's with our library in the place of libpcap, on interfaces and in memory,
//! beside the same programs with libpcap, and all on the same packets: their output is equal.
//!
//! They run at once, each on a port or a place of its own, so the traffic is one and the time that
//! of the slowest. Cases of interfaces alone are tested with the library
//! (`crates/libpcap/tests/pcap`).

use std::{
    fs::{self, File},
    io::Write,
    process::Stdio,
};

use linerate_test_support::{
    Lab, Namespace, Running, is_waiting,
    programs::{require, require_python},
    wait_until,
};
use rustix::process::Signal;

use crate::{
    support::{LINERATE, Program, Scratch, TIMEOUT, linerate},
    wire::send,
};

/// Library and port by which a program captures and sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaptureMethod {
    /// The system's libpcap, on the interface.
    System,
    /// Our library, by `AF_PACKET`.
    Packet,
    /// A `memif:` to another process, which has the interface.
    Memif,
    /// A place in a cluster, which has the interface.
    Cluster,
    /// A `memif:` to another process, which answers by itself.
    Answered,
}

const SNIFFER: &str = "\
import sys
from scapy.all import *
conf.use_pcap = True
def ready():
    print('ready', file=sys.stderr, flush=True)
for packet in sniff(iface=sys.argv[1], count=26, timeout=60, started_callback=ready):
    print(packet.summary(), bytes(packet).hex())
";

/// Snort's way to packets, its library DAQ with the module `pcap`.
const DAQ: &str = "\
import ctypes, sys
from ctypes import c_char_p, c_int, c_long, c_uint, c_uint32, c_void_p
daq = ctypes.CDLL('libdaq.so.2')
class Config(ctypes.Structure):
    _fields_ = [('name', c_char_p), ('snaplen', c_int), ('timeout', c_uint), ('mode', c_int),
                ('flags', c_uint32), ('values', c_void_p), ('extra', c_char_p)]
class Header(ctypes.Structure):
    _fields_ = [('seconds', c_long), ('rest', c_long), ('captured', c_uint32), ('length', c_uint32)]
left = 24
def seen(_, header, data):
    global left
    header = header.contents
    print(header.length, ctypes.string_at(data, header.captured).hex())
    left -= 1
    return 0
folders = (c_char_p * 2)(sys.argv[2].encode(), None)
assert daq.daq_load_modules(folders) == 0
daq.daq_find_module.restype = c_void_p
pcap = c_void_p(daq.daq_find_module(b'pcap'))
promiscuous = 2
config = Config(sys.argv[1].encode(), 65535, 100, 0, promiscuous, None, None)
context, words = c_void_p(), ctypes.create_string_buffer(256)
failed = daq.daq_initialize(pcap, ctypes.byref(config), ctypes.byref(context), words, 256)
assert failed == 0, words.value
assert daq.daq_set_filter(pcap, context, b'ip') == 0
assert daq.daq_start(pcap, context) == 0
print('ready', file=sys.stderr, flush=True)
callback = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(Header), c_void_p)(seen)
while left > 0:
    assert daq.daq_acquire(pcap, context, left, callback, None, None) == 0
daq.daq_stop(pcap, context)
daq.daq_shutdown(pcap, context)
";

const ASKER: &str = "\
import sys
from scapy.all import *
conf.use_pcap = True
def ask(packet):
    answer = srp1(packet, iface='a0', timeout=20, verbose=0)
    print(answer.sprintf('%Ether.src% %IP.src%%ARP.psrc%%Raw.load%'))
    return answer
found = ask(Ether(dst='ff:ff:ff:ff:ff:ff') / ARP(pdst=sys.argv[1]))
ask(Ether(dst=found.src) / IP(dst=sys.argv[1]) / ICMP() / b'a question')
";

/// A program that listens.
struct Listener {
    words: Vec<String>,
    /// Its message when it captures.
    ready: &'static str,
    /// The file it writes to, where that is not its output.
    writes: Option<String>,
    /// Lines with one of these are not compared.
    unsteady: &'static [&'static str],
    /// Fewer lines than there must be.
    above: usize,
    /// The message that it has seen all, where it does not end by itself.
    done: Option<&'static str>,
}

impl Listener {
    fn new(line: &str, ready: &'static str, above: usize) -> Listener {
        let words = line.split(' ').map(str::to_owned).collect();
        Listener { words, ready, writes: None, unsteady: &[], above, done: None }
    }
}

/// All of them; `way` and a folder are for the names of their files.
fn listeners(way: CaptureMethod, scratch: &Scratch) -> Vec<Listener> {
    let python = scapys_python();
    let file = |name: &str| scratch.file(&format!("{way:?}.{name}"));
    let dumped = file("dumped");
    let log = file("p0f");
    let fields = "-e frame.len -e eth.src -e eth.type -e vlan.id -e ip.src -e udp.dstport";
    let daqs = require("libdaq.so.2").parent().unwrap().join("daq");
    let script = |script: &str, more: &str| {
        let mut listener = Listener::new(&format!("{python} -c - b0 {more}"), "ready", 20);
        listener.words[2] = script.into();
        listener
    };
    vec![
        Listener::new("tcpdump -n -t -e -XX -c 26 -i b0", "listening on", 100),
        // One of each, and that is tagged where there are two.
        Listener::new(
            "tcpdump -n -t -e -s 40 -c 1 -i b0 len > 60 and udp port 9",
            "listening on",
            0,
        ),
        Listener::new("tcpdump -n -t -e -c 2 -i b0 udp port 775 and less 60", "listening on", 1),
        Listener::new("tcpdump -n -t -e -c 1 -i b0 vlan 5 and udp port 775", "listening on", 0),
        Listener::new("tcpdump -n -t -e -c 4 -i b0 not ip or greater 70", "listening on", 3),
        Listener::new(&format!("tshark -n -i b0 -c 26 -T fields {fields}"), "Capture started", 25),
        Listener {
            writes: Some(dumped.clone()),
            ..Listener::new(&format!("dumpcap -q -P -i b0 -c 26 -w {dumped}"), "File:", 25)
        },
        Listener {
            unsteady: &["interface: "],
            ..Listener::new("ngrep -l -q -x -n 10 -d b0 . udp and port 9", "interface: ", 10)
        },
        Listener {
            writes: Some(log.clone()),
            done: Some("raw_sig"),
            ..Listener::new(&format!("p0f -i b0 -o {log}"), "main event loop", 0)
        },
        script(SNIFFER, ""),
        script(DAQ, daqs.to_str().unwrap()),
    ]
}

/// The interpreter that has scapy.
fn scapys_python() -> String {
    require_python(&["scapy"], "python3-scapy").display().to_string()
}

/// Twenty-six frames of many kinds.
fn traffic() -> Vec<Vec<u8>> {
    let udp = |number: u8| {
        let mut frame = vec![0; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 9, 0, 1, 10, 9, 0, 2]);
        frame[36..38].copy_from_slice(&if number % 2 == 1 { [3, number] } else { [0, 9] });
        frame[38..40].copy_from_slice(&[0, 26]);
        frame[59] = number;
        frame
    };
    let mut frames: Vec<Vec<u8>> = (0..20).map(udp).collect();
    let mut arp = udp(0);
    arp[12..14].copy_from_slice(&[8, 6]);
    arp[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    let mut tagged = udp(7);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let mut all = udp(8);
    all[..6].fill(0xff);
    let mut six = udp(0);
    six[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17, 64]);
    let mut long = udp(10);
    long.resize(1514, 0x5a);
    long[16..18].copy_from_slice(&1500u16.to_be_bytes());
    // A SYN with the options that Linux sends.
    let mut syn = udp(0);
    syn.truncate(34);
    syn[16..18].copy_from_slice(&60u16.to_be_bytes());
    syn[20..22].copy_from_slice(&[0x40, 0]);
    syn[23] = 6;
    syn.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0xa0, 2, 0xfa, 0xf0, 0, 0, 0, 0]);
    syn.extend([2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
    frames.extend([arp, tagged, all, six, long, syn]);
    frames
}

/// A program that runs, and where its output goes.
struct Started {
    running: Running,
    said: String,
    printed: String,
}

impl Started {
    fn text(&self) -> String {
        let read = |path| fs::read(path).unwrap_or_default();
        let all = [read(&self.said), read(&self.printed)].concat();
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Starts a program; `device` replaces the interface's name.
fn start(
    namespace: &Namespace,
    (interface, device): (&str, Option<&str>),
    words: &[String],
    output: &str,
) -> Started {
    let map = device.map(|device| format!("{interface}={device}"));
    let mut all = Vec::new();
    if let Some(map) = &map {
        all.extend([LINERATE, "pcap", "--quiet", "--only-mapped", "--map", map, "--"]);
    }
    all.extend(words.iter().map(String::as_str));
    let mut command = namespace.command(all);
    let (said, printed) = (format!("{output}.said"), format!("{output}.printed"));
    command.env("LC_ALL", "C").env("HOME", std::env::temp_dir()).stdin(Stdio::null());
    command.stdout(File::create(&printed).unwrap()).stderr(File::create(&said).unwrap());
    Started { running: namespace.spawn_command(command), said, printed }
}

#[test]
#[ignore = "needs root"]
fn programs_that_listen_print_the_same_in_memory() {
    const WAYS: [CaptureMethod; 4] = [
        CaptureMethod::System,
        CaptureMethod::Packet,
        CaptureMethod::Memif,
        CaptureMethod::Cluster,
    ];
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    let all = WAYS.map(|way| listeners(way, &scratch));
    let count = all[0].len();
    let (memif, cluster) = (scratch.file("memif"), scratch.file("cluster"));
    let names: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
    let mut configuration = format!(
        "ClusterSocket({cluster});
         FromPort(packet:b0) -> tee :: Tee({}) -> ConsumerFanOut({});\n",
        count + 1,
        names.join(", "),
    );
    for number in 0..count {
        let out = number + 1;
        configuration += &format!("tee[{out}] -> ToPort(memif:{memif}?role=server&id={number});\n");
    }
    let file = scratch.file("share.click");
    fs::write(&file, configuration).unwrap();
    let server = Program::ready(&b, &format!("run {file}"));

    let mut started = Vec::new();
    for (way, listeners) in WAYS.iter().zip(&all) {
        for (number, listener) in listeners.iter().enumerate() {
            let device = match way {
                CaptureMethod::Packet => Some("packet:b0".to_owned()),
                CaptureMethod::Memif => Some(format!("memif:{memif}?id={number}")),
                CaptureMethod::Cluster => Some(format!("cluster:{cluster}?name=p{number}")),
                _ => None,
            };
            let output = scratch.file(&format!("{way:?}.{number}"));
            let place = ("b0", device.as_deref());
            started.push((listener, start(&b, place, &listener.words, &output)));
        }
    }
    for (listener, started) in &mut started {
        let up = wait_until(|| started.text().contains(listener.ready), TIMEOUT);
        assert!(up, "{:?}: {}", listener.words, started.text());
        // It has said so before it sets its filter.
        let waits = || is_waiting(started.running.id());
        assert!(wait_until(waits, TIMEOUT), "{:?} does not wait", listener.words);
    }
    send(&a, "a0", &traffic());
    let mut expected: Vec<Vec<String>> = Vec::new();
    for (number, (listener, mut started)) in started.into_iter().enumerate() {
        let written = || {
            let path = listener.writes.as_deref().unwrap_or(&started.printed);
            fs::read(path).unwrap_or_default()
        };
        if let Some(done) = listener.done {
            let text = || String::from_utf8_lossy(&written()).into_owned();
            let found = wait_until(|| text().contains(done), TIMEOUT);
            assert!(found, "{:?}: {} {}", listener.words, text(), started.text());
            started.running.signal(Signal::INT);
        }
        started.running.wait(TIMEOUT);
        let lines = lines(listener, &written());
        let (way, said) = (WAYS[number / count], started.text());
        let words: String = listener.words.join(" ").chars().take(60).collect();
        assert!(lines.len() > listener.above, "{way:?} {words}: {lines:#?} {said}");
        if number < count {
            expected.push(lines);
        } else {
            assert_eq!(lines, expected[number % count], "{way:?} {words}: {said}");
        }
    }
    server.stop();
}

/// The part of a program's output that is compared.
fn lines(listener: &Listener, written: &[u8]) -> Vec<String> {
    if listener.words[0] == "dumpcap" {
        return crate::wire::records(written).iter().map(|bytes| format!("{bytes:02x?}")).collect();
    }
    let text = String::from_utf8_lossy(written);
    // p0f begins its lines with the time.
    let lines = text.lines().map(|line| line.split_once("] mod=").map_or(line, |(_, rest)| rest));
    let steady = |line: &&str| !listener.unsteady.iter().any(|part| line.contains(part));
    lines.filter(steady).map(str::to_owned).collect()
}

/// The programs that ask. Each asks an address of its own.
fn askers(address: &str) -> Vec<Vec<String>> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut scapy = words(format!("{} -c - {address}", scapys_python()));
    scapy[2] = ASKER.into();
    vec![
        words(format!("arp-scan -q -x -I a0 {address}")),
        scapy,
        words(format!("arping -c 2 -i a0 {address}")),
        words(format!("nmap -n -sS -p 8079-8081 {address}")),
    ]
}

/// arping and nmap send by the kernel, with either library: they need an interface with the address
/// they ask from. The others do all by libpcap.
#[test]
#[ignore = "needs root"]
fn programs_that_ask_hear_the_same_in_memory() {
    const WAYS: [CaptureMethod; 5] = [
        CaptureMethod::System,
        CaptureMethod::Packet,
        CaptureMethod::Memif,
        CaptureMethod::Cluster,
        CaptureMethod::Answered,
    ];
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    a.add_address("a0", "10.9.0.1/24");
    for last in 100..100 + 4 * WAYS.len() {
        b.add_address("b0", &format!("10.9.0.{last}/24"));
    }
    let mut serve = b.command(["python3", "-m", "http.server", "8080"]);
    serve.stdout(Stdio::null()).stderr(Stdio::null());
    let _server = b.spawn_command(serve);
    let listens = || b.expect(["cat", "/proc/net/tcp"]).contains(":1F90 ");
    assert!(wait_until(listens, TIMEOUT));

    let (memif, cluster) = (scratch.file("memif"), scratch.file("cluster"));
    let station = b.mac("b0").map(|byte| format!("{byte:02x}")).join(":");
    let mut configuration = format!(
        "ClusterSocket({cluster});
         out :: ToPort(packet:a0);
         FromPort(packet:a0?outbound=on) -> tee :: Tee(5)
             -> ConsumerFanOut(p0, p1, p2, p3, ISOLATED p0 p1 p2 p3);\n"
    );
    for number in 0..4 {
        let out = number + 1;
        let port = format!("memif:{memif}?role=server&id={number}");
        configuration += &format!(
            "FromConsumer(p{number}) -> out;
             tee[{out}] -> ToPort({port}); FromPort({port}) -> out;\n"
        );
    }
    for number in [10, 11] {
        let port = format!("memif:{memif}?role=server&id={number}");
        configuration += &format!(
            "FromPort({port}) -> c{number} :: Classifier(12/0806, 12/0800) -> \
             ARPResponder(10.9.0.0/24 {station}) -> o{number} :: ToPort({port});
             c{number}[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder -> Unstrip(14) -> \
             EtherMirror -> o{number};\n"
        );
    }
    let file = scratch.file("share.click");
    fs::write(&file, configuration).unwrap();
    let server = Program::ready(&a, &format!("run {file}"));

    let mut started = Vec::new();
    for (at, way) in WAYS.iter().enumerate() {
        for number in 0..if *way == CaptureMethod::Answered { 2 } else { 4 } {
            let address = format!("10.9.0.{}", 100 + 4 * at + number);
            let words = &askers(&address)[number];
            let device = match way {
                CaptureMethod::System => None,
                CaptureMethod::Packet => Some("packet:a0".to_owned()),
                CaptureMethod::Memif => Some(format!("memif:{memif}?id={number}")),
                CaptureMethod::Cluster => Some(format!("cluster:{cluster}?name=p{number}")),
                CaptureMethod::Answered => Some(format!("memif:{memif}?id={}", 10 + number)),
            };
            let output = scratch.file(&format!("{way:?}.{number}"));
            let started_one = start(&a, ("a0", device.as_deref()), words, &output);
            started.push((*way, number, address, started_one));
        }
    }
    let mut expected: Vec<Vec<String>> = Vec::new();
    for (way, number, address, mut started) in started {
        let status = started.running.wait(TIMEOUT);
        assert!(status.success(), "{way:?} {number}: {}", started.text());
        let printed = fs::read_to_string(&started.printed).unwrap();
        let unsteady = ["Starting", "latency", "scanned in", "rtt ", "statistics"];
        let lines: Vec<String> = printed
            .replace(&address, "ADDRESS")
            .lines()
            .filter(|line| !unsteady.iter().any(|part| line.contains(part)))
            // How long it took.
            .map(|line| line.split(" time=").next().unwrap_or_default().to_owned())
            .collect();
        assert!(printed.contains(&address), "{way:?} {number}: {}", started.text());
        if way == CaptureMethod::System {
            expected.push(lines);
        } else {
            assert_eq!(lines, expected[number], "{way:?} {number}: {}", started.text());
        }
    }
    assert!(expected[3].iter().any(|line| line.starts_with("8080/tcp open")), "{expected:?}");
    server.stop();
}

/// dumpcap and arp-scan give up the rights of `AF_XDP` before they open a device. The cluster has
/// them.
#[test]
#[ignore = "needs root"]
fn programs_that_give_up_rights_capture_by_xdp_through_a_cluster() {
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    a.add_address("a0", "10.9.0.1/24");
    let cluster = scratch.file("cluster");
    let station = b.mac("b0").map(|byte| format!("{byte:02x}")).join(":");
    let configuration = format!(
        "ClusterSocket({cluster});
         FromPort(xdp:b0) -> ConsumerFanOut(dumpcap, scan, ISOLATED scan);
         FromConsumer(scan) -> ToPort(xdp:b0)"
    );
    let server = Program::ready(&b, &format!("run -e '{configuration}'"));
    let file = scratch.file("dumped");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    // Questions before the frames are not among them.
    let line = format!("dumpcap -q -P -i b0 -c 25 -w {file} -f not,arp");
    let dumpcap = words(&line).iter().map(|word| word.replace(',', " ")).collect::<Vec<_>>();
    let device = format!("cluster:{cluster}?name=dumpcap");
    let mut dumpcap = start(&b, ("b0", Some(&device)), &dumpcap, &scratch.file("dumpcap"));
    let up = wait_until(|| dumpcap.text().contains("File:"), TIMEOUT);
    assert!(up, "{}", dumpcap.text());
    let device = format!("cluster:{cluster}?name=scan");
    let line = format!("arp-scan -q -x -I b0 --arpspa=10.9.0.2 --arpsha={station} 10.9.0.1");
    let mut scan = start(&b, ("b0", Some(&device)), &words(&line), &scratch.file("scan"));
    scan.running.wait(TIMEOUT);
    let found = a.mac("a0").map(|byte| format!("{byte:02x}")).join(":");
    assert!(scan.text().contains(&format!("10.9.0.1\t{found}")), "{}", scan.text());
    let mut frames = traffic();
    send(&a, "a0", &frames);
    frames.retain(|frame| frame[12..14] != [8, 6]);
    dumpcap.running.wait(TIMEOUT);
    let dumped = fs::read(&file).unwrap_or_default();
    crate::wire::assert_same(&crate::wire::records(&dumped), &frames);
    server.stop();
}

/// Reads nothing until it is told to, then all there is, and prints the counts. Another thread asks
/// for them all the time.
const SLOW: &str = "\
import ctypes, sys, threading, time
from ctypes import byref, c_char_p, c_uint, c_void_p
pcap = ctypes.CDLL('libpcap.so.0.8')
pcap.pcap_create.restype = pcap.pcap_geterr.restype = c_void_p
words = ctypes.create_string_buffer(256)
device = c_void_p(pcap.pcap_create(sys.argv[1].encode(), words))
assert pcap.pcap_activate(device) == 0, ctypes.string_at(pcap.pcap_geterr(device))
assert pcap.pcap_setnonblock(device, 1, words) == 0
program = (c_void_p * 2)()
assert pcap.pcap_compile(device, program, b'udp', 1, 0) == 0
assert pcap.pcap_setfilter(device, program) == 0
statistics = (c_uint * 3)()
done = False
def ask():
    while not done:
        assert pcap.pcap_stats(device, statistics) == 0
        time.sleep(0.0001)
asker = threading.Thread(target=ask)
asker.start()
print('ready', flush=True)
sys.stdin.readline()
given = 0
def seen(user, header, data):
    global given
    given += 1
callback = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)(seen)
while pcap.pcap_dispatch(device, -1, callback, None) > 0:
    pass
done = True
asker.join()
assert pcap.pcap_stats(device, statistics) == 0
print(given, *statistics)
";

/// A slow program is told its losses, to the packet.
#[test]
#[ignore = "needs root"]
fn losses_of_a_slow_program_are_counted() {
    const SENT: u32 = 5000;
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let cluster = scratch.file("cluster");
    for device in ["packet:b0?slots=64", "xdp:b0?ring=64", "cluster"] {
        let (a, b) = (lab.namespace("a"), lab.namespace("b"));
        lab.veth(&a, "a0", &b, "b0");
        let served = device == "cluster";
        let configuration = format!(
            "ClusterSocket({cluster}); FromPort(packet:b0) -> c :: Counter -> ToConsumer(slow, CELLS 64)"
        );
        let control = scratch.file("control");
        let line = format!("run -e '{configuration}' --control {control}");
        let server = served.then(|| Program::ready(&b, &line));
        let device =
            if served { format!("cluster:{cluster}?name=slow") } else { device.to_owned() };
        let words = [LINERATE, "pcap", "--quiet", "--", "python3", "-c", SLOW, &device];
        let mut command = b.command(words);
        let printed = scratch.file("printed");
        command.stdin(Stdio::piped()).stdout(File::create(&printed).unwrap());
        let mut child = command.spawn().unwrap();
        let text = || fs::read_to_string(&printed).unwrap();
        assert!(wait_until(|| text().contains("ready"), TIMEOUT), "{device}");
        let line = format!("generate packet:a0 --count {SENT} --rate 100kpps");
        let sent = Program::start(&a, &line).end().summary();
        assert_eq!(crate::support::number(&sent, "accepted"), u64::from(SENT));
        // Packets on their way are counted when they have come.
        let has_come = || {
            let count = linerate(&format!("call {control} c.count")).stdout;
            count.trim().parse::<u32>().is_ok_and(|count| count >= SENT)
        };
        assert!(!served || wait_until(has_come, TIMEOUT), "{device}");
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(child.wait().unwrap().success(), "{device}");
        let numbers = text().lines().nth(1).unwrap().to_owned();
        let numbers: Vec<u32> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        let [given, received, dropped, by_interface] = numbers[..] else { panic!("{numbers:?}") };
        assert_eq!((given, received + dropped, by_interface), (received, SENT, 0), "{device}");
        assert!(given >= 64 && dropped > 0, "{device}: {numbers:?}");
        server.map(Program::stop);
    }
}
