//! The tables of a report.

use std::collections::BTreeMap;

use linerate_model::{
    cpu_per_gbit,
    units::{Bytes, Hertz, PacketsPerSecond},
};
use serde_json::Value;

use super::{
    names::{natural, pages_name},
    published::{FITS, IO, RHO},
};
use crate::{
    calibration::{Calibrated, Gate, Residual, forwarder},
    notation::{Unit, words},
    point::{Outcome, Point, Record, value},
    report::Table,
};

/// A machine's description, of any content, a row for each fact.
pub(super) fn machine(description: &Value) -> Table {
    let mut table = Table::new("machine", "As it describes itself", "", &["fact", "value"]);
    facts(&mut table, "", description);
    table
}

fn facts(table: &mut Table, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let field = field.replace('_', " ");
                let name = if name.is_empty() { field } else { format!("{name}: {field}") };
                facts(table, &name, value);
            }
        }
        Value::Null => {}
        Value::String(text) => table.push([name.into(), text.clone()]),
        Value::Array(values) => {
            let texts: Vec<String> = values
                .iter()
                .map(|value| match value {
                    Value::String(text) => text.clone(),
                    Value::Number(bytes) if name == "caches" => {
                        Unit::Bytes.write(bytes.as_f64().unwrap_or(f64::NAN))
                    }
                    other => other.to_string(),
                })
                .collect();
            table.push([name.into(), texts.join(", ")]);
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let (name, text) = match (name.strip_suffix(" bytes"), name.strip_suffix(" hz")) {
                (Some(name), _) => (name, Unit::Bytes.write(number)),
                (_, Some(name)) => (name, Hertz::new(number).to_string()),
                _ => (name, number.to_string()),
            };
            table.push([name.into(), text]);
        }
        Value::Bool(is) => table.push([name.into(), if *is { "yes" } else { "no" }.into()]),
    }
}

fn interval(value: f64, low: f64, high: f64) -> [String; 2] {
    [number(value), format!("{} to {}", number(low), number(high))]
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// Parameters, errors on points held out, residuals, and missing parameters.
pub fn model(calibrated: &Calibrated) -> Vec<Table> {
    let mut tables = vec![parameters(calibrated), gates(&calibrated.gates)];
    if !calibrated.elements.is_empty() {
        tables.push(elements(calibrated));
    }
    for (driver, fitted) in &calibrated.drivers {
        tables.push(residuals(driver, &fitted.residuals));
    }
    if !calibrated.missing.is_empty() {
        let mut table = Table::new("missing", "What could not be found", "", &["what", "why"]);
        for line in &calibrated.missing {
            let (what, why) = line.split_once(": ").unwrap_or((line, ""));
            table.push([what.into(), why.into()]);
        }
        tables.push(table);
    }
    tables
}

fn parameters(calibrated: &Calibrated) -> Table {
    let columns = ["of", "parameter", "value", "90 % interval", "unit", "R²"];
    let caption = "Intervals are from a bootstrap of the residuals. Cycles are ticks of the cycle \
                   counter.";
    let mut table = Table::new("parameters", "Parameters", caption, &columns);
    if let Some(clock) = &calibrated.clock {
        table.push([
            "machine".into(),
            "clock that packets see".into(),
            clock.clock.to_string(),
            String::new(),
            String::new(),
            format!("{:.4}", clock.r_squared),
        ]);
    }
    let mut row = |of: &str, one: &crate::calibration::Parameter, quality: String| {
        let [value, range] = interval(one.estimate.value, one.estimate.low, one.estimate.high);
        table.push([of.into(), one.name.clone(), value, range, one.unit.clone(), quality]);
    };
    for (driver, fitted) in &calibrated.drivers {
        for one in &fitted.parameters {
            row(&format!("{driver} ports"), one, format!("{:.4}", fitted.r_squared));
        }
    }
    for (pages, one) in &calibrated.memory_scale {
        row(&format!("memory, {}", pages_name(*pages)), one, String::new());
    }
    for (touch, one) in &calibrated.per_byte {
        row(&format!("bytes, {}", words(touch)), one, String::new());
    }
    if let Some(one) = &calibrated.scaling {
        row("several workers", one, String::new());
    }
    for (placement, cost) in &calibrated.handover {
        for (name, value) in
            [("per packet", cost.per_packet.get()), ("per burst", cost.per_burst.get())]
        {
            table.push([
                format!("hand-over, {}", words(placement)),
                name.into(),
                number(value),
                String::new(),
                "cycles".into(),
                String::new(),
            ]);
        }
    }
    if let Some(latency) = &calibrated.latency {
        table.push([
            "latency".into(),
            "fixed".into(),
            latency.service.fixed.to_string(),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    table
}

fn gates(gates: &[Gate]) -> Table {
    let columns = [
        "predicted",
        "verdict",
        "mean error",
        "allowed",
        "worst",
        "plain model",
        "in 90 % interval",
        "fitted",
        "held out",
    ];
    let caption = "Fitted to one part of a grid and judged by the rest, whose parameters were not \
                   among those fitted. The plain model is one number of cycles per packet (for \
                   latency: the mean of the fitted points).";
    let mut table = Table::new("gates", "Errors on points held out", caption, &columns);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    for gate in gates {
        table.push([
            gate.name.clone(),
            if gate.passes() { "pass" } else { "fail" }.into(),
            percent(gate.mape),
            percent(gate.limit),
            percent(gate.worst),
            percent(gate.plain_mape),
            gate.coverage.map_or_else(|| "–".into(), percent),
            gate.fitted.to_string(),
            gate.held_out.to_string(),
        ]);
    }
    table
}

fn elements(calibrated: &Calibrated) -> Table {
    let columns =
        ["element", "cycles/packet", "90 % interval", "cycles/frame", "90 % interval", "points"];
    let caption = "Each in a small configuration, at several sizes of frames.";
    let mut table = Table::new("elements", "Elements", caption, &columns);
    for (class, fitted) in &calibrated.elements {
        // A line through two points leaves nothing to say how far it may be off.
        let exact = fitted.points <= 2;
        let of = |one: &linerate_model::Estimate<f64>| match interval(one.value, one.low, one.high)
        {
            [value, _] if exact => [value, "–".into()],
            known => known,
        };
        let [packet, packets] = of(&fitted.per_packet);
        let [frame, frames] = of(&fitted.per_frame);
        let points = fitted.points.to_string();
        table.push([class.clone(), packet, packets, frame, frames, points]);
    }
    table
}

fn residuals(driver: &str, residuals: &[Residual]) -> Table {
    let mut places: BTreeMap<&str, (Vec<f64>, f64)> = BTreeMap::new();
    for residual in residuals {
        let place = places.entry(&residual.at).or_insert((Vec::new(), residual.predicted));
        place.0.push(residual.measured);
    }
    let title = format!("Residuals of {driver} ports");
    let columns = ["at", "measured (median)", "model", "difference"];
    let mut table = Table::new(&format!("residuals-{driver}"), &title, "", &columns);
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by_key(|(at, _)| natural(at));
    for (at, (mut measured, predicted)) in places {
        measured.sort_by(f64::total_cmp);
        let Some(median) = linerate_model::quantile(&measured, 0.5) else { continue };
        table.push([
            at.into(),
            PacketsPerSecond::new(median).to_string(),
            PacketsPerSecond::new(predicted).to_string(),
            format!("{:+.1} %", (predicted / median - 1.0) * 100.0),
        ]);
    }
    table
}

pub(super) fn published(records: &[Record], calibrated: &Calibrated) -> Vec<Table> {
    let tables = [costs(calibrated), fits(calibrated), rho(records)];
    tables.into_iter().chain(hand_over(records)).collect()
}

fn costs(calibrated: &Calibrated) -> Table {
    let columns = ["framework", "C_IO (cycles/packet)", "where"];
    let caption = "Ours at bursts of 64, without a card: published figures contain one, and \
                   cycles of another processor.";
    let mut table = Table::new("published-io", "Input and output", caption, &columns);
    for (name, cycles) in IO {
        let place = "3.3 GHz Xeon E3-1230 v2, 10 Gbit/s card, 64 bytes (Gallenmüller 2014)";
        table.push([(*name).into(), number(*cycles), place.into()]);
    }
    for (driver, fitted) in &calibrated.drivers {
        let cycles = fitted.calibration.costs.overhead(&forwarder());
        table.push([format!("{driver} ports"), number(cycles.get()), "this machine".into()]);
    }
    table
}

fn fits(calibrated: &Calibrated) -> Table {
    let columns = ["driver", "a (cycles/packet)", "b (cycles/burst)", "error held out"];
    let caption = "The published rows are fits of public data by the same code.";
    let mut table = Table::new("published-fits", "Throughput against burst", caption, &columns);
    for (name, a, b, error) in FITS {
        let error = format!("{:.1} %", error * 100.0);
        table.push([format!("{name} (published)"), number(*a), number(*b), error]);
    }
    for (driver, fitted) in &calibrated.drivers {
        let costs = &fitted.calibration.costs;
        let a = costs.receive.per_packet + costs.transmit.per_packet;
        let b = costs.receive.per_burst + costs.transmit.per_burst;
        let title = format!("burst and load, {driver} ports");
        let gate = calibrated.gates.iter().find(|gate| gate.name == title);
        let error = gate.map_or_else(|| "–".into(), |gate| format!("{:.1} %", gate.mape * 100.0));
        table.push([format!("{driver} ports"), number(a.get()), number(b.get()), error]);
    }
    table
}

fn rho(records: &[Record]) -> Table {
    let columns = ["how", "%/Gbit/s"];
    let caption = "A core's time for each Gbit/s of 64-byte frames, without preamble and gap.";
    let mut table = Table::new("published-rho", "Processor time per bit", caption, &columns);
    for (name, percent) in RHO {
        table.push([format!("{name} (Wang, He, Wang 2016)"), number(*percent)]);
    }
    let mut ours: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.is_measured()) {
        let Some(rate) = record.value(value::RATE).filter(|rate| *rate > 0.0) else { continue };
        let (name, busy, frame) = match &record.spec.kind {
            Point::Forward(this)
                if *this
                    == (crate::point::Forward { driver: this.driver, ..Default::default() }) =>
            {
                (format!("{} ports, run to completion", this.driver), 1.0, this.frame)
            }
            Point::Pipeline(this) if this.work == 0 && this.burst == 32 => {
                let Some(busy) = record.value(value::BUSY) else { continue };
                (
                    format!("pipeline, {}, {} behind", words(&this.placement), this.workers),
                    busy,
                    this.frame,
                )
            }
            Point::Cluster(this) if this.work == 0 && this.burst == 32 => {
                let Some(busy) = record.value(value::BUSY) else { continue };
                (format!("{}, {} cores", words(&this.way), this.cores), busy, this.frame)
            }
            _ => continue,
        };
        let bits = PacketsPerSecond::new(rate).bits(Bytes::new(frame.into()));
        ours.entry(name).or_default().push(cpu_per_gbit(busy, bits).get());
    }
    for (name, mut values) in ours {
        values.sort_by(f64::total_cmp);
        if let Some(median) = linerate_model::quantile(&values, 0.5) {
            table.push([name, number(median)]);
        }
    }
    table
}

/// A core's time by use and by division of the work; `None` where that was not measured.
fn hand_over(records: &[Record]) -> Option<Table> {
    const FIGURES: [&str; 4] = [value::RATE, value::RHO, value::RHO_POLLING, value::RHO_HAND_OVER];
    let columns = ["how", "throughput", "%/Gbit/s", "polling", "handing over"];
    let caption = "A core's time for each Gbit/s of frames, without preamble and gap, and what of it is \
                   looking in vain, or waiting for room, and what is giving packets to others and taking \
                   them. Medians.";
    let title = "Run to completion, threads, processes";
    let mut table = Table::new("hand-over", title, caption, &columns);
    let mut found: BTreeMap<_, [Vec<f64>; 4]> = BTreeMap::new();
    for record in records.iter().filter(|record| record.is_measured()) {
        let Point::Cluster(this) = &record.spec.kind else { continue };
        let how = (this.work, this.burst, this.cores, words(&this.touch), this.way);
        let figures = found.entry(how).or_default();
        for (values, name) in figures.iter_mut().zip(FIGURES) {
            values.extend(record.value(name));
        }
    }
    for ((work, burst, cores, touch, way), figures) in &mut found {
        let medians = figures.each_mut().map(|values| {
            values.sort_by(f64::total_cmp);
            linerate_model::quantile(values, 0.5)
        });
        let [Some(rate), Some(all), Some(polling), Some(handing_over)] = medians else { continue };
        let touch = if touch == "none" { String::new() } else { format!(", {touch} touched") };
        table.push([
            format!("{}, {cores} cores, burst {burst}, load {work}{touch}", words(way)),
            PacketsPerSecond::new(rate).to_string(),
            number(all),
            number(polling),
            number(handing_over),
        ]);
    }
    (!found.is_empty()).then_some(table)
}

/// Points without figures, with the reasons.
pub(super) fn without_figures(records: &[Record]) -> Vec<String> {
    let mut reasons: BTreeMap<(String, String), usize> = BTreeMap::new();
    for record in records.iter().filter(|record| !record.is_measured()) {
        let kind = match record.outcome {
            Outcome::Unsupported => "cannot be measured here",
            _ => "said nothing",
        };
        let reason = record.reason.clone().unwrap_or_else(|| "no reason kept".into());
        let what = format!("{} points {kind}", record.spec.kind.name());
        *reasons.entry((what, reason)).or_default() += 1;
    }
    let line =
        |((what, reason), count): ((String, String), usize)| format!("{count} {what}: {reason}");
    reasons.into_iter().map(line).collect()
}

/// Makes a table of the output of `lab compare --json`, whose last line has a row for each
/// forwarder; none where there is no such line.
pub(super) fn peers(printed: &str) -> Vec<Table> {
    let lines = printed.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let Some(result) = lines.into_iter().find(|line| line["rows"].is_array()) else {
        return Vec::new();
    };
    let rows = result["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let columns = [
        "forwarder",
        "forwarded (packets/s)",
        "quartiles",
        "ours as a multiple",
        "quartiles",
        "rounds",
        "",
    ];
    let missing = result["missing"].as_array().into_iter().flatten().filter_map(|one| {
        Some(format!(" Not measured: {} ({}).", one["name"].as_str()?, one["reason"].as_str()?))
    });
    let caption = format!(
        "From `linerate lab compare`: same topology, same generator, taking turns.{}",
        missing.collect::<String>()
    );
    let mut table = Table::new("compare", "Forwarders side by side", &caption, &columns);
    let quartiles = |value: &Value, write: &dyn Fn(f64) -> String| {
        let of = |name: &str| value[name].as_f64().map(write);
        match (of("median"), of("low"), of("high")) {
            (Some(median), Some(low), Some(high)) => [median, format!("{low} to {high}")],
            _ => ["–".to_owned(), String::new()],
        }
    };
    for row in rows {
        let [rate, rates] = quartiles(&row["forwarded_pps"], &|rate| Unit::Decimal.write(rate));
        let [ratio, ratios] = quartiles(&row["ratio"], &|ratio| format!("{ratio:.2}"));
        let limited = row["generator_limited"].as_bool().unwrap_or(false);
        table.push([
            row["name"].as_str().unwrap_or("").to_owned(),
            rate,
            rates,
            ratio,
            ratios,
            row["rounds"].to_string(),
            if limited { "the tester was the limit" } else { "" }.into(),
        ]);
    }
    vec![table]
}
