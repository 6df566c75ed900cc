//! Interfaces as this crate sees them against the output of `ip` and `ethtool`, each test in a
//! network namespace of its own.
//!
//! The namespace belongs to a thread made for the test and goes away with it;
//! programs started from that thread live in it too.

use std::{
    collections::BTreeMap, os::fd::AsFd, process::Command, thread, time::Duration, time::Instant,
};

use linerate_linux::interface::{
    InterfaceError, LinkEvent, LinkMonitor, Promiscuous, XdpMode, find, inspect, inspect_all,
    links, set_up,
};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

/// Runs `body` in a new network namespace.
fn in_namespace<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let isolated = scope.spawn(|| {
            // SAFETY: takes no pointer; the new namespace is of this thread
            // only, which ends with the test.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "unshare: {}", std::io::Error::last_os_error());
            body()
        });
        match isolated.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Links by name, as `ip -j -d link` prints them.
fn ip_links() -> BTreeMap<String, Value> {
    let links: Vec<Value> = serde_json::from_str(&run("ip -j -d link")).unwrap();
    links.into_iter().map(|link| (link["ifname"].as_str().unwrap().to_owned(), link)).collect()
}

fn make_links() {
    run("ip link set lo up");
    run("ip link add va address 02:00:00:00:00:0a numtxqueues 4 numrxqueues 3 type veth \
         peer name vb address 02:00:00:00:00:0b numtxqueues 3 numrxqueues 4");
    run("ip link set va up mtu 3000");
    run("ip link set vb up promisc on");
    run("ip tuntap add dev tap0 mode tap multi_queue");
    run("ip tuntap add dev tun0 mode tun");
    run("ip link add br0 type bridge");
    run("ip link add vc type veth peer name vd");
    run("ip link set vc master br0");
    run("ip link property add dev vd altname a-rather-long-other-name");
}

#[test]
#[ignore = "needs root"]
fn links_are_as_ip_shows_them() {
    in_namespace(|| {
        make_links();
        let theirs = ip_links();
        let ours = links().unwrap();
        let names: Vec<_> = ours.iter().map(|link| link.name.clone()).collect();
        assert_eq!(ours.len(), theirs.len(), "{names:?}");
        for link in &ours {
            let ip = &theirs[&link.name];
            let name = &link.name;
            let has = |flag: &str| ip["flags"].as_array().unwrap().iter().any(|f| f == flag);
            assert_eq!(u64::from(link.index), ip["ifindex"], "{name}");
            assert_eq!(u64::from(link.mtu), ip["mtu"], "{name}");
            assert_eq!(link.up, has("UP"), "{name}");
            assert_eq!(link.carrier, has("LOWER_UP"), "{name}");
            assert_eq!(link.state, ip["operstate"].as_str().unwrap().to_lowercase(), "{name}");
            assert_eq!(link.promiscuous, ip["promiscuity"] != 0, "{name}");
            assert_eq!(u64::from(link.transmit_queues), ip["num_tx_queues"], "{name}");
            assert_eq!(u64::from(link.receive_queues), ip["num_rx_queues"], "{name}");
            let kind = match ip["linkinfo"]["info_kind"].as_str() {
                Some("tun") => ip["linkinfo"]["info_data"]["type"].as_str().unwrap(),
                Some(kind) => kind,
                None => "loopback",
            };
            assert_eq!(link.kind, kind, "{name}");
            assert_eq!(link.ethernet, ip["link_type"] != "none", "{name}");
            let json = serde_json::to_value(link).unwrap();
            assert_eq!(json["mac"], ip["address"], "{name}");
            let index_of = |key: &str| ip[key].as_str().map(|name| &theirs[name]["ifindex"]);
            assert_eq!(link.peer.map(Value::from).as_ref(), index_of("link"), "{name}");
            assert_eq!(link.controller.map(Value::from).as_ref(), index_of("master"), "{name}");
            let limit = ip["max_mtu"].as_u64().filter(|&limit| limit != 0);
            assert_eq!(link.mtu_limit.map(u64::from), limit, "{name}");
            assert_eq!(find(name).unwrap(), *link);
        }
        let a = find("va").unwrap();
        assert_eq!((a.receive_queues, a.transmit_queues, a.mtu), (3, 4, 3000));
        assert!(find("vb").unwrap().promiscuous);
        assert_eq!(find("a-rather-long-other-name").unwrap().name, "vd");
    });
}

#[test]
#[ignore = "needs root"]
fn a_peer_in_another_namespace_is_named_with_it() {
    in_namespace(|| {
        run("ip link add va type veth peer name vb");
        let index = find("vb").unwrap().index;
        in_namespace(|| {
            assert_eq!(links().unwrap().len(), 1, "only lo, whatever /sys shows");
            assert!(matches!(find("va"), Err(InterfaceError::Unknown { .. })));
        });
        let sleeper = Command::new("unshare").args(["-n", "sleep", "60"]).spawn().unwrap();
        let sleeper = Child(sleeper);
        let ours = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", sleeper.0.id());
        while std::fs::read_link(&theirs).unwrap() == ours {
            thread::yield_now();
        }
        run(&format!("ip link set vb netns {}", sleeper.0.id()));
        let a = find("va").unwrap();
        assert_eq!(a.peer, Some(index));
        assert!(a.peer_namespace.is_some());
    });
}

/// A child that does not outlive the test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root"]
fn drivers_are_as_ethtool_shows_them() {
    in_namespace(|| {
        make_links();
        run("ethtool -L va rx 2 tx 3");
        run("ethtool -K va gro on tso off");
        run("ethtool -K vb rx off tx off");
        for interface in inspect_all().unwrap() {
            let name = &interface.link.name;
            let field = |text: &str, key: &str| {
                text.lines()
                    .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "))
                    .map(str::to_owned)
            };
            if interface.link.kind != "loopback" {
                let text = run(&format!("ethtool -i {name}"));
                let driver = interface.driver.clone().unwrap();
                assert_eq!(driver.name, field(&text, "driver").unwrap());
                assert_eq!(driver.version, field(&text, "version").unwrap());
                assert_eq!(driver.firmware, field(&text, "firmware-version").unwrap_or_default());
                assert_eq!(driver.bus, field(&text, "bus-info").unwrap_or_default());
            }
            let features = run(&format!("ethtool -k {name}"));
            let on = |key: &str| field(&features, key).unwrap().starts_with("on");
            let offloads = interface.offloads.unwrap();
            assert_eq!(offloads.receive_checksum, on("rx-checksumming"), "{name}");
            assert_eq!(offloads.transmit_checksum, on("tx-checksumming"), "{name}");
            assert_eq!(offloads.scatter_gather, on("scatter-gather"), "{name}");
            assert_eq!(offloads.tso, on("tx-tcp-segmentation"), "{name}");
            assert_eq!(offloads.gso, on("generic-segmentation-offload"), "{name}");
            assert_eq!(offloads.gro, on("generic-receive-offload"), "{name}");
            assert_eq!(offloads.lro, on("large-receive-offload"), "{name}");
            assert_eq!(offloads.receive_vlan, on("rx-vlan-offload"), "{name}");
            assert_eq!(offloads.transmit_vlan, on("tx-vlan-offload"), "{name}");
            assert_eq!(offloads.ntuple, on("ntuple-filters"), "{name}");
            assert_eq!(offloads.receive_hash, on("receive-hashing"), "{name}");
            let settings = Command::new("ethtool").arg(name).output().unwrap();
            let speed = field(&String::from_utf8(settings.stdout).unwrap(), "Speed")
                .and_then(|speed| speed.strip_suffix("Mb/s")?.parse::<u64>().ok());
            assert_eq!(interface.speed, speed.map(|speed| speed * 1_000_000), "{name}");
        }
        let a = inspect("va").unwrap();
        assert_eq!((a.receive_queues(), a.transmit_queues()), (2, 3));
        let channels = a.channels.unwrap();
        assert_eq!((channels.receive_limit, channels.transmit_limit), (3, 4));
        assert_eq!(a.speed, Some(10_000_000_000));
        assert!(!a.offloads.unwrap().tso && a.offloads.unwrap().gro);
        assert!(!inspect("vb").unwrap().offloads.unwrap().receive_checksum);
    });
}

#[test]
#[ignore = "needs root"]
fn xdp_support_and_programs_are_seen() {
    in_namespace(|| {
        make_links();
        let veth = inspect("va").unwrap().xdp.expect("kernel 6.3 or later");
        assert!(veth.native && veth.redirect && !veth.zero_copy && !veth.hardware);
        assert_eq!(veth.zero_copy_pieces, None);
        assert!(!inspect("lo").unwrap().xdp.unwrap().native);
        for (flag, mode, key) in [(1u32 << 2, XdpMode::Native, 1), (1 << 1, XdpMode::Generic, 2)] {
            let program = bpf::pass_program();
            let attached = bpf::attach(&program, find("va").unwrap().index, flag);
            let ip = &ip_links()["va"]["xdp"];
            assert_eq!(ip["mode"], key, "{ip}");
            let programs = find("va").unwrap().xdp_programs;
            assert_eq!(programs.len(), 1);
            assert_eq!(u64::from(programs[0].id), ip["prog"]["id"]);
            assert_eq!(programs[0].mode, mode);
            drop(attached);
            // A program that another test starts has this one's descriptors
            // until it execs: the link goes with the last of them.
            let end = Instant::now() + Duration::from_secs(60);
            while !find("va").unwrap().xdp_programs.is_empty() {
                assert!(Instant::now() < end, "the program is still attached");
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

#[test]
#[ignore = "needs root"]
fn an_unknown_interface_is_answered_with_the_known_ones() {
    in_namespace(|| {
        run("ip link add veth-a type veth peer name veth-b");
        for (name, meant) in
            [("veht-a", "did you mean veth-a? "), ("en0", ""), ("", ""), ("a\0b", "")]
        {
            let named = format!("there is no interface {name:?} in this network namespace");
            let message = format!("{named}; {meant}available: lo, veth-b, veth-a");
            assert_eq!(find(name).unwrap_err().to_string(), message);
        }
        assert!(matches!(find(&"x".repeat(5000)), Err(InterfaceError::Unknown { .. })));
        assert!(matches!(set_up("none", true), Err(InterfaceError::Unknown { .. })));
    });
}

#[test]
#[ignore = "needs root"]
fn up_down_and_promiscuous_are_set_and_undone() {
    in_namespace(|| {
        run("ip link add va type veth peer name vb");
        set_up("va", true).unwrap();
        set_up("vb", true).unwrap();
        let a = find("va").unwrap();
        assert!(a.up && a.carrier && a.state == "up");
        set_up("va", false).unwrap();
        assert!(!find("va").unwrap().up);

        let first = Promiscuous::enable(&a).unwrap();
        let second = Promiscuous::enable(&a).unwrap();
        assert_eq!(ip_links()["va"]["promiscuity"], 2);
        drop(first);
        assert!(find("va").unwrap().promiscuous);
        drop(second);
        assert!(!find("va").unwrap().promiscuous);

        run("ip link del va");
        assert!(matches!(Promiscuous::enable(&a), Err(InterfaceError::Gone { .. })));
    });
}

/// Events until `enough` says so.
fn events(monitor: &mut LinkMonitor, enough: impl Fn(&[LinkEvent]) -> bool) -> Vec<LinkEvent> {
    // A bound for a monitor that sees nothing, not a claim about speed.
    let end = Instant::now() + Duration::from_secs(20);
    let mut events = Vec::new();
    while !enough(&events) {
        assert!(Instant::now() < end, "seen only {events:#?}");
        let timeout = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(monitor.as_fd(), PollFlags::IN)], Some(&timeout))
            .unwrap();
        while let Some(event) = monitor.next_event().unwrap() {
            events.push(event);
        }
    }
    events
}

fn now<'a>(
    events: &'a [LinkEvent],
    name: &str,
) -> Option<&'a linerate_linux::interface::LinkState> {
    events.iter().rev().find_map(|event| match event {
        LinkEvent::Changed { now, .. } if now.name == name => Some(now),
        _ => None,
    })
}

#[test]
#[ignore = "needs root"]
fn the_monitor_reports_changes() {
    in_namespace(|| {
        run(
            "ip link add va numtxqueues 2 numrxqueues 2 type veth peer name vb numtxqueues 2 numrxqueues 2",
        );
        run("ip link set va up");
        run("ip link set vb up");
        let mut monitor = LinkMonitor::open().unwrap();
        let before = monitor.known().find(|link| link.name == "va").unwrap().clone();
        assert!(before.running());
        assert_eq!(monitor.next_event().unwrap(), None);

        run("ip link set va down");
        let seen = events(&mut monitor, |seen| now(seen, "va").is_some_and(|va| !va.up));
        // Its peer loses the carrier but stays up.
        let seen_peer = now(&seen, "vb").is_some_and(|vb| vb.up && !vb.carrier);
        if !seen_peer {
            events(&mut monitor, |seen| now(seen, "vb").is_some_and(|vb| vb.up && !vb.carrier));
        }

        run("ip link set va up");
        events(&mut monitor, |seen| now(seen, "va").is_some_and(|va| va.running()));
        run("ip link set va mtu 4000");
        events(&mut monitor, |seen| now(seen, "va").is_some_and(|va| va.mtu == 4000));
        run("ethtool -L va rx 1 tx 2");
        let seen = events(&mut monitor, |seen| {
            now(seen, "va").is_some_and(|va| (va.receive_queues, va.transmit_queues) == (1, 2))
        });
        assert!(seen.iter().all(|event| !matches!(event, LinkEvent::Removed(_))));

        // A bridge says its port is deleted when it only leaves the bridge.
        run("ip link add br0 type bridge");
        run("ip link set va master br0");
        run("ip link set va nomaster");
        run("ip link del br0");
        let seen = events(&mut monitor, |seen| {
            seen.iter()
                .any(|event| matches!(event, LinkEvent::Removed(state) if state.name == "br0"))
        });
        assert!(
            !seen
                .iter()
                .any(|event| { matches!(event, LinkEvent::Removed(state) if state.name == "va") })
        );

        run("ip link del va");
        run("ip link add va type veth peer name vb");
        let seen = events(&mut monitor, |seen| {
            seen.iter().any(|event| matches!(event, LinkEvent::Added(state) if state.name == "va"))
        });
        let removed = seen.iter().position(
            |event| matches!(event, LinkEvent::Removed(state) if state.index == before.index),
        );
        let added = seen.iter().position(
            |event| matches!(event, LinkEvent::Added(state) if state.name == "va" && state.index != before.index),
        );
        assert!(removed.unwrap() < added.unwrap(), "{seen:#?}");

        run("ip link set va name renamed");
        events(&mut monitor, |seen| {
            seen.iter().any(|event| match event {
                LinkEvent::Changed { before, now } => before.name == "va" && now.name == "renamed",
                _ => false,
            })
        });
    });
}

#[test]
#[ignore = "needs root"]
fn the_monitor_survives_lost_notices() {
    in_namespace(|| {
        run("ip link add va type veth peer name vb");
        let mut monitor = LinkMonitor::open().unwrap();
        let index = find("va").unwrap().index;
        // Each change of an interface takes above a kilobyte of the socket's
        // receive buffer, which holds a few hundred.
        for batch in 0..4 {
            let commands: String = (0..1000)
                .map(|i| format!("link set va mtu {}\n", 1000 + (batch * 1000 + i) % 400))
                .collect();
            let mut ip = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Write::write_all(ip.stdin.as_mut().unwrap(), commands.as_bytes()).unwrap();
            assert!(ip.wait().unwrap().success());
        }
        run("ip link del va");
        run("ip link add vz type veth peer name vy");
        let seen = events(&mut monitor, |seen| {
            seen.iter().any(|event| matches!(event, LinkEvent::Added(state) if state.name == "vz"))
        });
        assert!(
            seen.iter()
                .any(|event| matches!(event, LinkEvent::Removed(state) if state.index == index))
        );
        let known: Vec<_> = monitor.known().map(|state| state.name.clone()).collect();
        assert_eq!(known, ["lo", "vy", "vz"]);
        assert!(seen.len() < 4000, "all notices fitted: the test did not lose any");
    });
}

/// Just enough of `bpf(2)` to attach a program that lets everything pass.
mod bpf {
    use std::{
        io,
        os::fd::{AsRawFd, FromRawFd, OwnedFd},
    };

    const BPF_PROG_LOAD: i64 = 5;
    const BPF_LINK_CREATE: i64 = 28;
    const BPF_PROG_TYPE_XDP: u32 = 6;
    const BPF_XDP: u32 = 37;

    fn bpf(command: i64, attributes: &[u32; 32]) -> OwnedFd {
        // SAFETY: the kernel reads the attributes, whose size is given.
        let fd = unsafe {
            libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes))
        };
        assert!(fd >= 0, "bpf({command}): {}", io::Error::last_os_error());
        // SAFETY: the kernel just returned this descriptor, and it has no other owner.
        unsafe { OwnedFd::from_raw_fd(fd as i32) }
    }

    pub(super) fn pass_program() -> OwnedFd {
        // r0 = XDP_PASS; exit
        let program: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];
        let license = c"GPL";
        let mut attributes = [0u32; 32];
        attributes[0] = BPF_PROG_TYPE_XDP;
        attributes[1] = program.len() as u32;
        let pointers = [program.as_ptr() as u64, license.as_ptr() as u64];
        for (at, pointer) in [2, 4].into_iter().zip(pointers) {
            let bytes = pointer.to_ne_bytes();
            attributes[at] = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
            attributes[at + 1] = u32::from_ne_bytes(bytes[4..].try_into().unwrap());
        }
        bpf(BPF_PROG_LOAD, &attributes)
    }

    pub(super) fn attach(program: &OwnedFd, index: u32, flags: u32) -> OwnedFd {
        let mut attributes = [0u32; 32];
        attributes[0] = program.as_raw_fd() as u32;
        attributes[1] = index;
        attributes[2] = BPF_XDP;
        attributes[3] = flags;
        bpf(BPF_LINK_CREATE, &attributes)
    }
}
