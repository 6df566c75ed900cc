//! Headroom for a header in front of packets.

use linerate_graph::{Context, DropReason, Exit, NoBuffer, Verdict, Writes};
use linerate_memory::{Arena, Frame, HeaderStart, PacketMut, Slot};

use linerate_element_support::headroom;

/// Drop reason of the elements that put headers in front.
#[derive(Clone, Copy, DropReason)]
pub(super) enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// Makes room for `length` bytes in front of one packet, whose network header is
/// then said to be at `network`. `false` when the buffer is too small or
/// shared.
#[inline]
pub(super) fn open_one(cx: &Context, slot: &mut Slot, length: usize, network: usize) -> bool {
    let arena = cx.pool.arena();
    if !headroom::push(arena, slot, length) {
        return false;
    }
    if cx.world().annotated {
        mark_network(arena, slot, network);
    }
    true
}

/// As `open_one`, for every packet. Those that cannot have the room are dropped; the others can be
/// written to.
#[inline]
pub(super) fn open(cx: &mut Context, frame: &mut Frame, length: usize, network: usize) {
    cx.unshare::<Reason>(frame);
    let all = frame.slots().iter().all(|slot| slot.headroom() >= length);
    if all && !cx.world().annotated {
        for slot in frame.slots_mut() {
            slot.push(length);
        }
    } else {
        open_each(cx, frame, length, network);
    }
}

/// Puts the same header in front of every packet, behind which the network header
/// begins. Packets that cannot have the room are dropped.
#[inline]
pub(super) fn put<const N: usize>(cx: &mut Context, frame: &mut Frame, header: &[u8; N]) {
    cx.unshare::<Reason>(frame);
    const { assert!(N >= 8 && N <= 24) };
    let annotated = cx.world().annotated;
    // In registers: an array would be loaded again for each packet that is written.
    let [start, middle, end] = [0, (N - 8).min(8), N - 8].map(|at| eight(header, at));
    // Nearly always there is room for all.
    if cx.pool.arena().unstrip_packets(frame, &mut cx.header_cache, N) {
        cx.retain::<Writes, Reason>(frame, |packet| {
            if let Some(to) = packet.bytes_mut().first_chunk_mut::<N>() {
                to[..8].copy_from_slice(&start.to_ne_bytes());
                if N > 16 {
                    to[8..16].copy_from_slice(&middle.to_ne_bytes());
                }
                to[N - 8..].copy_from_slice(&end.to_ne_bytes());
            }
            if annotated {
                packet.mark_network(N);
            }
            Ok(())
        });
        return;
    }
    headroom::make(cx.pool.arena(), frame, N);
    cx.retain::<Writes, Reason>(frame, |packet| {
        if headroom::put_header(packet, header, annotated) {
            Ok(())
        } else {
            Err(Exit::Drop(Reason::TooLong))
        }
    });
}

/// Eight of its bytes.
fn eight(header: &[u8], at: usize) -> u64 {
    header[at..].first_chunk().map_or(0, |eight| u64::from_ne_bytes(*eight))
}

/// Puts a header in front of one packet.
#[inline]
pub(super) fn put_one<const N: usize>(
    packet: &mut PacketMut<'_>,
    header: &[u8; N],
    annotated: bool,
) -> Verdict<Reason> {
    if packet.headroom() < N && packet.prepend(N) {
        packet.pull(N);
    }
    if headroom::put_header(packet, header, annotated) {
        Ok(())
    } else {
        Err(Exit::Drop(Reason::TooLong))
    }
}

fn open_each(cx: &mut Context, frame: &mut Frame, length: usize, network: usize) {
    let mut failed = Vec::new();
    frame.retain(|slot| open_one(cx, slot, length, network), |slot| failed.push(slot));
    failed.into_iter().for_each(|slot| cx.drop_packet(slot, Reason::TooLong));
}

/// Says how far behind the start of a packet that is not shared its network header begins.
/// Only for graphs with annotations.
#[inline]
pub(super) fn mark_network(arena: &Arena, slot: &mut Slot, network: usize) {
    let start = HeaderStart::new(slot.headroom(), network);
    if let Some(meta) = arena.meta_mut(slot) {
        meta.network = start;
    }
}
