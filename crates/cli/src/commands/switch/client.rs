//! Asking a switch that runs, over its control socket.

use std::{
    collections::BTreeSet,
    process, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::supervisor::NAME;
use crate::{
    args::{SwitchAdd, SwitchAt, SwitchList, SwitchRemove, SwitchShow},
    commands::{
        call::{Client, Refusal},
        cluster::table,
    },
    exit::ReportedError,
    output,
    units::grouped,
};

/// Interval of asking whether a request is done.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// A conversation with a switch.
struct SwitchClient {
    client: Client,
    timeout: Duration,
}

impl SwitchClient {
    fn connect(at: &SwitchAt) -> Result<SwitchClient> {
        let control = at.control.as_deref().unwrap_or(NAME);
        let client = Client::connect(control, at.token_file.as_deref(), at.timeout);
        let client = client.with_context(|| {
            format!(
                "cannot reach a switch at control socket {control} (start one by `linerate switch`, \
                 or give --control as it was started)"
            )
        })?;
        Ok(SwitchClient { client, timeout: at.timeout })
    }

    fn read(&mut self, handler: &str) -> Result<String> {
        let bytes = self.client.read(handler, None)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a handler of a port that may be gone by now, or was never there.
    fn read_any(&mut self, handler: &str) -> Result<Option<String>> {
        match self.read(handler) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.is::<Refusal>() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The ports, as the switch tells of them.
    fn ports(&mut self) -> Result<Vec<Value>> {
        let Some(text) = self.read_any("switch.ports")? else {
            bail!("what answers is no switch: it was not started by `linerate switch`");
        };
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Has it do something, and waits until that is done or is not.
    fn have_done(&mut self, handler: &str, lines: &str) -> Result<()> {
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ticket = u64::from(process::id()) << 32 | u64::from(nanoseconds.subsec_nanos());
        let text = format!("{lines}ticket {ticket}\n");
        self.ports()?;
        self.client.write(handler, text.as_bytes())?;
        let until = Instant::now().checked_add(self.timeout);
        loop {
            let told = self.read("switch.outcomes")?;
            for line in told.lines() {
                let told: Value = serde_json::from_str(line)?;
                if told["ticket"] == ticket {
                    return match told["error"].as_str() {
                        None => Ok(()),
                        Some(error) => Err(ReportedError::new(&told["code"], error).into()),
                    };
                }
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                bail!("the switch has not done it yet: look at it by `linerate switch list`");
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

pub(super) fn add(args: &SwitchAdd) -> Result<()> {
    let mut lines = format!("{}\n", args.port);
    if let Some(vlan) = &args.vlan {
        lines += &format!("vlan {vlan}\n");
    }
    lines.extend(args.mac.iter().map(|mac| format!("mac {mac}\n")));
    SwitchClient::connect(&args.at)?.have_done("switch.add", &lines)
}

pub(super) fn remove(args: &SwitchRemove) -> Result<()> {
    SwitchClient::connect(&args.at)?.have_done("switch.remove", &format!("{}\n", args.name))
}

pub(super) fn list(args: &SwitchList) -> Result<()> {
    let mut asked = SwitchClient::connect(&args.at)?;
    let mut ports = asked.ports()?;
    let elements = asked.read("list")?;
    let elements: BTreeSet<&str> = elements.lines().skip(1).collect();
    let hosts = hosts(&mut asked)?;
    for port in &mut ports {
        let name = port["name"].as_str().unwrap_or_default().to_owned();
        let Some(counted) = PortCounts::read(&mut asked, &name, &elements)? else { continue };
        counted.put(port);
        port["hosts"] = hosts.iter().filter(|host| host.port == name).count().into();
    }
    // Those that went meanwhile have no figures.
    ports.retain(|port| port["received"].is_u64());
    let text = if args.json {
        ports.iter().map(|port| format!("{port}\n")).collect()
    } else {
        list_text(&ports)
    };
    Ok(output::data(&text)?)
}

fn list_text(ports: &[Value]) -> String {
    let vlans = ports.iter().any(|port| port["vlan"].is_string());
    let mut titles = vec![
        "name", "port", "link", "received", "sent", "full", "absent", "refused", "forged", "hosts",
    ];
    let rows = ports.iter().map(|port| {
        let text = |key: &str| port[key].as_str().unwrap_or("-").to_owned();
        let count = |key: &str| grouped(port[key].as_u64().unwrap_or(0));
        let link = if port["link"] == false { "down" } else { "up" };
        let mut row = vec![text("name"), text("port"), link.to_owned()];
        row.extend(titles[3..].iter().map(|key| count(key)));
        if vlans {
            row.push(text("vlan").to_lowercase());
        }
        row
    });
    let rows = rows.collect();
    if vlans {
        titles.push("vlans");
    }
    table(&titles, rows)
}

/// Counts of a port.
#[derive(Debug, Default, PartialEq, Eq)]
struct PortCounts {
    /// Set while its other end is there.
    link: bool,
    received: u64,
    received_bytes: u64,
    sent: u64,
    /// Not sent: it had no room.
    full: u64,
    /// Not sent, for want of a peer.
    absent: u64,
    /// Received, and made no sense.
    refused: u64,
    /// Received from an address that is another port's.
    forged: u64,
}

impl PortCounts {
    /// `None` when it is no port any more.
    fn read(
        asked: &mut SwitchClient,
        name: &str,
        elements: &BTreeSet<&str>,
    ) -> Result<Option<PortCounts>> {
        let mut counted = PortCounts::default();
        let (from, to) = (format!("{name}_in"), format!("{name}_out"));
        let Some(class) = asked.read_any(&format!("{from}.class"))? else { return Ok(None) };
        let mut read = |element: &str, handler: &str| -> Result<String> {
            Ok(asked.read_any(&format!("{element}.{handler}"))?.unwrap_or_default())
        };
        if class.trim() == "FromConsumer" {
            counted.received = number(&read(&from, "count")?);
            counted.received_bytes = number(&read(&from, "bytes")?);
            counted.refused = number(&read(&from, "malformed")?);
            counted.sent = number(&read(&to, "count")?);
            let consumer = read(&to, "consumers")?;
            counted.link = consumer.split(' ').nth(1).is_some_and(|process| process != "-");
            let drops = read(&to, "drops")?;
            counted.absent = dropped(&drops, "no program attached");
            counted.full = dropped(&drops, "programs did not keep up");
        } else {
            let counters = read(&from, "counters")?;
            counted.received = value(&counters, "packets");
            counted.received_bytes = value(&counters, "bytes");
            counted.refused = value(&counters, "malformed") + value(&counters, "too_long");
            let counters = read(&to, "counters")?;
            counted.sent = value(&counters, "packets");
            counted.full = value(&counters, "queue_full");
            counted.absent = value(&counters, "link_down");
            // A port whose link does not come and go has no detail, and counts as up.
            counted.link =
                read(&from, "link")?.trim() == "true" || read(&from, "link_detail")?.is_empty();
        }
        let queues = (0..).map(|group| format!("{name}_from{group}"));
        for queue in queues.take_while(|queue| elements.contains(queue.as_str())) {
            counted.full += number(&read(&queue, "drops")?);
        }
        let forged = format!("{name}_forged");
        if elements.contains(forged.as_str()) {
            counted.forged = number(&read(&forged, "count")?);
        }
        Ok(Some(counted))
    }

    fn put(&self, port: &mut Value) {
        let PortCounts { link, received, received_bytes, sent, full, absent, refused, forged } =
            self;
        let counted = json!({
            "link": link,
            "received": received,
            "received_bytes": received_bytes,
            "sent": sent,
            "full": full,
            "absent": absent,
            "refused": refused,
            "forged": forged,
        });
        if let (Value::Object(port), Value::Object(counted)) = (port, counted) {
            port.extend(counted);
        }
    }
}

/// The number at the beginning of a handler's value, perhaps with words behind.
fn number(text: &str) -> u64 {
    let digits = text.trim_start().split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The number on the line of that name.
fn value(counters: &str, name: &str) -> u64 {
    let mut lines = counters.lines().filter_map(|line| line.split_once(' '));
    // Those of several workers are all there.
    lines.by_ref().filter(|(of, _)| *of == name).map(|(_, count)| number(count)).sum()
}

/// The number in front of a reason.
fn dropped(drops: &str, reason: &str) -> u64 {
    let lines = drops.lines().filter_map(|line| line.split_once('\t'));
    lines.filter(|(_, of)| *of == reason).map(|(count, _)| number(count)).sum()
}

/// A host that the switch has learnt.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    mac: String,
    vlan: Option<u16>,
    port: String,
}

impl Host {
    /// A line of the table: address, VLAN where there are any, and port.
    fn parse(line: &str) -> Option<Host> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mac, vlan, port) = match words[..] {
            [mac, port] => (mac, None, port),
            [mac, vlan, port] => (mac, Some(vlan.parse().ok()?), port),
            _ => return None,
        };
        Some(Host { mac: mac.replace('-', ":").to_lowercase(), vlan, port: port.into() })
    }
}

fn hosts(asked: &mut SwitchClient) -> Result<Vec<Host>> {
    // Under controllers nothing is learnt.
    let text = asked.read_any("learning.table")?.unwrap_or_default();
    Ok(text.lines().filter_map(Host::parse).collect())
}

pub(super) fn show(args: &SwitchShow) -> Result<()> {
    let mut asked = SwitchClient::connect(&args.at)?;
    if let Some(name) = &args.name {
        let ports = asked.ports()?;
        if !ports.iter().any(|port| port["name"] == **name) {
            let names: Vec<&str> = ports.iter().filter_map(|port| port["name"].as_str()).collect();
            let told = format!("no port is called {name}; there are: {}", names.join(", "));
            return Err(crate::exit::UsageError(told).into());
        }
    }
    let mut hosts = hosts(&mut asked)?;
    hosts.retain(|host| args.name.as_ref().is_none_or(|name| host.port == *name));
    let text = if args.json {
        let object = |host: &Host| json!({"mac": host.mac, "vlan": host.vlan, "port": host.port});
        hosts.iter().map(|host| format!("{}\n", object(host))).collect()
    } else {
        let vlans = hosts.iter().any(|host| host.vlan.is_some());
        let titles: &[&str] = if vlans { &["host", "port", "vlan"] } else { &["host", "port"] };
        let rows = hosts.into_iter().map(|host| {
            let vlan = host.vlan.map(|vlan| vlan.to_string());
            [host.mac, host.port].into_iter().chain(vlan).collect()
        });
        table(titles, rows.collect())
    };
    Ok(output::data(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let counters = "packets 12\nbytes 700\nqueue_full 3\nlink_down 0\npackets 1";
        assert_eq!(value(counters, "packets"), 13);
        assert_eq!(value(counters, "queue_full"), 3);
        assert_eq!(value(counters, "malformed"), 0);
        assert_eq!(dropped("5\tno program attached\n2\tother\n", "no program attached"), 5);
        assert_eq!(number("7\tqueue full\n"), 7);
        assert_eq!(number(""), 0);
    }

    #[test]
    fn hosts_are_lines() {
        let host = |vlan| Host { mac: "02:00:00:00:00:0a".into(), vlan, port: "a".into() };
        assert_eq!(Host::parse("02-00-00-00-00-0A a"), Some(host(None)));
        assert_eq!(Host::parse("02-00-00-00-00-0A 10 a"), Some(host(Some(10))));
        assert_eq!(Host::parse("x"), None);
    }
}
