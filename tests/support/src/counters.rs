//! The kernel's counters of an interface.

use serde::Deserialize;

/// Counts of an interface since it was made. Bytes include the Ethernet header, not the FCS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Received frames that were bad.
    pub rx_errors: u64,
    /// Received frames that were dropped.
    pub rx_dropped: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames dropped instead of sent.
    pub tx_dropped: u64,
}

/// One interface of `ip -json -statistics link show`.
#[derive(Debug, Deserialize)]
struct Link {
    stats64: Statistics,
}

#[derive(Debug, Deserialize)]
struct Statistics {
    rx: Direction,
    tx: Direction,
}

#[derive(Debug, Deserialize)]
struct Direction {
    packets: u64,
    bytes: u64,
    errors: u64,
    dropped: u64,
}

impl Counters {
    /// Reads the counters of the single interface in the output of `ip`.
    #[track_caller]
    pub(crate) fn parse(json: &str) -> Self {
        let links: Vec<Link> = serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("ip printed something unexpected ({error}): {json}"));
        let [Link { stats64: Statistics { rx, tx } }] = &links[..] else {
            panic!("ip printed {} interfaces instead of one: {json}", links.len());
        };
        Self {
            rx_packets: rx.packets,
            rx_bytes: rx.bytes,
            rx_errors: rx.errors,
            rx_dropped: rx.dropped,
            tx_packets: tx.packets,
            tx_bytes: tx.bytes,
            tx_errors: tx.errors,
            tx_dropped: tx.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_counters_of_ip() {
        let json = r#"[{"ifname":"a0","mtu":1500,"stats64":{
            "rx":{"bytes":70,"packets":1,"errors":2,"dropped":3,"over_errors":0,"multicast":0},
            "tx":{"bytes":140,"packets":4,"errors":5,"dropped":6,"carrier_errors":0}}}]"#;
        let expected = Counters {
            rx_packets: 1,
            rx_bytes: 70,
            rx_errors: 2,
            rx_dropped: 3,
            tx_packets: 4,
            tx_bytes: 140,
            tx_errors: 5,
            tx_dropped: 6,
        };
        assert_eq!(Counters::parse(json), expected);
    }

    #[test]
    #[should_panic(expected = "0 interfaces")]
    fn nothing_is_not_zero() {
        Counters::parse("[]");
    }
}
