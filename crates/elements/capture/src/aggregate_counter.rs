//! `AggregateCounter`: counts packets or bytes per aggregate.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::Path,
};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerCall, HandlerError,
    HandlerResult, Right, Text, lang::config::shift_word, parse_bool, parse_integer, unquoted,
};
use linerate_linux::files;
use linerate_memory::Frame;

use super::{
    FAMILY,
    amount::{Amount, BYTES, EXTRA_LENGTH, IP_BYTES, MULTIPACKET},
    spread::ByAggregate,
};
use linerate_element_support::{
    annotations, call, fmt_g::format_g, output::reason, run_end::RunEnd,
};

/// Default of `CAPACITY`.
const CAPACITY: usize = 1 << 20;

pub(super) const CLASS: Class = Class {
    name: "AggregateCounter",
    family: FAMILY,
    summary: "counts packets or bytes per aggregate",
    description: "Counts by the packets' aggregate, which `AggregateIP` and `AggregateIPFlows` \
        set. When frozen it counts only aggregates it has seen; packets that come by input 1 \
        are treated so always. Packets that are not counted leave by output 1, if there is one. \
        At most `CAPACITY` aggregates are counted; packets of others are not, and are counted as \
        `refused`. \
        The handlers `write_text_file` and its like write all counts to a file, `-` for the \
        standard output.",
    ports: "1-2/1-2",
    args: &[
        BYTES,
        IP_BYTES,
        MULTIPACKET,
        EXTRA_LENGTH,
        Arg::keyword("AGGREGATE_FREEZE", "N", "", "freezes after so many aggregates"),
        Arg::keyword("AGGREGATE_STOP", "N", "", "ends the run after so many aggregates"),
        Arg::keyword("AGGREGATE_CALL", "N HANDLER [VALUE]", "", "writes a handler then"),
        Arg::keyword("COUNT_FREEZE", "N", "", "freezes at that count"),
        Arg::keyword("COUNT_STOP", "N", "", "ends the run at that count"),
        Arg::keyword("COUNT_CALL", "N HANDLER [VALUE]", "", "writes a handler then"),
        Arg::keyword("BANNER", "text", "", "a text at the head of files"),
        Arg::keyword("CAPACITY", "aggregates", "1048576", "most aggregates counted"),
    ],
    handlers: &[
        Handler::count("count", "packets or bytes in all"),
        Handler::read("nagg", "aggregates seen"),
        Handler::count("refused", "packets of aggregates there was no room for"),
        Handler::value("freeze", "whether it is frozen").flags("c"),
        Handler::value("active", "whether it counts").flags("c"),
        Handler::button("stop", "stops counting and ends the run"),
        Handler::value("banner", "the text at the head of files").flags("%"),
        Handler::write("clear", "forgets all counts"),
        Handler::write("counts_pdf", "counts how often each count occurs"),
        Handler::write("reaggregate_counts", "counts how often each count occurs, an older name"),
        Handler::value("aggregate_call", "handler call made after so many aggregates")
            .write_needs(Right::Replace),
        Handler::value("count_call", "handler call made at that count").write_needs(Right::Replace),
        Handler::write("write_text_file", "writes aggregates and counts as text")
            .write_needs(Right::Replace),
        Handler::write("write_ascii_file", "the same").write_needs(Right::Replace),
        Handler::write("write_ip_file", "writes aggregates as addresses, and counts, as text")
            .write_needs(Right::Replace),
        Handler::write("write_pdf_file", "writes aggregates and shares of the count")
            .write_needs(Right::Replace),
        Handler::write("write_file", "writes aggregates and counts packed")
            .write_needs(Right::Replace),
    ],
    annotates: true,
    calls: |plan, at| {
        let ends = ["COUNT_CALL", "AGGREGATE_CALL", "COUNT_STOP", "AGGREGATE_STOP"];
        ends.iter().any(|name| plan.is_given(at, name))
    },
    cost: "A look-up in a hash table per packet: some 20 cycles while it fits the cache.",
    example: "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\") \
        -> AggregateCounter -> Discard;",
    make: |make| Box::new(AggregateCounter::new(make)),
    ..Class::here()
};

type Counts = ByAggregate<u32>;

struct AggregateCounter {
    counts: Counts,
    /// Aggregates whose count is not zero.
    seen: u32,
    total: u64,
    amount: Amount,
    frozen: bool,
    active: bool,
    run_end: RunEnd,
    at_seen: Option<(u64, Action)>,
    at_total: Option<(u64, Action)>,
    banner: String,
    capacity: usize,
    refused: u64,
    chosen: Vec<bool>,
}

/// Action at a number.
#[derive(Clone)]
enum Action {
    Freeze,
    Stop,
    Call(Box<HandlerCall>, String),
}

/// Format of counts in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Text,
    Addresses,
    Shares,
    Packed,
}

impl Action {
    /// Returns the action of the given one of `_FREEZE`, `_STOP` and `_CALL`.
    fn from_args(
        make: &mut ElementBuilder<'_>,
        names: [&str; 3],
        what: &str,
    ) -> Option<(u64, Action)> {
        let freeze = make.get::<u64>(names[0]).map(|at| (at, Action::Freeze));
        let stop = make.get::<u64>(names[1]).map(|at| (at, Action::Stop));
        let call = make.get::<Text>(names[2]).and_then(|Text(text)| {
            let parse = |text: &str| make.parse::<HandlerCall>(text);
            let parsed = Action::parse(&text, parse);
            if let Err(error) = &parsed {
                let error = match error.as_str() {
                    "" => format!("{} first word should be unsigned ({what})", names[2]),
                    error => format!("{}: {error}", names[2]),
                };
                make.error(error);
            }
            parsed.ok()
        });
        if [&freeze, &stop, &call].iter().filter(|given| given.is_some()).count() > 1 {
            let [freeze, stop, call] = names;
            make.error(format!("'{freeze}', '{stop}', and '{call}' are mutually exclusive"));
        }
        freeze.or(stop).or(call)
    }

    /// Reads `N HANDLER [VALUE]`. The error is empty when there is no number.
    fn parse(
        text: &str,
        parse: impl FnOnce(&str) -> Result<HandlerCall, String>,
    ) -> Result<(u64, Action), String> {
        let (number, rest) = shift_word(text);
        let number = parse_integer(number).and_then(|number| u64::try_from(number).ok());
        let call = parse(rest);
        Ok((number.ok_or("")?, Action::Call(Box::new(call?), rest.into())))
    }

    fn text(&self, name: &str) -> String {
        match self {
            Action::Freeze => format!("{name}.freeze true"),
            Action::Stop => format!("{name}.stop"),
            Action::Call(_, text) => text.clone(),
        }
    }
}

impl AggregateCounter {
    fn new(make: &mut ElementBuilder<'_>) -> AggregateCounter {
        AggregateCounter {
            counts: Counts::default(),
            seen: 0,
            total: 0,
            amount: Amount::from_args(make),
            frozen: false,
            active: true,
            run_end: RunEnd::new(make),
            at_seen: Action::from_args(
                make,
                ["AGGREGATE_FREEZE", "AGGREGATE_STOP", "AGGREGATE_CALL"],
                "number of aggregates",
            ),
            at_total: Action::from_args(
                make,
                ["COUNT_FREEZE", "COUNT_STOP", "COUNT_CALL"],
                "count",
            ),
            banner: make.get("BANNER").unwrap_or_default(),
            capacity: make.or("CAPACITY", CAPACITY).max(1),
            refused: 0,
            chosen: Vec::new(),
        }
    }

    /// Counts; `false` when nothing was counted.
    fn count(&mut self, cx: &mut Context, aggregate: u32, amount: u32, mut frozen: bool) -> bool {
        loop {
            if !self.active {
                return false;
            }
            let known = self.counts.get_mut(&aggregate).filter(|count| **count > 0);
            if let Some(count) = known {
                *count = count.wrapping_add(amount);
                break;
            }
            if frozen {
                return false;
            }
            if amount == 0 {
                return true;
            }
            let seen = u64::from(self.seen);
            if let Some((_, action)) = self.at_seen.take_if(|(at, _)| seen >= *at) {
                self.act(cx, &action);
                frozen |= self.frozen;
                continue;
            }
            if self.counts.len() >= self.capacity && !self.counts.contains_key(&aggregate) {
                self.refused += 1;
                return false;
            }
            self.seen += 1;
            self.counts.insert(aggregate, amount);
            break;
        }
        self.total += u64::from(amount);
        if let Some((_, action)) = self.at_total.take_if(|(at, _)| self.total >= *at) {
            self.act(cx, &action);
        }
        true
    }

    #[cold]
    fn act(&mut self, cx: &mut Context, action: &Action) {
        match action {
            Action::Freeze => self.frozen = true,
            Action::Stop => {
                self.active = false;
                self.run_end.ask(cx);
            }
            Action::Call(made, _) => call::perform(made, self, cx, str::to_owned),
        }
    }

    fn clear(&mut self) {
        self.counts.clear();
        (self.seen, self.total) = (0, 0);
    }

    /// Replaces aggregates by their counts, and counts how often these occur.
    fn count_counts(&mut self) {
        let old = std::mem::take(&mut self.counts);
        self.clear();
        for count in old.into_values().filter(|count| *count > 0) {
            *self.counts.entry(count).or_default() += 1;
            self.total += 1;
        }
        self.seen = self.counts.len() as u32;
    }

    fn file(&self, layout: Layout) -> Vec<u8> {
        let mut text = format!("!IPAggregate 1.0\n{}", self.banner);
        if !self.banner.is_empty() && !self.banner.ends_with('\n') {
            text.push('\n');
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "!num_nonzero {}", self.seen);
        match layout {
            Layout::Packed if cfg!(target_endian = "big") => text.push_str("!packed_be\n"),
            Layout::Packed => text.push_str("!packed_le\n"),
            Layout::Addresses => text.push_str("!ip\n"),
            Layout::Text | Layout::Shares => {}
        }
        let mut counts: Vec<_> = self.counts.iter().filter(|(_, count)| **count > 0).collect();
        counts.sort_unstable();
        if layout == Layout::Packed {
            let mut file = text.into_bytes();
            for (aggregate, count) in counts {
                file.extend(aggregate.to_ne_bytes());
                file.extend(count.to_ne_bytes());
            }
            return file;
        }
        for (aggregate, count) in counts {
            let _ = match layout {
                Layout::Addresses => {
                    writeln!(text, "{} {count}", std::net::Ipv4Addr::from(*aggregate))
                }
                Layout::Shares => {
                    let share = format_g(f64::from(*count) / self.total as f64);
                    writeln!(text, "{aggregate} {share}")
                }
                Layout::Text | Layout::Packed => writeln!(text, "{aggregate} {count}"),
            };
        }
        text.into_bytes()
    }

    fn write_file(&self, cx: &Context, path: &str, layout: Layout) -> Result<(), HandlerError> {
        let path = unquoted(path);
        let refused = |error| HandlerError::refused(format!("{path}: {}", reason(&error)));
        let file = self.file(layout);
        match (&*path, layout) {
            ("", _) => Err(HandlerError::refused("argument should be filename")),
            ("-", Layout::Packed) => io::stdout().write_all(&file).map_err(refused),
            ("-", _) => {
                cx.console().print(&String::from_utf8_lossy(&file));
                Ok(())
            }
            (path, _) => files::replace(Path::new(path), &file).map_err(refused),
        }
    }
}

impl Element for AggregateCounter {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        for at in 0..frame.len() {
            let slot = &frame.slots()[at];
            let meta = cx.pool.arena().meta(slot);
            let (aggregate, amount) = (annotations::aggregate(meta), self.amount.of(slot, meta));
            let frozen = self.frozen || port == 1;
            chosen.push(self.count(cx, aggregate, amount, frozen));
        }
        if cx.out.count() > 1 && chosen.contains(&false) {
            let mut next = chosen.iter();
            let out = &mut cx.out;
            frame.retain(|_| next.next() == Some(&true), |slot| out.emit(1, slot));
        }
        self.chosen = chosen;
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AggregateCounter>() {
            self.counts = std::mem::take(&mut old.counts);
            (self.seen, self.total, self.refused) = (old.seen, old.total, old.refused);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let call = |at: &Option<(u64, Action)>| {
            at.as_ref()
                .map_or(String::new(), |(at, action)| format!("{at} {}", action.text(cx.name())))
        };
        match handler {
            "count" => Ok(self.total.to_string()),
            "nagg" => Ok(self.seen.to_string()),
            "refused" => Ok(self.refused.to_string()),
            "freeze" => Ok(self.frozen.to_string()),
            "active" => Ok(self.active.to_string()),
            "banner" => Ok(self.banner.clone()),
            "aggregate_call" => Ok(call(&self.at_seen)),
            "count_call" => Ok(call(&self.at_total)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let value = value.trim();
        let truth = || parse_bool(value).ok_or_else(|| HandlerError::refused("type mismatch"));
        let call = |cx: &Context| {
            if value.is_empty() {
                return Ok(None);
            }
            let refused = |_| {
                let text = format!("argument to '{handler}' should be 'N HANDLER [VALUE]'");
                HandlerError::refused(text)
            };
            let parse = |text: &str| {
                let (handler, value) = shift_word(text);
                let handler = linerate_graph::HandlerRef::find(cx.plan(), handler)
                    .map_err(|error| error.to_string())?;
                Ok(HandlerCall { handler, value: value.into() })
            };
            Action::parse(value, parse).map(Some).map_err(refused)
        };
        match handler {
            "freeze" => self.frozen = truth()?,
            "active" => self.active = truth()?,
            "stop" => {
                self.active = false;
                self.run_end.ask_for_all(cx);
            }
            "banner" => self.banner = value.into(),
            "clear" => self.clear(),
            "counts_pdf" | "reaggregate_counts" => self.count_counts(),
            "aggregate_call" => self.at_seen = call(cx)?,
            "count_call" => self.at_total = call(cx)?,
            "write_text_file" | "write_ascii_file" => self.write_file(cx, value, Layout::Text)?,
            "write_ip_file" => self.write_file(cx, value, Layout::Addresses)?,
            "write_pdf_file" => self.write_file(cx, value, Layout::Shares)?,
            "write_file" => self.write_file(cx, value, Layout::Packed)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::test_files::data;
    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    #[test]
    fn files_are_those_of_click() {
        let scratch = Scratch::new("aggregate-counter");
        let (out, zoo) = (scratch.path("out"), data("zoo.pcap"));
        let mut run = Run::new(&format!(
            "FromDump({zoo}, STOP true, FORCE_IP true) -> AggregateIP(ip dst/24)
             -> c :: AggregateCounter(BYTES true, BANNER foo) -> Discard"
        ));
        run.run();
        for (handler, text) in [
            (
                "write_text_file",
                "!IPAggregate 1.0\nfoo\n!num_nonzero 5\n0 62\n66051 128\n329223 164\n526344 842\n\
                 655360 245\n",
            ),
            (
                "write_ip_file",
                "!IPAggregate 1.0\nfoo\n!num_nonzero 5\n!ip\n0.0.0.0 62\n0.1.2.3 128\n0.5.6.7 164\n\
                 0.8.8.8 842\n0.10.0.0 245\n",
            ),
            (
                "write_pdf_file",
                "!IPAggregate 1.0\nfoo\n!num_nonzero 5\n0 0.0430256766135\n66051 0.088827203331\n\
                 329223 0.113809854268\n526344 0.584316446912\n655360 0.170020818876\n",
            ),
        ] {
            run.write(&format!("c.{handler}"), &out).unwrap();
            assert_eq!(fs::read_to_string(&out).unwrap(), text, "{handler}");
        }
        assert_eq!((run.read("c.nagg"), run.read("c.count")), ("5".into(), "1441".into()));
        run.write("c.write_file", &out).unwrap();
        let packed = fs::read(&out).unwrap();
        assert!(packed.ends_with(&[245, 0, 0, 0]) || packed.ends_with(&[0, 0, 0, 245]));
        run.write("c.counts_pdf", "").unwrap();
        assert_eq!((run.read("c.nagg"), run.read("c.count")), ("5".into(), "5".into()));
        run.write("c.clear", "").unwrap();
        assert_eq!(run.read("c.nagg"), "0");
        assert!(run.write("c.write_text_file", "/nonexistent/x").is_err());
    }

    #[test]
    fn limits_freeze_stop_or_call() {
        let source = "FromIPSummaryDump(STOP true, FIELDS aggregate count,
            DATA \"1 1\\n2 1\\n1 3\\n3 1\\n\")";
        for limit in [1, 256] {
            for (arguments, nagg, count) in [
                ("", "3", "6"),
                ("MULTIPACKET false", "3", "4"),
                ("AGGREGATE_FREEZE 2", "2", "5"),
                ("AGGREGATE_STOP 2", "2", "5"),
                ("AGGREGATE_CALL 1 c.freeze true", "1", "4"),
                ("COUNT_FREEZE 2", "2", "5"),
                ("COUNT_CALL 5 c.stop", "2", "5"),
            ] {
                let text = format!("{source} -> c :: AggregateCounter({arguments}) -> Discard");
                let mut run = Run::new(&text).frame_limit(limit);
                run.run();
                assert_eq!(run.read("c.nagg"), nagg, "{arguments}");
                assert_eq!(run.read("c.count"), count, "{arguments}");
            }
        }
        let errors =
            Run::errors("Idle -> AggregateCounter(COUNT_STOP 1, COUNT_FREEZE 2) -> Discard");
        let text = "'COUNT_FREEZE', 'COUNT_STOP', and 'COUNT_CALL' are mutually exclusive";
        assert!(errors.contains(text), "{errors}");
    }

    /// Packets of two workers, each of which has a part of `c`.
    fn on_two_workers(config: &str, rest: &str) -> Run {
        let text = format!(
            "a :: InfiniteSource(LIMIT 300) -> SetTimestamp -> c :: {config} -> Discard;
             b :: InfiniteSource(LIMIT 200) -> SetTimestamp -> c; StaticThreadSched(a 0, b 1); {rest}"
        );
        Run::new(&text).workers(2)
    }

    #[test]
    fn the_handler_stop_counts_once() {
        for config in ["AggregateCounter", "AggregateCounterVector(7)"] {
            let mut run = on_two_workers(config, "");
            let count = |run: &mut Run| run.control().driver().count();
            let before = count(&mut run);
            run.write("c.stop", "").unwrap();
            assert_eq!(count(&mut run), before - 1, "{config}");
            assert_eq!(run.read("c.active"), "false", "{config}");
        }
    }

    /// Two stops are waited for: the script's is one of them.
    #[test]
    fn an_end_counts_once_on_several_workers() {
        let rest = "Script(wait 100ms, print \"waited\", stop); DriverManager(wait_stop 2, stop)";
        for config in [
            "AggregateCounter(COUNT_STOP 10)",
            "AggregateCounter(AGGREGATE_STOP 0)",
            "TimeFilter(END 1, STOP true)",
        ] {
            let mut run = on_two_workers(config, rest);
            run.run();
            assert_eq!(run.output(), "waited\n", "{config}");
        }
    }

    #[test]
    fn packets_that_are_not_counted_leave_by_output_1() {
        let mut run = Run::new(
            "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\\n2\\n1\\n\")
             -> c :: AggregateCounter(AGGREGATE_FREEZE 1) -> a :: Discard; c [1] -> b :: Discard",
        );
        run.run();
        assert_eq!((run.read("a.count"), run.read("b.count")), ("2".into(), "1".into()));
    }

    #[test]
    fn aggregates_beyond_the_capacity_are_not_counted() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "FromIPSummaryDump(STOP true, FIELDS aggregate,
                     DATA \"1\\n2\\n3\\n1\\n4\\n3\\n2\\n\")
                 -> c :: AggregateCounter(CAPACITY 2) -> a :: Discard; c [1] -> b :: Discard",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!((run.read("a.count"), run.read("b.count")), ("4".into(), "3".into()));
            assert_eq!((run.read("c.count"), run.read("c.nagg")), ("4".into(), "2".into()));
            assert_eq!(run.read("c.refused"), "3");
            // There is room again.
            run.write("c.clear", "").unwrap();
            assert_eq!((run.read("c.nagg"), run.read("c.refused")), ("0".into(), "3".into()));
        }
    }
}
