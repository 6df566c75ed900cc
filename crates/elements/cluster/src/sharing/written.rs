//! Arguments, from how they are written to what they mean.

use linerate_cluster::{Access, Granted};
use linerate_filter::{Filter, Names};
use linerate_graph::{
    Make, Text, Word, known_protocol, system_host, system_network, system_port, system_station,
    unquoted,
};
use linerate_memory::Frame;
use linerate_packet::{
    affinity::{Affinity, Parts},
    flow::VlanRule,
};

use super::{Application, Sharing};
use crate::{
    access,
    place::{Expected, Place},
    weights,
};

/// Programs among which packets are balanced, and which packets they want.
struct Wanted {
    name: String,
    consumers: Vec<(String, u32)>,
    wanted: String,
}

impl Sharing {
    fn new(
        make: &mut Make<'_>,
        applications: Vec<Wanted>,
        affinity: Option<Affinity>,
        access: Access,
        isolated: &str,
    ) -> Sharing {
        let cells = access::cells(make);
        let isolated: Vec<&str> = isolated.split_whitespace().collect();
        let known = |name: &str| {
            applications.iter().any(|with| with.consumers.iter().any(|(of, _)| of == name))
        };
        for name in isolated.iter().filter(|name| !known(name)) {
            make.error(format!("ISOLATED: `{name}` is not among its programs"));
        }
        let granted = |(name, weight): (String, u32)| {
            let apart = isolated.contains(&name.as_str());
            let access = if apart { Access::Isolated } else { access };
            (name, weight, Granted { access, cells })
        };
        let application = |Wanted { name, consumers, wanted }: Wanted| {
            let filter = match wanted.as_str() {
                "" => None,
                text => filter(text).map_err(|error| make.error(format!("{text}: {error}"))).ok(),
            };
            Application { name, consumers: consumers.into_iter().map(granted).collect(), filter }
        };
        let applications: Vec<Application> = applications.into_iter().map(application).collect();
        let place = make.world.common::<Place>();
        let all = applications.iter().flat_map(|with| &with.consumers);
        let granted = all.map(|(name, _, granted)| (name.clone(), granted.access)).collect();
        place.grant(make.name(), granted);
        let (limit, pulls) = (make.world.frame_limit, make.input_is_pull(0));
        Sharing {
            filters: applications.iter().any(|with| with.filter.is_some()),
            applications,
            wanted: Vec::new(),
            affinity,
            waits: make.or("WAIT", false) || pulls,
            pulls,
            burst: None,
            expected: Some(Expected::new(make)),
            broker: None,
            balancers: Vec::new(),
            ids: Vec::new(),
            hashes: Vec::new(),
            held: Frame::new(limit),
            stand_in: Some(Frame::new(1)),
            absent: Frame::new(limit),
            packets: 0,
        }
    }

    pub(super) fn to_consumer(make: &mut Make<'_>) -> Sharing {
        let Word(name) = make.need("NAME");
        let access = access::of(make, Access::Read);
        let application =
            Wanted { name: make.name().into(), consumers: vec![(name, 1)], wanted: wanted(make) };
        let burst = make.turn("BURST");
        Sharing { burst, ..Sharing::new(make, vec![application], None, access, "") }
    }

    pub(super) fn balancer(make: &mut Make<'_>) -> Sharing {
        let names: Vec<String> = make.rest().iter().map(|text| unquoted(text)).collect();
        if names.is_empty() {
            make.error("it needs the name of a program at least");
        }
        let given = make
            .get::<Text>("WEIGHTS")
            .map(|Text(text)| weights::parse(&unquoted(&text), names.len()));
        let weights = given.unwrap_or_else(|| Ok(vec![1; names.len()])).unwrap_or_else(|error| {
            make.error(format!("WEIGHTS: {error}"));
            vec![1; names.len()]
        });
        let (affinity, access, isolated) =
            (affinity(make), access::of(make, Access::Read), isolated(make));
        let consumers = names.into_iter().zip(weights).collect();
        let application = Wanted { name: make.name().into(), consumers, wanted: wanted(make) };
        Sharing::new(make, vec![application], affinity, access, &isolated)
    }

    pub(super) fn fan_out(make: &mut Make<'_>) -> Sharing {
        let texts: Vec<String> = make.rest().iter().map(|text| unquoted(text)).collect();
        if texts.is_empty() {
            make.error("it needs the name of a program at least");
        }
        let application = |(number, text): (usize, &String)| {
            // Names, and behind a word of its own which packets they want.
            let mut words = text.split_whitespace();
            let names = words.by_ref().take_while(|word| *word != "if");
            let consumers = names.map(|name| (name.into(), 1)).collect();
            let wanted = words.collect::<Vec<_>>().join(" ");
            Wanted { name: format!("{}.{number}", make.name()), consumers, wanted }
        };
        let applications = texts.iter().enumerate().map(application).collect();
        let (affinity, isolated) = (affinity(make), isolated(make));
        Sharing::new(make, applications, affinity, Access::Read, &isolated)
    }
}

/// Which packets are wanted, as it is written.
fn wanted(make: &mut Make<'_>) -> String {
    make.get::<Text>("FILTER").map(|Text(text)| unquoted(&text)).unwrap_or_default()
}

/// A filter in tcpdump's language, which takes names for what the system does.
fn filter(text: &str) -> Result<Filter, String> {
    let names = Names {
        port: &|name, protocol| system_port(name, protocol).and_then(|port| port.try_into().ok()),
        protocol: &|name| known_protocol(name).filter(|number| *number <= u32::from(u8::MAX)),
        host: &system_host,
        network: &system_network,
        station: &|name| system_station(name).map(|station| station.0),
        netmask: None,
    };
    Filter::new(text, names)
}

/// Programs that get copies, separated by spaces.
fn isolated(make: &mut Make<'_>) -> String {
    make.get::<Text>("ISOLATED").map(|Text(text)| unquoted(&text)).unwrap_or_default()
}

/// By what packets stay together.
fn affinity(make: &mut Make<'_>) -> Option<Affinity> {
    let word = make.get::<Word>("BY").map_or_else(|| "flow".into(), |Word(word)| word);
    let parts = match word.as_str() {
        "flow" => Some(Parts::Flow),
        "addresses" => Some(Parts::Addresses),
        "vlan" => Some(Parts::Vlan),
        "turns" => None,
        _ => {
            make.error("BY: `flow`, `addresses`, `vlan` or `turns`");
            None
        }
    };
    let (inner, symmetric) = (make.or("INNER", false), make.or("SYMMETRIC", true));
    let seed = make.or("SEED", 0);
    Some(Affinity { parts: parts?, inner, symmetric, vlan: VlanRule::Outer, seed })
}
