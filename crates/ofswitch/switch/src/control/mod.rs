//! The OpenFlow channel: active and passive connections to the controllers of a
//! [`Switch`](crate::switch::Switch).
//!
//! An [`Agent`] serves any number of [`Target`]s at a time, in OpenFlow 1.0, 1.3, 1.4 and 1.5 with
//! the extensions of Nicira and ONF that Open vSwitch's tools use.
//!
//! # Guarantees to controllers
//!
//! Messages are handled in order, and a barrier is answered when workers forward by the changes
//! before it. Roles, generations and asynchronous messages are as OpenFlow 1.3 to 1.5 have them; a
//! controller on a passive connection gets no unsolicited message before it has set a length for
//! packets (`OFPT_SET_CONFIG`), as with Open vSwitch, since it may be a tool that asks one thing.
//! Packet-ins have as many bytes as the flow asks for, and all where it asks for none, as no
//! packets wait in the switch. A bundle is done as a whole or not at all.
//!
//! # Guarantees to the switch
//!
//! Only an authenticated peer is a controller: one with a certificate, or one whose user may
//! control the switch ([`Trust`]). The connections of each listener are limited, in all and of one
//! source, and those without a hello have few places and little time ([`Limits`]).
//!
//! A controller cannot block another. A thread of its own reads its messages, never more than 64
//! KiB and one message ahead. While 256 KiB of answers wait, nothing is read, and a long answer is
//! not continued; unsolicited messages that wait are bounded, and further ones dropped and counted.
//! The bundles of a controller take at most as much memory as they leave to others, of 128 MiB in
//! all. Changes are made in turn. A connection ends if its peer sends no hello, stays silent, stops
//! in a message or does not read.
//!
//! # Not there
//!
//! Buffers for packets (`buffer_id`), auxiliary connections, UDP, scheduled bundles,
//! putting fragments together (`OFPC_FRAG_REASM`), requests of statistics by a trigger, and
//! reading keys and certificates again while it runs.

mod admission;
mod agent;
mod busy_poll;
mod client;
mod connecting;
mod connection;
mod continuation_store;
mod events;
mod link;
mod monitors;
mod options;
mod outbox;
mod peers;
mod session;
mod shared;
mod state;
mod stop_flag;
mod target;
mod tls;
mod trust;
mod turns;
mod waker;

pub use admission::Limits;
pub use agent::{Agent, AgentError, AgentStatus, ControllerStatus, Conversation, TargetStatus};
pub use client::{Client, ClientError, ClientOptions, Refusal};
pub use connection::EndReason;
pub use options::{AgentOptions, Credentials, FailMode, PacketRate};
pub use target::{DEFAULT_PORT, Target, TargetError};
pub use tls::TlsError;
pub use trust::Trust;
