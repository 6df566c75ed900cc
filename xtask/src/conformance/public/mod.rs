//! `cargo xtask conformance public`: configurations of public repositories, with Click and with us.
//!
//! Each one is read and started by Click, by our `click` and by `linerate check`, in a network
//! namespace with the interfaces it names, and does not run. With `--run` those that both accept
//! also run, devices replaced by captures: see [`comparison`].

pub(crate) mod captures;
mod comparison;
pub(crate) mod devices;
mod list;
mod sandbox;
pub(crate) mod text;
pub(crate) mod traffic;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use linerate_test_support::Lab;
use serde::Serialize;

use self::comparison::Comparison;
use self::list::{Entry, Platform};
use self::sandbox::Sandbox;
use crate::shell;

/// Our programs that are judged.
const PROGRAMS: [&str; 2] = ["click", "linerate"];

/// Arguments of `cargo xtask conformance public`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the configurations, as OWNER+REPO/COMMIT/PATH.
    #[arg(long, value_name = "DIR")]
    configurations: PathBuf,
    /// A checkout of Click that is built, tools included.
    #[arg(long, value_name = "DIR")]
    click: PathBuf,
    /// The folder with our `click` and `linerate`, instead of building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Only configurations whose repository or path contains this text.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    only: String,
    /// Also run those that both accept on the same packets, and compare what comes out.
    #[arg(long)]
    run: bool,
    /// The frame limits to run at.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', default_values_t = [1, 7, 32, 256])]
    vectors: Vec<u16>,
    /// Keep those that differ here, each in a folder: the configuration on captures, and these.
    #[arg(long, value_name = "DIR", requires = "run")]
    keep: Option<PathBuf>,
    /// How many of those Click accepts we must accept, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 97.0)]
    least: f64,
    /// How many of those for DPDK or netmap we must accept, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 80.0)]
    least_devices: f64,
    /// How many seconds a program may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    timeout: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The programs that are compared.
#[derive(Debug)]
struct Programs {
    click: PathBuf,
    flatten: PathBuf,
    our_click: PathBuf,
    linerate: PathBuf,
}

impl Programs {
    fn find(args: &Args) -> Result<Programs> {
        let ours = match &args.programs {
            Some(folder) => folder.clone(),
            None => super::click::build(&PROGRAMS)?,
        };
        let find = |folder: &Path, name: &str, advice: &str| match folder.join(name).canonicalize()
        {
            Ok(path) => Ok(path),
            Err(error) => bail!("{}: {error}; {advice}", folder.join(name).display()),
        };
        let advice = "build Click in its checkout: ./configure --disable-linuxmodule \
                      --enable-all-elements && make";
        let ours_advice = "build ours: cargo build --release";
        Ok(Programs {
            click: find(&args.click, "userlevel/click", advice)?,
            flatten: find(&args.click, "tools/click-flatten/click-flatten", advice)?,
            our_click: find(&ours, PROGRAMS[0], ours_advice)?,
            linerate: find(&ours, PROGRAMS[1], ours_advice)?,
        })
    }
}

/// Whether a program accepts a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Accepts,
    /// With its first complaint.
    Refuses(String),
}

impl Verdict {
    fn accepts(&self) -> bool {
        *self == Verdict::Accepts
    }

    fn from_result(ended: &sandbox::ProgramResult) -> Verdict {
        if ended.success { Verdict::Accepts } else { Verdict::Refuses(ended.complaint()) }
    }
}

/// A configuration and its results.
#[derive(Debug, Serialize)]
struct Row {
    configuration: String,
    kind: Platform,
    /// Nothing for DPDK and netmap, which stock Click does not know.
    click: Option<Verdict>,
    /// Our `click`; nothing where devices must be mapped, which `linerate` does.
    our_click: Option<Verdict>,
    linerate: Verdict,
    comparison: Option<Comparison>,
    /// Reason why ours is the better behaviour where packets differ.
    exception: Option<String>,
}

impl Row {
    /// Returns true if it counts: everything but configurations that Click refuses.
    fn counts(&self) -> bool {
        self.click.as_ref().is_none_or(Verdict::accepts)
    }

    fn we_accept(&self) -> bool {
        self.our_click.as_ref().is_none_or(Verdict::accepts) && self.linerate.accepts()
    }

    /// Returns the first failure of our programs.
    fn complaint(&self) -> String {
        let verdicts = self.our_click.iter().chain([&self.linerate]);
        let refusal = verdicts.filter_map(|verdict| match verdict {
            Verdict::Refuses(complaint) => Some(complaint.clone()),
            Verdict::Accepts => None,
        });
        let difference = self.comparison.iter().filter_map(Comparison::remark);
        refusal.chain(difference).next().unwrap_or_default()
    }
}

/// Sums of the configurations of one kind.
#[derive(Debug, PartialEq, Serialize)]
struct Totals {
    /// All of this kind.
    listed: usize,
    /// Those of them that count.
    counted: usize,
    accepted: usize,
    percent: f64,
}

impl Totals {
    fn from_rows(rows: &[Row], kind: Platform) -> Totals {
        let listed: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
        let counted: Vec<_> = listed.iter().filter(|row| row.counts()).collect();
        let accepted = counted.iter().filter(|row| row.we_accept()).count();
        Totals {
            listed: listed.len(),
            counted: counted.len(),
            accepted,
            percent: 100.0 * accepted as f64 / counted.len().max(1) as f64,
        }
    }
}

/// Number of configurations that ran, by result.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Runs {
    same: usize,
    different: usize,
    /// Of those, the ones of which an exception says why.
    explained: usize,
    left_out: usize,
    /// Packets that Click sent in those that were the same.
    packets: usize,
}

impl Runs {
    fn from_rows(rows: &[Row]) -> Runs {
        let mut runs = Runs::default();
        for row in rows {
            let Some(comparison) = &row.comparison else { continue };
            match comparison {
                Comparison::Same { packets, .. } => {
                    runs.same += 1;
                    runs.packets += packets;
                }
                Comparison::Different(_) => {
                    runs.different += 1;
                    runs.explained += usize::from(row.exception.is_some());
                }
                Comparison::LeftOut(_) => runs.left_out += 1,
            }
        }
        runs
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !shell::is_root() {
        bail!("network namespaces need root");
    }
    let mut entries = list::read(&args.configurations)?;
    entries.retain(|entry| entry.kind != Platform::Library && entry.name().contains(&args.only));
    if entries.is_empty() {
        bail!("no configuration has `{}` in its name", args.only);
    }
    let programs = Programs::find(args)?;
    let exceptions: BTreeMap<String, String> =
        toml::from_str(include_str!("exceptions.toml")).context("exceptions.toml is not valid")?;
    let lab = Lab::new();
    let mut rows = Vec::new();
    for (number, entry) in (1..).zip(&entries) {
        eprintln!("{number}/{} {}", entries.len(), entry.name());
        let mut row = judge(&lab, entry, &programs, args)?;
        row.exception = exceptions.get(&row.configuration).cloned();
        rows.push(row);
    }
    let totals = |kind| Totals::from_rows(&rows, kind);
    let (click, dpdk, wifi) =
        (totals(Platform::Click), totals(Platform::Dpdk), totals(Platform::Wifi));
    let runs = Runs::from_rows(&rows);
    if args.json {
        let all = serde_json::json!({
            "configurations": rows, "click": click, "dpdk": dpdk, "wifi": wifi,
            "runs": args.run.then_some(&runs)
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print(&rows, [&click, &dpdk, &wifi], args.run.then_some(&runs));
    }
    let low = |totals: &Totals, least| totals.counted > 0 && totals.percent < least;
    if low(&click, args.least) {
        bail!("we accept {:.1} % of what Click accepts, not {} %", click.percent, args.least);
    }
    if low(&dpdk, args.least_devices) {
        let least = args.least_devices;
        bail!("we accept {:.1} % of those for DPDK or netmap, not {least} %", dpdk.percent);
    }
    let unexplained = runs.different - runs.explained;
    if unexplained > 0 {
        bail!("{unexplained} configurations gave other packets than Click's");
    }
    Ok(())
}

fn judge(lab: &Lab, entry: &Entry, programs: &Programs, args: &Args) -> Result<Row> {
    let mut sandbox = Sandbox::new(lab, entry, &args.configurations, args.timeout)?;
    let file = sandbox.file.to_string_lossy().into_owned();
    let variables = entry.variables.iter().map(String::as_str);
    let words: Vec<&str> = std::iter::once(file.as_str()).chain(variables).collect();
    let flat = sandbox.run(&programs.flatten, &words)?.stdout;
    let declarations = text::declarations(&flat);
    let row = |click, our_click, linerate| Row {
        configuration: entry.name(),
        kind: entry.kind,
        click,
        our_click,
        linerate,
        comparison: None,
        exception: None,
    };
    if entry.kind == Platform::Dpdk {
        let mapped = devices::mapped(&flat, &declarations);
        let mut words = vec!["check".to_owned(), file];
        words.extend(entry.variables.iter().cloned());
        for (number, device) in mapped.iter().enumerate() {
            let interface = format!("port-{number}");
            sandbox.add_interface(&interface);
            words.extend(["--device".to_owned(), format!("{device}=packet:{interface}")]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let linerate = Verdict::from_result(&sandbox.run(&programs.linerate, &words)?);
        return Ok(row(None, None, linerate));
    }
    for interface in devices::interfaces(&declarations) {
        sandbox.add_interface(&interface);
    }
    let quit = ["-q", file.as_str()];
    let click = Verdict::from_result(&sandbox.run(&programs.click, &quit)?);
    let our_click = Verdict::from_result(&sandbox.run(&programs.our_click, &quit)?);
    let linerate = Verdict::from_result(&sandbox.run(&programs.linerate, &["check", &file])?);
    let mut row = row(Some(click), Some(our_click), linerate);
    if args.run && row.counts() && row.we_accept() {
        let comparison =
            comparison::compare(&sandbox, programs, &flat, &declarations, &args.vectors)?;
        if let (Comparison::Different(_), Some(folder)) = (&comparison, &args.keep) {
            sandbox.keep(&folder.join(entry.name().replace('/', "+")))?;
        }
        row.comparison = Some(comparison);
    }
    Ok(row)
}

fn print(rows: &[Row], totals: [&Totals; 3], runs: Option<&Runs>) {
    let word = |verdict: Option<&Verdict>| match verdict {
        None => "-",
        Some(Verdict::Accepts) => "accepts",
        Some(Verdict::Refuses(_)) => "REFUSES",
    };
    println!("{:<8} {:<8} {:<8} configuration", "Click", "click", "linerate");
    for row in rows {
        let click = word(row.click.as_ref());
        let (ours, linerate) = (word(row.our_click.as_ref()), word(Some(&row.linerate)));
        let complaint = row.complaint();
        let complaint = match &row.exception {
            Some(reason) if row.we_accept() => format!("{complaint}; {reason}"),
            _ => complaint,
        };
        let colon = if complaint.is_empty() { "" } else { ": " };
        println!("{click:<8} {ours:<8} {linerate:<8} {}{colon}{complaint}", row.configuration);
    }
    let [click, dpdk, wifi] = totals;
    println!(
        "\nof {} configurations Click accepts {}; of those we accept {} ({:.1} %)",
        click.listed, click.counted, click.accepted, click.percent
    );
    println!("of {} with elements of 802.11, which are left out, {}", wifi.counted, wifi.accepted);
    println!(
        "of {} configurations for DPDK or netmap we accept {} ({:.1} %)",
        dpdk.listed, dpdk.accepted, dpdk.percent
    );
    if let Some(runs) = runs {
        println!(
            "{} ran as with Click, which sent {} packets in them; {} differed, {} of them for a known \
             reason; {} were left out",
            runs.same, runs.packets, runs.different, runs.explained, runs.left_out
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_click_accepts_counts_and_both_programs_must_accept() {
        let refuses = || Verdict::Refuses("no".to_owned());
        let row = |kind, click, our_click, linerate| Row {
            configuration: "a/b/c.click".to_owned(),
            kind,
            click,
            our_click,
            linerate,
            comparison: None,
            exception: None,
        };
        let yes = || Verdict::Accepts;
        let rows = [
            row(Platform::Click, Some(yes()), Some(yes()), yes()),
            row(Platform::Click, Some(yes()), Some(yes()), refuses()),
            row(Platform::Click, Some(refuses()), Some(yes()), yes()),
            row(Platform::Dpdk, None, None, refuses()),
        ];
        let totals = Totals { listed: 3, counted: 2, accepted: 1, percent: 50.0 };
        assert_eq!(Totals::from_rows(&rows, Platform::Click), totals);
        assert_eq!(Totals::from_rows(&rows, Platform::Dpdk).accepted, 0);
        assert_eq!(rows[1].complaint(), "no");
    }
}
