//! `ToConsumer`, `ConsumerBalancer` and `ConsumerFanOut`: packets to other programs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_cluster::{Access, BalancerUse, Broker, Granted, PlaceUse};
use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, HandlerResult, Make, Next, Role, Signals,
    Text, Word, unquoted,
};
use linerate_memory::Frame;
use linerate_packet::{
    affinity::{Affinity, Parts},
    flow::VlanRule,
};
use linerate_port::Wake;

use super::{
    FAMILY,
    access::{self, ACCESS, CELLS},
    place::broker,
    weights,
};

/// Drop reasons.
const ABSENT: usize = 0;
const FULL: usize = 1;
const DROPS: &[&str] = &["no program attached", "programs did not keep up"];

/// How soon a consumer that had no room is asked again.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

const ISOLATED: Arg =
    Arg::keyword("ISOLATED", "names", "none", "programs that get copies, in memory of their own");
const WAIT: Arg = Arg::keyword("WAIT", "bool", "false", "whether packets wait for slow programs");
const BY: Arg = Arg::keyword(
    "BY",
    "flow, addresses, vlan or turns",
    "flow",
    "what stays together: flows, hosts, VLANs, or nothing",
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

pub(super) const TO_CONSUMER: Class = Class {
    name: "ToConsumer",
    family: FAMILY,
    summary: "gives packets to a program that attaches under a name",
    description: "A queue to another process, without a copy: a program attaches as `NAME` at the \
        [ClusterSocket](ClusterSocket.md) and has up to `CELLS` packets at a time. With `ACCESS write` \
        it may change those that nobody else has. One that is not trusted to look at other packets than \
        those gets `ACCESS isolated`: memory of its own, into which packets are copied, and all that it \
        does there is nobody's concern. With a pull input it pulls as fast as the program takes \
        packets. With a push input packets that it has no room for are dropped; with `WAIT true` they wait, \
        and sources that ask whether there is room stop meanwhile. While nobody is attached packets are \
        dropped. What it sends back comes from a [FromConsumer](FromConsumer.md).",
    ports: "1/0",
    processing: "a/a",
    args: &[
        Arg::required("NAME", "name", "what the program attaches as"),
        ACCESS,
        CELLS.holds(),
        WAIT,
    ],
    handlers: HANDLERS,
    drops: DROPS,
    signals: Signals { empty: false, full: true },
    role: Role::Io,
    cost: "A lock per frame, and eight bytes written per packet and a word of who holds it; packets are \
        not touched.",
    example: "ClusterSocket(@linerate-example-to); \
        InfiniteSource(LIMIT 10, STOP true) -> ToConsumer(counter);",
    make: |make| Box::new(Sharing::to_consumer(make)),
    ..Class::here()
};

pub(super) const BALANCER: Class = Class {
    name: "ConsumerBalancer",
    summary: "spreads flows over programs and keeps the packets of each together",
    description: "Takes Ethernet frames. Each packet goes to one of the programs that attach under these \
        names, as to a [ToConsumer](ToConsumer.md). What `BY` says stays together: `flow` is addresses, \
        protocol, ports and VLAN (fragments have no ports), `addresses` without protocol and ports, \
        `vlan` the outer VLAN alone, and by `turns` programs take turns. With `INNER true` it is \
        what is in VXLAN or IP in IP. What is not IP goes by its Ethernet addresses and type.\n\n\
        1,024 buckets of flows are shared out by `WEIGHTS`. Changed weights move as few of them as \
        possible. When a program goes, its flows alone move, to the others by weight, and exactly those \
        come back when it does. Packets of a flow that moves may overtake those that went to the old \
        program.\n\n\
        Those programs that `ISOLATED` names get copies, as with `ACCESS isolated`.\n\n\
        Who can choose addresses and does not know `SEED` cannot choose programs.",
    args: &[
        Arg::rest("NAME", "names", "what the programs attach as"),
        Arg::keyword("WEIGHTS", "weights", "1 each", "a weight per program, separated by spaces"),
        BY,
        INNER,
        SYMMETRIC,
        SEED,
        ACCESS,
        ISOLATED,
        CELLS.holds_for_each(),
        WAIT,
    ],
    handlers: &[
        HANDLERS[0],
        HANDLERS[1],
        HANDLERS[2],
        Handler::value("weights", "the weight of each program"),
        Handler::read("shares", "buckets of flows that each program has now, of 1024"),
    ],
    cost: "That of `ToConsumer`, and a hash of each packet's headers.",
    example: "ClusterSocket(@linerate-example-balancer); \
        InfiniteSource(LIMIT 10, STOP true) -> ConsumerBalancer(ids0, ids1, WEIGHTS 1 2);",
    make: |make| Box::new(Sharing::balancer(make)),
    ..TO_CONSUMER
};

pub(super) const FAN_OUT: Class = Class {
    name: "ConsumerFanOut",
    summary: "gives every packet to each of several applications",
    description: "Each argument is an application: a name, or several separated by spaces, among which \
        packets are balanced as by a [ConsumerBalancer](ConsumerBalancer.md). All applications see all \
        packets, of which there is one copy, that nobody writes. `ConsumerFanOut(ids0 ids1, recorder)` is \
        an intrusion detector in two processes and a recorder. Who is slow loses packets of his own, \
        each of which is counted; with `WAIT true` all wait for the slowest. Programs that `ISOLATED` \
        names get copies, in memory of their own, and see nothing else.",
    args: &[
        Arg::rest("APPLICATION", "names", "what the programs of an application attach as"),
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

/// Programs among which packets are balanced.
struct Application {
    name: String,
    consumers: Vec<(String, u32, Granted)>,
}

pub(super) struct Sharing {
    applications: Vec<Application>,
    /// By what packets stay together; by nothing where programs take turns.
    affinity: Option<Affinity>,
    /// Whether packets wait for programs, and whether they are pulled for them.
    waits: bool,
    pulls: bool,
    broker: Option<Arc<Broker>>,
    balancers: Vec<BalancerUse>,
    /// The same by number.
    ids: Vec<usize>,
    hashes: Vec<u64>,
    /// Packets that wait.
    held: Frame,
    /// Those nobody is attached for.
    absent: Frame,
    packets: u64,
}

impl Sharing {
    fn new(
        make: &mut Make<'_>,
        applications: Vec<(String, Vec<(String, u32)>)>,
        affinity: Option<Affinity>,
        access: Access,
        isolated: &str,
    ) -> Sharing {
        let cells = access::cells(make);
        let isolated: Vec<&str> = isolated.split_whitespace().collect();
        let known = |name: &str| {
            applications.iter().any(|(_, consumers)| consumers.iter().any(|(of, _)| of == name))
        };
        for name in isolated.iter().filter(|name| !known(name)) {
            make.error(format!("ISOLATED: `{name}` is not among its programs"));
        }
        let granted = |(name, weight): (String, u32)| {
            let apart = isolated.contains(&name.as_str());
            let access = if apart { Access::Isolated } else { access };
            (name, weight, Granted { access, cells })
        };
        let application = |(name, consumers): (String, Vec<(String, u32)>)| Application {
            name,
            consumers: consumers.into_iter().map(granted).collect(),
        };
        let (limit, pulls) = (make.world.frame_limit, make.input_is_pull(0));
        Sharing {
            applications: applications.into_iter().map(application).collect(),
            affinity,
            waits: make.or("WAIT", false) || pulls,
            pulls,
            broker: None,
            balancers: Vec::new(),
            ids: Vec::new(),
            hashes: Vec::new(),
            held: Frame::new(limit),
            absent: Frame::new(limit),
            packets: 0,
        }
    }

    fn to_consumer(make: &mut Make<'_>) -> Sharing {
        let Word(name) = make.need("NAME");
        let access = access::of(make);
        let application = (make.name().into(), vec![(name, 1)]);
        Sharing::new(make, vec![application], None, access, "")
    }

    fn balancer(make: &mut Make<'_>) -> Sharing {
        let names: Vec<String> = make.rest().iter().map(|text| unquoted(text)).collect();
        if names.is_empty() {
            make.error("it needs the name of a program at least");
        }
        let given = make
            .get::<Text>("WEIGHTS")
            .map(|Text(text)| weights::parse(&unquoted(&text), names.len()));
        let weights = given.unwrap_or_else(|| Ok(vec![1; names.len()])).unwrap_or_else(|error| {
            make.error(format!("WEIGHTS: {error}"));
            vec![1; names.len()]
        });
        let (affinity, access, isolated) = (affinity(make), access::of(make), isolated(make));
        let application = (make.name().into(), names.into_iter().zip(weights).collect());
        Sharing::new(make, vec![application], affinity, access, &isolated)
    }

    fn fan_out(make: &mut Make<'_>) -> Sharing {
        let texts: Vec<String> = make.rest().iter().map(|text| unquoted(text)).collect();
        if texts.is_empty() {
            make.error("it needs the name of a program at least");
        }
        let application = |(number, text): (usize, &String)| {
            let consumers = text.split_whitespace().map(|name| (name.into(), 1)).collect();
            (format!("{}.{number}", make.name()), consumers)
        };
        let applications = texts.iter().enumerate().map(application).collect();
        let (affinity, isolated) = (affinity(make), isolated(make));
        Sharing::new(make, applications, affinity, Access::Read, &isolated)
    }

    /// Gives packets to programs, and drops those nobody is attached for. What nobody had room for stays.
    fn share_out(&mut self, cx: &mut Context, frame: &mut Frame) {
        let Some(broker) = &self.broker else { return };
        if let Some(affinity) = &self.affinity {
            let arena = cx.pool.arena();
            self.hashes.clear();
            self.hashes.extend(arena.packets(frame).map(|packet| affinity.hash(packet).0));
        }
        let before = frame.len();
        let (pool, absent) = (&mut cx.pool, &mut self.absent);
        broker.exchange().share_out(&self.ids, &self.hashes, self.waits, pool, frame, absent);
        self.packets += (before - frame.len() - absent.len()) as u64;
        if !self.absent.is_empty() {
            cx.drop_frame(&mut self.absent, ABSENT);
        }
    }

    /// Gives away what waits.
    fn retry(&mut self, cx: &mut Context) {
        let mut held = std::mem::replace(&mut self.held, Frame::new(1));
        self.share_out(cx, &mut held);
        self.held = held;
        if self.held.is_empty() {
            cx.set_full(false);
        }
    }

    fn places(&self) -> impl Iterator<Item = (&str, &PlaceUse)> {
        let applications = self.applications.iter().zip(&self.balancers);
        applications.flat_map(|(application, balancer)| {
            let names = application.consumers.iter().map(|(name, ..)| name.as_str());
            names.zip(balancer.places())
        })
    }
}

/// Programs that get copies, separated by spaces.
fn isolated(make: &mut Make<'_>) -> String {
    make.get::<Text>("ISOLATED").map(|Text(text)| unquoted(&text)).unwrap_or_default()
}

/// By what packets stay together.
fn affinity(make: &mut Make<'_>) -> Option<Affinity> {
    let word = make.get::<Word>("BY").map_or_else(|| "flow".into(), |Word(word)| word);
    let parts = match word.as_str() {
        "flow" => Some(Parts::Flow),
        "addresses" => Some(Parts::Addresses),
        "vlan" => Some(Parts::Vlan),
        "turns" => None,
        _ => {
            make.error("BY: `flow`, `addresses`, `vlan` or `turns`");
            None
        }
    };
    let (inner, symmetric) = (make.or("INNER", false), make.or("SYMMETRIC", true));
    let seed = make.or("SEED", 0);
    Some(Affinity { parts: parts?, inner, symmetric, vlan: VlanRule::Outer, seed })
}

impl Element for Sharing {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let broker = broker(&Arc::clone(cx.world()))?;
        for Application { name, consumers } in &self.applications {
            let by_hash = self.affinity.is_some();
            let balancer = BalancerUse::granting(&broker, name, consumers, by_hash)?;
            self.ids.push(balancer.balancer());
            self.balancers.push(balancer);
        }
        self.broker = Some(broker);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.held.is_empty() {
            self.retry(cx);
        }
        if self.held.is_empty() {
            self.share_out(cx, frame);
        }
        if self.waits && !frame.is_empty() {
            self.held.append(frame, usize::MAX);
        }
        if !frame.is_empty() {
            cx.drop_frame(frame, FULL);
        }
        if !self.held.is_empty() {
            cx.set_full(true);
            cx.schedule();
        }
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let before = self.held.len();
        if before > 0 {
            self.retry(cx);
        }
        if !self.held.is_empty() {
            return if self.held.len() < before { Next::Again } else { Next::Idle };
        }
        if !self.pulls {
            return Next::Sleep;
        }
        if cx.pull(0, frame.limit(), frame) == 0 {
            return cx.nothing_pulled();
        }
        self.push(cx, 0, frame);
        Next::Again
    }

    fn room(&self) -> usize {
        match (self.waits, self.held.is_empty()) {
            (false, _) => usize::MAX,
            (true, true) => self.held.limit(),
            (true, false) => 0,
        }
    }

    fn wake(&mut self) -> Wake<'_> {
        Wake::At(Instant::now() + LOOK_AGAIN)
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Sharing>() else { return };
        self.packets += old.packets;
        self.held.append(&mut old.held, usize::MAX);
        if !self.held.is_empty() {
            cx.schedule();
        }
    }

    fn close(&mut self, cx: &mut Context) {
        cx.drop_frame(&mut self.held, FULL);
        self.balancers.clear();
        self.ids.clear();
        self.broker = None;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let words = |numbers: Vec<String>| Ok(numbers.join(" "));
        let shares = || self.balancers.first().map(BalancerUse::shares).unwrap_or_default();
        match handler {
            "count" => Ok(self.packets.to_string()),
            "weights" => words(shares().iter().map(|(weight, _)| weight.to_string()).collect()),
            "shares" => words(shares().iter().map(|(_, buckets)| buckets.to_string()).collect()),
            "consumers" => {
                let lines = self.places().map(|(name, place)| {
                    let of = place.figures();
                    let process = if of.state == 0 { "-".into() } else { of.process.to_string() };
                    let (packets, full) = (of.packets, of.lost_full);
                    format!("{name} {process} {packets} {full} {} {}", of.lost_absent, of.held)
                });
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match (handler, self.applications.first(), &self.broker) {
            ("reset_counts", ..) => self.packets = 0,
            ("weights", Some(Application { name, consumers }), Some(broker)) => {
                let weights =
                    weights::parse(value, consumers.len()).map_err(HandlerError::Refused)?;
                let weighed = broker.exchange().weigh(name, &weights);
                weighed.map_err(|(_, text)| HandlerError::Refused(text))?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
