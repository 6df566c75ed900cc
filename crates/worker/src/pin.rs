//! Binding a thread to a core.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Why a thread could not be bound.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot run on core {core}: {source}; cores this process may use are listed by `taskset -p $$`"
)]
pub struct PinError {
    core: usize,
    source: io::Error,
}

/// Binds the calling thread to one core.
///
/// # Errors
///
/// When there is no such core or the process may not use it.
pub fn pin_to(core: usize) -> Result<(), PinError> {
    if core >= CpuSet::MAX_CPU {
        return Err(PinError { core, source: io::ErrorKind::InvalidInput.into() });
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|errno| PinError { core, source: errno.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_and_refuses() {
        std::thread::spawn(|| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let core = (0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).unwrap();
            pin_to(core).unwrap();
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
            assert!(pin_to(100_000).is_err());
        })
        .join()
        .unwrap();
    }
}
