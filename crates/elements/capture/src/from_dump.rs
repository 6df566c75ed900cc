//! `FromDump`: reads packets from a capture file.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next, Role,
    Signals,
};
use linerate_memory::Frame;
use linerate_port::pcap::{Error, Fault, ReadOptions, Reader};

use super::{
    FAMILY,
    encap::Encap,
    source::{Source, give_rest, shown},
    span::{Position, Span},
    stamp::Stamp,
};
use linerate_element_support::{
    annotations,
    call::{self, End},
    handler_values::integer_or,
    output::reason,
};

/// Records passed over before others have their turn.
const SKIP_LIMIT: usize = 4096;

pub(super) const CLASS: Class = Class {
    name: "FromDump",
    family: FAMILY,
    summary: "reads packets from a capture file",
    description: "Reads pcap and pcapng files of any link type. Packets get the time of their \
        record and, when the capture cut them, the length that is missing as their extra length; \
        so do packets longer than a buffer, which are cut. Compressed files are refused: pipe \
        them in (`zcat FILE | linerate run ..` with `FromDump(-)`).\n\n\
        `START`, `START_AFTER`, `END`, `END_AFTER` and `INTERVAL` choose a part of the file by \
        its times. At its end, or that of the file, `END_CALL` is written, or the run ended \
        (`STOP`).\n\n\
        With `FORCE_IP`, and always for files of raw IP packets, only IP packets leave by output \
        0, with their network and transport header known; all others by output 1.",
    ports: "0/1-2",
    processing: "a/ah",
    args: &[
        Arg::required("FILENAME", "path", "the file; - for the standard input"),
        Arg::optional("TIMING", "bool", "false", "whether packets are sent at their pace"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the file ends the run"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it reads"),
        Arg::keyword("SAMPLE", "probability", "1", "share of the packets sent, at random"),
        Arg::keyword("FORCE_IP", "bool", "false", "whether only IP packets leave by output 0"),
        Arg::keyword("START", "time", "", "first time sent, since the epoch"),
        Arg::keyword("START_AFTER", "time", "", "the same, since the first packet"),
        Arg::keyword("END", "time", "", "first time no longer sent, since the epoch"),
        Arg::keyword("END_AFTER", "time", "", "the same, since the first packet"),
        Arg::keyword("INTERVAL", "time", "", "the same, since the start"),
        Arg::keyword("END_CALL", "HANDLER [VALUE]", "", "writes a handler at the end"),
        Arg::keyword("FILEPOS", "bytes", "0", "where in the file to begin: the start of a record"),
        Arg::keyword("MMAP", "bool", "false", "accepted and without effect"),
        Arg::keyword("BURST", "packets", "frame limit", "most packets sent at a time"),
    ],
    handlers: &[
        Handler::count("count", "packets sent by output 0"),
        Handler::button("reset_counts", "sets the count to zero"),
        Handler::read("sampling_prob", "share of the packets sent"),
        Handler::value("active", "whether it reads").flags("c"),
        Handler::read("encap", "the file's link type"),
        Handler::read("filename", "the file's name"),
        Handler::read("filesize", "bytes in the file, - when that is not known"),
        Handler::value("filepos", "where in the file the next packet is read"),
        Handler::read("packet_filepos", "where in the file the last packet was read"),
        Handler::write("extend_interval", "moves the end by a time and reads on"),
        Handler::button("reset_timing", "takes the next packet for the first"),
        Handler::button("stop", "stops reading and ends the run"),
    ],
    role: Role::Io,
    stops: true,
    signals: Signals { empty: true, full: false },
    annotates: true,
    cost: "A copy of the packet from a block of 64 KiB read at once, and a line of metadata: \
        some 40 cycles for 64 bytes, besides what the system takes for reading.",
    example: "FromDump(-, ACTIVE false) -> Discard; \
        InfiniteSource(LIMIT 10, STOP true) -> ToDump(/dev/null);",
    make: |make| Box::new(FromDump::new(make)),
    ..Class::here()
};

struct FromDump {
    source: Source,
    reader: Option<Reader>,
    encap: Encap,
    /// Whether the record the reader delivered last is still to be sent.
    peeked: bool,
    /// Offset to begin at.
    start: u64,
    packet_position: u64,
    span: Span,
    timing: bool,
    /// Steady time of sending minus the packet's time.
    timing_offset: u64,
    force_ip: bool,
    end: End,
    /// Whether it does not read on behind the end of the span.
    deactivates: bool,
    /// Whether the end of the file has been reported.
    ended: bool,
    count: u64,
}

/// Why no more packets were read.
enum Stop {
    /// There was no room for more, or enough have been passed over.
    Full,
    /// There is no free buffer.
    NoBuffers,
    /// The next one is sent at this time.
    Until(u64),
    /// The next packet is behind the selected end.
    Behind,
    /// There is none.
    EndOfFile,
}

impl FromDump {
    fn new(make: &mut ElementBuilder<'_>) -> FromDump {
        let span = Span::from_args(make);
        let end = End::from_args(make);
        let deactivates = !end.is_set() && span.has_end();
        make.get::<bool>("MMAP");
        let path = make.need("FILENAME");
        FromDump {
            source: Source::from_args(make, path),
            reader: None,
            encap: Encap::ETHER,
            peeked: false,
            start: make.or("FILEPOS", 0),
            packet_position: 0,
            span,
            timing: make.or("TIMING", false),
            timing_offset: 0,
            force_ip: make.or("FORCE_IP", false),
            end,
            deactivates,
            ended: false,
            count: 0,
        }
    }

    /// Opens the file unless it is open.
    fn open(&mut self) -> Result<(), String> {
        if self.reader.is_some() {
            return Ok(());
        }
        let options = ReadOptions { any_link: true, overlong: true, ..ReadOptions::default() };
        let mut reader =
            Reader::open_with(&self.source.path, &options).map_err(|error| said(&error))?;
        let link = reader.link().map_err(|error| said(&error))?;
        self.encap = Encap::of_file(link.unwrap_or(Encap::ETHER.0));
        self.check_encap()?;
        if self.start != 0 {
            reader.seek(self.start).map_err(|error| said(&error))?;
        }
        self.reader = Some(reader);
        Ok(())
    }

    fn check_encap(&mut self) -> Result<(), String> {
        if self.force_ip && !self.encap.leads_to_ip() {
            let (name, link) = (self.source.shown(), self.encap.0);
            return Err(format!("{name}: unknown linktype {link}; can't force IP packets"));
        }
        self.force_ip |= self.encap.is_ip();
        Ok(())
    }

    /// Reads packets into a frame, which is empty, at most `count`.
    fn fill(&mut self, cx: &mut Context, frame: &mut Frame, count: usize) -> Stop {
        let now = cx.steady();
        if let Err(error) = self.open() {
            cx.console().report(&format!("{error}\n"));
            self.source.active = false;
            return Stop::EndOfFile;
        }
        if cx.pool.take(frame, count, 0) == 0 {
            return Stop::NoBuffers;
        }
        let arena = cx.pool.arena();
        let room = arena.room();
        let Some(reader) = &mut self.reader else { return Stop::EndOfFile };
        let slots = frame.slots_mut();
        let (mut filled, mut skipped) = (0, 0);
        let stop = loop {
            if filled == slots.len() || skipped == SKIP_LIMIT {
                break Stop::Full;
            }
            let record = if self.peeked { Ok(reader.current()) } else { reader.next() };
            let record = match record {
                Ok(Some(record)) => record,
                Ok(None) => break Stop::EndOfFile,
                Err(error) => {
                    cx.world().console.report(&format!("{}\n", said(&error)));
                    break Stop::EndOfFile;
                }
            };
            if !self.span.has_begun() {
                self.span.begin(Stamp(record.ts_ns));
                self.timing_offset = now.wrapping_sub(record.ts_ns);
            }
            match self.span.place(Stamp(record.ts_ns)) {
                Position::Within => {}
                Position::Before => {
                    skipped += 1;
                    self.peeked = false;
                    continue;
                }
                Position::Behind => {
                    self.peeked = true;
                    break Stop::Behind;
                }
            }
            if !self.peeked && !self.source.sample.choose() {
                skipped += 1;
                continue;
            }
            if self.timing {
                let at = record.ts_ns.wrapping_add(self.timing_offset);
                if at > now {
                    self.peeked = true;
                    break Stop::Until(at);
                }
            }
            self.peeked = false;
            let data = &record.data[..record.data.len().min(room)];
            let slot = &mut slots[filled];
            arena.resize(slot, data.len());
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes.copy_from_slice(data);
            }
            if let Some(mut packet) = arena.writable(slot) {
                let meta = packet.meta_mut();
                meta.reset();
                meta.timestamp = record.ts_ns;
                annotations::set_extra_length(meta, record.orig_len - data.len() as u32);
                if self.force_ip
                    && let Some(header) = self.encap.ip_header(data)
                {
                    packet.mark_headers(header.start.into(), header.end.into());
                    if let Some(address) = header.destination {
                        packet.meta_mut().destination[..4].copy_from_slice(&address);
                    }
                }
            }
            filled += 1;
        };
        self.packet_position = match stop {
            Stop::EndOfFile => reader.next_position(),
            _ => reader.position(),
        };
        give_rest(cx, frame, filled);
        if self.force_ip {
            let arena = cx.pool.arena();
            let out = &mut cx.out;
            let is_ip = |slot: &mut _| arena.meta(slot).network.is_known();
            frame.retain(is_ip, |slot| out.emit(1, slot));
        }
        self.count += frame.len() as u64;
        // Actions of the end come after the packets before it.
        match stop {
            Stop::Behind | Stop::EndOfFile if filled > 0 => Stop::Full,
            stop => stop,
        }
    }

    /// Reads packets until there are some or nothing more can be done now.
    fn read_on(&mut self, cx: &mut Context, frame: &mut Frame, count: usize) -> Stop {
        loop {
            let stop = self.fill(cx, frame, count);
            match stop {
                Stop::Behind => {
                    self.span.forget_end();
                    self.at_end(cx);
                    if !self.source.active {
                        self.peeked = false;
                        self.at_end(cx);
                        return Stop::EndOfFile;
                    }
                }
                Stop::EndOfFile => {
                    if !std::mem::replace(&mut self.ended, true) {
                        self.at_end(cx);
                    }
                    return stop;
                }
                Stop::Until(at) => {
                    cx.set_timer(0, at);
                    return stop;
                }
                Stop::Full | Stop::NoBuffers => return stop,
            }
        }
    }

    fn at_end(&mut self, cx: &mut Context) {
        match &self.end {
            End::Nothing if self.deactivates => self.source.active = false,
            End::Nothing => {}
            End::Stop => {
                self.source.active = false;
                cx.driver.stop();
            }
            End::Call(made) => {
                let made = made.clone();
                call::perform(&made, self, cx, str::to_owned);
            }
        }
    }

    fn wake(&mut self, cx: &mut Context) {
        self.ended = false;
        self.source.wake(cx);
    }
}

/// Returns the text for a file's error, in Click's words where it has some.
fn said(error: &Error) -> String {
    let file = error.file.to_string_lossy();
    let file = shown(&file);
    match &error.fault {
        Fault::Open(error) => format!("{file}: {}", reason(error)),
        Fault::Empty => format!("{file}: empty file"),
        Fault::ShortHeader { .. } => format!("{file}: not a tcpdump file (too short)"),
        Fault::NotACapture { start } if start.len() < 4 => {
            format!("{file}: not a tcpdump file (too short)")
        }
        Fault::NotACapture { .. } => format!("{file}: not a tcpdump file (bad magic number)"),
        Fault::Version { major, .. } => format!("{file}: unknown major version {major}"),
        fault => format!("{file}: {fault}"),
    }
}

impl Element for FromDump {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if !self.source.active || cx.is_downstream_full() {
            return Next::Sleep;
        }
        match self.read_on(cx, frame, self.source.burst.min(frame.room())) {
            Stop::Full | Stop::Behind => Next::Again,
            Stop::NoBuffers => Next::Idle,
            Stop::Until(_) | Stop::EndOfFile => Next::Sleep,
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if self.source.active && !self.ended {
            self.read_on(cx, frame, count.min(frame.room()));
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        self.wake(cx);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        // The standard input is not touched before it is known that this
        // element reads it, and not the one it replaces.
        if self.source.path != "-" {
            self.open()?;
        }
        if self.source.active && self.source.pushes {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FromDump>()
            && old.source.path == self.source.path
            && old.reader.is_some()
        {
            self.reader = old.reader.take();
            self.encap = old.encap;
            self.peeked = old.peeked;
            self.packet_position = old.packet_position;
            self.timing_offset = old.timing_offset;
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let reader = self.reader.as_ref();
        match handler {
            "count" => Ok(self.count.to_string()),
            "encap" => {
                self.open().map_err(HandlerError::Refused)?;
                Ok(self.encap.to_string())
            }
            "filepos" => Ok(reader.map_or(self.start, Reader::next_position).to_string()),
            "packet_filepos" => Ok(self.packet_position.to_string()),
            _ => self.source.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let value = value.trim();
        match handler {
            "reset_counts" => self.count = 0,
            "active" => {
                self.source.write(cx, handler, value)?;
                self.ended = false;
            }
            "filepos" => {
                let position = integer_or(value, "argument must be file offset")?;
                self.open().map_err(HandlerError::Refused)?;
                if let Some(reader) = &mut self.reader {
                    reader.seek(position).map_err(|error| HandlerError::Refused(said(&error)))?;
                }
                self.peeked = false;
                self.wake(cx);
            }
            "extend_interval" => {
                let by = Stamp::parse(value).ok_or_else(|| {
                    HandlerError::refused("'extend_interval' takes a time interval")
                })?;
                let ends = self.end.is_set() || self.deactivates;
                self.span.extend(by, ends);
                if ends {
                    self.source.active = true;
                    self.wake(cx);
                }
            }
            "reset_timing" => self.span.restart(),
            _ => return self.source.write(cx, handler, value),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::test_files::capture;
    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    #[test]
    fn read_captures_are_written_byte_for_byte() {
        let scratch = Scratch::new("dump-copy");
        let copy = |name: &str, limit: usize| {
            let out = scratch.path("out.pcap");
            let text = format!("FromDump({}, STOP true) -> ToDump({out});", capture(name));
            Run::new(&text).frame_limit(limit).run();
            fs::read(out).unwrap()
        };
        // Click's output: the same with its own snap length.
        let mut expected = fs::read(capture("tcpdump-nano.pcap")).unwrap();
        expected[16..20].copy_from_slice(&2000_u32.to_le_bytes());
        for name in ["tcpdump-nano.pcap", "tshark.pcapng"] {
            assert_eq!(copy(name, 256), expected, "{name}");
            assert_eq!(copy(name, 1), expected, "{name}");
        }
        assert_eq!(copy("scapy-nano-big.pcap", 256), copy("scapy-nano-little.pcap", 256));
    }

    #[test]
    fn handlers_tell_where_it_is() {
        let file = capture("tcpdump-micro.pcap");
        let mut run = Run::new(&format!("f :: FromDump({file}, STOP true, SAMPLE 1) -> Discard"));
        run.run();
        for (handler, value) in [
            ("count", "4"),
            ("encap", "ETHER"),
            ("filesize", "328"),
            ("filepos", "328"),
            ("packet_filepos", "328"),
            ("sampling_prob", "1"),
            ("active", "false"),
            ("filename", &file),
        ] {
            assert_eq!(run.read(&format!("f.{handler}")), value, "{handler}");
        }
    }

    #[test]
    fn the_times_choose_a_part() {
        // The packets come 0, 0.000001, 1.999999 and 12.123456 s after
        // 1700000000 s. The counts are Click's.
        let file = capture("tcpdump-micro.pcap");
        for limit in [1, 256] {
            for (arguments, count) in [
                ("STOP true", "4"),
                ("STOP true, START 1700000000.5", "2"),
                ("STOP true, START_AFTER 0.5", "2"),
                ("STOP true, START_AFTER 0.5, INTERVAL 11", "1"),
                ("STOP true, START_AFTER 0.5, INTERVAL 12", "2"),
                ("STOP true, END_AFTER 0.5", "2"),
                ("STOP true, END 1700000001.999999", "2"),
                ("STOP true, END 1700000000", "0"),
                ("STOP true, FILEPOS 24", "4"),
                ("STOP true, FILEPOS 82", "3"),
            ] {
                let text = format!("f :: FromDump({file}, {arguments}) -> d :: Discard");
                let mut run = Run::new(&text).frame_limit(limit);
                run.run();
                assert_eq!(run.read("d.count"), count, "{arguments}");
                assert_eq!(run.read("f.count"), count, "{arguments}");
            }
        }
    }

    #[test]
    fn the_end_calls_a_handler_after_the_last_packet() {
        let file = capture("tcpdump-micro.pcap");
        let text = format!(
            "f :: FromDump({file}, END_AFTER 0.5, END_CALL f.extend_interval 20) -> c :: Counter
             -> Discard; g :: FromDump({file}, STOP true, TIMING true) -> Discard"
        );
        let mut run = Run::new(&text);
        run.run();
        assert_eq!(run.read("c.count"), "4");
    }

    #[test]
    fn only_ip_packets_leave_by_output_0_when_forced() {
        let file = capture("tcpdump-micro.pcap");
        let text = format!(
            "f :: FromDump({file}, STOP true, FORCE_IP true) -> c :: Collect;
             f [1] -> d :: Collect"
        );
        let mut run = Run::new(&text);
        run.run();
        assert_eq!(run.read("c.lengths").lines().count(), 3);
        assert_eq!(run.read("d.lengths"), "42");
    }

    #[test]
    fn pulled_packets_come_at_their_pace() {
        let file = capture("tcpdump-micro.pcap");
        let text = format!("f :: FromDump({file}, true, STOP true) -> d :: Discard");
        let mut run = Run::new(&text);
        run.run();
        assert_eq!(run.read("d.count"), "4");
    }

    #[test]
    fn errors_are_those_of_click() {
        let scratch = Scratch::new("dump-errors");
        let file = |name: &str, bytes: &[u8]| {
            fs::write(scratch.path(name), bytes).unwrap();
            scratch.path(name)
        };
        for (arguments, text) in [
            ("/nonexistent".into(), "/nonexistent: No such file or directory"),
            (file("empty", b""), "empty: empty file"),
            (file("short", b"\xd4\xc3"), "short: not a tcpdump file (too short)"),
            (file("text", b"hello"), "text: not a tcpdump file (bad magic number)"),
            (file("gz", b"\x1f\x8b\x08\x00"), "gz: the file is compressed with gzip; pipe it in"),
            ("x, START 1, START_AFTER 1".into(), "START and START_AFTER are mutually exclusive"),
            ("x, END 1, INTERVAL 1".into(), "END, END_AFTER, and INTERVAL are mutually exclusive"),
        ] {
            let errors = Run::errors(&format!("FromDump({arguments}) -> Discard"));
            assert!(errors.contains(text), "{errors}");
        }
    }
}
