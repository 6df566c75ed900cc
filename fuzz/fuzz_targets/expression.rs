//! Expressions of tcpdump's filters, any text: an expression that can be read is decided alike by
//! its tree, by its program for an interpreter in both forms that has here, and by its program for
//! the kernel.
//!
//! An input is the text, a line of it, and a packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_filter::{Filter, Link, Names};
use linerate_pcap::bpf::Program;

/// Bytes of a packet that are wanted.
const WANTED: u32 = 100;

fn names() -> Names<'static> {
    Names {
        port: &|name, protocol| (name == "domain" && protocol < 20).then_some(53),
        protocol: &|name| (name == "tcp").then_some(6),
        host: &|name| if name == "host1" { vec![[10, 0, 0, 1].into()] } else { Vec::new() },
        network: &|name| (name == "net1").then_some(10),
        station: &|name| (name == "station1").then_some([2, 0, 0, 0, 0, 1]),
        netmask: Some(0xffff_ff00),
    }
}

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let Ok(text) = str::from_utf8(&data[..end]) else { return };
    let packet = &data[(end + 1).min(data.len())..];
    let length = packet.len() as u32;
    for link in [Link::Ethernet, Link::Raw] {
        let Ok(filter) = Filter::on(link, text, names()) else { continue };
        let expected = if filter.accepts(packet) { WANTED } else { 0 };
        let programs = [filter.bytecode(WANTED), filter.program()];
        for (program, gives) in programs.into_iter().zip([WANTED, u32::MAX]) {
            let Some(program) = program else { continue };
            let forms = [Program::new(&program), Program::portable(&program)];
            for form in forms {
                // Programs of our compiler pass our checker.
                let given = form.expect("a valid program").accepts(packet, length);
                // A chain that leads in a circle is given up somewhere, by the tree and by programs.
                let may_turn = text.contains("protochain");
                assert!(may_turn || given.min(WANTED) == expected, "{given}, {gives}: {text}");
            }
        }
    }
});
