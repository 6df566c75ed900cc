//! TCP segments and their options.
//!
//! `new_checked` asks for a data offset of at least 20 bytes that fits the bytes. The length of the
//! segment is that of the bytes given, which is the IP payload. Nothing is checked that needs the
//! state of a connection. Source: RFC 9293, RFC 7323 (scale, timestamps), RFC 2018 (SACK).

use core::fmt;

use crate::bytes::{be16, be32, put16, put32, span, span_mut, view};
use crate::checksum::{self, Sum};
use crate::{Fault, Header, Malformed};

/// Length of the header without options.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header.
pub const MAX_HEADER_LEN: usize = 60;
/// Length of the most options.
const MAX_OPTIONS_LEN: usize = MAX_HEADER_LEN - HEADER_LEN;

pub(crate) mod field {
    pub(crate) const SRC_PORT: usize = 0;
    pub(crate) const DST_PORT: usize = 2;
    pub(super) const SEQ: usize = 4;
    pub(super) const ACK: usize = 8;
    pub(super) const OFFSET_FLAGS: usize = 12;
    pub(super) const WINDOW: usize = 14;
    pub(crate) const CHECKSUM: usize = 16;
    pub(super) const URGENT: usize = 18;
}

const INITIAL: [u8; HEADER_LEN] = {
    let mut initial = [0; HEADER_LEN];
    initial[field::OFFSET_FLAGS] = 5 << 4;
    initial
};

view! {
    /// A TCP segment. `init` writes a header without options and flags.
    Tcp, Header::Tcp, HEADER_LEN, check: check, initial: INITIAL
}

#[inline(always)]
fn check(head: &[u8; HEADER_LEN], available: usize) -> Result<(), Fault> {
    let header_len = usize::from(head[field::OFFSET_FLAGS] >> 4) * 4;
    if header_len < HEADER_LEN {
        Err(Fault::HeaderLength)
    } else if header_len > available {
        Err(Fault::Truncated)
    } else {
        Ok(())
    }
}

/// The control bits of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push data to the application.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is valid.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);

    /// Are all of `flags` set?
    #[inline]
    #[must_use]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// As tcpdump abbreviates them: `S`, `F`, `R`, `P`, `U`, `E`, `W` and `.` for ACK.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (flag, letter) in [
            (Flags::FIN, "F"),
            (Flags::SYN, "S"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::ACK, "."),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
        ] {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.head(), field::SRC_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.head(), field::DST_PORT)
    }

    /// Sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        be32(self.head(), field::SEQ)
    }

    /// Acknowledgement number; meaningful with [`Flags::ACK`].
    #[inline]
    pub fn ack(&self) -> u32 {
        be32(self.head(), field::ACK)
    }

    /// Length of the header with its options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head()[field::OFFSET_FLAGS] >> 4) * 4
    }

    /// The control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.head()[field::OFFSET_FLAGS + 1])
    }

    /// The window as it is in the header, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.head(), field::WINDOW)
    }

    /// The checksum as it is in the packet.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head(), field::CHECKSUM)
    }

    /// Urgent pointer; meaningful with [`Flags::URG`].
    #[inline]
    pub fn urgent(&self) -> u16 {
        be16(self.head(), field::URGENT)
    }

    /// The options, in order.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options { at: HEADER_LEN, rest: span(self.bytes.as_ref(), HEADER_LEN, self.header_len()) }
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), self.header_len(), usize::MAX)
    }

    /// Is the checksum over header and data right?
    #[inline]
    pub fn verify_checksum(&self, mut pseudo: Sum) -> bool {
        pseudo.add_bytes(self.bytes.as_ref());
        pseudo.is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tcp<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        put16(self.head_mut(), field::SRC_PORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        put16(self.head_mut(), field::DST_PORT, port);
    }

    /// Sets the sequence number.
    #[inline]
    pub fn set_seq(&mut self, seq: u32) {
        put32(self.head_mut(), field::SEQ, seq);
    }

    /// Sets the acknowledgement number.
    #[inline]
    pub fn set_ack(&mut self, ack: u32) {
        put32(self.head_mut(), field::ACK, ack);
    }

    /// Sets the header length in bytes: a multiple of 4 up to 60 (other values are rounded down).
    #[inline]
    pub fn set_header_len(&mut self, len: u8) {
        let offset = &mut self.head_mut()[field::OFFSET_FLAGS];
        *offset = *offset & 0x0f | (len.min(MAX_HEADER_LEN as u8) / 4) << 4;
    }

    /// Sets the control bits.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.head_mut()[field::OFFSET_FLAGS + 1] = flags.0;
    }

    /// Sets the window.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        put16(self.head_mut(), field::WINDOW, window);
    }

    /// Writes a checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.head_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the urgent pointer.
    #[inline]
    pub fn set_urgent(&mut self, urgent: u16) {
        put16(self.head_mut(), field::URGENT, urgent);
    }

    /// Computes and writes the checksum over header and data.
    #[inline]
    pub fn fill_checksum(&mut self, mut pseudo: Sum) {
        self.set_checksum(0);
        pseudo.add_bytes(self.bytes.as_ref());
        self.set_checksum(pseudo.finish());
    }

    /// The bytes between the fixed header and the header length, for writing options.
    #[inline]
    pub fn options_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        span_mut(self.bytes.as_mut(), HEADER_LEN, end)
    }

    /// Overwrites the option at this offset from the start of the header ([`Options::with_offsets`])
    /// by one of the same kind and length. The checksum is updated (RFC 1624): a right one stays
    /// right. False if there is no such option.
    ///
    /// ```
    /// use linerate_packet::tcp::{Tcp, TcpOption};
    ///
    /// # let mut segment = [0; 24];
    /// # segment[12] = 6 << 4;
    /// # segment[20..].copy_from_slice(&[2, 4, 0x05, 0xb4]);
    /// let mut tcp = Tcp::new_checked(&mut segment[..])?;
    /// let large = tcp.options().with_offsets().find_map(|(at, option)| match option {
    ///     Ok(TcpOption::MaxSegmentSize(size)) if size > 1400 => Some(at),
    ///     _ => None,
    /// });
    /// if let Some(at) = large {
    ///     assert!(tcp.set_option(at, &TcpOption::MaxSegmentSize(1400)));
    /// }
    /// assert_eq!(tcp.options().next(), Some(Ok(TcpOption::MaxSegmentSize(1400))));
    /// # Ok::<(), linerate_packet::Malformed>(())
    /// ```
    #[must_use = "an option of another kind or length was not changed"]
    pub fn set_option(&mut self, at: usize, option: &TcpOption<'_>) -> bool {
        let mut buffer = [0; MAX_OPTIONS_LEN];
        let Some(new) = option.write(&mut buffer) else { return false };
        let (mut check, end) = (self.checksum(), self.header_len());
        let options = span_mut(self.bytes.as_mut(), 0, end);
        let old = options.get_mut(at..).and_then(|rest| rest.get_mut(..new.len()));
        // Kind and length, or the kind alone of one byte.
        let same =
            |old: &&mut [u8]| at >= HEADER_LEN && old.iter().zip(new).take(2).all(|(a, b)| a == b);
        let Some(old) = old.filter(same) else { return false };
        for (at, (old, new)) in (at..).zip(old.iter_mut().zip(new)) {
            // Bytes at even offsets are the upper ones of their word.
            let shift = if at.is_multiple_of(2) { 8 } else { 0 };
            check = checksum::update16(check, u16::from(*old) << shift, u16::from(*new) << shift);
            *old = *new;
        }
        self.set_checksum(check);
        true
    }

    /// The data, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let from = self.header_len();
        span_mut(self.bytes.as_mut(), from, usize::MAX)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Tcp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp {} > {} [{}]", self.src_port(), self.dst_port(), self.flags())?;
        write!(f, " seq {} ack {} win {}", self.seq(), self.ack(), self.window())
    }
}

/// One TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options.
    NoOperation,
    /// Largest segment the sender takes.
    MaxSegmentSize(u16),
    /// Left shift of the window field, in bits.
    WindowScale(u8),
    /// The sender understands selective acknowledgements.
    SackPermitted,
    /// Blocks received out of order: pairs of a left and a right edge.
    Sack(SackBlocks<'a>),
    /// The sender's clock, and the last one it saw from the other side.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The receiver's clock, echoed.
        echo: u32,
    },
    /// An option this crate has no name for, or a known one of unusual length.
    Other {
        /// Its number.
        kind: u8,
        /// The bytes behind kind and length.
        data: &'a [u8],
    },
}

/// The blocks of a selective acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [u8]);

impl SackBlocks<'_> {
    /// Left edge (included) and right edge (excluded) of each block.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.as_chunks::<8>().0.iter().map(|&[a, b, c, d, e, f, g, h]| {
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
        })
    }
}

/// The options of a TCP header. Ends at the end-of-list option, at the end of the header, or after
/// the first malformed option.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Offset of the next one from the start of the header.
    at: usize,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options, each with its offset from the start of the header.
    pub fn with_offsets(
        mut self,
    ) -> impl Iterator<Item = (usize, Result<TcpOption<'a>, Malformed>)> {
        core::iter::from_fn(move || {
            let at = self.at;
            self.next().map(|option| (at, option))
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (option, rest) = match *self.rest {
            [] | [0, ..] => {
                self.rest = &[];
                return None;
            }
            [kind::NO_OPERATION, ref rest @ ..] => (TcpOption::NoOperation, rest),
            [kind, len, ref rest @ ..] if len >= 2 && usize::from(len) - 2 <= rest.len() => {
                let (data, rest) = rest.split_at(usize::from(len) - 2);
                (TcpOption::read(kind, data), rest)
            }
            _ => {
                self.rest = &[];
                return Some(Err(Malformed::new(Header::Tcp, Fault::Option)));
            }
        };
        self.at += self.rest.len() - rest.len();
        self.rest = rest;
        Some(Ok(option))
    }
}

impl<'a> TcpOption<'a> {
    fn read(kind: u8, data: &'a [u8]) -> TcpOption<'a> {
        match (kind, data) {
            (kind::MAX_SEGMENT_SIZE, &[a, b]) => {
                TcpOption::MaxSegmentSize(u16::from_be_bytes([a, b]))
            }
            (kind::WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
            (kind::SACK_PERMITTED, []) => TcpOption::SackPermitted,
            (kind::SACK, blocks) if !blocks.is_empty() && blocks.len().is_multiple_of(8) => {
                TcpOption::Sack(SackBlocks(blocks))
            }
            (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            _ => TcpOption::Other { kind, data },
        }
    }

    /// Writes it. Returns its bytes; `None` if a header has no room for as many.
    fn write<'b>(&self, bytes: &'b mut [u8; MAX_OPTIONS_LEN]) -> Option<&'b [u8]> {
        let (size, clocks);
        let (kind, data) = match *self {
            TcpOption::NoOperation => {
                bytes[0] = kind::NO_OPERATION;
                return Some(&bytes[..1]);
            }
            TcpOption::MaxSegmentSize(bytes) => {
                size = bytes.to_be_bytes();
                (kind::MAX_SEGMENT_SIZE, &size[..])
            }
            TcpOption::WindowScale(ref shift) => (kind::WINDOW_SCALE, core::slice::from_ref(shift)),
            TcpOption::SackPermitted => (kind::SACK_PERMITTED, &[][..]),
            TcpOption::Sack(SackBlocks(blocks)) => (kind::SACK, blocks),
            TcpOption::Timestamps { value, echo } => {
                clocks = (u64::from(value) << 32 | u64::from(echo)).to_be_bytes();
                (kind::TIMESTAMPS, &clocks[..])
            }
            TcpOption::Other { kind, data } => (kind, data),
        };
        let option = bytes.get_mut(..2 + data.len())?;
        option[0] = kind;
        option[1] = option.len() as u8;
        option[2..].copy_from_slice(data);
        Some(option)
    }
}

/// Numbers of options.
mod kind {
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MAX_SEGMENT_SIZE: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use core::net::Ipv4Addr;
    use std::string::ToString;
    use std::vec::Vec;

    /// A SYN with the options Linux sends, from 10.0.0.1 to 10.0.0.2; checksum by scapy.
    const SYN: [u8; 40] = [
        0xc0, 0x01, 0x00, 0x50, 0x12, 0x34, 0x56, 0x78, 0x00, 0x00, 0x00, 0x00, 0xa0, 0x02, 0xfa,
        0xf0, 0xfd, 0xda, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0x00, 0x00,
        0x12, 0x34, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07,
    ];

    fn pseudo(length: u16) -> Sum {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        checksum::pseudo_v4(src, dst, IpProtocol::TCP, length)
    }

    #[test]
    fn reads_the_golden_segment() {
        let tcp = Tcp::new_checked(&SYN[..]).unwrap();
        assert_eq!((tcp.src_port(), tcp.dst_port()), (0xc001, 80));
        assert_eq!((tcp.seq(), tcp.ack()), (0x1234_5678, 0));
        assert_eq!((tcp.header_len(), tcp.flags()), (40, Flags::SYN));
        assert_eq!((tcp.window(), tcp.urgent()), (64240, 0));
        assert!(tcp.payload().is_empty());
        let options: Vec<_> = tcp.options().map(Result::unwrap).collect();
        assert_eq!(
            options,
            [
                TcpOption::MaxSegmentSize(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamps { value: 0x1234, echo: 0 },
                TcpOption::NoOperation,
                TcpOption::WindowScale(7),
            ]
        );
        assert!(tcp.verify_checksum(pseudo(40)));
        assert_eq!(tcp.to_string(), "tcp 49153 > 80 [S] seq 305419896 ack 0 win 64240");
    }

    #[test]
    fn writes_the_golden_segment() {
        let mut bytes = [0xaa; 40];
        let mut tcp = Tcp::init(&mut bytes[..]).unwrap();
        tcp.set_src_port(0xc001);
        tcp.set_dst_port(80);
        tcp.set_seq(0x1234_5678);
        tcp.set_header_len(40);
        tcp.set_flags(Flags::SYN);
        tcp.set_window(64240);
        tcp.options_mut().copy_from_slice(&SYN[20..]);
        tcp.fill_checksum(pseudo(40));
        assert_eq!(bytes, SYN);
    }

    #[test]
    fn reads_selective_acknowledgements() {
        let rest = [5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 9];
        let mut options = Options { at: 0, rest: &rest };
        let Some(Ok(TcpOption::Sack(blocks))) = options.next() else { panic!("no SACK") };
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [(1, 2), (3, 4)]);
        assert_eq!(options.next(), None);
    }

    #[test]
    fn a_malformed_option_ends_the_list_and_an_odd_one_is_shown_raw() {
        let bad = Some(Err(Malformed { header: Header::Tcp, fault: Fault::Option }));
        for rest in [&[2, 5, 0, 0][..], &[2, 1, 0, 0], &[2, 0], &[8]] {
            let mut options = Options { at: 0, rest };
            assert_eq!(options.next(), bad);
            assert_eq!(options.next(), None);
        }
        let mut options = Options { at: 0, rest: &[2, 3, 7, 254, 2] };
        assert_eq!(options.next(), Some(Ok(TcpOption::Other { kind: 2, data: &[7] })));
        assert_eq!(options.next(), Some(Ok(TcpOption::Other { kind: 254, data: &[] })));
    }

    #[test]
    fn options_are_overwritten_where_they_are() {
        let mut bytes = SYN;
        let mut tcp = Tcp::new_checked(&mut bytes[..]).unwrap();
        let offsets: Vec<_> = tcp.options().with_offsets().map(|(at, _)| at).collect();
        assert_eq!(offsets, [20, 24, 26, 36, 37]);
        for (at, option) in [
            (20, TcpOption::MaxSegmentSize(536)),
            (24, TcpOption::SackPermitted),
            (26, TcpOption::Timestamps { value: 0x9876_5432, echo: 7 }),
            (36, TcpOption::NoOperation),
            (37, TcpOption::WindowScale(14)),
        ] {
            assert!(tcp.set_option(at, &option), "{option:?}");
            assert!(tcp.options().with_offsets().any(|found| found == (at, Ok(option))));
            assert!(tcp.verify_checksum(pseudo(40)), "{option:?}");
        }
        let before = tcp.bytes.to_vec();
        for (at, option) in [
            (20, TcpOption::WindowScale(1)),
            (21, TcpOption::MaxSegmentSize(1)),
            (24, TcpOption::Other { kind: 4, data: &[1] }),
            (26, TcpOption::Other { kind: 8, data: &[0; 39] }),
            (36, TcpOption::Other { kind: 1, data: &[0; 20] }),
            (0, TcpOption::Other { kind: 0xc0, data: &[] }),
            (40, TcpOption::NoOperation),
            (usize::MAX, TcpOption::MaxSegmentSize(1)),
        ] {
            assert!(!tcp.set_option(at, &option), "{option:?}");
        }
        assert_eq!(tcp.bytes, before);
    }

    proptest::proptest! {
        /// Whatever option replaces one, at even offsets and odd ones: what it covers stays right.
        #[test]
        fn a_right_checksum_stays_right(
            odd: bool, old: u16, size: u16, selective: [u8; 8], other: [u8; 8],
        ) {
            let mut bytes = [1; 40];
            let mut tcp = Tcp::init(&mut bytes[..]).unwrap();
            tcp.set_header_len(40);
            let (at, sack) = (20 + usize::from(odd), 25);
            let list = tcp.options_mut();
            list[at - 20..][..2].copy_from_slice(&[2, 4]);
            list[at - 18..][..2].copy_from_slice(&old.to_be_bytes());
            list[5..7].copy_from_slice(&[5, 10]);
            list[7..15].copy_from_slice(&selective);
            tcp.fill_checksum(pseudo(40));
            proptest::prop_assert!(tcp.set_option(at, &TcpOption::MaxSegmentSize(size)));
            proptest::prop_assert!(tcp.set_option(sack, &TcpOption::Sack(SackBlocks(&other))));
            proptest::prop_assert!(tcp.verify_checksum(pseudo(40)));
            proptest::prop_assert_eq!(&tcp.options_mut()[7..15], &other[..]);
        }
    }

    #[test]
    fn refuses_a_contradicting_data_offset() {
        let fault = |bytes: &[u8]| Tcp::new_checked(bytes).unwrap_err().fault;
        assert_eq!(fault(&SYN[..19]), Fault::Truncated);
        assert_eq!(fault(&SYN[..39]), Fault::Truncated);
        let mut low = SYN;
        low[12] = 0x40;
        assert_eq!(fault(&low), Fault::HeaderLength);
    }

    #[test]
    fn flags_print_as_tcpdump_does() {
        assert_eq!((Flags::SYN | Flags::ACK).to_string(), "S.");
        assert_eq!(Flags(0xff).to_string(), "FSRP.UEW");
        assert!((Flags::PSH | Flags::ACK).contains(Flags::ACK));
    }
}
