//! Outputs of packets: ports, reserved ports, and controllers.

use std::sync::Arc;

use super::fields::HEADERS;
use super::{ActionOrigin, Frame, Translator, say};
use crate::key::{ENTRY_WORDS, Key, Mask};
use crate::pipeline::{Punt, Step};
use crate::wire::{Field, PacketInReason, PortConfig, PortNumber, VLAN_PRESENT};

/// Addresses that switches do not forward: 01:80:c2:00:00:00 to 0f (IEEE 802.1Q, section 8.6.3).
const RESERVED: u64 = 0x0180_c200_0000;

impl<'a> Translator<'a> {
    /// Sends the packet to a port; `max_len` is for controllers, `cut` for all.
    pub(super) fn output(
        &mut self,
        port: PortNumber,
        max_len: u16,
        cut: Option<u32>,
        place: ActionOrigin<'a>,
    ) {
        match port {
            PortNumber::IN_PORT => {
                let port = self.in_port();
                self.send(port, cut);
            }
            PortNumber::TABLE => {
                if self.from_controller && self.count_depth(place.depth + 1) {
                    self.frames.push(Frame::Table {
                        table: 0,
                        goto: true,
                        port: None,
                        original: false,
                        depth: place.depth + 1,
                    });
                }
            }
            PortNumber::NORMAL if !self.is_ethernet() => {
                say!(self, "(no header of Ethernet: not sent)");
            }
            PortNumber::NORMAL => self.normal(cut),
            PortNumber::FLOOD => self.send_to_all(true, cut),
            PortNumber::ALL => self.send_to_all(false, cut),
            PortNumber::CONTROLLER => {
                let cut = cut.map_or(max_len, |cut| cut.min(0xffff) as u16);
                self.punt(cut, place);
            }
            PortNumber::ANY | PortNumber::UNSET => {}
            PortNumber(number) if number == self.in_port() => {
                say!(self, "(it came from there: not sent)");
            }
            PortNumber(number) => self.send(number, cut),
        }
    }

    /// Sends the packet to a port that is one.
    fn send(&mut self, port: u32, cut: Option<u32>) {
        match self.snapshot.port(PortNumber(port)) {
            None => say!(self, "(port {port} is not there: not sent)"),
            Some(is) if !is.forwards() => say!(self, "(port {port} sends nothing)"),
            Some(_) if !self.is_ethernet() => {
                say!(self, "(no header of Ethernet: not sent to port {port})");
            }
            Some(_) => {
                self.commit();
                let queue = self.packet.queue;
                self.steps.push(Step::Output { port, max_len: cut, queue });
            }
        }
    }

    fn send_to_all(&mut self, flood: bool, cut: Option<u32>) {
        let (from, snapshot) = (self.in_port(), self.snapshot);
        for port in snapshot.ports() {
            if port.number().0 != from && (!flood || port.floods()) {
                self.send(port.number().0, cut);
            }
        }
    }

    /// Forwards as a switch without controllers (`NORMAL`).
    pub(super) fn normal(&mut self, cut: Option<u32>) {
        let from = self.in_port();
        self.look(Field::VlanTci, VLAN_PRESENT | 0xfff);
        let vlan = (self.packet.key.get(Field::VlanTci) & 0xfff) as u16;
        let source = self.read(Field::EthSrc) as u64;
        let destination = self.read(Field::EthDst) as u64;
        if destination & !0xf == RESERVED {
            return say!(self, "(NORMAL: an address that is not forwarded)");
        }
        let hosts = &self.shared_state.hosts;
        if source >> 40 & 1 == 0 {
            self.decision.depends.hosts.push((vlan, source));
            // No address is learned from a packet of a trace, from that of a controller without a
            // port, or from one that was received before the link went down.
            let real = self.snapshot.port(PortNumber(from)).is_some_and(|port| port.is_live());
            if real && self.trace.is_none() {
                if hosts.is_new(vlan, source, from) && hosts.learn(vlan, source, from, self.now) {
                    self.environment.host_changed(vlan, source);
                }
                match hosts.find(vlan, source) {
                    Some((port, counters)) if port == from => {
                        counters.touch(self.now);
                        self.decision.touched.push(counters);
                    }
                    _ => self.decision.depends.unlearnt = true,
                }
            }
        }
        if destination >> 40 & 1 == 0 {
            self.decision.depends.hosts.push((vlan, destination));
            if let Some((port, _)) = hosts.find(vlan, destination) {
                say!(self, "(NORMAL: {destination:012x} of VLAN {vlan} is at port {port})");
                if port != from {
                    self.send(port, cut);
                }
                return;
            }
        }
        say!(self, "(NORMAL: not known where {destination:012x} of VLAN {vlan} is: flooded)");
        self.send_to_all(true, cut);
    }

    pub(super) fn punt(&mut self, max_len: u16, place: ActionOrigin<'a>) {
        let quiet = || {
            let port = self.snapshot.port(PortNumber(self.in_port()));
            port.is_some_and(|port| port.port.config.contains(PortConfig::NO_PACKET_IN))
        };
        if place.reason == PacketInReason::NoMatch && quiet() {
            return say!(self, "(the port sends nothing to controllers)");
        }
        self.punt_for(0, max_len, place);
    }

    pub(super) fn punt_for(&mut self, id: u16, max_len: u16, place: ActionOrigin<'a>) {
        self.commit();
        let (state, written) = self.state();
        self.send_to_controllers(Punt {
            reason: place.reason,
            table: place.table,
            cookie: place.cookie,
            max_len,
            id,
            userdata: Vec::new(),
            meter: 0,
            state,
            written,
            resume: None,
        });
    }

    pub(super) fn send_to_controllers(&mut self, punt: Punt) {
        say!(self, "(to controllers: {:?})", punt.reason);
        self.steps.push(Step::Controller(Arc::new(punt)));
    }

    /// The fields of the packet that no header has, and the mask of those that were written.
    pub(super) fn state(&self) -> (Box<Key>, Box<Mask>) {
        let mut written = self.packet.written;
        written.words_mut()[HEADERS].fill(0);
        written.words_mut()[ENTRY_WORDS..].fill(u64::MAX);
        (Box::new(self.packet.key.under(&written)), Box::new(written))
    }
}
