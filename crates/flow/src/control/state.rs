//! The switch's state is read from a file at first, and kept there ([`Switch::save_to`]).

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, str};

use super::shared::Shared;
use super::waker::{Waker, wait};
use crate::switch::Switch;

/// How long after a change it is written.
const PAUSE: Duration = Duration::from_secs(1);

/// Writing takes at most one of so many parts of the time.
const PARTS: u32 = 20;

/// Reads the state from a file, if there is one and the switch has none: one that goes on with another agent
/// has it, with its counters.
pub(super) fn restore(switch: &Switch, path: &Path, now: u64) -> io::Result<()> {
    let snapshot = switch.snapshot();
    let flows = (0..snapshot.tables()).any(|table| snapshot.flows(table).next().is_some());
    if flows || snapshot.groups().next().is_some() || snapshot.meters().next().is_some() {
        return Ok(());
    }
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let invalid =
        |problem: &dyn ToString| io::Error::new(ErrorKind::InvalidData, problem.to_string());
    let text = str::from_utf8(&bytes).map_err(|error| invalid(&error))?;
    switch.restore(text, now).map_err(|error| invalid(&error))
}

/// Writes the state whenever it is another than the version that was kept, until the agent stops.
pub(super) fn keep(shared: &Arc<Shared>, path: &Path, mut kept: u64, waker: &Waker) {
    loop {
        let stops = shared.stop.is_set();
        let version = shared.switch.version();
        let mut pause = PAUSE;
        if kept != version {
            let began = Instant::now();
            let saved = shared.switch.save_to(path);
            let problem = saved.as_ref().err().map(|error| format!("{}: {error}", path.display()));
            *shared.state_problem() = problem;
            if saved.is_ok() {
                kept = version;
            }
            pause = pause.max(PARTS * began.elapsed());
        }
        if stops {
            return;
        }
        let deadline = Instant::now() + pause;
        while !shared.stop.is_set() && Instant::now() < deadline {
            wait(waker, None, Some(deadline.saturating_duration_since(Instant::now())));
        }
    }
}
