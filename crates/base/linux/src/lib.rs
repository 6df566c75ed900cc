//! The host: its network interfaces and the machine itself.
//!
//! [`interface`] asks and tells the kernel about interfaces, routes and
//! neighbours; [`local_socket`] finds the owners of UNIX sockets, and [`peer`] the user at the other end of a
//! connection; [`runtime_directory`] holds the control
//! sockets and tokens of an account; [`machine`] says what the machine offers to packet processing,
//! and puts threads on its cores; [`processor`] says whether it can run this program; [`socket`],
//! [`allocator`], [`bpf`], [`eventfd`] and [`sched_slice`] are system calls that no library wraps,
//! [`mod@close`] closes descriptors that may block, [`descriptors`] raises their limit, [`files`]
//! writes none over what is being read, and [`time`] knows the time zone. Nothing here is for the
//! packet path, and nothing knows what a packet is.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "mallopt(3)")]
pub mod allocator;
#[allow(unsafe_code, reason = "bpf(2)")]
pub mod bpf;
pub mod close;
pub mod descriptors;
#[allow(unsafe_code, reason = "io_submit(2)")]
pub mod eventfd;
pub mod files;
pub mod interface;
pub mod local_socket;
pub mod machine;
pub mod peer;
pub mod peer_stream;
#[allow(unsafe_code, reason = "CPUID")]
pub mod processor;
pub mod runtime_directory;
#[allow(unsafe_code, reason = "sched_getattr(2) and sched_setattr(2)")]
pub mod sched_slice;
#[allow(unsafe_code, reason = "setsockopt(2) and getsockopt(2)")]
pub mod socket;
pub mod socket_file;
mod suggest;
#[allow(unsafe_code, reason = "localtime_r(3) and strftime(3)")]
pub mod time;

pub use runtime_directory::{Claim, RuntimeDirectory, RuntimeDirectoryError};
pub use suggest::{closest, closest_keyword, similar};
