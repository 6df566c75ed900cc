//! `Failover`: a second way stands in for the first.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, Frame, Handler, HandlerError,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// standby
    Standby,
}

pub(crate) const CLASS: Class = Class {
    name: "Failover",
    family: "example",
    summary: "passes the second input while the first is silent",
    description: "Of a feed that comes by two ways: packets of input 1 are dropped unless input 0 \
        has had none for so long.",
    ports: "2/1",
    processing: "h/h",
    drops: Reason::REASONS,
    cost: "A clock reading per frame; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> f :: Failover(1s) -> Discard; Idle -> [1] f;",
    ..Class::for_element::<Failover>()
};

#[derive(Arguments)]
#[arguments(handlers = [Handler::read("active", "the input whose packets pass")])]
struct Failover {
    /// how long the first may be silent
    #[arg(kind = "seconds")]
    timeout: Duration,
    /// When a packet last came to input 0, in nanoseconds: on all workers.
    #[init(make.shared(AtomicU64::default))]
    heard: Arc<AtomicU64>,
}

impl Failover {
    fn active(&self, cx: &Context) -> usize {
        let silent = cx.steady().saturating_sub(self.heard.load(Relaxed));
        usize::from(u128::from(silent) >= self.timeout.as_nanos())
    }
}

impl Element for Failover {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if port == 0 {
            self.heard.store(cx.steady(), Relaxed);
        } else if self.active(cx) != port {
            cx.drop_frame(frame, Reason::Standby);
        }
    }

    fn read(&mut self, cx: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.active(cx).to_string())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn the_second_input_passes_once_the_first_is_silent() {
        let mut run = Run::new(
            "Packets(61 61 61, INTERVAL 0.1s, STOP false) -> f :: Failover(1s) -> c :: Collect;
             Packets(62 62 62 62 62 62 62 62 62 62 62 62 62 62 62, INTERVAL 0.1s) -> [1] f",
        )
        .with(crate::CLASSES);
        run.run();
        assert_eq!(run.read("c.packets"), "61\n61\n61\n62\n62\n62");
        assert_eq!(run.read("f.active"), "1");
    }
}
