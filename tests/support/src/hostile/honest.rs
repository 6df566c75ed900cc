//! Honest clients, which must be served during an attack.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use super::figures::{ClientFigures, histogram};

/// Reasons of failures that are kept.
const REASONS: usize = 5;

/// A client that must be served during an attack.
pub trait Honest: Send {
    /// Its name in the figures.
    fn name(&self) -> String;

    /// Asks for one thing and waits for it, within seconds. It is called over and over, in a thread inside the
    /// network namespace of the program that has the program's user.
    ///
    /// # Errors
    ///
    /// When it was not served; the error is the reason.
    fn step(&mut self) -> Result<(), String>;

    /// The pause between two steps.
    fn pause(&self) -> Duration {
        Duration::from_millis(20)
    }
}

impl fmt::Debug for dyn Honest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Repeats a client's step until it is stopped.
pub(super) fn serve(client: &mut dyn Honest, goes_on: impl Fn() -> bool) -> ClientFigures {
    let mut figures = ClientFigures { name: client.name(), ..ClientFigures::default() };
    let mut latency = histogram();
    while goes_on() {
        let begun = Instant::now();
        let done = client.step();
        latency.saturating_record(begun.elapsed().as_nanos() as u64);
        figures.steps += 1;
        if let Err(reason) = done {
            figures.failures += 1;
            if figures.reasons.len() < REASONS {
                figures.reasons.push(reason);
            }
        }
        thread::sleep(client.pause());
    }
    figures.latency = (&latency).into();
    figures
}
