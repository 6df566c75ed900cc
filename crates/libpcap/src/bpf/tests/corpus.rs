//! Filters of the world on captures of real programs.
//!
//! `CAPTURES=folder cargo test -p linerate-pcap filters_of_the_world -- --ignored` takes the captures of
//! a folder, too.

use std::{collections::BTreeSet, env, fs, path::Path};

use fastrand::Rng;
use linerate_port::pcap;

use super::{Edge, both, expressions::changed, system::System};
use crate::{
    abi::DLT_EN10MB,
    compile::{Frames, compile},
};

/// libpcap's longest packet.
pub(super) const SNAP_LENGTH: u32 = 262_144;
const FILTERS: &str = include_str!("filters.txt");
/// Captured bytes of a packet, besides all: ends of headers, and within them.
const SNAP_LENGTHS: [usize; 8] = [0, 13, 14, 23, 34, 47, 68, 96];

/// The packets of all captures in the repository, and of those asked for, each once.
pub(super) fn packets() -> BTreeSet<Vec<u8>> {
    let folders = ["../elements/capture/data", "../io/port/tests/data", "../../fuzz/seeds/capture"];
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = folders.map(|folder| here.join(folder)).into_iter();
    let mut packets = BTreeSet::new();
    for folder in folders.chain(env::var_os("CAPTURES").map(Into::into)) {
        for entry in fs::read_dir(&folder).expect("a folder of captures") {
            // Beside captures there are files that are none, on purpose.
            let Ok(mut reader) = pcap::Reader::open(entry.expect("an entry").path()) else {
                continue;
            };
            while let Ok(Some(record)) = reader.next() {
                packets.insert(record.data.to_vec());
            }
        }
    }
    packets
}

fn filters() -> BTreeSet<&'static str> {
    let filters: BTreeSet<_> = FILTERS.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(filters.len() >= 500, "{}", filters.len());
    filters
}

#[test]
#[ignore = "needs libpcap"]
fn filters_of_the_world_decide_as_the_system_s_interpreter() {
    let system = System::new();
    let packets = packets();
    assert!(packets.len() > 50, "{}", packets.len());
    let filters = filters();
    let mut edge = Edge::new();
    let (mut portable, mut wanted, mut compared) = (Vec::new(), 0, 0);
    for filter in filters {
        let mut decides = [false; 2];
        for optimize in [false, true] {
            let Ok(program) = system.compile(filter, optimize) else {
                // Its optimizer refuses filters that want nothing.
                assert!(optimize, "{filter}");
                continue;
            };
            let forms = both(&program);
            if forms.program.machine_code().is_none() {
                portable.push(filter);
            }
            for packet in &packets {
                let length = packet.len() as u32;
                let cut = SNAP_LENGTHS.iter().filter(|length| **length < packet.len());
                for captured in cut.copied().chain([packet.len()]) {
                    let expected = system.accepts(&program, &packet[..captured], length);
                    let given = forms.accepts(edge.put(&packet[..captured]), length);
                    assert_eq!(given, expected, "{filter} on {packet:02x?} cut to {captured}");
                    decides[usize::from(given != 0)] = true;
                    compared += 1;
                }
            }
        }
        wanted += u32::from(decides[1]);
    }
    // Only loops are not made into machine code, and most filters want some packets and not others.
    let loops = portable.iter().all(|filter| filter.contains("protochain"));
    assert!(loops || cfg!(not(target_arch = "x86_64")), "{portable:?}");
    assert!(wanted > 200, "{wanted}");
    println!("{compared} decisions on {} packets, {wanted} filters want some", packets.len());
}

/// Programs of our compiler decide as those of the system's, also on packets that were cut and
/// damaged.
#[test]
#[ignore = "needs libpcap"]
fn filters_of_the_world_are_compiled_as_by_the_system() {
    // libpcap's programs of these look at no packet.
    let refused = ["byte 8 & 5", "byte 8 | 5"];
    let system = System::new();
    let packets: Vec<_> = packets().into_iter().collect();
    let random = &mut Rng::with_seed(1);
    let (mut compared, mut wanted) = (0, 0);
    for filter in filters() {
        let theirs = both(&system.compile(filter, false).expect("a filter"));
        let ours = match compile((DLT_EN10MB, Frames::Whole), SNAP_LENGTH, filter, None) {
            Ok(ours) => both(&ours),
            Err(error) => {
                assert!(refused.contains(&filter), "{filter}: {error}");
                continue;
            }
        };
        let damaged = (0..500).map(|_| changed(random, &packets)).collect::<Vec<_>>();
        for packet in packets.iter().chain(&damaged) {
            let length = packet.len() as u32;
            let decided = ours.accepts(packet, length);
            assert_eq!(decided, theirs.accepts(packet, length), "{filter} on {packet:02x?}");
            compared += 1;
            wanted += u32::from(decided > 0);
        }
    }
    assert!(compared > 300_000 && wanted > 20_000, "{compared}, {wanted}");
    println!("{compared} decisions, {wanted} packets wanted");
}
