//! Buffers of a connection's own memory, at places that stay, seen as the device sees a queue.
//!
//! Each number of a ring has its buffer. What the device has used is a chain to be read, and what it
//! does not have is one to be written; either is given back by being offered again.

use std::sync::Arc;

use super::ring::Ring;
use crate::vhost::{
    memory::Memory,
    queue::{Access, Chain, Fault, Looked, Piece, Pieces, Plain, Queue, WRITE},
};

/// Where the number of buffers of a packet is in its header.
pub(super) const BUFFERS: u64 = 10;

/// Where the buffers of a ring are.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) memory: Arc<Memory>,
    /// The guest address of the first.
    pub(super) at: u64,
    /// From one to the next.
    pub(super) stride: u64,
    /// Bytes in each.
    pub(super) len: u32,
}

impl Buffers {
    #[inline]
    fn address(&self, number: u16) -> u64 {
        self.at + u64::from(number) * self.stride
    }

    #[inline]
    fn prefetch(&self, number: u16) {
        self.memory.prefetch(self.address(number));
    }
}

/// Buffers for the device to put packets in.
pub(super) struct Posted<R> {
    ring: R,
    buffers: Buffers,
    /// Whether a packet may take several buffers.
    mergeable: bool,
    /// Those of a packet of which not all are there yet, and how many are to come.
    some: Vec<(u16, u32)>,
    missing: usize,
}

impl<R: Ring> Posted<R> {
    /// The device sees the buffers at once.
    pub(super) fn new(ring: R, buffers: Buffers, mergeable: bool) -> Posted<R> {
        let some = Vec::with_capacity(ring.size().into());
        let mut posted = Posted { ring, buffers, mergeable, some, missing: 0 };
        posted.post();
        posted.ring.publish();
        posted
    }

    /// Offers all buffers that the device does not have.
    #[inline]
    fn post(&mut self) {
        while let Some(number) = self.ring.vacant(0) {
            let piece = Piece { at: self.buffers.address(number), len: self.buffers.len };
            self.ring.offer(&[piece], WRITE);
        }
    }

    /// How many buffers the packet has that begins in this one.
    #[inline]
    fn count(&self, number: u16) -> usize {
        let mut count = [0; 2];
        let at = self.buffers.address(number) + BUFFERS;
        if !self.mergeable || !self.buffers.memory.read(at, &mut count) {
            return 1;
        }
        u16::from_le_bytes(count).into()
    }

    #[inline]
    fn push(&self, pieces: &mut Pieces, (number, written): (u16, u32)) {
        if written > self.buffers.len {
            pieces.refuse();
        }
        pieces.push(Access::Read, self.buffers.address(number), written, 0);
    }
}

impl<R: Ring> Queue for Posted<R> {
    #[inline]
    fn available(&self, most: usize) -> Result<usize, Fault> {
        self.ring.used(most)
    }

    #[inline]
    fn plain(&mut self, _: Access, list: &mut [Plain]) -> Looked {
        let ready = match self.ring.used(list.len()) {
            Ok(ready) if self.missing == 0 => ready,
            _ => return Looked { count: 0, odd: true },
        };
        if self.mergeable {
            // How many buffers a packet has is in its header.
            for ahead in 0..ready {
                self.buffers.prefetch(self.ring.peek(ahead as u16));
            }
        }
        for (count, plain) in list[..ready].iter_mut().enumerate() {
            let odd = Looked { count, odd: true };
            let Some(number) = self.ring.front() else { return odd };
            if self.count(number) > 1 {
                return odd;
            }
            let Ok(Some((id, len))) = self.ring.take() else { return odd };
            // More than there is room for is nothing.
            let len = if len <= self.buffers.len { len } else { 0 };
            *plain = Plain { at: self.buffers.address(id), len, id };
        }
        Looked { count: ready, odd: false }
    }

    #[inline]
    fn next(&mut self, _: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        while let Some((number, written)) = self.ring.take()? {
            let chain = Chain { id: number, places: 1 };
            if self.missing == 0 {
                self.missing = match self.count(number) {
                    count if count > self.ring.size().into() => {
                        pieces.refuse();
                        return Ok(Some(chain));
                    }
                    0 | 1 => {
                        self.push(pieces, (number, written));
                        return Ok(Some(chain));
                    }
                    count => count,
                };
            }
            self.some.push((number, written));
            self.missing -= 1;
            if self.missing == 0 {
                for at in 0..self.some.len() {
                    self.push(pieces, self.some[at]);
                }
                self.some.clear();
                return Ok(Some(chain));
            }
        }
        Ok(None)
    }

    fn rewind(&mut self) {}

    #[inline]
    fn give(&mut self, _: Chain, _: u32) {
        self.post();
    }

    #[inline]
    fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    fn arm(&mut self) {
        self.ring.arm();
    }

    #[inline]
    fn disarm(&mut self) {
        self.ring.disarm();
    }

    fn position(&self) -> u32 {
        0
    }

    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        &self.buffers.memory
    }
}

/// Buffers for packets to the device.
pub(super) struct Filled<R> {
    ring: R,
    buffers: Buffers,
    fault: Option<Fault>,
}

impl<R: Ring> Filled<R> {
    pub(super) fn new(ring: R, buffers: Buffers) -> Filled<R> {
        Filled { ring, buffers, fault: None }
    }

    /// Takes back what the device has read.
    #[inline]
    fn reap(&mut self) {
        loop {
            match self.ring.take() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
    }
}

impl<R: Ring> Queue for Filled<R> {
    const COUNTED: bool = false;

    fn available(&self, most: usize) -> Result<usize, Fault> {
        Ok(self.ring.room().min(most))
    }

    #[inline]
    fn plain(&mut self, _: Access, list: &mut [Plain]) -> Looked {
        if self.ring.room() < list.len() {
            self.reap();
        }
        if self.fault.is_some() {
            return Looked { count: 0, odd: true };
        }
        let mut count = 0;
        while let Some(plain) = list.get_mut(count)
            && let Some(id) = self.ring.vacant(count)
        {
            *plain = Plain { at: self.buffers.address(id), len: self.buffers.len, id };
            count += 1;
        }
        Looked { count, odd: false }
    }

    #[inline]
    fn next(&mut self, access: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        if self.ring.vacant(0).is_none() {
            self.reap();
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Some(number) = self.ring.vacant(0) else { return Ok(None) };
        pieces.push(access, self.buffers.address(number), self.buffers.len, WRITE);
        Ok(Some(Chain { id: number, places: 1 }))
    }

    fn rewind(&mut self) {}

    #[inline]
    fn give(&mut self, chain: Chain, written: u32) {
        let piece = Piece { at: self.buffers.address(chain.id), len: written };
        self.ring.offer(&[piece], 0);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let tell = self.ring.publish();
        // Not each time: where the device writes what it has used is a line it would lose.
        if self.ring.room() < usize::from(self.ring.size()) / 2 {
            self.reap();
        }
        tell
    }

    fn arm(&mut self) {
        self.ring.arm();
    }

    fn disarm(&mut self) {
        self.ring.disarm();
    }

    fn position(&self) -> u32 {
        0
    }

    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        &self.buffers.memory
    }

    fn on_the_way(&mut self) -> usize {
        self.reap();
        self.ring.outstanding()
    }
}
