//! `linerate flow trace` and `cache`: questions that only a switch of ours can answer.

use anyhow::{Context as _, Result, bail};
use linerate_openflow::{text::Syntax, wire::Version};
use linerate_port::pcap::Reader;
use serde_json::json;

use super::texts::wrong;
use crate::{
    args::{FlowAt, FlowCache, FlowControl, FlowTrace},
    commands::{
        call::{Client, Refusal},
        switch,
    },
    exit::UsageError,
    output,
};

fn connect(at: &FlowAt, asked: &FlowControl) -> Result<Client> {
    let control = asked.control.as_deref().unwrap_or(switch::NAME);
    Client::connect(control, asked.token_file.as_deref(), at.timeout).with_context(|| {
        format!(
            "cannot reach a switch at control socket {control} (start one by `linerate switch \
             --openflow`, or give --control as it was started)"
        )
    })
}

/// Names the handler in an error that the switch has returned.
fn explained<T>(answer: Result<T>, name: &str) -> Result<T> {
    match answer {
        Err(error) if error.is::<Refusal>() => {
            Err(error.context(format!("the switch says of {name}")))
        }
        other => other,
    }
}

/// Asks a handler of the switch's element.
pub(super) fn ask(
    at: &FlowAt,
    asked: &FlowControl,
    handler: &str,
    parameter: Option<&str>,
) -> Result<String> {
    let name = format!("{}.{handler}", asked.element);
    let answer = connect(at, asked)?.read(&name, parameter);
    Ok(String::from_utf8_lossy(&explained(answer, &name)?).into_owned())
}

/// Writes to a handler of the switch's element.
pub(super) fn tell(at: &FlowAt, asked: &FlowControl, handler: &str, value: &str) -> Result<()> {
    let name = format!("{}.{handler}", asked.element);
    let answer = connect(at, asked)?.write(&name, value.as_bytes());
    explained(answer, &name).map(drop)
}

pub(super) fn trace(at: &FlowAt, args: &FlowTrace) -> Result<()> {
    // Mistakes in them are better explained here.
    let syntax = Syntax::new(Version::V13);
    if let Err(error) = syntax.matching(&args.fields) {
        // Names of ports are the switch's.
        if !error.what().starts_with("unknown port") {
            return Err(wrong("", &error, &args.fields).into());
        }
    }
    let mut parameter = args.fields.split_whitespace().collect::<Vec<_>>().join(",");
    if let Some(file) = &args.pcap {
        let mut reader = Reader::open(file)?;
        let mut number = 0;
        let data = loop {
            match reader.next()? {
                None => bail!("{} has {number} packets", file.display()),
                Some(record) => {
                    number += 1;
                    if number == args.packet {
                        break record.data.to_vec();
                    }
                }
            }
        };
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        parameter = format!("{parameter} {hex}").trim().to_owned();
    } else if args.fields.trim().is_empty() {
        return Err(UsageError("no packet: say its fields, or --pcap FILE".into()).into());
    }
    let states = args.ct_next.iter().map(|state| format!("ct-next={} ", state.trim()));
    let parameter = states.collect::<String>() + &parameter;
    let text = ask(at, &args.asked, "trace", Some(&parameter))?;
    // Workers without an entry say nothing.
    let lines = text.lines().filter(|line| !line.is_empty());
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let text = if at.json { format!("{}\n", json!({ "trace": text })) } else { text };
    Ok(output::data(&text)?)
}

pub(super) fn cache(at: &FlowAt, args: &FlowCache) -> Result<()> {
    let all = ask(at, &args.asked, "cache", None)?;
    // Those of several workers come one after the other.
    let packets = |line: &str| {
        let count = line.split(", ").find_map(|part| part.strip_prefix("packets:"));
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    let mut lines: Vec<&str> = all.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(packets(line)));
    let shown = &lines[..lines.len().min(args.limit)];
    let text = if at.json {
        shown
            .iter()
            .map(|line| format!("{}\n", json!({"packets": packets(line), "entry": line})))
            .collect()
    } else {
        let mut text: String = shown.iter().map(|line| format!("{line}\n")).collect();
        if shown.len() < lines.len() {
            text += &format!("… and {} more\n", lines.len() - shown.len());
        }
        if lines.is_empty() {
            text = "no entries\n".into();
        }
        text
    };
    Ok(output::data(&text)?)
}
