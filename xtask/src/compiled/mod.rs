//! `cargo xtask compiled`: examples as programs, beside `linerate run`.
//!
//! Each configuration of `examples` is made a program by `linerate compile`. The program and
//! `linerate run` then run the same packets, at several frame limits, and must leave the same
//! behind: captures byte for byte, packets and drops by reason of each element, and the value of
//! each handler.
//!
//! Devices are captures and time is simulated, as for `cargo xtask conformance public --run`, from
//! which packets are made and devices replaced ([`stage`]): there is no root, no interface and no
//! excuse. Not compared, therefore: drivers, times and cycles, and more than one worker.

mod comparison;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use self::comparison::{EqualCounts, RunOutput};
use self::stage::Stage;
use crate::conformance;
use crate::shell;

/// Our programs that take part.
const PROGRAMS: [&str; 3] = ["linerate", "click", "click-flatten"];

/// Arguments of `cargo xtask compiled`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask compiled                    all examples, at frame limits 1, 7 and 256
  cargo xtask compiled --only router      those with this in their names
  cargo xtask compiled --only nat --keep /tmp/nat
                                          with what was run, and what it left behind")]
pub(crate) struct Args {
    /// Only configurations whose file name contains this text.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    only: String,
    /// The frame limits to run at.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', default_values_t = [1, 7, 256])]
    vectors: Vec<u16>,
    /// The folder with our programs, instead of building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Build programs without optimisation, which takes less time and shows less.
    #[arg(long)]
    unoptimized: bool,
    /// Keep the folders that configurations ran in here, each under its name.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// The programs, and the folder where their builds are kept for the next time.
#[derive(Debug)]
struct Programs {
    folder: PathBuf,
    cache: PathBuf,
}

impl Programs {
    fn find(args: &Args) -> Result<Programs> {
        let folder = match &args.programs {
            Some(folder) => folder.clone(),
            None => conformance::build(&PROGRAMS)?,
        };
        let folder = folder.canonicalize().with_context(|| format!("no {}", folder.display()))?;
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let cache = shell::root().join(target).join("compiled");
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        Ok(Programs { folder, cache })
    }

    /// A call of one of them.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join(name));
        command.env("XDG_CACHE_HOME", &self.cache);
        command
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let configurations = configurations(&args.only)?;
    let programs = Programs::find(args)?;
    println!(
        "{:<20} {:>7} {:>8} {:>9} {:>14}",
        "example", "build s", "packets", "handlers", "in use"
    );
    let mut different = Vec::new();
    for file in &configurations {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match compare(&programs, args, file, &name).with_context(|| name.clone())? {
            Ok(row) => println!("{row}"),
            Err(difference) => {
                println!("{name:<20} DIFFERS {difference}");
                different.push(name);
            }
        }
    }
    let limits: Vec<String> = args.vectors.iter().map(u16::to_string).collect();
    println!(
        "\n{} of {} examples are the same as programs as with `linerate run`, at frame limits {}. \
         Not run: drivers of devices, of which captures take the place; more than one worker; \
         elements that no packet came to",
        configurations.len() - different.len(),
        configurations.len(),
        limits.join(", ")
    );
    ensure!(different.is_empty(), "other as programs: {}", different.join(", "));
    Ok(())
}

/// The files that are wanted, in order.
fn configurations(only: &str) -> Result<Vec<PathBuf>> {
    let folder = shell::root().join("examples");
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let is_wanted = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "click")
            && path.file_name().is_some_and(|name| name.to_string_lossy().contains(only))
    };
    let paths: std::io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths: Vec<PathBuf> = paths?.into_iter().filter(is_wanted).collect();
    paths.sort_unstable();
    if paths.is_empty() {
        bail!("no example has `{only}` in its name");
    }
    Ok(paths)
}

/// Returns the remark on a configuration with equal runs, or the first difference.
fn compare(
    programs: &Programs,
    args: &Args,
    file: &Path,
    name: &str,
) -> Result<Result<String, String>> {
    let flat = shell::output(programs.command("click-flatten").arg(file))?;
    let stage = Stage::new(&flat, programs)?;
    let stood_in = match stage.stood_in() {
        [] => String::new(),
        some => format!("  without {}", some.join(", ")),
    };
    let mut compile = programs.command("linerate");
    compile.args(["compile", stage::FILE, "-o", stage::PROGRAM, "--offline", "--quiet"]);
    compile.arg("--source").arg(shell::root()).current_dir(stage.folder());
    if args.unoptimized {
        compile.arg("--unoptimized");
    }
    let begun = Instant::now();
    shell::output(&mut compile)?;
    let built = begun.elapsed().as_secs_f64();
    let compared = compare_runs(programs, &stage, &args.vectors);
    if let Some(folder) = &args.keep {
        stage.keep(&folder.join(name))?;
    }
    let EqualCounts { packets, handlers, elements, used } = match compared? {
        Ok(same) => same,
        Err(difference) => return Ok(Err(difference)),
    };
    let used = format!("{used} of {elements}");
    Ok(Ok(format!("{name:<20} {built:>7.1} {packets:>8} {handlers:>9} {used:>14}{stood_in}")))
}

/// Runs both at each frame limit: the equal items at the last, or the first difference.
fn compare_runs(
    programs: &Programs,
    stage: &Stage,
    vectors: &[u16],
) -> Result<Result<EqualCounts, String>> {
    let mut same = None;
    for vector in vectors {
        let run = |mut command: Command| {
            let limit = vector.to_string();
            command.args(["--simtime", "--json", "--quiet", "--vector", &limit]);
            RunOutput::record(command.current_dir(stage.folder()), stage)
        };
        let mut interpreter = programs.command("linerate");
        interpreter.args(["run", stage::FILE]);
        let interpreted = run(interpreter)?;
        let program = run(Command::new(stage.folder().join(stage::PROGRAM)))?;
        if let Some(difference) = interpreted.difference(&program) {
            return Ok(Err(format!("at frame limit {vector}: {difference}")));
        }
        same = Some(interpreted.summary());
    }
    Ok(Ok(same.context("no frame limit to run at")?))
}
