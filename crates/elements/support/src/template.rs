//! Template of the packets that sources make.

use linerate_graph::{Context, ElementBuilder, unquoted};
use linerate_memory::Frame;

/// Data of Click's sources in a packet when none is given.
const DEFAULT_DATA: &str = "Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// The bytes of packets to make.
#[derive(Debug)]
pub struct Template {
    data: Vec<u8>,
    /// The length asked for; that of the data below zero.
    length: i64,
    bytes: Vec<u8>,
    room: usize,
}

impl Template {
    /// From the arguments `DATA` and `LENGTH`.
    pub fn from_args(make: &mut ElementBuilder<'_>) -> Template {
        let data = make.get::<Vec<u8>>("DATA").unwrap_or_else(|| DEFAULT_DATA.into());
        // The older name of the same; not every class has it.
        let name = if make.is_given("DATASIZE") { "DATASIZE" } else { "LENGTH" };
        let length = make.or(name, -1);
        Template::new(make, data, length)
    }

    /// Packets with these bytes, repeated to or cut at a length, or as they are when that is below
    /// zero.
    pub fn new(make: &mut ElementBuilder<'_>, data: Vec<u8>, length: i64) -> Template {
        let room = make.world.arena().room();
        if length > room as i64 || data.len() > room {
            make.error(format!("packets longer than a buffer ({room} bytes)"));
        }
        let mut template = Template { data, length, bytes: Vec::new(), room };
        template.fill();
        template
    }

    fn fill(&mut self) {
        let length = usize::try_from(self.length).unwrap_or(self.data.len()).min(self.room);
        self.bytes = self.data.iter().copied().cycle().take(length).collect();
        self.bytes.resize(length, 0);
    }

    /// Adds packets to a frame, at most `count`; returns how many.
    #[inline]
    pub fn make(&self, cx: &mut Context, count: usize, frame: &mut Frame) -> usize {
        let made = cx.pool.take(frame, count, self.bytes.len());
        let arena = cx.pool.arena();
        match self.bytes.len() {
            32..=64 => arena.for_each_mut(frame, |bytes| copy_two_halves::<32>(bytes, &self.bytes)),
            65..=128 => {
                arena.for_each_mut(frame, |bytes| copy_two_halves::<64>(bytes, &self.bytes));
            }
            _ => arena.for_each_mut(frame, |bytes| bytes.copy_from_slice(&self.bytes)),
        }
        cx.begin_packets(frame);
        made
    }

    /// The length of the packets.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The data, as a handler shows it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }

    /// The length, as a handler tells it.
    pub fn length_text(&self) -> String {
        self.length.to_string()
    }

    /// Other bytes.
    pub fn set_data(&mut self, value: &str) {
        self.data = unquoted(value).into_bytes();
        self.data.truncate(self.room);
        self.fill();
    }

    /// Another length.
    pub fn set_length(&mut self, length: i128) {
        self.length = length.clamp(-1, self.room as i128) as i64;
        self.fill();
    }
}

/// Gives packets the time of now as their stamp, where any element could see it.
pub fn stamp(cx: &Context, frame: &mut Frame) {
    if !cx.world().annotated {
        return;
    }
    let now = cx.now();
    let arena = cx.pool.arena();
    for meta in frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot)) {
        meta.timestamp = now;
    }
}

/// Copies between `N` and `2 N` bytes as the first and the last `N`, which may
/// overlap: two moves of a size known here, where a copy of a length known
/// only when it runs is a call.
#[inline(always)]
fn copy_two_halves<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}
