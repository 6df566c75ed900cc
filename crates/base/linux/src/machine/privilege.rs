//! Privileges of this process: capabilities, user namespaces, loading programs into the kernel.
//! Sources: `linux/capability.h`, capabilities(7), `Documentation/admin-guide/sysctl/kernel.rst`.

use std::{env, fmt};

use rustix::thread::CapabilitySet;
use serde::{Serialize, Serializer};

use super::{
    finding::Finding,
    source::{Source, field},
};

/// The command that gives this program the capabilities that ports need. It names all of them,
/// since each use replaces those given before. The file that a shell finds under the program's name
/// may be a script that starts it, and files with `#!` get no capabilities: so it names the file
/// that runs.
pub(super) fn grant() -> String {
    let program = env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let program = program.map_or("PROGRAM".into(), |path| shell_word(&path));
    format!("sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock,cap_sys_nice+ep {program}")
}

/// A text as one word of a shell's.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Remedy where a user namespace is the obstacle.
pub(super) const LEAVE_USER_NAMESPACE: &str = "run linerate as root outside of the user namespace";

/// A capability that some port or setting needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Raw sockets: `packet:` and `xdp:` ports.
    NetRaw,
    /// Changing interfaces, attaching programs to them, creating taps.
    NetAdmin,
    /// Loading programs into the kernel.
    Bpf,
    /// Everything not split off yet; for kernels before `CAP_BPF` (5.8).
    SysAdmin,
    /// Locking memory beyond the limit.
    IpcLock,
    /// Real-time scheduling, and placing memory of other processes.
    SysNice,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 6] = [
        Capability::NetRaw,
        Capability::NetAdmin,
        Capability::Bpf,
        Capability::SysAdmin,
        Capability::IpcLock,
        Capability::SysNice,
    ];

    fn set(self) -> CapabilitySet {
        match self {
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::NetRaw => CapabilitySet::NET_RAW,
            Capability::IpcLock => CapabilitySet::IPC_LOCK,
            Capability::SysAdmin => CapabilitySet::SYS_ADMIN,
            Capability::SysNice => CapabilitySet::SYS_NICE,
            Capability::Bpf => CapabilitySet::BPF,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::Bpf => "CAP_BPF",
        }
    }

    /// Features that do not work without it.
    fn purpose(self) -> &'static str {
        match self {
            Capability::NetRaw => "packet: and xdp: ports",
            Capability::NetAdmin => "tap: and xdp: ports and changing interfaces",
            Capability::Bpf => "loading the XDP program",
            Capability::SysAdmin => "entering network namespaces",
            Capability::IpcLock => "packet memory beyond the lock limit",
            Capability::SysNice => "real-time scheduling",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Capability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Privileges of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Privilege {
    /// Its effective capabilities, of those that matter; `None` where `/proc`
    /// does not say.
    pub capabilities: Option<Vec<Capability>>,
    /// Whether those hold for the whole machine and not just for a user
    /// namespace.
    pub machine_wide: bool,
    /// Whether a process without privileges can make a user namespace, and be
    /// root in there.
    pub user_namespaces: Option<bool>,
    /// The setting `kernel.unprivileged_bpf_disabled`: 0 any process may load programs, 1 and 2
    /// only privileged ones.
    pub unprivileged_bpf_disabled: Option<u64>,
}

impl Privilege {
    pub(super) fn read(source: &impl Source) -> Privilege {
        let status = source.read("/proc/self/status").unwrap_or_default();
        let setting = |name: &str| source.number(&format!("/proc/sys/{name}"));
        // Debian's switch, Ubuntu's switch, the count of all kernels.
        let switched_off = setting("kernel/unprivileged_userns_clone") == Some(0)
            || setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1);
        Privilege {
            capabilities: field(&status, "CapEff").and_then(|text| {
                let mask = u64::from_str_radix(text, 16).ok()?;
                let effective = CapabilitySet::from_bits_retain(mask);
                let held = |capability: &Capability| effective.contains(capability.set());
                Some(Capability::ALL.into_iter().filter(held).collect())
            }),
            // The initial user namespace maps all identifiers onto themselves.
            machine_wide: source
                .line("/proc/self/uid_map")
                .is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"])),
            user_namespaces: setting("user/max_user_namespaces")
                .map(|count| count > 0 && !switched_off),
            unprivileged_bpf_disabled: setting("kernel/unprivileged_bpf_disabled"),
        }
    }

    /// Returns true if the process has a capability, as far as is known.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.as_ref().is_some_and(|held| held.contains(&capability))
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        findings.push(self.capabilities());
        findings.push(self.user_namespaces());
        findings.push(self.unprivileged_bpf());
    }

    fn capabilities(&self) -> Finding {
        let name = "capabilities";
        let Some(held) = &self.capabilities else {
            return Finding::degraded(name, "not reported")
                .consequence("what will be refused shows only when it is tried")
                .remedy("mount /proc in this container");
        };
        // CAP_SYS_ADMIN contains CAP_BPF, and is needed for little else.
        let has = |capability: Capability| {
            held.contains(&capability)
                || (capability == Capability::Bpf && held.contains(&Capability::SysAdmin))
        };
        let lacking: Vec<Capability> =
            Capability::ALL.into_iter().filter(|capability| !has(*capability)).collect();
        let names = |capabilities: &[Capability]| {
            capabilities.iter().map(Capability::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut value = if held.is_empty() { "none".into() } else { names(held) };
        if !self.machine_wide {
            value += " (in a user namespace)";
        }
        let needed: Vec<Capability> = lacking
            .iter()
            .copied()
            .filter(|capability| *capability != Capability::SysAdmin)
            .collect();
        if needed.is_empty() {
            return if self.machine_wide {
                Finding::ok(name, value)
            } else {
                Finding::degraded(name, value)
                    .consequence("programs cannot be loaded into the kernel from a user namespace: no xdp: ports")
                    .remedy(LEAVE_USER_NAMESPACE)
            };
        }
        let uses: Vec<String> = needed
            .iter()
            .map(|capability| format!("{} ({capability})", capability.purpose()))
            .collect();
        let ports = [Capability::NetRaw, Capability::NetAdmin];
        let finding = if ports.iter().any(|capability| needed.contains(capability)) {
            Finding::missing(name, value)
        } else {
            Finding::degraded(name, value)
        };
        finding.consequence(format!("not possible: {}", uses.join(", "))).remedy(grant())
    }

    fn user_namespaces(&self) -> Finding {
        let name = "user namespaces";
        match self.user_namespaces {
            Some(true) => Finding::ok(name, "anybody may make one"),
            None => Finding::ok(name, "not reported"),
            Some(false) => Finding::degraded(name, "not for unprivileged processes")
                .consequence("the examples in network namespaces need root")
                .remedy("sudo sysctl -w user.max_user_namespaces=10000; on Debian also kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"),
        }
    }

    fn unprivileged_bpf(&self) -> Finding {
        let name = "unprivileged bpf";
        // XDP programs need privileges with any value of this.
        match self.unprivileged_bpf_disabled {
            Some(0) => Finding::ok(name, "allowed, but not for XDP programs"),
            Some(_) => Finding::ok(name, "refused, as it should be"),
            None => Finding::ok(name, "not reported"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        for (path, word) in [
            ("/usr/lib/linerate/linerate", "/usr/lib/linerate/linerate"),
            ("/home/me/my tools/linerate", "'/home/me/my tools/linerate'"),
            ("/tmp/it's", r"'/tmp/it'\''s'"),
        ] {
            assert_eq!(shell_word(path), word);
        }
    }
}
