//! Hub: mailboxes of the workers with an eventfd each, for other workers and threads.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use rustix::event::{EventfdFlags, eventfd};

/// Something to be done by a worker between two rounds.
pub(crate) type Job<C> = Box<dyn FnOnce(&mut C) + Send>;

/// The mailboxes of all workers, for jobs on a worker's context `C`.
pub(crate) struct Hub<C> {
    boxes: Arc<[Mailbox<C>]>,
}

/// Bits of a worker's flag: the kinds of jobs that wait.
const JOBS: u8 = 1;
const CHANGES: u8 = 2;

struct Mailbox<C> {
    jobs: Mutex<Vec<Job<C>>>,
    /// Jobs that replace the graph: for them no element may be at work.
    changes: Mutex<Vec<Job<C>>>,
    /// [`JOBS`] and [`CHANGES`]; all the worker looks at every round.
    flag: AtomicU8,
    /// Wakes the worker when it sleeps.
    bell: OwnedFd,
}

impl<C> Hub<C> {
    pub(crate) fn new(workers: usize) -> std::io::Result<Hub<C>> {
        let mailbox = |_| {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let bell = eventfd(0, flags)?;
            let (jobs, changes) = (Mutex::default(), Mutex::default());
            Ok(Mailbox { jobs, changes, flag: AtomicU8::new(0), bell })
        };
        let boxes: std::io::Result<Vec<Mailbox<C>>> = (0..workers).map(mailbox).collect();
        Ok(Hub { boxes: boxes?.into() })
    }

    /// Has a worker do something soon.
    pub(crate) fn post(&self, worker: usize, job: Job<C>) {
        let mailbox = &self.boxes[worker];
        mailbox.jobs.lock().expect("no panic while held").push(job);
        // Release: the job is there for the worker that sees the flag.
        mailbox.flag.fetch_or(JOBS, Ordering::Release);
        self.ring(worker);
    }

    /// Has a worker do something to the graph as a whole, when none of its
    /// elements is at work.
    fn post_change(&self, worker: usize, job: Job<C>) {
        let mailbox = &self.boxes[worker];
        mailbox.changes.lock().expect("no panic while held").push(job);
        mailbox.flag.fetch_or(CHANGES, Ordering::Release);
        self.ring(worker);
    }

    /// Wakes a worker that sleeps.
    pub(crate) fn ring(&self, worker: usize) {
        // It can only fail when the bell has been rung 2^64 - 1 times.
        let _ = rustix::io::write(&self.boxes[worker].bell, &1u64.to_ne_bytes());
    }

    /// Sends a worker a job and returns the question that its result answers.
    pub(crate) fn question<T: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut C) -> T + Send + 'static,
    ) -> Question<T> {
        let (question, job) = Question::new(job);
        self.post(worker, job);
        question
    }

    /// As [`Hub::question`], about the graph as a whole.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut C) -> T + Send + 'static,
    ) -> Question<T> {
        let (question, job) = Question::new(job);
        self.post_change(worker, job);
        question
    }

    /// Returns true if a worker has jobs of either kind.
    #[inline(always)]
    pub(crate) fn has_jobs(&self, worker: usize) -> bool {
        self.boxes[worker].flag.load(Ordering::Relaxed) != 0
    }

    /// Returns true if something is to be done to a worker's graph as a whole.
    pub(crate) fn has_changes(&self, worker: usize) -> bool {
        self.boxes[worker].flag.load(Ordering::Relaxed) & CHANGES != 0
    }

    /// Takes a worker's jobs.
    pub(crate) fn take(&self, worker: usize) -> Vec<Job<C>> {
        let mailbox = &self.boxes[worker];
        let mut count = [0; 8];
        let _ = rustix::io::read(&mailbox.bell, &mut count);
        // Acquire: pairs with the release in `post`.
        mailbox.flag.fetch_and(!JOBS, Ordering::Acquire);
        std::mem::take(&mut *mailbox.jobs.lock().expect("no panic while held"))
    }

    /// Takes the jobs for a worker's graph as a whole.
    pub(crate) fn take_changes(&self, worker: usize) -> Vec<Job<C>> {
        let mailbox = &self.boxes[worker];
        mailbox.flag.fetch_and(!CHANGES, Ordering::Acquire);
        std::mem::take(&mut *mailbox.changes.lock().expect("no panic while held"))
    }

    /// The eventfd that a sleeping worker waits for besides its ports.
    pub(crate) fn bell(&self, worker: usize) -> BorrowedFd<'_> {
        self.boxes[worker].bell.as_fd()
    }

    pub(crate) fn workers(&self) -> usize {
        self.boxes.len()
    }
}

type Answer<T> = (Mutex<Option<T>>, Condvar);

/// Something a worker has been asked.
pub(crate) struct Question<T> {
    answer: Arc<Answer<T>>,
}

impl<T: Send + 'static> Question<T> {
    /// A question and the job that answers it.
    fn new<C>(job: impl FnOnce(&mut C) -> T + Send + 'static) -> (Question<T>, Job<C>) {
        let answer: Arc<Answer<T>> = Arc::new((Mutex::new(None), Condvar::new()));
        let sender = Arc::clone(&answer);
        let job = move |cx: &mut C| {
            let value = job(cx);
            *sender.0.lock().expect("no panic while held") = Some(value);
            sender.1.notify_one();
        };
        (Question { answer }, Box::new(job))
    }

    /// The answer, if it comes within `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<T> {
        let held = self.answer.0.lock().expect("no panic while held");
        let waited = self.answer.1.wait_timeout_while(held, timeout, |value| value.is_none());
        waited.expect("no panic while held").0.take()
    }
}

impl<C> Clone for Hub<C> {
    fn clone(&self) -> Hub<C> {
        Hub { boxes: Arc::clone(&self.boxes) }
    }
}

impl<C> fmt::Debug for Hub<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("workers", &self.boxes.len()).finish_non_exhaustive()
    }
}
