//! `SetVLANAnno`: sets the VLAN annotation.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, HandlerError, HandlerResult, NoBuffer, Right,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    tag::{self, Tagging},
};

pub(super) const CLASS: Class = Class {
    name: "SetVLANAnno",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the VLAN annotation",
    description: "To VLAN_TCI, or VLAN_ID, with VLAN_PCP. VLANEncap, EtherVLANEncap and \
        VLANSwitch go by it where asked to.",
    ports: "1/1",
    args: &[Arg::optional("VLAN_TCI", "0 to 0xFFFF", "0", "the tag"), tag::PCP, tag::ID],
    handlers: &[tag::CONFIG, tag::HANDLERS[0], tag::HANDLERS[1], tag::HANDLERS[2]],
    annotates: true,
    drops: NoBuffer::REASONS,
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetVLANAnno(VLAN_ID 7) -> Discard;",
    make: |make| Box::new(SetVlanAnno(Tagging::from_args(make, false))),
    ..Class::here()
};

/// By its old name.
pub(super) const OLD: Class = Class {
    name: "SetVlanAnno",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetVlanAnno(5) -> Discard;",
    ..CLASS
};

struct SetVlanAnno(Tagging);

impl Element for SetVlanAnno {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<NoBuffer>(frame);
        let arena = cx.pool.arena();
        for meta in frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot)) {
            meta.vlan = self.0.tci;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        if handler == "config" { Ok(self.0.text()) } else { self.0.read(handler) }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler == "vlan_tci" && value.trim() == "ANNO" {
            return Err(HandlerError::refused("VLAN_TCI: invalid number"));
        }
        self.0.write(cx, handler, value)?;
        cx.set_config(self.0.text());
        Ok(String::new())
    }
}
