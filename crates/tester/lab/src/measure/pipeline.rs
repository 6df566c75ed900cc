//! A receiver that hands packets to workers.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use linerate_linux::machine::pin_current_thread;
use linerate_memory::Frame;
use linerate_port::{Context, Counters, Direction, Receive, Transmit};
use linerate_worker::Stop;

use super::{
    Bench, Failure, arena, burst,
    port_pair::{pool, port, side},
    windows,
    work::Work,
};
use crate::{
    instruments::Blocks,
    point::{Pipeline, Placement, Spec, Values, value},
};

pub(super) fn measure(bench: &Bench, point: &Pipeline, spec: &Spec) -> Result<Values, Failure> {
    let workers = point.workers.max(1) as usize;
    let cores = cores(bench, point.placement, workers)?;
    let context = Context::new(arena(workers * (point.slots as usize + 4096), point.frame)?);
    let burst = burst(point.burst)?;
    let length = point.frame as usize - crate::sizes::FCS;
    let source = port(&context, &format!("null:?size={length}"), Direction::Receive)?;
    let mut source = side(source, |queue| queue.receive.take())?;
    let mut stages = Vec::new();
    for worker in 0..workers {
        let uri = format!("ring:hand-over{worker}?slots={}", point.slots);
        let ours = port(&context, &uri, Direction::Both)?;
        let theirs = port(&context, &uri, Direction::Both)?;
        let sink = port(&context, "null:", Direction::Transmit)?;
        stages.push(Stage {
            push: side(ours, |queue| queue.transmit.take())?,
            pop: side(theirs, |queue| queue.receive.take())?,
            sink: side(sink, |queue| queue.transmit.take())?,
            work: Work::new(point.work, 0, point.touch),
        });
    }
    let time = Duration::from_millis(spec.duration_ms);
    // All of them poll.
    let threads = if point.placement == Placement::SameCore { 1 } else { workers + 1 };
    let blocks = match point.placement {
        Placement::SameCore => in_turns(&context, source.as_mut(), &mut stages, burst, time)?,
        _ => side_by_side(&context, source, stages, burst, time, &cores)?,
    };
    let mut values = blocks.values().ok_or_else(|| Failure::void("no packet came through"))?;
    // Packets are counted at the end of their path: bursts are not.
    values.remove(value::VECTOR);
    values.insert(value::BUSY.into(), threads as f64);
    Ok(values)
}

/// A worker's share: the ring to it, its output and its work.
struct Stage {
    push: Box<dyn Transmit>,
    pop: Box<dyn Receive>,
    sink: Box<dyn Transmit>,
    work: Work,
}

/// Cores for the receiver and the workers.
fn cores(bench: &Bench, placement: Placement, workers: usize) -> Result<Vec<u32>, Failure> {
    let cpu = &bench.cpu;
    let near = |groups: &[Vec<u32>], what: &str| {
        let fits = groups.iter().find(|group| group.len() > workers).cloned();
        fits.ok_or_else(|| Failure::Unsupported(format!("no core has {} {what}", workers + 1)))
    };
    match placement {
        Placement::SameCore => bench.cores(1),
        Placement::OtherCore => bench.cores(workers + 1),
        Placement::Sibling => near(&cpu.siblings, "hardware threads"),
        Placement::OtherNode => match cpu.nodes.as_slice() {
            [first, second, ..] if second.cores.len() >= workers => {
                Ok(first.cores[..1].iter().chain(&second.cores).copied().collect())
            }
            _ => Err(Failure::unsupported("this machine has one memory node")),
        },
    }
}

/// All on this thread.
fn in_turns(
    context: &Context,
    source: &mut dyn Receive,
    stages: &mut [Stage],
    burst: usize,
    time: Duration,
) -> Result<Blocks, Failure> {
    let mut pool = pool(&context.arena, burst);
    let mut frame = Frame::new(burst);
    let mut blocks = Blocks::new();
    blocks.run(time, || {
        let mut moved = 0;
        for stage in &mut *stages {
            source.receive(&mut pool, &mut frame)?;
            stage.push.transmit(&mut pool, &mut frame)?;
            moved += stage.pop.receive(&mut pool, &mut frame)?;
            stage.work.apply(&pool, &mut frame);
            stage.sink.transmit(&mut pool, &mut frame)?;
        }
        Ok::<_, Failure>(moved)
    })?;
    Ok(blocks)
}

/// Each on a thread of its own; this one counts.
fn side_by_side(
    context: &Context,
    mut source: Box<dyn Receive>,
    stages: Vec<Stage>,
    burst: usize,
    time: Duration,
    cores: &[u32],
) -> Result<Blocks, Failure> {
    let stop = Stop::new();
    let begin = Barrier::new(stages.len() + 1);
    let sent: Vec<Arc<Counters>> =
        stages.iter().map(|stage| Arc::clone(stage.sink.counters())).collect();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut pushes = Vec::new();
        for (stage, core) in stages.into_iter().zip(&cores[1..]) {
            let Stage { push, mut pop, mut sink, mut work } = stage;
            pushes.push(push);
            let (stop, begin) = (&stop, &begin);
            threads.push(scope.spawn(move || -> Result<(), Failure> {
                let _ = pin_current_thread(*core);
                let mut pool = pool(&context.arena, burst);
                let mut frame = Frame::new(burst);
                begin.wait();
                while !stop.is_raised() {
                    if pop.receive(&mut pool, &mut frame)? > 0 {
                        work.apply(&pool, &mut frame);
                        sink.transmit(&mut pool, &mut frame)?;
                    } else {
                        std::hint::spin_loop();
                    }
                }
                pop.close(&mut pool);
                Ok(())
            }));
        }
        let (stop_receiver, begin, core) = (&stop, &begin, cores[0]);
        threads.push(scope.spawn(move || -> Result<(), Failure> {
            let _ = pin_current_thread(core);
            let mut pool = pool(&context.arena, burst);
            let mut frame = Frame::new(burst);
            begin.wait();
            // Asked here too: a ring whose worker has ended takes all packets.
            'run: while !stop_receiver.is_raised() {
                for push in &mut pushes {
                    source.receive(&mut pool, &mut frame)?;
                    // The hand-over is the limit, not the rate of drops at it.
                    while push.transmit(&mut pool, &mut frame)? == 0 || !frame.is_empty() {
                        if stop_receiver.is_raised() {
                            break 'run;
                        }
                        std::hint::spin_loop();
                    }
                }
            }
            pool.give(&mut frame);
            Ok(())
        }));
        let packets = || sent.iter().map(|counters| counters.read().packets).sum();
        let blocks = windows::count(packets, time);
        stop.raise();
        let died = || Failure::void("a thread died");
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(died()))?;
        }
        Ok(blocks)
    })
}
