//! Devices by their names: opening, listing, looking up.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    ptr,
};

use super::{options, state};
use crate::{
    abi::{ERROR, ERROR_NO_SUCH_DEVICE, ERROR_PERM_DENIED, INTERFACE_FLAGS, Interface, Pcap},
    handle::{Handle, write_to},
    names, no_libpcap,
    system::{self, MISSING},
};

/// # Safety
///
/// `device` is null or a string that ends, `errbuf` has libpcap's size.
pub(crate) unsafe fn create(device: *const c_char, errbuf: *mut c_char) -> *mut Pcap {
    // SAFETY: as the caller says.
    unsafe {
        let name = names::device_name(device);
        match name.map_or(Ok(None), names::target) {
            Ok(None) => system::pcap_create(device, errbuf).unwrap_or_else(|| {
                write_to(errbuf, MISSING);
                ptr::null_mut()
            }),
            Ok(Some(target)) => match Handle::new(name.unwrap_or_default(), target) {
                Ok(handle) => handle.into_raw(),
                Err(error) => {
                    write_to(errbuf, &error.to_string());
                    ptr::null_mut()
                }
            },
            Err(text) => {
                write_to(errbuf, &text);
                ptr::null_mut()
            }
        }
    }
}

/// # Safety
///
/// As [`create`].
pub(crate) unsafe fn open_live(
    device: *const c_char,
    snaplen: c_int,
    promiscuous: c_int,
    timeout: c_int,
    errbuf: *mut c_char,
) -> *mut Pcap {
    // SAFETY: as the caller says; functions that are not ours are called as this was.
    unsafe {
        let name = names::device_name(device);
        if let Ok(None) = name.map_or(Ok(None), names::target) {
            return system::pcap_open_live(device, snaplen, promiscuous, timeout, errbuf)
                .unwrap_or_else(|| {
                    write_to(errbuf, MISSING);
                    ptr::null_mut()
                });
        }
        let pcap = create(device, errbuf);
        let Some(handle) = Handle::from_pointer(pcap) else { return pcap };
        options::set_snaplen(handle, snaplen);
        options::set_promisc(handle, promiscuous);
        options::set_timeout(handle, timeout);
        let status = state::activate(handle);
        if status >= 0 {
            return pcap;
        }
        let (device, text) = (&handle.device, handle.error.text());
        let words = CStr::from_ptr(no_libpcap::status_text(status)).to_string_lossy();
        let said = match status {
            ERROR => format!("{device}: {text}"),
            ERROR_NO_SUCH_DEVICE | ERROR_PERM_DENIED if !text.is_empty() => {
                format!("{device}: {words} ({text})")
            }
            _ => format!("{device}: {words}"),
        };
        write_to(errbuf, &said);
        state::close(pcap);
        ptr::null_mut()
    }
}

/// The system's, and behind them those of the map that are none of them.
///
/// # Safety
///
/// `devices` can be written to, `errbuf` has libpcap's size.
pub(crate) unsafe fn find_all(devices: *mut *mut Interface, errbuf: *mut c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        *devices = ptr::null_mut();
        let status = system::pcap_findalldevs(devices, errbuf);
        if status.is_some_and(|status| status < 0) {
            return ERROR;
        }
        let ours = match names::mapped() {
            Ok(ours) => ours,
            Err(text) => {
                write_to(errbuf, &text);
                alone_or_theirs_free(*devices);
                *devices = ptr::null_mut();
                return ERROR;
            }
        };
        if status.is_none() && ours.is_empty() {
            write_to(errbuf, MISSING);
            return ERROR;
        }
        for (name, port) in ours {
            append(devices, &name, &port);
        }
        0
    }
}

/// # Safety
///
/// The list is one of libpcap's.
unsafe fn alone_or_theirs_free(devices: *mut Interface) {
    // SAFETY: as the caller says.
    unsafe {
        if system::pcap_freealldevs(devices).is_none() {
            no_libpcap::free_devices(devices);
        }
    }
}

/// Puts a device behind the others, if it is none of them.
///
/// # Safety
///
/// `list` points to a list of libpcap's.
unsafe fn append(mut list: *mut *mut Interface, name: &str, port: &str) {
    let Ok(name) = CString::new(name) else { return };
    let Ok(description) = CString::new(format!("Linerate: {port}")) else { return };
    // SAFETY: as the caller says, all there are end, and the entry put behind them comes from
    // malloc(3), as all of them do.
    unsafe {
        while !(*list).is_null() {
            if CStr::from_ptr((**list).name) == &*name {
                return;
            }
            list = &raw mut (**list).next;
        }
        let device: *mut Interface = libc::calloc(1, size_of::<Interface>()).cast();
        if device.is_null() {
            return;
        }
        (*device).name = libc::strdup(name.as_ptr());
        (*device).description = libc::strdup(description.as_ptr());
        (*device).flags = INTERFACE_FLAGS;
        *list = device;
    }
}

/// The network of the interface behind a port.
///
/// # Safety
///
/// As [`create`], and both numbers can be written to.
pub(crate) unsafe fn look_up_net(
    device: *const c_char,
    network: *mut u32,
    mask: *mut u32,
    errbuf: *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        let name = names::device_name(device);
        let target = match name.map_or(Ok(None), names::target) {
            Ok(target) => target,
            Err(text) => {
                write_to(errbuf, &text);
                return ERROR;
            }
        };
        let Some(target) = target else {
            return ask_net(device, network, mask, errbuf);
        };
        match target.interface().and_then(|name| CString::new(name).ok()) {
            Some(interface) => ask_net(interface.as_ptr(), network, mask, errbuf),
            None => {
                (*network, *mask) = (0, 0);
                let device = name.unwrap_or_default();
                write_to(errbuf, &format!("{device}: no IPv4 address assigned"));
                ERROR
            }
        }
    }
}

/// # Safety
///
/// As [`look_up_net`].
unsafe fn ask_net(
    device: *const c_char,
    network: *mut u32,
    mask: *mut u32,
    errbuf: *mut c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { system::pcap_lookupnet(device, network, mask, errbuf) }.unwrap_or_else(|| {
        // SAFETY: as the caller says.
        unsafe { write_to(errbuf, MISSING) };
        ERROR
    })
}

/// # Safety
///
/// `errbuf` has libpcap's size.
pub(crate) unsafe fn look_up_device(errbuf: *mut c_char) -> *mut c_char {
    // SAFETY: as the caller says.
    unsafe {
        system::pcap_lookupdev(errbuf).unwrap_or_else(|| {
            write_to(errbuf, MISSING);
            ptr::null_mut()
        })
    }
}
