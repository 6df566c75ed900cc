//! Programs without rights, and those that take all they can, leave others their share.

use std::os::fd::AsFd;

use super::*;

/// Connections that a server has at most.
const CONNECTIONS: usize = 256;

/// All of them, by programs of the server's own user that ask for figures and stay.
fn look(address: &str) -> Vec<OwnedFd> {
    (0..CONNECTIONS)
        .map(|_| {
            let socket = connected(address);
            transport::send(&socket, &Request::Look.encode(), &[]).unwrap();
            let until = Instant::now() + Duration::from_secs(20);
            while !matches!(transport::receive(&socket), Received::Message(..)) {
                assert!(Instant::now() < until, "no figures");
                std::thread::sleep(Duration::from_micros(200));
            }
            socket
        })
        .collect()
}

/// However many look, there is room for another of the server's own user, and those that lose theirs learn
/// why.
#[test]
fn programs_that_look_leave_room_for_a_consumer() {
    let mut server = Server::new();
    server.add("b", &["one"], READ);
    let connections = look(&server.address);
    let mut one = Consumer::attach(&server.address, "one").unwrap();
    assert_eq!(server.share_out(4), 0);
    assert_eq!(one.receive().unwrap(), 4);
    let said = transport::receive(&connections[0]);
    let Received::Message(message, _) = said else { panic!("{said:?}") };
    assert!(matches!(Reply::decode(&message), Ok(Reply::Refused(Reason::Full, _))));
    assert!(matches!(transport::receive(&connections[0]), Received::Closed));
    assert!(matches!(transport::receive(&connections[1]), Received::Nothing));
    drop(one);
    // Silent ones do as well.
    let silent: Vec<OwnedFd> = (0..CONNECTIONS).map(|_| connected(&server.address)).collect();
    drop(Consumer::attach(&server.address, "one").unwrap());
    drop((connections, silent));
    server.finish();
}

/// A program that is refused learns why, though it had not been listened to.
#[test]
fn a_refused_program_is_told_the_reason() {
    let address = address();
    let listener =
        listen::Socket::bind(&Address::parse(&address).unwrap(), SocketType::SEQPACKET, 4);
    let listener = listener.unwrap();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| Consumer::attach(&address, "one"));
        let until = Instant::now() + Duration::from_secs(20);
        let socket = loop {
            match rustix::net::accept(listener.fd()) {
                Ok(socket) => break socket,
                Err(_) => assert!(Instant::now() < until, "it does not connect"),
            }
        };
        let reply = Reply::Refused(Reason::Full, "no more may be".into());
        transport::send(&socket, &reply.encode(), &[]).unwrap();
        drop(socket);
        let refused = asks.join().unwrap();
        let is_told = matches!(&refused, Err(ClientError::Refused { reason: Reason::Full, .. }));
        assert!(is_told, "{refused:?}");
    });
}

/// An answer that is not read has descriptors of the server's on their way, of which its user has so many.
#[test]
fn a_program_that_does_not_read_is_dismissed() {
    let mut server = Server::new();
    server.add("b", &["one"], READ);
    let socket = connected(&server.address);
    let look = Request::Look.encode();
    let until = Instant::now() + Duration::from_secs(20);
    while transport::send(&socket, &look, &[]).is_ok() {
        assert!(Instant::now() < until, "it asks and asks");
        std::thread::sleep(Duration::from_micros(200));
    }
    let mut figures = 0;
    let reason = loop {
        match transport::receive(&socket) {
            Received::Message(message, files) => match Reply::decode(&message) {
                Ok(Reply::Refused(reason, _)) => break reason,
                _ => figures += files.len(),
            },
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((reason, figures), (Reason::Protocol, 1));
    server.finish();
}

/// A consumer that floods its doorbell is detached, whether it shares memory or not, and the server's
/// workers sleep on.
#[test]
fn a_consumer_that_floods_its_doorbell_is_ended() {
    for granted in [WRITE, ISOLATED] {
        let server = Server::new();
        let from = ConsumerHandle::to_receive(&server.broker, "one", granted.access, 4).unwrap();
        let (socket, files) = attached(&server.address, "one");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A server that is kept is let go some day.
                let until = Instant::now() + Duration::from_secs(10);
                while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
                    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                    let _ = rustix::net::send(&files[3], &[1; 1 << 16], flags);
                }
            });
            let until = Instant::now() + Duration::from_secs(20);
            while from.figures().floods == 0 {
                assert!(Instant::now() < until, "it is not ended");
                from.events().forget();
                server.broker.dispatcher().arm(from.endpoint());
            }
            let is_told = |received| match received {
                Received::Message(message, _) => {
                    matches!(Reply::decode(&message), Ok(Reply::Ended(Reason::Flood)))
                }
                _ => false,
            };
            while !is_told(transport::receive(&socket)) {
                assert!(Instant::now() < until, "it is not told");
            }
            // Nothing that it does wakes anything from now on.
            from.events().forget();
            let woken = linerate_port::peer::wait(
                [from.events().as_fd()].into_iter(),
                Instant::now() + Duration::from_millis(50),
            );
            assert_eq!(woken.unwrap(), [false]);
            is_over.store(true, Ordering::Relaxed);
        });
        drop(socket);
        server.wait_for("it has gone", |_| from.figures().state == 0);
        drop(from);
        server.finish();
    }
}
