//! Output of a running command: a table row per interval for people, a JSON object per line for
//! machines, and a summary at the end.

use std::{io, time::Duration};

use linerate_lab::Latency;
use linerate_port::{Counts, DropReason};
use serde_json::{Map, Value, json};

use crate::{
    args::Showing,
    links::PortLink,
    output::{Output, sentence},
    units::{grouped, short, short_time},
};

/// Rows between two printings of the column titles.
const TITLES_EVERY: usize = 20;

/// Meanings of the figures of a row, by their names in JSON. Cycles are those of the time-stamp
/// counter.
const MEANINGS: [(&str, &str); 39] = [
    ("received_pps", "packets received per second"),
    ("received_bps", "their bits per second"),
    ("forward_pps", "packets sent by the second port per second"),
    ("backward_pps", "packets sent by the first port per second"),
    ("sent_pps", "packets sent per second"),
    ("sent_bps", "their bits per second"),
    ("intended_pps", "frames that the rate asks for per second"),
    ("offered_pps", "frames given to the port per second, once each"),
    ("accepted_pps", "frames the port took per second"),
    ("line_bps", "their bits per second on the wire, with what Ethernet puts around a frame"),
    ("unsent", "frames that came due so far and were not sent"),
    ("lost", "numbers that are missing in the generator's streams"),
    ("duplicates", "frames that came again"),
    ("reordered", "frames that came behind later ones"),
    ("latency_min_ns", "least time from sending to receiving"),
    ("latency_p50_ns", "half of the frames took no longer"),
    ("latency_p99_ns", "99 % took no longer"),
    ("latency_max_ns", "no frame took longer"),
    ("begun_cps", "connections begun per second"),
    ("completed_cps", "connections that ended as they should per second"),
    ("open", "connections that have not ended"),
    ("failed", "connections that failed"),
    ("retransmitted_pps", "segments sent once more per second"),
    ("payload_sent_bps", "bits of data per second that have arrived at the other side"),
    ("payload_received_bps", "bits of data per second that came from there"),
    ("handshake_p50_ns", "half of the handshakes took no longer"),
    ("connection_p50_ns", "half of the connections took no longer, from SYN to the end"),
    ("connection_p99_ns", "99 % of them took no longer"),
    ("dropped_pps", "packets dropped per second"),
    ("cycles_per_packet", "cycles of work for each packet"),
    ("receive_cycles", "those for taking it from its port (part of C_IO), in some rounds"),
    ("task_cycles", "those for what is done to it (C_task), in some rounds"),
    ("make_cycles", "those for making it (C_task), in some rounds"),
    ("transmit_cycles", "those for giving it to its port (part of C_IO), in some rounds"),
    ("mean_burst", "packets moved at a time"),
    (
        "missed_pps",
        "packets for this program that it did not get because it did not keep up, per second",
    ),
    ("waiting", "packets that wait for this program"),
    ("links_up", "whether the other ends are there: a peer, or what is behind a cable"),
    ("idle", "part of the time in which there was nothing to do (C_busy)"),
];

/// One figure of a row.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    key: &'static str,
    title: String,
    text: String,
    value: Value,
}

impl Cell {
    /// A figure: its name in JSON, its column title, how people read it and
    /// its exact value.
    pub(crate) fn new(
        key: &'static str,
        title: impl Into<String>,
        text: impl Into<String>,
        value: impl Into<Value>,
    ) -> Cell {
        Cell { key, title: title.into(), text: text.into(), value: value.into() }
    }

    /// A count or a rate, with a prefix where it is long.
    pub(crate) fn count(key: &'static str, title: &str, value: f64) -> Cell {
        Cell::new(key, title, short(value), value)
    }

    /// Cycles, when there are any.
    pub(crate) fn cycles(key: &'static str, title: &str, value: Option<f64>) -> Cell {
        let text = value.map_or("-".into(), |value| format!("{value:.1}"));
        Cell::new(key, title, text, value)
    }

    /// A time in nanoseconds, when there is one.
    pub(crate) fn time(key: &'static str, title: &str, nanoseconds: Option<u64>) -> Cell {
        let text = nanoseconds.map_or("-".into(), |time| short_time(time as f64));
        Cell::new(key, title, text, nanoseconds)
    }

    /// A part of the whole, 0 to 1.
    pub(crate) fn percent(key: &'static str, title: &str, value: f64) -> Cell {
        Cell::new(key, title, format!("{:.0} %", value * 100.0), value)
    }

    /// A figure for machines only.
    pub(crate) fn hidden(key: &'static str, value: impl Into<Value>) -> Cell {
        Cell::new(key, "", "", value)
    }
}

/// Prints as asked for on the command line.
#[derive(Debug)]
pub(crate) struct Live {
    output: Output,
    quiet: bool,
    explain: bool,
    rows: usize,
    widths: Vec<usize>,
}

impl Live {
    pub(crate) fn new(output: Output, showing: &Showing) -> Live {
        let Showing { quiet, explain, .. } = *showing;
        Live { output, quiet, explain, rows: 0, widths: Vec::new() }
    }

    /// Announces the run: lines for people, one object for machines.
    pub(crate) fn start(&mut self, lines: &[String], mut object: Value) -> io::Result<()> {
        if self.output.json {
            object["event"] = "start".into();
            return self.output.object(&object);
        }
        if !self.quiet {
            lines.iter().for_each(|line| self.output.line(line));
        }
        Ok(())
    }

    /// Prints the figures of an interval that ended `time` after the start.
    pub(crate) fn row(&mut self, time: Duration, cells: &[Cell]) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        if self.output.json {
            let mut object = Map::new();
            object.insert("event".into(), "interval".into());
            object.insert("time".into(), json!(time.as_secs_f64()));
            object.extend(cells.iter().map(|cell| (cell.key.into(), cell.value.clone())));
            return self.output.object(&Value::Object(object));
        }
        let shown: Vec<&Cell> = cells.iter().filter(|cell| !cell.title.is_empty()).collect();
        self.widths.resize(shown.len(), 8);
        for (width, cell) in self.widths.iter_mut().zip(&shown) {
            *width = (*width).max(cell.title.chars().count()).max(cell.text.chars().count());
        }
        if self.rows.is_multiple_of(TITLES_EVERY) {
            self.output.line(&self.line("time", shown.iter().map(|cell| &*cell.title)));
        }
        self.rows += 1;
        let time = format!("{:.1} s", time.as_secs_f64());
        self.output.line(&self.line(&time, shown.iter().map(|cell| &*cell.text)));
        if std::mem::take(&mut self.explain) {
            let explained = shown.iter().map(|cell| (&*cell.title, meaning(cell.key)));
            sentence(explained).iter().for_each(|line| self.output.line(line));
        }
        Ok(())
    }

    fn line<'a>(&self, time: &str, texts: impl Iterator<Item = &'a str>) -> String {
        let mut line = format!("{time:>9}");
        for (text, width) in texts.zip(&self.widths) {
            line.push_str(&format!("  {text:>width$}"));
        }
        line
    }

    /// Prints the figures of the whole run.
    pub(crate) fn summary(&mut self, lines: &[String], mut object: Value) -> io::Result<()> {
        if self.output.json {
            object["event"] = "summary".into();
            return self.output.object(&object);
        }
        lines.iter().for_each(|line| self.output.line(line));
        Ok(())
    }

    /// The output it prints to.
    pub(crate) fn output(&self) -> Output {
        self.output
    }

    /// Tells people of something that happened.
    pub(crate) fn note(&self, text: &str) {
        self.output.line(&format!("linerate: {text}"));
    }
}

fn meaning(key: &str) -> &'static str {
    let found = MEANINGS.iter().find(|(of, _)| *of == key);
    debug_assert!(found.is_some(), "{key} has no meaning");
    found.map_or("", |(_, meaning)| meaning)
}

/// The percentiles of times, for people.
pub(crate) fn latency_text(latency: &Latency) -> String {
    let at = |percent| short_time(latency.percentile(percent) as f64);
    format!(
        "min {}, mean {}, 50 % {}, 90 % {}, 99 % {}, 99.9 % {}, max {}",
        short_time(latency.min() as f64),
        short_time(latency.mean()),
        at(50.0),
        at(90.0),
        at(99.0),
        at(99.9),
        short_time(latency.max() as f64)
    )
}

/// The latencies for machines; nothing when there are no times.
pub(crate) fn latency_object(latency: &Latency) -> Option<Value> {
    (latency.count() > 0).then(|| {
        json!({
            "min": latency.min(),
            "mean": latency.mean(),
            "p50": latency.percentile(50.0),
            "p90": latency.percentile(90.0),
            "p99": latency.percentile(99.0),
            "p99.9": latency.percentile(99.9),
            "max": latency.max(),
        })
    })
}

/// States of links, in a row of the table; `None` where no port has one. With two ports they are
/// called A and B, as their directions are.
pub(crate) fn link_cell(links: &[Option<PortLink>]) -> Option<Cell> {
    let is_up = |link: &Option<PortLink>| link.as_ref().map(PortLink::is_up);
    let states: Vec<Option<bool>> = links.iter().map(is_up).collect();
    states.iter().any(Option::is_some).then(|| {
        let down = |at: usize| states[at] == Some(false);
        let text = match states.len() {
            2 if down(0) && down(1) => "both down",
            2 if down(0) => "A down",
            2 if down(1) => "B down",
            1 if down(0) => "down",
            _ => "up",
        };
        Cell::new("links_up", "link", text, states)
    })
}

/// Drops by reason, those that happened.
pub(crate) fn drops(counts: &Counts) -> Value {
    let happened = |reason: &DropReason| counts.dropped_for(*reason) > 0;
    let entry = |reason: DropReason| (reason.name().into(), counts.dropped_for(reason).into());
    Value::Object(DropReason::ALL.into_iter().filter(happened).map(entry).collect())
}

/// Drops by reason, a line for each that happened.
pub(crate) fn drop_lines(counts: &Counts, place: &str) -> Vec<String> {
    DropReason::ALL
        .into_iter()
        .filter(|reason| counts.dropped_for(*reason) > 0)
        .map(|reason| {
            let dropped = grouped(counts.dropped_for(reason));
            format!("    {dropped} dropped {place}: {}", reason.meaning())
        })
        .collect()
}
