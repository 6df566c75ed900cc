//! Counts and latencies of an endpoint's connections.

use std::net::IpAddr;

use super::connection::Failure;
use crate::rx_queues::Latency;

impl Failure {
    /// All of them.
    pub const ALL: [Failure; 5] = [
        Failure::Refused,
        Failure::Reset,
        Failure::TimedOut,
        Failure::ClosedEarly,
        Failure::Mismatched,
    ];

    /// A word for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::TimedOut => "timed_out",
            Failure::ClosedEarly => "closed_early",
            Failure::Mismatched => "mismatched",
        }
    }

    /// The reason, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Failure::Refused => "the server did not want them",
            Failure::Reset => "the other side reset them",
            Failure::TimedOut => "the other side did not answer, or no more",
            Failure::ClosedEarly => "the server closed them before it had answered",
            Failure::Mismatched => "other bytes came than were sent",
        }
    }
}

/// Connections and segments, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that came due; those begun when there is no rate.
    pub due: u64,
    /// Connections that came due while as many as allowed were open, or no address and port was
    /// free, and were not begun.
    pub skipped: u64,
    /// Connections begun: by a SYN of ours, or by one that came.
    pub begun: u64,
    /// Connections whose handshake was completed.
    pub opened: u64,
    /// Connections that ended as they should.
    pub completed: u64,
    failed: [u64; Failure::ALL.len()],
    /// Connections that were open when the run was ended.
    pub aborted: u64,
    /// Connections that have not ended.
    pub open: u64,
    /// SYNs dropped because as many connections as allowed were open, as the kernel's `ListenOverflows`.
    pub listen_overflows: u64,
    /// Segments sent, all of them.
    pub segments_sent: u64,
    /// Segments received that are ours.
    pub segments_received: u64,
    /// Segments sent that had been sent before.
    pub retransmitted: u64,
    /// Segments that came behind a gap.
    pub out_of_order: u64,
    /// Segments that came for no connection.
    pub strays: u64,
    /// Bytes sent that have arrived.
    pub bytes_sent: u64,
    /// Bytes that came in order.
    pub bytes_received: u64,
    /// Frames with a wrong header or checksum.
    pub malformed: u64,
    /// Frames that are not for this endpoint.
    pub foreign: u64,
}

impl ConnectionCounts {
    /// Connections that failed for a reason.
    pub fn failed_for(&self, failure: Failure) -> u64 {
        self.failed[failure as usize]
    }

    /// Connections that failed.
    pub fn failed(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Connections that have ended, however.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed() + self.aborted
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed[failure as usize] += 1;
    }
}

/// Counts and latencies of an endpoint's connections.
#[derive(Debug, Clone, Default)]
pub struct ConnectionReport {
    /// Counts.
    pub counts: ConnectionCounts,
    /// Time of handshakes, from the first SYN on.
    pub handshake: Latency,
    /// Time of completed connections, from the first SYN to the last acknowledgement.
    pub whole: Latency,
    /// Next hops that did not answer, so that no connection could be begun.
    pub unreachable: Vec<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_reason() {
        let mut counts = ConnectionCounts { completed: 5, ..Default::default() };
        for (times, failure) in (1..).zip(Failure::ALL) {
            (0..times).for_each(|_| counts.fail(failure));
            assert_eq!(counts.failed_for(failure), times);
            assert!(!failure.name().is_empty() && !failure.meaning().is_empty());
        }
        assert_eq!((counts.failed(), counts.ended()), (15, 20));
    }
}
