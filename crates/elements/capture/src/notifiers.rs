//! Classes whose elements notify others of ended aggregates (Click's `AggregateNotifier`).

use linerate_graph::{ElementBuilder, ElementRef};

/// Name of the class that numbers pairs of hosts.
pub(super) const ADDR_PAIR: &str = "AggregateIPAddrPair";
/// Name of the class that numbers flows.
pub(super) const FLOWS: &str = "AggregateIPFlows";

/// Reports a `NOTIFIER` whose class does not notify of ended aggregates.
pub(super) fn check_notifier(make: &mut ElementBuilder<'_>, notifier: Option<ElementRef>) {
    if let Some(ElementRef(at)) = notifier
        && ![ADDR_PAIR, FLOWS].contains(&make.plan().elements[at].class.name)
    {
        let name = &make.plan().elements[at].name;
        make.error(format!("{name} is not an AggregateNotifier"));
    }
}
