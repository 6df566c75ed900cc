//! `cargo xtask bench start`: time a program takes to read, check and start a configuration.
//!
//! Configurations have one, ten, twenty and forty thousand elements. Four times as many may not
//! take much more than four times as long: work done for each pair of elements shows here, and
//! nowhere else. A thousand show the time a program takes in any case.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{
    ours::build_with,
    restore::{RestoreOnDrop, unique_name},
    row::{best, median},
};

/// Elements of the configurations.
const SIZES: [usize; 4] = [1_000, 10_000, 20_000, 40_000];
/// The longest time of the largest, as a multiple of that of the second, which has a quarter of its elements.
const MOST: f64 = 6.0;
const PEER: &str = "Click";

/// Arguments of `cargo xtask bench start`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each is started.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// A user-level Click, to be started beside ours.
    #[arg(long, value_name = "PROGRAM")]
    click: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Start times of a program with a kind of configuration: seconds of each run, by size.
#[derive(Debug)]
struct StartTimes {
    graph: &'static str,
    program: &'static str,
    seconds: [Vec<f64>; SIZES.len()],
}

impl StartTimes {
    /// Four times the elements, as a multiple.
    fn growth(&self) -> f64 {
        best(&self.seconds[3]) / best(&self.seconds[1])
    }

    /// Returns true if it is ours, and not in proportion.
    fn is_too_much(&self) -> bool {
        self.program != PEER && self.growth() > MOST
    }

    fn json(&self) -> Value {
        let sizes = SIZES.iter().zip(&self.seconds).map(|(elements, seconds)| {
            json!({
                "elements": elements,
                "seconds_best": best(seconds),
                "seconds_median": median(seconds),
            })
        });
        json!({
            "graph": self.graph,
            "program": self.program,
            "sizes": sizes.collect::<Vec<_>>(),
            "growth": self.growth(),
            "growth_wanted": MOST,
        })
    }

    fn print(&self) {
        let [first, few, more, many] = self.seconds.each_ref().map(|seconds| best(seconds));
        println!(
            "{:<12} {:<16} {first:>9.3} {few:>9.3} {more:>9.3} {many:>9.3} {:>7.1}{}",
            self.graph,
            self.program,
            self.growth(),
            if self.is_too_much() { "  <- more than in proportion" } else { "" },
        );
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let [linerate, click] = [build_of("linerate")?, build_of("click")?];
    let file = std::env::temp_dir().join(format!("{}.click", unique_name()));
    let _undo = {
        let file = file.clone();
        RestoreOnDrop::by(move || drop(fs::remove_file(file)))
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
        programs.push((PEER, peer, vec!["-q"]));
    }
    if !args.json {
        println!(
            "{:<12} {:<16} {:>9} {:>9} {:>9} {:>9} {:>7}  seconds",
            "graph", "program", "1,000", "10,000", "20,000", "40,000", "growth"
        );
    }
    let mut lines = Vec::new();
    for (graph, text) in
        [("chain", chain as fn(usize) -> String), ("apart", apart), ("queues", queues)]
    {
        let mut these = programs
            .iter()
            .map(|&(program, ..)| StartTimes { graph, program, seconds: Default::default() })
            .collect::<Vec<_>>();
        for (at, size) in SIZES.into_iter().enumerate() {
            fs::write(file, text(size))?;
            // In turns.
            for _ in 0..args.repetitions {
                for ((_, program, arguments), line) in programs.iter().zip(&mut these) {
                    line.seconds[at].push(start(program, arguments, file)?);
                }
            }
        }
        if !args.json {
            these.iter().for_each(StartTimes::print);
        }
        lines.append(&mut these);
    }
    if args.json {
        let lines: Vec<Value> = lines.iter().map(StartTimes::json).collect();
        println!("{}", json!({"repetitions": args.repetitions, "rows": lines}));
    }
    let grown = lines.iter().filter(|line| line.is_too_much()).count();
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

/// Sources, queues and the tasks that empty them.
fn queues(elements: usize) -> String {
    let text = "InfiniteSource(LIMIT 1, STOP true) -> Discard;\n".to_owned();
    text + &"InfiniteSource(LIMIT 1) -> Queue(2) -> Unqueue -> Discard;\n".repeat(elements / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_of_four_times_the_elements() {
        let line = |program, many: f64| StartTimes {
            graph: "chain",
            program,
            seconds: [vec![0.1], vec![0.9, 0.5], vec![1.0], vec![many, 9.0]],
        };
        let (fair, steep) = (line("click", 2.0), line("click", 4.0));
        assert_eq!((fair.growth(), fair.is_too_much()), (4.0, false));
        assert_eq!((steep.growth(), steep.is_too_much()), (8.0, true));
        // The growth of the peer has no bound.
        assert!(!line(PEER, 4.0).is_too_much());
        assert_eq!(fair.json()["sizes"][1]["seconds_median"], 0.9);
    }

    #[test]
    fn configurations_have_as_many_elements() {
        let classes = |text: &str, class: &str| text.matches(class).count();
        assert_eq!(classes(&chain(1000), ":: Counter"), 1000);
        assert_eq!(classes(&apart(999), "Counter"), 333);
        assert_eq!(classes(&queues(1000), "Unqueue"), 250);
    }
}
