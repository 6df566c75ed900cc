//! Texts of arguments.

use linerate_graph::Arg;

use crate::Bytes;

/// Files an input may name; the first two are there.
pub const FILES: &[&str] = &["capture", "summary", "out", "none", "-"];

/// Anything.
pub const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "100",
    "1500",
    "65536",
    "-1",
    "4294967295",
    "18446744073709551615",
    "0.5",
    "0.001",
    "1e9",
    "1ms",
    "20us",
    "10s",
    "8kbps",
    "1MBps",
    "100Gbps",
    "true",
    "false",
    "x",
    "e0",
    "e1",
    "1.2.3.4",
    "1.2/16",
    "00:01:02:03:04:05",
    "::1",
    "-",
    "12/0800",
    "0/00??%f0f0",
    "12/0806 20/0001",
    "!0/01",
    "1000/00",
    "\"a b\"",
    "\\<00ff>",
    "PAINT",
    "AGGREGATE",
    "e0 2",
    "e0.count",
    "5 e0.reset_counts",
    "ip",
    "src",
    "timestamp",
    "",
];

const NUMBERS: &[&str] = &["0", "1", "2", "3", "7", "64", "1500", "0.5", "-1"];

/// Values for kinds of arguments that contain a word; the first that does counts.
const FITTING: &[(&str, &[&str])] = &[
    ("bool", &["true", "false"]),
    ("bandwidth", &["8kbps", "1MBps", "100Gbps", "100"]),
    ("time", &["1ms", "20us", "0", "10s", "0.5"]),
    ("seconds", &["1", "0", "0.001", "30"]),
    ("probability", &["0", "1", "0.5", "0.001"]),
    ("HANDLER", &["e0.reset_counts", "e1.config 1", "stop", "5 e0.active false", "e0.reset"]),
    ("handlers", &["e0.count", "e1.config", "e0.drops"]),
    ("element", &["e0", "e1", "e0 2", "ELEMENT e0"]),
    ("pattern", &["12/0800", "0/00??%f0f0", "-", "!0/01 3/ff"]),
    ("ports or files", &["127.0.0.1", "9", "out", "0.0.0.0", "4000"]),
    ("path", FILES),
    ("file", FILES),
    ("device", &["lo", "null:", "pcap:capture", "pcap:out", "tap:t0", "packet:lo", "ring:a"]),
    ("port", &["null:", "pcap:capture", "pcap:out", "tap:t1", "packet:lo", "ring:a", "80", "0"]),
    ("IP address", &["127.0.0.1", "224.0.0.1", "10.0.0.1", "0.0.0.0"]),
    ("address/bits", &["10.0.0.1/8", "192.0.2.1/24"]),
    ("Ethernet address", &["00:01:02:03:04:05", "ff:ff:ff:ff:ff:ff"]),
    ("SPORT", &["1.0.0.1 5 1.0.0.2 6 U", "1.0.0.1 5 1.0.0.2 6"]),
    ("link type", &["ETHER", "IP", "FDDI", "802.11"]),
    ("annotation", &["PAINT", "AGGREGATE", "0", "DST_IP", "20"]),
    ("OFFSET/LENGTH", &["12/2", "0/1", "60/8"]),
    ("hex", &["00ff", "0800"]),
    (
        "names",
        &[
            "timestamp ip_src sport ip_dst dport ip_proto",
            "ip_len ip_opt tcp_opt payload",
            "payload_md5 payload_md5_hex tcp_seq tcp_ack tcp_flags",
            "aggregate paint count direction link",
            "eth_src eth_dst ip_ttl ip_tos ip_id ip_frag ip_sum",
            "ntimestamp first_timestamp icmp_type icmp_code",
        ],
    ),
    ("field", &["ip src/24", "ip dst", "tcp sport", "bytes", "ip vers", "udp dport"]),
    (
        "string",
        &[
            "\"1.0.0.1 5 1.0.0.2 6 U\"",
            "\\<00ff>",
            "\"a b\"",
            "\"!data ip_src ip_dst\n1.0.0.1 1.0.0.2\n!bad\n\"",
            "",
        ],
    ),
    (
        "instruction",
        &[
            "set x $(add $x 1)",
            "print e0.handlers",
            "write e0.config 1",
            "write e1.reset",
            "return $(mod $x 2)",
            "wait 1ms",
            "pause",
            "label a",
            "goto a $(lt $x 5)",
            "loop",
            "stop",
        ],
    ),
    ("directive", &["read e0.config", "write e0.reset", "1ms", "loop", "stop", "quit"]),
];

/// Returns a value for an argument: mostly one of its kind.
pub fn value(bytes: &mut Bytes<'_>, arg: &Arg) -> &'static str {
    if bytes.one_in(4) {
        return bytes.choice::<&'static str>(VALUES);
    }
    // Words to choose from, as in `HEX, ASCII or NONE`.
    let words: Vec<&'static str> = (arg.kind.split([',', ' ']))
        .filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    let fitting = FITTING.iter().find(|(kind, _)| arg.kind.contains(kind));
    match fitting {
        Some((_, values)) => bytes.choice::<&'static str>(values),
        None if words.len() > 1 => bytes.choice::<&'static str>(&words),
        None => bytes.choice::<&'static str>(NUMBERS),
    }
}
