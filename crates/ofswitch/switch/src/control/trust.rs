//! Authentication of peers: the right to control the switch.
//!
//! TLS authenticates a peer by its certificate. Without TLS a peer is authenticated by its user,
//! which the kernel reports for UNIX sockets, and for TCP within this machine: root, the user the
//! switch runs as and the users named in the options may control it. An option lets every peer
//! control it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use linerate_linux::peer;

use super::admission::Source;
use super::link::Socket;

/// Peers without TLS that may control the switch, beside root and the user it runs as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Users of this machine.
    pub users: Vec<u32>,
    /// Every peer that reaches a listener, or that the switch connects to.
    pub any_peer: bool,
}

impl Trust {
    /// The source of a connection, if its peer may control the switch. `by_certificate` is true
    /// after a TLS handshake with a valid certificate.
    pub(super) fn check(&self, peer: &Peer, by_certificate: bool) -> io::Result<Source> {
        if by_certificate || self.any_peer {
            return Ok(peer.source());
        }
        match (&peer.user, peer.address) {
            (Ok(Some(user)), _) if self.has(*user) => Ok(peer.source()),
            (Ok(Some(user)), _) => Err(refused(format!(
                "a peer of user {user} may not control the switch: name the user, or use TLS"
            ))),
            (Ok(None), Some(address)) => Err(refused(format!(
                "{address} is not on this machine and may not control the switch without TLS"
            ))),
            (Ok(None), None) => Err(refused("the peer has no user".to_owned())),
            (Err(error), _) => Err(refused(format!("the user of the peer is not known: {error}"))),
        }
    }

    /// Checks that the peer the switch has connected to may control it. Another machine may, as its
    /// address was configured; a service of this machine needs a user that may. One that has closed
    /// its end has none.
    pub(super) fn check_dialled(&self, ours: SocketAddr, theirs: SocketAddr) -> io::Result<()> {
        let peer = Peer::at(ours, theirs);
        // A connection to an address of this machine comes from the same address.
        let is_here = theirs.ip() == ours.ip() || theirs.ip().to_canonical().is_loopback();
        match &peer.user {
            Ok(None) if !is_here => Ok(()),
            Ok(None) if !self.any_peer => {
                Err(refused(format!("{theirs} on this machine has closed its end")))
            }
            _ => self.check(&peer, false).map(drop),
        }
    }

    fn has(&self, user: u32) -> bool {
        Source::User(user).is_administrator() || self.users.contains(&user)
    }
}

fn refused(text: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, text)
}

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its user, where it is on this machine.
    user: io::Result<Option<u32>>,
    /// Its address, over TCP.
    address: Option<IpAddr>,
}

impl Peer {
    pub(super) fn from_socket(socket: &Socket) -> io::Result<Peer> {
        match socket {
            Socket::Tcp(stream) => {
                let (ours, theirs) = (stream.local_addr()?, stream.peer_addr()?);
                Ok(Peer::at(ours, theirs))
            }
            Socket::Unix(stream) => {
                Ok(Peer { user: peer::unix_user(stream).map(Some), address: None })
            }
        }
    }

    fn at(ours: SocketAddr, theirs: SocketAddr) -> Peer {
        let address = theirs.ip().to_canonical();
        Peer { user: peer::tcp_user(ours, theirs), address: Some(address) }
    }

    fn source(&self) -> Source {
        match (&self.user, self.address) {
            (Ok(Some(user)), _) => Source::User(*user),
            (_, Some(address)) => Source::host(address),
            // No user has this number.
            (_, None) => Source::User(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(user: io::Result<Option<u32>>, address: Option<&str>) -> Peer {
        Peer { user, address: address.map(|text| text.parse().expect("an address")) }
    }

    #[test]
    fn a_peer_is_trusted_by_its_user_or_its_certificate() {
        let own = rustix::process::geteuid().as_raw();
        let strange = own + 1000;
        let trust = Trust::default();
        let named = Trust { users: vec![strange], any_peer: false };
        let any = Trust { users: Vec::new(), any_peer: true };
        let closed = || Err(ErrorKind::NotConnected.into());
        let here = Some("127.0.0.1");
        for (peer, trusts) in [
            (peer(Ok(Some(0)), None), [true, true, true]),
            (peer(Ok(Some(own)), here), [true, true, true]),
            (peer(Ok(Some(strange)), None), [false, true, true]),
            (peer(Ok(Some(strange)), here), [false, true, true]),
            (peer(Ok(None), Some("192.0.2.1")), [false, false, true]),
            (peer(closed(), here), [false, false, true]),
        ] {
            let found = [&trust, &named, &any].map(|trust| trust.check(&peer, false).is_ok());
            assert_eq!(found, trusts, "{peer:?}");
            assert!(trust.check(&peer, true).is_ok(), "by its certificate");
        }
        let text = |peer: &Peer| trust.check(peer, false).expect_err("no trust").to_string();
        assert!(text(&peer(Ok(None), Some("192.0.2.1"))).contains("192.0.2.1 is not on this"));
        assert!(text(&peer(Ok(Some(strange)), None)).contains(&format!("user {strange}")));
        assert_eq!(peer(Ok(Some(7)), here).source(), Source::User(7));
        // Nothing has these ends: the service sent its messages and closed.
        let end = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (ours, theirs) in
            [("127.0.0.1:9", "127.0.0.1:1"), ("192.0.2.1:9", "192.0.2.1:1"), ("[::1]:9", "[::1]:1")]
        {
            let refused = trust.check_dialled(end(ours), end(theirs)).expect_err("no trust");
            assert!(refused.to_string().contains("closed its end"), "{refused}");
            assert!(any.check_dialled(end(ours), end(theirs)).is_ok());
        }
        assert!(trust.check_dialled(end("192.0.2.1:9"), end("192.0.2.2:1")).is_ok());
        assert_eq!(
            peer(Ok(None), Some("192.0.2.1")).source(),
            Source::host(IpAddr::from([192, 0, 2, 1]))
        );
    }
}
