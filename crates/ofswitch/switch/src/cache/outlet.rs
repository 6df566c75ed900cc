//! Output interface of the flow cache.

use linerate_memory::{Frame, PoolCache, Slot};

/// Why packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// Flows send it nowhere, or none matches.
    Flows,
    /// It goes to a port that is not there, or sends nothing.
    Port,
    /// It came by a port that takes none.
    Receive,
    /// It had to be decided, and its port had used up its share of that.
    Budget,
    /// A meter.
    Meter,
    /// No buffer, or no room for a header.
    Room,
    /// It was looked up again and again.
    Loop,
    /// It is a fragment whose packet was not completed.
    Fragment,
}

impl Drop {
    /// Drop reasons as text, in order of the variants.
    pub const NAMES: [&'static str; 8] = [
        "no flow sends it anywhere",
        "its port out is not there or sends nothing",
        "its port takes no packets",
        "too many new flows at its port",
        "over a meter's rate",
        "no buffer or no room for a header",
        "looked up again too often",
        "a fragment of a packet whose others did not come",
    ];
}

/// Receiver of the packets of the flow cache. Ports are outputs here, counted from 0.
pub trait Outlet {
    /// Returns the pool of buffers.
    fn pool(&mut self) -> &mut PoolCache;

    /// Sends a packet.
    fn send(&mut self, output: usize, slot: Slot);

    /// Sends all packets of a frame by one port.
    fn send_frame(&mut self, output: usize, frame: &mut Frame);

    /// Each packet of a frame goes out by the port that has its place.
    fn distribute(&mut self, frame: &mut Frame, outputs: &[u32]);

    /// Drops a packet.
    fn drop_packet(&mut self, slot: Slot, why: Drop);

    /// Drops all packets of a frame.
    fn drop_frame(&mut self, frame: &mut Frame, why: Drop);
}
