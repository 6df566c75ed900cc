//! Where a control socket listens.

use std::{
    net::TcpListener,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
};

use linerate_graph::{Make, parse_integer};

/// Where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    Tcp {
        port: u16,
        or_above: bool,
    },
    Unix(String),
    /// One client, at a file descriptor of this process.
    Given(i32),
}

impl Place {
    /// Whether a socket that listens there can be had from one that listens at
    /// `old`.
    pub(super) fn can_be(&self, old: &Place) -> bool {
        match (self, old) {
            (Place::Nowhere, _) => false,
            (Place::Tcp { or_above: true, .. }, Place::Tcp { .. }) => true,
            (new, old) => new == old,
        }
    }
}

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Where a socket listens whose type is `kind`.
pub(super) fn place(make: &mut Make<'_>, kind: &str) -> Place {
    match kind {
        "" => {}
        "TCP" => match make.get::<String>("PORT").as_deref().map(tcp_place) {
            Some(Some(place)) => return place,
            Some(None) => make.error("PORT requires TCP port"),
            None => make.error("PORT: required argument missing"),
        },
        "UNIX" => {
            let name = if make.is_given("PORT") { "PORT" } else { "FILENAME" };
            match make.get::<String>(name) {
                // The kernel's addresses hold that many, with the end.
                Some(name) if name.len() < 108 => return Place::Unix(name),
                Some(_) => make.error("filename too long"),
                None => make.error("FILENAME: required argument missing"),
            }
        }
        "SOCKET" => {
            let name = if make.is_given("PORT") { "PORT" } else { "FD" };
            match make.get::<i32>(name) {
                Some(number) => return Place::Given(number),
                None if make.is_given(name) => {}
                None => make.error("FD: required argument missing"),
            }
        }
        _ => make.error(format!("unknown socket type '{kind}'")),
    }
    Place::Nowhere
}

/// The port of `PORT` or `PORT+`.
fn tcp_place(text: &str) -> Option<Place> {
    let (number, or_above) = match text.strip_suffix('+') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let port = parse_integer(number).and_then(|port| u16::try_from(port).ok())?;
    (port > 0 || !or_above).then_some(Place::Tcp { port, or_above })
}
