//! Memory for a port's packets.
//!
//! Each handle has its own, as large as its port's packets want. Rings have theirs in common, since
//! a packet sent into one end comes out of the other in place.

use std::sync::{Mutex, PoisonError};

use linerate_linux::interface;
use linerate_memory::{Arena, ArenaOptions, BUFFER_MAX, stride_for};
use linerate_port::{Context, PortUri, packets_kept};

use super::OpenFailure;

/// Packets there is room for. Half of them wait in the kernel where it fills our buffers.
const BUFFERS: usize = 8192;
/// Most buffers, for any buffer size that a program sets.
const BUFFERS_MAX: usize = 1 << 18;
/// Bytes beside a buffer: metadata and a count of its holders.
const BESIDE: usize = 64 + 4;
/// Bytes around a packet's payload: headers of link and tag, and the room that drivers keep.
const AROUND: usize = 512;

/// The rings of this process, and the memory they share.
static RINGS: Mutex<Option<Context>> = Mutex::new(None);

/// A context for a port, on memory that fits it.
pub(super) fn context(uri: &PortUri, buffer_size: usize) -> Result<Context, OpenFailure> {
    if uri.driver() != "ring" {
        return Ok(Context::new(create(uri, buffer_size)?));
    }
    let mut rings = RINGS.lock().unwrap_or_else(PoisonError::into_inner);
    match &*rings {
        Some(context) => Ok(context.clone()),
        None => Ok(rings.insert(Context::new(create(uri, buffer_size)?)).clone()),
    }
}

fn create(uri: &PortUri, buffer_size: usize) -> Result<Arena, OpenFailure> {
    // Buffers that the kernel receives into, or that others map, are there from the start.
    let gradual = matches!(uri.driver(), "packet" | "tap" | "tun" | "pcap" | "null");
    let mut options = ArenaOptions { gradual, ..ArenaOptions::default() };
    if uri.driver() == "packet" {
        // An interface that is not there is the port's to complain about.
        let mtu = interface::find(uri.name()).map_or(0, |link| link.mtu as usize);
        options.buffer_size = options.buffer_size.max(mtu + AROUND).min(BUFFER_MAX);
    }
    let stride = stride_for(options.buffer_size);
    let count = (buffer_size / stride).clamp(BUFFERS + packets_kept(uri), BUFFERS_MAX);
    options.size = count * (stride + BESIDE) + (64 << 10);
    options.create().map_err(|error| OpenFailure::other(format!("{uri}: {error}")))
}
