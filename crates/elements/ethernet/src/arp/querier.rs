//! `ARPQuerier`: sends IP packets to neighbours resolved by ARP.

use std::{net::Ipv4Addr, sync::Arc};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerResult, Ipv4OrPrefix,
    Ipv4Prefix, NoBuffer, Rank, Right, Text,
};
use linerate_memory::{Frame, Meta, Slot};
use linerate_packet::{MacAddr, arp::Operation};

use super::{LENGTH, Message, TIMEOUT, table};
use crate::{FAMILY, written_ip};
use linerate_element_support::{
    ether::{HEADER, bytes},
    log_once::LogOnce,
};
use linerate_elements_neighbours::{
    Address, put_header,
    querier::Querier,
    send_released,
    shared::{self, Shared, milliseconds},
    table::{RetryWork, UpdateResult},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no address of its own
    NoAddress,
    /// no destination annotation
    NoDestination,
    /// no answer in time, or too many waiting
    Unanswered,
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// The timer of queries sent again, beside that of expired entries.
const RETRY: u32 = 1;
const SECOND: u64 = 1_000_000_000;

pub(crate) const CLASS: Class = Class {
    name: "ARPQuerier",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sends IP packets to neighbours found by ARP",
    description: "IP packets at input 0 get an Ethernet header from `ETH` to the neighbour their \
        destination annotation says, and leave by output 0. While its address is not known they \
        wait, and a query goes by output 1, or the only one: at most ten a second for an address, \
        and one in two seconds after ten without answer. Replies are for input 1; packets that waited leave \
        with the one for them. Broadcast and multicast destinations need no query; packets without \
        destination are dropped. With one argument it is a name for both addresses.\n\n\
        As in Click, queries are only sent when packets come, and packets wait until their address \
        is forgotten. With a third output, which Click's has not, they are also sent every second, \
        and when three have no answer, what waits leaves by output 2, as it came, for an \
        `ICMPError(.., unreachable, host)` (RFC 1812 section 5.2.7.1).\n\n\
        Everything is bounded. Where there is no more room, for a packet the ones that have waited \
        for the oldest addresses are dropped, for an address one that nothing is known of, so that \
        a scan of unused addresses does not displace neighbours. Unsolicited replies are \
        learnt as Click does, but never in place of others, and are counted as `spoofed`, as are \
        those that change an address that is known, and those for addresses no neighbour has, such as \
        `IP` itself and groups, which are learnt, too; `UNSOLICITED false` ignores them unless the \
        address was just asked for, and those for addresses no neighbour has always.",
    ports: "2/1-3",
    processing: "h/h",
    flow: "xy/x",
    // Packets that have waited go with the packet that they waited for.
    multiplies: |_, _, _| usize::MAX,
    args: &[
        Arg::required("IP", "IPv4 address or prefix", "the address of this host").late(),
        Arg::optional("ETH", "Ethernet address", "IP, as a name", "the address of this host")
            .late(),
        shared::ARGS[0],
        shared::ARGS[1],
        shared::ARGS[2],
        shared::ARGS[3],
        shared::ARGS[4],
        Arg::keyword("BROADCAST", "IPv4 address", "of IP's prefix", "another broadcast address"),
        Arg::keyword("TABLE", "ARPTable", "its own", "where addresses and waiting packets are"),
        Arg::keyword("POLL_TIMEOUT", "time", "60s", "when an address is asked for again; 0: never"),
        Arg::keyword("BROADCAST_POLL", "bool", "false", "whether that is asked of all"),
        Arg::keyword("UNSOLICITED", "bool", "true", "whether replies not asked for are learnt"),
    ],
    handlers: &[
        shared::TABLE,
        Handler::read("stats", "packets dropped and queries sent, in words"),
        shared::COUNT,
        shared::LENGTH,
        Handler::count("queries", "queries sent"),
        Handler::count("responses", "replies received"),
        Handler::count("drops", "packets dropped that did not wait"),
        Handler::count("spoofed", "unsolicited or spoofed replies"),
        Handler::value("broadcast", "the broadcast address"),
        Handler::value("ipaddr", "the address of this host"),
        shared::INSERT,
        shared::DELETE,
        Handler::write("clear", "forgets all addresses, drops what waits, sets counts to zero"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "Reads and writes a line of annotations, writes 14 bytes \
        in front of the packet. A lock and a lookup for an address not used lately; 64 bytes \
        and more per address in use and worker.",
    example: "q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1); Idle -> q -> Discard; Idle -> [1] q;",
    make: |make| Box::new(ArpQuerier::new(make)),
    ..Class::here()
};

struct ArpQuerier {
    querier: Querier<Ipv4Addr>,
    /// Whether its table is its own.
    own: bool,
    ip: Ipv4Addr,
    mac: MacAddr,
    broadcast: Ipv4Addr,
    broadcast_poll: bool,
    unsolicited: bool,
    said: LogOnce,
}

impl ArpQuerier {
    fn new(make: &mut ElementBuilder<'_>) -> ArpQuerier {
        let limits = shared::limits(make, TIMEOUT);
        let Ipv4OrPrefix(Ipv4Prefix { address: ip, mask }) = make.need("IP");
        let mac = if make.is_given("ETH") { make.need("ETH") } else { by_name(make) };
        let given = make.element_of("TABLE", "ARPTable", |class| class.name == table::CLASS.name);
        let own = given.is_none();
        let name = given.map_or(make.name(), |table| &make.plan().elements[table.0].name);
        let shared = Shared::for_element(make, name);
        if own && let Some(shared) = &shared {
            shared.lock().limits = limits;
        }
        let all = match ip | !mask {
            all if all == ip => Ipv4Addr::BROADCAST,
            all => all,
        };
        ArpQuerier {
            querier: Querier::new(make, shared),
            own,
            ip,
            mac,
            broadcast: make.or("BROADCAST", all),
            broadcast_poll: make.or("BROADCAST_POLL", false),
            unsolicited: make.or("UNSOLICITED", true),
            said: LogOnce::for_element(make),
        }
    }

    /// Finds the header of a packet that is not remembered; `None` when it has
    /// to wait, or has no destination.
    #[cold]
    fn header(&mut self, cx: &mut Context, slot: &Slot, now: u64) -> Option<[u8; HEADER]> {
        #[cfg(test)]
        tests::RESOLVED.set(tests::RESOLVED.get() + 1);
        let (like, rank) = (*cx.pool.arena().meta(slot), cx.rank_of(slot));
        let ip = Ipv4Addr::from_bits(Ipv4Addr::destination(&like));
        let shared = self.querier.shared.clone()?;
        let generation = shared.generations().changes(ip.to_bits());
        let answer = shared.lock().resolve(ip, now, self.querier.poll_timeout);
        let (mac, until) = match answer {
            Some(answer) => {
                if answer.query {
                    let to = if self.broadcast_poll { MacAddr::BROADCAST } else { answer.mac };
                    self.send_query(cx, ip, to, &like, rank);
                }
                (answer.mac, answer.until)
            }
            None if ip.is_broadcast() || ip == self.broadcast => (MacAddr::BROADCAST, now + 1000),
            None if ip.is_multicast() => {
                let [_, b, c, d] = ip.octets();
                (MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]), now + 1000)
            }
            None => return None,
        };
        let header = bytes(mac, self.mac, 0x0800);
        self.querier.remember(ip, header, (until, generation), now);
        Some(header)
    }

    /// Asks for a neighbour, before the packet of that rank goes.
    fn send_query(&mut self, cx: &mut Context, ip: Ipv4Addr, to: MacAddr, like: &Meta, rank: Rank) {
        let sender = (self.mac, self.ip);
        let operation = Operation::REQUEST;
        let query = Message { operation, sender, target: (MacAddr::ZERO, ip) };
        let query = query.packet(cx, to, like);
        self.querier.send_query::<Reason>(cx, query, rank);
    }

    /// Queues a packet for a neighbour that is not known.
    #[cold]
    fn wait(&mut self, cx: &mut Context, slot: Slot, now: u64) {
        let Some(shared) = self.querier.shared.clone() else { return cx.pool.give_one(slot) };
        let most = cx.pool.arena().buffer_size() - HEADER;
        let (like, rank) = (*cx.pool.arena().meta(&slot), cx.rank_of(&slot));
        let ip = Ipv4Addr::from_bits(Ipv4Addr::destination(&like));
        if slot.len() > most {
            self.querier.drops += 1;
            cx.drop_packet(slot, Reason::TooLong);
        } else if ip.is_unspecified() {
            self.warn(cx);
            self.querier.drops += 1;
            cx.drop_packet(slot, Reason::NoDestination);
        } else {
            let ask = shared.lock().wait(ip, slot, now, true);
            if ask {
                self.send_query(cx, ip, MacAddr::BROADCAST, &like, rank);
            }
            let dropped = shared.give_back(cx);
            cx.count_drops(Reason::Unanswered, dropped);
        }
    }

    fn warn(&mut self, cx: &Context) {
        if self.said.first() {
            let name = cx.name();
            cx.console().report(&format!(
                "{name} :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?\n"
            ));
        }
    }

    /// IP packets on their way.
    #[inline]
    fn forward(&mut self, cx: &mut Context, frame: &mut Frame) {
        if self.ip.is_unspecified() {
            self.querier.drops += frame.len() as u64;
            return cx.drop_frame(frame, Reason::NoAddress);
        }
        let now = milliseconds(cx);
        if self.querier.forward::<Reason>(cx, frame, now) {
            self.look_up(cx, frame, now);
        }
    }

    /// Some headers are not remembered.
    #[cold]
    fn look_up(&mut self, cx: &mut Context, frame: &mut Frame, now: u64) {
        let mut missed = std::mem::take(&mut self.querier.missed);
        let send = |cx: &mut Context, slot| self.send_unknown(cx, slot, now);
        Querier::<Ipv4Addr>::send_missed(cx, frame, &mut missed, send);
        self.querier.missed = missed;
    }

    fn send_unknown(&mut self, cx: &mut Context, mut slot: Slot, now: u64) {
        match self.header(cx, &slot, now) {
            Some(header) if put_header(cx.pool.arena(), &mut slot, &header) => {
                cx.out.emit(0, slot);
            }
            _ => self.wait(cx, slot, now),
        }
    }

    /// ARP replies.
    fn learn_replies(&mut self, cx: &mut Context, frame: &mut Frame) {
        let Some(shared) = self.querier.shared.clone() else { return cx.discard(frame) };
        let now = milliseconds(cx);
        let mut resolved = Vec::new();
        let mut neighbours = shared.lock();
        for slot in frame.slots().iter().filter(|slot| slot.len() >= LENGTH) {
            self.querier.responses += 1;
            let reply = Message::parse(cx.pool.arena().packet(slot))
                .filter(|it| it.operation == Operation::REPLY);
            let Some((mac, ip)) = reply.map(|reply| reply.sender) else { continue };
            if mac.is_multicast() {
                continue;
            }
            let is_no_neighbour = self.is_no_neighbour(ip);
            if is_no_neighbour && !self.unsolicited {
                self.querier.spoofed += 1;
                continue;
            }
            let (learnt, packets) = neighbours.learn(ip, mac, now, self.unsolicited);
            self.querier.spoofed += u64::from(is_no_neighbour || learnt != UpdateResult::Expected);
            if learnt == UpdateResult::Changed {
                shared.changed(ip);
            }
            if !packets.is_empty() {
                resolved.push((packets, bytes(mac, self.mac, 0x0800), cx.rank_of(slot)));
            }
        }
        drop(neighbours);
        send_released(cx, resolved, Reason::TooLong);
        cx.discard(frame);
    }

    /// Returns true if no neighbour can have an address.
    fn is_no_neighbour(&self, ip: Ipv4Addr) -> bool {
        ip == self.ip || ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast()
    }
}

/// `ETH` when there is only one argument, a name.
fn by_name(make: &mut ElementBuilder<'_>) -> MacAddr {
    let Some(Text(name)) = make.get("IP") else { return MacAddr::ZERO };
    make.parse(&name).unwrap_or_else(|error| {
        make.error(format!("ETH: {error}"));
        MacAddr::ZERO
    })
}

impl Element for ArpQuerier {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if port == 0 {
            self.forward(cx, frame);
        } else {
            self.learn_replies(cx, frame);
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let Querier { shared, first, returns, .. } = &self.querier;
        if let Some(shared) = shared {
            shared.enter();
            if self.own && *first {
                shared.schedule_expiry(cx);
            }
            if *returns && *first {
                cx.set_timer(RETRY, cx.steady() + SECOND);
            }
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        let Some(shared) = self.querier.shared.clone() else { return };
        if timer != RETRY {
            return shared.expire(cx);
        }
        let RetryWork { again, unanswered } = shared.lock().retry(milliseconds(cx));
        for ip in again {
            self.send_query(cx, ip, MacAddr::BROADCAST, &Meta::EMPTY, Rank::default());
        }
        let dropped = shared.give_up(cx, unanswered, self.querier.returns);
        cx.count_drops(Reason::Unanswered, dropped);
        cx.set_timer(RETRY, cx.steady() + SECOND);
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<ArpQuerier>() else { return };
        let tables = (&self.querier.shared, &old.querier.shared);
        let (Some(new_table), Some(old_table)) = tables else { return };
        let same = (self.ip, self.mac) == (old.ip, old.mac);
        let here = Arc::ptr_eq(new_table, old_table);
        if self.own && old.own && same && self.broadcast == old.broadcast {
            new_table.take_from(old_table);
        }
        if here && self.own && !same {
            new_table.lock().clear();
            new_table.all_changed();
        }
        new_table.give_back(cx);
        if here || same {
            self.querier.take_counts(&old.querier);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.querier.close(cx);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "broadcast" => Ok(self.broadcast.to_string()),
            "ipaddr" => Ok(self.ip.to_string()),
            _ => self.querier.read(cx, handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "broadcast" => self.broadcast = written_ip(cx, value)?,
            "ipaddr" => self.ip = written_ip(cx, value)?,
            _ => return self.querier.write(cx, handler, value),
        }
        if let Some(shared) = &self.querier.shared {
            shared.all_changed();
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests;
