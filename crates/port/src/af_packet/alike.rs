//! Which programs of classic BPF decide on a packet as the kernel has it as they do on what is
//! received of it.
//!
//! The two differ. The kernel may have several packets merged into one, which then has a length, an
//! identification, a sequence number and flags of its own, and it may have a checksum that is not
//! finished. So a program is followed from its beginning to its ends, and what it knows of a packet's
//! type on the way: all that it loads must be bytes that are the same in both. These are the
//! addresses of Ethernet, types and tags, of IP everything but lengths, identifications and header
//! checksums, and ports. Packets of ARP are never merged, and have no checksums.

use linerate_filter::{Instruction, code};

/// Where the type of an Ethernet frame is.
const TYPE: u32 = 12;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ARP: [u32; 2] = [0x0806, 0x8035];
const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// Where the network header begins.
const NETWORK: u32 = 14;

/// What is known of a packet's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Unknown,
    Ipv4,
    Ipv6,
    Arp,
    Tagged,
}

impl Type {
    /// What it is whose number that is.
    fn of(number: u32) -> Type {
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

/// What is known at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    kind: Type,
    /// Whether the frame's type is in A.
    a_is_type: bool,
    /// Whether the length of an IPv4 header is in X.
    x_is_header: bool,
}

impl Known {
    const NOTHING: Known = Known { kind: Type::Unknown, a_is_type: false, x_is_header: false };

    /// What is known where both ways meet.
    fn meet(self, other: Known) -> Known {
        Known {
            kind: if self.kind == other.kind { self.kind } else { Type::Unknown },
            a_is_type: self.a_is_type && other.a_is_type,
            x_is_header: self.x_is_header && other.x_is_header,
        }
    }

    /// Whether bytes at a place are the same.
    fn has(self, at: u32, bytes: u32) -> bool {
        let Some(end) = at.checked_add(bytes) else { return false };
        self.kind.same().iter().any(|(from, to)| *from <= at && end <= *to)
    }
}

/// Whether a program decides alike on both. It need not be valid.
pub(super) fn decides_alike(program: &[Instruction]) -> bool {
    let mut known = vec![None; program.len()];
    if let Some(first) = known.first_mut() {
        *first = Some(Known::NOTHING);
    }
    for (at, instruction) in program.iter().enumerate() {
        // Nothing leads backwards, so all is known of those that lead here.
        let Some(here) = known[at] else { continue };
        let Some(after) = after(instruction, here) else { return false };
        let mut go = |skipped: u32, then: Known| {
            let to = known.get_mut(at + 1 + skipped as usize);
            to.map(|to| *to = Some(to.map_or(then, |there| there.meet(then)))).is_some()
        };
        let Instruction { code, jt, jf, k } = *instruction;
        let goes = match code & code::KIND {
            code::RETURN => true,
            code::JUMP if code == code::JUMP | code::ALWAYS => go(k, after),
            code::JUMP => {
                let is_type = code == code::JUMP | code::EQUAL && after.a_is_type;
                let kind = if is_type { Type::of(k) } else { after.kind };
                let equal = Known { kind, ..after };
                go(jt.into(), if kind == Type::Unknown { after } else { equal })
                    && go(jf.into(), after)
            }
            _ => go(0, after),
        };
        if !goes {
            return false;
        }
    }
    !program.is_empty()
}

/// What is known behind an instruction; `None` when it looks at what may differ.
fn after(instruction: &Instruction, here: Known) -> Option<Known> {
    let Instruction { code, k, .. } = *instruction;
    let width = match code & (code::WORD | code::HALF | code::BYTE) {
        code::HALF => 2,
        code::BYTE => 1,
        _ => 4,
    };
    let mode = code & !(code::KIND | code::HALF | code::BYTE);
    Some(match (code & code::KIND, mode) {
        (code::LOAD, code::ABSOLUTE) => {
            let a_is_type = k == TYPE && width == 2;
            here.has(k, width).then_some(Known { a_is_type, ..here })?
        }
        (code::LOAD, code::INDEXED) => {
            // The ports.
            let ports = NETWORK..NETWORK + 4;
            let is_port = ports.contains(&k) && k + width <= ports.end;
            let is_same = here.kind == Type::Ipv4 && here.x_is_header && is_port;
            is_same.then_some(Known { a_is_type: false, ..here })?
        }
        (code::LOAD_X, code::HEADER_LENGTH) => {
            here.has(k, 1).then_some(Known { x_is_header: k == NETWORK, ..here })?
        }
        (code::LOAD, code::CONSTANT | code::MEMORY) => Known { a_is_type: false, ..here },
        (code::LOAD_X, code::CONSTANT | code::MEMORY) => Known { x_is_header: false, ..here },
        (code::CALCULATE, _) => Known { a_is_type: false, ..here },
        (code::STORE | code::STORE_X | code::JUMP, _) => here,
        // How much of a packet is given then is calculated, too.
        (code::RETURN, _) => (code == code::RETURN).then_some(here)?,
        _ if code == code::A_TO_X => Known { x_is_header: false, ..here },
        _ if code == code::X_TO_A => Known { a_is_type: false, ..here },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use linerate_filter::{Filter, Names};

    use super::*;

    fn alike(text: &str) -> bool {
        decides_alike(&Filter::new(text, Names::NONE).unwrap().program().unwrap())
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
        ] {
            assert!(alike(text), "{text}");
        }
    }

    #[test]
    fn what_merging_and_checksums_change_is_not() {
        for text in [
            "less 100",
            "ip[2:2] > 100",
            "ip[4:2] = 7",
            "ip[10:2] = 0",
            "ip6[4:2] = 7",
            "tcp[tcpflags] & tcp-push != 0",
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
    fn what_only_the_kernel_knows_is_not() {
        let give = Instruction::give(u32::MAX);
        assert!(!decides_alike(&[Instruction::load_ancillary(code::VLAN_TAG_PRESENT), give]));
        assert!(!decides_alike(&[Instruction::load_length(), give]));
        // Counted from a header, instead of from the beginning, when it is negative.
        for at in [-0x10_0000, -0x20_0000_i32] {
            let kind = Instruction { code: 0x28, jt: 0, jf: 0, k: 12 };
            let load = Instruction { code: 0x20, jt: 0, jf: 0, k: at as u32 };
            assert!(!decides_alike(&[kind, Instruction::skip(ARP[0], 0, 1), load, give]));
        }
        assert!(decides_alike(&[give]));
        assert!(!decides_alike(&[]));
        // Out of the program, and what returns what it has loaded.
        let jump = Instruction { code: code::JUMP, jt: 0, jf: 0, k: u32::MAX };
        assert!(!decides_alike(&[jump, give]));
        let return_a = Instruction { code: code::RETURN | code::FROM_A, jt: 0, jf: 0, k: 0 };
        assert!(!decides_alike(&[return_a]));
        assert!(!decides_alike(&[Instruction { code: 0xffff, jt: 0, jf: 0, k: 0 }]));
    }

    /// A program that goes on where two types meet knows neither.
    #[test]
    fn types_are_forgotten_where_ways_meet() {
        let load = |at: u32| Instruction { code: 0x20, jt: 0, jf: 0, k: at };
        let kind = Instruction { code: 0x28, jt: 0, jf: 0, k: 12 };
        let four = |jt, jf| Instruction::skip(IPV4, jt, jf);
        let program =
            |jf| [kind, four(0, jf), load(26), Instruction::give(1), Instruction::give(0)];
        assert!(decides_alike(&program(2)));
        assert!(!decides_alike(&program(0)));
    }
}
