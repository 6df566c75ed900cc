//! `SourceIPHashMapper`: patterns by a consistent hash of the source address.

use linerate_graph::{Arg, Class, ElementBuilder, Role, lang::config::words, parse_integer};

use super::{
    FAMILY,
    mapper::{Mapper, Rule},
    ring::Ring,
    round_robin_ip_mapper::{MapperElement, choice},
};

/// Places on the ring at most.
const PLACES: usize = 1 << 20;

pub(super) const CLASS: Class = Class {
    name: "SourceIPHashMapper",
    family: FAMILY,
    summary: "chooses among patterns for rewriters, by the source address",
    description: "Its name is a specification for inputs of rewriters. The first argument is `NODES \
        SEED`; each of the others a pattern with outputs and a number, `SADDR SPORT DADDR DPORT \
        FOUTPUT ROUTPUT ID`. New flows from one source address are all rewritten by the same \
        pattern: each pattern has `NODES` places on a ring that follow from `SEED` and its `ID`, and \
        the address's hash goes to the next place (consistent hashing). When a pattern is added or \
        taken away, only the addresses that come to it or leave it change. The ring is Click's.",
    args: &[Arg::rest("PATTERN", "nodes, seed and patterns", "a pattern, its outputs and number")],
    role: Role::Information,
    cost: "For new flows only: a lock, and a search in the ring.",
    example: "m :: SourceIPHashMapper(100 0xbadbeef, - - 10.0.0.1 - 0 1 1, - - 10.0.0.2 - 0 1 2); \
        rw :: IPRewriter(m); FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport \
        ip_proto, DATA \"2.0.0.2 5000 1.0.0.1 80 T\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| Box::new(MapperElement::new(make, read)),
    ..Class::here()
};

fn read(make: &mut ElementBuilder<'_>) -> Option<Mapper> {
    let texts = make.rest();
    let wrong = match texts.len() {
        0 => Some("no hash seed given"),
        1 => Some("no patterns given"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        make.error(wrong);
        return None;
    }
    if texts.len() == 2 {
        make.warn("only one pattern given");
    }
    let found = words(&texts[0]);
    let [nodes, seed] = found[..] else {
        make.error("requires 2 config params: numnodes seed");
        return None;
    };
    let number = |text: &str| parse_integer(text).and_then(|number| i32::try_from(number).ok());
    let Some(nodes) =
        number(nodes).and_then(|nodes| usize::try_from(nodes).ok()).filter(|it| *it > 0)
    else {
        make.error("number of nodes must be an integer");
        return None;
    };
    let Some(seed) = number(seed) else {
        make.error("hash seed must be an integer");
        return None;
    };
    let (mut choices, mut ids) = (Vec::new(), Vec::new());
    for text in &texts[1..] {
        let pieces = words(text);
        let id = pieces.last().and_then(|id| number(id)).filter(|id| *id >= 0 && pieces.len() > 1);
        let Some(id) = id else {
            make.error("bad server ID in pattern spec");
            continue;
        };
        if let Some(choice) = choice(make, &pieces[..pieces.len() - 1].join(" ")) {
            choices.push(choice);
            ids.push(id as u16);
        }
    }
    // All numbers draw their places, unused ones too.
    let drawn = ids.iter().max().map_or(0, |most| (usize::from(*most) + 1).saturating_mul(nodes));
    if drawn > 8 * PLACES || ids.len().saturating_mul(nodes) > PLACES {
        make.error(format!("more than {PLACES} nodes"));
        return None;
    }
    let ring = Ring::new(&ids, nodes, seed);
    Some(Mapper { choices, rule: Rule::Source(ring), ..Mapper::default() })
}
