//! `Print`: shows packets on the standard error stream.

use std::fmt::Write;

use linerate_graph::{
    Arguments, Class, Context, Element, ElementBuilder, HandlerResult, Right, Text, unquoted,
};
use linerate_memory::{Frame, Meta};

use super::FAMILY;
use linerate_element_support::{
    annotations::{
        aggregate, extra_length, extra_packets, first_time, fix_ip_source, problem_offset,
    },
    output::Contents,
};

pub(super) const CLASS: Class = Class {
    name: "Print",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "shows packets",
    description: "Writes a line per packet to the standard error stream: the label, what else was \
        asked for, the length, and the first `MAXLENGTH` bytes. Packets without a time stamp get \
        one when it is to be shown.",
    ports: "1/1",
    annotates: true,
    prints: true,
    cost: "Formats every packet, some microseconds; the text of a frame is one write.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Print(ok) -> Discard;",
    ..Class::for_element::<Print>()
};

#[derive(Arguments)]
#[arguments(check = Print::check)]
struct Print {
    /// begins each line
    #[arg(optional, kind = "string", default = String::new(), shown = "")]
    label: String,
    /// bytes to show; all when negative
    #[arg(optional, kind = "bytes", default = 24)]
    maxlength: i32,
    /// how to show bytes
    #[arg(name = "CONTENTS", keyword, kind = "HEX, ASCII or NONE", shown = "HEX")]
    written_contents: Option<Text>,
    contents: Contents,
    /// shows the time stamp
    #[arg(keyword, default = false)]
    timestamp: bool,
    /// shows annotations, as 48 bytes laid out as Click's
    #[arg(keyword, default = false)]
    printanno: bool,
    /// whether anything is shown
    #[arg(keyword, default = true)]
    #[handler(value, flags = ".c")]
    active: bool,
    /// shows the room before and behind the packet
    #[arg(keyword, default = false)]
    headroom: bool,
    /// an old name of MAXLENGTH
    #[arg(name = "LENGTH", keyword, kind = "bytes", shown = "24")]
    old_length: Option<i32>,
    /// an old name of MAXLENGTH
    #[arg(keyword, kind = "bytes", shown = "24")]
    nbytes: Option<i32>,
    text: String,
}

impl Print {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        for (name, old) in [("LENGTH", self.old_length), ("NBYTES", self.nbytes)] {
            if make.is_given(name) {
                make.warn(format!("{name}: argument deprecated"));
                self.maxlength = old.unwrap_or(self.maxlength);
            }
        }
        let written = self.written_contents.take();
        self.contents = written.map_or(Contents::Hex, |Text(text)| contents(make, &text));
    }

    /// The line of one packet.
    fn line(&mut self, bytes: &[u8], meta: &Meta, headroom: usize, tailroom: usize) {
        // Writing to a string cannot fail.
        let _ = self.write_line(bytes, meta, headroom, tailroom);
    }

    fn write_line(
        &mut self,
        bytes: &[u8],
        meta: &Meta,
        headroom: usize,
        tailroom: usize,
    ) -> std::fmt::Result {
        let text = &mut self.text;
        let mut separator = "";
        if !self.label.is_empty() {
            text.push_str(&self.label);
            separator = ": ";
        }
        if self.timestamp {
            text.push_str(separator);
            let (seconds, rest) = (meta.timestamp / 1_000_000_000, meta.timestamp % 1_000_000_000);
            if rest % 1000 == 0 {
                write!(text, "{seconds}.{:06}", rest / 1000)?;
            } else {
                write!(text, "{seconds}.{rest:09}")?;
            }
            separator = ": ";
        }
        write!(text, "{separator}{:4}", bytes.len())?;
        if self.headroom {
            write!(text, " (h{headroom} t{tailroom})")?;
        }
        if self.printanno {
            text.push_str(" | ");
            annotations(meta).iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
        }
        let wanted = match self.contents {
            Contents::None => 0,
            _ => usize::try_from(self.maxlength).unwrap_or(usize::MAX).min(bytes.len()),
        };
        if wanted > 0 {
            text.push_str(" | ");
        }
        for (at, byte) in bytes[..wanted].iter().enumerate() {
            if self.contents == Contents::Hex {
                if at > 0 && at % 4 == 0 {
                    text.push(' ');
                }
                write!(text, "{byte:02x}")?;
            } else {
                if at % 8 == 0 {
                    text.push(' ');
                }
                text.push(if (32..=126).contains(byte) { char::from(*byte) } else { '.' });
            }
        }
        text.push('\n');
        Ok(())
    }
}

fn contents(make: &mut ElementBuilder<'_>, text: &str) -> Contents {
    let text = unquoted(text);
    if text.is_empty() || text.contains(char::is_whitespace) {
        make.error("CONTENTS: parse error");
        return Contents::Hex;
    }
    Contents::parse(make, &text).unwrap_or(Contents::Hex)
}

/// Annotations of a packet at the offsets that Click has them at.
fn annotations(meta: &Meta) -> [u8; 48] {
    let mut bytes = [0; 48];
    bytes[..16].copy_from_slice(&meta.destination);
    bytes[16] = meta.paint;
    bytes[17] = problem_offset(meta);
    bytes[19] = fix_ip_source(meta);
    // Click keeps both in one place.
    match aggregate(meta) {
        0 => bytes[20..22].copy_from_slice(&meta.vlan.to_be_bytes()),
        aggregate => bytes[20..24].copy_from_slice(&aggregate.to_ne_bytes()),
    }
    bytes[24..28].copy_from_slice(&extra_packets(meta).to_ne_bytes());
    bytes[28..32].copy_from_slice(&extra_length(meta).to_ne_bytes());
    bytes[32..40].copy_from_slice(&first_time(meta).to_ne_bytes());
    bytes
}

impl Element for Print {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.active {
            return;
        }
        let now = if self.timestamp { cx.now() } else { 0 };
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            if self.timestamp
                && let Some(meta) = arena.meta_mut(slot)
                && meta.timestamp == 0
            {
                meta.timestamp = now;
            }
            let headroom = slot.headroom();
            let tailroom = arena.buffer_size().saturating_sub(headroom + slot.len());
            self.line(arena.packet(slot), arena.meta(slot), headroom, tailroom);
        }
        cx.console().report(&self.text);
        self.text.clear();
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.write_field(&cx.scope(), handler, value)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const SOURCE: &str = "InfiniteSource(LIMIT 2, STOP true, DATA \
        \\<6162636420656667680a01696a6b6c6d6e6f707172737475767778>)";

    /// A packet comes to all of them before the next one comes to any, as in Click.
    #[test]
    fn pulled_packets_are_printed_one_after_the_other() {
        for (pulled, pushed, expected) in [
            ("Print(a, 0) -> Print(b, 0) ->", "", "abab"),
            ("Print(a, 0) ->", "-> Print(b, 0)", "abab"),
            ("Print(a, 0) ->", "-> Null -> Print(b, 0) -> Print(c, 0)", "abcabc"),
        ] {
            for frame_limit in [1, 2, 256] {
                let mut run =
                    Run::new(&format!("{SOURCE} -> Queue -> {pulled} Unqueue {pushed} -> Discard"))
                        .frame_limit(frame_limit);
                run.run();
                let said: String = run.output().lines().map(|line| &line[..1]).collect();
                assert_eq!(said, expected, "{pulled} {pushed}, frames of {frame_limit}");
            }
        }
    }

    /// Lines are those of Click 2.1.
    #[test]
    fn lines_are_those_of_click() {
        let cases = [
            ("", "  27 | 61626364 20656667 680a0169 6a6b6c6d 6e6f7071 72737475"),
            ("x", "x:   27 | 61626364 20656667 680a0169 6a6b6c6d 6e6f7071 72737475"),
            ("x, 4", "x:   27 | 61626364"),
            ("x, -1", "x:   27 | 61626364 20656667 680a0169 6a6b6c6d 6e6f7071 72737475 767778"),
            ("x, 0", "x:   27"),
            ("x, CONTENTS NONE", "x:   27"),
            ("CONTENTS false", "  27"),
            ("CONTENTS true, MAXLENGTH 2", "  27 | 6162"),
            ("CONTENTS \"HEX\", MAXLENGTH 1", "  27 | 61"),
            ("CONTENTS ASCII", "  27 |  abcd efg h..ijklm nopqrstu"),
            ("x, 100, CONTENTS ascii", "x:   27 |  abcd efg h..ijklm nopqrstu vwx"),
            ("\"a b\", 1", "a b:   27 | 61"),
            ("TIMESTAMP true, CONTENTS NONE", "1000000000.000000:   27"),
            ("x, TIMESTAMP true, CONTENTS NONE", "x: 1000000000.000000:   27"),
            (
                "x, PRINTANNO true, CONTENTS NONE",
                "x:   27 | 0000000000000000000000000000000000000000000000000000000000000000\
                 00000000000000000000000000000000",
            ),
        ];
        for limit in [1, 256] {
            for (config, line) in cases {
                let text = format!("{SOURCE} -> Print({config}) -> Discard");
                let mut run = Run::new(&text).frame_limit(limit);
                run.run();
                assert_eq!(run.output(), format!("{line}\n{line}\n"), "{config}");
            }
        }
    }

    #[test]
    fn headroom_and_tailroom_add_up_to_the_buffer() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 1, STOP true, LENGTH 100)
                -> Print(CONTENTS NONE, HEADROOM true) -> Discard",
        );
        run.run();
        let output = run.output();
        let numbers: Vec<usize> = output
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        let [100, headroom, tailroom] = numbers[..] else { panic!("{output}") };
        assert_eq!(output, format!(" 100 (h{headroom} t{tailroom})\n"));
        assert!(headroom >= 28 && headroom + 100 + tailroom >= 2048, "{output}");
    }

    #[test]
    fn an_old_name_warns_and_works() {
        let mut run = Run::new(&format!("{SOURCE} -> p :: Print(x, NBYTES 3) -> Discard"));
        run.run();
        assert_eq!(
            run.output(),
            "config:1: While configuring 'p :: Print':\n  warning: NBYTES: argument deprecated\n\
             x:   27 | 616263\nx:   27 | 616263\n"
        );
    }

    #[test]
    fn nothing_is_shown_when_inactive() {
        let mut run = Run::new(&format!("{SOURCE} -> p :: Print(ACTIVE false) -> Discard"));
        assert_eq!(run.read("p.active"), "false");
        run.run();
        assert_eq!(run.output(), "");
        assert!(run.write("p.active", "maybe").is_err());
        run.write("p.active", "true").unwrap();
        assert_eq!(run.read("p.active"), "true");
    }

    #[test]
    fn errors_are_those_of_click() {
        for (config, error) in [
            ("CONTENTS FOO", "bad contents value 'FOO'; should be 'NONE', 'HEX', or 'ASCII'"),
            ("CONTENTS HEX ASCII", "CONTENTS: parse error"),
            ("x, CPU true", "CPU: unknown argument"),
            ("x, abc", "MAXLENGTH: invalid number"),
            ("x, 4, 5", "too many arguments"),
        ] {
            let errors = Run::errors(&format!("Idle -> Print({config}) -> Discard"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
