//! Compiler of filters, for systems without libpcap.
//!
//! The meaning of an expression is [`linerate_filter`]'s to know, as is the extent of the language.
//! A program decides on every packet as libpcap's unoptimised program of the expression does:
//! nothing is optimised here either, since programs become machine code.

mod names;

use std::ffi::c_int;

use linerate_filter::{Filter, Instruction, Link};

use crate::abi::{DLT_EN10MB, DLT_RAW};

/// Form in which a filter is given frames of Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// As they are on the link, or in a file.
    Whole,
    /// Without the outer VLAN tag, which is known besides: as Linux gives them to the filter of a socket.
    Untagged,
}

/// Compiles an expression for packets of a link, of which so many bytes are wanted. The mask is that of
/// the network, in the order of the host, for `ip broadcast`.
///
/// # Errors
///
/// The fault of the expression, or the part of the language that is not here.
pub fn compile(
    (link, frames): (c_int, Frames),
    bytes: u32,
    expression: &str,
    mask: Option<u32>,
) -> Result<Vec<Instruction>, String> {
    let link = match link {
        DLT_EN10MB if frames == Frames::Untagged => Link::Untagged,
        DLT_EN10MB => Link::Ethernet,
        DLT_RAW => Link::Raw,
        other => {
            return Err(format!(
                "filters for link type {other} are compiled by the system's libpcap, which is not \
                 installed"
            ));
        }
    };
    let filter = Filter::on(link, expression, names::of_the_system(mask))?;
    let needs = || "too many registers needed to evaluate expression".to_owned();
    filter.bytecode(bytes).ok_or_else(needs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Metadata, Program, VlanTag};

    #[test]
    fn links_that_have_no_ports_are_refused() {
        assert!(compile((DLT_EN10MB, Frames::Whole), 1, "tcp", None).is_ok());
        assert!(compile((DLT_RAW, Frames::Whole), 1, "tcp", None).is_ok());
        assert!(
            compile((113, Frames::Whole), 1, "tcp", None).unwrap_err().contains("link type 113")
        );
    }

    /// libpcap's program for an interface looks for the outer tag besides the packet first, and for all else
    /// where it is then.
    #[test]
    fn an_outer_tag_is_looked_for_besides_the_packet() {
        let frame = |kinds: &[u16], rest: &[u8]| {
            let kinds: Vec<u8> = kinds.iter().flat_map(|half| half.to_be_bytes()).collect();
            [&[2; 12][..], &kinds, rest].concat()
        };
        let mut udp = [0; 28];
        (udp[0], udp[9]) = (0x45, 17);
        let tag = |control| Some(VlanTag { protocol: 0x8100, control });
        let (plain, double) = (frame(&[0x800], &udp), frame(&[0x8100, 7, 0x800], &udp));
        // The rest of each, and its outer tag.
        let packets = [
            (&plain, None),
            (&plain, tag(0x6064)),
            (&double, None),
            (&double, tag(100)),
            (&double, tag(5)),
        ];
        for (text, expected) in [
            ("udp and vlan", [false, true, false, false, false]),
            ("vlan and udp", [false, true, true, false, false]),
            ("udp and not vlan", [true, false, false, false, false]),
            ("vlan 100", [false, true, false, true, false]),
            ("vlan 7", [false, false, true, false, false]),
            ("vlan 100 and udp", [false, true, false, false, false]),
            ("vlan and vlan and udp", [false, false, false, true, true]),
            ("vlan 100 and vlan 7 and ip[9] = 17", [false, false, false, true, false]),
            ("ether proto 0x8100", [false, false, true, true, true]),
            // The tag that is not there has been counted before `ip` is looked for.
            ("vlan or ip", [false, true, true, true, true]),
        ] {
            let program = compile((DLT_EN10MB, Frames::Untagged), 1, text, None).expect(text);
            let program = Program::new(&program).expect(text);
            let wanted = packets.map(|(bytes, tag)| {
                let about = Metadata { tag, ..Metadata::default() };
                program.accepts_with(bytes, bytes.len() as u32, &about) > 0
            });
            assert_eq!(wanted, expected, "{text}");
        }
        let refused = |text| compile((DLT_EN10MB, Frames::Untagged), 1, text, None).unwrap_err();
        assert_eq!(refused("vlan 4096"), "VLAN tag 4096 greater than maximum 4095");
        assert!(refused("vlan and ip protochain 6").contains("variable length headers"));
    }

    #[test]
    fn names_are_those_of_the_system() {
        let same = |left: &str, right: &str| {
            let compiled = |text| compile((DLT_EN10MB, Frames::Whole), 1, text, None).expect(text);
            assert_eq!(compiled(left), compiled(right), "{left}");
        };
        same("host 127.0.0.1", "host 2130706433");
        same("ip proto \\tcp", "ip proto 6");
        same("tcp port domain", "tcp port 53");
        same("port ntp", "udp port 123");
        let unknown = compile((DLT_EN10MB, Frames::Whole), 1, "port no-such-port", None);
        assert_eq!(unknown, Err("unknown port 'no-such-port'".into()));
    }

    #[test]
    fn a_mask_is_for_broadcasts() {
        let program = |mask| compile((DLT_EN10MB, Frames::Whole), 1, "ip broadcast", mask);
        let mut packet = [0; 34];
        (packet[12], packet[30], packet[33]) = (8, 10, 255);
        let wanted = |mask| Program::new(&program(mask).unwrap()).unwrap().accepts(&packet, 34) > 0;
        assert!(wanted(Some(0xffff_ff00)) && !wanted(Some(0xffff_0000)));
        assert!(program(None).unwrap_err().contains("netmask not known"));
    }
}
