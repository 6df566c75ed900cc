//! Elements for ICMP.

use linerate_graph::{Class, Scope, Value};

use linerate_element_support::icmp_names;

mod check_icmp_header;
mod encap;
pub(crate) mod error_rules;
mod icmp_error;
mod icmp_ping_responder;
mod icmp_ping_source;
mod ping_report;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &check_icmp_header::CLASS,
    &encap::ANY,
    &encap::PING,
    &icmp_error::CLASS,
    &icmp_ping_responder::CLASS,
    &icmp_ping_source::CLASS,
    &icmp_ping_source::OLD,
];

/// The name of the family in the reference.
const FAMILY: &str = "icmp";

/// A type of ICMP message by name or number.
#[derive(Debug, Clone, Copy, Default)]
struct MessageType(i32);

impl Value for MessageType {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<MessageType, String> {
        match icmp_names::number(None, text) {
            Some(number) => Ok(MessageType(number as i32)),
            None => i32::parse(text, scope).map(MessageType),
        }
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}
