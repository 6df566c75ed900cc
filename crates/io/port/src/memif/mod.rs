//! `memif:SOCKET` moves packets through memory that is shared with another process.
//!
//! Protocol 2.0 of VPP's memif, which DPDK and libmemif speak as well. A *client* connects to a
//! UNIX socket, makes all memory and passes it on; a *server* listens and maps the client's files.
//! A thread per socket or client negotiates; workers get rings that are ready, and lose them, by
//! one look at a number per burst ([`handover`]). Packets are copied once, out of memory that the
//! peer may write into a buffer of ours and back, so the bytes that elements look at do not change
//! meanwhile.
//!
//! # Trust in a peer
//!
//! None. Its announcements are checked when they come ([`server`], [`client`]): order of regions
//! and rings, their places, sizes and alignment, that memory is memory and an eventfd an eventfd.
//! The contents of a ring are checked when they are used ([`ring`], [`receive`], [`transmit`]):
//! counts, regions, offsets, lengths, chains. A descriptor that makes no sense is a packet dropped
//! as malformed; a count that makes none ends the connection, because every count after it would be
//! as wrong. A file that is cut short becomes zeros ([`linerate_memory::ForeignRegion`]) and ends
//! it as well.
//!
//! Except with `zero-copy`: a client's buffers are then those of our arena, which the server can
//! write at any time. The contents of rings are checked all the same; see [`zero_copy`].

mod client;
mod handover;
mod message;
mod negotiation;
mod receive;
mod ring;
mod server;
mod transmit;
mod transport;
#[allow(unsafe_code, reason = "buffers lent to a peer, which has all of them mapped")]
mod zero_copy;

use std::{sync::Arc, time::Duration};

use self::{
    client::Client,
    handover::Handover,
    message::{LOG2_MAX, Secret},
    negotiation::{Interface, PortHandle, Registration, Share},
    receive::MemifReceive,
    ring::Role,
    server::RegisterError,
    transmit::MemifTransmit,
};
use crate::{
    driver::Driver,
    error::{OpenError, UriError},
    kernel::OpenErrors,
    options::{OptionGroup, PortOption, QUEUES, Value},
    peer::{
        self,
        address::Address,
        listen::{self, Access},
    },
    port::{Context, Copies, Port, PortInfo, Queue},
    uri::PortUri,
};

/// Program name that peers see.
const PROGRAM: &str = concat!("Linerate ", env!("CARGO_PKG_VERSION"));

/// Bytes of a client's buffers, unless it says how many.
const BUFFER: u32 = 2048;

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "memif",
    object: "SOCKET",
    summary: "memory shared with VPP, DPDK or another process, by memif 2.0",
    description: "\
The server listens on a UNIX socket and the client connects to it; the client makes the memory.
`SOCKET` is a path, or `@NAME` for Linux's abstract sockets, which have no file. Several interfaces
share a socket, each with an `id` of its own: a server opens one port for each of them.

A port may be opened before its peer is there. Without a peer nothing is received, and what is sent
is dropped and counted as `link_down`; the port looks for its peer, or lets it in, as often as it
goes and comes back. Frames longer than a buffer are chained in both directions; one that is
received must fit a buffer of ours (`--buffer-size`).

The peer is not trusted: packets are copied, and what it announces or writes into rings is checked.
What makes no sense is counted as `malformed`; a peer whose indices make none is disconnected, with
the reason.

With `zero-copy` a client copies nothing: the shared memory is that of all packets of this program,
and the server reads and writes them where they are. It could read and change every packet of every
port, also while somebody looks at it, and more than packets: ask for it only where you trust the
server as you trust this program. What it writes into rings is checked as otherwise, and buffers it
has when it goes come back.

VPP: `create memif socket id 1 filename /run/m.sock`, `create interface memif socket-id 1 id 0
slave`. DPDK: `--vdev=net_memif,role=client,id=0,socket=/run/m.sock,socket-abstract=no`.",
    needs: "It needs no privileges but those for the socket's folder.",
    examples: &[
        ("memif:/run/m.sock?role=server", "waits for a client"),
        ("memif:/run/m.sock?id=3&queues=2", "connects to interface 3, with two queues"),
        ("memif:@dpdk?role=server&secret=psst", "an abstract socket, for who knows the secret"),
        ("memif:@dpdk?zero-copy", "shares this program's packets themselves with a trusted server"),
    ],
    options: &[
        OptionGroup {
            when: "",
            options: &[
                PortOption {
                    name: "role",
                    value: Value::Word(&[
                        ("client", "connects, and makes the memory"),
                        ("server", "listens, and maps what it is given"),
                    ]),
                    default: "client",
                    help: "Which side of the socket it is.",
                },
                PortOption {
                    name: "id",
                    value: Value::Number { least: 0, most: u32::MAX as u64 },
                    default: "0",
                    help: "Which interface of the socket.",
                },
                QUEUES,
                PortOption {
                    name: "slots",
                    value: Value::Number { least: 1, most: 1 << LOG2_MAX },
                    default: "1024, and for a server the largest there is",
                    help: "Places in each ring, rounded up to a power of two; for a server: the \
                           most it lets a client have.",
                },
                PortOption {
                    name: "secret",
                    value: Value::Text { form: "SECRET", expected: "1 to 24 bytes" },
                    default: "none",
                    help: "What a client has to know, in plain text; everybody who can see the \
                           arguments of a process sees it.",
                },
                peer::options::WAIT,
            ],
        },
        OptionGroup {
            when: "when it is the server",
            options: &[peer::options::MODE, peer::options::MEMORY],
        },
        OptionGroup {
            when: "when it is the client",
            options: &[
                PortOption {
                    name: "buffer",
                    value: Value::Number { least: 64, most: 65_472 },
                    default: "2048, and with `zero-copy` as much as a buffer of ours holds",
                    help: "Bytes of each buffer in the shared memory; longer frames take several.",
                },
                PortOption {
                    name: "zero-copy",
                    value: Value::Switch,
                    default: "no",
                    help: "Share the memory all packets are in, with a server that is trusted, \
                           instead of copying them into memory of their own.",
                },
            ],
        },
    ],
    interface: false,
    open,
};

/// Settings in a port's name.
struct Settings {
    address: Address,
    role: Role,
    id: u32,
    queues: Option<usize>,
    log2: u8,
    secret: Option<Secret>,
    wait: Duration,
    buffer: Option<u32>,
    zero_copy: bool,
    /// Of a server: users that may connect, and most memory of each client.
    server: Option<(Access, u64)>,
}

impl Settings {
    fn parse(uri: &PortUri) -> Result<Settings, UriError> {
        let mut options = uri.options(DRIVER.options);
        let role = match options.word("role")? {
            Some("server") => Role::Server,
            _ => Role::Client,
        };
        let id = options.number("id")?.unwrap_or(options.default_of("id")) as u32;
        let queues = options.number("queues")?.map(|n| n as usize);
        let log2 = match (options.number("slots")?, role) {
            (Some(slots), _) => slots.next_power_of_two().trailing_zeros() as u8,
            (None, Role::Client) => 10,
            (None, Role::Server) => LOG2_MAX,
        };
        let secret = match options.text("secret") {
            Some(text) => {
                let mut secret = Secret::default();
                match secret.get_mut(..text.len()) {
                    Some(start) if !text.is_empty() => start.copy_from_slice(text.as_bytes()),
                    _ => return Err(options.refuse("secret", text, "1 to 24 bytes")),
                }
                Some(secret)
            }
            None => None,
        };
        let wait = peer::options::wait(&mut options)?;
        let (mut buffer, mut zero_copy, mut server) = (None, false, None);
        if role == Role::Client {
            buffer = options.number("buffer")?.map(|bytes| bytes as u32);
            zero_copy = options.is_on("zero-copy")?;
        } else {
            let access = peer::options::mode(&mut options)?;
            server = Some((access, peer::options::memory(&mut options)?));
        }
        options.finish()?;
        let address = peer::options::address(uri)?;
        Ok(Settings { address, role, id, queues, log2, secret, wait, buffer, zero_copy, server })
    }
}

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let settings = Settings::parse(uri)?;
    let errors = OpenErrors::with_remedy(
        uri,
        "make the socket's folder accessible, or use an abstract socket: memif:@NAME".into(),
    );
    let queues = settings.queues.or(context.queues).unwrap_or(1);
    let buffer = settings.buffer.unwrap_or(if settings.zero_copy { u32::MAX } else { BUFFER });
    let fits = |queues: usize| client::fits(queues as u16, settings.log2, buffer);
    if settings.zero_copy && !zero_copy::fits(&context.arena) {
        return Err(errors.unsupported(
            "with zero-copy all memory for packets together must be less than 4 GiB; choose less"
                .into(),
        ));
    }
    let wanted = queues << settings.log2;
    let most = context.arena.count() / 2;
    if settings.zero_copy && context.direction.receives() && wanted > most {
        return Err(errors.unsupported(format!(
            "with zero-copy the server has a buffer for each slot, and {wanted} are more than half of \
             the {} there are; choose fewer slots or more memory",
            context.arena.count(),
        )));
    }
    if settings.role == Role::Client && !settings.zero_copy && !fits(queues) {
        return Err(errors.unsupported(format!(
            "{queues} queues of {} slots and {buffer} bytes each are more than 4 GiB; choose fewer \
             slots or smaller buffers",
            1u32 << settings.log2,
        )));
    }
    let system = errors.failed("eventfd");
    let rx: Result<Vec<_>, _> = (0..queues).map(|_| Handover::new().map(Arc::new)).collect();
    let tx: Result<Vec<_>, _> = (0..queues).map(|_| Handover::new().map(Arc::new)).collect();
    let link = context.link_down(match settings.role {
        Role::Server => format!("waiting for a client at {}", settings.address),
        Role::Client => format!("waiting for a server at {}", settings.address),
    });
    let share = settings.server.map(|(_, bytes)| Share::reserve(bytes)).transpose();
    let share = share.map_err(|error| peer::no_space(&errors, &error))?;
    let interface = Arc::new(Interface {
        id: settings.id,
        queues: queues as u16,
        log2: settings.log2,
        buffer,
        arena: settings.zero_copy.then(|| context.arena.clone()),
        secret: settings.secret,
        share,
        receives: context.direction.receives(),
        rx: rx.map_err(&system)?,
        tx: tx.map_err(&system)?,
        link: Arc::clone(&link),
    });
    let registration = match settings.server {
        Some((access, _)) => server::register(&settings.address, access, Arc::clone(&interface))
            .map(Registration::Server)
            .map_err(|error| listen_error(&errors, &settings, error))?,
        None => Registration::Client(
            Client::start(&settings.address, Arc::clone(&interface))
                .map_err(errors.failed("start a thread"))?,
        ),
    };
    let handle = Arc::new(PortHandle::new(registration, &link));
    let mut sides = Vec::with_capacity(queues);
    for (rx, tx) in interface.rx.iter().zip(&interface.tx) {
        let mut queue = Queue { receive: None, transmit: None };
        if context.direction.receives() {
            queue.receive = Some(Box::new(MemifReceive::new(rx, &handle).map_err(&system)?));
        }
        if context.direction.transmits() {
            queue.transmit = Some(Box::new(MemifTransmit::new(tx, &handle)));
        }
        sides.push(queue);
    }
    link.wait_up(settings.wait);
    Ok(Port {
        info: PortInfo {
            uri: uri.clone(),
            interface: None,
            mac: None,
            frame_limit: None,
            speed: None,
            copies: if settings.zero_copy { Copies::None } else { Copies::Driver },
            stamps: false,
            types: false,
            mode: match settings.role {
                Role::Server => format!("memif server, interface {}", settings.id),
                Role::Client if settings.zero_copy => format!(
                    "memif zero-copy client of interface {}, {} slots",
                    settings.id,
                    1u32 << settings.log2,
                ),
                Role::Client => format!(
                    "memif client of interface {}, {} slots of {buffer} bytes",
                    settings.id,
                    1u32 << settings.log2,
                ),
            },
            link: Some(link),
        },
        queues: sides,
    })
}

fn listen_error(errors: &OpenErrors, settings: &Settings, error: RegisterError) -> OpenError {
    match error {
        RegisterError::Taken => errors.busy(format!(
            "this process has an interface {} on that socket already; choose another id",
            settings.id
        )),
        RegisterError::Mode => errors.busy(
            "another port of this process has that socket with another `mode`; give both the same"
                .into(),
        ),
        RegisterError::Listen(error) => {
            listen::error(errors, &settings.address, "role=client", error)
        }
    }
}
