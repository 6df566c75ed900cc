//! `Socket`, `FromSocket`, `ToSocket`, `McastSocket`, `RawSocket`, `FromRawSocket`, `ToRawSocket`:
//! packets over the sockets of this machine's network stack.

mod access;
mod carrier;
mod kinds;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddrV4};

use linerate_graph::{
    Arg, Class, DropReason, ElementBuilder, Right, Role, Signals, TcpPort, UdpPort,
    argument_keyword, parse_integer,
};
use rustix::net::{SocketAddrAny, SocketAddrUnix};

use self::{
    access::Access,
    carrier::{Carrier, Reason, Settings},
    kinds::{Address, General, Multicast, Raw},
};
use super::FAMILY;

/// Protocol numbers of IP.
const ICMP: u32 = 1;
const TCP: u32 = 6;
const UDP: u32 = 17;
const GRE: u32 = 47;
/// A stand-in after an error.
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
const SNAPLEN_DEFAULT: usize = 2048;
const SNAPLEN: Arg = Arg::keyword("SNAPLEN", "bytes", "2048", "longest packet received");
const HEADROOM: Arg = Arg::keyword("HEADROOM", "bytes", "", "has no effect");
const TIMESTAMP: Arg =
    Arg::keyword("TIMESTAMP", "bool", "true", "whether packets carry the time of reception");
const RCVBUF: Arg = Arg::keyword("RCVBUF", "bytes", "the system's", "the kernel's receive buffer");
const SNDBUF: Arg = Arg::keyword("SNDBUF", "bytes", "the system's", "the kernel's send buffer");

pub(super) const SOCKET: Class = Class {
    name: "Socket",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "exchanges packets with another program over a socket",
    description: "`Socket(TCP, ADDR, PORT)`, `Socket(UDP, ADDR, PORT [, LOCAL_ADDR, LOCAL_PORT])`, \
        `Socket(UNIX, FILENAME [, LOCAL_FILENAME])`, `Socket(UNIX_DGRAM, ...)`. A server, which \
        listens at the address, unless `CLIENT true` or there is no output: then it connects to \
        it. A TCP or UNIX server has one connection at a time; the others wait. A datagram server \
        sends to whoever it last heard from. A UDP client with address 0.0.0.0 sends to the \
        destination annotation.\n\n\
        A TCP or UDP server takes connections and packets of everybody that `ALLOW` has a route for, \
        and of everybody that `DENY` has none for. Both are route tables like RadixIPLookup.\n\n\
        Packets the peer has no place for wait, up to a frame of them, and sources that ask \
        whether there is room stop meanwhile. On a stream packets have no bounds.",
    ports: "0-1/0-1",
    processing: "a/h",
    flow: "x/y",
    args: &[
        Arg::required("TYPE", "TCP, UDP, UNIX or UNIX_DGRAM", "the kind of socket"),
        Arg::rest("ADDRESS", "addresses, ports or files", "the address, then the local address"),
        SNAPLEN,
        HEADROOM,
        TIMESTAMP,
        RCVBUF,
        SNDBUF,
        Arg::keyword("NODELAY", "bool", "true", "whether TCP sends small packets at once"),
        Arg::keyword("CLIENT", "bool", "whether it has no output", "whether it connects"),
        Arg::keyword("VERBOSE", "bool", "false", "whether connections are reported"),
        Arg::keyword("PROPER", "bool", "false", "has no effect"),
        Arg::keyword("ALLOW", "element", "", "a table with routes for those whom a server takes"),
        Arg::keyword("DENY", "element", "", "a table with routes for those it does not"),
    ],
    drops: Reason::REASONS,
    signals: Signals { empty: false, full: true },
    role: Role::Io,
    external_input: true,
    cost: "A system call and a copy per packet, each way.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Socket(UDP, 127.0.0.1, 9);",
    make: |make| Box::new(Carrier::new(make, socket)),
    ..Class::here()
};

pub(super) const FROM_SOCKET: Class = Class {
    name: "FromSocket",
    summary: "receives packets from another program over a socket",
    description: "A Socket by an older name, whose input, if it has one, is pushed to. It is said \
        that it is old.",
    processing: "h/h",
    example: "FromSocket(UDP, 127.0.0.1, 41931) -> Discard; DriverManager(wait 10ms, stop);",
    make: |make| Box::new(Carrier::new(make, old_socket)),
    ..SOCKET
};

pub(super) const TO_SOCKET: Class = Class {
    name: "ToSocket",
    summary: "sends packets to another program over a socket",
    description: "A Socket by an older name, which pulls. It is said that it is old.",
    processing: "l/h",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> ToSocket(UDP, 127.0.0.1, 9);",
    make: |make| Box::new(Carrier::new(make, old_socket)),
    ..SOCKET
};

pub(super) const MCAST_SOCKET: Class = Class {
    name: "McastSocket",
    summary: "exchanges packets with a multicast group over UDP",
    description: "Sends packets to group `MCASTIP`, port `MCASTPORT`, and emits those that are \
        sent to it. With `SOURCEIP` packets are sent from that address and received on its \
        interface, and its own are left out.",
    args: &[
        Arg::required("MCASTIP", "IP address", "the group"),
        Arg::required("MCASTPORT", "port", "the group's port"),
        Arg::optional("SOURCEIP", "IP address", "the system's choice", "the address to send from"),
        Arg::optional("SOURCEPORT", "port", "any", "the port to send from"),
        SNAPLEN,
        HEADROOM,
        TIMESTAMP,
        RCVBUF,
        SNDBUF,
        Arg::keyword("LOOP", "bool", "true", "whether this machine receives what is sent"),
    ],
    example: "InfiniteSource(LIMIT 10, STOP true) -> McastSocket(239.0.0.1, 1234, 127.0.0.1);",
    make: |make| Box::new(Carrier::new(make, multicast)),
    ..SOCKET
};

pub(super) const RAW_SOCKET: Class = Class {
    name: "RawSocket",
    summary: "exchanges IP packets with the network through a raw socket",
    description: "Emits IPv4 packets of protocol `TYPE` (TCP, UDP, ICMP, GRE or a number) that \
        this machine receives, and sends those it pulls, whose IP header must be complete. \
        `PORT` reserves a TCP or UDP port so that nobody else answers.",
    processing: "l/h",
    args: &[
        Arg::required("TYPE", "protocol", "the IP protocol"),
        Arg::optional("PORT", "port", "none", "a port to reserve"),
        SNAPLEN,
        HEADROOM,
    ],
    example: "RawSocket(ICMP) -> Discard; DriverManager(wait 10ms, stop);",
    make: |make| Box::new(Carrier::new(make, raw)),
    ..SOCKET
};

pub(super) const FROM_RAW_SOCKET: Class = Class {
    name: "FromRawSocket",
    summary: "receives IP packets from the network through a raw socket",
    description: "A RawSocket by an older name, whose input, if it has one, is pushed to. It is \
        said that it is old.",
    processing: "h/h",
    example: "FromRawSocket(ICMP) -> Discard; DriverManager(wait 10ms, stop);",
    make: |make| Box::new(Carrier::new(make, old_raw)),
    ..RAW_SOCKET
};

pub(super) const TO_RAW_SOCKET: Class = Class {
    name: "ToRawSocket",
    summary: "sends IP packets to the network through a raw socket",
    description: "A RawSocket by an older name, which pulls. It is said that it is old.",
    example: "Idle -> ToRawSocket(UDP, 41932); DriverManager(wait 10ms, stop);",
    make: |make| Box::new(Carrier::new(make, old_raw)),
    ..RAW_SOCKET
};

fn settings(make: &mut ElementBuilder<'_>) -> Settings {
    make.or::<usize>("HEADROOM", 0);
    Settings {
        snaplen: make.or("SNAPLEN", SNAPLEN_DEFAULT).max(1),
        timestamp: true,
        verbose: false,
        raw: false,
        access: Access::default(),
        outputs: make.outputs() > 0,
        pulls: make.input_is_pull(0),
        burst: make.world.frame_limit,
    }
}

/// A port by number or by a name that `PortInfo` gives.
fn port(make: &ElementBuilder<'_>, protocol: u32, text: &str) -> Result<u16, String> {
    match protocol {
        TCP => make.parse(text).map(|TcpPort(port)| port),
        _ => make.parse(text).map(|UdpPort(port)| port),
    }
}

fn socket(make: &mut ElementBuilder<'_>) -> (General, Settings) {
    let kind = make.need::<String>("TYPE").to_uppercase();
    let mut settings = settings(make);
    settings.timestamp = make.or("TIMESTAMP", true);
    settings.verbose = make.or("VERBOSE", false);
    make.or("PROPER", false);
    settings.access = Access::new(make);
    let client = make.or("CLIENT", !settings.outputs);
    let (stream, addresses) = match kind.as_str() {
        "TCP" => (true, internet(make, TCP)),
        "UDP" => (false, internet(make, UDP)),
        "UNIX" => (true, files(make)),
        "UNIX_DGRAM" => (false, files(make)),
        _ => {
            if make.is_given("TYPE") {
                make.error(format!("unknown socket type `{kind}'"));
            }
            (false, None)
        }
    };
    let (remote, local) = addresses.unwrap_or_else(|| (Address::internet(NOWHERE), None));
    let general = General {
        stream,
        client,
        remote,
        local,
        nodelay: make.or("NODELAY", true),
        receive_buffer: make.get("RCVBUF"),
        send_buffer: make.get("SNDBUF"),
    };
    (general, settings)
}

/// Reads the arguments of an older name, and reports its use as Click does.
fn old_socket(make: &mut ElementBuilder<'_>) -> (General, Settings) {
    report_old(make, SOCKET.name);
    socket(make)
}

/// Arguments of a raw socket by its older class name, which is reported as deprecated.
fn old_raw(make: &mut ElementBuilder<'_>) -> (Raw, Settings) {
    report_old(make, RAW_SOCKET.name);
    raw(make)
}

fn report_old(make: &ElementBuilder<'_>, newer: &str) {
    if make.replica().index == 0 {
        let class = make.plan().elements[make.element()].class.name;
        let text = format!("warning: {class} is deprecated, use {newer} instead\n");
        make.world.console.report(&text);
    }
}

type Addresses = (Address, Option<Address>);

/// The arguments that are no keyword's, of which those there are have been
/// taken.
fn addresses(make: &mut ElementBuilder<'_>) -> Vec<String> {
    let mut words = make.rest();
    words.retain(|word| match argument_keyword(word) {
        Some(keyword) => {
            make.error(format!("{keyword}: unknown argument"));
            false
        }
        None => true,
    });
    words
}

/// The arguments of an internet socket.
fn internet(make: &mut ElementBuilder<'_>, protocol: u32) -> Option<Addresses> {
    let words = addresses(make);
    if words.len() > 4 {
        make.error("too many arguments");
    }
    let mut end = |address: usize, names: [&str; 2], needed: bool| {
        let ip = match words.get(address) {
            None if needed => Err(format!("{}: required argument missing", names[0])),
            None => return None,
            Some(text) => {
                let parsed = make.parse::<Ipv4Addr>(text);
                parsed.map_err(|error| format!("{}: {error}", names[0]))
            }
        };
        let port = match words.get(address + 1) {
            None if needed => Err(format!("{}: required argument missing", names[1])),
            None => Ok(0),
            Some(text) => {
                port(make, protocol, text).map_err(|error| format!("{}: {error}", names[1]))
            }
        };
        match (ip, port) {
            (Ok(ip), Ok(port)) => Some(SocketAddrV4::new(ip, port)),
            (ip, port) => {
                let errors = [ip.err(), port.err()];
                errors.into_iter().flatten().for_each(|error| make.error(error));
                None
            }
        }
    };
    let remote = end(0, ["ADDR", "PORT"], true)?;
    let local = end(2, ["LOCAL_ADDR", "LOCAL_PORT"], false);
    Some((Address::internet(remote), local.filter(|it| it.port() != 0).map(Address::internet)))
}

/// The arguments of a UNIX socket.
fn files(make: &mut ElementBuilder<'_>) -> Option<Addresses> {
    let words = addresses(make);
    if words.is_empty() {
        make.error("FILENAME: required argument missing");
    }
    if words.len() > 2 {
        make.error("too many arguments");
    }
    let mut ends = words.iter().zip(["remote", "local"]).map(|(word, side)| {
        let name = make.parse::<Vec<u8>>(word).unwrap_or_else(|_| word.clone().into_bytes());
        let address = match name.strip_prefix(&[0]) {
            Some(name) => SocketAddrUnix::new_abstract_name(name),
            None => SocketAddrUnix::new(name.as_slice()),
        };
        let shown = String::from_utf8_lossy(&name).into_owned();
        if address.is_err() {
            make.error(format!("{side} filename '{shown}' too long"));
        }
        let path = (name.first() != Some(&0)).then(|| shown.into());
        address.ok().map(|address| Address { address: SocketAddrAny::from(address), path })
    });
    Some((ends.next()??, ends.next().flatten()))
}

fn multicast(make: &mut ElementBuilder<'_>) -> (Multicast, Settings) {
    let mut settings = settings(make);
    settings.timestamp = make.or("TIMESTAMP", true);
    let mut port_of = |name: &str| {
        let linerate_graph::Text(text) = make.get(name)?;
        let found = port(make, UDP, &text);
        found.map_err(|error| make.error(format!("{name}: {error}"))).ok()
    };
    let (group_port, source_port) = (port_of("MCASTPORT"), port_of("SOURCEPORT"));
    if !make.is_given("MCASTPORT") {
        make.error("MCASTPORT: required argument missing");
    }
    if !make.is_given("MCASTIP") {
        make.error("MCASTIP: required argument missing");
    }
    let group = make.or("MCASTIP", Ipv4Addr::UNSPECIFIED);
    let source = make.or("SOURCEIP", Ipv4Addr::UNSPECIFIED);
    let multicast = Multicast {
        group: SocketAddrV4::new(group, group_port.unwrap_or(0)),
        source: SocketAddrV4::new(source, source_port.unwrap_or(0)),
        looped: make.or("LOOP", true),
        receive_buffer: make.get("RCVBUF"),
        send_buffer: make.get("SNDBUF"),
    };
    (multicast, settings)
}

fn raw(make: &mut ElementBuilder<'_>) -> (Raw, Settings) {
    let settings = Settings { raw: true, ..settings(make) };
    let kind: String = make.need("TYPE");
    let protocol = match kind.to_uppercase().as_str() {
        "ICMP" => Some(ICMP),
        "TCP" => Some(TCP),
        "UDP" => Some(UDP),
        "GRE" => Some(GRE),
        text => parse_integer(text).and_then(|it| u8::try_from(it).ok()).map(u32::from),
    };
    if protocol.is_none() {
        make.error("TYPE: invalid number");
    }
    let protocol = protocol.unwrap_or(UDP);
    let reserved = make.get::<linerate_graph::Text>("PORT").and_then(|text| {
        let found = port(make, protocol, &text.0);
        let found = found.map_err(|error| make.error(format!("PORT: {error}"))).ok();
        found.filter(|port| *port != 0 && matches!(protocol, TCP | UDP))
    });
    (Raw { protocol, reserved }, settings)
}
