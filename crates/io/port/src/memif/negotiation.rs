//! Parts common to both negotiators, a listening socket's and a client's.

use std::{
    fmt, io,
    sync::{Arc, Mutex, atomic::Ordering},
};

use linerate_memory::{Arena, MapLimit, MapQuota};

use super::{
    handover::Handover,
    message::{Secret, text},
    receive::RxRing,
    ring::Connection,
    transmit::TxRing,
    zero_copy::{ZeroCopyRx, ZeroCopyTx},
};
use crate::{
    link::Link,
    peer::{event::EventSet, limit::Limit},
};

/// Most regions of a peer.
pub(super) const REGIONS: usize = 256;

/// Most clients that negotiate for an interface at a time.
const NEGOTIATING: usize = 8;

/// Limits of the clients of a server's interface.
#[derive(Debug)]
pub(super) struct Share {
    /// Quota of all clients: one that is connected, those that negotiate, and one whose memory is being
    /// unmapped.
    pub(super) quota: Arc<MapQuota>,
    /// Quota of each client.
    pub(super) session: MapLimit,
    pub(super) negotiating: Arc<Limit>,
}

impl Share {
    /// Reserves the quota of an interface whose clients may each have so much memory.
    pub(super) fn reserve(bytes: u64) -> Result<Share, linerate_memory::ForeignError> {
        let session = MapLimit { regions: REGIONS, bytes };
        let all = MapLimit { regions: 3 * REGIONS, bytes: 3 * bytes };
        let negotiating = Limit::new(NEGOTIATING);
        Ok(Share { quota: MapQuota::reserve(all)?, session, negotiating })
    }
}

/// An interface of ours: the negotiator's view of a port.
pub(super) struct Interface {
    /// Its number at the socket.
    pub(super) id: u32,
    /// The most rings of each direction.
    pub(super) queues: u16,
    /// The largest rings, as a power of two.
    pub(super) log2: u8,
    /// Bytes of a client's buffers.
    pub(super) buffer: u32,
    /// The memory a client shares itself, instead of having packets copied.
    pub(super) arena: Option<Arena>,
    pub(super) secret: Option<Secret>,
    /// Limits of clients, of a server.
    pub(super) share: Option<Share>,
    /// Whether packets are taken, and sent.
    pub(super) receives: bool,
    pub(super) rx: Vec<Arc<Handover<RxRing>>>,
    pub(super) tx: Vec<Arc<Handover<Arc<Mutex<TxRing>>>>>,
    pub(super) link: Arc<Link>,
}

impl Interface {
    /// The workers use this connection from now on.
    pub(super) fn attach(&self, connection: &Arc<Connection>, peer: &str) -> io::Result<()> {
        let mut rx = Vec::with_capacity(self.rx.len());
        for (handover, lane) in self.rx.iter().zip(connection.rx()) {
            let wake = EventSet::new(&[lane.interrupt.fd(), handover.event()])?;
            let posted = self.arena.as_ref();
            let posted =
                posted.map(|arena| ZeroCopyRx::new(arena, &lane.ring, self.buffer as usize));
            rx.push(RxRing::new(connection, lane, wake, posted));
        }
        let rings = connection.tx();
        let tx: Vec<_> = rings
            .iter()
            .map(|lane| {
                let sent = self.arena.as_ref().map(|arena| ZeroCopyTx::new(arena, &lane.ring));
                Arc::new(Mutex::new(TxRing::new(connection, lane, sent)))
            })
            .collect();
        // These first: an element that answers the first packet that comes in has a way for the
        // answer.
        for (queue, handover) in self.tx.iter().enumerate() {
            // Where the peer has fewer rings, several queues share one.
            let ring = queue.checked_rem(tx.len()).map(|at| Arc::clone(&tx[at]));
            handover.put(ring);
        }
        let mut rx = rx.into_iter();
        self.rx.iter().for_each(|handover| handover.put(rx.next()));
        let rings = |count: usize| if count == 1 { "ring" } else { "rings" };
        let (to, from) = (connection.tx().len(), connection.rx().len());
        let size =
            |lanes: &[Arc<super::ring::Lane>]| lanes.first().map_or(0, |lane| lane.ring.size());
        let sealed = connection.regions.iter().all(|region| region.is_sealed());
        self.link.set(
            true,
            format!(
                "{peer}: {to} {} of {} to it, {from} of {} from it{}",
                rings(to),
                size(connection.tx()),
                size(connection.rx()),
                if sealed { "" } else { ", its memory not sealed" },
            ),
        );
        Ok(())
    }

    /// There is no connection any more.
    pub(super) fn detach(&self, reason: impl Into<String>) {
        self.rx.iter().for_each(|handover| handover.put(None));
        self.tx.iter().for_each(|handover| handover.put(None));
        self.link.set(false, reason);
    }

    /// Drops the rings that workers have left.
    pub(super) fn sweep(&self) {
        self.rx.iter().for_each(|handover| handover.sweep());
        self.tx.iter().for_each(|handover| handover.sweep());
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interface").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Handle common to a port's queues: dropped with the last of them, it closes the port.
#[derive(Debug)]
pub(super) struct PortHandle {
    /// Closes when it is dropped.
    _registration: Registration,
    link: Arc<Link>,
}

impl PortHandle {
    pub(super) fn new(registration: Registration, link: &Arc<Link>) -> PortHandle {
        PortHandle { _registration: registration, link: Arc::clone(link) }
    }
}

impl Drop for PortHandle {
    fn drop(&mut self) {
        self.link.close();
    }
}

/// A port's place with its negotiator, which cleans up when it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held to be dropped")]
pub(super) enum Registration {
    Server(super::server::Registration),
    Client(super::client::Client),
}

/// Why a connection is given up, for the peer and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// We give it up, and tell the peer why.
    Refused(String),
    /// The peer gave it up.
    Left(String),
}

impl End {
    pub(super) fn refused(reason: impl Into<String>) -> End {
        End::Refused(reason.into())
    }

    /// The end of a connection in words.
    pub(super) fn reason(&self) -> String {
        match self {
            End::Refused(reason) => format!("the peer was refused: {reason}"),
            End::Left(reason) => reason.clone(),
        }
    }

    /// The end in words, with the name of the peer.
    pub(super) fn reason_with_peer(&self, peer: &str) -> String {
        match self {
            End::Refused(reason) => format!("the peer was refused: {reason} ({peer})"),
            End::Left(_) => self.reason(),
        }
    }
}

/// The name of a peer, as it gave it.
pub(super) fn peer_name(field: &[u8]) -> String {
    let name = text(field);
    if name.is_empty() { "a peer without a name".into() } else { name }
}

/// Compares two secrets in constant time.
pub(super) fn is_same(a: &Secret, b: &Secret) -> bool {
    let differing = a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(differing) == 0
}

/// Puts all of a ring's header where it begins.
pub(super) fn prepare(ring: &super::ring::Ring) {
    ring.cookie().store(super::ring::COOKIE, Ordering::Relaxed);
    ring.flags().store(super::ring::MASK_INTERRUPT, Ordering::Relaxed);
    ring.head().store(0, Ordering::Relaxed);
    ring.tail().store(0, Ordering::Release);
}
