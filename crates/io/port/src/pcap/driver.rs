//! `pcap:FILE` receives the packets of a capture file, or writes packets sent to one.
//!
//! The direction it is opened in decides between the two; in both directions it receives, and
//! writes only to a file named by `out`, so that a file is never overwritten by mistake. `-` is
//! standard input or output.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{Error, Fault};
use super::pace::{Pace, Rate};
use super::record::{Output, Recorder, wall_clock};
use super::replay::{Replay, Segment};
use super::rotate::{Limits, Naming, Rotating};
use super::source::Source;
use super::writer::{Options as WriteOptions, Precision, Writer};
use super::{Format, LINUX_SLL2, MAX_PACKET};
use crate::driver::Driver;
use crate::error::{OpenError, UriError};
use crate::options::{OptionGroup, Options, PortOption, Value};
use crate::port::{Context, Copies, Direction, Port, PortInfo, Queue, Receive, Transmit};
use crate::uri::PortUri;

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "pcap",
    object: "FILE",
    summary: "replays a capture file, or writes one",
    description: "\
Reads pcap and pcapng, of either byte order, and writes either. Opened to receive, it reads the
file; opened to transmit, it writes it; in both directions it reads, and writes only to the file
that `out` names, so that a file is never overwritten by mistake. `-` is standard input or output.
A file to be looped is read into memory first if it is not larger than 1 GiB.",
    needs: "It needs no privileges beyond those for the file.",
    examples: &[
        ("pcap:trace.pcap", "the packets of a file, as fast as they are taken"),
        ("pcap:trace.pcap?rate=recorded&speed=2", "with half the gaps that were recorded"),
        ("pcap:trace.pcap?rate=10kpps&loop", "ten thousand per second, over and over"),
        (
            "pcap:trace.pcap?segment=1500",
            "with merged segments of TCP as a link of MTU 1500 has them",
        ),
        ("pcap:new.pcapng?snaplen=128", "written to: the first 128 bytes of each packet"),
        ("pcap:new.pcap?rotate-seconds=60&keep=10", "written to: the last ten minutes"),
    ],
    options: &[
        OptionGroup {
            when: "when the file is read",
            options: &[
                PortOption {
                    name: "rate",
                    value: Value::Text {
                        form: "max|recorded|RATE",
                        expected: "max, recorded, or packets per second up to 1G, as in 1Mpps",
                    },
                    default: "max",
                    help: "As fast as frames are taken, with the gaps that were recorded, or so \
                           many packets per second.",
                },
                PortOption {
                    name: "speed",
                    value: Value::Text {
                        form: "FACTOR",
                        expected: "a factor above 0, as in 2 or 0.5",
                    },
                    default: "1",
                    help: "Divides the recorded gaps; goes with rate=recorded.",
                },
                PortOption {
                    name: "short",
                    value: Value::Word(&[
                        ("drop", "they are no frames"),
                        ("keep", "they come as they are, as to be looked at"),
                    ]),
                    default: "drop",
                    help: "What becomes of records shorter than an Ethernet header.",
                },
                PortOption {
                    name: "cooked",
                    value: Value::Word(&[
                        ("refuse", "they are an error: they have no Ethernet header"),
                        (
                            "keep",
                            "they come with an Ethernet header without a destination, and with \
                             their interface noted, as to be looked at",
                        ),
                    ]),
                    default: "refuse",
                    help: "What becomes of records of Linux's cooked captures \
                           (LINKTYPE_LINUX_SLL2), as from all interfaces.",
                },
                PortOption {
                    name: "segment",
                    value: Value::Text {
                        form: "BYTES|room",
                        expected: "bytes of an IP packet, from 68 to 65535, or room",
                    },
                    default: "no record is changed",
                    help: "Cuts records of TCP whose IP packet is longer into segments, as an \
                           interface with segmentation offload (TSO) does; room: those longer than \
                           a packet buffer. For captures of hosts, whose merged segments no link \
                           carries.",
                },
                PortOption {
                    name: "loop",
                    value: Value::Text { form: "N", expected: "a number of passes, 0 for endless" },
                    default: "1",
                    help: "How many times the file is passed through; without a value, or 0, \
                           endlessly.",
                },
            ],
        },
        OptionGroup {
            when: "when the port is opened in both directions",
            options: &[PortOption {
                name: "out",
                value: Value::Text { form: "FILE", expected: "a file" },
                default: "none",
                help: "The file that is written.",
            }],
        },
        OptionGroup {
            when: "when a file is written",
            options: &[
                PortOption {
                    name: "format",
                    value: Value::Text { form: "pcap|pcapng", expected: "pcap or pcapng" },
                    default: "pcapng where the file's name ends in it, else pcap",
                    help: "The file's format.",
                },
                PortOption {
                    name: "link",
                    value: Value::Word(&[
                        ("ethernet", "packets are written as they are"),
                        (
                            "cooked",
                            "the interface by which a packet came, where that was noted, is written \
                             in place of its Ethernet header (LINKTYPE_LINUX_SLL2)",
                        ),
                    ]),
                    default: "ethernet",
                    help: "What records begin with.",
                },
                PortOption {
                    name: "precision",
                    value: Value::Text { form: "nano|micro", expected: "nano or micro" },
                    default: "nano",
                    help: "Times in nanoseconds or microseconds.",
                },
                PortOption {
                    name: "snaplen",
                    value: Value::Number { least: 1, most: MAX_PACKET as u64 },
                    default: "all of it",
                    help: "Keeps at most so many bytes of each packet.",
                },
                PortOption {
                    name: "interface",
                    value: Value::Text { form: "NAME", expected: "a name" },
                    default: "none",
                    help: "The interface that a pcapng file says the packets came from.",
                },
                PortOption {
                    name: "times",
                    value: Value::Word(&[
                        ("now", "when it is written"),
                        (
                            "packet",
                            "its own time, which a port noted or another file had, and the length \
                             it had there",
                        ),
                    ]),
                    default: "now",
                    help: "The time that is written with a packet.",
                },
                PortOption {
                    name: "rotate-seconds",
                    value: Value::Text {
                        form: "SECONDS",
                        expected: "seconds above 0, up to a year",
                    },
                    default: "one file",
                    help: "Begins a new file after this time, by the times of the packets.",
                },
                PortOption {
                    name: "rotate-bytes",
                    value: Value::Number { least: 1, most: u64::MAX },
                    default: "one file",
                    help: "Begins a new file when one has this size.",
                },
                PortOption {
                    name: "rotate-packets",
                    value: Value::Number { least: 1, most: u64::MAX },
                    default: "one file",
                    help: "Begins a new file after so many packets.",
                },
                PortOption {
                    name: "keep",
                    value: Value::Text { form: "N", expected: "a number of files, at least 1" },
                    default: "all",
                    help: "Keeps only the newest files.",
                },
                PortOption {
                    name: "names",
                    value: Value::Word(&[
                        ("dumpcap", "new_00001_20260131235959.pcap and so on, and old ones go"),
                        (
                            "tcpdump",
                            "new.pcap, new.pcap1 and so on, as with -C, -G and -W, where a file \
                             is larger than rotate-bytes when the next begins, the name is a \
                             format of strftime(3) with rotate-seconds, and old files are begun \
                             anew",
                        ),
                    ]),
                    default: "dumpcap",
                    help: "How several files are named.",
                },
            ],
        },
    ],
    interface: false,
    open,
};

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    if uri.name().is_empty() {
        let reason = "no file is named; write pcap:FILE, or pcap:- for a pipe";
        return Err(UriError::Syntax { uri: uri.to_string(), reason }.into());
    }
    let mut options = uri.options(DRIVER.options);
    let replay =
        context.direction.receives().then(|| ReplayOptions::take(&mut options)).transpose()?;
    let record = match context.direction {
        Direction::Receive => None,
        Direction::Transmit => Some(PathBuf::from(uri.name())),
        Direction::Both => options.text("out").map(PathBuf::from),
    };
    let record = record.map(|path| RecordOptions::take(path, &mut options)).transpose()?;
    options.finish()?;

    let mut mode = Vec::new();
    let mut queue = Queue { receive: None, transmit: None };
    if let Some(replay) = replay {
        let (receive, text) = replay.open(uri)?;
        queue.receive = Some(receive);
        mode.push(text);
    }
    if let Some(record) = record {
        mode.push(format!("writes {}", record.options.format));
        queue.transmit = Some(record.open(uri)?);
    }
    Ok(Port {
        info: PortInfo {
            link: None,
            uri: uri.clone(),
            interface: None,
            mac: None,
            frame_limit: None,
            speed: None,
            copies: Copies::Driver,
            stamps: context.direction.receives(),
            types: false,
            mode: mode.join("; "),
        },
        queues: vec![queue],
    })
}

fn open_error(uri: &PortUri, error: &Error) -> OpenError {
    let Error { file, fault } = error;
    if let Fault::Open(source) = fault
        && source.kind() == io::ErrorKind::PermissionDenied
    {
        let action = format!("open {}", file.display());
        let remedy = "check its permissions and those of its folders".into();
        return OpenError::Permission { port: uri.to_string(), action, remedy };
    }
    let reason = if file == Path::new(uri.name()) { fault.to_string() } else { error.to_string() };
    OpenError::File { port: uri.to_string(), reason }
}

struct ReplayOptions {
    rate: Rate,
    speed: f64,
    /// Passes through the file; the largest number for endless.
    passes: u64,
    /// Whether records shorter than an Ethernet header are received.
    short: bool,
    /// Whether records of cooked captures are.
    cooked: bool,
    /// Length of the segments that long TCP records are cut into, if they are.
    segment: Option<Segment>,
}

impl ReplayOptions {
    fn take(options: &mut Options<'_>) -> Result<Self, UriError> {
        let rate = options.value("rate")?.unwrap_or(Rate::Max);
        let speed = options.value::<Speed>("speed")?;
        let passes = options.value::<Passes>("loop")?;
        Ok(Self {
            rate,
            speed: speed.map_or(1.0, |Speed(speed)| speed),
            passes: passes.map_or(1, |Passes(passes)| passes),
            short: options.word("short")? == Some("keep"),
            cooked: options.word("cooked")? == Some("keep"),
            segment: options.value("segment")?,
        })
    }

    fn open(self, uri: &PortUri) -> Result<(Box<dyn Receive>, String), OpenError> {
        let Self { rate, speed, passes, short, cooked, segment } = self;
        let useless = |option: &str, when| {
            let (uri, option) = (uri.to_string(), option.to_owned());
            Err(UriError::UselessOption { uri, option, when }.into())
        };
        if speed != 1.0 && rate != Rate::Recorded {
            return useless("speed", "with rate=recorded, whose gaps it scales");
        }
        if passes > 1 && uri.name() == "-" {
            return useless("loop", "for a file: standard input can be read once");
        }
        let source = Source::open(Path::new(uri.name()), passes > 1, cooked)
            .map_err(|error| open_error(uri, &error))?;
        let rate_text = match rate {
            Rate::Max => "as fast as possible".into(),
            Rate::Recorded => format!("as recorded, speed {speed}"),
            Rate::PerSecond(rate) => format!("{rate} packets/s"),
        };
        let passes_text = match passes {
            u64::MAX => "endlessly".into(),
            1 => "once".into(),
            passes => format!("{passes} times"),
        };
        let mut mode = format!("{}, {rate_text}, {passes_text}", source.describe());
        if let Some(segment) = segment {
            mode += &format!(", {segment}");
        }
        let pace = Pace::new(rate, speed);
        let replay =
            Replay::new(uri.to_string(), source, pace, passes, Instant::now).with_segments(segment);
        Ok((Box::new(if short { replay.with_short_ones() } else { replay }), mode))
    }
}

struct Speed(f64);

impl std::str::FromStr for Speed {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let speed: f64 = text.parse().map_err(|_| ())?;
        if speed > 0.0 && speed.is_finite() { Ok(Self(speed)) } else { Err(()) }
    }
}

struct Passes(u64);

impl std::str::FromStr for Passes {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "" | "0" => Ok(Self(u64::MAX)),
            number => number.parse().map(Self).map_err(|_| ()),
        }
    }
}

struct RecordOptions {
    path: PathBuf,
    options: WriteOptions,
    /// Limits of each file, if there are to be several.
    limits: Option<Limits>,
    packet_times: bool,
}

impl RecordOptions {
    fn take(path: PathBuf, options: &mut Options<'_>) -> Result<Self, UriError> {
        let format = options.value::<Format>("format")?;
        let mut write = WriteOptions::new(format.unwrap_or(Format::from_path(&path)));
        if let Some(precision) = options.value::<Precision>("precision")? {
            write.precision = precision;
        }
        if let Some(snaplen) = options.number("snaplen")? {
            // In range, so it fits.
            write.snaplen = snaplen as u32;
        }
        if options.word("link")? == Some("cooked") {
            write.link = LINUX_SLL2;
        }
        write.interface = options.text("interface").map(str::to_owned);
        let times = options.word("times")?;
        let duration = options.value::<Seconds>("rotate-seconds")?;
        let limits = Limits {
            bytes: options.number("rotate-bytes")?,
            duration: duration.map(|Seconds(duration)| duration),
            records: options.number("rotate-packets")?,
            files: options.value("keep")?,
            naming: match options.word("names")? {
                Some("tcpdump") => Naming::Tcpdump,
                _ => Naming::Dumpcap,
            },
        };
        Ok(Self {
            path,
            options: write,
            limits: (limits != Limits::default()).then_some(limits),
            packet_times: times == Some("packet"),
        })
    }

    fn open(self, uri: &PortUri) -> Result<Box<dyn Transmit>, OpenError> {
        let Self { path, options, limits, packet_times } = self;
        let is_cooked = options.link == LINUX_SLL2;
        let output = match limits {
            None => Writer::create(&path, &options).map(Output::File),
            Some(limits) => {
                Rotating::create(path, options, limits).map(Box::new).map(Output::Files)
            }
        };
        let output = output.map_err(|error| open_error(uri, &error))?;
        let recorder = Recorder::new(uri.to_string(), output, packet_times, wall_clock);
        Ok(Box::new(if is_cooked { recorder.cooked() } else { recorder }))
    }
}

/// The longest time after which a file ends.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

struct Seconds(Duration);

impl std::str::FromStr for Seconds {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let seconds = text.parse().map_err(|_| ())?;
        let duration = Duration::try_from_secs_f64(seconds).map_err(|_| ())?;
        if duration.is_zero() || duration > YEAR { Err(()) } else { Ok(Self(duration)) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linerate_memory::{ArenaOptions, Frame, Meta, Origin, PoolCache};

    use super::*;
    use crate::pcap::Reader;

    /// A directory of one test, removed at its end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(test: &str) -> Self {
            let name = format!("linerate-pcap-{test}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn uri(&self, rest: &str) -> String {
            format!("pcap:{}/{rest}", self.0.display())
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn sample() -> String {
        format!("pcap:{}/tests/data/scapy-nano-little.pcap", env!("CARGO_MANIFEST_DIR"))
    }

    fn pool() -> PoolCache {
        ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }
            .create()
            .unwrap()
            .cache(64)
    }

    fn open_port(uri: &str, pool: &PoolCache, direction: Direction) -> Result<Port, OpenError> {
        crate::open(&uri.parse().unwrap(), &Context::new(pool.arena().clone()).toward(direction))
    }

    #[test]
    fn a_replayed_file_recorded_again_is_the_same() {
        let directory = Directory::new("same");
        for name in ["a.pcap", "b.pcapng"] {
            let mut pool = pool();
            let input = sample();
            let mut input = open_port(&input, &pool, Direction::Receive).unwrap();
            let output = directory.uri(&format!("{name}?times=packet&interface=x"));
            let mut output = open_port(&output, &pool, Direction::Transmit).unwrap();
            assert!(input.queues[0].transmit.is_none() && output.queues[0].receive.is_none());
            let mut frame = Frame::new(3);
            let receive = input.queues[0].receive.as_mut().unwrap();
            let transmit = output.queues[0].transmit.as_mut().unwrap();
            while !receive.ended() {
                receive.receive(&mut pool, &mut frame).unwrap();
                transmit.transmit(&mut pool, &mut frame).unwrap();
                assert!(frame.is_empty());
            }
            assert_eq!(transmit.counters().read(), receive.counters().read());
            assert_eq!(transmit.counters().read().packets, 4);
            assert_eq!(pool.arena().accounting().held, 0);
            drop(output);

            let mut expected = Reader::open(&sample()["pcap:".len()..]).unwrap();
            let mut written = Reader::open(directory.0.join(name)).unwrap();
            assert_eq!(written.format(), Format::from_path(Path::new(name)));
            while let Some(record) = expected.next().unwrap() {
                assert_eq!(written.next().unwrap(), Some(record));
            }
            assert_eq!(written.next().unwrap(), None);
            assert!(written.tail().is_none());
        }
    }

    /// Frames are written to a cooked capture, and read from it, with what was noted about them.
    #[test]
    fn a_cooked_capture_has_interfaces() {
        let directory = Directory::new("cooked");
        let mut pool = pool();
        let origin = Origin { index: 3, hardware: 1, address_length: 6 };
        let sent = [&[1; 6][..], &[2; 6], &[8, 0, 0x45], &[7; 40]].concat();
        for name in ["a.pcap", "b.pcapng"] {
            let uri = directory.uri(&format!("{name}?times=packet&link=cooked&snaplen=30"));
            let mut output = open_port(&uri, &pool, Direction::Transmit).unwrap();
            let mut frame = Frame::new(1);
            let mut slot = pool.take_one(sent.len()).unwrap();
            pool.arena().packet_mut(&mut slot).unwrap().copy_from_slice(&sent);
            let meta = pool.arena().meta_mut(&mut slot).unwrap();
            meta.reset();
            meta.packet_type = Meta::MULTICAST;
            meta.set_origin(origin);
            frame.push(slot).unwrap();
            output.queues[0].transmit.as_mut().unwrap().transmit(&mut pool, &mut frame).unwrap();
            drop(output);

            let refused = open_port(&directory.uri(name), &pool, Direction::Receive).unwrap_err();
            assert!(refused.to_string().contains("276"), "{refused}");
            let uri = directory.uri(&format!("{name}?cooked=keep"));
            let mut input = open_port(&uri, &pool, Direction::Receive).unwrap();
            input.queues[0].receive.as_mut().unwrap().receive(&mut pool, &mut frame).unwrap();
            let slot = &frame.slots()[0];
            let expected = [&[0; 6][..], &sent[6..24]].concat();
            assert_eq!(pool.arena().packet(slot), expected);
            let meta = pool.arena().meta(slot);
            assert_eq!((meta.origin(), meta.packet_type), (Some(origin), Meta::MULTICAST));
            assert_eq!(meta.missing() as usize, sent.len() - expected.len());
            pool.give(&mut frame);
        }
    }

    #[test]
    fn options_shape_the_written_file() {
        let directory = Directory::new("options");
        let mut pool = pool();
        let uri = directory.uri("x.bin?format=pcap&precision=micro&snaplen=20");
        let mut port = open_port(&uri, &pool, Direction::Transmit).unwrap();
        let mut frame = Frame::new(1);
        let mut slot = pool.take_one(30).unwrap();
        pool.arena().packet_mut(&mut slot).unwrap().fill(9);
        frame.push(slot).unwrap();
        let before = wall_clock();
        port.queues[0].transmit.as_mut().unwrap().transmit(&mut pool, &mut frame).unwrap();
        let after = wall_clock();
        let transmit = port.queues[0].transmit.as_mut().unwrap();
        assert_eq!(transmit.flush(&mut pool).unwrap(), 0);
        let bytes = fs::read(directory.0.join("x.bin")).unwrap();
        assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        let mut reader = Reader::open(directory.0.join("x.bin")).unwrap();
        let record = reader.next().unwrap().unwrap();
        assert_eq!((record.orig_len, record.data), (30, &[9; 20][..]));
        assert!((before / 1000 * 1000..=after).contains(&record.ts_ns));
    }

    #[test]
    fn files_are_rotated_and_the_newest_kept() {
        let directory = Directory::new("rotated");
        let mut pool = pool();
        let mut input = open_port(&sample(), &pool, Direction::Receive).unwrap();
        let uri = directory.uri("r.pcap?times=packet&rotate-seconds=0.5&rotate-packets=2&keep=2");
        let mut output = open_port(&uri, &pool, Direction::Transmit).unwrap();
        let mut frame = Frame::new(8);
        input.queues[0].receive.as_mut().unwrap().receive(&mut pool, &mut frame).unwrap();
        output.queues[0].transmit.as_mut().unwrap().transmit(&mut pool, &mut frame).unwrap();
        drop(output);
        // Two frames within two microseconds, one almost two and one twelve seconds later.
        let mut names: Vec<_> = fs::read_dir(&directory.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["r_00002_20231114221321.pcap", "r_00003_20231114221332.pcap"]);
    }

    #[test]
    fn a_file_opened_both_ways_is_read_and_never_overwritten() {
        let directory = Directory::new("both");
        let pool = pool();
        let before = fs::read(&sample()["pcap:".len()..]).unwrap();
        let port = open_port(&sample(), &pool, Direction::Both).unwrap();
        assert!(port.queues[0].receive.is_some() && port.queues[0].transmit.is_none());
        drop(port);
        assert_eq!(fs::read(&sample()["pcap:".len()..]).unwrap(), before);

        let out = directory.0.join("out.pcapng");
        let uri = format!("{}?out={}", sample(), out.display());
        let port = open_port(&uri, &pool, Direction::Both).unwrap();
        assert!(port.queues[0].receive.is_some() && port.queues[0].transmit.is_some());
        drop(port);
        assert_eq!(Reader::open(out).unwrap().next().unwrap(), None);
    }

    #[test]
    fn a_looped_file_is_held_in_memory() {
        let pool = pool();
        let port = open_port(&(sample() + "?loop=2"), &pool, Direction::Receive).unwrap();
        assert!(port.info.mode.contains("4 packets, 240 bytes in memory"), "{}", port.info.mode);
        let port = open_port(&(sample() + "?rate=recorded"), &pool, Direction::Receive).unwrap();
        assert!(port.info.mode.contains("read as it is replayed"), "{}", port.info.mode);
        let port = open_port(&(sample() + "?segment=1500"), &pool, Direction::Receive).unwrap();
        assert!(port.info.mode.ends_with("cut to 1500 bytes"), "{}", port.info.mode);
    }

    #[test]
    fn a_name_without_a_file_is_a_wrong_name() {
        let error = open_port("pcap:", &pool(), Direction::Receive).unwrap_err();
        assert!(matches!(error, OpenError::Uri(UriError::Syntax { .. })), "{error}");
    }

    #[test]
    fn a_file_that_may_not_be_opened_is_not_permitted() {
        let uri = "pcap:/root/x.pcap".parse().unwrap();
        let denied = Fault::Open(io::ErrorKind::PermissionDenied.into());
        let error = open_error(&uri, &Error::new(Path::new("/root/x.pcap"), denied));
        assert!(matches!(error, OpenError::Permission { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "pcap:/root/x.pcap: not permitted to open /root/x.pcap; check its permissions and \
             those of its folders"
        );
    }

    #[test]
    fn errors_of_opening_have_their_reason() {
        let directory = Directory::new("refused");
        fs::write(directory.0.join("empty.pcap"), b"").unwrap();
        fs::write(directory.0.join("text.pcap"), b"hello").unwrap();
        let (receive, transmit) = (Direction::Receive, Direction::Transmit);
        let cases = [
            ("pcap:".into(), receive, "no file is named"),
            (directory.uri("none.pcap"), receive, "cannot open"),
            (directory.uri("empty.pcap"), receive, "the file is empty"),
            (directory.uri("text.pcap"), receive, "neither pcap nor pcapng"),
            (directory.uri("no/such/directory.pcap"), transmit, "cannot open"),
            (sample() + "?rate=fast", receive, "as in 1Mpps"),
            (sample() + "?speed=2", receive, "speed is of use only with rate=recorded"),
            (sample() + "?speed=0&rate=recorded", receive, "a factor above 0"),
            (sample() + "?segment=67", receive, "bytes of an IP packet, from 68 to 65535, or room"),
            (
                sample() + "?segment=all",
                receive,
                "bytes of an IP packet, from 68 to 65535, or room",
            ),
            (sample() + "?loop=x", receive, "0 for endless"),
            (sample() + "?snaplen=64", receive, "snaplen is of use only when a file is written"),
            ("pcap:-?loop".into(), receive, "loop is of use only for a file"),
            (
                directory.uri("x.pcap?rate=max"),
                transmit,
                "rate is of use only when the file is read",
            ),
            (directory.uri("x.pcap?format=erf"), transmit, "pcap or pcapng"),
            (directory.uri("x.pcap?snaplen=0"), transmit, "from 1 to 262144"),
            (directory.uri("x.pcap?rotate-seconds=-1"), transmit, "seconds above 0"),
            (directory.uri("x.pcap?keep=0"), transmit, "at least 1"),
            (directory.uri("x.pcap?keep=2"), transmit, "a limit for each"),
            ("pcap:-?rotate-packets=2".into(), transmit, "standard output"),
            (directory.uri("no/x.pcap?rotate-packets=2"), transmit, "cannot open"),
        ];
        let pool = pool();
        for (uri, direction, expected) in cases {
            let error = open_port(&uri, &pool, direction).unwrap_err().to_string();
            assert!(error.contains(expected), "{uri}: {error}");
        }
    }
}
