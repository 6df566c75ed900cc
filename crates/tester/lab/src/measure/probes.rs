//! Small configurations that exercise one element each, which is called `x`.
//!
//! `$FRAMES` receives UDP packets from 198.18.0.1 to addresses from 198.19.0.0 on.

use std::fmt::Write as _;

use linerate_graph::{Class, Role};

use crate::point::Arguments;

/// A class, with a case behind a colon where there are several, and the part of
/// the configuration that replaces `*` in [`AROUND`].
type Probe = (&'static str, &'static str);

/// Source and end of the packets.
const AROUND: &str = "source :: FromPort($FRAMES) -> * -> end :: Discard;";

const PROBES: &[Probe] = &[
    // Standard elements.
    ("Null", "x :: Null"),
    ("Counter", "x :: Counter"),
    ("Paint", "x :: Paint(1)"),
    ("Strip", "x :: Strip(14)"),
    ("Unstrip", "Strip(14) -> x :: Unstrip(14)"),
    ("Tee", "x :: Tee(2) [1] -> Discard; x [0]"),
    ("Queue", "x :: Queue(4096) -> Unqueue"),
    ("Unqueue", "Queue(4096) -> x :: Unqueue"),
    ("SetTimestamp", "x :: SetTimestamp"),
    ("AverageCounter", "x :: AverageCounter"),
    // Routers.
    ("CheckIPHeader", "x :: CheckIPHeader(14)"),
    ("MarkIPHeader", "x :: MarkIPHeader(14)"),
    ("GetIPAddress", "x :: GetIPAddress(30)"),
    ("DecIPTTL", "CheckIPHeader(14) -> x :: DecIPTTL"),
    ("IPGWOptions", "CheckIPHeader(14) -> x :: IPGWOptions(192.168.0.254)"),
    ("FixIPSrc", "CheckIPHeader(14) -> x :: FixIPSrc(192.168.0.254)"),
    ("IPFragmenter", "Strip(14) -> CheckIPHeader -> x :: IPFragmenter(1500)"),
    ("DropBroadcasts", "x :: DropBroadcasts"),
    ("PaintTee", "x :: PaintTee(2) [1] -> Discard; x [0]"),
    ("StaticIPLookup", "CheckIPHeader(14) -> x :: StaticIPLookup(198.19.0.0/16 0)"),
    (
        "RadixIPLookup",
        "CheckIPHeader(14) -> x :: RadixIPLookup(0/0 192.168.0.1 0, 198.19.0.0/16 0)",
    ),
    ("RadixIPLookup:1000", "CheckIPHeader(14) -> x :: RadixIPLookup($ROUTES)"),
    (
        "LinearIPLookup",
        "CheckIPHeader(14) -> x :: LinearIPLookup(198.18.0.0/16 0, 198.19.0.0/16 0)",
    ),
    ("EtherEncap", "Strip(14) -> x :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)"),
    ("EtherRewrite", "x :: EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)"),
    ("EtherMirror", "x :: EtherMirror"),
    (
        "ARPQuerier",
        "Strip(14) -> GetIPAddress(16) -> StoreIPAddress(192.168.0.1, 16) -> GetIPAddress(16) \
         -> x :: ARPQuerier(192.168.0.254, 2:0:0:0:0:1);\
         Script(write x.insert 192.168.0.1 2:0:0:0:0:9, end); Idle -> [1] x; x [1] -> Discard; x [0]",
    ),
    // Switches.
    (
        "EtherSwitch",
        "[0] x :: EtherSwitch [0] -> Discard;\
         InfiniteSource(DATA \\<020000000001 020000000002 88b5 0000>, LIMIT 1) -> [1] x [1]",
    ),
    ("HostEtherFilter", "x :: HostEtherFilter(02:00:00:00:00:02)"),
    ("VLANEncap", "x :: VLANEncap(7)"),
    ("VLANDecap", "VLANEncap(7) -> x :: VLANDecap"),
    // Address translation.
    (
        "IPRewriter",
        "Strip(14) -> CheckIPHeader -> x :: IPRewriter(pattern 198.51.100.1 1024-65535# - - 0 0)",
    ),
    (
        "UDPRewriter",
        "Strip(14) -> CheckIPHeader -> x :: UDPRewriter(pattern 198.51.100.1 1024-65535# - - 0 0)",
    ),
    (
        "IPAddrRewriter",
        "Strip(14) -> CheckIPHeader -> x :: IPAddrRewriter(pattern 198.51.100.1 - 0 0)",
    ),
    ("SetIPAddress", "x :: SetIPAddress(192.168.0.1)"),
    // Filters.
    (
        "Classifier",
        "x :: Classifier(12/0806 20/0001, 12/0800, -); x [0] -> Discard; x [2] -> Discard; x [1]",
    ),
    (
        "IPClassifier",
        "CheckIPHeader(14) -> x :: IPClassifier(tcp, udp dst port 9, -); x [0] -> Discard;\
         x [2] -> Discard; x [1]",
    ),
    (
        "IPFilter",
        "CheckIPHeader(14) -> x :: IPFilter(deny src net 10.0.0.0/8, deny tcp dst port 23, \
         allow udp dst port 9, deny all)",
    ),
    ("CheckUDPHeader", "CheckIPHeader(14) -> x :: CheckUDPHeader"),
    ("IPRateMonitor", "CheckIPHeader(14) -> x :: IPRateMonitor(PACKETS, 0, 1)"),
    // Queues, marking and sharing.
    ("RED", "x :: RED(1000, 2000, 0.02) -> Queue(4096) -> Unqueue"),
    ("SetIPDSCP", "CheckIPHeader(14) -> x :: SetIPDSCP(10)"),
    ("RoundRobinSwitch", "x :: RoundRobinSwitch; x [1] -> Discard; x [0]"),
    ("HashSwitch", "x :: HashSwitch(30, 4); x [1] -> Discard; x [0]"),
    ("HashSwitch:meet", "x :: HashSwitch(30, 4); meet :: Null; x [1] -> meet; x [0] -> meet"),
    ("RoundRobinSched", "Queue(4096) -> [0] x :: RoundRobinSched; Idle -> [1] x -> Unqueue"),
    ("PrioSched", "Queue(4096) -> [0] x :: PrioSched; Idle -> [1] x -> Unqueue"),
    ("DRRSched", "Queue(4096) -> [0] x :: DRRSched; Idle -> [1] x -> Unqueue"),
    ("Meter", "x :: Meter(1000000000) [1] -> Discard; x [0]"),
    ("BandwidthShaper", "Queue(4096) -> x :: BandwidthShaper(100000000000) -> Unqueue"),
    // Checksums and tunnels.
    ("SetIPChecksum", "CheckIPHeader(14) -> x :: SetIPChecksum"),
    ("SetUDPChecksum", "CheckIPHeader(14) -> x :: SetUDPChecksum"),
    ("UDPIPEncap", "Strip(14) -> x :: UDPIPEncap(192.168.0.1, 4789, 192.168.0.2, 4789)"),
    ("IPEncap", "Strip(14) -> x :: IPEncap(4, 192.168.0.1, 192.168.0.2)"),
    // Where packets end.
    ("CycleLoad", "x :: CycleLoad(100)"),
];

/// Configurations that are not between [`AROUND`]'s ends.
const WHOLE: &[Probe] = &[
    ("Discard", "source :: FromPort($FRAMES) -> x :: Discard;"),
    (
        "HashSwitch:apart",
        "source :: FromPort($FRAMES) -> x :: HashSwitch(30, 4); meet :: Discard;\
         x [0] -> CheckLength(1) -> meet; x [1] -> CheckLength(1) -> meet;",
    ),
    ("InfiniteSource", "x :: InfiniteSource -> Discard;"),
    ("FromPort", "x :: FromPort(null:) -> Discard;"),
    ("FromPort:capture", "x :: FromPort($FRAMES) -> Discard;"),
    ("ToPort", "FromPort(null:) -> x :: ToPort(null:);"),
];

/// Classes whose cost depends on their arguments: rules, routes, outputs, capacity, cycles. With
/// the elements in front of them.
const ARGUED: &[Probe] = &[
    // Rules and patterns.
    ("Classifier", ""),
    ("IPClassifier", "CheckIPHeader(14) ->"),
    ("IPFilter", "CheckIPHeader(14) ->"),
    // Routes.
    ("DirectIPLookup", "CheckIPHeader(14) ->"),
    ("LinearIPLookup", "CheckIPHeader(14) ->"),
    ("LookupIP6Route", "MarkIP6Header(14) ->"),
    ("LookupIPRoute", "CheckIPHeader(14) ->"),
    ("LookupIPRouteMP", "CheckIPHeader(14) ->"),
    ("RadixIPLookup", "CheckIPHeader(14) ->"),
    ("RangeIPLookup", "CheckIPHeader(14) ->"),
    ("SortedIPLookup", "CheckIPHeader(14) ->"),
    ("StaticIPLookup", "CheckIPHeader(14) ->"),
    // Outputs, and fields that choose one.
    ("HashSwitch", ""),
    ("PaintSwitch", ""),
    ("RandomSwitch", ""),
    ("RoundRobinSwitch", ""),
    ("StrideSwitch", ""),
    ("Switch", ""),
    ("Tee", ""),
    ("VLANSwitch", ""),
    // Bytes, and packets that wait.
    ("FrontDropQueue", ""),
    ("Pad", ""),
    ("Queue", ""),
    ("ThreadSafeQueue", ""),
    // Mappings.
    ("IPAddrPairRewriter", "Strip(14) -> CheckIPHeader ->"),
    ("IPAddrRewriter", "Strip(14) -> CheckIPHeader ->"),
    ("IPRateMonitor", "CheckIPHeader(14) ->"),
    ("IPRewriter", "Strip(14) -> CheckIPHeader ->"),
    ("TCPRewriter", "Strip(14) -> CheckIPHeader ->"),
    ("UDPRewriter", "Strip(14) -> CheckIPHeader ->"),
    // Loads.
    ("CycleLoad", ""),
    ("MemoryLoad", ""),
];

/// Returns true if the cost of a class depends on its arguments so much that it can be measured
/// with other ones.
pub fn depends_on_arguments(class: &str) -> bool {
    ARGUED.iter().any(|(known, _)| *known == class)
}

/// Elements before a class without a probe: packets whose headers were found.
const BEFORE: &str = "CheckIPHeader(14) ->";

/// Returns true if there is a configuration for a class, or its example is one: any can be measured
/// that packets come to and that is no port.
pub fn has_probe(class: &Class) -> bool {
    is_known(class.name) || class.role != Role::Io && class.ports != "0/0"
}

fn is_known(class: &str) -> bool {
    classes().any(|known| known.split(':').next() == Some(class))
}

/// The inputs that a class must have, or may have where it needs none.
fn inputs(class: &Class) -> usize {
    let (inputs, _) = class.ports.split_once('/').unwrap_or((class.ports, ""));
    inputs.split('-').next().and_then(|least| least.parse().ok()).unwrap_or(1)
}

/// The configuration for a class that is told something else, or that has none of its own.
/// Packets come by its first input.
pub(super) fn with_arguments(class: &Class, arguments: &Arguments) -> Option<String> {
    let name = class.name;
    let before = match ARGUED.iter().find(|(known, _)| *known == name) {
        Some((_, before)) => before,
        None if is_known(name) || inputs(class) == 0 => return None,
        None => BEFORE,
    };
    let Arguments { config, outputs } = arguments;
    let mut text = format!("source :: FromPort($FRAMES) -> {before} x :: {name}({config});");
    // Writing to a string cannot fail.
    for input in 1..inputs(class) {
        let _ = write!(text, " Idle -> [{input}] x;");
    }
    for output in 0..*outputs {
        let _ = write!(text, " x [{output}] -> Discard;");
    }
    Some(text)
}

/// The classes there is a configuration for.
pub fn classes() -> impl Iterator<Item = &'static str> {
    PROBES.iter().chain(WHOLE).map(|(class, _)| *class)
}

/// The configuration for a class.
pub(super) fn configuration(class: &str) -> Option<String> {
    let find = |probes: &[Probe]| probes.iter().find(|probe| probe.0 == class).map(|probe| probe.1);
    let text = match find(PROBES) {
        Some(part) => AROUND.replace('*', part),
        None => find(WHOLE)?.to_owned(),
    };
    Some(text.replace("$ROUTES", &routes(1000)))
}

/// So many elements that do nothing behind a source, and an end; the first of them all is `x`.
pub(super) fn chain(count: usize) -> String {
    let nulls = "Null -> ".repeat(count);
    format!("source :: FromPort($FRAMES) -> x :: {nulls}Discard;")
}

/// Routes of which those of the traffic are a part.
fn routes(count: u32) -> String {
    let mut text = String::from("198.19.0.0/16 0");
    for route in 1..count {
        let [a, b] = ((route * 40_503) as u16).to_be_bytes();
        // Writing to a string cannot fail.
        let _ = write!(text, ", {}.{b}.{}.0/24 0", 1 + a % 190, route % 256);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use linerate_port::Context;

    use super::*;
    use crate::{
        instruments::frames,
        measure::{
            Failure, arena,
            graph::{Capture, Run, Windows, run},
        },
        point::Destinations,
    };

    fn probe(configuration: &str, frames: &str) -> Result<Windows, Failure> {
        let probe = Run {
            configuration,
            variables: vec![("FRAMES".into(), frames.into())],
            at: "x",
            vector: 16,
            time: Duration::from_millis(5),
            context: Context::new(arena(8192, 64).unwrap()),
        };
        run(&linerate_elements::library(), probe)
    }

    #[test]
    fn every_probe_runs_and_its_element_gets_packets() {
        let frames = frames(Destinations::Uniform, 4096, 64, 1).unwrap();
        let capture = Capture::from_frames(&frames).unwrap();
        for class in classes() {
            let configuration = configuration(class).unwrap();
            let windows = probe(&configuration, &capture.uri);
            let windows = windows.unwrap_or_else(|error| panic!("{class}: {error}"));
            let x = windows.at;
            assert_eq!(windows.plan.elements[x].class.name, class.split(':').next().unwrap());
            assert!(windows.mean_vector(x) >= 1.0, "{class}: no packets");
            // Where there is an end, they come to it.
            if let Some(end) = windows.plan.find("end") {
                assert!(windows.mean_vector(end) >= 1.0, "{class}: no packets at the end");
            }
        }
    }

    #[test]
    fn rules_of_another_are_measured() {
        let arguments = Arguments { config: "udp, tcp, -".into(), outputs: 3 };
        let library = linerate_elements::library();
        let class = |name| library.find(name).unwrap();
        let text = with_arguments(class("IPClassifier"), &arguments).unwrap();
        let frames = frames(Destinations::Static, 1, 64, 1).unwrap();
        let windows = probe(&text, &Capture::from_frames(&frames).unwrap().uri);
        assert!(windows.unwrap().rate(1).is_some());
        assert_eq!(with_arguments(class("Counter"), &arguments), None);
        assert!(ARGUED.iter().all(|(name, _)| has_probe(class(name))));
    }

    #[test]
    fn classes_of_others_are_measured() {
        let frames = frames(Destinations::Static, 1, 64, 1).unwrap();
        let frames = Capture::from_frames(&frames).unwrap();
        let library = linerate_elements::library();
        for (name, config, outputs) in [("CheckLength", "99", 2), ("Suppressor", "", 1)] {
            assert!(!is_known(name) && has_probe(library.find(name).unwrap()));
            let arguments = Arguments { config: config.into(), outputs };
            let text = with_arguments(library.find(name).unwrap(), &arguments).unwrap();
            let windows = probe(&text, &frames.uri).unwrap();
            assert_eq!(windows.plan.elements[windows.plan.find("x").unwrap()].class.name, name);
            assert!(windows.rate(windows.at).is_some(), "{text}");
        }
        assert!(has_probe(library.find("TimedSource").unwrap()));
        for none in ["AddressInfo", "FromDump"] {
            assert!(!has_probe(library.find(none).unwrap()), "{none}");
        }
    }

    #[test]
    fn there_are_enough_and_each_once() {
        let different: BTreeSet<_> = classes().collect();
        assert_eq!(different.len(), classes().count());
        assert!(different.len() >= 25);
        assert_eq!(configuration("Frobnicate"), None);
    }
}
