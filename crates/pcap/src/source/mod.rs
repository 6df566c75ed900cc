//! Where packets come from and go to: a port, or a place in a cluster.
//!
//! Everything a handle will need is acquired when it is opened. Programs give up their privileges
//! afterwards, fork, or change their root.

mod arena;
mod consumer;
mod failure;
mod port;

use std::{io, sync::Arc, time::Duration};

use linerate_filter::Instruction;
use linerate_memory::{Arena, Frame};
use linerate_port::{Counts, Wake};
use smallvec::SmallVec;

pub(crate) use self::{consumer::Consumer, failure::OpenFailure};
use crate::{inject::Outlet, names::Target};

/// What a program has asked for before it opens a handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    /// Packets for other stations as well.
    pub(crate) promiscuous: bool,
    /// Bytes of packets that wait to be read; the port's own choice when 0.
    pub(crate) buffer_size: usize,
}

/// What was opened.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn Source>,
    /// Where packets are sent; `None` where they cannot be.
    pub(crate) outlet: Option<Box<dyn Outlet>>,
    /// What the packets lie in.
    pub(crate) arena: Arena,
    /// Whether packets are IP without an Ethernet header.
    pub(crate) raw: bool,
    /// Whether packets say when they came.
    pub(crate) stamps: bool,
    /// Whether packets say that this host sent them.
    pub(crate) directions: bool,
    /// What the driver got, for people.
    pub(crate) mode: String,
}

/// What packets are received from.
pub(crate) trait Source: Send {
    /// Gives back what is in the frame and fills it anew with what there is, which may be nothing. Never
    /// waits.
    fn receive(&mut self, frame: &mut Frame) -> Result<usize, String>;

    /// What to wait for until there may be packets. Asked right before.
    fn wakes(&mut self) -> Result<Wakes<'_>, String>;

    /// Whether no packet will ever come again.
    fn ended(&self) -> bool {
        false
    }

    /// Has left out what a filter does not want, where that can be done before packets come here: what
    /// comes is filtered all the same.
    fn leave_out(&mut self, unwanted_by: &[Instruction]) {
        let _ = unwanted_by;
    }

    /// Brings up to date what only the kernel knows. A system call or so.
    fn refresh(&mut self) {}

    /// Something that says what was received and dropped, at any time.
    fn tally(&self) -> Arc<dyn Tally>;

    /// Gives back what is in the frame, and closes.
    fn close(&mut self, frame: &mut Frame);
}

/// One for each queue.
pub(crate) type Wakes<'a> = SmallVec<[Wake<'a>; 8]>;

/// Counters that may be read at any time, by a signal's handler too.
pub(crate) trait Tally: Send + Sync {
    /// Those of now.
    fn read(&self) -> Counts;
}

/// Opens what a name stands for.
///
/// # Errors
///
/// When it cannot be had.
pub(crate) fn open(target: &Target, wishes: Wishes) -> Result<Opened, OpenFailure> {
    match target {
        Target::Port(uri) => port::open(uri, wishes),
        Target::Consumer { socket, name } => Consumer::open(socket, name),
    }
}

/// Sleeps until something may have come, at most so long.
pub(crate) fn sleep(wakes: &[Wake<'_>], limit: Duration) -> io::Result<bool> {
    linerate_port::wait_any(wakes, limit)
}
