//! Element: the trait of packet-processing nodes of a graph.

use std::{any::Any, sync::Arc};

use linerate_memory::Frame;
use linerate_port::Wake;

use crate::{
    error::{HandlerError, HandlerResult},
    handler::Handler,
};

mod builder;
mod class;
pub(crate) mod config_diagnostic;
mod context;
mod fields;
mod library;
mod node_runtime;
mod off_worker;
pub(crate) mod plan;
mod router_handle;
mod step;
pub(crate) mod value;

pub use builder::{BuildContext, ElementBuilder, Scope, SharedValues, unquoted};
pub use class::{Class, Copies, ElementStatements, Inert, Signals};
pub use context::Context;
pub(crate) use context::LateWrite;
pub use fields::{Arguments, derive};
pub use library::{DuplicateClass, Library};
pub(crate) use node_runtime::NodeRuntime;
pub use off_worker::OffWorker;
pub(crate) use off_worker::OffWorkers;
pub use plan::{Loaded, Plan, PlanElement, Processing, flow_outputs, load};
pub(crate) use router_handle::{RouterHandle, Task};
pub use step::{AccessMode, Covers, Exit, Exits, PerPacket, Reads, Step, Verdict, Writes};

/// One element of a running graph, used by one worker.
///
/// An element that treats each packet by itself is better a [`Step`], of which an
/// element is made. Of this trait's methods most elements need few: `push`, and `read` and `write`
/// for handlers. A source has a task (`initialize` schedules it, `run` is it) or a timer; a queue
/// has `pull`, `room` and `ready`, and returns the packets it holds in `close`.
///
/// # Frames
///
/// Every method that handles packets gets a frame. **Packets left in the frame leave by output 0**;
/// packets for other outputs are moved out with [`Outputs::emit`](crate::Outputs::emit), packets
/// that go no further with [`Context::drop_packet`] and its like. An element without outputs
/// empties the frame. The engine calls nothing per packet: loop over the frame.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element",
    note = "implement `Element` for it; if it is a `Step`, its class ends with `..{Self}::CLASS`"
)]
pub trait Element: Any + Send {
    /// Packets have arrived at input `port`, by push or because output 0 was
    /// pulled.
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let _ = port;
        cx.discard(frame);
    }

    /// Pulls at most `count` packets from output `port` into `frame`, which is empty and has room
    /// for them. Without an implementation of its own an element pulls its input 0 and treats those
    /// packets like pushed ones.
    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        cx.pull(port, count, frame);
        if !frame.is_empty() {
            self.push(cx, port, frame);
        }
    }

    /// The element's task runs. `frame` is empty, and may hold fewer packets than other
    /// frames.
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let _ = (cx, frame);
        Next::Sleep
    }

    /// Packets that its task handles in a turn, when its configuration says so: its runs are turns
    /// then, as in Click. Else each packet is a turn, and a run takes as many as `frame` has room
    /// for, a number that changes no result. Only handlers may change which of both it is.
    fn burst(&self) -> Option<usize> {
        None
    }

    /// A time set with [`Context::set_timer`] has come. `frame` is empty.
    fn timer(&mut self, cx: &mut Context, timer: u32, frame: &mut Frame) {
        let _ = (cx, timer, frame);
    }

    /// The run count is used up and this element manages the run
    /// ([`Context::manage_run`]): it may add to the count, else the run ends.
    fn run_ended(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// Packets that can be pushed to it before it drops some; asked of elements
    /// whose class says that they tell when they are full
    /// ([`Signals::full`](crate::Signals)).
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Packets that a pull can have at once, where the element knows: those that a queue holds, or
    /// a source still makes.
    fn ready(&self) -> Option<usize> {
        None
    }

    /// Packets that can come to it up to the one at which it calls a handler of
    /// another element, and with it; asked of elements whose class says that they do
    /// ([`Class::calls`](crate::Class::calls)).
    fn until_call(&self) -> usize {
        1
    }

    /// The event to wait for before the task runs again, when it last returned [`Next::Idle`] or
    /// [`Next::Wait`]. Asked right before sleeping.
    fn wake(&mut self) -> Wake<'_> {
        Wake::Never
    }

    /// As [`Element::wake`], for one that waits for several things: `add` is
    /// called with each.
    fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        add(self.wake());
    }

    /// The worker has nothing to do: [`Context::when_idle`] has asked for this
    /// call. Also comes now and then when it always has.
    fn idle(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// Starts tasks and timers and opens files and ports; all replicas exist and nothing runs yet.
    ///
    /// # Errors
    ///
    /// The reason, for the user. The configuration is then not run.
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let _ = cx;
        Ok(())
    }

    /// Takes over the state of the element of the same name and class in the
    /// configuration that is being replaced, or of itself before its
    /// configuration was written to. Called after [`Element::initialize`].
    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let _ = (cx, old);
    }

    /// The element is going away: give held packets back ([`Context::discard`]) and finish all work
    /// under way.
    fn close(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// Reads one of its class's handlers. Text without a newline at the end.
    ///
    /// # Errors
    ///
    /// When it cannot be read now or the parameter is wrong.
    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let _ = (cx, parameter);
        Err(HandlerError::missing(handler))
    }

    /// Writes one of its class's handlers; the text is usually empty.
    ///
    /// # Errors
    ///
    /// When the value is wrong. Nothing has then changed.
    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let _ = (cx, value);
        Err(HandlerError::missing(handler))
    }

    /// Returns the handlers of the class that need no worker ([`Handler::off_worker`]): asked of
    /// the first replica once it is made.
    fn off_worker(&self) -> Option<Arc<dyn OffWorker>> {
        None
    }

    /// Returns a handler that its class does not list: for elements whose configuration decides
    /// which handlers they have.
    fn handler(&self, name: &str) -> Option<&'static Handler> {
        let _ = name;
        None
    }

    /// The names of such handlers.
    fn handler_names(&self) -> Vec<String> {
        Vec::new()
    }
}

impl dyn Element {
    /// Downcasts to the element's own type, in [`Element::take_state`].
    pub fn downcast_mut<T: Element>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// When a task runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: there may be more to do.
    Again,
    /// At once, as far as the idle strategy allows: there was nothing to do.
    Idle,
    /// When [`Element::wake`] says so: there was nothing to do and looking
    /// again costs a system call.
    Wait,
    /// When it is woken, by [`Context::schedule`], a timer of its own, or a
    /// signal from an element it pulls from or pushes to.
    Sleep,
}
