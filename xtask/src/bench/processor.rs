//! Identity of this processor: printed above figures, and the name of their file.
//!
//! Hosts of virtual machines hide the name of the model ("AMD EPYC" is all of them); family and
//! model number are the processor's own answers, and tell generations apart.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A kind of processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Processor {
    /// Its own name for itself.
    name: String,
    /// Its family, as `/proc/cpuinfo` has it.
    family: u32,
    /// Its model within the family.
    model: u32,
    /// Ticks of its time-stamp counter in a microsecond.
    tsc_mhz: u64,
}

impl Processor {
    /// Reads the processor of this machine.
    pub(super) fn inspect() -> Result<Processor> {
        let path = "/proc/cpuinfo";
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        let rate = linerate_memory::clock::cycles_per_second();
        Processor::parse(&text, rate).with_context(|| format!("{path} does not say what it is"))
    }

    fn parse(text: &str, rate: f64) -> Option<Processor> {
        let field = |name: &str| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            fields.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
        };
        Some(Processor {
            name: field("model name")?.to_owned(),
            family: field("cpu family")?.parse().ok()?,
            model: field("model")?.parse().ok()?,
            tsc_mhz: (rate / 1e6).round() as u64,
        })
    }

    /// The name of its file: its own in small letters, family and model.
    pub(super) fn file_name(&self) -> String {
        let name = self.name.to_lowercase();
        let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        format!("{}-family-{}-model-{}", words.join("-"), self.family, self.model)
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let Processor { name, family, model, tsc_mhz } = self;
        format!("{name}, family {family}, model {model}, TSC {tsc_mhz} MHz")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn zen4() -> Processor {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
            model name\t: AMD EPYC\nstepping\t: 1\n\nprocessor\t: 1\nmodel name\t: other\n";
        Processor::parse(text, 2.596e9).unwrap()
    }

    #[test]
    fn processors_are_told_apart_by_family_and_model() {
        let processor = zen4();
        assert_eq!(processor.describe(), "AMD EPYC, family 25, model 17, TSC 2596 MHz");
        assert_eq!(processor.file_name(), "amd-epyc-family-25-model-17");
        let text =
            "cpu family : 6\nmodel : 85\nmodel name : Intel(R) Xeon(R) Gold 6134 CPU @ 3.20GHz";
        let name = Processor::parse(text, 3.2e9).unwrap().file_name();
        assert_eq!(name, "intel-r-xeon-r-gold-6134-cpu-3-20ghz-family-6-model-85");
        assert_eq!(Processor::parse("processor : 0", 1e9), None);
    }
}
