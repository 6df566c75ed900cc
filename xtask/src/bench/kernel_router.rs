//! Case `router`: the example router on one core, over `xdp` ports, beside Linux forwarding.
//!
//! Both forward the same packets of the same generator between the same interfaces
//! ([`super::veth`]), in turns, each in a network of its own. Packets are counted when they arrive
//! at the sink.
//!
//! The kernel's work at `to` is always paid for by the sender. Taking frames off `from` can be done
//! on either core, which decides much, so both are measured ([`Driver`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};

use super::frames::{ROUTERS, udp};
use super::live_frames::{Counters, Generator};
use super::ours::linerate;
use super::peers::{FORWARDING_CORE, MAIN_CORE, Process, Sample, command_in};
use super::restore::{RestoreOnDrop, unique_name};
use super::row::{best, median};
use super::veth::{FORWARDER, GENERATOR, Network, SINK};
use crate::shell;

/// Of the networks at the router's two interfaces: its address, and a host.
const NETWORKS: [(&str, &str); 2] = [("198.18.0.1", "198.18.0.2"), ("198.19.0.1", "198.19.0.2")];
/// Link address given for the host at `to`. The sink has another, so that its kernel drops arriving
/// frames as early as it can.
const HOST: &str = "02:00:00:00:00:0b";
/// Time for a forwarder to get going before the rate is read.
const SETTLE: Duration = Duration::from_millis(300);
/// Time that a program may take to start.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Name of the case.
pub(super) const CASE: &str = "router";

/// Core that takes frames off `from`, the receiving part of its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// The generator's, as is usual: the sender into a veth runs its other end, too. Linux then
    /// forwards there as well, and the share of the time for that cannot be told. To have it
    /// forward on the other core (`rps_cpus`) gave a third of the rate.
    WithGenerator,
    /// The forwarder's, in a thread of the kernel's: all of the router's work is on one core. Ours
    /// sleeps when it has nothing to do, and goes before that thread when it has: otherwise the
    /// thread spends its half of the core on frames that find the socket's ring full.
    WithForwarder,
}

impl Driver {
    fn core(self) -> &'static str {
        match self {
            Driver::WithGenerator => "generator",
            Driver::WithForwarder => "forwarder",
        }
    }
}

/// The forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forwarder {
    Linux,
    Ours,
}

/// Result with the driver at one place.
#[derive(Debug)]
pub(super) struct DriverResult {
    driver: Driver,
    linux: Vec<Sample>,
    ours: Vec<Sample>,
}

/// Measures Linux and ours in turns.
pub(super) fn measure(window: Duration, repetitions: u32) -> Result<Vec<DriverResult>> {
    let program = linerate()?;
    let places = [Driver::WithGenerator, Driver::WithForwarder];
    let mut all = places.map(|driver| DriverResult { driver, linux: Vec::new(), ours: Vec::new() });
    for _ in 0..repetitions {
        for beside in &mut all {
            beside.linux.push(forward(Forwarder::Linux, beside.driver, &program, window)?);
            beside.ours.push(forward(Forwarder::Ours, beside.driver, &program, window)?);
        }
    }
    Ok(all.into())
}

/// One forwarder in a new network, for about `window`.
fn forward(who: Forwarder, driver: Driver, program: &Path, window: Duration) -> Result<Sample> {
    let network = Network::new()?;
    network.ip(&["link", "set", FORWARDER[0], "address", &ether(&ROUTERS[..6])])?;
    let mut threads = Threads::default();
    let router = match who {
        Forwarder::Linux => {
            linux(&network)?;
            None
        }
        Forwarder::Ours => {
            let router = Router::start(&network, program, driver)?;
            threads.add(&format!("/proc/{}/task/{}", router.process.id(), router.worker));
            Some(router)
        }
    };
    if driver == Driver::WithForwarder {
        threads.add(&format!("/proc/{}", driver_thread(&network, who)?));
    }
    let namespace = Some(network.namespace());
    let [(_, from), (_, to)] = NETWORKS;
    let frame = udp(from.parse()?, 1024, to.parse()?, 9);
    let generator = Generator::start(namespace, GENERATOR, MAIN_CORE, &frame)?;
    sleep(SETTLE);
    let (start, used) = (Instant::now(), threads.time()?);
    let arrived = Counters::read(namespace, SINK)?.received;
    sleep(window);
    let sample = Sample {
        packets: Counters::read(namespace, SINK)?.received - arrived,
        cpu_seconds: (threads.time()? - used).as_secs_f64(),
        seconds: start.elapsed().as_secs_f64(),
        dropped: 0,
        busy_cycles: None,
    };
    generator.stop()?;
    drop(router);
    ensure!(
        sample.packets > 0,
        "{who:?} with the driver on the {}'s core forwarded nothing",
        driver.core()
    );
    Ok(sample)
}

/// Has the kernel forward.
fn linux(network: &Network) -> Result<()> {
    for (interface, (own, _)) in FORWARDER.iter().zip(NETWORKS) {
        network.ip(&["address", "add", &format!("{own}/24"), "dev", interface])?;
    }
    let host = ["neighbour", "add", NETWORKS[1].1, "lladdr", HOST, "nud", "permanent"];
    network.ip(&[&host[..], &["dev", FORWARDER[1]]].concat())?;
    network.write("/proc/sys/net/ipv4/ip_forward", "1")?;
    network.receive_by_polling(true)
}

/// The example, running.
#[derive(Debug)]
struct Router {
    process: Process,
    /// The thread that forwards.
    worker: u32,
    _socket: RestoreOnDrop,
}

impl Router {
    fn start(network: &Network, program: &Path, driver: Driver) -> Result<Router> {
        let socket = std::env::temp_dir().join(unique_name());
        let undo = {
            let socket = socket.clone();
            RestoreOnDrop::by(move || drop(fs::remove_file(socket)))
        };
        let [left, right] = FORWARDER;
        let mut command = command_in(Some(network.namespace()), program);
        command.arg("run").arg(shell::root().join("examples/router.click"));
        command.args([format!("LEFT={left}"), format!("RIGHT={right}"), "METHOD=XDP".into()]);
        for (name, (own, _)) in ["LEFT_IP", "RIGHT_IP"].iter().zip(NETWORKS) {
            command.arg(format!("{name}={own}/24"));
        }
        if driver == Driver::WithForwarder {
            command.args(["--idle", "block"]);
        }
        command.args(["--cores", &FORWARDING_CORE.to_string(), "--quiet", "--control"]);
        command.arg(&socket).stdin(Stdio::null()).stdout(Stdio::null());
        let process = Process::spawn(&mut command, None)?;
        let start = Instant::now();
        while !socket.exists() {
            ensure!(process.is_running()?, "linerate has ended");
            ensure!(start.elapsed() < TIMEOUT, "linerate does not start");
            sleep(Duration::from_millis(10));
        }
        let host = format!("{} {HOST}", NETWORKS[1].1);
        let mut call = std::process::Command::new(program);
        shell::output(call.arg("call").arg(&socket).args(["right/arp.insert", &host]))?;
        let worker = process.thread_named("worker-0")?;
        Ok(Router { process, worker, _socket: undo })
    }
}

/// Threads that are charged: their directories in `/proc`.
#[derive(Debug, Default)]
struct Threads(Vec<PathBuf>);

impl Threads {
    fn add(&mut self, folder: &str) {
        self.0.push(folder.into());
    }

    /// Processor time they have used, as the scheduler counts it.
    fn time(&self) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for folder in &self.0 {
            let path = folder.join("schedstat");
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
            let time = nanoseconds.with_context(|| format!("cannot parse {}", path.display()))?;
            all += Duration::from_nanos(time);
        }
        Ok(all)
    }
}

/// Has a thread of its own take frames off `from`, beside the forwarder; returns its number.
fn driver_thread(network: &Network, who: Forwarder) -> Result<u32> {
    let before = driver_threads()?;
    network.write(&format!("/sys/class/net/{}/threaded", FORWARDER[0]), "1")?;
    let mut found = driver_threads()?;
    found.retain(|thread| !before.contains(thread));
    ensure!(found.len() == 1, "threads of the driver's: {found:?}");
    let id = i32::try_from(found[0]).ok().and_then(Pid::from_raw);
    let mut cores = CpuSet::new();
    cores.set(FORWARDING_CORE);
    sched_setaffinity(id, &cores).context("cannot place a thread of the kernel's")?;
    // Before other programs, as the forwarder is, and behind that where it is not the forwarder.
    let nice = if who == Forwarder::Linux { -20 } else { -10 };
    setpriority_process(id, nice).context("cannot give a thread of the kernel's precedence")?;
    Ok(found[0])
}

/// The kernel's threads that take frames off interfaces called `from`.
fn driver_threads() -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        let path = entry?.path();
        let Some(id) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        // A process may end between being listed and being read.
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.starts_with(&format!("napi/{}-", FORWARDER[0])) {
            found.push(id);
        }
    }
    Ok(found)
}

fn ether(address: &[u8]) -> String {
    let digits: Vec<_> = address.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}

impl DriverResult {
    pub(super) fn json(&self) -> Value {
        let side = |samples: &[Sample]| {
            let (rates, times) = (rates(samples), times(samples));
            json!({
                "mpps_best": highest(&rates),
                "mpps_median": median(&rates),
                "ns_best": times.as_deref().map(best),
                "ns_median": times.as_deref().map(median),
            })
        };
        json!({
            "case": CASE,
            "driver_on_core_of": self.driver.core(),
            "linux": side(&self.linux),
            "ours": side(&self.ours),
            "ratio_median": self.ratio(),
            "ratio_of": "mpps",
        })
    }

    /// The median over repetitions of our rate divided by Linux'.
    fn ratio(&self) -> f64 {
        let pairs = self.ours.iter().zip(&self.linux);
        median(&pairs.map(|(ours, linux)| ours.mpps() / linux.mpps()).collect::<Vec<_>>())
    }

    pub(super) fn print(&self) {
        println!(
            "{CASE:<16} driver on the {}'s core; ratio of rates {:.2}",
            self.driver.core(),
            self.ratio()
        );
        for (name, samples) in [("Linux", &self.linux), ("ours", &self.ours)] {
            let rates = rates(samples);
            let times = times(samples).map_or("not known".into(), |times| {
                format!("best {:.0}, median {:.0}", best(&times), median(&times))
            });
            println!(
                "{name:>16} Mpps: best {:.3}, median {:.3}; ns of processor time per packet: {times}",
                highest(&rates),
                median(&rates),
            );
        }
    }
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn rates(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(Sample::mpps).collect()
}

/// Nanoseconds of processor time per packet, where threads of the forwarder's own were measured.
fn times(samples: &[Sample]) -> Option<Vec<f64>> {
    let times = samples.iter().map(|sample| sample.cpu_cycles(1e9));
    samples.iter().all(|sample| sample.cpu_seconds > 0.0).then(|| times.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(packets: u64, cpu_seconds: f64) -> Sample {
        Sample { packets, dropped: 0, seconds: 1.0, cpu_seconds, busy_cycles: None }
    }

    #[test]
    fn processor_time_is_not_known_where_no_thread_is() {
        let beside = DriverResult {
            driver: Driver::WithGenerator,
            linux: vec![sample(2_000_000, 0.0), sample(1_000_000, 0.0)],
            ours: vec![sample(1_000_000, 0.5), sample(2_000_000, 0.5)],
        };
        let line = beside.json();
        assert_eq!(line["linux"]["ns_median"], Value::Null);
        assert_eq!(
            (&line["linux"]["mpps_best"], &line["ours"]["ns_best"]),
            (&json!(2.0), &json!(250.0))
        );
        assert_eq!(line["ratio_median"], 2.0);
    }
}
