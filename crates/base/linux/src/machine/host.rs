//! Kind of this system: its kernel, and whether it is a machine of its own, a virtual one or a
//! container.

use serde::Serialize;

use super::{
    finding::Finding,
    source::{Source, field},
};

/// The system a process runs on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Host {
    /// The kernel's release, as `uname -r` says it.
    pub kernel: Option<String>,
    /// Its first two numbers.
    pub kernel_version: Option<(u32, u32)>,
    /// Kind of virtual machine that this seems to be.
    pub virtual_machine: Option<String>,
    /// Kind of container that this seems to be.
    pub container: Option<String>,
}

impl Host {
    pub(super) fn read(source: &impl Source) -> Host {
        let kernel = source.line("/proc/sys/kernel/osrelease");
        Host {
            kernel_version: kernel.as_deref().and_then(version),
            kernel,
            virtual_machine: virtual_machine(source),
            container: container(source),
        }
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        findings.push(self.kernel());
        let name = "virtualisation";
        let kinds = [("virtual machine", &self.virtual_machine), ("container", &self.container)];
        let value: Vec<String> = kinds
            .into_iter()
            .filter_map(|(what, kind)| Some(format!("{what} ({})", kind.as_ref()?)))
            .collect();
        findings.push(if self.virtual_machine.is_some() {
            Finding::degraded(name, value.join(", "))
                .consequence("the hypervisor takes cores away now and then: rare delays and loss no setting in here prevents")
                .remedy("on the host, give each virtual core a physical one of its own")
        } else if value.is_empty() {
            Finding::ok(name, "none seen")
        } else {
            Finding::ok(name, value.join(", "))
        });
    }

    fn kernel(&self) -> Finding {
        let name = "kernel";
        let value = self.kernel.clone().unwrap_or_else(|| "not reported".into());
        let upgrade = "boot a newer kernel; all that is used here is in 6.6 and later";
        match self.kernel_version {
            Some(version) if version < (4, 18) => Finding::missing(name, value)
                .consequence("older than AF_XDP (4.18): no xdp: ports")
                .remedy(upgrade),
            Some(version) if version < (5, 9) => Finding::degraded(name, value)
                .consequence("XDP programs cannot be attached through a link (5.9), which detaches them however a process ends")
                .remedy(upgrade),
            Some(version) if version < (5, 11) => Finding::degraded(name, value)
                .consequence("no preferred busy polling (5.11): xdp: ports lose to interrupts under load")
                .remedy(upgrade),
            Some(version) if version < (6, 3) => Finding::degraded(name, value)
                .consequence("drivers' XDP abilities cannot be asked for (6.3): zero-copy shows only when it is tried")
                .remedy(upgrade),
            _ => Finding::ok(name, value),
        }
    }
}

/// `6.18.44-fc` is (6, 18).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|character: char| !character.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn virtual_machine(source: &impl Source) -> Option<String> {
    let identity: Vec<String> = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| source.line(&format!("/sys/class/dmi/id/{file}")))
        .collect();
    let identity = identity.join(" ");
    let kind = source.line("/sys/hypervisor/type").or_else(|| {
        // Names of hypervisors, and nothing else, for their machines.
        let names = [
            "KVM",
            "QEMU",
            "VMware",
            "VirtualBox",
            "Virtual Machine",
            "Xen",
            "HVM domU",
            "Amazon EC2",
            "Google Compute Engine",
            "OpenStack",
            "Firecracker",
            "Parallels",
            "BHYVE",
        ];
        // EC2 sells whole machines too, under names of this form.
        let whole = identity.contains("Amazon EC2") && identity.contains(".metal");
        (!whole && names.iter().any(|name| identity.contains(name))).then(|| identity.clone())
    });
    kind.or_else(|| {
        let info = source.read("/proc/cpuinfo")?;
        let flags = field(&info, "flags")?;
        flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| {
            if identity.is_empty() { "kind not reported".into() } else { identity.clone() }
        })
    })
}

fn container(source: &impl Source) -> Option<String> {
    if source.read("/.dockerenv").is_some() {
        return Some("docker".into());
    }
    if source.read("/run/.containerenv").is_some() {
        return Some("podman".into());
    }
    source.line("/run/systemd/container").or_else(|| {
        let groups = source.read("/proc/1/cgroup")?;
        ["kubepods", "docker", "containerd", "lxc"]
            .into_iter()
            .find(|name| groups.contains(name))
            .map(str::to_owned)
    })
}
