//! Answers to multipart requests: from the tables as they are at one moment, without the mutex.
//!
//! Long answers, of flows, groups and meters, are made a piece at a time, as fast as the receiver
//! reads them. An answer that waits holds references to its entries and no copies.

use std::sync::Arc;
use std::vec::IntoIter;

use super::Switch;
use super::features;
use super::flows::FlowFilter;
use super::groups::{BANDS, BUCKETS};
use super::state::{elapsed, table_desc};
use crate::meter::Meter;
use crate::table::{Flow, Group, PortCount, Snapshot, SwitchPort};
use crate::wire::group::ALL_GROUPS;
use crate::wire::meter::ALL_METERS;
use crate::wire::multipart::{
    AggregateStats, FlowEvent, FlowRequest, FlowStats, FlowUpdate, FlowUpdated, GroupDesc,
    GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats, PortStats, Reply, Request,
    TableFeatures, TableStats,
};
use crate::wire::queue::ALL_QUEUES;
use crate::wire::{
    ALL_TABLES, Fault, FlowMod, FlowModCommand, MeterFlags, PortNumber, TableConfig, Version,
};

/// All fields may be left out (OpenFlow 1.0).
const WILDCARDS: u32 = 0x003f_ffff;

/// Most entries in a piece of an answer.
const PIECE: usize = 64;

/// An answer to a multipart request, about the tables at the time of the request.
///
/// It is an iterator of pieces, all of one kind. There is at least one, which may be an empty list.
#[derive(Debug)]
pub struct Answer {
    left: RemainingReplies,
    now: u64,
}

/// The rest of an answer.
#[derive(Debug)]
enum RemainingReplies {
    Nothing,
    /// A short answer, as a whole.
    Whole(Reply),
    Flows(fn(Vec<FlowStats>) -> Reply, IntoIter<Arc<Flow>>),
    Groups(Arc<Snapshot>, IntoIter<Arc<Group>>),
    GroupDescs(IntoIter<Arc<Group>>),
    Meters(Arc<Snapshot>, IntoIter<Arc<Meter>>),
    MeterConfigs(IntoIter<Arc<Meter>>),
    Initial(IntoIter<Initial>),
}

/// A flow in a monitor's initial update, and whether with its instructions.
pub type Initial = (Arc<Flow>, bool);

/// The next entries.
fn piece<T, E>(left: &mut IntoIter<Arc<T>>, entry: impl Fn(&T) -> E) -> Vec<E> {
    left.take(PIECE).map(|one| entry(&one)).collect()
}

impl Answer {
    /// Returns an answer with the initial flows of monitors.
    #[must_use]
    pub fn initial(flows: Vec<Initial>) -> Answer {
        Answer { left: RemainingReplies::Initial(flows.into_iter()), now: 0 }
    }
}

impl Iterator for Answer {
    type Item = Reply;

    fn next(&mut self) -> Option<Reply> {
        let now = self.now;
        let (reply, more) = match &mut self.left {
            RemainingReplies::Nothing => return None,
            RemainingReplies::Whole(reply) => {
                // The value left in its place is never read.
                (std::mem::replace(reply, Reply::Port(Vec::new())), false)
            }
            RemainingReplies::Flows(kind, flows) => {
                (kind(piece(flows, |flow| flow_stats(flow, now))), flows.len() > 0)
            }
            RemainingReplies::Groups(tables, groups) => {
                let stats = piece(groups, |group| group_stats(tables, group, now));
                (Reply::Group(stats), groups.len() > 0)
            }
            RemainingReplies::GroupDescs(groups) => {
                (Reply::GroupDesc(piece(groups, group_desc)), groups.len() > 0)
            }
            RemainingReplies::Meters(tables, meters) => {
                let stats = piece(meters, |meter| meter_stats(tables, meter, now));
                (Reply::Meter(stats), meters.len() > 0)
            }
            RemainingReplies::Initial(flows) => {
                let updates = flows.take(PIECE).map(|(flow, tells)| initial(&flow, tells));
                (Reply::FlowMonitor(updates.collect()), flows.len() > 0)
            }
            RemainingReplies::MeterConfigs(meters) => {
                (Reply::MeterConfig(piece(meters, meter_config)), meters.len() > 0)
            }
        };
        if !more {
            self.left = RemainingReplies::Nothing;
        }
        Some(reply)
    }
}

/// Adds a piece of an answer to those before it.
fn extend(whole: &mut Reply, piece: Reply) {
    match (whole, piece) {
        (Reply::Flow(whole), Reply::Flow(piece))
        | (Reply::NiciraFlow(whole), Reply::NiciraFlow(piece))
        | (Reply::FlowCounters(whole), Reply::FlowCounters(piece)) => whole.extend(piece),
        (Reply::Group(whole), Reply::Group(piece)) => whole.extend(piece),
        (Reply::GroupDesc(whole), Reply::GroupDesc(piece)) => whole.extend(piece),
        (Reply::Meter(whole), Reply::Meter(piece)) => whole.extend(piece),
        (Reply::MeterConfig(whole), Reply::MeterConfig(piece)) => whole.extend(piece),
        (Reply::FlowMonitor(whole), Reply::FlowMonitor(piece)) => whole.extend(piece),
        (whole, piece) => *whole = piece,
    }
}

impl Switch {
    /// Answers a multipart request, as a whole.
    pub fn answer(&self, request: &Request, version: Version, now: u64) -> Result<Reply, Fault> {
        let mut pieces = self.answer_in_pieces(request, version, now)?;
        let mut whole = pieces.next().ok_or(Fault::BadMultipart)?;
        pieces.for_each(|piece| extend(&mut whole, piece));
        Ok(whole)
    }

    /// Answers a multipart request, piece by piece.
    ///
    /// Counters are exact: it first [waits](Switch::flush_counters) for workers at work to add
    /// their counts. A request that would change the features of tables may name them, and must
    /// leave all else as it is.
    pub fn answer_in_pieces(
        &self,
        request: &Request,
        version: Version,
        now: u64,
    ) -> Result<Answer, Fault> {
        let counts = !matches!(
            request,
            Request::Desc
                | Request::GroupDesc(_)
                | Request::GroupFeatures
                | Request::MeterConfig(_)
                | Request::MeterFeatures
                | Request::TableFeatures(_)
                | Request::PortDesc(_)
                | Request::TableDesc
                | Request::QueueDesc { .. }
        );
        if counts {
            self.flush_counters();
        }
        let tables = self.snapshot();
        let flows = |kind, request: &FlowRequest| -> Result<RemainingReplies, Fault> {
            Ok(RemainingReplies::Flows(kind, sorted(chosen(&tables, request)?).into_iter()))
        };
        let left = match request {
            Request::Flow(request) => flows(Reply::Flow, request)?,
            Request::NiciraFlow(request) => flows(Reply::NiciraFlow, request)?,
            Request::FlowCounters(request) => flows(Reply::FlowCounters, request)?,
            Request::Group(group) => {
                let groups = groups(&tables, *group).into_iter();
                RemainingReplies::Groups(tables, groups)
            }
            Request::GroupDesc(group) => {
                RemainingReplies::GroupDescs(groups(&tables, *group).into_iter())
            }
            Request::Meter(meter) => {
                let meters = meters(&tables, *meter)?.into_iter();
                RemainingReplies::Meters(tables, meters)
            }
            Request::MeterConfig(meter) => {
                RemainingReplies::MeterConfigs(meters(&tables, *meter)?.into_iter())
            }
            short => {
                drop(tables);
                RemainingReplies::Whole(self.short_answer(short, version, now)?)
            }
        };
        Ok(Answer { left, now })
    }

    /// A short answer, as a whole.
    fn short_answer(&self, request: &Request, version: Version, now: u64) -> Result<Reply, Fault> {
        if let Request::TableFeatures(wanted) = request {
            return self.table_features(wanted, version);
        }
        let tables = &*self.snapshot();
        Ok(match request {
            Request::Desc => Reply::Desc(self.options.description.clone()),
            Request::Aggregate(flows) => Reply::Aggregate(aggregate(tables, flows)?),
            Request::NiciraAggregate(flows) => Reply::NiciraAggregate(aggregate(tables, flows)?),
            Request::Table => Reply::Table(self.table_stats(tables)),
            Request::Port(port) => {
                let ports = ports(tables, *port)?;
                Reply::Port(ports.into_iter().map(|port| port_stats(port, now)).collect())
            }
            Request::Queue { port, queue } => {
                no_queues(tables, *port, *queue)?;
                Reply::Queue(Vec::new())
            }
            Request::QueueDesc { port, queue } => {
                no_queues(tables, *port, *queue)?;
                Reply::QueueDesc(Vec::new())
            }
            Request::GroupFeatures => Reply::GroupFeatures(self.group_features()),
            Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
                greatest: self.options.meters,
                // Drop and remark.
                band_types: 1 << 1 | 1 << 2,
                capabilities: MeterFlags::KNOWN,
                bands: BANDS as u8,
                colors: 0,
                features: 0,
            }),
            Request::PortDesc(port) => {
                let ports = ports(tables, *port)?;
                Reply::PortDesc(ports.into_iter().map(|port| port.port.clone()).collect())
            }
            Request::TableDesc => {
                let limit = self.options.flows;
                let all = 0..tables.tables();
                Reply::TableDesc(all.map(|table| table_desc(table, tables, limit)).collect())
            }
            Request::TableFeatures(_)
            | Request::Flow(_)
            | Request::NiciraFlow(_)
            | Request::FlowCounters(_)
            | Request::Group(_)
            | Request::GroupDesc(_)
            | Request::Meter(_)
            | Request::MeterConfig(_)
            // Of a controller, not of the switch.
            | Request::FlowMonitor(_) => return Err(Fault::BadMultipart),
        })
    }

    fn table_stats(&self, tables: &Snapshot) -> Vec<TableStats> {
        let stats = |number: u8| {
            let table = tables.table(number)?;
            Some(TableStats {
                table: number,
                name: features::name(table, number),
                wildcards: WILDCARDS,
                max_entries: self.options.flows,
                active: table.len() as u32,
                lookups: table.lookups.packets(),
                matches: table.matches.packets(),
            })
        };
        (0..tables.tables()).filter_map(stats).collect()
    }

    fn group_features(&self) -> GroupFeatures {
        // Weights, watching, groups of groups, and circles are found.
        const ALL_CAPABILITIES: u32 = 0xf;
        let actions = features::action_bits();
        GroupFeatures {
            types: 0xf,
            capabilities: ALL_CAPABILITIES,
            greatest: [self.options.groups; 4],
            actions: [actions; 4],
        }
    }

    fn table_features(&self, wanted: &[TableFeatures], version: Version) -> Result<Reply, Fault> {
        if !wanted.is_empty() {
            self.name_tables(wanted, version)?;
        }
        let tables = self.snapshot();
        let of = |number: u8| features::of_table(&tables, number, self.options.flows, version);
        Ok(Reply::TableFeatures((0..tables.tables()).filter_map(of).collect()))
    }

    /// Sets names of tables, for a request that changes nothing else.
    fn name_tables(&self, wanted: &[TableFeatures], version: Version) -> Result<(), Fault> {
        self.change(&mut self.control(), true, 0, |edit| {
            let mut seen = [false; 256];
            for features in wanted {
                let number = features.table;
                if std::mem::replace(&mut seen[usize::from(number)], true) {
                    return Err(Fault::DuplicateTable);
                }
                let has = features::of_table(edit.tables, number, self.options.flows, version);
                let has = has.ok_or(Fault::FeaturesBadTable)?;
                let masks = (features.metadata_match, features.metadata_write);
                if masks != (has.metadata_match, has.metadata_write) {
                    return Err(Fault::FeaturesBadMetadata);
                }
                let same = features.max_entries == has.max_entries
                    && (features.properties.is_empty() || features.properties == has.properties);
                if !same {
                    return Err(Fault::FeaturesNotPermitted);
                }
                if let Some(table) = edit.tables.table_mut(number) {
                    table.name = (!features.name.is_empty()).then(|| features.name.as_str().into());
                }
                edit.effects.push(super::edit::Effect::Table(number));
            }
            Ok(())
        })
    }
}

/// Returns the flows of a request.
fn chosen(tables: &Snapshot, request: &FlowRequest) -> Result<Vec<Arc<Flow>>, Fault> {
    if request.table != ALL_TABLES && request.table >= tables.tables() {
        return Err(Fault::BadTableId);
    }
    let change = FlowMod {
        command: FlowModCommand::Delete,
        out_port: request.out_port,
        out_group: request.out_group,
        filter: request.filter,
        ..FlowMod::add(request.table, 0, request.matching.clone(), Vec::new())
    };
    Ok(FlowFilter { change: &change, outputs: true }.find(tables, None))
}

/// Flows in the order of an answer: by table, then the highest priority, then the oldest.
fn sorted(mut flows: Vec<Arc<Flow>>) -> Vec<Arc<Flow>> {
    flows.sort_unstable_by_key(|flow| (flow.table, std::cmp::Reverse(flow.priority), flow.number));
    flows
}

fn flow_stats(flow: &Flow, now: u64) -> FlowStats {
    let stats = FlowStats::new(
        flow.table,
        flow.priority,
        flow.matching.unpack(),
        flow.instructions.clone(),
    );
    FlowStats {
        duration: elapsed(flow.added, now),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        flags: flow.flags,
        importance: flow.importance,
        cookie: flow.cookie,
        packets: flow.counters.packets(),
        bytes: flow.counters.bytes(),
        idle: Some(elapsed(flow.counters.used().max(flow.added), now)),
        unchanged: Some(elapsed(flow.modified, now)),
        ..stats
    }
}

fn initial(flow: &Flow, tells: bool) -> FlowUpdate {
    FlowUpdate::Flow(FlowUpdated {
        event: FlowEvent::Initial,
        table: flow.table,
        priority: flow.priority,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        cookie: flow.cookie,
        matching: flow.matching.unpack(),
        instructions: if tells { flow.instructions.clone() } else { Vec::new() },
    })
}

fn aggregate(tables: &Snapshot, request: &FlowRequest) -> Result<AggregateStats, Fault> {
    let flows = chosen(tables, request)?;
    let sum = |of: fn(&Flow) -> u64| flows.iter().map(|flow| of(flow)).sum();
    Ok(AggregateStats {
        packets: sum(|flow| flow.counters.packets()),
        bytes: sum(|flow| flow.counters.bytes()),
        flows: flows.len() as u32,
    })
}

/// A port, or all.
fn ports(tables: &Snapshot, number: PortNumber) -> Result<Vec<&SwitchPort>, Fault> {
    if number == PortNumber::ANY {
        return Ok(tables.ports().map(|port| &**port).collect());
    }
    let port = tables.port(number).ok_or(Fault::BadPort)?;
    Ok(vec![port])
}

/// Checks a request for queues: none are known here, so only all of them can be requested.
fn no_queues(tables: &Snapshot, port: PortNumber, queue: u32) -> Result<(), Fault> {
    ports(tables, port).map_err(|_| Fault::QueueBadPort)?;
    if queue == ALL_QUEUES { Ok(()) } else { Err(Fault::QueueUnknown) }
}

fn port_stats(port: &SwitchPort, now: u64) -> PortStats {
    let count = |of| port.counters.get(of);
    PortStats {
        port: port.number(),
        duration: elapsed(port.added, now),
        received: count(PortCount::Received),
        sent: count(PortCount::Sent),
        received_bytes: count(PortCount::ReceivedBytes),
        sent_bytes: count(PortCount::SentBytes),
        received_dropped: count(PortCount::ReceivedDropped),
        sent_dropped: count(PortCount::SentDropped),
        received_errors: count(PortCount::ReceivedErrors),
        sent_errors: 0,
        ethernet: None,
        others: Vec::new(),
    }
}

/// A group, or all by number. One that is not there is an empty list (1.3.5, section 7.3.5.6 has no
/// fault for it).
fn groups(tables: &Snapshot, number: u32) -> Vec<Arc<Group>> {
    let mut groups: Vec<_> = match number {
        ALL_GROUPS => tables.groups().cloned().collect(),
        number => tables.group(number).cloned().into_iter().collect(),
    };
    groups.sort_unstable_by_key(|group| group.number);
    groups
}

fn group_desc(group: &Group) -> GroupDesc {
    GroupDesc {
        group: group.number,
        kind: group.kind,
        buckets: group.buckets.iter().map(|bucket| bucket.bucket.clone()).collect(),
        selection: group.selection.clone(),
    }
}

fn group_stats(tables: &Snapshot, group: &Group, now: u64) -> GroupStats {
    let buckets = group.buckets.iter();
    GroupStats {
        group: group.number,
        references: tables.flows_of_group(group.number).count() as u32,
        packets: group.counters.packets(),
        bytes: group.counters.bytes(),
        duration: elapsed(group.added, now),
        buckets: buckets
            .map(|bucket| (bucket.counters.packets(), bucket.counters.bytes()))
            .collect(),
    }
}

/// A meter, or all by number.
fn meters(tables: &Snapshot, number: u32) -> Result<Vec<Arc<Meter>>, Fault> {
    if number == ALL_METERS {
        let mut meters: Vec<_> = tables.meters().cloned().collect();
        meters.sort_unstable_by_key(|meter| meter.number);
        return Ok(meters);
    }
    Ok(vec![Arc::clone(tables.meter(number).ok_or(Fault::UnknownMeter)?)])
}

fn meter_stats(tables: &Snapshot, meter: &Meter, now: u64) -> MeterStats {
    MeterStats {
        meter: meter.number,
        flows: tables.flows_of_meter(meter.number).count() as u32,
        packets: meter.counters.packets(),
        bytes: meter.counters.bytes(),
        duration: elapsed(meter.added, now),
        bands: meter.band_counters.iter().map(|band| (band.packets(), band.bytes())).collect(),
    }
}

fn meter_config(meter: &Meter) -> MeterConfig {
    MeterConfig { meter: meter.number, flags: meter.flags, bands: meter.bands.clone() }
}

const _: () = assert!(BUCKETS <= u32::MAX as usize && BANDS <= u8::MAX as usize);

/// Returns the configuration of a table as features of OpenFlow 1.3 have it.
pub(super) fn config_of(config: TableConfig, version: Version) -> u32 {
    match version {
        Version::V10 | Version::V13 => config.0 & 3,
        // Flags that can be set.
        _ => TableConfig::EVICTION.0 | TableConfig::VACANCY_EVENTS.0,
    }
}
