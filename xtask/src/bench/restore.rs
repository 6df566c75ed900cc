//! Restoring of the machine when a measurement ends, also when it is interrupted.
//!
//! A measurement reserves huge pages, makes namespaces and starts processes. Each registers here
//! how to undo it. That is done when its guard is dropped, or, on SIGINT and SIGTERM, for all that
//! are still there, the latest first. Nothing can be undone by a process that is killed; its
//! remains are named after it, see [`leftovers`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::{fs, process, thread};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Start of the names of all that measurements make; a process id and a number follow.
const PREFIX: &str = "linerate-bench-";

type Action = Box<dyn FnOnce() + Send>;

/// Actions that undo changes, by the order of the changes.
static ACTIONS: Mutex<BTreeMap<u64, Action>> = Mutex::new(BTreeMap::new());

fn actions() -> MutexGuard<'static, BTreeMap<u64, Action>> {
    ACTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs its action when dropped.
#[derive(Debug)]
pub(crate) struct RestoreOnDrop(u64);

impl RestoreOnDrop {
    /// Registers the action that undoes a change.
    pub(crate) fn by(action: impl FnOnce() + Send + 'static) -> Self {
        static SIGNALS: Once = Once::new();
        SIGNALS.call_once(watch_signals);
        let mut actions = actions();
        let key = actions.last_key_value().map_or(0, |(key, _)| key + 1);
        actions.insert(key, Box::new(action));
        RestoreOnDrop(key)
    }
}

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        // Taken out first: an action may register or undo others.
        let action = actions().remove(&self.0);
        if let Some(action) = action {
            action();
        }
    }
}

fn watch_signals() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        eprintln!("signals cannot be watched: an interrupted measurement leaves its changes");
        return;
    };
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            while let Some((_, action)) = { actions().pop_last() } {
                action();
            }
            process::exit(128 + signal);
        }
    });
}

/// A name nothing else on this machine has, for something a measurement makes.
pub(crate) fn unique_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Entries of `folder` that a measurement made which no longer runs.
pub(crate) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let maker = name.to_str().and_then(maker_of);
            maker.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
        })
        .map(|entry| entry.path())
        .collect()
}

fn maker_of(name: &str) -> Option<u32> {
    let (id, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn action_runs_on_drop_and_not_before() {
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        let undo = RestoreOnDrop::by(move || flag.store(true, Ordering::Relaxed));
        assert!(!done.load(Ordering::Relaxed));
        drop(undo);
        assert!(done.load(Ordering::Relaxed));
    }

    #[test]
    fn names_say_who_made_them() {
        assert_eq!(maker_of(&unique_name()), Some(process::id()));
        assert_ne!(unique_name(), unique_name());
        assert_eq!(maker_of("linerate-bench-12"), None);
        assert_eq!(maker_of("linerate-bench-12-x"), None);
        assert_eq!(maker_of("other-12-0"), None);
    }

    #[test]
    fn only_what_dead_processes_made_is_left_over() {
        let folder = std::env::temp_dir().join(unique_name());
        fs::create_dir(&folder).expect("a folder");
        // Process ids end at 2^22.
        for name in [unique_name(), format!("{PREFIX}4194305-0"), "other".to_owned()] {
            fs::create_dir(folder.join(name)).expect("an entry");
        }
        let found = leftovers(&folder);
        fs::remove_dir_all(&folder).expect("its removal");
        assert_eq!(found, [folder.join(format!("{PREFIX}4194305-0"))]);
    }
}
