//! Consumers of a cluster.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use linerate_client::Access;
use linerate_memory::FRAME_LIMIT;
use pyo3::{exceptions::PyValueError, prelude::*};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll},
    io::{Errno, fcntl_dupfd_cloexec, write},
};

use crate::{
    Failure,
    batch::{Batch, bytes},
    batch_store::{ConsumerState, lock},
};

/// A place in a cluster.
#[pyclass(frozen, module = "linerate")]
#[derive(Debug)]
pub(crate) struct Consumer {
    state: Arc<Mutex<ConsumerState>>,
    /// The descriptor that is waited for, also by a thread while another one closes the consumer.
    events: OwnedFd,
    /// Among them: set when it is closed, for the descriptors of its own leave them unheard then.
    closed: OwnedFd,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    access: &'static str,
    #[pyo3(get)]
    asked: bool,
}

/// Counters of a consumer at the server.
#[pyclass(frozen, get_all, module = "linerate")]
#[derive(Debug)]
pub(crate) struct Statistics {
    packets: u64,
    bytes: u64,
    lost_full: u64,
    lost_absent: u64,
    sent: u64,
    sent_bytes: u64,
    unheard: u64,
    held: u64,
    waiting: u64,
}

#[pymethods]
impl Statistics {
    fn __repr__(&self) -> String {
        let Statistics { packets, bytes, lost_full, lost_absent, sent, .. } = self;
        format!(
            "<linerate.Statistics packets={packets} bytes={bytes} lost_full={lost_full} \
             lost_absent={lost_absent} sent={sent}>"
        )
    }
}

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(signature = (socket, name, *, access = None, burst = 256))]
    fn new(
        py: Python<'_>,
        socket: &str,
        name: String,
        access: Option<&str>,
        burst: usize,
    ) -> PyResult<Consumer> {
        let wanted = match access {
            None => None,
            Some("read") => Some(Access::Read),
            Some("write") => Some(Access::Write),
            Some("isolated") => Some(Access::Isolated),
            Some(_) => {
                return Err(PyValueError::new_err("access is \"read\", \"write\" or \"isolated\""));
            }
        };
        if !(1..=FRAME_LIMIT).contains(&burst) {
            return Err(PyValueError::new_err(format!("burst is 1 to {FRAME_LIMIT}")));
        }
        let attached = py
            .detach(|| linerate_client::Consumer::attach_for(socket, &name, wanted))
            .map_err(Failure::Client)?;
        let events = fcntl_dupfd_cloexec(attached.as_fd(), 0).map_err(io::Error::from)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let closed = eventfd(0, flags).map_err(io::Error::from)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&events, &closed, data, epoll::EventFlags::IN).map_err(io::Error::from)?;
        Ok(Consumer {
            events,
            closed,
            asked: attached.is_asked(),
            access: match attached.access() {
                Access::Read => "read",
                Access::Write => "write",
                Access::Isolated => "isolated",
            },
            name,
            state: Arc::new(Mutex::new(ConsumerState::new(attached, burst))),
        })
    }

    fn receive(&self) -> PyResult<Batch> {
        let key = lock(&self.state).receive()?;
        Ok(Batch::new(&self.state, key))
    }

    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = timeout
            .map(|seconds| Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds }))
            .transpose()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        // One that is too far away to be a time is none.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        while self.prepare_wait()? {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut polled = [PollFd::new(&self.events, PollFlags::IN)];
            match py.detach(|| poll(&mut polled, left.as_ref())) {
                // Perhaps Ctrl-C.
                Err(Errno::INTR) => py.check_signals()?,
                Err(errno) => return Err(io::Error::from(errno).into()),
                Ok(_) => {}
            }
        }
        Ok(true)
    }

    fn prepare_wait(&self) -> PyResult<bool> {
        Ok(lock(&self.state).consumer()?.prepare_wait().map_err(Failure::Client)?)
    }

    fn fileno(&self) -> i32 {
        self.events.as_raw_fd()
    }

    fn transmit(&self, packet: &Bound<'_, PyAny>) -> PyResult<bool> {
        let packet = bytes(packet)?;
        let packet = packet.as_bytes();
        Ok(lock(&self.state).consumer()?.transmit(packet).map_err(Failure::Client)?)
    }

    fn statistics(&self) -> PyResult<Statistics> {
        let of = lock(&self.state).consumer()?.figures();
        Ok(Statistics {
            packets: of.packets,
            bytes: of.bytes,
            lost_full: of.lost_full,
            lost_absent: of.lost_absent,
            sent: of.sent,
            sent_bytes: of.sent_bytes,
            unheard: of.unheard,
            held: of.held,
            waiting: of.waiting,
        })
    }

    fn close(&self) {
        lock(&self.state).close();
        // It can only be set already.
        let _ = write(&self.closed, &1u64.to_ne_bytes());
    }

    #[getter]
    fn closed(&self) -> bool {
        lock(&self.state).is_closed()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close();
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            let mut state = lock(&self.state);
            if state.is_closed() {
                return Ok(None);
            }
            let key = state.receive()?;
            if key.count > 0 {
                drop(state);
                return Ok(Some(Batch::new(&self.state, key)));
            }
            state.release(key)?;
            drop(state);
            match self.wait(py, None) {
                // Another thread did, meanwhile.
                Err(_) if lock(&self.state).is_closed() => return Ok(None),
                waited => waited?,
            };
        }
    }

    fn __repr__(&self) -> String {
        format!("<linerate.Consumer {}>", self.name)
    }
}
