//! Packets as they are seen on links, of all kinds, and which of them expressions choose.

use super::{
    Filter, Names,
    tests::{names, run},
};

/// Packets as hexadecimal digits, and their names: a line each.
const PACKETS: &str = include_str!("packets.txt");
/// Expressions, and which of the packets tcpdump 4.99.3 with libpcap 1.10.3 chooses; its programs
/// not improved.
pub(super) const CHOSEN: &str = include_str!("chosen.txt");

pub(super) fn packets() -> Vec<Vec<u8>> {
    let packet = |line: &str| {
        let (digits, _) = line.split_once(' ').expect("digits and a name");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    };
    PACKETS.lines().map(packet).collect()
}

/// Names for a capture file.
pub(super) fn names_of_files<'a>() -> Names<'a> {
    Names { netmask: Some(0), ..names() }
}

#[test]
fn packets_of_all_kinds_are_chosen_as_tcpdump_chooses_them() {
    let packets = packets();
    let (mut cases, mut programs) = (0, 0);
    for case in CHOSEN.lines() {
        let (expected, expression) = case.split_once(' ').expect("an answer and an expression");
        let filter = Filter::new(expression, names_of_files()).expect(expression);
        let program = filter.program();
        for ((packet, expected), line) in packets.iter().zip(expected.bytes()).zip(PACKETS.lines())
        {
            let what = line.split_once(' ').map_or("", |(_, what)| what);
            assert_eq!(filter.accepts(packet), expected == b'1', "{expression}: {what}");
            if let Some(program) = &program {
                let runs = run(program, packet) > 0;
                assert_eq!(runs, expected == b'1', "the program of {expression}: {what}");
            }
        }
        assert_eq!(expected.len(), packets.len(), "{expression}");
        cases += 1;
        programs += usize::from(program.is_some());
    }
    assert!(cases > 80 && programs > 70, "{cases}, {programs}");
}
