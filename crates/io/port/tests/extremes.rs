//! Every option of every driver takes any value without a panic, an abort or a loop without an end: the port is opened, or
//! refused with an error.
//!
//! Options are those of the definitions, so that a new one is tried, too. Drivers that need no privileges open their
//! ports, in every direction; with an interface, options are read before it is looked for, and there is none.

use std::fs;

use linerate_memory::{Arena, ArenaOptions, FRAME_DEFAULT, Frame};
use linerate_port::{Context, DRIVERS, Direction, Driver, OptionGroup, PortUri, open};
use linerate_test_support::extremes::{Record, VALUES, tried_in_processes};

/// A capture without packets: the header of the format, for Ethernet.
const CAPTURE: &[u8] =
    &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// Objects that a driver opens for this process alone, and others that are not there.
fn objects(driver: &Driver) -> &'static [&'static str] {
    match driver.name {
        "null" => &[""],
        "ring" => &["extreme"],
        "pcap" => &["in.pcap", "out.pcap"],
        "memif" | "vhost" => &["./socket"],
        "tap" | "tun" => &["no interface has spaces"],
        _ => &["nonesuch0"],
    }
}

/// Options that a driver needs for the options of a group to have an effect.
fn roles(driver: &Driver, group: &OptionGroup) -> &'static [&'static str] {
    match (driver.name, group.when) {
        ("memif" | "vhost", "") => &["", "role=server&", "role=driver&", "side=client&"],
        (_, "when it is the driver") => &["role=driver&", "role=driver&side=server&"],
        (_, "when it is the server") => &["role=server&"],
        _ => &[""],
    }
}

/// Opens a port, and has each of its queues receive and send once.
fn use_port(uri: &PortUri, direction: Direction, arena: &Arena) -> bool {
    let context = Context::new(arena.clone()).toward(direction);
    let Ok(port) = open(uri, &context) else { return false };
    let mut pool = arena.cache(64);
    for mut queue in port.queues {
        let mut frame = Frame::new(FRAME_DEFAULT);
        if let Some(receive) = &mut queue.receive {
            let _ = receive.receive(&mut pool, &mut frame);
            receive.refresh();
        }
        pool.take(&mut frame, 4, 60);
        if let Some(transmit) = &mut queue.transmit {
            let _ = transmit.transmit(&mut pool, &mut frame);
            transmit.refresh();
        }
        pool.give(&mut frame);
    }
    true
}

#[test]
fn no_value_harms() {
    let Some(record) = Record::of_this_process() else {
        let (attempts, faults) = tried_in_processes("no_value_harms", DRIVERS.len());
        assert!(attempts > 3_000, "{attempts} attempts");
        let shown = faults.iter().take(100).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(faults.is_empty(), "{} of {attempts} values do harm:\n{shown}", faults.len());
        return;
    };
    fs::write("in.pcap", CAPTURE).expect("a writable folder");
    for driver in record.share(DRIVERS) {
        let options = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let arena = options.create().expect("4 MiB");
        let needs_interface = objects(driver)[0].contains("no");
        let mut opened = 0;
        for group in driver.options {
            for option in group.options {
                // Opening waits for a peer as long as it is told to.
                let is_wait = option.name == "wait";
                let waits = |value: &str| is_wait && ["1", "255", "256"].contains(&value);
                for value in VALUES.iter().copied().filter(|value| !waits(value)) {
                    for role in roles(driver, group) {
                        for object in objects(driver) {
                            let text =
                                format!("{}:{object}?{role}{}={value}", driver.name, option.name);
                            for direction in
                                [Direction::Receive, Direction::Transmit, Direction::Both]
                            {
                                let what = format!("{text} {direction:?}");
                                let is_open = record.attempt(what, || {
                                    let uri = text.parse();
                                    uri.is_ok_and(|uri| use_port(&uri, direction, &arena))
                                });
                                opened += usize::from(is_open == Some(true));
                            }
                        }
                    }
                }
            }
        }
        if opened < 40 && !needs_interface {
            record.fault(format!("{opened} ports of {}: were opened", driver.name));
        }
    }
    record.finish();
}
