//! Elements that check, when the router is made, what others are built on.
//!
//! Their names are those of Click's. Where that tests containers and algorithms
//! of its own, these test the ones in their places here: those of Rust, of our
//! `tables`, `memory` and `packet` crates, and our parsers. So a program that
//! was built wrong, or a processor that is broken, is found where it runs.

use std::{
    collections::{BinaryHeap, VecDeque},
    net::Ipv4Addr,
    time::Duration,
};

use linerate_graph::{
    Class, ElementBuilder, Inert, Ipv4OrPrefix, Library, flow_outputs,
    lang::{
        Diagnostic, Diagnostics, Landmark, SourceMap, Span,
        config::{quote, split, unquote, words},
    },
    parse_bandwidth, parse_integer,
};
use linerate_memory::ring;
use linerate_packet::{
    MacAddr,
    checksum::{checksum, verify},
};
use linerate_tables::exact::{Backing, Refusal, Table};
use md5::{Digest, Md5};

use super::FAMILY;
use linerate_element_support::rate::{Bucket, Rate};

/// Properties that all checks have.
const CHECK: Class = Class {
    family: FAMILY,
    description: "When the configuration is read it checks what its summary says and tells \
        `All tests pass!`, or which test failed, in which case the configuration is not run.",
    ports: "0/0",
    cost: "Nothing while packets are handled.",
    ..Class::here()
};

/// Tests, named, and whether they passed.
type Tests = Vec<(&'static str, bool)>;

/// Tells what came of tests, of which the first that failed is named.
fn told(make: &mut ElementBuilder<'_>, tests: Tests) -> Box<Inert> {
    match tests.iter().find(|(_, passed)| !passed) {
        Some((test, _)) => make.error(format!("test '{test}' failed")),
        None => make.tell("All tests pass!"),
    }
    Box::new(Inert)
}

pub(super) const BIGINT: Class = Class {
    name: "BigintTest",
    summary: "checks arithmetic on numbers of two machine words",
    example: "BigintTest;\nScript(stop);",
    make: |make| told(make, bigint()),
    ..CHECK
};

pub(super) const BITVECTOR: Class = Class {
    name: "BitvectorTest",
    summary: "checks sets of ports as bits and as flow codes",
    example: "BitvectorTest;\nScript(stop);",
    make: |make| told(make, bitvector()),
    ..CHECK
};

pub(super) const CONF_PARSE: Class = Class {
    name: "ConfParseTest",
    summary: "checks how arguments are read",
    example: "ConfParseTest;\nScript(stop);",
    make: |make| {
        let tests = conf_parse(make);
        told(make, tests)
    },
    ..CHECK
};

pub(super) const CRYPTO: Class = Class {
    name: "CryptoTest",
    summary: "checks digests",
    example: "CryptoTest;\nScript(stop);",
    make: |make| told(make, crypto()),
    ..CHECK
};

pub(super) const DEQUE: Class = Class {
    name: "DequeTest",
    summary: "checks the rings and queues that packets wait in",
    example: "DequeTest;\nScript(stop);",
    make: |make| told(make, deque()),
    ..CHECK
};

pub(super) const ERROR: Class = Class {
    name: "ErrorTest",
    summary: "checks how errors are written",
    example: "ErrorTest;\nScript(stop);",
    make: |make| told(make, error()),
    ..CHECK
};

pub(super) const FUNCTION: Class = Class {
    name: "FunctionTest",
    summary: "checks bit arithmetic, roots and checksums",
    example: "FunctionTest;\nScript(stop);",
    make: |make| told(make, function()),
    ..CHECK
};

pub(super) const HASH_TABLE: Class = Class {
    name: "HashTableTest",
    summary: "checks the tables of flows and addresses",
    example: "HashTableTest;\nScript(stop);",
    make: |make| told(make, hash_table()),
    ..CHECK
};

pub(super) const HEAP: Class = Class {
    name: "HeapTest",
    summary: "checks that what is due first comes first",
    example: "HeapTest;\nScript(stop);",
    make: |make| told(make, heap()),
    ..CHECK
};

pub(super) const LIST: Class = Class {
    name: "ListTest",
    summary: "checks lists that are changed in the middle",
    example: "ListTest;\nScript(stop);",
    make: |make| told(make, list()),
    ..CHECK
};

pub(super) const NOTIFIER: Class = Class {
    name: "NotifierTest",
    summary: "checks what elements say of being empty and full",
    example: "NotifierTest;\nScript(stop);",
    make: |make| {
        let tests = notifier(&make.world.library);
        told(make, tests)
    },
    ..CHECK
};

pub(super) const SORT: Class = Class {
    name: "SortTest",
    summary: "checks that sorting is right and keeps the order of equals",
    example: "SortTest;\nScript(stop);",
    make: |make| told(make, sort()),
    ..CHECK
};

pub(super) const TOKEN_BUCKET: Class = Class {
    name: "TokenBucketTest",
    summary: "checks the buckets behind rates",
    example: "TokenBucketTest;\nScript(stop);",
    make: |make| told(make, token_bucket()),
    ..CHECK
};

pub(super) const VECTOR: Class = Class {
    name: "VectorTest",
    summary: "checks lists that grow and shrink",
    example: "VectorTest;\nScript(stop);",
    make: |make| told(make, vector()),
    ..CHECK
};

/// Rates and times are multiplied with twice the bits of a word.
fn bigint() -> Tests {
    let (a, b) = (0xfedc_ba98_7654_3210_u64, 0x1234_5678_9abc_def1_u64);
    let product = u128::from(a) * u128::from(b);
    // The same by halves of a word.
    let (high, low) = (u128::from(a >> 32), u128::from(a & 0xffff_ffff));
    let by_halves = ((high * u128::from(b)) << 32) + low * u128::from(b);
    vec![
        ("product", product == by_halves),
        ("quotient", product / u128::from(b) == u128::from(a)),
        ("remainder", (product + 17) % u128::from(a) == 17),
        ("overflow", a.checked_mul(b).is_none() && a.wrapping_mul(b) == product as u64),
        ("carry", u64::MAX.overflowing_add(1) == (0, true)),
    ]
}

fn bitvector() -> Tests {
    let bits = [3u32, 17, 31, 63].into_iter().fold(0u64, |bits, bit| bits | 1 << bit);
    let other = !0u64 << 17;
    vec![
        ("count", bits.count_ones() == 4),
        ("first", bits.trailing_zeros() == 3 && bits.leading_zeros() == 0),
        ("intersection", (bits & other).count_ones() == 3),
        ("difference", bits & !other == 8),
        ("all ports", flow_outputs("x/x", 0, 3) == [0, 1, 2]),
        ("own port", flow_outputs("#/#", 1, 3) == [1]),
        ("other ports", flow_outputs("#/[^#]", 1, 3) == [0, 2]),
        ("no port", flow_outputs("x/y", 0, 3).is_empty()),
    ]
}

fn conf_parse(make: &ElementBuilder<'_>) -> Tests {
    let address = |text: &str| make.parse::<Ipv4Addr>(text).ok();
    let prefix = |text: &str| make.parse::<Ipv4OrPrefix>(text).ok().map(|found| found.0.length());
    let mac = MacAddr([0, 1, 2, 3, 4, 0xab]);
    let nanos = |text: &str| make.parse::<Duration>(text).ok().map(|time| time.as_nanos());
    vec![
        ("arguments", split("a, b c, \"e, f\", ") == ["a", "b c", "\"e, f\""]),
        ("comments", split("a /* b, c */ d // e") == ["a d"]),
        ("words", words("a 'b c' \"d e\"") == ["a", "'b c'", "\"d e\""]),
        ("quotes", unquote(r#""a\n\x41"'\n' b"#) == b"a\nA\\n b"),
        ("data", unquote(r"\<48 65 6c>p") == b"Help"),
        ("there and back", unquote(&quote(b"a\0\"$\xff")) == b"a\0\"$\xff"),
        ("integers", parse_integer("0x1F") == Some(31) && parse_integer("-017") == Some(-15)),
        ("no integers", parse_integer("1a").is_none() && parse_integer("").is_none()),
        ("ranges", make.parse::<u16>("65535").is_ok() && make.parse::<u16>("65536").is_err()),
        ("booleans", make.parse::<bool>("yes") == Ok(true) && make.parse::<bool>("2").is_err()),
        ("times", nanos("1.5ms") == Some(1_500_000) && nanos("2m") == Some(120_000_000_000)),
        ("bandwidths", parse_bandwidth("8kbps") == Some(1000.0)),
        ("addresses", address("1.2.3.4") == Some(Ipv4Addr::new(1, 2, 3, 4))),
        ("no addresses", address("1.2.3").is_none() && address("1.2.3.256").is_none()),
        ("prefixes", prefix("1.2.3/24") == Some(Some(24)) && prefix("1.2.3.4/33").is_none()),
        ("masks", prefix("1.2.0.0/255.254.0.0") == Some(Some(15))),
        ("Ethernet addresses", make.parse("0:1:2:3:4:AB") == Ok(mac)),
    ]
}

/// RFC 1321 has these.
fn crypto() -> Tests {
    let digest = |text: &str| {
        let bytes = Md5::digest(text.as_bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let twice = "1234567890".repeat(8);
    vec![
        ("MD5 of nothing", digest("") == "d41d8cd98f00b204e9800998ecf8427e"),
        ("MD5 of a text", digest("message digest") == "f96b697d7cb7938d525a2f31aaf161d0"),
        ("MD5 of two blocks", digest(&twice) == "57edf4a22be3c955ac49da2e2107b67a"),
    ]
}

fn deque() -> Tests {
    let (mut into, mut out) = ring::spsc::<u32>(4);
    let all = ring::Mpmc::new(4);
    // Round the end several times.
    let spsc = (0..40).all(|n| into.push(n).is_ok() && out.pop() == Some(n));
    let mpmc = (0..40).all(|n| all.push(n).is_ok() && all.pop() == Some(n));
    let full = (0..8).filter(|n| into.push(*n).is_ok()).count();
    let mut both: VecDeque<u32> = (0..5).collect();
    both.push_front(9);
    vec![
        ("one to one", spsc),
        ("many to many", mpmc),
        ("full", full == into.capacity() && into.len() == full),
        ("oldest first", out.pop() == Some(0) && out.len() == full - 1),
        ("empty", all.is_empty() && all.pop().is_none()),
        ("both ends", both.pop_back() == Some(4) && both.pop_front() == Some(9)),
        ("what is left", both == [0, 1, 2, 3]),
    ]
}

fn error() -> Tests {
    let mut sources = SourceMap::new();
    let file = sources.add("config", "Idle");
    let landmark = |line| {
        let span = Span { file, start: 0, end: 4 };
        Landmark { span, file: "config".into(), line }
    };
    let found = |list: Vec<Diagnostic>| {
        let mut found = Diagnostics::new();
        list.into_iter().for_each(|diagnostic| found.push(diagnostic));
        found.click()
    };
    let (plain, warning) =
        (Diagnostic::error(landmark(1), "a"), Diagnostic::warning(landmark(2), "b"));
    let within = |text: &str| Diagnostic::error(landmark(3), text).context("While c:");
    vec![
        ("place", found(vec![plain.clone()]) == "config:1: a\n"),
        ("warning", found(vec![warning.clone()]) == "config:2: warning: b\n"),
        ("several", found(vec![plain, warning]) == "config:1: a\nconfig:2: warning: b\n"),
        (
            "context",
            found(vec![within("d"), within("e\nf")]) == "config:3: While c:\n  d\n  e\n  f\n",
        ),
        ("nothing", Diagnostics::new().is_empty()),
    ]
}

fn function() -> Tests {
    // RFC 1071's example, and a header with its checksum.
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    let header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0x66, 0xd7, 10, 0, 0, 1, 10, 0, 0, 2];
    vec![
        ("highest bit", 0x1_0000u32.leading_zeros() == 15 && 0u32.leading_zeros() == 32),
        ("lowest bit", 0x1_0000u32.trailing_zeros() == 16),
        ("roots", [0u32, 3, 4, 120, 121].map(u32::isqrt) == [0, 1, 2, 10, 11]),
        ("large roots", u64::MAX.isqrt() == 0xffff_ffff),
        ("checksum", checksum(&bytes) == !0xddf2),
        ("header", verify(&header)),
    ]
}

fn hash_table() -> Tests {
    const ENTRIES: u64 = 1000;
    let made = Table::<u64, u64>::new(ENTRIES as usize, Backing::OnDemand);
    let Ok(mut table) = made else { return vec![("memory", false)] };
    // Neighbours and multiples of powers of two.
    let key = |n: u64| if n.is_multiple_of(2) { n } else { n << 32 };
    let inserted = (0..ENTRIES).all(|n| matches!(table.insert(key(n), n), Ok((_, None))));
    let value =
        |table: &Table<u64, u64>, n| table.lookup(&key(n)).and_then(|at| table.get(at)).copied();
    let found = (0..ENTRIES).all(|n| value(&table, n) == Some(n));
    let refused = table.insert(key(ENTRIES), 0) == Err(Refusal::Full);
    let replaced = matches!(table.insert(key(7), 8), Ok((_, Some(7))));
    let removed = (0..ENTRIES).step_by(3).all(|n| table.remove(&key(n)).is_some());
    let left = (0..ENTRIES).filter(|n| value(&table, *n).is_some()).count();
    vec![
        ("insertion", inserted),
        ("lookup", found),
        ("limit", refused),
        ("replacement", replaced && value(&table, 7) == Some(8)),
        ("removal", removed && table.lookup(&key(3)).is_none()),
        ("what is left", left == 666 && table.len() == left && table.iter().count() == left),
    ]
}

fn heap() -> Tests {
    let numbers = scattered();
    let mut heap: BinaryHeap<u32> = numbers.iter().copied().collect();
    let first = heap.peek() == numbers.iter().max();
    let mut sorted = numbers;
    sorted.sort_unstable();
    let inverse = std::iter::from_fn(|| heap.pop()).collect::<Vec<_>>();
    vec![
        ("first", first),
        ("order", inverse.iter().rev().eq(&sorted)),
        ("empty", heap.is_empty() && heap.pop().is_none()),
    ]
}

fn list() -> Tests {
    let mut list: Vec<u32> = (0..8).collect();
    list.insert(4, 99);
    let inserted = list == [0, 1, 2, 3, 99, 4, 5, 6, 7];
    list.retain(|n| n % 2 == 1);
    let kept = list == [1, 3, 99, 5, 7];
    let moved = list.remove(2) == 99 && list == [1, 3, 5, 7];
    list.rotate_left(1);
    vec![
        ("insertion", inserted),
        ("removal of some", kept),
        ("removal of one", moved),
        ("rotation", list == [3, 5, 7, 1]),
    ]
}

/// Checks of notifiers, by which the engine decides which tasks may sleep.
fn notifier(library: &Library) -> Tests {
    let of = |name: &str| library.find(name).map(|class| class.signals);
    let queue = of("Queue");
    vec![
        ("queues tell of packets", queue.is_some_and(|signals| signals.empty)),
        ("queues tell of room", queue.is_some_and(|signals| signals.full)),
        ("others are silent", of("Null").is_some_and(|signals| !signals.empty && !signals.full)),
    ]
}

fn sort() -> Tests {
    let numbers = scattered();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    let mut pairs: Vec<(u32, usize)> = numbers.iter().map(|n| n % 7).zip(0..).collect();
    pairs.sort_by_key(|pair| pair.0);
    let mut words = ["b", "", "ab", "a", "B"];
    words.sort_unstable();
    vec![
        ("order", sorted.is_sorted() && sorted.len() == numbers.len()),
        ("nothing is lost", numbers.iter().all(|n| sorted.binary_search(n).is_ok())),
        ("equals stay in order", pairs.is_sorted()),
        ("texts", words == ["", "B", "a", "ab", "b"]),
    ]
}

/// They are filled once a millisecond, with a little less than there should be.
fn token_bucket() -> Tests {
    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 10 * SECOND;
    let mut bucket = Bucket::new(Rate::per_second(1024), 2048);
    let mut at = |time: u64, take: u64| {
        bucket.fill(START + time);
        let found = bucket.tokens();
        bucket.take(take);
        found
    };
    let (full, empty) = (at(0, 2048), at(0, 0));
    let early = at(SECOND * 99 / 100, 0);
    let later = at(SECOND, 0);
    let much_later = at(100 * SECOND, 0);
    // Two tokens a second, of which one comes each half.
    let mut slow = Bucket::new(Rate::per_second(2), 1);
    slow.fill(START);
    slow.take(1);
    let due = slow.look_at(1).map_or(0, |time| time.saturating_sub(START));
    slow.fill(START + SECOND / 2 - 1);
    let too_early = slow.tokens();
    slow.fill(START + due);
    vec![
        ("full at the start", full == 2048),
        ("empty", empty == 0),
        ("almost a second", (1012..=1014).contains(&early)),
        ("a second", (1023..=1024).contains(&later)),
        ("capacity", much_later == 2048),
        ("when it is due", (SECOND / 2..SECOND / 2 + 3_000_000).contains(&due)),
        ("not before", too_early == 0 && slow.tokens() == 1),
        ("no rate", Bucket::new(Rate::per_second(0), 9).look_at(1).is_none()),
    ]
}

fn vector() -> Tests {
    let mut vector: Vec<u32> = Vec::new();
    vector.extend(0..1000);
    let grown = vector.len() == 1000 && vector.iter().sum::<u32>() == 499_500;
    let swapped = vector.swap_remove(0) == 0 && vector[0] == 999;
    let tail = vector.split_off(900);
    vector.resize(902, 5);
    vector.dedup();
    vec![
        ("growth", grown),
        ("removal by exchange", swapped),
        ("two halves", tail.len() == 99 && tail[0] == 900),
        ("new elements", vector.len() == 901 && vector.last() == Some(&5)),
        ("search", vector[1..900].binary_search(&450) == Ok(449)),
    ]
}

/// Numbers in no order, each once.
fn scattered() -> Vec<u32> {
    (1..=500u32).map(|n| n.wrapping_mul(0x9e37_79b1)).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn all_tests_pass_here() {
        let mut checks = 0;
        for class in
            Run::library().iter().filter(|class| class.description == super::CHECK.description)
        {
            let mut run = Run::new(&format!("{}; Script(stop)", class.name));
            run.run();
            let said = run.output();
            assert!(said.ends_with(":\n  All tests pass!\n"), "{}: {said}", class.name);
            checks += 1;
        }
        assert_eq!(checks, 14);
    }
}
