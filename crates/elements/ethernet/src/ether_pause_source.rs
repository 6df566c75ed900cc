//! `EtherPauseSource`: generates PAUSE frames (IEEE 802.3, annex 31B).

use linerate_element_support::{
    ether::mac_text,
    handler_values::{boolean_or, integer_or, value_of},
    ip::{ETHERNET, get16, put16},
};
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Seconds,
};
use linerate_memory::Frame;
use linerate_packet::MacAddr;

use super::FAMILY;

const TIMER: u32 = 0;
const MILLISECOND: u64 = 1_000_000;
const LENGTH: usize = 64;
/// Multicast address of MAC control frames, which no bridge forwards.
const GROUP: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 1]);
const MAC_CONTROL: u16 = 0x8808;
const PAUSE: u16 = 1;
/// Offset of the pause time.
const TIME: usize = ETHERNET + 2;

pub(super) const CLASS: Class = Class {
    name: "EtherPauseSource",
    family: FAMILY,
    summary: "makes Ethernet frames that ask for a pause",
    description: "Each asks the neighbour to send nothing for the time of 512 bits, `PAUSETIME` \
        times; on a link of 1 Gbit/s, 195 is 100 µs. Where it is pulled, one per packet pulled, else \
        one per `INTERVAL`, the first after one interval; `LIMIT` in all, any number when that is \
        below zero. Frames have 64 bytes and `SRC` must be the address of the device that sends \
        them; the place behind the Ethernet header becomes known to the elements behind.",
    ports: "0/1",
    args: &[
        Arg::required("SRC", "Ethernet address", "source"),
        Arg::required("PAUSETIME", "0 to 65535", "length of the pause in times of 512 bits"),
        Arg::keyword("DST", "Ethernet address", "01-80-C2-00-00-01", "destination"),
        Arg::keyword("LIMIT", "packets", "-1: no limit", "frames to make in all"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it makes frames"),
        Arg::keyword("INTERVAL", "time", "1s", "time between frames that are pushed"),
    ],
    handlers: &[
        Handler::count("count", "frames made"),
        Handler::value("limit", "frames to make in all"),
        Handler::value("active", "whether it makes frames").flags("c"),
        Handler::value("src", "source"),
        Handler::value("dst", "destination"),
        Handler::value("pausetime", "length of the pause"),
        Handler::write("reset_counts", "sets the count to zero, so that the limit is made again"),
    ],
    annotates: true,
    cost: "A timer per frame that is pushed; copies 64 bytes.",
    example: "EtherPauseSource(00:1e:13:22:48:91, 390, LIMIT 3, INTERVAL 10ms) \
        -> Counter(COUNT_CALL 3 stop) -> Discard;",
    make: |make| Box::new(PauseSource::new(make)),
    ..Class::here()
};

struct PauseSource {
    bytes: [u8; LENGTH],
    interval: u64,
    limit: i32,
    count: u32,
    active: bool,
    /// Whether the output is push, driven by a timer.
    pushes: bool,
}

fn mac(bytes: &[u8], at: usize) -> MacAddr {
    MacAddr(bytes[at..].first_chunk().copied().unwrap_or_default())
}

impl PauseSource {
    fn new(make: &mut ElementBuilder<'_>) -> PauseSource {
        let mut bytes = [0; LENGTH];
        bytes[6..12].copy_from_slice(&make.need::<MacAddr>("SRC").0);
        put16(&mut bytes, TIME, make.need("PAUSETIME"));
        bytes[..6].copy_from_slice(&make.or("DST", GROUP).0);
        put16(&mut bytes, 12, MAC_CONTROL);
        put16(&mut bytes, ETHERNET, PAUSE);
        let Seconds(interval) = make.or("INTERVAL", Seconds::<3>(1000));
        PauseSource {
            bytes,
            interval: (u64::from(interval) * MILLISECOND).max(1),
            limit: make.or("LIMIT", -1),
            count: 0,
            active: make.or("ACTIVE", true),
            pushes: make.output_is_push(0),
        }
    }

    /// Number of frames left until the limit; zero while inactive.
    fn allowed(&self) -> usize {
        match u32::try_from(self.limit) {
            _ if !self.active => 0,
            Ok(limit) => limit.saturating_sub(self.count) as usize,
            Err(_) => usize::MAX,
        }
    }

    fn make(&mut self, cx: &mut Context, count: usize, frame: &mut Frame) {
        let made = cx.pool.take(frame, count.min(self.allowed()), LENGTH);
        cx.begin_packets(frame);
        let arena = cx.pool.arena();
        for mut packet in frame.slots_mut().iter_mut().filter_map(|slot| arena.writable(slot)) {
            packet.parts().0.copy_from_slice(&self.bytes);
            packet.mark_network(ETHERNET);
        }
        self.count = self.count.wrapping_add(made as u32);
    }

    /// Restarts the timer after a write handler, if frames are left and none is pending.
    fn go_on(&self, cx: &mut Context) {
        if self.pushes && self.allowed() > 0 && cx.timer(TIMER).is_none() {
            cx.set_timer(TIMER, cx.steady());
        }
    }
}

impl Element for PauseSource {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.pushes && self.allowed() > 0 {
            cx.set_timer(TIMER, cx.steady().saturating_add(self.interval));
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        self.make(cx, 1, frame);
        if self.allowed() > 0 {
            cx.set_timer(TIMER, cx.steady().saturating_add(self.interval));
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.make(cx, count, frame);
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<PauseSource>() {
            self.count = old.count;
            if self.allowed() == 0 {
                cx.clear_timer(TIMER);
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "limit" => Ok(self.limit.to_string()),
            "active" => Ok(self.active.to_string()),
            "src" => Ok(mac_text(mac(&self.bytes, 6))),
            "dst" => Ok(mac_text(mac(&self.bytes, 0))),
            "pausetime" => Ok(get16(&self.bytes, TIME).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        const MISMATCH: &str = "type mismatch";
        let address = || {
            let address = value_of::<MacAddr>(cx, value);
            address.map_err(|_| HandlerError::refused(MISMATCH))
        };
        match handler {
            "src" => self.bytes[6..12].copy_from_slice(&address()?.0),
            "dst" => self.bytes[..6].copy_from_slice(&address()?.0),
            "pausetime" => put16(&mut self.bytes, TIME, integer_or(value, MISMATCH)?),
            "limit" => self.limit = integer_or(value, MISMATCH)?,
            "active" => self.active = boolean_or(value, MISMATCH)?,
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::missing(handler)),
        }
        self.go_on(cx);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Addresses, the type 8808, operation 1, and the time of 390 (IEEE 802.3).
    fn pause(destination: &str) -> String {
        format!("{destination}001e132248918808000101 86{}", "00".repeat(46)).replace(' ', "")
    }

    #[test]
    fn a_frame_per_interval_is_pushed() {
        let mut run = Run::new(
            "e :: EtherPauseSource(00:1e:13:22:48:91, 390, LIMIT 3) -> c :: Collect; \
             Script(wait 10s, stop)",
        );
        run.run();
        assert_eq!(run.read("c.times"), "1000000000\n2000000000\n3000000000");
        let frame = pause("0180c2000001");
        assert_eq!((frame.len(), run.read("c.packets")), (128, [frame.as_str(); 3].join("\n")));
        assert_eq!(run.read("e.count"), "3");
    }

    #[test]
    fn a_frame_is_made_for_each_that_is_pulled() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "e :: EtherPauseSource(00:1e:13:22:48:91, 390, DST 2:0:0:0:0:1, LIMIT 40) \
                 -> Unqueue -> c :: Collect; Script(wait 1s, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            let frame = pause("020000000001");
            assert_eq!(run.read("c.packets"), [frame.as_str(); 40].join("\n"));
        }
    }

    #[test]
    fn handlers_are_those_of_click() {
        let mut run = Run::new(
            "e :: EtherPauseSource(00:1e:13:22:48:91, 390, ACTIVE false, INTERVAL 0.5) \
             -> c :: Collect; Script(wait 1.2s, write e.active true, wait 1.2s, stop)",
        );
        assert_eq!(
            ["src", "dst", "pausetime", "limit", "active", "count"]
                .map(|handler| run.read(&format!("e.{handler}"))),
            ["00-1E-13-22-48-91", "01-80-C2-00-00-01", "390", "-1", "false", "0"]
        );
        run.write("e.src", "2:0:0:0:0:9").unwrap();
        run.write("e.pausetime", "65535").unwrap();
        for (handler, value) in [
            ("src", "x"),
            ("dst", "1.0.0.1"),
            ("pausetime", "65536"),
            ("limit", "y"),
            ("active", "z"),
        ] {
            let error = run.write(&format!("e.{handler}"), value).unwrap_err().to_string();
            assert_eq!(error, "type mismatch", "{handler}");
        }
        run.run();
        // The first leaves as soon as it may.
        let times = run.read("c.times");
        let millis = times.lines().map(|at| at.parse::<u64>().unwrap() / 1_000_000);
        assert_eq!(millis.collect::<Vec<_>>(), [1200, 1700, 2200]);
        assert!(run.read("c.packets").starts_with("0180c200000102000000000988080001ffff"));
        run.write("e.limit", "3").unwrap();
        run.write("e.reset_counts", "").unwrap();
        assert_eq!((run.read("e.count"), run.read("e.limit")), ("0".into(), "3".into()));
    }
}
