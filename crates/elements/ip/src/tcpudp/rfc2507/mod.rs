//! `RFC2507Comp` and `RFC2507Decomp`: compression of TCP/IP headers.
//!
//! After RFC 2507 section 6, with a type byte in front, as no link layer carries the packet type:
//! 0 is a regular packet, 1 a packet whose full headers set the context of its connection, 2 one
//! with compressed headers. Behind types 1 and 2 is the connection number, from 1 on.

mod change;
mod compressor;
mod decompressor;

pub(super) use compressor::CLASS as COMPRESSOR;
pub(super) use decompressor::CLASS as DECOMPRESSOR;

/// Packet types.
const ANY: u8 = 0;
const FULL: u8 = 1;
const COMPRESSED: u8 = 2;

/// Size of the connection table; number 0 is not used.
const CONNECTIONS: usize = 15;

/// Length of the IP and TCP headers without options.
const HEADERS: usize = 40;
type Headers = [u8; HEADERS];

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Returns packets of three connections and other packets, with all kinds of header changes.
    fn packets() -> Vec<String> {
        let (mut packets, mut state) = (Vec::new(), 7_u32);
        let mut draw = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let mut known = [[0_u32; 5]; 3];
        for number in 0..400 {
            let flow = draw(3) as usize;
            let [id, seq, ack, window, urgent] = &mut known[flow];
            let steps = [0, 0, 1, 200, 255, 256, 65_535, 65_536, 0xffff_ff00];
            let mut step = || steps[draw(steps.len() as u32) as usize];
            *id = (*id + [1, 1, 1, 0, 2, 300][step() as usize % 6]) & 0xffff;
            *seq = seq.wrapping_add(step());
            *ack = ack.wrapping_add(step());
            *window = window.wrapping_add(step()) & 0xffff;
            *urgent = urgent.wrapping_add(step() * u32::from(number % 7 == 0)) & 0xffff;
            let flags = [0x18, 0x30, 0x38, 0x50, 0x11, 0x02, 0x14, 0x10][draw(20).min(7) as usize];
            let (tos, ttl) = (draw(20) / 19, 64 - draw(20) / 19);
            let fragment = [0, 0x2000, 5, 0x8000, 0x4000][draw(30).min(4) as usize];
            let (offset, payload) = ([8, 8, 7, 3, 5][draw(20).min(4) as usize], draw(40));
            let protocol = [17, 6][draw(12).min(1) as usize];
            let mut text = format!(
                "45{tos:02x}{:04x}{id:04x}{fragment:04x}{ttl:02x}{protocol:02x}00000a00000{flow}\
                 0b000001\
                 0005000{flow}{seq:08x}{ack:08x}{offset}0{flags:02x}{window:04x}{number:04x}\
                 {urgent:04x}",
                40 + payload,
            );
            text.extend((0..payload).map(|byte| format!("{byte:02x}")));
            packets.push(text);
        }
        packets.push("46000018000040004006000001000001020000020101010100".into());
        packets.push("4500002800004000400600000a0000010b00000100".into());
        packets
    }

    #[test]
    fn decompressed_packets_are_the_original_ones() {
        let packets = packets().join(" ");
        let mut sizes = Vec::new();
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(&format!(
                "Packets({packets}) -> MarkIPHeader -> SetIPChecksum -> t :: Tee -> RFC2507Comp
                    -> n :: Counter -> RFC2507Decomp -> c :: Collect; t [1] -> d :: Collect"
            ))
            .frame_limit(frame_limit);
            run.run();
            let (found, expected) = (run.read("c.packets"), run.read("d.packets"));
            assert_eq!(found.lines().count(), expected.lines().count());
            for (at, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
                assert_eq!(found, expected, "{at}");
            }
            sizes.push(run.read("n.byte_count"));
        }
        assert_eq!(sizes, vec![sizes[0].clone(); 3]);
        let whole = packets.replace(' ', "").len() / 2;
        assert!(sizes[0].parse::<usize>().unwrap() < whole, "{} {whole}", sizes[0]);
    }

    /// With more connections than numbers, evicted ones start again with full headers.
    #[test]
    fn connections_take_the_places_of_others() {
        let packets: Vec<String> = (0..200_u32)
            .map(|number| {
                let flow = number * 7 % 20;
                format!(
                    "45000028{number:04x}4000400600000a0000010b000001{flow:04x}0005{number:08x}\
                     00000001501000ff00000000"
                )
            })
            .collect();
        let mut run = Run::new(&format!(
            "Packets({}) -> MarkIPHeader -> SetIPChecksum -> t :: Tee -> RFC2507Comp
                -> RFC2507Decomp -> c :: Collect; t [1] -> d :: Collect",
            packets.join(" ")
        ));
        run.run();
        assert_eq!(run.read("c.packets"), run.read("d.packets"));
    }
}
