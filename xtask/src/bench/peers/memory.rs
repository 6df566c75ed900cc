//! Memory for DPDK: huge pages reserved for the time of a measurement, else small ones.
//!
//! DPDK runs with `--in-memory`, which takes huge pages without a mounted file system and leaves
//! nothing behind when the process is killed. Without huge pages it must keep its bookkeeping in
//! files, which [`super::process`] removes.

use std::fs;

use crate::bench::restore::RestoreOnDrop;

const NR_HUGEPAGES: &str = "/proc/sys/vm/nr_hugepages";
const MEMINFO: &str = "/proc/meminfo";

/// Huge pages DPDK's programs need here: 16,384 packet buffers and the part its libraries set
/// aside.
const PAGES: u64 = 128;
/// Those two of them need beside each other, and ours.
const PAIR_PAGES: u64 = 400;
/// Those its largest tables need: four million keys with their data.
const TABLE_PAGES: u64 = 384;

/// Memory of DPDK's programs. Huge pages are returned to the kernel on drop.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Restores the number of reserved pages, when this changed it.
    _undo: Option<RestoreOnDrop>,
    huge: bool,
    pages: u64,
}

impl Memory {
    /// Reserves huge pages for packets; where the kernel refuses, small pages it is.
    pub(crate) fn reserve() -> Self {
        Memory::reserve_pages(PAGES)
    }

    /// Reserves for two programs that run at a time.
    pub(crate) fn reserve_for_two() -> Self {
        Memory::reserve_pages(PAIR_PAGES)
    }

    /// Reserves for large tables.
    pub(crate) fn reserve_for_tables() -> Self {
        Memory::reserve_pages(TABLE_PAGES)
    }

    fn reserve_pages(pages: u64) -> Self {
        let free = meminfo("HugePages_Free:");
        if free >= Some(pages) {
            return Memory { _undo: None, huge: true, pages };
        }
        let Some(before) = fs::read_to_string(NR_HUGEPAGES).ok().and_then(|text| number(&text))
        else {
            return Memory { _undo: None, huge: false, pages };
        };
        let wanted = before + pages - free.unwrap_or(0).min(pages);
        // The kernel takes the number and reserves as many as it finds, so only the count of free
        // pages tells the result.
        let written = fs::write(NR_HUGEPAGES, wanted.to_string()).is_ok();
        Memory {
            _undo: written.then(|| RestoreOnDrop::by(move || restore(before))),
            huge: meminfo("HugePages_Free:") >= Some(pages),
            pages,
        }
    }

    /// Pages of 4 KiB only, for large tables.
    pub(crate) fn small_for_tables() -> Self {
        Memory { _undo: None, huge: false, pages: TABLE_PAGES }
    }

    /// Pages of 4 KiB only.
    pub(crate) fn small() -> Self {
        Memory { _undo: None, huge: false, pages: PAGES }
    }

    /// Returns true if DPDK runs on huge pages.
    pub(crate) fn is_huge(&self) -> bool {
        self.huge
    }

    /// Arguments for DPDK's environment layer on these cores, the first being the main one.
    pub(super) fn eal_arguments(&self, prefix: &str, cores: &[usize]) -> Vec<String> {
        let cores: Vec<_> = cores.iter().map(usize::to_string).collect();
        let mut arguments = vec![
            "-l".to_owned(),
            cores.join(","),
            format!("--main-lcore={}", cores[0]),
            "--no-pci".to_owned(),
            "--no-telemetry".to_owned(),
            format!("--file-prefix={prefix}"),
        ];
        let megabytes = (2 * self.pages).to_string();
        let memory: &[&str] =
            if self.huge { &["--in-memory"] } else { &["--no-huge", "-m", &megabytes] };
        arguments.extend(memory.iter().map(ToString::to_string));
        arguments
    }
}

fn restore(before: u64) {
    if let Err(error) = fs::write(NR_HUGEPAGES, before.to_string()) {
        eprintln!("cannot restore {NR_HUGEPAGES} to {before}: {error}");
    }
}

fn meminfo(field: &str) -> Option<u64> {
    let text = fs::read_to_string(MEMINFO).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)).and_then(number)
}

fn number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_need_no_files_of_the_huge_kind() {
        let arguments = Memory::small().eal_arguments("name", &[0, 1]);
        assert_eq!(arguments[..2], ["-l", "0,1"]);
        assert!(arguments.contains(&"--no-huge".to_owned()));
        assert!(!arguments.contains(&"--in-memory".to_owned()));
    }
}
