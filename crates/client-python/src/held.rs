//! Packets of a consumer, and the views of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use linerate_client::{ClientError, Consumer, Verdict};
use linerate_memory::Frame;

use crate::Failure;

/// A consumer, and the packets of all its batches.
#[derive(Debug)]
pub(crate) struct State {
    /// Until it is closed and no view is left.
    consumer: Option<Consumer>,
    closing: bool,
    /// Packets of a batch.
    burst: usize,
    held: Vec<Held>,
    /// Indices of the unused ones.
    free: Vec<usize>,
    /// Views of all batches.
    views: usize,
}

/// Packets of a batch.
#[derive(Debug)]
struct Held {
    frame: Frame,
    /// Number of batches that had this place before.
    turn: u64,
    views: usize,
    /// The batch was deleted: the last view gives the packets back.
    abandoned: bool,
}

/// A batch's key to its packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    place: usize,
    turn: u64,
    pub(crate) count: usize,
}

/// Locks the state, which no panic leaves half changed: code that may panic is called before.
pub(crate) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(crate) fn new(consumer: Consumer, burst: usize) -> State {
        State {
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
    pub(crate) fn receive(&mut self) -> Result<Ticket, Failure> {
        self.consumer()?;
        let place = self.free.pop().unwrap_or_else(|| {
            let frame = Frame::new(self.burst);
            self.held.push(Held { frame, turn: 0, views: 0, abandoned: false });
            self.held.len() - 1
        });
        let (consumer, held) = (self.consumer.as_mut().expect("seen"), &mut self.held[place]);
        match consumer.receive_into(&mut held.frame) {
            Ok(count) => Ok(Ticket { place, turn: held.turn, count }),
            Err(error) => {
                self.free.push(place);
                Err(error.into())
            }
        }
    }

    /// The packets of a batch, and the consumer to read them with.
    pub(crate) fn packets(&mut self, ticket: Ticket) -> Result<(&Consumer, &mut Frame), Failure> {
        let held = &mut self.held[ticket.place];
        match &self.consumer {
            Some(consumer) if held.turn == ticket.turn => Ok((consumer, &mut held.frame)),
            _ => Err(Failure::Released),
        }
    }

    /// Counts a new view of a batch, which has been found to have packets.
    pub(crate) fn look(&mut self, ticket: Ticket) {
        self.held[ticket.place].views += 1;
        self.views += 1;
    }

    /// Counts a view's end; the last one gives an abandoned batch back.
    pub(crate) fn look_away(&mut self, ticket: Ticket) {
        self.views -= 1;
        let held = &mut self.held[ticket.place];
        held.views -= 1;
        if held.abandoned && held.views == 0 {
            // A server that is gone is noticed when packets are asked for.
            let _ = self.give_back(ticket);
        }
        if self.closing && self.views == 0 {
            self.shut();
        }
    }

    /// Gives back a batch without views.
    pub(crate) fn release(&mut self, ticket: Ticket) -> Result<(), Failure> {
        let held = &self.held[ticket.place];
        match held.views {
            _ if held.turn != ticket.turn => Ok(()),
            0 => Ok(self.give_back(ticket)?),
            views => Err(Failure::Viewed(views)),
        }
    }

    /// Gives back a batch that was deleted: by its last view, if it has some.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        if matches!(self.release(ticket), Err(Failure::Viewed(_))) {
            self.held[ticket.place].abandoned = true;
        }
    }

    /// Sends those packets of a batch that `choose` wants and gives back the others.
    pub(crate) fn send(
        &mut self,
        ticket: Ticket,
        mut choose: impl FnMut(usize) -> bool,
    ) -> Result<usize, Failure> {
        self.let_go(ticket, |consumer, frame| {
            let mut at = 0;
            consumer.send_from(frame, |_| {
                at += 1;
                choose(at - 1)
            })
        })
    }

    /// Gives the verdict on each packet of a batch, which has none then.
    pub(crate) fn answer(
        &mut self,
        ticket: Ticket,
        mut decide: impl FnMut(usize) -> Verdict,
    ) -> Result<usize, Failure> {
        self.let_go(ticket, |consumer, frame| {
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
        ticket: Ticket,
        does: impl FnOnce(&mut Consumer, &mut Frame) -> Result<usize, ClientError>,
    ) -> Result<usize, Failure> {
        self.consumer()?;
        let held = &mut self.held[ticket.place];
        if held.turn != ticket.turn {
            return Err(Failure::Released);
        }
        if held.views > 0 {
            return Err(Failure::Viewed(held.views));
        }
        let done = does(self.consumer.as_mut().expect("seen"), &mut held.frame);
        self.vacate(ticket.place);
        Ok(done?)
    }

    /// Detaches, as soon as there are no views any more.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        if self.views == 0 {
            self.shut();
        }
    }

    fn give_back(&mut self, ticket: Ticket) -> Result<(), ClientError> {
        let given = match &mut self.consumer {
            Some(consumer) => consumer.release(&mut self.held[ticket.place].frame),
            None => Ok(()),
        };
        self.vacate(ticket.place);
        given
    }

    /// A place is for the next batch.
    fn vacate(&mut self, place: usize) {
        let held = &mut self.held[place];
        held.turn += 1;
        held.abandoned = false;
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

impl Drop for State {
    fn drop(&mut self) {
        self.shut();
    }
}
