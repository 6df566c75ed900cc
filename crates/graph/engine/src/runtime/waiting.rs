//! Lists of a worker's polls.

use std::time::Instant;

use rustix::event::PollFd;

/// Lists that are filled anew at every poll. They are kept, so that a poll
/// allocates only when there is more to wait for than ever before.
#[derive(Default)]
pub(crate) struct Lists {
    /// By element: whether it is asked for the events it waits for.
    pub(crate) asked: Vec<bool>,
    /// Elements that have it.
    pub(crate) ready: Vec<usize>,
    /// When others have it.
    pub(crate) due: Vec<(Instant, usize)>,
    /// Empty between polls.
    pub(crate) polled: Vec<PollFd<'static>>,
    /// Elements of the descriptors; the first descriptor is no element's.
    pub(crate) owners: Vec<usize>,
}
