//! Engine that runs configurations in Click's language.
//!
//! [`lang`], a crate of its own, reads a configuration and makes a flat graph of it; [`Plan`]
//! checks it against the classes of a [`Library`]; [`Router`] makes the
//! elements and runs them on workers.
//!
//! # Writing elements
//!
//! An element is a struct. Its configuration and handlers are derived from its fields
//! ([`Arguments`]); its treatment of packets is a [`Step`], where each is treated alike, or else an
//! [`Element`]; a [`Class`] constant describes it to the rest of the program. The page
//! `docs/guide/write-an-element.md` in the repository goes from nothing to tested elements, in a project
//! of their own.
//!
//! # Where things are
//!
//! Modules import those above them in this list, and none below.
//!
//! - `right` (rights of handler calls), `drop_reason` (reasons for which elements drop packets),
//!   `error`, `console` (where text goes), `names` (of addresses and ports), `schedule` (tickets);
//!   `arguments` and [`handler`]: their declarations, and the rules by which texts are assigned to
//!   arguments and handlers may be called.
//! - `runtime`: the mechanisms of a worker, which know no element.
//! - `element`: the author's side. `class` (the description of a kind of element), the trait
//!   [`Element`], `step` (work on each packet by itself), `fields` (arguments and handlers from a
//!   struct), `value` and `builder` (configuration strings to values), `context` (the worker, as an
//!   element sees it), `library` (all classes), `plan` (a graph checked against them).
//! - `engine`: moves packets, wakes tasks, reads and writes handlers, replaces graphs. The methods of
//!   `context` that call elements are its.
//! - `options`, `build` (elements made and placed on workers), `control` (the handle others have on
//!   a router), `router` (the whole, and its threads).
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as linerate_graph;

mod arguments;
mod build;
mod console;
mod control;
mod drop_reason;
mod element;
mod engine;
mod error;
pub mod handler;
mod names;
mod options;
mod right;
mod router;
mod runtime;
mod schedule;

pub use arguments::{Arg, Holds, Need, keyword as argument_keyword};
pub use console::{Console, Listener};
pub use control::{Control, LivenessProbe};
pub use drop_reason::{DropReason, NoBuffer, NoDrop};
pub use element::{
    AccessMode, Arguments, BuildContext, Class, Context, Copies, Covers, DuplicateClass, Element,
    ElementBuilder, ElementStatements, Exit, Exits, Inert, Library, Loaded, Next, OffWorker,
    PerPacket, Plan, PlanElement, Processing, Reads, Scope, SharedValues, Signals, Step, Verdict,
    Writes, derive, flow_outputs, load, unquoted,
    value::{
        Annotation, Bandwidth, ElementRef, Filename, Fixed, HandlerCall, HandlerRef, IpProtocol,
        Ipv4OrPrefix, Ipv4Prefix, Ipv6OrPrefix, Ipv6Prefix, Keyword, Seconds, SignedTime, TcpPort,
        Text, UdpPort, Value, Word, integer_in, parse_bandwidth, parse_bool, parse_integer,
        parse_port, parse_time, parse_u32,
    },
};
pub use engine::{Answer, ConfigReader, Replacement};
pub use error::{BuildError, HandlerError, HandlerResult};
pub use handler::{Access, Handler, Merge};
pub use linerate_graph_derive::{Arguments, DropReason};
/// Configuration language.
pub use linerate_language as lang;
/// Packets, frames, and headers of eight packets, so that a crate of elements needs no other.
pub use linerate_memory::{
    Annotations, Column, Frame, HeaderBatch, HeaderKernel, HeaderLane, HeaderLocation, HeaderStart,
    LANES, Meta, Packet, PacketMut, PreservedFields, Slot,
};
pub use linerate_worker::Idle;
pub use names::{Addresses, Names, device_ipv4, filter_names};
pub use options::Options;
pub use right::Right;
pub use router::Router;
pub use runtime::{
    Clock, Driver, ElementUsage, Outputs, Rank, Replica, Role, TimeSpeed, Usage, WorkerStats,
};
pub use schedule::{Schedule, TICKETS_DEFAULT, TICKETS_LIMIT};
