//! Cost of an element with its arguments and on its recorded packets, measured alone: in a
//! configuration of the element, a replayer of those packets, and ends for its output.
//!
//! Where its ways meet again, so could they here: the numbering of packets where ways part is then
//! in its cost, as in the configuration. Where ways part anywhere in that, buffers come back in
//! another order than they were handed out in, and packets lie here and there: so they do here.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use linerate_graph::{
    PlanElement, Processing,
    lang::{Flat, FlatConnection, PortRef},
};
use linerate_model::{Cost, Estimate};

use super::{
    PathRole, SampleError, Visit, branches,
    estimate::{SAMPLES, with_arguments},
    trial::{Trial, nowhere, write},
};
use crate::{
    calibration::ElementFit,
    measure::{
        Bench, Failure,
        graph::{drive, middle},
    },
    packet_trace::{self, PacketTrace, TraceStore},
    point::{Values, value},
    stand_in::{NO_LIMIT, has_limit},
};

/// Repetitions, and time of each. The least counts: load on the processor's shared caches and units
/// can only slow it down.
const REPETITIONS: usize = 4;
const TIME: Duration = Duration::from_millis(75);
/// Time that each may wait for an undisturbed core.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Below it a packet more or less in a frame makes a difference.
const SMALL: f64 = 16.0;
/// Classes that say something about others without naming them.
const INFORMATION: [&str; 5] =
    ["AddressInfo", "IPRewriterPatterns", "PortInfo", "RandomSeed", "SATable"];

impl Trial {
    /// Name in a calibration for the cost of an element alone.
    pub(super) fn key(&self, visit: &Visit) -> Option<String> {
        let element = &self.plan.elements[visit.at];
        let (name, packets) = match visit.part {
            PathRole::Receive => (SAMPLES.0.to_owned(), self.fingerprint()),
            PathRole::Transmit if !visit.trace.is_empty() => {
                (SAMPLES.1.to_owned(), visit.trace.fingerprint())
            }
            PathRole::Element if element.inputs.is_empty() || !visit.trace.is_empty() => {
                (with_arguments(visit.class, &visit.config), visit.trace.fingerprint())
            }
            PathRole::Element | PathRole::Transmit => return None,
        };
        let mut hasher = DefaultHasher::new();
        let pulls = element.inputs.contains(&Processing::Pull);
        // Stand-ins for ports differ.
        let around = (element.class.name, pulls, visit.outputs, visit.meets, visit.scattered);
        let sizes = self.frames(visit);
        let frames: Vec<_> =
            sizes.into_iter().map(|(size, share)| (size, share.to_bits())).collect();
        let keeps = self.plan.elements.iter().fold((false, false), |keeps, one| {
            (keeps.0 | one.class.annotates, keeps.1 | one.class.needs_packet_type)
        });
        let others: Vec<(&str, &str)> = self
            .named(visit.at)
            .into_iter()
            .map(|at| (self.plan.elements[at].class.name, &*self.plan.elements[at].config))
            .collect();
        (frames, around, keeps, others, self.learnt(visit.at), packets).hash(&mut hasher);
        Some(format!("{name} #{:016x}", hasher.finish()))
    }

    /// Measures an element alone.
    ///
    /// # Errors
    ///
    /// When it needs others, or nothing came to it.
    pub(super) fn alone(&self, bench: &Bench, visit: &Visit) -> Result<ElementFit, SampleError> {
        let store = TraceStore::with(PacketTrace::clone(&visit.trace));
        let mut flat = self.small(visit, &store, false);
        if self.router(flat.clone(), self.run.vector, false).is_err() {
            flat = self.small(visit, &store, true);
        }
        let mut cycles = vec![0.0; REPETITIONS];
        for (frame_limit, share) in self.frames(visit) {
            for sum in &mut cycles {
                let once = || self.once(&flat, visit, frame_limit);
                let values = bench.on_idle_core(TIMEOUT, once);
                let values = values.map_err(|failure| SampleError::Measure(failure.to_string()))?;
                *sum += share * values.get(value::CYCLES).copied().unwrap_or_default();
            }
        }
        Ok(fit(&cycles))
    }

    /// The sizes of frames that it is to be measured with, each with the share of packets in such
    /// frames. Those of a source are as large here as there, where the elements behind it decide.
    fn frames(&self, visit: &Visit) -> Vec<(usize, f64)> {
        if !self.plan.elements[visit.at].inputs.is_empty() {
            return vec![(self.run.vector, 1.0)];
        }
        let mean = visit.mean_vector.clamp(1.0, self.run.vector as f64);
        if mean >= SMALL {
            return vec![(mean.round() as usize, 1.0)];
        }
        // By tenths, so that a cost measured for one holds for others like it.
        let mean = (mean * 10.0).round() / 10.0;
        let below = mean.floor();
        let share = (below + 1.0) * (mean - below) / mean;
        let both = [(below as usize, 1.0 - share), (below as usize + 1, share)];
        both.into_iter().filter(|(_, share)| *share > 0.0).collect()
    }

    fn once(&self, flat: &Flat, visit: &Visit, frame_limit: usize) -> Result<Values, Failure> {
        let mut router = self.router(flat.clone(), frame_limit, false).map_err(Failure::void)?;
        self.fill_tables(&mut router, true).map_err(Failure::void)?;
        if has_limit(&self.plan.elements[visit.at]) {
            let handler = format!("{}.limit", visit.name);
            write(&mut router, &handler, &NO_LIMIT.to_string()).map_err(Failure::void)?;
        }
        // It is the first.
        let ends = drive(&mut router, TIME, |usage| usage.elements[0].packets)?;
        router.close();
        let windows = ends.windows(2).filter_map(|pair| {
            let since = pair[1].usage.since(&pair[0].usage);
            let own = since.elements.first().filter(|own| own.packets > 0)?;
            own.cycles_per_packet()
        });
        let cycles = middle(windows.collect());
        let cycles = cycles.ok_or_else(|| Failure::void("no packet came to the element"))?;
        Ok(Values::from([(value::CYCLES.into(), cycles)]))
    }

    /// The configuration in which it is alone, itself the first; or with the queue behind it, which
    /// some look at.
    fn small(&self, visit: &Visit, store: &TraceStore, with_queue: bool) -> Flat {
        let (whole, element) = (self.flat(), &self.plan.elements[visit.at]);
        let landmark = nowhere(whole);
        let declared = |at: usize| whole.elements[at].clone();
        let mut elements = vec![declared(visit.at)];
        elements.extend(self.beside(visit.at).map(declared));
        let mut connections = Vec::new();
        let mut connect = |from: (usize, usize), to: (usize, usize)| {
            let [from, to] = [from, to].map(|(element, port)| PortRef { element, port });
            connections.push(FlatConnection { from, to, landmark: landmark.clone() });
        };
        // Where it pulls, it decides itself from which input.
        let turns = element.inputs.iter().all(|input| *input == Processing::Push);
        for port in 0..element.inputs.len() {
            connect((elements.len(), 0), (0, port));
            let name = format!("lab@@tape@@{port}");
            elements.push(packet_trace::replayer(name, store, (port, turns), landmark.clone()));
        }
        let queue = self.queue_behind(visit.at).filter(|_| with_queue).map(|queue| {
            elements.push(declared(queue));
            elements.len() - 1
        });
        // The output ends at once. But where ways can meet again, packets are numbered that part.
        let mut end = |name: String| {
            elements.push(packet_trace::collector(name, visit.scattered, landmark.clone()));
            elements.len() - 1
        };
        let mut ends = BTreeMap::new();
        for (port, meets) in
            branches::rejoining_outputs(&self.plan, visit.at).into_iter().enumerate()
        {
            let to = end(format!("lab@@end@@{port}"));
            match queue.filter(|_| port == 0) {
                Some(queue) => {
                    connect((0, port), (queue, 0));
                    connect((queue, 0), (to, 0));
                }
                None => connect((0, port), (to, 0)),
            }
            if let Some(first) = meets {
                let meet = || end(format!("lab@@end@@of@@{port}"));
                connect((to, 0), (*ends.entry(first).or_insert_with(meet), 0));
            }
        }
        elements.extend(packet_trace::keeping_as(&self.plan, &landmark));
        elements.push(packet_trace::run_timer(None, landmark));
        let requirements = whole.requirements.clone();
        let variables = whole.variables.clone();
        Flat { file: whole.file, elements, connections, requirements, variables }
    }

    /// The first element behind it in which packets wait to be pulled.
    fn queue_behind(&self, at: usize) -> Option<usize> {
        let mut open = vec![at];
        let mut seen = Vec::new();
        while let Some(at) = open.pop() {
            let PlanElement { inputs, outputs, targets, .. } = &self.plan.elements[at];
            if inputs.contains(&Processing::Push) && outputs.contains(&Processing::Pull) {
                return Some(at);
            }
            seen.push(at);
            let next = targets.iter().flatten().map(|to| to.element);
            open.extend(next.filter(|next| !seen.contains(next)));
        }
        None
    }

    /// The elements without connections that it may need.
    fn beside(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let named = self.named(at);
        (0..self.count()).filter(move |other| {
            let informs = INFORMATION.contains(&self.plan.elements[*other].class.name);
            named.contains(other) || informs && self.is_apart(*other)
        })
    }

    /// The elements apart from it that its arguments name.
    fn named(&self, at: usize) -> Vec<usize> {
        let PlanElement { name, config, .. } = &self.plan.elements[at];
        let is_name = |letter: char| letter.is_alphanumeric() || "_@/".contains(letter);
        let words = config.split(|letter| !is_name(letter));
        let named = words.filter_map(|word| self.plan.resolve(word, name));
        named.filter(|other| *other != at && self.is_apart(*other)).collect()
    }

    fn is_apart(&self, at: usize) -> bool {
        let element = &self.plan.elements[at];
        element.inputs.is_empty() && element.outputs.is_empty()
    }

    /// The writes to it and to those beside it before the run.
    fn learnt(&self, at: usize) -> Vec<(&str, &str)> {
        let there: Vec<usize> = self.beside(at).chain([at]).collect();
        let writes = self.run.writes.iter().filter_map(|(handler, value)| {
            let (element, handler) = handler.rsplit_once('.')?;
            let is_there = there.iter().any(|at| self.plan.elements[*at].name == element);
            is_there.then_some((handler, value.as_str()))
        });
        writes.collect()
    }
}

/// A cost that holds for the frames it was measured with. It is the least that was found.
pub(super) fn fit(cycles: &[f64]) -> ElementFit {
    let least = cycles.iter().copied().reduce(f64::min).unwrap_or_default();
    let most = cycles.iter().copied().fold(least, f64::max);
    ElementFit {
        cost: Cost::new(least, 0.0),
        per_packet: Estimate { value: least, low: least, high: most },
        per_frame: Estimate { value: 0.0, low: 0.0, high: 0.0 },
        // How far off it is in a whole is another question (`monte_carlo`).
        samples: Vec::new(),
        points: cycles.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::packet_counts::tests::trial, *};

    fn visit(trial: &Trial, class: &str) -> Visit {
        let visits = trial.sample().unwrap().visits;
        visits.into_iter().find(|visit| visit.class == class).unwrap()
    }

    #[test]
    fn the_least_counts() {
        let found = fit(&[30.0, 10.0, 12.0]);
        assert_eq!(found.cost, Cost::new(10.0, 0.0));
        assert_eq!((found.per_packet.low, found.per_packet.high, found.points), (10.0, 30.0, 3));
    }

    #[test]
    fn small_configurations_have_the_needed_elements() {
        let text = "AddressInfo(left 198.18.0.1/24); t :: ARPTable; u :: ARPTable;
            FromDevice(a) -> Strip(14) -> GetIPAddress(16)
            -> [0] q :: ARPQuerier(left, 2:0:0:0:0:1, TABLE t) -> d :: Discard; FromDevice(b) -> [1] q; q [1] -> d; Script(print t.table)";
        let trial = trial(text, &[]);
        let store = TraceStore::with(PacketTrace::default());
        let flat = trial.small(&visit(&trial, "ARPQuerier"), &store, false);
        let classes: Vec<&str> = flat.elements.iter().map(|one| &*one.class).collect();
        // Both inputs are played to, and packets of both outputs could meet.
        let wanted = [
            "ARPQuerier",
            "AddressInfo",
            "ARPTable",
            // The addresses of the devices.
            "AddressInfo",
            "lab@@player",
            "lab@@player",
            "lab@@taker",
            "lab@@taker",
            "lab@@taker",
            // Annotations of packets are kept, as in the whole.
            "lab@@annotated",
            "lab@@keeper",
        ];
        assert_eq!(classes, wanted);
        assert_eq!(flat.connections.len(), 6);
        assert!(trial.router(flat, 256, false).is_ok());
    }

    #[test]
    fn pulling_elements_have_a_replayer_for_each_input() {
        let text = "FromDevice(a) -> Queue -> [0] s :: RoundRobinSched -> Discard;
                    FromDevice(b) -> Queue -> [1] s";
        let trial = trial(text, &[]);
        let store = TraceStore::with(PacketTrace::default());
        let flat = trial.small(&visit(&trial, "RoundRobinSched"), &store, false);
        let players = flat.elements.iter().filter(|one| one.class == "lab@@player");
        assert_eq!(players.count(), 2);
        assert!(trial.router(flat, 256, false).is_ok());
    }

    #[test]
    fn keys_tell_arguments_packets_and_surroundings_apart() {
        let key = |text: &str| visit(&trial(text, &[]), "Classifier").alone.unwrap();
        let one = key("FromDevice(a) -> c :: Classifier(12/0800) -> Discard");
        assert!(one.starts_with("Classifier(12/0800) #"), "{one}");
        assert_eq!(one, key("FromDevice(z) -> c :: Classifier(12/0800) -> Counter -> Discard"));
        assert_ne!(one, key("FromDevice(a) -> c :: Classifier(12/0806) -> Discard"));
        assert_ne!(one, key("FromDevice(a) -> Strip(1) -> c :: Classifier(12/0800) -> Discard"));
    }

    #[test]
    fn ports_that_find_headers_have_a_key_of_their_own() {
        let key = |config: &str| {
            let trial = trial(&format!("FromDevice({config}) -> Discard"), &[]);
            visit(&trial, "FromDevice").alone.unwrap()
        };
        assert_eq!(key("a"), key("b"));
        assert_ne!(key("a"), key("a, FORCE_IP true"));
    }

    #[test]
    fn keys_differ_with_the_contents_of_tables() {
        let key = |table: &str, writes: &[(&str, &str)]| {
            let text = format!(
                "t :: ARPTable({table}); FromDevice(a) -> Strip(14) -> GetIPAddress(16)
                 -> q :: ARPQuerier(192.0.2.1, 2:0:0:0:0:1, TABLE t) -> Discard; Idle -> [1] q"
            );
            visit(&trial(&text, writes), "ARPQuerier").alone.unwrap()
        };
        let learnt = key("", &[("t.insert", "192.0.2.9 2:0:0:0:0:9")]);
        assert_ne!(learnt, key("", &[]));
        assert_ne!(key("CAPACITY 7", &[]), key("", &[]));
    }

    /// Elements are measured, of any cost: those that are pushed to, that pull, sources, and those
    /// whose ways meet again.
    #[test]
    fn elements_are_measured_alone() {
        let text = "FromDevice(a) -> c :: Counter -> s :: HashSwitch(6, 2);
            i :: InfiniteSource(LIMIT 3) -> c;
            s[0] -> RED(1, 9, 0.5) -> Null -> q :: Queue -> p :: Null -> Unqueue -> d :: Discard; s[1] -> q";
        let trial = trial(text, &[]);
        let visits = trial.sample().unwrap().visits;
        let bench = Bench::new(linerate_elements::library());
        for class in ["FromDevice", "InfiniteSource", "HashSwitch", "Queue", "Null", "RED"] {
            let visit = visits.iter().find(|visit| visit.class == class).unwrap();
            assert!(visit.alone.is_some(), "{class}");
            let found = trial.alone(&bench, visit);
            let found = found.unwrap_or_else(|error| panic!("{class}: {error}"));
            assert_eq!(found.points, REPETITIONS, "{class}");
            assert!(found.cost.per_packet.get() >= 0.0);
        }
    }
}
