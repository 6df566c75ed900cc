//! What can be asked of an `xdp:` port by its name.

use linerate_host::bpf::Hook;

use crate::{
    error::UriError,
    uri::PortUri,
    xdp::program::{KernelShare, TERMS_MAX, Term},
};

/// Entries of each ring unless told otherwise.
const RING_DEFAULT: u32 = 2048;
const RING_MIN: u64 = 64;
const RING_MAX: u64 = 1 << 16;
/// Longest busy poll, in microseconds.
const BUSY_POLL_MAX: u64 = 10_000;

/// Whether the device moves packets itself or the kernel copies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyMode {
    /// Without a copy if it can be had.
    Auto,
    ZeroCopy,
    Copy,
}

/// How many queues.
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
    pub(super) ring: u32,
    pub(super) promiscuous: bool,
    /// Whether unfinished checksums are finished; `None`: on virtual links.
    pub(super) complete: Option<bool>,
}

impl Settings {
    pub(super) fn parse(uri: &PortUri) -> Result<Settings, UriError> {
        let bad = |option, value: &str, expected: &str| UriError::Value {
            uri: uri.to_string(),
            option,
            value: value.into(),
            expected: expected.into(),
        };
        let mut options = uri.options();
        let queues = match options.text("queues") {
            None => None,
            Some("all") => Some(Queues::All),
            Some(text) => match text.parse() {
                Ok(count @ 1..) => Some(Queues::Exactly(count)),
                _ => return Err(bad("queues", text, "all or a number from 1")),
            },
        };
        let hook = match options.text("mode") {
            None | Some("auto") => None,
            Some("native") => Some(Hook::Native),
            Some("generic") => Some(Hook::Generic),
            Some(text) => return Err(bad("mode", text, "native, generic or auto")),
        };
        let zero_copy = options.switch("zerocopy")?;
        let copy = options.switch("copy")?;
        let copy_mode = match (zero_copy, copy) {
            (Some(true), Some(true)) => {
                return Err(bad("copy", "yes", "not to be given together with zerocopy"));
            }
            (Some(true), _) | (None, Some(false)) => CopyMode::ZeroCopy,
            (_, Some(true)) | (Some(false), _) => CopyMode::Copy,
            (None, None) => CopyMode::Auto,
        };
        let terms = match options.text("match") {
            None => None,
            Some(text) => Some(terms(text).ok_or_else(|| {
                bad(
                    "match",
                    text,
                    "up to 64 of ethertype:N, proto:N, udp:PORT, tcp:PORT and sctp:PORT, \
                     separated by commas",
                )
            })?),
        };
        let share = match (options.text("kernel"), terms) {
            (None | Some("unmatched"), Some(terms)) => KernelShare::Unmatched(terms),
            (None | Some("none"), None) => KernelShare::None,
            (Some("control"), None) => KernelShare::Control,
            (Some("unmatched"), None) => {
                return Err(bad("kernel", "unmatched", "match=... to say what is not for it"));
            }
            (Some(text @ ("none" | "control")), Some(_)) => {
                return Err(bad("kernel", text, "unmatched when match is given"));
            }
            (Some(text), _) => return Err(bad("kernel", text, "none, control or unmatched")),
        };
        let busy_poll = options.number("busy-poll", 0..=BUSY_POLL_MAX)?;
        let need_wakeup = options.switch("need-wakeup")?.unwrap_or(true);
        let ring = options.number("ring", RING_MIN..=RING_MAX)?;
        let promiscuous = options.switch("promisc")?.unwrap_or(true);
        let complete = match options.text("checksum") {
            None | Some("auto") => None,
            Some("complete") => Some(true),
            Some("leave") => Some(false),
            Some(text) => return Err(bad("checksum", text, "complete, leave or auto")),
        };
        options.finish()?;
        Ok(Settings {
            queues,
            hook,
            copy_mode,
            share,
            busy_poll: busy_poll.filter(|&time| time > 0).map(|time| time as u32),
            need_wakeup,
            ring: ring.map_or(RING_DEFAULT, |size| (size as u32).next_power_of_two()),
            promiscuous,
            complete,
        })
    }
}

fn terms(text: &str) -> Option<Vec<Term>> {
    let terms: Vec<Term> = text.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    (terms.len() <= TERMS_MAX).then_some(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<Settings, UriError> {
        Settings::parse(&format!("xdp:eth0?{options}").parse().unwrap())
    }

    #[test]
    fn says_what_was_asked_for() {
        let settings = parse("queues=2&mode=generic&copy&ring=1000&busy-poll=20").unwrap();
        assert_eq!(settings.queues, Some(Queues::Exactly(2)));
        assert_eq!(settings.hook, Some(Hook::Generic));
        assert_eq!((settings.copy_mode, settings.ring), (CopyMode::Copy, 1024));
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
    fn refuses_what_does_not_go_together() {
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
