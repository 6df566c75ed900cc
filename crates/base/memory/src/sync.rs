//! The atomics and cells the rings are written on: the real ones, or loom's when the models run
//! (`--cfg loom`), so that the model-checked code is the code that ships.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};

/// The side of an asymmetric fence that costs nothing. Together with a [`heavy_fence`] on the other
/// side it orders as two sequentially consistent fences do, which loom and Miri take it for; two
/// light ones order nothing.
#[inline]
pub(crate) fn light_fence() {
    #[cfg(not(any(loom, miri)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(any(loom, miri))]
    fence(Ordering::SeqCst);
}

/// The other side, which pays for both: has every running thread of this process
/// issue a full barrier (membarrier(2)). `false` on kernels that cannot, before
/// 4.14.
#[cfg(not(any(loom, miri)))]
pub(crate) fn heavy_fence() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    static REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let registered =
        *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok());
    registered && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

#[cfg(any(loom, miri))]
pub(crate) fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    true
}
