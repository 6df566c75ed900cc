//! Sockets against those of the standard library, on this machine only.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::net::{UnixDatagram, UnixListener, UnixStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use linerate_graph::Control;

use super::super::tests::Scratch;
use crate::testing::Run;

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a port of this machine that is free right now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs a configuration beside `peer`, which ends it, and reads a handler.
fn run_beside(text: &str, handler: &str, peer: impl FnOnce() + Send) -> String {
    let (sender, receiver) = mpsc::channel::<Control>();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            let mut run = Run::new(text).real_time();
            sender.send(run.control()).unwrap();
            run.run();
            run.read(handler)
        });
        let control = receiver.recv();
        let peer = scope.spawn(peer).join();
        if let Ok(control) = control {
            control.stop();
        }
        peer.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = [0; 4096];
    let (length, from) = socket.recv_from(&mut bytes).unwrap();
    (bytes[..length].to_vec(), from)
}

#[test]
fn a_udp_client_sends_every_packet() {
    for (queue, class) in [("", "Socket"), ("-> Queue ", "Socket"), ("-> Queue ", "ToSocket")] {
        let socket = udp();
        let port = socket.local_addr().unwrap().port();
        let text = format!(
            "InfiniteSource(DATA abc, LIMIT 20) {queue} -> s :: {class}(UDP, 127.0.0.1, {port})"
        );
        run_beside(&text, "s.class", || {
            (0..20).for_each(|_| assert_eq!(receive(&socket).0, b"abc"));
        });
    }
}

#[test]
fn the_older_names_receive_and_send() {
    let (port, to) = (free_port(), udp());
    let end = to.local_addr().unwrap().port();
    let text = format!(
        "FromSocket(UDP, 127.0.0.1, {port}, SNAPLEN 8) -> c :: Counter -> Queue
            -> ToSocket(UDP, 127.0.0.1, {end})"
    );
    let counted = run_beside(&text, "c.count", || {
        let socket = udp();
        socket.send_to(b"0123456789", (Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(receive(&to).0, b"01234567");
    });
    assert_eq!(counted, "1");
}

/// In Click's words, before anything that is wrong with them.
#[test]
fn the_older_names_are_said_to_be_old() {
    for (config, output) in [
        ("FromSocket(UDP, 127.0.0.1, 0) -> Discard", "FromSocket"),
        ("Idle -> ToSocket(UDP, 127.0.0.1, 9)", "ToSocket"),
        ("Idle -> ToSocket(UDP, 127.0.0.1, 0) -> Discard", "ToSocket"),
        ("Socket(UDP, 127.0.0.1, 0) -> Discard", ""),
    ] {
        let mut run = Run::new(&format!("{config}; DriverManager(stop)"));
        run.run();
        let said = match output {
            "" => String::new(),
            class => format!("warning: {class} is deprecated, use Socket instead\n"),
        };
        assert_eq!(run.output(), said, "{config}");
    }
}

#[test]
fn a_udp_server_answers_whom_it_heard_last() {
    let port = free_port();
    let text = format!("s :: Socket(UDP, 127.0.0.1, {port}, SNAPLEN 8) -> c :: Counter -> s");
    let counted = run_beside(&text, "c.count", || {
        for _ in 0..3 {
            let socket = udp();
            socket.send_to(b"0123456789", (Ipv4Addr::LOCALHOST, port)).unwrap();
            assert_eq!(receive(&socket).0, b"01234567");
        }
    });
    assert_eq!(counted, "3");
}

/// Peers in neither table are allowed, and peers in both.
#[test]
fn a_udp_server_hears_only_whom_it_may() {
    let port = free_port();
    let text = format!(
        "good :: RadixIPLookup(127.0.0.3/32 0); bad :: StaticIPLookup(127.0.0.2/31 0);
        Idle -> good -> Discard; Idle -> bad -> Discard;
        s :: Socket(UDP, 0.0.0.0, {port}, ALLOW good, DENY bad, VERBOSE true) -> c :: Counter -> s"
    );
    let drops = run_beside(&text, "s.drops", || {
        for (from, answered) in [("127.0.0.2", false), ("127.0.0.3", true), ("127.0.0.1", true)] {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.send_to(from.as_bytes(), (Ipv4Addr::LOCALHOST, port)).unwrap();
            if answered {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                assert_eq!(receive(&socket).0, from.as_bytes());
            }
        }
    });
    assert!(drops.contains("1\tnot allowed\n"), "{drops}");
}

#[test]
fn a_tcp_server_closes_connections_it_may_not_have() {
    let port = free_port();
    let text = format!(
        "bad :: RadixIPLookup(127.0.0.1/32 0); Idle -> bad -> Discard;
        s :: Socket(TCP, 0.0.0.0, {port}, DENY bad, CLIENT false) -> c :: Counter -> s"
    );
    let counted = run_beside(&text, "c.count", || {
        let mut denied = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        denied.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(denied.read(&mut [0; 8]), Ok(0)), "closed without a byte");
        let mut socket = connect_from(Ipv4Addr::new(127, 0, 0, 2), port);
        socket.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello");
    });
    assert_eq!(counted, "1");
}

/// A connection from an address of this machine.
fn connect_from(from: Ipv4Addr, port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let from_socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&from_socket, &std::net::SocketAddrV4::new(from, 0)).unwrap();
    connect(&from_socket, &std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let stream = TcpStream::from(from_socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_tcp_server_serves_one_connection_after_the_other() {
    let port = free_port();
    let text = format!("s :: Socket(TCP, 127.0.0.1, {port}) -> s");
    run_beside(&text, "s.class", || {
        for length in [1, 3000, 1_000_000] {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let sent: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8 + 1).collect();
            let mut writer = stream.try_clone().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| writer.write_all(&sent).unwrap());
                let mut got = vec![0; sent.len()];
                stream.read_exact(&mut got).unwrap();
                assert!(got == sent, "{length} bytes came back changed");
            });
        }
    });
}

#[test]
fn a_connection_outlives_a_new_configuration() {
    let port = free_port();
    let (sender, receiver) = mpsc::channel::<Control>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut run =
                Run::new(&format!("s :: Socket(TCP, 127.0.0.1, {port}) -> s")).real_time();
            sender.send(run.control()).unwrap();
            run.run();
        });
        let control = receiver.recv().unwrap();
        let stop = stop_later(&control);
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..20 {
            let mut got = [0; 4];
            stream.write_all(b"ping").unwrap();
            stream.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"ping");
            // A new socket could not be had at this port.
            let text = format!("TCP, 127.0.0.1, {port}, SNAPLEN 100");
            control.write("s.config", &text).unwrap();
        }
        drop(stop);
    });
}

/// Ends the run when it is dropped, also by a panic.
fn stop_later(control: &Control) -> impl Drop + '_ {
    struct Stop<'a>(&'a Control);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    Stop(control)
}

#[test]
fn a_tcp_client_sends_a_stream_to_a_slow_reader_without_loss() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "InfiniteSource(LENGTH 1000, LIMIT 20000) -> Queue -> s :: Socket(TCP, 127.0.0.1, {port})"
    );
    let drops = run_beside(&text, "s.drops", || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut left = 20_000_000;
        let mut bytes = vec![0; 1 << 16];
        while left > 0 {
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "{left} bytes are missing");
            left -= length;
        }
        assert_eq!(left, 0);
    });
    assert!(
        !drops.lines().any(|line| line.ends_with(|c: char| ('1'..='9').contains(&c))),
        "{drops}"
    );
}

#[test]
fn unix_sockets_of_both_kinds() {
    let scratch = Scratch::new("unix");
    let (stream, peer, datagram) = (scratch.file("s"), scratch.file("p"), scratch.file("d"));
    let listener = UnixListener::bind(&peer).unwrap();
    let text = format!("InfiniteSource(DATA hello, LIMIT 1) -> s :: Socket(UNIX, {peer})");
    run_beside(&text, "s.class", || {
        let mut got = [0; 5];
        listener.accept().unwrap().0.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    });
    let text = format!("s :: Socket(UNIX, {stream}) -> s");
    run_beside(&text, "s.class", || {
        let mut socket = UnixStream::connect(&stream).unwrap();
        socket.write_all(b"echo").unwrap();
        let mut got = [0; 4];
        socket.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"echo");
    });
    assert!(!std::path::Path::new(&stream).exists(), "the socket's file is left behind");
    let text = format!("s :: Socket(UNIX_DGRAM, {datagram}) -> s");
    run_beside(&text, "s.class", || {
        let socket = UnixDatagram::bind(scratch.file("me")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"echo", &datagram).unwrap();
        let mut got = [0; 10];
        assert_eq!(socket.recv(&mut got).unwrap(), 4);
    });
}

#[test]
fn a_multicast_group_on_the_loopback_interface() {
    let port = free_port();
    let group = Ipv4Addr::new(239, 77, 1, 2);
    let member = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "InfiniteSource(DATA own, LIMIT 3) -> m :: McastSocket({group}, {port}, 127.0.0.1)
            -> c :: Counter(COUNT_CALL 2 stop) -> o :: Collect"
    );
    let got = run_beside(&text, "o.packets", || {
        let enough = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(10));
            member.send_to(b"hi", (group, port)).is_err()
        });
        assert!(!enough, "the group cannot be reached");
    });
    assert!(got.lines().count() >= 2 && got.lines().all(|line| line == "6869"), "{got}");
}

#[test]
fn wrong_arguments_are_said_as_click_does() {
    let long = "x".repeat(108);
    for (text, error) in [
        ("Socket(FOO, 1.2.3.4, 5) -> Discard", "unknown socket type `FOO'"),
        ("Socket(TCP, 1.2.3.4) -> Discard", "PORT: required argument missing"),
        ("Socket(UDP, host, 5) -> Discard", "ADDR: "),
        ("Socket(UDP, 1.2.3.4, 5, 1.2.3.4, 5, 6) -> Discard", "too many arguments"),
        ("Socket(UDP, 192.0.2.1, 5) -> Discard", "bind: Cannot assign requested address"),
        ("i :: Idle -> Socket(UDP, 127.0.0.1, 5, ALLOW i)", "i is not an IPRouteTable"),
        (&format!("Socket(UNIX, /{long}) -> Discard"), "too long"),
        ("RawSocket(FOO) -> Discard", "TYPE: invalid number"),
        ("FromRawSocket(FOO) -> Discard", "TYPE: invalid number"),
        ("Idle -> ToRawSocket(UDP, 5, SNAPLEN x)", "SNAPLEN: "),
    ] {
        let errors = Run::errors(text);
        assert!(errors.contains(error), "{text}: {errors}");
    }
    let port = free_port();
    let errors = Run::errors(&format!("Idle -> Socket(TCP, 127.0.0.1, {port})"));
    assert!(errors.contains("connect: Connection refused"), "{errors}");
}
