//! Enums and sets of flags with the numbers of the wire.

/// Defines an enum with numbers for its variants.
macro_rules! numbered {
    ($(#[$outer:meta])* $visibility:vis enum $name:ident: $number:ty {
        $($(#[$inner:meta])* $variant:ident = $value:literal,)*
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name {
            $($(#[$inner])* $variant = $value,)*
        }

        impl $name {
            /// Every one.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Returns its number on the wire.
            #[must_use]
            pub const fn number(self) -> $number {
                self as $number
            }

            /// The one with this number.
            #[must_use]
            pub fn from_number(number: $number) -> Option<$name> {
                match number {
                    $($value => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

/// A set of flags, which may have bits that are not known here.
macro_rules! flags {
    ($(#[$outer:meta])* $visibility:vis struct $name:ident: $number:ty {
        $($(#[$inner:meta])* const $flag:ident = $value:expr;)*
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        $visibility struct $name(pub $number);

        impl $name {
            $($(#[$inner])* pub const $flag: $name = $name($value);)*

            /// Every flag known here.
            pub const KNOWN: $name = $name($($value |)* 0);

            /// Returns true if all of these flags are set.
            #[must_use]
            pub const fn contains(self, flags: $name) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Returns these flags and those.
            #[must_use]
            pub const fn with(self, flags: $name) -> $name {
                $name(self.0 | flags.0)
            }

            /// Returns true if all flags are known here.
            #[must_use]
            pub const fn is_known(self) -> bool {
                self.0 & !$name::KNOWN.0 == 0
            }
        }
    };
}

pub(crate) use flags;
pub(crate) use numbered;
