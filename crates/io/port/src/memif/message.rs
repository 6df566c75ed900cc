//! The messages of memif 2.0: 128 bytes each, packed, in the byte order of the machine.
//!
//! A message is decoded from a private copy, once. Numbers that address memory are checked here as
//! far as they can be without it.

/// Bytes of every message.
pub(super) const SIZE: usize = 128;
/// The only version there is: 2.0.
pub(super) const VERSION: u16 = 0x0200;
/// Rings have at most two to the power of this descriptors.
pub(super) const LOG2_MAX: u8 = 14;

const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;

/// Flag of a ring that carries packets from the client to the server.
const TO_SERVER: u16 = 1;

/// A name in a message, at most that many bytes.
pub(super) type Name = [u8; 32];
/// A secret, zero-filled.
pub(super) type Secret = [u8; 24];
const TEXT: usize = 96;

/// A message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    AddRegion { index: u16, size: u64 },
    AddRing(AddRing),
    Connect { name: Name },
    Connected { name: Name },
    Disconnect { code: u32, text: String },
}

/// First message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: Name,
    pub(super) versions: (u16, u16),
    pub(super) max_region: u16,
    /// Highest index of rings to the client, one less than their number.
    pub(super) max_to_client: u16,
    pub(super) max_to_server: u16,
    pub(super) max_log2: u8,
}

/// Interface that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Init {
    pub(super) version: u16,
    pub(super) id: u32,
    /// Zero for Ethernet.
    pub(super) mode: u8,
    pub(super) secret: Secret,
    pub(super) name: Name,
}

/// Place of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddRing {
    pub(super) to_server: bool,
    pub(super) index: u16,
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2: u8,
    pub(super) private: u16,
}

impl Message {
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let mut to = Writer { bytes: [0; SIZE], at: 0 };
        match self {
            Message::Ack => to.put(&ACK.to_ne_bytes()),
            Message::Hello(hello) => {
                to.put(&HELLO.to_ne_bytes());
                to.put(&hello.name);
                let (least, most) = hello.versions;
                let limits = [hello.max_region, hello.max_to_client, hello.max_to_server];
                [least, most].iter().chain(&limits).for_each(|n| to.put(&n.to_ne_bytes()));
                to.put(&[hello.max_log2]);
            }
            Message::Init(init) => {
                to.put(&INIT.to_ne_bytes());
                to.put(&init.version.to_ne_bytes());
                to.put(&init.id.to_ne_bytes());
                to.put(&[init.mode]);
                to.put(&init.secret);
                to.put(&init.name);
            }
            Message::AddRegion { index, size } => {
                to.put(&ADD_REGION.to_ne_bytes());
                to.put(&index.to_ne_bytes());
                to.put(&size.to_ne_bytes());
            }
            Message::AddRing(ring) => {
                to.put(&ADD_RING.to_ne_bytes());
                let flags = if ring.to_server { TO_SERVER } else { 0 };
                [flags, ring.index, ring.region].iter().for_each(|n| to.put(&n.to_ne_bytes()));
                to.put(&ring.offset.to_ne_bytes());
                to.put(&[ring.log2]);
                to.put(&ring.private.to_ne_bytes());
            }
            Message::Connect { name } => {
                to.put(&CONNECT.to_ne_bytes());
                to.put(name);
            }
            Message::Connected { name } => {
                to.put(&CONNECTED.to_ne_bytes());
                to.put(name);
            }
            Message::Disconnect { code, text } => {
                to.put(&DISCONNECT.to_ne_bytes());
                to.put(&code.to_ne_bytes());
                to.put(&field::<TEXT>(text));
            }
        }
        to.bytes
    }

    /// `None` for a type there is not.
    pub(super) fn decode(bytes: &[u8; SIZE]) -> Option<Message> {
        let mut from = Reader { rest: bytes };
        Some(match from.u16() {
            ACK => Message::Ack,
            HELLO => Message::Hello(Hello {
                name: from.take(),
                versions: (from.u16(), from.u16()),
                max_region: from.u16(),
                max_to_client: from.u16(),
                max_to_server: from.u16(),
                max_log2: from.take::<1>()[0],
            }),
            INIT => Message::Init(Init {
                version: from.u16(),
                id: u32::from_ne_bytes(from.take()),
                mode: from.take::<1>()[0],
                secret: from.take(),
                name: from.take(),
            }),
            ADD_REGION => {
                Message::AddRegion { index: from.u16(), size: u64::from_ne_bytes(from.take()) }
            }
            ADD_RING => Message::AddRing(AddRing {
                to_server: from.u16() & TO_SERVER != 0,
                index: from.u16(),
                region: from.u16(),
                offset: u32::from_ne_bytes(from.take()),
                log2: from.take::<1>()[0],
                private: from.u16(),
            }),
            CONNECT => Message::Connect { name: from.take() },
            CONNECTED => Message::Connected { name: from.take() },
            DISCONNECT => Message::Disconnect {
                code: u32::from_ne_bytes(from.take()),
                text: text(&from.take::<TEXT>()),
            },
            _ => return None,
        })
    }

    /// Most descriptors that may come with it.
    pub(super) fn descriptors(&self) -> usize {
        usize::from(matches!(self, Message::AddRegion { .. } | Message::AddRing(_)))
    }

    /// Name of the message, for logs.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion { .. } => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect { .. } => "CONNECT",
            Message::Connected { .. } => "CONNECTED",
            Message::Disconnect { .. } => "DISCONNECT",
        }
    }
}

struct Writer {
    bytes: [u8; SIZE],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.rest.split_first_chunk().expect("no message exceeds its size");
        self.rest = rest;
        *taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }
}

/// Text as a field of `N` bytes, cut so that a zero byte is behind it.
pub(super) fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    field[..end].copy_from_slice(&text.as_bytes()[..end]);
    field
}

/// A peer's text, up to its first zero byte, without control characters.
pub(super) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]);
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        vec![
            Message::Ack,
            Message::Hello(Hello {
                name: field("DPDK 22.11"),
                versions: (VERSION, VERSION),
                max_region: 255,
                max_to_client: 1,
                max_to_server: 2,
                max_log2: 14,
            }),
            Message::Init(Init {
                version: VERSION,
                id: 0x0102_0304,
                mode: 0,
                secret: field("psst"),
                name: field("me"),
            }),
            Message::AddRegion { index: 3, size: 1 << 33 },
            Message::AddRing(AddRing {
                to_server: true,
                index: 1,
                region: 2,
                offset: 0x1000,
                log2: 10,
                private: 0,
            }),
            Message::Connect { name: field("a") },
            Message::Connected { name: field("b") },
            Message::Disconnect { code: 7, text: "mode mismatch".into() },
        ]
    }

    #[test]
    fn an_encoded_message_is_decoded() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        for kind in [0u16, 9, u16::MAX] {
            let mut bytes = [0xff; SIZE];
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            assert_eq!(Message::decode(&bytes), None);
        }
    }

    /// The offsets VPP's and DPDK's compilers give these fields.
    #[test]
    #[cfg(target_endian = "little")]
    fn fields_are_where_the_protocol_has_them() {
        let encoded: Vec<_> = all().iter().map(Message::encode).collect();
        let hello = &encoded[1];
        assert_eq!((&hello[..2], &hello[2..12]), (&[2, 0][..], &b"DPDK 22.11"[..]));
        assert_eq!(hello[34..45], [0, 2, 0, 2, 255, 0, 1, 0, 2, 0, 14]);
        let init = &encoded[2];
        assert_eq!(init[..9], [3, 0, 0, 2, 4, 3, 2, 1, 0]);
        assert_eq!((&init[9..14], &init[33..36]), (&b"psst\0"[..], &b"me\0"[..]));
        assert_eq!(encoded[3][..12], [4, 0, 3, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(encoded[4][..15], [5, 0, 1, 0, 1, 0, 2, 0, 0, 0x10, 0, 0, 10, 0, 0]);
        assert_eq!((&encoded[7][..6], &encoded[7][6..10]), (&[8, 0, 7, 0, 0, 0][..], &b"mode"[..]));
    }

    #[test]
    fn a_peers_text_does_nothing_to_a_terminal() {
        assert_eq!(text(b"a\x1b[31mb\0c"), "a[31mb");
        assert_eq!(text(&[0xff; 32]).chars().count(), 32);
        assert_eq!(field::<4>("äöü"), [0xc3, 0xa4, 0, 0]);
    }
}
