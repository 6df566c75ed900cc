//! Time-outs of connections, by phase. A zone may have time-outs of its own.

const SECOND: u64 = 1_000_000_000;

/// The longest time-out, in seconds: a year.
const LONGEST: u32 = 365 * 24 * 60 * 60;

/// The phase of a connection that a time-out is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    TcpSynSent,
    TcpSynRecv,
    TcpEstablished,
    TcpFinWait,
    TcpTimeWait,
    TcpClose,
    UdpFirst,
    UdpSingle,
    UdpMultiple,
    IcmpFirst,
    IcmpReply,
}

/// Time-outs of the phases: the name in `ovs-vsctl add-zone-tp`, and the seconds of Open vSwitch's
/// userspace datapath. Protocols without a time-out of their own have those of UDP.
const TIMEOUTS: [(&str, u32); 11] = [
    ("tcp_syn_sent", 30),
    ("tcp_syn_recv", 30),
    ("tcp_established", 24 * 60 * 60),
    ("tcp_fin_wait", 15 * 60),
    ("tcp_time_wait", 45),
    ("tcp_close", 30),
    ("udp_first", 60),
    ("udp_single", 60),
    ("udp_multiple", 30),
    ("icmp_first", 60),
    ("icmp_reply", 30),
];

/// The time-outs of a zone's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeoutPolicy {
    seconds: [u32; TIMEOUTS.len()],
}

impl Default for TimeoutPolicy {
    fn default() -> TimeoutPolicy {
        TimeoutPolicy { seconds: TIMEOUTS.map(|(_, seconds)| seconds) }
    }
}

impl TimeoutPolicy {
    /// Sets the time-out of a name, like `udp_first`.
    ///
    /// # Errors
    ///
    /// Names without a time-out, and seconds that are out of range, with what to write.
    pub fn set(&mut self, name: &str, seconds: u32) -> Result<(), String> {
        let Some(at) = TIMEOUTS.iter().position(|(known, _)| *known == name) else {
            let known = TIMEOUTS.map(|(name, _)| name).join(", ");
            return Err(format!("{name}: no such time-out; there are {known}"));
        };
        if !(1..=LONGEST).contains(&seconds) {
            return Err(format!("{name}={seconds}: write seconds, 1 to {LONGEST}"));
        }
        self.seconds[at] = seconds;
        Ok(())
    }

    /// All time-outs, by name, in seconds.
    pub fn seconds(&self) -> impl Iterator<Item = (&'static str, u32)> {
        TIMEOUTS.iter().zip(self.seconds).map(|((name, _), seconds)| (*name, seconds))
    }
}

/// Returns the time-out of a phase, in nanoseconds: that of the policy, if there is one.
pub(super) fn timeout(policy: Option<&TimeoutPolicy>, phase: Phase) -> u64 {
    let at = phase as usize;
    let seconds = policy.map_or(TIMEOUTS[at].1, |policy| policy.seconds[at]);
    u64::from(seconds) * SECOND
}
