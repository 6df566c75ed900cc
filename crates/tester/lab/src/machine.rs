//! The machine of the results: its processor, memory and kernel.

use std::path::Path;

use linerate_linux::machine::Machine;
use linerate_memory::{ArenaOptions, clock::cycles_per_second};
use serde::{Deserialize, Serialize};

use crate::{
    point::Key,
    store::{MACHINE, Store, StoreError, read_json},
};

/// A machine, as `machine.json` holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Hash of the facts that tell it from others: processor, cores, caches, memory, nodes, kernel.
    pub id: String,
    /// The processor.
    pub model: String,
    /// Cores this process may use.
    pub cores: u32,
    /// Ticks of the cycle counter per second.
    pub tsc_hz: f64,
    /// Bytes of the caches of a core: first, second, third level.
    pub caches: [Option<u64>; 3],
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Nodes of memory.
    pub nodes: u32,
    /// Hardware threads of a core.
    pub threads_per_core: u32,
    /// The kernel.
    pub kernel: String,
    /// Kind of the virtual machine, if it is one.
    pub virtual_machine: Option<String>,
    /// Kind of pages that packet memory gets.
    pub pages: String,
    /// 2 MiB pages set aside.
    pub huge_pages: u64,
    /// Transparent huge pages, as the kernel is set.
    pub transparent_pages: Option<String>,
    /// Set if the processor's event counters can be read: cache misses.
    pub counters: bool,
    /// Set if the clock can be set.
    pub clock_can_be_set: bool,
    /// Set if energy can be read.
    pub energy: bool,
    /// Set if interfaces can be made to measure ports of the kernel's.
    pub interfaces: bool,
    /// The version of Linerate.
    pub version: String,
}

impl Description {
    /// This machine.
    pub fn here() -> Description {
        let machine = Machine::inspect();
        let Machine { host, cpu, memory, .. } = &machine;
        let model = cpu.model.clone().unwrap_or_else(|| "not reported".into());
        let kernel = host.kernel.clone().unwrap_or_else(|| "not reported".into());
        let caches = [cpu.l1, cpu.l2, cpu.l3];
        let there = |path: &str| Path::new(path).exists();
        // Total memory differs by some pages from boot to boot.
        let gibibytes = memory.total.map(|bytes| bytes.div_ceil(1 << 30));
        let identity = serde_json::json!([
            model,
            cpu.online.len(),
            caches,
            gibibytes,
            cpu.nodes.len(),
            kernel,
        ]);
        let arena = ArenaOptions { size: 4 << 20, ..ArenaOptions::default() }.create();
        let large = memory.huge_pages.iter().find(|pages| pages.size == 2 << 20);
        Description {
            id: Key::for_text(&identity.to_string()).as_str()[..12].to_owned(),
            model,
            cores: cpu.allowed.len() as u32,
            // Fractions of a hertz are no property of a machine.
            tsc_hz: cycles_per_second().round(),
            caches,
            memory_bytes: memory.total,
            nodes: cpu.nodes.len().max(1) as u32,
            threads_per_core: cpu.siblings.iter().map(Vec::len).max().unwrap_or(1).max(1) as u32,
            kernel,
            virtual_machine: host.virtual_machine.clone(),
            pages: arena.map_or("none".into(), |arena| arena.pages().to_string()),
            huge_pages: large.map_or(0, |pages| pages.total),
            transparent_pages: memory.transparent.clone(),
            counters: there("/sys/bus/event_source/devices/cpu/events/cache-misses"),
            clock_can_be_set: there("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"),
            energy: there("/sys/class/powercap/intel-rapl:0/energy_uj"),
            interfaces: rustix::process::geteuid().is_root(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Writes it into a results directory.
    ///
    /// # Errors
    ///
    /// When the directory holds results of another machine, or it cannot be
    /// written.
    pub fn keep(&self, store: &Store) -> Result<(), StoreError> {
        match read_json::<Description>(store.dir(), MACHINE) {
            Ok(found) if found.id == self.id => Ok(()),
            Ok(found) => Err(StoreError::OtherMachine {
                path: store.dir().into(),
                found: format!("{}, {}", found.id, found.model),
                expected: format!("{}, {}", self.id, self.model),
            }),
            Err(StoreError::File { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                store.write_json(MACHINE, self)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_the_same_each_time() {
        let (one, other) = (Description::here(), Description::here());
        assert_eq!((&one.id, one.id.len()), (&other.id, 12));
        assert!(one.cores > 0 && one.tsc_hz > 0.0);
    }

    #[test]
    fn results_of_different_machines_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let here = Description::here();
        here.keep(&store).unwrap();
        here.keep(&store).unwrap();
        let other = Description { id: "0".into(), ..here };
        let error = other.keep(&store).unwrap_err().to_string();
        assert!(error.contains("results of another machine"), "{error}");
    }
}
