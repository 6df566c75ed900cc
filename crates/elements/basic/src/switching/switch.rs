//! `Switch`, `StaticSwitch`: one output for all packets.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Right,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::handler_values::integer_or;

/// Drop reasons of `Switch` and `StaticSwitch`.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// switched off
    Off,
}

pub(super) const SWITCH: Class = Class {
    name: "Switch",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sends all packets by one output, which can be changed",
    description: "A negative output drops them. Writing `switch` an output there is not drops \
        them as well.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::optional("OUTPUT", "output", "0", "the output in use")],
    handlers: &[
        Handler::value("switch", "the output in use, -1 for none"),
        Handler::value("config", "the output in use"),
    ],
    drops: Reason::REASONS,
    cost: "Frames go on whole: packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: Switch(1) -> Discard; s [1] -> Discard;",
    make: |make| {
        let output = make.or("OUTPUT", 0);
        if i64::from(output) >= make.outputs() as i64 {
            make.error(format!("output must be < {}", make.outputs()));
        }
        Box::new(Switch::new(make, output))
    },
    ..Class::here()
};

pub(super) const STATIC_SWITCH: Class = Class {
    name: "StaticSwitch",
    summary: "sends all packets by one output",
    description: "A negative output, or one there is not, drops them.",
    args: &[Arg::required("OUTPUT", "output", "the output in use")],
    handlers: &[],
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: StaticSwitch(1) -> Discard; \
        s [1] -> Discard;",
    make: |make| {
        let output = make.need("OUTPUT");
        Box::new(Switch::new(make, output))
    },
    ..SWITCH
};

struct Switch {
    output: i32,
    outputs: usize,
}

impl Switch {
    fn new(make: &ElementBuilder<'_>, output: i32) -> Switch {
        let mut switch = Switch { output: 0, outputs: make.outputs() };
        switch.set(output);
        switch
    }

    fn set(&mut self, output: i32) {
        self.output = if i64::from(output) < self.outputs as i64 { output } else { -1 };
    }
}

impl Element for Switch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        match usize::try_from(self.output) {
            Ok(0) => {}
            Ok(output) => cx.out.emit_frame(output, frame),
            Err(_) => cx.drop_frame(frame, Reason::Off),
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "switch" | "config" => Ok(self.output.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler != "switch" {
            return Err(HandlerError::missing(handler));
        }
        self.set(integer_or(value, "Switch output must be integer")?);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// As Click 2.1 answers.
    #[test]
    fn the_output_can_be_changed() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "s :: InfiniteSource(LIMIT 10, STOP true) -> w :: Switch(1)
                    -> a :: Counter -> Discard; w [1] -> b :: Counter -> Discard;",
            )
            .frame_limit(frame_limit);
            assert_eq!(run.read("w.config"), "1");
            run.run();
            assert_eq!((run.read("a.count"), run.read("b.count")), ("0".into(), "10".into()));
            run.write("w.switch", "0").unwrap();
            assert_eq!(run.read("w.config"), "0");
            run.write("w.switch", "7").unwrap();
            assert_eq!(run.read("w.switch"), "-1");
            let refused = run.write("w.switch", "foo").unwrap_err();
            assert_eq!(refused.to_string(), "Switch output must be integer");
            run.write("w.config", "1").unwrap();
            assert_eq!(run.read("w.switch"), "1");
        }
    }

    #[test]
    fn a_switch_that_is_off_drops_and_counts() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 10, STOP true) -> w :: StaticSwitch(-3) -> c :: Counter -> Discard",
        );
        run.run();
        assert_eq!(run.read("c.count"), "0");
        assert_eq!(run.read("w.drops"), "10\tswitched off\n");
    }

    #[test]
    fn outputs_out_of_range() {
        assert_eq!(
            Run::errors("Idle -> Switch(2) -> Discard"),
            "config:1: While configuring 'Switch@2 :: Switch':\n  output must be < 1\n"
        );
        assert_eq!(Run::errors("Idle -> StaticSwitch(2) -> Discard"), "");
        assert!(
            Run::errors("Idle -> StaticSwitch -> Discard")
                .contains("OUTPUT: required argument missing")
        );
    }
}
