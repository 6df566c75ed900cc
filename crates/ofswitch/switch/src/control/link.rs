//! Byte stream of a connection, nonblocking: over TCP, UNIX sockets and TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use linerate_linux::peer_stream::PeerStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::tls::{OLD_CERTIFICATE, Tls};

/// Reads of TLS records before control returns to the caller.
const RECORDS: usize = 16;

/// A socket that does not wait.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(PeerStream),
}

impl Socket {
    /// Bytes go out when they are written: an answer is not to wait for the one before it.
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Socket::Tcp(stream))
    }

    pub(super) fn unix(stream: PeerStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        Ok(Socket::Unix(stream))
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One end of a connection. Calls that would block return [`ErrorKind::WouldBlock`].
#[derive(Debug)]
pub(super) struct Link {
    socket: Socket,
    tls: Option<Box<Connection>>,
}

impl Link {
    pub(super) fn plain(socket: Socket) -> Link {
        Link { socket, tls: None }
    }

    /// Creates the connecting end. The address stands for a name that is not checked.
    pub(super) fn client(socket: Socket, tls: &Tls, address: IpAddr) -> io::Result<Link> {
        let name = ServerName::IpAddress(address.into());
        let connection = ClientConnection::new(Arc::clone(&tls.client), name);
        let connection = Connection::Client(connection.map_err(io::Error::other)?);
        Ok(Link { socket, tls: Some(Box::new(connection)) })
    }

    /// Creates the accepting end.
    pub(super) fn server(socket: Socket, tls: &Tls) -> io::Result<Link> {
        let connection = ServerConnection::new(Arc::clone(&tls.server));
        let connection = Connection::Server(connection.map_err(io::Error::other)?);
        Ok(Link { socket, tls: Some(Box::new(connection)) })
    }

    /// The addresses of both ends, this one's first, where TCP carries it without TLS.
    pub(super) fn plain_ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &self.socket {
            Socket::Tcp(stream) if self.tls.is_none() => {
                Some((stream.local_addr().ok()?, stream.peer_addr().ok()?))
            }
            _ => None,
        }
    }

    /// Reads some bytes. None is the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return retried(|| self.socket.read(buffer)) };
        // A peer can send records without application data for ever.
        for _ in 0..RECORDS {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Without a farewell it ends all the same: a message is whole or not by its length.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            let ended = retried(|| tls.read_tls(&mut self.socket))? == 0;
            if let Err(error) = tls.process_new_packets() {
                // The other side is to know why.
                let _gone = tls.write_tls(&mut self.socket);
                return Err(refused(error));
            }
            if ended {
                return Ok(0);
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }

    /// Returns true if there may be bytes to read that poll(2) does not know of: TLS takes whole
    /// records.
    pub(super) fn keeps_bytes(&self) -> bool {
        self.tls.is_some()
    }

    /// Writes some bytes, of which TLS may keep a few until [`Link::flush`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return retried(|| self.socket.write(bytes)) };
        let count = tls.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && count > 0 => Ok(count),
            Err(error) => Err(error),
            Ok(()) if count == 0 => Err(ErrorKind::WouldBlock.into()),
            Ok(()) => Ok(count),
        }
    }

    /// Writes pending TLS records, those of the handshake above all.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            if retried(|| tls.write_tls(&mut self.socket))? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Returns true if there is something that [`Link::flush`] would write.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says farewell, if that can be done at once.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _gone = self.flush();
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Converts a TLS error, with a text that needs no knowledge of the RFC.
fn refused(error: rustls::Error) -> io::Error {
    use rustls::AlertDescription::{
        BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    match error {
        rustls::Error::AlertReceived(
            alert @ (BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | UnknownCA
            | UnsupportedCertificate),
        ) => {
            let text = format!("the other side refuses our certificate: {alert:?}");
            io::Error::new(ErrorKind::PermissionDenied, text)
        }
        // The name is that of the library below, which has no other.
        rustls::Error::InvalidCertificate(error)
            if format!("{error:?}").contains("UnsupportedCertVersion") =>
        {
            let text = format!("the other side's certificate is refused: {OLD_CERTIFICATE}");
            io::Error::new(ErrorKind::InvalidData, text)
        }
        error => io::Error::new(ErrorKind::InvalidData, error),
    }
}

/// Again, when a signal came.
fn retried<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
