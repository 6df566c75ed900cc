//! Decisions about packets by their bytes, for the elements that send them to
//! outputs by patterns.
//!
//! What packets must have is a [`Formula`] of tests; formulas become a
//! [`Program`] of steps, which is improved in the way Click does it and shown in
//! its form; a [`Matcher`] runs it over frames.

mod choices;
mod diagram;
mod formula;
mod improve;
mod matcher;
mod program;
mod table;
mod test;
mod ways;
mod words;

pub(crate) use formula::Formula;
pub(crate) use matcher::Matcher;
pub(crate) use program::{Program, To};
pub(crate) use test::Test;
pub(crate) use words::Headers;
