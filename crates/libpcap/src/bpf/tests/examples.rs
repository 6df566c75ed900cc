//! Single programs, one for each rule.

use linerate_filter::{Filter, Instruction, Names, code};

use super::both;
use crate::bpf::{Invalid, Metadata, Program, VlanTag};

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn branch(relation: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code: code::JUMP | relation, jt, jf, k }
}

const HALF: u16 = code::LOAD | code::ABSOLUTE | code::HALF;
const BYTE: u16 = code::LOAD | code::ABSOLUTE | code::BYTE;
const RETURN_A: Instruction = plain_const(code::RETURN | code::FROM_A, 0);

const fn plain_const(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn refused(program: &[Instruction]) -> Invalid {
    Program::new(program).expect_err("an invalid program")
}

#[test]
fn our_own_filters_are_run() {
    let mut packet = [0; 60];
    packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
    packet[36..38].copy_from_slice(&80u16.to_be_bytes());
    for (text, wanted) in [
        ("tcp port 80", true),
        ("tcp port 81", false),
        ("ip6", false),
        ("less 60", true),
        ("", true),
    ] {
        let filter = Filter::new(text, Names::NONE).expect(text);
        let forms = both(&filter.program().expect(text));
        assert_eq!(forms.accepts(&packet, 60) > 0, wanted, "{text}");
        assert_eq!(filter.accepts(&packet), wanted, "{text}");
    }
}

/// A program for the processor it was measured on is as short as it can be.
#[test]
#[cfg(target_arch = "x86_64")]
fn code_looks_once_and_compares_in_place() {
    let filter = [
        plain(HALF, 12),
        branch(code::EQUAL, 0x800, 0, 3),
        plain(BYTE, 23),
        branch(code::EQUAL, 6, 0, 1),
        plain(code::RETURN, 0x40000),
        plain(code::RETURN, 0),
    ];
    let program = Program::new(&filter).expect("a valid program");
    let expected: &[&[u8]] = &[
        &[0x83, 0xfe, 24],             // cmp esi, 24
        &[0x72, 19],                   // jb refuse
        &[0x66, 0x83, 0x7f, 12, 0x08], // cmp word [rdi + 12], 8
        &[0x75, 12],                   // jne refuse
        &[0x80, 0x7f, 23, 6],          // cmp byte [rdi + 23], 6
        &[0x75, 6],                    // jne refuse
        &[0xb8, 0, 0, 4, 0],           // mov eax, 0x40000
        &[0xc3],                       // ret
        &[0x31, 0xc0],                 // refuse: xor eax, eax
        &[0xc3],                       // ret
    ];
    assert_eq!(program.machine_code(), Some(&expected.concat()[..]));
}

#[test]
fn the_length_is_that_on_the_link() {
    let forms = both(&[plain(code::LOAD | code::LENGTH, 0), RETURN_A]);
    assert_eq!(forms.accepts(&[1, 2, 3], 1500), 1500);
}

#[test]
fn loads_end_where_the_packet_does() {
    for (width, bytes) in [(code::BYTE, 1), (code::HALF, 2), (code::WORD, 4)] {
        let absolute =
            both(&[plain(code::LOAD | code::ABSOLUTE | width, 10), plain(code::RETURN, 7)]);
        let indexed = |x| {
            both(&[
                plain(code::LOAD_X, x),
                plain(code::LOAD | code::INDEXED | width, 4),
                plain(code::RETURN, 7),
            ])
        };
        let packet = [1; 20];
        for length in 0..packet.len() {
            let expected = if length >= 10 + bytes { 7 } else { 0 };
            assert_eq!(absolute.accepts(&packet[..length], 20), expected);
            assert_eq!(indexed(6).accepts(&packet[..length], 20), expected);
        }
        // Sums do not wrap.
        assert_eq!(indexed(u32::MAX - 3).accepts(&packet, 20), 0);
        assert_eq!(indexed(u32::MAX - 2).accepts(&packet, 20), 0);
    }
}

#[test]
fn too_far_shifts_give_zero_and_divisions_by_zero_refuse() {
    let calculate = |operator, x| {
        both(&[
            plain(code::LOAD_X, x),
            plain(code::LOAD, 0x8000_0001),
            plain(code::CALCULATE | operator | code::FROM_X, 0),
            branch(code::EQUAL, 0, 0, 1),
            plain(code::RETURN, 99),
            RETURN_A,
        ])
        .accepts(&[], 0)
    };
    assert_eq!(calculate(code::LEFT, 1), 2);
    assert_eq!(calculate(code::RIGHT, 31), 1);
    assert_eq!(calculate(code::LEFT, 32), 99);
    assert_eq!(calculate(code::RIGHT, 33), 99);
    assert_eq!(calculate(code::DIVIDE, 0), 0);
    assert_eq!(calculate(code::REMAINDER, 0), 0);
    assert_eq!(calculate(code::REMAINDER, 2), 1);
}

#[test]
fn tags_are_in_the_packet() {
    // libpcap's program of `vlan` for an interface.
    let present = plain(BYTE, code::ANCILLARY + code::VLAN_TAG_PRESENT);
    let forms = both(&[
        present,
        branch(code::EQUAL, 1, 2, 0),
        plain(HALF, 12),
        branch(code::EQUAL, 0x8100, 0, 1),
        plain(code::RETURN, 5),
        plain(code::RETURN, 0),
    ]);
    let mut packet = [0; 18];
    assert_eq!(forms.accepts(&packet, 18), 0);
    let beside = about(0, Some(VlanTag { protocol: 0x8100, control: 0 }));
    assert_eq!(forms.accepts_with(&packet, 18, &beside), 5);
    packet[12] = 0x81;
    assert_eq!(forms.accepts(&packet, 18), 5);
}

fn about(packet_type: u8, tag: Option<VlanTag>) -> Metadata {
    Metadata { packet_type, tag, ..Metadata::default() }
}

/// Each load alone, and the metadata it reads.
#[test]
fn ancillary_loads_read_metadata() {
    let tag = VlanTag { protocol: 0x88a8, control: 0x6064 };
    let known = Metadata { interface: 7, ..about(4, Some(tag)) };
    let mut packet = [0; 42];
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[23] = 17;
    for (which, expected, bare) in [
        (0, 0x800, 0x800),
        (4, 4, 0),
        (8, 7, 0),
        (20, 0, 0),
        (24, 0, 0),
        (28, 1, 1),
        (32, 0, 0),
        (44, 0x6064, 0),
        (48, 1, 0),
        (52, 42, 42),
        (60, 0x88a8, 0),
    ] {
        for width in [BYTE, HALF, code::LOAD | code::ABSOLUTE] {
            let forms = both(&[plain(width, code::ANCILLARY + which), RETURN_A]);
            assert_eq!(forms.accepts_with(&packet, 60, &known), expected, "{which}");
            assert_eq!(forms.accepts(&packet, 60), bare, "{which}");
        }
    }
    // `SKF_AD_ALU_XOR_X`.
    let xor = both(&[
        plain(code::LOAD, 0b1100),
        plain(code::LOAD_X, 0b1010),
        plain(BYTE, code::ANCILLARY + 40),
        RETURN_A,
    ]);
    assert_eq!(xor.accepts(&packet, 60), 0b0110);
}

/// Half of all packets, as a program that takes a sample asks for them.
#[test]
fn random_numbers_differ_from_packet_to_packet() {
    let sample = Program::new(&[
        plain(code::LOAD | code::ABSOLUTE, code::ANCILLARY + 56),
        plain(code::CALCULATE | code::AND, 1),
        RETURN_A,
    ])
    .unwrap();
    let taken = (0..10_000).filter(|_| sample.accepts(&[], 60) == 1).count();
    assert!((4000..6000).contains(&taken), "{taken}");
}

/// libpcap's program of `outbound`, also where scratch memory and divisions need all registers.
#[test]
fn packets_are_asked_whether_they_were_sent() {
    let kind = plain(HALF, code::ANCILLARY + 4);
    let end = [plain(code::RETURN, 5), plain(code::RETURN, 0)];
    let outbound = both(&[&[kind, branch(code::EQUAL, 4, 0, 1)][..], &end].concat());
    let mut crowded = vec![plain(code::LOAD, 36), plain(code::LOAD_X, 6)];
    crowded.extend((0..4).map(|word| plain(code::STORE, word)));
    crowded.extend([
        plain(code::CALCULATE | code::DIVIDE | code::FROM_X, 0),
        plain(code::A_TO_X, 0),
        kind,
        plain(code::CALCULATE | code::ADD | code::FROM_X, 0),
        branch(code::EQUAL, 10, 0, 1),
    ]);
    crowded.extend(end);
    let crowded = both(&crowded);
    for sent in 0..=5 {
        let wanted = if sent == 4 { 5 } else { 0 };
        let tag = VlanTag { protocol: 0x8100, control: 0xffff };
        for known in [about(sent, None), about(sent, Some(tag))] {
            assert_eq!(outbound.accepts_with(&[], 60, &known), wanted);
            assert_eq!(crowded.accepts_with(&[1, 2, 3], 60, &known), wanted);
        }
    }
    assert_eq!(outbound.accepts(&[], 60), 0);
}

#[test]
fn loops_are_run_and_end() {
    // Behind each header comes another, eight bytes further.
    let chain = [
        plain(code::LOAD_X, 0),
        plain(code::LOAD | code::INDEXED | code::BYTE, 0),
        branch(code::EQUAL, 6, 4, 0),
        plain(code::X_TO_A, 0),
        plain(code::CALCULATE | code::ADD, 8),
        plain(code::A_TO_X, 0),
        plain(code::JUMP, -6i32 as u32),
        plain(code::RETURN, 1),
    ];
    let forms = both(&chain);
    assert_eq!(forms.program.machine_code(), None);
    let mut packet = vec![0; 262_144];
    assert_eq!(forms.accepts(&packet, 1), 0);
    packet[262_144 - 8] = 6;
    assert_eq!(forms.accepts(&packet, 1), 1);
    let forever = [plain(code::JUMP, -1i32 as u32), plain(code::RETURN, 1)];
    assert_eq!(both(&forever).accepts(&[], 0), 0);
}

/// As systemd's `MemoryDenyWriteExecute=` has it, for one thread.
#[test]
#[cfg(target_arch = "x86_64")]
fn where_code_cannot_be_executed_there_are_steps() {
    let forbidden = std::thread::spawn(|| {
        let native = |instruction: Instruction| {
            let Instruction { code, jt, jf, k } = instruction;
            libc::sock_filter { code, jt, jf, k }
        };
        // Of `struct seccomp_data`: the number of the call, and the lower half of its third argument.
        let mut program = [
            plain(code::LOAD | code::ABSOLUTE, 0),
            branch(code::EQUAL, libc::SYS_mprotect as u32, 0, 3),
            plain(code::LOAD | code::ABSOLUTE, 32),
            branch(code::ANY_BITS, libc::PROT_EXEC as u32, 0, 1),
            plain(code::RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            plain(code::RETURN, libc::SECCOMP_RET_ALLOW),
        ]
        .map(native);
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: the program is there while the kernel copies it, and holds for this thread alone.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        assert_eq!(set, 0);
        let forms = both(&[plain(BYTE, 3), RETURN_A]);
        assert_eq!(forms.program.machine_code(), None);
        assert_eq!(forms.accepts(&[0, 0, 0, 9], 4), 9);
    });
    forbidden.join().expect("steps");
    assert!(both(&[RETURN_A]).program.machine_code().is_some());
}

#[test]
fn long_programs_are_run() {
    let mut program = Vec::new();
    for host in 0..20_000 {
        program.push(plain(code::LOAD | code::ABSOLUTE, 0));
        program.push(branch(code::EQUAL, host, 0, 1));
        program.push(plain(code::RETURN, host + 1));
    }
    program.push(plain(code::RETURN, 0));
    let forms = both(&program);
    for host in [0, 1, 255, 256, 19_999] {
        assert_eq!(forms.accepts(&u32::to_be_bytes(host), 4), host + 1);
    }
    assert_eq!(forms.accepts(&u32::to_be_bytes(20_000), 4), 0);
}

#[test]
fn unsafe_programs_are_refused_with_the_reason() {
    let end = plain(code::RETURN, 0);
    assert_eq!(refused(&[]), Invalid::Empty);
    assert_eq!(refused(&[plain(code::LOAD, 0)]), Invalid::NoEnd);
    assert_eq!(refused(&[plain(code::JUMP, 1), end]), Invalid::Jump { at: 0 });
    assert_eq!(refused(&[plain(code::JUMP, -2i32 as u32), end]), Invalid::Jump { at: 0 });
    assert_eq!(refused(&[branch(code::EQUAL, 0, 0, 1), end]), Invalid::Jump { at: 0 });
    let divide = plain(code::CALCULATE | code::DIVIDE, 0);
    assert_eq!(refused(&[divide, end]), Invalid::Zero { at: 0 });
    let shift = plain(code::CALCULATE | code::LEFT, 32);
    assert_eq!(refused(&[shift, end]), Invalid::Shift { at: 0, bits: 32 });
    assert_eq!(refused(&[plain(code::STORE, 16), end]), Invalid::Memory { at: 0, word: 16 });
    let read = plain(code::LOAD_X | code::MEMORY, 3);
    assert_eq!(refused(&[read, end]), Invalid::Unwritten { at: 0, word: 3 });
    assert_eq!(refused(&[plain(0x0e, 0), end]), Invalid::Unknown { at: 0, code: 0x0e });
    let unknown = refused(&[plain(HALF, code::ANCILLARY + 64), end]);
    assert_eq!(unknown, Invalid::Ancillary { at: 0, which: 64 });
    assert!(unknown.to_string().starts_with("BPF program is not valid"), "{unknown}");
    let long = vec![end; crate::bpf::INSTRUCTIONS_MAX + 1];
    assert_eq!(refused(&long), Invalid::TooLong);
    assert!(Program::new(&long[1..]).is_ok());
}

/// A word that is written before a loop but on one way into it is not written in it.
#[test]
fn scratch_memory_in_loops_is_written_first() {
    let program = [
        plain(code::LOAD, 0),
        branch(code::EQUAL, 1, 0, 1),
        plain(code::JUMP, 2),
        plain(code::STORE, 0),
        plain(code::LOAD | code::MEMORY, 0),
        plain(code::JUMP, -4i32 as u32),
        plain(code::RETURN, 0),
    ];
    assert!(Program::new(&program).is_ok());
    let mut unwritten = program;
    unwritten[5].k = -2i32 as u32;
    unwritten[2].k = 1;
    assert_eq!(refused(&unwritten), Invalid::Unwritten { at: 4, word: 0 });
}
