//! The sending half of generators and testers: frames made after a description,
//! offered to a queue of a port, and counted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use linerate_memory::{Frame, PoolCache};
use linerate_port::{DRAIN_LIMIT, PortError, Transmit, Wake, drain};

use crate::traffic::Frames;

/// Packets that a generator was to send, offered and had taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Frames that came due; those sent when there is no schedule.
    pub intended: u64,
    /// Frames offered to the port.
    pub offered: u64,
    /// Frames the port took.
    pub accepted: u64,
    /// Frames that were late and were made up for.
    pub caught_up: u64,
    /// Most of them at a time.
    pub longest_catch_up: u64,
}

impl Progress {
    /// Frames that came due and were not sent.
    pub fn unsent(&self) -> u64 {
        self.intended.saturating_sub(self.accepted)
    }
}

#[derive(Debug, Default)]
struct PublishedProgress {
    intended: AtomicU64,
    offered: AtomicU64,
    accepted: AtomicU64,
    caught_up: AtomicU64,
    longest_catch_up: AtomicU64,
}

/// Reads a generator's progress from another thread.
#[derive(Debug, Clone)]
pub struct ProgressReader {
    published: Arc<PublishedProgress>,
}

impl ProgressReader {
    /// The progress now.
    pub fn read(&self) -> Progress {
        let published = &*self.published;
        // In the order that keeps accepted <= offered <= intended.
        let accepted = published.accepted.load(Ordering::Acquire);
        let offered = published.offered.load(Ordering::Acquire);
        Progress {
            intended: published.intended.load(Ordering::Acquire),
            offered,
            accepted,
            caught_up: published.caught_up.load(Ordering::Relaxed),
            longest_catch_up: published.longest_catch_up.load(Ordering::Relaxed),
        }
    }
}

/// One queue of a port and the frames sent to it.
pub(crate) struct TxQueue {
    frames: Frames,
    transmit: Box<dyn Transmit>,
    pool: PoolCache,
    frame: Frame,
    progress: Progress,
    published: Arc<PublishedProgress>,
}

impl TxQueue {
    /// Sends `frames`, at most `burst` at a time.
    pub(crate) fn new(
        frames: impl Into<Frames>,
        transmit: Box<dyn Transmit>,
        pool: PoolCache,
        burst: usize,
    ) -> TxQueue {
        TxQueue {
            frames: frames.into(),
            transmit,
            pool,
            frame: Frame::new(burst),
            progress: Progress::default(),
            published: Arc::default(),
        }
    }

    /// Begins anew: other frames, and counts from zero.
    pub(crate) fn begin(&mut self, frames: impl Into<Frames>) {
        self.pool.give(&mut self.frame);
        self.frames = frames.into();
        self.progress = Progress::default();
    }

    /// Takes other frames from now on; frames already made are sent, and counts go on.
    pub(crate) fn set_frames(&mut self, frames: Frames) {
        self.frames = frames;
    }

    pub(crate) fn reader(&self) -> ProgressReader {
        ProgressReader { published: Arc::clone(&self.published) }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// Most frames made at a time.
    pub(crate) fn burst(&self) -> u64 {
        self.frame.limit() as u64
    }

    /// Returns true if all frames made were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.frame.is_empty()
    }

    /// Counts frames that came due.
    #[inline]
    pub(crate) fn intend(&mut self, frames: u64) {
        self.progress.intended += frames;
        self.published.intended.store(self.progress.intended, Ordering::Release);
    }

    /// Counts frames that were late and have been made up for in one go.
    #[cold]
    pub(crate) fn count_caught_up(&mut self, frames: u64) {
        let progress = &mut self.progress;
        progress.caught_up += frames;
        progress.longest_catch_up = progress.longest_catch_up.max(frames);
        self.published.caught_up.store(progress.caught_up, Ordering::Relaxed);
        self.published.longest_catch_up.store(progress.longest_catch_up, Ordering::Relaxed);
    }

    /// Makes frames, sent at `time`, as far as there are buffers; returns how
    /// many. The frame must be empty and is not to hold more than its limit.
    #[inline]
    pub(crate) fn make(&mut self, count: u64, time: u64) -> u64 {
        for _ in 0..count {
            let Some(mut slot) = self.pool.take_one(self.frames.next_len()) else { break };
            if let Some(bytes) = self.pool.arena().packet_mut(&mut slot) {
                self.frames.make(bytes, time);
            }
            if let Err(slot) = self.frame.push(slot) {
                self.pool.give_one(slot);
            }
        }
        self.frame.len() as u64
    }

    /// Counts frames as offered.
    #[inline]
    pub(crate) fn count_offered(&mut self, frames: u64) {
        self.progress.offered += frames;
        self.published.offered.store(self.progress.offered, Ordering::Release);
    }

    /// Offers the frames made; those that the port does not take stay.
    #[inline]
    pub(crate) fn offer(&mut self) -> Result<usize, PortError> {
        if self.frame.is_empty() {
            return Ok(0);
        }
        let sent = self.transmit.transmit(&mut self.pool, &mut self.frame)?;
        self.count_accepted(sent);
        Ok(sent)
    }

    #[inline]
    fn count_accepted(&mut self, frames: usize) {
        self.progress.accepted += frames as u64;
        self.published.accepted.store(self.progress.accepted, Ordering::Release);
    }

    /// Gives up the frames that were made and not taken.
    pub(crate) fn give_up(&mut self) {
        self.pool.give(&mut self.frame);
    }

    /// Pushes out the frames on the way; returns their number.
    pub(crate) fn flush(&mut self) -> Result<usize, PortError> {
        self.transmit.flush(&mut self.pool)
    }

    pub(crate) fn wake(&mut self) -> Wake<'_> {
        self.transmit.wake()
    }

    pub(crate) fn refresh(&mut self) {
        self.transmit.refresh();
    }

    /// Offers the rest, waits for the frames on the way and gives all buffers back.
    pub(crate) fn close(&mut self) -> Result<(), PortError> {
        let (left, deadline) = (self.frame.len(), Instant::now() + DRAIN_LIMIT);
        let drained = drain(&mut *self.transmit, &mut self.pool, &mut self.frame, deadline);
        self.count_accepted(left - self.frame.len());
        self.give_up();
        drained?;
        self.transmit.refresh();
        self.transmit.close(&mut self.pool);
        Ok(())
    }
}
