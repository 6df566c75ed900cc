//! What the kernel decides before it copies a packet for us: its direction, and
//! what a filter wants.
//!
//! Source: `linux/filter.h`, `linux/if_packet.h`.

use std::str::FromStr;

use linerate_filter::{
    Filter, Instruction,
    code::{self, VLAN_TAG_PRESENT},
};

use crate::options::truth;

/// `SKF_AD_PKTTYPE`: how a packet was addressed.
const PACKET_TYPE: u32 = 4;

/// Which packets are received, by where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outbound {
    /// Those that come in.
    No,
    /// Those that this host sends, too.
    Too,
    /// Those alone.
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
/// What does not lie as the filter expects it passes, and is decided on as it
/// is received: a packet whose VLAN tag the kernel keeps beside it, with the tag
/// back in place; and, where the filter calculates, a packet longer than
/// `longest`, which is several that were merged, one by one.
pub(super) fn build(
    outbound: Outbound,
    filter: Option<&Filter>,
    longest: usize,
) -> Vec<libc::sock_filter> {
    let mut program = directed(outbound);
    if let Some((filter, wanted)) = filter.and_then(|filter| Some((filter, filter.program()?))) {
        if filter.calculates() {
            program.push(Instruction::load_length());
            program.push(Instruction::skip_above(longest as u32, 0, 1));
            program.push(Instruction::give(u32::MAX));
        }
        pass_tagged(&mut program);
        program.extend(wanted);
    } else if !program.is_empty() {
        program.push(Instruction::give(u32::MAX));
    }
    native(program)
}

/// The same with a program that decides alike here and there (see [`alike`](super::alike)). What it
/// wants is received as a whole.
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
    use linerate_host::socket::set_filter;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    #[test]
    fn the_kernel_takes_the_programs() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        for text in [
            "",
            "tcp port 80 and not host 10.0.0.1",
            "vlan 5 and ip6 net 2001:db8::/32",
            "ip[ip[0] & 15] / (1 + tcp[0]) > (len - 14) * 4 and len << 31 = 0",
            "geneve 5 and geneve and tcp[tcp[12] >> 2] = 1 and ether host 2:0:0:0:0:1",
            "geneve or len ^ ether[0] = 60",
        ] {
            let filter = Filter::new(text, Names::NONE).unwrap();
            for outbound in [Outbound::No, Outbound::Too, Outbound::Only] {
                let program = build(outbound, Some(&filter), 1518);
                assert!(!program.is_empty());
                set_filter(&socket, &program).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
        assert!(build(Outbound::Too, None, 1518).is_empty());
        set_filter(&socket, &build(Outbound::Only, None, 1518)).unwrap();
    }
}
