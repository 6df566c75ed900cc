//! A handle of ours: the target of a `pcap_t *` where the device is a port.

mod capture;
mod error;
mod interrupt;
mod receive_side;
mod selectable;
mod settings;
mod try_lock;

use std::{
    cell::UnsafeCell,
    ffi::c_int,
    io, ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
};

pub(crate) use self::{
    capture::{Capture, Outcome},
    error::{ErrorText, write_to},
    interrupt::Interrupt,
    receive_side::ReceiveSide,
    settings::Settings,
    try_lock::TryLock,
};
use crate::{
    abi::{ERROR_ACTIVATED, ERROR_NOT_ACTIVATED, Pcap},
    inject::Sender,
    names::Target,
};

/// Its address is the first word of a handle of ours. In one of libpcap's there is a pointer to a
/// function of that library, so they differ.
static TAG: u8 = 0;

/// A handle.
///
/// A program calls it by one thread at a time, with these exceptions, which libpcap's users rely
/// on: [`Handle::interrupt`] by any thread and by handlers of signals, sending by another thread
/// than the one that receives, statistics likewise and by handlers, and anything from within a
/// callback. The state that other threads than the receiving one may touch is beside [`Capture`],
/// not in it.
#[repr(C)]
pub(crate) struct Handle {
    /// See [`TAG`].
    tag: usize,
    /// The device's name, as the program wrote it.
    pub(crate) device: String,
    /// Target of that name.
    pub(crate) target: Target,
    pub(crate) interrupt: Interrupt,
    pub(crate) error: ErrorText,
    /// Whether reading waits for nothing.
    pub(crate) nonblocking: AtomicBool,
    settings: UnsafeCell<Settings>,
    /// Receiving side, with its counts. Empty until it is activated, as the next.
    receive_side: OnceLock<Arc<ReceiveSide>>,
    /// Sending side; `None` inside where packets cannot be sent.
    sender: OnceLock<Option<Sender>>,
    /// The process that has activated it.
    process: OnceLock<u32>,
    /// From a box that belongs to this; null until it is activated.
    capture: AtomicPtr<Capture>,
}

impl Handle {
    /// A handle that is not activated.
    pub(crate) fn new(device: &str, target: Target) -> io::Result<Box<Handle>> {
        Ok(Box::new(Handle {
            tag: (&raw const TAG).addr(),
            device: device.into(),
            target,
            interrupt: Interrupt::new()?,
            error: ErrorText::default(),
            nonblocking: AtomicBool::new(false),
            settings: UnsafeCell::default(),
            receive_side: OnceLock::new(),
            sender: OnceLock::new(),
            process: OnceLock::new(),
            capture: AtomicPtr::new(ptr::null_mut()),
        }))
    }

    /// The handle behind a pointer, when it is one of ours.
    ///
    /// # Safety
    ///
    /// `pcap` is null, or a handle of libpcap's or ours that has not been closed.
    #[inline]
    pub(crate) unsafe fn from_pointer<'a>(pcap: *mut Pcap) -> Option<&'a Handle> {
        // SAFETY: as the caller says; both kinds are longer than a word.
        if pcap.is_null() || unsafe { (*pcap).first_word } != (&raw const TAG).addr() {
            return None;
        }
        // SAFETY: the tag says that `new` made it.
        Some(unsafe { &*pcap.cast::<Handle>() })
    }

    /// The pointer that a program gets.
    pub(crate) fn into_raw(self: Box<Handle>) -> *mut Pcap {
        Box::into_raw(self).cast()
    }

    /// The handle back, to be dropped.
    ///
    /// # Safety
    ///
    /// It came from [`Handle::into_raw`], and is not used any more.
    pub(crate) unsafe fn from_raw(pcap: *mut Pcap) -> Box<Handle> {
        // SAFETY: as the caller says.
        unsafe { Box::from_raw(pcap.cast()) }
    }

    /// Settings of the handle.
    ///
    /// # Safety
    ///
    /// No other reference to it is used while this one is: one thread calls at a time, and no
    /// callback runs while there is one.
    #[allow(clippy::mut_from_ref, reason = "the handle is shared with C")]
    pub(crate) unsafe fn settings(&self) -> &mut Settings {
        // SAFETY: as the caller says.
        unsafe { &mut *self.settings.get() }
    }

    /// The open port, once it is activated. A pointer, because callbacks come back here: its user
    /// makes references of it that end before one is called.
    pub(crate) fn capture(&self) -> Option<*mut Capture> {
        let capture = self.capture.load(Ordering::Acquire);
        (!capture.is_null()).then_some(capture)
    }

    /// Receiving side, once it is activated.
    pub(crate) fn receive_side(&self) -> Option<&ReceiveSide> {
        self.receive_side.get().map(|receive_side| &**receive_side)
    }

    /// Sending side, if packets can be sent.
    pub(crate) fn sender(&self) -> Option<&Sender> {
        self.sender.get()?.as_ref()
    }

    /// As [`Handle::capture`], with the error of a handle that has not been activated.
    pub(crate) fn activated(&self) -> Result<*mut Capture, c_int> {
        self.capture().ok_or_else(|| {
            self.error.set("This handle hasn't been activated yet");
            ERROR_NOT_ACTIVATED
        })
    }

    /// An error for a call that is allowed only before.
    pub(crate) fn not_activated(&self) -> Result<(), c_int> {
        if self.capture().is_none() {
            return Ok(());
        }
        // The two spaces are libpcap's.
        self.error.set("can't perform  operation on activated capture");
        Err(ERROR_ACTIVATED)
    }

    /// Activates it, which is done once.
    pub(crate) fn activate(&self, capture: Capture, sender: Option<Sender>) {
        let _ = self.receive_side.set(Arc::clone(capture.receive_side()));
        let _ = self.sender.set(sender);
        let _ = self.process.set(std::process::id());
        // Release: a thread that finds it finds the others.
        self.capture.store(Box::into_raw(Box::new(capture)), Ordering::Release);
    }

    /// Returns true if a parent of this process has activated it.
    pub(crate) fn is_of_another_process(&self) -> bool {
        self.process.get().is_some_and(|process| *process != std::process::id())
    }

    /// Returns true if reading waits for nothing.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Returns true if a call waits for nothing, or no longer: its loop is to be broken.
    pub(crate) fn ends_waiting(&self) -> bool {
        self.is_nonblocking() || self.interrupt.is_wanted()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let capture = *self.capture.get_mut();
        if !capture.is_null() {
            // SAFETY: it came from a box, and the dropped value is not used.
            drop(unsafe { Box::from_raw(capture) });
        }
    }
}
