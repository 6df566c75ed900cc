//! Reports to the starter of a command: to a service manager over `NOTIFY_SOCKET` (`sd_notify(3)`),
//! to a script through a file descriptor.

use std::{
    env,
    fs::File,
    io::Write,
    time::{Duration, Instant},
};

use sd_notify::NotifyState;

use crate::{exit::UsageError, output::Output};

/// Tells it.
#[derive(Debug)]
pub(crate) struct Service {
    /// Written to once.
    descriptor: Option<File>,
    /// The line that is written.
    line: String,
    /// Interval of signs of life.
    watchdog: Option<Duration>,
    next: Instant,
    /// Set if a message to the service manager has failed.
    failed: bool,
}

impl Service {
    /// `descriptor` is an open file descriptor of this process, for a line when all is ready.
    ///
    /// # Errors
    ///
    /// When it is none that can be written to.
    pub(crate) fn new(descriptor: Option<u32>) -> Result<Service, UsageError> {
        let open = |number: u32| {
            // Through its name, which opens it once more and so closes no other owner's descriptor.
            let file = File::options().write(true).open(format!("/proc/self/fd/{number}"));
            file.map_err(|error| {
                let advice = "open it for the command, as in 3>/run/ready or a pipe";
                UsageError(format!("--ready-fd {number}: {error}; {advice}"))
            })
        };
        let descriptor = descriptor.map(open).transpose()?;
        // Half of the time, as sd_watchdog_enabled(3) advises.
        let watchdog = sd_notify::watchdog_enabled().map(|period| period / 2);
        Ok(Service {
            descriptor,
            line: "ready\n".into(),
            watchdog,
            next: Instant::now(),
            failed: false,
        })
    }

    /// Returns true if a service manager wants reports.
    pub(crate) fn is_managed() -> bool {
        env::var_os("NOTIFY_SOCKET").is_some()
    }

    /// The addresses of control sockets, which the line about readiness names.
    pub(crate) fn listens_at(&mut self, addresses: Vec<String>) {
        self.line =
            ["ready".to_owned()].into_iter().chain(addresses).collect::<Vec<_>>().join(" ") + "\n";
    }

    /// Reports the present work, in a line.
    pub(crate) fn status(&mut self, text: &str) {
        self.tell(&[NotifyState::Status(text)]);
    }

    /// All is ready, for the first time or after [`Service::reloading`].
    pub(crate) fn ready(&mut self, status: &str) {
        if let Some(mut file) = self.descriptor.take() {
            // A reader that has gone does not want it.
            let _ = file.write_all(self.line.as_bytes());
        }
        self.tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Another configuration is being read.
    pub(crate) fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            Err(_) => self.tell(&[NotifyState::Reloading]),
        }
    }

    /// The end has begun.
    pub(crate) fn stopping(&mut self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// Returns true if a sign of life is due: it is to be given by [`Service::alive`].
    pub(crate) fn wants_life(&mut self, now: Instant) -> bool {
        let Some(period) = self.watchdog.filter(|_| now >= self.next) else { return false };
        self.next = now + period;
        true
    }

    /// A sign of life.
    pub(crate) fn alive(&mut self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// Tells the service manager, if there is one. That it does not listen ends nothing, and is
    /// said once.
    fn tell(&mut self, states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states)
            && !std::mem::replace(&mut self.failed, true)
        {
            let text = format!("linerate: cannot tell the service manager: {error}");
            Output::new(false).line(&text);
        }
    }
}
