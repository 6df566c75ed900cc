//! A configuration that a test runs, and the elements it may use.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex},
};

use linerate_graph::{
    BuildError, Class, Console, HandlerResult, Library, Options, Router, lang::Globals, load,
};
use linerate_memory::{Arena, ArenaOptions};

use crate::classes::OWN;

/// Elements that the tests of a crate use in their configurations.
///
/// ```
/// use linerate_elements_testing::{RunWith, TestLibrary};
/// use linerate_graph::{Class, Library};
///
/// // In a crate: its own classes, and those of other crates.
/// const CLASSES: &[&Class] = &[];
///
/// struct Tested;
///
/// impl TestLibrary for Tested {
///     fn library() -> Library {
///         Library::new(CLASSES.iter().copied())
///     }
/// }
///
/// type Run = RunWith<Tested>;
/// assert_eq!(Run::errors("Packets(00) -> Collect"), "");
/// ```
pub trait TestLibrary {
    /// Returns the library; this crate's own elements join it.
    fn library() -> Library;
}

impl TestLibrary for () {
    fn library() -> Library {
        Library::default()
    }
}

/// A run with this crate's own elements, and those of [`RunWith::with`].
pub type Run = RunWith<()>;

/// Returns a library of the families of several crates.
pub fn from_families<const CRATES: usize>(crates: [&[&[&'static Class]]; CRATES]) -> Library {
    Library::new(crates.into_iter().flatten().copied().flatten().copied())
}

/// A configuration being run, with the elements of a library.
#[derive(Debug)]
pub struct RunWith<L: TestLibrary> {
    tested: PhantomData<fn() -> L>,
    text: String,
    library: Library,
    options: Options,
    output: Arc<Mutex<Vec<u8>>>,
    arena: Arena,
    devices: Vec<(String, linerate_port::PortUri)>,
    router: Option<Router>,
}

impl<L: TestLibrary> RunWith<L> {
    /// Returns the library, with the elements of this crate.
    pub fn library() -> Library {
        let library = L::library().with(OWN.iter().copied());
        library.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A configuration of elements of the library.
    pub fn new(text: &str) -> RunWith<L> {
        let (console, output) = Console::buffered();
        let arena = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
        RunWith {
            tested: PhantomData,
            text: text.into(),
            library: Self::library(),
            options: Options { simulated: true, console, ..Options::default() },
            output,
            arena: arena.create().expect("16 MiB"),
            devices: Vec::new(),
            router: None,
        }
    }

    /// Adds classes; they stand for those of the same name.
    pub fn with(mut self, classes: &[&'static Class]) -> RunWith<L> {
        let others = |class: &&Class| classes.iter().all(|more| more.name != class.name);
        let library = self.library.iter().filter(others).chain(classes.iter().copied());
        self.library = Library::new(library.collect::<Vec<_>>());
        self
    }

    /// Lets elements find for themselves where packets and their headers are.
    pub fn without_surveys(mut self) -> RunWith<L> {
        self.options.surveys = false;
        self
    }

    /// Sets the packets per frame: 1 gives Click's order of events.
    pub fn frame_limit(mut self, frame_limit: usize) -> RunWith<L> {
        self.options.frame_limit = frame_limit;
        self
    }

    /// Runs on several workers, in real time.
    pub fn workers(mut self, workers: usize) -> RunWith<L> {
        self.options.workers = workers;
        self.options.simulated = false;
        self
    }

    /// Gives every connection every right (`--insecure-control`).
    pub fn insecure_control(mut self) -> RunWith<L> {
        self.options.insecure_control = true;
        self
    }

    /// Lets connections that may write replace the configuration.
    pub fn grants_replace(mut self) -> RunWith<L> {
        self.options.grants_replace = true;
        self
    }

    /// Runs in real time.
    pub fn real_time(mut self) -> RunWith<L> {
        self.options.simulated = false;
        self
    }

    /// Adds a name for a port, `NAME=PORT`.
    pub fn device(mut self, device: &str) -> RunWith<L> {
        self.devices.push(linerate_port::parse_device(device).expect("NAME=PORT"));
        self
    }

    fn build(&self) -> Result<Router, String> {
        let library = &self.library;
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", &self.text, library, &Globals::default(), &mut loader);
        let Some(plan) = loaded.plan else { return Err(loaded.found.click()) };
        let ports = linerate_port::Context {
            devices: self.devices.iter().cloned().collect(),
            ..linerate_port::Context::new(self.arena.clone())
        };
        Router::new(plan, library, ports, &self.options).map_err(|error| match error {
            BuildError::Configuration(found) => found.click(),
            error => error.to_string(),
        })
    }

    /// Errors of a configuration, in Click's words.
    pub fn errors(text: &str) -> String {
        Self::new(text).refused()
    }

    /// Errors of this configuration, in Click's words; none when it can be run.
    pub fn refused(&self) -> String {
        self.build().err().unwrap_or_default()
    }

    fn router(&mut self) -> &mut Router {
        if self.router.is_none() {
            self.router = Some(self.build().unwrap_or_else(|errors| panic!("{errors}")));
        }
        self.router.as_mut().expect("just made")
    }

    /// The handle on it, for other threads.
    pub fn control(&mut self) -> linerate_graph::Control {
        self.router().control()
    }

    /// The context that its elements share.
    pub fn world(&mut self) -> Arc<linerate_graph::BuildContext> {
        Arc::clone(self.router().first().world())
    }

    /// Runs until something asks for the end.
    pub fn run(&mut self) {
        self.router().run();
    }

    /// Reads a handler, `element.handler`.
    pub fn read(&mut self, handler: &str) -> String {
        self.read_with(handler, "")
    }

    /// Reads a handler, `element.handler`, with a parameter.
    pub fn read_with(&mut self, handler: &str, parameter: &str) -> String {
        let result = self.router().read(handler, parameter);
        result.unwrap_or_else(|error| panic!("{handler}: {error}"))
    }

    /// Writes a handler, `element.handler`.
    pub fn write(&mut self, handler: &str, value: &str) -> HandlerResult {
        self.router().write(handler, value)
    }

    /// Output of elements so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }
}

impl<L: TestLibrary> RunWith<L> {
    /// Ends it: what elements say then is in the output. No buffer may be lost, and no packet
    /// dropped for a reason that the element's class does not declare.
    pub fn close(&mut self) {
        if let Some(mut router) = self.router.take() {
            router.close();
            let (plan, usage) = router.control().usage();
            drop(router);
            if !std::thread::panicking() {
                let workers = usage.iter();
                let elements = workers.flat_map(|usage| plan.elements.iter().zip(&usage.elements));
                for (at, usage) in elements {
                    let (name, class) = (&at.name, at.class.name);
                    assert_eq!(usage.undeclared, 0, "{name} :: {class}: undeclared drop reason");
                }
                assert_eq!(self.arena.accounting().held, 0, "buffers leaked by {}", self.text);
            }
        }
    }
}

impl<L: TestLibrary> Drop for RunWith<L> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::{Context, DropReason, Element};
    use linerate_memory::Frame;

    use super::*;

    /// declared
    #[derive(Clone, Copy, DropReason)]
    struct Declared;

    /// not declared
    #[derive(Clone, Copy, DropReason)]
    struct Other;

    const STRAY: Class = Class {
        name: "Stray",
        ports: "1/1",
        drops: Declared::REASONS,
        make: |_| Box::new(Stray),
        ..Class::here()
    };

    struct Stray;

    impl Element for Stray {
        fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
            cx.drop_frame(frame, Other);
        }
    }

    #[test]
    #[should_panic(expected = "s :: Stray: undeclared drop reason")]
    fn a_drop_for_an_undeclared_reason_fails_the_test() {
        let mut run = Run::new("Packets(00 01) -> s :: Stray -> Collect").with(&[&STRAY]);
        run.run();
        assert_eq!(run.read("s.drops"), "0\tdeclared\n2\tundeclared reason\n");
        run.close();
    }
}
