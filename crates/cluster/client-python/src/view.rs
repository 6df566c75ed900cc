//! Memory that Python looks at.

use std::{
    ffi::{CStr, c_int},
    ptr::{self, NonNull},
    sync::{Arc, Mutex},
};

use pyo3::{exceptions::PyBufferError, ffi, prelude::*, types::PyMemoryView};

use crate::batch_store::{BatchKey, ConsumerState, lock};

/// Owner of the memory.
#[derive(Debug)]
enum Owner {
    /// Packets of a batch, which has counted this view.
    Batch(Arc<Mutex<ConsumerState>>, BatchKey),
    /// This view's own, of which it has the address.
    Words(#[expect(dead_code, reason = "owned")] Box<[u64]>),
    Halves(#[expect(dead_code, reason = "owned")] Box<[u32]>),
    Bytes(#[expect(dead_code, reason = "owned")] Box<[u8]>),
}

/// Memory behind memoryviews. It is gone when the last memoryview or array of it is.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct View {
    start: NonNull<u8>,
    format: &'static CStr,
    item: usize,
    dimensions: usize,
    shape: [isize; 2],
    strides: [isize; 2],
    writable: bool,
    #[expect(dead_code, reason = "lets go of it")]
    owner: Owner,
}

// SAFETY: the memory is the owner's, which is sent along; a writer through Python's buffers answers
// for it to other users, as with any of them.
unsafe impl Send for View {}
// SAFETY: likewise, and nothing of a view changes.
unsafe impl Sync for View {}

impl View {
    fn line(start: NonNull<u8>, format: &'static CStr, item: usize, count: usize) -> View {
        View {
            start,
            format,
            item,
            dimensions: 1,
            shape: [count as isize, 1],
            strides: [item as isize, 1],
            writable: false,
            // An owner that allocates nothing, until the real one is put here.
            owner: Owner::Bytes(Box::default()),
        }
    }

    /// Bytes of a batch, which has been found to have them and has counted a view.
    pub(crate) fn of_batch(
        state: &Arc<Mutex<ConsumerState>>,
        key: BatchKey,
        start: NonNull<u8>,
        length: usize,
        writable: bool,
    ) -> View {
        let owner = Owner::Batch(state.clone(), key);
        View { writable, owner, ..View::line(start, c"B", 1, length) }
    }

    pub(crate) fn of_words(words: Vec<u64>) -> View {
        let mut words = words.into_boxed_slice();
        let start = NonNull::from(&mut words[..]).cast();
        let line = View::line(start, c"Q", 8, words.len());
        View { owner: Owner::Words(words), ..line }
    }

    pub(crate) fn of_halves(halves: Vec<u32>) -> View {
        let mut halves = halves.into_boxed_slice();
        let start = NonNull::from(&mut halves[..]).cast();
        let line = View::line(start, c"I", 4, halves.len());
        View { owner: Owner::Halves(halves), ..line }
    }

    /// Rows of `width` bytes.
    pub(crate) fn of_rows(bytes: Vec<u8>, width: usize) -> View {
        let mut bytes = bytes.into_boxed_slice();
        let start = NonNull::from(&mut bytes[..]).cast();
        let rows = bytes.len() / width;
        let line = View::line(start, c"B", 1, bytes.len());
        View {
            dimensions: 2,
            shape: [rows as isize, width as isize],
            strides: [width as isize, 1],
            writable: true,
            owner: Owner::Bytes(bytes),
            ..line
        }
    }

    /// A memoryview of it.
    pub(crate) fn show(self, py: Python<'_>) -> PyResult<Bound<'_, PyMemoryView>> {
        PyMemoryView::from(Bound::new(py, self)?.as_any())
    }

    fn length(&self) -> isize {
        self.item as isize * self.shape[0] * self.shape[1]
    }
}

#[pymethods]
impl View {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let wants = |flag: c_int| flags & flag == flag;
        let view = slf.get();
        if buffer.is_null() {
            return Err(PyBufferError::new_err("there is no place for the buffer"));
        }
        if wants(ffi::PyBUF_WRITABLE) && !view.writable {
            return Err(PyBufferError::new_err("packets are not written to by this view"));
        }
        if wants(ffi::PyBUF_F_CONTIGUOUS) && view.dimensions > 1 {
            return Err(PyBufferError::new_err("rows are one behind the other"));
        }
        let given = |flag: c_int, there: *mut isize| {
            if wants(flag) { there } else { ptr::null_mut() }
        };
        let filled = ffi::Py_buffer {
            buf: view.start.as_ptr().cast(),
            obj: ptr::null_mut(),
            len: view.length(),
            itemsize: view.item as isize,
            readonly: c_int::from(!view.writable),
            ndim: view.dimensions as c_int,
            format: if wants(ffi::PyBUF_FORMAT) {
                view.format.as_ptr().cast_mut()
            } else {
                ptr::null_mut()
            },
            shape: given(ffi::PyBUF_ND, view.shape.as_ptr().cast_mut()),
            strides: given(ffi::PyBUF_STRIDES, view.strides.as_ptr().cast_mut()),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        };
        // SAFETY: Python has room for a buffer there. Its pointers are into the view, which the
        // buffer refers to and which does not move, or to its memory; nothing writes to shape and
        // strides.
        unsafe {
            buffer.write(filled);
            (*buffer).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Owner::Batch(state, key) = self {
            lock(state).drop_view(*key);
        }
    }
}
