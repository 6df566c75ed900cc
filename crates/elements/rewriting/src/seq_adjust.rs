//! Sequence adjustment: writes changed sequence numbers into TCP segments.

use linerate_packet::checksum::update32;

use super::{flow_set::FlowSet, rewrite::HeaderOffsets, sequence::Shift};

/// Changes the sequence number, the acknowledgement, and the selective acknowledgements (RFC 2018)
/// in a segment of a flow with changed payload.
#[cold]
pub(super) fn apply(
    set: &mut FlowSet,
    packet: &mut [u8],
    place: HeaderOffsets,
    at: u32,
    reply: bool,
) {
    let Some((own, other)) = set.shifts_of(at, reply) else { return };
    let Some(tcp) = packet.get_mut(usize::from(place.transport)..) else { return };
    let header = tcp.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let Some(tcp) = tcp.get_mut(..header).filter(|tcp| tcp.len() >= 20) else { return };
    if !own.is_empty() {
        change(tcp, 4, |number| own.sequence(number));
    }
    if !other.is_empty() {
        change(tcp, 8, |number| other.acknowledged(number));
        selective(tcp, other);
    }
}

/// Changes a number of 32 bits and the checksum.
fn change(tcp: &mut [u8], at: usize, new: impl FnOnce(u32) -> u32) {
    let Some(place) = tcp.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
        return;
    };
    let old = u32::from_be_bytes(*place);
    let new = new(old);
    *place = new.to_be_bytes();
    // At an odd place the halves of the sum's words change places.
    let (old, new) =
        if at.is_multiple_of(2) { (old, new) } else { (old.rotate_left(8), new.rotate_left(8)) };
    let check = u16::from_be_bytes([tcp[16], tcp[17]]);
    tcp[16..18].copy_from_slice(&update32(check, old, new).to_be_bytes());
}

fn selective(tcp: &mut [u8], other: &Shift) {
    let mut at = 20;
    while at < tcp.len() {
        let length = match (tcp[at], tcp.get(at + 1)) {
            (0, _) | (_, None) => return,
            (1, _) => 1,
            (_, Some(length)) => usize::from(*length),
        };
        if tcp[at] == 5 && length >= 2 && (length - 2) % 8 == 0 && at + length <= tcp.len() {
            for number in (at + 2..at + length).step_by(4) {
                change(tcp, number, |number| other.acknowledged(number));
            }
        }
        if length < 1 || tcp[at] != 1 && length < 2 {
            return;
        }
        at += length;
    }
}
