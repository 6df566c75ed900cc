//! `FromConsumer`: a source of the packets that a consumer sends.

use std::sync::Arc;

use linerate_cluster::{Access, Broker, ConsumerHandle};
use linerate_element_support::links::Links;
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next, Role,
    Word,
};
use linerate_memory::Frame;
use linerate_port::{Interest, Wake};

use super::{
    FAMILY, access,
    place::{BrokerState, Expected, broker},
};

/// Most empty buffers of a consumer.
const SPARE_LIMIT: u32 = 1 << 14;

pub(super) const CLASS: Class = Class {
    name: "FromConsumer",
    family: FAMILY,
    summary: "emits the packets that a program sends",
    description: "`NAME` is that of a consumer, whose packets come from [ToConsumer](ToConsumer.md) or its \
        like; without such an element it is one that only sends. It sends what it was given, changed or \
        not, and packets of its own, for which it gets `SPARE` empty buffers at a time, where it may \
        write. Without a FromConsumer what a consumer sends is given back.\n\n\
        A program has the access that all elements with its name agree to: `isolated` if one says so, \
        else `read` if one does. One that only sends, and that is not trusted to look at the packets of \
        others or to write to them, needs `ACCESS isolated` here. A program that may only read sends packets \
        unchanged, whatever it does to copies that it has of them.",
    ports: "0/1",
    processing: "h/h",
    args: &[
        Arg::required("NAME", "name", "the consumer's"),
        Arg::keyword(
            "ACCESS",
            "read, write or isolated",
            "write",
            "the most that it may do with packets, or copies in memory of its own; a program with fewer \
             rights than this one gets copies in place of `write`",
        ),
        Arg::keyword("SPARE", "buffers", "64", "empty buffers it has for packets of its own")
            .holds(),
        Arg::keyword("BURST", "packets", "1, many times", "packets received in a turn"),
    ],
    handlers: &[
        Handler::count("count", "packets that came"),
        Handler::count("bytes", "their bytes"),
        Handler::read("malformed", "words of its programs that made no sense"),
        Handler::button("reset_counts", "sets both to zero"),
    ],
    role: Role::Io,
    external_input: true,
    cost: "A lock per frame, and eight bytes read per packet; packets are not touched.",
    example: "ClusterSocket(@linerate-example-from); FromConsumer(generator) -> Discard; \
        DriverManager(wait 10ms, stop);",
    make: |make| Box::new(FromConsumer::new(make)),
    ..Class::here()
};

struct FromConsumer {
    name: String,
    spare: u32,
    expected: Option<Expected>,
    from: Option<(Arc<Broker>, ConsumerHandle)>,
    /// Packets of a turn, where it was given.
    burst: Option<usize>,
    packets: u64,
    bytes: u64,
}

impl FromConsumer {
    fn new(make: &mut ElementBuilder<'_>) -> FromConsumer {
        let Word(name) = make.need("NAME");
        let spare = make.or("SPARE", 64);
        if spare > SPARE_LIMIT {
            make.error(format!("SPARE: at most {SPARE_LIMIT}"));
        }
        let burst = make.turn("BURST");
        let access = access::parse(make, Access::Write);
        let place = make.world.common::<BrokerState>();
        place.grant(make.name(), vec![(name.clone(), access)]);
        let expected = Some(Expected::new(make));
        FromConsumer { name, spare, expected, from: None, burst, packets: 0, bytes: 0 }
    }
}

impl Element for FromConsumer {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let broker = broker(&Arc::clone(cx.world()))?;
        let access = cx.world().common::<BrokerState>().granted(&self.name);
        let from = ConsumerHandle::to_receive(&broker, &self.name, access, self.spare)?;
        Links::opened(cx.world(), cx.element(), &from.attachment());
        self.from = Some((broker, from));
        self.expected = None;
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let Some((broker, from)) = &self.from else { return Next::Sleep };
        let limit = frame.limit();
        let mut left = self.burst.unwrap_or(limit);
        loop {
            let asked = left.min(limit);
            frame.set_limit(asked);
            let received = broker.dispatcher().receive(from.endpoint(), &mut cx.pool, frame);
            frame.set_limit(limit);
            if received > 0 {
                self.packets += received as u64;
                self.bytes += frame.bytes();
                cx.begin_packets(frame);
            }
            left -= received;
            if received < asked || left == 0 || self.burst.is_none() {
                let none = left == self.burst.unwrap_or(limit);
                return if none { Next::Idle } else { Next::Again };
            }
            cx.send_on(frame);
        }
    }

    fn burst(&self) -> Option<usize> {
        self.burst
    }

    fn wake(&mut self) -> Wake<'_> {
        let Some((broker, from)) = &self.from else { return Wake::Never };
        from.events().forget();
        if broker.dispatcher().arm(from.endpoint()) {
            Wake::Fd(std::os::fd::AsFd::as_fd(from.events()), Interest::Read)
        } else {
            Wake::Now
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FromConsumer>() {
            self.packets += old.packets;
            self.bytes += old.bytes;
        }
    }

    fn close(&mut self, _: &mut Context) {
        self.from = None;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.packets.to_string()),
            "bytes" => Ok(self.bytes.to_string()),
            "malformed" => {
                let (_, from) = self.from.as_ref().ok_or_else(|| HandlerError::missing(handler))?;
                Ok(from.figures().malformed.to_string())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset_counts" => (self.packets, self.bytes) = (0, 0),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
