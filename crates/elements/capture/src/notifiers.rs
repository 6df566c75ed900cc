//! Classes whose elements notify others of ended aggregates (Click's `AggregateNotifier`).

use linerate_graph::{ElementBuilder, ElementRef};

/// Names of these classes.
pub(super) const NAMES: [&str; 2] = ["AggregateIPAddrPair", "AggregateIPFlows"];

/// Reports a `NOTIFIER` whose class does not notify of ended aggregates.
pub(super) fn check_notifier(make: &mut ElementBuilder<'_>, notifier: Option<ElementRef>) {
    if let Some(ElementRef(at)) = notifier
        && !NAMES.contains(&make.plan().elements[at].class.name)
    {
        let name = &make.plan().elements[at].name;
        make.error(format!("{name} is not an AggregateNotifier"));
    }
}
