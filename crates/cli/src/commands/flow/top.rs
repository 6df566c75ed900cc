//! `linerate flow top`: the flows with most packets, again and again.

use std::{
    io::{self, IsTerminal as _},
    thread,
    time::Instant,
};

use anyhow::Result;

use super::{
    connection::Connection,
    dump::{LastCounts, object, row},
};
use crate::{
    args::{FlowAt, FlowTop},
    commands::cluster::table,
    output,
    units::short,
};

pub(super) fn run(at: &FlowAt, args: &FlowTop) -> Result<()> {
    let mut connection = Connection::open(at)?;
    let request = connection.request(&args.like)?;
    let first = connection.flows(&request)?;
    let (mut before, mut last) = (LastCounts::from_flows(&first), Instant::now());
    let anew = io::stdout().is_terminal();
    let mut updates = 0;
    while args.count.is_none_or(|count| updates < count) {
        thread::sleep(args.interval);
        let flows = connection.flows(&request)?;
        let elapsed = last.elapsed();
        last = Instant::now();
        let next = LastCounts::from_flows(&flows);
        let mut measured = before.rates(flows, elapsed);
        before = next;
        measured.sort_by(|one, other| other.packets.total_cmp(&one.packets));
        let (packets, bytes) = measured.iter().fold((0.0, 0.0), |(packets, bytes), flow| {
            (packets + flow.packets, bytes + flow.bytes)
        });
        let shown = &measured[..measured.len().min(args.limit)];
        let syntax = connection.printing();
        let text = if at.json {
            shown.iter().map(|flow| format!("{}\n", object(&syntax, flow))).collect()
        } else {
            let rows = shown.iter().map(|measured| {
                let [priority, _, rate, _, age, idle, matching] = row(&syntax, measured);
                let bits = short(8.0 * measured.bytes);
                let actions = syntax.print_instructions(&measured.flow.instructions);
                let what = format!("{matching} actions={actions}");
                let table = measured.flow.table.to_string();
                vec![table, priority, rate, bits, age, idle, what.trim_start().to_owned()]
            });
            let titles = ["table", "priority", "pkt/s", "bit/s", "age", "idle", "flow"];
            let head = format!(
                "{} {}, {} pkt/s, {} bit/s; a packet counts in every table it comes to\n",
                measured.len(),
                if measured.len() == 1 { "flow" } else { "flows" },
                short(packets),
                short(8.0 * bytes),
            );
            let clear = if anew { "\x1b[H\x1b[2J" } else { "" };
            let mut rows: Vec<Vec<String>> = rows.collect();
            // Words are to the left, so the last column is filled up.
            let width = rows.iter().map(|row| row[6].chars().count()).max().unwrap_or(0);
            for row in &mut rows {
                row[6] = format!("{:<width$}", row[6]);
            }
            let flow = format!("{:<width$}", titles[6]);
            let titles = [titles[0], titles[1], titles[2], titles[3], titles[4], titles[5], &flow];
            format!("{clear}{head}{}", table(&titles, rows))
        };
        output::data(&text)?;
        updates += 1;
    }
    Ok(())
}
