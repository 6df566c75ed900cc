//! `Burster`: some packets every so often.

use linerate_graph::{Arg, Class, Context, Element, Make, Next, Seconds};
use linerate_memory::Frame;

use super::FAMILY;

/// The timer of the next burst.
const NEXT: u32 = 0;

pub(super) const CLASS: Class = Class {
    name: "Burster",
    family: FAMILY,
    summary: "pulls some packets every interval and pushes them on",
    description: "At most `BURST` packets per `INTERVAL`. After a pause the first burst goes at \
        once.",
    ports: "1/1",
    processing: "l/h",
    args: &[
        Arg::required("INTERVAL", "time", "from one burst to the next, in milliseconds exact"),
        Arg::optional("BURST", "packets", "8", "most packets of a burst"),
    ],
    cost: "A timer per burst; packets are not touched.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> Burster(1ms) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Burster::new(make)),
    ..Class::EMPTY
};

struct Burster {
    /// Nanoseconds.
    interval: u64,
    burst: usize,
    /// When the last timer was due, which the next is counted from; `None`
    /// after a pause.
    due: Option<u64>,
}

impl Burster {
    fn new(make: &mut Make<'_>) -> Burster {
        let Seconds(milliseconds) = make.need::<Seconds<3>>("INTERVAL");
        let burst = make.or("BURST", 8i32);
        if burst <= 0 {
            make.error("bad BURST");
        }
        Burster {
            interval: u64::from(milliseconds) * 1_000_000,
            burst: usize::try_from(burst).unwrap_or(1),
            due: None,
        }
    }
}

impl Element for Burster {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if cx.timer(NEXT).is_some() {
            return Next::Sleep;
        }
        let mut left = self.burst;
        loop {
            let pulled = cx.pull(0, left, frame);
            left -= pulled;
            if pulled == 0 || left == 0 {
                break;
            }
            cx.out.emit_frame(0, frame);
        }
        cx.out.emit_frame(0, frame);
        if left == self.burst && cx.nothing_pulled() == Next::Sleep {
            self.due = None;
            return Next::Sleep;
        }
        let due = self.due.unwrap_or_else(|| cx.steady()) + self.interval;
        self.due = Some(due);
        cx.set_timer(NEXT, due);
        Next::Sleep
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Times as Click 2.1 has them with `--simtime`.
    #[test]
    fn bursts_come_at_intervals() {
        for (burst, last) in
            [("", "1000000003.000000"), (", 25", "1000000001.000000"), (", 1", "1000000024.000000")]
        {
            for frame_limit in [1, 4, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 25) -> Queue -> Burster(1{burst}) -> SetTimestamp
                        -> c :: Counter -> k :: SetTimestampDelta(TYPE RANGE)
                        -> Counter(COUNT_CALL 24 k.reset) -> Counter(COUNT_CALL 25 stop) -> Discard"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.count"), "25");
                if frame_limit == 1 {
                    assert_eq!(run.read("k.first"), last, "{burst}");
                }
            }
        }
    }

    #[test]
    fn errors_are_click_s() {
        for (config, error) in
            [("1, 0", "bad BURST"), ("x", "INTERVAL: parse error"), ("-1", "INTERVAL: parse error")]
        {
            let errors = Run::errors(&format!("Idle -> Queue -> Burster({config}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}
