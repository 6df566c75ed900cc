//! Applications whose batches have a size: throughput of a configuration between
//! two ports.

use std::{thread, time::Duration};

use linerate_linux::machine::pin_current_thread;
use linerate_memory::Frame;
use linerate_port::{Context, Direction};
use linerate_worker::Stop;

use super::{
    Bench, Failure, arena, burst,
    graph::{Run, run, values},
    network::{IN, IN_FAR, OUT},
    port_pair::{pool, port, side},
};
use crate::point::{BatchCase, Case, Driver, Spec, Values};

/// The switch has learnt one host at each side.
const SWITCH: &str = "source :: FromPort($IN) -> [0] switch :: EtherSwitch [0] -> Discard;\
    InfiniteSource(DATA \\<020000000001 020000000002 88b5 0000>, LIMIT 1) -> [1] switch [1]\
    -> end :: Counter -> sink :: ToPort($OUT);";
/// The graph that packets are forwarded with in Click: counted, queued, pulled.
const CLICK: &str = "source :: FromPort($IN) -> count :: Counter\
    -> kind :: Classifier(12/88b5, -) [1] -> Discard; kind [0]\
    -> queue :: Queue(1000) -> end :: Counter -> sink :: ToPort($OUT);";
/// Packets sent at once by the feeder of an interface.
const FEED: usize = 64;
/// Packets of a ring.
const SLOTS: u32 = 1024;

pub(super) fn measure(bench: &Bench, point: &BatchCase, spec: &Spec) -> Result<Values, Failure> {
    burst(point.batch)?;
    let length = point.frame as usize - crate::sizes::FCS;
    let context = Context::new(arena(16_384, point.frame)?);
    let (from, to) = match point.driver {
        Driver::Null => (format!("null:?size={length}&copy"), "null:".into()),
        Driver::Ring => {
            let uri = format!("ring:case?loop&slots={SLOTS}&seed={SLOTS}&size={length}");
            (uri.clone(), uri)
        }
        driver => (format!("{driver}:{IN}"), format!("{driver}:{OUT}")),
    };
    let configuration = match point.case {
        Case::Switch => SWITCH,
        Case::Click => CLICK,
    };
    let job = || {
        let case = Run {
            configuration,
            variables: vec![("IN".into(), from), ("OUT".into(), to)],
            at: "end",
            vector: point.batch,
            time: Duration::from_millis(spec.duration_ms),
            context: context.clone(),
        };
        let windows = run(&bench.library, case)?;
        values(&windows)
    };
    if !point.driver.needs_interfaces() {
        return job();
    }
    let core = bench.cores(2)?[1];
    let far = port(&context, &format!("packet:{IN_FAR}"), Direction::Transmit)?;
    let mut far = side(far, |queue| queue.transmit.take())?;
    let stop = Stop::new();
    thread::scope(|scope| {
        let feeder = scope.spawn(|| -> Result<(), Failure> {
            let _ = pin_current_thread(core);
            let mut pool = pool(&context.arena, FEED);
            let mut frame = Frame::new(FEED);
            while !stop.is_raised() {
                pool.take(&mut frame, FEED, length);
                context.arena.for_each_mut(&mut frame, |bytes| {
                    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
                });
                while !frame.is_empty() && !stop.is_raised() {
                    far.transmit(&mut pool, &mut frame)?;
                    far.flush(&mut pool)?;
                }
                pool.give(&mut frame);
            }
            Ok(())
        });
        let values = job();
        stop.raise();
        feeder.join().map_err(|_| Failure::void("what feeds the interface died"))??;
        values
    })
}
