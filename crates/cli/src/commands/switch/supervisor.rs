//! Supervisor of a running switch, with ports that come and go.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
};

use anyhow::{Error, Result};
use linerate_cluster::figures::{BALANCERS, LINES};
use linerate_graph::{Library, lang::Globals};
use linerate_packet::MacAddr;

use super::{
    ask::{CLASS, PortRequest, Request, RequestQueue, StatusWriter},
    configuration::{self, Settings},
    open_flow::OpenFlow,
    port::Port,
};
use crate::{
    args::SwitchServe,
    configuration::Source,
    control_address::ControlAddress,
    exit::{Code, ConfigurationError, ReportedError, UsageError, code_of, text_of},
    options::Operation,
    port_spec::{PortSpec, PortTarget},
    remote,
    run::{self, RunningHandle, Subject},
};

/// Ports that no others are there beside.
const PORTS: usize = 1024;
/// Most ports of programs of a cluster, each of which has a line and a balancer there.
const CONSUMERS: usize = if LINES < BALANCERS { LINES } else { BALANCERS };
/// The name of a switch in the runtime directory, by which its clients find it.
pub(in crate::commands) const NAME: &str = "switch";
/// Changes that wait to be made.
const REQUESTS: usize = 16;

pub(super) fn run(args: &SwitchServe, library: &Library) -> Result<()> {
    let mut running = args.running.clone();
    let waiting = configuration::waiting(&running.memory);
    let arena = configuration::arena(&running.memory, &args.ports.0);
    running.memory.arena = Some(arena);
    let workers = running.workers()?;
    if args.direct && workers > 1 {
        let advice = "--direct needs one worker: several would share the queues of ports";
        return Err(UsageError(advice.into()).into());
    }
    let mut controlled = args.controlled.clone();
    if controlled.control.is_empty() {
        controlled.control.push(ControlAddress::Named(None));
    }
    let mut sockets = controlled.sockets(NAME)?;
    let settings = Settings {
        vlans: args.vlans || !args.vlan.is_empty(),
        ageing: args.ageing.as_secs(),
        hosts: args.hosts,
        direct: args.direct,
        workers,
        waiting,
        room: args.room.map_or(configuration::ROOM, usize::from),
        has_socket: args.socket.is_some(),
        open_flow: OpenFlow::from_args(args, &mut sockets)?,
    };
    if !configuration::has_room(&settings, settings.room, 1) {
        return Err(UsageError(format!(
            "--room {}: that memory has no room for packets to wait at so many ports: say a larger \
             --arena, or --direct",
            settings.room
        ))
        .into());
    }
    let switch = Switch::from_args(args, settings)?;

    let (requests, waiting) = sync_channel(REQUESTS);
    let queue = Arc::new(RequestQueue::new(requests));
    let status = StatusWriter::new(&queue);
    status.set_ports(switch.told());
    let text = switch.text();
    let mut notes = Vec::new();
    if switch.ports.is_empty() {
        notes.push("the switch has no ports yet: add one with `linerate switch add PORT`".into());
    }
    let subject = Subject {
        source: Source::Expression(text),
        globals: Globals::default(),
        devices: Default::default(),
        library: library.clone().with([&CLASS])?,
        texts: &[],
        watch: false,
        socket: args.socket.clone(),
        rows: run::Rows::Ports,
        notes,
        // It is the first element of the text.
        prepare: Some(Box::new(move |router| remote::set_command(router, 0, queue))),
        side_task: Some(Box::new(move |handle| switch.supervise(handle, &waiting, &status))),
    };
    let operation = Operation {
        running,
        simtime: false,
        controlled,
        readiness: args.readiness,
        allow_reconfigure: false,
    };
    // The user has not seen the configuration.
    run::run(subject, sockets, &operation).map_err(|error| {
        if !error.is::<ConfigurationError>() {
            return error;
        }
        ReportedError::with_code(code(&error), &brief(&error)).into()
    })
}

/// Ports of the switch, and its settings.
#[derive(Debug, Clone)]
struct Switch {
    settings: Settings,
    ports: Vec<Port>,
    /// Groups of ports whose packets wait apart: never fewer while it runs.
    groups: usize,
}

impl Switch {
    /// A switch with the ports of a command line.
    fn from_args(args: &SwitchServe, settings: Settings) -> Result<Switch, UsageError> {
        let mut switch = Switch { settings, ports: Vec::new(), groups: 1 };
        for spec in &with_names(&args.ports.0) {
            let name = switch.name_for(spec);
            let vlans = args.vlan.iter().filter(|(of, _)| *of == name).map(|(_, vlans)| vlans);
            let vlans: Vec<&String> = vlans.collect();
            if vlans.len() > 1 {
                return Err(UsageError(format!("--vlan {name}: say it once")));
            }
            let macs = args.mac.iter().filter(|(of, _)| *of == name).map(|(_, mac)| *mac).collect();
            switch.add(spec, vlans.first().map(|vlan| vlan.as_str()), macs)?;
        }
        let known: BTreeSet<&str> = switch.ports.iter().map(|port| port.name.as_str()).collect();
        let asked = args.vlan.iter().map(|(of, _)| ("--vlan", of));
        let asked = asked.chain(args.mac.iter().map(|(of, _)| ("--mac", of)));
        if let Some((option, of)) = asked.into_iter().find(|(_, of)| !known.contains(of.as_str())) {
            let names = Vec::from_iter(known).join(", ");
            return Err(UsageError(format!("{option} {of}: no port is called so, but: {names}")));
        }
        switch.make_room()?;
        Ok(switch)
    }

    /// The configuration that runs.
    fn text(&self) -> String {
        configuration::text(&self.settings, &self.ports, self.groups)
    }

    /// Has packets of the ports there are wait apart, as far as there is room.
    fn make_room(&mut self) -> Result<(), UsageError> {
        self.groups = configuration::groups(&self.settings, &self.ports, self.groups);
        if configuration::has_room(&self.settings, self.ports.len(), self.groups) {
            return Ok(());
        }
        let room = if self.settings.room < self.ports.len() {
            format!("--room {}, or as many as there will be, ", self.ports.len())
        } else {
            String::new()
        };
        Err(UsageError(format!(
            "there is no room for packets to wait at {} ports: start the switch with {room}a larger \
             --arena, or with --direct",
            self.ports.len()
        )))
    }

    /// The list of ports for clients.
    fn told(&self) -> String {
        self.ports.iter().map(|port| format!("{}\n", port.json())).collect()
    }

    fn name_for(&self, spec: &PortSpec) -> String {
        let free = |name: &String| self.ports.iter().all(|port| port.name != *name);
        let others = || (1..).map(|number| format!("port{number}")).find(free);
        spec.name.clone().or_else(others).unwrap_or_default()
    }

    fn add(
        &mut self,
        spec: &PortSpec,
        vlan: Option<&str>,
        macs: Vec<MacAddr>,
    ) -> Result<(), UsageError> {
        let name = self.name_for(spec);
        if self.ports.iter().any(|port| port.name == name) {
            return Err(UsageError(format!("there is a port {name} already")));
        }
        if self.ports.len() >= PORTS {
            return Err(UsageError(format!("there are {PORTS} ports, which is the most")));
        }
        if spec.target == PortTarget::Consumer && !self.settings.has_socket {
            return Err(UsageError(format!(
                "{name}=consumer: needs a place to attach at: start the switch with --socket ADDRESS"
            )));
        }
        let consumers =
            self.ports.iter().filter(|port| port.target == PortTarget::Consumer).count();
        if spec.target == PortTarget::Consumer && consumers >= CONSUMERS {
            return Err(UsageError(format!(
                "there are {CONSUMERS} programs with consumer: already, which is the most: remove \
                 one, or have this one connect to memif:"
            )));
        }
        if vlan.is_some() && !self.settings.vlans {
            let advice = "the switch has no VLANs: start it with --vlans";
            return Err(UsageError(advice.into()));
        }
        let others = self.ports.iter();
        let whose = |mac: &MacAddr| others.clone().find(|port| port.macs.contains(mac));
        if let Some((mac, port)) = macs.iter().find_map(|mac| Some((mac, whose(mac)?))) {
            return Err(UsageError(format!("{mac} is an address of port {}", port.name)));
        }
        let taken: BTreeSet<usize> = self.ports.iter().map(|port| port.number).collect();
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or(0);
        let same = |port: &&Port| port.target == spec.target && spec.target != PortTarget::Consumer;
        if let Some(port) = self.ports.iter().find(same) {
            return Err(UsageError(format!(
                "{} is what port {} leads to",
                port.behind_text(),
                port.name
            )));
        }
        self.ports.push(Port::new(name, spec.target.clone(), vlan, macs, number)?);
        Ok(())
    }

    /// The switch after a request, and the message about it.
    fn with(&self, wanted: &PortRequest) -> Result<(Switch, String), UsageError> {
        let mut next = self.clone();
        if let Some(open_flow) = &mut next.settings.open_flow {
            open_flow.has_started();
        }
        let said = match wanted {
            PortRequest::Add { spec, vlan, macs } => {
                next.add(spec, vlan.as_deref(), macs.clone())?;
                next.make_room()?;
                let port = next.ports.last();
                port.map(|port| format!("port {} is {}", port.name, port.behind_text()))
            }
            PortRequest::Remove { name } => {
                let Some(at) = next.ports.iter().position(|port| port.name == *name) else {
                    let names: Vec<&str> =
                        self.ports.iter().map(|port| port.name.as_str()).collect();
                    let names = if names.is_empty() { "none".into() } else { names.join(", ") };
                    return Err(UsageError(format!(
                        "no port is called {name}; there are: {names}"
                    )));
                };
                next.ports.remove(at);
                Some(format!("port {name} is gone"))
            }
        };
        Ok((next, said.unwrap_or_default()))
    }

    /// Carries out the requests of clients, one after the other, until the switch ends.
    fn supervise(
        mut self,
        handle: &RunningHandle<'_>,
        waiting: &Receiver<Request>,
        status: &StatusWriter,
    ) {
        for Request { ticket, wanted } in waiting {
            let replaced = self.with(&wanted).map_err(Error::from).and_then(|(next, said)| {
                handle.replace(&next.text())?;
                self = next;
                status.set_ports(self.told());
                handle.note(&said);
                Ok(())
            });
            let replaced = replaced.map_err(|error| (code(&error) as u8, brief(&error)));
            if let Err((_, error)) = &replaced {
                handle.note(&format!("{error}; nothing has changed"));
            }
            if let Some(ticket) = ticket {
                status.set_outcome(ticket, replaced);
            }
        }
    }
}

/// The code for a client: a mistake in the words of a port is no fault of a configuration.
fn code(error: &Error) -> Code {
    match error.downcast_ref::<ConfigurationError>() {
        Some(error) if error.is_usage() => Code::Usage,
        _ => code_of(error),
    }
}

/// The error for a client, which has not seen the configuration.
fn brief(error: &Error) -> String {
    match error.downcast_ref::<ConfigurationError>() {
        Some(error) => error.brief().to_owned(),
        None => text_of(error),
    }
}

/// Ports with names: those without take the names that are left.
fn with_names(specs: &[PortSpec]) -> Vec<PortSpec> {
    let given: BTreeSet<&str> = specs.iter().filter_map(|spec| spec.name.as_deref()).collect();
    let all = (1..).map(|number| format!("port{number}"));
    let mut left = all.filter(|name| !given.contains(name.as_str()));
    let with_name = |spec: &PortSpec| {
        let name = spec.name.clone().or_else(|| left.next());
        PortSpec { name, ..spec.clone() }
    };
    specs.iter().map(with_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch() -> Switch {
        let settings = Settings {
            open_flow: None,
            vlans: false,
            ageing: 300,
            hosts: 1024,
            direct: false,
            workers: 1,
            waiting: 1000,
            room: 1,
            has_socket: false,
        };
        Switch { settings, ports: Vec::new(), groups: 1 }
    }

    fn add(switch: &mut Switch, spec: &str) -> Result<(), String> {
        switch.add(&spec.parse().unwrap(), None, Vec::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_numbers_are_used_again() {
        let mut switch = switch();
        for spec in ["tap:a", "b=tap:b", "tap:c"] {
            add(&mut switch, spec).unwrap();
        }
        let names = |switch: &Switch| {
            let ports = switch.ports.iter().map(|port| format!("{} {}", port.name, port.number));
            ports.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names(&switch), "port1 0, b 1, port2 2");
        let (mut switch, said) = switch.with(&PortRequest::Remove { name: "b".into() }).unwrap();
        assert_eq!(said, "port b is gone");
        add(&mut switch, "d=tap:d").unwrap();
        assert_eq!(names(&switch), "port1 0, port2 2, d 1");
    }

    #[test]
    fn ports_have_the_order_of_the_command_line() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            serve: SwitchServe,
        }
        let line = "switch tap:a --port x=tap:b tap:c --openflow local --port tap:d port2=tap:e";
        let Line { serve } = clap::Parser::try_parse_from(line.split(' ')).unwrap();
        let specs = with_names(&serve.ports.0);
        let names: Vec<_> = specs.iter().map(|spec| spec.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["port1", "x", "port3", "port4", "port2"]);
        let mut switch = switch();
        specs.iter().for_each(|spec| switch.add(spec, None, Vec::new()).unwrap());
        let numbers: Vec<usize> = switch.ports.iter().map(|port| port.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn ports_come_as_long_as_packets_have_room() {
        let mut switch = switch();
        for number in 0.. {
            let spec = format!("tap:t{number}").parse().unwrap();
            let wanted = PortRequest::Add { spec, vlan: None, macs: Vec::new() };
            match switch.with(&wanted) {
                Ok((next, _)) => switch = next,
                Err(error) => {
                    assert!(
                        error.0.contains("at 32 ports: start the switch with --room"),
                        "{error}"
                    );
                    break;
                }
            }
        }
        // 1000 packets, 32 of them in each queue.
        assert_eq!(switch.ports.len(), 31);
        switch.settings.waiting = 32 * PORTS;
        for number in switch.ports.len()..PORTS {
            add(&mut switch, &format!("tap:m{number}")).unwrap();
        }
        switch.make_room().unwrap();
        assert!(add(&mut switch, "tap:more").unwrap_err().contains("the most"));
    }

    #[test]
    fn a_cluster_has_so_many_programs() {
        let mut switch = switch();
        switch.settings.has_socket = true;
        for number in 0..63 {
            add(&mut switch, &format!("c{number}=consumer:")).unwrap();
        }
        let error = add(&mut switch, "more=consumer:").unwrap_err();
        assert!(error.contains("63 programs") && error.contains("memif:"), "{error}");
        add(&mut switch, "more=memif:/x").unwrap();
    }

    #[test]
    fn refused_ports_come_with_advice() {
        let mut switch = switch();
        add(&mut switch, "a=tap:a").unwrap();
        for (spec, advice) in [
            ("a=tap:b", "there is a port a already"),
            ("b=tap:a", "tap:a is what port a leads to"),
            ("c=consumer:", "start the switch with --socket"),
        ] {
            let error = add(&mut switch, spec).unwrap_err();
            assert!(error.contains(advice), "{error}");
        }
        let spec = "b=tap:b".parse().unwrap();
        let vlan = switch.add(&spec, Some("access 1"), Vec::new()).unwrap_err();
        assert!(vlan.0.contains("start it with --vlans"), "{vlan}");
        let error = switch.with(&PortRequest::Remove { name: "x".into() }).unwrap_err();
        assert_eq!(error.0, "no port is called x; there are: a");
        let mac: MacAddr = "02:00:00:00:00:01".parse().unwrap();
        switch.ports[0].macs = vec![mac];
        let error = switch.add(&spec, None, vec![mac]).unwrap_err();
        assert_eq!(error.0, "02:00:00:00:00:01 is an address of port a");
    }
}
