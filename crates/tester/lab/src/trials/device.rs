//! A configuration as the device under test, on workers of this process.

use std::{io, thread};

use linerate_graph::{Control, Router};

/// A running configuration. Dropping it stops it.
#[derive(Debug)]
pub struct Device {
    control: Control,
    worker: Option<thread::JoinHandle<Router>>,
}

/// Cycles of a device so far, on all its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceUsage {
    /// Cycles of work.
    pub work_cycles: f64,
    /// Cycles spent on waiting.
    pub wait_cycles: f64,
}

impl Device {
    /// Starts the workers of a router.
    ///
    /// # Errors
    ///
    /// When no thread can be made.
    pub fn start(mut router: Router) -> io::Result<Device> {
        let control = router.control();
        let run = move || {
            router.run();
            router
        };
        let worker = thread::Builder::new().name("device".into()).spawn(run)?;
        Ok(Device { control, worker: Some(worker) })
    }

    /// The reason why the device runs no more, if so.
    pub fn failure(&self) -> Option<String> {
        let ended = self.worker.as_ref().is_none_or(thread::JoinHandle::is_finished);
        let reason = || self.control.driver().failure().map(|reason| reason.to_string());
        ended.then(|| reason().unwrap_or_else(|| "it has ended by itself".into()))
    }

    /// Its cycles so far.
    pub fn usage(&self) -> DeviceUsage {
        let (_, workers) = self.control.usage();
        DeviceUsage {
            work_cycles: workers.iter().map(|worker| worker.work as f64).sum(),
            wait_cycles: workers.iter().map(|worker| worker.wait as f64).sum(),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.control.stop();
        // A worker that has panicked has said so.
        if let Some(Ok(mut router)) = self.worker.take().map(thread::JoinHandle::join) {
            router.close();
        }
    }
}
