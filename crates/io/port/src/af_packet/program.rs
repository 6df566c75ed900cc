//! The socket's BPF program, which the kernel runs before it copies a packet for us: direction, and
//! a filter.
//!
//! Source: `linux/filter.h`, `linux/if_packet.h`.

use std::str::FromStr;

use linerate_filter::{
    Filter, Instruction,
    code::{self, VLAN_TAG_PRESENT},
};

use super::bpf_equivalence::is_equivalent;
use crate::options::truth;

/// `SKF_AD_PKTTYPE`: how a packet was addressed.
const PACKET_TYPE: u32 = 4;

/// Direction of the packets that are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outbound {
    /// Packets that come in.
    No,
    /// Packets that come in, and those that this host sends.
    Too,
    /// Only packets that this host sends.
    Only,
}

impl FromStr for Outbound {
    type Err = ();

    fn from_str(text: &str) -> Result<Outbound, ()> {
        match text {
            "only" => Ok(Outbound::Only),
            text => truth(text).map(|on| if on { Outbound::Too } else { Outbound::No }).ok_or(()),
        }
    }
}

/// The program of a socket; empty when it takes everything.
///
/// A packet that does not lie as the filter expects it is passed, and decided on in the form
/// received here: a packet whose VLAN tag the kernel keeps beside it, with the tag back in place. A
/// filter that calculates with fields changed by merging and unfinished checksums is not run in the
/// kernel, which does not tell such packets from others.
pub(super) fn build(outbound: Outbound, filter: Option<&Filter>) -> Vec<libc::sock_filter> {
    let mut program = directed(outbound);
    let wanted = filter.and_then(|filter| {
        filter.program().filter(|program| !filter.calculates() || is_equivalent(program))
    });
    if let Some(wanted) = wanted {
        pass_tagged(&mut program);
        program.extend(wanted);
    } else if !program.is_empty() {
        program.push(Instruction::give(u32::MAX));
    }
    native(program)
}

/// The program of a socket with a filter that decides alike in both forms (see
/// [`bpf_equivalence`](super::bpf_equivalence)). Packets that it wants are received as a whole.
pub(super) fn narrowed(outbound: Outbound, wanted: &[Instruction]) -> Vec<libc::sock_filter> {
    let mut program = directed(outbound);
    pass_tagged(&mut program);
    program.extend(wanted.iter().map(|instruction| match instruction.code {
        code::RETURN if instruction.k > 0 => Instruction::give(u32::MAX),
        _ => *instruction,
    }));
    native(program)
}

/// The beginning of a program, which takes packets of only one direction.
fn directed(outbound: Outbound) -> Vec<Instruction> {
    if outbound != Outbound::Only {
        return Vec::new();
    }
    vec![
        Instruction::load_ancillary(PACKET_TYPE),
        Instruction::skip(libc::PACKET_OUTGOING.into(), 1, 0),
        Instruction::give(0),
    ]
}

/// Packets whose tag was taken out go on without being decided on.
fn pass_tagged(program: &mut Vec<Instruction>) {
    program.extend([
        Instruction::load_ancillary(VLAN_TAG_PRESENT),
        Instruction::skip(0, 1, 0),
        Instruction::give(u32::MAX),
    ]);
}

fn native(program: Vec<Instruction>) -> Vec<libc::sock_filter> {
    let native = |Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k };
    program.into_iter().map(native).collect()
}

#[cfg(test)]
mod tests {
    use linerate_filter::Names;
    use linerate_linux::socket::set_filter;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    #[test]
    fn the_kernel_takes_the_programs() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        for text in [
            "",
            "tcp port 80 and not host 10.0.0.1",
            "vlan 5 and ip6 net 2001:db8::/32",
            "tcp[tcpflags] & (tcp-syn | tcp-fin) != 0",
            "geneve 5 and geneve and ether host 2:0:0:0:0:1",
        ] {
            let filter = Filter::new(text, Names::NONE).unwrap();
            for outbound in [Outbound::No, Outbound::Too, Outbound::Only] {
                let program = build(outbound, Some(&filter));
                assert!(!program.is_empty());
                set_filter(&socket, &program).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
        // Filters that the kernel would not decide as they are decided here.
        for text in ["less 100", "udp[6:2] = 0", "geneve or len ^ ether[0] = 60"] {
            let filter = Filter::new(text, Names::NONE).unwrap();
            assert!(build(Outbound::Too, Some(&filter)).is_empty(), "{text}");
        }
        assert!(build(Outbound::Too, None).is_empty());
        set_filter(&socket, &build(Outbound::Only, None)).unwrap();
    }
}
