//! A transmitting side that writes a line about each packet to standard output before the port
//! behind it takes the packet.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use linerate_memory::{Frame, PoolCache};
use linerate_port::{Counters, PortError, PortFault, Transmit, Wake};

use serde_json::json;

use super::{Bytes, Style, View, cooked::Arrival, hexadecimal};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
/// As many bytes are collected at most before they are written.
const COLLECTED: usize = 1 << 16;

/// Has the packets sent to `port` written as text, too.
pub(crate) fn printing(port: Box<dyn Transmit>, style: Style) -> Box<dyn Transmit> {
    let (view, clock) = (View::new(style), Clock::default());
    Box::new(Printer { port, style, view, clock, text: String::new(), written: 0 })
}

struct Printer {
    port: Box<dyn Transmit>,
    style: Style,
    view: View,
    clock: Clock,
    /// Lines that are not written yet.
    text: String,
    /// Packets at the front of the frame whose lines are made.
    written: usize,
}

impl Printer {
    fn write(&mut self) -> Result<(), PortError> {
        if self.text.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        let done = out.write_all(self.text.as_bytes()).and_then(|()| out.flush());
        self.text.clear();
        done.map_err(|source| {
            PortFault::System { port: "standard output".into(), step: "write", source }.into()
        })
    }
}

impl Transmit for Printer {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        // Packets that the port has left in the frame come again.
        for slot in &frame.slots()[self.written.min(frame.len())..] {
            let arena = pool.arena();
            let (packet, meta) = (arena.packet(slot), arena.meta(slot));
            let (missing, arrival) = (meta.missing() as usize, Arrival::of(meta));
            if self.style.json {
                let time = time(meta.timestamp);
                let object = object(&mut self.view, packet, missing, arrival, time);
                let _ = writeln!(self.text, "{object}");
                continue;
            }
            self.clock.write(time(meta.timestamp), self.style.time, &mut self.text);
            self.view.line(packet, missing, arrival, &mut self.text);
            self.text.push('\n');
        }
        self.written = frame.len();
        if self.text.len() >= COLLECTED {
            self.write()?;
        }
        let sent = self.port.transmit(pool, frame)?;
        self.written -= sent.min(self.written);
        Ok(sent)
    }

    fn counters(&self) -> &Arc<Counters> {
        self.port.counters()
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        self.write()?;
        self.port.flush(pool)
    }

    fn close(&mut self, pool: &mut PoolCache) {
        self.port.close(pool);
    }

    fn wake(&mut self) -> Wake<'_> {
        self.port.wake()
    }

    fn refresh(&mut self) {
        self.port.refresh();
    }
}

/// The time of a packet, in nanoseconds since 1970; now where that is 0.
fn time(noted: u64) -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if noted == 0 { now().as_nanos() as u64 } else { noted }
}

/// A packet for programs: its line, and its bytes where those are wanted.
fn object(
    view: &mut View,
    packet: &[u8],
    missing: usize,
    arrival: Option<Arrival>,
    time: u64,
) -> serde_json::Value {
    let mut text = String::new();
    view.text(packet, missing, arrival, &mut text);
    let mut object = json!({
        "event": "packet",
        "time_ns": time,
        "length": packet.len() + missing,
        "captured": packet.len(),
        "text": text,
    });
    if let Some(arrival) = arrival {
        object["interface"] = view.interfaces.name(arrival.origin.index).into();
        object["direction"] = arrival.direction_name().into();
    }
    if view.style.bytes != Bytes::None {
        object["bytes"] = hexadecimal(packet).into();
    }
    object
}

/// Times of packets, as they are written.
#[derive(Debug, Default)]
struct Clock {
    first: Option<u64>,
    before: Option<u64>,
}

impl Clock {
    /// Writes the time of a packet, in nanoseconds since 1970. `style` is how often `-t` was given: 1
    /// for no time, 2 for seconds since 1970, 3 and 5 for the time since the packet before and since
    /// the first, 4 with the date.
    fn write(&mut self, time: u64, style: u8, to: &mut String) {
        let since = match style {
            3 => self.before.unwrap_or(time),
            5 => *self.first.get_or_insert(time),
            _ => 0,
        };
        self.before = Some(time);
        let time = Duration::from_nanos(time.saturating_sub(since));
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        let _ = match style {
            1 => Ok(()),
            2 => write!(to, "{seconds}.{micros:06} "),
            _ => {
                let day = seconds % SECONDS_PER_DAY;
                let (hours, minutes, seconds_left) = (day / 3600, day / 60 % 60, day % 60);
                let date = if style == 4 { date(seconds / SECONDS_PER_DAY) } else { String::new() };
                write!(to, "{date}{hours:02}:{minutes:02}:{seconds_left:02}.{micros:06} ")
            }
        };
    }
}

/// The date of a day, counted from 1970-01-01: `2026-11-23 `. After Howard Hinnant's
/// `civil_from_days`: years begin in March, so that the odd day is at their end.
fn date(day: u64) -> String {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (of_month, month) = (of_year - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    format!("{}-{month:02}-{of_month:02} ", era * 400 + year + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        // 2024-02-29 23:59:59.123456789 UTC, and a day and a half later.
        let (one, other) = (1_709_251_199_123_456_789, 1_709_380_799_123_456_000);
        for (style, expected) in [
            (0, "23:59:59.123456 11:59:59.123456 "),
            (1, ""),
            (2, "1709251199.123456 1709380799.123456 "),
            (3, "00:00:00.000000 11:59:59.999999 "),
            (4, "2024-02-29 23:59:59.123456 2024-03-02 11:59:59.123456 "),
            (5, "00:00:00.000000 11:59:59.999999 "),
        ] {
            let (mut clock, mut text) = (Clock::default(), String::new());
            clock.write(one, style, &mut text);
            clock.write(other, style, &mut text);
            assert_eq!(text, expected, "{style}");
        }
        assert_eq!(date(0), "1970-01-01 ");
    }
}
