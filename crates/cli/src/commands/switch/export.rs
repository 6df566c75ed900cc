//! Flow export of a switch under controllers, as its configuration has it.

use std::{
    fmt::Write as _,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use crate::{
    args::{Collector, SwitchExport},
    exit::UsageError,
};

/// The collectors, and the options of their records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    ipfix: Vec<SocketAddr>,
    sets: Vec<(u32, SocketAddr)>,
    idle: Duration,
    active: Duration,
    sampling: u32,
    sflow: Vec<SocketAddr>,
    rate: u32,
    polling: Duration,
    agent: Option<IpAddr>,
}

impl Export {
    /// The options of a command line: names are looked up once.
    pub(super) fn from_args(given: &SwitchExport) -> Result<Option<Export>, UsageError> {
        if given.ipfix.is_empty() && given.ipfix_set.is_empty() && given.sflow.is_empty() {
            return Ok(None);
        }
        let all = |option: &'static str, places: &[Collector]| {
            places.iter().map(|place| address(option, place)).collect::<Result<_, _>>()
        };
        let sets = given.ipfix_set.iter();
        let sets = sets.map(|(number, place)| Ok((*number, address("--ipfix-set", place)?)));
        Ok(Some(Export {
            ipfix: all("--ipfix", &given.ipfix)?,
            sets: sets.collect::<Result<_, UsageError>>()?,
            idle: given.ipfix_idle,
            active: given.ipfix_active,
            sampling: given.ipfix_sampling,
            sflow: all("--sflow", &given.sflow)?,
            rate: given.sflow_rate,
            polling: given.sflow_polling,
            agent: given.sflow_agent,
        }))
    }

    /// The element that exports the records of the element `flows`.
    pub(super) fn text(&self) -> String {
        let mut text = "export :: FlowExport(flows".to_owned();
        // Writing to a string cannot fail.
        let _ = write!(text, ", IDLE {}, ACTIVE {}", written(self.idle), written(self.active));
        let _ = write!(text, ", SAMPLING {}, RATE {}", self.sampling, self.rate);
        let _ = write!(text, ", POLLING {}", written(self.polling));
        if let Some(agent) = self.agent {
            let _ = write!(text, ", AGENT {agent}");
        }
        let sets = self.sets.iter().map(|(number, place)| format!("{number}={place}"));
        for (keyword, places) in [
            ("IPFIX", self.ipfix.iter().map(SocketAddr::to_string).collect()),
            ("SETS", sets.collect()),
            ("SFLOW", self.sflow.iter().map(SocketAddr::to_string).collect()),
        ] {
            let places: Vec<String> = places;
            if !places.is_empty() {
                let _ = write!(text, ", {keyword} {}", places.join(" "));
            }
        }
        text + ");\n"
    }
}

fn address(option: &str, place: &Collector) -> Result<SocketAddr, UsageError> {
    let Collector { host, port } = place;
    let found = (host.as_str(), *port).to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(UsageError(format!("{option} {host}: it has no address"))),
        Err(error) => Err(UsageError(format!("{option} {host}: {error}"))),
    }
}

pub(super) fn written(time: Duration) -> String {
    format!("{}ns", time.as_nanos())
}
