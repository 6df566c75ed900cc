//! Values of configuration arguments and handlers, by type, and their form in Click.
//!
//! One type per kind; its [`Value`] implementation alone decides the meaning of a text, and how it is
//! printed. Grammar, rounding, bounds and error texts are those of Click's `Args` library. Which
//! argument a text is for is not decided here.

mod address;
mod address6;
mod annotation;
mod decimal;
mod number;
mod port;
mod reference;
mod text;
mod unit;

pub use address::{Ipv4OrPrefix, Ipv4Prefix};
pub use address6::{Ipv6OrPrefix, Ipv6Prefix};
pub use annotation::Annotation;
pub use number::{Fixed, integer_in, parse_bool, parse_integer, parse_u32};
pub use port::{IpProtocol, TcpPort, UdpPort, parse_port};
pub use reference::{ElementRef, HandlerCall, HandlerRef};
pub use text::{Filename, Keyword, Text, Word};
pub use unit::{Bandwidth, Seconds, SignedTime, parse_bandwidth, parse_time};

use std::net::Ipv4Addr;

use super::Scope;
use crate::{error::HandlerError, lang::config::words};

/// Error for a text that is nothing of its kind.
pub(crate) const PARSE_ERROR: &str = "parse error";

/// Value of an argument, and of a handler that is read and written: it is parsed and printed.
///
/// ```
/// use linerate_graph::{Scope, Value};
///
/// /// A place in a rack, `A7`.
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// struct Place {
///     rack: char,
///     unit: u8,
/// }
///
/// impl Value for Place {
///     const KIND: &'static str = "rack and unit";
///
///     fn parse(text: &str, scope: &Scope<'_>) -> Result<Place, String> {
///         let (rack, unit) = text.split_at_checked(1).ok_or("no rack")?;
///         let rack = rack.chars().next().filter(char::is_ascii_uppercase).ok_or("no rack")?;
///         Ok(Place { rack, unit: u8::parse(unit, scope)? })
///     }
///
///     fn unparse(&self, _: &Scope<'_>) -> String {
///         format!("{}{}", self.rack, self.unit)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` can be no argument, and no handler that is written: it is not parsed and \
               printed",
    note = "implement `Value` for it, or name a function, `#[arg(with = ..)]`; fields that are \
            no arguments have no `#[arg]`, and a handler may be read alone, `#[handler(read)]`"
)]
pub trait Value: Sized {
    /// The kind of value shown to people, where it is one for all arguments of the type.
    const KIND: &'static str = "";
    /// The kind of value in Click's refusal of a text that is written to a handler, `expected integer`.
    /// Where it is empty the refusal is the error of [`Value::parse`].
    const EXPECTED: &'static str = "";

    /// Reads it.
    ///
    /// # Errors
    ///
    /// The error, to be put behind the argument's name.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Self, String>;

    /// Prints it, in a form that [`Value::parse`] reads.
    fn unparse(&self, scope: &Scope<'_>) -> String;

    /// Reads one that was written to a handler.
    ///
    /// # Errors
    ///
    /// The refusal.
    fn parse_written(text: &str, scope: &Scope<'_>) -> Result<Self, HandlerError> {
        Self::parse(text.trim(), scope).map_err(|error| {
            HandlerError::refused(match Self::EXPECTED {
                "" => error,
                expected => format!("expected {expected}"),
            })
        })
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;
    const EXPECTED: &'static str = T::EXPECTED;

    /// An empty text is none, as an argument that is not given.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Option<T>, String> {
        if text.is_empty() { Ok(None) } else { T::parse(text, scope).map(Some) }
    }

    fn unparse(&self, scope: &Scope<'_>) -> String {
        self.as_ref().map(|value| value.unparse(scope)).unwrap_or_default()
    }
}

/// Values with spaces between them.
macro_rules! lists {
    ($($type:ty)*) => {$(
        impl Value for Vec<$type> {
            fn parse(text: &str, scope: &Scope<'_>) -> Result<Vec<$type>, String> {
                words(text).into_iter().map(|word| Value::parse(word, scope)).collect()
            }

            fn unparse(&self, scope: &Scope<'_>) -> String {
                let words: Vec<_> = self.iter().map(|value| value.unparse(scope)).collect();
                words.join(" ")
            }
        }
    )*};
}

lists!(Ipv4Addr Ipv4OrPrefix);

/// A value, or Click's words for a text that is none.
fn or_parse_error<T>(value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| PARSE_ERROR.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{fmt::Debug, net::Ipv6Addr, path::PathBuf, time::Duration};

    use linerate_packet::MacAddr;
    use proptest::prelude::*;

    use super::*;
    use crate::{element::plan::tests::plan, names::Names};

    /// Reads a text in a graph without elements.
    pub(crate) fn read<T: Value>(text: &str) -> Result<T, String> {
        read_with(text, &Names::default())
    }

    /// As `read`, with names.
    pub(crate) fn read_with<T: Value>(text: &str, names: &Names) -> Result<T, String> {
        let plan = plan("a :: Idle; c :: { b :: Idle }");
        T::parse(text, &Scope { plan: &plan, names, name: "a" })
    }

    /// Prints values as they are seen from the element `c/b`.
    #[track_caller]
    fn check<T: Value + PartialEq + Debug>(cases: &[(&str, &str)]) {
        let plan = plan("a :: Idle; c :: { b :: Idle; d :: Idle; c :: { b :: Idle } }");
        let scope = Scope { plan: &plan, names: &Names::default(), name: "c/b" };
        for (text, printed) in cases {
            let value = T::parse(text, &scope).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(value.unparse(&scope), *printed, "{text}");
            assert_eq!(T::parse(printed, &scope).as_ref(), Ok(&value), "{printed}");
            assert_eq!(T::parse_written(&format!(" {printed}\n"), &scope), Ok(value), "{printed}");
        }
    }

    #[test]
    fn numbers_are_printed() {
        check::<bool>(&[("yes", "true"), ("0", "false")]);
        check::<u8>(&[("0xff", "255")]);
        check::<u16>(&[("017", "15"), ("65535", "65535")]);
        check::<u32>(&[("1_000", "1000")]);
        check::<u64>(&[("18446744073709551615", "18446744073709551615")]);
        check::<usize>(&[("0b11", "3")]);
        check::<i8>(&[("-128", "-128")]);
        check::<i16>(&[("-0x10", "-16")]);
        check::<i32>(&[("+7", "7")]);
        check::<i64>(&[("-9223372036854775808", "-9223372036854775808")]);
        check::<f64>(&[("1e3", "1000"), ("-.5", "-0.5"), ("1e-7", "0.0000001")]);
        check::<Fixed<16>>(&[("0.5", "0.5"), ("1e-2", "0.01")]);
        check::<IpProtocol>(&[("0x11", "17"), ("300", "300")]);
        check::<TcpPort>(&[("0x50", "80")]);
        check::<UdpPort>(&[("53", "53")]);
    }

    #[test]
    fn times_and_rates_are_printed() {
        check::<Duration>(&[("1.5ms", "0.001500"), ("1ns", "0.000000001"), ("2min", "120.000000")]);
        check::<SignedTime>(&[("-2s", "-2.000000"), ("1us", "0.000001")]);
        check::<Seconds<0>>(&[("2min", "120")]);
        check::<Seconds<3>>(&[("1.5s", "1.5"), ("10ms", "0.01"), ("2", "2")]);
        check::<Bandwidth>(&[("1kbps", "125Bps"), ("1000", "1000"), ("0", "0Bps")]);
    }

    #[test]
    fn addresses_are_printed() {
        check::<Ipv4Addr>(&[("018.26.4.9", "18.26.4.9")]);
        check::<Vec<Ipv4Addr>>(&[(" 1.0.0.1  1.0.0.2 ", "1.0.0.1 1.0.0.2"), ("", "")]);
        check::<Ipv4Prefix>(&[
            ("18.26/16", "18.26.0.0/16"),
            ("1.2.3.4/0.0.0.255", "1.2.3.4/0.0.0.255"),
        ]);
        check::<Ipv4OrPrefix>(&[("1.2.3.4", "1.2.3.4"), ("0/0", "0.0.0.0/0")]);
        check::<Vec<Ipv4OrPrefix>>(&[("1.2.3.4 10/8", "1.2.3.4 10.0.0.0/8")]);
        check::<Ipv6Addr>(&[("3FFE::0001", "3ffe::1")]);
        check::<Ipv6Prefix>(&[("3ffe::/16", "3ffe::/16"), ("::/ffff::", "::/16")]);
        check::<Ipv6OrPrefix>(&[("::1", "::1"), ("fe80::/10", "fe80::/10")]);
        check::<MacAddr>(&[("0-50-BA-85-84-A9", "00:50:ba:85:84:a9")]);
    }

    #[test]
    fn texts_are_printed() {
        let quoted = |text: &str| (text.to_owned(), text.to_owned());
        let cases = ["\"\"", "\"a b\"", "\"a,b\"", "\"// no comment\""].map(quoted);
        let cases: Vec<_> = cases.iter().map(|(text, printed)| (&**text, &**printed)).collect();
        check::<String>(&cases);
        check::<String>(&[("'plain'", "plain"), ("\\<41>b", "Ab")]);
        check::<Vec<u8>>(&[("plain", "plain"), ("\"a b\"", "\"a b\"")]);
        check::<Text>(&[("a, 'b'", "a, 'b'")]);
        check::<Word>(&[("'word'", "word")]);
        check::<Keyword>(&[("KEY", "KEY")]);
        check::<Filename>(&[("'/tmp//x'", "/tmp/x"), ("\"/tmp/a b\"", "\"/tmp/a b\"")]);
        check::<Annotation<1>>(&[("PAINT", "16"), ("17", "17")]);
        assert_eq!(read("/tmp"), Ok(Filename(PathBuf::from("/tmp"))));
    }

    /// An inner element is called by a name that leads to it, and not to another one inside.
    #[test]
    fn references_are_printed() {
        check::<ElementRef>(&[("a", "a"), ("b", "b"), ("d", "c/d"), ("c/b", "c/c/b")]);
        check::<HandlerRef>(&[
            ("a.config", "a.config"),
            ("config", "b.config"),
            (".list", ".list"),
            ("list", ".list"),
            ("d.config", "c/d.config"),
        ]);
        check::<HandlerCall>(&[("a.config  1, 2", "a.config 1, 2"), (".stop", ".stop")]);
    }

    #[test]
    fn none_is_an_empty_text() {
        check::<Option<u16>>(&[("", ""), ("7", "7")]);
        check::<Option<Ipv4Addr>>(&[("", ""), ("1.2.3.4", "1.2.3.4")]);
    }

    #[test]
    fn refusals_of_handlers_are_those_of_click() {
        fn refusal<T: Value + Debug>(text: &str) -> String {
            let plan = plan("a :: Idle");
            let scope = Scope { plan: &plan, names: &Names::default(), name: "a" };
            T::parse_written(text, &scope).unwrap_err().to_string()
        }
        assert_eq!(refusal::<bool>("maybe"), "expected boolean");
        assert_eq!(refusal::<u8>("256"), "expected uint8_t");
        assert_eq!(refusal::<u16>("65536"), "expected integer");
        assert_eq!(refusal::<Ipv4Addr>("1.2.3"), "expected IP address");
        assert_eq!(refusal::<Duration>("-1"), "parse error");
        assert_eq!(refusal::<Option<u16>>("x"), "expected integer");
    }

    proptest! {
        #[test]
        fn every_printed_value_is_read_again(
            bytes: Vec<u8>, text: String, number: f64, nanos: u32, seconds: u32, mask: u32, length in 0..=128u8,
        ) {
            let plan = plan("a :: Idle");
            let scope = Scope { plan: &plan, names: &Names::default(), name: "a" };
            fn again<T: Value>(value: &T, scope: &Scope<'_>) -> Result<T, String> {
                T::parse(&value.unparse(scope), scope)
            }
            prop_assert_eq!(again(&bytes, &scope), Ok(bytes));
            prop_assert_eq!(again(&text, &scope), Ok(text));
            if number.is_normal() {
                prop_assert_eq!(again(&number, &scope), Ok(number));
            }
            let time = Duration::new(seconds.into(), nanos % 1_000_000_000);
            prop_assert_eq!(again(&time, &scope), Ok(time));
            prop_assert_eq!(again(&Seconds::<3>(seconds), &scope), Ok(Seconds(seconds)));
            let prefix = Ipv4Prefix { address: nanos.into(), mask: mask.into() };
            prop_assert_eq!(again(&prefix, &scope), Ok(prefix));
            let prefix = Ipv6Prefix { address: u128::from(mask).into(), length };
            prop_assert_eq!(again(&prefix, &scope), Ok(prefix));
        }
    }
}
