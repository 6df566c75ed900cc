//! Random programs on random packets.

use std::collections::BTreeSet;

use fastrand::Rng;
use linerate_filter::{Instruction, code};
use linerate_linux::socket::set_filter;
use rustix::net::{AddressFamily, SocketType, socket};

use super::{Edge, both, exercise::reference, generate, system::System};
use crate::bpf::{Invalid, Program};

const PROGRAMS: u64 = 20_000;
const PACKETS: usize = 8;

/// Runs valid programs on packets, some of them cut by a capture.
fn run(mut seen: impl FnMut(&[Instruction], &[u8], u32, u32)) {
    let mut accepted = [0u32; 2];
    let mut codes = BTreeSet::new();
    let mut edge = Edge::new();
    for seed in 0..PROGRAMS {
        let random = &mut Rng::with_seed(seed);
        let program = generate::program(random);
        codes.extend(program.iter().map(|instruction| instruction.code));
        let forms = both(&program);
        for _ in 0..PACKETS {
            let packet = generate::packet(random);
            let length = packet.len() as u32 + if random.bool() { random.u32(..2000) } else { 0 };
            let given = forms.accepts(edge.put(&packet), length);
            assert_eq!(Some(given), reference(&program, &packet, length), "{forms:02x?}");
            accepted[usize::from(given != 0)] += 1;
            seen(&program, &packet, length, given);
        }
    }
    // All instructions were there, and neither answer was rare.
    assert_eq!(codes.len(), 49, "{codes:#x?}");
    assert!(accepted.iter().all(|count| *count > 30_000), "{accepted:?}");
}

#[test]
fn both_forms_agree_on_random_programs() {
    run(|_, _, _, _| {});
}

#[test]
#[ignore = "needs libpcap"]
fn random_programs_decide_as_the_system_s_interpreter() {
    let system = System::new();
    let mut pairs = 0;
    run(|program, packet, length, given| {
        let expected = system.accepts(program, packet, length);
        assert_eq!(given, expected, "{program:x?} on {packet:02x?} of {length}");
        pairs += 1;
    });
    assert!(pairs >= 100_000, "{pairs}");
}

/// Programs that are damaged a little, and some that never were any.
fn damaged(mut seen: impl FnMut(&[Instruction], Result<(), Invalid>)) {
    for seed in 0..PROGRAMS {
        let random = &mut Rng::with_seed(seed);
        let mut program = if seed % 8 == 0 {
            let any = |random: &mut Rng| Instruction {
                code: random.u16(..0x100),
                jt: random.u8(..4),
                jf: random.u8(..4),
                k: random.u32(..24),
            };
            let mut program: Vec<_> = (0..random.usize(..4)).map(|_| any(random)).collect();
            program.push(Instruction::give(1));
            program
        } else {
            generate::program(random)
        };
        generate::damage(random, &mut program);
        seen(&program, Program::new(&program).map(drop));
    }
}

/// Programs that the kernel takes and we do not, and the other way round.
#[test]
fn programs_are_refused_as_by_the_kernel() {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
    let (mut refused, mut loops, mut ancillary) = (0, 0, 0);
    damaged(|program, checked| {
        let native: Vec<libc::sock_filter> = program
            .iter()
            .map(|&Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k })
            .collect();
        let theirs = set_filter(&socket, &native).is_ok();
        let is_loop = (0..).zip(program).any(|(at, instruction)| {
            instruction.code == code::JUMP && instruction.k > u32::MAX - (at + 1)
        });
        match checked {
            Err(Invalid::Ancillary { .. }) => {
                assert!(!theirs);
                ancillary += 1;
            }
            // For `set_filter` that is none at all.
            Err(Invalid::Empty) => {}
            Ok(()) if is_loop => {
                assert!(!theirs);
                loops += 1;
            }
            checked => {
                assert_eq!(checked.is_ok(), theirs, "{checked:?} {program:x?}");
                refused += u32::from(!theirs);
            }
        }
    });
    assert!(refused > 5_000 && loops > 5 && ancillary > 5, "{refused} {loops} {ancillary}");
}

#[test]
#[ignore = "needs libpcap"]
fn the_system_s_libpcap_refuses_no_more() {
    let system = System::new();
    let (mut both, mut ours) = (0, [0; 4]);
    damaged(|program, checked| {
        let theirs = system.is_valid(program);
        match checked {
            Ok(()) => assert!(theirs, "{program:x?}"),
            Err(_) if !theirs => both += 1,
            // Programs it would end the process for, results it leaves to chance, and loads that it
            // has for packets beside the kernel's filters alone.
            Err(Invalid::Unknown { .. }) => ours[0] += 1,
            Err(Invalid::Shift { .. }) => ours[1] += 1,
            Err(Invalid::Unwritten { .. }) => ours[2] += 1,
            Err(Invalid::Ancillary { .. }) => ours[3] += 1,
            Err(error) => panic!("{error}: {program:x?}"),
        }
    });
    assert!(both > 1_000 && ours.iter().all(|count| *count > 5), "{both} {ours:?}");
}
