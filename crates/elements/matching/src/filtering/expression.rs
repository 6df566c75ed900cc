//! An expression by itself, for elements that select packets beside their main task.

use linerate_graph::Scope;
use linerate_packet::{EtherType, vlan};

use super::{
    rules::{Rules, program},
    words::Dictionary,
};
use crate::decision::{Headers, Program};

/// An expression of `IPFilter`'s language about Ethernet frames. The headers are located in the
/// frame itself, behind VLAN tags too, and not by the marks of other elements: an exporter of
/// packets does not know the elements before it.
#[derive(Debug, Clone)]
pub struct Expression(Program);

impl Expression {
    /// Parses an expression; its names are looked up in `scope`.
    ///
    /// # Errors
    ///
    /// A text about the fault.
    pub fn new(text: &str, scope: Scope<'_>) -> Result<Expression, String> {
        let rules = Rules::read(&[format!("allow {text}")], 1, Dictionary(scope));
        match rules.first_error() {
            None => Ok(Expression(program(&rules.formulas()))),
            // There is one pattern alone.
            Some(error) => Err(error.trim_start_matches("pattern 0: ").to_owned()),
        }
    }

    /// Returns true if it holds for a frame. Frames but IPv4 with a whole header have no header to
    /// test.
    pub fn holds(&self, frame: &[u8]) -> bool {
        let network = network(frame);
        let transport = network.map(|at| at + usize::from(frame[at] & 15) * 4);
        let word = |offset: usize| {
            let place = match offset {
                0..Headers::IP => Some((0, offset, Headers::BEFORE_ETHERNET)),
                Headers::IP..Headers::TRANSPORT => network.map(|at| (at, offset - Headers::IP, 0)),
                _ => transport.map(|at| (at, offset - Headers::TRANSPORT, 0)),
            };
            place.map_or((0, 0), |(start, rest, before)| word(frame, start + rest, before))
        };
        self.0.run(word).is_some()
    }
}

/// Returns the offset of a frame's IPv4 header.
fn network(frame: &[u8]) -> Option<usize> {
    const VERSION: u8 = 4;
    const LEAST: u8 = 5;
    let tags = vlan::walk(frame).ok().filter(|tags| tags.ether_type == EtherType::IPV4)?;
    let first = *frame.get(tags.payload)?;
    let whole = frame.len() - tags.payload >= usize::from(first & 15) * 4;
    (first >> 4 == VERSION && first & 15 >= LEAST && whole).then_some(tags.payload)
}

/// Four bytes that begin so far behind `before` bytes in front of the frame, zeros where there is
/// none, and how many there are.
fn word(frame: &[u8], at: usize, before: usize) -> (u32, usize) {
    let byte = |more: usize| {
        (at + more).checked_sub(before).and_then(|at| frame.get(at)).copied().unwrap_or(0)
    };
    let bytes = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
    (bytes, (frame.len() + before).saturating_sub(at))
}
