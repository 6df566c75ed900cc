//! UNIX sockets with a listener and the processes connected to them; and the owners of TCP sockets of
//! this host.
//!
//! The kernel lists them over netlink (`linux/unix_diag.h`): the sockets of this network namespace,
//! by number; the owner of each is in `/proc`, as far as this user may see it. Nothing is connected
//! to: a program might not expect it.

use std::{
    collections::BTreeMap,
    fs, io,
    net::TcpStream,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    interface::netlink::{Netlink, attributes, number},
    peer::tcp_user,
};

/// Values of `linux/sock_diag.h` and `linux/unix_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_NAME: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
/// Bytes of `struct unix_diag_msg`.
const MESSAGE: usize = 16;
/// States, as TCP's (`net/tcp_states.h`).
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// Type of a socket, by the data read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketKind {
    /// Bytes.
    Stream,
    /// Messages, in order.
    Seqpacket,
}

/// A process that has a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its name, as in `ps -o comm`.
    pub name: String,
}

/// A socket that a process listens at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Its path, or `@` and its abstract name.
    pub address: String,
    /// Type of the socket.
    pub kind: SocketKind,
    /// Listening processes, as far as this user may know.
    pub owners: Vec<Owner>,
    /// The other ends of connections to it: as many as there are, each with its owner, as far as
    /// this user may know.
    pub connected: Vec<Option<Owner>>,
    /// The names of the owners' threads, and the words of their command lines.
    #[serde(skip)]
    pub hints: Vec<String>,
}

/// A socket as the kernel tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DiagRecord {
    kind: SocketKind,
    state: u8,
    number: u32,
    name: String,
    peer: Option<u32>,
}

/// All sockets of this network namespace with a listener, by address.
///
/// # Errors
///
/// When the kernel does not tell (it has no `unix_diag`).
pub fn listeners() -> io::Result<Vec<Listener>> {
    let told = ask()?;
    let owners = owners();
    let of = |number: &u32| owners.get(number).map(Vec::as_slice).unwrap_or_default();
    let listening = told.iter().filter(|socket| socket.state == LISTEN && !socket.name.is_empty());
    let mut all: Vec<Listener> = listening
        .map(|socket| {
            let accepted = told.iter().filter(|other| {
                other.state == ESTABLISHED && other.name == socket.name && other.kind == socket.kind
            });
            let connected = accepted
                .map(|accepted| {
                    accepted.peer.as_ref().and_then(|peer| of(peer).first()).map(owner_of)
                })
                .collect();
            let processes = of(&socket.number);
            Listener {
                address: socket.name.clone(),
                kind: socket.kind,
                owners: processes.iter().map(owner_of).collect(),
                connected,
                hints: processes.iter().flat_map(|process| hints_of(*process)).collect(),
            }
        })
        .collect();
    all.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(all)
}

fn ask() -> io::Result<Vec<DiagRecord>> {
    let mut request = vec![libc::AF_UNIX as u8, 0, 0, 0];
    let states = 1u32 << ESTABLISHED | 1 << LISTEN;
    let every = 0;
    for word in [states, every, UDIAG_SHOW_NAME | UDIAG_SHOW_PEER, u32::MAX, u32::MAX] {
        request.extend(word.to_ne_bytes());
    }
    let messages = Netlink::sockets()?.dump(SOCK_DIAG_BY_FAMILY, &request)?;
    Ok(messages.iter().filter_map(|message| read(&message.body)).collect())
}

/// Reads a `struct unix_diag_msg` and its attributes; `None` for sockets of datagrams.
fn read(body: &[u8]) -> Option<DiagRecord> {
    let (head, rest) = body.split_at_checked(MESSAGE)?;
    let kind = match i32::from(head[1]) {
        libc::SOCK_STREAM => SocketKind::Stream,
        libc::SOCK_SEQPACKET => SocketKind::Seqpacket,
        _ => return None,
    };
    let mut told = DiagRecord {
        kind,
        state: head[2],
        number: number(&head[4..8])? as u32,
        name: String::new(),
        peer: None,
    };
    for (attribute, value) in attributes(rest) {
        match attribute {
            UNIX_DIAG_NAME => told.name = name(value),
            UNIX_DIAG_PEER => told.peer = number(value).map(|peer| peer as u32),
            _ => {}
        }
    }
    Some(told)
}

/// A socket's name: a path, which may end in a zero byte, or a zero byte and a name.
fn name(value: &[u8]) -> String {
    match value {
        [0, abstract_name @ ..] => format!("@{}", String::from_utf8_lossy(abstract_name)),
        path => String::from_utf8_lossy(path.strip_suffix(&[0]).unwrap_or(path)).into_owned(),
    }
}

/// The processes that have each socket, by its number, as far as this user may see.
fn owners() -> BTreeMap<u32, Vec<u32>> {
    let mut owners: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in numbered(Path::new("/proc")) {
        for file in fs::read_dir(folder(process).join("fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let number = target.to_str().and_then(|target| target.strip_prefix("socket:["));
            if let Some(number) = number.and_then(|rest| rest.strip_suffix(']')?.parse().ok()) {
                let processes = owners.entry(number).or_default();
                if !processes.contains(&process) {
                    processes.push(process);
                }
            }
        }
    }
    owners
}

/// The user of the other end of a TCP connection within this network namespace; `None` if the other
/// end is elsewhere, or is not accepted.
///
/// # Errors
///
/// When the kernel refuses the look-up.
pub fn tcp_peer_uid(stream: &TcpStream) -> io::Result<Option<u32>> {
    match tcp_user(stream.local_addr()?, stream.peer_addr()?) {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
        other => other,
    }
}

/// The entries of a folder that are numbers.
fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn folder(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}"))
}

fn owner_of(process: &u32) -> Owner {
    let name = fs::read_to_string(folder(*process).join("comm")).unwrap_or_default();
    Owner { pid: *process, name: name.trim_end().to_owned() }
}

fn hints_of(process: u32) -> Vec<String> {
    let threads = folder(process).join("task");
    let name = |thread: u32| fs::read_to_string(threads.join(format!("{thread}/comm"))).ok();
    let mut hints: Vec<String> = numbered(&threads).into_iter().filter_map(name).collect();
    let line = fs::read(folder(process).join("cmdline")).unwrap_or_default();
    hints.extend(line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into()));
    hints
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        os::{
            linux::net::SocketAddrExt as _,
            unix::net::{SocketAddr, UnixListener, UnixStream},
        },
    };

    use super::*;

    #[test]
    fn a_listener_is_found_with_its_connected_process() {
        let name = format!("linerate-local-socket-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let client = UnixStream::connect_addr(&address).unwrap();
        let server = listener.accept().unwrap();
        let found = || listeners().unwrap().into_iter().find(|one| one.address[1..] == name);
        let one = found().unwrap();
        let us = owner_of(&std::process::id());
        assert_eq!((one.address.as_str(), one.kind), (&*format!("@{name}"), SocketKind::Stream));
        assert_eq!((&one.owners, &one.connected), (&vec![us.clone()], &vec![Some(us)]));
        assert!(one.hints.iter().any(|hint| hint.contains("local_socket")), "{:?}", one.hints);
        drop((client, server));
        assert!(found().unwrap().connected.is_empty());
        drop(listener);
        assert_eq!(found(), None);
    }

    #[test]
    fn the_other_end_of_a_connection_has_an_owner() {
        let own = rustix::process::geteuid().as_raw();
        for (listen, connect) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("::", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
        ] {
            let listener = TcpListener::bind((listen, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let stream = TcpStream::connect((connect, port)).unwrap();
            let accepted = listener.accept().unwrap();
            assert_eq!(tcp_peer_uid(&stream).unwrap(), Some(own), "{listen}");
            assert_eq!(tcp_peer_uid(&accepted.0).unwrap(), Some(own), "{listen}");
        }
    }

    #[test]
    fn truncated_messages_of_the_kernel_are_read_without_a_panic() {
        let mut body = vec![1, 5, 10, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        body.extend([12, 0, 0, 0]);
        body.extend(b"/run/m.s");
        let read_one = read(&body).unwrap();
        assert_eq!((read_one.kind, read_one.name.as_str()), (SocketKind::Seqpacket, "/run/m.s"));
        (0..body.len()).for_each(|end| drop(read(&body[..end])));
        assert_eq!(name(b"\0a\0b"), "@a\0b");
        assert_eq!(name(b"/run/x\0"), "/run/x");
    }
}
