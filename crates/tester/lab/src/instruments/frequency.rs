//! A core's clock, where the machine lets it be set.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The reason why a clock cannot be set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrequencyError {
    /// There is no such setting.
    #[error("the clock of core {core} cannot be set: no {path}")]
    Missing {
        /// The core.
        core: u32,
        /// The missing file.
        path: PathBuf,
    },
    /// The setting is refused.
    #[error("the clock of core {core} cannot be set to {khz} kHz: {reason}")]
    Refused {
        /// The core.
        core: u32,
        /// The requested frequency.
        khz: u32,
        /// The reason.
        reason: String,
    },
}

/// A core whose clock is held at a frequency; dropping it restores the former limits.
#[derive(Debug)]
pub struct Frequency {
    folder: PathBuf,
    before: (String, String),
}

const LOWEST: &str = "scaling_min_freq";
const HIGHEST: &str = "scaling_max_freq";

impl Frequency {
    /// Holds a core's clock at `khz`.
    ///
    /// # Errors
    ///
    /// When the machine has no such setting, or refuses it.
    pub fn hold(core: u32, khz: u32) -> Result<Frequency, FrequencyError> {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/cpufreq");
        Frequency::hold_in(Path::new(&folder), core, khz)
    }

    fn hold_in(folder: &Path, core: u32, khz: u32) -> Result<Frequency, FrequencyError> {
        let read = |file: &str| {
            let path = folder.join(file);
            let text = fs::read_to_string(&path);
            text.map(|text| text.trim().to_owned())
                .map_err(|_| FrequencyError::Missing { core, path })
        };
        let held = Frequency { folder: folder.into(), before: (read(LOWEST)?, read(HIGHEST)?) };
        // The lower bound may not pass the upper: down first, then up, then down.
        let text = khz.to_string();
        let _ = held.write(LOWEST, &text);
        let set = held.write(HIGHEST, &text).and_then(|()| held.write(LOWEST, &text));
        let refused = |reason| FrequencyError::Refused { core, khz, reason };
        set.map_err(|error| refused(error.to_string()))?;
        match (read(LOWEST)?, read(HIGHEST)?) {
            (low, high) if low == text && high == text => Ok(held),
            (low, high) => Err(refused(format!("it became {low} to {high}"))),
        }
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        fs::write(self.folder.join(file), text)
    }
}

impl Drop for Frequency {
    fn drop(&mut self) {
        // Best effort, in the order that works for raising and for lowering.
        let (low, high) = &self.before;
        let _ = self.write(HIGHEST, high);
        let _ = self.write(LOWEST, low);
        let _ = self.write(HIGHEST, high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_held_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let read = |file| fs::read_to_string(dir.path().join(file)).unwrap();
        fs::write(dir.path().join(LOWEST), "800000\n").unwrap();
        fs::write(dir.path().join(HIGHEST), "3000000\n").unwrap();
        let held = Frequency::hold_in(dir.path(), 0, 1_200_000).unwrap();
        assert_eq!((read(LOWEST), read(HIGHEST)), ("1200000".into(), "1200000".into()));
        drop(held);
        assert_eq!((read(LOWEST), read(HIGHEST)), ("800000".into(), "3000000".into()));
    }

    #[test]
    fn a_machine_without_is_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let error = Frequency::hold_in(dir.path(), 3, 1).unwrap_err().to_string();
        assert!(error.starts_with("the clock of core 3 cannot be set: no "), "{error}");
    }
}
