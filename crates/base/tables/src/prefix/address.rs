//! Addresses as numbers, and prefixes of them.

use std::{
    fmt::{self, Debug},
    hint::select_unpredictable,
    net::{Ipv4Addr, Ipv6Addr},
};

use super::PrefixError;

mod sealed {
    use super::super::{dir24::Dir24, lpm::Lpm, poptrie::Poptrie};

    /// Bits of an IPv6 address that the poptrie decides by its direct array. Few under Miri, which
    /// takes hours to write an array of 64 MiB.
    const DIRECT_6: u32 = if cfg!(miri) { 8 } else { 24 };

    pub trait Sealed: Sized {
        /// The structure addresses of this family are looked up in.
        type Lpm: Lpm<Self>;
    }

    impl Sealed for u32 {
        type Lpm = Dir24;
    }

    impl Sealed for u128 {
        type Lpm = Poptrie<DIRECT_6>;
    }
}

pub(super) use sealed::Sealed;

/// An address whose most significant bit is its first: `u32` for IPv4, `u128`
/// for IPv6 (`u32::from(Ipv4Addr)`, `u128::from(Ipv6Addr)`).
pub trait Address: Copy + Ord + Debug + Send + Sync + Sealed + 'static {
    /// Bits of an address.
    const BITS: u32;
    /// The address of zeros.
    const ZERO: Self;

    /// The address's first bits are all that count: `length` ones, then zeros.
    fn mask(length: u32) -> Self;
    /// The bits of both.
    fn and(self, other: Self) -> Self;
    /// The bits of either.
    fn or(self, other: Self) -> Self;
    /// This address and all bits that `mask` leaves out.
    fn or_not(self, mask: Self) -> Self;
    /// Returns the number of first bits that two addresses have in common.
    fn common(self, other: Self) -> u32;
    /// The address after this one, which is not the last.
    fn next(self) -> Self;
    /// The address before this one, which is not the first.
    fn previous(self) -> Self;
    /// The first 64 bits or, where `low`, the rest; bits after the last are zero.
    fn half(self, low: bool) -> u64;
    /// The address with one half as given and the other zero.
    fn from_half(half: u64, low: bool) -> Self;
    /// `count` bits from bit `from` on, as a number; bits after the last are
    /// zero. At most 32 bits.
    fn bits(self, from: u32, count: u32) -> u32;
    /// `number` as the `count` bits from bit `from` on, other bits zero.
    fn from_bits(number: u32, from: u32, count: u32) -> Self;
    /// A number of 32 bits to which all bits of the address contribute.
    fn hash(self) -> u32;
    /// Writes it as people do.
    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

#[inline(always)]
fn bits_4(address: u32, from: u32, count: u32) -> u32 {
    address << from >> (u32::BITS - count)
}

#[inline(always)]
fn bits_6(address: u128, from: u32, count: u32) -> u32 {
    // The first half is nearly always enough, and half the work.
    if from + count <= 64 {
        return (((address >> 64) as u64) << from >> (64 - count)) as u32;
    }
    (address << from >> (u128::BITS - count)) as u32
}

#[inline(always)]
fn half_4(address: u32, low: bool) -> u64 {
    if low { 0 } else { u64::from(address) << 32 }
}

#[inline(always)]
fn half_6(address: u128, low: bool) -> u64 {
    select_unpredictable(low, address as u64, (address >> 64) as u64)
}

macro_rules! address {
    ($type:ty, $shown:ty, $bits:expr, $half:expr, $hash:expr) => {
        impl Address for $type {
            const BITS: u32 = <$type>::BITS;
            const ZERO: Self = 0;

            #[inline(always)]
            fn mask(length: u32) -> Self {
                <$type>::MAX.checked_shl(Self::BITS - length).unwrap_or(0)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn or_not(self, mask: Self) -> Self {
                self | !mask
            }

            #[inline(always)]
            fn common(self, other: Self) -> u32 {
                (self ^ other).leading_zeros()
            }

            #[inline(always)]
            fn next(self) -> Self {
                self + 1
            }

            #[inline(always)]
            fn previous(self) -> Self {
                self - 1
            }

            #[inline(always)]
            fn half(self, low: bool) -> u64 {
                $half(self, low)
            }

            fn from_half(half: u64, low: bool) -> Self {
                let wide = u128::from(half) << if low { 0 } else { 64 };
                (wide >> (u128::BITS - Self::BITS)) as Self
            }

            #[inline(always)]
            fn bits(self, from: u32, count: u32) -> u32 {
                $bits(self, from, count)
            }

            #[inline(always)]
            fn from_bits(number: u32, from: u32, count: u32) -> Self {
                (Self::from(number) << (Self::BITS - count)) >> from
            }

            #[inline(always)]
            fn hash(self) -> u32 {
                let folded: u64 = $hash(self);
                // Multiplication by the golden ratio (Knuth): the upper half
                // depends on all bits.
                (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
            }

            fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", <$shown>::from(self))
            }
        }
    };
}

address!(u32, Ipv4Addr, bits_4, half_4, u64::from);
address!(u128, Ipv6Addr, bits_6, half_6, |address: u128| (address >> 64) as u64 ^ address as u64);

/// The addresses that begin with the same bits.
///
/// Ordered as routing tables are printed: by address, and of the same address
/// the shorter, which contains the longer, first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    address: A,
    length: u8,
}

impl<A: Address> Prefix<A> {
    /// All addresses.
    pub const ALL: Prefix<A> = Prefix { address: A::ZERO, length: 0 };

    /// The addresses whose first `length` bits are those of `address`; its
    /// other bits are ignored.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Length`] where an address has fewer bits.
    pub fn new(address: A, length: u8) -> Result<Prefix<A>, PrefixError<A>> {
        if u32::from(length) > A::BITS {
            return Err(PrefixError::Length { length, most: A::BITS as u8 });
        }
        Ok(Prefix::from_parts(address, length.into()))
    }

    /// As [`Prefix::new`], for lengths that are right.
    pub(super) fn from_parts(address: A, length: u32) -> Prefix<A> {
        Prefix { address: address.and(A::mask(length)), length: length as u8 }
    }

    /// The first of its addresses.
    pub fn first(self) -> A {
        self.address
    }

    /// The last of its addresses.
    pub fn last(self) -> A {
        self.address.or_not(A::mask(self.length.into()))
    }

    /// Returns the number of bits that are fixed.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns true if the address is one of these.
    pub fn contains(self, address: A) -> bool {
        address.and(A::mask(self.length.into())) == self.address
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.show(f)?;
        write!(f, "/{}", self.length)
    }
}

impl<A: Address> fmt::Debug for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
