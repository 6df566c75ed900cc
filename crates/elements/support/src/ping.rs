//! Replies to echo requests of ICMP and `ICMPv6`.

use linerate_memory::Meta;
use linerate_packet::checksum::update16;

use crate::ip::{get16, put16};

/// TTL or hop limit of a reply.
pub const HOPS: u8 = 255;

/// Place of the checksum in a message.
const CHECKSUM: usize = 2;

/// Turns an echo request into a reply with type and code `head`, and updates its checksum.
#[inline]
pub fn make_reply(message: &mut [u8], head: u16) {
    let before = get16(message, 0);
    put16(message, 0, head);
    let sum = update16(get16(message, CHECKSUM), before, head);
    put16(message, CHECKSUM, sum);
    // Only a message of zeros sums up to zero: its checksum is 0xffff.
    if sum == 0 && message.iter().all(|byte| *byte == 0) {
        put16(message, CHECKSUM, 0xffff);
    }
}

/// Sets the annotations of a reply: its destination, its time, and no paint.
#[inline]
pub fn annotate_reply(meta: &mut Meta, destination: &[u8], now: u64) {
    meta.destination[..destination.len()].copy_from_slice(destination);
    meta.timestamp = now;
    meta.paint = 0;
}
