//! Case `workers`: paths of routers and switches on two workers of one process, beside one worker,
//! and beside two processes of one worker each, which share nothing and so are the limit of two
//! cores.
//!
//! Each path has two sources of frames held in memory, as a network card with two queues has them:
//! flows, and so their frames, are at one of the two. A single worker serves both. The result is
//! the number of packets that come through in a time, since workers that wait for each other take
//! few cycles.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::ours::Ours;
use super::restore::{RestoreOnDrop, unique_name};
use super::routers::{self, BURST, WARM};
use super::row::median;

/// The name of a case, the element that sees every packet once, and the writer of the
/// configuration.
type Case = (&'static str, &'static str, fn(&Path) -> Result<String>);

const CASES: [Case; 4] = [
    ("ipv4-100k", "end", routers::ip_path_of_two),
    ("nat", "end", routers::nat_of_two),
    ("switch", "switch", routers::switch),
    ("click-router", "check", routers::click_router_of_two),
];

/// Millions of packets per second of each repetition.
#[derive(Debug, Default)]
pub(super) struct Workers {
    case: &'static str,
    one: Vec<f64>,
    two: Vec<f64>,
    processes: Vec<f64>,
}

pub(super) fn measure(ours: &Ours, window: Duration, repetitions: u32) -> Result<Vec<Workers>> {
    let folder = std::env::temp_dir().join(unique_name());
    let _undo = {
        let folder = folder.clone();
        RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
    };
    ours.tables(&folder)?;
    let mut found = Vec::new();
    for (case, at, configuration) in CASES {
        let file = folder.join(format!("{case}.click"));
        // The sources are the first elements, one for each worker.
        let text = configuration(&folder)? + "StaticThreadSched(source 0, source2 1);\n";
        fs::write(&file, text)?;
        let mut workers = Workers { case, ..Workers::default() };
        for _ in 0..repetitions {
            let run = |cores: &[u32]| {
                rate(&ours.graph_on(&file, at, BURST, WARM, window, cores)?.finish()?)
            };
            workers.one.push(run(&[1])?);
            workers.two.push(run(&[1, 0])?);
            let both = [1, 0].map(|core| ours.graph_on(&file, at, BURST, WARM, window, &[core]));
            let mut sum = 0.0;
            for process in both {
                sum += rate(&process?.finish()?)?;
            }
            workers.processes.push(sum);
        }
        found.push(workers);
    }
    Ok(found)
}

/// Millions of packets per second.
fn rate(line: &Value) -> Result<f64> {
    let number = |key: &str| line[key].as_f64().with_context(|| format!("no {key} in {line}"));
    let (packets, seconds) = (number("packets")?, number("seconds")?);
    ensure!(packets > 0.0, "no packet came through: {line}");
    Ok(packets / seconds / 1e6)
}

impl Workers {
    /// The median over repetitions of the rate of two workers, as a multiple of another rate.
    fn multiple_of(&self, other: &[f64]) -> f64 {
        let ratios: Vec<f64> = self.two.iter().zip(other).map(|(two, other)| two / other).collect();
        median(&ratios)
    }

    pub(super) fn print(&self) {
        println!(
            "{:<16} two workers {:.1} Mpps, one {:.1}, two processes {:.1}: {:.2} of one worker, \
             {:.2} of two processes",
            self.case,
            median(&self.two),
            median(&self.one),
            median(&self.processes),
            self.multiple_of(&self.one),
            self.multiple_of(&self.processes),
        );
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "case": self.case,
            "one_mpps": median(&self.one),
            "two_mpps": median(&self.two),
            "processes_mpps": median(&self.processes),
            "of_one": self.multiple_of(&self.one),
            "of_processes": self.multiple_of(&self.processes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_are_of_the_same_repetition() {
        let rates = |rates: &[f64]| rates.to_vec();
        let workers = Workers {
            case: "nat",
            one: rates(&[10.0, 20.0, 10.0]),
            two: rates(&[19.0, 40.0, 15.0]),
            processes: rates(&[20.0, 40.0, 20.0]),
        };
        assert_eq!(workers.multiple_of(&workers.one), 1.9);
        assert_eq!(workers.multiple_of(&workers.processes), 0.95);
    }
}
