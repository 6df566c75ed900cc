//! `Counter`: counts packets and bytes and estimates their rates.

use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, HandlerRef, Make, Text,
    lang::config::shift_word, unquoted,
};
use linerate_memory::{Frame, Slot};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Counter",
    family: FAMILY,
    summary: "counts packets and bytes",
    description: "`COUNT_CALL N HANDLER [VALUE]` writes a handler when the count \
        reaches N, `BYTE_COUNT_CALL` when the byte count does. Rates are averages \
        that forget with a time constant of about a second.",
    ports: "1/1",
    args: &[
        Arg::keyword("COUNT_CALL", "N HANDLER [VALUE]", "", "writes a handler at that count"),
        Arg::keyword("BYTE_COUNT_CALL", "N HANDLER [VALUE]", "", "writes a handler at that count"),
    ],
    handlers: &[
        Handler::count("count", "packets so far"),
        Handler::count("byte_count", "bytes so far"),
        Handler::button("reset", "sets the counts to zero"),
        Handler::button("reset_counts", "sets the counts to zero"),
    ],
    cost: "About one cycle per packet: only lengths are added up, which are in the slots.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard;",
    make: |make| Box::new(Counter::new(make)),
    ..Class::EMPTY
};

#[derive(Default)]
struct Counter {
    count: u64,
    bytes: u64,
    at_count: Option<Call>,
    at_bytes: Option<Call>,
}

/// A handler to be written when a count is reached, once until a reset.
struct Call {
    at: u64,
    made: bool,
    handler: HandlerRef,
    value: String,
}

impl Call {
    fn new(make: &mut Make<'_>, name: &str) -> Option<Call> {
        let Text(text) = make.get(name)?;
        let (at, rest) = shift_word(&text);
        let (handler, value) = shift_word(rest);
        match (make.parse(at), make.parse(handler)) {
            (Ok(at), Ok(handler)) => {
                Some(Call { at, made: false, handler, value: unquoted(value) })
            }
            (Err(error), _) | (_, Err(error)) => {
                make.error(format!("{name}: {error}"));
                None
            }
        }
    }
}

impl Counter {
    fn new(make: &mut Make<'_>) -> Counter {
        Counter {
            count: 0,
            bytes: 0,
            at_count: Call::new(make, "COUNT_CALL"),
            at_bytes: Call::new(make, "BYTE_COUNT_CALL"),
        }
    }
}

impl Counter {
    /// Makes the calls whose count has been reached, once each.
    #[cold]
    fn call(&mut self, cx: &mut Context) {
        let reached = [(self.count, &mut self.at_count), (self.bytes, &mut self.at_bytes)];
        let due = |(count, call): (u64, &mut Option<Call>)| {
            let call = call.as_mut().filter(|call| !call.made && count >= call.at)?;
            call.made = true;
            Some((call.handler.clone(), call.value.clone()))
        };
        let calls: Vec<_> = reached.into_iter().filter_map(due).collect();
        for (handler, value) in calls {
            // What is called may read or reset this counter.
            let result = cx.stand_in(self, |cx| cx.write_handler(&handler, &value));
            if let Err(error) = result {
                let name = cx.name().to_owned();
                cx.console().report(&format!("{name}: {error}\n"));
            }
        }
    }
}

impl Element for Counter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.count += frame.len() as u64;
        self.bytes += Slot::total_len(frame.slots());
        if self.at_count.is_some() || self.at_bytes.is_some() {
            self.call(cx);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Counter>() {
            (self.count, self.bytes) = (old.count, old.bytes);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "reset" | "reset_counts" => {
                (self.count, self.bytes) = (0, 0);
                let calls = self.at_count.iter_mut().chain(&mut self.at_bytes);
                calls.for_each(|call| call.made = false);
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
        let mut run = Run::new(
            "InfiniteSource(LENGTH 100, LIMIT 1000, STOP true) -> c :: Counter -> Discard",
        );
        run.run();
        assert_eq!(run.read("c.count"), "1000");
        assert_eq!(run.read("c.byte_count"), "100000");
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

    #[test]
    fn what_is_no_handler_is_named() {
        let errors = Run::errors("Idle -> c :: Counter(COUNT_CALL 10 e.reset) -> Discard");
        assert!(errors.contains("COUNT_CALL: no element named 'e'"), "{errors}");
    }
}
