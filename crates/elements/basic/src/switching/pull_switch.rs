//! `PullSwitch`, `SimplePullSwitch`, `StaticPullSwitch`: pull from one input.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Right,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::handler_values::integer_or;

pub(super) const PULL_SWITCH: Class = Class {
    name: "PullSwitch",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "pulls from one input, which can be changed",
    description: "A negative input, or one there is not, gives no packets. Whoever pulls sleeps \
        while there are none and is woken when the input is changed to one that has any.",
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
    ..Class::here()
};

pub(super) const SIMPLE_PULL_SWITCH: Class = Class {
    name: "SimplePullSwitch",
    description: "A negative input, or one there is not, gives no packets; whoever pulls goes on \
        looking for some then, as long as there may be any at an input. PullSwitch lets it sleep.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> [1] s :: SimplePullSwitch(1) \
        -> Discard; Idle -> s;",
    ..PULL_SWITCH
};

pub(super) const STATIC_PULL_SWITCH: Class = Class {
    name: "StaticPullSwitch",
    reconfigured: None,
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
    /// Whether a task that pulls sleeps while no input is in use.
    tells: bool,
    /// Whether no other worker fills the queues it pulls from.
    alone: bool,
}

impl PullSwitch {
    fn new(make: &ElementBuilder<'_>, input: i32) -> PullSwitch {
        let class = make.plan().elements[make.element()].class.name;
        let tells = class != SIMPLE_PULL_SWITCH.name;
        let alone = make.world.workers == 1;
        let mut switch = PullSwitch { input: 0, inputs: make.inputs(), tells, alone };
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
        let off = self.input < 0 && !self.tells;
        if off && (0..self.inputs).any(|input| cx.ready(input) != Some(0)) {
            cx.look_again();
        }
    }

    fn ready(&self) -> Option<usize> {
        (self.input < 0).then_some(0)
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "switch" | "config" => Ok(self.input.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler != "switch" {
            return Err(HandlerError::missing(handler));
        }
        self.set(integer_or(value, "syntax error")?);
        // Where all packets come and go on one worker, a waiting task is told when there are some.
        let empty = |input| self.alone && cx.ready(input) == Some(0);
        if usize::try_from(self.input).is_ok_and(|input| !empty(input)) {
            cx.notify();
        }
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

    /// Click's test `standard/PullSwitch-01`.
    #[test]
    fn sleepers_wake_for_inputs_with_packets_alone() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "ps :: PullSwitch(-1); d :: Discard; xps, xps2 :: SimplePullSwitch(-1);
                 InfiniteSource(LIMIT 4) -> [0] ps; InfiniteSource(LIMIT 5) -> [1] ps;
                 Idle -> [2] ps; ps -> xps -> d;
                 Idle -> PullSwitch -> xps2 -> d2 :: Discard;
                 Script(print d.scheduled, print d2.scheduled,
                    write xps.switch 0, write xps2.switch 0, wait 0.5s,
                    print d2.scheduled, print d.scheduled,
                    write ps.switch 2, print d.scheduled, wait 0.5s, print d.scheduled,
                    write ps.switch 0, print d.scheduled, wait 0.5s, print d.scheduled,
                    print d.count,
                    write ps.switch 1, print d.scheduled, wait 0.5s, print d.scheduled,
                    print d.count,
                    write ps.switch -1, print d.scheduled, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            let expected = "false true false false false false true false 4 true false 9 false";
            let printed = run.output();
            assert_eq!(printed.split_whitespace().collect::<Vec<_>>().join(" "), expected);
        }
    }
}
