//! Merge of several inputs' packets, in the turns of a scheduler.
//!
//! The turns of a burst are planned first, by the packets known to be there, and each input is then
//! pulled once for all its turns. So no packet is pulled that does not go on at once. Unknown
//! inputs are pulled a packet at a time.
//!
//! An input that has given all it had ends the burst when it is its turn again: its queue may be
//! filled before the next burst, and in Click, where the sources run between two packets, it would
//! not have missed that turn. So does one that is empty from the start, unless the time of packets
//! is chance anyway ([`Class::external_input`]): then inputs with packets are not held up. Where all
//! packets are for one turn of a task ([`Context::is_one_turn`]) no source runs between them: inputs
//! without packets miss their turns, and the burst ends when there are none any more.
//!
//! [`Class::external_input`]: linerate_graph::Class::external_input

use linerate_graph::{Context, ElementBuilder};
use linerate_memory::Frame;

pub(super) struct Merge {
    inputs: Vec<Input>,
    /// Input of each turn, packet by packet.
    turns: Vec<u32>,
    /// Most packets of the burst that goes on.
    count: usize,
    /// Set if packets that arrive between two packets of a burst show in the order.
    turns_show: bool,
    /// Set if none arrive in the burst that goes on.
    is_one_turn: bool,
}

struct Input {
    known: InputState,
    /// Packets it is to give.
    planned: usize,
    /// Packets pulled, empty between bursts.
    share: Frame,
}

/// Known packets of an input.
#[derive(Clone, Copy)]
enum InputState {
    /// Nothing: it has to be pulled.
    No,
    /// Likewise, and it has given packets.
    Gave,
    /// These are there.
    Ready(usize),
    /// They have all been planned for.
    Used,
    /// There are none.
    Empty,
}

/// Result of an input's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A packet of it is next.
    Taken,
    /// It has none.
    Missed,
    /// The burst ends before this turn.
    Over,
}

impl Merge {
    /// Creates a merge for the inputs of an element.
    pub(super) fn new(make: &ElementBuilder<'_>) -> Merge {
        let limit = make.world.frame_limit;
        let input = |_| Input { known: InputState::No, planned: 0, share: Frame::new(limit) };
        Merge {
            inputs: (0..make.inputs()).map(input).collect(),
            turns: Vec::with_capacity(limit),
            count: 0,
            turns_show: !make.plan().is_live(),
            is_one_turn: false,
        }
    }

    /// Inputs there are.
    pub(super) fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// A burst of at most `count` packets begins.
    pub(super) fn begin(&mut self, cx: &Context, count: usize) {
        self.count = count;
        self.is_one_turn = count > 1 && cx.is_one_turn();
        for (port, input) in self.inputs.iter_mut().enumerate() {
            // A single packet is pulled faster than it is planned.
            let ready = if count > 1 { cx.ready(port) } else { None };
            input.known = ready.map_or(InputState::No, InputState::Ready);
        }
    }

    /// Returns true if the burst has packets so far.
    pub(super) fn has_packets(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Gives an input a turn.
    #[inline]
    pub(super) fn turn(&mut self, cx: &mut Context, port: usize) -> Turn {
        if self.turns.len() == self.count {
            return Turn::Over;
        }
        let ends_if_empty = self.turns_show && !self.is_one_turn && !self.turns.is_empty();
        let input = &mut self.inputs[port];
        input.known = match input.known {
            InputState::Used if self.is_one_turn => return Turn::Missed,
            InputState::Used => return Turn::Over,
            InputState::Empty if ends_if_empty => return Turn::Over,
            InputState::Empty => return Turn::Missed,
            InputState::Ready(packets) if packets > 0 => {
                input.planned += 1;
                if packets > 1 { InputState::Ready(packets - 1) } else { InputState::Used }
            }
            known => match (known, cx.pull(port, 1, &mut input.share)) {
                (_, 0) if ends_if_empty => return Turn::Over,
                (InputState::Gave, 0) if !self.is_one_turn => return Turn::Over,
                // Each turn of an unknown one is a pull.
                (InputState::No | InputState::Gave, 0) => return Turn::Missed,
                (_, 0) => {
                    input.known = InputState::Empty;
                    return Turn::Missed;
                }
                _ => InputState::Gave,
            },
        };
        self.turns.push(port as u32);
        Turn::Taken
    }

    /// Puts the packets of all turns into `frame`.
    pub(super) fn finish(&mut self, cx: &mut Context, frame: &mut Frame) {
        let turns = self.turns.len();
        // In the order of their first turns: elements behind several of them see it.
        for &port in &self.turns {
            let input = &mut self.inputs[port as usize];
            let planned = std::mem::take(&mut input.planned);
            if planned == turns {
                cx.pull(port as usize, planned, frame);
                break;
            }
            if planned > 0 {
                cx.pull(port as usize, planned, &mut input.share);
            }
        }
        // From the back, which is where a frame can be taken from.
        self.inputs.iter_mut().for_each(|input| input.share.slots_mut().reverse());
        for port in self.turns.drain(..) {
            // Packets that were planned for may have been dropped on the way.
            if let Some(slot) = self.inputs[port as usize].share.pop() {
                let pushed = frame.push(slot);
                debug_assert!(pushed.is_ok(), "no more than were asked for");
            }
        }
    }
}
