//! Quantities in types of their own: cycles cannot be added to seconds, and
//! dividing a clock by a packet rate gives cycles per packet.
//!
//! Each is an `f64` in its base unit, written with that number in files, and
//! printed and read with SI prefixes:
//!
//! ```
//! use linerate_model::units::{CyclesPerPacket, Hertz, PacketsPerSecond};
//!
//! let clock: Hertz = "3.3 GHz".parse()?;
//! let task = CyclesPerPacket::new(297.0);
//! assert_eq!((clock / task).to_string(), "11.11 Mpps");
//! assert_eq!("14.88Mpps".parse::<PacketsPerSecond>()?, PacketsPerSecond::new(14.88e6));
//! # Ok::<(), linerate_model::units::ParseError>(())
//! ```

mod text;

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Div, Mul, Sub},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

pub use text::ParseError;
use text::Unit;

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident: $symbols:expr, $prefixes:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            const UNIT: Unit = Unit { symbols: $symbols, prefixes: text::Prefixes::$prefixes };
            /// None of it.
            pub const ZERO: Self = Self(0.0);

            /// This many of the base unit.
            pub const fn new(value: f64) -> Self {
                Self(value)
            }

            /// The number of base units.
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The smaller of two.
            #[must_use]
            pub const fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            /// The larger of two.
            #[must_use]
            pub const fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, Add::add)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                Self::UNIT.write(self.0, formatter)
            }
        }

        impl FromStr for $name {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                Self::UNIT.read(text).map(Self)
            }
        }
    )*};
}

quantities! {
    /// Cycles of a processor's core.
    Cycles: &["cycles", "cycle"], None;
    /// Cycles for one packet.
    CyclesPerPacket: &["cycles/packet", "cycles"], None;
    /// Cycles per second.
    Hertz: &["Hz"], Decimal;
    /// Time.
    Seconds: &["s"], Decimal;
    /// Time for one packet.
    SecondsPerPacket: &["s/packet", "s"], Decimal;
    /// Time for one byte.
    SecondsPerByte: &["s/B"], Decimal;
    /// A number of packets; a mean may be fractional.
    Packets: &["packets", "packet"], Count;
    /// A number of bytes. Frame sizes contain the four-byte checksum.
    Bytes: &["B"], Bytes;
    /// Bits per second.
    BitsPerSecond: &["bit/s", "bps"], Decimal;
    /// Packets per second.
    PacketsPerSecond: &["pps", "packets/s"], Decimal;
    /// Percent of one processor's time for each Gbit/s.
    PercentPerGbit: &["%/Gbit/s", "%/Gbps"], None;
    /// Power.
    Watts: &["W"], Decimal;
}

/// `a * b = c`, and with it `b * a`, `c / a` and `c / b`.
macro_rules! products {
    ($($a:ident * $b:ident = $c:ident;)*) => {$(
        impl Mul<$b> for $a {
            type Output = $c;
            fn mul(self, other: $b) -> $c {
                $c(self.0 * other.0)
            }
        }

        impl Mul<$a> for $b {
            type Output = $c;
            fn mul(self, other: $a) -> $c {
                $c(self.0 * other.0)
            }
        }

        impl Div<$a> for $c {
            type Output = $b;
            fn div(self, other: $a) -> $b {
                $b(self.0 / other.0)
            }
        }

        impl Div<$b> for $c {
            type Output = $a;
            fn div(self, other: $b) -> $a {
                $a(self.0 / other.0)
            }
        }
    )*};
}

products! {
    CyclesPerPacket * Packets = Cycles;
    SecondsPerPacket * Packets = Seconds;
    Seconds * Hertz = Cycles;
    SecondsPerPacket * Hertz = CyclesPerPacket;
    PacketsPerSecond * Seconds = Packets;
    PacketsPerSecond * CyclesPerPacket = Hertz;
    SecondsPerByte * Bytes = Seconds;
}

impl SecondsPerPacket {
    /// The rate at which packets are processed that take this long each.
    pub fn rate(self) -> PacketsPerSecond {
        PacketsPerSecond(self.0.recip())
    }
}

impl PacketsPerSecond {
    /// The time there is for each packet at this rate.
    pub fn period(self) -> SecondsPerPacket {
        SecondsPerPacket(self.0.recip())
    }

    /// Bits per second of frames this long, without preamble and gap.
    pub fn bits(self, frame: Bytes) -> BitsPerSecond {
        BitsPerSecond(self.0 * frame.0 * 8.0)
    }
}

impl Seconds {
    /// This time as that of one packet.
    pub fn per_packet(self) -> SecondsPerPacket {
        SecondsPerPacket(self.0)
    }
}
