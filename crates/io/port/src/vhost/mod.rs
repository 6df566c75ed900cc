//! `vhost:SOCKET` moves packets through virtqueues in shared memory: vhost-user.
//!
//! The *device* has the role of a virtual switch towards a guest. The driver's side, QEMU or
//! another process, announces over a UNIX socket the places of its memory, and of queues in it
//! ([`device`]); a thread per port handles its messages, and workers move packets ([`queue_slot`]).
//! Packets are copied once, out of memory that the driver may write into a buffer of ours and back,
//! so the bytes that elements look at do not change meanwhile. The *driver* is the other side: the
//! memory is ours ([`driver`]).
//!
//! # Trust in a peer
//!
//! None. Messages are checked when they come ([`message`], [`device`]): lengths, indices, that
//! memory is memory and an eventfd an eventfd, that queues are inside of it. The contents of a
//! queue are checked when they are used ([`split`], [`packed`], [`queue`]): a descriptor is copied
//! once, the place of its bytes is looked up with their length each time, and chains are followed
//! no further than a queue is long. A chain that makes no sense is a packet dropped as malformed;
//! an index that makes none ends the connection. A file that is cut short becomes zeros and ends it
//! as well. A driver takes back the buffers it has offered and nothing else; only with `zero-copy`
//! a device is trusted ([`driver`]).

mod copy_in;
mod copy_out;
mod device;
mod driver;
mod inflight;
mod memory;
mod message;
mod negotiator;
mod packed;
mod port;
mod queue;
mod queue_slot;
mod rx;
mod split;
mod transport;
mod unpack;

use std::{sync::Arc, time::Duration};

use rustix::net::SocketType;

use self::{
    device::{DeviceSettings, Offer},
    driver::DriverSettings,
    negotiator::{BACKLOG, PortHandle, Role, Side},
    port::{VhostReceive, VhostTransmit},
    queue_slot::QueueSlots,
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

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "vhost",
    object: "SOCKET",
    summary: "a guest's network interface, or a virtual switch, by vhost-user",
    description: "\
The device of a virtio network interface, what a virtual switch is to a guest: the driver is in a
virtual machine, or is DPDK's `virtio_user`. Or, with `role=driver`, what `virtio_user` is: an
interface of a virtual switch. `SOCKET` is the path of a UNIX socket, or `@NAME` for Linux's abstract
sockets; each is one interface. Which side of it listens has nothing to do with who is the device.

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
`side=client`. Without KVM the device needs `,vectors=0`: QEMU 7.2 crashes when a guest chooses a vector. DPDK: `--vdev=net_virtio_user0,path=/run/v.sock`, and as a device for a driver here
`--vdev=net_vhost0,iface=/run/v.sock`.",
    needs: "It needs no privileges but those for the socket's folder.",
    examples: &[
        ("vhost:/run/v.sock", "listens for a guest"),
        ("vhost:/run/v.sock?side=client&queues=2", "connects to one that listens"),
        ("vhost:/run/v.sock?offloads=no", "a guest that does checksums and segments itself"),
        ("vhost:/run/v.sock?role=driver", "an interface of a virtual switch that listens"),
    ],
    options: &[
        OptionGroup {
            when: "",
            options: &[
                PortOption {
                    name: "role",
                    value: Value::Word(&[
                        ("device", "what a virtual switch is to a guest"),
                        ("driver", "what a guest is to a virtual switch"),
                    ]),
                    default: "device",
                    help: "What it is to its peer.",
                },
                PortOption {
                    name: "side",
                    value: Value::Word(&[("server", "listens"), ("client", "connects")]),
                    default: "server, and for a driver client",
                    help: "Which side of the socket it is.",
                },
                QUEUES,
                PortOption {
                    name: "offloads",
                    value: Value::Switch,
                    default: "on",
                    help: "Lets the peer leave checksums and segmentation to this port.",
                },
                PortOption {
                    name: "packed",
                    value: Value::Switch,
                    default: "on",
                    help: "Takes packed queues if the peer does, too.",
                },
                PortOption {
                    name: "mergeable",
                    value: Value::Switch,
                    default: "on",
                    help: "Takes buffers of which a packet takes several if the peer does, too.",
                },
                PortOption {
                    name: "indirect",
                    value: Value::Switch,
                    default: "on",
                    help: "Takes tables of descriptors if the peer does, too.",
                },
                peer::options::WAIT,
            ],
        },
        OptionGroup { when: "when it listens", options: &[peer::options::MODE] },
        OptionGroup { when: "when it is the device", options: &[peer::options::MEMORY] },
        OptionGroup {
            when: "when it is the driver",
            options: &[
                PortOption {
                    name: "slots",
                    value: Value::Number { least: 2, most: 1 << 15 },
                    default: "256",
                    help: "Places in each queue, rounded up to a power of two.",
                },
                PortOption {
                    name: "zero-copy",
                    value: Value::Switch,
                    default: "no",
                    help: "Share the memory all packets are in, with a device that is trusted, \
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
    /// Users that may connect, if it listens.
    listens: Option<Access>,
    queues: Option<usize>,
    offer: Offer,
    /// Of a driver: places in each queue, and whether our buffers are lent.
    driver: Option<(u16, bool)>,
    /// Of a device: most memory of a driver that is mapped.
    memory: u64,
    wait: Duration,
}

impl Settings {
    fn parse(uri: &PortUri) -> Result<Settings, UriError> {
        let mut options = uri.options(DRIVER.options);
        let is_driver = options.word("role")? == Some("driver");
        let listens = match options.word("side")? {
            Some(side) => side == "server",
            None => !is_driver,
        };
        let queues = options.number("queues")?.map(|n| n as usize);
        let offer = Offer {
            offloads: options.is_on("offloads")?,
            packed: options.is_on("packed")?,
            mergeable: options.is_on("mergeable")?,
            indirect: options.is_on("indirect")?,
        };
        let wait = peer::options::wait(&mut options)?;
        let listens = if listens { Some(peer::options::mode(&mut options)?) } else { None };
        let (mut driver, mut memory) = (None, 0);
        if !is_driver {
            memory = peer::options::memory(&mut options)?;
        } else {
            let slots = options.number("slots")?.unwrap_or(options.default_of("slots"));
            driver = Some((slots.next_power_of_two() as u16, options.is_on("zero-copy")?));
        }
        options.finish()?;
        let address = peer::options::address(uri)?;
        Ok(Settings { address, listens, queues, offer, driver, memory, wait })
    }

    /// Returns true if our buffers are lent.
    fn zero_copy(&self) -> bool {
        matches!(self.driver, Some((_, true)))
    }

    /// Role of the port towards its peer, with so many queues.
    fn role(
        &self,
        queues: usize,
        context: &Context,
        errors: &OpenErrors,
    ) -> Result<Role, OpenError> {
        let Some((slots, zero_copy)) = self.driver else {
            let settings = DeviceSettings::new(self.offer, self.memory);
            return settings.map(Role::Device).map_err(|error| peer::no_space(errors, &error));
        };
        let arena = &context.arena;
        if zero_copy && !driver::fits(arena) {
            return Err(errors.unsupported(
                "with zero-copy buffers need more headroom, for a header of 12 bytes".into(),
            ));
        }
        let (wanted, most) = (queues * usize::from(slots), arena.count() / 2);
        if zero_copy && context.direction.receives() && wanted > most {
            return Err(errors.unsupported(format!(
                "with zero-copy the device has a buffer for each slot, and {wanted} are more than \
                 half of the {} there are; choose fewer slots or more memory",
                arena.count(),
            )));
        }
        Ok(Role::Driver(DriverSettings {
            slots,
            offer: self.offer,
            longest: arena.room(),
            lent: zero_copy.then(|| arena.clone()),
        }))
    }

    /// Mode of the port, in words.
    fn mode(&self) -> String {
        let socket = if self.listens.is_some() { "listening" } else { "connecting" };
        match self.driver {
            None => format!("virtio device, {socket}"),
            Some((slots, false)) => format!("virtio driver, {slots} slots, {socket}"),
            Some((slots, true)) => format!("virtio driver, zero-copy, {slots} slots, {socket}"),
        }
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
    let role = settings.role(queues, context, &errors)?;
    let peer = if settings.driver.is_some() { "device" } else { "driver" };
    let link = context.link_down(if settings.listens.is_some() {
        format!("waiting for a {peer} at {address}")
    } else {
        format!("looking for a {peer} at {address}")
    });
    let side = if let Some(access) = settings.listens {
        let socket = listen::Socket::bind_with(address, SocketType::STREAM, BACKLOG, Some(access))
            .map_err(|error| listen::error(&errors, address, "side=client", error))?;
        Side::Listen(Arc::new(socket))
    } else {
        Side::Connect(address.clone())
    };
    let places = QueueSlots::new(queues).map_err(errors.failed("eventfd"))?;
    let handle =
        PortHandle::start(side, role, places, &link).map_err(errors.failed("start a thread"))?;
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
            copies: if settings.zero_copy() { Copies::None } else { Copies::Driver },
            stamps: false,
            types: false,
            mode: settings.mode(),
            link: Some(link),
        },
        queues: sides,
    })
}
