//! Arguments that describe TCP connections: the keys of a profile's, and the options of a sink's
//! answers.

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use clap::Args;
use linerate_lab::{
    Values, Variation,
    connections::{Group, Hosts, NextHop, REQUEST_MIN, Timeouts, largest_segment},
};
use linerate_packet::{MacAddr, build::Tagging, vlan::Tci};
use linerate_port::PortInfo;

use super::traffic::{Bytes, parse_bytes};
use crate::{
    exit::UsageError,
    ranges::{Addresses, parse_numbers},
    units::{grouped, parse_count, parse_duration, parse_size, short, split_unit, whole},
};

/// Data of a TCP segment over IPv4 on an Ethernet with an MTU of 1500.
const MSS: usize = 1460;
/// Bytes by which the header of IPv6 is longer.
const LONGER: usize = 20;
/// Ethernet address of a client whose port has none.
const CLIENT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// Ethernet address of a server whose port has none.
const SERVER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// TCP connections, as a client opens them.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connections {
    /// Connections begun per second: max (as many as may be open), 500, 2.5k
    #[arg(long, value_name = "RATE", default_value = "max")]
    rate: PerSecond,

    /// Time in which the rate rises from nothing
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    ramp: Duration,

    /// Connections open at a time, at most
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = parse_count)]
    concurrent: u64,

    /// Bytes of a request [default: 100, or the payload's]
    #[arg(long, value_name = "SIZE", value_parser = parse_length)]
    request: Option<u32>,

    /// Bytes of the answer to it
    #[arg(long, value_name = "SIZE", default_value = "1000", value_parser = parse_length)]
    response: u32,

    /// Requests in each connection, one behind the answer to the other
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_at_least_one)]
    requests: u64,

    /// Pause behind each answer
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    think: Duration,

    /// Content of requests, for servers other than a sink: text, or bytes as in 0xdeadbeef
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    payload: Option<Bytes>,

    /// Over IPv6, between the default test addresses
    #[arg(long)]
    ipv6: bool,

    /// Addresses of the client: one, A-B, or a prefix [default: 198.18.0.1]
    #[arg(long, value_name = "ADDRESSES")]
    src: Option<Addresses>,

    /// Addresses of the server: one, A-B, or a prefix [default: 198.19.0.1]
    #[arg(long, value_name = "ADDRESSES")]
    dst: Option<Addresses>,

    /// Ports of the client: one or A-B
    #[arg(long, value_name = "PORTS", default_value = "1024-65535", value_parser = parse_numbers)]
    sport: Values,

    /// Ports of the server: one or A-B
    #[arg(long, value_name = "PORTS", default_value = "80", value_parser = parse_numbers)]
    dport: Values,

    /// Ethernet address of the client [default: the port's]
    #[arg(long, value_name = "MAC")]
    src_mac: Option<MacAddr>,

    /// Ethernet address to send to [default: asked for by ARP or neighbour discovery]
    #[arg(long, value_name = "MAC", conflicts_with = "gateway")]
    dst_mac: Option<MacAddr>,

    /// Address to resolve by ARP or neighbour discovery [default: the first of the server's addresses]
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<IpAddr>,

    /// VLAN of an 802.1Q tag
    #[arg(long, value_name = "VLAN", value_parser = whole(0u16..=4094))]
    vlan: Option<u16>,

    /// Bytes of data in a segment, at most [default: 1460, or what the port carries]
    #[arg(long, value_name = "BYTES", value_parser = whole(64u16..=u16::MAX))]
    mss: Option<u16>,

    /// How long an acknowledgement is waited for, before it is sent again, at first
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    retransmit: Duration,

    /// How often a segment is sent again, waiting twice as long each time
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = whole(0u8..=16))]
    retries: u8,

    /// How long the server may be silent when it is its turn
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
}

impl Connections {
    /// The connections that a client opens from a port, whose frames have `room` bytes, without
    /// FCS.
    pub(crate) fn group(&self, port: &PortInfo, room: usize) -> Result<Group, UsageError> {
        let usage = |reason: &str| UsageError(reason.into());
        let given = [self.src, self.dst].into_iter().flatten().map(|addresses| addresses.ipv6);
        let gateway = self.gateway.map(|gateway| gateway.is_ipv6());
        let mut families = given.chain(gateway);
        let ipv6 = self.ipv6 || families.clone().any(|ipv6| ipv6);
        if families.any(|family| family != ipv6) {
            return Err(usage("src, dst and gateway must be all IPv4 or all IPv6 addresses"));
        }
        let default = Variation::none(ipv6);
        let hosts = |given: Option<Addresses>, default| Hosts {
            ipv6,
            values: given.map_or(default, |addresses| addresses.values),
        };
        let sources = hosts(self.src, default.sources);
        let destinations = hosts(self.dst, default.destinations);
        let counts = [sources.values, destinations.values, self.sport, self.dport];
        let possible = counts.iter().fold(1u64, |all, one| all.saturating_mul(one.count()));
        if possible < self.concurrent {
            return Err(UsageError(format!(
                "these addresses and ports make no more than {} connections at a time: give more \
                 of them in src or sport, or less in concurrent",
                grouped(possible)
            )));
        }
        if self.concurrent == 0 {
            return Err(usage("concurrent is 0: no connection may be open"));
        }
        if self.rate.0.is_none() && !self.ramp.is_zero() {
            return Err(usage("a ramp rises to a rate: give a rate, too"));
        }
        let payload = self.payload.clone().map_or(Vec::new(), |bytes| bytes.0);
        if self.payload.is_some() && payload.is_empty() {
            return Err(usage("a payload has at least one byte"));
        }
        let request = match (self.request, payload.len()) {
            (Some(request), _) => request,
            (None, 0) => 100,
            (None, length) => length as u32,
        };
        let least = if payload.is_empty() { REQUEST_MIN } else { 1 };
        if request < least {
            return Err(UsageError(format!(
                "a request of {request} bytes is too short: a sink needs {REQUEST_MIN} to know \
                 what to answer; with a payload, for other servers, it may be shorter"
            )));
        }
        let tags = match self.vlan {
            None => Tagging::Untagged,
            Some(id) => Tagging::Single(Tci::new(0, false, id)),
        };
        let next_hop = match (self.dst_mac, self.gateway) {
            (Some(mac), _) => NextHop::Mac(mac),
            (None, Some(gateway)) => NextHop::Address(gateway),
            (None, None) => NextHop::Address(destinations.at(0)),
        };
        Ok(Group {
            sources,
            destinations,
            source_ports: self.sport,
            destination_ports: self.dport,
            mac: self.src_mac.or(port.mac).unwrap_or(CLIENT),
            next_hop,
            tags,
            rate: self.rate.0,
            ramp: self.ramp,
            concurrent: self.concurrent,
            request,
            response: self.response,
            requests: self.requests,
            think: self.think,
            mss: self.mss(largest_segment(room, ipv6, tags), ipv6)?,
            timeouts: Timeouts {
                retransmit: self.retransmit,
                retries: self.retries,
                timeout: self.timeout,
            },
            payload,
        })
    }

    /// The largest segment, of which frames have no room for more than `most`.
    fn mss(&self, most: usize, ipv6: bool) -> Result<u16, UsageError> {
        let usual = if ipv6 { MSS - LONGER } else { MSS };
        let wanted = self.mss.map_or(usual.min(most), usize::from);
        if wanted > most || wanted == 0 {
            return Err(UsageError(format!(
                "segments of {wanted} bytes do not fit this port's frames, which carry {most}: \
                 choose a smaller mss, or raise the interface's MTU or --buffer-size"
            )));
        }
        Ok(wanted as u16)
    }

    /// The connections that a client opens, for people.
    pub(crate) fn describe(group: &Group) -> String {
        let rate = group.rate.map_or("as many as may be open".into(), |rate| {
            let ramp = if group.ramp.is_zero() {
                String::new()
            } else {
                format!(", reached in {:?}", group.ramp)
            };
            format!("{} per second{ramp}", short(rate))
        });
        let plural = if group.requests == 1 { "" } else { "s" };
        format!(
            "{rate}, {} at a time; {} request{plural} of {} bytes, answers of {}",
            grouped(group.concurrent),
            grouped(group.requests),
            grouped(group.request.into()),
            grouped(group.response.into()),
        )
    }
}

/// Connections per second; as many as may be open when there is none.
#[derive(Debug, Clone, Copy)]
struct PerSecond(Option<f64>);

impl FromStr for PerSecond {
    type Err = String;

    fn from_str(text: &str) -> Result<PerSecond, String> {
        let wrong = || {
            format!("{text:?} is not a rate of connections: write max, or 500 or 2.5k per second")
        };
        if text == "max" {
            return Ok(PerSecond(None));
        }
        let text = text.strip_suffix("/s").unwrap_or(text);
        let (number, unit) = split_unit(text).ok_or_else(wrong)?;
        let scale = match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            _ => return Err(wrong()),
        };
        let rate = number * scale;
        // A pause of days, and more than any machine opens.
        if (1e-6..=1e9).contains(&rate) {
            return Ok(PerSecond(Some(rate)));
        }
        Err(format!("{text:?} is not from 0.000001 to 1000M connections per second"))
    }
}

fn parse_length(text: &str) -> Result<u32, String> {
    let size = parse_size(text)?;
    u32::try_from(size).map_err(|_| format!("{text:?} is too long: at most 4G less a byte"))
}

pub(super) fn parse_at_least_one(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        0 => Err("at least one is needed".into()),
        count => Ok(count),
    }
}

/// Addresses that a sink answers for.
#[derive(Debug, Clone)]
pub(crate) struct SinkAddresses {
    text: String,
    addresses: Vec<Addresses>,
}

impl SinkAddresses {
    /// The servers' half of those set aside for tests (RFC 2544), and some for IPv6 (RFC 5180).
    pub(crate) const TEST: &str = "198.19.0.0/16,2001:2::/96";

    pub(crate) fn hosts(&self) -> Vec<Hosts> {
        let hosts = |Addresses { ipv6, values }: Addresses| Hosts { ipv6, values };
        self.addresses.iter().copied().map(hosts).collect()
    }

    /// The Ethernet address of a server at a port.
    pub(crate) fn mac(port: &PortInfo) -> MacAddr {
        port.mac.unwrap_or(SERVER)
    }

    /// The largest segment of a server whose frames have `room` bytes, without FCS.
    pub(crate) fn mss(room: usize) -> u16 {
        largest_segment(room, false, Tagging::Untagged).min(u16::MAX.into()) as u16
    }
}

impl fmt::Display for SinkAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for SinkAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkAddresses, String> {
        let addresses = text.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(SinkAddresses { text: text.into(), addresses })
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use linerate_memory::ArenaOptions;
    use linerate_port::{Context, open};

    use super::*;
    use crate::args::Cli;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        connections: Connections,
    }

    fn group(line: &str) -> Result<Group, String> {
        let line = Line::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(options.create().unwrap());
        let port = open(&"null:".parse().unwrap(), &context).unwrap();
        line.connections.group(&port.info, 1514).map_err(|error| error.to_string())
    }

    #[test]
    fn values_not_given_have_defaults() {
        let made = group("").unwrap();
        assert_eq!((made.request, made.response, made.requests), (100, 1000, 1));
        assert_eq!((made.rate, made.concurrent, made.mss), (None, 1000, 1460));
        assert_eq!(made.next_hop, NextHop::Address("198.19.0.1".parse().unwrap()));
        assert_eq!(made.mac, CLIENT);
        let made = group("--ipv6 --vlan 7 --rate 2.5k/s --gateway 2001:2::99").unwrap();
        // A tag takes four bytes of a frame that has no more.
        assert_eq!((made.rate, made.mss), (Some(2500.0), 1436));
        assert_eq!(made.next_hop, NextHop::Address("2001:2::99".parse().unwrap()));
        let made = group("--payload hello --dst_mac 02:00:00:00:00:09 --request 12");
        assert!(made.is_err(), "keys are written with dashes here");
        let made = group("--payload hello --dst-mac 02:00:00:00:00:09").unwrap();
        assert_eq!((made.request, made.payload), (5, b"hello".to_vec()));
        assert_eq!(made.next_hop, NextHop::Mac(MacAddr([2, 0, 0, 0, 0, 9])));
    }

    #[test]
    fn impossible_values_are_refused() {
        for (line, expected) in [
            ("--src 10.0.0.1 --dst 2001:2::1", "all IPv4 or all IPv6"),
            ("--gateway 10.0.0.1 --ipv6", "all IPv4 or all IPv6"),
            ("--request 11", "needs 12"),
            ("--sport 1-100", "no more than 100 connections"),
            ("--concurrent 0", "concurrent is 0"),
            ("--ramp 5s", "give a rate"),
            ("--mss 9000", "choose a smaller mss"),
            ("--rate 0", "is not from 0.000001 to 1000M"),
            ("--rate 10pps", "not a rate of connections"),
            ("--requests 0", "at least one"),
            ("--retries 17", "from 0 to 16"),
            ("--payload=", "at least one byte"),
            ("--dst-mac 02:00:00:00:00:01 --gateway 10.0.0.1", "cannot be used with"),
        ] {
            let error = group(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    /// A profile's keys have no help of their own.
    #[test]
    fn the_help_of_generate_names_every_key() {
        let command = Cli::command();
        let help = command.find_subcommand("generate").unwrap().get_after_help().unwrap();
        let help = help.to_string();
        let words: Vec<&str> =
            help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
        for argument in Line::command().get_arguments() {
            let key = argument.get_id().as_str();
            assert!(words.contains(&key), "{key}");
        }
    }

    #[test]
    fn a_sink_answers_for_the_addresses_of_both() {
        let hosts = SinkAddresses::TEST.parse::<SinkAddresses>().unwrap().hosts();
        for line in ["", "--ipv6"] {
            let Group { destinations, .. } = group(line).unwrap();
            let answers = |hosts: &Hosts| hosts.contain(destinations.at(0));
            assert!(hosts.iter().any(answers), "{line}");
        }
        assert_eq!("10.0.0.1,2001:2::/120".parse::<SinkAddresses>().unwrap().hosts().len(), 2);
        assert!("10.0.0.1,x".parse::<SinkAddresses>().is_err());
        let none = ["linerate", "sink", "null:", "--answer", "--concurrent", "0"];
        assert!(Cli::try_parse_from(none).is_err());
    }
}
