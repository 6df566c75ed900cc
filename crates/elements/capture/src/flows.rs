//! Flows between two hosts, and their description in a file.

use std::{
    collections::VecDeque,
    io::{self, Write},
    net::Ipv4Addr,
};

use linerate_memory::Slot;

/// Flows of one protocol between two hosts.
#[derive(Debug)]
pub(super) struct Pair {
    /// Their addresses, the smaller first.
    pub(super) hosts: (u32, u32),
    /// Flows, the one used last first: most packets are of the first.
    pub(super) flows: Vec<Flow>,
    /// Fragments whose flow is not known, and all packets behind them.
    pub(super) held: VecDeque<(Slot, Fragment)>,
}

/// Fields of a packet that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment {
    /// The identification its IP header has.
    pub(super) id: u16,
    /// Whether it is a fragment.
    pub(super) is_fragment: bool,
    /// Flags of its TCP header, where it has one.
    pub(super) flags: Option<u8>,
}

/// A flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// Source and destination port from the smaller address's point of view.
    pub(super) ports: u32,
    pub(super) number: u32,
    /// Times of the first and the last packet, in nanoseconds.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Sides that have closed, a bit each.
    pub(super) over: u8,
    /// Whether the first packet came from the greater address.
    pub(super) reverse: bool,
    /// Packets in each direction.
    pub(super) packets: [u32; 2],
    /// Its begin in a trace file; zero when not known.
    pub(super) position: u64,
}

/// Both sides are done.
pub(super) const OVER: u8 = 3;

const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
const RST: u8 = 4;

impl Flow {
    pub(super) fn seconds(&self) -> u32 {
        (self.last / 1_000_000_000) as u32
    }

    /// Counts a packet of the flow.
    pub(super) fn account(&mut self, time: u64, paint: u8, flags: Option<u8>) {
        self.last = time;
        // An error about a packet is none of the flow's own.
        let Some(packets) = self.packets.get_mut(usize::from(paint)) else { return };
        *packets += 1;
        match flags {
            Some(flags) if flags & RST != 0 => self.over = OVER,
            Some(flags) if flags & FIN != 0 => self.over |= 1 << paint,
            Some(flags) if flags & SYN != 0 => self.over = 0,
            _ => {}
        }
    }
}

impl Pair {
    pub(super) fn new(hosts: (u32, u32)) -> Pair {
        Pair { hosts, flows: Vec::new(), held: VecDeque::new() }
    }

    /// Brings the flow to the front that `is` it.
    pub(super) fn find(&mut self, is: impl Fn(&Flow) -> bool) -> Option<&mut Flow> {
        let at = self.flows.iter().position(is)?;
        self.flows[..=at].rotate_right(1);
        self.flows.first_mut()
    }
}

/// The file flows are described in once they have ended.
pub(super) struct Trace(Box<dyn Write + Send>);

impl Trace {
    pub(super) fn new(mut sink: Box<dyn Write + Send>, file: Option<&str>) -> io::Result<Trace> {
        write!(sink, "<?xml version='1.0' standalone='yes'?>\n<trace")?;
        if let Some(file) = file.filter(|file| !file.is_empty()) {
            write!(sink, " file='{file}'")?;
        }
        writeln!(sink, ">")?;
        Ok(Trace(sink))
    }

    /// Describes a flow.
    pub(super) fn flow(&mut self, hosts: (u32, u32), flow: &Flow) -> io::Result<()> {
        let (near, far) = (Ipv4Addr::from(hosts.0), Ipv4Addr::from(hosts.1));
        let near = (near, flow.ports >> 16);
        let far = (far, flow.ports & 0xffff);
        let (source, destination) = if flow.reverse { (far, near) } else { (near, far) };
        let begin = time(flow.first);
        let duration = time(flow.last.saturating_sub(flow.first));
        let position = match flow.position {
            0 => String::new(),
            position => format!(" filepos='{position}'"),
        };
        writeln!(
            self.0,
            "<flow aggregate='{}' src='{}' sport='{}' dst='{}' dport='{}' begin='{begin}' \
             duration='{duration}'{position}>\n  \
             <stream dir='0' packets='{}' /><stream dir='1' packets='{}' />\n</flow>",
            flow.number,
            source.0,
            source.1,
            destination.0,
            destination.1,
            flow.packets[0],
            flow.packets[1]
        )
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        writeln!(self.0, "</trace>")?;
        self.0.flush()
    }
}

fn time(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}
