//! Signals while a configuration runs: the first one ends the run, unless an element handles it;
//! the second one has its default effect.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use linerate_graph::Control;
use signal_hook::{flag, low_level};

/// Handle of the signals that end a run: once it is dropped, they have their default effect.
#[derive(Debug)]
pub(crate) struct SignalGuard(Arc<AtomicBool>);

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Has `signals` end the run, until the handle is dropped.
///
/// # Errors
///
/// When they cannot be watched for.
pub(crate) fn end_run(control: Control, signals: &[i32]) -> io::Result<SignalGuard> {
    end_run_or_tell(control, signals, &[])
}

/// Has `signals` end the run, and each of `others` raise its flag, until the handle is dropped.
///
/// # Errors
///
/// When they cannot be watched for.
pub(crate) fn end_run_or_tell(
    control: Control,
    signals: &[i32],
    others: &[(i32, Arc<AtomicBool>)],
) -> io::Result<SignalGuard> {
    let (mut told, teller) = UnixStream::pair()?;
    let mut watches = Vec::new();
    let ending = signals.iter().map(|signal| (*signal, None));
    let telling = others.iter().map(|(signal, flag)| (*signal, Some(Arc::clone(flag))));
    for (signal, tells) in ending.chain(telling) {
        let raised = Arc::new(AtomicBool::new(false));
        // The flag first, so that it is up when the thread is told.
        flag::register(signal, Arc::clone(&raised))?;
        low_level::pipe::register(signal, teller.try_clone()?)?;
        watches.push(SignalState { signal, raised, tells, left: 0, ends: false });
    }
    let over = Arc::new(AtomicBool::new(false));
    let watched = SignalGuard(Arc::clone(&over));
    thread::Builder::new().name("signals".into()).spawn(move || {
        while let Ok(1..) = told.read(&mut [0]) {
            for watch in &mut watches {
                if watch.raised.swap(false, Ordering::AcqRel) {
                    watch.act(&control, over.load(Ordering::Acquire));
                }
            }
        }
    })?;
    Ok(watched)
}

/// State of one signal.
struct SignalState {
    signal: i32,
    raised: Arc<AtomicBool>,
    /// The flag it raises, where it does not end the run.
    tells: Option<Arc<AtomicBool>>,
    /// Times that it was left to elements.
    left: u32,
    /// Set when it has ended the run.
    ends: bool,
}

impl SignalState {
    fn act(&mut self, control: &Control, over: bool) {
        let driver = control.driver();
        // An element that has taken it may already handle it no longer.
        if driver.handles_signal(self.signal) || driver.signals_taken(self.signal) > self.left {
            self.left += 1;
        } else if let Some(flag) = self.tells.as_ref().filter(|_| !over) {
            flag.store(true, Ordering::Release);
        } else if over || self.ends {
            // One that has no default action is not watched for.
            let _ = low_level::emulate_default_handler(self.signal);
        } else {
            self.ends = true;
            control.stop();
        }
    }
}
