//! A device between generator and sink: a configuration in this process, or
//! anything outside.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use linerate_graph::{Library, Options, Plan, Router, lang::SourceMap};
use linerate_lab::{
    FCS, LINE_OVERHEAD, Rate, Traffic,
    procedures::{self, Platform, Report, TrialOptions},
    search::{self, Goal, Settings, Unsent},
    trials::{self, Device, Outcome, RunError, Runner, Tester, TesterOptions, Wire},
};
use linerate_linux::machine::{parse_cores, pin_current_thread};
use linerate_memory::Arena;
use linerate_model::units::{PacketsPerSecond, Seconds};
use linerate_packet::MacAddr;
use linerate_port::{Context, Direction, PortUri, open};
use linerate_worker::Stop;
use serde_json::json;

use super::show::Show;
use crate::{
    args::{Bench, Known},
    configuration::{Parsed, click_path},
    exit::{ConfigurationError, UsageError, cannot_read},
    resources, session,
    units::with_unit,
};

/// The ports of a device in this process, by the variable that names them.
const PORTS: [(&str, &str); 2] = [("IN", "ring:in"), ("OUT", "ring:out")];
/// A device that does nothing, to measure the platform with.
const BARE: &str = "FromPort($IN) -> ToPort($OUT)";
/// Time for which the links of ports are waited for.
const LINK_PATIENCE: Duration = Duration::from_secs(2);
/// Time for which frames that are still on the way are waited for there.
const BARE_RESIDUAL: Duration = Duration::from_millis(200);

/// A device under test, ready for trials.
pub(super) struct TestBed {
    show: Show,
    runner: DeviceRunner,
    /// Limits of generator and sink by themselves.
    pub(super) platform: Platform,
    /// The highest load to try.
    pub(super) highest: PacketsPerSecond,
    mean_size: f64,
    speed: Option<u64>,
    pub(super) trial_options: TrialOptions,
}

/// The tester with the device it tests.
struct DeviceRunner {
    // Dropped first: it takes back the buffers that the device holds.
    tester: Tester,
    device: Option<Device>,
}

impl Runner for DeviceRunner {
    fn run(&mut self, order: &trials::Order) -> Result<Outcome, RunError> {
        let outcome = self.tester.run(order)?;
        match self.device.as_ref().and_then(Device::failure) {
            Some(reason) => Err(RunError::Device(reason)),
            None => Ok(outcome),
        }
    }
}

impl TestBed {
    /// Sets the device up, measures the platform, and sees whether goals of
    /// these can be told from its own losses.
    pub(super) fn open(
        args: &Bench,
        library: &Library,
        command: &str,
        goals: &[Goal],
    ) -> Result<TestBed> {
        let stop = session::stop_on_signals()?;
        let show = Show::new(args.output);
        let cores = match &args.cores {
            None => Vec::new(),
            Some(text) => {
                parse_cores(text).map_err(|error| UsageError(format!("--cores {text}: {error}")))?
            }
        };
        // Threads without a core of their own would share the tester's.
        let wanted = if args.tx.is_some() { 1 } else { 1 + usize::from(args.workers) };
        if !cores.is_empty() && cores.len() < wanted {
            return Err(UsageError(format!(
                "--cores {}: name {wanted}, for generator and sink and for each worker",
                args.cores.as_deref().unwrap_or_default()
            ))
            .into());
        }
        let (own, device_cores) =
            cores.split_first().map_or((None, &[][..]), |(own, rest)| (Some(*own), rest));
        if let Some(core) = own {
            pin_current_thread(core)?;
        }
        let setup = Setup { args, library, show, stop, cores: device_cores.to_vec() };
        let traffic = args.flows.traffic(None)?;
        guard(&traffic, args.isolated)?;
        let trial_options = TrialOptions {
            residual: args.residual,
            unsent: Unsent::Void(args.void_above),
            retries: args.retries,
        };
        let (mut runner, speed, what) = match (&args.tx, &args.rx) {
            (Some(tx), Some(rx)) => setup.outside(tx, rx)?,
            _ => setup.inside(None)?,
        };
        let mean_size = runner.tester.mean_len() + FCS as f64;
        show.start(
            &[what.clone(), format!("{} bytes, {} at a time", args.flows.size, args.burst)],
            &json!({
                "command": command,
                "device": what,
                "sizes": args.flows.size.to_string(),
                "mean_size": mean_size,
                "burst": args.burst,
                "vector": args.vector,
                "workers": args.workers,
                "idle": args.idle.name(),
                "queue": args.queue,
            }),
        )?;
        let mut observe = |report: &Report| drop(show.preparation(report));
        let strictest = goals.iter().map(|goal| goal.loss_ratio).reduce(f64::min);
        let told = strictest.filter(|_| !args.force);
        let most = args.max_rate.and_then(|rate| rate.packets_per_second(mean_size, speed).ok());
        let most = most.flatten().map(PacketsPerSecond::new);
        let measured = if args.tx.is_some() {
            // The device cannot be left out: a load that it surely forwards.
            procedures::platform(&mut runner, 0.01, most, told, &trial_options, &mut observe)?
        } else {
            // Only one of the two runs at a time: they would share the cores.
            drop(runner);
            let (mut bare, ..) = setup.inside(Some(BARE))?;
            // Nothing is on the way for long between two rings.
            let residual = trial_options.residual.min(BARE_RESIDUAL);
            let trial_options = TrialOptions { residual, ..trial_options };
            let measured =
                procedures::platform(&mut bare, 0.1, most, told, &trial_options, &mut observe)?;
            drop(bare);
            runner = setup.inside(None)?.0;
            measured
        };
        let Some(platform) = measured else {
            bail!(
                "nothing came back from the device, even at low rates: does it forward to the port \
                 it is listened at, and do frames have the addresses it wants (--dst-mac, --dst)?"
            );
        };
        if let Some(goal) = goals.iter().find(|goal| !platform.resolves(goal))
            && !args.force
        {
            bail!(
                "this platform loses {:.3} % of the frames by itself, so that a loss of {:.3} % \
                 cannot be told from it: quieten the machine, look for a goal with more loss \
                 (--goal pdr, --loss), or go on with --force",
                platform.limits.own_loss * 100.0,
                goal.loss_ratio * 100.0
            );
        }
        show.platform(&platform, args.tx.is_none())?;
        let mut bed = TestBed {
            show,
            runner,
            platform,
            highest: platform.highest,
            mean_size,
            speed,
            trial_options,
        };
        if let Some(speed) = speed {
            let bits = 8.0 * (mean_size + LINE_OVERHEAD as f64);
            bed.highest = bed.highest.min(PacketsPerSecond::new(speed as f64 / bits));
        }
        if let Some(rate) = args.max_rate {
            bed.highest = bed.highest.min(bed.rate("--max-rate", rate)?);
        }
        Ok(bed)
    }

    /// A rate as typed, in frames.
    pub(super) fn rate(&self, option: &str, rate: Rate) -> Result<PacketsPerSecond> {
        let known = rate
            .packets_per_second(self.mean_size, self.speed)
            .map_err(|reason| UsageError(format!("{option} {rate}: {reason}")))?;
        Ok(known.map_or(self.highest, PacketsPerSecond::new))
    }

    pub(super) fn show(&self) -> Show {
        self.show
    }

    /// Runs a procedure, showing its trials. `None` if the user broke it off.
    pub(super) fn run<T>(
        &mut self,
        procedure: impl FnOnce(
            &mut dyn Runner,
            &TrialOptions,
            &mut dyn FnMut(&Report),
        ) -> Result<T, RunError>,
    ) -> Result<Option<T>> {
        let show = self.show;
        let mut shown = Ok(());
        let mut observe = |report: &Report| {
            if let Err(error) = show.trial(report) {
                shown = Err(error);
            }
        };
        let outcome = procedure(&mut self.runner, &self.trial_options, &mut observe);
        match outcome {
            Err(RunError::Interrupted) => {
                show.interrupted()?;
                Ok(None)
            }
            outcome => {
                shown?;
                Ok(Some(outcome?))
            }
        }
    }

    /// The loads that a search for these goals is between.
    pub(super) fn settings(&self, goals: &[Goal]) -> Settings {
        let least =
            goals.iter().map(lowest).fold(self.highest * 0.5, |least, load| least.min(load));
        Settings::between(least, self.highest)
    }

    /// The device's throughput: as said, or found in short trials. `None` if
    /// the user broke it off.
    pub(super) fn throughput(&mut self, known: &Known) -> Result<Option<PacketsPerSecond>> {
        if let Some(rate) = known.throughput {
            return self.rate("--throughput", rate).map(Some);
        }
        let goal = Goal {
            final_trial: Seconds::new(0.2),
            initial_trial: Seconds::new(0.2),
            duration_sum: Seconds::new(1.0),
            width: 0.02,
            ..Goal::ndr()
        };
        let settings = self.settings(&[goal]);
        let found = self.run(|runner, trial_options, observe| {
            procedures::throughput(runner, vec![goal], settings, trial_options, observe)
        })?;
        let Some(found) = found else { return Ok(None) };
        if found.interrupted {
            self.show.interrupted()?;
            return Ok(None);
        }
        let result = found.goals[0];
        let Some(rate) = result.lower else {
            bail!("the device loses frames at every load: say a --throughput to measure it at");
        };
        let line = format!("throughput, from trials of 0.2 s: {}", with_unit(rate.get(), "pps"));
        self.show.event("throughput", &[line], &result)?;
        Ok(Some(rate))
    }
}

/// The lowest load at which a goal's shortest trial has frames enough to tell
/// its share of loss.
fn lowest(goal: &Goal) -> PacketsPerSecond {
    let frames = if goal.loss_ratio > 0.0 { 2.0 / goal.loss_ratio } else { 10.0 };
    PacketsPerSecond::new(frames / goal.initial_trial.get())
}

/// Means of setting a device up, once or twice.
struct Setup<'a> {
    args: &'a Bench,
    library: &'a Library,
    show: Show,
    stop: Stop,
    cores: Vec<u32>,
}

impl Setup<'_> {
    /// A tester and a configuration in this process: the user's, or another.
    fn inside(&self, text: Option<&str>) -> Result<(DeviceRunner, Option<u64>, String)> {
        let args = self.args;
        let (plan, sources, name) = self.plan(text)?;
        let held = plan.packets_held() + 2 * args.queue as usize;
        let arena = resources::arena_for(&args.memory, held)?;
        let context = Context::new(arena.clone());
        let uri = |port: usize| {
            let text = format!("{}?slots={}", PORTS[port].1, args.queue);
            text.parse::<PortUri>().context("a ring's name")
        };
        let (_, transmits) = session::split(open(&uri(0)?, &context.toward(Direction::Transmit))?);
        let (receives, _) = session::split(open(&uri(1)?, &context.toward(Direction::Receive))?);
        let transmit = transmits.into_iter().next().context("a ring has a transmitting side")?;
        let tester = self.tester(&arena, Box::new(Wire::new(transmit)), receives, None)?;
        let options = Options {
            workers: args.workers.into(),
            frame_limit: args.vector.into(),
            idle: args.idle,
            cores: self.cores.clone(),
            ..Options::default()
        };
        let router = Router::new(plan, self.library, context, &options)
            .map_err(|error| ConfigurationError::from_build_error(error, &sources))?;
        let device = Device::start(router).context("cannot start a worker thread")?;
        Ok((
            DeviceRunner { tester, device: Some(device) },
            None,
            format!("{name}, in this process"),
        ))
    }

    /// A tester between two ports.
    fn outside(&self, tx: &PortUri, rx: &PortUri) -> Result<(DeviceRunner, Option<u64>, String)> {
        let arena = resources::arena(&self.args.memory)?;
        let context = Context::new(arena.clone());
        let (transmits, receives, speed, mac);
        let mut links = Vec::new();
        if tx == rx {
            let port = open(tx, &context)?;
            links.push((tx, port.info.link.clone()));
            (speed, mac) = (port.info.speed, port.info.mac);
            (receives, transmits) = session::split(port);
        } else {
            let port = open(tx, &context.toward(Direction::Transmit))?;
            links.push((tx, port.info.link.clone()));
            (speed, mac) = (port.info.speed, port.info.mac);
            transmits = session::split(port).1;
            let port = open(rx, &context.toward(Direction::Receive))?;
            links.push((rx, port.info.link.clone()));
            receives = session::split(port).0;
        }
        for (uri, link) in links {
            // Of a device that is not there it would be said that it loses everything.
            if let Some(link) = link.filter(|link| !link.wait_up(LINK_PATIENCE)) {
                bail!("the link of {uri} is down: {}", link.detail());
            }
        }
        let Some(transmit) = transmits.into_iter().next() else {
            return Err(UsageError(format!("{tx} cannot send")).into());
        };
        if receives.is_empty() {
            return Err(UsageError(format!("{rx} cannot receive")).into());
        }
        let tester = self.tester(&arena, transmit, receives, mac)?;
        Ok((
            DeviceRunner { tester, device: None },
            speed,
            format!("the device between {tx} and {rx}"),
        ))
    }

    fn tester(
        &self,
        arena: &Arena,
        transmit: Box<dyn linerate_port::Transmit>,
        receives: Vec<Box<dyn linerate_port::Receive>>,
        mac: Option<MacAddr>,
    ) -> Result<Tester> {
        let options = TesterOptions {
            traffic: self.args.flows.traffic(mac)?,
            burst: self.args.burst.into(),
            late: self.args.late,
            stop: self.stop.clone(),
        };
        let mut tester = Tester::new(options, arena, transmit, receives)?;
        let show = self.show;
        tester.on_tick(move |progress| show.progress(progress));
        Ok(tester)
    }

    fn plan(&self, text: Option<&str>) -> Result<(Plan, SourceMap, String)> {
        let (source, given) = self.args.device.source()?;
        let mut globals = given.clone();
        let ports = PORTS.map(|(name, port)| (name.to_owned(), port.to_owned()));
        globals.variables.extend(ports);
        let name = source.name().to_owned();
        let text = match text {
            Some(text) => text.to_owned(),
            None => source.read().map_err(|error| cannot_read(&name, error))?,
        };
        let parsed = Parsed::new(&name, &text, &globals, self.library, &click_path());
        parsed.check_variables(&given)?;
        let (plan, sources) = parsed.into_plan(self.library)?;
        Ok((plan, sources, name))
    }
}

/// RFC 6815's guard: trials go up to the generator's limit.
fn guard(traffic: &Traffic, isolated: bool) -> Result<(), UsageError> {
    let address = |bits: u128| {
        if traffic.ipv6 {
            IpAddr::from(bits.to_be_bytes())
        } else {
            IpAddr::from((bits as u32).to_be_bytes())
        }
    };
    let ranges = [traffic.variation.sources, traffic.variation.destinations];
    // Both networks are prefixes: a range lies in one if its ends do.
    let ends = ranges.into_iter().flat_map(|range| [address(range.at(0)), address(range.last())]);
    search::permit(ends, None, isolated)
        .map_err(|refused| UsageError(format!("{refused} (--isolated)")))
}
