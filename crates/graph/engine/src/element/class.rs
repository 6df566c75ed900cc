//! Element class: the constant description of a kind of element.
//!
//! One [`Class`] per element is the single source of its port counts, argument
//! and handler tables, generated reference page and constructor.

use std::{fmt, panic::Location};

use linerate_port::{Devices, PortUri};

use super::{Element, ElementBuilder, Plan};
use crate::{
    arguments::Arg,
    handler::{self, Handler},
    names::Names,
    right::Right,
    runtime::Role,
    schedule::Schedule,
};

/// A kind of element. Written as a constant:
/// `Class { name: "Counter", ports: "1/1", .., ..Counter::CLASS }`, on what follows from the
/// struct that is the element: [`Step::CLASS`](crate::Step::CLASS),
/// [`Class::for_element`](Class::for_element), or nothing, [`Class::here`].
///
/// - `name`, `ports` and `processing` say how it is used in configurations, `drops` why it
///   drops packets.
/// - `family`, `summary`, `description`, `cost` and `example` are its page in the reference.
/// - The others are facts about it for the engine, false or none for most. An element that uses
///   [`Meta`](linerate_memory::Meta) says so by `annotates`; a source whose packets come
///   from outside is `external_input`; an element that decides by the packets before
///   `order_dependent`.
#[derive(Clone, Copy)]
pub struct Class {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its effect, in a line, lower case, without a full stop.
    pub summary: &'static str,
    /// Facts that a user must know to use it, in Markdown paragraphs.
    pub description: &'static str,
    /// Port counts as Click writes them: `1/1`, `1-2/0`, `1/-`, `-/=`, `1/1-2`.
    pub ports: &'static str,
    /// Push (`h`), pull (`l`) or agnostic (`a`) per port, the last repeating:
    /// `a/a`, `h/l`, `a/ah`.
    pub processing: &'static str,
    /// Outputs by which packets of each input may leave: `x/x`, `x/y`, `#/#`.
    pub flow: &'static str,
    /// Arguments, positional ones first.
    pub args: &'static [Arg],
    /// Handlers besides those every element has.
    pub handlers: &'static [Handler],
    /// The right to change its configuration while it runs, by its handler `config`:
    /// [`Right::Replace`] where arguments name files, ports or handlers; `None` if it cannot be changed.
    pub reconfigured: Option<Right>,
    /// Its cost and the reason for it, for the reference page.
    pub cost: &'static str,
    /// A configuration that uses it and runs as it stands.
    pub example: &'static str,
    /// The cost term that its cycles count towards.
    pub role: Role,
    /// Its part in sleeping and waking.
    pub signals: Signals,
    /// The part of the library it is in, for the reference's table of contents.
    pub family: &'static str,
    /// Reasons it drops packets for: the list of its [`DropReason`](crate::DropReason), which
    /// [`Step::CLASS`](crate::Step::CLASS) has already.
    pub drops: &'static [&'static str],
    /// Whether it uses or sets the annotations of packets ([`Meta`](linerate_memory::Meta)). Where
    /// no element of a graph does, that memory is never touched.
    pub annotates: bool,
    /// Whether it depends on how packets were addressed on their link
    /// ([`Meta::packet_type`](linerate_memory::Meta)). Where no element of a graph asks, those that
    /// receive packets do not find out.
    pub needs_packet_type: bool,
    /// Whether each worker gets one of its own even where nothing leads to it:
    /// a source with a queue per worker.
    pub replicates: bool,
    /// Whether packets come out of it when they come in from outside. In a graph with such an
    /// element the interleaving of tasks a packet at a time is unknown, since arrivals are.
    pub external_input: bool,
    /// Whether it sends copies of a packet by several outputs, and how they are told apart.
    pub copies: Copies,
    /// Most packets that leave by one output for one that comes and has at most so many bytes;
    /// `usize::MAX` where it cannot be told before, as where packets wait for another and go with it.
    pub multiplies: fn(&Plan, usize, usize) -> usize,
    /// Whether its task sends nothing while everything behind it is full
    /// ([`Context::is_downstream_full`](crate::Context::is_downstream_full)).
    pub stops: bool,
    /// The elements whose number of waiting packets it looks at, by their places in the plan, or
    /// itself where its results depend on which of several tasks had a turn before. Tasks that fill
    /// or empty them, or pull through them, take one turn at a time.
    pub observes: fn(&Plan, usize) -> Vec<usize>,
    /// Whether where a packet goes depends on how many came before it: it deals them
    /// out.
    pub order_dependent: bool,
    /// Whether it writes about packets to the console. All that do get their packets
    /// in one order.
    pub prints: bool,
    /// The elements whose state decides its treatment of a packet, or that look at its own, by
    /// their places in the plan. They get their packets in one order with it.
    pub observes_state_of: fn(&Plan, usize) -> Vec<usize>,
    /// Whether it calls handlers of any other elements at certain packets. Such a packet
    /// sets out alone ([`Element::until_call`]).
    pub calls: fn(&Plan, usize) -> bool,
    /// Whether the order in which an element of a graph gets packets of different tasks is visible
    /// outside, besides printing and calls: it writes packets that come by several ways one after
    /// the other. The `click` program runs such a graph a packet at a time, in Click's order.
    pub shows_order: fn(&Plan, usize) -> bool,
    /// Whether it is initialized behind all that are not. Tasks that run from the start
    /// have their first turns in that order.
    pub late_init: bool,
    /// Whether it may write bytes of packets, its own or those it gets. Where nothing in a graph does,
    /// sources whose packets are all alike write theirs once.
    pub writes: bool,
    /// The ports that an element of a graph opens by the names of devices, besides URIs and names
    /// among its arguments for which these devices have a port. Errors there are reported when the
    /// element is made.
    pub opens: fn(&Plan, usize, &Devices) -> Vec<PortUri>,
    /// Collects its statements about other elements (names, workers, tickets) before any is made.
    pub prepare: Option<fn(&mut ElementBuilder<'_>, &mut ElementStatements)>,
    /// The source file it is declared in, as the compiler was told of it
    /// ([`Class::path`]).
    pub file: &'static str,
    /// Makes one. Wrong arguments are reported through [`ElementBuilder`], which also
    /// gives stand-in values, so that all errors of a configuration are found
    /// at once.
    pub make: fn(&mut ElementBuilder<'_>) -> Box<dyn Element>,
}

/// Copies of one packet that an element sends by several outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Nothing: each packet leaves by one.
    None,
    /// Copies that share a buffer, and hence a place in the order of packets. Where they
    /// meet again, packets must come to the element one by one.
    Shared,
    /// A copy in front of the packet, by [`Context::copy_before`](crate::Context::copy_before),
    /// which gives each of them a place of its own where ways meet again.
    Placed,
}

impl Class {
    /// A class without arguments, handlers and documentation, to be completed. It is
    /// declared in the file that says so. One that is completed from another file's says
    /// `file: file!()`.
    #[track_caller]
    pub const fn here() -> Class {
        Class {
            name: "",
            summary: "",
            description: "",
            ports: "0/0",
            processing: "a/a",
            flow: "x/x",
            args: &[],
            handlers: &[],
            reconfigured: None,
            cost: "",
            example: "",
            role: Role::Task,
            signals: Signals::NONE,
            family: "",
            drops: &[],
            annotates: false,
            needs_packet_type: false,
            replicates: false,
            external_input: false,
            copies: Copies::None,
            multiplies: |_, _, _| 1,
            stops: false,
            observes: |_, _| Vec::new(),
            order_dependent: false,
            prints: false,
            observes_state_of: |_, _| Vec::new(),
            calls: |_, _| false,
            shows_order: |_, _| false,
            late_init: false,
            writes: true,
            opens: |_, _, _| Vec::new(),
            prepare: None,
            file: Location::caller().file(),
            make: |_| Box::new(Inert),
        }
    }

    /// The source file it is declared in, from the root of its repository. Of a package that
    /// was compiled from elsewhere, such as cargo's registry, from the package's folder.
    pub fn path(&self) -> &'static str {
        path_of(self.file, file!())
    }

    /// The declaration of an argument.
    pub fn arg(&self, name: &str) -> Option<&'static Arg> {
        self.args.iter().find(|arg| arg.name == name)
    }

    /// A handler of its elements: of the class's own, or one that every element has.
    pub fn handler(&self, name: &str) -> Option<&'static Handler> {
        let own = self.handlers.iter().find(|handler| handler.name == name);
        own.or_else(|| self.common_handlers().find(|handler| handler.name == name))
    }

    /// The handlers that every element has, as they are for an element of this class.
    pub fn common_handlers(&self) -> impl DoubleEndedIterator<Item = &'static Handler> + use<> {
        handler::common(self.reconfigured)
    }
}

/// This file, from the root of the repository.
const THIS: &str = "crates/graph/engine/src/element/class.rs";

/// Cuts the machine's own directories off the path of a file, which cargo passes to the compiler
/// relative within a workspace and absolute outside. `this` is how this file was called.
fn path_of<'a>(file: &'a str, this: &str) -> &'a str {
    let root = this.strip_suffix(THIS).filter(|root| !root.is_empty());
    if let Some(inside) = root.and_then(|root| file.strip_prefix(root)) {
        return inside;
    }
    let package = file.rfind("/src/").filter(|_| file.starts_with('/'));
    let before = package.and_then(|package| file[..package].rfind('/'));
    before.map_or(file, |slash| &file[slash + 1..])
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Class").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Statements of information elements about others.
#[derive(Debug, Default)]
pub struct ElementStatements {
    /// Names of addresses and ports.
    pub names: Names,
    /// Worker of an element, by its place in the plan.
    pub workers: Vec<(usize, usize)>,
    /// Tickets of elements' tasks.
    pub schedule: Schedule,
}

/// An element that has no packets to do anything with.
#[derive(Debug)]
pub struct Inert;

impl Element for Inert {}

/// Signals between an element and the tasks around it, for sleeping and waking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals {
    /// As a pull source it wakes the tasks that pull from it when it has packets
    /// ([`Context::notify`](crate::Context::notify)), so they may sleep.
    pub empty: bool,
    /// As a push target it tells its sources when it is full and when it has
    /// room again ([`Context::set_full`](crate::Context::set_full)).
    pub full: bool,
}

impl Signals {
    /// Neither.
    pub const NONE: Signals = Signals { empty: false, full: false };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_knows_its_file() {
        const CLASS: Class = Class { name: "A", ..Class::here() };
        assert_eq!(CLASS.path(), THIS);
    }

    #[test]
    fn paths_say_nothing_of_the_machine() {
        for (file, this, path) in [
            // In the workspace of this repository.
            ("crates/elements/x/src/a.rs", THIS, "crates/elements/x/src/a.rs"),
            // In that of another, this one beside it.
            (
                "src/mine.rs",
                "/home/me/linerate/crates/graph/engine/src/element/class.rs",
                "src/mine.rs",
            ),
            (
                "/home/me/linerate/crates/elements/x/src/a.rs",
                "/home/me/linerate/crates/graph/engine/src/element/class.rs",
                "crates/elements/x/src/a.rs",
            ),
            // All in cargo's registry.
            (
                "/home/me/.cargo/registry/src/index-0/linerate-elements-x-0.1.0/src/b/a.rs",
                "/home/me/.cargo/registry/src/index-0/linerate-graph-0.1.0/src/element/class.rs",
                "linerate-elements-x-0.1.0/src/b/a.rs",
            ),
        ] {
            assert_eq!(path_of(file, this), path);
        }
    }
}
