//! Configuration messages of bridges (IEEE 802.1D, 9.3.1), as Click's bridges
//! keep and compare them.

/// Bytes of one with its Ethernet and LLC headers, padded to the least frame.
pub(super) const SIZE: usize = 60;
/// Bytes of those that are looked at.
pub(super) const LEAST: usize = 52;
/// The group address of all bridges.
const ALL_BRIDGES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
/// The type of a notification that the topology has changed.
const TOPOLOGY_CHANGE: u8 = 128;
const SECOND: u64 = 1_000_000_000;

/// A bridge's view of the path to the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) root: u64,
    pub(super) cost: u32,
    pub(super) bridge: u64,
    pub(super) port: u16,
    /// Whether the topology is changing.
    pub(super) changing: bool,
    /// Seconds.
    pub(super) max_age: u32,
    pub(super) hello_time: u32,
    pub(super) forward_delay: u32,
    /// When it was made, in nanoseconds since the epoch; `None` where it does
    /// not age.
    pub(super) made: Option<u64>,
}

/// Message received from another bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) message: Message,
    pub(super) acknowledges: bool,
}

impl Message {
    /// Of a port where nothing is heard: the worst there is.
    pub(super) const NONE: Message = Message {
        root: u64::MAX,
        cost: u32::MAX,
        bridge: u64::MAX,
        port: 0,
        changing: false,
        max_age: 0,
        hello_time: 0,
        forward_delay: 0,
        made: None,
    };

    /// The message of a bridge which is the root itself.
    pub(super) fn of_root(bridge: u64) -> Message {
        Message {
            root: bridge,
            cost: 0,
            bridge,
            max_age: 20,
            hello_time: 2,
            forward_delay: 15,
            ..Message::NONE
        }
    }

    /// Returns the order of messages: the better of two is less.
    pub(super) fn rank(&self) -> (u64, u32, u64, u16) {
        (self.root, self.cost, self.bridge, self.port)
    }

    /// Forgets it if it was made no later than `cutoff`.
    pub(super) fn expire(&mut self, cutoff: u64) -> bool {
        let old = self.made.is_some_and(|made| made <= cutoff);
        if old {
            (self.root, self.bridge, self.cost) = (u64::MAX, u64::MAX, u32::MAX);
            (self.made, self.changing) = (None, false);
        }
        old
    }

    /// Reads one that has arrived at `now`. A packet too short for it, and one
    /// of another kind, is none.
    pub(super) fn read(bytes: &[u8], now: u64) -> Option<Received> {
        let bytes: &[u8; LEAST] = bytes.first_chunk()?;
        if bytes[20] == TOPOLOGY_CHANGE {
            return None;
        }
        let number = |at: usize, size: usize| {
            bytes[at..at + size].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let seconds = |at: usize| (number(at, 2) / 256) as u32;
        let age = number(44, 2) * 1_000_000 / 256 * 1000;
        let message = Message {
            root: number(22, 8),
            cost: number(30, 4) as u32,
            bridge: number(34, 8),
            port: number(42, 2) as u16,
            changing: bytes[21] & 1 != 0,
            max_age: seconds(46),
            hello_time: seconds(48),
            forward_delay: seconds(50),
            made: Some(now.saturating_sub(age)),
        };
        Some(Received { message, acknowledges: bytes[21] & 0x80 != 0 })
    }

    /// Writes it as it is at `now`, for the bridge `source`.
    pub(super) fn write(&self, now: u64, source: [u8; 6]) -> [u8; SIZE] {
        let mut bytes = header(source, 38, 0);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let age = self.made.map_or(0, |made| now.saturating_sub(made));
        let fraction = age % SECOND / 1000 * 256 / 1_000_000;
        let age = ((age / SECOND) as u16).wrapping_mul(256) | fraction as u16;
        let time = |seconds: u32| (256 * seconds as u16).to_be_bytes();
        put(21, &[u8::from(self.changing)]);
        put(22, &self.root.to_be_bytes());
        put(30, &self.cost.to_be_bytes());
        put(34, &self.bridge.to_be_bytes());
        put(42, &self.port.to_be_bytes());
        put(44, &age.to_be_bytes());
        put(46, &time(self.max_age));
        put(48, &time(self.hello_time));
        put(50, &time(self.forward_delay));
        bytes
    }

    /// A line that shows it.
    pub(super) fn text(&self) -> String {
        let Message { root, cost, bridge, port, max_age, hello_time, forward_delay, .. } = self;
        let changing = if self.changing { "TC" } else { "tc" };
        format!(
            " {bridge:>16x}:{port:04x}: {changing}  {cost:x} -> {root:>16x}  \
             m/h/d: {max_age:x}/{hello_time:x}/{forward_delay:x}\n"
        )
    }
}

/// A notification that the topology has changed.
pub(super) fn topology_change(source: [u8; 6]) -> [u8; SIZE] {
    header(source, 7, TOPOLOGY_CHANGE)
}

fn header(source: [u8; 6], length: u16, kind: u8) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..6].copy_from_slice(&ALL_BRIDGES);
    bytes[6..12].copy_from_slice(&source);
    bytes[12..14].copy_from_slice(&length.to_be_bytes());
    // The service access points of spanning trees, unnumbered information.
    bytes[14..17].copy_from_slice(&[0x42, 0x42, 3]);
    bytes[20] = kind;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_message_is_read() {
        let now = 1_000 * SECOND;
        let message = Message {
            root: 0x8000_0102_0304_0506,
            cost: 7,
            bridge: 0xdead_0605_0403_0201,
            port: 3,
            changing: true,
            made: Some(now - 5 * SECOND / 2),
            ..Message::of_root(1)
        };
        let bytes = message.write(now, [1, 2, 3, 4, 5, 6]);
        assert_eq!(bytes[44..46], [2, 128]);
        let read = Message::read(&bytes, now).unwrap();
        assert_eq!((read.message, read.acknowledges), (message, false));
        assert_eq!(Message::read(&bytes[..51], now), None);
        assert_eq!(Message::read(&topology_change([1; 6]), now), None);
    }

    #[test]
    fn the_root_s_is_better_than_all_and_none_is_worst() {
        let root = Message::of_root(5);
        let further = Message { cost: 1, ..root };
        assert!(root.rank() < further.rank() && further.rank() < Message::NONE.rank());
        let mut aging = Message { made: Some(5), ..root };
        assert!(!aging.expire(4) && aging.root == 5);
        assert!(aging.expire(5) && aging.rank() == Message::NONE.rank());
        assert!(!aging.expire(u64::MAX));
    }
}
