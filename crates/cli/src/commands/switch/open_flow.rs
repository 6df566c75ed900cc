//! The configuration of a switch under controllers.
//!
//! Ports keep their numbers while others come and go: the number of one that has gone is empty
//! until another one comes.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use anyhow::Result;
use linerate_graph::lang::config::quote;
use linerate_linux::RuntimeDirectory;
use linerate_packet::MacAddr;

use super::{
    configuration::{BURST, Settings, ends, places},
    export::{Export, written},
    port::Port,
    supervisor::NAME,
};
use crate::{
    args::{OpenFlowTarget, SwitchFailMode, SwitchServe},
    commands::flow::open_flow_socket,
    control::ControlSockets,
    control_address::remove_stale_socket,
    exit::UsageError,
};

/// Packets that wait for a port, where several workers have some for it.
const QUEUE: usize = 1024;

/// Options of a switch under controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenFlow {
    /// Addresses of controllers.
    targets: Vec<String>,
    tables: u8,
    datapath: MacAddr,
    fail_mode: SwitchFailMode,
    /// Flows that are there from the start.
    flows: Option<String>,
    /// File of the kept flows.
    state: Option<String>,
    packet_rate: Option<u32>,
    /// Longest idle time of a bundle.
    bundle_idle: Duration,
    /// Users whose programs may control the switch without TLS.
    users: Vec<String>,
    /// Set if every peer may.
    insecure: bool,
    /// Key, certificate and authorities.
    files: Option<[String; 3]>,
    export: Option<Export>,
}

impl OpenFlow {
    /// The options of a command line.
    pub(super) fn from_args(
        args: &SwitchServe,
        sockets: &mut ControlSockets,
    ) -> Result<Option<OpenFlow>> {
        let given = &args.open_flow;
        if given.targets.is_empty() {
            return Ok(None);
        }
        let wrong = |option: &str| {
            UsageError(format!("{option}: with --openflow it is controllers who say that"))
        };
        for (option, is_given) in [
            ("--vlans", args.vlans),
            ("--vlan", !args.vlan.is_empty()),
            ("--mac", !args.mac.is_empty()),
            ("--direct", args.direct),
        ] {
            if is_given {
                return Err(wrong(option).into());
            }
        }
        let mut targets = Vec::new();
        let mut is_local = args.controlled.control.is_empty();
        for target in &given.targets {
            match target {
                OpenFlowTarget::Local => is_local = true,
                OpenFlowTarget::At(target) if target.is_secure() && given.private_key.is_none() => {
                    return Err(UsageError(format!(
                        "--openflow {target} needs --private-key, --certificate and --ca-cert"
                    ))
                    .into());
                }
                OpenFlowTarget::At(target) => targets.push(target.to_string()),
            }
        }
        if is_local {
            let path = open_flow_socket(&RuntimeDirectory::create()?, &sockets.name(NAME)?);
            remove_stale_socket(&path);
            let local = format!("punix:{}", path.display());
            if !targets.contains(&local) {
                targets.push(local);
            }
        }
        let name = |path: &PathBuf| path.to_string_lossy().into_owned();
        let files = match (&given.private_key, &given.certificate, &given.ca_cert) {
            (Some(key), Some(certificate), Some(authorities)) => {
                Some([name(key), name(certificate), name(authorities)])
            }
            _ => None,
        };
        Ok(Some(OpenFlow {
            targets,
            tables: given.tables,
            datapath: given.datapath_id,
            fail_mode: given.fail_mode,
            flows: given.flows.as_ref().map(name),
            state: given.state.as_ref().map(name),
            packet_rate: given.packet_rate,
            bundle_idle: given.bundle_idle,
            users: given.users.clone(),
            insecure: given.insecure,
            files,
            export: Export::from_args(&args.export)?,
        }))
    }

    /// Drops the flows of the start, which are not added once more.
    pub(super) fn has_started(&mut self) {
        self.flows = None;
    }

    /// The configuration's text. The element `flows` is the switch, `controllers` its channel,
    /// `export` the exporter, `switch` takes requests for other ports; those of port `a` are `a_in`
    /// and `a_out`.
    pub(super) fn text(&self, settings: &Settings, ports: &[Port]) -> String {
        let mut text = "switch :: SwitchPorts;\n".to_owned();
        let count = ports.iter().map(|port| port.number + 1).max().unwrap_or(1);
        let at = |number: usize| ports.iter().find(|port| port.number == number);
        let names: Vec<String> = (0..count)
            .map(|number| at(number).map_or_else(|| format!("-{number}"), |port| port.name.clone()))
            .collect();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "flows :: FlowSwitch(TABLES {}, DATAPATH {}, NAMES {}",
            self.tables,
            self.datapath,
            names.join(" ")
        );
        if let Some(file) = &self.flows {
            let _ = write!(text, ", FILE {}", quote(file.as_bytes()));
        }
        text += ");\n";
        let targets = self.targets.iter().map(|target| quote(target.as_bytes()).to_string());
        let _ = write!(
            text,
            "controllers :: OpenFlow(flows, {}, BUNDLE_IDLE {}",
            targets.collect::<Vec<_>>().join(", "),
            written(self.bundle_idle)
        );
        if self.fail_mode == SwitchFailMode::Standalone {
            text += ", FAIL standalone";
        }
        if let Some(rate) = self.packet_rate {
            let _ = write!(text, ", RATE {rate}");
        }
        if !self.users.is_empty() {
            let _ = write!(text, ", USERS {}", quote(self.users.join(" ").as_bytes()));
        }
        if self.insecure {
            text += ", INSECURE true";
        }
        if let Some(file) = &self.state {
            let _ = write!(text, ", STATE {}", quote(file.as_bytes()));
        }
        if let Some(files) = &self.files {
            for (keyword, file) in ["KEY", "CERTIFICATE", "AUTHORITIES"].iter().zip(files) {
                let _ = write!(text, ", {keyword} {}", quote(file.as_bytes()));
            }
        }
        text += ");\n";
        if let Some(export) = &self.export {
            text += &export.text();
        }
        for number in 0..count {
            let Some(port) = at(number) else {
                let _ = writeln!(text, "Idle -> [{number}] flows; flows [{number}] -> Discard;");
                continue;
            };
            let name = &port.name;
            let (from, to) = ends(port, 1, BURST);
            let _ = writeln!(text, "{name}_in :: {from} -> [{number}] flows;");
            // One worker gives packets to the port; several have it take them.
            let queue = if settings.workers > 1 {
                format!("{name}_from0 :: Queue({QUEUE}) -> ")
            } else {
                String::new()
            };
            let _ = writeln!(text, "flows [{number}] -> {queue}{name}_out :: {to};");
        }
        text + &places(settings, ports)
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::lang::Globals;

    use super::*;
    use crate::{
        args::{Collector, SwitchExport},
        commands::switch::ask::CLASS,
        configuration::Parsed,
        port_spec::PortTarget,
    };

    fn open_flow() -> OpenFlow {
        OpenFlow {
            targets: vec!["ptcp:0:127.0.0.1".into(), "punix:/tmp/a b".into()],
            tables: 3,
            datapath: MacAddr([0, 0, 0, 0, 0, 7]),
            fail_mode: SwitchFailMode::Standalone,
            flows: None,
            state: None,
            packet_rate: Some(1000),
            bundle_idle: Duration::from_millis(1500),
            users: vec!["root".into(), "65534".into()],
            insecure: true,
            files: None,
            export: Export::from_args(&export()).unwrap(),
        }
    }

    fn export() -> SwitchExport {
        let place = |host: &str| Collector { host: host.into(), port: 4739 };
        SwitchExport {
            ipfix: vec![place("127.0.0.1"), place("::1")],
            ipfix_set: vec![(7, place("127.0.0.1"))],
            ipfix_idle: Duration::from_millis(1500),
            ipfix_active: Duration::from_secs(60),
            ipfix_sampling: 2,
            sflow: vec![place("localhost")],
            sflow_rate: 10,
            sflow_polling: Duration::ZERO,
            sflow_agent: Some("192.0.2.1".parse().unwrap()),
        }
    }

    #[test]
    fn every_number_of_ports_is_a_configuration() {
        let port = |number: usize| {
            let target = PortTarget::Uri(format!("ring:r{number}").parse().unwrap());
            Port::new(format!("p{number}"), target, None, Vec::new(), number).unwrap()
        };
        let library = linerate_elements::library().with([&CLASS]).unwrap();
        for (numbers, workers) in [(vec![], 1), (vec![0], 1), (vec![0, 1, 2], 2), (vec![1, 4], 1)] {
            let settings = Settings {
                vlans: false,
                ageing: 300,
                hosts: 1024,
                direct: false,
                workers,
                waiting: 1000,
                room: 1,
                has_socket: false,
                open_flow: Some(open_flow()),
            };
            let ports: Vec<Port> = numbers.iter().map(|number| port(*number)).collect();
            let text = super::super::configuration::text(&settings, &ports, 1);
            let parsed = Parsed::new("switch", &text, &Globals::default(), &library, "");
            parsed.into_plan(&library).map_err(|error| format!("{error}\n{text}")).unwrap();
            let count = numbers.last().map_or(1, |last| last + 1);
            let holes = count - numbers.len();
            assert_eq!(text.matches("Idle -> ").count(), holes, "{text}");
        }
    }
}
