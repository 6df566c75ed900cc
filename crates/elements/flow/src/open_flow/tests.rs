//! A controller and a switch in a graph that runs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use linerate_elements_testing::{Run, Scratch, library};
use linerate_flow::wire::{
    Action, Config, ConfigFlags, Field, FlowMod, Hello, Instruction, Match, Message, PacketIn,
    PacketOut, PortNumber, Stream, Version,
};

use linerate_graph::{Control, lang::Globals, load};

const VERSION: Version = Version::V13;
const PATIENCE: Duration = Duration::from_secs(20);

fn wait_until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
}

/// The run ends with who controls it, also where that panics.
struct Stops(Control);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct Controller {
    link: UnixStream,
    stream: Stream,
}

impl Controller {
    /// Comes when the switch is there, and asks for packets.
    fn at(path: &str) -> Controller {
        let mut link = None;
        wait_until(|| {
            link = UnixStream::connect(path).ok();
            link.is_some()
        });
        let link = link.expect("waited for");
        link.set_read_timeout(Some(PATIENCE)).expect("a time");
        let mut controller = Controller { link, stream: Stream::new() };
        controller.send(&Message::Hello(Hello::of(&[VERSION])));
        assert!(matches!(controller.next(), Message::Hello(_)));
        let config = Config { flags: ConfigFlags::default(), miss_send_len: 0xffff };
        controller.send(&Message::SetConfig(config));
        controller.barrier();
        controller
    }

    fn send(&mut self, message: &Message) {
        let bytes = message.encode(VERSION, 1).expect("the version has it");
        self.link.write_all(&bytes).expect("the switch reads");
    }

    fn next(&mut self) -> Message {
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

    fn barrier(&mut self) {
        self.send(&Message::BarrierRequest);
        assert_eq!(self.next(), Message::BarrierReply);
    }

    fn packet_out(&mut self, port: PortNumber, data: Vec<u8>) {
        self.send(&Message::PacketOut(PacketOut {
            buffer: None,
            in_port: PortNumber::CONTROLLER,
            fields: Match::new(),
            actions: vec![Action::Output { port, max_len: 0xffff }],
            data,
        }));
    }
}

fn output(port: PortNumber) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::Output { port, max_len: 0xffff }])]
}

fn packet(first: u8) -> Vec<u8> {
    let mut packet = vec![first, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x06];
    packet.resize(60, 0);
    packet
}

#[test]
fn packets_go_to_a_controller_and_come_from_it() {
    let scratch = Scratch::new("openflow");
    let path = scratch.path("switch");
    let text = format!(
        "s :: FlowSwitch(TABLES 2); o :: OpenFlow(s, punix:{path});
        Idle -> s -> Discard; Idle -> [1] s [1] -> c :: Collect;"
    );
    let mut run = Run::new(&text).real_time();
    let control = run.control();
    let controller = thread::spawn(move || {
        let _stops = Stops(control.clone());
        let mut controller = Controller::at(&path);
        // Out by a port, in by another flow's action and back to where it came from.
        controller.packet_out(PortNumber(2), packet(0x22));
        let to_controller = output(PortNumber::CONTROLLER);
        controller.send(&Message::FlowMod(FlowMod {
            cookie: Some(9),
            ..FlowMod::add(0, 1, Match::new().with(Field::EthType, 0x0806), to_controller)
        }));
        controller.barrier();
        controller.packet_out(PortNumber::TABLE, packet(0x44));
        let Message::PacketIn(PacketIn { cookie, data, .. }) = controller.next() else {
            panic!("no packet");
        };
        assert_eq!((cookie, data), (9, packet(0x44)));
        wait_until(|| !control.read("c.packets", "").expect("a handler").is_empty());
        let here = control.read("o.controllers", "").expect("a handler");
        assert!(here.ends_with(" 1.3 equal\n"), "{here}");
        let places = control.read("o.places", "").expect("a handler");
        assert_eq!(places, format!("punix:{path} 1 0 -\n"));
    });
    run.run();
    controller.join().expect("a controller");
    let sent: String = packet(0x22).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(run.read("c.packets"), sent);
    assert_eq!(run.read("o.lost"), "0");
}

#[test]
fn connections_stay_where_the_channel_stays() {
    let scratch = Scratch::new("openflow-replaced");
    let path = scratch.path("switch");
    let text = |last: &str, tables: u8| {
        format!(
            "s :: FlowSwitch(TABLES {tables}); o :: OpenFlow(s, punix:{path});
            Idle -> s -> Discard; Idle -> [1] s [1] -> {last};"
        )
    };
    let mut run = Run::new(&text("Discard", 2)).real_time();
    let control = run.control();
    let (same, other) = (text("Counter -> Discard", 2), text("Discard", 3));
    let controller = {
        let path = path.clone();
        thread::spawn(move || {
            let _stops = Stops(control.clone());
            let replace = |text: &str| {
                let mut loader = |_: &str, _: &str| Err(None);
                let loaded = load("config", text, &library(), &Globals::default(), &mut loader);
                control.replace(loaded.plan.expect("a plan")).expect("it can be replaced");
            };
            let mut controller = Controller::at(&path);
            let flow = FlowMod::add(0, 1, Match::new(), output(PortNumber(2)));
            controller.send(&Message::FlowMod(flow));
            controller.barrier();
            replace(&same);
            controller.barrier();
            // Another switch is another one's: who spoke with the old one comes again.
            replace(&other);
            let places = || control.read("o.places", "").expect("a handler");
            wait_until(|| places() == format!("punix:{path} 0 0 -\n"));
            let mut controller = Controller::at(&path);
            controller.barrier();
            control.read("o.controllers", "").expect("a handler")
        })
    };
    run.run();
    assert_eq!(controller.join().expect("a controller").lines().count(), 1);
}

#[test]
fn what_is_wrong_is_said() {
    let errors = |channel: &str| {
        Run::errors(&format!(
            "s :: FlowSwitch; d :: Discard; Idle -> s -> Discard; Idle -> d; OpenFlow({channel});"
        ))
    };
    assert_eq!(errors("s, ptcp:0:127.0.0.1"), "");
    assert!(errors("s").contains("CONTROLLER: need one at least"));
    assert!(errors("d, ptcp:0").contains("element type mismatch, expected FlowSwitch"));
    assert!(errors("s, udp:1.2.3.4").contains("it begins with tcp:"));
    assert!(errors("s, tcp:::1").contains("in brackets"));
    assert!(errors("s, ptcp:0, VERSIONS 1.2").contains("VERSIONS: no 1.2"));
    assert!(errors("s, ptcp:0, FAIL open").contains("FAIL: secure or standalone"));
    assert!(errors("s, pssl:0").contains("needs KEY, CERTIFICATE and AUTHORITIES"));
    assert!(errors("s, ptcp:0, KEY k").contains("are given together"));
    assert!(errors("s, ptcp:0, BURST 3").contains("BURST: without RATE"));
}
