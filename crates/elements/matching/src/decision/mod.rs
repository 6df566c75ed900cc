//! Decisions about packets by their bytes, for the elements that send them to
//! outputs by patterns.
//!
//! Conditions on packets are [`Formula`]s of tests; formulas become a [`Program`] of steps, which
//! is improved in the way Click does it and shown in its form; a [`Matcher`] runs it over frames.
//!
//! The program is improved step by step because the handler `program` shows it and because the
//! warning that an output matches no packets depends on it. It is used for frames of few packets
//! and for packets too short for some step. Frames go through decisions of the same rules that have
//! no branch on packet bytes: all steps of a short program at once, or else an ordered decision
//! diagram over the halves of the words looked at, laid out as tables. A packet then takes one step
//! per half, with three loads, whether there are ten rules or fifty; a walk through the program
//! costs a mispredicted branch every few rules. The price of the diagram is size: rules whose
//! tables would be too large are filed under the values of a half that most of them name, as an
//! address, and compared one by one where few are filed under the same; and where that cannot be,
//! decided by vectors with a bit for each rule, whose memory is the rules times the values they
//! tell apart. Rules that are too many of these, because of their exclusions, are cut into parts,
//! each decided by tables of its own, and a rule too large by itself is walked through.

mod bits;
mod buckets;
mod choices;
mod column;
mod conjunctions;
mod diagram;
mod formula;
mod halves;
mod improve;
mod jumps;
mod matcher;
mod program;
mod table;
mod test;
mod words;

pub(crate) use formula::Formula;
pub(crate) use matcher::Matcher;
pub(crate) use program::{Program, To};
pub(crate) use test::Test;
pub(crate) use words::Headers;
