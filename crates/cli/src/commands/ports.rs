//! `linerate ports`: interfaces, and the kinds of port they can be; sockets of programs that share
//! memory; and the kinds of port with their options.

mod sockets;

use std::{fmt::Write as _, io::Write as _};

use anyhow::Result;
use linerate_linux::{
    closest,
    interface::{self, Interface, XdpMode},
};
use linerate_port::{DRIVERS, Driver};
use serde::Serialize;

use crate::{args::Ports, exit::UsageError, output, port_reference, reference, units::with_unit};

/// A port an interface can be opened as.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Use {
    port: String,
    how: String,
}

/// Output of `--json` for an interface.
#[derive(Serialize)]
struct InterfaceOutput<'a> {
    #[serde(flatten)]
    interface: &'a Interface,
    ports: Vec<Use>,
}

pub(crate) fn run(args: &Ports) -> Result<()> {
    if let Some(folder) = &args.write {
        return reference::write(folder, port_reference::pages());
    }
    if let Some(kind) = &args.help_uri {
        return explain(kind, args.json);
    }
    let (named_sockets, named): (Vec<&String>, Vec<&String>) =
        args.interfaces.iter().partition(|name| sockets::is_named(name));
    let interfaces = if args.interfaces.is_empty() {
        interface::inspect_all()?
    } else {
        named.into_iter().map(|name| interface::inspect(name)).collect::<Result<_, _>>()?
    };
    let mut out = std::io::stdout().lock();
    for interface in &interfaces {
        if args.json {
            let line = InterfaceOutput { interface, ports: uses(interface) };
            serde_json::to_writer(&mut out, &line)?;
            writeln!(out)?;
        } else {
            out.write_all(text(interface).as_bytes())?;
        }
    }
    if args.interfaces.is_empty() || !named_sockets.is_empty() {
        sockets::show(&named_sockets, args.json, &mut out)?;
    }
    Ok(())
}

/// Explains a kind of port, or lists all.
fn explain(kind: &str, json: bool) -> Result<()> {
    // So that the name of a port does, too.
    let kind = kind.split(':').next().unwrap_or(kind);
    let drivers: Vec<&Driver> =
        DRIVERS.iter().filter(|driver| kind.is_empty() || driver.name == kind).collect();
    let text = match drivers.as_slice() {
        [] => return Err(unknown(kind).into()),
        drivers if json => {
            drivers.iter().map(|driver| format!("{}\n", port_reference::json(driver))).collect()
        }
        [driver] => port_reference::text(driver),
        _ => port_reference::list(),
    };
    Ok(output::data(&text)?)
}

fn unknown(kind: &str) -> UsageError {
    let names = || DRIVERS.iter().map(|driver| driver.name);
    let hint = match closest(kind, names()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    UsageError(format!("no kind of port is called {kind:?}; {hint}"))
}

/// The interface in a line, its ports in a line each, then warnings.
fn text(interface: &Interface) -> String {
    let link = &interface.link;
    let mut facts = vec![link.kind.clone()];
    if let Some(driver) = interface.driver.as_ref().filter(|driver| driver.name != link.kind) {
        facts.push(driver.name.clone());
    }
    facts.push(
        match (link.up, link.carrier) {
            (true, true) => "up",
            (true, false) => "up without carrier",
            (false, _) => "down",
        }
        .into(),
    );
    facts.push(format!("mtu {}", link.mtu));
    facts.push(format!(
        "queues {} receive {} transmit",
        interface.receive_queues(),
        interface.transmit_queues()
    ));
    if let Some(speed) = interface.speed {
        facts.push(with_unit(speed as f64, "bit/s"));
    }
    if let Some(node) = interface.numa_node {
        facts.push(format!("numa node {node}"));
    }
    if link.promiscuous {
        facts.push("promiscuous".into());
    }
    let mut text = format!("{}: {}\n", link.name, facts.join(", "));
    // Writing to a string cannot fail.
    for Use { port, how } in uses(interface) {
        let _ = writeln!(text, "  {port:20} {how}");
    }
    for note in notes(interface) {
        let _ = writeln!(text, "  note: {note}");
    }
    text
}

fn uses(interface: &Interface) -> Vec<Use> {
    let link = &interface.link;
    let mut uses = Vec::new();
    let mut add = |driver: &str, how: &str| {
        uses.push(Use { port: format!("{driver}:{}", link.name), how: how.into() });
    };
    if link.ethernet {
        add("packet", "copies once");
        add(
            "xdp",
            match interface.xdp {
                Some(xdp) if xdp.native && xdp.zero_copy => "native XDP, zero-copy",
                Some(xdp) if xdp.native => "native XDP, the kernel copies",
                Some(_) => "generic XDP, the kernel copies",
                None => "whether native and zero-copy shows when it is opened",
            },
        );
    }
    if link.kind == "tap" {
        add("tap", "copies once; you are the interface's other end");
    }
    uses
}

fn notes(interface: &Interface) -> Vec<String> {
    let link = &interface.link;
    let name = &link.name;
    let mut notes: Vec<String> = link
        .xdp_programs
        .iter()
        .map(|program| {
            let (mode, flag) = match program.mode {
                XdpMode::Native => ("native", "xdpdrv"),
                XdpMode::Generic => ("generic", "xdpgeneric"),
                XdpMode::Hardware => ("hardware", "xdpoffload"),
            };
            format!(
                "XDP program {} is attached ({mode}): xdp:{name} is busy until its owner ends or \
                 `ip link set {name} {flag} off`",
                program.id
            )
        })
        .collect();
    if let Some(offloads) = interface.offloads.filter(|_| link.kind != "loopback") {
        let merging = [("gro", offloads.gro), ("lro", offloads.lro)];
        let on: Vec<&str> =
            merging.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        if !on.is_empty() {
            notes.push(format!(
                "received packets can be longer than the MTU ({}): `ethtool -K {name} {} off`",
                on.join(", "),
                on.join(" off ")
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use linerate_linux::interface::{Channels, DriverInfo, Link, Offloads, XdpProgram, XdpSupport};

    use super::*;

    fn card() -> Interface {
        Interface {
            link: Link {
                name: "eth1".into(),
                kind: "device".into(),
                ethernet: true,
                mtu: 1500,
                up: true,
                carrier: true,
                xdp_programs: vec![XdpProgram { id: 41, mode: XdpMode::Native }],
                ..Link::default()
            },
            driver: Some(DriverInfo {
                name: "ice".into(),
                version: "6.8".into(),
                firmware: "4.40".into(),
                bus: "0000:3b:00.0".into(),
            }),
            channels: Some(Channels {
                receive: 8,
                transmit: 8,
                combined: 8,
                ..Channels::default()
            }),
            descriptors: None,
            speed: Some(100_000_000_000),
            numa_node: Some(1),
            offloads: Some(Offloads {
                receive_checksum: true,
                transmit_checksum: true,
                scatter_gather: true,
                tso: true,
                gso: true,
                gro: true,
                lro: true,
                receive_vlan: true,
                transmit_vlan: true,
                ntuple: false,
                receive_hash: true,
            }),
            xdp: Some(XdpSupport { native: true, zero_copy: true, ..XdpSupport::default() }),
        }
    }

    #[test]
    fn a_card_in_a_few_lines() {
        assert_eq!(
            text(&card()),
            "\
eth1: device, ice, up, mtu 1500, queues 8 receive 8 transmit, 100 Gbit/s, numa node 1
  packet:eth1          copies once
  xdp:eth1             native XDP, zero-copy
  note: XDP program 41 is attached (native): xdp:eth1 is busy until its owner ends or `ip link set eth1 xdpdrv off`
  note: received packets can be longer than the MTU (gro, lro): `ethtool -K eth1 gro off lro off`
"
        );
    }

    #[test]
    fn ports_are_those_that_would_open() {
        let names = |interface: &Interface| -> Vec<String> {
            uses(interface).into_iter().map(|use_| use_.port).collect()
        };
        let mut interface = card();
        interface.link.kind = "tap".into();
        assert_eq!(names(&interface), ["packet:eth1", "xdp:eth1", "tap:eth1"]);
        interface.link.kind = "tun".into();
        interface.link.ethernet = false;
        assert!(names(&interface).is_empty());
    }

    #[test]
    fn a_kind_of_port_that_there_is_not() {
        assert_eq!(
            unknown("xpd").to_string(),
            "no kind of port is called \"xpd\"; did you mean xdp?"
        );
        let error = explain("dpdk", false).unwrap_err();
        assert!(error.to_string().contains("; there are null, ring, "), "{error}");
        assert_eq!(crate::exit::code_of(&error), crate::exit::Code::Usage);
    }

    #[test]
    fn this_namespace_is_listed() {
        let lo = interface::inspect("lo").unwrap();
        assert!(text(&lo).starts_with("lo: loopback, "), "{}", text(&lo));
        let error = anyhow::Error::from(interface::inspect("lp").unwrap_err());
        let text = error.to_string();
        assert!(text.starts_with("there is no interface \"lp\" in this network namespace; did"));
        assert_eq!(crate::exit::code_of(&error), crate::exit::Code::NoInterface);
    }
}
