//! Step: an element's work on each packet by itself, and the packet's exit.
//!
//! The engine calls an element with a frame. Most elements then treat one packet after the other
//! alike, and the rest follows from that: the loop, copies of packets that others hold as well,
//! further outputs, drops. A [`Step`] is the remainder. It is known when the program is compiled,
//! so a loop over packets calls nothing, and several steps can be one behind the other in a loop.

use linerate_memory::{
    Arena, FRAME_LIMIT, Frame, HeaderCache, HeaderKernel, Packet, PacketMut, PoolCache,
    PreservedFields, Slot,
};

use super::{Arguments, Class, Context, Element, ElementBuilder};
use crate::{
    drop_reason::{DropReason, NoBuffer, NoDrop},
    error::HandlerError,
    runtime::Outputs,
};

/// Verdict on a packet: on, by output 0, or another exit. `?` behind a required property of a
/// packet sends those without it to that exit, and those without it for a [`DropReason`] nowhere.
pub type Verdict<R = NoBuffer> = Result<(), Exit<R>>;

/// Exit of a packet that does not go on; `R` are the reasons for which the element drops some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit<R = NoBuffer> {
    /// By an output.
    Output(usize),
    /// By output 1; nowhere, for that reason, where the configuration does not use it.
    ErrorOutput(R),
    /// Nowhere, for that reason.
    Drop(R),
}

impl<R: From<F>, F: DropReason> From<F> for Exit<R> {
    #[inline(always)]
    fn from(reason: F) -> Exit<R> {
        Exit::Drop(reason.into())
    }
}

impl<R: DropReason> Exit<R> {
    /// Returns the exit with the number of its reason.
    #[inline(always)]
    fn numbered(self) -> Exit<usize> {
        match self {
            Exit::Output(output) => Exit::Output(output),
            Exit::ErrorOutput(reason) => Exit::ErrorOutput(reason.index()),
            Exit::Drop(reason) => Exit::Drop(reason.index()),
        }
    }
}

impl Exit<usize> {
    /// The output that is meant among those there are, or the reason.
    #[inline]
    fn way(self, out: &Outputs) -> Result<usize, usize> {
        match self {
            Exit::Output(output) => Ok(output),
            Exit::ErrorOutput(_) if out.count() > 1 => Ok(1),
            Exit::ErrorOutput(reason) | Exit::Drop(reason) => Err(reason),
        }
    }
}

/// Something done to each packet by itself.
///
/// ```
/// use linerate_graph::{Arguments, Class, PacketMut, Step, Verdict};
///
/// const CLASS: Class = Class {
///     name: "Paint",
///     ports: "1/1",
///     annotates: true,
///     ..Paint::CLASS
/// };
///
/// #[derive(Arguments)]
/// struct Paint {
///     /// the colour
///     #[arg(kind = "0 to 255")]
///     #[handler(value)]
///     color: u8,
/// }
///
/// impl Step for Paint {
///     #[inline]
///     fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
///         packet.meta_mut().paint = self.color;
///         Ok(())
///     }
/// }
/// # assert_eq!(CLASS.args[0].name, "COLOR");
/// ```
///
/// A step that writes packets ([`Writes`], which is meant when nothing is said) gets copies
/// of its own of those that others hold. A `Step<Reads>` leaves them as they are. One that drops
/// packets for reasons of its own says which ([`DropReason`]): `Step<Writes, Reason>`.
pub trait Step<A: AccessMode = Writes, R: Covers<A> = <A as AccessMode>::Reasons>:
    Arguments + Send + 'static
{
    /// Class of an element that is this step: arguments, handlers, drop reasons and constructor. To
    /// be completed, as [`Class::here`] is.
    const CLASS: Class = Class {
        args: Self::ARGS,
        handlers: Self::HANDLERS,
        drops: R::REASONS,
        file: Self::FILE,
        make: PerPacket::<Self, A, R>::make,
        ..Class::here()
    };

    /// A packet. `#[inline]` at the implementation makes it part of the loop.
    fn step(&mut self, packet: &mut A::Packet<'_>) -> Verdict<R>;

    /// Header fields that the step leaves as they were, which elements behind it then know without
    /// a look at the packets ([`HeaderCache`]).
    #[inline(always)]
    fn preserves(&self) -> PreservedFields {
        PreservedFields::NOTHING
    }

    /// Prepares for the packets of a frame: values they have in common, such as the time. Returns
    /// false if all of them go on without a look at them.
    #[inline(always)]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let _ = (cx, frame);
        true
    }

    /// After a frame of which some packets have not gone on.
    #[inline(always)]
    fn end(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// Takes this step with each packet of a frame and leaves in it those that go on. For elements
    /// that have more to do than their step.
    #[inline(always)]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        if !self.begin(cx, frame) {
            return;
        }
        let preserved = self.preserves();
        let step = |packet: &mut A::Packet<'_>| self.step(packet);
        if cx.retain_preserving::<A, R>(frame, preserved, step) {
            self.end(cx);
        }
    }
}

/// Access of a step to packets.
pub trait AccessMode: sealed::Sealed + Sized + Send + 'static {
    /// The packet as the step sees it.
    type Packet<'a>;

    /// Drop reasons that come with it.
    type Reasons: Covers<Self>;

    /// Goes over a frame.
    #[doc(hidden)]
    fn retain<V>(
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        preserved: PreservedFields,
        step: impl FnMut(&mut Self::Packet<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    );
}

/// It reads them, and may move their ends.
#[derive(Debug)]
pub enum Reads {}

/// It writes their bytes or annotations.
#[derive(Debug)]
pub enum Writes {}

/// Reasons that include those that come with an access to packets: with [`Writes`] there may be no
/// buffer for a copy of a packet that others hold as well.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no reason for packets that no buffer can be had for",
    note = "a step that writes packets has such a reason: `#[from(NoBuffer)]` says which; one that \
            only reads them is a `Step<Reads, {Self}>`"
)]
pub trait Covers<A>: DropReason {
    /// The reason for packets that no copy can be had of; `None` where none are made.
    fn no_buffer() -> Option<Self>;
}

impl<R: DropReason> Covers<Reads> for R {
    #[inline(always)]
    fn no_buffer() -> Option<R> {
        None
    }
}

impl<R: DropReason + From<NoBuffer>> Covers<Writes> for R {
    #[inline(always)]
    fn no_buffer() -> Option<R> {
        Some(NoBuffer.into())
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Reads {}
    impl Sealed for super::Writes {}
}

impl AccessMode for Reads {
    type Packet<'a> = Packet<'a>;

    type Reasons = NoDrop;

    #[inline(always)]
    fn retain<V>(
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        preserved: PreservedFields,
        step: impl FnMut(&mut Packet<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        arena.retain_read_cached(frame, header_cache, preserved, step, out);
    }
}

impl AccessMode for Writes {
    type Packet<'a> = PacketMut<'a>;

    type Reasons = NoBuffer;

    #[inline(always)]
    fn retain<V>(
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        preserved: PreservedFields,
        step: impl FnMut(&mut PacketMut<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        arena.retain_cached(frame, header_cache, preserved, step, out);
    }
}

impl Context {
    /// Takes a step with each packet of a frame and leaves in it those that go on: for elements
    /// that are no [`Step`], as [`Step::pass`] is for those that are. `R` are the reasons for which
    /// the element drops packets. Returns true if any packet has not gone on.
    #[inline(always)]
    pub fn retain<A: AccessMode, R: Covers<A>>(
        &mut self,
        frame: &mut Frame,
        step: impl FnMut(&mut A::Packet<'_>) -> Verdict<R>,
    ) -> bool {
        self.retain_preserving::<A, R>(frame, PreservedFields::NOTHING, step)
    }

    /// As [`Context::retain`], with a step that leaves some header fields as they were.
    #[inline(always)]
    pub fn retain_preserving<A: AccessMode, R: Covers<A>>(
        &mut self,
        frame: &mut Frame,
        preserved: PreservedFields,
        step: impl FnMut(&mut A::Packet<'_>) -> Verdict<R>,
    ) -> bool {
        if let Some(no_buffer) = R::no_buffer() {
            self.unshare_for(frame, no_buffer);
        }
        let Context { pool, exits, header_cache, .. } = self;
        let before = frame.len();
        let out = |_, slot, exit| exits.push(slot, exit);
        A::retain(pool.arena(), frame, header_cache, preserved, step, out);
        if frame.len() == before {
            return false;
        }
        self.leave_aside::<R>();
        true
    }

    /// As [`Context::retain`], with a step that is taken with eight packets at once.
    #[inline(always)]
    pub fn process_headers<const N: usize, R: DropReason + From<NoBuffer>>(
        &mut self,
        frame: &mut Frame,
        step: &mut impl HeaderKernel<N, Exit = Exit<R>>,
    ) -> bool {
        self.unshare::<R>(frame);
        let Context { pool, exits, header_cache, .. } = self;
        let before = frame.len();
        pool.arena()
            .process_headers(frame, header_cache, step, |_, slot, exit| exits.push(slot, exit));
        if frame.len() == before {
            return false;
        }
        self.leave_aside::<R>();
        true
    }

    #[cold]
    #[inline(never)]
    fn leave_aside<R: DropReason>(&mut self) {
        let declares = self.declares::<R>();
        let Context { exits, out, pool, account, node, .. } = self;
        exits.send(out, pool, |reason, packets| {
            account.dropped(*node, if declares { reason } else { usize::MAX }, packets);
        });
    }

    /// Sends packets off that do not go on; `R` are the reasons for which the element drops some.
    pub fn leave<R: DropReason>(&mut self, exits: &mut Exits) {
        let declares = self.declares::<R>();
        let Context { out, pool, account, node, .. } = self;
        exits.send(out, pool, |reason, packets| {
            account.dropped(*node, if declares { reason } else { usize::MAX }, packets);
        });
    }
}

/// Packets of a frame that do not go on, oldest first, and where they go.
#[derive(Debug)]
pub struct Exits {
    frame: Frame,
    /// Exit of the last of them.
    last: Exit<usize>,
    /// The first of each run of packets with another exit than those before, and that exit. Empty
    /// when all go the same way.
    changes: Vec<(usize, Exit<usize>)>,
}

impl Exits {
    /// None, with room for so many at first.
    pub fn new(limit: usize) -> Exits {
        Exits { frame: Frame::new(limit), last: Exit::Drop(0), changes: Vec::new() }
    }

    /// One more.
    #[inline]
    pub fn push<R: DropReason>(&mut self, slot: Slot, exit: Exit<R>) {
        self.push_numbered(slot, exit.numbered());
    }

    #[inline]
    fn push_numbered(&mut self, slot: Slot, exit: Exit<usize>) {
        if exit != self.last {
            self.change(exit);
        }
        if let Err(slot) = self.frame.push(slot) {
            self.push_to_larger(slot);
        }
    }

    #[cold]
    fn change(&mut self, exit: Exit<usize>) {
        if !self.frame.is_empty() {
            if self.changes.is_empty() {
                self.changes.push((0, self.last));
            }
            self.changes.push((self.frame.len(), exit));
        }
        self.last = exit;
    }

    #[cold]
    fn push_to_larger(&mut self, slot: Slot) {
        let mut larger = Frame::new(FRAME_LIMIT);
        larger.append(&mut self.frame, FRAME_LIMIT);
        self.frame = larger;
        let pushed = self.frame.push(slot);
        debug_assert!(pushed.is_ok(), "no frame has more");
    }

    /// Sends all of them off: together, if they go the same way, as they mostly do.
    #[inline]
    fn send(&mut self, out: &mut Outputs, pool: &mut PoolCache, dropped: impl Fn(usize, usize)) {
        if !self.changes.is_empty() {
            return self.send_mixed(out, pool, dropped);
        }
        match self.last.way(out) {
            Ok(output) => out.emit_frame(output, &mut self.frame),
            Err(reason) => {
                dropped(reason, self.frame.len());
                pool.give(&mut self.frame);
            }
        }
    }

    #[cold]
    fn send_mixed(
        &mut self,
        out: &mut Outputs,
        pool: &mut PoolCache,
        dropped: impl Fn(usize, usize),
    ) {
        let mut changes = self.changes.drain(..).peekable();
        let (mut at, mut way) = (0, Err(0));
        self.frame.drain_front(self.frame.len(), |slot| {
            if let Some((_, exit)) = changes.next_if(|(first, _)| *first == at) {
                way = exit.way(out);
            }
            at += 1;
            match way {
                Ok(output) => out.emit(output, slot),
                Err(reason) => {
                    dropped(reason, 1);
                    pool.give_one(slot);
                }
            }
        });
    }
}

/// An element that is a step and nothing else.
#[derive(Debug)]
pub struct PerPacket<S, A, R> {
    step: S,
    touch: std::marker::PhantomData<fn(A, R)>,
}

impl<A: AccessMode, R: Covers<A>, S: Step<A, R>> PerPacket<S, A, R> {
    /// The element that takes this step.
    pub fn new(step: S) -> PerPacket<S, A, R> {
        PerPacket { step, touch: std::marker::PhantomData }
    }

    /// One with the arguments given.
    fn make(make: &mut ElementBuilder<'_>) -> Box<dyn Element> {
        Box::new(PerPacket::<S, A, R>::new(S::from_args(make)))
    }
}

impl<A: AccessMode, R: Covers<A>, S: Step<A, R>> Element for PerPacket<S, A, R> {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.step.pass(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<PerPacket<S, A, R>>() {
            self.step.take_counts(&mut old.step);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        self.step.read_field(&cx.scope(), handler)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.step.write_field(&cx.scope(), handler, value)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use linerate_memory::ArenaOptions;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::runtime::outputs::Span;

    fn exit() -> impl Strategy<Value = Exit<usize>> {
        prop_oneof![
            (0..3usize).prop_map(Exit::Output),
            (0..2usize).prop_map(Exit::ErrorOutput),
            (0..2usize).prop_map(Exit::Drop),
        ]
    }

    proptest! {
        /// Whether they go together or one by one: packets keep their order on each output,
        /// and each that goes nowhere is counted and given back.
        #[test]
        fn every_packet_goes_where_it_was_told(
            exits in vec((exit(), 1..4usize), 0..20), outputs in 1..3usize, limit in 1..5usize,
        ) {
            let exits: Vec<Exit<usize>> =
                exits.into_iter().flat_map(|(exit, times)| vec![exit; times]).collect();
            let arena = ArenaOptions { size: 1 << 18, ..Default::default() }.create().unwrap();
            let mut pool = arena.cache(64);
            let mut out = Outputs::new(limit);
            let first = (0..outputs).map(|at| out.add(at as u32)).min().unwrap() as u32;
            out.enter(Span { first, count: outputs as u32 });
            let (mut sent, mut lost) = (vec![Vec::new(); outputs], [0, 0]);
            let mut leaving = Exits::new(limit);
            for (at, exit) in exits.iter().enumerate() {
                leaving.push_numbered(pool.take_one(at).unwrap(), *exit);
                match *exit {
                    Exit::Output(output) if output < outputs => sent[output].push(at),
                    Exit::Output(_) => {}
                    Exit::ErrorOutput(_) if outputs > 1 => sent[1].push(at),
                    Exit::ErrorOutput(reason) | Exit::Drop(reason) => lost[reason] += 1,
                }
            }
            let counted = RefCell::new([0, 0]);
            leaving.send(&mut out, &mut pool, |reason, packets| {
                counted.borrow_mut()[reason] += packets;
            });
            prop_assert_eq!(counted.into_inner(), lost);
            let mut came = vec![Vec::new(); outputs];
            out.collect(|out, (to, _), mut frame| {
                if let Some(came) = came.get_mut(to as usize) {
                    came.extend(frame.slots().iter().map(Slot::len));
                }
                pool.give(&mut frame);
                out.recycle(frame);
            });
            prop_assert_eq!(came, sent);
            let all: Vec<_> = std::iter::from_fn(|| pool.take_one(0)).collect();
            prop_assert_eq!(all.len(), arena.count());
        }
    }
}
