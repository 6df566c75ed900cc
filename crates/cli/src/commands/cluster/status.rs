//! `linerate cluster status`, `top` and `balance`: figures of a cluster, read from its shared
//! memory.

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use linerate_client::{Connection, FigureView, Figures};
use serde_json::{Value, json};

use crate::{
    args::{Balance, Status, Top},
    output,
    session::stop_on_signals,
    terminal,
    units::{grouped, short},
};

/// Interval of looking for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn status(args: &Status) -> Result<()> {
    let view = Connection::open(&args.asked.address)?.figures()?;
    let mut text = String::new();
    if args.asked.json {
        for (line, name) in view.consumers() {
            let _ = writeln!(text, "{}", object(&name, &view.figures(line)));
        }
        for object in balancers(&view) {
            let _ = writeln!(text, "{object}");
        }
    } else {
        let rows = view.consumers().into_iter().map(|(line, name)| {
            let of = view.figures(line);
            let counts = [of.packets, of.lost_full, of.lost_absent, of.sent, of.waiting, of.held];
            let mut row = begun(name, &of);
            row.extend(counts.map(grouped));
            row.extend([of.attached, of.died].map(grouped));
            row
        });
        let titles = [
            "name",
            "process",
            "may",
            "packets",
            "lost slow",
            "lost absent",
            "sent",
            "waiting",
            "held",
            "attached",
            "died",
        ];
        text = table(&titles, rows.collect());
        text += &asked_text(&view);
        text += &balance_text(&view);
    }
    Ok(output::data(&text)?)
}

pub(crate) fn top(args: &Top) -> Result<()> {
    let connection = Connection::open(&args.asked.address)?;
    let view = connection.figures()?;
    let stop = stop_on_signals()?;
    let begun_at = Instant::now();
    let mut last = (begun_at, read(&view));
    while !stop.is_raised() && args.duration.is_none_or(|limit| begun_at.elapsed() < limit) {
        let next = last.0 + args.interval;
        while Instant::now() < next && !stop.is_raised() {
            thread::sleep(POLL_INTERVAL.min(next.saturating_duration_since(Instant::now())));
        }
        // Asked anew each time: it brings figures up to date, and says when the server has ended.
        connection.figures()?;
        let now = (Instant::now(), read(&view));
        let seconds = (now.0 - last.0).as_secs_f64();
        let rates = |line: usize, of: &Figures| {
            let before = last.1.iter().find(|(at, ..)| *at == line).map(|(.., before)| *before);
            let before = before.unwrap_or_default();
            let rate = |count: fn(&Figures) -> u64| {
                count(of).saturating_sub(count(&before)) as f64 / seconds
            };
            [
                rate(|of| of.packets),
                rate(|of| of.bytes) * 8.0,
                rate(|of| of.lost_full),
                rate(|of| of.lost_absent),
                rate(|of| of.sent),
            ]
        };
        let mut text = String::new();
        if args.asked.json {
            for (line, name, of) in &now.1 {
                let [packets, bits, slow, absent, sent] = rates(*line, of);
                let mut object = object(name, of);
                object["time"] = (now.0 - begun_at).as_secs_f64().into();
                object["packets_pps"] = packets.into();
                object["packets_bps"] = bits.into();
                object["lost_slow_pps"] = slow.into();
                object["lost_absent_pps"] = absent.into();
                object["sent_pps"] = sent.into();
                let _ = writeln!(text, "{object}");
            }
        } else {
            let rows = now.1.iter().map(|(line, name, of)| {
                let mut row = begun(name.clone(), of);
                row.extend(rates(*line, of).map(short));
                row.extend([of.waiting, of.held].map(grouped));
                row
            });
            let titles = [
                "name",
                "process",
                "may",
                "pps",
                "bit/s",
                "lost slow",
                "lost absent",
                "sent",
                "waiting",
                "held",
            ];
            if terminal::moves() {
                // Upper left, and nothing below.
                text += "\x1b[H\x1b[J";
            }
            text += &table(&titles, rows.collect());
            text.push('\n');
        }
        output::data(&text)?;
        last = now;
    }
    Ok(())
}

pub(crate) fn balance(args: &Balance) -> Result<()> {
    let view = Connection::open(&args.asked.address)?.figures()?;
    let text = if args.asked.json {
        balancers(&view).iter().map(|object| format!("{object}\n")).collect()
    } else {
        balance_text(&view)
    };
    Ok(output::data(&text)?)
}

fn read(view: &FigureView) -> Vec<(usize, String, Figures)> {
    let figures = |(line, name)| (line, name, view.figures(line));
    view.consumers().into_iter().map(figures).collect()
}

/// The columns that rows of programs begin with.
fn begun(name: String, of: &Figures) -> Vec<String> {
    let process = match of.state {
        0 => "-".into(),
        1 => of.process.to_string(),
        _ => format!("{} leaving", of.process),
    };
    let access = if of.state == 0 { "-" } else { access(of) };
    vec![name, process, access.into()]
}

/// Access of a program.
fn access(of: &Figures) -> &'static str {
    match of.access {
        0 => "read",
        1 => "write",
        _ => "isolated",
    }
}

fn object(name: &str, of: &Figures) -> Value {
    let state = match of.state {
        0 => "absent",
        1 => "attached",
        _ => "leaving",
    };
    json!({
        "consumer": name,
        "state": state,
        "process": of.process,
        "access": access(of),
        "most": of.cells,
        "attached": of.attached,
        "died": of.died,
        "reclaimed": of.reclaimed,
        "packets": of.packets,
        "bytes": of.bytes,
        "lost_slow": of.lost_full,
        "lost_absent": of.lost_absent,
        "sent": of.sent,
        "sent_bytes": of.sent_bytes,
        "unheard": of.unheard,
        "malformed": of.malformed,
        "copied_bytes": of.copied,
        "passed": of.passed,
        "denied": of.denied,
        "unanswered": of.unanswered,
        "unasked": of.unasked,
        "late": of.late,
        "floods": of.floods,
        "held": of.held,
        "waiting": of.waiting,
    })
}

fn name_of(view: &FigureView, line: usize) -> String {
    let found = view.consumers().into_iter().find(|(at, _)| *at == line);
    found.map_or_else(|| "-".into(), |(_, name)| name)
}

fn balancers(view: &FigureView) -> Vec<Value> {
    let balancer = |(name, shares): (String, Vec<linerate_client::Share>)| {
        let consumers: Vec<Value> = shares
            .iter()
            .map(|share| {
                json!({
                    "consumer": name_of(view, share.line),
                    "weight": share.weight,
                    "buckets": share.buckets,
                })
            })
            .collect();
        json!({"balancer": name, "consumers": consumers})
    };
    view.balancers().into_iter().map(balancer).collect()
}

/// Programs that are asked about packets.
fn asked_text(view: &FigureView) -> String {
    let asked = view.consumers().into_iter().filter_map(|(line, name)| {
        let of = view.figures(line);
        let counts = [of.passed, of.denied, of.unanswered, of.unasked, of.late];
        let row = std::iter::once(name).chain(counts.map(grouped)).collect::<Vec<_>>();
        counts.iter().any(|count| *count > 0).then_some(row)
    });
    let rows: Vec<_> = asked.collect();
    if rows.is_empty() {
        return String::new();
    }
    let titles = ["name", "passed", "denied", "unanswered", "unasked", "late"];
    format!("\n{}", table(&titles, rows))
}

/// Balancers of more than one program.
fn balance_text(view: &FigureView) -> String {
    let mut rows = Vec::new();
    for (name, shares) in view.balancers().into_iter().filter(|(_, shares)| shares.len() > 1) {
        for share in shares {
            let consumer = name_of(view, share.line);
            rows.push(vec![
                name.clone(),
                consumer,
                share.weight.to_string(),
                share.buckets.to_string(),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table(&["balancer", "name", "weight", "buckets"], rows))
}

/// Rows below titles: words to the left, numbers to the right.
pub(in crate::commands) fn table(titles: &[&str], rows: Vec<Vec<String>>) -> String {
    let titles = titles.iter().map(|title| (*title).to_string()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).filter_map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let space = if column == 0 { "" } else { "  " };
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "{space}{cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["a".to_string(), "1,000".into()], vec!["longer".into(), "1".into()]];
        assert_eq!(table(&["name", "n"], rows), "name        n\na       1,000\nlonger      1\n");
    }

    #[test]
    fn an_absent_consumer_has_no_process() {
        let of = Figures { process: 7, access: 1, ..Figures::default() };
        assert_eq!(begun("x".into(), &of), ["x", "-", "-"]);
        let there = Figures { state: 1, ..of };
        assert_eq!(begun("x".into(), &there), ["x", "7", "write"]);
        assert_eq!(object("x", &there)["state"], "attached");
        assert_eq!(object("x", &Figures { access: 2, ..there })["access"], "isolated");
    }
}
