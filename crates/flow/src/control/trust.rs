//! Which peers may control the switch.
//!
//! TLS proves a peer by its certificate. A peer without it is proven by its user, which the kernel knows
//! where it is on this machine, over a UNIX socket and over TCP: root and the user the switch runs as may
//! control it, and those users that were named. Others may where the switch was told to take any.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use linerate_host::peer;

use super::admission::Source;
use super::link::Socket;

/// Which peers without TLS may control the switch, beside root and the user it runs as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Users of this machine.
    pub users: Vec<u32>,
    /// Whoever reaches a listener, or listens where the switch connects to.
    pub anybody: bool,
}

impl Trust {
    /// The source of a connection, if its peer may control the switch. `by_certificate` says that TLS
    /// proves it.
    pub(super) fn check(&self, peer: &Peer, by_certificate: bool) -> io::Result<Source> {
        if by_certificate || self.anybody {
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

    /// Whether the peer the switch has connected to may control it. A host is named by its address; a
    /// service of this machine has to be of a user that may.
    pub(super) fn check_dialled(&self, ours: SocketAddr, theirs: SocketAddr) -> io::Result<()> {
        let peer = Peer::at(ours, theirs);
        match &peer.user {
            Ok(None) if peer.address.is_some() => Ok(()),
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
    /// Its address, where it is none of UNIX.
    address: Option<IpAddr>,
}

impl Peer {
    pub(super) fn of(socket: &Socket) -> io::Result<Peer> {
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
            // A user that nobody is.
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
        let named = Trust { users: vec![strange], anybody: false };
        let any = Trust { users: Vec::new(), anybody: true };
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
        assert_eq!(
            peer(Ok(None), Some("192.0.2.1")).source(),
            Source::host(IpAddr::from([192, 0, 2, 1]))
        );
    }
}
