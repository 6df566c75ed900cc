//! `Bypass`: a second path that costs nothing while it is inactive.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::handler_values::boolean_or;

pub(super) const CLASS: Class = Class {
    name: "Bypass",
    family: FAMILY,
    summary: "sends packets by a way round while it is active",
    description: "Inactive, packets go from input 0 to output 0. Active, those pushed to input 0 \
        leave by output 1, and who pulls from output 0 pulls input 1. The second port on the \
        other side leads back: what is pushed to input 1 leaves by output 0, and who pulls from \
        output 1 pulls input 0.\n\n\
        `... -> b :: Bypass -> ...; b [1] -> Print -> [1] b;` prints packets while `b.active` is \
        true, whether they are pushed or pulled.",
    ports: "1-2/1-2",
    flow: "xy/[xy]x",
    args: &[
        Arg::optional("ACTIVE", "bool", "false", "whether packets take the way round"),
        Arg::keyword("INLINE", "bool", "false", "accepted; changes nothing"),
    ],
    handlers: &[Handler::value("active", "whether packets take the way round")],
    cost: "None: its neighbours are wired to one another past it, and packets do not count as \
        its own.",
    example: "b :: Bypass(true); InfiniteSource(LIMIT 10, STOP true) -> b -> Discard; \
        b [1] -> Null -> [1] b;",
    make: |make| Box::new(Bypass::new(make)),
    ..Class::here()
};

struct Bypass {
    active: bool,
    /// Whether there is a second port to take: an output when packets are
    /// pushed, an input when they are pulled.
    has_way: bool,
}

impl Bypass {
    fn new(make: &mut ElementBuilder<'_>) -> Bypass {
        let _: Option<bool> = make.get("INLINE");
        let ways = if make.output_is_push(0) { make.outputs() } else { make.inputs() };
        Bypass { active: make.or("ACTIVE", false), has_way: ways > 1 }
    }

    /// The port on the other side that belongs to `port`.
    fn route(&self, port: usize) -> usize {
        usize::from(self.active && self.has_way && port == 0)
    }
}

impl Element for Bypass {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if self.route(port) == 1 {
            cx.out.emit_frame(1, frame);
        }
    }

    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        cx.pull(self.route(port), count, frame);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.pass_through(&[self.route(0), self.route(1)]);
        Ok(())
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler != "active" {
            return Err(HandlerError::missing(handler));
        }
        self.active = boolean_or(value, "syntax error")?;
        cx.pass_through(&[self.route(0), self.route(1)]);
        cx.notify();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn counts(run: &mut Run) -> (String, String) {
        (run.read("way.count"), run.read("end.count"))
    }

    #[test]
    fn pushed_packets_take_the_way_round_while_it_is_active() {
        for back in ["[1] b", "end"] {
            for (active, way) in [("false", "0"), ("true", "10")] {
                for frame_limit in [1, 256] {
                    let mut run = Run::new(&format!(
                        "InfiniteSource(LIMIT 10, STOP true) -> b :: Bypass
                            -> end :: Counter -> Discard;
                         b [1] -> way :: Counter -> {back};"
                    ))
                    .frame_limit(frame_limit);
                    run.write("b.active", active).unwrap();
                    run.run();
                    assert_eq!(counts(&mut run), (way.into(), "10".into()));
                    assert_eq!(run.read("b.active"), active);
                }
            }
        }
    }

    /// As Click 2.1 counts.
    #[test]
    fn the_way_changes_between_two_packets() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 30, STOP true) -> Counter(COUNT_CALL 11 b.active true)
                -> Counter(COUNT_CALL 16 b.active false) -> b :: Bypass
                -> end :: Counter -> Discard;
             b [1] -> way :: Counter -> [1] b;",
        )
        .frame_limit(1);
        run.run();
        assert_eq!(counts(&mut run), ("5".into(), "30".into()));
    }

    /// The way round leads through the element again while it is pulled.
    #[test]
    fn pulled_packets_take_the_way_round_while_it_is_active() {
        for (active, way) in [("false", "0"), ("true", "10")] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 10) -> Queue -> b :: Bypass({active})
                        -> end :: Counter(COUNT_CALL 10 stop) -> Discard;
                     b [1] -> way :: Counter -> [1] b;"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(counts(&mut run), (way.into(), "10".into()));
            }
        }
    }

    #[test]
    fn one_behind_the_other() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 10, STOP true) -> a :: Bypass(true) -> b :: Bypass(true)
                -> end :: Counter -> Discard;
             a [1] -> way :: Counter -> [1] a; b [1] -> more :: Counter -> [1] b;",
        );
        run.run();
        assert_eq!(counts(&mut run), ("10".into(), "10".into()));
        assert_eq!(run.read("more.count"), "10");
    }

    #[test]
    fn without_a_second_port_there_is_no_way_round() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 10, STOP true) -> Bypass(true) -> end :: Counter -> Discard;",
        );
        run.run();
        assert_eq!(run.read("end.count"), "10");
    }
}
