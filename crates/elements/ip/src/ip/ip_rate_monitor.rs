//! `IPRateMonitor`: measures the rates of addresses.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Fixed, Handler, HandlerError,
    HandlerResult, NoBuffer, Word, lang::config::split, parse_integer,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    rate_tree::{FREQUENCY, Tree, epoch_at},
};
use linerate_element_support::{
    handler_values,
    ip::{DESTINATION, SOURCE, TOTAL_LENGTH, get_four, get16, ip},
    random::Random,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no output
    NoOutput,
}

/// The least there is for rates, in kilobytes.
const LEAST: u64 = 100;
/// The ratio by which all packets are counted, in which one has 16 binary digits.
const ALL: u32 = 1 << 16;

pub(super) const CLASS: Class = Class {
    name: "IPRateMonitor",
    family: FAMILY,
    summary: "measures the rates of IPv4 addresses",
    description: "Rates of packets, or of bytes, are kept for the first byte of addresses; where \
        one is `THRESH` per second or more, also for the second byte behind it, and so on up to \
        whole addresses. Levels whose rates have become low go again. Packets at input 0 count as \
        from their source, those at input 1 as to their destination; they leave by the output of \
        the same number. A rate is a moving average over epochs of 8 ms, of which each has a weight \
        of 1/32.\n\n\
        With a `RATIO` below 1 only such a part of the packets is counted, by chance. Unless \
        `ANNO` is false, packets are annotated with the two rates of the address, or of the longest \
        part of it there are rates for, in the places of the aggregate and of the extra packets. \
        Where their IP header is, must be known; packets without one are not counted. All workers \
        have the same rates.",
    ports: "1-2/1-2",
    flow: "#/#",
    args: &[
        Arg::required("TYPE", "PACKETS or BYTES", "what is counted"),
        Arg::required("RATIO", "0 to 1", "the part of the packets that is counted"),
        Arg::required("THRESH", "per second", "rate from which on it is looked at closely"),
        Arg::optional("MEMORY", "kilobytes", "0: 64 MiB", "what rates may take, at least 100"),
        Arg::optional("ANNO", "bool", "true", "whether packets are annotated"),
    ],
    handlers: &[
        Handler::read(
            "look",
            "epochs since the last reset; addresses with both rates, a line each",
        ),
        Handler::read("thresh", "the threshold, times RATIO"),
        Handler::read("mem", "bytes taken, as Click counts them"),
        Handler::value("memmax", "most bytes taken, written in kilobytes; 0: 64 MiB"),
        Handler::write("anno_level", "`IP, LEVEL, SECONDS`: no rates below that level for a time"),
        Handler::button("reset", "forgets all rates"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "A lock per frame; per packet a step for each byte of its address that is looked at.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> UDPIPEncap(1.0.0.1, 53, 2.0.0.2, 53)\n  \
        -> IPRateMonitor(PACKETS, 0.5, 256, 600) -> Discard;",
    make: |make| Box::new(RateMonitor::new(make)),
    ..Class::here()
};

struct RateMonitor {
    tree: Arc<Mutex<Tree>>,
    bytes: bool,
    annotates: bool,
    /// Compared with 16 random bits.
    ratio: u32,
    random: Random,
}

impl RateMonitor {
    fn new(make: &mut ElementBuilder<'_>) -> RateMonitor {
        let kind = make.get::<Word>("TYPE");
        let ratio = make.get::<Fixed<16>>("RATIO");
        let threshold = make.get::<i32>("THRESH");
        let memory = make.get::<u32>("MEMORY");
        let annotates = make.get("ANNO");
        let kind = kind.map(|Word(text)| text.to_ascii_uppercase());
        let bytes = match kind.as_deref() {
            Some("PACKETS") => Some(false),
            Some("BYTES") => Some(true),
            _ => None,
        };
        let wrong = |name: &str, right: bool| make.is_given(name) && !right;
        // Only valid values are looked at.
        let is_read = !wrong("RATIO", ratio.is_some())
            && !wrong("THRESH", threshold.is_some())
            && !wrong("MEMORY", memory.is_some())
            && !wrong("ANNO", annotates.is_some());
        let ratio = ratio.map_or(ALL, |Fixed(ratio)| ratio);
        if is_read && kind.is_some() && bytes.is_none() {
            make.error("monitor type should be \"PACKETS\" or \"BYTES\"");
        } else if is_read && ratio > ALL {
            make.error("ratio must be between 0 and 1");
        }
        let threshold = (i64::from(threshold.unwrap_or(1)) * i64::from(ratio.min(ALL))) >> 16;
        let limit = in_bytes(memory.unwrap_or(0).into());
        RateMonitor {
            tree: make.shared(|| Mutex::new(Tree::new(threshold, limit, 0))),
            bytes: bytes.unwrap_or(false),
            annotates: annotates.unwrap_or(true),
            ratio,
            random: Random::new(make),
        }
    }

    fn with<R>(&self, with: impl FnOnce(&mut Tree) -> R) -> R {
        // Nothing panics while it is held.
        with(&mut self.tree.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if self.annotates {
            cx.unshare::<Reason>(frame);
        }
        let epoch = epoch_at(cx.steady());
        let RateMonitor { tree, bytes, annotates, ratio, random } = self;
        let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = cx.pool.arena();
        let place = if port == 0 { SOURCE } else { DESTINATION };
        for slot in frame.slots_mut() {
            let Some(packet) = ip(arena, slot) else { continue };
            let count = if *bytes { u64::from(get16(packet, TOTAL_LENGTH)) } else { 1 };
            let counts = *ratio >= ALL || random.bits28() >> 12 <= *ratio;
            let address = get_four(packet, place);
            let rates = tree.add(address, port.min(1), counts.then_some(count), epoch);
            if let Some(rates) = rates.filter(|_| *annotates)
                && let Some(meta) = arena.meta_mut(slot)
            {
                for (to, rate) in meta.user.chunks_exact_mut(4).zip(rates) {
                    let rate = rate.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                    to.copy_from_slice(&rate.to_ne_bytes());
                }
            }
        }
        tree.tend(epoch, || random.below(256) as u8);
    }
}

/// Kilobytes of `MEMORY`, at least the least.
fn in_bytes(kilobytes: u64) -> u64 {
    if kilobytes == 0 { 0 } else { kilobytes.max(LEAST).saturating_mul(1024) }
}

impl Element for RateMonitor {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        self.count(cx, port, frame);
        if port > 0 {
            if port < cx.out.count() {
                cx.out.emit_frame(port, frame);
            } else {
                cx.drop_frame(frame, Reason::NoOutput);
            }
        }
    }

    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        cx.pull(port, count, frame);
        if !frame.is_empty() {
            self.count(cx, port, frame);
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let epoch = epoch_at(cx.steady());
        self.with(|tree| tree.reset(epoch));
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<RateMonitor>() else { return };
        if self.bytes == old.bytes && !Arc::ptr_eq(&self.tree, &old.tree) {
            let (mut new, mut old) = (
                self.tree.lock().unwrap_or_else(PoisonError::into_inner),
                old.tree.lock().unwrap_or_else(PoisonError::into_inner),
            );
            new.take_from(&mut old);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let epoch = epoch_at(cx.steady());
        self.with(|tree| match handler {
            "look" => Ok(tree.text(epoch)),
            "thresh" => Ok(tree.threshold.to_string()),
            "mem" => Ok(tree.memory.to_string()),
            "memmax" => Ok(tree.limit.to_string()),
            _ => Err(HandlerError::missing(handler)),
        })
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let epoch = epoch_at(cx.steady());
        let refused = |text: &str| Err(HandlerError::refused(text));
        let arguments = split(value);
        match handler {
            "reset" => self.with(|tree| tree.reset(epoch)),
            "memmax" => {
                let [kilobytes] = &arguments[..] else { return refused("expecting 1 integer") };
                let Some(kilobytes) = parse_integer(kilobytes) else {
                    return refused("not an integer");
                };
                let kilobytes = kilobytes.clamp(0, u32::MAX.into()) as u64;
                self.with(|tree| tree.set_limit(in_bytes(kilobytes), epoch));
            }
            "anno_level" => {
                let [address, level, seconds] = &arguments[..] else {
                    return refused("expecting 3 arguments");
                };
                let Ok(address): Result<Ipv4Addr, _> = handler_values::address(cx, address) else {
                    return refused("not an IP address");
                };
                let Some(level) = parse_integer(level).filter(|level| (0..4).contains(level))
                else {
                    return refused("2nd argument specifies a level, between 0 and 3, to annotate");
                };
                let Some(seconds) = parse_integer(seconds).filter(|seconds| *seconds > 0) else {
                    return refused("3rd argument specifies when this rule expires, must be > 0");
                };
                let until = epoch + seconds.min(u32::MAX.into()) as u64 * FREQUENCY;
                self.with(|tree| tree.close(address.octets(), level as usize, until));
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Figures are those of Click 2.1.
    #[test]
    fn rates_are_those_of_click() {
        let mut run = Run::new(
            "a :: RatedSource(RATE 1000, DATA \\<4500001c00010000c801efdd0100000102000002
                000000000000000000>) -> MarkIPHeader -> m :: IPRateMonitor(PACKETS, 1, 256)
             -> Discard;
             b :: RatedSource(RATE 100, DATA \\<4500001c00010000c801efdd0900000102000002
                00000000000000000>) -> MarkIPHeader -> m; Script(wait 1, stop);",
        );
        run.run();
        let text = run.read("m.look");
        let names: Vec<&str> =
            text.lines().map(|line| line.split_once('\t').map_or(line, |it| it.0)).collect();
        assert_eq!(names, ["125", "1", "", "", "", "9"]);
        assert!(text.contains("\t\t\t1.0.0.1\t98"), "{text}");
        assert_eq!((run.read("m.mem"), run.read("m.thresh")), ("8520".into(), "256".into()));
    }

    #[test]
    fn both_directions_have_an_output() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcd, LIMIT 3) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.2, 6)
             -> m :: IPRateMonitor(BYTES, 1, 10, 0, true) -> a :: Counter -> Discard;
             InfiniteSource(DATA abcd, LIMIT 4) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.2, 6)
             -> [1] m [1] -> b :: Counter -> Discard; InfiniteSource(LIMIT 5) -> m;
             Script(wait 1, stop);",
        );
        run.run();
        assert_eq!((run.read("a.count"), run.read("b.count")), ("8".into(), "4".into()));
        assert_eq!(run.read("m.mem"), "2160");
    }
}
