//! Content of connections: bytes that follow from their place in the stream, so that both sides can
//! check them without having agreed on anything.
//!
//! The first bytes a client sends give the lengths of a request and of its answer. A server that
//! finds other bytes there is spoken to by another program; it takes everything and answers
//! nothing, as the discard service does (RFC 863).

/// Length of the first request's header.
pub(super) const REQUEST_HEADER_LEN: usize = 12;
const MAGIC: [u8; 4] = *b"LRrq";

/// After how many bytes they repeat: a prime, so that segments of any length differ.
const PERIOD: usize = 1021;

/// Two periods, so that one that begins anywhere is in one piece.
static PATTERN: [u8; 2 * PERIOD] = {
    let mut pattern = [0; 2 * PERIOD];
    let mut at = 0;
    while at < pattern.len() {
        let place = at % PERIOD;
        pattern[at] = (place ^ (place >> 3)) as u8;
        at += 1;
    }
    pattern
};

/// A client's header: the lengths of its requests and of the answers to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestHeader {
    /// Bytes of a request; not zero.
    pub(super) request: u32,
    /// Bytes of the answer to each.
    pub(super) response: u32,
}

impl RequestHeader {
    /// As it is on the wire.
    pub(super) fn to_bytes(self) -> [u8; REQUEST_HEADER_LEN] {
        let mut bytes = [0; REQUEST_HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.request.to_be_bytes());
        bytes[8..].copy_from_slice(&self.response.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; REQUEST_HEADER_LEN]) -> Option<RequestHeader> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        let request = u32::from_be_bytes([e, f, g, h]);
        let response = u32::from_be_bytes([i, j, k, l]);
        ([a, b, c, d] == MAGIC && request > 0).then_some(RequestHeader { request, response })
    }
}

/// The part of a client's header that its server has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderState {
    /// The first `len` of them.
    Partial {
        /// The bytes received, in front.
        bytes: [u8; REQUEST_HEADER_LEN],
        /// Their number.
        len: u8,
    },
    /// All of them.
    Complete(RequestHeader),
    /// They are of another program.
    Foreign,
}

impl HeaderState {
    /// Nothing yet.
    pub(super) const NOTHING: HeaderState =
        HeaderState::Partial { bytes: [0; REQUEST_HEADER_LEN], len: 0 };

    /// Takes the next bytes, which are at `offset`, and checks them by their place. Returns false
    /// when the client has sent others.
    pub(super) fn take(&mut self, data: &[u8], offset: u64) -> bool {
        let mut rest = data;
        if let HeaderState::Partial { bytes, len } = self {
            let from = usize::from(*len);
            let (front, behind) = data.split_at(data.len().min(REQUEST_HEADER_LEN - from));
            bytes[from..from + front.len()].copy_from_slice(front);
            *len += front.len() as u8;
            rest = behind;
            if usize::from(*len) == REQUEST_HEADER_LEN {
                *self = RequestHeader::from_bytes(bytes)
                    .map_or(HeaderState::Foreign, HeaderState::Complete);
            }
        }
        let skipped = (data.len() - rest.len()) as u64;
        !matches!(self, HeaderState::Complete(_)) || is_right(rest, offset + skipped)
    }
}

/// Writes the bytes of a stream from `offset` on.
pub(super) fn fill(bytes: &mut [u8], offset: u64) {
    let from = (offset % PERIOD as u64) as usize;
    for piece in bytes.chunks_mut(PERIOD) {
        piece.copy_from_slice(&PATTERN[from..from + piece.len()]);
    }
}

/// Writes the bytes of a client's stream, which begins with its header, from `offset` on.
pub(super) fn fill_asking(bytes: &mut [u8], offset: u64, ask: RequestHeader) {
    fill(bytes, offset);
    if offset < REQUEST_HEADER_LEN as u64 {
        let asked = ask.to_bytes();
        let front = &asked[offset as usize..];
        let len = front.len().min(bytes.len());
        bytes[..len].copy_from_slice(&front[..len]);
    }
}

/// Writes given bytes, over and over, from `offset` on. There is at least one.
pub(super) fn fill_given(bytes: &mut [u8], offset: u64, given: &[u8]) {
    let from = (offset % given.len() as u64) as usize;
    let source = given.iter().cycle().skip(from);
    bytes.iter_mut().zip(source).for_each(|(byte, given)| *byte = *given);
}

/// Returns true if these are the bytes of a stream from `offset` on.
pub(super) fn is_right(bytes: &[u8], offset: u64) -> bool {
    let from = (offset % PERIOD as u64) as usize;
    bytes.chunks(PERIOD).all(|piece| *piece == PATTERN[from..from + piece.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: RequestHeader = RequestHeader { request: 5000, response: 70_000 };

    /// However a stream is cut, a server reads the same of it.
    #[test]
    fn a_server_reads_the_request_however_it_is_cut() {
        let mut stream = vec![0; 5000];
        fill_asking(&mut stream, 0, ASK);
        for size in [1, 5, 11, 12, 13, 1460] {
            let (mut heard, mut offset) = (HeaderState::NOTHING, 0);
            for piece in stream.chunks(size) {
                let mut made = vec![0; piece.len()];
                fill_asking(&mut made, offset, ASK);
                assert_eq!(made, piece, "{size} {offset}");
                assert!(heard.take(piece, offset), "{size} {offset}");
                offset += piece.len() as u64;
            }
            assert_eq!(heard, HeaderState::Complete(ASK), "{size}");
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let mut stream = vec![0; 3000];
        fill(&mut stream, 77);
        assert!(is_right(&stream, 77) && !is_right(&stream, 78));
        stream[2500] ^= 1;
        assert!(!is_right(&stream, 77));
        let mut asking = vec![0; 100];
        fill_asking(&mut asking, 0, ASK);
        asking[50] ^= 1;
        let mut heard = HeaderState::NOTHING;
        assert!(!heard.take(&asking, 0));
    }

    #[test]
    fn other_programs_are_not_judged() {
        let mut heard = HeaderState::NOTHING;
        assert!(heard.take(b"GET / HTTP/1.0\r\n\r\n", 0));
        assert_eq!(heard, HeaderState::Foreign);
        assert!(heard.take(b"more", 18));
        let mut none = HeaderState::NOTHING;
        assert!(none.take(&RequestHeader { request: 0, response: 1 }.to_bytes(), 0));
        assert_eq!(none, HeaderState::Foreign);
    }

    #[test]
    fn given_bytes_are_repeated() {
        let mut bytes = [0; 7];
        fill_given(&mut bytes, 4, b"abc");
        assert_eq!(&bytes, b"bcabcab");
    }
}
