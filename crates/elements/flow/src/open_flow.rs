//! `OpenFlow`: a switch's channel to its controllers.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, ElementRef, Filename, Handler, HandlerError,
    HandlerResult, Inert, Keyword, Role, Text, lang::config::words, unquoted,
};
use linerate_linux::peer::user_number;
use linerate_memory::Frame;
use linerate_ofswitch::control::{Agent, AgentOptions, Credentials, FailMode, PacketRate, Target};
use linerate_openflow::wire::{Role as ControllerRole, Version};
use rustix::time::{ClockId, clock_gettime};

use crate::{FAMILY, flow_switch, switches};

/// The timer by which an agent is started that could not be at first, and how often it is tried, in
/// nanoseconds.
const LOOK: u32 = 0;
const LOOK_TIME: u64 = 1_000_000_000;
/// Nanoseconds between attempts while its switch changes over.
const WAIT_TIME: u64 = 1_000_000;

const ARGS: [Arg; 15] = [
    Arg::required("SWITCH", "element", "the `FlowSwitch` that is controlled"),
    Arg::rest(
        "CONTROLLER",
        "place",
        "a controller that is connected to (`tcp:HOST[:PORT]`, `ssl:HOST[:PORT]`, `unix:PATH`), or where \
         some may come (`ptcp:[PORT][:ADDRESS]`, `pssl:[PORT][:ADDRESS]`, `punix:PATH`)",
    ),
    Arg::keyword("VERSIONS", "versions", "1.0 1.3 1.4 1.5", "the versions that may be spoken"),
    Arg::keyword(
        "FAIL",
        "secure or standalone",
        "secure",
        "what a switch does without controllers: what its flows say, or, after three times `PROBE`, \
         what any switch does that learns addresses",
    ),
    Arg::keyword(
        "PROBE",
        "time",
        "5s",
        "a controller that says nothing for so long is asked whether it is there, and given up after \
         as long again; 0 never asks",
    ),
    Arg::keyword("BACKOFF", "time", "8s", "the longest pause before connecting again"),
    Arg::keyword("RATE", "packets/s", "no bound", "how many packets controllers get"),
    Arg::keyword("BURST", "packets", "a quarter of RATE", "how many may come at once"),
    Arg::keyword(
        "BUNDLE_IDLE",
        "time",
        "10s",
        "a bundle that nothing is said of for so long is discarded; 0 never",
    ),
    Arg::keyword(
        "STATE",
        "file name",
        "none",
        "a file that flows, groups, meters and settings are read from at first, and kept in",
    ),
    Arg::keyword(
        "USERS",
        "users",
        "none",
        "users of this machine whose programs may control the switch without TLS, by name or number, \
         in addition to root and the user the switch runs as",
    ),
    Arg::keyword(
        "INSECURE",
        "boolean",
        "false",
        "whether every peer that reaches a listener controls the switch, without TLS too",
    ),
    Arg::keyword("KEY", "file name", "none", "the private key for TLS, in PEM"),
    Arg::keyword("CERTIFICATE", "file name", "none", "the certificate of the switch, in PEM"),
    Arg::keyword("AUTHORITIES", "file name", "none", "CA certificates for controllers, in PEM"),
];

pub(crate) const CLASS: Class = Class {
    name: "OpenFlow",
    family: FAMILY,
    summary: "a flow switch's channel to its controllers",
    description: "Controllers are connected to again and again, with a pause of one second that doubles up to \
        `BACKOFF`; or they come to an address or a UNIX socket. They \
        speak OpenFlow 1.0, 1.3, 1.4 or 1.5, with the extensions that `ovs-ofctl` uses, over TCP, TLS or \
        UNIX sockets. With TLS both sides show certificates, each of an authority the other trusts; names in \
        them are not looked at, as with Open vSwitch. A port for IPv6 is written `[::1]:6653`; without a \
        port it is 6653.\n\n\
        There may be several, with roles: who becomes the master makes the one before a slave. \
        Each has a thread, so one that floods, stalls or does not read is no harm to the others or to packets. \
        Who came by itself hears of packets, ports and flows only after it has set how much of a packet it \
        wants, as `ovs-ofctl monitor SWITCH 65535` does: `ovs-ofctl` asks one thing and goes.\n\n\
        Without TLS only programs of root, of the user the switch runs as, and of `USERS` control it. The kernel \
        reports the user of the other end, for UNIX sockets and for TCP within this machine. Other users and \
        other machines are refused at `ptcp:` and `punix:`; a connection of `unix:PATH` or `tcp:` to another \
        user's listener on this machine is closed. Other machines connect to `pssl:`, or to any listener with \
        `INSECURE`. `tcp:HOST` to another machine trusts its address.\n\n\
        Each listener has at most 64 controllers, 16 of one user or address, and 8 places only for root and the \
        user the switch runs as. 32 connections may be without a hello, 8 of one user or address, for 10 \
        seconds; above that, the source with the most loses its oldest.\n\n\
        With `STATE` the switch has after a restart what it had before: flows, groups, meters, and how tables and \
        ports are set; counters and ages begin anew. A change that was answered by a barrier is on disk within a \
        second, in a journal beside the file (`.journal.` and a number); the file is written anew when the journal has \
        grown, when nothing has changed for a second, and when the program ends. Where it is there, a `FILE` of the switch is not read.\n\n\
        When the configuration is replaced by one in which it is the same, connections stay.",
    ports: "0/0",
    args: &ARGS,
    handlers: &[
        Handler::read(
            "controllers",
            "who is connected, a line each: place, address, version or -, and role",
        ),
        Handler::read(
            "places",
            "each place, how many connections there were, messages that were dropped as a controller did \
             not read, and why the last connection ended, was refused or was not made",
        ),
        Handler::read("state", "why `STATE` could not be written"),
        Handler::count("dropped", "messages that were dropped as a controller did not read"),
        Handler::count("over_rate", "packets for controllers over `RATE`"),
        Handler::count("lost", "packets of controllers that no worker took in time"),
        Handler::count(
            "untold",
            "packets, ends of flows and changes of ports that no controller was told, as too much happened at \
             once",
        ),
    ],
    role: Role::Information,
    cost: "Nothing per packet. Each controller has a thread that sleeps while nothing is said, but not in \
        the 0.2 ms behind an answer to one that has just asked again that soon; a change of the tables \
        takes microseconds and no time of workers.",
    example: "OpenFlow(s, ptcp:0:127.0.0.1); \
        s :: FlowSwitch(TABLES 2); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard;",
    make: |make| match OpenFlow::new(make) {
        Some(channel) => Box::new(channel),
        None => Box::new(Inert),
    },
    ..Class::here()
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    switch: String,
    options: AgentOptions,
}

struct OpenFlow {
    settings: Settings,
    agent: Option<Agent>,
    /// Whether there was one of its name before, which is to end first.
    replaces: bool,
    /// The last error at the start.
    said: String,
}

impl Settings {
    fn new(make: &mut ElementBuilder<'_>) -> Option<Settings> {
        let switch =
            make.element_of("SWITCH", "FlowSwitch", |class| class.name == flow_switch::CLASS.name);
        let mut options = AgentOptions::default();
        let places = make.rest();
        if places.is_empty() {
            make.error("CONTROLLER: need one at least, such as tcp:HOST or ptcp:");
        }
        for place in places {
            match unquoted(&place).parse::<Target>() {
                Ok(target) => options.targets.push(target),
                Err(error) => make.error_at(error.to_string(), &place, None, None),
            }
        }
        if let Some(Text(text)) = make.get("VERSIONS") {
            options.versions.clear();
            for word in words(&unquoted(&text)) {
                match Version::ALL.into_iter().find(|version| version.to_string() == word) {
                    Some(version) => options.versions.push(version),
                    None => {
                        make.error(format!("VERSIONS: no {word}; there are 1.0, 1.3, 1.4, 1.5"));
                    }
                }
            }
            if options.versions.is_empty() {
                make.error("VERSIONS: need one at least");
            }
        }
        if let Some(Keyword(mode)) = make.get("FAIL") {
            match mode.as_str() {
                "secure" => options.fail_mode = FailMode::Secure,
                "standalone" => options.fail_mode = FailMode::Standalone,
                _ => make.error("FAIL: secure or standalone"),
            }
        }
        options.probe_interval = make.or("PROBE", options.probe_interval);
        options.backoff.1 = make.or("BACKOFF", options.backoff.1).max(Duration::from_millis(1));
        options.backoff.0 = options.backoff.0.min(options.backoff.1);
        if let Some(per_second) = make.get::<u32>("RATE") {
            let burst = make.or("BURST", per_second.div_ceil(4));
            options.packet_rate = Some(PacketRate { per_second, burst });
        } else if make.is_given("BURST") {
            make.error("BURST: without RATE");
        }
        options.bundle_idle = make.or("BUNDLE_IDLE", options.bundle_idle);
        options.trust.any_peer = make.or("INSECURE", false);
        if let Some(Text(text)) = make.get("USERS") {
            for word in words(&unquoted(&text)) {
                match user_number(word) {
                    Ok(Some(user)) => options.trust.users.push(user),
                    Ok(None) => make.error(format!("USERS: no user {word} in /etc/passwd")),
                    Err(error) => make.error(format!("USERS: /etc/passwd: {error}")),
                }
            }
        }
        let mut file = |name: &str| make.get(name).map(|Filename(path)| path);
        options.state = file("STATE");
        let files = [file("KEY"), file("CERTIFICATE"), file("AUTHORITIES")];
        options.credentials = credentials(make, files, &options.targets);
        let ElementRef(at) = switch?;
        Some(Settings { switch: make.plan().elements[at].name.clone(), options })
    }
}

/// Returns all files for TLS, or none where no target needs it.
fn credentials(
    make: &mut ElementBuilder<'_>,
    files: [Option<PathBuf>; 3],
    targets: &[Target],
) -> Option<Credentials> {
    let given = files.iter().flatten().count();
    if let [Some(key), Some(certificate), Some(authorities)] = files {
        return Some(Credentials { key, certificate, authorities });
    }
    let secure = targets.iter().find(|target| target.is_secure());
    if let Some(target) = secure {
        make.error(format!("{target} needs KEY, CERTIFICATE and AUTHORITIES"));
    } else if given > 0 {
        make.error("KEY, CERTIFICATE and AUTHORITIES are given together");
    }
    None
}

impl OpenFlow {
    fn new(make: &mut ElementBuilder<'_>) -> Option<OpenFlow> {
        let replaces = make.predecessor().is_some();
        let settings = Settings::new(make)?;
        switches::control(make.world, &settings.switch);
        if settings.options.state.as_ref().is_some_and(|file| file.exists()) {
            switches::restore(make.world, &settings.switch);
        }
        Some(OpenFlow { settings, agent: None, replaces, said: String::new() })
    }

    /// Starts the agent, or returns the reason against it.
    fn start(&mut self, cx: &Context) -> Result<(), String> {
        let handle = switches::find(cx.world(), &self.settings.switch);
        let handle = handle.ok_or("the switch has not been made")?;
        let time = clock_gettime(ClockId::Monotonic);
        let monotonic = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let clock_offset = cx.steady().wrapping_sub(monotonic);
        let options = AgentOptions { clock_offset, ..self.settings.options.clone() };
        let agent = Agent::start(handle.switch(), options);
        self.agent = Some(agent.map_err(|error| cx.world().failed(error))?);
        Ok(())
    }
}

impl Element for OpenFlow {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if !self.replaces {
            return self.start(cx);
        }
        // A port can be listened at once: the one before has it until it hands over.
        cx.set_timer(LOOK, cx.steady());
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<OpenFlow>() else { return };
        let agent = old.agent.take();
        if old.settings == self.settings {
            self.agent = agent;
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let handle = switches::find(cx.world(), &self.settings.switch);
        if handle.as_ref().is_some_and(|handle| handle.is_awaited()) {
            // The switch is on a worker that has not changed over yet.
            cx.set_timer(LOOK, cx.steady() + WAIT_TIME);
            return;
        }
        let agent = self.agent.as_ref().map(Agent::switch);
        if handle.zip(agent).is_some_and(|(handle, switch)| Arc::ptr_eq(&handle.switch(), switch)) {
            return;
        }
        self.agent = None;
        if let Err(said) = self.start(cx) {
            // The process that has the port may go.
            cx.set_timer(LOOK, cx.steady() + LOOK_TIME);
            if said != self.said {
                cx.console().report(&format!("{} :: OpenFlow: {said}\n", cx.name()));
                self.said = said;
            }
        }
    }

    fn close(&mut self, cx: &mut Context) {
        let Some(mut agent) = self.agent.take() else { return };
        agent.stop();
        if let Some(problem) = agent.status().state_problem {
            let text = format!("{} :: OpenFlow: the state is not kept: {problem}\n", cx.name());
            cx.console().report(&text);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let Some(agent) = &self.agent else { return Ok(String::new()) };
        let status = agent.status();
        let mut text = String::new();
        match handler {
            "controllers" => {
                for target in &status.targets {
                    for controller in &target.controllers {
                        let version = controller.version.map(|version| version.to_string());
                        let role = match controller.role {
                            ControllerRole::Master => "master",
                            ControllerRole::Slave => "slave",
                            ControllerRole::Equal | ControllerRole::NoChange => "equal",
                        };
                        let version = version.as_deref().unwrap_or("-");
                        let (place, address) = (&target.target, &controller.address);
                        let _fits = writeln!(text, "{place} {address} {version} {role}");
                    }
                }
            }
            "places" => {
                for target in &status.targets {
                    let (place, error) = (&target.target, target.last_error.as_deref());
                    let (connections, dropped) = (target.connections, target.dropped);
                    let error = error.unwrap_or("-");
                    let _fits = writeln!(text, "{place} {connections} {dropped} {error}");
                }
            }
            "state" => {
                if let Some(problem) = &status.state_problem {
                    let _fits = writeln!(text, "{problem}");
                }
            }
            "dropped" => {
                let dropped = status.targets.iter().map(|target| target.dropped);
                text = dropped.sum::<u64>().to_string();
            }
            "over_rate" => text = status.unsent_packets.to_string(),
            "lost" => text = status.lost_packets.to_string(),
            "untold" => text = status.lost_events.to_string(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
