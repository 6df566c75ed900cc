//! The cycle counter, by which costs are measured, and its rate.
//!
//! On x86-64 this is the time-stamp counter, which runs at a constant rate independent of the
//! core's clock: a "cycle" here is a tick of that counter. On other machines, and under Miri, it is
//! the monotonic clock in nanoseconds.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Reads the cycle counter. Not serialising: a few instructions around it may
/// be reordered with it. Costs 10 to 30 ns on virtual machines that trap or scale it,
/// so read it per burst, not per packet.
#[inline]
pub fn cycles() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has RDTSC; Linux leaves it enabled for
    // user space.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Cycles of a call of [`cycles`], measured once per process: to be subtracted from the time
/// between two calls. The counter may advance in steps longer than that, so that two readings can
/// be equal; it is the mean of many.
pub fn reading_cycles() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| {
        const READINGS: u64 = 64;
        let row = || {
            let start = cycles();
            let end = (0..READINGS).fold(start, |_, _| cycles());
            (end.saturating_sub(start) + READINGS / 2) / READINGS
        };
        // The fastest of several: interruptions only make it slower.
        (0..16).map(|_| row()).min().unwrap_or(0)
    })
}

/// Reads the cycle counter before the measured code: after everything in front of it has been done,
/// and before anything behind it has begun.
///
/// The method is Paoloni's ("How to Benchmark Code Execution Times on Intel
/// IA-32 and IA-64 Instruction Set Architectures", 2010), with LFENCE in place
/// of CPUID, which hypervisors trap. Costs some ten cycles more than [`cycles`].
#[inline]
pub fn cycles_before() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has LFENCE and RDTSC.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let count = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        count
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    cycles()
}

/// Reads the cycle counter behind the measured code, see [`cycles_before`].
#[inline]
pub fn cycles_after() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSCP is in every x86-64 processor since 2007, and in all that run
    // kernels of today; LFENCE in all.
    unsafe {
        let mut processor = 0;
        let count = std::arch::x86_64::__rdtscp(&raw mut processor);
        std::arch::x86_64::_mm_lfence();
        count
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    cycles()
}

/// Serialises execution on this core: everything in front of it completes before anything behind it
/// begins, where an out-of-order processor would overlap the two. Costs the overlap.
#[inline]
pub fn serialize() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has LFENCE.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Ticks of [`cycles`] per second, measured once per process against the
/// monotonic clock. The first call takes about 10 ms.
pub fn cycles_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        // Three short windows, the middle result: one descheduling spoils
        // at most one of them.
        let mut rates: [f64; 3] = std::array::from_fn(|_| {
            let (time, count) = (Instant::now(), cycles());
            // Asleep, so that it costs no processor time and the instructions
            // of a program are the same in every run.
            std::thread::sleep(Duration::from_millis(3));
            (cycles() - count) as f64 / time.elapsed().as_secs_f64()
        });
        rates.sort_by(f64::total_cmp);
        rates[1]
    })
}

/// The length of `count` ticks.
pub fn duration_of(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / cycles_per_second())
}

/// The ticks in `time`.
pub fn cycles_in(time: Duration) -> u64 {
    (time.as_secs_f64() * cycles_per_second()) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn conversion_there_and_back() {
        let second = duration_of(cycles_in(Duration::from_secs(1)));
        assert!((second.as_secs_f64() - 1.0).abs() < 1e-6);
    }

    /// Other load of the machine makes the longer loop slower, if anything.
    #[test]
    fn the_cost_of_a_reading_is_that_in_a_loop() {
        const READINGS: u64 = if cfg!(miri) { 1 << 6 } else { 1 << 16 };
        let start = cycles();
        (0..READINGS).for_each(|_| {
            std::hint::black_box(cycles());
        });
        let each = (cycles() - start) as f64 / READINGS as f64;
        let cost = reading_cycles() as f64;
        assert!((1.0..=10.0 * each).contains(&cost), "{cost} and {each}");
    }

    #[test]
    fn counts_upwards() {
        let first = cycles();
        std::thread::sleep(Duration::from_millis(1));
        assert!(cycles() > first);
    }
}
