//! A handle's error text, which `pcap_geterr` points to.

use std::{
    ffi::c_char,
    sync::atomic::{AtomicU8, Ordering},
};

use crate::abi::ERRBUF_SIZE;

/// Written by the last call that fails. Bytes are atomic because a program may send and receive by
/// two threads; its text is then one of the two, or a mixture, as libpcap's.
pub(crate) struct ErrorText([AtomicU8; ERRBUF_SIZE]);

impl Default for ErrorText {
    fn default() -> ErrorText {
        ErrorText([const { AtomicU8::new(0) }; ERRBUF_SIZE])
    }
}

impl ErrorText {
    /// Sets it, cut where there is no more room.
    pub(crate) fn set(&self, text: &str) {
        let bytes = text.bytes().take(ERRBUF_SIZE - 1).chain([0]);
        for (to, byte) in self.0.iter().zip(bytes) {
            to.store(byte, Ordering::Relaxed);
        }
    }

    /// The text as C reads it. It always ends.
    pub(crate) fn as_ptr(&self) -> *mut c_char {
        self.0.as_ptr().cast_mut().cast()
    }

    /// A copy.
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.iter().map(|byte| byte.load(Ordering::Relaxed));
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Writes a text to a buffer that a program gave for it.
///
/// # Safety
///
/// `buffer` is null or has room for [`ERRBUF_SIZE`] bytes.
pub(crate) unsafe fn write_to(buffer: *mut c_char, text: &str) {
    if buffer.is_null() {
        return;
    }
    let length = text.len().min(ERRBUF_SIZE - 1);
    // SAFETY: `length` bytes and a zero fit, as the caller says.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
        *buffer.add(length) = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_long_text_is_cut_and_ends() {
        let error = ErrorText::default();
        error.set(&"x".repeat(1000));
        assert_eq!(error.text().len(), ERRBUF_SIZE - 1);
        error.set("short");
        // SAFETY: it always ends.
        assert_eq!(unsafe { CStr::from_ptr(error.as_ptr()) }, c"short");
        let mut buffer = [1; ERRBUF_SIZE];
        // SAFETY: it has that size.
        unsafe { write_to(buffer.as_mut_ptr(), &"y".repeat(300)) };
        assert_eq!((buffer[254], buffer[255]), (b'y' as c_char, 0));
    }
}
