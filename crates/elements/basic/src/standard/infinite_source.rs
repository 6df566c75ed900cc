//! `InfiniteSource` and `RandomSource`: packets as fast as they are taken.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    Right, Signals, parse_bool, parse_integer,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::{
    call::{self, End},
    random::Random,
    template::{Template, stamp},
};

pub(super) const CLASS: Class = Class {
    name: "InfiniteSource",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "makes packets as fast as they are taken",
    description: "Makes `LIMIT` packets with the bytes of `DATA`, repeated to or cut at \
        `LENGTH`, `BURST` in a turn. Without `BURST` it makes one, and takes as many turns at once \
        as queues behind it have room for. With a push output it stops while everything behind it \
        is full. When the limit is reached, `STOP true` asks for the end of the run, and \
        `END_CALL` writes a handler.",
    ports: "0/1",
    args: &[
        Arg::optional("DATA", "string", "a text of 64 bytes", "the packets' bytes"),
        Arg::optional("LIMIT", "packets", "-1: no limit", "packets to make in all"),
        Arg::optional("BURST", "packets", "1, many times", "packets made in a turn"),
        Arg::optional("ACTIVE", "bool", "true", "whether it makes packets"),
        Arg::keyword("TIMESTAMP", "bool", "true", "whether packets have the time they were made"),
        Arg::keyword("LENGTH", "bytes", "length of DATA", "length of the packets"),
        Arg::keyword("DATASIZE", "bytes", "length of DATA", "older name of LENGTH"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the limit ends the run"),
        Arg::keyword("END_CALL", "HANDLER [VALUE]", "", "writes a handler at the limit"),
    ],
    handlers: &[
        Handler::count("count", "packets made"),
        Handler::button("reset", "sets the count to zero, so that the limit is made again"),
        Handler::value("data", "the packets' bytes").flags("%."),
        Handler::value("limit", "packets to make in all").flags("."),
        Handler::value("burst", "packets made at a time").flags("."),
        Handler::value("active", "whether it makes packets").flags("c"),
        Handler::value("length", "length of the packets; -1 for that of the data").flags("."),
        Handler::value("burstsize", "older name of burst").flags(".D"),
        Handler::value("datasize", "older name of length").flags(".D"),
    ],
    stops: true,
    signals: Signals { empty: true, full: false },
    cost: "Writes every packet whole: about two cycles for 64 bytes at 256 per frame.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| {
        let template = Template::from_args(make);
        Box::new(InfiniteSource::new(make, template))
    },
    ..Class::here()
};

pub(super) const RANDOM: Class = Class {
    name: "RandomSource",
    reconfigured: Some(Right::Replace),
    summary: "makes packets of random bytes as fast as they are taken",
    description: "As InfiniteSource, but that packets have `LENGTH` random bytes, others each.",
    args: &[
        Arg::required("LENGTH", "bytes", "length of the packets"),
        Arg::optional("LIMIT", "packets", "-1: no limit", "packets to make in all"),
        Arg::optional("BURST", "packets", "frame limit", "packets made at a time"),
        Arg::optional("ACTIVE", "bool", "true", "whether it makes packets"),
        Arg::keyword("TIMESTAMP", "bool", "true", "whether packets have the time they were made"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the limit ends the run"),
        Arg::keyword("END_CALL", "HANDLER [VALUE]", "", "writes a handler at the limit"),
    ],
    handlers: &[
        Handler::count("count", "packets made"),
        Handler::button("reset", "sets the count to zero, so that the limit is made again"),
        Handler::value("limit", "packets to make in all").flags("."),
        Handler::value("burst", "packets made at a time").flags("."),
        Handler::value("active", "whether it makes packets").flags("c"),
        Handler::value("length", "length of the packets").flags("."),
    ],
    cost: "Writes every packet whole, eight bytes for each number drawn.",
    example: "RandomSource(64, LIMIT 10, STOP true) -> Discard;",
    make: |make| {
        let length: i64 = make.need("LENGTH");
        if !(0..64 * 1024).contains(&length) {
            make.error(format!("bad length {length}"));
        }
        let template = Template::new(make, vec![0], length.max(0));
        let random = Some(Random::new(make));
        Box::new(InfiniteSource { random, ..InfiniteSource::new(make, template) })
    },
    ..CLASS
};

struct InfiniteSource {
    template: Template,
    /// Source of random bytes in place of the template's, where they are wanted.
    random: Option<Random>,
    /// Packets still to make in all, no limit below zero.
    limit: i64,
    count: i64,
    /// Packets it makes in a turn, when that is given; more than a frame holds in several.
    burst: Option<usize>,
    active: bool,
    stamps: bool,
    end: End,
    pushes: bool,
}

impl InfiniteSource {
    fn new(make: &mut ElementBuilder<'_>, template: Template) -> InfiniteSource {
        let burst = make.get::<i64>("BURST");
        if burst.is_some_and(|burst| burst < 1) {
            make.error("burst size must be >= 1");
        }
        let end = End::from_args(make);
        InfiniteSource {
            template,
            random: None,
            limit: make.or("LIMIT", -1),
            count: 0,
            burst: burst.map(|burst| burst.max(1) as usize),
            active: make.or("ACTIVE", true),
            stamps: make.or("TIMESTAMP", true),
            end,
            pushes: make.output_is_push(0),
        }
    }

    /// Packets that may be made now, at most `count`.
    fn allowed(&self, count: usize) -> usize {
        match self.limit {
            _ if !self.active => 0,
            limit if limit < 0 => count,
            limit => count.min((limit - self.count).max(0) as usize),
        }
    }

    #[inline]
    fn make(&mut self, cx: &mut Context, count: usize, frame: &mut Frame) -> usize {
        let made = self.template.make(cx, count, frame);
        if self.random.is_some() {
            self.randomize(cx, frame);
        }
        self.count += made as i64;
        if self.stamps {
            stamp(cx, frame);
        }
        made
    }

    #[inline(never)]
    fn randomize(&mut self, cx: &Context, frame: &mut Frame) {
        if let Some(random) = &mut self.random {
            cx.pool.arena().for_each_mut(frame, |bytes| random.fill(bytes));
        }
    }

    /// Handles a pull or a turn in which no packet may be made: at the limit it carries out the
    /// action of the end.
    #[cold]
    fn ended(&mut self, cx: &mut Context) {
        if self.limit < 0 || self.count < self.limit || !self.active {
            return;
        }
        match &self.end {
            End::Nothing => {}
            End::Stop => cx.driver.stop(),
            End::Call(made) => {
                let made = made.clone();
                call::perform(&made, self, cx, str::to_owned);
            }
        }
    }
}

impl Element for InfiniteSource {
    fn burst(&self) -> Option<usize> {
        self.burst
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if cx.is_downstream_full() {
            return Next::Sleep;
        }
        let mut count = self.allowed(self.burst.unwrap_or(frame.limit()));
        if count == 0 {
            self.ended(cx);
            return Next::Sleep;
        }
        while count > frame.limit() {
            let made = self.make(cx, frame.limit(), frame);
            if made == 0 {
                break;
            }
            count -= made;
            cx.out.emit_frame(0, frame);
        }
        match self.make(cx, count, frame) {
            // All buffers are on their way: they come back.
            0 => Next::Idle,
            _ => Next::Again,
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let allowed = self.allowed(count);
        if allowed == 0 {
            self.ended(cx);
        } else {
            self.make(cx, allowed, frame);
        }
    }

    fn ready(&self) -> Option<usize> {
        Some(self.allowed(usize::MAX))
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if let End::Call(call) = &self.end {
            cx.check_writable(&call.handler).map_err(|error| error.to_string())?;
        }
        if self.pushes {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<InfiniteSource>() {
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "data" => Ok(self.template.text()),
            "limit" => Ok(self.limit.to_string()),
            "burst" | "burstsize" => Ok(self.burst.unwrap_or(1).to_string()),
            "active" => Ok(self.active.to_string()),
            "length" | "datasize" => Ok(self.template.length_text()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let refused = |error: &'static str| move || HandlerError::refused(error);
        let number = parse_integer(value);
        match handler {
            "reset" => self.count = 0,
            "data" => self.template.set_data(value),
            "limit" => {
                let limit = number.ok_or_else(refused("limit parameter must be integer"))?;
                self.limit = limit.clamp(-1, i64::MAX.into()) as i64;
            }
            "burst" | "burstsize" => {
                let burst = number.filter(|burst| *burst >= 1);
                let burst =
                    burst.ok_or_else(refused("burstsize parameter must be integer >= 1"))?;
                self.burst = Some(burst.min(u32::MAX.into()) as usize);
            }
            "length" | "datasize" => {
                let length = number.ok_or_else(refused("length must be integer"))?;
                self.template.set_length(length);
            }
            "active" => {
                let active = parse_bool(value);
                self.active = active.ok_or_else(refused("active parameter must be boolean"))?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        if self.active && (self.limit < 0 || self.count < self.limit) {
            if self.pushes {
                cx.schedule();
            } else {
                cx.notify();
            }
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn random_packets_differ_and_have_the_length() {
        for limit in [1, 7, 32, 256] {
            let mut run = Run::new(
                "r :: RandomSource(12, 300, BURST 50, STOP true) -> c :: Collect; \
                    RandomSource(0, LIMIT 5) -> d :: Collect",
            )
            .frame_limit(limit);
            run.run();
            let packets = run.read("c.packets");
            let mut packets: Vec<&str> = packets.lines().collect();
            assert!(packets.len() == 300 && packets.iter().all(|packet| packet.len() == 24));
            packets.sort_unstable();
            packets.dedup();
            assert_eq!(packets.len(), 300);
            assert_eq!((run.read("r.count"), run.read("r.length")), ("300".into(), "12".into()));
            assert_eq!(run.read("d.lengths"), "0\n0\n0\n0\n0");
        }
    }

    #[test]
    fn the_end_of_the_limit_writes_a_handler() {
        let mut run =
            Run::new("i :: InfiniteSource(LIMIT 1000, BURST 300, END_CALL stop) -> d :: Discard");
        run.run();
        assert_eq!(run.read("d.count"), "1000");
        assert_eq!((run.read("i.count"), run.read("i.burst")), ("1000".into(), "300".into()));
    }

    #[test]
    fn a_pulled_source_ends_the_run_too() {
        let mut run = Run::new("InfiniteSource(LIMIT 1000, STOP true) -> d :: Discard(BURST 8)");
        run.run();
        assert_eq!(run.read("d.count"), "1000");
    }

    #[test]
    fn a_burst_can_be_longer_than_a_frame() {
        let mut run = Run::new("InfiniteSource(LIMIT 1000, BURST 7, STOP true) -> d :: Discard")
            .frame_limit(1);
        run.run();
        assert_eq!(run.read("d.count"), "1000");
    }

    #[test]
    fn errors_are_clicks() {
        for (config, text) in [
            ("BURST 0", "burst size must be >= 1"),
            ("STOP true, END_CALL stop", "END_CALL and STOP are mutually exclusive"),
        ] {
            let errors = Run::errors(&format!("InfiniteSource({config}) -> Discard"));
            assert!(errors.contains(text), "{errors}");
        }
    }
}
