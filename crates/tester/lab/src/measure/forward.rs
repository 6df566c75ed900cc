//! Frames from a port to a port.

use std::{sync::Barrier, thread, time::Duration};

use linerate_linux::machine::pin_current_thread;
use linerate_memory::{Frame, PoolCache, clock::cycles};
use linerate_port::Context;

use super::{
    Bench, Failure, arena, burst,
    port_pair::{PortPair, pool},
    work::Work,
};
use crate::{
    instruments::{Blocks, Frequency},
    point::{Forward, Spec, Values, value},
};

/// Frames of a block over interfaces; those of two bursts if that is more.
const FED: usize = 256;

pub(super) fn measure(bench: &Bench, point: &Forward, spec: &Spec) -> Result<Values, Failure> {
    let workers = point.workers.max(1) as usize;
    let cores = bench.cores(workers)?;
    let _held = match point.clock_khz {
        0 => None,
        khz => Some(Frequency::hold(cores[0], khz).map_err(Failure::unsupported)?),
    };
    if workers == 1 {
        return worker(point, spec, || ());
    }
    if point.driver.needs_interfaces() {
        let reason = format!("{} ports are measured with one worker", point.driver);
        return Err(Failure::Unsupported(reason));
    }
    let begin = Barrier::new(workers);
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .map(|core| {
                let begin = &begin;
                scope.spawn(move || {
                    let _ = pin_current_thread(*core);
                    worker(point, spec, || {
                        begin.wait();
                    })
                })
            })
            .collect();
        let died = || Failure::void("a worker died");
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(died()))).collect()
    });
    together(results)
}

/// The figures of workers: rates add up, and the cost of a packet is that of the mean worker.
fn together(results: Vec<Result<Values, Failure>>) -> Result<Values, Failure> {
    let workers = results.len() as f64;
    let mut all = Values::new();
    for values in results {
        for (name, figure) in values? {
            let sums = [value::RATE, "packets", "blocks"].contains(&name.as_str());
            let share = if sums { figure } else { figure / workers };
            *all.entry(name).or_insert(0.0) += share;
        }
    }
    Ok(all)
}

/// Runs one worker; `ready` is called when everything is in place.
fn worker(point: &Forward, spec: &Spec, ready: impl FnOnce()) -> Result<Values, Failure> {
    let burst = burst(point.burst)?;
    let directions = if point.bidirectional { 2 } else { 1 };
    let frames = directions * (point.slots as usize).max(4096) + 8 * burst;
    let context = Context::new(arena(frames, point.frame)?);
    let mut pool = pool(&context.arena, burst);
    let pairs: Result<Vec<_>, _> = (0..directions)
        .map(|index| PortPair::open(&context, point.driver, index, point.frame, point.slots))
        .collect();
    let mut pairs = pairs?;
    let working_set = (point.working_set, point.pages);
    let mut work = Work::new(point.work, point.burst_work, point.touch).accessing(
        point.accesses,
        working_set,
        spec.seed,
    )?;
    let mut frame = Frame::new(burst);
    let mut blocks = Blocks::new();
    let time = Duration::from_millis(spec.duration_ms);
    ready();
    match pairs.as_mut_slice() {
        [only] if !only.is_endless() => {
            let work = |pool: &PoolCache, frame: &mut Frame| work.apply(pool, frame);
            fed(only, &mut pool, &mut frame, work, &mut blocks, time)?;
        }
        // The usual one apart: a loop over pairs costs a cycle per burst.
        [only] => blocks.run(time, || pass(only, &mut pool, &mut frame, &mut work))?,
        pairs => blocks.run(time, || {
            pairs.iter_mut().map(|pair| pass(pair, &mut pool, &mut frame, &mut work)).sum()
        })?,
    }
    pairs.into_iter().for_each(|pair| pair.close(&mut pool));
    let mut values = blocks.values().ok_or_else(|| Failure::void("no packet came through"))?;
    // A round has a burst of each direction.
    values.entry(value::VECTOR.into()).and_modify(|vector| *vector /= directions as f64);
    Ok(values)
}

/// Moves a burst.
#[inline]
fn pass(
    pair: &mut PortPair,
    pool: &mut PoolCache,
    frame: &mut Frame,
    work: &mut Work,
) -> Result<usize, Failure> {
    let received = pair.receive.receive(pool, frame)?;
    if received > 0 {
        work.apply(pool, frame);
        pair.send(pool, frame)?;
    }
    Ok(received)
}

/// Forwards the frames fed, block by block, timing only that.
pub(super) fn fed(
    pair: &mut PortPair,
    pool: &mut PoolCache,
    frame: &mut Frame,
    mut work: impl FnMut(&PoolCache, &mut Frame),
    blocks: &mut Blocks,
    time: Duration,
) -> Result<(), Failure> {
    let count = FED.max(2 * frame.limit());
    let end = cycles() + linerate_memory::clock::cycles_in(time);
    // The first one warms up.
    let mut warm = false;
    let mut lost = 0;
    while cycles() < end || !warm {
        pair.feed(pool, count)?;
        let before = cycles();
        let (mut moved, mut bursts) = (0, 0);
        while pair.waiting() > 0 {
            moved += pair.fed(pool, frame)?;
            bursts += 1;
            work(pool, frame);
            pair.send(pool, frame)?;
        }
        pair.flush(pool)?;
        let took = cycles() - before;
        if moved < count {
            // The wait for lost frames is in the time.
            lost += 1;
            if lost > 20 && blocks.packets() == 0 {
                return Err(Failure::void(format!("of {count} frames {moved} arrived")));
            }
        } else if warm {
            blocks.add(took, moved as u64, bursts);
        }
        warm = true;
    }
    Ok(())
}
