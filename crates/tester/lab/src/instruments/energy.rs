//! Energy the processor has used, where the machine lets it be read (RAPL).

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The counter of the first processor package.
const PACKAGE: &str = "/sys/class/powercap/intel-rapl:0";

/// An energy counter at a moment.
#[derive(Debug)]
pub struct Energy {
    folder: PathBuf,
    microjoules: u64,
}

impl Energy {
    /// The counter now; `None` where it cannot be read.
    pub fn now() -> Option<Energy> {
        Energy::from_folder(Path::new(PACKAGE))
    }

    fn from_folder(folder: &Path) -> Option<Energy> {
        Some(Energy { folder: folder.into(), microjoules: number(&folder.join("energy_uj"))? })
    }

    /// Joules used since, by the whole package. A counter that has begun again
    /// at 0 is seen once.
    pub fn since(&self) -> Option<f64> {
        let now = number(&self.folder.join("energy_uj"))?;
        let used = match now.checked_sub(self.microjoules) {
            Some(used) => used,
            None => now + number(&self.folder.join("max_energy_range_uj"))? - self.microjoules,
        };
        Some(used as f64 / 1e6)
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_the_difference_of_the_counter() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, number: u64| {
            fs::write(dir.path().join(file), format!("{number}\n")).unwrap();
        };
        assert!(Energy::from_folder(dir.path()).is_none());
        write("energy_uj", 9_000_000);
        write("max_energy_range_uj", 10_000_000);
        let before = Energy::from_folder(dir.path()).unwrap();
        write("energy_uj", 9_500_000);
        assert_eq!(before.since(), Some(0.5));
        write("energy_uj", 500_000);
        assert_eq!(before.since(), Some(1.5));
    }
}
