//! Opening the queues of a TAP interface, and one read or write.
//!
//! Source: `Documentation/networking/tuntap.rst` and `linux/if_tun.h` of the
//! Linux kernel.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use linerate_linux::interface::{attach_tun, is_tun_deleted, set_tun_header, set_tun_offloads};
use rustix::{
    fs::{Mode, OFlags},
    io::{Errno, IoSlice, IoSliceMut},
};

use crate::{error::OpenError, kernel::OpenErrors, offload::VNET_HEADER};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
const PATH: &str = "/dev/net/tun";

/// Offloads that the stack may leave undone: checksums and TCP segmentation, and on kernels from
/// 6.2 on UDP segmentation.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const UDP_OFFLOADS: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Form of the packets that pass in and out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// With a virtio header.
    pub(super) vnet: bool,
    /// IP packets instead of Ethernet frames.
    pub(super) tun: bool,
}

/// One queue of a TAP or TUN interface.
pub(super) struct Device {
    fd: OwnedFd,
    form: Form,
}

/// Attaches `queues` queues to the interface, which is made if it is not
/// `there`.
pub(super) fn open(
    errors: &OpenErrors,
    interface: &str,
    queues: usize,
    form: Form,
    there: bool,
) -> Result<Vec<Device>, OpenError> {
    // An interface of one queue, so that it cannot be shared by mistake.
    let mut multiple = queues > 1;
    let mut devices = Vec::with_capacity(queues);
    while devices.len() < queues {
        let fd = rustix::fs::open(
            PATH,
            OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| cannot_open(errors, errno))?;
        match attach(fd.as_fd(), interface, form, multiple) {
            Ok(()) => {}
            // It was made for several queues, which must be said again.
            Err(error) if is(&error, libc::EINVAL) && there && !multiple => {
                multiple = true;
                continue;
            }
            Err(error) => return Err(cannot_attach(errors, interface, queues, form, there, error)),
        }
        offload(fd.as_fd(), form.vnet).map_err(errors.failed("set offloads"))?;
        devices.push(Device { fd, form });
    }
    Ok(devices)
}

fn attach(fd: BorrowedFd<'_>, interface: &str, form: Form, multiple: bool) -> io::Result<()> {
    let mut flags = libc::IFF_NO_PI | if form.tun { libc::IFF_TUN } else { libc::IFF_TAP };
    if form.vnet {
        flags |= libc::IFF_VNET_HDR;
    }
    if multiple {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    attach_tun(fd, interface, flags)
}

/// Sets the offloads that the stack may leave undone, which a former owner of the interface may
/// have set otherwise.
fn offload(fd: BorrowedFd<'_>, vnet: bool) -> io::Result<()> {
    if !vnet {
        return set_tun_offloads(fd, 0);
    }
    set_tun_header(fd, VNET_HEADER as libc::c_int)?;
    match set_tun_offloads(fd, OFFLOADS | UDP_OFFLOADS) {
        Err(error) if is(&error, libc::EINVAL) => set_tun_offloads(fd, OFFLOADS),
        result => result,
    }
}

fn is(error: &io::Error, number: libc::c_int) -> bool {
    error.raw_os_error() == Some(number)
}

fn cannot_open(errors: &OpenErrors, errno: Errno) -> OpenError {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => errors.unsupported(format!(
            "there is no {PATH}; load its module (modprobe tun) or, in a container, start it with \
             --device {PATH}"
        )),
        Errno::ACCESS | Errno::PERM => errors.not_permitted(
            "open /dev/net/tun",
            format!("run as root, or make it accessible: chmod a+rw {PATH}"),
        ),
        errno => errors.failed("open /dev/net/tun")(errno.into()),
    }
}

fn cannot_attach(
    errors: &OpenErrors,
    interface: &str,
    queues: usize,
    form: Form,
    there: bool,
    error: io::Error,
) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EBUSY) => errors.busy(format!(
            "another process has the other end of {interface}; stop it or use another name"
        )),
        Some(libc::EINVAL) if there && queues > 1 => errors.unsupported(format!(
            "{interface} was made with one queue; make it again with `ip tuntap add {interface} \
             mode {} multi_queue`, or use queues=1",
            if form.tun { "tun" } else { "tap" },
        )),
        Some(libc::E2BIG | libc::ENFILE) => {
            errors.busy(format!("{interface} has no more queues; use fewer or another name"))
        }
        _ => errors.failed("make or attach a tap interface")(error),
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Device {
    /// Returns true if a virtio header precedes each frame.
    pub(super) fn vnet(&self) -> bool {
        self.form.vnet
    }

    /// Length of the shortest packet.
    pub(super) fn least(&self) -> usize {
        if self.form.tun { 1 } else { ETHERNET }
    }

    /// Reads a frame: its virtio header, as much as there is room for in `to`, and the rest in
    /// `beyond`. Returns the frame's length, as far as there was room.
    #[inline]
    pub(super) fn read(
        &self,
        header: &mut [u8; VNET_HEADER],
        to: &mut [u8],
        beyond: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut parts = [IoSliceMut::new(header), IoSliceMut::new(to), IoSliceMut::new(beyond)];
        if self.form.vnet {
            let length = rustix::io::readv(&self.fd, &mut parts)?;
            Ok(length.saturating_sub(VNET_HEADER))
        } else {
            rustix::io::readv(&self.fd, &mut parts[1..])
        }
    }

    /// Returns true if the interface was deleted.
    pub(super) fn gone(&self) -> bool {
        is_tun_deleted(&self.fd)
    }

    /// Writes a frame whose checksums are complete.
    #[inline]
    pub(super) fn write(&self, frame: &[u8]) -> Result<usize, Errno> {
        if self.form.vnet {
            let parts = [IoSlice::new(&[0; VNET_HEADER]), IoSlice::new(frame)];
            rustix::io::writev(&self.fd, &parts)
        } else {
            rustix::io::write(&self.fd, frame)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_opening_the_device_come_with_advice() {
        let errors = OpenErrors::new(&"tap:t0".parse().unwrap(), "cap_net_admin");
        let said = |errno| cannot_open(&errors, errno).to_string();
        assert!(said(Errno::NOENT).contains("modprobe tun"));
        assert!(said(Errno::ACCESS).contains("chmod a+rw /dev/net/tun"));
        assert!(said(Errno::MFILE).starts_with("tap:t0: open /dev/net/tun: "));
    }
}
