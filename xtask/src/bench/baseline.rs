//! Unit of figures, so that those of two machines can be compared: testpmd, from null port to null
//! port, at burst 32, measured in the same run.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::peers::{Memory, Mode, Ports, Testpmd};
use super::processor::Processor;
use super::row::{best, median};

/// Packets in a burst of the reference.
const BURST: u32 = 32;
/// Its description, for people.
const WHAT: &str = "testpmd, null ports, burst 32";

/// The least and the median of the measured values, in TSC cycles per packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) best: f64,
    pub(super) median: f64,
}

impl Figure {
    /// Of samples; none without any.
    pub(super) fn from_samples(samples: &[f64]) -> Option<Figure> {
        (!samples.is_empty()).then(|| Figure { best: best(samples), median: median(samples) })
    }

    /// As a multiple of another.
    pub(super) fn over(self, other: Figure) -> Figure {
        Figure { best: self.best / other.best, median: self.median / other.median }
    }
}

/// The processor, and the reference as measured so far.
#[derive(Debug)]
pub(super) struct Baseline {
    processor: Processor,
    /// Reason why there is no reference.
    missing: Option<String>,
    samples: Vec<f64>,
}

impl Baseline {
    /// Says which processor this is, and, where the reference is `missing`, that it is.
    pub(super) fn new(missing: Option<String>) -> Result<Baseline> {
        let processor = Processor::inspect()?;
        eprintln!("processor: {}", processor.describe());
        let mut baseline = Baseline { processor, missing: None, samples: Vec::new() };
        if let Some(reason) = missing {
            baseline.is_missing(reason);
        }
        Ok(baseline)
    }

    /// Said at once: a long measurement may not be worth its time without.
    fn is_missing(&mut self, reason: String) {
        self.missing = Some(reason);
        eprintln!("{}", self.describe());
    }

    /// Measures the reference so many times more. Its program runs no longer than that, so that others
    /// have its core and memory.
    pub(super) fn sample(&mut self, memory: &Memory, times: u32, window: Duration) -> Result<()> {
        if self.missing.is_some() {
            return Ok(());
        }
        let mut testpmd = match Testpmd::start(memory, Ports::Null) {
            Ok(testpmd) => testpmd,
            Err(error) => {
                self.is_missing(format!("{error:#}"));
                return Ok(());
            }
        };
        for _ in 0..times {
            let sample = testpmd.measure(Mode::Io, BURST, window)?;
            self.samples.push(sample.cpu_cycles(linerate_memory::clock::cycles_per_second()));
        }
        Ok(())
    }

    pub(super) fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Cycles per packet of the reference.
    pub(super) fn figure(&self) -> Option<Figure> {
        Figure::from_samples(&self.samples)
    }

    /// The reference, or that there is none.
    fn describe(&self) -> String {
        if let Some(Figure { best, median }) = self.figure() {
            return format!(
                "reference: {WHAT}: {best:.1} cycles per packet at best, {median:.1} median"
            );
        }
        let reason = self.missing.as_deref().unwrap_or("nothing was measured");
        format!(
            "NO REFERENCE: {WHAT} is not measured: {reason}.\n\
             NO REFERENCE: these figures cannot be compared with another machine's."
        )
    }

    /// Prints both.
    pub(super) fn print(&self) {
        println!("processor: {}\n{}", self.processor.describe(), self.describe());
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "reference": self.figure(),
            "reference_is": WHAT,
            "reference_missing": self.missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_multiples_of_the_reference() {
        let reference = Figure::from_samples(&[20.0, 18.0, 30.0]).unwrap();
        assert_eq!(reference, Figure { best: 18.0, median: 20.0 });
        let case = Figure { best: 36.0, median: 50.0 };
        assert_eq!(case.over(reference), Figure { best: 2.0, median: 2.5 });
        assert_eq!(Figure::from_samples(&[]), None);
    }

    #[test]
    fn a_missing_reference_is_said_loudly() {
        let processor = super::super::processor::tests::zen4();
        let missing = Some("DPDK is not available: no".into());
        let mut baseline = Baseline { processor, missing, samples: Vec::new() };
        baseline.sample(&Memory::small(), 1, Duration::ZERO).unwrap();
        let text = baseline.describe();
        assert!(text.starts_with("NO REFERENCE"), "{text}");
        assert!(text.contains("DPDK is not available"), "{text}");
        assert_eq!(baseline.json()["reference"], Value::Null);
    }
}
