//! Open vSwitch as judge: a bridge of dummy ports, flows by OpenFlow, packets by its control
//! socket, and sent packets from the files it writes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use linerate_openflow::wire::{Hello, Message, Stream, Version};
use linerate_test_support::{openvswitch::OpenVswitch, wait_until};

use crate::{PORTS, Sent};

/// Version of OpenFlow.
pub(crate) const VERSION: Version = Version::V13;

/// Limit of waits for its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A bridge with [`PORTS`] ports, and connections to it.
pub(crate) struct Judge {
    switch: OpenVswitch,
    control: UnixStream,
    openflow: UnixStream,
    stream: Stream,
    transaction: u32,
    captures: Vec<Capture>,
    requests: u64,
}

/// Packets sent by a port, read piece by piece.
struct Capture {
    path: PathBuf,
    /// Offset of the next read.
    at: u64,
}

impl Judge {
    pub(crate) fn start() -> Judge {
        let switch = OpenVswitch::dummy();
        switch.configure(&[
            "add-br",
            "br0",
            "--",
            "set",
            "bridge",
            "br0",
            "datapath_type=dummy",
            "fail_mode=secure",
        ]);
        let mut captures = Vec::new();
        for port in 1..=PORTS {
            let (name, path) = (format!("p{port}"), switch.folder().join(format!("p{port}.pcap")));
            let (request, file) =
                (format!("ofport_request={port}"), format!("options:tx_pcap={}", path.display()));
            let set = ["--", "set", "interface", &name, "type=dummy", &request, &file];
            switch.configure(&[&["add-port", "br0", &name], &set[..]].concat());
            captures.push(Capture { path, at: 24 });
        }
        let control = UnixStream::connect(switch.control_socket()).expect("its control socket");
        let bridge = switch.bridge_socket("br0");
        assert!(wait_until(|| bridge.exists(), PATIENCE), "no {}", bridge.display());
        let openflow = UnixStream::connect(bridge).expect("its bridge");
        for socket in [&control, &openflow] {
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        }
        let mut judge = Judge {
            switch,
            control,
            openflow,
            stream: Stream::new(),
            transaction: 1,
            captures,
            requests: 0,
        };
        judge.send(&Message::Hello(Hello::from_versions(&[VERSION])));
        judge
    }

    fn send(&mut self, message: &Message) -> u32 {
        self.transaction += 1;
        let bytes = message.encode(VERSION, self.transaction).expect("what can be said");
        self.openflow.write_all(&bytes).expect("Open vSwitch reads");
        self.transaction
    }

    /// Sends changes, and returns the error of each refused one.
    pub(crate) fn change<'m>(
        &mut self,
        messages: impl IntoIterator<Item = &'m Message>,
    ) -> Vec<Option<String>> {
        let transactions: Vec<u32> =
            messages.into_iter().map(|message| self.send(message)).collect();
        let end = self.send(&Message::BarrierRequest);
        let mut refused = vec![None; transactions.len()];
        loop {
            let Some(bytes) = self.stream.next_message().expect("messages") else {
                let mut bytes = [0; 4096];
                let length = self.openflow.read(&mut bytes).expect("Open vSwitch answers");
                assert!(length > 0, "Open vSwitch hangs up");
                self.stream.push(&bytes[..length]);
                continue;
            };
            let (version, transaction, message) = Message::decode(bytes).expect("a message");
            match message {
                Message::BarrierReply if transaction == end => return refused,
                Message::Error(error) => {
                    let which = transactions.iter().position(|other| *other == transaction);
                    let which = which.unwrap_or_else(|| panic!("{error:?}"));
                    refused[which] = Some(format!("{error:?}"));
                }
                Message::EchoRequest(data) => {
                    let bytes = Message::EchoReply(data).encode(version, transaction);
                    self.openflow.write_all(&bytes.expect("bytes")).expect("it reads");
                }
                _ => {}
            }
        }
    }

    /// Returns the flows and groups as its client prints them.
    pub(crate) fn flows(&self) -> String {
        let text = self.switch.openflow("dump-flows", "br0", &["--no-stats", "--sort"]);
        let groups = self.switch.openflow("dump-groups", "br0", &[]);
        text + &groups
    }

    /// Returns its own trace of a packet.
    pub(crate) fn trace(&self, port: u32, packet: &[u8]) -> String {
        self.switch.control(&["ofproto/trace", "br0", &format!("in_port={port}"), &hex(packet)])
    }

    /// Returns true if a packet is beyond its limits: more than three labels, which it reports, or
    /// than two tags, which it does not.
    pub(crate) fn gives_up(&self, port: u32, packet: &[u8]) -> bool {
        let trace = self.trace(port, packet);
        trace.contains("Translation failed") || trace.matches("push_vlan:").count() > 1
    }

    /// Sends a request to a control socket, and returns the answer.
    fn ask(socket: &mut UnixStream, number: u64, method: &str, words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        let request =
            format!("{{\"id\":{number},\"method\":\"{method}\",\"params\":[{}]}}", words.join(","));
        socket.write_all(request.as_bytes()).expect("its control socket");
        let mut said = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let read = socket.read(&mut bytes);
            let length = read.unwrap_or_else(|error| panic!("{method} {words:?}: {error}"));
            assert!(length > 0, "Open vSwitch hangs up: {method} {words:?}");
            said.extend_from_slice(&bytes[..length]);
            if is_whole(&said) {
                break;
            }
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("\"error\":null"), "{method}: {said}");
        said
    }

    fn control(&mut self, method: &str, words: &[&str]) -> String {
        self.requests += 1;
        Self::ask(&mut self.control, self.requests, method, words)
    }

    /// Flushes its cache, so that it decides by its present tables.
    pub(crate) fn forget(&mut self) {
        self.control("dpctl/del-flows", &[]);
    }

    /// Makes it forget addresses and connections, too.
    pub(crate) fn forget_all(&mut self) {
        self.forget();
        self.control("fdb/flush", &[]);
        self.control("dpctl/flush-conntrack", &[]);
    }

    /// Returns the packets sent for one that comes in by a port.
    pub(crate) fn packet(&mut self, port: u32, packet: &[u8]) -> Sent {
        // Cached entries set labels of other packets to those of the first.
        self.forget();
        self.control("netdev-dummy/receive", &[&format!("p{port}"), &hex(packet)]);
        self.look()
    }

    /// Returns the packets sent since the last look. A new connection is served a turn later than
    /// existing ones, and packets come first in each turn.
    pub(crate) fn look(&mut self) -> Sent {
        let socket = self.switch.control_socket();
        let mut socket = UnixStream::connect(socket).expect("its control socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self::ask(&mut socket, 1, "version", &[]);
        let mut sent = Sent::new();
        for (port, capture) in (1..).zip(&mut self.captures) {
            for packet in capture.rest() {
                sent.entry(port).or_default().push(packet);
            }
        }
        sent
    }
}

impl Capture {
    fn rest(&mut self) -> Vec<Vec<u8>> {
        let Ok(mut file) = File::open(&self.path) else { return Vec::new() };
        file.seek(SeekFrom::Start(self.at)).expect("a capture");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("a capture");
        let mut packets = Vec::new();
        let mut rest = &bytes[..];
        while let Some((head, behind)) = rest.split_at_checked(16) {
            let length = u32::from_ne_bytes(head[8..12].try_into().expect("four bytes"));
            let Some((packet, behind)) = behind.split_at_checked(length as usize) else { break };
            packets.push(packet.to_vec());
            self.at += 16 + u64::from(length);
            rest = behind;
        }
        packets
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if an object of JSON is there to its end.
fn is_whole(bytes: &[u8]) -> bool {
    let (mut depth, mut text, mut escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            b'{' if !text => depth += 1,
            b'}' if !text => depth -= 1,
            _ => {}
        }
    }
    depth == 0 && !bytes.is_empty()
}
