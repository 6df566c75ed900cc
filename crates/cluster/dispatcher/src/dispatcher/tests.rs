//! Programs with fewer rights than the server.

use std::{
    os::{
        fd::AsFd,
        unix::net::{UnixDatagram, UnixStream},
    },
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_memory::{
    Arena, ArenaOptions, Frame, PoolCache,
    shared::{Member, PeerRights},
};

use crate::{
    Access, BalancerHandle, Broker, ConsumerHandle, Granted, InlineConfig, InlineHandle,
    wire::Reason,
};

const READ: Granted = Granted { access: Access::Read, cells: 8 };
const WRITE: Granted = Granted { access: Access::Write, cells: 8 };

/// Rights of an unknown process.
fn no_rights() -> PeerRights {
    PeerRights::from_socket(UnixDatagram::unbound().unwrap().as_fd())
}

fn own_rights() -> PeerRights {
    PeerRights::from_socket(UnixStream::pair().unwrap().0.as_fd())
}

struct Server {
    arena: Arena,
    pool: PoolCache,
    broker: Arc<Broker>,
}

impl Server {
    fn new(name: &str) -> Server {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() };
        let arena = options.create().unwrap();
        let address = format!("@linerate-rights-{}-{name}", std::process::id());
        let broker = Broker::open(&address, &arena).unwrap();
        Server { pool: arena.cache(8), arena, broker }
    }

    fn send(&self, name: &str, granted: Granted) -> ConsumerHandle {
        ConsumerHandle::to_send(&self.broker, name, granted).unwrap()
    }

    /// Attaches a program; returns its access and its side.
    fn attach(
        &self,
        name: &str,
        wanted: Option<Access>,
        rights: PeerRights,
    ) -> Result<(Access, Member), Reason> {
        let invited = self.broker.dispatcher().invite(name, wanted, rights);
        let (ready, files) = invited.and_then(|invited| invited.make()).map_err(|(why, _)| why)?;
        let admitted = self.broker.dispatcher().admit(ready, 1).map_err(|(why, _)| why)?;
        let (near, _far) = UnixStream::pair().unwrap();
        Ok((admitted.access, Member::attach_from(near.as_fd(), files).unwrap()))
    }

    fn packets(&mut self, count: usize) -> Frame {
        let mut frame = Frame::new(8);
        self.pool.take(&mut frame, count, 60);
        for slot in frame.slots_mut() {
            self.arena.packet_mut(slot).unwrap().fill(1);
        }
        frame
    }
}

#[test]
fn programs_with_fewer_rights_are_isolated_where_they_could_write() {
    let server = Server::new("write");
    let _uses = ["a", "b", "c"].map(|name| server.send(name, WRITE));
    let _reads = server.send("r", READ);
    let attach = |name, wanted, rights| server.attach(name, wanted, rights).unwrap();
    let [a, b] = [("a", None), ("b", Some(Access::Write))]
        .map(|(name, wanted)| attach(name, wanted, no_rights()));
    assert_eq!([a.0, b.0], [Access::Isolated; 2]);
    // Memory that others write is not sealed, so that it cannot be shared for reading either.
    let (access, _r) = attach("r", None, no_rights());
    assert_eq!(access, Access::Isolated);
    let (access, _c) = attach("c", None, own_rights());
    assert_eq!(access, Access::Write);
}

#[test]
fn sealed_memory_is_shared_for_reading_and_not_written_from_then_on() {
    let server = Server::new("read");
    let _reads = ["r", "s"].map(|name| server.send(name, READ));
    // A program with all rights leaves it as it is.
    let (access, _s) = server.attach("s", None, own_rights()).unwrap();
    assert_eq!(access, Access::Read);
    let (access, _r) = server.attach("r", None, no_rights()).unwrap();
    assert_eq!(access, Access::Read);
    let _later = server.send("w", WRITE);
    let (access, _w) = server.attach("w", None, own_rights()).unwrap();
    assert_eq!(access, Access::Isolated);
}

/// A program that may only read writes to memory of its own: no byte of it is taken.
#[test]
fn a_program_that_may_only_read_changes_nothing_in_memory_of_its_own() {
    let mut server = Server::new("asked");
    let _writes = server.send("w", WRITE);
    let terms = InlineConfig {
        limit: Duration::from_secs(60),
        open: false,
        most: 8,
        flows: 0,
        flow_time: Duration::from_secs(1),
    };
    let asks = InlineHandle::new(&server.broker, "asked", READ, terms).unwrap();
    let (access, mut asked) = server.attach("asked", None, no_rights()).unwrap();
    assert_eq!(access, Access::Isolated);
    let mut frame = server.packets(2);
    server.broker.dispatcher().ask(&asks, &mut server.pool, &mut frame);
    let (mut theirs, mut got) = (asked.arena().cache(4), Frame::new(4));
    assert_eq!(asked.receive(&mut theirs, &mut got), Ok(2));
    for (at, slot) in got.slots_mut().iter_mut().enumerate() {
        asked.arena().packet_mut(slot).unwrap().fill(7 + at as u8);
    }
    assert_eq!(asked.answer(&mut theirs, &mut got, |packet| (packet[0] == 8, false)), Ok(1));
    let settled = server.broker.dispatcher().drain(&asks, &mut server.pool, &mut frame);
    assert_eq!((settled.refused.denied, frame.len()), (1, 1));
    assert!(server.arena.packets(&frame).all(|packet| packet == [1; 60]), "it was changed");
    server.pool.give(&mut frame);
}

/// A descriptor that is not readable waits for a doorbell.
fn rings(event: impl AsFd) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    linerate_port::peer::wait([event.as_fd()].into_iter(), until).unwrap()[0]
}

/// It sends packets as a program does that shares memory: unchanged, also from copies that it has written to.
#[test]
fn a_program_that_may_only_read_sends_packets_unchanged_from_memory_of_its_own() {
    let mut server = Server::new("sends");
    let _writes = server.send("w", WRITE);
    let of_all = |name: &str, names: &[&str], granted| {
        let consumers: Vec<_> = names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        BalancerHandle::new(&server.broker, name, &consumers, granted, false).unwrap()
    };
    let reads = [of_all("b", &["r"], READ), of_all("c", &["s"], READ)];
    let ids = reads.each_ref().map(BalancerHandle::balancer);
    let from = ConsumerHandle::to_receive(&server.broker, "r", Access::Write, 4).unwrap();
    let (access, mut program) = server.attach("r", None, no_rights()).unwrap();
    assert_eq!(access, Access::Isolated);
    let (_, mut shares) = server.attach("s", None, own_rights()).unwrap();
    let (mut theirs, mut own) = (program.arena().cache(8), shares.arena().cache(8));
    let (mut got, mut absent) = (Frame::new(8), Frame::new(8));
    for sent in [3, 8, 1] {
        assert!(program.arm());
        from.events().forget();
        assert!(server.broker.dispatcher().arm(from.endpoint()));
        let mut frame = server.packets(sent);
        let (broker, pool) = (&server.broker, &mut server.pool);
        broker.dispatcher().share_out(&ids, &[], false, pool, &mut frame, &mut absent);
        assert_eq!((frame.len(), absent.len()), (0, 0));
        assert!(rings(program.event()), "its doorbell is silent");
        assert_eq!(program.receive(&mut theirs, &mut got), Ok(sent));
        for slot in got.slots_mut() {
            assert_eq!(program.arena().packet(slot), [1; 60]);
            program.arena().packet_mut(slot).unwrap().fill(7);
        }
        // The first one is given back.
        let mut first = Frame::new(1);
        first.append(&mut got, 1);
        program.give_back_frame(&mut theirs, &mut first, 0).unwrap();
        assert_eq!(program.send(&mut theirs, &mut got), Ok(sent - 1));
        assert!(rings(from.events()), "the doorbell of the server is silent");
        let received = broker.dispatcher().receive(from.endpoint(), pool, &mut frame);
        assert_eq!((received, frame.len()), (sent - 1, sent - 1));
        assert!(server.arena.packets(&frame).all(|packet| packet == [1; 60]), "it was changed");
        pool.give(&mut frame);
        assert_eq!(shares.receive(&mut own, &mut got), Ok(sent));
        shares.give_back_frame(&mut own, &mut got, 0).unwrap();
    }
    let figures = from.figures();
    assert_eq!((figures.packets, figures.sent, figures.unheard), (12, 9, 0));
    // Packets that it keeps are taken back when it has gone.
    let mut frame = server.packets(8);
    let (broker, pool) = (&server.broker, &mut server.pool);
    broker.dispatcher().share_out(&ids, &[], false, pool, &mut frame, &mut absent);
    for name in ["r", "s"] {
        let endpoint = broker.dispatcher().find(name).unwrap();
        broker.dispatcher().end(endpoint);
        drop(broker.dispatcher().remove(endpoint));
    }
    drop((program, shares, from, reads));
    assert_eq!(server.arena.accounting().held, 0, "buffers are lost");
}
