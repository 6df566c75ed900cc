//! Elements that send IP packets to outputs by expressions in Click's language,
//! which is like tcpdump's.
//!
//! An expression is cut into [`words`], [`parser`] makes a [`tree`] of [`primitive`]s of it, and
//! [`compile`] makes tests of packets' words of the tree. The rest is
//! [`decision`](crate::decision)'s.

use linerate_graph::{Class, Handler, Plan};

use crate::decision::Headers;
use linerate_element_support::mac_header;

mod compile;
mod expression;
mod ip_classifier;
mod ip_filter;
mod kind;
mod parser;
mod primitive;
mod rules;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub use expression::Expression;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[&ip_classifier::CLASS, &ip_filter::CLASS];

/// The name of the family in the reference.
const FAMILY: &str = "filtering";

const PROGRAM: Handler = Handler::read("program", "the steps by which packets are classified");

const COST: &str = "Rules become a decision program, in which no packet is asked the same twice. \
    Programs of up to 24 steps are decided for sixteen packets at a time; longer ones become \
    tables that map each half word looked at to the next state, so that the cost grows with the \
    number of fields looked at and not with that of rules. Rules that need tables of more than \
    65,536 entries are cut into parts, each with tables of its own. Packets too short for a word \
    the rules look at are walked through the program.";

/// Returns the bases of offsets in a graph.
fn headers(plan: &Plan) -> Headers {
    Headers::Ip { marked: mac_header::are_marked(plan), noted: mac_header::are_looked_for(plan) }
}

const LANGUAGE: &str = include_str!("language.md");
