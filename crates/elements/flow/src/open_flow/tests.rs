//! A controller and a switch in a graph that runs.

use std::fs;
use std::thread;

use linerate_elements_testing::Scratch;

use crate::testing::Run;
use linerate_openflow::wire::{
    Field, FlowMod, Match, Message, PacketIn, PortConfig, PortMod, PortNumber,
};

use crate::testing::{Controller, StopOnDrop, output, packet, replace, wait_until};

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
        let _stops = StopOnDrop(control.clone());
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
            let _stops = StopOnDrop(control.clone());
            let mut controller = Controller::at(&path);
            let flow = FlowMod::add(0, 1, Match::new(), output(PortNumber(2)));
            controller.send(&Message::FlowMod(flow));
            controller.barrier();
            replace(&control, &same);
            controller.barrier();
            // Another switch is another one's: controllers of the old one connect again.
            replace(&control, &other);
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
fn wrong_arguments_are_refused() {
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

/// A switch with a state, and one flow that is there from the start.
fn with_state(scratch: &Scratch, first: &str) -> String {
    let [path, state] = ["switch", "state"].map(|name| scratch.path(name));
    format!(
        "{first} s :: FlowSwitch(TABLES 2, NAMES one two, FILE {}); Idle -> s -> Discard;
         o :: OpenFlow(s, punix:{path}, STATE {state}); Idle -> [1] s [1] -> Discard;",
        scratch.path("flows")
    )
}

#[test]
fn flows_of_a_controller_are_there_after_a_restart() {
    for first in ["", "Idle -> Discard;"] {
        let scratch = Scratch::new("openflow-state");
        fs::write(scratch.path("flows"), "priority=5,actions=drop\n").expect("a file");
        let text = with_state(&scratch, first);
        let mut run = Run::new(&text).real_time();
        let control = run.control();
        let path = scratch.path("switch");
        let controller = thread::spawn(move || {
            let _stops = StopOnDrop(control);
            let mut controller = Controller::at(&path);
            let flow =
                FlowMod::add(0, 7, Match::new().with(Field::InPort, 1), output(PortNumber(2)));
            controller.send(&Message::FlowMod(FlowMod { cookie: Some(3), ..flow }));
            controller.send(&Message::PortMod(PortMod {
                number: PortNumber(2),
                address: [2, 0, 0, 0, 0, 3],
                config: PortConfig::NO_FORWARD,
                mask: PortConfig::NO_FORWARD,
                advertise: None,
            }));
            controller.send(&Message::BarrierRequest);
            // A status of the port may come before.
            while controller.next() != Message::BarrierReply {}
        });
        run.run();
        controller.join().expect("a controller");
        let flows = run.read("s.flows");
        assert!(flows.contains("cookie=0x3") && flows.contains("priority=5"), "{flows}");
        drop(run);
        let kept = fs::read_to_string(scratch.path("state")).expect("a state");
        assert!(kept.contains("priority=5") && kept.contains(" two\n"), "{kept}");

        // The kept state counts, not the initial one: once as it was, once without a flow.
        for without in [false, true] {
            if without {
                let less = kept.lines().filter(|line| !line.contains("priority=5"));
                let less: String = less.map(|line| format!("{line}\n")).collect();
                fs::write(scratch.path("state"), less).expect("a file");
            }
            let mut run = Run::new(&text).real_time();
            let flows = run.read("s.flows");
            assert!(flows.contains("cookie=0x3"), "{flows}");
            assert_eq!(flows.contains("priority=5"), !without, "{flows}");
            drop(run);
            let again = fs::read_to_string(scratch.path("state")).expect("a state");
            assert_eq!(again.contains("priority=5"), !without, "{again}");
            assert!(again.contains(" two\n"), "how ports are set stays: {again}");
        }
    }
}

#[test]
fn a_state_that_cannot_be_kept_or_read_is_no_start() {
    let scratch = Scratch::new("openflow-no-state");
    let text = |state: &str| {
        format!(
            "s :: FlowSwitch; OpenFlow(s, punix:{}, STATE {}); Idle -> s -> Discard;",
            scratch.path("switch"),
            scratch.path(state)
        )
    };
    let errors = Run::errors(&text("nowhere/state"));
    assert!(errors.contains("cannot keep the state in") && errors.contains("nowhere"), "{errors}");
    fs::write(scratch.path("wrong"), "flow 1.3 actions=drop\nflow 1.3 actions=dorp\n")
        .expect("a file");
    let errors = Run::errors(&text("wrong"));
    assert!(errors.contains("cannot read the state in") && errors.contains("line 2"), "{errors}");
}

/// The file's folder is gone before the run ends: the message at the end reports it.
#[test]
fn a_state_that_could_not_be_kept_is_said_at_the_end() {
    let scratch = Scratch::new("openflow-lost-state");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("a folder");
    let text = format!(
        "s :: FlowSwitch; OpenFlow(s, punix:{}, STATE {folder}/state); Idle -> s -> Discard;",
        scratch.path("switch")
    );
    let mut run = Run::new(&text);
    run.write("s.add_flow", "actions=drop").expect("a flow");
    fs::rename(&folder, scratch.path("elsewhere")).expect("it was there");
    run.close();
    let output = run.output();
    assert!(output.contains("the state is not kept") && output.contains(&folder), "{output}");
}
