//! Access of this process to the kernel's facilities for ports, found out by trying: sockets are
//! opened and closed again, a two-instruction program is loaded and not attached to anything.

use std::{fs::OpenOptions, io};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::Serialize;

use super::{
    finding::Finding,
    host::Host,
    privilege::{LEAVE_USER_NAMESPACE, Privilege, grant},
};
use crate::bpf::{self, Instruction};

/// `r0 = XDP_PASS; exit`.
const PASS: [Instruction; 2] = [
    Instruction { code: 0xb7, registers: 0, offset: 0, immediate: 2 },
    Instruction { code: 0x95, registers: 0, offset: 0, immediate: 0 },
];

/// Result of trying a facility.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It works.
    Available,
    /// This process may not.
    NotPermitted,
    /// The kernel does not have it.
    Unsupported,
    /// Something else went wrong.
    Failed(String),
}

/// Facilities for ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facilities {
    /// Sockets of `xdp:` ports.
    pub xdp_socket: Access,
    /// Programs of `xdp:` ports.
    pub xdp_program: Access,
    /// Sockets of `packet:` ports.
    pub packet_socket: Access,
    /// The device behind `tap:` ports.
    pub tun_device: Access,
}

impl Facilities {
    /// Tries everything.
    pub(super) fn probe() -> Facilities {
        Facilities {
            xdp_socket: socket(AddressFamily::XDP).into(),
            xdp_program: bpf::load(&PASS, false).map(drop).into(),
            packet_socket: socket(AddressFamily::PACKET).into(),
            tun_device: OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
                .map(drop)
                .into(),
        }
    }

    pub(super) fn findings(&self, host: &Host, privilege: &Privilege, findings: &mut Vec<Finding>) {
        let grant = grant();
        let no_xdp = "no xdp: ports; packet: ports do the same, slower";
        findings.push(self.xdp_socket.finding(
            "af_xdp sockets",
            no_xdp,
            &grant,
            "boot a kernel with CONFIG_XDP_SOCKETS=y",
        ));
        findings.push(self.xdp_program.finding(
            "xdp programs",
            no_xdp,
            if privilege.machine_wide { &grant } else { LEAVE_USER_NAMESPACE },
            "boot a kernel with CONFIG_BPF_SYSCALL=y",
        ));
        findings.push(self.packet_socket.finding(
            "af_packet sockets",
            "no packet: ports",
            &grant,
            "sudo modprobe af_packet",
        ));
        findings.push(self.tun_device.finding(
            "tun device",
            "no tap: ports",
            "sudo chmod a+rw /dev/net/tun",
            if host.container.is_some() {
                "start the container with --device /dev/net/tun --cap-add NET_ADMIN"
            } else {
                "sudo modprobe tun"
            },
        ));
    }
}

impl Access {
    fn finding(
        &self,
        name: &'static str,
        consequence: &str,
        permit: &str,
        provide: &str,
    ) -> Finding {
        match self {
            Access::Available => Finding::ok(name, "available"),
            Access::NotPermitted => {
                Finding::missing(name, "not permitted").consequence(consequence).remedy(permit)
            }
            Access::Unsupported => Finding::missing(name, "not in this system")
                .consequence(consequence)
                .remedy(provide),
            Access::Failed(reason) => Finding::missing(name, reason).consequence(consequence),
        }
    }
}

impl From<io::Result<()>> for Access {
    fn from(result: io::Result<()>) -> Access {
        let Err(error) = result else { return Access::Available };
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Access::NotPermitted;
        }
        match error.raw_os_error() {
            Some(
                libc::EAFNOSUPPORT
                | libc::EPROTONOSUPPORT
                | libc::ESOCKTNOSUPPORT
                | libc::ENOSYS
                | libc::ENOENT
                | libc::ENODEV
                | libc::ENXIO
                | libc::EINVAL,
            ) => Access::Unsupported,
            _ => Access::Failed(error.to_string()),
        }
    }
}

fn socket(family: AddressFamily) -> io::Result<()> {
    socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    Ok(())
}
