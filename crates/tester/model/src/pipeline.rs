//! Packets handed from thread to thread.
//!
//! Stage `i` takes `t_i + h(B, placement)` for each packet, and the slowest
//! stage is the pipeline's rate: `T = min(1 / t_i)`. Run to completion pays the
//! sum of the stages and no hand-over.

use crate::{
    costs::{Costs, Placement, Scenario},
    limits::{Limit, Limits},
    units::{Bytes, PacketsPerSecond, SecondsPerPacket},
};

/// One stage of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Time for each packet, without handing it over.
    pub time: SecondsPerPacket,
    /// Time for taking it over from the stage before.
    pub handover: SecondsPerPacket,
    /// Workers that share this stage's packets.
    pub workers: u32,
}

impl Stage {
    /// The time between two packets of this stage.
    pub fn period(&self) -> SecondsPerPacket {
        (self.time + self.handover) / f64::from(self.workers)
    }
}

impl Costs {
    /// A scenario as a stage that packets are handed to by a thread placed
    /// like this; `None` for `from` if they come from a port.
    ///
    /// `None` for a placement that was not measured.
    pub fn stage(&self, scenario: &Scenario, from: Option<Placement>) -> Option<Stage> {
        let handover = match from {
            Some(placement) => self.handover.get(&placement)?.at(scenario.burst) / scenario.clock,
            None => SecondsPerPacket::ZERO,
        };
        Some(Stage { time: self.per_packet(scenario).total(), handover, workers: scenario.workers })
    }
}

/// The throughput of a pipeline, and the slowest stage or another limit. `None` without stages.
pub fn throughput(
    stages: &[Stage],
    limits: &Limits,
    frame: Bytes,
) -> Option<(PacketsPerSecond, Limit)> {
    let (slowest, period) = stages
        .iter()
        .map(Stage::period)
        .enumerate()
        .max_by(|(_, one), (_, other)| one.get().total_cmp(&other.get()))?;
    Some(limits.bound(period.rate(), Limit::Stage(slowest), frame))
}

/// The throughput when `workers` of them do all stages themselves. The stages must not depend on
/// data that does not fit into one core's cache together; measure that as a stage of its own.
/// `None` without stages.
pub fn run_to_completion(
    stages: &[Stage],
    workers: u32,
    limits: &Limits,
    frame: Bytes,
) -> Option<(PacketsPerSecond, Limit)> {
    if stages.is_empty() {
        return None;
    }
    let time: SecondsPerPacket = stages.iter().map(|stage| stage.time).sum();
    Some(limits.bound(time.rate() * f64::from(workers), Limit::Cycles, frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{costs::Cost, units::Packets};

    fn stage(time: f64, handover: f64, workers: u32) -> Stage {
        Stage {
            time: SecondsPerPacket::new(time),
            handover: SecondsPerPacket::new(handover),
            workers,
        }
    }

    #[test]
    fn the_slowest_stage_sets_the_rate() {
        let stages = [stage(50e-9, 10e-9, 1), stage(300e-9, 20e-9, 4), stage(60e-9, 10e-9, 1)];
        let frame = Bytes::new(64.0);
        let (rate, limit) = throughput(&stages, &Limits::default(), frame).unwrap();
        assert_eq!(limit, Limit::Stage(1));
        assert!((rate.get() - 12.5e6).abs() < 1.0);

        let limits = Limits::nic(PacketsPerSecond::new(10e6));
        assert_eq!(throughput(&stages, &limits, frame).unwrap().1, Limit::Nic);
        assert_eq!(throughput(&[], &limits, frame), None);
    }

    #[test]
    fn farther_handovers_cost_more() {
        let handover = [
            (Placement::Sibling, Cost::new(6.0, 60.0)),
            (Placement::OtherNode, Cost::new(20.0, 400.0)),
        ];
        let costs =
            Costs { receive: Cost::new(50.0, 0.0), handover: handover.into(), ..Costs::default() };
        let burst = |burst| Scenario { burst: Packets::new(burst), ..Scenario::default() };
        let time = |from, packets| costs.stage(&burst(packets), from).unwrap().period().get();
        // At 1 GHz a cycle is a nanosecond.
        assert!((time(None, 1.0) - 50e-9).abs() < 1e-15);
        assert!((time(Some(Placement::Sibling), 1.0) - 116e-9).abs() < 1e-15);
        assert!((time(Some(Placement::Sibling), 30.0) - 58e-9).abs() < 1e-15);
        assert!(time(Some(Placement::OtherNode), 30.0) > time(Some(Placement::Sibling), 30.0));
        assert_eq!(costs.stage(&burst(1.0), Some(Placement::SameCore)), None);
    }

    #[test]
    fn run_to_completion_pays_no_handover() {
        let stages = [stage(50e-9, 10e-9, 1), stage(50e-9, 10e-9, 1)];
        let frame = Bytes::new(64.0);
        let (whole, _) = run_to_completion(&stages, 2, &Limits::default(), frame).unwrap();
        let (piped, _) = throughput(&stages, &Limits::default(), frame).unwrap();
        assert!((whole.get() - 20e6).abs() < 1.0);
        assert!(whole > piped);
    }
}
