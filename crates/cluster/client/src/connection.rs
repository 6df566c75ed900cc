//! A connection to a server, for requests.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use linerate_cluster::{
    figures::FigureView,
    transport::{self, Received},
    wire::{Reply, Request},
};
use linerate_port::peer::{self, address::Address, listen};
use rustix::{io::Errno, net::SocketType};

use crate::ClientError;

/// Longest time a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before a server that has no time to accept is asked again.
const RETRY: Duration = Duration::from_millis(2);

/// A connection to a server: figures and changes. Consumers have one of their own.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects to the server at a socket, `/run/x.sock` or `@x`.
    ///
    /// # Errors
    ///
    /// When no server listens there, or it may not be connected to.
    pub fn open(address: &str) -> Result<Connection, ClientError> {
        let parsed = Address::parse(address).ok_or_else(|| ClientError::Address(address.into()))?;
        let failed = |source| ClientError::Connect { address: address.into(), source };
        let name = parsed.socket().map_err(failed)?;
        let socket = listen::open(SocketType::SEQPACKET).map_err(failed)?;
        let until = Instant::now() + TIMEOUT;
        loop {
            match rustix::net::connect(&socket, &name) {
                Ok(()) => return Ok(Connection { socket }),
                Err(Errno::AGAIN | Errno::INTR) if Instant::now() < until => thread::sleep(RETRY),
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }

    /// Sends a request; returns the reply and the descriptors handed over. A refusal is an error.
    pub(crate) fn ask(&self, request: &Request) -> Result<(Reply, Vec<OwnedFd>), ClientError> {
        if let Err(error) = transport::send(&self.socket, &request.encode(), &[]) {
            // A server that refuses a connection says why before it closes it.
            return match self.receive_reply() {
                Ok(Some((Reply::Refused(reason, text), _))) => {
                    Err(ClientError::Refused { reason, text })
                }
                _ => Err(lost(error)),
            };
        }
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.receive_reply()? {
                Some((Reply::Refused(reason, text), _)) => {
                    return Err(ClientError::Refused { reason, text });
                }
                Some(answer) => return Ok(answer),
                None if Instant::now() >= until => {
                    return Err(ClientError::Protocol("it is silent"));
                }
                None => {
                    peer::wait([self.socket.as_fd()].into_iter(), until)?;
                }
            }
        }
    }

    /// The next message of the server, if there is one.
    pub(crate) fn receive_reply(&self) -> Result<Option<(Reply, Vec<OwnedFd>)>, ClientError> {
        match transport::receive(&self.socket) {
            Received::Nothing => Ok(None),
            Received::Closed => Err(ClientError::ServerGone),
            Received::Malformed(_) => Err(ClientError::Protocol("what it sends is no message")),
            Received::Message(bytes, descriptors) => {
                let reply = Reply::decode(&bytes).map_err(ClientError::Protocol)?;
                Ok(Some((reply, descriptors)))
            }
        }
    }

    /// The figures of the cluster: they stay readable, without the server's help.
    ///
    /// # Errors
    ///
    /// When the server is gone, or refuses.
    pub fn figures(&self) -> Result<FigureView, ClientError> {
        match self.ask(&Request::Look)? {
            (Reply::Figures, files) => match files.first() {
                Some(file) => Ok(FigureView::open(file)?),
                None => Err(ClientError::Protocol("there are no figures")),
            },
            _ => Err(ClientError::Protocol("that is no answer")),
        }
    }

    /// Gives a balancer other weights, one for each of its consumers. Returns how many buckets of flows
    /// have moved.
    ///
    /// # Errors
    ///
    /// When the server is gone, has no such balancer, or refuses.
    pub fn weigh(&self, balancer: &str, weights: &[u32]) -> Result<u32, ClientError> {
        self.change(Request::Weigh { name: balancer.into(), weights: weights.to_vec() })
    }

    /// Detaches a consumer: it gets nothing more and is told to go.
    ///
    /// # Errors
    ///
    /// When the server is gone, no consumer of that name is attached, or it refuses.
    pub fn detach(&self, consumer: &str) -> Result<(), ClientError> {
        self.change(Request::Detach { name: consumer.into() }).map(|_| ())
    }

    fn change(&self, request: Request) -> Result<u32, ClientError> {
        match self.ask(&request)? {
            (Reply::Done(number), _) => Ok(number),
            _ => Err(ClientError::Protocol("that is no answer")),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The error of a request that could not be sent: the server has gone.
fn lost(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::ServerGone,
        _ => ClientError::System(error),
    }
}
