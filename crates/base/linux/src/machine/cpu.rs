//! Processor cores: present, usable, their topology, and causes of uneven timing. Sources:
//! `/proc/cpuinfo`, `Documentation/ABI/testing/sysfs-devices-system-cpu` and `-node`.

use serde::Serialize;

use super::{
    cores::{format_cores, kernel_list},
    finding::Finding,
    source::{Source, bytes_text, field, size},
};

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// The processor cores of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Cpu {
    /// The processor's name of itself.
    pub model: Option<String>,
    /// Cores that run.
    pub online: Vec<u32>,
    /// Of those, the cores this process may run on by default.
    pub allowed: Vec<u32>,
    /// Cores the scheduler puts nothing on by itself (`isolcpus`).
    pub isolated: Vec<u32>,
    /// Cores without a timer tick while one thread runs (`nohz_full`).
    pub tickless: Vec<u32>,
    /// Cores that share their execution units, in groups.
    pub siblings: Vec<Vec<u32>>,
    /// NUMA nodes; empty where the kernel does not say.
    pub nodes: Vec<Node>,
    /// First-level data cache of a core, in bytes.
    pub l1: Option<u64>,
    /// Second-level cache of a core, in bytes.
    pub l2: Option<u64>,
    /// Third-level cache, in bytes.
    pub l3: Option<u64>,
    /// Cores that share a third-level cache.
    pub l3_cores: Vec<u32>,
    /// Whether the time stamp counter runs at one rate through frequency
    /// changes and sleep; `None` on processors that have no such counter.
    pub invariant_tsc: Option<bool>,
    /// The kernel's clock source.
    pub clock: Option<String>,
    /// The frequency governors in use; empty where frequency is not
    /// adjustable.
    pub governors: Vec<String>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its cores.
    pub cores: Vec<u32>,
    /// Its memory, in bytes.
    pub memory: Option<u64>,
}

impl Cpu {
    pub(super) fn read(source: &impl Source) -> Cpu {
        let info = source.read("/proc/cpuinfo").unwrap_or_default();
        let list = |path: String| source.read(&path).and_then(|text| kernel_list(&text));
        let online = list(format!("{CPU}/online")).unwrap_or_else(|| listed(&info));
        let allowed = source
            .read("/proc/self/status")
            .and_then(|status| kernel_list(field(&status, "Cpus_allowed_list")?))
            .unwrap_or_else(|| online.clone());
        let mut cpu = Cpu {
            model: model(&info),
            allowed: allowed.into_iter().filter(|core| online.contains(core)).collect(),
            isolated: list(format!("{CPU}/isolated")).unwrap_or_default(),
            tickless: list(format!("{CPU}/nohz_full")).unwrap_or_default(),
            nodes: nodes(source),
            invariant_tsc: invariant_tsc(&info),
            clock: source.line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            ..Cpu::default()
        };
        for &core in &online {
            let path = format!("{CPU}/cpu{core}");
            if let Some(siblings) = list(format!("{path}/topology/thread_siblings_list"))
                && siblings.len() > 1
                && siblings[0] == core
            {
                cpu.siblings.push(siblings);
            }
            if let Some(governor) = source.line(&format!("{path}/cpufreq/scaling_governor"))
                && !cpu.governors.contains(&governor)
            {
                cpu.governors.push(governor);
            }
        }
        if let Some(first) = online.first() {
            cpu.read_caches(source, &format!("{CPU}/cpu{first}/cache"));
        }
        cpu.online = online;
        cpu
    }

    fn read_caches(&mut self, source: &impl Source, path: &str) {
        for index in source.list(path).iter().filter(|name| name.starts_with("index")) {
            let read = |name: &str| source.line(&format!("{path}/{index}/{name}"));
            let bytes = read("size").and_then(|text| size(&text));
            match (read("level").as_deref(), read("type").as_deref()) {
                (Some("1"), Some("Data" | "Unified")) => self.l1 = bytes,
                (Some("2"), Some("Data" | "Unified")) => self.l2 = bytes,
                (Some("3"), Some("Data" | "Unified")) => {
                    self.l3 = bytes;
                    self.l3_cores = read("shared_cpu_list")
                        .and_then(|text| kernel_list(&text))
                        .unwrap_or_default();
                }
                _ => {}
            }
        }
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        findings.push(Finding::ok(
            "processor",
            self.model.clone().unwrap_or_else(|| "model not reported".into()),
        ));
        findings.push(self.cores());
        findings.push(self.caches());
        findings.push(self.timestamps());
        findings.push(self.frequency());
        findings.push(self.isolation());
        findings.push(self.numa());
    }

    fn cores(&self) -> Finding {
        let mut value = format!("{} online", self.online.len());
        if self.allowed.len() < self.online.len() {
            value += &format!(
                ", {} for this process: {}",
                self.allowed.len(),
                format_cores(&self.allowed)
            );
        }
        if let Some(group) = self.siblings.first() {
            value += &format!(", {} threads per physical core", group.len());
        }
        if self.online.is_empty() {
            return Finding::degraded("cores", "not reported")
                .consequence("workers are not placed on cores")
                .remedy("mount /sys and /proc in this container");
        }
        match self.allowed.len() {
            0 | 1 => Finding::degraded("cores", value)
                .consequence(
                    "a polling worker shares its core with everything else: expect loss and delay",
                )
                .remedy("give this process a second core, and do not use --idle poll"),
            _ => Finding::ok("cores", value),
        }
    }

    fn caches(&self) -> Finding {
        let caches = [("L1d", self.l1), ("L2", self.l2), ("L3", self.l3)];
        let sizes: Vec<String> = caches
            .into_iter()
            .filter_map(|(name, bytes)| Some(format!("{name} {}", bytes_text(bytes?))))
            .collect();
        if sizes.is_empty() {
            return Finding::ok("caches", "not reported");
        }
        let mut value = sizes.join(", ");
        if self.l3_cores.len() > 1 {
            value += &format!(" shared by {} cores", self.l3_cores.len());
        }
        Finding::ok("caches", value)
    }

    fn timestamps(&self) -> Finding {
        let name = "time stamp counter";
        let clock = self.clock.as_deref().unwrap_or("not reported");
        match self.invariant_tsc {
            Some(true) => Finding::ok(name, format!("invariant; kernel clock {clock}")),
            Some(false) => Finding::degraded(name, format!("not invariant; kernel clock {clock}"))
                .consequence("cycles per packet and fine pacing are only as steady as the core's frequency")
                .remedy("use the performance governor; in a virtual machine pass the host's processor through (QEMU: -cpu host,+invtsc)"),
            None => Finding::ok(name, format!("none on this processor; kernel clock {clock}")),
        }
    }

    fn frequency(&self) -> Finding {
        let name = "frequency scaling";
        let value = self.governors.join(", ");
        if self.governors.is_empty() {
            Finding::ok(name, "not adjustable here")
        } else if self.governors.iter().all(|governor| governor == "performance") {
            Finding::ok(name, value)
        } else {
            Finding::degraded(name, format!("governor {value}"))
                .consequence("a core that was idle is slow for the first packets of a burst, and measurements vary")
                .remedy("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
        }
    }

    fn isolation(&self) -> Finding {
        let name = "isolated cores";
        if !self.isolated.is_empty() {
            let isolated = format_cores(&self.isolated);
            if self.isolated.iter().all(|core| self.tickless.contains(core)) {
                return Finding::ok(name, format!("{isolated}, without timer ticks"));
            }
            return Finding::degraded(name, format!("{isolated}, with timer ticks"))
                .consequence("the timer interrupts polling workers up to a thousand times a second")
                .remedy(format!("add nohz_full={isolated} rcu_nocbs={isolated} to the kernel command line and reboot"));
        }
        // The first core takes the interrupts and the housekeeping; leave it
        // and its siblings to the system.
        let first = self.online.first().copied().unwrap_or(0);
        let kept = self.siblings.iter().find(|group| group.contains(&first));
        let others: Vec<u32> = self
            .online
            .iter()
            .copied()
            .filter(|core| *core != first && !kept.is_some_and(|group| group.contains(core)))
            .collect();
        let finding = Finding::degraded(name, "none")
            .consequence("the scheduler puts other work on the workers' cores: rare delays of milliseconds, and loss when rings are short");
        if others.is_empty() {
            return finding.remedy("no core can be spared here; use deep rings");
        }
        let list = format_cores(&others);
        finding.remedy(format!(
            "add isolcpus={list} nohz_full={list} rcu_nocbs={list} to the kernel command line and reboot"
        ))
    }

    fn numa(&self) -> Finding {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| {
                let memory = node.memory.map(|bytes| format!(", {}", bytes_text(bytes)));
                format!(
                    "node {}: cores {}{}",
                    node.id,
                    format_cores(&node.cores),
                    memory.unwrap_or_default()
                )
            })
            .collect();
        match nodes.len() {
            0 => Finding::ok("numa", "not reported: taken as one node"),
            _ => Finding::ok("numa", nodes.join("; ")),
        }
    }
}

/// The cores of `/proc/cpuinfo`, in case nothing else lists them.
fn listed(info: &str) -> Vec<u32> {
    info.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == "processor").then(|| value.trim().parse().ok())?
        })
        .collect()
}

fn model(info: &str) -> Option<String> {
    if let Some(model) = field(info, "model name").or_else(|| field(info, "Model")) {
        return Some(model.to_owned());
    }
    // Arm's kernels give numbers and leave names to user space.
    let implementer = field(info, "CPU implementer")?;
    Some(format!("implementer {implementer} part {}", field(info, "CPU part")?))
}

fn invariant_tsc(info: &str) -> Option<bool> {
    let flags: Vec<&str> = field(info, "flags")?.split_whitespace().collect();
    flags
        .contains(&"tsc")
        .then(|| flags.contains(&"constant_tsc") && flags.contains(&"nonstop_tsc"))
}

fn nodes(source: &impl Source) -> Vec<Node> {
    let mut nodes: Vec<Node> = source
        .list(NODE)
        .iter()
        .filter_map(|name| {
            let id = name.strip_prefix("node")?.parse().ok()?;
            let cores = source.read(&format!("{NODE}/{name}/cpulist"))?;
            let memory = source.read(&format!("{NODE}/{name}/meminfo"));
            Some(Node {
                id,
                cores: kernel_list(&cores)?,
                memory: memory.and_then(|text| {
                    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
                    size(line.split_once(':')?.1)
                }),
            })
        })
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}
