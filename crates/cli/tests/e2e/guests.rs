//! `examples/guests.click` with real guests: virtual machines that answer pings and pass files on,
//! while one, or the switch, is killed and comes back.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    thread,
};

use linerate_test_support::{
    Lab, Namespace,
    guest::{Guest, Setup},
};
use rustix::process::Signal;

use crate::support::{LINERATE, Scratch, TIMEOUT};

const OURS: &str = "10.9.0.1/24";

/// The guests: a name, which is their socket's, too, and an address.
const A: (&str, [u8; 4]) = ("a", [10, 9, 0, 2]);
const B: (&str, [u8; 4]) = ("b", [10, 9, 0, 3]);

/// Megabytes of a file, unless `LINERATE_GUEST_MEGABYTES` says how many.
fn megabytes() -> usize {
    std::env::var("LINERATE_GUEST_MEGABYTES").map_or(4, |number| number.parse().unwrap())
}

/// A machine with a TAP interface that stays, and a switch between it and the guest.
struct Net {
    host: Namespace,
    scratch: Scratch,
    _lab: Lab,
}

impl Net {
    fn new() -> Net {
        let lab = Lab::new();
        let host = lab.namespace("host");
        host.ip(["tuntap", "add", "dev", "up0", "mode", "tap"]);
        host.add_address("up0", OURS);
        Net { host, scratch: Scratch::new(), _lab: lab }
    }

    fn switch(&self) -> linerate_test_support::Running {
        let example = format!("{}/../../examples/guests.click", env!("CARGO_MANIFEST_DIR"));
        let socket = |name: &str| self.scratch.file(name);
        self.host.spawn([
            LINERATE.to_owned(),
            "run".into(),
            "--no-huge".into(),
            example,
            format!("A=vhost:{}", socket(A.0)),
            // This one does checksums itself, and segments.
            format!("B=vhost:{}?offloads=no&mergeable=no", socket(B.0)),
            format!("C=memif:{}?role=server", socket("c")),
            "UPLINK=tap:up0?vnet".into(),
        ])
    }

    /// Starts a guest, with options of QEMU's device.
    fn guest(&self, (name, address): (&str, [u8; 4]), options: &str) -> Guest {
        Guest::start(&Setup {
            name,
            socket: Path::new(&self.scratch.file(name)),
            mac: address[3],
            address: &format!("{}/24", Ipv4Addr::from(address)),
            megabytes: megabytes(),
            options,
            folder: self.scratch.path(),
        })
    }

    /// Three answers: the first requests may come before the guest's interface is up.
    fn ping(&self, guest: (&str, [u8; 4])) {
        let address = Ipv4Addr::from(guest.1).to_string();
        let ping = ["ping", "-c", "3", "-i", "0.05", "-w", "20", "-s", "1400"];
        self.host.expect(ping.iter().copied().chain([address.as_str()]));
    }

    /// A connection to a guest's server.
    fn connect(&self, guest: (&str, [u8; 4])) -> TcpStream {
        let stream = self.host.enter(|| TcpStream::connect((Ipv4Addr::from(guest.1), 80)).unwrap());
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    fn ask(&self, guest: (&str, [u8; 4]), path: &str) -> TcpStream {
        let mut stream = self.connect(guest);
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        stream
    }

    fn get(&self, guest: (&str, [u8; 4]), path: &str) -> Vec<u8> {
        body(self.ask(guest, path))
    }

    /// A file from the guest and back to it, by their sums.
    fn transfer(&self, guest: (&str, [u8; 4])) {
        let file = self.get(guest, "/file");
        assert_eq!(file.len(), megabytes() << 20);
        let mut stream = self.connect(guest);
        let length = file.len();
        write!(stream, "POST /cgi-bin/sum HTTP/1.0\r\nContent-Length: {length}\r\n\r\n").unwrap();
        stream.write_all(&file).unwrap();
        assert_eq!(body(stream), self.get(guest, "/sum"), "what came is not what the guest has");
    }
}

/// The body of an answer, behind the headers.
fn body(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("headers");
    let text = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(text.starts_with("HTTP/1.0 200") || text.starts_with("HTTP/1.1 200"), "{text}");
    answer.split_off(end + 4)
}

#[test]
#[ignore = "needs root"]
fn guests_ping_transfer_and_survive_their_switch() {
    let net = Net::new();
    let mut switch = net.switch();
    let (mut a, _b) = thread::scope(|scope| {
        let b = scope.spawn(|| net.guest(B, ",packed=on,indirect_desc=off"));
        (net.guest(A, ""), b.join().unwrap())
    });
    net.ping(A);
    net.ping(B);
    net.transfer(A);
    net.transfer(B);
    let fetched = net.get(A, &format!("/cgi-bin/fetch?{}", Ipv4Addr::from(B.1)));
    assert_eq!(fetched, net.get(B, "/sum"), "what a guest has is not what another got");
    // The switch is killed in the middle of a connection, and another one takes its place.
    let file = net.get(A, "/file");
    let mut stream = net.ask(A, "/file");
    let mut first = [0; 100_000];
    stream.read_exact(&mut first).unwrap();
    switch.signal(Signal::KILL);
    drop(switch);
    let switch = net.switch();
    let mut all = first.to_vec();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.ends_with(&file), "the connection did not go on");
    assert!(a.is_running());
    // The guest is killed while it sends, and another one comes.
    let mut stream = net.ask(A, "/file");
    stream.read_exact(&mut first).unwrap();
    drop(a);
    let _a = net.guest(A, ",packed=on");
    net.ping(A);
    net.transfer(A);
    drop(switch);
}
