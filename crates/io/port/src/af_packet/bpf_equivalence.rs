//! Equivalence of classic BPF programs: each packet that a program refuses in the kernel's form, it
//! also refuses in the form received here.
//!
//! The two forms differ. The kernel may have several packets merged into one, which then has a
//! length, an identification, a sequence number and flags of its own, and it may have a checksum
//! that is not finished. So a program is followed from its beginning to its ends, with the packet's
//! type as far as known on the way: all that it loads must be bytes that are equal in both. These
//! are the addresses of Ethernet, types and tags, of IP everything but lengths, identifications and
//! header checksums, and ports. Packets of ARP are never merged, and have no checksums.
//!
//! A merged packet has each of TCP's flags that any of its packets had. All but three are on each
//! of them; a program may ask for one of those three if it wants the packet for it.

use linerate_filter::{Instruction, code};

/// Offset of the type of an Ethernet frame.
const TYPE: u32 = 12;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ARP: [u32; 2] = [0x0806, 0x8035];
const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// Offset of the network header.
const NETWORK: u32 = 14;

/// Type of a packet, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Unknown,
    Ipv4,
    Ipv6,
    Arp,
    Tagged,
}

impl Type {
    /// Returns the type of an EtherType number.
    fn from_ethertype(number: u32) -> Type {
        match number {
            IPV4 => Type::Ipv4,
            IPV6 => Type::Ipv6,
            number if ARP.contains(&number) => Type::Arp,
            number if TAGS.contains(&number) => Type::Tagged,
            _ => Type::Unknown,
        }
    }

    /// The bytes that are the same: each from one place up to another.
    fn same(self) -> &'static [(u32, u32)] {
        match self {
            Type::Unknown => &[(0, 16)],
            // Without the length, the identification and the checksum.
            Type::Ipv4 => &[(0, 16), (20, 24), (26, 34)],
            // Without the length, and with the ports behind it.
            Type::Ipv6 => &[(0, 18), (20, 58)],
            Type::Arp => &[(0, 1 << 16)],
            Type::Tagged => &[(0, 18)],
        }
    }
}

/// `IPPROTO_TCP`, and where a header of IPv4 says it.
const TCP: u32 = 6;
const PROTOCOL: u32 = NETWORK + 9;
/// Offset of TCP's flags, behind a header of IPv4.
const FLAGS: u32 = NETWORK + 13;
/// Flags that only the first or the last of merged packets has: `CWR`, `PSH` and `FIN`.
const FLAGS_OF_ONE: u32 = 0x89;

/// State at an instruction, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AbstractState {
    kind: Type,
    /// Whether the frame's type is in A.
    a_is_type: bool,
    /// Whether the length of an IPv4 header is in X.
    x_is_header: bool,
    /// Whether IPv4's protocol is in A, and whether it was found to be TCP.
    a_is_protocol: bool,
    is_tcp: bool,
    /// TCP flags that may be in A.
    flags: u32,
}

impl AbstractState {
    const NOTHING: AbstractState = AbstractState {
        kind: Type::Unknown,
        a_is_type: false,
        x_is_header: false,
        a_is_protocol: false,
        is_tcp: false,
        flags: 0,
    };

    /// With something else in A.
    fn other(self) -> AbstractState {
        AbstractState { a_is_type: false, a_is_protocol: false, flags: 0, ..self }
    }

    /// Returns true if the value in A may differ.
    fn differs(self) -> bool {
        self.flags & FLAGS_OF_ONE != 0
    }

    /// Merges the states of two paths that meet.
    fn meet(self, other: AbstractState) -> AbstractState {
        AbstractState {
            kind: if self.kind == other.kind { self.kind } else { Type::Unknown },
            a_is_type: self.a_is_type && other.a_is_type,
            x_is_header: self.x_is_header && other.x_is_header,
            a_is_protocol: self.a_is_protocol && other.a_is_protocol,
            is_tcp: self.is_tcp && other.is_tcp,
            flags: self.flags | other.flags,
        }
    }

    /// Returns true if bytes at a place are equal in both forms.
    fn has(self, at: u32, bytes: u32) -> bool {
        let Some(end) = at.checked_add(bytes) else { return false };
        self.kind.same().iter().any(|(from, to)| *from <= at && end <= *to)
    }
}

/// Returns true if each packet that a program refuses in the kernel's form, it also refuses in the
/// form received here. It need not be valid.
pub(super) fn is_equivalent(program: &[Instruction]) -> bool {
    let mut known = vec![None; program.len()];
    if let Some(first) = known.first_mut() {
        *first = Some(AbstractState::NOTHING);
    }
    for (at, instruction) in program.iter().enumerate() {
        // There are no backward jumps, so all states that lead here are known.
        let Some(here) = known[at] else { continue };
        let Some(after) = after(instruction, here) else { return false };
        let mut go = |skipped: u32, then: AbstractState| {
            let to = known.get_mut(at + 1 + skipped as usize);
            to.map(|to| *to = Some(to.map_or(then, |there| there.meet(then)))).is_some()
        };
        let Instruction { code, jt, jf, k } = *instruction;
        let goes = match code & code::KIND {
            code::RETURN => true,
            code::JUMP if code == code::JUMP | code::ALWAYS => go(k, after),
            code::JUMP => {
                let is_equal = code == code::JUMP | code::EQUAL;
                let mut equal = after;
                if is_equal && after.a_is_type && Type::from_ethertype(k) != Type::Unknown {
                    equal.kind = Type::from_ethertype(k);
                }
                equal.is_tcp |= is_equal && after.a_is_protocol && k == TCP;
                // With a flag that may be of one of several the packet must be wanted.
                let with_flag = match code {
                    _ if !after.differs() => None,
                    _ if is_equal && k == 0 => Some(jf),
                    _ if code == code::JUMP | code::ANY_BITS => Some(jt),
                    _ => return false,
                };
                let is_wanted = |skipped: u8| {
                    let to = program.get(at + 1 + usize::from(skipped));
                    to.is_some_and(|to| to.code == code::RETURN && to.k > 0)
                };
                with_flag.is_none_or(is_wanted) && go(jt.into(), equal) && go(jf.into(), after)
            }
            _ => go(0, after),
        };
        if !goes {
            return false;
        }
    }
    !program.is_empty()
}

/// State behind an instruction; `None` when it loads a value that may differ.
fn after(instruction: &Instruction, here: AbstractState) -> Option<AbstractState> {
    let Instruction { code, k, .. } = *instruction;
    let width = match code & (code::WORD | code::HALF | code::BYTE) {
        code::HALF => 2,
        code::BYTE => 1,
        _ => 4,
    };
    let mode = code & !(code::KIND | code::HALF | code::BYTE);
    // A tag that is known beside the packet: packets that have one are received, with any result of
    // this.
    let tag = [code::VLAN_TAG, code::VLAN_TAG_PRESENT].map(|which| code::ANCILLARY + which);
    Some(match (code & code::KIND, mode) {
        (code::LOAD, code::ABSOLUTE) if tag.contains(&k) => here.other(),
        (code::LOAD, code::ABSOLUTE) => {
            let a_is_type = k == TYPE && width == 2;
            let a_is_protocol = k == PROTOCOL && width == 1 && here.kind == Type::Ipv4;
            here.has(k, width).then_some(AbstractState {
                a_is_type,
                a_is_protocol,
                ..here.other()
            })?
        }
        (code::LOAD, code::INDEXED) => {
            let ports = NETWORK..NETWORK + 4;
            let is_port = ports.contains(&k) && k + width <= ports.end;
            let are_flags = here.is_tcp && k == FLAGS && width == 1;
            let is_found = here.kind == Type::Ipv4 && here.x_is_header && (is_port || are_flags);
            is_found.then_some(AbstractState {
                flags: if are_flags { 0xff } else { 0 },
                ..here.other()
            })?
        }
        (code::LOAD_X, code::HEADER_LENGTH) => {
            here.has(k, 1).then_some(AbstractState { x_is_header: k == NETWORK, ..here })?
        }
        (code::LOAD, code::CONSTANT | code::MEMORY) => here.other(),
        (code::LOAD_X, code::CONSTANT | code::MEMORY) => {
            AbstractState { x_is_header: false, ..here }
        }
        (code::CALCULATE, _) if code == code::CALCULATE | code::AND => {
            AbstractState { flags: here.flags & k, ..here.other() }
        }
        (code::CALCULATE | code::STORE, _) if here.differs() => return None,
        (code::CALCULATE, _) => here.other(),
        (code::STORE | code::STORE_X | code::JUMP, _) => here,
        // How much of a packet is given then is calculated, too.
        (code::RETURN, _) => (code == code::RETURN).then_some(here)?,
        _ if code == code::A_TO_X && !here.differs() => {
            AbstractState { x_is_header: false, ..here }
        }
        _ if code == code::X_TO_A => here.other(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use linerate_filter::{Filter, Names};

    use super::*;

    fn alike(text: &str) -> bool {
        is_equivalent(&Filter::new(text, Names::NONE).unwrap().program().unwrap())
    }

    #[test]
    fn types_addresses_and_ports_are_the_same() {
        for text in [
            "",
            "ip",
            "not arp and ether host 2:0:0:0:0:1",
            "host 10.0.0.1",
            "arp[6:2] = 1 and arp[30] = 9",
            "ip6 net 2001:db8::/32 and not ip6 multicast",
            "tcp port 80 or udp portrange 53-80",
            "not (port 22 or icmp or icmp6)",
            "icmp[icmptype] = icmp-echo",
            "vlan 5",
            "ip[8] < 5 and ip[6:2] & 0x1fff = 0",
            "tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn",
            "tcp[13] & 2 != 0 and port 80",
        ] {
            assert!(alike(text), "{text}");
        }
    }

    #[test]
    fn programs_on_merged_or_unfinished_fields_are_not_equivalent() {
        for text in [
            "less 100",
            "ip[2:2] > 100",
            "ip[4:2] = 7",
            "ip[10:2] = 0",
            "ip6[4:2] = 7",
            "tcp[tcpflags] & tcp-push = 0",
            "tcp[tcpflags] & (tcp-syn | tcp-fin) != tcp-syn",
            "tcp[tcpflags] & tcp-fin != 0 and len > 60",
            "tcp[13] = 16",
            "tcp[13] << 1 != 0",
            "tcp[13] + 1 = 3",
            "tcp[12] & 16 != 0",
            "udp[13] & 2 != 0",
            "ip[ip[0] & 15 + 13] & 2 != 0",
            "tcp[16:2] = 0",
            "udp[6:2] = 0",
            "tcp port 80 and tcp[4:4] = 0",
            "ether[40] = 1",
            "vlan and tcp port 80",
            "ip and ip[ip[8]] = 0",
        ] {
            assert!(!alike(text), "{text}");
        }
    }

    #[test]
    fn programs_on_ancillary_data_are_not_equivalent() {
        let give = Instruction::give(u32::MAX);
        assert!(!is_equivalent(&[Instruction::load_ancillary(0), give]));
        assert!(is_equivalent(&[Instruction::load_ancillary(code::VLAN_TAG_PRESENT), give]));
        assert!(!is_equivalent(&[Instruction::load_length(), give]));
        // Counted from a header, instead of from the beginning, when it is negative.
        for at in [-0x10_0000, -0x20_0000_i32] {
            let kind = Instruction { code: 0x28, jt: 0, jf: 0, k: 12 };
            let load = Instruction { code: 0x20, jt: 0, jf: 0, k: at as u32 };
            assert!(!is_equivalent(&[kind, Instruction::skip(ARP[0], 0, 1), load, give]));
        }
        assert!(is_equivalent(&[give]));
        assert!(!is_equivalent(&[]));
        // Out of the program, and a return of the loaded value.
        let jump = Instruction { code: code::JUMP, jt: 0, jf: 0, k: u32::MAX };
        assert!(!is_equivalent(&[jump, give]));
        let return_a = Instruction { code: code::RETURN | code::FROM_A, jt: 0, jf: 0, k: 0 };
        assert!(!is_equivalent(&[return_a]));
        assert!(!is_equivalent(&[Instruction { code: 0xffff, jt: 0, jf: 0, k: 0 }]));
    }

    /// Of a flag that the last of several merged packets has, more is given than is wanted.
    #[test]
    fn flags_that_one_of_several_has_may_be_asked_for() {
        for text in [
            "tcp[tcpflags] & (tcp-syn | tcp-fin) != 0",
            "tcp[tcpflags] & tcp-push != 0",
            "port 80 and (tcp[13] & 1 != 0 or tcp[13] & 2 != 0)",
        ] {
            assert!(alike(text), "{text}");
        }
        // Any of the bits; the skipped instruction refuses.
        let mut program = Filter::new("tcp[13] & 9 != 0", Names::NONE).unwrap().program().unwrap();
        let at = program.len() - 3;
        program[at] = Instruction { code: code::JUMP | code::ANY_BITS, jt: 0, jf: 1, k: u32::MAX };
        assert!(is_equivalent(&program));
        (program[at].jt, program[at].jf) = (1, 0);
        assert!(!is_equivalent(&program));
    }

    /// A program that goes on where two types meet knows neither.
    #[test]
    fn types_are_forgotten_where_ways_meet() {
        let load = |at: u32| Instruction { code: 0x20, jt: 0, jf: 0, k: at };
        let kind = Instruction { code: 0x28, jt: 0, jf: 0, k: 12 };
        let four = |jt, jf| Instruction::skip(IPV4, jt, jf);
        let program =
            |jf| [kind, four(0, jf), load(26), Instruction::give(1), Instruction::give(0)];
        assert!(is_equivalent(&program(2)));
        assert!(!is_equivalent(&program(0)));
    }
}
