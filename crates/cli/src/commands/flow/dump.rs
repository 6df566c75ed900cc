//! `linerate flow dump`: the flows of a switch, for people and for programs.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt::Write as _,
    io::{self, IsTerminal as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use linerate_openflow::{
    text::Syntax,
    wire::{Match, multipart::FlowStats},
};
use serde_json::{Value, json};

use super::connection::Connection;
use crate::{
    args::{FlowAt, FlowDump, FlowSort},
    output,
    units::{grouped, short},
};

/// Columns of a match beyond which the rest of the line is moved.
const MATCH: usize = 56;

/// A flow, and how much it does.
#[derive(Debug, Clone)]
pub(super) struct FlowRate {
    pub(super) flow: FlowStats,
    /// Packets per second.
    pub(super) packets: f64,
    /// Bytes per second.
    pub(super) bytes: f64,
}

/// Key of a flow, by which two looks at a switch find it.
type FlowKey = (u8, u16, Match);

fn place(flow: &FlowStats) -> FlowKey {
    (flow.table, flow.priority, flow.matching.clone())
}

/// Rates since flows were added.
fn since_added(flows: Vec<FlowStats>) -> Vec<FlowRate> {
    let measure = |flow: FlowStats| {
        let seconds = flow.duration.duration().map_or(0.0, |time| time.as_secs_f64());
        let rate = |count: u64| {
            if count == u64::MAX || seconds <= 0.0 { 0.0 } else { count as f64 / seconds }
        };
        let (packets, bytes) = (rate(flow.packets), rate(flow.bytes));
        FlowRate { flow, packets, bytes }
    };
    flows.into_iter().map(measure).collect()
}

/// Counts of flows at the last look.
#[derive(Debug, Default)]
pub(super) struct LastCounts(HashMap<FlowKey, (u64, u64)>);

impl LastCounts {
    pub(super) fn from_flows(flows: &[FlowStats]) -> LastCounts {
        LastCounts(flows.iter().map(|flow| (place(flow), (flow.packets, flow.bytes))).collect())
    }

    /// Rates since then. A flow that is new, or was added again, has counted from zero.
    pub(super) fn rates(&self, flows: Vec<FlowStats>, time: Duration) -> Vec<FlowRate> {
        let seconds = time.as_secs_f64().max(1e-9);
        let measure = |flow: FlowStats| {
            let (packets, bytes) = self.0.get(&place(&flow)).copied().unwrap_or((0, 0));
            let rate = |now: u64, before: u64| {
                let count = if now >= before { now - before } else { now };
                count as f64 / seconds
            };
            let (packets, bytes) = (rate(flow.packets, packets), rate(flow.bytes, bytes));
            FlowRate { flow, packets, bytes }
        };
        flows.into_iter().map(measure).collect()
    }
}

pub(super) fn run(at: &FlowAt, args: &FlowDump) -> Result<()> {
    let mut connection = Connection::open(at)?;
    let request = connection.request(&args.like)?;
    let flows = connection.flows(&request)?;
    let mut measured = match args.interval {
        None => since_added(flows),
        Some(interval) => {
            let (before, start) = (LastCounts::from_flows(&flows), Instant::now());
            thread::sleep(interval);
            let flows = connection.flows(&request)?;
            before.rates(flows, start.elapsed())
        }
    };
    sort(&mut measured, args.sort);
    let syntax = connection.printing();
    let text = if at.json {
        limited(&measured, args.limit).map(|flow| format!("{}\n", object(&syntax, flow))).collect()
    } else if args.plain {
        let line = |flow: &FlowRate| format!(" {}\n", syntax.print_flow_stats(&flow.flow));
        limited(&measured, args.limit).map(line).collect()
    } else {
        tables(
            &syntax,
            &measured,
            args.limit,
            io::stdout().is_terminal() && crate::terminal::colours(),
        )
    };
    Ok(output::data(&text)?)
}

/// Sorts by table, and within a table as is wanted.
fn sort(flows: &mut [FlowRate], by: FlowSort) {
    flows.sort_by_key(|measured| (measured.flow.table, Reverse(measured.flow.priority)));
    let falling = |one: f64, other: f64| other.total_cmp(&one);
    match by {
        FlowSort::Priority => {}
        FlowSort::Rate => flows.sort_by(|one, other| falling(one.packets, other.packets)),
        FlowSort::Packets => flows.sort_by_key(|measured| Reverse(known(measured.flow.packets))),
        FlowSort::Bytes => flows.sort_by_key(|measured| Reverse(known(measured.flow.bytes))),
        FlowSort::Age => flows.sort_by_key(|measured| {
            let duration = measured.flow.duration;
            (duration.seconds, duration.nanoseconds)
        }),
    }
    // Stable, so the order within a table stays.
    flows.sort_by_key(|measured| measured.flow.table);
}

/// A count, 0 where it is not known.
fn known(count: u64) -> u64 {
    if count == u64::MAX { 0 } else { count }
}

/// So many of each table.
fn limited(flows: &[FlowRate], limit: Option<usize>) -> impl Iterator<Item = &FlowRate> {
    let mut shown: HashMap<u8, usize> = HashMap::new();
    flows.iter().filter(move |measured| {
        let count = shown.entry(measured.flow.table).or_default();
        *count += 1;
        limit.is_none_or(|limit| *count <= limit)
    })
}

/// A time in a few letters.
pub(super) fn short_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A row below the titles of a table.
pub(super) fn row(syntax: &Syntax<'_>, measured: &FlowRate) -> [String; 7] {
    let flow = &measured.flow;
    let count = |count: u64| if count == u64::MAX { "-".into() } else { grouped(count) };
    let age = flow.duration.duration().map_or_else(|| "-".into(), |age| short_age(age.as_secs()));
    let idle = flow.idle.map_or_else(|| "-".into(), |idle| short_age(idle.seconds.into()));
    [
        flow.priority.to_string(),
        count(flow.packets),
        short(measured.packets),
        count(flow.bytes),
        age,
        idle,
        syntax.print_match(&flow.matching),
    ]
}

const TITLES: [&str; 7] = ["priority", "packets", "pkt/s", "bytes", "age", "idle", "match"];

/// The other properties of a flow: time-outs, a cookie, flags.
fn others(flow: &FlowStats) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if flow.cookie != 0 {
        let _ = write!(text, " cookie={:#x}", flow.cookie);
    }
    if flow.idle_timeout != 0 {
        let _ = write!(text, " idle_timeout={}", flow.idle_timeout);
    }
    if flow.hard_timeout != 0 {
        let _ = write!(text, " hard_timeout={}", flow.hard_timeout);
    }
    text
}

/// All flows, a table below the other.
fn tables(syntax: &Syntax<'_>, flows: &[FlowRate], limit: Option<usize>, colours: bool) -> String {
    let paint = |code: &str, text: &str| {
        if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let mut text = String::new();
    let mut rest = flows;
    while let Some(first) = rest.first() {
        let table = first.flow.table;
        let count = rest.iter().take_while(|measured| measured.flow.table == table).count();
        let (own, others_) = rest.split_at(count);
        rest = others_;
        let shown = &own[..limit.unwrap_or(count).min(count)];
        let packets: u64 = own.iter().map(|measured| known(measured.flow.packets)).sum();
        let plural = if count == 1 { "" } else { "s" };
        let head = format!(
            "table {table}: {} flow{plural}, {} packets",
            grouped(count as u64),
            grouped(packets)
        );
        if !text.is_empty() {
            text.push('\n');
        }
        text += &paint("1", &head);
        text.push('\n');
        let rows: Vec<[String; 7]> = shown.iter().map(|measured| row(syntax, measured)).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(TITLES[column].len())
        };
        let widths: [usize; 7] = std::array::from_fn(width);
        let widths = {
            let mut widths = widths;
            widths[6] = widths[6].min(MATCH);
            widths
        };
        let line = |cells: &[String; 7], behind: &str| {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate().take(6) {
                let _ = write!(line, "  {cell:>width$}", width = widths[column]);
            }
            let _ = write!(line, "  {:<width$}  {behind}", cells[6], width = widths[6]);
            line.trim_end().to_owned()
        };
        text += &paint("2", &line(&TITLES.map(str::to_owned), "actions"));
        text.push('\n');
        for (measured, cells) in shown.iter().zip(&rows) {
            let actions = syntax.print_instructions(&measured.flow.instructions);
            text += &line(cells, &format!("{actions}{}", paint("2", &others(&measured.flow))));
            text.push('\n');
        }
        if shown.len() < count {
            let _ = writeln!(text, "  … and {} more", grouped((count - shown.len()) as u64));
        }
    }
    if text.is_empty() { "no flows\n".to_owned() } else { text }
}

/// A flow for programs.
pub(super) fn object(syntax: &Syntax<'_>, measured: &FlowRate) -> Value {
    let flow = &measured.flow;
    let count = |count: u64| (count != u64::MAX).then_some(count);
    let seconds = |elapsed: linerate_openflow::wire::Elapsed| {
        elapsed.duration().map(|time| time.as_secs_f64())
    };
    json!({
        "table": flow.table,
        "priority": flow.priority,
        "match": syntax.print_match(&flow.matching),
        "actions": syntax.print_instructions(&flow.instructions),
        "cookie": format!("{:#x}", flow.cookie),
        "packets": count(flow.packets),
        "bytes": count(flow.bytes),
        "packets_per_second": measured.packets,
        "bytes_per_second": measured.bytes,
        "duration": seconds(flow.duration),
        "idle": flow.idle.and_then(seconds),
        "idle_timeout": flow.idle_timeout,
        "hard_timeout": flow.hard_timeout,
        "importance": flow.importance,
        "text": syntax.print_flow_stats(flow),
    })
}

#[cfg(test)]
mod tests {
    use linerate_openflow::wire::{Elapsed, FlowModCommand, Version};

    use super::*;

    fn flow(text: &str, packets: u64, seconds: u32) -> FlowStats {
        let flow = Syntax::new(Version::V13).flow(text, FlowModCommand::Add).unwrap();
        FlowStats {
            packets,
            bytes: 64 * packets,
            duration: Elapsed { seconds, nanoseconds: 0 },
            ..FlowStats::new(flow.table, flow.priority, flow.matching, flow.instructions)
        }
    }

    #[test]
    fn flows_are_grouped_and_sorted() {
        let flows = vec![
            flow("table=1,tcp,actions=output:2", 5000, 10),
            flow("priority=1,actions=drop", 10, 10),
            flow("priority=9,ip,nw_dst=10.0.0.0/8,actions=goto_table:1", 1_000_000, 500),
        ];
        let syntax = Syntax::new(Version::V13);
        let mut measured = since_added(flows);
        sort(&mut measured, FlowSort::Priority);
        let text = tables(&syntax, &measured, None, false);
        let expected = "\
table 0: 2 flows, 1,000,010 packets
  priority    packets   pkt/s       bytes  age  idle  match                 actions
         9  1,000,000  2.00 k  64,000,000   8m     -  ip,nw_dst=10.0.0.0/8  goto_table:1
         1         10       1         640  10s     -                        drop

table 1: 1 flow, 5,000 packets
  priority  packets  pkt/s    bytes  age  idle  match  actions
     32768    5,000    500  320,000  10s     -  tcp    output:2
";
        assert_eq!(text, expected);
        sort(&mut measured, FlowSort::Age);
        let text = tables(&syntax, &measured, Some(1), false);
        assert!(text.contains("drop\n  … and 1 more\n"), "{text}");
        assert_eq!(tables(&syntax, &[], None, false), "no flows\n");
        let object = object(&syntax, &measured[0]);
        assert_eq!((&object["match"], &object["packets"]), (&json!(""), &json!(10)));
    }

    #[test]
    fn rates_count_packets_since_the_last_dump() {
        let before = LastCounts::from_flows(&[
            flow("ip,actions=drop", 100, 1),
            flow("arp,actions=drop", 9, 1),
        ]);
        let now = vec![
            flow("ip,actions=drop", 300, 2),
            flow("arp,actions=drop", 5, 1),
            flow("tcp,actions=drop", 8, 1),
        ];
        let rates: Vec<f64> = before
            .rates(now, Duration::from_secs(2))
            .iter()
            .map(|measured| measured.packets)
            .collect();
        assert_eq!(rates, [100.0, 2.5, 4.0], "the second was added again, the third is new");
    }
}
