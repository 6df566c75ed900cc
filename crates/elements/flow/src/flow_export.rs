//! `FlowExport`: exports a flow switch's packets to collectors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, ElementRef, Handler, HandlerError, HandlerResult,
    Inert, Role, Text, lang::config::words, unquoted,
};
use linerate_ofswitch::export::{
    ExportCounts, ExportOptions, Exporter, Interface, IpfixOptions, SflowOptions,
};
use linerate_ofswitch::table::{PortCount, SwitchPort};
use linerate_openflow::wire::{PortConfig, PortState};
use rustix::time::{ClockId, clock_gettime};

use crate::{FAMILY, flow_switch, switches};

/// Default port of collectors (IANA's registry).
const IPFIX_PORT: u16 = 4739;
const SFLOW_PORT: u16 = 6343;

const ARGS: [Arg; 11] = [
    Arg::required("SWITCH", "element", "the `FlowSwitch` whose packets are told of"),
    Arg::keyword("IPFIX", "addresses", "none", "collectors of flow records, as `ADDRESS[:PORT]`"),
    Arg::keyword(
        "SETS",
        "sets",
        "none",
        "collectors of what `sample` actions pick, as `NUMBER=ADDRESS[:PORT]`, several of a number where \
         several get it",
    ),
    Arg::keyword("DOMAIN", "number", "0", "the observation domain of records"),
    Arg::keyword("SAMPLING", "packets", "1", "of so many packets one goes into records"),
    Arg::keyword("IDLE", "time", "15s", "a flow without packets for so long is over"),
    Arg::keyword("ACTIVE", "time", "60s", "a flow that goes on is told of so often"),
    Arg::keyword("SFLOW", "addresses", "none", "collectors of samples, as `ADDRESS[:PORT]`"),
    Arg::keyword(
        "AGENT",
        "address",
        "that which the first of SFLOW is told from",
        "the address that samples say they are of",
    ),
    Arg::keyword("RATE", "packets", "400", "of so many packets one is a sample, by chance"),
    Arg::keyword("POLLING", "time", "30s", "counters of ports are told so often; 0 never"),
];

pub(crate) const CLASS: Class = Class {
    name: "FlowExport",
    family: FAMILY,
    summary: "tells collectors of a flow switch's packets, by IPFIX and sFlow",
    description: "With `IPFIX`, a record is made of each connection: the port it comes in by, tag, addresses, \
        protocol, type of service and ports; packets and bytes, the first and last time, flags of TCP, and the \
        port it goes out by. It is told when no packet has come for `IDLE`, when TCP says that it is over, and every \
        `ACTIVE` while it goes on. Templates come first and every minute. What `sample` actions of flows \
        pick goes to the collectors of their set.\n\n\
        With `SFLOW`, the first 128 bytes of some packets are told, and counters of ports.\n\n\
        All goes by UDP. What cannot be told in time is dropped and counted, so that no packet waits for \
        collectors.",
    ports: "0/0",
    args: &ARGS,
    handlers: &[
        Handler::count("records", "flow records that were sent"),
        Handler::count("samples", "samples of packets that were sent"),
        Handler::count("lost", "records and samples that were dropped"),
        Handler::count("errors", "datagrams that could not be sent"),
    ],
    role: Role::Information,
    cost: "With `IPFIX`, each packet that goes into records is looked up in a table of connections that each \
        worker has, of 16,384 at once and 190 bytes each; of sFlow only samples cost something.",
    example: "FlowExport(s, IPFIX 127.0.0.1, SFLOW 127.0.0.1, RATE 100); \
        s :: FlowSwitch(TABLES 2); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard;",
    make: |make| match FlowExport::new(make) {
        Some(export) => Box::new(export),
        None => Box::new(Inert),
    },
    ..Class::here()
};

struct FlowExport {
    switch: String,
    options: ExportOptions,
    exporter: Option<Arc<Exporter>>,
}

impl FlowExport {
    fn new(make: &mut ElementBuilder<'_>) -> Option<FlowExport> {
        let switch =
            make.element_of("SWITCH", "FlowSwitch", |class| class.name == flow_switch::CLASS.name);
        let collectors = addresses(make, "IPFIX", IPFIX_PORT);
        let sets = sets(make);
        let mut options = ExportOptions::default();
        let defaults = IpfixOptions::default();
        let [domain, sampling] = [("DOMAIN", defaults.domain), ("SAMPLING", defaults.sampling)]
            .map(|(name, value)| make.or(name, value));
        let [idle, active] = [("IDLE", defaults.idle), ("ACTIVE", defaults.active)]
            .map(|(name, value): (_, Duration)| make.or(name, value));
        if !(collectors.is_empty() && sets.is_empty()) {
            if sampling == 0 {
                make.error("SAMPLING: out of range, 1 or more");
            }
            let capacity = defaults.capacity;
            let own = IpfixOptions { collectors, sets, domain, sampling, idle, active, ..defaults };
            options.ipfix = Some(IpfixOptions { capacity, ..own });
        }
        let collectors = addresses(make, "SFLOW", SFLOW_PORT);
        let defaults = SflowOptions::default();
        let rate = make.or("RATE", defaults.rate);
        let polling = make.or("POLLING", defaults.polling);
        let agent = make.get("AGENT").map(|Text(agent)| agent.parse::<IpAddr>());
        if matches!(agent, Some(Err(_))) {
            make.error("AGENT: need an address");
        }
        if !collectors.is_empty() {
            if rate == 0 {
                make.error("RATE: out of range, 1 or more");
            }
            let own = || own_address(collectors[0]).unwrap_or(defaults.agent);
            let agent = agent.and_then(Result::ok).unwrap_or_else(own);
            options.sflow = Some(SflowOptions { collectors, agent, rate, polling, ..defaults });
        }
        if options.ipfix.is_none() && options.sflow.is_none() {
            make.error("need a collector, by IPFIX, SETS or SFLOW");
        }
        let ElementRef(at) = switch?;
        let switch = make.plan().elements[at].name.clone();
        Some(FlowExport { switch, options, exporter: None })
    }

    fn counts(&self) -> ExportCounts {
        self.exporter.as_deref().map(Exporter::counts).unwrap_or_default()
    }
}

/// Addresses of collectors.
fn addresses(make: &mut ElementBuilder<'_>, name: &str, port: u16) -> Vec<SocketAddr> {
    let Some(Text(text)) = make.get(name) else { return Vec::new() };
    let parsed = words(&text).into_iter().map(|word| (word.to_owned(), address(word, port)));
    parsed
        .filter_map(|(word, address)| {
            if address.is_none() {
                make.error(format!("{name}: {word} is no address"));
            }
            address
        })
        .collect()
}

/// Collectors of sets.
fn sets(make: &mut ElementBuilder<'_>) -> Vec<(u32, Vec<SocketAddr>)> {
    let mut sets: Vec<(u32, Vec<SocketAddr>)> = Vec::new();
    let Some(Text(text)) = make.get("SETS") else { return sets };
    for word in words(&text) {
        let parts = word.split_once('=');
        let parsed = parts
            .and_then(|(number, place)| Some((number.parse().ok()?, address(place, IPFIX_PORT)?)));
        match parsed {
            // That of all packets is `IPFIX`.
            Some((0, _)) => make.error("SETS: numbers are 1 and more"),
            Some((number, place)) => match sets.iter_mut().find(|(other, _)| *other == number) {
                Some((_, places)) => places.push(place),
                None => sets.push((number, vec![place])),
            },
            None => make.error(format!("SETS: {word} is not NUMBER=ADDRESS[:PORT]")),
        }
    }
    sets
}

/// An address, with a port or without.
fn address(word: &str, port: u16) -> Option<SocketAddr> {
    let word = unquoted(word);
    let bare = word.trim_start_matches('[').trim_end_matches(']');
    let alone = bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, port));
    word.parse().or(alone).ok()
}

/// The address that the kernel has datagrams to a collector come from.
fn own_address(collector: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match collector {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(collector)?;
    Ok(socket.local_addr()?.ip())
}

/// A port, as counter samples have it.
fn interface(port: &Arc<SwitchPort>) -> Interface {
    let count = |count| port.counters.get(count);
    Interface {
        number: port.number().0,
        speed: 0,
        enabled: !port.port.config.contains(PortConfig::DOWN),
        up: port.port.state.0 & PortState::LINK_DOWN.0 == 0,
        received: count(PortCount::Received),
        received_bytes: count(PortCount::ReceivedBytes),
        received_dropped: count(PortCount::ReceivedDropped),
        received_errors: count(PortCount::ReceivedErrors),
        sent: count(PortCount::Sent),
        sent_bytes: count(PortCount::SentBytes),
        sent_dropped: count(PortCount::SentDropped),
    }
}

impl Element for FlowExport {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let handle = switches::find(cx.world(), &self.switch);
        let handle = handle.ok_or("the switch has not been made")?;
        let time = clock_gettime(ClockId::Monotonic);
        let monotonic = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let clock_offset = cx.steady().wrapping_sub(monotonic);
        let options = ExportOptions { clock_offset, ..self.options.clone() };
        // It may be another switch later, and must not keep this one from being dropped.
        let switch = Arc::downgrade(&handle);
        let interfaces = move || {
            let switch = switch.upgrade().map(|handle| handle.switch());
            switch.map_or(Vec::new(), |switch| switch.snapshot().ports().map(interface).collect())
        };
        let exporter = Exporter::start(options, interfaces).map_err(|error| error.to_string())?;
        let exporter = Arc::new(exporter);
        handle.export(Some(Arc::clone(&exporter)));
        self.exporter = Some(exporter);
        Ok(())
    }

    fn close(&mut self, cx: &mut Context) {
        let own = self.exporter.take();
        // Of a replaced configuration, the switch may have another by now.
        if let Some(handle) = switches::find(cx.world(), &self.switch)
            && let (Some(own), Some(other)) = (own, handle.exporter())
            && Arc::ptr_eq(&own, &other)
        {
            handle.export(None);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let counts = self.counts();
        let count = match handler {
            "records" => counts.records,
            "samples" => counts.samples,
            "lost" => counts.lost_records + counts.lost_samples,
            "errors" => counts.errors,
            _ => return Err(HandlerError::missing(handler)),
        };
        Ok(count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use crate::testing::Run;

    /// IPv4 and UDP to a port, with 8 bytes.
    fn udp(port: u16) -> String {
        format!(
            "020000000002020000000001\
             08004500001c0000000040110000 0a0000010a00000204d2{port:04x}00080000"
        )
        .replace(' ', "")
    }

    /// Returns packets and bytes in data records of IPv4 in a message: their places are those of
    /// the template.
    fn records(message: &[u8]) -> Vec<(u64, u64, u32, u32)> {
        let number = |at: usize, length: usize| {
            message[at..at + length].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (mut at, mut found) = (16, Vec::new());
        while at + 4 <= message.len() {
            let (set, end) = (number(at, 2), at + number(at + 2, 2) as usize);
            let mut record = at + 4;
            while set == 256 && record < end {
                let ports = [record + 42, record + 46].map(|at| number(at, 4) as u32);
                found.push((number(record + 16, 8), number(record + 24, 8), ports[0], ports[1]));
                record += 83 + 8 + 5 + 6;
            }
            at = end;
        }
        found
    }

    #[test]
    fn collectors_get_the_records_of_flows() {
        for frame_limit in [1, 7, 256] {
            let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
            for socket in &sockets {
                let timeout = Some(Duration::from_secs(10));
                socket.set_read_timeout(timeout).expect("a socket");
            }
            let [all, set, samples] =
                sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
            let feed: Vec<_> = (0..60).map(|nth| udp(50 + nth % 3)).collect();
            let mut run = Run::new(&format!(
                "s :: FlowSwitch(TABLES 2); Packets({}) -> s; Idle -> [1] s; Idle -> [2] s;
                 s [0] -> Discard; s [1] -> Discard; s [2] -> Discard;
                 e :: FlowExport(s, IPFIX {all}, SETS 3={set}, SFLOW {samples}, RATE 1, POLLING 0);",
                feed.join(" ")
            ))
            .frame_limit(frame_limit);
            run.write(
                "s.add_flow",
                "udp,tp_dst=50,actions=output:2\n\
                 udp,tp_dst=51,actions=sample(probability=65535,collector_set_id=3),set_field:7->udp_dst,\
                 output:3,output:2\n",
            )
            .expect("flows");
            run.run();
            drop(run);
            let received = |socket: &UdpSocket, wanted: u64| {
                let (mut found, mut packets, mut buffer) = (Vec::new(), 0, [0; 2000]);
                while packets < wanted {
                    let length = socket.recv(&mut buffer).expect("it is told");
                    let records = records(&buffer[..length]);
                    packets += records.iter().map(|record| record.0).sum::<u64>();
                    found.extend(records);
                }
                found.sort_unstable_by_key(|record| record.3);
                found
            };
            // Packets, bytes of IP, port in and first port out.
            let found = received(&sockets[0], 60);
            assert_eq!(found, [(20, 560, 1, 0), (20, 560, 1, 2), (20, 560, 1, 3)]);
            assert_eq!(received(&sockets[1], 20), [(20, 560, 1, 3)]);
            let (mut count, mut buffer) = (0, [0; 2000]);
            while count < 60 {
                let length = sockets[2].recv(&mut buffer).expect("it is told");
                assert!(length > 28);
                count += u32::from_be_bytes([buffer[24], buffer[25], buffer[26], buffer[27]]);
            }
            assert_eq!(count, 60);
        }
    }

    #[test]
    fn arguments_are_checked() {
        for (config, error) in [
            ("", "need a collector"),
            ("IPFIX nobody", "IPFIX: nobody is no address"),
            ("SETS 3:127.0.0.1", "SETS: 3:127.0.0.1 is not NUMBER=ADDRESS[:PORT]"),
            ("SETS 0=127.0.0.1", "SETS: numbers are 1 and more"),
            ("IPFIX 127.0.0.1, SAMPLING 0", "SAMPLING: out of range"),
            ("SFLOW 127.0.0.1, RATE 0", "RATE: out of range"),
            ("SFLOW 127.0.0.1, AGENT me", "AGENT: need an address"),
        ] {
            let comma = if config.is_empty() { "" } else { ", " };
            let text = format!(
                "FlowExport(s{comma}{config}); s :: FlowSwitch; Idle -> s -> Discard;
                 Idle -> [1] s [1] -> Discard;"
            );
            let found = Run::errors(&text);
            assert!(found.contains(error), "{config}: {found}");
        }
    }
}
