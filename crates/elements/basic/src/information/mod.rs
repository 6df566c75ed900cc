//! Information elements, which state facts about others and see no packet.
//!
//! Their statements are read before any element is made, so that they hold wherever in the
//! configuration they are written.

use linerate_graph::{Class, ElementBuilder, Inert, Role};

mod address_info;
mod alignment_info;
mod clicky_info;
mod port_info;
mod schedule_info;
mod static_thread_sched;

/// The family's name.
const FAMILY: &str = "information";

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &address_info::CLASS,
    &alignment_info::CLASS,
    &clicky_info::CLASS,
    &port_info::CLASS,
    &schedule_info::CLASS,
    &static_thread_sched::CLASS,
];

/// Base of their classes.
const INFORMATION: Class = Class {
    family: FAMILY,
    ports: "0/0",
    role: Role::Information,
    cost: "Nothing while packets are handled.",
    make: |_| Box::new(Inert),
    ..Class::here()
};

/// The place of the element that `name` means in an argument of the element
/// being prepared.
fn resolve(make: &ElementBuilder<'_>, name: &str) -> Option<usize> {
    make.plan().resolve(name, make.name())
}

/// The compound the element being prepared is in, with the slash behind it.
fn prefix<'a>(make: &ElementBuilder<'a>) -> &'a str {
    let name = make.name();
    &name[..name.rfind('/').map_or(0, |slash| slash + 1)]
}
