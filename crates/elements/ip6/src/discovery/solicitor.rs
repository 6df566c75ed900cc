//! `IP6NDSolicitor`: sends IPv6 packets to neighbours, with Ethernet addresses from neighbour
//! discovery.
//!
//! Where some packets of a frame are for addresses that are not remembered, the table all workers
//! share is locked, once for the frame.

use std::{net::Ipv6Addr, sync::Arc};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerResult, NoBuffer,
    Rank,
};
use linerate_memory::{Frame, Meta, Slot};
use linerate_packet::{EtherType, MacAddr};

use super::{
    Message, MessageType, OVERRIDE, SOLICITED,
    dad::{Dad, DadState},
    group, solicited_node,
};
use crate::FAMILY;
use linerate_element_support::{
    ether::{HEADER, bytes},
    random::Random,
};
use linerate_elements_neighbours::{
    put_header,
    querier::Querier,
    send_released,
    shared::{self, Shared, milliseconds},
    table::{Advertised, Neighbours, RetryWork, UpdateResult},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no destination annotation
    NoDestination,
    /// no answer in time, or too many waiting
    Unanswered,
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
    /// somebody else has its address
    Duplicate,
}

/// Default milliseconds for which an address is good; Click's.
const TIMEOUT: u64 = 120_000;
/// Milliseconds after which a group's header is made anew.
const GROUP: u64 = 1000;

/// Timers: repeated queries and expiry, and probes for this host's address.
const TICK: u32 = 0;
const PROBE: u32 = 1;
const SECOND: u64 = 1_000_000_000;

pub(super) const CLASS: Class = Class {
    name: "IP6NDSolicitor",
    family: FAMILY,
    summary: "sends IPv6 packets to neighbours found by neighbour discovery",
    description: "IPv6 packets at input 0 get an Ethernet header from `ETH` to the neighbour their \
        destination annotation says, and leave by output 0. While its address is not known they \
        wait, and a neighbour solicitation goes by output 1, or the only one: three, a second \
        apart. When nobody answers, what waits leaves by output 2, as it came, for an \
        `ICMP6Error(.., 1, 3)`; without such an output it is dropped. Neighbour advertisements are for input 1, as \
        Ethernet packets; packets that waited leave with the one for them. Packets to groups need \
        no solicitation; packets without destination are dropped.\n\n\
        As RFC 4861 section 7.2.5 says, an advertisement for an address nobody sends to is not \
        taken, one that changes a known address only when it overrides, and only an answer shows \
        that a neighbour is still there; Click takes any. Messages with a hop limit other than \
        255, a wrong checksum, a code, or an option without length are not looked at. Everything \
        is bounded: where there is no more room, for a packet the ones that have waited for the \
        oldest addresses are dropped, for an address one that nothing is known of.\n\n\
        `DAD` probes make sure first that nobody else on the link has `IP` (RFC 4862); RFC 4862 \
        wants one, Click sends none. Until a second after the last, packets for neighbours that are \
        not known wait. When somebody has the address, no solicitations are sent and those packets \
        are dropped. Solicitations of others may also be sent to input 1, so that two hosts that \
        probe at the same time notice each other, and neighbours that ask for `IP` are learnt.",
    ports: "2/1-3",
    processing: "h/h",
    flow: "xy/x",
    // Packets that waited for an answer go with it.
    multiplies: |_, _, _| usize::MAX,
    args: &[
        Arg::required("IP", "IPv6 address", "the address of this host"),
        Arg::required("ETH", "Ethernet address", "the address of this host"),
        shared::ARGS[0],
        shared::ARGS[1],
        shared::ARGS[2],
        shared::ARGS[3],
        Arg::keyword("TIMEOUT", "time", "120s", "how long an address is good for; 0: for ever"),
        Arg::keyword("POLL_TIMEOUT", "time", "60s", "when an address is asked for again; 0: never"),
        Arg::keyword("DAD", "probes", "0", "probes for others that have IP, at most 255"),
    ],
    handlers: &[
        Handler::read("table", "address, 1 if known, Ethernet address, a line each"),
        Handler::read("stats", "packets dropped and solicitations sent, in words"),
        shared::COUNT,
        shared::LENGTH,
        Handler::count("queries", "solicitations sent"),
        Handler::count("responses", "advertisements received"),
        Handler::count("drops", "packets dropped that did not wait"),
        Handler::count("spoofed", "messages that change what is known, or claim IP"),
        Handler::read("state", "whether IP is `tentative`, `valid` or a `duplicate`"),
        shared::INSERT,
        shared::DELETE,
        Handler::button("clear", "forgets all addresses, drops what waits, sets counts to zero"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "Reads and writes a line of annotations, writes 14 bytes in front of the packet. A lock \
        per frame, and a lookup per packet, for addresses not used lately.",
    example: "s :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1, DAD 1); Idle -> s -> Discard; \
        Idle -> [1] s;",
    make: |make| Box::new(Solicitor::new(make)),
    ..Class::here()
};

/// A solicitation to be sent: its target, its destination, and the annotations and rank of the
/// packet it goes before.
struct Query {
    target: Ipv6Addr,
    /// The last known address of the target; else a group.
    to: Option<MacAddr>,
    like: Meta,
    rank: Rank,
}

struct Solicitor {
    querier: Querier<Ipv6Addr>,
    ip: Ipv6Addr,
    mac: MacAddr,
    dad: Arc<Dad>,
    probes: u8,
    random: Random,
}

impl Solicitor {
    fn new(make: &mut ElementBuilder<'_>) -> Solicitor {
        let limits = shared::limits(make, TIMEOUT);
        let (ip, mac) = (make.get("IP"), make.need("ETH"));
        let shared = Shared::for_element(make, make.name());
        if let Some(shared) = &shared {
            shared.lock().limits = limits;
        }
        let probes = make.or("DAD", 0);
        Solicitor {
            querier: Querier::new(make, shared),
            ip: ip.unwrap_or(Ipv6Addr::UNSPECIFIED),
            mac,
            dad: make.shared(|| Dad::new(probes > 0)),
            probes,
            random: Random::new(make),
        }
    }

    /// IP packets on their way.
    #[inline]
    fn forward(&mut self, cx: &mut Context, frame: &mut Frame) {
        let now = milliseconds(cx);
        if self.querier.forward::<Reason>(cx, frame, now) {
            self.look_up(cx, frame, now);
        }
    }

    /// Some addresses are not remembered.
    #[cold]
    fn look_up(&mut self, cx: &mut Context, frame: &mut Frame, now: u64) {
        let Some(shared) = self.querier.shared.clone() else { return };
        let mut missed = std::mem::take(&mut self.querier.missed);
        let mut neighbours = shared.lock();
        let send = |cx: &mut Context, slot| {
            if let Some(slot) = self.resolve(cx, &shared, &mut neighbours, slot, now) {
                cx.out.emit(0, slot);
            }
        };
        Querier::<Ipv6Addr>::send_missed(cx, frame, &mut missed, send);
        drop(neighbours);
        self.querier.missed = missed;
        let dropped = shared.give_back(cx);
        cx.count_drops(Reason::Unanswered, dropped);
    }

    /// Gives a packet that can go on its header; else it waits or is dropped.
    fn resolve(
        &mut self,
        cx: &mut Context,
        shared: &Shared<Ipv6Addr>,
        neighbours: &mut Neighbours<Ipv6Addr>,
        mut slot: Slot,
        now: u64,
    ) -> Option<Slot> {
        let (like, rank) = (*cx.pool.arena().meta(&slot), cx.rank_of(&slot));
        let (ip, state) = (Ipv6Addr::from(like.destination), self.dad.state());
        if ip.is_unspecified() {
            return self.refuse(cx, slot, Reason::NoDestination);
        }
        if slot.len() > cx.pool.arena().buffer_size() - HEADER {
            return self.refuse(cx, slot, Reason::TooLong);
        }
        let generation = shared.generations().changes(ip.to_bits());
        let (mac, until) = if ip.is_multicast() {
            (group(ip), now + GROUP)
        } else if let Some(answer) = neighbours.resolve(ip, now, self.querier.poll_timeout) {
            if answer.query && state == DadState::Valid {
                self.send_query(cx, &Query { target: ip, to: Some(answer.mac), like, rank });
            }
            (answer.mac, answer.until)
        } else if state == DadState::Duplicate {
            return self.refuse(cx, slot, Reason::Duplicate);
        } else {
            if neighbours.wait(ip, slot, now, state == DadState::Valid) {
                self.send_query(cx, &Query { target: ip, to: None, like, rank });
            }
            return None;
        };
        let header = self.header(mac);
        self.querier.remember(ip, header, (until, generation), now);
        // It fits, as has just been seen.
        put_header(cx.pool.arena(), &mut slot, &header);
        Some(slot)
    }

    fn refuse(&mut self, cx: &mut Context, slot: Slot, reason: Reason) -> Option<Slot> {
        self.querier.drops += 1;
        cx.drop_packet(slot, reason);
        None
    }

    fn header(&self, mac: MacAddr) -> [u8; HEADER] {
        bytes(mac, self.mac, EtherType::IPV6.0)
    }

    fn send_query(&mut self, cx: &mut Context, query: &Query) {
        let group_of = solicited_node(query.target);
        let (destination, to) = match query.to {
            Some(mac) => (query.target, mac),
            None => (group_of, group(group_of)),
        };
        let message = Message {
            what: MessageType::Solicitation,
            source: self.ip,
            destination,
            target: query.target,
            mac: Some(self.mac),
            sender: self.mac,
        };
        let message = message.packet(cx, to, &query.like);
        self.querier.send_query::<Reason>(cx, message, query.rank);
    }

    /// Probes for this host's address, or makes it valid after the last probe.
    fn probe(&mut self, cx: &mut Context) {
        if self.dad.state() != DadState::Tentative {
            return;
        }
        let Some(left) = self.probes.checked_sub(1) else {
            self.dad.set(DadState::Valid);
            return self.ask_again(cx);
        };
        self.probes = left;
        let destination = solicited_node(self.ip);
        let message = Message {
            what: MessageType::Solicitation,
            source: Ipv6Addr::UNSPECIFIED,
            destination,
            target: self.ip,
            mac: None,
            sender: self.mac,
        };
        let message = message.packet(cx, group(destination), &Meta::EMPTY);
        self.querier.send_query::<Reason>(cx, message, Rank::default());
        cx.set_timer(PROBE, cx.steady() + SECOND);
    }

    /// Queries without an answer are sent again, or were sent often enough.
    fn ask_again(&mut self, cx: &mut Context) {
        let Some(shared) = self.querier.shared.clone() else { return };
        if self.dad.state() == DadState::Valid {
            let RetryWork { again, unanswered } = shared.lock().retry(milliseconds(cx));
            for target in again {
                let (like, rank) = (Meta::EMPTY, Rank::default());
                self.send_query(cx, &Query { target, to: None, like, rank });
            }
            let dropped = shared.give_up(cx, unanswered, self.querier.returns);
            cx.count_drops(Reason::Unanswered, dropped);
        }
    }

    /// Advertisements, and solicitations of others.
    fn learn_advertisements(&mut self, cx: &mut Context, frame: &mut Frame) {
        let Some(shared) = self.querier.shared.clone() else { return cx.discard(frame) };
        let now = milliseconds(cx);
        let (mut claimed, mut resolved) = (false, Vec::new());
        let mut neighbours = shared.lock();
        for slot in frame.slots() {
            let message = Message::parse(cx.pool.arena().packet(slot));
            let Some(message) = message else { continue };
            // One's own, come back.
            if message.sender == self.mac {
                continue;
            }
            let is_own = message.target == self.ip;
            let (ip, (learnt, packets), mac) = match (message.what, message.mac) {
                (MessageType::Advertisement { .. }, _) if is_own => {
                    claimed = true;
                    self.querier.spoofed += 1;
                    continue;
                }
                (MessageType::Advertisement { flags }, mac) => {
                    self.querier.responses += 1;
                    let (solicited, overrides) = (flags & SOLICITED != 0, flags & OVERRIDE != 0);
                    let said = Advertised { mac, solicited, overrides };
                    (message.target, neighbours.advertised(message.target, said, now), mac)
                }
                (MessageType::Solicitation, None) => {
                    let probes = is_own && message.source.is_unspecified();
                    claimed |= probes && self.dad.state() == DadState::Tentative;
                    continue;
                }
                (MessageType::Solicitation, Some(mac)) if is_own && message.source != self.ip => (
                    message.source,
                    neighbours.learn_from_solicitation(message.source, mac, now),
                    Some(mac),
                ),
                _ => continue,
            };
            if learnt == UpdateResult::Changed {
                shared.changed(ip);
                self.querier.spoofed += 1;
            }
            if let Some(mac) = mac.filter(|_| !packets.is_empty()) {
                resolved.push((packets, self.header(mac), cx.rank_of(slot)));
            }
        }
        drop(neighbours);
        send_released(cx, resolved, Reason::TooLong);
        if claimed {
            self.conflict(cx);
        }
        cx.discard(frame);
    }

    /// Handles a duplicate of this host's address.
    fn conflict(&mut self, cx: &mut Context) {
        let was = self.dad.state();
        if was == DadState::Tentative {
            self.dad.set(DadState::Duplicate);
            if let Some(shared) = &self.querier.shared {
                // No solicitation will be sent for waiting packets.
                shared.lock().clear();
                let dropped = shared.give_back(cx);
                cx.count_drops(Reason::Unanswered, dropped);
            }
        }
        if self.dad.tell() {
            let (name, ip) = (cx.name(), linerate_element_support::address6::text(self.ip));
            let then = if was == DadState::Tentative { ", which is not used" } else { "" };
            cx.console().report(&format!(
                "{name} :: IP6NDSolicitor: another host has the address {ip}{then}\n"
            ));
        }
    }
}

impl Element for Solicitor {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if port == 0 {
            self.forward(cx, frame);
        } else {
            self.learn_advertisements(cx, frame);
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let Querier { shared, first, .. } = &self.querier;
        if let Some(shared) = shared {
            shared.enter();
            if *first {
                cx.set_timer(TICK, cx.steady() + SECOND);
            }
            if *first && self.probes > 0 {
                // Hosts that start together do not ask together.
                let delay = self.random.unit() * SECOND as f64;
                cx.set_timer(PROBE, cx.steady() + delay as u64);
            }
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        if timer == PROBE {
            return self.probe(cx);
        }
        if let Some(shared) = self.querier.shared.clone() {
            shared.lock().expire(milliseconds(cx));
            self.ask_again(cx);
            let dropped = shared.give_back(cx);
            cx.count_drops(Reason::Unanswered, dropped);
            cx.set_timer(TICK, cx.steady() + SECOND);
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Solicitor>() else { return };
        let tables = (&self.querier.shared, &old.querier.shared);
        let (Some(new_table), Some(old_table)) = tables else { return };
        let same = (self.ip, self.mac) == (old.ip, old.mac);
        if same {
            new_table.take_from(old_table);
            if old.dad.state() != DadState::Tentative {
                self.dad.set(old.dad.state());
                cx.clear_timer(PROBE);
            }
        } else if Arc::ptr_eq(new_table, old_table) {
            new_table.lock().clear();
            new_table.all_changed();
        }
        new_table.give_back(cx);
        if same {
            self.querier.take_counts(&old.querier);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.querier.close(cx);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "state" => Ok(self.dad.state().name().into()),
            _ => self.querier.read(cx, handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.querier.write(cx, handler, value)
    }
}
