//! Programs with fewer rights than the server.

use std::{
    os::{
        fd::AsFd,
        unix::net::{UnixDatagram, UnixStream},
    },
    sync::Arc,
    time::Duration,
};

use linerate_memory::{
    Arena, ArenaOptions, Frame, PoolCache,
    shared::{Member, PeerRights},
};

use crate::{Access, Broker, Granted, InlineUse, PlaceUse, Terms, wire::Reason};

const READ: Granted = Granted { access: Access::Read, cells: 8 };
const WRITE: Granted = Granted { access: Access::Write, cells: 8 };

/// What is known of nobody.
fn no_rights() -> PeerRights {
    PeerRights::of(UnixDatagram::unbound().unwrap().as_fd())
}

fn own_rights() -> PeerRights {
    PeerRights::of(UnixStream::pair().unwrap().0.as_fd())
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

    fn send(&self, name: &str, granted: Granted) -> PlaceUse {
        PlaceUse::to_send(&self.broker, name, granted).unwrap()
    }

    /// Takes in a program; what it may do, and its side.
    fn attach(
        &self,
        name: &str,
        wanted: Option<Access>,
        rights: PeerRights,
    ) -> Result<(Access, Member), Reason> {
        let invited = self.broker.exchange().invite(name, wanted, rights);
        let (ready, files) = invited.and_then(|invited| invited.make()).map_err(|(why, _)| why)?;
        let admitted = self.broker.exchange().admit(ready, 1).map_err(|(why, _)| why)?;
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

/// Memory of its own is written by a program that may only read: nothing of it is taken.
#[test]
fn a_program_that_may_only_read_changes_nothing_in_memory_of_its_own() {
    let mut server = Server::new("asked");
    let _writes = server.send("w", WRITE);
    let terms = Terms {
        limit: Duration::from_secs(60),
        open: false,
        most: 8,
        flows: 0,
        flow_time: Duration::from_secs(1),
    };
    let asks = InlineUse::new(&server.broker, "asked", READ, terms).unwrap();
    let (access, mut asked) = server.attach("asked", None, no_rights()).unwrap();
    assert_eq!(access, Access::Isolated);
    let mut frame = server.packets(2);
    server.broker.exchange().ask(&asks, &mut server.pool, &mut frame);
    let (mut theirs, mut got) = (asked.arena().cache(4), Frame::new(4));
    assert_eq!(asked.receive(&mut theirs, &mut got), Ok(2));
    for (at, slot) in got.slots_mut().iter_mut().enumerate() {
        asked.arena().packet_mut(slot).unwrap().fill(7 + at as u8);
    }
    assert_eq!(asked.answer(&mut theirs, &mut got, |packet| (packet[0] == 8, false)), Ok(1));
    let settled = server.broker.exchange().settle(&asks, &mut server.pool, &mut frame);
    assert_eq!((settled.refused.denied, frame.len()), (1, 1));
    assert!(server.arena.packets(&frame).all(|packet| packet == [1; 60]), "it was changed");
    server.pool.give(&mut frame);
}
