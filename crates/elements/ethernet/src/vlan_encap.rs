//! `VLANEncap`, `EtherVLANEncap`: add 802.1Q tags.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerResult,
    NoBuffer, Right, Verdict, Writes,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::{EtherType, MacAddr};

use super::{
    ADDRESSES, FAMILY, TAG,
    ether_encap::address,
    header,
    tag::{self, Tagging},
    written, written_mac,
};
use linerate_element_support::ether::{HEADER, bytes, mac_text};

/// Drop reason of `VLANEncap`.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
    /// no Ethernet header
    Short,
}

pub(super) const SHIM: Class = Class {
    name: "VLANEncap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "adds a VLAN tag to Ethernet packets",
    description: "The tag is VLAN_TCI, or VLAN_ID, with VLAN_PCP; `ANNO` takes each packet's VLAN \
        annotation. Packets of the NATIVE_VLAN stay as they are: with its default nothing is added \
        for VLAN 0. Packets too short for an Ethernet header are dropped.",
    ports: "1/1",
    args: &[
        tag::TCI,
        tag::PCP,
        tag::ID,
        tag::NATIVE,
        Arg::keyword("ETHERTYPE", "0 to 0xFFFF", "0x8100", "what says that there is a tag"),
    ],
    handlers: &[
        tag::CONFIG,
        tag::HANDLERS[0],
        tag::HANDLERS[1],
        tag::HANDLERS[2],
        tag::NATIVE_HANDLER,
        Handler::value("ethertype", "the Ethertype that says that there is a tag"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "Addresses move by four bytes, the rest stays where it is.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> VLANEncap(VLAN_ID 5) -> VLANDecap -> Discard;",
    make: |make| Box::new(Shim::new(make)),
    ..Class::here()
};

/// By its old name.
pub(super) const ETHER_OLD: Class = Class {
    name: "EtherVlanEncap",
    example: "InfiniteSource(LIMIT 10, STOP true) \
        -> EtherVlanEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 5) -> Discard;",
    ..ETHER
};

pub(super) const ETHER: Class = Class {
    name: "EtherVLANEncap",
    reconfigured: Some(Right::Write),
    summary: "puts an Ethernet header with a VLAN tag in front of packets",
    description: "The same addresses and ETHERTYPE for all. The tag is VLAN_TCI, or VLAN_ID, with \
        VLAN_PCP; `ANNO` takes each packet's VLAN annotation. Packets of the NATIVE_VLAN get a \
        header without tag: with its default those of VLAN 0 do. The network header is then behind \
        it.",
    args: &[
        Arg::required("ETHERTYPE", "0 to 0xFFFF", "what is behind the header: 0x0800 for IPv4"),
        Arg::required("SRC", "Ethernet address", "source address"),
        Arg::required("DST", "Ethernet address", "destination address"),
        tag::TCI,
        tag::PCP,
        tag::ID,
        tag::NATIVE,
    ],
    handlers: &[
        tag::CONFIG,
        Handler::value("src", "the source address"),
        Handler::value("dst", "the destination address"),
        Handler::value("ethertype", "the Ethertype of what is behind"),
        tag::HANDLERS[0],
        tag::HANDLERS[1],
        tag::HANDLERS[2],
        tag::NATIVE_HANDLER,
    ],
    drops: header::Reason::REASONS,
    cost: "18 bytes are written in front of it. With `ANNO` a line \
        of annotations is read as well.",
    example: "InfiniteSource(LIMIT 10, STOP true) \
        -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID 5) -> Discard;",
    make: |make| Box::new(Ether::new(make)),
    ..SHIM
};

struct Shim {
    tagging: Tagging,
    ethertype: u16,
}

impl Shim {
    fn new(make: &mut ElementBuilder<'_>) -> Shim {
        let ethertype = make.or("ETHERTYPE", EtherType::VLAN.0);
        Shim { tagging: Tagging::from_args(make, true), ethertype }
    }

    fn text(&self) -> String {
        let text = self.tagging.text();
        match EtherType(self.ethertype) {
            EtherType::VLAN => text,
            other => format!("{text}, ETHERTYPE {}", other.0),
        }
    }
}

impl Element for Shim {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Shim { tagging, ethertype } = *self;
        let annotated = cx.world().annotated;
        if tagging.annotated {
            cx.retain::<Writes, Reason>(frame, |packet| {
                let tci = Some(packet.meta().vlan).filter(|tci| !tagging.is_native(*tci));
                add_tag(packet, tci.map(|tci| tag(ethertype, tci)), annotated)
            });
        } else if tagging.is_native(tagging.tci) {
            cx.retain::<Writes, Reason>(frame, |packet| add_tag(packet, None, annotated));
        } else {
            let tag = Some(tag(ethertype, tagging.tci));
            cx.retain::<Writes, Reason>(frame, |packet| add_tag(packet, tag, annotated));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "config" => Ok(self.text()),
            "ethertype" => Ok(self.ethertype.to_string()),
            _ => self.tagging.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "ethertype" => self.ethertype = written(cx, "ETHERTYPE", value)?,
            _ => self.tagging.write(cx, handler, value)?,
        }
        cx.set_config(self.text());
        Ok(String::new())
    }
}

/// Adds a tag, if there is to be one, and says where the network header is.
#[inline(always)]
fn add_tag(packet: &mut PacketMut<'_>, tag: Option<[u8; TAG]>, annotated: bool) -> Verdict<Reason> {
    if packet.len() < HEADER {
        return Err(Exit::Drop(Reason::Short));
    }
    if let Some(tag) = tag {
        if !packet.prepend(TAG) {
            return Err(Exit::Drop(Reason::TooLong));
        }
        put_tag(packet.bytes_mut(), tag);
    }
    if annotated {
        packet.mark_network(HEADER + tag.map_or(0, |tag| tag.len()));
    }
    Ok(())
}

/// The bytes of a tag.
#[inline]
pub(super) fn tag(ethertype: u16, tci: u16) -> [u8; TAG] {
    let ([a, b], [c, d]) = (ethertype.to_be_bytes(), tci.to_be_bytes());
    [a, b, c, d]
}

/// A tag behind the addresses of a packet that begins four bytes before them.
#[inline]
pub(super) fn put_tag(bytes: &mut [u8], tag: [u8; TAG]) {
    if let Some(head) = bytes.first_chunk_mut::<{ ADDRESSES + TAG }>() {
        head.copy_within(TAG.., 0);
        head[ADDRESSES..].copy_from_slice(&tag);
    }
}

struct Ether {
    /// Without tag.
    header: [u8; HEADER],
    tagging: Tagging,
}

impl Ether {
    fn new(make: &mut ElementBuilder<'_>) -> Ether {
        let ethertype = make.need("ETHERTYPE");
        let (source, destination) = (make.need("SRC"), make.need("DST"));
        let header = bytes(destination, source, ethertype);
        Ether { header, tagging: Tagging::from_args(make, true) }
    }

    fn ethertype(&self) -> u16 {
        u16::from_be_bytes([self.header[12], self.header[13]])
    }

    fn text(&self) -> String {
        let [dst, src] = [0, 6].map(|at| mac_text(address(&self.header, at)));
        format!("{}, {src}, {dst}, {}", self.ethertype(), self.tagging.text())
    }

    fn tagged(&self, tci: u16) -> [u8; HEADER + TAG] {
        let mut header = [0; HEADER + TAG];
        header[..ADDRESSES].copy_from_slice(&self.header[..ADDRESSES]);
        header[12..14].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
        header[14..16].copy_from_slice(&tci.to_be_bytes());
        header[16..].copy_from_slice(&self.header[ADDRESSES..]);
        header
    }

    /// A header by the packet's annotation.
    fn encapsulate(&self, packet: &mut PacketMut<'_>, annotated: bool) -> Verdict<header::Reason> {
        let tci = packet.meta().vlan;
        if self.tagging.is_native(tci) {
            header::put_one(packet, &self.header, annotated)
        } else {
            header::put_one(packet, &self.tagged(tci), annotated)
        }
    }
}

impl Element for Ether {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let tci = self.tagging.tci;
        if self.tagging.annotated {
            let annotated = cx.world().annotated;
            let encapsulate = |packet: &mut PacketMut<'_>| self.encapsulate(packet, annotated);
            cx.retain::<Writes, header::Reason>(frame, encapsulate);
        } else if self.tagging.is_native(tci) {
            header::put(cx, frame, &self.header);
        } else {
            header::put(cx, frame, &self.tagged(tci));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "config" => Ok(self.text()),
            "dst" => Ok(mac_text(address(&self.header, 0))),
            "src" => Ok(mac_text(address(&self.header, 6))),
            "ethertype" => Ok(self.ethertype().to_string()),
            _ => self.tagging.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "src" | "dst" => {
                let MacAddr(mac) = written_mac(cx, value)?;
                let at = if handler == "src" { 6 } else { 0 };
                self.header[at..at + 6].copy_from_slice(&mac);
            }
            "ethertype" => {
                let ethertype: u16 = written(cx, "ETHERTYPE", value)?;
                self.header[12..].copy_from_slice(&ethertype.to_be_bytes());
            }
            _ => self.tagging.write(cx, handler, value)?,
        }
        cx.set_config(self.text());
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const PLAIN: &str = "0101010101010202020202020800aabb";

    #[test]
    fn a_tag_comes_and_goes() {
        for (config, tagged) in [
            ("5, 3", "01010101010102020202020281006005 0800aabb"),
            ("VLAN_ID 4095, ETHERTYPE 0x88a8", "01010101010102020202020288a80fff 0800aabb"),
            ("0", PLAIN),
            ("0, NATIVE_VLAN -1", "010101010101020202020202 8100 0000 0800aabb"),
            ("ANNO", "010101010101020202020202 8100 6007 0800aabb"),
            ("ANNO, NATIVE_VLAN 7", PLAIN),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({PLAIN} {PLAIN}) -> SetVLANAnno(7, 3) -> VLANEncap({config})
                        -> t :: Tee -> c :: Collect;
                     t [1] -> d :: VLANDecap(ETHERTYPE 0x88a8) -> VLANDecap -> e :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                let tagged = tagged.replace(' ', "");
                assert_eq!(run.read("c.packets"), format!("{tagged}\n{tagged}"), "{config}");
                assert_eq!(run.read("e.packets"), format!("{PLAIN}\n{PLAIN}"), "{config}");
            }
        }
    }

    #[test]
    fn packets_without_an_ethernet_header_get_no_tag() {
        let mut run = Run::new(
            "Packets(- 00 000102030405060708090a0b0c) -> v :: VLANEncap(5) -> c :: Collect",
        );
        run.run();
        assert_eq!(run.read("c.lengths"), "");
        assert!(run.read("v.drops").contains("3\tno Ethernet header"));
    }

    #[test]
    fn a_header_with_a_tag() {
        for (config, header) in [
            ("5, 1", "0a0b0c0d0e0f010203040506 8100 2005 0806"),
            ("ANNO", "0a0b0c0d0e0f010203040506 8100 0009 0806"),
            ("ANNO, NATIVE_VLAN 9", "0a0b0c0d0e0f010203040506 0806"),
            ("VLAN_ID 0", "0a0b0c0d0e0f010203040506 0806"),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets(aabb cc) -> SetVLANAnno(9) -> EtherVLANEncap(0x0806, 1:2:3:4:5:6,
                        a:b:c:d:e:f, {config}) -> t :: Tee -> c :: Collect;
                     t [1] -> StripEtherVLANHeader -> e :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                let header = header.replace(' ', "");
                assert_eq!(run.read("c.packets"), format!("{header}aabb\n{header}cc"), "{config}");
                assert_eq!(run.read("e.packets"), "aabb\ncc", "{config}");
            }
        }
    }

    #[test]
    fn handlers_change_the_tag() {
        let mut run = Run::new(
            "Idle -> v :: VLANEncap(5, 3) -> e :: EtherVLANEncap(2048, 1:1:1:1:1:1, 2:2:2:2:2:2, 7)
                -> Discard",
        );
        for (handler, value, config) in [
            ("v.vlan_id", "9", "VLAN_ID 9, VLAN_PCP 3"),
            ("v.vlan_pcp", "1", "VLAN_ID 9, VLAN_PCP 1"),
            ("v.vlan_tci", "ANNO", "ANNO"),
            ("v.native_vlan", "-1", "ANNO, NATIVE_VLAN -1"),
            (
                "e.vlan_tci",
                "8",
                "2048, 01-01-01-01-01-01, 02-02-02-02-02-02, VLAN_ID 8, VLAN_PCP 0",
            ),
        ] {
            run.write(handler, value).unwrap();
            assert_eq!(run.read(&format!("{}.config", &handler[..1])), config);
        }
        assert_eq!(
            run.write("v.vlan_id", "4096").unwrap_err().to_string(),
            "VLAN_ID: out of range, bound 4095"
        );
        run.write("e.config", "1, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO").unwrap();
        assert_eq!(run.read("e.config"), "1, 01-01-01-01-01-01, 02-02-02-02-02-02, ANNO");
    }
}
