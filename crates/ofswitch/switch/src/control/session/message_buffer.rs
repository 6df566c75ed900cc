//! Messages of a bundle until it is committed.

/// The largest piece of memory, in bytes: longer than any message.
const PIECE: usize = 1 << 18;

/// The smallest piece.
const FIRST: usize = 1 << 10;

/// Before each message its length.
const LENGTH: usize = size_of::<u32>();

/// Messages one behind the other in pieces of memory, of which each is as large as all before it,
/// up to [`PIECE`].
///
/// An allocation for each message would cost as much memory as the message itself, and the
/// allocator keeps such small ones for the thread that freed them: a controller that fills bundle
/// after bundle would have the process grow.
#[derive(Debug, Default)]
pub(super) struct MessageBuffer {
    pieces: Vec<Vec<u8>>,
    /// Bytes that the pieces have room for.
    room: usize,
}

impl MessageBuffer {
    /// Bytes of memory of all messages.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Bytes that are allocated when a message of this length is added.
    pub(super) fn growth(&self, length: usize) -> usize {
        let needed = LENGTH + length;
        match self.pieces.last() {
            Some(piece) if piece.capacity() - piece.len() >= needed => 0,
            _ => self.room.clamp(FIRST, PIECE).max(needed),
        }
    }

    /// Adds a message. Returns false if there is no memory for it, or it is too long for its
    /// length.
    pub(super) fn push(&mut self, message: &[u8]) -> bool {
        let Ok(length) = u32::try_from(message.len()) else { return false };
        let growth = self.growth(message.len());
        if growth > 0 {
            let mut piece = Vec::new();
            if piece.try_reserve_exact(growth).is_err() {
                return false;
            }
            self.room += growth;
            self.pieces.push(piece);
        }
        if let Some(piece) = self.pieces.last_mut() {
            piece.extend(length.to_ne_bytes());
            piece.extend(message);
        }
        true
    }

    /// The messages in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| {
            let mut rest = piece.as_slice();
            std::iter::from_fn(move || {
                let (length, behind) = rest.split_first_chunk()?;
                let (message, behind) = behind.split_at(u32::from_ne_bytes(*length) as usize);
                rest = behind;
                Some(message)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_in_order() {
        let mut kept = MessageBuffer::default();
        let lengths = [0, 1, 1019, 1020, 1021, 65_535, 8, PIECE, PIECE + 1].into_iter();
        let messages: Vec<Vec<u8>> = lengths
            .chain((0..20_000).map(|at| at % 300))
            .enumerate()
            .map(|(at, length)| vec![at as u8; length])
            .collect();
        for message in &messages {
            let (before, growth) = (kept.room(), kept.growth(message.len()));
            assert!(kept.push(message));
            assert_eq!(kept.room(), before + growth);
        }
        assert!(kept.iter().eq(messages.iter().map(Vec::as_slice)));
        let capacities: usize = kept.pieces.iter().map(Vec::capacity).sum();
        assert_eq!(capacities, kept.room());
    }

    #[test]
    fn the_capacity_is_little_more_than_twice_the_kept_bytes() {
        let mut kept = MessageBuffer::default();
        for number in 1..10_000 {
            assert!(kept.push(&[0; 80]));
            assert!(kept.room() <= (2 * number * 90).max(FIRST), "{number}: {}", kept.room());
        }
    }
}
