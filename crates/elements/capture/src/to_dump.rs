//! `ToDump`: writes packets to a capture file.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, ElementRef, Handler, HandlerError, HandlerRef,
    HandlerResult, Next, Right, Role, Text,
};
use linerate_memory::Frame;
use linerate_port::pcap::{Error, Fault, Format, Options, Precision, Writer};

use super::{
    FAMILY,
    encap::Encap,
    output::{Dump, Output, State},
};
use linerate_element_support::{annotations, output::reason};

/// Default for the bytes kept of each packet.
const SNAPLEN: u32 = 2000;

pub(super) const CLASS: Class = Class {
    name: "ToDump",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "writes packets to a capture file",
    description: "Writes a pcap file, or a pcapng file when the name ends in `.pcapng`. A \
        packet without a time gets the current one. With an output, packets go on; without, they \
        end here, and with a pull input they are pulled as fast as they come.\n\n\
        What is written is collected in blocks of 64 KiB, with `UNBUFFERED` only within a \
        frame. Compressed files are not written: pipe `ToDump(-)` into the program that does.",
    ports: "1/0-1",
    args: &[
        Arg::required("FILENAME", "path", "the file; - for the standard output"),
        Arg::optional("SNAPLEN", "bytes", "2000", "bytes kept of each packet; 0 for all"),
        Arg::optional("ENCAP", "link type", "ETHER", "the link type written to the file"),
        Arg::keyword("USE_ENCAP_FROM", "elements", "", "takes it from these elements' `encap`"),
        Arg::keyword("EXTRA_LENGTH", "bool", "true", "whether the extra length is recorded"),
        Arg::keyword("UNBUFFERED", "bool", "false", "whether each frame is written at once"),
        Arg::keyword("NANO", "bool", "true", "whether times are in nanoseconds"),
        Arg::keyword("BURST", "packets", "frame limit", "most packets pulled at a time"),
    ],
    handlers: &[
        Handler::count("count", "packets written"),
        Handler::button("reset_counts", "sets the count to zero"),
        Handler::read("filename", "the file's name"),
    ],
    role: Role::Io,
    annotates: true,
    shows_order: |plan, at| plan.has_several_sources(at) || plan.has_several_ways_from("Tee", at),
    // As in Click: sources have had a turn before it empties their queues.
    late_init: true,
    cost: "A copy of the packet into the block and 16 bytes in front of it: some 25 cycles for 64 \
        bytes, besides what the system takes for writing.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> ToDump(/dev/null);",
    make: |make| Box::new(ToDump::new(make)),
    ..Class::here()
};

struct ToDump {
    path: String,
    options: Options,
    /// Elements that know the link type.
    encap_from: Vec<ElementRef>,
    file: Dump<Box<Writer>>,
    extra_length: bool,
    unbuffered: bool,
    burst: usize,
    /// Whether packets end here.
    ends: bool,
    /// Whether it pulls of its own accord.
    pulls: bool,
    count: u64,
}

impl ToDump {
    fn new(make: &mut ElementBuilder<'_>) -> ToDump {
        let path: String = make.need("FILENAME");
        let mut options = Options::new(Format::from_path(path.as_ref()));
        options.snaplen = match make.or("SNAPLEN", SNAPLEN) {
            0 => u32::MAX,
            snaplen => snaplen,
        };
        if !make.or("NANO", true) {
            options.precision = Precision::Micro;
        }
        let from: Option<Text> = make.get("USE_ENCAP_FROM");
        let encap: Option<Text> = make.get("ENCAP");
        let mut encap_from = Vec::new();
        match (from, encap) {
            (Some(_), Some(_)) => {
                make.error("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'");
            }
            (Some(Text(names)), None) => {
                for name in names.split_whitespace() {
                    match make.parse(name) {
                        Ok(element) => encap_from.push(element),
                        Err(error) => make.error(format!("USE_ENCAP_FROM: {error}")),
                    }
                }
                if names.trim().is_empty() {
                    make.error("element names missing after 'USE_ENCAP_FROM'");
                }
            }
            (None, Some(Text(name))) => match Encap::parse(&name) {
                Some(encap) => options.link = encap.0,
                None => make.error("bad encapsulation type"),
            },
            (None, None) => {}
        }
        if [".gz", ".bz2", ".Z", ".xz", ".zst"].iter().any(|end| path.ends_with(end)) {
            make.error(format!(
                "{path}: writing compressed files is not supported; write to - and pipe it on"
            ));
        }
        ToDump {
            path,
            options,
            encap_from,
            file: Dump::new(make),
            extra_length: make.or("EXTRA_LENGTH", true),
            unbuffered: make.or("UNBUFFERED", false),
            burst: make.burst("BURST"),
            ends: make.outputs() == 0,
            pulls: make.input_is_pull(0) && make.outputs() == 0,
            count: 0,
        }
    }

    /// Asks the elements of `USE_ENCAP_FROM`, which must agree.
    fn ask_encap(&mut self, cx: &mut Context) -> Result<(), String> {
        let mut found: Option<Encap> = None;
        let mut answers = Vec::new();
        for &ElementRef(element) in &self.encap_from {
            let plan = std::sync::Arc::clone(cx.plan());
            let (name, class) = (&plan.elements[element].name, plan.elements[element].class.name);
            let handler = HandlerRef { element: Some(element), handler: "encap".into() };
            let answer = cx
                .read_handler(&handler, "")
                .map_err(|_| format!("'{name} :: {class}' has no 'encap' read handler"))?;
            let encap = Encap::parse(answer.trim()).ok_or_else(|| {
                format!("'{name}.encap' did not return a valid encapsulation type")
            })?;
            answers.push(format!("\n  {name} :: {class} has {encap}"));
            if found.is_some_and(|found| found != encap) {
                return Err(format!("source encapsulation types disagree:{}", answers.concat()));
            }
            found = Some(encap);
        }
        if let Some(encap) = found {
            self.options.link = encap.0;
        }
        Ok(())
    }

    fn record(&mut self, cx: &mut Context, frame: &Frame) {
        if let Err(error) = self.try_record(cx, frame) {
            self.file.lock().close();
            cx.console().report(&format!("ToDump({}): {error}\n", shown(&self.path)));
        }
    }

    fn try_record(&mut self, cx: &mut Context, frame: &Frame) -> Result<(), String> {
        let (extra_length, unbuffered) = (self.extra_length, self.unbuffered);
        let arena = cx.pool.arena();
        let mut file = self.file.lock();
        let begin = |output| begin(output, &self.path, &self.options);
        let Some(writer) = file.writer(begin)? else { return Ok(()) };
        let before = writer.records();
        let mut now = 0;
        let mut outcome = Ok(());
        for slot in frame.slots() {
            let meta = arena.meta(slot);
            let mut time = meta.timestamp;
            if time == 0 {
                if now == 0 {
                    now = cx.clock.now();
                }
                time = now;
            }
            let bytes = arena.packet(slot);
            let extra = if extra_length { annotations::extra_length(meta) } else { 0 };
            let length = (bytes.len() as u32).saturating_add(extra);
            if let Err(error) = writer.write(time, length, bytes) {
                outcome = Err(said(&error));
                break;
            }
        }
        if unbuffered && outcome.is_ok() {
            outcome = writer.flush().map_err(|error| said(&error));
        }
        let written = writer.records() - before;
        drop(file);
        self.count += written;
        outcome
    }
}

/// Begins a file.
fn begin(output: Output, path: &str, options: &Options) -> Result<Box<Writer>, String> {
    let sink = output.claim().map_err(|error| reason(&error))?;
    Writer::new(sink, path, options).map(Box::new).map_err(|error| said(&error))
}

fn shown(path: &str) -> &str {
    if path == "-" { "<stdout>" } else { path }
}

/// Returns the text for an error, without the file's name.
fn said(error: &Error) -> String {
    match &error.fault {
        Fault::Write { source, .. } => reason(source),
        fault => fault.to_string(),
    }
}

impl Element for ToDump {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.record(cx, frame);
        if self.ends {
            cx.discard(frame);
        }
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if self.file.lock().is_closed() {
            return Next::Sleep;
        }
        if cx.pull(0, self.burst, frame) == 0 {
            return cx.nothing_pulled();
        }
        self.record(cx, frame);
        cx.discard(frame);
        Next::Again
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.ask_encap(cx)?;
        let mut file = self.file.lock();
        let said = |error| format!("{}: {}", shown(&self.path), reason(&error));
        let begin = |output| begin(output, &self.path, &self.options);
        if file.open(&self.path).map_err(said)?
            && let Err(error) = file.writer(begin)
        {
            return Err(format!("{}: unable to write file header: {error}", self.path));
        }
        drop(file);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<ToDump>() else { return };
        if self.file.is(&old.file) {
            old.file.let_go();
            self.count = old.count;
            return;
        }
        let same = old.path == self.path && old.options.link == self.options.link;
        if !same || !matches!(old.file.lock().state, State::Writing(_)) {
            return;
        }
        self.count = old.count;
        self.file.take_over(&mut old.file);
    }

    fn close(&mut self, cx: &mut Context) {
        let state = self.file.lock().close();
        if let State::Writing(writer) = state
            && let Err(error) = writer.finish()
        {
            cx.console().report(&format!("ToDump({}): {}\n", shown(&self.path), said(&error)));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "filename" => Ok(shown(&self.path).into()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::missing(handler)),
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
    fn packets_of_two_workers_are_in_one_file() {
        let scratch = Scratch::new("dump-workers");
        let out = scratch.path("out.pcap");
        let mut run = Run::new(&format!(
            "StaticThreadSched(a 0, b 1);
             a :: InfiniteSource(LENGTH 60, LIMIT 5000) -> t :: ToDump({out})
             -> c :: Counter(COUNT_CALL 4900 stop) -> Discard;
             b :: InfiniteSource(LENGTH 90, LIMIT 5000) -> t; DriverManager(wait 20s, stop)"
        ))
        .workers(2);
        run.run();
        let count: usize = run.read("t.count").parse().unwrap();
        drop(run);
        let file = fs::read(out).unwrap();
        let (mut at, mut records) = (24, 0);
        while at < file.len() {
            let length = u32::from_ne_bytes(file[at + 8..at + 12].try_into().unwrap());
            assert!(matches!(length, 60 | 90), "{length} at {at}");
            at += 16 + length as usize;
            records += 1;
        }
        assert_eq!((at, records), (file.len(), count));
        assert!(count >= 4900, "{count}");
    }

    /// Click's figure: both sources have had a turn before it has its first.
    #[test]
    fn it_starts_behind_the_sources() {
        let scratch = Scratch::new("dump-start");
        let out = scratch.path("out.pcap");
        let mut run = Run::new(&format!(
            "InfiniteSource(LIMIT 100) -> q :: Queue -> ToDump({out});
             InfiniteSource(LIMIT 100) -> q; DriverManager(wait 1s, stop)"
        ))
        .frame_limit(1);
        run.run();
        assert_eq!(run.read("q.highwater_length"), "101");
    }

    #[test]
    fn the_arguments_are_in_the_file() {
        let scratch = Scratch::new("dump-arguments");
        let out = scratch.path("out.pcap");
        let text = format!(
            "InfiniteSource(DATA \\<01020304>, LIMIT 1, STOP true)
             -> t :: ToDump({out}, SNAPLEN 3, ENCAP IP, NANO false)"
        );
        let mut run = Run::new(&text);
        run.run();
        assert_eq!(run.read("t.count"), "1");
        drop(run);
        let expected: &[&[u8]] = &[
            b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\x03\x00\x00\x00\x65\x00\x00\x00",
            // Simulated time begins at 10^9 s.
            b"\x00\xca\x9a\x3b\x00\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00",
            b"\x01\x02\x03",
        ];
        assert_eq!(fs::read(out).unwrap(), expected.concat());
    }

    #[test]
    fn cut_packets_keep_their_length_and_go_on() {
        let scratch = Scratch::new("dump-extra");
        let (cut, whole) = (scratch.path("cut.pcap"), scratch.path("again.pcap"));
        let file = capture("tcpdump-nano.pcap");
        Run::new(&format!("FromDump({file}, STOP true) -> ToDump({cut}, 20) -> Discard")).run();
        Run::new(&format!("FromDump({cut}, STOP true) -> Queue -> ToDump({whole}, 20)")).run();
        assert_eq!(fs::read(&cut).unwrap(), fs::read(&whole).unwrap());
        let text = format!("FromDump({cut}, STOP true) -> ToDump({whole}, EXTRA_LENGTH false)");
        Run::new(&text).run();
        let lengths = |path: &String| fs::read(path).unwrap()[32..40].to_vec();
        assert_eq!(lengths(&cut), [20, 0, 0, 0, 42, 0, 0, 0]);
        assert_eq!(lengths(&whole), [20, 0, 0, 0, 20, 0, 0, 0]);
    }

    #[test]
    fn the_link_type_comes_from_the_source() {
        let scratch = Scratch::new("dump-encap");
        let (raw, out) = (scratch.path("raw.pcap"), scratch.path("out.pcap"));
        let text = format!("InfiniteSource(LIMIT 1, STOP true) -> ToDump({raw}, ENCAP #276)");
        Run::new(&text).run();
        let text = format!("f :: FromDump({raw}, STOP true) -> ToDump({out}, USE_ENCAP_FROM f)");
        Run::new(&text).run();
        assert_eq!(fs::read(&raw).unwrap(), fs::read(&out).unwrap());
        let file = capture("tcpdump-nano.pcap");
        let errors = Run::errors(&format!(
            "f :: FromDump({raw}) -> t :: ToDump({out}, USE_ENCAP_FROM f g);
             g :: FromDump({file}) -> t"
        ));
        assert!(errors.contains("source encapsulation types disagree:"), "{errors}");
        let errors = Run::errors(&format!("i :: Idle -> ToDump({out}, USE_ENCAP_FROM i)"));
        assert!(errors.contains("'i :: Idle' has no 'encap' read handler"), "{errors}");
        let errors = Run::errors(&format!("Idle -> ToDump({out}, ENCAP FOO)"));
        assert!(errors.contains("bad encapsulation type"), "{errors}");
        let errors = Run::errors("Idle -> ToDump(/nonexistent/x)");
        assert!(errors.contains("  /nonexistent/x: No such file or directory"), "{errors}");
    }

    #[test]
    fn a_file_that_is_being_written_is_not_emptied_by_its_successor() {
        let scratch = Scratch::new("dump-successor");
        let out = scratch.path("out.pcap");
        let config = format!("{out}, ENCAP IP");
        let text = format!("s :: InfiniteSource(LIMIT 1, STOP true) -> t :: ToDump({config})");
        let mut run = Run::new(&text);
        run.run();
        run.write("t.config", &config).unwrap();
        assert_eq!(run.read("t.count"), "1");
        drop(run);
        assert_eq!(fs::read(&out).unwrap().len(), 24 + 16 + 69);
    }

    #[test]
    fn a_full_disk_is_reported_once_and_packets_go_on() {
        let text = "InfiniteSource(LIMIT 9, STOP true) -> t :: ToDump(/dev/full, UNBUFFERED true)
            -> c :: Counter -> Discard";
        let errors = Run::errors(text);
        assert!(errors.contains("/dev/full: unable to write file header"), "{errors}");
    }
}
