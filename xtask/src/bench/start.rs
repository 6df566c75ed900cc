//! `cargo xtask bench start`: how long a program takes to read, check and start a configuration.
//!
//! Configurations have ten, twenty and forty thousand elements. Four times as many may not take much
//! more than four times as long: whatever is done for a pair of elements shows here, and nowhere else.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use super::{
    ours::build_with,
    row::best,
    undo::{Undo, unique_name},
};

/// Elements of the configurations.
const SIZES: [usize; 3] = [10_000, 20_000, 40_000];
/// What the largest may take, as a multiple of the smallest, which has a quarter of its elements.
const MOST: f64 = 6.0;

/// Arguments of `cargo xtask bench start`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each is started.
    #[arg(long, default_value_t = 3)]
    repetitions: u32,
    /// A user-level Click, to be started beside ours.
    #[arg(long, value_name = "PROGRAM")]
    click: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let [linerate, click] = [build_of("linerate")?, build_of("click")?];
    let file = std::env::temp_dir().join(format!("{}.click", unique_name()));
    let _undo = {
        let file = file.clone();
        Undo::by(move || drop(fs::remove_file(file)))
    };
    measure(args, &linerate, &click, &file)
}

fn build_of(program: &str) -> Result<PathBuf> {
    build_with("linerate", &["--bin", program], program)
}

fn measure(args: &Args, linerate: &Path, click: &Path, file: &Path) -> Result<()> {
    let mut programs =
        vec![("linerate check", linerate, vec!["check"]), ("click", click, vec!["-q"])];
    if let Some(peer) = &args.click {
        programs.push(("Click", peer, vec!["-q"]));
    }
    println!(
        "{:<12} {:<16} {:>9} {:>9} {:>9} {:>7}  seconds",
        "graph", "program", "10,000", "20,000", "40,000", "growth"
    );
    let mut grown = 0;
    for (graph, text) in
        [("chain", chain as fn(usize) -> String), ("apart", apart), ("queues", queues)]
    {
        for (name, program, arguments) in &programs {
            let mut seconds = Vec::new();
            for size in SIZES {
                fs::write(file, text(size))?;
                let runs: Result<Vec<f64>> =
                    (0..args.repetitions).map(|_| start(program, arguments, file)).collect();
                seconds.push(best(&runs?));
            }
            let growth = seconds[2] / seconds[0];
            let is_ours = *name != "Click";
            let mark = if is_ours && growth > MOST { "  <- more than in proportion" } else { "" };
            grown += u32::from(!mark.is_empty());
            let [few, more, many] = [seconds[0], seconds[1], seconds[2]];
            println!(
                "{graph:<12} {name:<16} {few:>9.3} {more:>9.3} {many:>9.3} {growth:>7.1}{mark}"
            );
        }
    }
    if grown > 0 {
        bail!("{grown} grow by more than {MOST} for four times as many elements");
    }
    Ok(())
}

/// Seconds until a program has read, checked and started a configuration, and ended.
fn start(program: &Path, arguments: &[&str], file: &Path) -> Result<f64> {
    let began = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .arg(file)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        bail!("{} {} has failed", program.display(), arguments.join(" "));
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Counters behind one another.
fn chain(elements: usize) -> String {
    let mut text = String::from("InfiniteSource(LIMIT 1, STOP true) -> e0 :: Counter;\n");
    for at in 1..elements {
        let _ = writeln!(text, "e{} -> e{at} :: Counter;", at - 1);
    }
    text + &format!("e{} -> Discard;\n", elements - 1)
}

/// Graphs of three elements that have nothing to do with one another.
fn apart(elements: usize) -> String {
    let text = "InfiniteSource(LIMIT 1, STOP true) -> Discard;\n".to_owned();
    text + &"Idle -> Counter -> Discard;\n".repeat(elements / 3)
}

/// Sources, queues and who empties them.
fn queues(elements: usize) -> String {
    let text = "InfiniteSource(LIMIT 1, STOP true) -> Discard;\n".to_owned();
    text + &"InfiniteSource(LIMIT 1) -> Queue(2) -> Unqueue -> Discard;\n".repeat(elements / 4)
}
