//! `PullSwitch`, `SimplePullSwitch`, `StaticPullSwitch`: pull from one input.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make, parse_integer};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const PULL_SWITCH: Class = Class {
    name: "PullSwitch",
    family: FAMILY,
    summary: "pulls from one input, which can be changed",
    description: "A negative input, or one there is not, gives no packets. Whoever pulls sleeps \
        while there are none and is woken when the input is changed.",
    ports: "-/1",
    processing: "l/l",
    args: &[Arg::optional("INPUT", "input", "0", "the input in use")],
    handlers: &[
        Handler::value("switch", "the input in use, -1 for none"),
        Handler::value("config", "the input in use"),
    ],
    cost: "One call per pull; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> [1] s :: PullSwitch(1) -> Discard; \
        Idle -> s;",
    make: |make| {
        let input = make.or("INPUT", 0);
        Box::new(PullSwitch::new(make, input))
    },
    ..Class::EMPTY
};

/// In Click without notification of its own; here both sleep alike.
pub(super) const SIMPLE_PULL_SWITCH: Class = Class {
    name: "SimplePullSwitch",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> [1] s :: SimplePullSwitch(1) \
        -> Discard; Idle -> s;",
    ..PULL_SWITCH
};

pub(super) const STATIC_PULL_SWITCH: Class = Class {
    name: "StaticPullSwitch",
    summary: "pulls from one input",
    description: "A negative input, or one there is not, gives no packets.",
    args: &[Arg::required("INPUT", "input", "the input in use")],
    handlers: &[],
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> [1] s :: StaticPullSwitch(1) \
        -> Discard; Idle -> s;",
    make: |make| {
        let input = make.need("INPUT");
        Box::new(PullSwitch::new(make, input))
    },
    ..PULL_SWITCH
};

struct PullSwitch {
    input: i32,
    inputs: usize,
}

impl PullSwitch {
    fn new(make: &Make<'_>, input: i32) -> PullSwitch {
        let mut switch = PullSwitch { input: 0, inputs: make.inputs() };
        switch.set(input);
        switch
    }

    fn set(&mut self, input: i32) {
        let there_is = (0..self.inputs as i64).contains(&i64::from(input));
        self.input = if there_is { input } else { -1 };
    }
}

impl Element for PullSwitch {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if let Ok(input) = usize::try_from(self.input) {
            cx.pull(input, count, frame);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "switch" | "config" => Ok(self.input.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if handler != "switch" {
            return Err(HandlerError::missing(handler));
        }
        let input = parse_integer(value.trim()).and_then(|number| i32::try_from(number).ok());
        self.set(input.ok_or_else(|| HandlerError::refused("syntax error"))?);
        cx.notify();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn one_input_is_pulled_and_the_others_keep_their_packets() {
        for class in ["PullSwitch", "SimplePullSwitch", "StaticPullSwitch"] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 7) -> q :: Queue -> s :: {class}(1)
                        -> c :: Counter(COUNT_CALL 9 stop) -> Discard;
                     InfiniteSource(LIMIT 9) -> p :: Queue -> [1] s;"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.count"), "9");
                assert_eq!((run.read("q.length"), run.read("p.length")), ("7".into(), "0".into()));
            }
        }
    }

    #[test]
    fn a_sleeper_wakes_when_the_input_is_changed() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 7) -> Queue -> s :: PullSwitch(-1)
                -> c :: Counter(COUNT_CALL 7 stop) -> Discard;
             InfiniteSource(LIMIT 50) -> Counter(COUNT_CALL 50 s.switch 0) -> Discard;",
        )
        .frame_limit(1);
        run.run();
        assert_eq!((run.read("c.count"), run.read("s.switch")), ("7".into(), "0".into()));
        assert_eq!(run.write("s.switch", "x").unwrap_err().to_string(), "syntax error");
    }
}
