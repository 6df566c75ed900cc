//! `TimestampAccum`: how long ago packets were stamped.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use linerate_graph::{
    Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::fmt_g::format_g;

pub(super) const CLASS: Class = Class {
    name: "TimestampAccum",
    family: FAMILY,
    summary: "adds up how long ago packets were stamped",
    description: "With a SetTimestamp in front this measures how long packets take from there. The \
        packets of a frame are measured at one time. One without a timestamp counts with the time \
        since the epoch.",
    ports: "1/1",
    handlers: &[
        Handler::read("count", "packets seen"),
        Handler::read("time", "seconds of all of them together"),
        Handler::read("average_time", "seconds of one on average"),
        Handler::button("reset_counts", "sets all to zero"),
    ],
    annotates: true,
    cost: "One reading of the clock per frame and a look at each packet's metadata.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp -> TimestampAccum -> Discard;",
    make: |make| Box::new(TimestampAccum::new(make)),
    ..Class::here()
};

/// Sums of a replica, written by it alone.
#[derive(Debug, Default)]
struct Totals {
    count: AtomicU64,
    /// Seconds, as the bits of a double.
    time: AtomicU64,
}

impl Totals {
    fn get(&self) -> (u64, f64) {
        (self.count.load(Relaxed), f64::from_bits(self.time.load(Relaxed)))
    }

    fn set(&self, (count, time): (u64, f64)) {
        self.count.store(count, Relaxed);
        self.time.store(time.to_bits(), Relaxed);
    }
}

/// Those of all replicas: an average is not a sum of theirs.
type All = Mutex<Vec<Arc<Totals>>>;

struct TimestampAccum {
    own: Arc<Totals>,
    all: Arc<All>,
}

impl TimestampAccum {
    fn new(make: &mut ElementBuilder<'_>) -> TimestampAccum {
        let (all, replica) = (make.shared(All::default), make.replica().index);
        let own = {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() <= replica {
                all.resize_with(replica + 1, Arc::default);
            }
            Arc::clone(&all[replica])
        };
        own.set((0, 0.0));
        TimestampAccum { own, all }
    }
}

impl Element for TimestampAccum {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let now = cx.now();
        let (mut count, mut time) = self.own.get();
        count += frame.len() as u64;
        cx.pool.arena().for_each_meta(frame, &mut cx.header_cache, |meta| {
            time += now.wrapping_sub(meta.timestamp).cast_signed() as f64 / 1e9;
        });
        self.own.set((count, time));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = all.iter().map(|totals| totals.get());
        let (count, time) = totals.fold((0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        Ok(match handler {
            "count" => count.to_string(),
            "time" => format_g(time),
            // What C makes of nothing divided by nothing.
            "average_time" if count == 0 => "-nan".into(),
            "average_time" => format_g(time / count as f64),
            _ => return Err(HandlerError::missing(handler)),
        })
    }

    fn write(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        self.own.set((0, 0.0));
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn times_add_up() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 20) -> SetTimestamp -> q :: Queue
                    -> a :: TimestampAccum -> TimedSink(0.25); DriverManager(wait 6s, stop)",
            )
            .frame_limit(frame_limit);
            assert_eq!(run.read("a.average_time"), "-nan");
            run.run();
            let read = ["count", "time", "average_time"].map(|name| run.read(&format!("a.{name}")));
            assert_eq!(read, ["20", "52.5", "2.625"]);
            run.write("a.reset_counts", "").unwrap();
            assert_eq!((run.read("a.count"), run.read("a.time")), ("0".into(), "0".into()));
        }
    }

    #[test]
    fn several_workers_have_one_average() {
        let mut run = Run::new(
            "a :: InfiniteSource(LIMIT 300) -> SetTimestamp(1) -> t :: TimestampAccum
                -> c :: Counter -> Discard; b :: InfiniteSource(LIMIT 100) -> SetTimestamp(1) -> t;
             StaticThreadSched(a 0, b 1); DriverManager(wait 0.3s, stop)",
        )
        .workers(2);
        run.run();
        assert_eq!(run.read("t.count"), "400");
        let number = |text: String| text.parse::<f64>().unwrap();
        let (time, average) = (number(run.read("t.time")), number(run.read("t.average_time")));
        assert!((time / average - 400.0).abs() < 0.001, "{time} {average}");
    }
}
