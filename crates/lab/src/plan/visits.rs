//! How often each packet comes through each element of a configuration.
//!
//! The configuration runs on sample packets in simulated time, with a capture
//! file in the place of every port that receives and nothing behind those that
//! send: no interface is touched, and the same samples give the same counts.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use linerate_graph::{
    BuildError, Class, ElementUsage, Idle, Library, Options, Plan, PlanElement, Role, Router,
    Usage,
    lang::{Diagnostics, Flat, FlatElement},
};
use linerate_memory::{ArenaOptions, MemoryError, clock::cycles_per_second};
use linerate_port::pcap;
use serde::Serialize;
use tempfile::TempDir;

use crate::{
    FrameMaker,
    measure::{Bench, Failure, graph::drive},
    point::{Values, value},
};

/// Name of the element that ends the run.
const END: &str = "lab@@end";
/// Simulated seconds after which nothing is expected any more.
const PATIENCE: u32 = 5;
/// Least and most bytes of a buffer.
const BUFFERS: [usize; 2] = [2112, 16384];

/// What is run, and on what.
#[derive(Debug, Clone)]
pub struct SampleRun {
    /// Most packets in a frame.
    pub vector: usize,
    /// Packets that each source brings.
    pub packets: u64,
    /// Handlers written before the run: what tables would have learnt.
    pub writes: Vec<(String, String)>,
}

impl Default for SampleRun {
    fn default() -> SampleRun {
        SampleRun { vector: 256, packets: 4096, writes: Vec::new() }
    }
}

/// What an element is to the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A port that receives.
    Receive,
    /// A port that sends.
    Transmit,
    /// Something on the way.
    Element,
}

/// An element packets came through.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Visit {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: &'static str,
    /// Its configuration.
    pub config: String,
    /// How many outputs it has.
    pub outputs: u32,
    /// What it is to the packets.
    pub part: Part,
    /// Times a packet comes through, on average of all that were brought.
    pub times: f64,
    /// Packets at a time.
    pub mean_vector: f64,
    /// The share of all packets that it dropped.
    pub dropped: f64,
}

/// Why a configuration could not be run on samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// It is wrong.
    #[error("{}", .0.click().trim_end())]
    Configuration(Diagnostics),
    /// No packet came.
    #[error("no element brought a packet: nothing is known of how often others are visited")]
    NoPackets,
    /// The sample packets could not be kept in a file.
    #[error("the sample packets: {0}")]
    Sample(#[from] pcap::Error),
    /// The folder for them could not be made.
    #[error("a folder for the sample packets: {0}")]
    Folder(#[from] std::io::Error),
    /// There is no memory for packets.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// A router could not be made.
    #[error("{0}")]
    Build(BuildError),
    /// It could not be measured.
    #[error("{0}")]
    Measure(String),
    /// A handler could not be written.
    #[error("{handler}: {reason}")]
    Write {
        /// Its name.
        handler: String,
        /// Why not.
        reason: String,
    },
}

/// Runs a configuration on samples, and counts.
///
/// # Errors
///
/// When it is wrong, cannot be run without its ports, or brings no packets.
pub fn visits(
    mut flat: Flat,
    library: &Library,
    sample: &mut FrameMaker,
    sample_run: &SampleRun,
) -> Result<Vec<Visit>, SampleError> {
    let samples = Samples::of(sample, sample_run)?;
    let parts = replace_ports(&mut flat, library, ("FromDump", &samples.file()));
    name_devices(&mut flat, &parts);
    add_end(&mut flat);
    let plan = Plan::new(flat, String::new(), library).map_err(SampleError::Configuration)?;
    let unlimited: Vec<String> = sources(&plan).collect();
    let mut router = samples.router(plan, library, sample_run, true)?;
    for name in unlimited {
        write(&mut router, &format!("{name}.limit"), &sample_run.packets.to_string())?;
    }
    router.run();
    let (plan, mut usage) = router.control().usage();
    let usage = usage.swap_remove(0).elements;
    router.close();

    let counted = || plan.elements.iter().zip(&usage);
    let brought: u64 = counted()
        .filter(|(element, _)| element.inputs.is_empty())
        .map(|(_, usage)| usage.packets)
        .sum();
    if brought == 0 {
        return Err(SampleError::NoPackets);
    }
    let share = |packets: u64| packets as f64 / brought as f64;
    let visit = |(at, (element, usage)): (usize, (&PlanElement, &ElementUsage))| {
        let replaced = parts.get(at).and_then(Option::as_ref);
        let (part, class, config) = match replaced {
            Some(Replaced { part, class, config }) => (*part, *class, config.clone()),
            None => (Part::Element, element.class.name, element.config.clone()),
        };
        Visit {
            name: element.name.clone(),
            class,
            config,
            outputs: element.outputs.len() as u32,
            part,
            times: share(usage.packets),
            mean_vector: usage.mean_frame(),
            dropped: share(usage.drops.iter().sum::<u64>() + usage.nowhere),
        }
    };
    let seen = counted().enumerate().filter(|(_, (_, usage))| usage.packets > 0);
    Ok(seen.map(visit).collect())
}

/// What a configuration does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Packets that all its sources brought, per second.
    pub rate: f64,
    /// Cycles that went by for each of them.
    pub cycles: f64,
}

/// Runs a configuration on samples that come as fast as it takes them.
///
/// # Errors
///
/// When it is wrong, cannot be run without its ports, or brings no packets.
pub fn reached(
    mut flat: Flat,
    library: &Library,
    sample: &mut FrameMaker,
    sample_run: &SampleRun,
    (bench, time): (&Bench, Duration),
) -> Result<Reached, SampleError> {
    let samples = Samples::of(sample, sample_run)?;
    let port = format!("\"pcap:{}?loop=0\"", samples.path.display());
    let parts = replace_ports(&mut flat, library, ("FromPort", &port));
    name_devices(&mut flat, &parts);
    let measure = || -> Result<Values, Failure> {
        let plan = Plan::new(flat.clone(), String::new(), library);
        let plan = plan.map_err(|found| Failure::void(found.click()))?;
        let bring: Vec<usize> =
            (0..plan.elements.len()).filter(|at| plan.elements[*at].inputs.is_empty()).collect();
        let mut router = samples.router(plan, library, sample_run, false).map_err(Failure::void)?;
        let brought = move |usage: &Usage| -> u64 {
            bring.iter().map(|source| usage.elements[*source].packets).sum()
        };
        let ends = drive(&mut router, time, brought.clone())?;
        router.close();
        let mut rates: Vec<f64> = ends
            .windows(2)
            .map(|pair| {
                let packets = brought(&pair[1].1) - brought(&pair[0].1);
                packets as f64 / (pair[1].0 - pair[0].0).as_secs_f64()
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let rate = linerate_model::quantile(&rates, 0.5).filter(|rate| *rate > 0.0);
        let rate = rate.ok_or_else(|| Failure::void(SampleError::NoPackets))?;
        Ok(Values::from([(value::RATE.into(), rate)]))
    };
    let values = bench.on_own_thread(None, measure);
    let values = values.map_err(|failure| SampleError::Measure(failure.to_string()))?;
    let rate = values[value::RATE];
    Ok(Reached { rate, cycles: cycles_per_second() / rate })
}

/// Sample packets in a file.
struct Samples {
    path: PathBuf,
    buffer: usize,
    /// Goes with what is in it.
    _folder: TempDir,
}

impl Samples {
    fn of(sample: &mut FrameMaker, sample_run: &SampleRun) -> Result<Samples, SampleError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("sample.pcap");
        write_sample(&path, sample, sample_run.packets)?;
        let longest = sample.longest() + 512;
        let buffer = if longest <= BUFFERS[0] { BUFFERS[0] } else { BUFFERS[1] };
        Ok(Samples { path, buffer, _folder: folder })
    }

    /// As an argument.
    fn file(&self) -> String {
        format!("\"{}\"", self.path.display())
    }

    /// A router for them, with what tables would have learnt.
    fn router(
        &self,
        plan: Plan,
        library: &Library,
        sample_run: &SampleRun,
        simulated: bool,
    ) -> Result<Router, SampleError> {
        let arena = ArenaOptions {
            size: (plan.packets_held() + 16 * 1024) * self.buffer,
            buffer_size: self.buffer,
            huge: false,
            ..ArenaOptions::default()
        };
        let options = Options {
            frame_limit: sample_run.vector,
            simulated,
            threads: 256,
            cycles: !simulated,
            idle: Idle::Poll,
            ..Options::default()
        };
        let ports = linerate_port::Context::new(arena.create()?);
        let made = Router::new(plan, library, ports, &options);
        let mut router = made.map_err(|error| match error {
            BuildError::Configuration(found) => SampleError::Configuration(found),
            other => SampleError::Build(other),
        })?;
        for (handler, value) in &sample_run.writes {
            write(&mut router, handler, value)?;
        }
        Ok(router)
    }
}

fn write(router: &mut Router, handler: &str, value: &str) -> Result<(), SampleError> {
    let done = router.write(handler, value);
    done.map(drop)
        .map_err(|error| SampleError::Write { handler: handler.into(), reason: error.to_string() })
}

fn write_sample(file: &Path, sample: &mut FrameMaker, packets: u64) -> Result<(), pcap::Error> {
    let mut writer = pcap::Writer::create(file, &pcap::Options::new(pcap::Format::Pcap))?;
    let mut frame = vec![0; sample.longest()];
    for _ in 0..packets {
        let length = sample.next_len();
        sample.make(&mut frame[..length], 0);
        writer.write(0, length as u32, &frame[..length])?;
    }
    writer.finish()?;
    Ok(())
}

/// What was in the place of a replaced element.
struct Replaced {
    part: Part,
    class: &'static str,
    config: String,
}

/// Puts a source of samples in the place of ports, and nothing in that of what would
/// talk to others. Says what was replaced, by element.
fn replace_ports(
    flat: &mut Flat,
    library: &Library,
    (source, samples): (&str, &str),
) -> Vec<Option<Replaced>> {
    let receives = |at: usize| flat.connections.iter().any(|one| one.from.element == at);
    let sends = |at: usize| flat.connections.iter().any(|one| one.to.element == at);
    let ways: Vec<(bool, bool)> =
        (0..flat.elements.len()).map(|at| (receives(at), sends(at))).collect();
    let mut parts = Vec::with_capacity(flat.elements.len());
    for (element, ways) in flat.elements.iter_mut().zip(&ways) {
        let is_port = |class: &&Class| {
            class.role == Role::Io || matches!(class.name, "ControlSocket" | "FollowKernel")
        };
        let Some(class) = library.find(&element.class).filter(is_port) else {
            parts.push(None);
            continue;
        };
        let (part, stand_in, config) = match ways {
            (true, _) => (Part::Receive, source, samples.to_owned()),
            (false, true) => (Part::Transmit, "Discard", String::new()),
            (false, false) => (Part::Element, "AlignmentInfo", String::new()),
        };
        element.class = stand_in.into();
        let config = std::mem::replace(&mut element.config, config);
        parts.push(Some(Replaced { part, class: class.name, config }));
    }
    let two_ways = (0..parts.len()).filter(|at| parts[*at].is_some() && ways[*at] == (true, true));
    for at in two_ways.collect::<Vec<_>>() {
        parts.extend(send_apart(flat, at, parts[at].as_ref()));
    }
    parts
}

/// Gives what comes to an element that receives as well to elements of their own, one for
/// each input.
fn send_apart(flat: &mut Flat, at: usize, replaced: Option<&Replaced>) -> Vec<Option<Replaced>> {
    let Flat { elements, connections, .. } = flat;
    let mut senders: Vec<(usize, usize)> = Vec::new();
    let mut parts = Vec::new();
    for connection in connections.iter_mut().filter(|one| one.to.element == at) {
        let port = connection.to.port;
        let known = senders.iter().find(|(of, _)| *of == port).map(|(_, sender)| *sender);
        let sender = known.unwrap_or_else(|| {
            let FlatElement { name, landmark, .. } = &elements[at];
            elements.push(FlatElement {
                name: format!("{name}@@{port}"),
                class: "Discard".into(),
                config: String::new(),
                landmark: landmark.clone(),
            });
            senders.push((port, elements.len() - 1));
            parts.push(replaced.map(|Replaced { class, config, .. }| Replaced {
                part: Part::Transmit,
                class,
                config: config.clone(),
            }));
            elements.len() - 1
        });
        (connection.to.element, connection.to.port) = (sender, 0);
    }
    parts
}

/// Gives the devices that were replaced an Ethernet address where this machine
/// has no such interface: configurations name it, as in `eth0:eth`.
fn name_devices(flat: &mut Flat, parts: &[Option<Replaced>]) {
    let first =
        |replaced: &Replaced| replaced.config.split(',').next().map(str::trim).map(str::to_owned);
    let is_name = |name: &String| {
        !name.is_empty()
            && name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
    };
    let mut names: Vec<String> = parts
        .iter()
        .flatten()
        .filter(|one| matches!(one.class, "FromDevice" | "ToDevice"))
        .filter_map(first)
        .filter(is_name)
        .filter(|name| !Path::new("/sys/class/net").join(name).exists())
        .collect();
    names.sort_unstable();
    names.dedup();
    let Some(landmark) = flat.elements.first().map(|first| first.landmark.clone()) else { return };
    let addresses = names.iter().enumerate().map(|(at, name)| format!("{name} 2:0:0:0:1:{at:x}"));
    let config = addresses.collect::<Vec<_>>().join(", ");
    if !config.is_empty() {
        let (name, class) = ("lab@@devices".into(), "AddressInfo".into());
        flat.elements.push(FlatElement { name, class, config, landmark });
    }
}

fn add_end(flat: &mut Flat) {
    let Some(landmark) = flat.elements.first().map(|first| first.landmark.clone()) else { return };
    flat.elements.push(FlatElement {
        name: END.into(),
        class: "Script".into(),
        config: format!("wait {PATIENCE}s, stop"),
        landmark,
    });
}

/// Elements that make packets, for ever unless they are told a limit.
fn sources(plan: &Plan) -> impl Iterator<Item = String> {
    let makes = plan.elements.iter().filter(|element| {
        element.inputs.is_empty()
            && !element.outputs.is_empty()
            && element.class.handlers.iter().any(|handler| handler.name == "limit")
    });
    makes.map(|element| element.name.clone())
}

#[cfg(test)]
mod tests {
    use linerate_graph::lang::{Globals, SourceMap, load};

    use super::*;

    fn count(text: &str, writes: &[(&str, &str)]) -> Result<Vec<Visit>, SampleError> {
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
        let sample_run =
            SampleRun { writes: writes.iter().map(own).collect(), ..SampleRun::default() };
        visits(flat, &library, &mut sample, &sample_run)
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
            &[],
        )
        .unwrap();
        assert_eq!(visits[0].part, Part::Receive);
        assert_eq!((visits[0].class, &*visits[0].config), ("FromDevice", "no-such-interface"));
        for (name, wanted) in
            [("all", 1.0), ("kind", 1.0), ("t", 1.0), ("half", 0.5), ("never", 0.0)]
        {
            assert_eq!(times(&visits, name), wanted, "{name}");
        }
        let sent = visits.iter().find(|visit| visit.part == Part::Transmit).unwrap();
        assert_eq!((sent.class, sent.times), ("ToDevice", 1.0));
        let all = visits.iter().find(|visit| visit.name == "all").unwrap();
        assert_eq!(all.mean_vector, 256.0);
    }

    /// A source of its own, without a limit, is given one.
    #[test]
    fn sources_without_end_come_to_one() {
        let visits = count("i :: InfiniteSource -> Queue -> d :: Discard;", &[]).unwrap();
        assert_eq!(times(&visits, "d"), 1.0);
        let visits =
            count("r :: RatedSource(RATE 1000000) -> IPFilter(deny all) -> d :: Discard;", &[]);
        assert_eq!(times(&visits.unwrap(), "d"), 0.0);
    }

    /// Names of interfaces that are not there stand for addresses all the same.
    #[test]
    fn devices_that_are_not_here_have_an_address() {
        let visits = count(
            "AddressInfo(left 198.18.0.1/24);
             FromDevice(left) -> EtherEncap(0x0800, left:eth, 2:0:0:0:0:9)
             -> a :: ARPResponder(left left:eth) -> Discard;",
            &[],
        );
        assert_eq!(times(&visits.unwrap(), "a"), 1.0);
    }

    /// One that receives and sends is a port on each side.
    #[test]
    fn packets_of_both_ways_are_counted() {
        let visits = count(
            "FromDevice(a) -> c :: Counter -> k :: KernelTap(10.0.0.1/8) -> d :: Discard;
             FromDevice(b) -> k",
            &[],
        )
        .unwrap();
        let of = |part: Part| visits.iter().filter(move |one| one.part == part);
        assert_eq!(of(Part::Receive).count(), 3);
        let sent: Vec<_> = of(Part::Transmit).map(|one| (one.class, one.times)).collect();
        assert_eq!(sent, [("KernelTap", 2.0 / 3.0)]);
        assert_eq!(times(&visits, "d"), 1.0 / 3.0);
    }

    #[test]
    fn what_cannot_be_counted_is_said() {
        let error = count("Idle -> Discard;", &[]).unwrap_err();
        assert!(matches!(error, SampleError::NoPackets), "{error}");
        let error = count("FromDevice(a) -> Discard;", &[("no.such", "1")]).unwrap_err();
        assert!(error.to_string().contains("no.such"), "{error}");
    }
}
