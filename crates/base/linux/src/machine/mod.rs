//! The machine: what it offers to packet processing and what it lacks.
//!
//! [`Machine::inspect`] gathers facts; [`Machine::findings`] judges them, each with its consequence
//! and the command that helps. Facts are read from text by functions that take any source of files,
//! so that findings about machines we do not have are tested too; only [`Facilities`] are tried
//! out. A missing file is a fact that is not known, never an error. [`worker_cores`] and
//! [`pin_current_thread`] put workers on cores.

mod access;
mod cores;
mod cpu;
mod finding;
mod host;
mod memory;
mod placement;
mod privilege;
mod source;

use serde::Serialize;

use self::source::{Live, Source};
pub use self::{
    access::{Access, Facilities},
    cores::{CoreListError, format_cores, parse_cores},
    cpu::{Cpu, Node},
    finding::{Finding, Status},
    host::Host,
    memory::{HugePages, Limit, Memory},
    placement::{PinError, pin_current_thread, worker_cores},
    privilege::{Capability, Privilege},
};

/// The facts about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Kernel, virtual machine, container.
    pub host: Host,
    /// Processor cores.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Privileges of this process.
    pub privilege: Privilege,
    /// Access of this process to the kernel's facilities.
    pub access: Facilities,
}

impl Machine {
    /// Gathers the facts about this machine and this process.
    pub fn inspect() -> Machine {
        Machine::read(&Live, Facilities::probe())
    }

    /// The facts as judged, in the order to show them.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.host.findings(&mut findings);
        self.cpu.findings(&mut findings);
        let may_lock = self.privilege.machine_wide && self.privilege.has(Capability::IpcLock);
        self.memory.findings(may_lock, &mut findings);
        self.privilege.findings(&mut findings);
        self.access.findings(&self.host, &self.privilege, &mut findings);
        findings
    }

    fn read(source: &impl Source, access: Facilities) -> Machine {
        Machine {
            host: Host::read(source),
            cpu: Cpu::read(source),
            memory: Memory::read(source),
            privilege: Privilege::read(source),
            access,
        }
    }
}

impl Cpu {
    /// The facts about this machine's cores alone, for placing workers.
    pub fn inspect() -> Cpu {
        Cpu::read(&Live)
    }
}

impl Memory {
    /// The facts about this machine's memory alone.
    pub fn inspect() -> Memory {
        Memory::read(&Live)
    }
}

#[cfg(test)]
mod tests;
