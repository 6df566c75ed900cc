//! Devices by the names of other frameworks.

use crate::testing::Run;

const SOON: &str = "DriverManager(wait 20ms, stop)";

#[test]
fn each_packet_of_a_shared_device_comes_to_one_element() {
    for (first, second) in [
        ("FromDPDKDevice(0)", "FromDPDKDevice(0)"),
        ("FromDPDKDevice(0, QUEUE 1)", "FromDPDKDevice(0, 0)"),
        ("FromDPDKDevice(0, QUEUE 0, N_QUEUES 1, MAXTHREADS 1)", "FromDPDKDevice(0, QUEUE 1)"),
        ("FromNetmapDevice(netmap:0)", "FromNetmapDevice(0, QUEUE 1)"),
    ] {
        for frame_limit in [1, 7, 32, 256] {
            let mut run = Run::new(&format!(
                "DeviceInfo(0 \"null:?count=1000\");
                 a :: {first} -> c :: Counter -> Discard; b :: {second} -> c; {SOON}"
            ))
            .frame_limit(frame_limit);
            run.run();
            let counts = ["a.count", "b.count", "c.count"].map(|handler| run.read(handler));
            assert_eq!(counts, ["500", "500", "1000"], "{first} {second} {frame_limit}");
        }
    }
}

#[test]
fn names_on_the_command_line_go_before_those_in_the_configuration() {
    let mut run = Run::new(&format!(
        "DeviceInfo(0 \"null:?count=5\", 0000:03:00.0 \"null:?count=6\", eth7 \"null:?count=7\");
         a :: FromDPDKDevice(0) -> Discard; b :: FromDPDKDevice(0000:03:00.0) -> Discard;
         c :: FromNetmapDevice(netmap:eth7-1) -> Discard; d :: FromDevice(eth8) -> Discard; {SOON}"
    ))
    .device("0=null:?count=8")
    .device("eth8=null:?count=9");
    run.run();
    let counts = ["a.count", "b.count", "c.count", "d.count"].map(|handler| run.read(handler));
    assert_eq!(counts, ["8", "6", "7", "9"]);
    assert_eq!(run.read("a.uri"), "null:?count=8");
}

#[test]
fn an_unnamed_device_is_an_error_with_advice() {
    for (text, error) in [
        (
            "FromDPDKDevice(0) -> Discard",
            "0: Unknown or invalid PORT; say which port it is by --device 0=xdp:INTERFACE, or by \
             DeviceInfo(0 xdp:INTERFACE)",
        ),
        ("Idle -> ToDPDKDevice(0000:03:00.0)", "0000:03:00.0: Unknown or invalid PORT; say"),
        ("FromNetmapDevice(vale0:1) -> Discard", "vale0:1: there are no VALE switches; say"),
        ("FromDPDKDevice -> Discard", "PORT: required argument missing"),
        ("DeviceInfo(0); Idle -> Discard", "expected 'NAME PORT', as in '0 xdp:eth0'"),
        ("DPDKInfo(1); DPDKInfo(2)", "There can be only one instance of DPDKInfo!"),
        ("XDPFromDevice(DEV lo, MODE fast) -> Discard", "MODE must be skb, drv or hw"),
        ("DeviceInfo(0 null:); FromDPDKDevice(0, PAINT_QUEUE true) -> Discard", "do not tell"),
    ] {
        let errors = Run::errors(text);
        assert!(errors.contains(error), "{text}: {errors}");
        assert_eq!(errors.matches("While").count(), 1, "{errors}");
    }
}

#[test]
fn a_device_that_need_not_be_there_is_idle() {
    let mut run = Run::new(&format!(
        "f :: FromDPDKDevice(7, ALLOW_NONEXISTENT true) -> Discard;
         n :: FromNetmapDevice(netmap:none7, ALLOW_NONEXISTENT true) -> Discard;
         InfiniteSource(LIMIT 5) -> t :: ToDPDKDevice(7, ALLOW_NONEXISTENT true); {SOON}"
    ));
    run.run();
    assert_eq!([run.read("f.count"), run.read("n.count")], ["0", "0"]);
    assert_eq!(run.read("t.dropped"), "0");
}

#[test]
fn counts_are_set_to_zero_and_those_of_the_hardware_are_not() {
    let mut run = Run::new(&format!(
        "DeviceInfo(0 \"null:?count=100\", 1 null:);
         f :: FromDPDKDevice(0) -> t :: ToDPDKDevice(1); {SOON}"
    ));
    run.run();
    for element in ["f", "t"] {
        assert_eq!(run.read(&format!("{element}.count")), "100");
        run.write(&format!("{element}.reset_counts"), "").unwrap();
        assert_eq!(run.read(&format!("{element}.count")), "0");
        assert_eq!(run.read(&format!("{element}.hw_count")), "100");
        assert_eq!(run.read(&format!("{element}.hw_bytes")), "6000");
        assert_eq!(run.read(&format!("{element}.hw_errors")), "0");
    }
    assert_eq!(run.read("f.nb_rx_queues"), "1");
    assert_eq!(run.read("f.driver"), "null");
}

/// Packets for a full device wait up to `IQUEUE`; with `BLOCKING` the source stops.
#[test]
fn packets_wait_in_front_of_a_full_device() {
    for (arguments, count, dropped) in
        [("", "64", "0"), (", IQUEUE 512", "64", "424"), (", IQUEUE 512, BLOCKING true", "64", "0")]
    {
        let mut run = Run::new(&format!(
            "DeviceInfo(0 \"null:?count=1000\", 1 \"ring:{}?slots=64\");
             FromDPDKDevice(0) -> t :: ToDPDKDevice(1{arguments});
             FromPort(\"ring:{}?slots=64&size=60\", ACTIVE false) -> Discard; {SOON}",
            count.len() + arguments.len(),
            count.len() + arguments.len(),
        ))
        .frame_limit(32);
        run.run();
        assert_eq!(run.read("t.count"), count, "{arguments}");
        assert_eq!(run.read("t.dropped"), dropped, "{arguments}");
    }
}

#[test]
fn listeners_get_packets_where_a_port_is_named_for_them() {
    let mut run = Run::new(
        "DeviceInfo(shown \"ring:shown?slots=64\");
         InfiniteSource(LIMIT 10, STOP true) -> t :: Tee -> s :: ToHostSniffers(shown);
         t[1] -> n :: ToHostSniffers(eth0); t[2] -> ToHostSniffers(TYPE IP);
         FromPort(\"ring:shown?slots=64&size=60\", ACTIVE false) -> Discard",
    );
    run.run();
    assert_eq!([run.read("s.count"), run.read("n.count")], ["10", "10"]);
    assert_eq!([run.read("s.uri"), run.read("n.uri")], ["ring:shown?slots=64", "null:"]);
}
