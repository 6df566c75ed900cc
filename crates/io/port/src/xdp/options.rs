//! Options of an `xdp:` port.

use std::str::FromStr;

use linerate_linux::bpf::Hook;

use crate::{
    driver::Driver,
    error::UriError,
    options::{OptionGroup, PortOption, Value},
    uri::PortUri,
    xdp::program::{KernelShare, TERMS_MAX, Term},
};

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "xdp",
    object: "IF",
    summary: "a network interface through AF_XDP, past the kernel's network stack",
    description: "\
A small program, run by the kernel for every packet the interface receives, hands packets to this
port before the kernel's network stack sees them; `kernel` and `match` say what it leaves to the
kernel. The buffers of the packet memory are those the kernel puts packets in and sends them from,
so a packet that is forwarded between two such ports stays where it is. Program and sockets go when
the process ends, however it ends. Packets in several pieces are not received: the MTU must fit a
buffer.",
    needs: "It needs the capabilities `cap_net_admin`, `cap_net_raw`, `cap_bpf` and, where locked \
            memory is limited, `cap_ipc_lock`; root has them.",
    examples: &[
        ("xdp:eth1", "all queues of eth1, in the best mode there is"),
        ("xdp:eth1?match=udp:4789", "VXLAN only; the kernel keeps the rest"),
        ("xdp:eth1?kernel=control", "ARP, ICMP and the like stay the kernel's"),
        (
            "xdp:eth1?queues=2&zerocopy&busy-poll=20",
            "two queues, or an error where they would copy",
        ),
    ],
    options: &[OptionGroup {
        when: "",
        options: &[
            PortOption {
                name: "queues",
                value: Value::Text { form: "all|N", expected: "all or a number from 1" },
                default: "all, or one for each worker that uses it",
                help: "Queues of the interface that are used. Packets of the others stay the \
                       kernel's.",
            },
            PortOption {
                name: "mode",
                value: Value::Word(&[
                    ("native", "in the driver"),
                    ("generic", "in the kernel's network stack, with every driver, but slower"),
                    ("auto", "native where the driver can, else generic"),
                ]),
                default: "auto",
                help: "Where the program runs.",
            },
            PortOption {
                name: "zerocopy",
                value: Value::Switch,
                default: "where the driver can and the packet memory has huge pages",
                help: "The device uses our buffers itself; an error where it cannot.",
            },
            PortOption {
                name: "copy",
                value: Value::Switch,
                default: "where zerocopy is not possible",
                help: "The kernel copies.",
            },
            PortOption {
                name: "kernel",
                value: Value::Word(&[
                    ("none", "nothing"),
                    (
                        "control",
                        "ARP, ICMP, IGMP, ICMPv6, EAPOL and the link-local protocols (spanning \
                         tree, LACP, LLDP)",
                    ),
                    ("unmatched", "what `match` does not name"),
                ]),
                default: "none; unmatched where there is match",
                help: "What goes to the kernel's network stack instead.",
            },
            PortOption {
                name: "match",
                value: Value::Text {
                    form: "TERMS",
                    expected: "up to 64 of ethertype:N, proto:N, udp:PORT, tcp:PORT and \
                               sctp:PORT, separated by commas",
                },
                default: "everything",
                help: "The packets that come here, as in `udp:4789,ethertype:0x88b5`; all \
                       others go to the kernel.",
            },
            PortOption {
                name: "busy-poll",
                // Longest in microseconds.
                value: Value::Number { least: 0, most: 10_000 },
                default: "0",
                help: "The thread that receives does the device's receive work, for so many \
                       microseconds at a time; 0: the kernel does it. It also wants \
                       `napi_defer_hard_irqs` and `gro_flush_timeout` set on the interface.",
            },
            PortOption {
                name: "need-wakeup",
                value: Value::Switch,
                default: "on",
                help: "The kernel says when it wants to be called; off: it is called every time.",
            },
            PortOption {
                name: "ring",
                value: Value::Number { least: 64, most: 1 << 16 },
                default: "8192 on virtual links, else 2048",
                help: "Entries of each ring, rounded up to a power of two. A TCP sender on a virtual \
                       link, which no cable slows down, fills the receive ring at once.",
            },
            PortOption {
                name: "checksum",
                value: Value::Word(&[
                    ("complete", "they are finished"),
                    ("leave", "they are passed on as they are"),
                    ("auto", "they are finished on virtual links, at a few cycles per packet"),
                ]),
                default: "auto",
                help: "What becomes of packets that a program on this host sent to the \
                       interface with an unfinished checksum, as happens on virtual links: TCP, UDP \
                       and SCTP, plain and in VXLAN, Geneve, GRE and IP tunnels. In other tunnels \
                       they stay unfinished; `ethtool -K PEER tx off` at the other end of the link \
                       has its kernel finish them.",
            },
            PortOption {
                name: "promisc",
                value: Value::Switch,
                default: "on",
                help: "Packets for other hosts are received, too.",
            },
            PortOption {
                name: "disconnect",
                value: Value::Switch,
                default: "off",
                help: "The interface may be taken although the host's addresses or its default \
                       route are on it, which is refused otherwise.",
            },
        ],
    }],
    interface: true,
    open: super::open,
};

/// Whether the device moves packets itself or the kernel copies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyMode {
    /// Without a copy if it can be had.
    Auto,
    ZeroCopy,
    Copy,
}

/// Number of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queues {
    All,
    Exactly(usize),
}

/// The options of a port.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) queues: Option<Queues>,
    /// `None`: native, else generic.
    pub(super) hook: Option<Hook>,
    pub(super) copy_mode: CopyMode,
    pub(super) share: KernelShare,
    /// Microseconds.
    pub(super) busy_poll: Option<u32>,
    pub(super) need_wakeup: bool,
    /// Entries of each ring, where that is said.
    pub(super) ring: Option<u32>,
    pub(super) promiscuous: bool,
    /// Whether unfinished checksums are finished; `None`: on virtual links.
    pub(super) complete: Option<bool>,
    /// Whether the host may lose its own traffic.
    pub(super) disconnect: bool,
}

impl Settings {
    pub(super) fn parse(uri: &PortUri) -> Result<Settings, UriError> {
        let mut options = uri.options(DRIVER.options);
        let queues = options.value("queues")?;
        let hook = match options.word("mode")? {
            Some("native") => Some(Hook::Native),
            Some("generic") => Some(Hook::Generic),
            _ => None,
        };
        let zero_copy = options.switch("zerocopy")?;
        let copy = options.switch("copy")?;
        let copy_mode = match (zero_copy, copy) {
            (Some(true), Some(true)) => {
                return Err(options.refuse(
                    "copy",
                    "yes",
                    "not to be given together with zerocopy",
                ));
            }
            (Some(true), _) | (None, Some(false)) => CopyMode::ZeroCopy,
            (_, Some(true)) | (Some(false), _) => CopyMode::Copy,
            (None, None) => CopyMode::Auto,
        };
        let terms = options.value::<Terms>("match")?;
        let share = match (options.word("kernel")?, terms) {
            (None | Some("unmatched"), Some(Terms(terms))) => KernelShare::Unmatched(terms),
            (Some(text), Some(_)) => {
                return Err(options.refuse("kernel", text, "unmatched when match is given"));
            }
            (Some("unmatched"), None) => {
                let expected = "match=... to say what is not for it";
                return Err(options.refuse("kernel", "unmatched", expected));
            }
            (Some("control"), None) => KernelShare::Control,
            (_, None) => KernelShare::None,
        };
        let busy_poll = options.number("busy-poll")?.unwrap_or(options.default_of("busy-poll"));
        let need_wakeup = options.is_on("need-wakeup")?;
        let ring = options.number("ring")?.map(|entries| (entries as u32).next_power_of_two());
        let promiscuous = options.is_on("promisc")?;
        let complete = match options.word("checksum")? {
            Some("complete") => Some(true),
            Some("leave") => Some(false),
            _ => None,
        };
        let disconnect = options.is_on("disconnect")?;
        options.finish()?;
        Ok(Settings {
            queues,
            hook,
            copy_mode,
            share,
            busy_poll: (busy_poll > 0).then_some(busy_poll as u32),
            need_wakeup,
            ring,
            promiscuous,
            complete,
            disconnect,
        })
    }
}

/// Entries of a ring of a device, whose cable bounds the packets per time.
const RING: u32 = 2048;
/// Entries of a ring of a virtual link: a few TCP connections have as much on the way.
const RING_VIRTUAL: u32 = 8192;

/// Entries of each ring of an interface of that kind.
pub(super) fn ring(settings: &Settings, kind: &str) -> u32 {
    settings.ring.unwrap_or(if kind == "device" { RING } else { RING_VIRTUAL })
}

impl FromStr for Queues {
    type Err = ();

    fn from_str(text: &str) -> Result<Queues, ()> {
        match (text, text.parse()) {
            ("all", _) => Ok(Queues::All),
            (_, Ok(count @ 1..)) => Ok(Queues::Exactly(count)),
            _ => Err(()),
        }
    }
}

/// The terms of `match`.
struct Terms(Vec<Term>);

impl FromStr for Terms {
    type Err = ();

    fn from_str(text: &str) -> Result<Terms, ()> {
        let terms: Vec<Term> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if terms.len() <= TERMS_MAX { Ok(Terms(terms)) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<Settings, UriError> {
        Settings::parse(&format!("xdp:eth0?{options}").parse().unwrap())
    }

    #[test]
    fn parses_the_given_options() {
        let settings = parse("queues=2&mode=generic&copy&ring=1000&busy-poll=20").unwrap();
        assert_eq!(settings.queues, Some(Queues::Exactly(2)));
        assert_eq!(settings.hook, Some(Hook::Generic));
        assert_eq!((settings.copy_mode, settings.ring), (CopyMode::Copy, Some(1024)));
        assert_eq!(settings.busy_poll, Some(20));
        let settings = parse("").unwrap();
        assert!(settings.need_wakeup && settings.promiscuous);
        assert_eq!((settings.copy_mode, settings.share), (CopyMode::Auto, KernelShare::None));
    }

    #[test]
    fn a_filter_goes_with_the_kernel_taking_the_rest() {
        let filter = KernelShare::Unmatched(vec![Term::Port(17, 53), Term::EtherType(0x88b5)]);
        assert_eq!(parse("match=udp:53,ethertype:0x88b5").unwrap().share, filter);
        assert_eq!(parse("kernel=unmatched&match=udp:53,ethertype:0x88b5").unwrap().share, filter);
        assert_eq!(parse("kernel=control").unwrap().share, KernelShare::Control);
    }

    #[test]
    fn refuses_contradicting_options() {
        let many = format!("match={}", vec!["udp:1"; 65].join(","));
        for options in [
            "queues=0",
            "queues=some",
            "mode=fast",
            "zerocopy&copy",
            "kernel=unmatched",
            "kernel=none&match=udp:1",
            "kernel=all",
            "match=udp",
            "match=",
            "ring=10",
            "busy-poll=soon",
            "speed=9",
            &many,
        ] {
            assert!(parse(options).is_err(), "{options}");
        }
    }
}
