//! Signals for scripts of the type `SIGNAL`.
//!
//! A signal sets a flag and writes to a socket the worker waits on; the script
//! runs later, on its worker. The signal's default action is left alone only as
//! long as the script is installed.

use std::{
    io::{self, Read as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use signal_hook::{SigId, consts, flag, low_level};

/// Names of signals scripts know.
const NAMES: &[(&str, i32)] = &[
    ("ABRT", consts::SIGABRT),
    ("ALRM", consts::SIGALRM),
    ("HUP", consts::SIGHUP),
    ("INT", consts::SIGINT),
    ("IO", consts::SIGIO),
    ("PIPE", consts::SIGPIPE),
    ("QUIT", consts::SIGQUIT),
    ("TERM", consts::SIGTERM),
    ("TSTP", consts::SIGTSTP),
    ("USR1", consts::SIGUSR1),
    ("USR2", consts::SIGUSR2),
];

/// Scripts that a signal runs at present, by its number: its default action is
/// taken when it comes to none.
static SCRIPTS: [AtomicU32; LIMIT as usize] = [const { AtomicU32::new(0) }; LIMIT as usize];

/// One more than the largest number of a signal.
const LIMIT: i32 = 32;

/// A script begins to be run by a signal, or ends.
pub(super) fn count_script(number: i32, installed: bool) {
    let Some(scripts) = usize::try_from(number).ok().and_then(|at| SCRIPTS.get(at)) else { return };
    if installed {
        scripts.fetch_add(1, Ordering::AcqRel);
    } else {
        scripts.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns true if a signal runs any script.
pub(super) fn runs_script(number: i32) -> bool {
    let scripts = usize::try_from(number).ok().and_then(|at| SCRIPTS.get(at));
    scripts.is_some_and(|scripts| scripts.load(Ordering::Acquire) > 0)
}

/// The signal a name or number means.
pub(super) fn number(word: &str) -> Option<i32> {
    let named = NAMES.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
    named.or_else(|| {
        let number = linerate_graph::parse_integer(word)?;
        i32::try_from(number).ok().filter(|number| (0..LIMIT).contains(number))
    })
}

/// Signals being waited for.
#[derive(Debug)]
pub(super) struct Signals {
    wake: UnixStream,
    raised: Vec<(i32, Arc<AtomicBool>)>,
    actions: Vec<SigId>,
}

impl Signals {
    /// Waits for signals from now on.
    ///
    /// # Errors
    ///
    /// When one of them cannot be waited for, or there is no descriptor left.
    pub(super) fn new(numbers: &[i32]) -> io::Result<Signals> {
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals = Signals { wake, raised: Vec::new(), actions: Vec::new() };
        for &number in numbers {
            // Some cannot be waited for; the library would panic.
            if consts::FORBIDDEN.contains(&number) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error()));
            }
            let raised = Arc::new(AtomicBool::new(false));
            signals.actions.push(flag::register(number, Arc::clone(&raised))?);
            signals.raised.push((number, raised));
            signals.actions.push(low_level::pipe::register(number, sender.try_clone()?)?);
        }
        Ok(signals)
    }

    /// Returns the signals since the last call.
    pub(super) fn take(&mut self) -> Vec<i32> {
        // Bytes in the socket only wake.
        while matches!(self.wake.read(&mut [0; 64]), Ok(1..)) {}
        let raised = self.raised.iter().filter(|(_, raised)| raised.swap(false, Ordering::AcqRel));
        raised.map(|(number, _)| *number).collect()
    }

    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for action in self.actions.drain(..) {
            low_level::unregister(action);
        }
    }
}

/// Takes the default action of a signal.
pub(super) fn default_action(number: i32) {
    // A signal unknown to the library has no default action to take.
    let _ = low_level::emulate_default_handler(number);
}
