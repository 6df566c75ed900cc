//! `FromIPSummaryDump`: makes packets from lines of fields.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerResult, Next, Role, Signals,
    Text, lang::config::words, parse_integer, unquoted,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    lines::Lines,
    source::{Source, give_rest},
    summary::{Draft, Field, Flow, NONE, VERSION, find},
};
use linerate_element_support::output::reason;

pub(super) const CLASS: Class = Class {
    name: "FromIPSummaryDump",
    family: FAMILY,
    summary: "makes packets from lines of fields",
    description: "Reads files that `ToIPSummaryDump` writes, text or binary, and makes an IP \
        packet of each line. What a line does not say is zero, but for a time to live of 100 and \
        the protocol (`PROTO`, or the line `!proto`) and flow (`FLOWID`, or the line `!flowid`) \
        of the file. Packets have as many bytes as are known; the others are their extra \
        length. Compressed files are refused: pipe them in.",
    ports: "0/1",
    args: &[
        Arg::optional("FILENAME", "path", "", "the file; - for the standard input"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the file ends the run"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it reads"),
        Arg::keyword("ZERO", "bool", "true", "accepted; what is not known is always zero"),
        Arg::keyword("TIMING", "bool", "false", "whether packets are sent at their pace"),
        Arg::keyword("CHECKSUM", "bool", "false", "whether packets are whole, with checksums"),
        Arg::keyword("SAMPLE", "probability", "1", "share of the packets sent, at random"),
        Arg::keyword("PROTO", "number", "6", "protocol of packets whose line does not say"),
        Arg::keyword("MULTIPACKET", "bool", "false", "a packet for each that a line stands for"),
        Arg::keyword("FIELDS", "names", "", "fields of lines before `!data`"),
        Arg::keyword("CONTENTS", "names", "", "another name of FIELDS"),
        Arg::keyword("DEFAULT_FIELDS", "names", "", "another name of FIELDS"),
        Arg::keyword("DEFAULT_CONTENTS", "names", "", "another name of FIELDS"),
        Arg::keyword("FLOWID", "SRC SPORT DST DPORT [PROTO]", "", "flow of lines that do not say"),
        Arg::keyword("DEFAULT_FLOWID", "SRC SPORT DST DPORT [PROTO]", "", "another name of FLOWID"),
        Arg::keyword("ALLOW_NONEXISTENT", "bool", "false", "whether there may be no file"),
        Arg::keyword("DATA", "string", "", "the lines, instead of a file"),
        Arg::keyword("BURST", "packets", "frame limit", "most packets sent at a time"),
    ],
    handlers: &[
        Handler::read("sampling_prob", "share of the packets sent"),
        Handler::value("active", "whether it reads").flags("c"),
        Handler::read("encap", "the link type of the packets: IP"),
        Handler::button("stop", "stops reading and ends the run"),
        Handler::read("filename", "the file's name"),
        Handler::read("filesize", "bytes in the file, - when that is not known"),
        Handler::read("filepos", "bytes read"),
    ],
    role: Role::Io,
    stops: true,
    signals: Signals { empty: true, full: false },
    annotates: true,
    cost: "Parsing a field is some 50 to 200 cycles.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_len, DATA \"1.2.3.4 100\") -> Discard;",
    make: |make| Box::new(FromIpSummaryDump::new(make)),
    ..Class::here()
};

struct FromIpSummaryDump {
    source: Source,
    data: Option<Vec<u8>>,
    may_be_missing: bool,
    lines: Option<Lines>,
    format: Format,
    draft: Draft,
    scratch: Vec<u8>,
    line: Vec<u8>,
    /// Whether the draft is a packet still to be sent.
    waiting: bool,
    /// The other packets the draft stands for.
    others: Option<Others>,
    checksum: bool,
    multipacket: bool,
    timing: bool,
    timing_offset: Option<u64>,
    stop: bool,
    ended: bool,
    /// Whether a malformed line has been reported.
    complained: bool,
}

/// Format of lines.
struct Format {
    /// Fields of a line, and their places in the order they are put into a
    /// packet.
    fields: Vec<&'static Field>,
    order: Vec<usize>,
    protocol: u8,
    flow: Option<Flow>,
    binary: bool,
    minor: u32,
}

/// Packets a line stands for besides the one at hand.
struct Others {
    left: u32,
    /// Length of all but the last.
    each: usize,
    /// Length of the last.
    last: usize,
    step: u64,
    end: u64,
}

/// Why no more packets were made.
enum Stop {
    Full,
    NoBuffers,
    Until(u64),
    EndOfFile,
}

impl Format {
    /// Takes the fields of a line `!data`. Unreadable ones are skipped.
    fn set_fields(&mut self, line: &str, warn: &mut dyn FnMut(String)) {
        self.fields.clear();
        for (at, word) in words(line).into_iter().map(unquoted).enumerate() {
            if at == 0 && matches!(&*word, "!data" | "!contents") {
                continue;
            }
            let field = match find(&word) {
                Some(field) if field.inject.is_some() => field,
                Some(Field { name: "none", .. }) => {
                    warn(format!("warning: content type '{word}' ignored on input"));
                    &NONE
                }
                _ => {
                    warn(format!("warning: unknown content type '{word}'"));
                    &NONE
                }
            };
            self.fields.push(field);
        }
        if self.fields.is_empty() {
            warn("no contents specified".into());
        }
        self.order = (0..self.fields.len()).collect();
        self.order.sort_by_key(|at| self.fields[*at].order);
    }

    fn set_protocol(&mut self, word: &str, of: &str, warn: &mut dyn FnMut(String)) {
        let named = match word {
            "T" | "tcp" => Some(6),
            "U" | "udp" => Some(17),
            "I" | "icmp" => Some(1),
            "igmp" => Some(2),
            "ipip" => Some(4),
            "dccp" => Some(33),
            "gre" => Some(47),
            "sctp" => Some(132),
            word => parse_integer(word).and_then(|number| u8::try_from(number).ok()),
        };
        match named {
            Some(protocol) => self.protocol = protocol,
            None => warn(format!("bad protocol in {of}")),
        }
    }

    /// Takes a flow: addresses and ports, and perhaps a protocol.
    fn set_flow(&mut self, words: &[&str], warn: &mut dyn FnMut(String)) {
        let address = |at: usize| match words.get(at)? {
            &"-" => Some(Ipv4Addr::UNSPECIFIED),
            word => word.parse().ok(),
        };
        let port = |at: usize| match words.get(at)? {
            &"-" => Some(0),
            word => parse_integer(word).and_then(|port| u16::try_from(port).ok()),
        };
        let addresses = address(0).zip(address(2)).map(<[_; 2]>::from);
        let ports = port(1).zip(port(3)).map(<[_; 2]>::from);
        self.flow = addresses.zip(ports).map(|(addresses, ports)| Flow { addresses, ports });
        if self.flow.is_none() {
            warn("bad !flowid specification".into());
        } else if let Some(protocol) = words.get(4) {
            self.set_protocol(protocol, "!flowid", warn);
        }
    }

    /// Takes a line that begins with `!`.
    fn set(&mut self, line: &str, warn: &mut dyn FnMut(String)) {
        let found = words(line);
        match found.first() {
            Some(&("!data" | "!contents")) => self.set_fields(line, warn),
            Some(&"!flowid") => self.set_flow(&found[1..], warn),
            Some(&"!proto") if found.len() == 2 => self.set_protocol(found[1], "!proto", warn),
            Some(&"!proto") => warn("bad !proto".into()),
            Some(&"!binary") => self.binary = true,
            _ => {}
        }
    }

    /// Puts the fields of a line into a draft; `false` when there was none.
    fn read_text(&self, line: &str, draft: &mut Draft, scratch: &mut Vec<u8>) -> bool {
        // Lines have few fields, so words are found again for each instead of
        // being kept.
        let mut any = false;
        for &at in &self.order {
            let (field, word) = (self.fields[at], nth_word(line, at));
            let Some(inject) = field.inject.filter(|_| !matches!(word, "" | "-")) else { continue };
            if let Some(value) = field.form.parse(word, field.width, draft, scratch) {
                inject(draft, value);
                any = true;
            }
        }
        any
    }

    /// Likewise for a packed record.
    fn read_packed(&self, record: &[u8], draft: &mut Draft) -> bool {
        let mut any = false;
        for &at in &self.order {
            let mut rest = record;
            let whole = self.fields[..at]
                .iter()
                .all(|field| field.form.unpack(field.width, &mut rest).is_some());
            let field = self.fields[at];
            let Some(inject) = field.inject.filter(|_| whole) else { continue };
            if let Some(value) = field.form.unpack(field.width, &mut rest) {
                inject(draft, value);
                any = true;
            }
        }
        any
    }
}

/// Returns a word of a line; text between double quotes belongs together.
fn nth_word(line: &str, n: usize) -> &str {
    let mut rest = line;
    for _ in 0..n {
        rest = rest[word_end(rest)..].trim_start();
    }
    &rest[..word_end(rest)]
}

fn word_end(text: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            byte if !quoted && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

impl FromIpSummaryDump {
    fn new(make: &mut ElementBuilder<'_>) -> FromIpSummaryDump {
        make.get::<bool>("ZERO");
        let mut format = Format {
            fields: Vec::new(),
            order: Vec::new(),
            protocol: make.or("PROTO", 6),
            flow: None,
            binary: false,
            minor: VERSION.1,
        };
        let mut found = Vec::new();
        let names = ["FIELDS", "CONTENTS", "DEFAULT_FIELDS", "DEFAULT_CONTENTS"];
        if let Some(Text(names)) = names.iter().find_map(|name| make.get(name)) {
            format.set_fields(&names, &mut |warning| found.push(warning));
        }
        if let Some(Text(flow)) =
            ["FLOWID", "DEFAULT_FLOWID"].iter().find_map(|name| make.get(name))
        {
            format.set_flow(&words(&flow), &mut |warning| found.push(warning));
        }
        for text in found {
            match text.strip_prefix("warning: ") {
                Some(text) => make.warn(text),
                None => make.error(text),
            }
        }
        let path: Option<String> = make.get("FILENAME");
        let data: Option<Vec<u8>> = make.get("DATA");
        if path.is_some() && data.is_some() {
            make.error("FILENAME and DATA conflict");
        } else if path.is_none() && data.is_none() {
            make.error("FILENAME: required argument missing");
        }
        FromIpSummaryDump {
            source: Source::from_args(make, path.unwrap_or_else(|| "<data>".into())),
            data,
            may_be_missing: make.or("ALLOW_NONEXISTENT", false),
            lines: None,
            format,
            draft: Draft::default(),
            scratch: Vec::new(),
            line: Vec::new(),
            waiting: false,
            others: None,
            checksum: make.or("CHECKSUM", false),
            multipacket: make.or("MULTIPACKET", false),
            timing: make.or("TIMING", false),
            timing_offset: None,
            stop: make.or("STOP", false),
            ended: false,
            complained: false,
        }
    }

    fn open(&mut self, cx: &Context) -> Result<(), String> {
        let opened = match self.data.take() {
            Some(data) => Ok(Lines::from_text(data)),
            None => Lines::open(&self.source.path),
        };
        let said = |error| format!("{}: {}", self.source.shown(), reason(&error));
        let mut lines = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.may_be_missing => {
                return Ok(());
            }
            opened => opened.map_err(said)?,
        };
        if lines.is_at_end().map_err(said)? {
            let empty = format!("{}: empty file", self.source.shown());
            return if self.may_be_missing { Ok(()) } else { Err(empty) };
        }
        let start = lines.peek().map_err(said)?;
        let compressed = [&b"\x1f\x8b"[..], b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zX"];
        if compressed.iter().any(|magic| start.starts_with(magic)) {
            return Err(format!(
                "{}: the file is compressed; unpack it and pipe it in",
                self.source.shown()
            ));
        }
        if start.starts_with(b"!IPSummaryDump") {
            let mut line = Vec::new();
            lines.read_line(&mut line).map_err(said)?;
            self.check_version(&String::from_utf8_lossy(&line[14..]), cx);
        } else {
            let known: [&[u8]; 5] = [b"!creator", b"!data", b"!contents", b"!proto", b"!flowid"];
            if !known.iter().any(|word| start.starts_with(word)) && self.format.fields.is_empty() {
                let text = "warning: missing banner line; is this an IP summary dump?";
                cx.console().report(&format!("{}:0: {text}\n", self.source.shown()));
            }
        }
        self.lines = Some(lines);
        Ok(())
    }

    fn check_version(&mut self, text: &str, cx: &Context) {
        let version: Option<(u32, u32)> = text.trim().split_once('.').and_then(|(major, minor)| {
            let minor = minor.split_whitespace().next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let Some((major, minor)) = version else { return };
        if major != VERSION.0 || minor > VERSION.1 {
            let text = format!("warning: unexpected IPSummaryDump version {major}.{minor}");
            cx.console().report(&format!("{}:1: {text}\n", self.source.shown()));
        } else {
            self.format.minor = minor;
        }
    }

    /// Reads on until a packet is drafted; `false` at the end of the file.
    fn draft_next(&mut self, cx: &Context) -> bool {
        let shown = self.source.shown().to_owned();
        let Some(lines) = &mut self.lines else { return false };
        loop {
            let was_binary = self.format.binary;
            let read = if was_binary {
                lines.read_record(&mut self.line).map(|kind| kind.map(|text| !text))
            } else {
                lines.read_line(&mut self.line).map(|more| more.then_some(false))
            };
            let place = if was_binary { "record " } else { "" };
            let landmark = format_args!("{shown}:{place}{}", lines.count).to_string();
            let mut warn = |text: String| cx.console().report(&format!("{landmark}: {text}\n"));
            let packed = match read {
                Ok(Some(packed)) => packed,
                Ok(None) => return false,
                Err(error) => {
                    warn(reason(&error));
                    return false;
                }
            };
            let line = String::from_utf8_lossy(&self.line);
            let line = line.trim_end_matches('\0');
            match self.line.first() {
                Some(b'!') if !packed => {
                    self.format.set(line.trim(), &mut warn);
                    if self.format.binary && !was_binary {
                        lines.count = 0;
                    }
                    continue;
                }
                Some(b'#') if !packed => continue,
                None if !packed => continue,
                _ => {}
            }
            let Format { protocol, flow, minor, .. } = self.format;
            self.draft.begin(protocol, flow, minor);
            let any = if packed {
                self.format.read_packed(&self.line, &mut self.draft)
            } else {
                self.format.read_text(line, &mut self.draft, &mut self.scratch)
            };
            if any && self.draft.finish(self.checksum) {
                return true;
            }
            let blank = !packed && line.trim().is_empty();
            if !blank && !std::mem::replace(&mut self.complained, true) {
                warn(if self.format.fields.is_empty() {
                    "no '!data' provided".into()
                } else {
                    "packet parse error".into()
                });
            }
        }
    }

    /// Splits the packets that the draft stands for: the draft becomes the first.
    fn split(&mut self) {
        let draft = &mut self.draft;
        let Some(count) = (draft.extra_packets as usize).checked_add(1).filter(|n| *n > 1) else {
            return;
        };
        let length = draft.bytes.len();
        let total = length + draft.extra_length as usize;
        // There may be less extra length than would cover all packets.
        let each = (total / count).max(length);
        let last = if total / count < length { each } else { total - each * (count - 1) };
        let (first, end) = (draft.first_time(), draft.time);
        let step = match first {
            0 => 0,
            first => end.saturating_sub(first) / (count as u64 - 1),
        };
        if first != 0 {
            draft.time = first;
        }
        self.others = Some(Others { left: count as u32 - 1, each, last, step, end });
        draft.extra_packets = 0;
        self.set_length(each);
    }

    fn set_length(&mut self, length: usize) {
        self.draft.extra_length = (length - self.draft.bytes.len()) as u32;
        self.draft.set_ip_length(length);
    }

    /// The draft becomes the next of the packets it stands for; `false` when
    /// there is none.
    fn next_other(&mut self) -> bool {
        let Some(others) = &mut self.others else { return false };
        others.left -= 1;
        if others.left > 0 {
            self.draft.time += others.step;
            let each = others.each;
            self.set_length(each);
        } else {
            self.draft.time = others.end;
            let last = others.last;
            self.others = None;
            self.set_length(last);
        }
        true
    }

    /// Makes packets, at most `count`, in a frame that is empty.
    fn fill(&mut self, cx: &mut Context, frame: &mut Frame, count: usize) -> Stop {
        let now = cx.steady();
        if cx.pool.take(frame, count, 0) == 0 {
            return Stop::NoBuffers;
        }
        cx.begin_packets(frame);
        let mut filled = 0;
        let stop = loop {
            if filled == frame.len() {
                break Stop::Full;
            }
            if !self.waiting && !self.next_other() {
                if !self.draft_next(cx) {
                    break Stop::EndOfFile;
                }
                if self.multipacket {
                    self.split();
                }
            }
            if self.timing {
                let offset = *self.timing_offset.get_or_insert(now.wrapping_sub(self.draft.time));
                let at = self.draft.time.wrapping_add(offset);
                if at > now && at - now < u64::MAX / 2 {
                    self.waiting = true;
                    break Stop::Until(at);
                }
            }
            self.waiting = false;
            if !self.source.sample.choose() {
                continue;
            }
            let arena = cx.pool.arena();
            let slot = &mut frame.slots_mut()[filled];
            let length = self.draft.bytes.len().min(arena.room());
            arena.resize(slot, length);
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes.copy_from_slice(&self.draft.bytes[..length]);
            }
            if let Some(mut packet) = arena.writable(slot) {
                self.draft.annotate(&mut packet, length);
            }
            filled += 1;
        };
        give_rest(cx, frame, filled);
        match stop {
            // The end comes after the packets before it.
            Stop::EndOfFile if filled > 0 => Stop::Full,
            Stop::EndOfFile => {
                if self.stop && !self.ended {
                    cx.driver.stop();
                }
                self.ended = true;
                Stop::EndOfFile
            }
            Stop::Until(at) => {
                cx.set_timer(0, at);
                Stop::Until(at)
            }
            stop => stop,
        }
    }
}

impl Element for FromIpSummaryDump {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if !self.source.active || cx.is_downstream_full() {
            return Next::Sleep;
        }
        match self.fill(cx, frame, self.source.burst.min(frame.room())) {
            Stop::Full => Next::Again,
            Stop::NoBuffers => Next::Idle,
            Stop::Until(_) | Stop::EndOfFile => Next::Sleep,
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if self.source.active && !self.ended {
            self.fill(cx, frame, count.min(frame.room()));
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        self.source.wake(cx);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.open(cx)?;
        if self.source.active && self.source.pushes {
            cx.schedule();
        }
        Ok(())
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "encap" => Ok("IP".into()),
            "filepos" => Ok(self.lines.as_ref().map_or(0, Lines::position).to_string()),
            _ => self.source.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.source.write(cx, handler, value)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::test_files::data;
    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    /// The records of a capture file: header and bytes of each.
    fn records(file: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = &file[24..];
        let mut records = Vec::new();
        while let Some(header) = rest.first_chunk::<16>() {
            let [.., a, b, c, d, _, _, _, _] = *header;
            let (record, behind) = rest.split_at(16 + u32::from_le_bytes([a, b, c, d]) as usize);
            records.push(record.to_vec());
            rest = behind;
        }
        records
    }

    fn packets(arguments: &str, limit: usize) -> Vec<Vec<u8>> {
        let scratch = Scratch::new(&format!("from-summary-{limit}"));
        let out = scratch.path("out.pcap");
        let text = format!("FromIPSummaryDump({arguments}, STOP true) -> ToDump({out}, 0, IP)");
        Run::new(&text).frame_limit(limit).run();
        records(&fs::read(out).unwrap())
    }

    #[test]
    fn packets_are_those_of_click() {
        for (dump, arguments, capture) in [
            ("zoo-all.txt", "", "zoo-all.pcap"),
            ("zoo-all.txt", ", CHECKSUM true, PROTO 17", "zoo-sums.pcap"),
            ("zoo-ip.txt", "", "zoo-from-ip.pcap"),
            ("zoo-tcp.txt", "", "zoo-from-tcp.pcap"),
            ("zoo-other.txt", "", "zoo-from-other.pcap"),
            ("zoo-payload.txt", ", PROTO 17", "zoo-from-payload.pcap"),
        ] {
            let expected = records(&fs::read(data(capture)).unwrap());
            let found = packets(&format!("{}{arguments}", data(dump)), 256);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Packets without a time get that of the moment.
                assert_eq!(found[8..], expected[8..], "{capture} {at}");
            }
            assert_eq!(found.len(), expected.len(), "{capture}");
        }
    }
}
