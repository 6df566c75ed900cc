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
//! `docs/write-an-element.md` in the repository goes from nothing to tested elements, in a project
//! of their own.
//!
//! # Where things are
//!
//! From a flat graph to elements: `plan` (classes, port counts, push and pull ports), `arguments`,
//! `make` and `value` (configuration strings to values), `names` (of addresses and ports),
//! `schedule` (tickets), `build` (elements made and placed on workers), `router` (the whole, and
//! its threads).
//!
//! Elements: `class` (their description), `library` (all classes), `element` (the trait), `step`
//! (work on each packet by itself), `fields` (arguments and handlers from a struct).
//!
//! While it runs: `engine` moves packets, wakes tasks and counts; `handler` and `call`
//! read and write handlers, `off_worker` without a worker, `right` has the rights of handler calls; `control` is the handle others
//! have on it, `hotconfig` puts another graph in its place, `console` is where text
//! goes.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as linerate_graph;

mod arguments;
mod build;
mod call;
mod class;
mod config_diagnostic;
mod console;
mod control;
mod element;
mod engine;
mod error;
mod fields;
pub mod handler;
mod hotconfig;
mod library;
mod make;
mod names;
mod off_worker;
mod plan;
mod right;
mod router;
mod schedule;
mod step;
mod value;

pub use arguments::keyword as argument_keyword;
pub use class::{
    Access, Arg, Class, Copies, ElementStatements, Handler, Holds, Inert, Merge, Need, Role,
    Signals,
};
pub use console::{Console, Listener};
pub use control::{Control, LivenessProbe};
pub use element::{Element, Next};
pub use engine::{
    Clock, Context, Driver, ElementUsage, Outputs, Rank, TICKETS_DEFAULT, TICKETS_LIMIT, TimeSpeed,
    Usage, WorkerStats,
};
pub use error::{BuildError, HandlerError, HandlerResult};
pub use fields::{Arguments, Setting, derive};
pub use hotconfig::{ConfigReader, Replacement};
pub use library::{DuplicateClass, Library};
pub use linerate_graph_derive::Arguments;
/// Configuration language.
pub use linerate_language as lang;
/// Packets and frames, so that a crate of elements needs no other.
pub use linerate_memory::{Frame, HeaderStart, Meta, Packet, PacketMut, Slot};
pub use linerate_worker::Idle;
pub use make::{BuildContext, ElementBuilder, Replica, Scope, SharedValues, unquoted};
pub use names::{
    Addresses, Names, device_ipv4, ethers_lookup, known_port, known_protocol, system_host,
    system_network, system_port,
};
pub use off_worker::{Answer, OffWorker};
pub use plan::{Loaded, Plan, PlanElement, Processing, flow_outputs, load};
pub use right::Right;
pub use router::{Options, Router};
pub use schedule::Schedule;
pub use step::{AccessMode, Exit, Exits, PerPacket, Reads, Step, Verdict, Writes};
pub use value::{
    Annotation, Bandwidth, ElementRef, Filename, Fixed, HandlerCall, HandlerRef, IpProtocol,
    Ipv4OrPrefix, Ipv4Prefix, Ipv6OrPrefix, Ipv6Prefix, Keyword, Seconds, SignedTime, TcpPort,
    Text, UdpPort, Value, Word, integer_in, parse_bandwidth, parse_bool, parse_integer, parse_port,
    parse_time, parse_u32,
};
