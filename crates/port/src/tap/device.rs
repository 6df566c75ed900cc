//! Opening the queues of a TAP interface, and one read or write.
//!
//! Source: `Documentation/networking/tuntap.rst` and `linux/if_tun.h` of the
//! Linux kernel.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags},
    io::{Errno, IoSlice, IoSliceMut},
};

use super::CAPABILITY;
use crate::{error::OpenError, kernel, offload::VNET_HEADER};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
const PATH: &str = "/dev/net/tun";

/// What the stack may leave undone: checksums and TCP segmentation, and on
/// kernels from 6.2 on UDP segmentation.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const UDP_OFFLOADS: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// What packets pass in and out.
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
    port: &str,
    interface: &str,
    queues: usize,
    form: Form,
    there: bool,
) -> Result<Vec<Device>, OpenError> {
    // An interface of one queue, so that nobody can share it by mistake.
    let mut multiple = queues > 1;
    let mut devices = Vec::with_capacity(queues);
    while devices.len() < queues {
        let fd = rustix::fs::open(
            PATH,
            OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| cannot_open(port, errno))?;
        match attach(fd.as_fd(), interface, form, multiple) {
            Ok(()) => {}
            // It was made for several queues, which must be said again.
            Err(error) if is(&error, libc::EINVAL) && there && !multiple => {
                multiple = true;
                continue;
            }
            Err(error) => return Err(cannot_attach(port, interface, queues, there, error)),
        }
        let step = "set offloads";
        offload(fd.as_fd(), form.vnet).map_err(kernel::refused(port, step, CAPABILITY))?;
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
    let mut request = kernel::named(interface)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    kernel::ioctl(fd, libc::TUNSETIFF as libc::c_ulong, &mut request)
}

/// Says what the stack may leave undone, for whoever had an interface before
/// may have said otherwise.
fn offload(fd: BorrowedFd<'_>, vnet: bool) -> io::Result<()> {
    if !vnet {
        return set_offload(fd, 0);
    }
    let size = VNET_HEADER as libc::c_int;
    // SAFETY: the descriptor is open, and this code reads one integer.
    let result =
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const size) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    match set_offload(fd, OFFLOADS | UDP_OFFLOADS) {
        Err(error) if is(&error, libc::EINVAL) => set_offload(fd, OFFLOADS),
        result => result,
    }
}

fn set_offload(fd: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open, and this code takes a number, not a
    // pointer.
    let result = unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn is(error: &io::Error, number: libc::c_int) -> bool {
    error.raw_os_error() == Some(number)
}

fn cannot_open(port: &str, errno: Errno) -> OpenError {
    let port = port.to_owned();
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => OpenError::Unsupported {
            port,
            reason: format!(
                "there is no {PATH}; load its module (modprobe tun) or, in a container, start it \
                 with --device {PATH}"
            ),
        },
        Errno::ACCESS | Errno::PERM => OpenError::Permission {
            port,
            action: "open /dev/net/tun",
            remedy: format!("run as root, or make it accessible: chmod a+rw {PATH}"),
        },
        errno => OpenError::System { port, step: "open /dev/net/tun", source: errno.into() },
    }
}

fn cannot_attach(
    port: &str,
    interface: &str,
    queues: usize,
    there: bool,
    error: io::Error,
) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EBUSY) => OpenError::Busy {
            port: port.into(),
            reason: format!(
                "another process has the other end of {interface}; stop it or use another name"
            ),
        },
        Some(libc::EINVAL) if there && queues > 1 => OpenError::Unsupported {
            port: port.into(),
            reason: format!(
                "{interface} was made with one queue; make it again with `ip tuntap add {interface} \
                 mode {} multi_queue`, or use queues=1",
                port.split(':').next().unwrap_or("tap"),
            ),
        },
        Some(libc::E2BIG | libc::ENFILE) => OpenError::Busy {
            port: port.into(),
            reason: format!("{interface} has no more queues; use fewer or another name"),
        },
        _ => kernel::refused(port, "make or attach a tap interface", CAPABILITY)(error),
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Device {
    /// Whether a virtio header precedes each frame.
    pub(super) fn vnet(&self) -> bool {
        self.form.vnet
    }

    /// Length of the shortest packet.
    pub(super) fn least(&self) -> usize {
        if self.form.tun { 1 } else { ETHERNET }
    }

    /// Reads a frame: its virtio header, what there is place for in `to`, and
    /// what follows in `beyond`. Returns the frame's length, as far as there
    /// was place.
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

    /// Whether the interface was deleted.
    pub(super) fn gone(&self) -> bool {
        let Ok(mut request) = kernel::named("") else { return false };
        kernel::ioctl(self.fd.as_fd(), libc::TUNGETIFF as libc::c_ulong, &mut request)
            .is_err_and(|error| is(&error, libc::EBADFD))
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
    fn what_keeps_the_device_closed_says_what_to_do() {
        let said = |errno| cannot_open("tap:t0", errno).to_string();
        assert!(said(Errno::NOENT).contains("modprobe tun"));
        assert!(said(Errno::ACCESS).contains("chmod a+rw /dev/net/tun"));
        assert!(said(Errno::MFILE).starts_with("tap:t0: open /dev/net/tun: "));
    }
}
