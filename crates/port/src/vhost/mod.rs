//! `vhost:SOCKET` moves packets through a driver's virtqueues: vhost-user.
//!
//! The *device* is what a virtual switch is to a guest. The driver's side, QEMU or another process,
//! says over a UNIX socket where its memory is, and where in it queues are ([`device`]); a thread per
//! port does what it says, and workers move packets ([`place`]). Packets are copied once, out of
//! memory that the driver may write into a buffer of ours and back, so nothing that is looked at
//! later changes under whoever looks.
//!
//! # What is believed of a driver
//!
//! Nothing. Messages are checked when they come ([`message`], [`device`]): lengths, indices, that
//! memory is memory and an eventfd an eventfd, that queues are inside of it. What is in a queue is
//! checked when it is used ([`split`], [`packed`], [`queue`]): a descriptor is copied once, where its
//! bytes are is looked up with their length each time, and chains are followed no further than a
//! queue is long. A chain that makes no sense is a packet dropped as malformed; an index that makes
//! none ends the connection. A file that is cut short becomes zeros and ends it as well.

mod device;
mod inflight;
mod memory;
mod message;
mod negotiator;
mod packed;
mod place;
mod port;
mod queue;
mod split;
mod transport;

use std::{sync::Arc, time::Duration};

use rustix::net::SocketType;

use self::{
    device::Offer,
    negotiator::{BACKLOG, PortHandle, Role, Side},
    place::Places,
    port::{VhostReceive, VhostTransmit},
};
use crate::{
    driver::{Driver, OptionGroup, PortOption, Value},
    error::{OpenError, UriError},
    kernel::OpenErrors,
    link::Link,
    null,
    peer::{address::Address, listen},
    port::{Context, Copies, Port, PortInfo, Queue},
    uri::PortUri,
};

/// What it is and which options it has.
pub(crate) const DRIVER: Driver = Driver {
    name: "vhost",
    object: "SOCKET",
    summary: "a guest's network interface, or DPDK's virtio_user, by vhost-user",
    description: "\
The device of a virtio network interface, what a virtual switch is to a guest: the driver is in a
virtual machine, or is DPDK's `virtio_user`. `SOCKET` is the path of a UNIX socket, or `@NAME` for
Linux's abstract sockets; each is one interface. Which side of it listens has nothing to do with
who is the device.

A port may be opened before its peer is there. Without one nothing is received, and what is sent is
dropped and counted as `link_down`; the port looks for its peer, or lets it in, as often as it goes
and comes back. A guest goes on while a switch is restarted: queues are taken up where they were
left. Split and packed queues, mergeable buffers, indirect descriptors and the event index are used
as the driver wants them. What it leaves to the device, checksums and segmentation, is done here:
nothing behind the port sees a frame that could not be on a wire.

The driver is not trusted: packets are copied, and what it announces or writes into queues is
checked. What makes no sense is counted as `malformed`; a peer whose indices make none is
disconnected, with the reason.

QEMU: memory that can be shared, and the socket: `-object memory-backend-memfd,id=m,size=1G,share=on
-numa node,memdev=m -chardev socket,id=c,path=/run/v.sock,reconnect=1 -netdev vhost-user,id=n,chardev=c
-device virtio-net-pci,netdev=n`; with `server=on,wait=off` instead of `reconnect=1` for
`side=client`. DPDK: `--vdev=net_virtio_user0,path=/run/v.sock`.",
    needs: "It needs no privileges but those for the socket's folder.",
    examples: &[
        ("vhost:/run/v.sock", "listens for a guest"),
        ("vhost:/run/v.sock?side=client&queues=2", "connects to one that listens"),
        ("vhost:/run/v.sock?offloads=no", "a guest that does checksums and segments itself"),
    ],
    options: &[OptionGroup {
        when: "",
        options: &[
            PortOption {
                name: "side",
                value: Value::Word(&[("server", "listens"), ("client", "connects")]),
                default: "server",
                help: "Which side of the socket it is.",
            },
            null::QUEUES,
            PortOption {
                name: "offloads",
                value: Value::Switch,
                default: "on",
                help: "Lets the driver leave checksums and segmentation to this port.",
            },
            PortOption {
                name: "packed",
                value: Value::Switch,
                default: "on",
                help: "Lets the driver choose packed queues.",
            },
            PortOption {
                name: "mergeable",
                value: Value::Switch,
                default: "on",
                help: "Lets the driver choose buffers of which a packet takes several.",
            },
            PortOption {
                name: "wait",
                value: Value::Number { least: 0, most: 3600 },
                default: "0",
                help: "How many seconds opening waits for the peer, at most.",
            },
        ],
    }],
    interface: false,
    open,
};

/// What a name says.
struct Settings {
    address: Address,
    listens: bool,
    queues: Option<usize>,
    offer: Offer,
    wait: Duration,
}

impl Settings {
    fn parse(uri: &PortUri) -> Result<Settings, UriError> {
        let mut options = uri.options(DRIVER.options);
        let listens = options.word("side")? != Some("client");
        let queues = options.number("queues")?.map(|n| n as usize);
        let offer = Offer {
            offloads: options.is_on("offloads")?,
            packed: options.is_on("packed")?,
            mergeable: options.is_on("mergeable")?,
        };
        let wait = options.number("wait")?.unwrap_or(options.default_of("wait"));
        options.finish()?;
        let address = Address::parse(uri.name()).ok_or_else(|| UriError::Syntax {
            uri: uri.to_string(),
            reason: "expected the path of a socket, or @NAME, of at most 107 bytes",
        })?;
        Ok(Settings { address, listens, queues, offer, wait: Duration::from_secs(wait) })
    }
}

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let settings = Settings::parse(uri)?;
    let address = &settings.address;
    let errors = OpenErrors::with_remedy(
        uri,
        "make the socket's folder accessible, or use an abstract socket: vhost:@NAME".into(),
    );
    let queues = settings.queues.or(context.queues).unwrap_or(1);
    let link = Arc::new(Link::new(if settings.listens {
        format!("waiting for a driver at {address}")
    } else {
        format!("looking for a driver at {address}")
    }));
    let side = if settings.listens {
        let socket = listen::Socket::bind(address, SocketType::STREAM, BACKLOG)
            .map_err(|error| listen::error(&errors, address, "side=client", error))?;
        Side::Listen(Arc::new(socket))
    } else {
        Side::Connect(address.clone())
    };
    let places = Places::new(queues).map_err(errors.failed("eventfd"))?;
    let handle = PortHandle::start(side, Role::Device(settings.offer), places, &link)
        .map_err(errors.failed("start a thread"))?;
    let handle = Arc::new(handle);
    let sides = (0..queues).map(|queue| {
        let receive = || Box::new(VhostReceive::new(&handle, queue)) as _;
        let transmit = || Box::new(VhostTransmit::new(&handle, queue)) as _;
        Queue {
            receive: context.direction.receives().then(receive),
            transmit: context.direction.transmits().then(transmit),
        }
    });
    let sides = sides.collect();
    link.wait_up(settings.wait);
    Ok(Port {
        info: PortInfo {
            uri: uri.clone(),
            interface: None,
            mac: None,
            frame_limit: None,
            speed: None,
            copies: Copies::Driver,
            stamps: false,
            types: false,
            mode: format!(
                "virtio device, {}",
                if settings.listens { "listening" } else { "connecting" },
            ),
            link: Some(link),
        },
        queues: sides,
    })
}
