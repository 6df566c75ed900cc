//! Records as observations for the fits.

use std::collections::BTreeMap;

use linerate_model::{
    Access, Scenario, Visit,
    fit::Observation,
    units::{Bytes, CyclesPerPacket, Hertz, Packets},
};

use crate::{
    experiment::Role,
    point::{Forward, Key, Pages, Point, Record, Side, Touch, value},
};

/// The forwarder's own loop, as an element: the cost of the way from one port to the other, which
/// neither side measured alone has.
pub const LOOP: &str = "loop";

/// A worker that forwards from a port to a port.
pub fn forwarder() -> Scenario {
    let elements = vec![Visit { element: LOOP.into(), times: 1.0 }];
    Scenario { elements, ..Scenario::default() }
}

/// The conditions of a measured throughput.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The driver's name.
    pub driver: &'static str,
    /// The input of the model.
    pub scenario: Scenario,
    /// The pages of the working set.
    pub pages: Pages,
    /// The touch of a packet's bytes.
    pub touch: Touch,
    /// The point's part in experiments: to be fitted, or to be predicted.
    pub role: Role,
    /// The parameters, for people.
    pub label: String,
}

/// A measured throughput, in packets per second.
pub type Throughput = Observation<Conditions>;

/// All throughputs among the records that the model is about: one direction,
/// the usual rings, the machine's own clock, which is `clock`.
pub fn throughputs(
    records: &[Record],
    roles: &BTreeMap<Key, Role>,
    clock: Hertz,
) -> Vec<Throughput> {
    let of = |record: &Record| {
        let rate = record.value(value::RATE).filter(|_| record.is_measured())?;
        let mut place = match &record.spec.kind {
            Point::Forward(forward) => forwarding(forward, clock)?,
            Point::Receive(side) => one_side(side, clock, true),
            Point::Transmit(side) => one_side(side, clock, false),
            _ => return None,
        };
        place.role = roles.get(&record.key).copied().unwrap_or_default();
        (rate > 0.0).then(|| Observation::new(place, rate))
    };
    records.iter().filter_map(of).collect()
}

fn forwarding(forward: &Forward, clock: Hertz) -> Option<Conditions> {
    let usual = Forward::default();
    if forward.bidirectional || forward.slots != usual.slots || forward.clock_khz != 0 {
        return None;
    }
    let burst = f64::from(forward.burst);
    let work = f64::from(forward.work) + f64::from(forward.burst_work) / burst;
    let mut accesses = Vec::new();
    let mut label = format!("burst {}, load {work}", forward.burst);
    if forward.accesses > 0 {
        accesses.push(Access {
            count: f64::from(forward.accesses),
            working_set: Bytes::new(forward.working_set as f64),
            parallel: 1.0,
        });
        label += &format!(", {} accesses to {} B", forward.accesses, forward.working_set);
    }
    if forward.frame != usual.frame {
        label += &format!(", {} B", forward.frame);
    }
    if forward.workers > 1 {
        label += &format!(", {} workers", forward.workers);
    }
    Some(Conditions {
        driver: forward.driver.name(),
        scenario: Scenario {
            clock,
            burst: Packets::new(burst),
            work: CyclesPerPacket::new(work),
            accesses,
            touched: match forward.touch {
                Touch::None | Touch::Mac => Bytes::ZERO,
                Touch::Read | Touch::Copy | Touch::Checksum => Bytes::new(forward.frame.into()),
            },
            frame: Bytes::new(forward.frame.into()),
            workers: forward.workers,
            ..forwarder()
        },
        pages: forward.pages,
        touch: forward.touch,
        role: Role::default(),
        label,
    })
}

fn one_side(side: &Side, clock: Hertz, receive: bool) -> Conditions {
    let what = if receive { "receive" } else { "transmit" };
    Conditions {
        driver: side.driver.name(),
        scenario: Scenario {
            clock,
            burst: Packets::new(side.burst.into()),
            receive,
            transmit: !receive,
            frame: Bytes::new(side.frame.into()),
            ..Scenario::default()
        },
        pages: Pages::default(),
        touch: Touch::default(),
        role: Role::default(),
        label: format!("{what} alone, burst {}", side.burst),
    }
}

impl Conditions {
    /// Neither memory nor bytes nor other workers: input, output and load.
    pub fn is_plain(&self) -> bool {
        self.scenario.workers == 1
            && self.scenario.accesses.is_empty()
            && matches!(self.touch, Touch::None)
            && self.scenario.frame == Scenario::default().frame
    }

    /// Returns true for one worker that makes accesses to memory.
    pub fn is_memory(&self) -> bool {
        self.scenario.workers == 1
            && !self.scenario.accesses.is_empty()
            && matches!(self.touch, Touch::None)
    }

    /// The values that vary in a grid.
    fn axes(&self) -> [u64; 6] {
        let access = self.scenario.accesses.first();
        [
            self.scenario.burst.get().to_bits(),
            self.scenario.work.get().to_bits(),
            access.map_or(0, |access| access.count.to_bits()),
            access.map_or(0, |access| access.working_set.get().to_bits()),
            self.scenario.frame.get().to_bits(),
            u64::from(self.scenario.workers),
        ]
    }
}

/// Points as inputs of the model.
pub(super) fn scenarios(points: &[Throughput]) -> Vec<Observation<Scenario>> {
    let plain = |point: &Throughput| Observation::new(point.input.scenario.clone(), point.value);
    points.iter().map(plain).collect()
}

/// Splits points into those to fit and those to predict. Where the experiments
/// do not say which are which, on disjoint grids: of each parameter that takes three values or more, every second one that is
/// neither the first nor the last is held out, with all points that have it.
/// The value that most points have is not: the sweeps of the other parameters
/// were made at it.
pub fn split(points: &[Throughput]) -> (Vec<Throughput>, Vec<Throughput>) {
    let of_role = |role: Role| -> Vec<Throughput> {
        points.iter().filter(|point| point.input.role == role).cloned().collect()
    };
    let (fit, held_out) = (of_role(Role::Fit), of_role(Role::HeldOut));
    if !fit.is_empty() && !held_out.is_empty() {
        return (fit, held_out);
    }
    let mut held: [Vec<u64>; 6] = Default::default();
    for (axis, held) in held.iter_mut().enumerate() {
        let mut values: Vec<u64> = points.iter().map(|point| point.input.axes()[axis]).collect();
        // The bits of positive numbers are in the order of the numbers.
        values.sort_unstable();
        let groups: Vec<(u64, usize)> =
            values.chunk_by(|one, other| one == other).map(|same| (same[0], same.len())).collect();
        let usual = groups.iter().max_by_key(|(_, count)| *count).map(|&(value, _)| value);
        let inner = groups.len().saturating_sub(1);
        let every_second = groups.iter().take(inner).skip(1).step_by(2).map(|&(value, _)| value);
        held.extend(every_second.filter(|&value| Some(value) != usual));
    }
    let is_held = |point: &Throughput| {
        point.input.axes().iter().zip(&held).any(|(value, held)| held.contains(value))
    };
    points.iter().cloned().partition(|point| !is_held(point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Outcome, Spec, Values};

    fn record(forward: Forward, rate: f64) -> Record {
        let values = Values::from([(value::RATE.into(), rate)]);
        Record::new(Spec::new(Point::Forward(forward)), "x", "m", (Outcome::Measured, None, values))
    }

    #[test]
    fn points_outside_the_model_are_left_out() {
        let other = [
            Forward { bidirectional: true, ..Forward::default() },
            Forward { slots: 64, ..Forward::default() },
            Forward { clock_khz: 1_000_000, ..Forward::default() },
        ];
        let mut records: Vec<Record> = other.into_iter().map(|one| record(one, 1e6)).collect();
        let mut failed = record(Forward::default(), 1e6);
        failed.outcome = Outcome::Void;
        records.push(failed);
        assert!(throughputs(&records, &BTreeMap::new(), Hertz::new(1e9)).is_empty());
        let burst_work = Forward { work: 100, burst_work: 320, burst: 32, ..Forward::default() };
        let points = throughputs(&[record(burst_work, 1e6)], &BTreeMap::new(), Hertz::new(2e9));
        assert_eq!(points[0].input.scenario.work, CyclesPerPacket::new(110.0));
    }

    #[test]
    fn no_value_held_out_is_fitted() {
        let mut records = Vec::new();
        for burst in [1, 2, 4, 8, 16] {
            for work in [0, 100, 200, 300] {
                records.push(record(Forward { burst, work, ..Forward::default() }, 1e6));
            }
        }
        let points = throughputs(&records, &BTreeMap::new(), Hertz::new(1e9));
        let (train, held) = split(&points);
        let bursts = |points: &[Throughput]| -> std::collections::BTreeSet<u64> {
            points.iter().map(|point| point.input.scenario.burst.get() as u64).collect()
        };
        assert_eq!(bursts(&train), [1, 4, 16].into());
        // Of the loads 100 is held out, of the bursts 2 and 8.
        assert_eq!((train.len(), held.len()), (9, 11));
        // A sweep at one value of another parameter is not lost with it.
        records.extend((1..20).map(|work| {
            record(Forward { burst: 8, work: 1000 * work, ..Forward::default() }, 1e6)
        }));
        let (sweep, _) = split(&throughputs(&records, &BTreeMap::new(), Hertz::new(1e9)));
        assert!(bursts(&sweep).contains(&8));
        let in_both = held
            .iter()
            .any(|point| train.iter().any(|other| other.input.axes() == point.input.axes()));
        assert!(!in_both);
    }

    #[test]
    fn experiments_name_held_out_points() {
        let bursts = [1, 2, 4, 8].map(|burst| Forward { burst, ..Forward::default() });
        let records: Vec<Record> = bursts.into_iter().map(|one| record(one, 1e6)).collect();
        let told = [Role::Fit, Role::HeldOut, Role::Show, Role::Fit];
        let roles = records.iter().map(|one| one.key.clone()).zip(told).collect();
        let (train, held) = split(&throughputs(&records, &roles, Hertz::new(1e9)));
        assert_eq!((train.len(), held.len()), (2, 1));
        assert_eq!(held[0].input.label, "burst 2, load 0");
    }
}
