//! Shared parts of elements that make packets of a file's records.

use std::path::Path;

use linerate_graph::{Context, ElementBuilder, HandlerError, HandlerResult};
use linerate_linux::files::ReadGuard;
use linerate_memory::Frame;

use super::sample::Sample;
use linerate_element_support::handler_values::boolean_or;

/// File, and the selection and timing of its packets.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) active: bool,
    pub(super) sample: Sample,
    /// Most packets sent at a time.
    pub(super) burst: usize,
    pub(super) pushes: bool,
    /// Keeps elements here from overwriting the file. It is there from the start: other elements
    /// open theirs in an order of their own.
    _guard: Option<ReadGuard>,
}

impl Source {
    /// Reads the arguments that all such elements have.
    pub(super) fn from_args(make: &mut ElementBuilder<'_>, path: String) -> Source {
        Source {
            _guard: ReadGuard::of_input(Path::new(&path)),
            path,
            active: make.or("ACTIVE", true),
            sample: Sample::from_args(make),
            burst: make.burst("BURST"),
            pushes: make.output_is_push(0),
        }
    }

    /// Returns the file's name, for messages.
    pub(super) fn shown(&self) -> &str {
        shown(&self.path)
    }

    /// Wakes the element's task or its pullers, if it is active.
    pub(super) fn wake(&self, cx: &mut Context) {
        if self.active && self.pushes {
            cx.schedule();
        } else if self.active {
            cx.notify();
        }
    }

    /// Handlers that are read.
    pub(super) fn read(&self, handler: &str) -> HandlerResult {
        match handler {
            "sampling_prob" => Ok(self.sample.text()),
            "active" => Ok(self.active.to_string()),
            "filename" => Ok(self.path.clone()),
            "filesize" => {
                let size = std::fs::metadata(&self.path).ok().filter(|data| data.is_file());
                Ok(size.map_or("-".into(), |data| data.len().to_string()))
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    /// Handlers that are written.
    pub(super) fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "active" => {
                self.active = boolean_or(value, "type mismatch")?;
                self.wake(cx);
            }
            "stop" => {
                self.active = false;
                cx.driver.stop();
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

/// Returns the name of a file, for messages.
pub(super) fn shown(path: &str) -> &str {
    if path == "-" { "<stdin>" } else { path }
}

/// Gives back the buffers behind the first `filled` of a frame.
pub(super) fn give_rest(cx: &mut Context, frame: &mut Frame, filled: usize) {
    while frame.len() > filled
        && let Some(slot) = frame.pop()
    {
        cx.pool.give_one(slot);
    }
}
