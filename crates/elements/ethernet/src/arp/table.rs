//! `ARPTable`: a table of neighbours for several `ARPQuerier`s.

use std::{net::Ipv4Addr, sync::Arc};

use linerate_graph::{
    Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Right, Role,
};
use linerate_memory::Frame;

use super::TIMEOUT;
use crate::FAMILY;
use linerate_elements_neighbours::shared::{self, Shared};

pub(crate) const CLASS: Class = Class {
    name: "ARPTable",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "keeps Ethernet addresses of neighbours for ARPQueriers",
    description: "ARPQueriers that name it with `TABLE` share what one of them learns. It holds the \
        packets that wait for an address, too.",
    ports: "0/0",
    args: &shared::ARGS,
    handlers: &[
        shared::TABLE,
        Handler::read("drops", "packets dropped while they waited"),
        shared::COUNT,
        shared::LENGTH,
        shared::INSERT,
        shared::DELETE,
        Handler::write("clear", "forgets all addresses and drops what waits"),
    ],
    role: Role::Information,
    cost: "See ARPQuerier. Some 200 bytes per address.",
    example: "t :: ARPTable; Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t) -> Discard; \
        Idle -> [1] q;",
    make: |make| Box::new(ArpTable::new(make)),
    ..Class::here()
};

struct ArpTable(Option<Arc<Shared<Ipv4Addr>>>);

impl ArpTable {
    fn new(make: &mut ElementBuilder<'_>) -> ArpTable {
        let limits = shared::limits(make, TIMEOUT);
        let table = Shared::for_element(make, make.name());
        if let Some(table) = &table {
            table.lock().limits = limits;
        }
        ArpTable(table)
    }
}

impl Element for ArpTable {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if let Some(shared) = &self.0 {
            shared.enter();
            shared.schedule_expiry(cx);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        if let Some(shared) = &self.0 {
            shared.expire(cx);
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<ArpTable>()
            && let (Some(new), Some(old)) = (&self.0, &old.0)
        {
            new.take_from(old);
            new.give_back(cx);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        if let Some(shared) = &self.0 {
            shared.leave(cx);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match &self.0 {
            Some(shared) => shared.read(cx, handler),
            None => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match &self.0 {
            Some(shared) => shared.write(cx, handler, value),
            None => Err(HandlerError::missing(handler)),
        }
    }
}
