//! Packet counts: visits of each packet to each element of a configuration, and rate of the
//! sources.
//!
//! The configuration runs on sample packets in simulated time, with a capture file in the place of
//! every port that receives and nothing behind those that send: no interface is touched, and equal
//! samples give equal counts.
//!
//! Simulated time stands still while there is something to do. So a source as fast as possible has
//! brought all its packets at once, and everything else, sources and shapers that go by the clock,
//! as much as it does in the time the run lasts. A short run resembles a processor, where next to
//! the millions of packets from ports those of timers are few. Where no source comes to its end in
//! it, the clock is what holds packets back, and longer runs say how fast they come.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_graph::{Plan, Processing, Usage};
use linerate_model::units::PacketsPerSecond;
use serde::Serialize;

use super::{
    SampleError, branches,
    trial::{SimulatedRun, StopCondition, Trial},
};
use crate::{packet_trace::PacketTrace, stand_in::PathRole};

/// Simulated time in which sources as fast as possible bring all their packets.
const SHORT_RUN: Duration = Duration::from_millis(1);
/// More packets than a source that goes by the clock brings in it, which begins with some
/// hundredth of a second's.
const PACKETS_MAX: u64 = 1 << 20;
/// Share of the fastest source's packets that another, equally fast source makes at least.
const AS_FAST: f64 = 0.9;
/// Packets that say how fast they come, and the longest time in which they may.
const PACKETS_NEEDED: u64 = 256;
const RUN_MAX: Duration = Duration::from_secs(4096);
/// Longest time of a run whose time is to be doubled once more.
const TIMEOUT: Duration = Duration::from_secs(2);

/// An element packets came through.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Visit {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: &'static str,
    /// Its configuration.
    pub config: String,
    /// Number of its outputs.
    pub outputs: u32,
    /// Its part on the packets' path.
    pub part: PathRole,
    /// Times a packet comes through, on average of all that were brought.
    pub times: f64,
    /// Packets at a time.
    pub mean_vector: f64,
    /// The share of all packets that it dropped.
    pub dropped: f64,
    /// Whether packets set out from it, by a task of its own.
    pub starts: bool,
    /// Whether ways that part at it meet again.
    pub meets: bool,
    /// Whether packets that took different ways met at it, where they were put in order.
    pub ordered: bool,
    /// Name in a calibration of its cost alone, with its arguments and on its recorded packets;
    /// `None` where it cannot be measured.
    #[serde(skip)]
    pub alone: Option<String>,
    /// Whether buffers come back in another order than they were handed out in, because ways part
    /// somewhere.
    #[serde(skip)]
    pub(super) scattered: bool,
    /// The recorded packets of its inputs.
    #[serde(skip)]
    pub(super) trace: Arc<PacketTrace>,
    /// Its place in the configuration.
    #[serde(skip)]
    pub(super) at: usize,
}

/// Result of a run on samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The elements packets came through, in the order of the configuration; none where no packet
    /// ever came.
    pub visits: Vec<Visit>,
    /// Packets per second that all sources bring at most, where the clock says so.
    pub most: Option<f64>,
}

impl Trial {
    /// Runs the configuration on samples, and counts.
    ///
    /// # Errors
    ///
    /// When it cannot be run without its ports.
    pub fn sample(&self) -> Result<Sampled, SampleError> {
        let (mut time, mut limit, mut until) = (SHORT_RUN, self.most_made(), StopCondition::Over);
        let mut run = self.simulate(time, limit, until, false)?;
        let mut most = None;
        let is_port = |at: &usize| self.replaced(*at).is_some();
        let mut ports = self.sources().filter(is_port);
        let mut is_free = run.is_cut || ports.any(|at| self.has_brought(&run.usage, at, limit));
        if !is_free {
            let more = self.simulate(time, PACKETS_MAX, until, false)?;
            is_free = more.is_cut || self.is_done(&more.usage, PACKETS_MAX);
            if !is_free {
                (run, limit) = (more, PACKETS_MAX);
            }
        }
        if !is_free {
            let mut before = self.brought(&run.usage);
            loop {
                let start = Instant::now();
                run = self.simulate(2 * time, limit, until, false)?;
                let brought = self.brought(&run.usage);
                if run.is_cut || self.is_done(&run.usage, limit) {
                    // Either they came as fast before, or they set out now and nothing holds them.
                    most = (before >= PACKETS_NEEDED).then(|| before as f64 / time.as_secs_f64());
                    time *= 2;
                    break;
                }
                most = Some(brought.saturating_sub(before) as f64 / time.as_secs_f64());
                time *= 2;
                if brought.saturating_sub(before) >= PACKETS_NEEDED
                    || time >= RUN_MAX
                    || start.elapsed() > TIMEOUT
                {
                    break;
                }
                before = brought;
            }
        }
        if is_free {
            let first = self.simulate(time, limit, StopCondition::First, false)?;
            if !self.are_as_fast(&first.usage, limit) {
                (run, until) = (first, StopCondition::First);
            }
        }
        let mut visits = self.visits(&run.usage);
        // Elements without recorded packets cannot be measured alone.
        if let Ok(SimulatedRun { mut traces, .. }) = self.simulate(time, limit, until, true) {
            for visit in &mut visits {
                visit.trace = Arc::new(std::mem::take(&mut traces[visit.at]));
                visit.alone = self.key(visit);
            }
        }
        Ok(Sampled { visits, most })
    }

    /// The assumed rate of the sources, in words.
    pub fn assumed(&self, sampled: &Sampled) -> String {
        let came = |at: &usize| sampled.visits.iter().any(|visit| visit.at == *at);
        let class = |at: usize| match self.replaced(at) {
            Some(replaced) => replaced.class,
            None => self.plan.elements[at].class.name,
        };
        let mut classes: Vec<&str> = self.sources().filter(came).map(class).collect();
        classes.sort_unstable();
        classes.dedup();
        let names = classes.join(", ");
        match sampled.most {
            _ if classes.is_empty() => "no packet comes: nothing here brings one".into(),
            Some(most) => {
                let most = PacketsPerSecond::new(most);
                format!("packets of {names} come by the clock, {most} at most")
            }
            None => format!(
                "packets of {names} come as fast as they are taken, those of timers at their rate"
            ),
        }
    }

    /// Packets that all sources have brought.
    pub(super) fn brought(&self, usage: &Usage) -> u64 {
        self.sources().map(|at| usage.elements[at].packets).sum()
    }

    /// Returns true if a source has brought all its packets, those that make packets being told to
    /// make `limit`.
    fn is_done(&self, usage: &Usage, limit: u64) -> bool {
        self.sources().any(|at| self.has_brought(usage, at, limit))
    }

    /// Returns true if each source that makes packets has made about as many as the first to make
    /// `limit`. Behind full queues they make as many as are pulled; at the end all had made as
    /// many.
    fn are_as_fast(&self, usage: &Usage, limit: u64) -> bool {
        self.makers().all(|at| usage.elements[at].packets as f64 > AS_FAST * limit as f64)
    }

    fn has_brought(&self, usage: &Usage, source: usize, limit: u64) -> bool {
        let (brought, has) = (usage.elements[source].packets, self.has(source, limit));
        brought > 0 && brought >= has
    }

    fn visits(&self, usage: &Usage) -> Vec<Visit> {
        let brought = self.brought(usage);
        let came: Vec<bool> = (0..self.count()).map(|at| usage.elements[at].packets > 0).collect();
        let scattered = (0..self.count()).any(|at| branches::splits(&self.plan, at, &came));
        let ordered = branches::reorder_points(&self.plan, &came);
        let share = |packets: u64| packets as f64 / brought.max(1) as f64;
        let visit = |at: usize| {
            let (element, usage) = (&self.plan.elements[at], &usage.elements[at]);
            let (part, class, config) = match self.replaced(at) {
                Some(replaced) => (replaced.part, replaced.class, &replaced.config),
                None => (PathRole::Element, element.class.name, &element.config),
            };
            Visit {
                name: element.name.clone(),
                class,
                config: config.clone(),
                outputs: element.outputs.len() as u32,
                part,
                times: share(usage.packets),
                mean_vector: usage.mean_frame(),
                dropped: share(usage.dropped() + usage.nowhere),
                starts: starts(&self.plan, at),
                meets: branches::rejoining_outputs(&self.plan, at).iter().any(Option::is_some),
                ordered: ordered[at],
                alone: None,
                scattered,
                trace: Arc::default(),
                at,
            }
        };
        (0..self.count()).filter(|at| came[*at]).map(visit).collect()
    }
}

/// Returns true if packets set out from an element: it has no inputs, or pulls and does not wait to
/// be pulled from.
fn starts(plan: &Plan, at: usize) -> bool {
    let element = &plan.elements[at];
    !element.inputs.contains(&Processing::Push) && !element.outputs.contains(&Processing::Pull)
}

#[cfg(test)]
pub(super) mod tests {
    use linerate_graph::lang::{Globals, SourceMap, load};

    use super::*;
    use crate::{FrameMaker, plan::SampleRun};

    pub(in crate::plan) fn trial(text: &str, writes: &[(&str, &str)]) -> Trial {
        let library = linerate_elements::library();
        let mut sources = SourceMap::new();
        let file = sources.add("config", text);
        let mut loader = |_: &str, _: &str| Err(None);
        let (flat, found) = load(&mut sources, file, &library, &Globals::default(), &mut loader);
        assert!(!found.has_errors(), "{}", found.click());
        let mut frame = vec![0; 60];
        frame[12] = 8;
        let mut sample = FrameMaker::of_frames(vec![frame]).unwrap();
        let own = |&(handler, value): &(&str, &str)| (handler.to_owned(), value.to_owned());
        let run = SampleRun { writes: writes.iter().map(own).collect(), ..SampleRun::default() };
        Trial::new(flat, &library, &mut sample, run).unwrap()
    }

    fn count(text: &str) -> Vec<Visit> {
        trial(text, &[]).sample().unwrap().visits
    }

    fn times(visits: &[Visit], name: &str) -> f64 {
        let visit = visits.iter().find(|visit| visit.name == name);
        visit.map_or(0.0, |visit| visit.times)
    }

    #[test]
    fn packets_are_counted_where_they_come_through() {
        let visits = count(
            "FromDevice(no-such-interface) -> all :: Counter -> kind :: Classifier(12/0800, -);
             kind[0] -> t :: Tee(3) -> q :: Queue -> ToDevice(no-such-interface);
             t[1] -> halves :: RoundRobinSwitch; halves[0] -> half :: Discard;
             halves[1] -> Discard; t[2] -> Discard; kind[1] -> never :: Discard;
             ControlSocket(TCP, 7777);",
        );
        assert_eq!(visits[0].part, PathRole::Receive);
        assert_eq!((visits[0].class, &*visits[0].config), ("FromDevice", "no-such-interface"));
        for (name, wanted) in
            [("all", 1.0), ("kind", 1.0), ("t", 1.0), ("half", 0.5), ("never", 0.0)]
        {
            assert_eq!(times(&visits, name), wanted, "{name}");
        }
        let sent = visits.iter().find(|visit| visit.part == PathRole::Transmit).unwrap();
        assert_eq!((sent.class, sent.times), ("ToDevice", 1.0));
        let all = visits.iter().find(|visit| visit.name == "all").unwrap();
        assert_eq!(all.mean_vector, 256.0);
    }

    /// A source of its own, without a limit, is given one.
    #[test]
    fn sources_without_end_come_to_one() {
        let visits = count("i :: InfiniteSource -> Queue -> d :: Discard;");
        assert_eq!(times(&visits, "d"), 1.0);
        let visits = count("r :: RatedSource(RATE 1000000) -> IPFilter(deny all) -> d :: Discard;");
        assert_eq!(times(&visits, "d"), 0.0);
    }

    /// Sources behind queues that are pulled from less often bring less.
    #[test]
    fn sources_bring_as_much_as_is_pulled() {
        let visits = count(
            "a :: InfiniteSource -> Queue(10) -> s :: StrideSched(1, 9) -> d :: Discard;
             b :: InfiniteSource -> Queue(10) -> [1] s;",
        );
        for (name, wanted) in [("a", 0.1), ("b", 0.9), ("d", 1.0)] {
            let found = times(&visits, name);
            assert!((found - wanted).abs() < 0.01, "{name}: {found}");
        }
    }

    /// Names of interfaces that are not there stand for addresses all the same.
    #[test]
    fn devices_that_are_not_here_have_an_address() {
        let visits = count(
            "AddressInfo(left 198.18.0.1/24);
             FromDevice(left) -> EtherEncap(0x0800, left:eth, 2:0:0:0:0:9)
             -> a :: ARPResponder(left left:eth) -> Discard;",
        );
        assert_eq!(times(&visits, "a"), 1.0);
    }

    /// An element that receives and sends is a port on each side.
    #[test]
    fn packets_of_both_ways_are_counted() {
        let visits = count(
            "FromDevice(a) -> c :: Counter -> k :: KernelTap(10.0.0.1/8) -> d :: Discard;
             FromDevice(b) -> k",
        );
        let of = |part: PathRole| visits.iter().filter(move |one| one.part == part);
        assert_eq!(of(PathRole::Receive).count(), 3);
        let sent: Vec<_> = of(PathRole::Transmit).map(|one| (one.class, one.times)).collect();
        assert_eq!(sent, [("KernelTap", 2.0 / 3.0)]);
        assert_eq!(times(&visits, "d"), 1.0 / 3.0);
    }

    /// Devices whose packets are pulled, those that find headers, and those that pass packets on.
    #[test]
    fn ports_are_pushed_or_pulled_as_their_neighbours() {
        for between in ["", "Counter ->"] {
            let text = format!("FromDump(no-such-file) -> {between} Unqueue -> d :: Discard;");
            assert_eq!(times(&count(&text), "d"), 1.0, "{text}");
        }
        let visits =
            count("f :: FromDevice(a, FORCE_IP true) -> ip :: Discard; f[1] -> other :: Discard;");
        // An Ethernet header of IP, and zeros.
        assert_eq!(times(&visits, "ip") + times(&visits, "other"), 1.0);
        let visits = count("FromDevice(a) -> w :: ToDump(no-such-file) -> d :: Discard;");
        assert_eq!((times(&visits, "w"), times(&visits, "d")), (1.0, 1.0));
    }

    /// Ends that a configuration orders are left out: the run counts until its own end.
    #[test]
    fn runs_do_not_end_by_themselves() {
        for end in ["Script(stop)", "DriverManager(stop)", "DriverManager(pause)"] {
            let visits = count(&format!("FromDevice(a) -> d :: Discard; {end}"));
            assert_eq!(times(&visits, "d"), 1.0, "{end}");
        }
        let visits =
            count("InfiniteSource(LIMIT 3, STOP true) -> d :: Discard; FromDevice(a) -> d");
        assert_eq!(times(&visits, "d"), 1.0);
    }

    #[test]
    fn timed_elements_give_their_rate() {
        for (text, rate) in [
            ("RatedSource(RATE 1000) -> Discard", 1000.0),
            ("RatedSource(RATE 3000000) -> Discard", 3_000_000.0),
            ("TimedSource(0.1s) -> Discard", 10.0),
            ("InfiniteSource -> Queue(10) -> RatedUnqueue(5000) -> Discard", 5000.0),
            ("FromDump(no-such-file) -> RatedUnqueue(1000) -> Discard", 1000.0),
            ("Idle -> Discard", 0.0),
        ] {
            let trial = trial(text, &[]);
            let sampled = trial.sample().unwrap();
            let most = sampled.most.unwrap_or_else(|| panic!("{text}: they come at once"));
            assert!((most - rate).abs() <= 0.05 * rate, "{text}: {most}");
            let said = if rate > 0.0 { "come by the clock" } else { "no packet comes" };
            assert!(trial.assumed(&sampled).contains(said), "{}", trial.assumed(&sampled));
        }
        // Next to the packets of ports, those of timers are few.
        let both = trial("FromDevice(a) -> d :: Discard; RatedSource(RATE 1000) -> d", &[]);
        let Sampled { visits, most } = both.sample().unwrap();
        assert_eq!((times(&visits, "d"), most), (1.0, None));
        let timer = visits.iter().find(|one| one.class == "RatedSource");
        assert!(timer.is_none_or(|one| one.times < 0.01), "{timer:?}");
        // Nothing came: that is an answer, too.
        for nothing in ["Idle -> Discard", ""] {
            assert!(trial(nothing, &[]).sample().unwrap().visits.is_empty(), "{nothing}");
        }
    }

    #[test]
    fn ways_that_meet_again_are_seen() {
        let seen = |text: &str, is: fn(&Visit) -> bool| {
            let sampled = trial(text, &[]).sample().unwrap();
            let seen = sampled.visits.into_iter().filter(is);
            seen.map(|visit| visit.name).collect::<Vec<_>>()
        };
        for (behind, met) in [
            ("s[0] -> Counter -> d :: Discard; s[1] -> Null -> d", true),
            ("s[0] -> Discard; s[1] -> Discard", false),
            ("s[0] -> Queue -> Discard; s[1] -> Queue -> Discard", false),
        ] {
            let text = format!("FromDevice(a) -> s :: RoundRobinSwitch; {behind}");
            assert_eq!(seen(&text, |visit| visit.meets), ["s"][..usize::from(met)], "{behind}");
            assert_eq!(seen(&text, |visit| visit.ordered), ["d"][..usize::from(met)], "{behind}");
        }
    }

    #[test]
    fn ways_that_part_scatter_packets() {
        let kinds = "k :: Classifier(12/0800, -); k[0] -> Discard; k[1] -> Discard";
        let scattered = |text: &str| count(text).iter().all(|visit| visit.scattered);
        assert!(!scattered(&format!("FromDevice(a) -> {kinds}")));
        let dealt = "s :: RoundRobinSwitch; s[0] -> d :: Discard; s[1] -> Null -> d";
        assert!(scattered(&format!("FromDevice(a) -> {dealt}")));
    }

    #[test]
    fn a_failed_handler_write_is_an_error() {
        let error = trial("FromDevice(a) -> Discard;", &[("no.such", "1")]).sample().unwrap_err();
        assert!(error.to_string().contains("no.such"), "{error}");
    }
}
