//! Memory: how much, and in which page sizes. Sources: `/proc/meminfo`,
//! `Documentation/admin-guide/mm/hugetlbpage.rst` and `transhuge.rst`.

use serde::Serialize;

use super::{
    finding::Finding,
    privilege::Capability,
    source::{Source, bytes_text, chosen, field, size},
};

const HUGE: &str = "/sys/kernel/mm/hugepages";
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";
/// An arena of the size that is taken when none is asked for.
const ARENA: u64 = 16 << 20;

/// The memory of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Memory {
    /// All of it, in bytes.
    pub total: Option<u64>,
    /// Memory available now, in bytes.
    pub available: Option<u64>,
    /// Limit of this container, in bytes.
    pub container_limit: Option<u64>,
    /// Huge pages, by size.
    pub huge_pages: Vec<HugePages>,
    /// When programs get huge pages without asking for a size: `always`,
    /// `madvise` or `never`.
    pub transparent: Option<String>,
    /// When shared memory, which arenas are, gets huge pages.
    pub transparent_shared: Option<String>,
    /// Limit of memory that this process may lock.
    pub lock_limit: Limit,
}

/// Huge pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Bytes of a page.
    pub size: u64,
    /// Pages set aside.
    pub total: u64,
    /// Unused pages of those.
    pub free: u64,
    /// Pages the kernel may make beyond those when asked.
    pub overcommit: u64,
}

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Could not be found out.
    #[default]
    Unknown,
    /// None.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
}

impl Memory {
    pub(super) fn read(source: &impl Source) -> Memory {
        let info = source.read("/proc/meminfo").unwrap_or_default();
        let setting = |name: &str| {
            source.read(&format!("{TRANSPARENT}/{name}")).and_then(|text| chosen(&text))
        };
        let total = field(&info, "MemTotal").and_then(size);
        Memory {
            total,
            available: field(&info, "MemAvailable").and_then(size),
            // Unlimited is `max` in version 2 and a very large number in 1.
            container_limit: source
                .number("/sys/fs/cgroup/memory.max")
                .or_else(|| source.number("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
                .filter(|limit| total.is_none_or(|total| *limit < total)),
            huge_pages: huge_pages(source, &info),
            transparent: setting("enabled"),
            transparent_shared: setting("shmem_enabled"),
            lock_limit: source
                .read("/proc/self/limits")
                .and_then(|text| lock_limit(&text))
                .unwrap_or_default(),
        }
    }

    pub(super) fn findings(&self, may_lock: bool, findings: &mut Vec<Finding>) {
        findings.push(self.amount());
        findings.push(self.huge());
        findings.push(self.transparent());
        findings.push(self.locking(may_lock));
    }

    fn amount(&self) -> Finding {
        let text = |bytes: Option<u64>| bytes.map_or_else(|| "not reported".into(), bytes_text);
        let mut value = format!("{}, available {}", text(self.total), text(self.available));
        if let Some(limit) = self.container_limit {
            value += &format!(", container limit {}", bytes_text(limit));
        }
        match self.available.into_iter().chain(self.container_limit).min() {
            Some(available) if available < 2 * ARENA => Finding::degraded("memory", value)
                .consequence("the default arena may not fit")
                .remedy("use a smaller arena: --arena 4M"),
            _ => Finding::ok("memory", value),
        }
    }

    fn huge(&self) -> Finding {
        let name = "huge pages";
        if self.huge_pages.is_empty() {
            return Finding::degraded(name, "not supported by this kernel")
                .consequence("arenas use 4 KiB pages: more time goes to address translation")
                .remedy("boot a kernel with CONFIG_HUGETLBFS=y");
        }
        let value: Vec<String> = self
            .huge_pages
            .iter()
            .map(|pages| {
                let mut text =
                    format!("{}: {} of {} free", bytes_text(pages.size), pages.free, pages.total);
                if pages.overcommit > 0 {
                    text += &format!(", {} more on demand", pages.overcommit);
                }
                text
            })
            .collect();
        let room = self.huge_pages.iter().any(|pages| {
            pages.size.saturating_mul(pages.free.saturating_add(pages.overcommit)) >= ARENA
        });
        let value = value.join("; ");
        if room {
            return Finding::ok(name, value);
        }
        // Of the smallest size, which can be made while the machine runs.
        let smallest = self.huge_pages[0];
        let wanted = smallest.total.saturating_add((16 * ARENA).div_ceil(smallest.size.max(1)));
        Finding::degraded(name, value)
            .consequence("arenas use transparent huge pages or 4 KiB pages: more time goes to address translation")
            .remedy(format!(
                "echo {wanted} | sudo tee {HUGE}/hugepages-{}kB/nr_hugepages",
                smallest.size >> 10
            ))
    }

    fn transparent(&self) -> Finding {
        let name = "transparent huge pages";
        let Some(shared) = self.transparent_shared.as_deref() else {
            return Finding::degraded(name, "not supported by this kernel")
                .consequence("arenas without huge pages set aside use 4 KiB pages");
        };
        let private = self.transparent.as_deref().unwrap_or("not reported");
        let value = format!("{private}; shared memory {shared}");
        match shared {
            "never" | "deny" => Finding::degraded(name, value)
                .consequence(
                    "arenas are shared memory: without huge pages set aside they use 4 KiB pages",
                )
                .remedy(format!("echo advise | sudo tee {TRANSPARENT}/shmem_enabled")),
            _ => Finding::ok(name, value),
        }
    }

    fn locking(&self, may_lock: bool) -> Finding {
        let name = "memory lock limit";
        match self.lock_limit {
            Limit::Unlimited => Finding::ok(name, "unlimited"),
            Limit::Unknown => Finding::ok(name, "not reported"),
            Limit::Bytes(bytes) if may_lock => Finding::ok(
                name,
                format!("{}, not binding with {}", bytes_text(bytes), Capability::IpcLock),
            ),
            Limit::Bytes(bytes) if bytes >= 2 * ARENA => Finding::ok(name, bytes_text(bytes)),
            Limit::Bytes(bytes) => Finding::degraded(name, bytes_text(bytes))
                .consequence(
                    "AF_XDP counts its packet memory against it: larger arenas are refused",
                )
                .remedy("sudo prlimit --memlock=unlimited --pid $$"),
        }
    }
}

/// Sizes ascending.
fn huge_pages(source: &impl Source, info: &str) -> Vec<HugePages> {
    let mut pages: Vec<HugePages> = source
        .list(HUGE)
        .iter()
        .filter_map(|name| {
            let size = size(name.strip_prefix("hugepages-")?)?;
            let count = |file: &str| source.number(&format!("{HUGE}/{name}/{file}"));
            Some(HugePages {
                size,
                total: count("nr_hugepages")?,
                free: count("free_hugepages")?,
                overcommit: count("nr_overcommit_hugepages").unwrap_or(0),
            })
        })
        .collect();
    if pages.is_empty() {
        // Where /sys is hidden, /proc tells about the default size.
        let count = |key: &str| field(info, key)?.parse().ok();
        if let (Some(size), Some(total), Some(free)) = (
            field(info, "Hugepagesize").and_then(size),
            count("HugePages_Total"),
            count("HugePages_Free"),
        ) {
            pages.push(HugePages { size, total, free, overcommit: 0 });
        }
    }
    pages.sort_by_key(|pages| pages.size);
    pages
}

/// The soft limit of `/proc/self/limits`.
fn lock_limit(text: &str) -> Option<Limit> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(Limit::Unlimited),
        bytes => Some(Limit::Bytes(bytes.parse().ok()?)),
    }
}
