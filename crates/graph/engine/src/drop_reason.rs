//! Drop reasons: types whose values an element drops packets under.

/// Reasons of a class for dropping packets: an enum, from which the counters, their names and
/// their documentation follow.
///
/// ```
/// use linerate_graph::{DropReason, NoBuffer};
///
/// #[derive(Clone, Copy, DropReason)]
/// enum Reason {
///     #[from(NoBuffer)]
///     NoBuffer,
///     /// time to live expired
///     Expired,
/// }
/// assert_eq!(Reason::REASONS, ["no buffer", "time to live expired"]);
/// assert_eq!(Reason::Expired.index(), 1);
/// assert_eq!(Reason::from(NoBuffer).index(), 0);
/// ```
///
/// A documentation comment is the text that people read, after "packets are dropped for". The order
/// of the variants is that of the counters.
///
/// `#[from(OTHER)]` counts a reason of another type under the variant, such as one that a function
/// shared by several classes returns: `?` converts it, and does not compile where the element's
/// reasons do not say how. Without a comment the variant has that reason's text. A unit struct is
/// a type with one reason.
///
/// ```compile_fail,E0277
/// use linerate_graph::{DropReason, Verdict};
///
/// /// no IP header
/// #[derive(Clone, Copy, DropReason)]
/// struct NoHeader;
///
/// #[derive(Clone, Copy, DropReason)]
/// enum Reason {
///     /// time to live expired
///     Expired,
/// }
///
/// fn step(header: Option<&[u8]>) -> Verdict<Reason> {
///     header.ok_or(NoHeader)?;
///     Ok(())
/// }
/// ```
///
/// Neither does a step that writes packets where no variant counts those that no buffer for a copy
/// can be had for:
///
/// ```compile_fail,E0277
/// use linerate_graph::{Arguments, DropReason, PacketMut, Step, Verdict, Writes};
///
/// #[derive(Clone, Copy, DropReason)]
/// enum Reason {
///     /// time to live expired
///     Expired,
/// }
///
/// #[derive(Arguments)]
/// struct Age {}
///
/// impl Step<Writes, Reason> for Age {
///     fn step(&mut self, _: &mut PacketMut<'_>) -> Verdict<Reason> {
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no drop reason",
    note = "`#[derive(Clone, Copy, DropReason)]` on an enum makes its variants drop reasons"
)]
pub trait DropReason: Copy + 'static {
    /// Texts of all reasons, in the order of their counters, for [`Class::drops`](crate::Class).
    const REASONS: &'static [&'static str];

    /// Place of the reason in that list.
    fn index(self) -> usize;
}

/// Drop reason of packets that no buffer can be had for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoBuffer;

impl DropReason for NoBuffer {
    const REASONS: &'static [&'static str] = &["no buffer"];

    #[inline(always)]
    fn index(self) -> usize {
        0
    }
}

/// Drop reason of elements that drop nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDrop {}

impl DropReason for NoDrop {
    const REASONS: &'static [&'static str] = &[];

    fn index(self) -> usize {
        match self {}
    }
}

/// Those of ports, for the elements that own them.
impl DropReason for linerate_port::DropReason {
    const REASONS: &'static [&'static str] = &{
        const ALL: [linerate_port::DropReason; 7] = linerate_port::DropReason::ALL;
        let (mut texts, mut at) = ([""; ALL.len()], 0);
        while at < ALL.len() {
            texts[at] = ALL[at].meaning();
            at += 1;
        }
        texts
    };

    fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{NoBuffer, NoDrop};
    use crate::{Covers, DropReason, Exit, Reads, Verdict, Writes};

    /// longer than a buffer
    #[derive(Debug, Clone, Copy, DropReason)]
    struct TooLong;

    /// no IP header
    #[derive(Debug, Clone, Copy, DropReason)]
    struct NoHeader;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
    enum Reason {
        /// no
        /// header
        #[from(NoHeader)]
        Header,
        #[from(NoBuffer, TooLong)]
        NoBuffer,
        /// waited too long
        Late,
    }

    #[test]
    fn texts_and_numbers_follow_from_the_variants() {
        assert_eq!(Reason::REASONS, ["no header", "no buffer", "waited too long"]);
        let all = [Reason::Header, Reason::NoBuffer, Reason::Late];
        assert_eq!(all.map(Reason::index), [0, 1, 2]);
        assert_eq!((TooLong::REASONS, TooLong.index()), (&["longer than a buffer"][..], 0));
        assert!(NoDrop::REASONS.is_empty());
    }

    #[test]
    fn a_shared_reason_is_counted_under_the_variant_that_says_so() {
        fn step(length: usize, header: Option<u8>) -> Verdict<Reason> {
            header.ok_or(NoHeader)?;
            if length > 9 {
                Err(TooLong)?;
            }
            if length == 0 { Err(Exit::ErrorOutput(Reason::Late)) } else { Ok(()) }
        }
        assert_eq!(step(1, None), Err(Exit::Drop(Reason::Header)));
        assert_eq!(step(10, Some(0)), Err(Exit::Drop(Reason::NoBuffer)));
        assert_eq!(step(0, Some(0)), Err(Exit::ErrorOutput(Reason::Late)));
        assert_eq!(step(1, Some(0)), Ok(()));
        assert_eq!(<Reason as Covers<Writes>>::no_buffer(), Some(Reason::NoBuffer));
        assert_eq!(<Reason as Covers<Reads>>::no_buffer(), None);
    }

    #[test]
    fn reasons_of_ports_have_their_texts() {
        use linerate_port::DropReason as Port;
        let meanings: Vec<_> = Port::ALL.iter().map(|reason| reason.meaning()).collect();
        assert_eq!(Port::REASONS, meanings);
        assert!(Port::ALL.iter().enumerate().all(|(at, reason)| reason.index() == at));
    }
}
