//! Counts of a running graph: by worker and by element, in all or in an interval.

use std::{sync::Arc, time::Duration};

use linerate_graph::{Control, ElementUsage, Plan, Usage};
use linerate_memory::clock::cycles_per_second;
use serde_json::{Map, Value, json};

/// Figures of a graph at a moment, or the difference between two moments.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) plan: Arc<Plan>,
    pub(super) workers: Vec<Usage>,
}

/// Parts of a worker's cycles, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shares {
    /// In the elements that receive and send: `C_IO`.
    pub(super) io: f64,
    /// In all others and the engine: `C_task`.
    pub(super) task: f64,
    /// Looking for packets, or asleep: `C_busy`.
    pub(super) idle: f64,
}

impl Figures {
    /// The figures now.
    pub(super) fn read(control: &Control) -> Figures {
        let (plan, workers) = control.usage();
        Figures { plan, workers }
    }

    /// Returns true if they are of the same graph as `other`: it has not been replaced.
    pub(super) fn is_of(&self, other: &Figures) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan)
    }

    /// The time in which they were counted, by the cycles of the first worker.
    pub(super) fn span(&self) -> Duration {
        let worker = &self.workers[0];
        Duration::from_secs_f64((worker.work + worker.wait) as f64 / cycles_per_second())
    }

    /// The counts since `before`; all of them when the graph has been replaced since.
    pub(super) fn since(&self, before: &Figures) -> Figures {
        if !self.is_of(before) {
            return self.clone();
        }
        let pairs = self.workers.iter().zip(&before.workers);
        Figures { plan: Arc::clone(&self.plan), workers: pairs.map(|(a, b)| a.since(b)).collect() }
    }

    /// The elements' figures over all workers.
    pub(super) fn elements(&self) -> Vec<ElementUsage> {
        let mut sums = self.workers[0].elements.clone();
        for worker in &self.workers[1..] {
            sums.iter_mut().zip(&worker.elements).for_each(|(sum, element)| sum.add(element));
        }
        sums
    }

    /// Cycles of all workers, waiting included.
    pub(super) fn cycles(&self) -> f64 {
        self.workers.iter().map(|worker| (worker.work + worker.wait) as f64).sum()
    }

    /// Cycles in which there was nothing to do.
    pub(super) fn idle(&self) -> f64 {
        self.workers.iter().map(|worker| worker.wait as f64).sum()
    }

    /// Cycles of the engine itself.
    pub(super) fn engine(&self) -> f64 {
        self.workers.iter().map(|worker| worker.engine).sum()
    }

    /// A worker's cycles by use.
    pub(super) fn shares(worker: &Usage) -> Shares {
        let all = ((worker.work + worker.wait) as f64).max(1.0);
        let (io, task) = worker.io_and_task();
        Shares { io: io / all, task: task / all, idle: worker.wait as f64 / all }
    }

    /// Packets that came into a worker's part of the graph: from the elements
    /// without inputs, or, where there are none of them, through the element
    /// that saw most.
    pub(super) fn packets(&self, worker: &Usage) -> u64 {
        let elements = || self.plan.elements.iter().zip(&worker.elements);
        let sources = elements().filter(|(element, _)| element.inputs.is_empty());
        let brought: u64 = sources.map(|(_, usage)| usage.packets).sum();
        let most = elements().map(|(_, usage)| usage.packets).max().unwrap_or(0);
        if brought > 0 { brought } else { most }
    }

    /// Reasons packets were dropped for, and how many, of one element.
    pub(super) fn drops(&self, element: usize, usage: &ElementUsage) -> Vec<(&'static str, u64)> {
        let all = usage.drops_by_reason(self.plan.elements[element].class.drops);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// All of it, for programs.
    pub(super) fn json(&self, seconds: f64) -> Map<String, Value> {
        let rate = |packets: u64| packets as f64 / seconds.max(1e-9);
        let all = self.cycles().max(1.0);
        let workers = self.workers.iter().map(|worker| {
            let shares = Figures::shares(worker);
            let packets = self.packets(worker);
            json!({
                "packets": packets,
                "packets_per_second": rate(packets),
                "cycles": worker.work + worker.wait,
                "io": shares.io,
                "task": shares.task,
                "idle": shares.idle,
            })
        });
        let elements = self.elements().into_iter().enumerate().map(|(at, usage)| {
            let element = &self.plan.elements[at];
            let drops: Map<String, Value> = self
                .drops(at, &usage)
                .into_iter()
                .map(|(reason, count)| (reason.into(), count.into()))
                .collect();
            json!({
                "name": element.name,
                "class": element.class.name,
                "packets": usage.packets,
                "packets_per_second": rate(usage.packets),
                "frames": usage.frames,
                "mean_frame": usage.mean_frame(),
                "cycles": usage.cycles,
                "cycles_per_packet": usage.cycles_per_packet(),
                "share": usage.cycles / all,
                "drops": drops,
            })
        });
        let mut object = Map::new();
        object.insert("workers".into(), workers.collect());
        object.insert("elements".into(), elements.collect());
        object.insert("engine_share".into(), (self.engine() / all).into());
        object.insert("idle_share".into(), (self.idle() / all).into());
        object
    }
}
