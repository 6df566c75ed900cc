//! Elements that choose outputs of packets, and the paint they go by.

use linerate_graph::{Class, Context};
use linerate_memory::{Arena, Frame, Slot};

mod block;
mod bypass;
mod flow_balancer;
mod hash_switch;
mod hub;
mod input_switch;
mod paint_switch;
mod pull_switch;
mod random_switch;
mod round_robin_switch;
mod stride_switch;
mod suppressor;
mod switch;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &block::CLASS,
    &bypass::CLASS,
    &flow_balancer::CLASS,
    &hash_switch::CLASS,
    &hub::CLASS,
    &input_switch::CLASS,
    &paint_switch::CLASS,
    &pull_switch::PULL_SWITCH,
    &pull_switch::SIMPLE_PULL_SWITCH,
    &pull_switch::STATIC_PULL_SWITCH,
    &random_switch::CLASS,
    &round_robin_switch::CLASS,
    &stride_switch::CLASS,
    &suppressor::CLASS,
    &switch::STATIC_SWITCH,
    &switch::SWITCH,
];

/// The name of the family in the reference.
const FAMILY: &str = "switching";

/// Sends each packet by the output `choose` names. Packets for output 0 stay
/// in the frame; those for outputs there are not are dropped by the engine.
#[inline]
fn split(cx: &mut Context, frame: &mut Frame, mut choose: impl FnMut(&Arena, &Slot) -> usize) {
    let Context { pool, out, .. } = cx;
    let arena = pool.arena();
    let chosen = std::cell::Cell::new(0);
    frame.retain(
        |slot| {
            chosen.set(choose(arena, slot));
            chosen.get() == 0
        },
        |slot| out.emit(chosen.get(), slot),
    );
}

/// Sends a copy of all packets of a frame by an output.
fn send_copies(cx: &mut Context, frame: &mut Frame, output: usize) {
    for slot in frame.slots_mut() {
        if let Some(copy) = cx.pool.share(slot) {
            cx.out.emit(output, copy);
        }
    }
}
