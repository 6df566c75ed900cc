//! `xdp:IF` moves packets through `AF_XDP` sockets.
//!
//! A small program of our own, run by the kernel for every packet the interface receives, hands
//! packets to our sockets before the kernel's network stack sees them; an option names the packets
//! left to the kernel. The buffers of the arena are the memory the kernel puts packets in and sends
//! them from, so a packet forwarded between two such ports stays in place. Program and sockets go
//! when the process ends, however it ends.
//!
//! Packets in several pieces are not received: the MTU must fit a buffer.

mod assembler;
mod deferred_umem_release;
mod device;
mod options;
mod program;
mod receive;
mod rings;
mod socket;
mod transmit;
mod umem;

use std::{
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_linux::{
    bpf::{self, Hook},
    interface::{self, Inspector, Interface, Promiscuous},
};
use linerate_memory::{Arena, PageKind};

pub(crate) use self::options::DRIVER;
use self::{
    device::Device,
    options::{CopyMode, Queues, Settings},
    program::KernelShare,
    receive::XdpReceive,
    socket::{CHUNK_MAX, CHUNK_MIN, HEADROOM, Rings, Socket, SocketConfig},
    transmit::XdpTransmit,
};
use crate::{
    error::{OpenError, PortError, PortFault},
    kernel::OpenErrors,
    port::{Context, Copies, Port, PortInfo, Queue},
    uri::PortUri,
};

/// Ethernet header.
const ETHERNET: usize = 14;
/// One VLAN tag, which Linux interfaces carry beyond their MTU.
const VLAN_TAG: usize = 4;
/// Part of the arena that waits for packets in all fill rings of a port.
const ARENA_SHARE: usize = 4;
/// Buffers of a receive ring that an arena has room for anyway.
const FILL_USUAL: usize = 2048;
/// Buffers a queue waits with at least.
const FILL_MIN: usize = 64;
/// Time that a program of ours may stay on an interface that we have closed: another thread may
/// have forked, and its child has our descriptors until it executes its program.
const FORK_PATIENCE: Duration = Duration::from_millis(250);

/// State common to the queues of a port. Dropped with the last of them, which detaches the program.
struct PortState {
    name: String,
    device: Device,
    inspector: Mutex<Inspector>,
    link: interface::Link,
    /// Queues the port uses, when that was to be all.
    all_queues: Option<usize>,
    /// Longest frame the interface takes.
    length_limit: AtomicUsize,
    gone: AtomicBool,
    /// Queues there are now, when not all of them are ours any more; else 0.
    queues_now: AtomicUsize,
    _program: Option<Attached>,
    _promiscuous: Option<Promiscuous>,
}

/// The program on an interface, there for as long as this is.
#[derive(Debug)]
struct Attached {
    sockets: OwnedFd,
    hook: Hook,
    _link: OwnedFd,
}

impl PortState {
    /// Looks at the state of the interface. A few system calls.
    fn refresh(&self) {
        deferred_umem_release::reap();
        if !self.device.exists() {
            self.gone.store(true, Ordering::Relaxed);
            return;
        }
        if let Ok(mtu) = self.device.mtu() {
            self.length_limit.store(mtu + ETHERNET + VLAN_TAG, Ordering::Relaxed);
        }
        // A caller that finds it locked leaves it to the one that has it.
        if let (Some(ours), Ok(mut inspector)) = (self.all_queues, self.inspector.try_lock()) {
            let now = inspector.inspect(self.link.clone()).receive_queues() as usize;
            self.queues_now.store(if now > ours { now } else { 0 }, Ordering::Relaxed);
        }
    }

    /// Fails when the port no longer works, as far as was noticed.
    fn check(&self) -> Result<(), PortError> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(PortFault::Gone { port: self.name.clone() }.into());
        }
        match self.queues_now.load(Ordering::Relaxed) {
            0 => Ok(()),
            now => Err(PortFault::Changed {
                port: self.name.clone(),
                reason: format!(
                    "its interface has {now} queues now, and packets of the new ones pass us by",
                ),
            }
            .into()),
        }
    }
}

/// Packets that a port may have at a time beyond those that any has: those in its receive ring, and
/// as many on their way. An interface that is not there has none.
pub(crate) fn packets_kept(uri: &PortUri) -> usize {
    let Ok(settings) = Settings::parse(uri) else { return 0 };
    let ring = interface::find(uri.name()).map_or(0, |link| options::ring(&settings, &link.kind));
    (ring as usize).saturating_sub(FILL_USUAL) * 2
}

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let settings = Settings::parse(uri)?;
    let errors = OpenErrors::with_remedy(
        uri,
        format!(
            "run as root, or grant `setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep \
             PROGRAM`, or use packet:{}",
            uri.name(),
        ),
    );
    let mut inspector = Inspector::open().map_err(|error| errors.interface(error))?;
    let link = errors.find(uri.name())?;
    let interface = inspector.inspect(link);
    let available = interface.receive_queues() as usize;
    let queues = match (settings.queues, context.queues) {
        (Some(Queues::Exactly(count)), _) if count > available => {
            return Err(errors.unsupported(format!(
                "{count} queues wanted, {} has {available}; choose fewer, or add some with \
                 `ethtool -L {0} combined {count}` where the driver allows",
                uri.name(),
            )));
        }
        (Some(Queues::Exactly(count)), _) => count,
        (Some(Queues::All), _) | (None, None) => available,
        (None, Some(count)) => count.min(available),
    };
    let mtu = interface.link.mtu as usize;
    check_buffers(&errors, &context.arena, uri.name(), mtu)?;
    if context.direction.receives() && !(settings.disconnect || context.disconnect) {
        check_host(&errors, uri, &settings, &interface.link)?;
    }

    let device = Device::open(&interface.link)
        .map_err(errors.failed("open a socket to watch the interface"))?;
    let attached = if context.direction.receives() {
        Some(attach(&errors, &settings, &interface, queues)?)
    } else {
        None
    };
    let sockets = sockets(&errors, context, &settings, &interface, &attached, queues)?;
    let promiscuous = if settings.promiscuous && context.direction.receives() {
        Some(Promiscuous::enable(&interface.link).map_err(|error| errors.interface(error))?)
    } else {
        None
    };
    let zero_copy = sockets[0].0.zero_copy();
    let info = PortInfo {
        link: None,
        uri: uri.clone(),
        interface: Some(interface.link.name.clone()),
        mac: interface.link.mac.map(Into::into),
        frame_limit: Some(mtu + ETHERNET),
        speed: interface.speed,
        copies: if zero_copy { Copies::None } else { Copies::Kernel },
        stamps: false,
        types: false,
        mode: describe(&settings, &attached, zero_copy, queues, available),
    };
    let port = Arc::new(PortState {
        name: uri.to_string(),
        device,
        inspector: Mutex::new(inspector),
        all_queues: (context.direction.receives() && queues == available).then_some(available),
        link: interface.link,
        length_limit: AtomicUsize::new(mtu + ETHERNET + VLAN_TAG),
        gone: AtomicBool::new(false),
        queues_now: AtomicUsize::new(0),
        _program: attached,
        _promiscuous: promiscuous,
    });
    let queues = start(&errors, context, &settings, &port, sockets)?;
    Ok(Port { info, queues })
}

/// Refuses buffers the kernel does not take and interfaces whose frames do not
/// fit them.
fn check_buffers(
    errors: &OpenErrors,
    arena: &Arena,
    interface: &str,
    mtu: usize,
) -> Result<(), OpenError> {
    let size = arena.buffer_size();
    if !(CHUNK_MIN..=CHUNK_MAX).contains(&size) {
        return Err(errors.unsupported(format!(
            "buffers of {size} bytes; AF_XDP wants {CHUNK_MIN} to {CHUNK_MAX}: choose another \
             --buffer-size, or use packet:{interface}",
        )));
    }
    let room = size - HEADROOM - ETHERNET - VLAN_TAG;
    if mtu <= room {
        return Ok(());
    }
    let needed = mtu + HEADROOM + ETHERNET + VLAN_TAG;
    let larger = if linerate_memory::stride_for(needed) <= CHUNK_MAX {
        format!("use --buffer-size {needed}, ")
    } else {
        String::new()
    };
    Err(errors.unsupported(format!(
        "the MTU of {interface} is {mtu} and a buffer of {size} bytes takes {room}: lower it \
         with `ip link set {interface} mtu {room}`, {larger}or use packet:{interface}",
    )))
}

/// Refuses to take an interface that the host uses, unless the packets to take were named one by
/// one.
fn check_host(
    errors: &OpenErrors,
    uri: &PortUri,
    settings: &Settings,
    link: &interface::Link,
) -> Result<(), OpenError> {
    if matches!(settings.share, KernelShare::Unmatched(_)) {
        return Ok(());
    }
    let uses = interface::host_uses(link).map_err(|error| errors.interface(error))?;
    if uses.is_empty() {
        return Ok(());
    }
    let uses: Vec<String> = uses.iter().map(ToString::to_string).collect();
    Err(OpenError::Disconnects {
        port: uri.to_string(),
        interface: link.name.clone(),
        uses: uses.join(" and "),
        port_confirmed: uri.clone().with("disconnect", "on").to_string(),
    })
}

/// Puts the program on the interface.
fn attach(
    errors: &OpenErrors,
    settings: &Settings,
    interface: &Interface,
    queues: usize,
) -> Result<Attached, OpenError> {
    let sockets =
        bpf::socket_map(queues as u32).map_err(errors.failed("make an XDP socket map"))?;
    let program = program::build(&settings.share, sockets.as_fd(), program::PASS);
    let plain = bpf::load(&program, false).map_err(errors.failed("load an XDP program"))?;
    let index = interface.link.index;
    let mut refusal = None;
    for hook in [Hook::Native, Hook::Generic] {
        if settings.hook.is_some_and(|wanted| wanted != hook) {
            continue;
        }
        // Some drivers take a large MTU only from a program that says it copes
        // with fragments. We need not: a frame fits a buffer.
        let fragments = || bpf::load(&program, true);
        let attach = || {
            bpf::attach(plain.as_fd(), index, hook).or_else(|first| match first.raw_os_error() {
                Some(libc::EPERM | libc::EBUSY | libc::EEXIST | libc::ENODEV) => Err(first),
                _ => match fragments() {
                    Ok(program) => bpf::attach(program.as_fd(), index, hook).map_err(|_| first),
                    Err(_) => Err(first),
                },
            })
        };
        match while_busy(FORK_PATIENCE, attach) {
            Ok(link) => return Ok(Attached { sockets, hook, _link: link }),
            Err(error) => {
                let busy = is_busy(&error);
                refusal = Some(error);
                if busy {
                    break;
                }
            }
        }
    }
    let source = refusal.unwrap_or_else(|| io::Error::from(io::ErrorKind::Unsupported));
    Err(match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => errors.busy(format!(
            "{0} has an XDP program already, of another program or port; end that, or take the \
             program off with `ip link set dev {0} xdp off`",
            interface.link.name,
        )),
        Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL) if settings.hook.is_some() => errors
            .unsupported(format!(
                "the driver of {} takes no program in this mode ({source}); use mode=auto",
                interface.link.name,
            )),
        _ => errors.failed("attach an XDP program")(source),
    })
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// Tries again for a while, as long as the attempt fails because of another user.
fn while_busy<T>(patience: Duration, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + patience;
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && Instant::now() < until => {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Makes a socket per queue.
fn sockets(
    errors: &OpenErrors,
    context: &Context,
    settings: &Settings,
    interface: &Interface,
    attached: &Option<Attached>,
    queues: usize,
) -> Result<Vec<(Arc<Socket>, Rings)>, OpenError> {
    // Without huge pages a chunk may lie on two pages that are not neighbours,
    // which a device cannot take.
    let huge = context.arena.pages() == PageKind::Huge;
    let generic = attached.as_ref().is_some_and(|attached| attached.hook == Hook::Generic);
    let able = interface.xdp.is_none_or(|xdp| xdp.zero_copy);
    if settings.copy_mode == CopyMode::ZeroCopy && (!huge || generic || !able) {
        let reason = match (able, generic) {
            (false, _) => "the driver of this interface cannot; use copy",
            (_, true) => "generic mode cannot; use mode=native",
            _ => "the arena needs huge pages for it: set vm.nr_hugepages, or use copy",
        };
        return Err(errors.unsupported(format!("no zero-copy: {reason}")));
    }
    let mut zero_copy = settings.copy_mode != CopyMode::Copy && huge && !generic && able;
    let mut sockets = Vec::with_capacity(queues);
    while sockets.len() < queues {
        let config = SocketConfig {
            interface: interface.link.index,
            queue: sockets.len() as u32,
            zero_copy,
            need_wakeup: settings.need_wakeup,
            ring: options::ring(settings, &interface.link.kind),
            busy_poll: settings.busy_poll,
            receives: context.direction.receives(),
            transmits: context.direction.transmits(),
        };
        match Socket::open(&context.arena, &config) {
            Ok(made) => sockets.push(made),
            // The driver's support was only guessed.
            Err(_) if zero_copy && settings.copy_mode == CopyMode::Auto && sockets.is_empty() => {
                zero_copy = false;
            }
            Err(failure) => return Err(no_socket(errors, &interface.link.name, failure)),
        }
    }
    Ok(sockets)
}

/// Gives the kernel buffers and lets packets in.
fn start(
    errors: &OpenErrors,
    context: &Context,
    settings: &Settings,
    port: &Arc<PortState>,
    sockets: Vec<(Arc<Socket>, Rings)>,
) -> Result<Vec<Queue>, OpenError> {
    let share = context.arena.count() / ARENA_SHARE / sockets.len();
    let complete = settings.complete.unwrap_or(port.link.kind != "device");
    let ring = options::ring(settings, &port.link.kind);
    let target = share.max(FILL_MIN).min(ring as usize);
    let mut pool = context.arena.cache(256);
    let mut queues = Vec::with_capacity(sockets.len());
    for (index, (socket, Rings { receive, transmit })) in sockets.into_iter().enumerate() {
        let receive = receive.map(|rings| {
            let (socket, port) = (Arc::clone(&socket), Arc::clone(port));
            let busy_poll = settings.busy_poll.is_some();
            let mut receive = XdpReceive::new(rings, target, busy_poll, complete, socket, port);
            receive.refill(&mut pool);
            receive
        });
        if let (Some(attached), Some(_)) = (&port._program, &receive) {
            bpf::map_socket(attached.sockets.as_fd(), index as u32, socket.fd())
                .map_err(errors.failed("enter a socket in the map"))?;
        }
        let transmit = transmit.map(|rings| XdpTransmit::new(rings, socket, Arc::clone(port)));
        queues.push(Queue {
            receive: receive.map(|side| Box::new(side) as _),
            transmit: transmit.map(|side| Box::new(side) as _),
        });
    }
    Ok(queues)
}

/// `native XDP, copy, need-wakeup, 2 queues; taken from the host`.
fn describe(
    settings: &Settings,
    attached: &Option<Attached>,
    zero_copy: bool,
    queues: usize,
    available: usize,
) -> String {
    let mut parts = vec![match attached.as_ref().map(|attached| attached.hook) {
        Some(Hook::Native) => "native XDP".to_owned(),
        Some(Hook::Generic) => "generic XDP".to_owned(),
        None => "no program".to_owned(),
    }];
    parts.push(if zero_copy { "zero-copy" } else { "copy" }.to_owned());
    if settings.need_wakeup {
        parts.push("need-wakeup".to_owned());
    }
    if let Some(time) = settings.busy_poll {
        parts.push(format!("busy poll {time} us"));
    }
    let of = if queues < available { format!(" of {available}") } else { String::new() };
    parts.push(format!("{queues}{of} queue{}", if queues == 1 { "" } else { "s" }));
    let taken = match (&settings.share, attached) {
        (_, None) => "",
        (KernelShare::None, _) => "; all it receives is taken from the host",
        (KernelShare::Control, _) => {
            "; all it receives but ARP, ICMP and such is taken from the host"
        }
        (KernelShare::Unmatched(_), _) => "; what matches is taken from the host",
    };
    parts.join(", ") + taken
}

/// The error of the port for a socket that could not be had.
fn no_socket(errors: &OpenErrors, interface: &str, failure: socket::Failure) -> OpenError {
    let socket::Failure { step, source } = failure;
    match source.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => errors.unsupported(format!(
            "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS); use packet:{interface}",
        )),
        Some(libc::EBUSY) => {
            errors.busy("another AF_XDP socket uses this queue; end the program that has it".into())
        }
        // The only way in which the kernel says that memory may not be locked.
        Some(libc::ENOBUFS) if step == socket::REGISTER => errors.not_permitted(
            "lock the packet memory",
            format!(
                "run as root, or grant cap_ipc_lock besides the capabilities it has \
                 (`getcap PROGRAM` shows them), or raise the limit (`ulimit -l`), or use \
                 packet:{interface}"
            ),
        ),
        Some(libc::ENOBUFS | libc::ENOMEM) => errors.unsupported(format!(
            "cannot {step}: {source}; raise the limit of locked memory (`ulimit -l`), or use a \
             smaller arena",
        )),
        _ => errors.failed(step)(source),
    }
}

impl fmt::Debug for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortState").field("name", &self.name).finish_non_exhaustive()
    }
}
