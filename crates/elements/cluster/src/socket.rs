//! `ClusterSocket`: socket for consumers to attach to.

use std::sync::Arc;

use linerate_cluster::Broker;
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Role, Text,
    unquoted,
};

use super::{
    FAMILY,
    place::{BrokerState, Expected, broker},
};

pub(super) const CLASS: Class = Class {
    name: "ClusterSocket",
    family: FAMILY,
    summary: "listens for programs that get packets of this graph, or send it some",
    description: "`ADDRESS` is a UNIX socket: a file's name, or `@NAME` for one without a file. Programs \
        attach there (`linerate cluster attach`, or the client library) under the names that \
        [ToConsumer](ToConsumer.md), [ConsumerBalancer](ConsumerBalancer.md), \
        [ConsumerFanOut](ConsumerFanOut.md), [InlineConsumer](InlineConsumer.md) and \
        [FromConsumer](FromConsumer.md) have, and get packets in shared memory, without a copy. \
        `linerate cluster status ADDRESS` shows them.\n\n\
        A program that may connect to the socket may attach under any name that is free. It shares the \
        packets' memory if it has the user, the group and all capabilities of the server. Another program \
        shares it for reading under a name that is granted `read`, as long as no name is granted `write`: the \
        memory is then sealed against writing. Any other program gets copies of its packets in memory of its \
        own, as under a name that is `isolated` (the rules are in `docs/cluster.md`). When a \
        program dies, its name and the packets it held are free again. There is one of these elements in a \
        graph.",
    ports: "0/0",
    args: &[Arg::required("ADDRESS", "UNIX socket", "where programs attach")],
    handlers: &[
        Handler::read("address", "where programs attach"),
        Handler::read(
            "consumers",
            "the names there are, a line each, and the process that has it, or -",
        ),
    ],
    role: Role::Information,
    cost: "A thread that sleeps until somebody attaches or dies.",
    example: "ClusterSocket(@linerate-example-socket); \
        InfiniteSource(LIMIT 10, STOP true) -> ToConsumer(counter);",
    make: |make| Box::new(ClusterSocket::new(make)),
    ..Class::here()
};

struct ClusterSocket {
    expected: Option<Expected>,
    broker: Option<Arc<Broker>>,
}

impl ClusterSocket {
    fn new(make: &mut ElementBuilder<'_>) -> ClusterSocket {
        let Text(address) = make.need("ADDRESS");
        let address = unquoted(&address);
        if !make.world.common::<BrokerState>().set(&address) {
            make.error("another element says already where programs attach");
        }
        ClusterSocket { expected: Some(Expected::new(make)), broker: None }
    }
}

impl Element for ClusterSocket {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.broker = Some(broker(&Arc::clone(cx.world()))?);
        self.expected = None;
        Ok(())
    }

    fn close(&mut self, _: &mut Context) {
        self.broker = None;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let broker = self.broker.as_ref().ok_or_else(|| HandlerError::missing(handler))?;
        match handler {
            "address" => Ok(broker.address()),
            _ => {
                let lines = broker.dispatcher().consumers().into_iter().map(|(name, process)| {
                    let process = process.map_or_else(|| "-".into(), |process| process.to_string());
                    format!("{name} {process}")
                });
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
        }
    }
}
