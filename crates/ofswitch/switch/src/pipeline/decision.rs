//! Decision for the packets of one megaflow.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::counters::Counters;
use crate::key::{ENTRY_WORDS, Key, Mask};
use crate::table::{Change, Flow, Minimatch};
use crate::wire::{Action, Ct, Entry, Field, Instruction, PacketInReason};

/// Steps for every packet that has the same bits where this one was looked at.
#[derive(Debug, Default)]
pub struct Decision {
    /// Steps, in order. Without a step the packet is dropped.
    pub steps: Vec<Step>,
    /// The bits of the key it depends on, of the words a packet comes with.
    pub mask: Mask,
    /// The flows that matched, in order, for traces and dumps.
    pub flows: Vec<Arc<Flow>>,
    /// Counters of each packet, independent of the steps: of flows, tables, groups and buckets.
    pub counted: Vec<Arc<Counters>>,
    /// Counters whose time of use each packet updates: hosts of `NORMAL`, flows made by `learn`.
    pub touched: Vec<Arc<Counters>>,
    /// Further dependencies.
    pub depends: Depends,
    /// Whether it holds for other packets. One that does not is for this packet alone.
    pub holds: bool,
}

/// Dependencies of a decision beside the key.
#[derive(Debug, Clone, Default)]
pub struct Depends {
    /// Tables that were looked up, a bit for each.
    pub tables: [u64; 4],
    /// Tables of these where no flow matched.
    pub missed: [u64; 4],
    /// Bits of the key that actions had written before a table lookup: there, a flow's match cannot
    /// be compared with the packet as it arrived.
    pub written: Mask,
    /// Groups that decided.
    pub groups: BTreeSet<u32>,
    /// Meters that decided.
    pub meters: Vec<u32>,
    /// Addresses that `NORMAL` looked up, each with the number of its VLAN.
    pub hosts: Vec<(u16, u64)>,
    /// Whether `NORMAL` had no room for where the packet came from: it is tried again when any
    /// address has moved or was forgotten.
    pub unlearnt: bool,
    /// Flows that `learn` has made, or found made.
    pub learnt: Vec<Learnt>,
    /// The tables `learn` had no room in, or is to make a flow in yet, a bit for each: when flows
    /// of them come or go it is tried again.
    pub unsettled: [u64; 4],
}

/// A flow that `learn` has made: when it goes, the next packet makes it again.
#[derive(Debug, Clone)]
pub struct Learnt {
    /// The table it is in.
    pub table: u8,
    /// Its match.
    pub pattern: Minimatch,
}

impl Decision {
    /// Returns true if a change may lead to another decision for packets with this key.
    ///
    /// For a flow that came or went the check is whether packets of this decision can match it: the
    /// values it wants of unwritten bits must be those of all these packets, and no flow of a
    /// higher priority have matched. One that matches the number of a conjunction depends on flows
    /// of any priority.
    #[must_use]
    pub fn concerns(&self, change: &Change, packet: &Key) -> bool {
        match change {
            Change::Flow(flow) => {
                let (table, pattern) = (flow.table, &flow.pattern);
                let has =
                    |tables: &[u64; 4]| tables[usize::from(table / 64)] >> (table % 64) & 1 != 0;
                let learnt = &self.depends.learnt;
                let is_first = || {
                    let mut matched = self.flows.iter().filter(|matched| matched.table == table);
                    let may_lose = |matched: &Arc<Flow>| {
                        matched.priority <= flow.priority || matched.pattern.matches_conjunction()
                    };
                    has(&self.depends.missed) || matched.any(may_lose)
                };
                has(&self.depends.tables) && is_first() && self.overlaps(pattern, packet)
                    || has(&self.depends.unsettled)
                    || learnt
                        .iter()
                        .any(|learnt| learnt.table == table && learnt.pattern == *pattern)
            }
            Change::Group(number) => self.depends.groups.contains(number),
            Change::Meter(number) => self.depends.meters.contains(number),
            Change::Host { vlan, address } => {
                self.depends.unlearnt || self.depends.hosts.contains(&(*vlan, *address))
            }
            Change::All => true,
        }
    }

    fn overlaps(&self, pattern: &Minimatch, packet: &Key) -> bool {
        let (looked_at, written) = (self.mask.words(), self.depends.written.words());
        let mut words = pattern.words().take_while(|(at, ..)| *at < ENTRY_WORDS);
        words.all(|(at, wanted, mask)| {
            (wanted ^ packet.words()[at]) & mask & looked_at[at] & !written[at] == 0
        })
    }
}

/// Something that is done with a packet.
#[derive(Debug)]
pub enum Step {
    /// A copy goes to a port, which is a real one: `IN_PORT`, `FLOOD` and the like are resolved.
    Output {
        /// The port.
        port: u32,
        /// Bytes of it; `None` is all.
        max_len: Option<u32>,
        /// Number of the queue.
        queue: u32,
    },
    /// Bits of a header field are set, and checksums with them. A packet that does not have the
    /// header is left as it is.
    Set(Entry),
    /// A tag of this type is added, with this control information.
    PushVlan {
        /// Its type.
        kind: u16,
        /// Its control information, without the bit for its presence.
        tci: u16,
    },
    /// The outer tag is taken away.
    PopVlan,
    /// A label is added; the type of Ethernet becomes this.
    PushMpls {
        /// Its type.
        kind: u16,
        /// Label, class, bottom and time to live, as on the wire.
        entry: u32,
        /// Number of tags it goes behind.
        tags: u8,
    },
    /// The outer label is taken away; the type of Ethernet becomes this.
    PopMpls(u16),
    /// A label is added in front of the packet, behind a header of Ethernet of its own that has no
    /// addresses.
    EncapMpls {
        /// Its type.
        kind: u16,
        /// Label, class, bottom and time to live, as on the wire.
        entry: u32,
    },
    /// The first header of Ethernet is taken away, with the label behind it.
    DecapMpls,
    /// A network service header is added.
    EncapNsh {
        /// The header's bytes, with metadata.
        header: Box<[u8]>,
        /// True for a header in front of the packet, behind a new Ethernet header with addresses of
        /// zero; else it is behind the packet's Ethernet header.
        frame: bool,
    },
    /// The network service header is removed, with the Ethernet header in front of it if a frame
    /// follows.
    DecapNsh,
    /// A tag of provider backbone bridging is added.
    PushPbb {
        /// Its type.
        kind: u16,
        /// Its service, 24 bits.
        service: u32,
    },
    /// It is taken away.
    PopPbb,
    /// The outer label gets the time to live of the header behind it.
    CopyTtlOut,
    /// The header behind the outer label gets its time to live.
    CopyTtlIn,
    /// A meter may drop the packet here, or mark it.
    Meter(Arc<crate::meter::Meter>),
    /// Counts the packets that come here, where not all do.
    Count(Arc<Counters>),
    /// A bucket of a group, by the packet's hash; its steps are done with a copy.
    Select(Box<Select>),
    /// Steps with a copy, whose changes leave the packet alone.
    Copy(Vec<Step>),
    /// A copy goes to the controllers.
    Controller(Arc<Punt>),
    /// The packet's connection is looked up; `actions` of [`Ct`] are done with it.
    Track {
        /// The action; the zone is a number here.
        action: Arc<Ct>,
        /// Its zone.
        zone: u16,
    },
    /// Clears the connection fields of the packet.
    ClearTrack,
    /// The packet is looked up again, with the state so far.
    Continue(Arc<Continuation>),
    /// The packet goes on in one of two ways, by its length now.
    Larger {
        /// Length in bytes.
        length: u16,
        /// Continuation of longer packets.
        larger: Arc<Continuation>,
        /// Continuation of the others.
        other: Arc<Continuation>,
    },
    /// A flow record is made of some packets: one in 65,536 over `probability`.
    Sample(Arc<crate::wire::Action>),
}

/// Selection of a bucket, by the packet's hash.
#[derive(Debug)]
pub struct Select {
    /// Fields the hash is of; those of addresses, protocol and ports without any.
    pub fields: Mask,
    /// Goes into the hash.
    pub basis: u32,
    /// Each bucket: its weight, its counters, and its steps.
    pub ways: Vec<(u32, Arc<Counters>, Vec<Step>)>,
}

/// Packet-in of a packet, without its bytes.
#[derive(Debug)]
pub struct Punt {
    /// Why.
    pub reason: PacketInReason,
    /// The table it was in.
    pub table: u8,
    /// The cookie of the flow, `u64::MAX` without one.
    pub cookie: u64,
    /// Bytes of the packet; `0xffff` is all.
    pub max_len: u16,
    /// Controller ID of the receivers; 0 for controllers that have set none.
    pub id: u16,
    /// Data that the flow adds.
    pub userdata: Vec<u8>,
    /// The meter of its own it goes by, 0 without one.
    pub meter: u32,
    /// Fields that no header has, as they were at this point: metadata and registers, and those
    /// written of the rest.
    pub state: Box<Key>,
    /// Bits of it that differ from the packet as it arrived, beside metadata and registers.
    pub written: Box<Mask>,
    /// Continuation of a paused packet.
    pub resume: Option<Arc<Continuation>>,
}

impl Punt {
    /// The key, at this point, of a packet that came with `came`.
    #[must_use]
    pub fn known(&self, came: &Key) -> Key {
        let mut known = *came;
        let (state, written) = (self.state.words(), self.written.words());
        for (at, word) in known.words_mut().iter_mut().enumerate() {
            let written = if at < ENTRY_WORDS { written[at] } else { u64::MAX };
            *word = *word & !written | state[at] & written;
        }
        known
    }

    /// Packet data for controllers, without the hidden Ethernet header of packets of other types.
    #[must_use]
    pub fn shown<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        match self.state.get(Field::PacketType) {
            0 => packet,
            _ => packet.get(ETHERNET_BYTES..).unwrap_or_default(),
        }
    }
}

/// The length of a header of Ethernet.
const ETHERNET_BYTES: usize = 14;

/// State of a packet that is looked up again.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Continuation {
    /// Its number in [`Key::continuation`], never 0. Equal states have the same number, and no
    /// other has it while this one exists.
    pub number: u32,
    /// The state.
    pub state: Suspended,
}

/// The state of a packet's way at some point.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Suspended {
    /// Words outside of headers: those of the pipeline alone, and others that it has written.
    pub key: Key,
    /// Bits of it to be taken; others are as in the packet.
    pub written: Mask,
    /// Work left, the next one last.
    pub rest: Vec<PendingWork>,
    /// The action set so far.
    pub set: Vec<Action>,
    /// Values on the stack, each with its number of bits.
    pub stack: Vec<(u128, u16)>,
    /// The queue that was set.
    pub queue: u32,
}

/// Work left of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PendingWork {
    /// A table lookup.
    Table(u8),
    /// Instructions are carried out that were of a flow of this table and cookie.
    Instructions {
        /// The table.
        table: u8,
        /// The cookie.
        cookie: u64,
        /// The instructions left.
        instructions: Vec<Instruction>,
    },
    /// Actions are gone on with, which were of a flow of this table and cookie.
    Actions {
        /// The table.
        table: u8,
        /// The cookie.
        cookie: u64,
        /// The actions left.
        actions: Vec<Action>,
    },
}
