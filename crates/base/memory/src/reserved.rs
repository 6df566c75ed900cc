//! A vector that never moves: its addresses are reserved when it is made, its
//! memory comes with the elements or beforehand.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
};

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags},
};

use crate::{
    MemoryError,
    pages::{HUGE, PAGE, Pages},
};

/// When the memory of a [`Reserved`] is taken from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backing {
    /// All of it when the vector is made, in pages of 2 MiB where the kernel has
    /// them: no page fault later, and few TLB misses.
    Ready,
    /// A page of 4 KiB when the first element in it is written: a page fault
    /// then, 1 to 3 us and on virtual machines now and then ten times that. Huge
    /// pages are declined, because clearing one takes a hundred times as long.
    #[default]
    OnDemand,
    /// All of it when the vector is made, in pages of 2 MiB that the machine has
    /// set aside, or not at all.
    Huge,
}

/// A vector with a capacity that is fixed when it is made, and elements that
/// never move. Growing copies nothing and takes the same time at any length.
///
/// The first element is at the start of a page, so elements whose size divides
/// 64 never cross a cache line.
pub struct Reserved<T> {
    /// Memory of the elements; unmapped after they were dropped.
    pages: Pages,
    length: usize,
    capacity: usize,
    backing: Backing,
    owns: PhantomData<T>,
}

impl<T> Reserved<T> {
    const SIZED: () = assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE);

    /// An empty one for `capacity` elements.
    ///
    /// # Errors
    ///
    /// When the kernel has not that many addresses or, unless it comes on demand,
    /// not that much memory of the kind.
    pub fn new(capacity: usize, backing: Backing) -> Result<Reserved<T>, MemoryError> {
        const { Self::SIZED };
        let fail = |step| {
            move |errno: Errno| MemoryError::Reserve {
                step,
                bytes: (capacity as u64).saturating_mul(size_of::<T>() as u64),
                source: errno.into(),
            }
        };
        let too_much = || fail("mmap")(Errno::NOMEM);
        let bytes = capacity.checked_mul(size_of::<T>()).ok_or_else(too_much)?.max(1);
        let private = MapFlags::PRIVATE;
        // A range shorter than a huge page gets small pages in any case. A mapping of reserved
        // pages begins at one by itself.
        let (page, align, flags) = match backing {
            // Accounted for: missing pages are refused now, and not by a signal on access.
            Backing::Huge => (HUGE, PAGE, private | MapFlags::HUGETLB | MapFlags::HUGE_2MB),
            _ if bytes < HUGE => (PAGE, PAGE, private | MapFlags::NORESERVE),
            _ => (HUGE, HUGE, private | MapFlags::NORESERVE),
        };
        let bytes = bytes.checked_next_multiple_of(page).ok_or_else(too_much)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let pages = Pages::map(bytes, align, access, flags).map_err(fail("mmap"))?;
        // A hint, refused by kernels without transparent huge pages.
        let kind = match backing {
            Backing::Ready => Some(Advice::LinuxHugepage),
            Backing::OnDemand => Some(Advice::LinuxNoHugepage),
            Backing::Huge => None,
        };
        if let Some(kind) = kind {
            // SAFETY: contents are not changed.
            let _ = unsafe { pages.advise(0..bytes, kind) };
        }
        if backing != Backing::OnDemand {
            // SAFETY: likewise.
            match unsafe { pages.advise(0..bytes, Advice::LinuxPopulateWrite) } {
                // Kernels before 5.14 cannot: there the pages come when touched.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(fail("populating")(errno)),
            }
        }
        Ok(Reserved { pages, length: 0, capacity, backing, owns: PhantomData })
    }

    #[inline(always)]
    fn start(&self) -> NonNull<T> {
        self.pages.start().cast()
    }

    /// Elements it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds an element behind the last. O(1), and a page fault where
    /// [`Backing::OnDemand`] says so.
    ///
    /// # Errors
    ///
    /// The element back, when the vector is full.
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.length == self.capacity {
            return Err(element);
        }
        // SAFETY: `length < capacity`, so the place is inside the mapping, and it
        // holds no element.
        unsafe { self.start().add(self.length).write(element) };
        self.length += 1;
        Ok(())
    }

    /// Takes the last element off.
    pub fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the element at the old last place is initialised, and from now on there is no
        // other read of it.
        Some(unsafe { self.start().add(self.length).read() })
    }

    /// Bytes of memory taken from the machine for it, at most.
    pub fn memory(&self) -> usize {
        match self.backing {
            Backing::Ready => self.capacity * size_of::<T>(),
            Backing::Huge => (self.capacity * size_of::<T>()).next_multiple_of(HUGE),
            Backing::OnDemand => (self.length * size_of::<T>()).next_multiple_of(PAGE),
        }
    }
}

impl<T> Deref for Reserved<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` elements are initialised, aligned to a page,
        // and borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.length) }
    }
}

impl<T> DerefMut for Reserved<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.length) }
    }
}

impl<T> Drop for Reserved<T> {
    fn drop(&mut self) {
        // SAFETY: the elements are initialised and dropped once; the mapping they are in, which is
        // ours alone, goes after this.
        unsafe { ptr::drop_in_place::<[T]>(&raw mut **self) };
    }
}

impl<T: fmt::Debug> fmt::Debug for Reserved<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn elements_stay_where_they_are() {
        const MANY: u64 = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
        for backing in [Backing::OnDemand, Backing::Ready] {
            let mut numbers = Reserved::new(MANY as usize, backing).expect("memory");
            numbers.push(7u64).expect("room");
            let first = &raw const numbers[0];
            assert_eq!(first as usize % PAGE, 0);
            for number in 1..MANY {
                numbers.push(number).expect("room");
            }
            assert_eq!(numbers.push(0), Err(0));
            assert_eq!(first, &raw const numbers[0]);
            assert_eq!((numbers[0], numbers[999]), (7, 999));
            assert_eq!(numbers.memory(), 8 * MANY as usize);
        }
    }

    #[test]
    fn pages_set_aside_are_had_or_refused() {
        match Reserved::new(1000, Backing::Huge) {
            Ok(mut numbers) => {
                numbers.push(1u64).expect("room");
                assert_eq!((numbers[0], numbers.memory()), (1, HUGE));
            }
            Err(error) => assert!(error.to_string().contains("mmap"), "{error}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no addresses without memory")]
    fn memory_on_demand_is_that_of_the_elements() {
        let mut huge = Reserved::<[u64; 8]>::new(1 << 30, Backing::OnDemand).expect("addresses");
        assert_eq!(huge.memory(), 0);
        huge.push([1; 8]).expect("room");
        assert_eq!(huge.memory(), PAGE);
        assert_eq!(huge.pop(), Some([1; 8]));
        assert_eq!(huge.pop(), None);
    }

    #[test]
    fn elements_are_dropped_once() {
        let counted = Rc::new(());
        let mut holders = Reserved::new(4, Backing::OnDemand).expect("memory");
        for _ in 0..4 {
            holders.push(counted.clone()).expect("room");
        }
        drop(holders.push(counted.clone()));
        drop(holders.pop());
        assert_eq!(Rc::strong_count(&counted), 4);
        drop(holders);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no addresses without memory")]
    fn an_impossible_reservation_is_an_error() {
        assert!(Reserved::<u64>::new(usize::MAX, Backing::OnDemand).is_err());
        assert!(Reserved::<u64>::new(1 << 50, Backing::OnDemand).is_err());
    }
}
