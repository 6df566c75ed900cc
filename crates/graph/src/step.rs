//! Elements that do something to each packet and send it on, elsewhere or nowhere.
//!
//! The engine calls an element with a frame. Most elements then do the same to one packet
//! after the other, and everything around that follows from it: the loop, what to do with
//! packets that others hold as well, further outputs, drops. A [`Step`] is what is left.
//! Which one it is is known when the program is compiled, so a loop over packets calls
//! nothing, and several steps can be one behind the other in a loop.

use linerate_memory::{Arena, Frame, Packet, PacketMut, Slot};

use crate::{
    class::Class, element::Element, engine::Context, error::HandlerError, fields::Arguments,
    make::Make,
};

/// Where a packet goes: on, by output 0, or another way. `?` in front of what a packet must
/// have sends those away that do not.
pub type Way = Result<(), Exit>;

/// Where a packet goes that does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By an output.
    Output(usize),
    /// By output 1; nowhere, for that reason, where the configuration does not use it.
    Refuse(usize),
    /// Nowhere, for the reason that has this place among its class's
    /// [`drops`](Class::drops).
    Drop(usize),
}

/// Something done to each packet by itself.
///
/// ```
/// use linerate_graph::{Arguments, Class, Step, Way};
/// use linerate_memory::PacketMut;
///
/// const CLASS: Class = Class {
///     name: "Paint",
///     ports: "1/1",
///     annotates: true,
///     drops: &["no buffer"],
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
///     fn step(&mut self, packet: &mut PacketMut<'_>) -> Way {
///         packet.meta_mut().paint = self.color;
///         Ok(())
///     }
/// }
/// # assert_eq!(CLASS.args[0].name, "COLOR");
/// ```
///
/// A step that writes packets ([`Writes`], which is meant when nothing is said) gets copies
/// of its own of those that others hold. A `Step<Reads>` leaves them as they are.
pub trait Step<A: Touch = Writes>: Arguments + Send + 'static {
    /// The place among its class's [`drops`](Class::drops) of packets that no copy could be
    /// had of.
    const NO_BUFFER: usize = 0;

    /// What the class of an element has that is this step: arguments, handlers and how it
    /// is made. To be completed, as [`Class::EMPTY`] is.
    const CLASS: Class = Class {
        args: Self::ARGS,
        handlers: Self::HANDLERS,
        make: PerPacket::<Self, A>::make,
        ..Class::EMPTY
    };

    /// A packet. `#[inline]` at the implementation makes it part of the loop.
    fn step(&mut self, packet: &mut A::Packet<'_>) -> Way;

    /// Before the packets of a frame: for what they have in common, such as the time.
    /// Whether they are to be looked at; else all of them go on.
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

    /// Takes this step with each packet of a frame and leaves in it what goes on. For
    /// elements that have more to do than their step.
    #[inline(always)]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        if !self.begin(cx, frame) {
            return;
        }
        if cx.sift::<A>(frame, Self::NO_BUFFER, |packet| self.step(packet)) {
            self.end(cx);
        }
    }
}

/// What a step may do to a packet.
pub trait Touch: sealed::Sealed + Send + 'static {
    /// The packet as the step sees it.
    type Packet<'a>;

    /// Whether packets must have no other holders.
    const OWNS: bool;

    /// Goes over a frame.
    #[doc(hidden)]
    fn sift(
        arena: &Arena,
        frame: &mut Frame,
        step: impl FnMut(&mut Self::Packet<'_>) -> Way,
        out: impl FnMut(Slot, Exit),
    );
}

/// It reads them, and may move their ends.
#[derive(Debug)]
pub enum Reads {}

/// It writes their bytes or what is known about them.
#[derive(Debug)]
pub enum Writes {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Reads {}
    impl Sealed for super::Writes {}
}

impl Touch for Reads {
    type Packet<'a> = Packet<'a>;

    const OWNS: bool = false;

    #[inline(always)]
    fn sift(
        arena: &Arena,
        frame: &mut Frame,
        step: impl FnMut(&mut Packet<'_>) -> Way,
        out: impl FnMut(Slot, Exit),
    ) {
        arena.sift_read(frame, step, out);
    }
}

impl Touch for Writes {
    type Packet<'a> = PacketMut<'a>;

    const OWNS: bool = true;

    #[inline(always)]
    fn sift(
        arena: &Arena,
        frame: &mut Frame,
        step: impl FnMut(&mut PacketMut<'_>) -> Way,
        out: impl FnMut(Slot, Exit),
    ) {
        arena.sift_packets(frame, step, out);
    }
}

impl Context {
    /// Takes a step with each packet of a frame and leaves in it what goes on: for elements
    /// that are no [`Step`], as [`Step::pass`] is for those that are. Packets that no copy
    /// can be had of are dropped for the reason `no_buffer`. Returns whether any packet has
    /// not gone on.
    #[inline(always)]
    pub fn sift<A: Touch>(
        &mut self,
        frame: &mut Frame,
        no_buffer: usize,
        step: impl FnMut(&mut A::Packet<'_>) -> Way,
    ) -> bool {
        if A::OWNS {
            self.unshare(frame, no_buffer);
        }
        let Context { pool, exits, .. } = self;
        let before = frame.len();
        A::sift(pool.arena(), frame, step, |slot, exit| exits.push((slot, exit)));
        if frame.len() == before {
            return false;
        }
        self.leave_aside();
        true
    }

    #[cold]
    #[inline(never)]
    fn leave_aside(&mut self) {
        let mut exits = std::mem::take(&mut self.exits);
        self.leave(&mut exits);
        self.exits = exits;
    }

    /// Sends packets off that do not go on.
    pub fn leave(&mut self, exits: &mut Vec<(Slot, Exit)>) {
        for (slot, exit) in exits.drain(..) {
            match exit {
                Exit::Output(output) => self.out.emit(output, slot),
                Exit::Refuse(_) if self.out.count() > 1 => self.out.emit(1, slot),
                Exit::Refuse(reason) | Exit::Drop(reason) => self.drop_packet(slot, reason),
            }
        }
    }
}

/// An element that is a step and nothing else.
#[derive(Debug)]
pub struct PerPacket<S, A> {
    step: S,
    touch: std::marker::PhantomData<fn(A)>,
}

impl<A: Touch, S: Step<A>> PerPacket<S, A> {
    /// The element that takes this step.
    pub fn new(step: S) -> PerPacket<S, A> {
        PerPacket { step, touch: std::marker::PhantomData }
    }

    /// One with the arguments given.
    fn make(make: &mut Make<'_>) -> Box<dyn Element> {
        Box::new(PerPacket::<S, A>::new(S::from_args(make)))
    }
}

impl<A: Touch, S: Step<A>> Element for PerPacket<S, A> {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.step.pass(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<PerPacket<S, A>>() {
            self.step.take_counts(&mut old.step);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        self.step.read_field(handler)
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.step.write_field(cx, handler, value)
    }
}
