//! Outputs: the buffers of an element's output ports.

use linerate_memory::{Frame, OutputMap, Slot};

/// An input of an element, numbered so that an input has a smaller number than
/// those its packets go to later, as far as the graph has no cycles.
pub(crate) type InputId = u32;

/// Packets sent to outputs that lead nowhere.
pub(crate) const NOWHERE: InputId = InputId::MAX;

/// One push output: the input it leads to and the packets put on it.
struct Edge {
    to: InputId,
    frame: Frame,
    /// Whether it is in `touched`.
    listed: bool,
}

impl AsMut<Frame> for Edge {
    fn as_mut(&mut self) -> &mut Frame {
        &mut self.frame
    }
}

/// The edges of one element.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The outputs of the element that is at work.
pub struct Outputs {
    /// Of all elements, one element's side by side; the first leads nowhere.
    edges: Vec<Edge>,
    /// Those of the element at work.
    span: Span,
    /// Edges something was put on, in the order of the first packet.
    touched: Vec<u32>,
    /// Frames that were full, and in exact mode every packet, in order, each with its edge.
    closed: Vec<(u32, Frame)>,
    /// Empty frames.
    spare: Vec<Frame>,
    limit: usize,
    exact: bool,
}

impl Outputs {
    pub(crate) fn new(limit: usize) -> Outputs {
        let mut outputs = Outputs {
            edges: Vec::new(),
            span: Span::default(),
            touched: Vec::new(),
            closed: Vec::new(),
            spare: Vec::new(),
            limit,
            exact: limit == 1,
        };
        outputs.add(NOWHERE);
        outputs
    }

    /// Returns true if every packet goes all the way before the next sets out.
    #[inline(always)]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// From now on it does, or not. Nothing is on an output.
    pub(crate) fn set_exact(&mut self, exact: bool) {
        debug_assert!(!self.is_touched());
        self.exact = exact;
    }

    /// Most packets in a frame.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Packets the element has put on outputs.
    pub(crate) fn put(&self) -> usize {
        let closed: usize = self.closed.iter().map(|(_, frame)| frame.len()).sum();
        let edges = self.touched.iter().map(|at| self.edges[*at as usize].frame.len());
        closed + edges.sum::<usize>()
    }

    /// A new edge; returns its number.
    pub(crate) fn add(&mut self, to: InputId) -> usize {
        self.edges.push(Edge { to, frame: Frame::new(self.limit), listed: false });
        self.edges.len() - 1
    }

    /// An edge leads to another input from now on.
    pub(crate) fn redirect(&mut self, edge: usize, to: InputId) {
        self.edges[edge].to = to;
    }

    /// From now on the outputs are those of the element that has these edges.
    #[inline(always)]
    pub(crate) fn enter(&mut self, span: Span) {
        self.span = span;
    }

    #[inline(always)]
    pub(crate) fn place(&self) -> Span {
        self.span
    }

    /// Push outputs the element has.
    #[inline]
    pub fn count(&self) -> usize {
        self.span.count as usize
    }

    /// The edge of an output; the one that leads nowhere for an output there is
    /// not.
    #[inline(always)]
    fn edge_of(&self, output: usize) -> usize {
        let Span { first, count } = self.span;
        if output < count as usize { first as usize + output } else { 0 }
    }

    /// Sends a packet by an output. By one the element does not have, it is
    /// dropped and counted as such.
    #[inline]
    pub fn emit(&mut self, output: usize, slot: Slot) {
        let at = self.edge_of(output);
        let edge = &mut self.edges[at];
        if !edge.listed {
            edge.listed = true;
            self.touched.push(at as u32);
        }
        if let Err(slot) = edge.frame.push(slot) {
            self.push_to_fresh(at, slot);
        } else if self.exact {
            self.close_frame(at);
        }
    }

    /// Sends all packets of a frame by an output, leaving it empty.
    #[inline]
    pub fn emit_frame(&mut self, output: usize, frame: &mut Frame) {
        if frame.is_empty() {
            return;
        }
        if self.exact {
            frame.drain_front(frame.len(), |slot| self.emit(output, slot));
            return;
        }
        let at = self.edge_of(output);
        let edge = &mut self.edges[at];
        if !edge.listed {
            edge.listed = true;
            self.touched.push(at as u32);
        }
        if edge.frame.is_empty() && frame.limit() == edge.frame.limit() {
            std::mem::swap(&mut edge.frame, frame);
            return;
        }
        while !frame.is_empty() {
            let room = self.edges[at].frame.room();
            if room == 0 {
                self.close_frame(at);
                continue;
            }
            self.edges[at].frame.append(frame, room);
        }
    }

    /// Sends each packet of a frame by the output that `outputs` has at its
    /// place. When all go by output 0 they are left in the frame, from where
    /// they leave by it; else the frame is empty afterwards.
    #[inline]
    pub fn distribute(&mut self, frame: &mut Frame, outputs: &[u32]) {
        let ways = OutputMap::new(outputs);
        if let Some(same) = ways.filter(|ways| ways.used().count_ones() <= 1) {
            if same.used() > 1 {
                self.emit_frame(same.used().trailing_zeros() as usize, frame);
            }
            return;
        }
        let Span { first, count: edges } = self.span;
        let are_there = |ways: &OutputMap<'_>| ways.used().checked_shr(edges).unwrap_or(0) == 0;
        let fits = !self.exact && frame.len() <= self.limit;
        let Some(ways) = ways.filter(are_there).filter(|_| fits) else {
            let mut outputs = outputs.iter();
            let mut next = || outputs.next().map_or(0, |output| *output as usize);
            return frame.drain_front(frame.len(), |slot| self.emit(next(), slot));
        };
        // With room for all of them on every edge.
        for way in ways.in_order() {
            let at = first as usize + way;
            if self.edges[at].frame.room() < frame.len() {
                self.close_frame(at);
            }
            if !self.edges[at].listed {
                self.edges[at].listed = true;
                self.touched.push(at as u32);
            }
        }
        frame.split(ways, &mut self.edges[first as usize..(first + edges) as usize]);
    }

    /// Puts a packet on an edge with a full frame.
    #[cold]
    fn push_to_fresh(&mut self, at: usize, slot: Slot) {
        self.close_frame(at);
        let pushed = self.edges[at].frame.push(slot);
        debug_assert!(pushed.is_ok(), "a fresh frame has room");
    }

    /// Closes the frame on an edge: packets that follow go into a fresh one.
    fn close_frame(&mut self, at: usize) {
        let fresh = self.fresh();
        let full = std::mem::replace(&mut self.edges[at].frame, fresh);
        self.closed.push((at as u32, full));
    }

    /// An empty frame.
    #[inline]
    pub(crate) fn fresh(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(|| Frame::new(self.limit))
    }

    /// Takes an empty frame back.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: Frame) {
        debug_assert!(frame.is_empty());
        self.spare.push(frame);
    }

    /// Returns true if the element has put anything on an output.
    #[inline(always)]
    pub(crate) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Hands over everything that was put on outputs, in order, with the input it is
    /// for and its edge.
    pub(crate) fn collect(&mut self, mut each: impl FnMut(&mut Outputs, (InputId, u32), Frame)) {
        let mut closed = std::mem::take(&mut self.closed);
        for (at, frame) in closed.drain(..) {
            let to = self.edges[at as usize].to;
            each(self, (to, at), frame);
        }
        self.closed = closed;
        let mut touched = std::mem::take(&mut self.touched);
        for at in touched.drain(..) {
            let edge = &mut self.edges[at as usize];
            edge.listed = false;
            if !edge.frame.is_empty() {
                let to = edge.to;
                let fresh = self.fresh();
                let frame = std::mem::replace(&mut self.edges[at as usize].frame, fresh);
                each(self, (to, at), frame);
            }
        }
        self.touched = touched;
    }
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outputs").field("span", &self.span).finish_non_exhaustive()
    }
}
