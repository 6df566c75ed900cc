//! The thread that keeps the state on disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::shared::Shared;
use super::super::waker::{Waker, wait};
use super::files::{self, Files};
use super::rewriting::{self, Rewriting, Written};
use crate::switch::{Journal, Records};

/// Time for which changes are gathered before they are written to the journal.
const GATHERING: Duration = Duration::from_millis(100);

/// Time without changes before the text is written anew, and time before a failed write is
/// repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// The text is written anew for a pause in at most one of so many parts of the time.
const PARTS: u32 = 20;

/// Bytes a journal may always have before the text is written anew. Beyond, it may be as long as
/// the text.
const SHORT: u64 = 1 << 20;

/// Writes the switch's state to its files, text and journal.
#[derive(Debug)]
pub(in crate::control) struct Keeper {
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    files: Files,
    /// Changes of the switch that are not written yet.
    changes: Journal,
    /// The file they are written to.
    journal: files::Journal,
    /// Whether the text on disk and the journals behind it are all there is.
    is_complete: bool,
    /// Whether changes are missing at the journal's end, so that no later ones may follow.
    has_gap: bool,
    rewriting: Option<Rewriting>,
    /// The last text, and when its writing ended.
    text: Written,
    rewritten: Instant,
    /// Time of the last write to the journal.
    appended: Instant,
}

impl Keeper {
    /// Writes the text for the first time, and records changes from then on for a thread that
    /// [runs](Keeper::run).
    pub(in crate::control) fn start(shared: &Arc<Shared>, path: &Path) -> io::Result<Keeper> {
        let waker = shared.stop.waker()?;
        let files = Files::new(path);
        let own = Arc::clone(&waker);
        let (changes, saved) = shared.switch.begin_journal(Arc::new(move || own.wake()));
        let number = files.next_number()?;
        let journal = files::Journal::create(&files, number, false)?;
        let text = rewriting::write(&files, &saved, number)?;
        files.delete_before(number);
        let now = Instant::now();
        Ok(Keeper {
            shared: Arc::clone(shared),
            waker,
            files,
            changes,
            journal,
            is_complete: true,
            has_gap: false,
            rewriting: None,
            text,
            rewritten: now,
            appended: now,
        })
    }

    /// Writes changes until the agent stops, and the complete text at the end.
    pub(in crate::control) fn run(mut self) {
        while !self.shared.stop.is_set() {
            let done = self.turn();
            let failed = done.is_err();
            self.report(done);
            self.rest(failed);
        }
        let ended = self.end();
        self.report(ended);
    }

    fn report(&self, done: io::Result<()>) {
        let path = self.files.path().display();
        let problem = match done {
            Ok(()) if self.is_complete => None,
            Ok(()) => return,
            Err(error) => Some(format!("{path}: {error}")),
        };
        *self.shared.state_problem() = problem;
    }

    fn turn(&mut self) -> io::Result<()> {
        let appended = self.append();
        if let Some(rewriting) = self.rewriting.take_if(|rewriting| rewriting.has_ended()) {
            self.finish(rewriting)?;
        }
        if self.rewriting.is_none() && self.is_rewriting_due() {
            self.begin()?;
        }
        appended
    }

    /// Appends the changes to the journal.
    fn append(&mut self) -> io::Result<()> {
        let records = self.changes.take();
        self.append_records(&records)
    }

    fn append_records(&mut self, records: &Records) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let was_complete = std::mem::replace(&mut self.is_complete, false);
        if self.has_gap || records.is_incomplete() {
            // The next text has them.
            self.has_gap = true;
            return Ok(());
        }
        self.has_gap = true;
        self.journal.append(records)?;
        (self.has_gap, self.is_complete) = (false, was_complete);
        self.appended = Instant::now();
        Ok(())
    }

    fn is_rewriting_due(&self) -> bool {
        let length = self.journal.len();
        let is_quiet = self.appended.elapsed() >= PAUSE
            && self.rewritten.elapsed() >= PAUSE.max(PARTS * self.text.time);
        !self.is_complete || length > SHORT.max(self.text.length) || (length > 0 && is_quiet)
    }

    /// Begins to write the text anew, with a journal behind it.
    fn begin(&mut self) -> io::Result<()> {
        let (records, saved) = self.shared.switch.cut_journal(&self.changes);
        // Where they cannot be written, the text will have them.
        let _gap = self.append_records(&records);
        let number = self.journal.number() + 1;
        self.journal = files::Journal::create(&self.files, number, self.is_complete)?;
        self.has_gap = false;
        self.rewriting = Some(Rewriting::begin(&self.files, saved, number, &self.waker)?);
        Ok(())
    }

    fn finish(&mut self, rewriting: Rewriting) -> io::Result<()> {
        let journal = rewriting.journal;
        self.rewritten = Instant::now();
        self.text = rewriting.end()?;
        self.is_complete = !self.has_gap;
        self.files.delete_before(journal);
        Ok(())
    }

    /// Waits until there is work, and a moment for more of it.
    fn rest(&self, failed: bool) {
        let is_pending = self.journal.len() > 0 || !self.is_complete || self.rewriting.is_some();
        let timeout = (failed || is_pending).then_some(PAUSE);
        if failed {
            return self.sleep(PAUSE);
        }
        wait(&self.waker, None, timeout);
        self.sleep(GATHERING);
    }

    fn sleep(&self, time: Duration) {
        let deadline = Instant::now() + time;
        while !self.shared.stop.is_set() && Instant::now() < deadline {
            wait(&self.waker, None, Some(deadline.saturating_duration_since(Instant::now())));
        }
    }

    /// Writes the text a last time, where it is not all there is.
    fn end(&mut self) -> io::Result<()> {
        if let Some(rewriting) = self.rewriting.take() {
            // An error is one of the next text, too.
            let _ended = self.finish(rewriting);
        }
        let _written = self.append();
        if self.is_complete && self.journal.len() == 0 {
            self.files.delete_before(u64::MAX);
            return Ok(());
        }
        let (_, saved) = self.shared.switch.cut_journal(&self.changes);
        let number = self.journal.number() + 1;
        rewriting::write(&self.files, &saved, number)?;
        self.files.delete_before(u64::MAX);
        self.is_complete = true;
        Ok(())
    }
}
