//! A turn of an attack: its duration and its user.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use rustix::{
    io,
    process::{Gid, Uid},
};

/// Debian's `nobody` and `nogroup`.
const NOBODY: u32 = 65534;
/// A pause between attempts that fail at once, so that they do not only burn cycles.
const BREATH: Duration = Duration::from_millis(1);

/// The user whose credentials an attack has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackUser {
    /// The user of the program under test, root.
    Own,
    /// `nobody`, without any group or capability.
    Nobody,
}

impl AttackUser {
    /// Gives this thread, and no other, the account's credentials, for good.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn assume(self) -> io::Result<()> {
        if self == AttackUser::Own {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)
    }
}

/// A turn of an attack.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Chance, from the seed of the trial.
    pub rng: Rng,
    until: Instant,
    stop: &'a AtomicBool,
    count: u64,
}

impl Turn<'_> {
    pub(super) fn new(until: Instant, stop: &AtomicBool, seed: u64) -> Turn<'_> {
        Turn { rng: Rng::with_seed(seed), until, stop, count: 0 }
    }

    /// Returns true until the turn ends.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    /// Counts one thing done.
    pub fn count(&mut self) {
        self.count += 1;
    }

    /// The count.
    pub(super) fn counted(&self) -> u64 {
        self.count
    }

    /// Sleeps for a moment: after a refusal, and where the attack is to hold its resources.
    pub fn breathe(&self) {
        thread::sleep(BREATH);
    }

    /// Keeps the attack's resources until the turn ends.
    pub fn hold(&self) {
        while self.goes_on() {
            thread::sleep(BREATH);
        }
    }

    /// Chooses one value at random.
    #[track_caller]
    pub fn choice<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.rng.usize(..among.len())]
    }
}
