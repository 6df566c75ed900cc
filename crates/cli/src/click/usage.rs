//! The processor time a run took, for `-t`.

use std::{fs, time::Duration};

/// Processor time so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    user: Duration,
    system: Duration,
}

impl Usage {
    /// The kernel's counts (proc(5), `/proc/pid/stat`, fields 14 and 15), in its ticks of 10 ms.
    pub(super) fn now() -> Usage {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Usage::parse(&stat, rustix::param::clock_ticks_per_second()).unwrap_or_default()
    }

    fn parse(stat: &str, ticks_per_second: u64) -> Option<Usage> {
        // The second field, the program's name, may contain anything.
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
        let mut time = || {
            let ticks: u64 = fields.next()?.parse().ok()?;
            Some(Duration::from_secs_f64(ticks as f64 / ticks_per_second.max(1) as f64))
        };
        Some(Usage { user: time()?, system: time()? })
    }

    /// The line Click prints: user and system time, and the time that passed.
    pub(super) fn text(&self, before: &Usage, passed: Duration) -> String {
        let user = self.user.saturating_sub(before.user).as_secs_f64();
        let system = self.system.saturating_sub(before.system).as_secs_f64();
        let hundredths = (passed.as_millis() + 5) / 10;
        let (minutes, rest) = (hundredths / 6000, hundredths % 6000);
        format!("{user:.3}u {system:.3}s {minutes}:{:02}.{:02}\n", rest / 100, rest % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_the_shell_writes_them() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 25 0 0";
        let usage = Usage::parse(stat, 100).unwrap();
        let text = usage.text(&Usage::default(), Duration::from_millis(61_234));
        assert_eq!(text, "2.500u 0.250s 1:01.23\n");
        assert!(Usage::parse("", 100).is_none());
    }
}
