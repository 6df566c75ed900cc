//! The table of a running graph.
//!
//! On a terminal that can it stays in its place and text of elements goes above it;
//! elsewhere every interval is a few lines. Tables go to standard error: the
//! standard output is the configuration's, or under `--json` ours.

use std::{
    cmp::Reverse,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use anyhow::Result;
use linerate_graph::Usage;
use serde_json::{Map, Value, json};

use super::figures::Figures;
use crate::{
    links::{LinkNews, PortLink},
    options::Showing,
    output::{Output, sentence},
    terminal,
    units::{grouped, short, with_unit},
};

/// Meanings of the table's columns and of a worker's line.
const MEANING: [(&str, &str); 8] = [
    ("packets", "those an element was given, brought into the graph or pulled"),
    ("frame", "how many of them at a time"),
    (
        "cyc/pkt",
        "cycles of the time-stamp counter for each, as measured in some rounds (-: in none yet)",
    ),
    (
        "share",
        "part of all the workers' cycles, which the rows with (engine), from element to element, \
         and (idle), nothing to do, add up to",
    ),
    ("drops", "packets dropped there"),
    ("in/out", "the share of elements that receive and send (C_IO)"),
    ("processing", "that of all others and the engine (C_task)"),
    ("idle", "looking for packets, or asleep (C_busy)"),
];

/// The meaning of the columns of a switch's table, and of a worker's line.
const PORTS_MEANING: [(&str, &str); 6] = [
    ("received", "packets that came in by a port"),
    ("sent", "packets that went out"),
    ("drops", "packets dropped there, for the reasons that are listed at the end"),
    ("in/out", "the share of elements that receive and send (C_IO)"),
    ("processing", "that of all others and the engine (C_task)"),
    ("idle", "looking for packets, or asleep (C_busy)"),
];

/// The objects that the table has a row for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Rows {
    /// An element.
    #[default]
    Elements,
    /// A port of a switch, whose elements are `NAME_in` and `NAME_out`.
    Ports,
}

/// Prints as asked for on the command line.
#[derive(Debug, Clone)]
pub(super) struct Screen {
    output: Output,
    rows: Rows,
    quiet: bool,
    explain: bool,
    terminal: bool,
    /// Lines of the table that is on the terminal now.
    drawn: Arc<Mutex<usize>>,
}

impl Screen {
    pub(super) fn new(showing: &Showing, rows: Rows) -> Screen {
        Screen {
            output: Output::new(showing.json),
            rows,
            quiet: showing.quiet,
            explain: showing.explain,
            terminal: terminal::moves(),
            drawn: Arc::default(),
        }
    }

    /// Destination of elements' standard output. JSON lines must stay whole, so beside them it goes
    /// to standard error.
    pub(super) fn out(&self) -> AboveTable {
        AboveTable { screen: self.clone(), to_err: self.output.json }
    }

    /// Destination of elements' standard error.
    pub(super) fn err(&self) -> AboveTable {
        AboveTable { screen: self.clone(), to_err: true }
    }

    fn erase(&self) -> MutexGuard<'_, usize> {
        let mut drawn = self.drawn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *drawn > 0 {
            // Up, to the first column, and everything below is cleared.
            let _ = write!(io::stderr(), "\x1b[{drawn}F\x1b[J");
            *drawn = 0;
        }
        drawn
    }

    /// Announces the run.
    pub(super) fn start(&self, lines: &[String], mut object: Value) -> Result<()> {
        if self.output.json {
            object["event"] = "start".into();
            return Ok(self.output.object(&object)?);
        }
        if !self.quiet {
            lines.iter().for_each(|line| self.output.line(line));
        }
        Ok(())
    }

    /// Says that all is ready.
    pub(super) fn ready(&self, text: &str, mut object: Value) -> Result<()> {
        if self.output.json {
            object["event"] = "ready".into();
            return Ok(self.output.object(&object)?);
        }
        if !self.quiet {
            self.note(text);
        }
        Ok(())
    }

    /// Tells of a link.
    pub(super) fn link(&self, news: &LinkNews) {
        self.note(&news.text());
        if self.output.json {
            // A reader that has gone ends the run elsewhere.
            let _ = self.output.object(&news.object());
        }
    }

    /// Tells of something that happened.
    pub(super) fn note(&self, text: &str) {
        let _drawn = self.erase();
        self.output.line(&format!("linerate: {text}"));
    }

    /// Shows the counts of an interval that ended `time` after the start.
    pub(super) fn interval(
        &self,
        time: Duration,
        figures: &Figures,
        span: Duration,
        links: &[PortLink],
    ) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        if self.output.json {
            let mut object = Map::new();
            object.insert("event".into(), "interval".into());
            object.insert("time".into(), json!(time.as_secs_f64()));
            object.extend(figures.json(span.as_secs_f64()));
            object.insert("links".into(), links.iter().map(|link| link.news().state()).collect());
            return Ok(self.output.object(&Value::Object(object))?);
        }
        let lines: Vec<String> = if self.terminal {
            // Elsewhere a line said so when the link went down.
            let down = links.iter().map(PortLink::news).filter(|news| !news.is_up());
            let down: Vec<String> = down.map(|news| news.text()).collect();
            let (rows, columns) = window();
            let explained = self.explanation();
            let rows = rows.saturating_sub(explained.len() + down.len());
            let mut lines = self.table(time, figures, span, rows);
            lines.extend(explained);
            lines.extend(down);
            lines.iter_mut().for_each(|line| truncate_to(line, columns));
            lines
        } else {
            figures
                .workers
                .iter()
                .enumerate()
                .map(|(number, worker)| worker_line(time, number, worker, figures, span))
                .collect()
        };
        let mut drawn = self.erase();
        self.output.line(&lines.join("\n"));
        *drawn = if self.terminal { lines.len() } else { 0 };
        Ok(())
    }

    /// The explanation under the table.
    fn explanation(&self) -> Vec<String> {
        match self.rows {
            _ if !self.explain => Vec::new(),
            Rows::Elements => sentence(MEANING),
            Rows::Ports => sentence(PORTS_MEANING),
        }
    }

    /// The whole table, in at most `rows` lines: where they do not suffice, the busiest rows.
    fn table(&self, time: Duration, figures: &Figures, span: Duration, rows: usize) -> Vec<String> {
        let workers = figures.workers.iter().enumerate();
        let lines = workers.map(|(at, worker)| worker_line(time, at, worker, figures, span));
        let mut lines: Vec<String> = lines.collect();
        // A line of titles, and one that the cursor stands in.
        let room = rows.saturating_sub(lines.len() + 2);
        lines.extend(match self.rows {
            Rows::Elements => element_rows(figures, span, room),
            Rows::Ports => port_rows(figures, span, room),
        });
        lines
    }

    /// Shows the figures of the whole run, or of its last graph, which were `counted` in that time.
    pub(super) fn total(
        &self,
        time: Duration,
        counted: Duration,
        figures: &Figures,
        held: usize,
    ) -> Result<()> {
        if self.output.json {
            let mut object = json!({
                "event": "summary",
                "seconds": time.as_secs_f64(),
                "buffers_held": held,
            });
            if let Value::Object(object) = &mut object {
                object.insert("counted_seconds".into(), json!(counted.as_secs_f64()));
                object.extend(figures.json(counted.as_secs_f64()));
            }
            return Ok(self.output.object(&object)?);
        }
        let _drawn = self.erase();
        if counted < time {
            let seconds = counted.as_secs_f64();
            self.output.line(&match self.rows {
                Rows::Elements => {
                    format!("counted since the configuration was replaced, in {seconds:.1} s:")
                }
                Rows::Ports => {
                    format!("counted since ports were added or removed, in {seconds:.1} s:")
                }
            });
        }
        let lines = self.table(time, figures, counted, usize::MAX);
        lines.into_iter().chain(self.explanation()).for_each(|line| self.output.line(&line));
        for (at, usage) in figures.elements().iter().enumerate() {
            for (reason, count) in figures.drops(at, usage) {
                let name = &figures.plan.elements[at].name;
                self.output.line(&format!("{name}: {} dropped: {reason}", grouped(count)));
            }
        }
        Ok(())
    }
}

/// Writes above the table.
#[derive(Debug)]
pub(super) struct AboveTable {
    screen: Screen,
    to_err: bool,
}

impl Write for AboveTable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _drawn = self.screen.erase();
        if self.to_err { io::stderr().write(bytes) } else { io::stdout().write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Rows and columns of the terminal.
fn window() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
}

/// Truncates a line to the columns of a terminal: it must not take two rows.
fn truncate_to(line: &mut String, columns: usize) {
    if let Some((at, _)) = line.char_indices().nth(columns) {
        line.truncate(at);
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn per_second(count: u64, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64().max(1e-9)
}

fn worker_line(
    time: Duration,
    number: usize,
    worker: &Usage,
    figures: &Figures,
    span: Duration,
) -> String {
    let shares = Figures::shares(worker);
    format!(
        "{:>8.1} s  worker {number}: {:>9}  in/out {:>7}  processing {:>7}  idle {:>7}",
        time.as_secs_f64(),
        with_unit(per_second(figures.packets(worker), span), "pps"),
        percent(shares.io),
        percent(shares.task),
        percent(shares.idle),
    )
}

/// The elements, in at most `rows` lines under the titles: where they do not suffice, those that cost most.
fn element_rows(figures: &Figures, span: Duration, rows: usize) -> Vec<String> {
    let usages = figures.elements();
    let mut shown: Vec<usize> = (0..usages.len()).collect();
    // Below the elements is a line for those left out, for the engine, and for idleness.
    let room = rows.saturating_sub(3).max(1);
    if shown.len() > room {
        shown.sort_by_key(|at| Reverse(usages[*at].cycles as u64));
        shown.truncate(room);
        shown.sort_unstable();
    }
    let left_out = usages.len() - shown.len();
    let all = figures.cycles().max(1.0);
    let kept: f64 = shown.iter().map(|at| usages[*at].cycles).sum();
    let others = usages.iter().map(|usage| usage.cycles).sum::<f64>() - kept;
    let mut cells = vec![
        ["element", "class", "packets", "packets/s", "frame", "cyc/pkt", "share", "drops"]
            .map(String::from),
    ];
    cells.extend(shown.into_iter().map(|at| {
        let (usage, element) = (&usages[at], &figures.plan.elements[at]);
        let dropped: u64 = figures.drops(at, usage).iter().map(|(_, count)| count).sum();
        let some = |text: String| if usage.packets > 0 { text } else { "-".into() };
        [
            element.name.clone(),
            element.class.name.into(),
            grouped(usage.packets),
            short(per_second(usage.packets, span)),
            some(format!("{:.1}", usage.mean_frame())),
            usage.cycles_per_packet().map_or("-".into(), |cycles| format!("{cycles:.1}")),
            percent(usage.cycles / all),
            if dropped > 0 { grouped(dropped) } else { String::new() },
        ]
    }));
    let mut rest = |name: String, cycles: f64| {
        let mut row = [const { String::new() }; 8];
        (row[0], row[6]) = (name, percent(cycles / all));
        cells.push(row);
    };
    if left_out > 0 {
        rest(format!("({left_out} that cost less)"), others);
    }
    rest("(engine)".into(), figures.engine());
    rest("(idle)".into(), figures.idle());
    align(&cells, 2)
}

/// The ports of a switch, in at most `rows` lines under the titles: where they do not suffice, the busiest.
fn port_rows(figures: &Figures, span: Duration, rows: usize) -> Vec<String> {
    let usages = figures.elements();
    let elements = || figures.plan.elements.iter().zip(&usages).enumerate();
    let ports = elements().filter_map(|(at, (element, inward))| {
        let name = element.name.strip_suffix("_in")?;
        let out = format!("{name}_out");
        let (to, (_, outward)) = elements().find(|(_, (element, _))| element.name == out)?;
        let drops = [(at, inward), (to, outward)].map(|(at, usage)| {
            let reasons = figures.drops(at, usage);
            reasons.into_iter().map(|(_, count)| count).sum::<u64>()
        });
        let sent = outward.packets.saturating_sub(drops[1]);
        Some((name, inward.packets, sent, drops[0] + drops[1]))
    });
    let mut ports: Vec<_> = ports.collect();
    let room = rows.saturating_sub(1).max(1);
    let left_out = ports.len().saturating_sub(room);
    if left_out > 0 {
        ports.sort_by_key(|(_, received, sent, _)| Reverse(received + sent));
        ports.truncate(room);
    }
    let mut cells =
        vec![["port", "received", "packets/s", "sent", "packets/s", "drops"].map(String::from)];
    cells.extend(ports.into_iter().map(|(name, received, sent, drops)| {
        [
            name.to_owned(),
            grouped(received),
            short(per_second(received, span)),
            grouped(sent),
            short(per_second(sent, span)),
            if drops > 0 { grouped(drops) } else { String::new() },
        ]
    }));
    if left_out > 0 {
        let mut row = [const { String::new() }; 6];
        row[0] = format!("({left_out} with fewer packets)");
        cells.push(row);
    }
    align(&cells, 1)
}

/// Columns of equal width: first some of words, then figures.
fn align<const N: usize>(cells: &[[String; N]], words: usize) -> Vec<String> {
    let width =
        |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            line += &match column {
                0 => format!("{cell:<width$}"),
                _ if column < words => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        line.trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |a: &str, b: &str| {
            let mut row = [const { String::new() }; 8];
            (row[0], row[1], row[7]) = (a.into(), b.into(), "9".into());
            row
        };
        let lines = align(&[row("a", "bbb"), row("aaa", "b")], 2);
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[0].starts_with("a    bbb"));
    }

    #[test]
    fn a_line_is_cut_between_characters() {
        let mut line = "aäb".to_owned();
        truncate_to(&mut line, 2);
        assert_eq!(line, "aä");
        truncate_to(&mut line, 2);
        assert_eq!(line, "aä");
    }
}
