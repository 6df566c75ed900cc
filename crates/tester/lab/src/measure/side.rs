//! Reception and transmission, each alone.
//!
//! Frames are brought to where the measured side begins outside the time that is
//! measured. A block is short enough for all its frames to stay in the first
//! cache, as the one frame of a worker does.

use std::time::Duration;

use linerate_memory::{
    Frame, PoolCache,
    clock::{cycles, cycles_in},
};
use linerate_port::Context;

use super::{
    Failure, arena, burst,
    port_pair::{PortPair, pool},
};
use crate::{
    instruments::Blocks,
    point::{Side, Spec, Values},
};

/// Times a block in memory is repeated and added up.
const ROUNDS: u32 = 64;
/// Frames of a block; those of two bursts if that is more.
const BLOCK: usize = 256;

pub(super) fn receive(point: &Side, spec: &Spec) -> Result<Values, Failure> {
    run(point, spec, |pair, pool, frames, count| {
        pair.feed(pool, count)?;
        let endless = pair.is_endless();
        let before = cycles();
        let mut moved = 0;
        for frame in frames.iter_mut() {
            moved +=
                if endless { pair.receive.receive(pool, frame)? } else { pair.fed(pool, frame)? };
        }
        let took = cycles() - before;
        give_back(pair, pool, frames)?;
        Ok((took, moved))
    })
}

pub(super) fn transmit(point: &Side, spec: &Spec) -> Result<Values, Failure> {
    let length = point.frame as usize - crate::sizes::FCS;
    run(point, spec, |pair, pool, frames, _| {
        let endless = pair.is_endless();
        let mut moved = 0;
        for frame in frames.iter_mut() {
            moved += if endless {
                pair.receive.receive(pool, frame)?
            } else {
                let taken = pool.take(frame, frame.limit(), length);
                pool.arena().for_each_mut(frame, |bytes| bytes[..14].fill(2));
                taken
            };
        }
        let before = cycles();
        for frame in frames.iter_mut() {
            pair.send(pool, frame)?;
        }
        if !endless {
            pair.flush(pool)?;
        }
        Ok((cycles() - before, moved))
    })
}

/// Repeats a block that returns its cycles and packets.
fn run(
    point: &Side,
    spec: &Spec,
    mut block: impl FnMut(
        &mut PortPair,
        &mut PoolCache,
        &mut [Frame],
        usize,
    ) -> Result<(u64, usize), Failure>,
) -> Result<Values, Failure> {
    let burst = burst(point.burst)?;
    let count = BLOCK.max(2 * burst) / burst * burst;
    // A ring that holds a block, and never quite runs empty.
    let slots = (2 * count).next_power_of_two() as u32;
    let context = Context::new(arena(4096 + 4 * slots as usize, point.frame)?);
    let mut pool = pool(&context.arena, count);
    let mut pair = PortPair::open(&context, point.driver, 0, point.frame, slots)?;
    let mut frames: Vec<Frame> = (0..count / burst).map(|_| Frame::new(burst)).collect();
    let mut blocks = Blocks::new();
    block(&mut pair, &mut pool, &mut frames, count)?;
    let overhead = reading();
    let end = cycles() + cycles_in(Duration::from_millis(spec.duration_ms));
    while cycles() < end || blocks.packets() == 0 {
        // Where the counter advances in steps, the time lost in a step evens out.
        let (mut took, mut whole, mut moved) = (0, 0, 0);
        for _ in 0..if pair.is_endless() { ROUNDS } else { 1 } {
            let (round, packets) = block(&mut pair, &mut pool, &mut frames, count)?;
            if packets == count {
                took += round;
                whole += 1;
            }
            moved = packets;
        }
        let cost = took as f64 - overhead * whole as f64;
        blocks.add(cost.max(0.0) as u64, whole * count as u64, whole * frames.len() as u64);
        if whole == 0 && cycles() > end {
            return Err(Failure::void(format!("of {count} frames {moved} arrived")));
        }
    }
    pair.close(&mut pool);
    blocks.values().ok_or_else(|| Failure::void("no packet came through"))
}

/// Cycles between two readings with nothing in between, on average.
fn reading() -> f64 {
    const READINGS: u32 = 4096;
    let pair = |_| {
        let before = cycles();
        cycles() - before
    };
    let mut pairs: Vec<u64> = (0..READINGS).map(pair).collect();
    pairs.sort_unstable();
    // Without those that were interrupted.
    let most = &pairs[..pairs.len() * 9 / 10];
    most.iter().sum::<u64>() as f64 / most.len() as f64
}

/// To where they come from, or to the pool.
fn give_back(
    pair: &mut PortPair,
    pool: &mut PoolCache,
    frames: &mut [Frame],
) -> Result<(), Failure> {
    for frame in frames {
        if pair.is_endless() {
            pair.send(pool, frame)?;
        } else {
            pool.give(frame);
        }
    }
    Ok(())
}
