//! `Suppressor`: ports that can be shut.

use linerate_graph::{Class, Context, DropReason, Element, Handler, HandlerError, HandlerResult};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::handler_values::{boolean_or, port_of};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// suppressed
    Suppressed,
}

/// One per port, which the element lists.
const ACTIVE: Handler = Handler::value("active", "whether a port lets packets pass");

pub(super) const CLASS: Class = Class {
    name: "Suppressor",
    family: FAMILY,
    summary: "passes packets from each input to the output of its number, unless it is shut",
    description: "Handlers `active0`, `active1`... read and set whether a port lets packets \
        pass; all do at first. Packets pushed to a port that is shut are dropped; from one that \
        is shut nothing can be pulled.",
    ports: "-/=",
    flow: "#/#",
    handlers: &[Handler::button("reset", "lets packets pass at all ports")],
    drops: Reason::REASONS,
    cost: "Frames go on whole: packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: Suppressor -> Discard; \
        Idle -> [1] s [1] -> Discard;",
    make: |make| Box::new(Suppressor { active: vec![true; make.inputs()] }),
    ..Class::here()
};

struct Suppressor {
    active: Vec<bool>,
}

impl Suppressor {
    fn port(&self, handler: &str) -> Result<usize, HandlerError> {
        let port = port_of(handler, "active", self.active.len());
        port.ok_or_else(|| HandlerError::missing(handler))
    }
}

impl Element for Suppressor {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if !self.active[port] {
            cx.drop_frame(frame, Reason::Suppressed);
        } else if port > 0 {
            cx.out.emit_frame(port, frame);
        }
    }

    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        if self.active[port] {
            cx.pull(port, count, frame);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Suppressor>() {
            for (active, was) in self.active.iter_mut().zip(&old.active) {
                *active = *was;
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(self.active[self.port(handler)?].to_string())
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler == "reset" {
            self.active.fill(true);
        } else {
            let port = self.port(handler)?;
            self.active[port] = boolean_or(value, "type mismatch")?;
        }
        cx.notify();
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.port(name).is_ok().then_some(&ACTIVE)
    }

    fn handler_names(&self) -> Vec<String> {
        (0..self.active.len()).map(|port| format!("active{port}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const THREE: &str = "s :: Suppressor; InfiniteSource(LIMIT 10) -> s -> a :: Counter -> Discard;
         InfiniteSource(LIMIT 10) -> [1] s [1] -> b :: Counter -> Discard;
         InfiniteSource(LIMIT 10) -> q :: Queue -> [2] s [2] -> c :: Counter(COUNT_CALL 10 stop)
            -> Discard;
         InfiniteSource(LIMIT 90) -> t :: Counter(COUNT_CALL 90 stop) -> Discard;";

    fn counts(run: &mut Run) -> [String; 4] {
        ["a.count", "b.count", "c.count", "q.length"].map(|handler| run.read(handler))
    }

    #[test]
    fn a_shut_port_drops_pushed_packets_and_leaves_pulled_ones_upstream() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(THREE).frame_limit(frame_limit);
            for port in ["s.active0", "s.active2"] {
                run.write(port, "no").unwrap();
            }
            run.run();
            assert_eq!(counts(&mut run), ["0", "10", "0", "10"]);
            assert_eq!(run.read("s.active0"), "false");
            assert_eq!(run.read("s.drops"), "10\tsuppressed\n");
        }
    }

    #[test]
    fn ports_can_be_opened_again() {
        let mut run = Run::new(THREE);
        run.write("s.active2", "no").unwrap();
        run.write("s.active0", "0").unwrap();
        run.write("s.reset", "").unwrap();
        run.run();
        assert_eq!(counts(&mut run), ["10", "10", "10", "0"]);
        assert_eq!(run.write("s.active0", "foo").unwrap_err().to_string(), "type mismatch");
        assert!(run.write("s.active3", "true").is_err());
        assert!(run.read("s.handlers").contains("active2\trw\n"));
    }
}
