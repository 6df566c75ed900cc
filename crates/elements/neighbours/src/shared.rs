//! Table of neighbours that several elements, and their replicas, share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use linerate_graph::{
    Arg, Context, ElementBuilder, Handler, HandlerError, HandlerResult, Seconds,
    lang::config::words,
};
use linerate_memory::Slot;
use linerate_packet::MacAddr;

use super::{
    Address,
    neighbour_cache::Generations,
    table::{ENTRIES_LIMIT, Limits, Neighbours},
};
use linerate_element_support::handler_values::value_of;

/// The timer by which expired entries go.
const EXPIRE: u32 = 0;
/// The output of packets without an answer.
const UNANSWERED: usize = 2;

/// The arguments of an element with a table.
pub const ARGS: [Arg; 5] = [
    Arg::keyword("CAPACITY", "packets", "2048", "most packets that wait; 0: 65536").holds(),
    Arg::keyword("ENTRY_CAPACITY", "addresses", "0", "most addresses; 0: 65536, at most 262144"),
    Arg::keyword(
        "ENTRY_PACKET_CAPACITY",
        "packets",
        "0: no limit",
        "most packets that wait for one address",
    ),
    Arg::keyword(
        "CAPACITY_SLIM_FACTOR",
        "number",
        "2",
        "one of so many waiting packets is dropped when there are too many",
    ),
    Arg::keyword("TIMEOUT", "time", "300s", "how long an address is good for; 0: for ever"),
];

/// Handler of an element with a table: addresses.
pub const COUNT: Handler = Handler::read("count", "addresses in the table");
/// Handler of an element with a table: packets.
pub const LENGTH: Handler = Handler::read("length", "packets that wait");
/// Handler of an element with a table: all of it.
pub const TABLE: Handler =
    Handler::read("table", "address, 1 if known, Ethernet address, age in seconds, a line each");
/// Handler of an element with a table: one address more.
pub const INSERT: Handler = Handler::write("insert", "adds an address: `IP ETH`");
/// Handler of an element with a table: one address less.
pub const DELETE: Handler = Handler::write("delete", "forgets an address");

/// The limits the arguments say, where entries are good for `timeout` milliseconds
/// unless told otherwise.
pub fn limits(make: &mut ElementBuilder<'_>, timeout: u64) -> Limits {
    let default = Limits { timeout, ..Limits::DEFAULT };
    let timeout = make.get("TIMEOUT").map(|Seconds::<3>(timeout)| u64::from(timeout));
    let limits = Limits {
        packets: make.or("CAPACITY", default.packets),
        entries: make.or("ENTRY_CAPACITY", default.entries),
        entry_packets: make.or("ENTRY_PACKET_CAPACITY", default.entry_packets),
        slim_factor: make.or("CAPACITY_SLIM_FACTOR", default.slim_factor),
        timeout: timeout.unwrap_or(default.timeout),
    };
    if limits.slim_factor == 0 {
        make.error("CAPACITY_SLIM_FACTOR cannot be zero");
    }
    if limits.entries > ENTRIES_LIMIT {
        make.error(format!("ENTRY_CAPACITY: out of range, bound {ENTRIES_LIMIT}"));
    }
    limits
}

/// The shared table.
#[derive(Debug)]
pub struct Shared<A: Address> {
    neighbours: Mutex<Neighbours<A>>,
    /// For neighbour caches: when they must ask again.
    generations: Generations,
    /// Elements that use it.
    users: AtomicUsize,
}

/// The tables of a graph, by the element that owns each.
struct Tables<A: Address>(Mutex<HashMap<String, Arc<Shared<A>>>>);

impl<A: Address> Default for Tables<A> {
    fn default() -> Tables<A> {
        Tables(Mutex::default())
    }
}

impl<A: Address> Shared<A> {
    /// The table of an element. `None` when there is no memory for it, which
    /// was then said.
    pub fn for_element(make: &mut ElementBuilder<'_>, element: &str) -> Option<Arc<Shared<A>>> {
        let tables = make.world.common::<Tables<A>>();
        // A thread that panicked has left the map as it was.
        let mut tables = tables.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tables.get(element) {
            return Some(Arc::clone(found));
        }
        let neighbours = match Neighbours::new(Limits::DEFAULT) {
            Ok(neighbours) => Mutex::new(neighbours),
            Err(error) => {
                make.error(format!("no memory for a table: {error}"));
                return None;
            }
        };
        let (generations, users) = (Generations::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { neighbours, generations, users });
        tables.insert(element.into(), Arc::clone(&shared));
        Some(shared)
    }

    /// The table, which replicas share.
    pub fn lock(&self) -> MutexGuard<'_, Neighbours<A>> {
        // Nothing panics while it is held.
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    /// Returns the counts of the table's changes.
    pub fn generations(&self) -> &Generations {
        &self.generations
    }

    /// Counts a change of an address.
    pub fn changed(&self, ip: A) {
        self.generations.advance(ip.bits());
    }

    /// Counts a change of all addresses.
    pub fn all_changed(&self) {
        self.generations.advance_all();
    }

    /// Another element uses the table.
    pub fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// An element goes; with the last one, all that wait.
    pub fn leave(&self, cx: &mut Context) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.lock().clear();
        }
        self.give_back(cx);
    }

    /// Gives the buffers of dropped packets back, and returns how many.
    pub fn give_back(&self, cx: &mut Context) -> usize {
        let dropped = self.lock().take_dropped();
        let count = dropped.len();
        dropped.into_iter().for_each(|slot| cx.pool.give_one(slot));
        count
    }

    /// Sends packets without an answer by output 2, if that `is_there`, and drops them else.
    /// Returns how many packets were dropped.
    pub fn give_up(&self, cx: &mut Context, packets: Vec<Slot>, is_there: bool) -> usize {
        if is_there {
            packets.into_iter().for_each(|slot| cx.out.emit(UNANSWERED, slot));
        } else if !packets.is_empty() {
            self.lock().drop_waiting(packets);
        }
        self.give_back(cx)
    }

    /// Takes over the entries of another table.
    pub fn take_from(self: &Arc<Shared<A>>, old: &Arc<Shared<A>>) {
        if !Arc::ptr_eq(self, old) {
            self.lock().take_from(&mut old.lock());
            old.all_changed();
        }
    }

    /// Has expired entries taken away from the time on at which there may be some.
    pub fn schedule_expiry(&self, cx: &mut Context) {
        let timeout = self.lock().limits.timeout;
        schedule_in(cx, timeout.div_ceil(1000));
    }

    /// Takes them away.
    pub fn expire(&self, cx: &mut Context) {
        self.lock().expire(milliseconds(cx));
        self.give_back(cx);
        let timeout = self.lock().limits.timeout;
        schedule_in(cx, if timeout > 0 { timeout / 1000 + 1 } else { 0 });
    }

    /// Handlers of tables that are read.
    pub fn read(&self, cx: &Context, handler: &str) -> HandlerResult {
        let neighbours = self.lock();
        match handler {
            "table" => Ok(neighbours.text(milliseconds(cx))),
            "count" => Ok(neighbours.count().to_string()),
            "length" => Ok(neighbours.length().to_string()),
            "drops" => Ok(neighbours.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    /// Handlers of tables that are written.
    pub fn write(&self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let now = milliseconds(cx);
        let (ip, mac) = match handler {
            "insert" => address_pair::<A>(cx, value)?,
            "delete" => (one_address(cx, value)?, MacAddr::BROADCAST),
            "clear" => {
                self.lock().clear();
                self.all_changed();
                self.give_back(cx);
                return Ok(String::new());
            }
            _ => return Err(HandlerError::missing(handler)),
        };
        let mut neighbours = self.lock();
        let waiting = neighbours.insert(ip, mac, now);
        neighbours.keep_waiting(ip, waiting);
        drop(neighbours);
        self.changed(ip);
        self.give_back(cx);
        Ok(String::new())
    }
}

fn schedule_in(cx: &mut Context, seconds: u64) {
    if seconds > 0 {
        cx.set_timer(EXPIRE, cx.steady() + seconds * 1_000_000_000);
    }
}

/// The time tables live by.
pub fn milliseconds(cx: &Context) -> u64 {
    cx.steady() / 1_000_000
}

fn one_address<A: Address>(cx: &Context, value: &str) -> Result<A, HandlerError> {
    let words = words(value);
    let mut wrong = Vec::new();
    let ip = argument(cx, "IP", words.first(), &mut wrong);
    finish(ip, words.len() > 1, wrong)
}

fn address_pair<A: Address>(cx: &Context, value: &str) -> Result<(A, MacAddr), HandlerError> {
    let words = words(value);
    let mut wrong = Vec::new();
    let ip = argument(cx, "IP", words.first(), &mut wrong);
    let mac = argument(cx, "ETH", words.get(1), &mut wrong);
    finish(ip.zip(mac), words.len() > 2, wrong)
}

fn argument<T: linerate_graph::Value>(
    cx: &Context,
    name: &str,
    word: Option<&&str>,
    wrong: &mut Vec<String>,
) -> Option<T> {
    let value = word.map_or(Err("required argument missing".into()), |word| value_of(cx, word));
    value.map_err(|error| wrong.push(format!("{name}: {error}"))).ok()
}

fn finish<T>(value: Option<T>, more: bool, mut wrong: Vec<String>) -> Result<T, HandlerError> {
    if more {
        wrong.push("too many arguments".into());
    }
    value.filter(|_| wrong.is_empty()).ok_or_else(|| HandlerError::refused(wrong.join("\n")))
}
