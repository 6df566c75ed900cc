//! The program that decides, per packet, between our socket and the kernel.
//!
//! It looks at the headers only as far as the choice needs: nothing at all
//! when every packet is ours. Up to two VLAN tags are skipped. IPv4 options
//! are skipped; of IPv6 extension headers only one hop-by-hop header is, so a
//! port behind others does not match. Every packet that ends too early to be
//! looked at counts as not matching.

use std::os::fd::BorrowedFd;

use linerate_linux::bpf::Instruction;

use super::assembler::{Assembler, Change, Label, Register, Test, Width};

/// Packets that go to the kernel's network stack instead of to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KernelShare {
    /// Nothing.
    None,
    /// Protocols that keep the interface usable for the kernel: ARP, ICMP, IGMP, `ICMPv6`, EAPOL,
    /// and the link-local protocols (spanning tree, LACP, LLDP).
    Control,
    /// Everything that matches none of the terms.
    Unmatched(Vec<Term>),
}

/// One property of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    /// EtherType behind VLAN tags.
    EtherType(u16),
    /// IPv4 protocol or IPv6 next header.
    Protocol(u8),
    /// Source or destination port of a transport protocol.
    Port(u8, u16),
}

/// Most terms of a filter: keeps the program within the reach of its jumps.
pub(super) const TERMS_MAX: usize = 64;

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

const ETHERTYPE_IPV4: i32 = 0x0800;
const ETHERTYPE_IPV6: i32 = 0x86dd;
const ETHERTYPES_VLAN: [i32; 2] = [0x8100, 0x88a8];

/// ARP, EAPOL, LACP and its kin, LLDP; the last three usually go to addresses
/// the program lets through anyway.
const CONTROL: [Term; 7] = [
    Term::EtherType(0x0806),
    Term::EtherType(0x888e),
    Term::EtherType(0x8809),
    Term::EtherType(0x88cc),
    Term::Protocol(ICMP),
    Term::Protocol(IGMP),
    Term::Protocol(ICMPV6),
];

impl std::str::FromStr for Term {
    type Err = ();

    /// `ethertype:0x88b5`, `proto:89`, `udp:4789`, `tcp:179`, `sctp:2905`.
    fn from_str(text: &str) -> Result<Term, ()> {
        let (kind, value) = text.split_once(':').ok_or(())?;
        let number = match value.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let number = number.map_err(|_| ())?;
        match kind {
            "ethertype" => Ok(Term::EtherType(number)),
            "proto" => Ok(Term::Protocol(u8::try_from(number).map_err(|_| ())?)),
            "tcp" => Ok(Term::Port(TCP, number)),
            "udp" => Ok(Term::Port(UDP, number)),
            "sctp" => Ok(Term::Port(SCTP, number)),
            _ => Err(()),
        }
    }
}

// Registers. The context stays where the kernel passes it: nothing is called
// before it is last used.
const ANSWER: Register = Register(0);
const CONTEXT: Register = Register(1);
const SCRATCH: Register = Register(2);
const SOURCE_PORT: Register = Register(3);
const DESTINATION_PORT: Register = Register(4);
const HEADER_LENGTH: Register = Register(5);
const CURSOR: Register = Register(7);
const END: Register = Register(8);
/// EtherType, later the transport protocol.
const KIND: Register = Register(9);

// Fields of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE: i16 = 16;

/// `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// `XDP_PASS`: on to the kernel's stack.
pub(super) const PASS: u32 = 2;

/// Writes the program. `missing` is its answer for a packet of ours on a queue
/// that has no socket.
pub(super) fn build(
    share: &KernelShare,
    sockets: BorrowedFd<'_>,
    missing: u32,
) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (ours, kernels) = (asm.label(), asm.label());
    match share {
        KernelShare::None => {}
        KernelShare::Control => {
            start(&mut asm, ours);
            reserved_address(&mut asm, kernels);
            classify(&mut asm, &CONTROL, kernels, ours);
        }
        KernelShare::Unmatched(terms) => {
            start(&mut asm, kernels);
            classify(&mut asm, terms, ours, kernels);
        }
    }
    asm.bind(ours);
    asm.load(Width::Word, SCRATCH, CONTEXT, RX_QUEUE);
    asm.load_map(CONTEXT, sockets);
    asm.change(Change::Set, Register(3), missing as i32);
    asm.call(REDIRECT_MAP);
    asm.exit();
    if *share != KernelShare::None {
        asm.bind(kernels);
        asm.change(Change::Set, ANSWER, PASS as i32);
        asm.exit();
    }
    asm.finish()
}

/// Points the cursor at the Ethernet header, which is there whole.
fn start(asm: &mut Assembler, short: Label) {
    asm.load(Width::Word, CURSOR, CONTEXT, DATA);
    asm.load(Width::Word, END, CONTEXT, DATA_END);
    need(asm, 14, short);
}

/// Jumps when fewer than `count` bytes follow the cursor. The verifier wants
/// to see this before every load from the packet.
fn need(asm: &mut Assembler, count: i32, short: Label) {
    asm.change_by(Change::Set, SCRATCH, CURSOR);
    asm.change(Change::Add, SCRATCH, count);
    asm.jump_if_registers(SCRATCH, Test::Greater, END, short);
}

/// Jumps when the destination is one of the addresses no bridge forwards,
/// 01-80-C2-00-00-00 to -0F (IEEE Std 802.1Q, 8.6.3).
fn reserved_address(asm: &mut Assembler, reserved: Label) {
    let other = asm.label();
    asm.load(Width::Word, SCRATCH, CURSOR, 0);
    asm.jump_if(SCRATCH, Test::NotEqual, i32::from_ne_bytes([0x01, 0x80, 0xc2, 0x00]), other);
    asm.load_network(SCRATCH, CURSOR, 4);
    asm.change(Change::And, SCRATCH, 0xfff0);
    asm.jump_if(SCRATCH, Test::Equal, 0, reserved);
    asm.bind(other);
}

/// Jumps to `matched` when a term holds, else to `unmatched`.
fn classify(asm: &mut Assembler, terms: &[Term], matched: Label, unmatched: Label) {
    asm.load_network(KIND, CURSOR, 12);
    asm.change(Change::Add, CURSOR, 14);
    for _ in 0..2 {
        skip_vlan(asm, unmatched);
    }
    for term in terms {
        if let Term::EtherType(ethertype) = *term {
            asm.jump_if(KIND, Test::Equal, ethertype.into(), matched);
        }
    }
    if terms.iter().all(|term| matches!(term, Term::EtherType(_))) {
        asm.jump(unmatched);
        return;
    }
    let (ipv4, ports) = (asm.label(), asm.label());
    asm.jump_if(KIND, Test::Equal, ETHERTYPE_IPV4, ipv4);
    asm.jump_if(KIND, Test::NotEqual, ETHERTYPE_IPV6, unmatched);

    let direct = asm.label();
    need(asm, 40, unmatched);
    asm.load(Width::Byte, KIND, CURSOR, 6);
    asm.change(Change::Add, CURSOR, 40);
    asm.jump_if(KIND, Test::NotEqual, 0, direct);
    // A hop-by-hop header: next header, then its length in units of 8 bytes
    // without the first.
    need(asm, 8, unmatched);
    asm.load(Width::Byte, KIND, CURSOR, 0);
    asm.load(Width::Byte, HEADER_LENGTH, CURSOR, 1);
    asm.change(Change::Add, HEADER_LENGTH, 1);
    asm.change(Change::ShiftLeft, HEADER_LENGTH, 3);
    asm.change_by(Change::Add, CURSOR, HEADER_LENGTH);
    asm.bind(direct);
    protocols(asm, terms, matched);
    asm.jump(ports);

    asm.bind(ipv4);
    need(asm, 20, unmatched);
    asm.load(Width::Byte, KIND, CURSOR, 9);
    protocols(asm, terms, matched);
    // Only the first fragment has ports.
    asm.load_network(SCRATCH, CURSOR, 6);
    asm.change(Change::And, SCRATCH, 0x1fff);
    asm.jump_if(SCRATCH, Test::NotEqual, 0, unmatched);
    asm.load(Width::Byte, HEADER_LENGTH, CURSOR, 0);
    asm.change(Change::And, HEADER_LENGTH, 0x0f);
    asm.change(Change::ShiftLeft, HEADER_LENGTH, 2);
    asm.change_by(Change::Add, CURSOR, HEADER_LENGTH);

    asm.bind(ports);
    need(asm, 4, unmatched);
    asm.load_network(SOURCE_PORT, CURSOR, 0);
    asm.load_network(DESTINATION_PORT, CURSOR, 2);
    for term in terms {
        if let Term::Port(protocol, port) = *term {
            let other = asm.label();
            asm.jump_if(KIND, Test::NotEqual, protocol.into(), other);
            asm.jump_if(SOURCE_PORT, Test::Equal, port.into(), matched);
            asm.jump_if(DESTINATION_PORT, Test::Equal, port.into(), matched);
            asm.bind(other);
        }
    }
    asm.jump(unmatched);
}

fn skip_vlan(asm: &mut Assembler, short: Label) {
    let (tagged, done) = (asm.label(), asm.label());
    for ethertype in ETHERTYPES_VLAN {
        asm.jump_if(KIND, Test::Equal, ethertype, tagged);
    }
    asm.jump(done);
    asm.bind(tagged);
    need(asm, 4, short);
    asm.load_network(KIND, CURSOR, 2);
    asm.change(Change::Add, CURSOR, 4);
    asm.bind(done);
}

fn protocols(asm: &mut Assembler, terms: &[Term], matched: Label) {
    for term in terms {
        if let Term::Protocol(protocol) = *term {
            asm.jump_if(KIND, Test::Equal, protocol.into(), matched);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::{super::bpf, *};

    /// `XDP_DROP`, here the answer for packets that would be ours.
    const OURS: u32 = 1;

    fn ethernet(destination: [u8; 6], rest: &[u8]) -> Vec<u8> {
        let mut packet = [&destination[..], &[2, 0, 0, 0, 0, 9], rest].concat();
        // The kernel's test run wants a whole Ethernet header and no more.
        packet.resize(packet.len().max(14), 0);
        packet
    }

    const HOST: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn ipv4(protocol: u8, fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x45 + options as u8, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        header.extend(vec![1; options * 4]);
        [&[0x08, 0x00], &header[..], payload].concat()
    }

    fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        header.extend([0xfe; 32]);
        [&[0x86, 0xdd], &header[..], payload].concat()
    }

    fn ports(source: u16, destination: u16) -> Vec<u8> {
        [source.to_be_bytes(), destination.to_be_bytes(), [0; 2], [0; 2]].concat()
    }

    fn tagged(tags: &[u16], rest: Vec<u8>) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            tags.iter().flat_map(|tag| [tag.to_be_bytes(), [0, 5]].concat()).collect();
        bytes.extend(rest);
        bytes
    }

    /// Answers of the program for each packet: whether it is ours.
    fn ours(share: &KernelShare, packets: &[Vec<u8>]) -> Vec<bool> {
        let map = bpf::socket_map(1).unwrap();
        let program = bpf::load(&build(share, map.as_fd(), OURS), false).unwrap();
        let answer = |packet: &Vec<u8>| bpf::test_run(program.as_fd(), packet).unwrap();
        packets
            .iter()
            .map(|packet| match answer(packet) {
                OURS => true,
                PASS => false,
                other => panic!("answer {other}"),
            })
            .collect()
    }

    #[test]
    #[ignore = "needs root"]
    fn the_kernel_takes_nothing_unless_told() {
        let packets = [ethernet([0xff; 6], &[8, 6]), ethernet(HOST, &ipv4(ICMP, 0, 0, &[8; 8]))];
        assert_eq!(ours(&KernelShare::None, &packets), [true, true]);
    }

    #[test]
    #[ignore = "needs root"]
    fn control_packets_go_to_the_kernel() {
        let control = [
            ethernet([0xff; 6], &[0x08, 0x06, 0, 1]),
            ethernet([1, 0x80, 0xc2, 0, 0, 0], &[0, 38, 0x42, 0x42, 3]),
            ethernet([1, 0x80, 0xc2, 0, 0, 0x0e], &[0x88, 0xcc]),
            ethernet(HOST, &ipv4(ICMP, 0, 0, &[8; 8])),
            ethernet(HOST, &ipv4(ICMP, 0, 3, &[8; 8])),
            ethernet(HOST, &ipv6(ICMPV6, &[135; 24])),
            // A multicast listener report: ICMPv6 behind a router alert.
            ethernet(HOST, &ipv6(0, &[ICMPV6, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0])),
            ethernet(HOST, &tagged(&[0x8100], ipv4(ICMP, 0, 0, &[8; 8]))),
            ethernet(HOST, &tagged(&[0x88a8, 0x8100], vec![0x08, 0x06, 0, 1])),
        ];
        assert_eq!(ours(&KernelShare::Control, &control), vec![false; control.len()]);
        let data = [
            ethernet(HOST, &ipv4(UDP, 0, 0, &ports(1, 2))),
            ethernet(HOST, &ipv6(TCP, &ports(1, 2))),
            ethernet([1, 0x80, 0xc2, 0, 0, 0x10], &[0x88, 0xb5]),
            ethernet([1, 0x80, 0xc3, 0, 0, 0], &[0x88, 0xb5]),
            ethernet(HOST, &[0x88, 0xb5]),
            // Cut off inside a tag and inside an IP header.
            ethernet(HOST, &[0x81, 0x00, 0, 5]),
            ethernet(HOST, &ipv4(ICMP, 0, 0, &[])[..18]),
        ];
        assert_eq!(ours(&KernelShare::Control, &data), vec![true; data.len()]);
    }

    #[test]
    #[ignore = "needs root"]
    fn matching_packets_are_ours_and_the_rest_the_kernels() {
        let terms = ["udp:4789", "ethertype:0x88b5", "proto:89", "tcp:179"];
        let share = KernelShare::Unmatched(terms.map(|term| term.parse().unwrap()).into());
        let matching = [
            ethernet(HOST, &ipv4(UDP, 0, 0, &ports(9, 4789))),
            ethernet(HOST, &ipv4(UDP, 0, 0, &ports(4789, 9))),
            ethernet(HOST, &ipv4(UDP, 0x2000, 0, &ports(9, 4789))),
            ethernet(HOST, &ipv4(UDP, 0, 10, &ports(9, 4789))),
            ethernet(HOST, &ipv6(UDP, &ports(9, 4789))),
            ethernet(HOST, &ipv6(0, &[&[UDP, 0, 1, 4, 0, 0, 0, 0], &ports(9, 4789)[..]].concat())),
            ethernet(HOST, &tagged(&[0x8100, 0x8100], ipv6(TCP, &ports(179, 9)))),
            ethernet(HOST, &[0x88, 0xb5]),
            ethernet(HOST, &tagged(&[0x8100], vec![0x88, 0xb5])),
            ethernet(HOST, &ipv4(89, 0, 0, &[])),
            ethernet(HOST, &ipv4(89, 77, 0, &[])),
        ];
        assert_eq!(ours(&share, &matching), vec![true; matching.len()]);
        let others = [
            ethernet(HOST, &ipv4(TCP, 0, 0, &ports(9, 4789))),
            ethernet(HOST, &ipv4(UDP, 0, 0, &ports(9, 179))),
            // A later fragment and a cut one show no ports.
            ethernet(HOST, &ipv4(UDP, 5, 0, &ports(9, 4789))),
            ethernet(HOST, &ipv4(UDP, 0, 0, &[0, 9, 0x12])),
            ethernet(HOST, &ipv4(UDP, 0, 10, &[])),
            ethernet(HOST, &[0x08, 0x06]),
            ethernet(HOST, &tagged(&[0x8100, 0x8100, 0x8100], vec![0x88, 0xb5])),
        ];
        assert_eq!(ours(&share, &others), vec![false; others.len()]);
    }

    #[test]
    #[ignore = "needs root"]
    fn the_longest_filter_is_accepted() {
        let terms: Vec<Term> =
            (0..TERMS_MAX).map(|n| Term::Port(UDP, n as u16 * 997 + 1)).collect();
        let packet = ethernet(HOST, &ipv4(UDP, 0, 0, &ports(9, 63 * 997 + 1)));
        assert_eq!(ours(&KernelShare::Unmatched(terms), &[packet]), [true]);
    }

    #[test]
    fn reads_terms() {
        assert_eq!("ethertype:0x88b5".parse(), Ok(Term::EtherType(0x88b5)));
        assert_eq!("udp:53".parse(), Ok(Term::Port(UDP, 53)));
        assert_eq!("proto:89".parse(), Ok(Term::Protocol(89)));
        for bad in ["", "udp", "udp:", "udp:65536", "proto:256", "ether:1", "tcp:-1", "udp:0x"] {
            assert_eq!(bad.parse::<Term>(), Err(()), "{bad}");
        }
    }
}
