//! `RFC2507Decomp`: restores TCP/IP headers.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::{
    ANY, COMPRESSED, CONNECTIONS, FULL, HEADERS, Headers,
    change::{apply, finish},
};
use crate::tcpudp::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// too short
    TooShort,
    /// of a connection that is not known
    Unknown,
    /// longer than a buffer
    TooLong,
    /// not of a compressor
    Other,
}

pub(in crate::tcpudp) const CLASS: Class = Class {
    name: "RFC2507Decomp",
    family: FAMILY,
    summary: "puts back headers of TCP that were compressed",
    description: "What comes is what RFC2507Comp sends. Packets of connections of which no headers \
        have come are dropped. What goes on begins with an IP header, which CheckIPHeader looks for. \
        Each worker knows the connections of the packets that come to it.",
    ports: "1/1",
    order_dependent: true,
    cost: "The headers of a packet, and a checksum of 20 bytes.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 T\") \
        -> CheckIPHeader -> RFC2507Comp -> RFC2507Decomp -> Discard;",
    ..Decompressor::CLASS
};

#[derive(Arguments)]
struct Decompressor {
    /// Headers of each connection's last packet, by connection number.
    known: [Option<Headers>; CONNECTIONS],
}

impl Decompressor {
    fn connection(&mut self, number: u8) -> Result<&mut Option<Headers>, Exit<Reason>> {
        let known = self.known.get_mut(usize::from(number)).filter(|_| number > 0);
        known.ok_or(Exit::Drop(Reason::Unknown))
    }
}

impl Step<Writes, Reason> for Decompressor {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        match *packet.bytes() {
            [] | [_] => return Err(Exit::Drop(Reason::TooShort)),
            [ANY, ..] => {
                packet.pull(1);
            }
            [FULL, number, ref rest @ ..] => {
                let headers = *rest.first_chunk().ok_or(Exit::Drop(Reason::TooShort))?;
                *self.connection(number)? = Some(headers);
                packet.pull(2);
            }
            [COMPRESSED, number, ref rest @ ..] => {
                let known = self.connection(number)?;
                let headers = known.as_mut().ok_or(Exit::Drop(Reason::Unknown))?;
                let mut next = *headers;
                let change = apply(&mut next, rest).ok_or(Exit::Drop(Reason::TooShort))?;
                let length = HEADERS + rest.len() - change;
                finish(&mut next, length).ok_or(Exit::Drop(Reason::TooLong))?;
                *headers = next;
                if !packet.prepend(HEADERS - 2 - change) {
                    return Err(Exit::Drop(Reason::TooLong));
                }
                packet.bytes_mut()[..HEADERS].copy_from_slice(&next);
            }
            _ => return Err(Exit::Drop(Reason::Other)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn packets_of_no_compressor_are_dropped() {
        let headers = format!("45000028{}", "00".repeat(36));
        let packets = [
            "00".into(),
            "03ff".into(),
            "0063".into(),
            "0205000000".into(),
            format!("0100{headers}"),
            format!("010f{headers}"),
            format!("0103{}", &headers[2..]),
            format!("0103{headers}"),
            "0203".into(),
            "0203000000".into(),
            // Flags without the bytes that they promise.
            "0203ff0000".into(),
            "02030100000000".into(),
            "02030000000000".into(),
        ];
        let mut run = Run::new(&format!(
            "Packets({}) -> d :: RFC2507Decomp -> c :: Collect",
            packets.join(" ")
        ));
        run.run();
        let found = run.read("c.packets");
        let found: Vec<&str> = found.lines().collect();
        assert_eq!(found[..2], ["63", &headers]);
        // The identification grows by one per packet.
        assert_eq!(found.len(), 4);
        assert!(found[2].starts_with("4500002800010000"), "{found:?}");
        assert!(found[3].starts_with("4500002a00020000"), "{found:?}");
        assert_eq!(
            run.read("d.drops"),
            "0\tno buffer\n5\ttoo short\n3\tof a connection that is not known\n\
             0\tlonger than a buffer\n1\tnot of a compressor\n"
        );
    }
}
