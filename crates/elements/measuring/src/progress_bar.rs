//! `ProgressBar`: shows on the terminal how far something has got.

use std::{io::IsTerminal, time::Duration};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerRef, HandlerResult,
    Right, Text, parse_bool, unquoted,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::fmt_g::format_g;

pub(super) const CLASS: Class = Class {
    name: "ProgressBar",
    family: FAMILY,
    summary: "shows how far something has got as a bar on the terminal",
    description: "Reads the position from `POSHANDLER` again and again, and once the size at which \
        it is complete from `SIZEHANDLER`; each may be several handlers separated by spaces, whose \
        values are added. Without a size the bar only shows that something moves. Nothing is shown \
        when the standard error stream is no terminal or the program runs in the background.",
    ports: "0/0",
    args: &[
        Arg::required("POSHANDLER", "handlers", "read for the position"),
        Arg::optional("SIZEHANDLER", "handlers", "", "read for the size"),
        Arg::keyword("FIXED_SIZE", "number", "", "the size, when no handler has it"),
        Arg::keyword("BANNER", "string", "", "what to write in front of the bar"),
        Arg::keyword("UPDATE", "seconds", "0.25", "time between two looks at the position"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it is shown from the start"),
        Arg::keyword("DELAY", "seconds", "0", "time before it is first shown"),
        Arg::keyword("CHECK_STDOUT", "bool", "false", "nothing when the output is a terminal"),
    ],
    handlers: &[
        Handler::write("mark_stopped", "shows it for the last time, as it is"),
        Handler::write("mark_done", "shows it for the last time, as complete"),
        Handler::value("active", "whether it is shown").flags("c"),
        Handler::value("banner", "the text in front of the bar").flags("%"),
        Handler::value("poshandler", "handlers read for the position").write_needs(Right::Replace),
        Handler::value("sizehandler", "handlers read for the size").write_needs(Right::Replace),
        Handler::read("pos", "the position last seen"),
        Handler::value("size", "the size"),
        Handler::button("reset", "starts again"),
    ],
    cost: "Some handler calls and a line of text four times a second; none per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard;\n\
        ProgressBar(c.count, FIXED_SIZE 10);",
    make: |make| Box::new(ProgressBar::new(make)),
    ..Class::here()
};

const SECOND: u64 = 1_000_000_000;
/// Without progress for so long it is stalled.
const STALL: u64 = 5 * SECOND;
/// Longest bar, in characters.
const BAR_LIMIT: i64 = 240;
const WIDTH_DEFAULT: i64 = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Not shown yet.
    First,
    Middle,
    /// To be shown for the first and last time.
    FirstDone,
    Done,
    /// Never shown.
    Dead,
}

impl Status {
    fn is_done(self) -> bool {
        matches!(self, Status::FirstDone | Status::Done)
    }
}

struct ProgressBar {
    position: Vec<HandlerRef>,
    sizes: Vec<HandlerRef>,
    update: u64,
    delay: u64,
    active: bool,
    bar: Bar,
}

/// State of the shown bar, apart from the source of its figures.
struct Bar {
    status: Status,
    banner: String,
    size: f64,
    has_size: bool,
    /// Whether the position is shown as a number: not when it only means
    /// something in relation to a fixed size.
    shows_position: bool,
    last_position: f64,
    /// When it was first shown, when it last moved, how long it stood still.
    start: u64,
    moved: u64,
    stalled: u64,
}

impl ProgressBar {
    fn new(make: &mut ElementBuilder<'_>) -> ProgressBar {
        let position = handlers(make, "POSHANDLER");
        if !make.is_given("POSHANDLER") {
            make.need::<Text>("POSHANDLER");
        }
        let sizes = handlers(make, "SIZEHANDLER");
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        let fixed: Option<f64> = make.get("FIXED_SIZE");
        let hidden = make.or("CHECK_STDOUT", false) && std::io::stdout().is_terminal();
        let shown = std::io::stderr().is_terminal() && !hidden;
        ProgressBar {
            update: nanoseconds(make.or("UPDATE", Duration::from_millis(250))).max(1_000_000),
            delay: nanoseconds(make.or("DELAY", Duration::ZERO)),
            active: make.or("ACTIVE", true),
            bar: Bar {
                status: if shown { Status::First } else { Status::Dead },
                banner: make.or("BANNER", String::new()),
                size: fixed.unwrap_or(-1.0),
                has_size: fixed.is_some(),
                shows_position: true,
                last_position: 0.0,
                start: 0,
                moved: 0,
                stalled: 0,
            },
            position,
            sizes,
        }
    }

    /// Looks at the position and shows it.
    fn show(&mut self, cx: &mut Context) {
        if !self.active || self.bar.status == Status::Dead {
            return;
        }
        let now = cx.now();
        if matches!(self.bar.status, Status::First | Status::FirstDone) {
            if !self.bar.has_size {
                let (size, known) = total(cx, &self.sizes);
                (self.bar.size, self.bar.has_size) = (size, known);
            }
            self.bar.begin(now);
        }
        if !in_foreground() {
            cx.set_timer(0, cx.steady() + self.update);
            return;
        }
        let early = (self.bar.start + self.delay).saturating_sub(now);
        if early > 0 {
            cx.set_timer(0, cx.steady() + early);
            return;
        }
        let (position, known) = total(cx, &self.position);
        self.bar.shows_position = !(self.bar.has_size && self.sizes.is_empty());
        let text = self.bar.draw(now, known.then_some(position), terminal_width());
        cx.console().report(&text);
        if self.bar.status.is_done() {
            self.active = false;
        } else {
            cx.set_timer(0, cx.steady() + self.update);
        }
    }

    fn complete(&mut self, cx: &mut Context, full: bool) {
        if self.bar.status.is_done() || self.bar.status == Status::Dead || !self.active {
            return;
        }
        if full {
            self.bar.has_size = true;
            self.bar.size = total(cx, &self.position).0;
        }
        self.bar.status =
            if self.bar.status == Status::First { Status::FirstDone } else { Status::Done };
        cx.clear_timer(0);
        self.show(cx);
    }
}

impl Bar {
    fn begin(&mut self, now: u64) {
        (self.start, self.moved, self.stalled, self.last_position) = (now, now, 0, 0.0);
        if self.status == Status::First {
            self.status = Status::Middle;
        }
    }

    /// The line, from the start of the line on the terminal.
    fn draw(&mut self, now: u64, position: Option<f64>, width: i64) -> String {
        let mut text = String::from("\r");
        if !self.banner.is_empty() {
            text.push_str(&self.banner);
            text.push(' ');
        }
        let percent = match position {
            None => None,
            Some(_) if self.has_size && self.size <= 0.0 => Some(100),
            Some(at) if self.has_size => Some((100.0 * at / self.size).clamp(0.0, 100.0) as i64),
            // There and back.
            Some(at) => Some(100 - ((at / 100_000.0) as i64 % 200 - 100).abs()),
        };
        match percent {
            Some(percent) if self.has_size => text.push_str(&format!("{percent:3}% ")),
            None if self.has_size => text.push_str("  -% "),
            _ => {}
        }
        let more = if self.shows_position { 0 } else { 8 };
        let length = (width - (text.len() as i64 + 25) + more).min(BAR_LIMIT);
        if length > 0 {
            text.push_str(&self.bar(percent, length as usize));
        }
        match position {
            _ if !self.shows_position => text.push(' '),
            Some(position) => text.push_str(&format!(" {} ", abbreviated(position))),
            None => text.push_str(" -----   "),
        }
        text.push_str(&self.time(now, position));
        if self.status.is_done() {
            text.push('\n');
        }
        text
    }

    fn bar(&self, percent: Option<i64>, length: usize) -> String {
        let part = |length: usize, percent: i64| length * percent.max(0) as usize / 100;
        let percent = match percent {
            Some(percent) if self.has_size || !self.status.is_done() => percent,
            _ => return format!("|{}|", "-".repeat(length)),
        };
        if self.has_size {
            return format!("|{:length$}|", "*".repeat(part(length, percent)));
        }
        let mark = if length > 3 { "***" } else { "*" };
        let before = part(length - mark.len(), percent);
        format!("|{:before$}{mark}{:behind$}|", "", "", behind = length - mark.len() - before)
    }

    /// How long it will take, or has taken.
    fn time(&mut self, now: u64, position: Option<f64>) -> String {
        let at = position.unwrap_or(0.0);
        let mut wait = now.saturating_sub(self.moved);
        if at > self.last_position {
            (self.moved, self.last_position) = (now, at);
            if wait >= STALL {
                self.stalled += wait;
            }
            wait %= SECOND;
        }
        let elapsed =
            now.saturating_sub(self.start).saturating_sub(self.stalled) as f64 / SECOND as f64;
        let done = self.status.is_done();
        let unknown = position.is_none() || !self.has_size || elapsed <= 0.0 || at > self.size;
        if !done && unknown {
            return "   --:-- ETA".into();
        }
        if wait >= STALL {
            return " - stalled -".into();
        }
        let (seconds, end) = if done || position.is_none() || at < 1e-6 {
            (elapsed as i64, "    ")
        } else {
            ((self.size / (at / elapsed) - elapsed) as i64, " ETA")
        };
        let hours = match seconds / 3600 {
            0 => "   ".into(),
            hours => format!("{hours:2}:"),
        };
        format!("{hours}{:02}:{:02}{end}", seconds % 3600 / 60, seconds % 60)
    }
}

/// A number in five digits and a unit.
fn abbreviated(mut value: f64) -> String {
    let mut units = " KMGTP".chars();
    let mut unit = units.next().unwrap_or(' ');
    while value >= 100_000.0 {
        let Some(next) = units.next() else { break };
        unit = next;
        value /= 1024.0;
    }
    format!("{:5}{unit}{}", value as u64, if unit == ' ' { ' ' } else { 'B' })
}

/// The handlers an argument names.
fn handlers(make: &mut ElementBuilder<'_>, name: &str) -> Vec<HandlerRef> {
    let Some(Text(text)) = make.get(name) else { return Vec::new() };
    parse_handlers(&text, |word| make.parse(word)).unwrap_or_else(|error| {
        make.error(error);
        Vec::new()
    })
}

fn parse_handlers(
    text: &str,
    parse: impl Fn(&str) -> Result<HandlerRef, String>,
) -> Result<Vec<HandlerRef>, String> {
    text.split_whitespace().map(parse).collect()
}

/// The sum of what handlers give, and whether all gave a number.
fn total(cx: &mut Context, handlers: &[HandlerRef]) -> (f64, bool) {
    let mut known = !handlers.is_empty();
    let mut sum = 0.0;
    for handler in handlers {
        let text = cx.read_handler(handler, "").unwrap_or_default();
        match text.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => sum += value,
            _ => known = false,
        }
    }
    (sum, known)
}

fn in_foreground() -> bool {
    let terminal = rustix::termios::tcgetpgrp(std::io::stderr());
    terminal.is_ok_and(|group| group == rustix::process::getpgrp())
}

fn terminal_width() -> i64 {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => WIDTH_DEFAULT,
    }
}

fn names(cx: &Context, handlers: &[HandlerRef]) -> String {
    let name = |handler: &HandlerRef| match handler.element {
        Some(element) => format!("{}.{}", cx.plan().elements[element].name, handler.handler),
        None => handler.handler.clone(),
    };
    handlers.iter().map(name).collect::<Vec<_>>().join(" ")
}

impl Element for ProgressBar {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        for handler in self.position.iter().chain(&self.sizes) {
            if !cx.handler(handler).is_some_and(|found| found.access.reads()) {
                let name = cx.handler_name(handler);
                return Err(HandlerError::missing(&name).of_call(&name, false));
            }
        }
        if self.active && self.bar.status != Status::Dead {
            cx.set_timer(0, cx.steady());
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        self.show(cx);
    }

    fn close(&mut self, cx: &mut Context) {
        if self.bar.status == Status::Middle {
            self.bar.status = Status::Done;
            self.show(cx);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "active" => Ok(self.active.to_string()),
            "banner" => Ok(self.bar.banner.clone()),
            "poshandler" => Ok(names(cx, &self.position)),
            "sizehandler" => Ok(names(cx, &self.sizes)),
            "pos" => Ok(format_g(self.bar.last_position)),
            "size" => Ok(format_g(self.bar.size)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let value = unquoted(value);
        let named = |text: &str| {
            let find =
                |word: &str| HandlerRef::find(cx.plan(), word).map_err(|error| error.to_string());
            parse_handlers(text, find).map_err(HandlerError::refused)
        };
        match handler {
            "mark_stopped" => self.complete(cx, false),
            "mark_done" => self.complete(cx, true),
            "banner" => self.bar.banner = value,
            "poshandler" => self.position = named(&value)?,
            "sizehandler" => {
                self.sizes = named(&value)?;
                self.bar.has_size = false;
            }
            "size" => {
                let size = value.parse().ok().filter(|size: &f64| size.is_finite());
                self.bar.size =
                    size.ok_or_else(|| HandlerError::refused("expected real number"))?;
            }
            "active" | "reset" => {
                if handler == "reset" {
                    self.bar.has_size = false;
                    if self.bar.status != Status::Dead {
                        self.bar.status = Status::First;
                    }
                    self.active = true;
                } else {
                    self.active =
                        parse_bool(&value).ok_or_else(|| HandlerError::refused("type mismatch"))?;
                }
                if self.active && self.bar.status != Status::Dead {
                    cx.set_timer(0, cx.steady());
                }
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Run;

    fn bar(size: Option<f64>, banner: &str) -> Bar {
        Bar {
            status: Status::Middle,
            banner: banner.into(),
            size: size.unwrap_or(-1.0),
            has_size: size.is_some(),
            shows_position: size.is_none(),
            last_position: 0.0,
            start: 0,
            moved: 0,
            stalled: 0,
        }
    }

    /// Lines are those of Click 2.1 on a terminal of 80 columns.
    #[test]
    fn bars_of_known_size() {
        let mut bar = bar(Some(3000.0), "hello");
        for (time, position, line) in [
            (
                1,
                0.0,
                "hello   0% |                                                   |    00:00    ",
            ),
            (
                500,
                400.0,
                "hello  13% |******                                             |    00:03 ETA",
            ),
            (
                1000,
                850.0,
                "hello  28% |**************                                     |    00:02 ETA",
            ),
            (
                1500,
                1340.0,
                "hello  44% |**********************                             |    00:01 ETA",
            ),
        ] {
            let drawn = bar.draw(time * 1_000_000, Some(position), 80);
            assert_eq!(drawn, format!("\r{line}"));
        }
        bar.status = Status::Done;
        let line =
            "hello  47% |***********************                            |    00:01    \n";
        assert_eq!(bar.draw(1_600_000_000, Some(1416.0), 80), format!("\r{line}"));
    }

    /// Lines are those of Click 2.1 on a terminal of 80 columns.
    #[test]
    fn bars_of_unknown_size() {
        let mut bar = bar(None, "");
        let line = "|***                                                   | 32085      --:-- ETA";
        assert_eq!(bar.draw(500_000_000, Some(32085.0), 80), format!("\r{line}"));
        let line = "|                           ***                        |  5184KB    --:-- ETA";
        let at = bar.draw(1_000_000_000, Some(5184.0 * 1024.0), 80);
        assert_eq!(at, format!("\r{line}"));
        bar.status = Status::Done;
        (bar.size, bar.has_size, bar.shows_position) = (77487.0, true, false);
        let line =
            "100% |*********************************************************|    00:01    \n";
        assert_eq!(bar.draw(1_200_000_000, Some(77487.0), 80), format!("\r{line}"));
    }

    #[test]
    fn a_bar_without_progress_is_stalled() {
        let mut bar = bar(Some(100.0), "");
        bar.draw(SECOND, Some(50.0), 80);
        assert!(bar.draw(7 * SECOND, Some(50.0), 80).ends_with(" - stalled -"));
        assert!(bar.draw(8 * SECOND, None, 80).ends_with("   --:-- ETA"));
        assert!(bar.draw(8 * SECOND, Some(51.0), 80).ends_with("00:00 ETA"));
    }

    #[test]
    fn handlers_can_be_read_and_written() {
        let mut run = Run::new(
            "Idle -> c :: Counter -> d :: Discard;
            p :: ProgressBar(c.count d.count, FIXED_SIZE 3000, BANNER b)",
        );
        assert_eq!(run.read("p.poshandler"), "c.count d.count");
        assert_eq!(run.read("p.sizehandler"), "");
        assert_eq!(run.read("p.size"), "3000");
        assert_eq!(run.read("p.pos"), "0");
        run.write("p.sizehandler", "c.byte_count").unwrap();
        assert_eq!(run.read("p.sizehandler"), "c.byte_count");
        assert!(run.write("p.poshandler", "nobody.count").is_err());
        run.write("p.banner", "other").unwrap();
        assert_eq!(run.read("p.banner"), "other");
        run.write("p.mark_done", "").unwrap();
    }

    #[test]
    fn a_position_must_be_given() {
        let errors = Run::errors("ProgressBar()");
        assert!(errors.contains("POSHANDLER: required argument missing"), "{errors}");
        let errors = Run::errors("ProgressBar(c.count)");
        assert!(errors.contains("no element named 'c'"), "{errors}");
    }
}
