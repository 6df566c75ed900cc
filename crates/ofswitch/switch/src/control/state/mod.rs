//! The switch's state on disk: read at the start, and kept there while the switch changes.
//!
//! The file that the user names holds the state as a text ([`Saved`](crate::switch::Saved)).
//! Writing it takes seconds where there are many flows, so changes are appended to a journal beside
//! it first, which is synchronised several times a second ([`keeper`]); the text is written anew
//! when the journal has grown as large, or when nothing has changed for a while ([`rewriting`]).
//! Texts and journals have numbers, by which a start finds the journals of a text ([`files`]).

mod checksum;
mod files;
mod keeper;
mod rewriting;

use std::io::{self, ErrorKind};
use std::path::Path;

pub(super) use keeper::Keeper;

use crate::switch::Switch;
use files::Files;

/// Reads the state from its files, if there is one and the switch has none: one that goes on with
/// another agent has it, with its counters.
pub(super) fn restore(switch: &Switch, path: &Path, now: u64) -> io::Result<()> {
    let snapshot = switch.snapshot();
    let flows = (0..snapshot.tables()).any(|table| snapshot.flows(table).next().is_some());
    if flows || snapshot.groups().next().is_some() || snapshot.meters().next().is_some() {
        return Ok(());
    }
    drop(snapshot);
    let Some((text, journal)) = Files::new(path).read()? else { return Ok(()) };
    let restored = switch.restore(&text, &journal, now);
    restored.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
