//! `Meter` and `BandwidthMeter`: select the output by the rate.

use linerate_graph::{
    Arg, Bandwidth, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Right,
};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_element_support::{
    average::{Average, RateAverage, binary_text},
    rate::Unit,
};

pub(super) const PACKETS: Class = Class {
    name: "Meter",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "chooses the output by the packet rate",
    description: "Packets leave by output `i` while there are at least the `i`-th rate and less \
        than the next, in packets per second. The rate is an average over milliseconds that \
        forgets with a time constant of 16 ms.",
    ports: "1/2-",
    processing: "h/h",
    args: &[Arg::rest("RATE", "packets per second", "rates, each higher than the one before")],
    handlers: &[
        Handler::count("rate", "the rate now"),
        Handler::read("meters", "the rates that divide the outputs"),
    ],
    cost: "A clock reading per frame. The rate changes at most once per millisecond, so frames go \
        on whole.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> m :: Meter(1000) -> Discard; \
        m [1] -> Discard;",
    order_dependent: true,
    make: |make| Box::new(Meter::new(make, Unit::Packets)),
    ..Class::here()
};

pub(super) const BANDWIDTH: Class = Class {
    name: "BandwidthMeter",
    summary: "chooses the output by the rate of bytes",
    description: "Packets leave by output `i` while there are at least the `i`-th bandwidth and \
        less than the next. The rate is an average over milliseconds that forgets with a time \
        constant of 16 ms.",
    args: &[Arg::rest("RATE", "bandwidth", "bandwidths, each higher than the one before")],
    example: "InfiniteSource(LIMIT 10, STOP true) -> m :: BandwidthMeter(1Mbps) -> Discard; \
        m [1] -> Discard;",
    make: |make| Box::new(Meter::new(make, Unit::Bytes)),
    ..PACKETS
};

struct Meter {
    unit: Unit,
    rate: RateAverage,
    /// Rates per tick, scaled.
    meters: Vec<i64>,
}

impl Meter {
    fn new(make: &mut ElementBuilder<'_>, unit: Unit) -> Meter {
        let arguments = make.rest();
        if arguments.is_empty() {
            make.error("too few arguments to BandwidthMeter(bandwidth, ...)");
        } else if arguments.len() + 1 != make.outputs() {
            let need = make.outputs() - 1;
            make.error(format!("need {need} arguments, one less than the number of output ports"));
        }
        let mut rates: Vec<u64> = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            let rate = make.parse::<Bandwidth>(argument).ok().filter(|rate| rate.bytes < 1e15);
            if unit == Unit::Bytes && rate.is_some_and(|rate| rate.unitless) {
                let number = at + 1;
                make.warn(format!("no units for bandwidth argument {number}, assuming Bps"));
            }
            match (rate.map(|rate| rate.bytes as u64), rates.last()) {
                (None, _) => make.error(format!("argument {} syntax error", at + 1)),
                (Some(rate), Some(before)) if rate <= *before => {
                    make.error(format!("rate {} must be > rate {at}", at + 1));
                }
                (Some(rate), _) => rates.push(rate),
            }
        }
        let scaled = |rate: &u64| ((rate << Average::SCALE) / RateAverage::FREQUENCY) as i64;
        Meter { unit, rate: RateAverage::new(), meters: rates.iter().map(scaled).collect() }
    }
}

/// A scaled rate per tick as a rate per second.
fn per_second(scaled: i64) -> String {
    binary_text(scaled.max(0) as u64 * RateAverage::FREQUENCY, Average::SCALE)
}

impl Element for Meter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.rate.pass(cx.steady());
        self.rate.add(match self.unit {
            Unit::Packets => frame.len() as u64,
            Unit::Bytes => Slot::total_len(frame.slots()),
        });
        let rate = self.rate.scaled();
        let output = self.meters.iter().take_while(|meter| rate >= **meter).count();
        if output > 0 {
            cx.out.emit_frame(output, frame);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Meter>() {
            self.rate = old.rate.clone();
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "rate" => {
                self.rate.pass(cx.steady());
                Ok(per_second(self.rate.scaled()))
            }
            "meters" => Ok(self.meters.iter().copied().map(per_second).collect()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn the_rate_chooses_the_output() {
        let mut run = Run::new(
            "RatedSource(RATE 5000, LIMIT 10000, STOP true) -> m :: Meter(1000, 8000) \
                -> a :: Counter -> Discard; m [1] -> b :: Counter -> Discard; \
                m [2] -> c :: Counter -> Discard",
        );
        run.run();
        // Packets in the first millisecond, the source's burst, are below any rate.
        let counts = ["a", "b", "c"].map(|name| run.read(&format!("{name}.count")));
        assert_eq!(counts, ["50", "9950", "0"]);
        assert_eq!(run.read("m.meters"), "10008000");
        assert_eq!(run.read("m.rate"), "4993.164");
    }

    #[test]
    fn handlers_read_as_clicks() {
        let mut run = Run::new(
            "Idle -> m :: Meter(10, 20, 1000) -> Discard; m[1] -> Discard; m[2] -> Discard; \
                m[3] -> Discard; Idle -> n :: BandwidthMeter(10kbps) -> Discard; n[1] -> Discard",
        );
        assert_eq!(run.read("m.meters"), "9.76619.5311000");
        assert_eq!(run.read("n.meters"), "1250");
        assert_eq!(run.read("m.rate"), "0");
    }

    #[test]
    fn errors_are_clicks() {
        let errors = |config: &str| {
            Run::errors(&format!("Idle -> m :: {config} -> Discard; m[1] -> Discard"))
        };
        for (config, text) in [
            ("Meter", "too few arguments to BandwidthMeter(bandwidth, ...)"),
            ("Meter(1, 2)", "need 1 arguments, one less than the number of output ports"),
            ("Meter(x)", "argument 1 syntax error"),
            ("BandwidthMeter(2, 1)", "rate 2 must be > rate 1"),
        ] {
            assert!(errors(config).contains(text), "{config}: {}", errors(config));
        }
    }

    #[test]
    fn a_warning_of_a_new_configuration_is_given_once() {
        let mut run = Run::new(
            "a :: InfiniteSource(LIMIT 1) -> m :: BandwidthMeter(10kBps) -> Discard;
             m [1] -> Discard; b :: InfiniteSource(LIMIT 1) -> m;
             StaticThreadSched(a 0, b 1); DriverManager(wait 0.1s, stop)",
        )
        .workers(2);
        run.run();
        run.write("m.config", "1000").unwrap();
        assert_eq!(
            run.output(),
            "While calling 'm.config 1000':\n  \
             warning: no units for bandwidth argument 1, assuming Bps\n"
        );
    }
}
