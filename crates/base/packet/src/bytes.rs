//! Big-endian reads and writes, and the macro that gives every header view its skeleton.
//!
//! All fixed fields are read through a `&[u8; N]` of the whole fixed header. That is one length
//! comparison with a constant, equal to the one in the view's constructor, so the optimiser drops
//! it, and every field offset inside the array is checked at compile time after inlining. Parts
//! whose position depends on the packet's own content are clamped, never indexed.

/// The fixed header at the front of `bytes`.
#[inline(always)]
pub(crate) fn head<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    match bytes.first_chunk() {
        Some(head) => head,
        None => shrunk(),
    }
}

/// The fixed header at the front of `bytes`, for writing.
#[inline(always)]
pub(crate) fn head_mut<const N: usize>(bytes: &mut [u8]) -> &mut [u8; N] {
    match bytes.first_chunk_mut() {
        Some(head) => head,
        None => shrunk(),
    }
}

/// Only an `AsRef` that returns fewer bytes than it did to the constructor gets here.
#[cold]
#[inline(never)]
fn shrunk() -> ! {
    panic!("the bytes under a header view shrank after it was made")
}

/// `bytes[from..to]`, with both ends clamped to the bytes.
#[inline(always)]
pub(crate) fn span(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    bytes.get(from..to.min(bytes.len())).unwrap_or(&[])
}

/// `bytes[from..to]` for writing, with both ends clamped to the bytes.
#[inline(always)]
pub(crate) fn span_mut(bytes: &mut [u8], from: usize, to: usize) -> &mut [u8] {
    let to = to.min(bytes.len());
    bytes.get_mut(from..to).unwrap_or(&mut [])
}

/// `N` bytes of a fixed header, from a constant offset.
#[inline(always)]
pub(crate) fn get<const LEN: usize, const N: usize>(head: &[u8; LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&head[at..at + N]);
    out
}

/// Writes `N` bytes of a fixed header at a constant offset.
#[inline(always)]
pub(crate) fn put<const LEN: usize, const N: usize>(
    head: &mut [u8; LEN],
    at: usize,
    value: [u8; N],
) {
    head[at..at + N].copy_from_slice(&value);
}

/// A big-endian 16-bit field.
#[inline(always)]
pub(crate) fn be16<const LEN: usize>(head: &[u8; LEN], at: usize) -> u16 {
    u16::from_be_bytes(get(head, at))
}

/// A big-endian 32-bit field.
#[inline(always)]
pub(crate) fn be32<const LEN: usize>(head: &[u8; LEN], at: usize) -> u32 {
    u32::from_be_bytes(get(head, at))
}

/// Writes a big-endian 16-bit field.
#[inline(always)]
pub(crate) fn put16<const LEN: usize>(head: &mut [u8; LEN], at: usize, value: u16) {
    put(head, at, value.to_be_bytes());
}

/// Writes a big-endian 32-bit field.
#[inline(always)]
pub(crate) fn put32<const LEN: usize>(head: &mut [u8; LEN], at: usize, value: u32) {
    put(head, at, value.to_be_bytes());
}

/// Declares a header view: the struct, its two constructors and the access to its fixed header.
///
/// `check` is the module's validation of everything beyond the fixed length; `initial` is the
/// fixed header that `init` writes.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $name:ident, $header:expr, $len:expr, check: $check:expr, initial: $initial:expr
    ) => {
        $(#[$doc])*
        ///
        /// Made by `new_checked`, which validates once. After it, **no accessor panics, even if the
        /// bytes change**: fixed fields lie inside the length that was checked, and parts that a
        /// length field points to are clamped to the bytes (so neither a setter nor another process
        /// writing to the same memory can move an access out of bounds).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<T> {
            bytes: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// Wraps bytes that begin with this header, after checking that it is valid.
            ///
            /// # Errors
            ///
            /// Returns the fault of the header; the module's documentation lists the checks.
            #[inline]
            pub fn new_checked(bytes: T) -> Result<Self, $crate::Malformed> {
                let check: fn(&[u8; $len], usize) -> Result<(), $crate::Fault> = $check;
                let all = bytes.as_ref();
                let Some(head) = all.first_chunk::<{ $len }>() else {
                    return Err($crate::Malformed::new($header, $crate::Fault::Truncated));
                };
                match check(head, all.len()) {
                    Ok(()) => Ok(Self { bytes }),
                    Err(fault) => Err($crate::Malformed::new($header, fault)),
                }
            }

            /// The underlying buffer.
            #[inline]
            pub fn into_inner(self) -> T {
                self.bytes
            }

            /// All bytes the view was made over: the header and everything behind it.
            #[inline]
            pub fn as_bytes(&self) -> &[u8] {
                self.bytes.as_ref()
            }

            #[inline(always)]
            fn head(&self) -> &[u8; $len] {
                $crate::bytes::head(self.bytes.as_ref())
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            /// Writes a default fixed header at the front of `bytes` and wraps them. The setters
            /// do the rest; length fields and checksums are zero until they are set.
            ///
            /// # Errors
            ///
            /// The bytes are shorter than the fixed header.
            #[inline]
            pub fn init(mut bytes: T) -> Result<Self, $crate::Malformed> {
                let initial: [u8; $len] = $initial;
                match bytes.as_mut().first_chunk_mut::<{ $len }>() {
                    Some(head) => *head = initial,
                    None => {
                        return Err($crate::Malformed::new($header, $crate::Fault::Truncated));
                    }
                }
                Ok(Self { bytes })
            }

            #[inline(always)]
            fn head_mut(&mut self) -> &mut [u8; $len] {
                $crate::bytes::head_mut(self.bytes.as_mut())
            }
        }
    };
}
pub(crate) use view;
