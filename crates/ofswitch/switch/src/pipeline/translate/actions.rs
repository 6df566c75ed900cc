//! Translation of each action.

use std::sync::Arc;

use super::fields::bits_of;
use super::{ActionOrigin, ENDS, Frame, List, Translator, Unknown, encap, say};
use crate::pipeline::{Step, trace};
use crate::wire::field::Needs;
use crate::wire::{Action, BandEffect, Field, PacketInReason, PacketType, PortNumber, Subfield};

/// Returns true if an action cannot be done while so much of the headers is unknown.
pub(super) fn waits(action: &Action, unknown: Unknown) -> bool {
    if unknown == Unknown::Nothing {
        return false;
    }
    let field = |field: Field| match field {
        Field::EthDst | Field::EthSrc => unknown == Unknown::Headers,
        _ => super::fields::HEADERS.contains(&crate::key::position_of(field).word),
    };
    let part = |part: &Subfield| field(part.field());
    match action {
        Action::Output { port, .. } | Action::OutputTruncated { port, .. } => {
            *port == PortNumber::NORMAL
        }
        Action::SetField(entry) => field(entry.field()),
        Action::Load { destination, .. } | Action::CheckLarger { destination, .. } => {
            part(destination)
        }
        Action::Move { source, destination } => part(source) || part(destination),
        Action::OutputField { source: of, .. } | Action::StackPush(of) | Action::StackPop(of) => {
            part(of)
        }
        Action::PushVlan(_) => unknown == Unknown::Headers,
        Action::Encap(encap) => encap.packet_type != PacketType::ETHERNET,
        Action::Enqueue { .. }
        | Action::Group(_)
        | Action::SetQueue(_)
        | Action::PopQueue
        | Action::Meter(_)
        | Action::Controller(_)
        | Action::Resubmit { .. }
        | Action::WriteMetadata { .. }
        | Action::Note(_)
        | Action::Exit
        | Action::Sample(_)
        | Action::Conjunction { .. }
        | Action::CtClear
        | Action::Clone(_) => false,
        _ => true,
    }
}

impl<'a> Translator<'a> {
    /// Does an action, which is one of those above a mark.
    pub(super) fn act(&mut self, action: &'a Action, place: ActionOrigin<'a>, base: usize) {
        say!(self, "{}", trace::actions(std::slice::from_ref(action)));
        if !self.is_ethernet() && encap::needs_ethernet(action) {
            return say!(self, "(no header of Ethernet: nothing is done)");
        }
        match action {
            Action::Encap(encap) => self.encap(encap),
            Action::Decap(behind) => self.decap(*behind),
            Action::Output { port, max_len } => self.output(*port, *max_len, None, place),
            Action::OutputTruncated { port, max_len } => {
                self.output(*port, u16::MAX, Some(*max_len), place);
            }
            Action::Enqueue { port, queue } => {
                let before = std::mem::replace(&mut self.packet.queue, *queue);
                self.output(*port, u16::MAX, None, place);
                self.packet.queue = before;
            }
            Action::OutputField { source, max_len } => {
                let number = self.read_part(source);
                let port = u16::try_from(number).map(PortNumber::from_short);
                let port = port.unwrap_or(PortNumber(u32::try_from(number).unwrap_or(0)));
                self.output(port, *max_len, None, place);
            }
            Action::Controller(controller) => self.controller(controller, place, base),
            Action::Group(number) => self.group(*number, place),
            Action::SetQueue(queue) => self.packet.queue = *queue,
            Action::PopQueue => self.packet.queue = 0,
            Action::Meter(number) => self.meter(*number),
            Action::SetField(entry) => self.write(entry.field(), entry.value(), entry.mask()),
            Action::Load { destination, value } => self.write_part(destination, (*value).into()),
            Action::Move { source, destination } => self.copy_field(source, destination),
            Action::SetVlanVid(number) => self.set_tag(Field::VlanVid, (*number).into()),
            Action::SetVlanPcp(priority) => self.set_tag(Field::VlanPcp, (*priority).into()),
            Action::SetTpSrc(port) => {
                self.set_port([Field::TcpSrc, Field::UdpSrc, Field::SctpSrc], *port);
            }
            Action::SetTpDst(port) => {
                self.set_port([Field::TcpDst, Field::UdpDst, Field::SctpDst], *port);
            }
            Action::PushVlan(kind) => self.push_vlan(*kind, 0),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(kind) => self.push_mpls(*kind),
            Action::PopMpls(kind) => self.pop_mpls(*kind),
            Action::PushPbb(kind) => self.push_pbb(*kind),
            Action::PopPbb => self.pop_pbb(),
            Action::CopyTtlOut => self.copy_ttl_out(),
            Action::CopyTtlIn => self.copy_ttl_in(),
            Action::SetMplsTtl(ttl) => self.write(Field::MplsTtl, (*ttl).into(), 0xff),
            Action::SetIpTtl(ttl) => self.write(Field::IpTtl, (*ttl).into(), 0xff),
            Action::DecMplsTtl => self.count_down(Needs::Mpls, Field::MplsTtl, place, base),
            Action::DecNshTtl => self.count_down(Needs::Nsh, Field::NshTtl, place, base),
            Action::DecIpTtl => self.count_down_ip(&[0], place, base),
            Action::DecIpTtlFor(controllers) => self.count_down_ip(controllers, place, base),
            Action::Resubmit { port, table, original } => {
                let table = if *table == 255 { place.table } else { *table };
                if *original && !self.has(Needs::Tracked) {
                    return;
                }
                let port = Some(port.0).filter(|&port| port != PortNumber::IN_PORT.0);
                self.go_to(table, false, port, *original, place);
            }
            Action::WriteMetadata { value, mask } => {
                self.packet.key.set_masked(Field::Metadata, (*value).into(), (*mask).into());
            }
            Action::Multipath(multipath) => self.multipath(multipath),
            Action::Bundle(bundle) => self.bundle(bundle, place),
            Action::Learn(learn) => self.learn(learn),
            Action::Exit => {
                // Nothing more, not even the action set at the end.
                self.frames.truncate(base);
                self.packet.set.clear();
                self.exited = true;
            }
            Action::FinTimeout { idle, hard } => self.shorten(*idle, *hard, place),
            Action::StackPush(part) => {
                let value = self.read_part(part);
                self.packet.stack.push((value, part.bits()));
            }
            Action::StackPop(part) => {
                if let Some((value, bits)) = self.packet.stack.pop() {
                    let bits = bits.min(part.bits());
                    let whole = Subfield::new(part.field(), part.offset(), bits);
                    self.write_part(&whole.unwrap_or(*part), value & (u128::MAX >> (128 - bits)));
                }
            }
            Action::Sample(_) => {
                self.commit();
                self.steps.push(Step::Sample(Arc::new(action.clone())));
            }
            Action::Ct(ct) => self.connection(ct),
            // Where flows know of no connection, the next `ct` keeps its own knowledge, as in Open
            // vSwitch.
            Action::CtClear if self.has_forgotten_connection() => {}
            Action::CtClear => {
                self.steps.push(Step::ClearTrack);
                self.forget_connection();
            }
            Action::Clone(actions) => self.clone_with(actions, place, base),
            Action::CheckLarger { length, destination } => {
                self.check_larger(*length, destination, base);
            }
            // The first is a part of a match, the second of `ct`; the last is a comment.
            Action::Conjunction { .. } | Action::Nat(_) | Action::Note(_) => {}
        }
    }

    fn copy_field(&mut self, source: &Subfield, destination: &Subfield) {
        if !self.has_field(source.field()) || !self.has_field(destination.field()) {
            return;
        }
        let value = self.read_part(source);
        self.write_part(destination, value);
    }

    /// Sets a port of TCP, UDP or SCTP.
    fn set_port(&mut self, fields: [Field; 3], port: u16) {
        if !self.has(Needs::Ip) {
            return;
        }
        let field = match self.read(Field::IpProto) {
            6 => fields[0],
            17 => fields[1],
            132 => fields[2],
            _ => return,
        };
        self.write(field, port.into(), 0xffff);
    }

    pub(super) fn meter(&mut self, number: u32) {
        self.decision.depends.meters.push(number);
        let Some(meter) = self.snapshot.meter(number) else {
            return say!(self, "meter {number} is not there: nothing is done");
        };
        say!(self, "meter:{number}");
        self.commit();
        self.steps.push(Step::Meter(Arc::clone(meter)));
        self.packet.conditional = true;
        let marks = |effect| matches!(effect, BandEffect::Remark(_));
        if meter.bands.iter().any(|band| marks(band.effect)) {
            // The packet after the action is known when it is there.
            self.forget_headers(Unknown::Carried);
        }
    }

    fn shorten(&mut self, idle: u16, hard: u16, place: ActionOrigin<'a>) {
        if !self.has(Needs::Tcp) {
            return;
        }
        self.look(Field::TcpFlags, ENDS);
        if self.packet.key.get(Field::TcpFlags) & ENDS == 0 {
            return;
        }
        if let Some(flow) = place.flow {
            self.environment.shorten(flow, idle, hard, self.now);
        }
    }

    fn clone_with(&mut self, actions: &'a [Action], place: ActionOrigin<'a>, base: usize) {
        let depth = place.depth + 1;
        if !self.count_depth(depth) {
            return;
        }
        self.commit();
        self.exited = false;
        let set = self.packet.set.clone();
        let steps = self.scope(false, set, |translator| {
            let place = ActionOrigin { depth, ..place };
            translator.frames.push(Frame::Actions { list: List::Flow(actions), at: 0, place });
        });
        self.add_copy(steps);
        // As in Open vSwitch, this ends the outer actions, too.
        if self.exited {
            self.frames.truncate(base);
            self.packet.set.clear();
        }
    }

    /// The packet's length is known when it is there: it goes on in one of two ways.
    fn check_larger(&mut self, length: u16, destination: &Subfield, base: usize) {
        self.commit();
        let length = length.saturating_add(self.hidden_bytes());
        let mut way = |larger: u128| {
            let before = self.packet.clone();
            self.write_part(destination, larger);
            self.commit();
            let way = self.suspend(base, false);
            self.packet = before;
            way
        };
        let (larger, other) = (way(1), way(0));
        debug_assert!(bits_of(destination).count_ones() == 1, "a bit");
        say!(
            self,
            "(longer than {length}: goes on as {}, else as {})",
            larger.number,
            other.number
        );
        self.steps.push(Step::Larger { length, larger, other });
        self.stop(base);
    }

    /// Controllers get the packet, by Nicira's action.
    fn controller(
        &mut self,
        controller: &crate::wire::Controller,
        place: ActionOrigin<'a>,
        base: usize,
    ) {
        self.commit();
        let resume = controller.pause.then(|| self.suspend(base, false));
        let reason = match controller.reason {
            PacketInReason::Action => place.reason,
            reason => reason,
        };
        let (state, written) = self.state();
        self.send_to_controllers(crate::pipeline::Punt {
            reason,
            table: place.table,
            cookie: place.cookie,
            max_len: controller.max_len,
            id: controller.id,
            userdata: controller.userdata.clone(),
            meter: controller.meter,
            state,
            written,
            resume,
        });
        if controller.pause {
            self.stop(base);
        }
    }
}
