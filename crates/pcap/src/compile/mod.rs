//! Filters compiled here, where the system has no libpcap to do it.
//!
//! What an expression means is [`linerate_filter`]'s to know, as is what there is of the language. What
//! comes out decides on every packet as what libpcap makes of the expression without improving it:
//! nothing is improved here either, since programs become machine code.

mod names;

use std::ffi::c_int;

use linerate_filter::{Filter, Instruction, Link};

use crate::abi::{DLT_EN10MB, DLT_RAW};

/// Compiles an expression for packets of a link, of which so many bytes are wanted. The mask is that of
/// the network, in the order of the host, for `ip broadcast`.
///
/// # Errors
///
/// What is wrong with it, or is not here.
pub fn compile(
    link: c_int,
    bytes: u32,
    expression: &str,
    mask: Option<u32>,
) -> Result<Vec<Instruction>, String> {
    let link = match link {
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
    use crate::bpf::Program;

    #[test]
    fn links_that_have_no_ports_are_refused() {
        assert!(compile(DLT_EN10MB, 1, "tcp", None).is_ok());
        assert!(compile(DLT_RAW, 1, "tcp", None).is_ok());
        assert!(compile(113, 1, "tcp", None).unwrap_err().contains("link type 113"));
    }

    #[test]
    fn names_are_those_of_the_system() {
        let same = |left: &str, right: &str| {
            let compiled = |text| compile(DLT_EN10MB, 1, text, None).expect(text);
            assert_eq!(compiled(left), compiled(right), "{left}");
        };
        same("host 127.0.0.1", "host 2130706433");
        same("ip proto \\tcp", "ip proto 6");
        same("tcp port domain", "tcp port 53");
        same("port ntp", "udp port 123");
        let unknown = compile(DLT_EN10MB, 1, "port no-such-port", None);
        assert_eq!(unknown, Err("unknown port 'no-such-port'".into()));
    }

    #[test]
    fn a_mask_is_for_broadcasts() {
        let program = |mask| compile(DLT_EN10MB, 1, "ip broadcast", mask);
        let mut packet = [0; 34];
        (packet[12], packet[30], packet[33]) = (8, 10, 255);
        let wanted = |mask| Program::new(&program(mask).unwrap()).unwrap().accepts(&packet, 34) > 0;
        assert!(wanted(Some(0xffff_ff00)) && !wanted(Some(0xffff_0000)));
        assert!(program(None).unwrap_err().contains("netmask not known"));
    }
}
