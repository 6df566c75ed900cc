//! Declarations of the classes.

use linerate_graph::{Arg, Class, DropReason, Handler, Right, Role, Signals};

use super::{Reason, Sharing};
use crate::{
    FAMILY,
    access::{ACCESS, CELLS},
};

const ISOLATED: Arg =
    Arg::keyword("ISOLATED", "names", "none", "programs that get copies, in memory of their own");
const FILTER: Arg =
    Arg::keyword("FILTER", "filter", "all", "which packets are for them, in tcpdump's language");
const WHERE: Arg =
    Arg::keyword("WHERE", "expression", "all", "which packets are, in IPFilter's language");
const WAIT: Arg = Arg::keyword("WAIT", "bool", "false", "whether packets wait for slow programs");
const BY: Arg = Arg::keyword(
    "BY",
    "flow, addresses, vlan, turns or a number",
    "flow",
    "what stays together: flows, hosts, VLANs, nothing, or packets with the same number",
);
const INNER: Arg = Arg::keyword("INNER", "bool", "false", "whether what is in tunnels decides");
const SYMMETRIC: Arg =
    Arg::keyword("SYMMETRIC", "bool", "true", "whether both directions of a flow stay together");
const SEED: Arg = Arg::keyword("SEED", "number", "0", "of the hash of flows");

const HANDLERS: &[Handler] = &[
    Handler::count("count", "packets that at least one program got"),
    Handler::read(
        "consumers",
        "a line per program: name, process or -, packets, lost because it did not keep up, lost because nobody was attached, held",
    ),
    Handler::button("reset_counts", "sets count to zero"),
];

pub(crate) const TO_CONSUMER: Class = Class {
    name: "ToConsumer",
    reconfigured: Some(Right::Replace),
    family: FAMILY,
    summary: "gives packets to a program that attaches under a name",
    description: "A queue to another process, without a copy: a program attaches as `NAME` at the \
        [ClusterSocket](ClusterSocket.md) and has up to `CELLS` packets at a time. With `ACCESS write` \
        it may change those that nobody else has. One that is not trusted to look at other packets than \
        those gets `ACCESS isolated`: memory of its own, into which packets are copied, and all that it \
        does there is nobody's concern. With a pull input it pulls as fast as the program takes \
        packets. With a push input packets that it has no room for are dropped; with `WAIT true` they wait, \
        and sources that ask whether there is room stop meanwhile. While nobody is attached packets are \
        dropped. What it sends back comes from a [FromConsumer](FromConsumer.md).\n\n\
        Packets that `FILTER` does not accept, in tcpdump's language as with \
        [FromPort](FromPort.md)'s `BPF_FILTER`, are dropped, and so are those for which `WHERE` does not \
        hold, an expression of [IPClassifier](IPClassifier.md). Both are about Ethernet frames: headers are \
        found in the frame, here behind VLAN tags too, and not where elements have marked them.",
    ports: "1/0",
    processing: "a/a",
    args: &[
        Arg::required("NAME", "name", "what the program attaches as"),
        ACCESS,
        CELLS.holds(),
        FILTER,
        WHERE,
        WAIT,
        Arg::keyword("BURST", "packets", "1, many times", "packets pulled in a turn"),
    ],
    handlers: HANDLERS,
    drops: Reason::REASONS,
    signals: Signals { empty: false, full: true },
    role: Role::Io,
    cost: "A lock per frame, and eight bytes written per packet and a word of who holds it; packets are \
        not touched.",
    example: "ClusterSocket(@linerate-example-to); \
        InfiniteSource(LIMIT 10, STOP true) -> ToConsumer(counter);",
    make: |make| Box::new(Sharing::to_consumer(make)),
    ..Class::here()
};

pub(crate) const BALANCER: Class = Class {
    name: "ConsumerBalancer",
    summary: "spreads flows over programs and keeps the packets of each together",
    description: "Takes Ethernet frames. Each packet goes to one of the programs that attach under these \
        names, as to a [ToConsumer](ToConsumer.md). What `BY` says stays together: `flow` is addresses, \
        protocol, ports and VLAN (fragments have no ports), `addresses` without protocol and ports, \
        `vlan` the outer VLAN alone, and by `turns` programs take turns. With `INNER true` it is \
        what is in VXLAN, GRE, GTP or IP in IP. What is not IP goes by its Ethernet addresses and type.\n\n\
        `BY` may be a number instead, calculated from each packet as on one side of a relation of tcpdump's \
        language: by `udp[12:4]` packets with the same four bytes at that place stay together, by \
        `ip[12:4] ^ ip[16:4]` those between two addresses, by `ip[12:4] & 0xffffff00` those from one \
        network. Which program it is is chosen by the number's hash, so that numbers need not be spread \
        evenly. What has no such number, being of another protocol, too short or, for tcpdump's words of \
        protocols, behind a VLAN tag, goes by its flow, and `INNER` and `SYMMETRIC` are for that alone.\n\n\
        1,024 buckets of flows are shared out by `WEIGHTS`. Changed weights move as few of them as \
        possible. When a program goes, its flows alone move, to the others by weight, and exactly those \
        come back when it does. Packets of a flow that moves may overtake those that went to the old \
        program.\n\n\
        Those programs that `ISOLATED` names get copies, as with `ACCESS isolated`. Packets that `FILTER` \
        does not accept are dropped, and those for which `WHERE` does not hold, as by a ToConsumer. A \
        program may have filters of its own behind its name, with `if` in tcpdump's language and with `where` \
        in IPFilter's: `ConsumerBalancer(w0, w1 if tcp where not dst port 443)`. Who gets a packet is \
        chosen before they are asked: what is for a program that does not want it goes to no other and is \
        dropped.\n\n\
        Who can choose addresses and does not know `SEED` cannot choose programs.",
    args: &[
        Arg::rest(
            "NAME",
            "name [if filter] [where expression]",
            "what the programs attach as, and which packets each wants",
        ),
        Arg::keyword("WEIGHTS", "weights", "1 each", "a weight per program, separated by spaces"),
        BY,
        INNER,
        SYMMETRIC,
        SEED,
        ACCESS,
        ISOLATED,
        CELLS.holds_for_each(),
        FILTER,
        WHERE,
        WAIT,
    ],
    handlers: &[
        HANDLERS[0],
        HANDLERS[1],
        HANDLERS[2],
        Handler::value("weights", "the weight of each program"),
        Handler::read("shares", "buckets of flows that each program has now, of 1024"),
    ],
    cost: "That of `ToConsumer`, and a hash of each packet's headers. Filters, and numbers in `BY`, are \
        calculated packet by packet.",
    example: "ClusterSocket(@linerate-example-balancer); \
        InfiniteSource(LIMIT 10, STOP true) -> ConsumerBalancer(ids0, ids1, WEIGHTS 1 2);",
    make: |make| Box::new(Sharing::balancer(make)),
    ..TO_CONSUMER
};

pub(crate) const FAN_OUT: Class = Class {
    name: "ConsumerFanOut",
    summary: "gives every packet to each of several applications",
    description: "Each argument is an application: a name, or several separated by spaces, among which \
        packets are balanced as by a [ConsumerBalancer](ConsumerBalancer.md). All applications see all \
        packets, of which there is one copy, that nobody writes. `ConsumerFanOut(ids0 ids1, recorder)` is \
        an intrusion detector in two processes and a recorder. With `if` and a filter, in tcpdump's language, \
        behind its names an application gets only packets that this accepts: `ConsumerFanOut(ids, recorder if \
        tcp port 80)`; with `where`, in IPFilter's, those for which it holds; what none wants is dropped. Who is slow loses packets of his own, \
        each of which is counted; with `WAIT true` all wait for the slowest. Programs that `ISOLATED` \
        names get copies, in memory of their own, and see nothing else.",
    args: &[
        Arg::rest(
            "APPLICATION",
            "names [if filter] [where expression]",
            "what the programs of an application attach as, and which packets it wants",
        ),
        BY,
        INNER,
        SYMMETRIC,
        SEED,
        ISOLATED,
        CELLS.holds_for_each(),
        WAIT,
    ],
    cost: "That of `ToConsumer` for each application; with several programs in one a hash of each \
        packet's headers.",
    example: "ClusterSocket(@linerate-example-fan); \
        InfiniteSource(LIMIT 10, STOP true) -> ConsumerFanOut(ids0 ids1, recorder);",
    make: |make| Box::new(Sharing::fan_out(make)),
    ..TO_CONSUMER
};
