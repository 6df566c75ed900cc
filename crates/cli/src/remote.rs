//! Control sockets of commands that move packets without a graph, such as `generate` and `forward`.
//!
//! A small graph on a thread of its own, beside the command's workers, has the `ControlSocket`s and
//! an element with the command's name and handlers. Clients, tokens and protocol are those of `run`.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use linerate_graph::{
    Class, Console, Context, Control, Element, HandlerError, HandlerResult, Idle, Options, Role,
    Router, lang::Globals,
};
use linerate_memory::Arena;
use linerate_worker::Stop;

use crate::{
    args::Controlled, configuration::Parsed, control::ControlSockets, exit::ConfigurationError,
};

/// Handlers of a command, by the names of its class's handlers.
pub(crate) trait CommandHandlers: Send + Sync {
    /// Calls a read handler.
    fn read(&self, handler: &str) -> HandlerResult;

    /// Calls a write handler.
    fn write(&self, handler: &str, value: &str) -> HandlerResult;
}

/// Base of the class of a command's element; commands add its name and handlers.
pub(crate) const COMMAND: Class = Class {
    role: Role::Information,
    make: |_| Box::new(CommandElement::default()),
    ..Class::here()
};

/// An element that passes handler calls on to a command.
#[derive(Default)]
struct CommandElement {
    command: Option<Arc<dyn CommandHandlers>>,
}

impl CommandElement {
    fn command(&self, handler: &str) -> Result<&Arc<dyn CommandHandlers>, HandlerError> {
        self.command.as_ref().ok_or_else(|| HandlerError::missing(handler))
    }
}

impl Element for CommandElement {
    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<CommandElement>() {
            self.command = old.command.take();
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.command(handler)?.read(handler)
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.command(handler)?.write(handler, value)
    }
}

/// Makes a router's [`CommandElement`] pass handler calls on to `command`.
pub(crate) fn set_command(router: &mut Router, element: usize, command: Arc<dyn CommandHandlers>) {
    let set = |element: &mut CommandElement, _: &mut Context| element.command = Some(command);
    router.first().with_element(element, set);
}

/// Bound control sockets: clients can connect, and are answered from [`Remote::serve`] on.
pub(crate) struct Remote {
    router: Router,
    sockets: ControlSockets,
}

/// The thread that answers clients of the control sockets, until this is dropped.
pub(crate) struct ControlServer {
    control: Control,
    thread: Option<JoinHandle<()>>,
    sockets: ControlSockets,
}

impl ControlServer {
    /// Returns the sockets.
    pub(crate) fn sockets(&self) -> &ControlSockets {
        &self.sockets
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Remote {
    /// Binds the control sockets that the options name; `None` if they name none. The command's
    /// element has the name `command`, and the handlers of `class`.
    ///
    /// # Errors
    ///
    /// When a socket cannot be bound.
    pub(crate) fn listen(
        controlled: &Controlled,
        command: &str,
        class: &'static Class,
        arena: &Arena,
    ) -> Result<Option<Remote>> {
        if controlled.control.is_empty() {
            return Ok(None);
        }
        let mut sockets = controlled.sockets(command)?;
        let library = linerate_elements::library().with([class])?;
        let text = format!("{command} :: {}", class.name);
        let mut parsed = Parsed::new(command, &text, &Globals::default(), &library, "");
        for (number, config) in sockets.configs().into_iter().enumerate() {
            parsed.add_control_socket(number, config);
        }
        let (plan, sources) = parsed.into_plan(&library)?;
        let options = Options {
            idle: Idle::Block,
            cycles: false,
            cache: 0,
            console: Console::new(io::stderr(), io::stderr()),
            ..Options::default()
        };
        let ports = linerate_port::Context::new(arena.clone());
        let mut router = Router::new(plan, &library, ports, &options)
            .map_err(|error| ConfigurationError::from_build_error(error, &sources))?;
        sockets.bound(&mut router)?;
        Ok(Some(Remote { router, sockets }))
    }

    /// Returns the sockets.
    pub(crate) fn sockets(&self) -> &ControlSockets {
        &self.sockets
    }

    /// Answers clients with the handlers of `command`. Raises `stop` when a client stops the run.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(crate) fn serve(
        self,
        command: Arc<dyn CommandHandlers>,
        stop: &Stop,
    ) -> Result<ControlServer> {
        let Remote { mut router, sockets } = self;
        // The command's element is the first of the configuration.
        set_command(&mut router, 0, command);
        let (control, stop) = (router.control(), stop.clone());
        let thread = thread::Builder::new().name("control".into()).spawn(move || {
            router.run();
            stop.raise();
            router.close();
        });
        let thread = Some(thread.context("cannot start a thread for control connections")?);
        Ok(ControlServer { control, thread, sockets })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use linerate_graph::Handler;
    use linerate_memory::ArenaOptions;

    use super::*;

    const CLASS: Class =
        Class { name: "Example", handlers: &[Handler::value("value", "a value")], ..COMMAND };

    struct Example(Mutex<String>);

    impl CommandHandlers for Example {
        fn read(&self, _: &str) -> HandlerResult {
            Ok(self.0.lock().unwrap().clone())
        }

        fn write(&self, _: &str, value: &str) -> HandlerResult {
            if value.is_empty() {
                return Err(HandlerError::refused("it must be something"));
            }
            *self.0.lock().unwrap() = value.into();
            Ok(String::new())
        }
    }

    #[test]
    fn a_command_has_handlers_until_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("x.sock").to_str().unwrap().parse().unwrap();
        let controlled =
            Controlled { control: vec![address], token_file: None, control_mode: None };
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = arena.create().unwrap();
        let remote = Remote::listen(&controlled, "example", &CLASS, &arena).unwrap().unwrap();
        let (example, stop) = (Arc::new(Example(Mutex::default())), Stop::new());
        let server = remote.serve(example, &stop).unwrap();
        let control = &server.control;
        control.write("example.value", "7").unwrap();
        assert_eq!(control.read("example.value", "").unwrap(), "7");
        assert!(control.write("example.value", "").is_err());
        assert!(control.read("example.handlers", "").unwrap().contains("value\trw"));
        assert!(!stop.is_raised());
        drop(server);
        assert!(stop.is_raised());
        let none = Controlled { control: Vec::new(), token_file: None, control_mode: None };
        assert!(Remote::listen(&none, "example", &CLASS, &arena).unwrap().is_none());
    }
}
