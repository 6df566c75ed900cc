//! `tap:NAME` is the other end of a TAP interface: packets that this machine's network stack sends
//! on the interface are received here, and packets sent here come in there.
//!
//! The interface is made when there is none of that name, set up, and vanishes
//! with the port; one that `ip tuntap add` made stays. It lives in the network
//! namespace the port is opened in.
//!
//! `tun:NAME` is the same for IP packets without an Ethernet header.
//!
//! With `vnet` the stack leaves checksums and segmentation to us: up to 64 KiB
//! of a stream come in one system call and are segmented here (see `offload`),
//! with one more copy. Without it the stack does both.
//!
//! # System calls
//!
//! One for each packet, either way: the kernel has no way to pass several. It
//! copies straight into and out of our buffers.

mod device;
mod receive;
mod transmit;

use std::{
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
    sync::Arc,
};

use linerate_linux::interface::{self, Link, TransmitDrops};
use linerate_packet::MacAddr;

use self::{device::Form, receive::TapReceive, transmit::TapTransmit};
use crate::{
    driver::Driver,
    error::{OpenError, UriError},
    kernel::{FRAMING, OpenErrors},
    options::{OptionGroup, PortOption, QUEUES, Value},
    port::{Context, Copies, Port, PortInfo, Queue},
    uri::PortUri,
};

/// The MTU the kernel gives a new interface.
const MTU_DEFAULT: usize = 1500;

/// Declaration of `tap:`: name, help and options.
pub(crate) const TAP: Driver = Driver {
    name: "tap",
    object: "NAME",
    summary: "this machine's own network stack, through an interface made for it",
    description: "\
The other end of a TAP interface: what this machine's network stack sends on the interface is
received here, and what is sent here comes in there. The interface is made when there is none of
that name, and vanishes with the port; one that `ip tuntap add` made stays. It lives in the network
namespace the port is opened in. Each packet takes a system call, since the kernel has no way to
pass several.",
    needs: "It needs the capability `cap_net_admin`, which root has.",
    examples: &[
        ("tap:tap0?addr=10.0.0.1/24", "an interface tap0 with that address, set up"),
        ("tap:tap0?up=no", "one that others set up"),
        ("tap:tap0?queues=4&vnet", "four queues, with long packets of streams segmented here"),
    ],
    options: &[
        OptionGroup { when: "", options: COMMON },
        OptionGroup {
            when: "with tap:, where packets have Ethernet headers",
            options: &[
                PortOption {
                    name: "mac",
                    value: Value::Text {
                        form: "MAC",
                        expected: "an Ethernet address of one station, as 02:00:00:00:00:01",
                    },
                    default: "the kernel's choice",
                    help: "The interface's Ethernet address.",
                },
                PortOption {
                    name: "vnet",
                    value: Value::Switch,
                    default: "off",
                    help: "Lets the stack leave checksums and segmentation to this port: up to \
                           64 KiB of a stream come in one system call, for one more copy.",
                },
            ],
        },
    ],
    interface: false,
    open,
};

/// Declaration of `tun:`: name, help and options.
pub(crate) const TUN: Driver = Driver {
    name: "tun",
    object: "NAME",
    summary: "as tap, with IP packets instead of Ethernet frames",
    description: "\
The other end of a TUN interface: what this machine's network stack sends on the interface is
received here, and what is sent here comes in there, as IP packets without an Ethernet header. All
else is as with `tap:`.",
    needs: "It needs the capability `cap_net_admin`, which root has.",
    examples: &[("tun:tun0?addr=10.0.0.1/24", "an interface tun0 with that address, set up")],
    options: &[OptionGroup { when: "", options: COMMON }],
    interface: false,
    open,
};

/// The options that both have.
const COMMON: &[PortOption] = &[
    PortOption {
        name: "addr",
        value: Value::Text {
            form: "ADDRESS/PREFIX",
            expected: "an address with its prefix, as 10.0.0.1/24",
        },
        default: "none",
        help: "An address for the interface, IPv4 or IPv6.",
    },
    PortOption {
        name: "gateway",
        value: Value::Text { form: "ADDRESS", expected: "an IPv4 address" },
        default: "none",
        help: "Makes a default route through the interface to this address.",
    },
    PortOption {
        name: "mtu",
        // The least an Ethernet interface can have, and the most a TAP interface can.
        value: Value::Number { least: 68, most: 65521 },
        default: "what the interface has, 1500 when it is made",
        help: "The interface's MTU.",
    },
    PortOption {
        name: "up",
        value: Value::Switch,
        default: "on",
        help: "Sets the interface up; off leaves that to others.",
    },
    PortOption {
        help: "How many queues there are, among which the stack shares its packets by flow.",
        ..QUEUES
    },
];

/// Settings for the interface.
struct Settings {
    mtu: Option<u32>,
    mac: Option<Unicast>,
    address: Option<Network>,
    gateway: Option<Ipv4Addr>,
    up: bool,
}

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let tun = uri.driver() == TUN.name;
    let mut options = uri.options(TAP.options);
    let queues = options.number("queues")?.map(|n| n as usize);
    let vnet = !tun && options.is_on("vnet")?;
    let settings = Settings {
        up: options.is_on("up")?,
        address: options.value("addr")?,
        gateway: options.value("gateway")?,
        mtu: options.number("mtu")?.map(|n| n as u32),
        mac: if tun { None } else { options.value("mac")? },
    };
    options.finish()?;
    let queues = queues.or(context.queues).unwrap_or(1);
    let errors = OpenErrors::new(uri, "cap_net_admin");
    check_name(uri)?;

    let before = interface::find(uri.name()).ok();
    if let Some(link) = before.as_ref().filter(|link| link.kind != uri.driver()) {
        return Err(errors.unsupported(format!(
            "{} is a {} interface, not a {}; use packet:{} or a name that is not taken",
            link.name,
            link.kind,
            uri.driver(),
            link.name,
        )));
    }
    // Before anything is changed.
    let mtu = settings.mtu.or(before.as_ref().map(|link| link.mtu));
    errors.check_room(mtu.map_or(MTU_DEFAULT, |mtu| mtu as usize), &context.arena)?;

    let devices = device::open(&errors, uri.name(), queues, Form { vnet, tun }, before.is_some())?;
    let link = errors.find(uri.name())?;
    // The kernel counts by interface: the first queue tells of all.
    let mut drops = Some(TransmitDrops::new(link.index).map_err(errors.failed("read counters"))?);
    let link = settings.apply(&errors, link)?;
    let mtu = link.mtu as usize;
    errors.check_room(mtu, &context.arena)?;
    let mut opened = Vec::with_capacity(queues);
    for device in devices {
        let device = Arc::new(device);
        let mut receive =
            || TapReceive::new(uri, Arc::clone(&device), context.arena.room(), drops.take());
        let transmit = || TapTransmit::new(uri, Arc::clone(&device));
        opened.push(Queue {
            receive: context.direction.receives().then(|| Box::new(receive()) as _),
            transmit: context.direction.transmits().then(|| Box::new(transmit()) as _),
        });
    }
    let mode = format!(
        "{}{}{}",
        if before.is_some() { "attached" } else { "made" },
        if queues > 1 { format!(", {queues} queues by flow") } else { String::new() },
        if vnet { ", checksums and segmentation done here" } else { "" },
    );
    Ok(Port {
        info: PortInfo {
            link: None,
            uri: uri.clone(),
            interface: Some(link.name),
            mac: link.mac.map(MacAddr),
            frame_limit: Some(if tun { mtu } else { mtu + FRAMING }),
            speed: None,
            copies: Copies::Kernel,
            stamps: false,
            types: false,
            mode,
        },
        queues: opened,
    })
}

/// Refuses a name no interface can have. The kernel would refuse it without
/// saying why, or make an interface of another name.
fn check_name(uri: &PortUri) -> Result<(), UriError> {
    let name = uri.name();
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    if (1..=interface::NAME_LIMIT).contains(&name.len())
        && name.bytes().all(plain)
        && !matches!(name, "." | "..")
    {
        return Ok(());
    }
    Err(UriError::Syntax {
        uri: uri.to_string(),
        reason: "an interface name is 1 to 15 letters, digits and signs other than / : and %",
    })
}

impl Settings {
    /// Changes the interface to these settings. A setting that it has already is left alone, since
    /// changes take a capability.
    fn apply(&self, errors: &OpenErrors, link: Link) -> Result<Link, OpenError> {
        let failed = |step| errors.failed(step);
        if let Some(Unicast(MacAddr(mac))) = self.mac.filter(|mac| link.mac != Some(mac.0.0)) {
            interface::set_mac(link.index, mac).map_err(failed("set the Ethernet address"))?;
        }
        if let Some(mtu) = self.mtu.filter(|&mtu| link.mtu != mtu) {
            interface::set_mtu(link.index, mtu).map_err(failed("set the MTU"))?;
        }
        if self.up && !link.up {
            interface::set_up(&link.name, true).map_err(|error| errors.interface(error))?;
        }
        // Last, for a route by this address needs the interface up.
        if let Some(Network { address, prefix }) = self.address {
            interface::add_address(link.index, address, prefix).map_err(|error| {
                match error.raw_os_error() {
                    // Without the capability the kernel says EPERM.
                    Some(libc::EACCES) => errors.unsupported(format!(
                        "IPv6 is off on {name}, so it cannot have {address}; turn it on: sysctl \
                         net.ipv6.conf.{name}.disable_ipv6=0 (or \
                         net.ipv6.conf.default.disable_ipv6=0 before it is made)",
                        name = link.name,
                    )),
                    _ => failed("add an address")(error),
                }
            })?;
        }
        if let Some(gateway) = self.gateway {
            interface::add_default_route(link.index, gateway)
                .map_err(failed("add a default route"))?;
        }
        errors.find(&link.name)
    }
}

/// The address of one station, as an interface can have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unicast(MacAddr);

impl FromStr for Unicast {
    type Err = ();

    fn from_str(text: &str) -> Result<Unicast, ()> {
        let mac: MacAddr = text.parse().map_err(|_| ())?;
        if mac.is_unicast() { Ok(Unicast(mac)) } else { Err(()) }
    }
}

/// An interface's address and how much of it the network shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Network, ()> {
        let (address, prefix) = text.split_once('/').ok_or(())?;
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let prefix = prefix.parse().map_err(|_| ())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix <= bits { Ok(Network { address, prefix }) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    /// Opens a port that is refused before the kernel is asked.
    #[track_caller]
    fn refused(uri: &str) -> UriError {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        match open(&uri.parse().unwrap(), &context) {
            Err(OpenError::Uri(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refuses_names_no_interface_can_have() {
        for uri in ["tap:", "tap:a/b", "tap:a b", "tap:..", "tap:a:1", "tap:tap%25d", "tap:täp"] {
            assert!(matches!(refused(uri), UriError::Syntax { .. }), "{uri}");
        }
        let error = refused("tap:sixteen-letters0").to_string();
        assert!(error.contains("1 to 15"), "{error}");
        assert!(check_name(&"tap:fifteen-letters".parse().unwrap()).is_ok());
    }

    #[test]
    fn refuses_options_by_name() {
        let error = refused("tap:t0?adr=10.0.0.1/24").to_string();
        assert!(error.contains("adr") && error.contains("addr, gateway, mtu, up"), "{error}");
        for option in [
            "queues=0",
            "queues=65",
            "vnet=perhaps",
            "mtu=67",
            "mtu=65522",
            "mac=01:00:00:00:00:01",
            "mac=00:00:00:00:00:00",
            "mac=2",
            "addr=10.0.0.1",
            "addr=10.0.0.1/33",
            "addr=2001:db8::1/129",
            "addr=2001:db8::1/",
            "addr=host/24",
        ] {
            let error = refused(&format!("tap:t0?{option}"));
            assert!(matches!(error, UriError::Value { .. }), "{option}: {error}");
        }
    }
}
