//! Values of configuration arguments, by type, and their form in Click.
//!
//! One type per kind; its [`Value`] implementation alone decides the meaning of a text. Grammar,
//! rounding, bounds and error texts are those of Click's `Args` library. Which argument a text is
//! for is not decided here.

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

use super::Scope;

/// Error for a text that is nothing of its kind.
pub(crate) const PARSE_ERROR: &str = "parse error";

/// Something an argument can be.
#[diagnostic::on_unimplemented(
    message = "an argument cannot be a `{Self}`: nothing says how its text is read",
    note = "implement `Value` for it, or name a function, `#[arg(with = ..)]`; fields that are \
            no arguments have no `#[arg]`"
)]
pub trait Value: Sized {
    /// The kind of value shown to people, where it is one for all arguments of the type.
    const KIND: &'static str = "";

    /// Reads it.
    ///
    /// # Errors
    ///
    /// The error, to be put behind the argument's name.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Self, String>;
}

/// A value, or Click's words for a text that is none.
fn or_parse_error<T>(value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| PARSE_ERROR.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::names::Names;

    /// Reads a text in a graph without elements.
    pub(crate) fn read<T: Value>(text: &str) -> Result<T, String> {
        read_with(text, &Names::default())
    }

    /// As `read`, with names.
    pub(crate) fn read_with<T: Value>(text: &str, names: &Names) -> Result<T, String> {
        let plan = crate::element::plan::tests::plan("a :: Idle; c :: { b :: Idle }");
        T::parse(text, &Scope { plan: &plan, names, name: "a" })
    }
}
