//! libpcap's functions on our handles, a module for each kind. They behave as its manual pages say,
//! with its error texts where something cannot be done.

pub(crate) mod companion;
pub(crate) mod device;
pub(crate) mod dump;
pub(crate) mod filter;
pub(crate) mod link;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod send;
pub(crate) mod state;

use std::ffi::c_int;

/// A list that the caller is to free, from malloc(3): how long it is, or `None` when there is no memory.
///
/// # Safety
///
/// `list` can be written to.
unsafe fn give_list(values: &[c_int], list: *mut *mut c_int) -> Option<c_int> {
    // SAFETY: there is room for the values in the block malloc gives, if it gives one; the caller
    // says the rest.
    unsafe {
        let memory: *mut c_int = libc::malloc(size_of_val(values)).cast();
        if memory.is_null() {
            return None;
        }
        memory.copy_from_nonoverlapping(values.as_ptr(), values.len());
        *list = memory;
    }
    Some(values.len() as c_int)
}
