//! The messages of vhost-user: a header of twelve bytes, and a payload.
//!
//! Source: `docs/interop/vhost-user.rst` of QEMU. Numbers are in the byte order of the machine. The
//! payload of a request is known to its handler; it asks for the expected one, and a payload of
//! another length is none.

use std::os::fd::OwnedFd;

use super::memory::RegionSpec;

pub(super) const GET_FEATURES: u32 = 1;
pub(super) const SET_FEATURES: u32 = 2;
pub(super) const SET_OWNER: u32 = 3;
pub(super) const RESET_OWNER: u32 = 4;
pub(super) const SET_MEM_TABLE: u32 = 5;
pub(super) const SET_VRING_NUM: u32 = 8;
pub(super) const SET_VRING_ADDR: u32 = 9;
pub(super) const SET_VRING_BASE: u32 = 10;
pub(super) const GET_VRING_BASE: u32 = 11;
pub(super) const SET_VRING_KICK: u32 = 12;
pub(super) const SET_VRING_CALL: u32 = 13;
pub(super) const SET_VRING_ERR: u32 = 14;
pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
pub(super) const GET_QUEUE_NUM: u32 = 17;
pub(super) const SET_VRING_ENABLE: u32 = 18;
pub(super) const SEND_RARP: u32 = 19;
pub(super) const GET_INFLIGHT_FD: u32 = 31;
pub(super) const SET_INFLIGHT_FD: u32 = 32;
pub(super) const RESET_DEVICE: u32 = 34;

/// Bytes of the header: request, flags and length of the payload, 32 bits each.
pub(super) const HEADER: usize = 12;
/// The longest payload that is taken. None that is understood is longer than 264 bytes; the longest
/// there is, of a device's configuration, has 268.
pub(super) const PAYLOAD: usize = 512;
/// Most descriptors with a message, one for each region of memory.
pub(super) const DESCRIPTORS: usize = 8;
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
/// Bit of the number that comes with KICK, CALL and ERR: there is no descriptor.
const NO_DESCRIPTOR: u64 = 1 << 8;

/// Bits of a device's features: section 5.1.3 and 6 of virtio 1.3, and vhost-user's own.
pub(super) mod feature {
    pub(in super::super) const CSUM: u64 = 1 << 0;
    pub(in super::super) const GUEST_CSUM: u64 = 1 << 1;
    pub(in super::super) const GUEST_TSO4: u64 = 1 << 7;
    pub(in super::super) const GUEST_TSO6: u64 = 1 << 8;
    pub(in super::super) const GUEST_ECN: u64 = 1 << 9;
    pub(in super::super) const HOST_TSO4: u64 = 1 << 11;
    pub(in super::super) const HOST_TSO6: u64 = 1 << 12;
    pub(in super::super) const HOST_ECN: u64 = 1 << 13;
    pub(in super::super) const MRG_RXBUF: u64 = 1 << 15;
    pub(in super::super) const CTRL_VQ: u64 = 1 << 17;
    pub(in super::super) const CTRL_RX: u64 = 1 << 18;
    pub(in super::super) const GUEST_ANNOUNCE: u64 = 1 << 21;
    pub(in super::super) const MQ: u64 = 1 << 22;
    pub(in super::super) const INDIRECT: u64 = 1 << 28;
    pub(in super::super) const EVENT_IDX: u64 = 1 << 29;
    pub(in super::super) const PROTOCOL_FEATURES: u64 = 1 << 30;
    pub(in super::super) const VERSION_1: u64 = 1 << 32;
    pub(in super::super) const PACKED: u64 = 1 << 34;
    pub(in super::super) const IN_ORDER: u64 = 1 << 35;
    pub(in super::super) const HOST_USO: u64 = 1 << 56;
}

/// Bits of the protocol's features.
pub(super) mod protocol {
    pub(in super::super) const MQ: u64 = 1 << 0;
    pub(in super::super) const REPLY_ACK: u64 = 1 << 3;
    pub(in super::super) const INFLIGHT: u64 = 1 << 12;
    pub(in super::super) const RESET_DEVICE: u64 = 1 << 13;
}

/// A message, and the descriptors that came with it.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) request: u32,
    flags: u32,
    pub(super) payload: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Payload of `SET_VRING_ADDR`: addresses in the process that sends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RingAddress {
    pub(super) index: u32,
    pub(super) descriptors: u64,
    pub(super) used: u64,
    pub(super) available: u64,
}

/// Payload of `GET_INFLIGHT_FD` and `SET_INFLIGHT_FD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InflightSpec {
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) queues: u16,
    pub(super) queue_size: u16,
}

/// Fault of a payload that does not fit its request.
const WRONG: &str = "a payload of another length than its request has";

impl Message {
    pub(super) fn new(request: u32, payload: Vec<u8>) -> Message {
        Message { request, flags: VERSION, payload, descriptors: Vec::new() }
    }

    pub(super) fn of_inflight(request: u32, spec: &InflightSpec) -> Message {
        let mut payload = [spec.size, spec.offset].map(u64::to_ne_bytes).concat();
        payload.extend([spec.queues, spec.queue_size, 0, 0].map(u16::to_ne_bytes).concat());
        Message::new(request, payload)
    }

    /// The answer to this message.
    pub(super) fn answered(&self, payload: Vec<u8>) -> Message {
        let flags = VERSION | REPLY;
        Message { request: self.request, flags, payload, descriptors: Vec::new() }
    }

    /// Returns true if the sender waits for an answer.
    pub(super) fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }

    pub(super) fn is_reply(&self) -> bool {
        self.flags & REPLY != 0
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let header = [self.request, self.flags, self.payload.len() as u32];
        let mut bytes = header.map(u32::to_ne_bytes).concat();
        bytes.extend(&self.payload);
        bytes
    }

    /// Reads a header; the payload's length, and a message without it.
    pub(super) fn decode(header: &[u8; HEADER]) -> Result<(usize, Message), &'static str> {
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (request, flags, length) = (word(0), word(4), word(8) as usize);
        if flags & VERSION_MASK != VERSION {
            return Err("a message of another version");
        }
        if length > PAYLOAD {
            return Err("a message that is too long");
        }
        Ok((length, Message { request, flags, payload: Vec::new(), descriptors: Vec::new() }))
    }

    fn words<const N: usize>(&self, at: usize) -> Result<[u64; N], &'static str> {
        let bytes = self.payload.get(at..at + 8 * N).ok_or(WRONG)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().map_err(|_| WRONG)?);
        }
        Ok(words)
    }

    fn is_long(&self, length: usize) -> Result<(), &'static str> {
        if self.payload.len() == length { Ok(()) } else { Err(WRONG) }
    }

    pub(super) fn number(&self) -> Result<u64, &'static str> {
        self.is_long(8)?;
        Ok(self.words::<1>(0)?[0])
    }

    pub(super) fn state(&self) -> Result<(u32, u32), &'static str> {
        self.is_long(8)?;
        let [word] = self.words(0)?;
        let [a, b, c, d, value @ ..] = word.to_ne_bytes();
        Ok((u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes(value)))
    }

    pub(super) fn address(&self) -> Result<RingAddress, &'static str> {
        self.is_long(40)?;
        let [first, descriptors, used, available] = self.words(0)?;
        let [a, b, c, d, ..] = first.to_ne_bytes();
        Ok(RingAddress { index: u32::from_ne_bytes([a, b, c, d]), descriptors, used, available })
    }

    pub(super) fn regions(&self) -> Result<Vec<RegionSpec>, &'static str> {
        let [first] = self.words(0)?;
        let [a, b, c, d, ..] = first.to_ne_bytes();
        let count = u32::from_ne_bytes([a, b, c, d]) as usize;
        if count == 0 || count > DESCRIPTORS {
            return Err("not one to eight regions");
        }
        // QEMU sends places for all eight.
        if self.payload.len() < 8 + 32 * count {
            return Err(WRONG);
        }
        let region = |at: usize| {
            let [guest, size, user, offset] = self.words(8 + 32 * at)?;
            Ok(RegionSpec { guest, size, user, offset })
        };
        (0..count).map(region).collect()
    }

    pub(super) fn inflight(&self) -> Result<InflightSpec, &'static str> {
        // The structure's padding is sent by some and not by others.
        if self.payload.len() != 20 && self.payload.len() != 24 {
            return Err(WRONG);
        }
        let [size, offset] = self.words(0)?;
        let short = |at: usize| u16::from_ne_bytes([self.payload[at], self.payload[at + 1]]);
        Ok(InflightSpec { size, offset, queues: short(16), queue_size: short(18) })
    }

    /// A ring's index, and whether its event comes with it.
    pub(super) fn event(&self) -> Result<(u32, bool), &'static str> {
        let number = self.number()?;
        Ok(((number & 0xff) as u32, number & NO_DESCRIPTOR == 0))
    }
}

/// Messages of a driver's side.
impl Message {
    pub(super) fn of_u64(request: u32, value: u64) -> Message {
        Message::new(request, value.to_ne_bytes().into())
    }

    /// A ring's index and a number of it.
    pub(super) fn of_state(request: u32, index: u32, value: u32) -> Message {
        Message::new(request, [index, value].map(u32::to_ne_bytes).concat())
    }

    pub(super) fn of_address(address: &RingAddress) -> Message {
        let mut payload = [address.index, 0].map(u32::to_ne_bytes).concat();
        let addresses = [address.descriptors, address.used, address.available, 0];
        payload.extend(addresses.map(u64::to_ne_bytes).concat());
        Message::new(SET_VRING_ADDR, payload)
    }

    pub(super) fn of_regions(regions: &[RegionSpec]) -> Message {
        let mut payload = [regions.len() as u32, 0].map(u32::to_ne_bytes).concat();
        for region in regions {
            let numbers = [region.guest, region.size, region.user, region.offset];
            payload.extend(numbers.map(u64::to_ne_bytes).concat());
        }
        Message::new(SET_MEM_TABLE, payload)
    }

    /// A ring's event, or that it has none.
    pub(super) fn of_event(request: u32, index: u32, event: Option<OwnedFd>) -> Message {
        let none = if event.is_some() { 0 } else { NO_DESCRIPTOR };
        let mut message = Message::of_u64(request, u64::from(index) | none);
        message.descriptors.extend(event);
        message
    }

    /// The message with an answer demanded.
    #[cfg(test)]
    pub(super) fn demanding(mut self) -> Message {
        self.flags |= NEED_REPLY;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lie_as_the_protocol_has_them() {
        let message = Message::of_state(SET_VRING_NUM, 3, 256);
        let expected = [8u32, 1, 8, 3, 256].map(u32::to_ne_bytes).concat();
        assert_eq!(message.encode(), expected);
        let header = expected.first_chunk().unwrap();
        let (length, mut decoded) = Message::decode(header).unwrap();
        decoded.payload = expected[12..].into();
        assert_eq!((length, decoded.request, decoded.state()), (8, 8, Ok((3, 256))));
        assert!(!decoded.needs_reply() && !decoded.is_reply());
        assert!(message.demanding().needs_reply());
    }

    #[test]
    fn a_written_message_is_read() {
        let address = RingAddress { index: 1, descriptors: 2, used: 3, available: 4 };
        assert_eq!(Message::of_address(&address).address(), Ok(address));
        let region = RegionSpec { guest: 1, size: 2, user: 3, offset: 4 };
        assert_eq!(Message::of_regions(&[region; 8]).regions(), Ok(vec![region; 8]));
        let spec = InflightSpec { size: 1, offset: 2, queues: 3, queue_size: 4 };
        assert_eq!(Message::of_inflight(SET_INFLIGHT_FD, &spec).inflight(), Ok(spec));
        assert_eq!(Message::of_event(SET_VRING_KICK, 5, None).event(), Ok((5, false)));
    }

    #[test]
    fn payloads_of_other_lengths_are_refused() {
        for length in 0..300 {
            let message = Message::new(SET_MEM_TABLE, vec![1; length]);
            assert_eq!(message.number().is_ok(), length == 8);
            assert_eq!(message.state().is_ok(), length == 8);
            assert_eq!(message.address().is_ok(), length == 40);
            assert_eq!(message.inflight().is_ok(), length == 20 || length == 24);
            assert!(message.regions().is_err());
        }
        assert!(Message::of_regions(&[]).regions().is_err());
        let mut header = [0; HEADER];
        assert!(Message::decode(&header).is_err());
        header[4] = 1;
        assert!(Message::decode(&header).is_ok());
        header[8..].copy_from_slice(&513u32.to_ne_bytes());
        assert!(Message::decode(&header).is_err());
    }
}
