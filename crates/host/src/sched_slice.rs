//! Scheduler slices: delay until a thread that has been asleep runs on a busy core.

use std::io;

/// The shortest slice that the kernel gives, in nanoseconds.
const SHORTEST: u64 = 100_000;

/// Asks the scheduler for the shortest slices for the calling thread, 0.1 ms: of threads that may run,
/// the one whose slice would end first does, so that one that works for some microseconds and sleeps
/// again runs soon where others never sleep. It gets no more of the core by it, and needs no rights.
/// Kernels before 6.12 take it and change nothing, and so does every kernel for a thread of a real-time
/// policy.
///
/// `sched_setattr(2)`, and Documentation/scheduler/sched-eevdf.rst of Linux.
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
    // Policy and nice value stay as they are.
    // SAFETY: the kernel writes at most `size` bytes, which the structure has, and keeps no address.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let shares = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    if !shares.contains(&(attributes.sched_policy as libc::c_int)) {
        return Ok(());
    }
    attributes.sched_runtime = SHORTEST;
    // SAFETY: the kernel reads `size` bytes of the structure, and keeps no address.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    /// The nice value and the policy of a thread, and its slice in nanoseconds.
    fn scheduled() -> (String, u64) {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let said = fs::read_to_string("/proc/thread-self/sched").unwrap();
        let slice = said.lines().find_map(|line| line.strip_prefix("se.slice")).unwrap();
        let slice = slice.rsplit(':').next().unwrap().trim().parse().unwrap();
        // Fields 19 and 41 of proc_pid_stat(5).
        (format!("{} {}", fields[16], fields[38]), slice)
    }

    /// Returns true if threads have slices of their own here, and the kernel shows them: not before
    /// 6.12. With an older one there is nothing to look at but its acceptance; no test harness may
    /// hide that it was all.
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
            // Where there are none nothing may change; said past the harness, which hides what a test that
            // passes prints.
            let before = fs::read_to_string("/proc/thread-self/stat").unwrap();
            super::set_shortest_slice().unwrap();
            let after = fs::read_to_string("/proc/thread-self/stat").unwrap();
            let nice = |stat: &str| {
                stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).map(str::to_owned)
            };
            assert_eq!(nice(&before), nice(&after));
            let said = b"slices of threads were not looked at: this kernel has none, or does not show them\n";
            std::io::Write::write_all(&mut std::io::stderr(), said).unwrap();
            return;
        }
        let before = scheduled();
        assert!(before.1 > super::SHORTEST, "{before:?}");
        let after = thread::spawn(|| {
            super::set_shortest_slice().unwrap();
            scheduled()
        });
        assert_eq!(after.join().unwrap(), (before.0.clone(), super::SHORTEST));
        assert_eq!(scheduled(), before);
    }
}
