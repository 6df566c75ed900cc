//! Packets received together.

use std::sync::{Arc, Mutex};

use linerate_client::Verdict;
use linerate_memory::Slot;
use pyo3::{
    exceptions::{PyIndexError, PyPermissionError, PyValueError},
    prelude::*,
    types::{PyBytes, PyMemoryView},
};

use crate::{
    Failure,
    batch_store::{BatchKey, ConsumerState, lock},
    view::View,
};

/// Verdicts, as `linerate` numbers them.
const VERDICTS: [Verdict; 4] = [Verdict::Drop, Verdict::Pass, Verdict::DropFlow, Verdict::PassFlow];

/// Packets that have come together, oldest first.
#[pyclass(frozen, sequence, module = "linerate")]
#[derive(Debug)]
pub(crate) struct Batch {
    state: Arc<Mutex<ConsumerState>>,
    key: BatchKey,
}

impl Batch {
    pub(crate) fn new(state: &Arc<Mutex<ConsumerState>>, key: BatchKey) -> Batch {
        Batch { state: state.clone(), key }
    }

    /// Something of each packet: from its offset in the arena, and its annotations.
    fn each<T>(&self, of: impl Fn(usize, &Slot, u64) -> T) -> Result<Vec<T>, Failure> {
        let mut state = lock(&self.state);
        let (consumer, frame) = state.packets(self.key)?;
        let arena = consumer.arena();
        let each = frame.slots().iter();
        Ok(each.map(|slot| of(arena.position(slot), slot, arena.meta(slot).timestamp)).collect())
    }

    /// A view of a packet, for writing where that is asked for and may be.
    fn packet(&self, at: isize, writable: bool) -> PyResult<View> {
        let count = self.key.count as isize;
        let from_start = if at < 0 { at + count } else { at };
        if !(0..count).contains(&from_start) {
            return Err(PyIndexError::new_err("the batch has not so many packets"));
        }
        let mut state = lock(&self.state);
        let (consumer, frame) = state.packets(self.key)?;
        let (arena, slot) = (consumer.arena(), &mut frame.slots_mut()[from_start as usize]);
        if writable && arena.packet_mut(slot).is_none() {
            return Err(PyPermissionError::new_err(
                "others have this packet, too, or this consumer only reads",
            ));
        }
        // SAFETY: a packet lies inside its arena.
        let start = unsafe { arena.region().0.add(arena.position(slot)) };
        let length = slot.len();
        state.add_view(self.key);
        drop(state);
        Ok(View::of_batch(&self.state, self.key, start, length, writable))
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.key.count
    }

    fn __getitem__<'py>(&self, py: Python<'py>, at: isize) -> PyResult<Bound<'py, PyMemoryView>> {
        self.packet(at, false)?.show(py)
    }

    fn writable<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyMemoryView>> {
        self.packet(index, true)?.show(py)
    }

    #[getter]
    fn arena<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let mut state = lock(&self.state);
        let (start, length) = state.packets(self.key)?.0.arena().region();
        state.add_view(self.key);
        drop(state);
        View::of_batch(&self.state, self.key, start, length, false).show(py)
    }

    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        View::of_words(self.each(|position, _, _| position as u64)?).show(py)
    }

    #[getter]
    fn lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        View::of_halves(self.each(|_, slot, _| slot.len() as u32)?).show(py)
    }

    #[getter]
    fn timestamps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        View::of_words(self.each(|_, _, time| time)?).show(py)
    }

    fn fields<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        size: usize,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        if !(1..=1 << 16).contains(&size) {
            return Err(PyValueError::new_err("fields have 1 to 65536 bytes"));
        }
        let mut rows = vec![0; self.key.count * size];
        let mut state = lock(&self.state);
        let (consumer, frame) = state.packets(self.key)?;
        for (row, packet) in rows.chunks_exact_mut(size).zip(consumer.arena().packets(frame)) {
            let there = packet.get(offset..).unwrap_or_default();
            let count = there.len().min(size);
            row[..count].copy_from_slice(&there[..count]);
        }
        drop(state);
        View::of_rows(rows, size).show(py)
    }

    #[pyo3(signature = (chosen = None))]
    fn send(&self, chosen: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let chosen = chosen.map(bytes).transpose()?;
        let chosen = chosen.as_ref().map(|bytes| bytes.as_bytes());
        if chosen.is_some_and(|chosen| chosen.len() != self.key.count) {
            return Err(PyValueError::new_err("there is to be a byte or bool for each packet"));
        }
        let sent =
            lock(&self.state).send(self.key, |at| chosen.is_none_or(|chosen| chosen[at] != 0))?;
        Ok(sent)
    }

    #[pyo3(signature = (verdicts = None))]
    fn answer(&self, verdicts: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let verdicts = verdicts.map(bytes).transpose()?;
        let verdicts = verdicts.as_ref().map(|bytes| bytes.as_bytes());
        let is_verdict = |byte: &u8| usize::from(*byte) < VERDICTS.len();
        if verdicts.is_some_and(|all| all.len() != self.key.count || !all.iter().all(is_verdict)) {
            return Err(PyValueError::new_err(
                "there is to be a verdict for each packet, in a byte",
            ));
        }
        let passed = lock(&self.state).give_verdicts(self.key, |at| {
            verdicts.map_or(Verdict::Pass, |verdicts| VERDICTS[usize::from(verdicts[at])])
        })?;
        Ok(passed)
    }

    fn release(&self) -> PyResult<()> {
        Ok(lock(&self.state).release(self.key)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        lock(&self.state).release_deferred(self.key);
    }

    fn __repr__(&self) -> String {
        format!("<linerate.Batch of {} packets>", self.key.count)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        lock(&self.state).release_deferred(self.key);
    }
}

/// The bytes of a buffer, with items of any Python type.
pub(crate) fn bytes<'py>(buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = buffer.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    Ok(PyMemoryView::from(buffer)?.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}
