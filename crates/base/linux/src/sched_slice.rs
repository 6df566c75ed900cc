//! Scheduler slices, which decide how soon a thread runs that wakes on a busy core.

use std::io;

/// The shortest slice that the kernel grants, in nanoseconds.
const SHORTEST_SLICE: u64 = 100_000;

/// Asks the scheduler for slices of 0.1 ms, the shortest, for the calling thread. Of the runnable
/// threads the scheduler (EEVDF) runs the one with the earliest deadline, the end of its slice: a thread
/// that works for microseconds between sleeps gets a core soon, even beside threads that never sleep.
/// Its share of the core stays the same, and no privilege is needed. Kernels before 6.12 accept the call
/// without effect; threads of a real-time policy are left as they are.
///
/// See `sched_setattr(2)`, and Documentation/scheduler/sched-eevdf.rst of Linux.
///
/// # Errors
///
/// The kernel's error.
pub fn set_shortest_slice() -> io::Result<()> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // Read first: policy and nice value are to stay.
    // SAFETY: the kernel writes at most `size` bytes, which the structure has, and keeps no address.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let fair_policies = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    if !fair_policies.contains(&(attributes.sched_policy as libc::c_int)) {
        return Ok(());
    }
    attributes.sched_runtime = SHORTEST_SLICE;
    // SAFETY: the kernel reads `size` bytes of the structure, and keeps no address.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    /// Returns the nice value and the policy of this thread, and its slice in nanoseconds.
    fn scheduling() -> (String, u64) {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let sched = fs::read_to_string("/proc/thread-self/sched").unwrap();
        let slice = sched.lines().find_map(|line| line.strip_prefix("se.slice")).unwrap();
        let slice = slice.rsplit(':').next().unwrap().trim().parse().unwrap();
        // Fields 19 and 41 of proc_pid_stat(5).
        (format!("{} {}", fields[16], fields[38]), slice)
    }

    /// Returns true if the kernel has slices per thread, from 6.12 on, and shows them. On other kernels
    /// the test checks only that the call succeeds, and says so.
    fn has_slices() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let shown = fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        version >= (6, 12) && shown.contains("se.slice")
    }

    #[test]
    fn a_thread_alone_has_short_slices_and_its_other_attributes_stay() {
        if !has_slices() {
            // The nice value must not change. Written to the descriptor itself, since the test harness
            // captures the output of passing tests.
            let before = fs::read_to_string("/proc/thread-self/stat").unwrap();
            super::set_shortest_slice().unwrap();
            let after = fs::read_to_string("/proc/thread-self/stat").unwrap();
            let nice = |stat: &str| {
                stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).map(str::to_owned)
            };
            assert_eq!(nice(&before), nice(&after));
            let notice =
                b"slices of threads were not tested: this kernel has none, or does not show them\n";
            std::io::Write::write_all(&mut std::io::stderr(), notice).unwrap();
            return;
        }
        let before = scheduling();
        assert!(before.1 > super::SHORTEST_SLICE, "{before:?}");
        let after = thread::spawn(|| {
            super::set_shortest_slice().unwrap();
            scheduling()
        });
        assert_eq!(after.join().unwrap(), (before.0.clone(), super::SHORTEST_SLICE));
        assert_eq!(scheduling(), before);
    }
}
