//! Packets of a consumer, and the views of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use linerate_client::{ClientError, Consumer, Verdict};
use linerate_memory::Frame;

use crate::Failure;

/// A consumer, and the packets of all its batches.
#[derive(Debug)]
pub(crate) struct ConsumerState {
    /// Until it is closed and no view is left.
    consumer: Option<Consumer>,
    closing: bool,
    /// Packets of a batch.
    burst: usize,
    held: Vec<BatchPackets>,
    /// Indices of the unused ones.
    free: Vec<usize>,
    /// Views of all batches.
    views: usize,
}

/// Packets of a batch.
#[derive(Debug)]
struct BatchPackets {
    frame: Frame,
    /// Number of batches that had this place before.
    generation: u64,
    views: usize,
    /// The batch was deleted: the last view gives the packets back.
    deferred: bool,
}

/// A batch's key to its packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchKey {
    place: usize,
    generation: u64,
    pub(crate) count: usize,
}

/// Locks the state, which no panic leaves half changed: code that may panic is called before.
pub(crate) fn lock(state: &Mutex<ConsumerState>) -> MutexGuard<'_, ConsumerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConsumerState {
    pub(crate) fn new(consumer: Consumer, burst: usize) -> ConsumerState {
        ConsumerState {
            consumer: Some(consumer),
            closing: false,
            burst,
            held: Vec::new(),
            free: Vec::new(),
            views: 0,
        }
    }

    /// The consumer, unless it is closed.
    pub(crate) fn consumer(&mut self) -> Result<&mut Consumer, Failure> {
        match &mut self.consumer {
            Some(consumer) if !self.closing => Ok(consumer),
            _ => Err(Failure::Closed),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing
    }

    /// The next packets, perhaps none.
    pub(crate) fn receive(&mut self) -> Result<BatchKey, Failure> {
        self.consumer()?;
        let place = self.free.pop().unwrap_or_else(|| {
            let frame = Frame::new(self.burst);
            self.held.push(BatchPackets { frame, generation: 0, views: 0, deferred: false });
            self.held.len() - 1
        });
        let (consumer, held) = (self.consumer.as_mut().expect("seen"), &mut self.held[place]);
        match consumer.receive_into(&mut held.frame) {
            Ok(count) => Ok(BatchKey { place, generation: held.generation, count }),
            Err(error) => {
                self.free.push(place);
                Err(error.into())
            }
        }
    }

    /// The packets of a batch, and the consumer to read them with.
    pub(crate) fn packets(&mut self, key: BatchKey) -> Result<(&Consumer, &mut Frame), Failure> {
        let held = &mut self.held[key.place];
        match &self.consumer {
            Some(consumer) if held.generation == key.generation => Ok((consumer, &mut held.frame)),
            _ => Err(Failure::Released),
        }
    }

    /// Counts a new view of a batch, which has been found to have packets.
    pub(crate) fn add_view(&mut self, key: BatchKey) {
        self.held[key.place].views += 1;
        self.views += 1;
    }

    /// Counts a view's end; the last one gives a deferred batch back.
    pub(crate) fn drop_view(&mut self, key: BatchKey) {
        self.views -= 1;
        let held = &mut self.held[key.place];
        held.views -= 1;
        if held.deferred && held.views == 0 {
            // A server that is gone is noticed when packets are asked for.
            let _ = self.give_back(key);
        }
        if self.closing && self.views == 0 {
            self.shut();
        }
    }

    /// Gives back a batch without views.
    pub(crate) fn release(&mut self, key: BatchKey) -> Result<(), Failure> {
        let held = &self.held[key.place];
        match held.views {
            _ if held.generation != key.generation => Ok(()),
            0 => Ok(self.give_back(key)?),
            views => Err(Failure::Viewed(views)),
        }
    }

    /// Gives back a batch that was deleted: by its last view, if it has some.
    pub(crate) fn release_deferred(&mut self, key: BatchKey) {
        if matches!(self.release(key), Err(Failure::Viewed(_))) {
            self.held[key.place].deferred = true;
        }
    }

    /// Sends those packets of a batch that `choose` wants and gives back the others.
    pub(crate) fn send(
        &mut self,
        key: BatchKey,
        mut choose: impl FnMut(usize) -> bool,
    ) -> Result<usize, Failure> {
        self.let_go(key, |consumer, frame| {
            let mut at = 0;
            consumer.send_from(frame, |_| {
                at += 1;
                choose(at - 1)
            })
        })
    }

    /// Gives the verdict on each packet of a batch, which has none then.
    pub(crate) fn give_verdicts(
        &mut self,
        key: BatchKey,
        mut decide: impl FnMut(usize) -> Verdict,
    ) -> Result<usize, Failure> {
        self.let_go(key, |consumer, frame| {
            let mut at = 0;
            consumer.answer_from(frame, |_| {
                at += 1;
                decide(at - 1)
            })
        })
    }

    /// Does something with the packets of a batch without views, which has none then.
    fn let_go(
        &mut self,
        key: BatchKey,
        does: impl FnOnce(&mut Consumer, &mut Frame) -> Result<usize, ClientError>,
    ) -> Result<usize, Failure> {
        self.consumer()?;
        let held = &mut self.held[key.place];
        if held.generation != key.generation {
            return Err(Failure::Released);
        }
        if held.views > 0 {
            return Err(Failure::Viewed(held.views));
        }
        let done = does(self.consumer.as_mut().expect("seen"), &mut held.frame);
        self.vacate(key.place);
        Ok(done?)
    }

    /// Detaches, as soon as there are no views any more.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        if self.views == 0 {
            self.shut();
        }
    }

    fn give_back(&mut self, key: BatchKey) -> Result<(), ClientError> {
        let given = match &mut self.consumer {
            Some(consumer) => consumer.release(&mut self.held[key.place].frame),
            None => Ok(()),
        };
        self.vacate(key.place);
        given
    }

    /// A place is for the next batch.
    fn vacate(&mut self, place: usize) {
        let held = &mut self.held[place];
        held.generation += 1;
        held.deferred = false;
        self.free.push(place);
    }

    fn shut(&mut self) {
        let Some(mut consumer) = self.consumer.take() else { return };
        if consumer.is_asked() {
            // To detach is no answer that they are dropped.
            return;
        }
        for held in &mut self.held {
            // Packets that cannot be given back are taken back when this program has gone.
            let _ = consumer.release(&mut held.frame);
        }
    }
}

impl Drop for ConsumerState {
    fn drop(&mut self) {
        self.shut();
    }
}
