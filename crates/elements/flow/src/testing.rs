//! Shared parts of the elements' tests: their library, a controller, and a guard that ends a run.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use linerate_elements_testing::{RunWith, TestLibrary, from_families};
use linerate_graph::{Control, Library, lang::Globals, load};
use linerate_openflow::wire::{
    Action, Config, ConfigFlags, Hello, Instruction, Match, Message, PacketOut, PortNumber, Stream,
    Version,
};

/// A run with the elements of this crate, and those that its tests put around them.
pub(crate) type Run = RunWith<Tested>;

#[derive(Debug)]
pub(crate) struct Tested;

impl TestLibrary for Tested {
    fn library() -> Library {
        from_families([
            crate::FAMILIES,
            linerate_elements_basic::FAMILIES,
            linerate_elements_control::FAMILIES,
            linerate_elements_queueing::FAMILIES,
        ])
    }
}

const VERSION: Version = Version::V13;
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Stops the run when dropped, also by a panic of the controlling thread.
pub(crate) struct StopOnDrop(pub(crate) Control);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) struct Controller {
    link: UnixStream,
    stream: Stream,
}

impl Controller {
    /// Connects when the switch is there, and asks for packets.
    pub(crate) fn at(path: &str) -> Controller {
        let mut link = None;
        wait_until(|| {
            link = UnixStream::connect(path).ok();
            link.is_some()
        });
        let link = link.expect("waited for");
        link.set_read_timeout(Some(PATIENCE)).expect("a time");
        let mut controller = Controller { link, stream: Stream::new() };
        controller.send(&Message::Hello(Hello::from_versions(&[VERSION])));
        assert!(matches!(controller.next(), Message::Hello(_)));
        let config = Config { flags: ConfigFlags::default(), miss_send_len: 0xffff };
        controller.send(&Message::SetConfig(config));
        controller.barrier();
        controller
    }

    pub(crate) fn send(&mut self, message: &Message) {
        let bytes = message.encode(VERSION, 1).expect("the version has it");
        self.link.write_all(&bytes).expect("the switch reads");
    }

    pub(crate) fn next(&mut self) -> Message {
        let mut buffer = [0; 4096];
        loop {
            if let Some(bytes) = self.stream.next_message().expect("lengths are right") {
                return Message::decode(bytes).expect("a message").2;
            }
            let count = self.link.read(&mut buffer).expect("the switch answers");
            assert!(count > 0, "the switch is gone");
            self.stream.push(&buffer[..count]);
        }
    }

    pub(crate) fn barrier(&mut self) {
        self.send(&Message::BarrierRequest);
        assert_eq!(self.next(), Message::BarrierReply);
    }

    pub(crate) fn packet_out(&mut self, port: PortNumber, data: Vec<u8>) {
        self.send(&Message::PacketOut(PacketOut {
            buffer: None,
            in_port: PortNumber::CONTROLLER,
            fields: Match::new(),
            actions: vec![Action::Output { port, max_len: 0xffff }],
            data,
        }));
    }
}

pub(crate) fn output(port: PortNumber) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::Output { port, max_len: 0xffff }])]
}

pub(crate) fn packet(first: u8) -> Vec<u8> {
    let mut packet = vec![first, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x06];
    packet.resize(60, 0);
    packet
}

/// Replaces the configuration.
pub(crate) fn replace(control: &Control, text: &str) {
    let mut loader = |_: &str, _: &str| Err(None);
    let loaded = load("config", text, &Run::library(), &Globals::default(), &mut loader);
    control.replace(loaded.plan.expect("a plan")).expect("it can be replaced");
}
