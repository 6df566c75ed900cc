//! `linerate cluster serve`: `linerate run` with a place where programs attach, and the packet
//! memory of that.

use std::fmt::Write as _;

use anyhow::Result;
use linerate_graph::Library;
use linerate_memory::shared::Isolated;
use serde_json::json;

use crate::{
    args::Serve,
    output,
    resources::precompute,
    run::{self, Subject},
    units::grouped,
};

pub(crate) fn run(args: &Serve, library: &Library) -> Result<()> {
    let subject = Subject {
        socket: args.socket.clone(),
        ..Subject::from_configuration(&args.configuration, library, args.watch)?
    };
    if args.precompute {
        return say_memory(subject, args);
    }
    let sockets = args.operation.controlled.sockets(&subject.source.instance("cluster"))?;
    run::run(subject, sockets, &args.operation)
}

/// Prints the packet memory that a configuration needs, by use.
fn say_memory(subject: Subject, args: &Serve) -> Result<()> {
    let running = &args.operation.running;
    let devices = subject.devices.clone();
    let plan = run::plan(subject)?;
    let needs = precompute(&running.memory, plan.packets_needed(&devices));
    let holding: Vec<(&str, usize)> = (0..plan.elements.len())
        .filter_map(|at| Some((&*plan.elements[at].name, plan.packets_held_by(at)?)))
        .collect();
    let own: Vec<(String, u64)> = linerate_elements::isolated_programs(&plan)
        .into_iter()
        .map(|(name, cells)| (name, Isolated::bytes(needs.buffer_size, cells)))
        .collect();
    let of_own: u64 = own.iter().map(|(_, bytes)| bytes).sum();
    let pages = needs.bytes.div_ceil(2 << 20);
    if running.showing.json {
        let elements: Vec<_> = holding
            .iter()
            .map(|(name, packets)| json!({"element": name, "packets": packets}))
            .collect();
        let programs: Vec<_> =
            own.iter().map(|(name, bytes)| json!({"program": name, "bytes": bytes})).collect();
        let object = json!({
            "bytes": needs.bytes,
            "buffers": needs.buffers,
            "buffer_size": needs.buffer_size,
            "huge_pages": pages,
            "held": elements,
            "isolated": programs,
            "total_bytes": needs.bytes as u64 + of_own,
        });
        return Ok(output::data(&format!("{object}\n"))?);
    }
    let mut text = String::new();
    for (name, packets) in &holding {
        let _ = writeln!(text, "{:>12} packets held by {name} when full", grouped(*packets as u64));
    }
    let _ = writeln!(text, "{:>12} buffers of {} bytes", grouped(needs.buffers), needs.buffer_size);
    let _ = writeln!(
        text,
        "{:>12} MiB of packet memory: {pages} pages of 2 MiB (sysctl vm.nr_hugepages={pages})",
        grouped((needs.bytes as u64).div_ceil(1 << 20)),
    );
    let kib = |bytes: u64| grouped(bytes.div_ceil(1 << 10));
    for (name, bytes) in &own {
        let _ =
            writeln!(text, "{:>12} KiB of its own for {name} while it is attached", kib(*bytes));
    }
    if of_own > 0 {
        let _ = writeln!(text, "{:>12} KiB for packets in all", kib(needs.bytes as u64 + of_own));
    }
    let held: usize = holding.iter().map(|(_, packets)| packets).sum();
    if held as u64 > needs.buffers {
        let _ = writeln!(
            text,
            "not enough for all of them at a time: choose smaller CELLS and queues, or --arena",
        );
    }
    Ok(output::data(&text)?)
}
