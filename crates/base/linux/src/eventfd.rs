//! Signalling of an eventfd(2) that another process may have filled, without waiting.
//!
//! `write` to an eventfd blocks while its counter is full unless the open file description has
//! `O_NONBLOCK`, and every process that shares the description changes both at will; there is no flag
//! of a single call against it (`RWF_NOWAIT` is refused for writing). The kernel itself signals the
//! eventfd of an asynchronous request (`IOCB_FLAG_RESFD` of `io_submit(2)`) by `eventfd_signal()`, which
//! saturates the counter and never blocks. So a read of no bytes is submitted, which completes within
//! the call, with the eventfd as the one to signal.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr,
    sync::OnceLock,
};

use rustix::fs::MemfdFlags;

/// `IOCB_CMD_PREAD` and `IOCB_FLAG_RESFD` of `linux/aio_abi.h`.
const PREAD: u16 = 0;
const RESFD: u32 = 1;
/// Completions fetched by one call. The kernel's ring has eight for each processor, at least.
const COMPLETIONS: usize = 64;
/// Attempts to submit a request while the ring is full: other threads may fill it again.
const ATTEMPTS: usize = 16;

/// `struct iocb` of `linux/aio_abi.h`. The order of the second and third field depends on the byte
/// order; both are zero here.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

const _: () = assert!(size_of::<Request>() == 64);

/// `struct io_event`.
#[repr(C)]
struct Completion {
    _data: u64,
    _request: u64,
    _results: [i64; 2],
}

const _: () = assert!(size_of::<Completion>() == 32);

/// Signals eventfds by completions of asynchronous requests. Threads may share one.
#[derive(Debug)]
pub struct Signaller {
    /// `aio_context_t`.
    context: libc::c_ulong,
    /// An empty file in memory.
    file: OwnedFd,
}

impl Signaller {
    /// A signaller with a request queue of its own.
    ///
    /// # Errors
    ///
    /// When the kernel has no asynchronous I/O (`CONFIG_AIO`), or all requests of the machine are
    /// reserved (`/proc/sys/fs/aio-max-nr`).
    pub fn new() -> io::Result<Signaller> {
        let file = rustix::fs::memfd_create("linerate-signal", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // The least that can be asked for: the kernel rounds it up to the need of its processors.
        // SAFETY: the kernel writes the one word, and keeps no address.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
        if made == 0 { Ok(Signaller { context, file }) } else { Err(io::Error::last_os_error()) }
    }

    /// The signaller of the process, made by the first call.
    ///
    /// # Errors
    ///
    /// As of [`Signaller::new`]. The next call tries again.
    pub fn shared() -> io::Result<&'static Signaller> {
        static SHARED: OnceLock<Signaller> = OnceLock::new();
        if let Some(signaller) = SHARED.get() {
            return Ok(signaller);
        }
        let made = Signaller::new()?;
        Ok(SHARED.get_or_init(|| made))
    }

    /// Adds one to the counter of an eventfd, unless it is full, and wakes its waiters.
    ///
    /// # Errors
    ///
    /// When the descriptor is no eventfd, or the kernel refuses: in the child of a fork, which has no
    /// request queue, for one.
    pub fn signal(&self, eventfd: impl AsFd) -> io::Result<()> {
        let eventfd = eventfd.as_fd().as_raw_fd() as u32;
        let file = self.file.as_raw_fd() as u32;
        let mut request =
            Request { opcode: PREAD, file, flags: RESFD, eventfd, ..Request::default() };
        for _ in 0..ATTEMPTS {
            let list = [&raw mut request];
            // SAFETY: one request, which is complete within the call: the kernel writes its key and
            // keeps no address but as a number. It reads no bytes, so there is no buffer.
            let submitted =
                unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_ptr()) };
            if submitted == 1 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EAGAIN) {
                return Err(error);
            }
            self.reap();
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Frees entries of the ring of completions.
    #[cold]
    fn reap(&self) {
        let mut completions = [const { MaybeUninit::<Completion>::uninit() }; COMPLETIONS];
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes at most as many as the array has, and keeps no address.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0,
                COMPLETIONS,
                completions.as_mut_ptr(),
                ptr::from_ref(&now),
            )
        };
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        // SAFETY: no other thread has it any more, and nothing is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use rustix::event::EventfdFlags;

    use super::*;

    fn count(eventfd: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(eventfd, &mut count).unwrap(), 8);
        u64::from_ne_bytes(count)
    }

    #[test]
    fn signals_of_several_threads_are_all_counted() {
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                // More than the ring of completions has places.
                scope.spawn(|| {
                    (0..5000).for_each(|_| Signaller::shared().unwrap().signal(&eventfd).unwrap());
                });
            }
        });
        assert_eq!(count(&eventfd), 20_000);
    }

    #[test]
    fn a_full_counter_is_left_full_without_waiting() {
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&eventfd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let (tell, told) = mpsc::channel();
        let full = eventfd.try_clone().unwrap();
        thread::spawn(move || {
            let signaller = Signaller::new().unwrap();
            let signals = [(); 3].map(|()| signaller.signal(&full).is_ok());
            tell.send(signals).unwrap();
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok([true; 3]));
        assert!(count(&eventfd) >= u64::MAX - 1);
        Signaller::shared().unwrap().signal(&eventfd).unwrap();
        assert_eq!(count(&eventfd), 1);
    }

    #[test]
    fn other_files_than_eventfds_are_refused() {
        let (_read, write) = rustix::pipe::pipe().unwrap();
        let refused = Signaller::shared().unwrap().signal(&write).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    }
}
