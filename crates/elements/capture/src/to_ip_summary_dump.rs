//! `ToIPSummaryDump`: writes packets as lines of fields.

use std::{
    fs,
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next, Role,
    Text,
    lang::config::{quote, words},
    unquoted,
};
use linerate_memory::{Frame, Meta};

use super::{
    FAMILY,
    output::{Dump, Output},
    stamp::Stamp,
    summary::{Field, Manner, VERSION, View, Width, find},
};
use linerate_element_support::{annotations, output::reason};

/// Bytes collected before they are written.
const BLOCK: usize = 64 << 10;

pub(super) const CLASS: Class = Class {
    name: "ToIPSummaryDump",
    family: FAMILY,
    summary: "writes packets as lines of fields",
    description: "Writes a line per packet with the fields of `FIELDS`, `-` for those it does \
        not have, behind a line `!data` that names them. `FromIPSummaryDump` reads such files. \
        With an output, packets go on.\n\n\
        Fields: `timestamp` `ntimestamp` `ts_sec` `ts_usec` `ts_usec1` `first_timestamp` `count` \
        `link` `paint` `direction` `aggregate` `wire_len`, `eth_src` `eth_dst` `eth_type`, \
        `ip_src` `ip_dst` `ip_tos` `ip_dscp` `ip_ecn` `ip_ttl` `ip_frag` `ip_fragoff` `ip_id` \
        `ip_sum` `ip_proto` `ip_hl` `ip_len` `ip_capture_len` `ip_opt`, `sport` `dport`, \
        `tcp_seq` `tcp_ack` `tcp_off` `tcp_flags` `tcp_window` `tcp_urp` `tcp_opt` `tcp_ntopt` \
        `tcp_sack`, `udp_len`, `icmp_type` `icmp_code` `icmp_type_name` `icmp_code_name` \
        `icmp_flowid` `icmp_seq` `icmp_nextmtu`, `payload` `payload_len` `payload_md5` \
        `payload_md5_hex`. IP fields need to know where the IP header is: put `MarkIPHeader` or \
        `FromDump(.., FORCE_IP true)` in front.",
    ports: "1/0-1",
    processing: "a/h",
    args: &[
        Arg::required("FILENAME", "path", "the file; - for the standard output"),
        Arg::keyword("FIELDS", "names", "timestamp ip_src", "the fields, separated by spaces"),
        Arg::keyword("CONTENTS", "names", "", "another name of FIELDS"),
        Arg::keyword("DATA", "names", "", "another name of FIELDS"),
        Arg::keyword("VERBOSE", "bool", "false", "whether host and time are written in front"),
        Arg::keyword("HEADER", "bool", "true", "whether anything is written in front"),
        Arg::keyword("BANNER", "text", "", "a text to be written in front"),
        Arg::keyword("MULTIPACKET", "bool", "false", "a line for each packet it stands for"),
        Arg::keyword("BAD_PACKETS", "bool", "false", "a line `!bad` in front of bad packets"),
        Arg::keyword("CAREFUL_TRUNC", "bool", "true", "whether cut packets are bad"),
        Arg::keyword("EXTRA_LENGTH", "bool", "true", "whether lengths are those on the wire"),
        Arg::keyword("BINARY", "bool", "false", "packed records instead of lines"),
        Arg::keyword("BURST", "packets", "frame limit", "most packets pulled at a time"),
    ],
    handlers: &[Handler::write("flush", "writes what has been collected")],
    role: Role::Io,
    annotates: true,
    // Several write to the standard output.
    observes_state_of: |plan, at| {
        let file = |at: usize| plan.argument(at, "FILENAME");
        let is_dump =
            |other: &usize| plan.elements[*other].class.name == plan.elements[at].class.name;
        let all = (0..plan.elements.len()).filter(is_dump);
        all.filter(|other| *other != at && file(*other) == file(at)).collect()
    },
    shows_order: |plan, at| {
        // Several may write to the same place.
        let class = plan.elements[at].class.name;
        let dumps = plan.elements.iter().filter(|element| element.class.name == class);
        dumps.count() > 1 || plan.has_several_sources(at) || plan.has_several_ways_from("Tee", at)
    },
    cost: "Finding and printing a field is some 20 to 100 cycles; lines are written in blocks, \
        those to the standard output a frame at a time.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> ToIPSummaryDump(-, FIELDS wire_len count);",
    make: |make| Box::new(ToIpSummaryDump::new(make)),
    ..Class::here()
};

struct ToIpSummaryDump {
    path: String,
    fields: Vec<&'static Field>,
    manner: Manner,
    multipacket: bool,
    /// Whether bad packets are marked.
    bad_packets: bool,
    binary: bool,
    header: Vec<u8>,
    /// Each replica writes lines of its own at once.
    file: Dump<Box<dyn Write + Send>>,
    buffer: Vec<u8>,
    bad: String,
    burst: usize,
    /// Whether packets end here.
    ends: bool,
    pulls: bool,
}

impl ToIpSummaryDump {
    fn new(make: &mut ElementBuilder<'_>) -> ToIpSummaryDump {
        let names = ["FIELDS", "CONTENTS", "DATA"].map(|name| make.get::<Text>(name));
        let names = names.into_iter().rev().flatten().next();
        let Text(names) = names.unwrap_or(Text("timestamp ip_src".into()));
        let binary = make.or("BINARY", false);
        let mut fields = Vec::new();
        for name in words(&names).into_iter().map(unquoted) {
            match find(&name) {
                Some(field) if binary && field.width == Width::Text => {
                    make.error(format!("cannot use field {name} with BINARY"));
                }
                Some(field) => fields.push(field),
                None => make.error(format!("unknown content type '{name}'")),
            }
        }
        if fields.is_empty() {
            make.error("no contents specified");
        }
        let headers = fields.iter().any(|field| field.needs_headers());
        let counts = fields.iter().any(|field| field.name == "count");
        let (banner, verbose) = (make.get::<String>("BANNER"), make.or("VERBOSE", false));
        let header = if make.or("HEADER", true) {
            header(&fields, banner, verbose, binary)
        } else {
            Vec::new()
        };
        ToIpSummaryDump {
            path: make.need("FILENAME"),
            fields,
            manner: Manner {
                careful: make.or("CAREFUL_TRUNC", true),
                with_extra: make.or("EXTRA_LENGTH", true),
                headers,
            },
            multipacket: make.or("MULTIPACKET", false) && !counts,
            bad_packets: make.or("BAD_PACKETS", false),
            binary,
            header,
            file: Dump::new(make),
            buffer: Vec::new(),
            bad: String::new(),
            burst: make.burst("BURST"),
            ends: make.outputs() == 0,
            pulls: make.input_is_pull(0),
        }
    }

    /// Writes a packet, or those it stands for.
    fn write_packet(&mut self, cx: &Context, bytes: &[u8], meta: &Meta, headroom: usize) {
        let count = annotations::extra_packets(meta);
        if !self.multipacket || count == 0 {
            return self.write_line(bytes, meta, headroom);
        }
        let count = u64::from(count) + 1;
        let length = bytes.len() as u64;
        let extra = if self.manner.with_extra { annotations::extra_length(meta) } else { 0 };
        let mut total = (length + u64::from(extra)).max(count * length);
        let (first, last) = (annotations::first_time(meta), meta.timestamp);
        let step = if first == 0 { 0 } else { last.saturating_sub(first) / (count - 1) };
        let mut one = *meta;
        annotations::set_extra_packets(&mut one, 0);
        for done in 0..count {
            let share = total / (count - done);
            total -= share;
            annotations::set_extra_length(&mut one, (share - length) as u32);
            one.timestamp = match first {
                _ if done + 1 == count => last,
                0 => last,
                first => first + step * done,
            };
            self.write_line(bytes, &one, headroom);
            // There may be four billion of them.
            if self.buffer.len() >= BLOCK {
                self.flush(cx);
                if self.file.lock().is_closed() {
                    return;
                }
            }
        }
    }

    fn write_line(&mut self, bytes: &[u8], meta: &Meta, headroom: usize) {
        self.bad.clear();
        let bad = self.bad_packets.then_some(&mut self.bad);
        let start = self.buffer.len();
        let out = &mut self.buffer;
        let mut view = View::new(bytes, meta, headroom, self.manner, bad);
        if self.binary {
            out.extend([0; 4]);
            for field in &self.fields {
                let value = (field.extract)(&mut view);
                field.form.pack(field.width, value, out);
            }
            let length = (out.len() - start) as u32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        } else {
            for (at, field) in self.fields.iter().enumerate() {
                if at > 0 {
                    out.push(b' ');
                }
                match (field.extract)(&mut view) {
                    Some(value) => field.form.print(value, &view, out),
                    None => out.push(b'-'),
                }
            }
            out.push(b'\n');
        }
        if !self.bad.is_empty() {
            // Fields had to be looked for before it was known.
            let mut line = Vec::new();
            if self.binary {
                line.extend((self.bad.len() as u32 | 1 << 31).to_be_bytes());
            }
            line.extend_from_slice(self.bad.as_bytes());
            self.buffer.splice(start..start, line);
        }
    }

    fn record(&mut self, cx: &mut Context, frame: &Frame) {
        if self.file.lock().is_closed() {
            return;
        }
        let arena = cx.pool.arena();
        for slot in frame.slots() {
            self.write_packet(cx, arena.packet(slot), arena.meta(slot), slot.headroom());
        }
        if self.buffer.len() >= BLOCK || self.path == "-" {
            self.flush(cx);
        }
    }

    /// Writes the buffered lines.
    fn flush(&mut self, cx: &Context) {
        let mut file = self.file.lock();
        let written = match file.writer(|output| begin(output, &self.header)) {
            Ok(Some(sink)) => sink.write_all(&self.buffer).and_then(|()| sink.flush()),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            file.close();
            let text = format!("{}: {}: {}\n", cx.name(), self.path, reason(&error));
            cx.console().report(&text);
        }
        drop(file);
        self.buffer.clear();
    }
}

/// Begins a file.
fn begin(output: Output, header: &[u8]) -> io::Result<Box<dyn Write + Send>> {
    let mut sink = output.claim()?;
    sink.write_all(header)?;
    Ok(sink)
}

/// Returns the header in front of the packets.
fn header(fields: &[&Field], banner: Option<String>, verbose: bool, binary: bool) -> Vec<u8> {
    let (major, minor) = VERSION;
    let mut text = format!("!IPSummaryDump {major}.{minor}\n");
    if let Some(banner) = banner.filter(|banner| !banner.is_empty()) {
        text += &format!("!creator {}\n", quote(banner.as_bytes()));
    }
    if verbose {
        if let Ok(host) = fs::read_to_string("/proc/sys/kernel/hostname") {
            text += &format!("!host {}\n", host.trim());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stamp = Stamp(now.as_nanos() as u64);
        text += &format!("!runtime {stamp} ({})\n", date(now.as_secs()));
    }
    let names = fields.iter().map(|field| match field.name {
        "ntimestamp" if !binary => "timestamp",
        name => name,
    });
    text += &format!("!data {}\n", names.collect::<Vec<_>>().join(" "));
    if binary {
        text += "!binary\n";
    }
    text.into_bytes()
}

/// A time as C's `ctime` writes it, in universal time.
fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from the March before the epoch's century, so that the
    // odd day is the last of a year.
    let era_day = days + 719_468;
    let (era, day) = (era_day / 146_097, era_day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + era * 400 + u64::from(month >= 10);
    let month = MONTHS[(month as usize + 2) % 12];
    let weekday = DAYS[(days % 7) as usize];
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

impl Element for ToIpSummaryDump {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.record(cx, frame);
        if self.ends {
            cx.discard(frame);
        }
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if cx.pull(0, self.burst, frame) == 0 {
            return cx.nothing_pulled();
        }
        self.push(cx, 0, frame);
        Next::Again
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let said = |error| format!("{}: {}", self.path, reason(&error));
        let mut file = self.file.lock();
        if file.open(&self.path).map_err(said)?
            && let Some(sink) = file.writer(|output| begin(output, &self.header)).map_err(said)?
        {
            sink.flush().map_err(said)?;
        }
        drop(file);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<ToIpSummaryDump>() else { return };
        if old.path != self.path || old.header != self.header {
            return;
        }
        old.flush(cx);
        if self.file.is(&old.file) {
            old.file.let_go();
        } else {
            self.file.take_over(&mut old.file);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        if !self.file.lock().is_closed() {
            self.flush(cx);
        }
        // Other replicas have lines to write yet: the last one closes it.
        self.file.let_go();
    }

    fn write(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "flush" => self.flush(cx),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::date;
    use crate::test_files::data;
    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    /// Dumps the packets of a capture with the fields of a dump that Click
    /// has written.
    fn like(name: &str, capture: &str, arguments: &str, limit: usize) -> (Vec<u8>, Vec<u8>) {
        let expected = fs::read(data(name)).unwrap();
        let text = String::from_utf8_lossy(&expected);
        let fields = text.lines().find_map(|line| line.strip_prefix("!data ")).unwrap().to_owned();
        let scratch = Scratch::new(&format!("summary-{name}-{limit}"));
        let out = scratch.path("out");
        let capture = data(capture);
        let forced = !name.contains("raw");
        let text = format!(
            "FromDump({capture}, STOP true, FORCE_IP {forced})
             -> ToIPSummaryDump({out}, FIELDS {fields}, BAD_PACKETS true {arguments})"
        );
        Run::new(&text).frame_limit(limit).run();
        (fs::read(out).unwrap(), expected)
    }

    #[test]
    fn dumps_are_those_of_click() {
        for (name, capture, arguments) in [
            ("zoo-anno.txt", "zoo.pcap", ""),
            ("zoo-link.txt", "zoo.pcap", ""),
            ("zoo-ip.txt", "zoo.pcap", ""),
            ("zoo-tcp.txt", "zoo.pcap", ""),
            ("zoo-other.txt", "zoo.pcap", ""),
            ("zoo-payload.txt", "zoo.pcap", ""),
            ("zoo-raw.txt", "zoo.pcap", ""),
            ("zoo-cut-link.txt", "zoo-cut.pcap", ""),
            ("zoo-cut-ip.txt", "zoo-cut.pcap", ""),
            ("zoo-cut-tcp.txt", "zoo-cut.pcap", ""),
            ("zoo-cut-other.txt", "zoo-cut.pcap", ""),
            ("zoo-cut-payload.txt", "zoo-cut.pcap", ""),
            ("zoo-cut-raw.txt", "zoo-cut.pcap", ""),
            ("zoo-lengths.txt", "zoo.pcap", ", EXTRA_LENGTH false, CAREFUL_TRUNC false"),
        ] {
            let (found, expected) = like(name, capture, arguments, 256);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (found, expected) = (text(&found), text(&expected));
            for (at, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
                assert_eq!(found, expected, "{name}:{}", at + 1);
            }
            assert_eq!(found, expected, "{name}");
        }
        let (found, expected) = like("zoo-ip.txt", "zoo.pcap", "", 1);
        assert_eq!(found, expected);
    }

    #[test]
    fn packed_dumps_are_those_of_click() {
        let (found, expected) = like("zoo-binary.dat", "zoo.pcap", ", BINARY true", 256);
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_two_workers_are_in_one_file() {
        let scratch = Scratch::new("summary-workers");
        let out = scratch.path("out");
        let mut run = Run::new(&format!(
            "StaticThreadSched(a 0, b 1);
             a :: InfiniteSource(LENGTH 60, LIMIT 5000)
             -> t :: ToIPSummaryDump({out}, FIELDS wire_len)
             -> c :: Counter(COUNT_CALL 4900 stop) -> Discard;
             b :: InfiniteSource(LENGTH 90, LIMIT 5000) -> t; DriverManager(wait 20s, stop)"
        ))
        .workers(2);
        run.run();
        let count: usize = run.read("c.count").parse().unwrap();
        drop(run);
        let text = fs::read_to_string(out).unwrap();
        let (header, lines) = text.split_once("!data wire_len\n").unwrap();
        assert_eq!(header, "!IPSummaryDump 1.3\n");
        assert!(lines.lines().all(|line| matches!(line, "60" | "90")), "{text}");
        assert_eq!(lines.lines().count(), count);
        assert!(count >= 4900, "{count}");
    }

    #[test]
    fn the_header_names_the_requested_fields() {
        let scratch = Scratch::new("summary-header");
        let dump = |arguments: &str| {
            let out = scratch.path("out");
            let text = format!(
                "InfiniteSource(LIMIT 1, STOP true, TIMESTAMP false)
                 -> ToIPSummaryDump({out}, {arguments})"
            );
            Run::new(&text).run();
            fs::read_to_string(out).unwrap()
        };
        assert_eq!(
            dump("FIELDS \"ts usec1\" link, BANNER x"),
            "!IPSummaryDump 1.3\n!creator \"x\"\n!data ts_usec1 link\n0 0\n"
        );
        assert_eq!(dump("CONTENTS wire_len, HEADER false"), "69\n");
        let text = dump("VERBOSE true");
        assert!(text.contains("\n!host ") && text.contains("\n!runtime "), "{text}");
        assert_eq!(date(996_022_410), "Wed Jul 25 00:53:30 2001");
        assert_eq!(date(951_782_399), "Mon Feb 28 23:59:59 2000");
        assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    }

    /// A transport header that was stripped, with another IP header behind it.
    #[test]
    fn payloads_are_found_behind_headers_in_front_of_the_packet() {
        let outer = format!("45{}", "00".repeat(23));
        let inner = "4500001c000000004011000001000001020000020001000200080000";
        let scratch = Scratch::new("summary-stripped");
        let out = scratch.path("out");
        let text = format!(
            "Packets({outer}{inner}) -> MarkIPHeader(0) -> Strip(24) -> MarkNetwork(0)
             -> ToIPSummaryDump({out}, FIELDS payload_len, HEADER false)"
        );
        Run::new(&text).run();
        assert_eq!(fs::read_to_string(out).unwrap(), "24\n");
    }

    #[test]
    fn packets_that_stand_for_several_get_several_lines() {
        let scratch = Scratch::new("summary-multi");
        let out = scratch.path("out");
        let text = format!(
            "FromIPSummaryDump(STOP true, FIELDS ts first_ts count ip_src ip_len,
                 DATA \"10 4 3 1.2.3.4 300\")
             -> ToIPSummaryDump({out}, FIELDS ts ip_src count, MULTIPACKET true, HEADER false)
             -> t :: ToIPSummaryDump({out}.2, FIELDS ts wire_len, MULTIPACKET true, HEADER false)"
        );
        Run::new(&text).run();
        // Counts are written as such, so there is one line.
        assert_eq!(fs::read_to_string(&out).unwrap(), "10.000000 1.2.3.4 3\n");
        let lines = fs::read_to_string(format!("{out}.2")).unwrap();
        assert_eq!(lines, "4.000000 40\n7.000000 40\n10.000000 40\n");
    }

    #[test]
    fn errors_are_those_of_click() {
        for (arguments, text) in [
            ("-, FIELDS foo ip_src", "unknown content type 'foo'"),
            ("-, FIELDS payload, BINARY true", "cannot use field payload with BINARY"),
            ("-, FIELDS \"\"", "no contents specified"),
            ("/nonexistent/x", "/nonexistent/x: No such file or directory"),
        ] {
            let errors = Run::errors(&format!("Idle -> ToIPSummaryDump({arguments})"));
            assert!(errors.contains(text), "{errors}");
        }
    }
}
