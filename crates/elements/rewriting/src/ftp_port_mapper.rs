//! `FTPPortMapper`: data connections of FTP through rewriters.

use std::{net::Ipv4Addr, sync::Arc};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, NoBuffer, Right, flow_outputs,
};
use linerate_memory::{Arena, Frame, Slot};
use linerate_packet::{
    IpProtocol,
    checksum::{checksum, pseudo_v4},
};

use super::{
    FAMILY, ip_rewriter, is_rewriter,
    locks::{alone, shared},
    mapping::Ends,
    registry::{Registry, RewriterHandle},
    rewriter_type::RewriterKind,
    tcp_rewriter,
};

pub(super) const CLASS: Class = Class {
    name: "FTPPortMapper",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "makes rewriters know of the data connections FTP clients ask for",
    description: "Takes packets of FTP control connections on their way to `CONTROL_REWRITER`, a \
        `TCPRewriter` or `IPRewriter`. A `PORT` command names the address and port a server is to \
        connect to. `DATA_REWRITER` gets a mapping from there to the server's data port, as if a \
        packet had come to its input `DATA_REWRITER_INPUT`, and the command is changed to name what \
        it is rewritten to. Where the command becomes longer or shorter the control rewriter changes \
        sequence numbers from there on.\n\n\
        A command is known when it is at the beginning of a segment and whole in it. The server's \
        data port is the one below its control port.",
    ports: "1/1",
    args: &[
        Arg::required("CONTROL_REWRITER", "element", "rewriter of the control connections"),
        Arg::required("DATA_REWRITER", "element", "rewriter of the data connections"),
        Arg::required("DATA_REWRITER_INPUT", "input", "its input for packets of clients"),
    ],
    drops: Reason::REASONS,
    annotates: true,
    // The mapping of a connection whose first packets are in the same frame is made behind it.
    shows_order: |_, _| true,
    cost: "Five bytes of each packet; `PORT` commands a mapping and the segment's checksum.",
    example: "rw :: TCPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto, \
        DATA \"10.0.0.2 5000 2.0.0.2 21 T\") -> FTPPortMapper(rw, rw, 0) -> rw -> Discard; \
        rw [1] -> Discard;",
    observes_state_of: |plan, at| plan.elements_named(at, &["CONTROL_REWRITER", "DATA_REWRITER"]),
    make: |make| Box::new(FtpPortMapper::new(make)),
    ..Class::here()
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
}

struct FtpPortMapper {
    registry: Arc<Registry>,
    control: usize,
    data: usize,
    input: usize,
    /// Of the control rewriter, and of the one for data.
    places: Option<(RewriterHandle, RewriterHandle)>,
}

impl FtpPortMapper {
    fn new(make: &mut ElementBuilder<'_>) -> FtpPortMapper {
        let is_control = |class: &Class| {
            [tcp_rewriter::CLASS.name, ip_rewriter::CLASS.name].contains(&class.name)
        };
        let control = make.element_of("CONTROL_REWRITER", "TCPRewriter", is_control);
        let data = make.element_of("DATA_REWRITER", "IPRewriterBase", is_rewriter);
        let input: Option<i32> = make.get("DATA_REWRITER_INPUT");
        if let (Some(data), Some(input)) = (data, input) {
            let inputs = make.plan().elements[data.0].inputs.len();
            if usize::try_from(input).map_or(true, |input| input >= inputs) {
                make.error("DATA_REWRITER_INPUT out of range");
            }
        }
        let control = control.map_or(0, |found| found.0);
        if !leads_to(make, control) {
            let element = &make.plan().elements[control];
            let declaration = format!("{} :: {}", element.name, element.class.name);
            make.warn(format!("control packet rewriter '{declaration}' is not downstream"));
        }
        FtpPortMapper {
            registry: make.world.common::<Registry>(),
            control,
            data: data.map_or(0, |found| found.0),
            input: input.and_then(|input| usize::try_from(input).ok()).unwrap_or(0),
            places: None,
        }
    }
}

/// Returns true if packets of the element come to another.
fn leads_to(make: &ElementBuilder<'_>, wanted: usize) -> bool {
    let elements = &make.plan().elements;
    let mut inputs = vec![(make.element(), 0)];
    let mut next = 0;
    while let Some(&(at, input)) = inputs.get(next) {
        next += 1;
        for output in flow_outputs(elements[at].class.flow, input, elements[at].outputs.len()) {
            for target in &elements[at].targets[output] {
                let to = (target.element, target.port);
                if to.0 == wanted {
                    return true;
                }
                if !inputs.contains(&to) {
                    inputs.push(to);
                }
            }
        }
    }
    false
}

/// A `PORT` command of a segment.
struct Command {
    /// Range of its argument in the packet.
    from: usize,
    to: usize,
    address: Ipv4Addr,
    port: u16,
}

/// The headers of a segment.
#[derive(Debug, Clone, Copy)]
struct Segment {
    network: usize,
    transport: usize,
    payload: usize,
    /// Behind the payload.
    end: usize,
    ends: Ends,
}

impl Segment {
    fn read(packet: &[u8], network: usize) -> Option<Segment> {
        let bytes = packet.get(network..)?;
        let ip: &[u8; 20] = bytes.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let transport = usize::from(ip[0] & 15) * 4;
        let is_whole = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
        if ip[0] >> 4 != 4 || ip[9] != 6 || transport < 20 || length > bytes.len() || !is_whole {
            return None;
        }
        let tcp: &[u8; 20] = bytes.get(transport..length)?.first_chunk()?;
        let payload = transport + usize::from(tcp[12] >> 4) * 4;
        if payload < transport + 20 || payload > length {
            return None;
        }
        let ends = Ends {
            src: Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]),
            dst: Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]),
            src_port: u16::from_be_bytes([tcp[0], tcp[1]]),
            dst_port: u16::from_be_bytes([tcp[2], tcp[3]]),
        };
        let (transport, payload) = (network + transport, network + payload);
        Some(Segment { network, transport, payload, end: network + length, ends })
    }

    /// The command the payload begins with: six numbers below 256, with commas between them.
    fn command(&self, packet: &[u8]) -> Option<Command> {
        let payload = packet.get(self.payload..self.end)?;
        let (word, rest) = payload.split_first_chunk::<5>()?;
        if !word.eq_ignore_ascii_case(b"PORT ") {
            return None;
        }
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        let text = &rest[spaces..];
        let length = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
        if !matches!(text.get(length), Some(b'\r' | b'\n')) {
            return None;
        }
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let mut numbers = text.split(',').map(|number| match number {
            "" => Some(0),
            number => number.parse::<u8>().ok(),
        });
        let mut number = || numbers.next()?;
        let [a, b, c, d, high, low] =
            [number()?, number()?, number()?, number()?, number()?, number()?];
        if numbers.next().is_some() {
            return None;
        }
        let from = self.payload + 5 + spaces;
        let (address, port) = (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
        Some(Command { from, to: from + length, address, port })
    }
}

impl FtpPortMapper {
    /// Looks at one packet.
    fn one(&self, arena: &Arena, slot: &mut Slot, now: u64) {
        let network = arena.network(slot);
        let packet = arena.packet(slot);
        let Some(segment) = Segment::read(packet, network) else { return };
        if let Some(command) = segment.command(packet) {
            self.command(arena, slot, segment, &command, now);
        }
    }

    #[cold]
    fn command(
        &self,
        arena: &Arena,
        slot: &mut Slot,
        segment: Segment,
        command: &Command,
        now: u64,
    ) -> Option<()> {
        let (control, data) = self.places.as_ref()?;
        let tcp = IpProtocol::TCP;
        let known = shared(&control.set).find(control.rewriter, tcp, segment.ends)?;
        let flow = Ends {
            src: command.address,
            src_port: command.port,
            dst: segment.ends.dst,
            dst_port: segment.ends.dst_port.wrapping_sub(1),
        };
        let text = {
            let set = &mut *alone(&data.set);
            let kind: RewriterKind = set.rewriters.get(usize::from(data.rewriter))?.kind;
            let entry = kind.find_or_make(set, data.rewriter, self.input, tcp, flow, now)?;
            let mapping = set.table.get(entry)?;
            let to = kind.whole(flow, mapping.to, mapping.is_reply());
            let ([a, b, c, d], [high, low]) = (to.src.octets(), to.src_port.to_be_bytes());
            format!("{a},{b},{c},{d},{high},{low}")
        };
        let (old, before) = (command.to - command.from, arena.packet(slot).len());
        let by = text.len() as isize - old as isize;
        let after = before.checked_add_signed(by)?;
        let length = u16::try_from((segment.end - segment.network).checked_add_signed(by)?).ok()?;
        // Longer before anything is written, shorter behind it.
        if by > 0 && !arena.resize(slot, after) {
            return None;
        }
        let packet = arena.packet_mut(slot)?;
        packet.copy_within(command.to..before, command.from + text.len());
        packet[command.from..command.from + text.len()].copy_from_slice(text.as_bytes());
        let end = segment.end.checked_add_signed(by)?;
        finish(&mut packet[..end], segment, length);
        let tcp_header = &packet[segment.transport..];
        let sequence =
            u32::from_be_bytes([tcp_header[4], tcp_header[5], tcp_header[6], tcp_header[7]]);
        let from = sequence.wrapping_add((segment.end - segment.payload) as u32);
        if by < 0 {
            arena.resize(slot, after);
        }
        let mut set = alone(&control.set);
        // The control connection may have been given up for the other.
        if by != 0 && set.find(control.rewriter, tcp, segment.ends) == Some(known) {
            set.shift(known, from, by as i32);
        }
        Some(())
    }
}

/// Writes length and checksums into a packet that ends with the payload.
fn finish(packet: &mut [u8], segment: Segment, length: u16) {
    let Segment { network, transport, ends, .. } = segment;
    packet[network + 2..network + 4].copy_from_slice(&length.to_be_bytes());
    packet[network + 10..network + 12].fill(0);
    let check = checksum(&packet[network..transport]);
    packet[network + 10..network + 12].copy_from_slice(&check.to_be_bytes());
    packet[transport + 16..transport + 18].fill(0);
    let segment_length = (packet.len() - transport) as u16;
    let mut sum = pseudo_v4(ends.src, ends.dst, IpProtocol::TCP, segment_length);
    sum.add_bytes(&packet[transport..]);
    packet[transport + 16..transport + 18].copy_from_slice(&sum.finish().to_be_bytes());
}

impl Element for FtpPortMapper {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let now = cx.steady() / 1_000_000;
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            self.one(arena, slot, now);
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let now = cx.steady() / 1_000_000;
        let plan = Arc::clone(cx.plan());
        let place = |element| self.registry.place(&plan, element, now);
        self.places = Some((place(self.control)?, place(self.data)?));
        Ok(())
    }
}
