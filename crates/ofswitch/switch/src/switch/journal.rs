//! The journal: changes of the state that a restart restores, in their order.
//!
//! A change is recorded by its results for flows, groups, meters, tables and ports, not as the
//! message that caused it: expiry, eviction and learning are changes, too. The entries refer to
//! flows and groups and are written out by the thread that [takes](Journal::take) them, so a change
//! costs an entry for each flow.
//!
//! A change on its way to a file is a sequence of entries, each a byte for its type, and its
//! content:
//!
//! - 0: a message of OpenFlow, which adds or deletes a flow, a group or a meter. Existing ones are
//!   replaced.
//! - 1: such a message of a flow that has become another and counts as old as the one it takes the
//!   place of.
//! - 2: two bytes of length, the lower first, and a line as in a [saved state](super::saved).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::edit::Effect;
use super::injection::WakeupFn;
use super::saved::{self, SaveError, Saved, SavedLine};
use super::{Switch, lock};
use crate::meter::Meter;
use crate::table::{Flow, Group, Snapshot};
use crate::wire::{
    FlowMod, FlowModCommand, FlowRemovedReason, Header, Message, PortConfig, PortReason,
};

/// Entries that wait to be taken. A change that exceeds it makes the journal incomplete.
const ROOM: usize = 1 << 21;

const MESSAGE: u8 = 0;
const MODIFIED: u8 = 1;
const LINE: u8 = 2;

/// The controller that a change was made for, and its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The controller's number.
    pub controller: u64,
    /// The transaction of the message.
    pub xid: u32,
}

/// A change of a flow.
#[derive(Debug, Clone, Copy)]
pub enum FlowChange<'a> {
    /// It was added, perhaps in the place of another.
    Added(&'a Arc<Flow>, Option<&'a Arc<Flow>>),
    /// It became another.
    Modified(&'a Arc<Flow>, &'a Arc<Flow>),
    /// It went.
    Removed(&'a Arc<Flow>, FlowRemovedReason),
}

/// The state of an object after a change.
#[derive(Debug, Clone)]
enum Entry {
    /// With the flow that it replaced.
    Flow(Arc<Flow>, Option<Arc<Flow>>),
    FlowGone(Arc<Flow>, Option<FlowRemovedReason>),
    Group(Arc<Group>),
    GroupGone(u32),
    Meter(Arc<Meter>),
    MeterGone(u32),
    Line(Box<str>),
}

/// Entries that wait, the end of each change, and its origin.
#[derive(Debug, Default)]
struct Waiting {
    entries: Vec<Entry>,
    ends: Vec<(usize, Option<Origin>)>,
    is_incomplete: bool,
}

/// A journal on the side of the switch.
struct Inbox {
    waiting: Mutex<Waiting>,
    wake: Arc<WakeupFn>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// All journals of a switch.
#[derive(Debug, Default)]
pub(super) struct Journals {
    /// Number of entries, read without the lock.
    count: AtomicUsize,
    all: Mutex<Vec<Weak<Inbox>>>,
}

/// A journal of a switch's changes. Dropping it ends it.
#[derive(Debug)]
pub struct Journal {
    inbox: Arc<Inbox>,
}

/// Changes that were taken from a [`Journal`].
#[derive(Debug, Default)]
pub struct Records {
    waiting: Waiting,
}

impl Journals {
    fn add(&self, wake: Arc<WakeupFn>) -> Journal {
        let inbox = Arc::new(Inbox { waiting: Mutex::default(), wake });
        let mut all = lock(&self.all);
        all.push(Arc::downgrade(&inbox));
        self.count.store(all.len(), Ordering::Release);
        Journal { inbox }
    }

    /// Records a change that has been made. A worker calls this, too: the locks are held for as
    /// long as it takes to append to a list.
    pub(super) fn record(&self, effects: &[Effect], tables: &Snapshot, origin: Option<Origin>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut all = lock(&self.all);
        all.retain(|inbox| match inbox.upgrade() {
            Some(inbox) => {
                inbox.record(effects, tables, origin);
                true
            }
            None => false,
        });
        self.count.store(all.len(), Ordering::Release);
    }

    /// Marks all journals as incomplete until the state is saved.
    pub(super) fn break_off(&self) {
        let all: Vec<_> = lock(&self.all).iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|inbox| {
            lock(&inbox.waiting).give_up();
            (inbox.wake)();
        });
    }
}

impl Inbox {
    fn record(&self, effects: &[Effect], tables: &Snapshot, origin: Option<Origin>) {
        let mut waiting = lock(&self.waiting);
        if waiting.is_incomplete {
            return;
        }
        let before = waiting.entries.len();
        waiting.entries.extend(effects.iter().filter_map(|effect| entry(effect, tables)));
        let end = waiting.entries.len();
        if end > ROOM {
            waiting.give_up();
        } else if end > before {
            waiting.ends.push((end, origin));
        }
        drop(waiting);
        if before == 0 && end > 0 {
            (self.wake)();
        }
    }
}

impl Waiting {
    fn give_up(&mut self) {
        *self = Waiting { is_incomplete: true, ..Waiting::default() };
    }
}

impl Journal {
    /// Takes the changes that wait.
    #[must_use]
    pub fn take(&self) -> Records {
        Records { waiting: std::mem::take(&mut *lock(&self.inbox.waiting)) }
    }
}

impl Switch {
    /// Begins a journal of the changes after the state that is returned with it. `wake` is called
    /// when a change waits and none did.
    #[must_use]
    pub fn begin_journal(&self, wake: Arc<WakeupFn>) -> (Journal, Saved) {
        let state = lock(&self.state);
        (self.journals.add(wake), self.saved_with(&state))
    }

    /// Takes the changes that wait, and the state they have led to.
    #[must_use]
    pub fn cut_journal(&self, journal: &Journal) -> (Records, Saved) {
        let state = lock(&self.state);
        (journal.take(), self.saved_with(&state))
    }
}

impl Records {
    /// Returns true if there are none, and none is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.ends.is_empty() && !self.waiting.is_incomplete
    }

    /// Returns true if some are missing, as more changed than there is room for: then the whole
    /// state is to be saved.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.waiting.is_incomplete
    }

    /// The changes of flows, for each change of the switch with its origin.
    pub fn flows(
        &self,
    ) -> impl Iterator<Item = (Option<Origin>, impl Iterator<Item = FlowChange<'_>>)> {
        let starts = std::iter::once(0).chain(self.waiting.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.waiting.ends).map(|(start, &(end, origin))| {
            let entries = self.waiting.entries[start..end].iter();
            (origin, entries.filter_map(Entry::flow))
        })
    }

    /// Writes the changes, one after the other, in pieces of about `size` bytes: `piece` gets each
    /// with whether it is the last of its change.
    pub fn write<E: From<SaveError>>(
        &self,
        size: usize,
        mut piece: impl FnMut(&[u8], bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = Vec::new();
        let mut start = 0;
        for &(end, _) in &self.waiting.ends {
            for entry in &self.waiting.entries[start..end] {
                if bytes.len() >= size {
                    piece(&bytes, false)?;
                    bytes.clear();
                }
                entry.write(&mut bytes)?;
            }
            piece(&bytes, true)?;
            bytes.clear();
            start = end;
        }
        Ok(())
    }
}

/// Returns the entry of an effect, if a restart restores it.
fn entry(effect: &Effect, tables: &Snapshot) -> Option<Entry> {
    Some(match effect {
        Effect::Added { flow, before } => Entry::Flow(Arc::clone(flow), before.clone()),
        Effect::Removed { flow, reason } => Entry::FlowGone(Arc::clone(flow), *reason),
        Effect::Group(_, Some(group)) => Entry::Group(Arc::clone(group)),
        Effect::Group(number, None) => Entry::GroupGone(*number),
        Effect::Meter(_, Some(meter)) => Entry::Meter(Arc::clone(meter)),
        Effect::Meter(number, None) => Entry::MeterGone(*number),
        Effect::Table(number) => {
            let table = tables.table(*number)?;
            Entry::Line(saved::table_line(*number, table).into())
        }
        Effect::Fragments => Entry::Line(saved::fragments_line(tables.drops_fragments()).into()),
        Effect::Port(status) => {
            let config = match status.reason {
                PortReason::Delete => PortConfig::default(),
                PortReason::Add | PortReason::Modify => status.port.config,
            };
            Entry::Line(saved::port_line(&status.port.name, config).into())
        }
    })
}

impl Entry {
    fn flow(&self) -> Option<FlowChange<'_>> {
        match self {
            Entry::Flow(flow, Some(before)) if is_modified(flow, Some(before)) => {
                Some(FlowChange::Modified(flow, before))
            }
            Entry::Flow(flow, before) => Some(FlowChange::Added(flow, before.as_ref())),
            Entry::FlowGone(flow, reason) => {
                Some(FlowChange::Removed(flow, reason.unwrap_or(FlowRemovedReason::Delete)))
            }
            _ => None,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) -> Result<(), SaveError> {
        let (kind, message) = match self {
            Entry::Flow(flow, _) => ("flow", Message::FlowMod(saved::flow_mod(flow))),
            Entry::FlowGone(flow, _) => ("flow", Message::FlowMod(deletion(flow))),
            Entry::Group(group) => ("group", Message::GroupMod(saved::group_mod(group))),
            Entry::GroupGone(number) => {
                ("group", Message::GroupMod(saved::group_deletion(*number)))
            }
            Entry::Meter(meter) => ("meter", Message::MeterMod(saved::meter_mod(meter))),
            Entry::MeterGone(number) => {
                ("meter", Message::MeterMod(saved::meter_deletion(*number)))
            }
            Entry::Line(line) => {
                // A name of a table or port is shorter.
                let length = line.len().min(usize::from(u16::MAX)) as u16;
                bytes.push(LINE);
                bytes.extend(length.to_le_bytes());
                bytes.extend(&line.as_bytes()[..usize::from(length)]);
                return Ok(());
            }
        };
        let (_, message) = saved::bytes_of(kind, &message)?;
        let is_modified = match self {
            Entry::Flow(flow, before) => is_modified(flow, before.as_ref()),
            _ => false,
        };
        bytes.push(if is_modified { MODIFIED } else { MESSAGE });
        bytes.extend(message);
        Ok(())
    }
}

/// Returns true if a flow is the same as the one before, with another content.
fn is_modified(flow: &Flow, before: Option<&Arc<Flow>>) -> bool {
    before.is_some_and(|before| before.number == flow.number)
}

/// The change that deletes a flow.
fn deletion(flow: &Flow) -> FlowMod {
    FlowMod {
        command: FlowModCommand::DeleteStrict,
        cookie: None,
        ..FlowMod::add(flow.table, flow.priority, flow.matching.unpack(), Vec::new())
    }
}

/// Reads a change.
pub(super) fn read(mut bytes: &[u8]) -> Result<Vec<SavedLine>, String> {
    let mut lines = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        let (length, rest) = match (kind, rest) {
            (MESSAGE | MODIFIED, rest) => {
                let header = Header::read(rest).ok_or("a message is incomplete")?;
                (usize::from(header.length), rest)
            }
            (LINE, [low, high, rest @ ..]) => {
                (usize::from(u16::from_le_bytes([*low, *high])), rest)
            }
            _ => return Err(format!("entries of kind {kind} are not known")),
        };
        let (content, rest) = rest.split_at_checked(length).ok_or("an entry is incomplete")?;
        lines.push(if kind == LINE {
            let line = std::str::from_utf8(content).map_err(|error| error.to_string())?;
            saved::read(line)?
        } else {
            let decoded = Message::decode(content).map_err(|fault| fault.to_string())?;
            match decoded.2 {
                Message::FlowMod(flow) if kind == MODIFIED => SavedLine::Modified(flow),
                message => SavedLine::Change(message, decoded.0),
            }
        });
        bytes = rest;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;
