//! Default cores of workers, and pinning of threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{cores::format_cores, cpu::Cpu};

/// Why a thread could not be put on a core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The machine does not have it, or this process may not use it.
    #[error("core {core} cannot be used: this process runs on {usable}")]
    Unusable {
        /// The core.
        core: u32,
        /// Cores that can.
        usable: String,
    },
    /// The kernel refused for another reason.
    #[error("pin a thread to core {core}: {source}")]
    System {
        /// The core.
        core: u32,
        /// The kernel's error.
        source: std::io::Error,
    },
}

/// The best cores for `count` workers on packets of a device on NUMA node
/// `node`, best first; fewer if there are not as many.
///
/// Isolated cores come first, then those of the node. Among equals the first
/// core of the machine comes last, since interrupts and housekeeping go there,
/// and so do second threads of a physical core that was already chosen.
pub fn worker_cores(cpu: &Cpu, node: Option<u32>, count: usize) -> Vec<u32> {
    let mut left = usable(cpu);
    let first = cpu.online.first().copied();
    let local: &[u32] = node
        .and_then(|id| cpu.nodes.iter().find(|node| node.id == id))
        .map_or(&[], |node| &node.cores);
    let together =
        |a: u32, b: u32| cpu.siblings.iter().any(|group| group.contains(&a) && group.contains(&b));
    let mut chosen: Vec<u32> = Vec::new();
    while chosen.len() < count {
        let best = left.iter().copied().min_by_key(|&core| {
            (
                !cpu.isolated.contains(&core),
                !local.contains(&core),
                Some(core) == first,
                chosen.iter().any(|&other| together(core, other)),
                first.is_some_and(|first| together(core, first)),
                core,
            )
        });
        let Some(best) = best else { break };
        left.retain(|&core| core != best);
        chosen.push(best);
    }
    chosen
}

/// The cores a worker could be put on. The kernel leaves isolated cores out of the cores allowed by
/// default, though processes may go there; but if other cores were taken away (`taskset`, a
/// container), that was meant.
fn usable(cpu: &Cpu) -> Vec<u32> {
    let restricted =
        cpu.online.iter().any(|core| !cpu.isolated.contains(core) && !cpu.allowed.contains(core));
    if restricted { cpu.allowed.clone() } else { cpu.online.clone() }
}

/// Puts the calling thread on a core, for good.
///
/// # Errors
///
/// When the core does not exist or the process may not use it.
pub fn pin_current_thread(core: u32) -> Result<(), PinError> {
    if core as usize >= CpuSet::MAX_CPU {
        return Err(PinError::Unusable { core, usable: allowed() });
    }
    let mut set = CpuSet::new();
    set.set(core as usize);
    sched_setaffinity(None, &set).map_err(|error| match error {
        rustix::io::Errno::INVAL => PinError::Unusable { core, usable: allowed() },
        _ => PinError::System { core, source: error.into() },
    })
}

fn allowed() -> String {
    let Ok(set) = sched_getaffinity(None) else { return "other cores".into() };
    let cores: Vec<u32> =
        (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).map(|core| core as u32).collect();
    match cores.as_slice() {
        [core] => format!("core {core}"),
        cores => format!("cores {}", format_cores(cores)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Node;

    /// Two sockets of four physical cores with two threads each, numbered as
    /// servers do: first threads 0-7, second threads 8-15.
    fn dual() -> Cpu {
        Cpu {
            online: (0..16).collect(),
            allowed: (0..16).collect(),
            siblings: (0..8).map(|core| vec![core, core + 8]).collect(),
            nodes: vec![
                Node { id: 0, cores: vec![0, 1, 2, 3, 8, 9, 10, 11], memory: None },
                Node { id: 1, cores: vec![4, 5, 6, 7, 12, 13, 14, 15], memory: None },
            ],
            ..Cpu::default()
        }
    }

    #[test]
    fn the_devices_node_first_then_whole_cores() {
        assert_eq!(worker_cores(&dual(), Some(1), 5), [4, 5, 6, 7, 12]);
        // The second thread of core 0 before those that share with a worker.
        assert_eq!(worker_cores(&dual(), Some(0), 8), [1, 2, 3, 8, 9, 10, 11, 0]);
        assert_eq!(worker_cores(&dual(), None, 3), [1, 2, 3]);
        assert_eq!(worker_cores(&dual(), Some(7), 2), [1, 2]);
    }

    #[test]
    fn isolated_cores_first_though_not_allowed_by_default() {
        let isolated: Vec<u32> = vec![2, 3, 6, 7];
        let allowed = (0..16).filter(|core| !isolated.contains(core)).collect();
        let cpu = Cpu { isolated, allowed, ..dual() };
        assert_eq!(worker_cores(&cpu, Some(1), 5), [6, 7, 2, 3, 4]);
    }

    #[test]
    fn an_affinity_goes_before_isolated_cores() {
        let cpu = Cpu { isolated: vec![6, 7], allowed: vec![0, 1], ..dual() };
        assert_eq!(worker_cores(&cpu, Some(1), 4), [1, 0]);
    }

    #[test]
    fn small_machines() {
        let two = Cpu { online: vec![0, 1], allowed: vec![0, 1], ..Cpu::default() };
        assert_eq!(worker_cores(&two, None, 1), [1]);
        assert_eq!(worker_cores(&two, None, 9), [1, 0]);
        let one = Cpu { online: vec![0], allowed: vec![0], ..Cpu::default() };
        assert_eq!(worker_cores(&one, Some(0), 1), [0]);
        assert!(worker_cores(&Cpu::default(), None, 1).is_empty());
    }

    #[test]
    fn a_thread_is_put_on_its_core() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            let core = (0..CpuSet::MAX_CPU).rfind(|core| before.is_set(*core)).unwrap();
            pin_current_thread(core as u32).unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert_eq!((now.count(), now.is_set(core)), (1, true));
            for absent in [CpuSet::MAX_CPU as u32 - 1, CpuSet::MAX_CPU as u32, u32::MAX] {
                let error = pin_current_thread(absent).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    format!("core {absent} cannot be used: this process runs on core {core}")
                );
            }
        })
        .join()
        .unwrap();
    }

    proptest! {
        #[test]
        fn chosen_cores_are_distinct_and_usable(
            online in prop::collection::btree_set(0u32..40, 0..20),
            isolated in prop::collection::btree_set(0u32..40, 0..10),
            allowed in prop::collection::btree_set(0u32..40, 0..20),
            count in 0usize..50,
        ) {
            let online: Vec<u32> = online.into_iter().collect();
            let cpu = Cpu {
                allowed: allowed.into_iter().filter(|core| online.contains(core)).collect(),
                isolated: isolated.into_iter().collect(),
                online,
                ..Cpu::default()
            };
            let chosen = worker_cores(&cpu, None, count);
            let mut distinct = chosen.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), chosen.len());
            prop_assert_eq!(chosen.len(), count.min(usable(&cpu).len()));
            prop_assert!(chosen.iter().all(|core| cpu.online.contains(core)));
        }
    }
}
