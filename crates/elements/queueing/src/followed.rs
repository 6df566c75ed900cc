//! Queues that an element follows: those next to it, or those that its argument `QUEUES` names.

use linerate_graph::{
    Class, Context, Element, ElementBuilder, ElementRef, Plan, Processing, Text,
    lang::config::words,
};

use crate::{
    held_queue::HeldQueue,
    link_unqueue::LinkUnqueue,
    queue::{Queue, is_queue},
};

/// Returns true if elements of a class are queues whose length can be read (Click's Storage).
pub(super) fn stores(class: &Class) -> bool {
    let others = ["FrontDropQueue", "MixedQueue", "LinkUnqueue"];
    others.contains(&class.name) || is_queue(class)
}

/// Length and capacity of a queue; `None` if the element cannot be read.
pub(super) fn length(cx: &mut Context, element: usize) -> Option<(usize, usize)> {
    cx.with_element(element, |queue: &mut Queue, _| (queue.len(), queue.len() + queue.room()))
        .or_else(|| cx.with_element(element, |queue: &mut HeldQueue, _| queue.held()))
        .or_else(|| cx.with_element(element, |link: &mut LinkUnqueue, _| (link.len(), usize::MAX)))
}

/// The queues that an element follows: those of `QUEUES`, or else the nearest.
pub(super) fn followed(plan: &Plan, at: usize, pulls: bool) -> Vec<usize> {
    if plan.is_given(at, "QUEUES") {
        plan.elements_named(at, &["QUEUES"])
    } else {
        nearest(plan, at, pulls)
    }
}

/// Returns true if an element can count the packets in the queues that it follows by those that it
/// lets through: there is one queue, which no others reach past it.
pub(super) fn counts(plan: &Plan, at: usize, pulls: bool) -> bool {
    matches!(followed(plan, at, pulls)[..], [queue] if plan.changes_alone(at, queue))
}

/// The nearest queues on each path downstream of output 0, or upstream of the inputs.
pub(super) fn nearest(plan: &Plan, element: usize, upstream: bool) -> Vec<usize> {
    let mut found = Vec::new();
    let mut seen = vec![false; plan.elements.len()];
    let mut open = vec![element];
    while let Some(at) = open.pop() {
        let here = &plan.elements[at];
        let peers: Vec<usize> = if upstream {
            here.sources.iter().flatten().map(|port| port.element).collect()
        } else {
            let outputs = if at == element { &here.targets[..1] } else { &here.targets[..] };
            let push = |(port, _): &(usize, _)| here.outputs[*port] == Processing::Push;
            let pushed = outputs.iter().enumerate().filter(push);
            pushed.flat_map(|(_, targets)| targets).map(|port| port.element).collect()
        };
        for peer in peers {
            if std::mem::replace(&mut seen[peer], true) {
                continue;
            }
            if stores(plan.elements[peer].class) {
                found.push(peer);
            } else {
                open.push(peer);
            }
        }
    }
    found.sort_unstable();
    found
}

/// The elements that the argument `QUEUES` names; none when it is not given.
pub(super) fn named(make: &mut ElementBuilder<'_>) -> Option<Vec<usize>> {
    let Text(names) = make.get("QUEUES")?;
    let mut found = Vec::new();
    for name in words(&names) {
        match make.parse::<ElementRef>(name) {
            Ok(ElementRef(element)) => found.push(element),
            Err(_) => make.error(format!("no element named '{name}'")),
        }
    }
    Some(found)
}

/// Checks that there are elements to follow, and that all of them are queues.
pub(super) fn check(plan: &Plan, queues: &[usize]) -> Result<(), String> {
    if queues.is_empty() {
        return Err("no nearby Queues".into());
    }
    let mut elements = queues.iter().map(|queue| &plan.elements[*queue]);
    match elements.find(|element| !stores(element.class)) {
        Some(other) => Err(format!("'{}' is not a Storage element", other.name)),
        None => Ok(()),
    }
}

/// Total length of the queues.
pub(super) fn size(cx: &mut Context, queues: &[usize]) -> usize {
    size_and_capacity(cx, queues).0
}

/// Total length and capacity of the queues.
pub(super) fn size_and_capacity(cx: &mut Context, queues: &[usize]) -> (usize, usize) {
    let lengths = queues.iter().filter_map(|queue| length(cx, *queue));
    lengths.fold((0, 0), |(size, capacity), held| {
        (size + held.0, usize::saturating_add(capacity, held.1))
    })
}

/// Names of the queues, one per line.
pub(super) fn lines(plan: &Plan, queues: &[usize]) -> String {
    let names = queues.iter().map(|queue| &plan.elements[*queue].name);
    names.fold(String::new(), |text, name| text + name + "\n")
}

/// Names of the queues in the syntax of `QUEUES`.
pub(super) fn list(plan: &Plan, queues: &[usize]) -> String {
    let names = queues.iter().map(|queue| plan.elements[*queue].name.as_str());
    names.collect::<Vec<_>>().join(" ")
}
