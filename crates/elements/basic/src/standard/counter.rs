//! `Counter`: counts packets and bytes and estimates their rates.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerRef, HandlerResult,
    Merge, Right, Text, lang::config::shift_word, parse_integer, unquoted,
};
use linerate_memory::{Frame, Slot};

use super::{FAMILY, rate::Rates};

pub(super) const CLASS: Class = Class {
    name: "Counter",
    family: FAMILY,
    summary: "counts packets and bytes",
    description: "`COUNT_CALL N HANDLER [VALUE]` writes a handler when the count \
        reaches N, `BYTE_COUNT_CALL` when the byte count does. Rates are moving averages in which \
        each millisecond counts for a sixteenth.",
    ports: "1/1",
    args: &[
        Arg::keyword("COUNT_CALL", "N HANDLER [VALUE]", "", "writes a handler at that count"),
        Arg::keyword("BYTE_COUNT_CALL", "N HANDLER [VALUE]", "", "writes a handler at that count"),
    ],
    handlers: &[
        Handler::count("count", "packets so far"),
        Handler::count("byte_count", "bytes so far"),
        Handler::read("rate", "packets per second").merged(Merge::Sum),
        Handler::read("bit_rate", "bits per second").merged(Merge::Sum),
        Handler::read("byte_rate", "bytes per second").merged(Merge::Sum),
        Handler::button("reset", "sets the counts to zero"),
        Handler::button("reset_counts", "sets the counts to zero").flags("U"),
        Handler::value(
            "count_call",
            "the count at which a handler is written; set with handler and value",
        )
        .write_needs(Right::Replace),
        Handler::write("byte_count_call", "sets the byte count at which a handler is written")
            .write_needs(Right::Replace),
    ],
    calls: |plan, at| plan.is_given(at, "COUNT_CALL") || plan.is_given(at, "BYTE_COUNT_CALL"),
    cost: "About one cycle per packet: only lengths are added up, which are in the slots. For the \
        rates the cycle counter is read once in a thousand packets and the clock at most a \
        thousand times a second.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard;",
    make: |make| Box::new(Counter::new(make)),
    writes: false,
    ..Class::here()
};

#[derive(Default)]
struct Counter {
    count: u64,
    bytes: u64,
    /// Counts at which something is to be done; the largest number for never.
    count_due: u64,
    bytes_due: u64,
    count_call: Option<Call>,
    bytes_call: Option<Call>,
    rates: Rates,
}

/// A handler to be written when a count is reached.
#[derive(Clone)]
struct Call {
    at: u64,
    /// The handler and the value written to it, as they were given: other elements are there when
    /// this one is initialized.
    text: String,
    handler: Option<HandlerRef>,
}

impl Call {
    fn new(make: &mut ElementBuilder<'_>, name: &str) -> Option<Call> {
        let Text(text) = make.get(name)?;
        let (at, rest) = shift_word(&text);
        let Some(at) = parse_integer(at).filter(|at| *at >= 0) else {
            make.error(format!("{name} type mismatch"));
            return None;
        };
        let at = u64::try_from(at).unwrap_or_else(|_| {
            make.tell(format!("{name} overflow, max {}", u64::MAX));
            u64::MAX
        });
        Some(Call { at, text: rest.to_owned(), handler: None })
    }

    /// Finds the handler.
    fn resolve(mut self, cx: &Context) -> Result<Call, HandlerError> {
        self.handler = Some(cx.find_write_handler(shift_word(&self.text).0)?);
        Ok(self)
    }

    /// Reads the value written to the handler that sets a call.
    fn parse(cx: &Context, handler: &str, text: &str) -> Result<Call, HandlerError> {
        let (at, rest) = shift_word(text);
        let at = parse_integer(at).and_then(|at| u64::try_from(at).ok()).ok_or_else(|| {
            HandlerError::refused(format!("'{handler}' first word should be unsigned (count)"))
        })?;
        Call { at, text: rest.to_owned(), handler: None }.resolve(cx)
    }
}

fn due(call: &Option<Call>) -> u64 {
    call.as_ref().map_or(u64::MAX, |call| call.at)
}

impl Counter {
    fn new(make: &mut ElementBuilder<'_>) -> Counter {
        let count_call = Call::new(make, "COUNT_CALL");
        let bytes_call = Call::new(make, "BYTE_COUNT_CALL");
        Counter {
            count: 0,
            bytes: 0,
            count_due: due(&count_call),
            bytes_due: due(&bytes_call),
            count_call,
            bytes_call,
            rates: Rates::default(),
        }
    }

    fn reset(&mut self) {
        (self.count, self.bytes) = (0, 0);
        (self.count_due, self.bytes_due) = (due(&self.count_call), due(&self.bytes_call));
    }

    /// Counts packet by packet, as a count to act at is among them.
    #[cold]
    fn count_each(&mut self, cx: &mut Context, frame: &Frame) {
        for slot in frame.slots() {
            self.count += 1;
            self.bytes += slot.len() as u64;
            if self.count == self.count_due {
                self.count_due = u64::MAX;
                self.call(cx, self.count_call.clone());
            }
            if self.bytes >= self.bytes_due {
                self.bytes_due = u64::MAX;
                self.call(cx, self.bytes_call.clone());
            }
        }
    }

    fn call(&mut self, cx: &mut Context, call: Option<Call>) {
        let Some(Call { text, handler: Some(handler), .. }) = call else { return };
        let value = unquoted(shift_word(&text).1);
        // The called handler may read, reset or set this counter.
        let result = cx.stand_in(self, |cx| cx.write_handler(&handler, &value));
        if let Err(error) = result {
            let name = cx.name().to_owned();
            cx.console().report(&format!("{name}: {error}\n"));
        }
    }
}

impl Element for Counter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let count = self.count + frame.len() as u64;
        let bytes = self.bytes + Slot::total_len(frame.slots());
        self.rates.add(cx, count - self.count, bytes - self.bytes);
        if count >= self.count_due || bytes >= self.bytes_due {
            self.count_each(cx, frame);
        } else {
            (self.count, self.bytes) = (count, bytes);
        }
    }

    fn until_call(&self) -> usize {
        let packets = self.count_due.checked_sub(self.count).filter(|packets| *packets > 0);
        let bytes = self.bytes_due.saturating_sub(self.bytes).div_ceil(u16::MAX.into()).max(1);
        usize::try_from(packets.unwrap_or(u64::MAX).min(bytes)).unwrap_or(usize::MAX)
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.rates = Rates::new(cx);
        for call in [&mut self.count_call, &mut self.bytes_call] {
            let found = call.take().map(|call| call.resolve(cx)).transpose();
            *call = found.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Counter>() {
            // Of several replicas one may take over from all.
            self.count += old.count;
            self.bytes += old.bytes;
            std::mem::swap(&mut self.rates, &mut old.rates);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "rate" => Ok(self.rates.packet_rate(cx)),
            "byte_rate" => Ok(self.rates.byte_rate(cx)),
            "bit_rate" => Ok(self.rates.bit_rate(cx)),
            "count_call" => {
                Ok(self.count_call.as_ref().map_or(String::new(), |call| call.at.to_string()))
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "reset" | "reset_counts" => self.reset(),
            "count_call" => {
                self.count_call = Some(Call::parse(cx, handler, value)?);
                self.count_due = due(&self.count_call);
            }
            "byte_count_call" => {
                self.bytes_call = Some(Call::parse(cx, handler, value)?);
                self.bytes_due = due(&self.bytes_call);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn counts_packets_and_bytes() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 100, LIMIT 1000, STOP true) -> c :: Counter -> Discard",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(run.read("c.count"), "1000");
            assert_eq!(run.read("c.byte_count"), "100000");
            run.write("c.reset", "").unwrap();
            assert_eq!(run.read("c.count"), "0");
            assert_eq!(run.read("c.byte_count"), "0");
        }
    }

    #[test]
    fn a_reached_count_writes_a_handler_once() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 100, STOP true)
                -> c :: Counter(COUNT_CALL 10 d.reset_counts) -> d :: Discard",
        )
        .frame_limit(1);
        run.run();
        assert_eq!(run.read("d.count"), "91");
    }

    /// The counts are those of Click 2.1.
    #[test]
    fn a_counter_can_reset_itself() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 60, LIMIT 100, STOP true)
                    -> c :: Counter(BYTE_COUNT_CALL 1201 c.reset) -> Discard",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(run.read("c.count"), "16");
        }
    }

    #[test]
    fn calls_can_be_set_while_it_runs() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 50, STOP true) -> c :: Counter -> d :: Discard;
                e :: Counter; Idle -> e -> Discard",
            )
            .frame_limit(limit);
            assert_eq!(run.read("c.count_call"), "");
            run.write("c.count_call", "20 c.reset").unwrap();
            assert_eq!(run.read("c.count_call"), "20");
            run.run();
            assert_eq!(run.read("c.count"), "10");
            run.write("c.count_call", "30 stop").unwrap();
            assert_eq!(run.read("c.count_call"), "30");
            assert_eq!(run.write("c.count_call", "40").unwrap_err().to_string(), "syntax error");
            let error = run.write("c.count_call", "soon").unwrap_err().to_string();
            assert_eq!(error, "'count_call' first word should be unsigned (count)");
            let error = run.write("c.byte_count_call", "-1").unwrap_err().to_string();
            assert_eq!(error, "'byte_count_call' first word should be unsigned (count)");
            assert!(run.write("c.count_call", "1 nobody.reset").is_err());
        }
    }

    #[test]
    fn wrong_handlers_and_counts_are_named() {
        for (config, error) in [
            ("COUNT_CALL 10 e.reset", "no element named 'e'"),
            ("COUNT_CALL x y", "COUNT_CALL type mismatch"),
            ("COUNT_CALL -1 stop", "COUNT_CALL type mismatch"),
            ("BYTE_COUNT_CALL x stop", "BYTE_COUNT_CALL type mismatch"),
            ("5", "too many arguments"),
        ] {
            let errors = Run::errors(&format!("Idle -> c :: Counter({config}) -> Discard"));
            assert!(errors.contains(error), "{errors}");
        }
    }

    #[test]
    fn a_count_that_is_too_large_is_bounded() {
        let mut run = Run::new(
            "Idle -> c :: Counter(COUNT_CALL 99999999999999999999 stop)
            -> Discard",
        );
        assert_eq!(run.read("c.count_call"), u64::MAX.to_string());
        assert!(run.output().contains("COUNT_CALL overflow, max 18446744073709551615"));
    }

    /// Click's answers: an element at work pulling is told when the packet has arrived.
    #[test]
    fn a_pulling_element_can_be_stopped_by_the_packet_it_pulls() {
        for (config, counts) in [
            (
                "InfiniteSource(LIMIT 99) -> c :: Counter(COUNT_CALL 33 u.active false)
                -> u :: Unqueue -> d :: Counter -> Discard",
                ["33", "33"],
            ),
            (
                "InfiniteSource(LIMIT 99) -> Queue -> d :: Counter
                -> c :: Counter(COUNT_CALL 33 u.active false) -> u :: Discard",
                ["33", "33"],
            ),
        ] {
            let mut run = Run::new(&format!("{config}; Script(wait 1s, stop)")).frame_limit(1);
            run.run();
            assert_eq!(["c.count", "d.count"].map(|handler| run.read(handler)), counts);
            assert_eq!((run.read("u.active"), run.output()), ("false".into(), String::new()));
        }
    }
}
