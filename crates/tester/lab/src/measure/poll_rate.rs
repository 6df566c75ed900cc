//! Forwarding by a worker that looks at its port only so often.

use std::time::{Duration, Instant};

use linerate_memory::{Frame, clock::cycles};
use linerate_port::Context;

use super::{
    Failure, arena, burst,
    port_pair::{PortPair, pool},
};
use crate::{
    instruments::PollLimit,
    point::{PollRate, Spec, Values, value},
};

/// Places of a ring.
const SLOTS: u32 = 1024;

pub(super) fn measure(point: &PollRate, spec: &Spec) -> Result<Values, Failure> {
    if point.driver.needs_interfaces() {
        let reason = "nothing feeds an interface on the thread that polls: null and ring only";
        return Err(Failure::unsupported(reason));
    }
    let burst = burst(point.burst)?;
    let context = Context::new(arena(4096, point.frame)?);
    let mut pool = pool(&context.arena, burst);
    let mut pair = PortPair::open(&context, point.driver, 0, point.frame, SLOTS)?;
    let mut frame = Frame::new(burst);
    let mut limit = PollLimit::new(point.polls_per_s);
    let time = Duration::from_millis(spec.duration_ms);
    let (mut packets, mut polls) = (0, 0u64);
    let (start, began) = (Instant::now(), cycles());
    while start.elapsed() < time {
        // Reading the time costs as much as some packets.
        for _ in 0..if point.polls_per_s == 0 { 1024 } else { 16 } {
            limit.wait();
            packets += pair.receive.receive(&mut pool, &mut frame)?;
            pair.send(&mut pool, &mut frame)?;
            polls += 1;
        }
    }
    let (seconds, took) = (start.elapsed().as_secs_f64(), cycles() - began);
    let busy = took.saturating_sub(limit.waited()) as f64;
    pair.close(&mut pool);
    Ok(Values::from([
        (value::RATE.into(), packets as f64 / seconds),
        (value::CYCLES.into(), busy / (packets as f64).max(1.0)),
        (value::BUSY.into(), busy / took as f64),
        ("polls_per_s".into(), polls as f64 / seconds),
        (value::VECTOR.into(), packets as f64 / polls as f64),
        ("packets".into(), packets as f64),
    ]))
}
