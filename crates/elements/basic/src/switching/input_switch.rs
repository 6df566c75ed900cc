//! `InputSwitch`: passes the packets of one input.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Right,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::handler_values::integer_or;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// other input
    OtherInput,
}

pub(super) const CLASS: Class = Class {
    name: "InputSwitch",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "passes the packets of one input, which can be changed, and drops the others",
    description: "A negative input drops all. Writing `switch` an input there is not does as \
        well.",
    ports: "-/1",
    processing: "h/h",
    // Click's keyword for it.
    args: &[Arg::optional("OUTPUT", "input", "0", "the input in use")],
    handlers: &[
        Handler::value("switch", "the input in use, -1 for none"),
        Handler::value("config", "the input in use"),
    ],
    drops: Reason::REASONS,
    cost: "Frames go on whole: packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> [1] s :: InputSwitch(1) -> Discard; \
        Idle -> s;",
    make: |make| Box::new(InputSwitch::new(make)),
    ..Class::here()
};

struct InputSwitch {
    input: i32,
    inputs: usize,
}

impl InputSwitch {
    fn new(make: &mut ElementBuilder<'_>) -> InputSwitch {
        let (input, inputs) = (make.or("OUTPUT", 0), make.inputs());
        if i64::from(input) >= inputs as i64 {
            make.error(format!("input must be < {inputs}"));
        }
        InputSwitch { input, inputs }
    }
}

impl Element for InputSwitch {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if usize::try_from(self.input) != Ok(port) {
            cx.drop_frame(frame, Reason::OtherInput);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "switch" | "config" => Ok(self.input.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler != "switch" {
            return Err(HandlerError::missing(handler));
        }
        let input: i32 = integer_or(value, "InputSwitch input must be integer")?;
        self.input = if i64::from(input) < self.inputs as i64 { input } else { -1 };
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn only_one_input_counts() {
        for (input, expected) in [("0", "7"), ("1", "9"), ("2", "0"), ("-5", "0")] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(
                    "InfiniteSource(LIMIT 7) -> s :: InputSwitch -> c :: Counter -> Discard;
                     InfiniteSource(LIMIT 9, STOP true) -> [1] s;",
                )
                .frame_limit(frame_limit);
                run.write("s.switch", input).unwrap();
                run.run();
                assert_eq!(run.read("c.count"), expected);
            }
        }
    }

    #[test]
    fn errors_are_click_s() {
        assert_eq!(
            Run::errors("Idle -> InputSwitch(1) -> Discard"),
            "config:1: While configuring 'InputSwitch@2 :: InputSwitch':\n  input must be < 1\n"
        );
        let mut run = Run::new("Idle -> s :: InputSwitch -> Discard");
        let refused = run.write("s.switch", "x").unwrap_err();
        assert_eq!(refused.to_string(), "InputSwitch input must be integer");
        run.write("s.switch", "3").unwrap();
        assert_eq!(run.read("s.config"), "-1");
    }
}
