//! Element class: the constant description of a kind of element.
//!
//! One [`Class`] per element is the single source of its port counts, argument
//! and handler tables, generated reference page and constructor.

use std::{fmt, panic::Location};

use linerate_port::{Devices, PortUri};

use crate::{
    element::Element, make::ElementBuilder, names::Names, plan::Plan, right::Right,
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
    /// Reasons it drops packets for, in the order of their numbers
    /// ([`Context::drop_packet`](crate::Context::drop_packet)).
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
}

/// This file, from the root of the repository.
const THIS: &str = "crates/graph/src/class.rs";

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

/// The cost term that an element's cycles count towards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Getting packets in or out: `C_IO`.
    Io,
    /// Doing something with them: `C_task`.
    #[default]
    Task,
    /// Nothing: it informs or controls.
    Information,
}

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

/// One configuration argument.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// Its keyword.
    pub name: &'static str,
    /// Whether and where it must be given.
    pub need: Need,
    /// Whether it is looked for among the arguments all others left ([`Arg::late`]).
    pub late: bool,
    /// Whether it says how many packets the element may hold ([`Arg::holds`]).
    pub holds: Holds,
    /// The kind of value, for people: `bool`, `packets`, `bandwidth`.
    pub kind: &'static str,
    /// The value that holds when it is not given, for people.
    pub default: &'static str,
    /// Its effect, in a line.
    pub help: &'static str,
}

impl Arg {
    /// A positional argument that must be given.
    pub const fn required(name: &'static str, kind: &'static str, help: &'static str) -> Arg {
        Arg {
            name,
            need: Need::Positional { required: true },
            late: false,
            holds: Holds::Nothing,
            kind,
            default: "",
            help,
        }
    }

    /// A positional argument that may be left out.
    pub const fn optional(
        name: &'static str,
        kind: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Arg {
        let need = Need::Positional { required: false };
        Arg { name, need, late: false, holds: Holds::Nothing, kind, default, help }
    }

    /// A keyword argument that may be left out.
    pub const fn keyword(
        name: &'static str,
        kind: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Arg {
        let need = Need::Keyword { required: false };
        Arg { name, need, late: false, holds: Holds::Nothing, kind, default, help }
    }

    /// All positional arguments from here on ([`ElementBuilder::rest`]).
    pub const fn rest(name: &'static str, kind: &'static str, help: &'static str) -> Arg {
        Arg { name, need: Need::Rest, late: false, holds: Holds::Nothing, kind, default: "", help }
    }

    /// Keywords of the other arguments may be written in front of it. In Click
    /// elements decide that one by one: most want positional arguments first.
    pub const fn late(self) -> Arg {
        Arg { late: true, ..self }
    }

    /// It is the number of packets that the element keeps when it is full: packet memory has
    /// room for them ([`Plan::packets_held`]).
    pub const fn holds(self) -> Arg {
        Arg { holds: Holds::Once, ..self }
    }

    /// Sets `Holds::ForEach`: packets are held for each word of the class's [`Arg::rest`], except
    /// those of an argument from a word `if` or `where` on.
    pub const fn holds_for_each(self) -> Arg {
        Arg { holds: Holds::ForEach, ..self }
    }
}

/// Whether an argument is a number of packets that the element keeps when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It is not.
    Nothing,
    /// It is.
    Once,
    /// As many for each of several that the element names.
    ForEach,
}

/// Whether and where an argument must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// By its place or by its keyword.
    Positional {
        /// Whether it must be given.
        required: bool,
    },
    /// By its keyword.
    Keyword {
        /// Whether it must be given.
        required: bool,
    },
    /// Every positional argument not taken by one before.
    Rest,
}

/// One handler.
#[derive(Debug, Clone, Copy)]
pub struct Handler {
    /// Its name.
    pub name: &'static str,
    /// Whether it is read, written or both.
    pub access: Access,
    /// The value that is read or written, in a line.
    pub help: &'static str,
    /// Merging of the answers of several workers' replicas of the element.
    pub merge: Merge,
    /// Whether reading takes a parameter (`rate 5`).
    pub parameter: bool,
    /// Whether writing needs no value (a button).
    pub button: bool,
    /// Click's flags besides that, as its listings show them ([`Handler::flags`]).
    pub flags: &'static str,
    /// The right that reading it needs.
    pub read_right: Right,
    /// The right that writing it needs.
    pub write_right: Right,
    /// Whether it is kept from clients of control sockets.
    pub private: bool,
    /// Whether it needs no worker
    /// ([`Element::off_worker`]).
    pub off_worker: bool,
}

impl Handler {
    const fn new(name: &'static str, access: Access, help: &'static str) -> Handler {
        Handler {
            name,
            access,
            help,
            merge: Merge::First,
            parameter: false,
            button: false,
            flags: "",
            read_right: Right::Read,
            write_right: Right::Write,
            private: false,
            off_worker: false,
        }
    }

    /// A value that can be read.
    pub const fn read(name: &'static str, help: &'static str) -> Handler {
        Handler::new(name, Access::Read, help)
    }

    /// A number that can be read and is summed over replicas.
    pub const fn count(name: &'static str, help: &'static str) -> Handler {
        Handler { merge: Merge::Sum, ..Handler::read(name, help) }
    }

    /// A value that can be written.
    pub const fn write(name: &'static str, help: &'static str) -> Handler {
        Handler::new(name, Access::Write, help)
    }

    /// Something that can be done: written without a value.
    pub const fn button(name: &'static str, help: &'static str) -> Handler {
        Handler { button: true, ..Handler::write(name, help) }
    }

    /// A value that can be read and written.
    pub const fn value(name: &'static str, help: &'static str) -> Handler {
        Handler::new(name, Access::ReadWrite, help)
    }

    /// Returns the handler with Click's flags, in this order: `%` for raw text, `.` for a value that is
    /// calm (changes seldom), `$` for one that is expensive to read, `U` for one that is seldom of use,
    /// `D` for an older name, and `c` for a check box.
    pub const fn flags(self, flags: &'static str) -> Handler {
        Handler { flags, ..self }
    }

    /// Lets the handler take a parameter when it is read.
    pub const fn with_parameter(self) -> Handler {
        Handler { parameter: true, ..self }
    }

    /// Returns the handler with the right that reading it needs, where reading does more than answer.
    pub const fn read_needs(self, right: Right) -> Handler {
        Handler { read_right: right, ..self }
    }

    /// Returns the handler with the right that writing it needs: [`Right::Replace`] where it opens files or ports, runs
    /// scripts, or keeps handler calls that run later.
    pub const fn write_needs(self, right: Right) -> Handler {
        Handler { write_right: right, ..self }
    }

    /// Hides the handler from clients of control sockets.
    pub const fn private(self) -> Handler {
        Handler { private: true, ..self }
    }

    /// Runs the handler on the caller's thread, by the element's [`Element::off_worker`].
    pub const fn off_worker(self) -> Handler {
        Handler { off_worker: true, ..self }
    }

    /// Replaces the way answers of replicas are merged.
    pub const fn merged(self, merge: Merge) -> Handler {
        Handler { merge, ..self }
    }
}

/// Access to a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Returns true if it can be read.
    pub fn reads(self) -> bool {
        self != Access::Write
    }

    /// Returns true if it can be written.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// Merging of the answers of several replicas. Writes go to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// They are the same everywhere: the first is taken.
    First,
    /// Numbers are added.
    Sum,
    /// The greatest number is taken.
    Max,
    /// They are put one below the other.
    Lines,
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
            ("src/mine.rs", "/home/me/linerate/crates/graph/src/class.rs", "src/mine.rs"),
            (
                "/home/me/linerate/crates/elements/x/src/a.rs",
                "/home/me/linerate/crates/graph/src/class.rs",
                "crates/elements/x/src/a.rs",
            ),
            // All in cargo's registry.
            (
                "/home/me/.cargo/registry/src/index-0/linerate-elements-x-0.1.0/src/b/a.rs",
                "/home/me/.cargo/registry/src/index-0/linerate-graph-0.1.0/src/class.rs",
                "linerate-elements-x-0.1.0/src/b/a.rs",
            ),
        ] {
            assert_eq!(path_of(file, this), path);
        }
    }
}
