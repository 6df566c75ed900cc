//! Wiring: the elements of a worker, and their connections on it.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::{
    ordering_domains::{Groups, find_one_by_one, pushed_to},
    pacing::{connect_pacing_peers, mark_observed, may_lose_pulled, misses_turns},
    source_interleave::find_companions,
};
use crate::{
    element::{Copies, NodeRuntime, Plan, PlanElement, Processing},
    runtime::{
        account::WorkerStats,
        node::{Input, Limit, Listeners, Node, SendLimit},
        outputs::{InputId, NOWHERE, Outputs, Span},
        pending::InputService,
        placement::{Placement, Reachability},
    },
};

/// Places the elements that start something where `assigned` says, and with each of them those it
/// pushes to and pulls from. An element several workers come to gets a replica on each.
pub(crate) fn place(plan: &Plan, workers: usize, assigned: &[Option<usize>]) -> Placement {
    let mut reached = vec![vec![Reachability::default(); plan.elements.len()]; workers];
    for (at, element) in plan.elements.iter().enumerate() {
        let pushed = element.inputs.contains(&Processing::Push);
        let pulled = element.outputs.contains(&Processing::Pull);
        if pushed || pulled {
            continue;
        }
        match assigned[at] {
            Some(worker) => reach(plan, at, &mut reached[worker.min(workers - 1)]),
            None if element.class.replicates => {
                reached.iter_mut().for_each(|worker| reach(plan, at, worker));
            }
            None => reach(plan, at, &mut reached[0]),
        }
    }
    // Elements to which nothing leads are somewhere all the same: they have handlers.
    for at in 0..plan.elements.len() {
        if reached.iter().all(|worker| !worker[at].present) {
            reach(plan, at, &mut reached[assigned[at].unwrap_or(0).min(workers - 1)]);
        }
    }
    Placement::new(reached)
}

/// Places an element on a worker, and those it pushes to and pulls from.
fn reach(plan: &Plan, element: usize, reached: &mut [Reachability]) {
    let mut open = vec![element];
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut reached[at].present, true) {
            continue;
        }
        let element = &plan.elements[at];
        for (port, targets) in element.targets.iter().enumerate() {
            if element.outputs[port] == Processing::Push {
                for target in targets {
                    reached[target.element].pushed = true;
                    open.push(target.element);
                }
            }
        }
        for (port, sources) in element.sources.iter().enumerate() {
            if element.inputs[port] == Processing::Pull {
                for source in sources {
                    reached[source.element].pulled = true;
                    open.push(source.element);
                }
            }
        }
    }
}

/// The elements, each in front of those it pushes packets to.
fn along_the_graph(plan: &Plan) -> Vec<usize> {
    along(plan, |element| element)
}

/// As `along_the_graph`, with those of a group next to each other, and behind the elements in the
/// middle of it: those have done their work before the next packet comes to the group.
fn along_the_groups(plan: &Plan, groups: &Groups) -> Vec<usize> {
    let mut members = vec![Vec::new(); plan.elements.len()];
    for element in along_the_graph(plan) {
        members[groups.representative(element)].push(element);
    }
    let leaders = along(plan, |element| groups.representative(element)).into_iter();
    leaders.flat_map(|leader| std::mem::take(&mut members[leader])).collect()
}

/// Orders the representatives of the elements, each in front of those that packets are pushed to.
/// Those of a cycle are next to each other, in front of all behind it: packets that come round have
/// done so before packets go on from there.
fn along(plan: &Plan, stands_for: impl Fn(usize) -> usize) -> Vec<usize> {
    let count = plan.elements.len();
    let (mut behind, mut before) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (at, element) in plan.elements.iter().enumerate() {
        let pushes = element.targets.iter().zip(&element.outputs);
        let pushes = pushes.filter(|(_, output)| **output == Processing::Push);
        for target in pushes.flat_map(|(targets, _)| targets).map(|target| target.element) {
            let (from, to) = (stands_for(at), stands_for(target));
            behind[from].push(to);
            before[to].push(from);
        }
    }
    let mut is_group = vec![false; count];
    for element in (0..count).filter(|element| stands_for(*element) != *element) {
        is_group[stands_for(element)] = true;
    }
    let mut order = Vec::new();
    let mut seen = vec![false; count];
    (0..count).for_each(|root| visit(root, &behind, &mut seen, &mut order));
    order.reverse();
    // Backwards from each in this order, only its own cycle is reached (Kosaraju).
    let mut place = vec![0; count];
    order.iter().enumerate().for_each(|(rank, element)| place[*element] = rank);
    let mut cycles = Vec::new();
    seen.fill(false);
    for root in order {
        let mut cycle = Vec::new();
        visit(root, &before, &mut seen, &mut cycle);
        cycle.sort_by_key(|element| (is_group[*element], place[*element]));
        cycles.extend(cycle);
    }
    cycles
}

/// Adds all that is reached from `root` and was not before, each element when all behind it have
/// been added. Depth first without recursion.
fn visit(root: usize, edges: &[Vec<usize>], seen: &mut [bool], to: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[root], true) {
        return;
    }
    let mut open = vec![(root, edges[root].iter().rev())];
    while let Some((at, targets)) = open.last_mut() {
        match targets.next() {
            None => {
                to.push(*at);
                open.pop();
            }
            Some(target) => {
                if !std::mem::replace(&mut seen[*target], true) {
                    open.push((*target, edges[*target].iter().rev()));
                }
            }
        }
    }
}

/// Inputs in the order of their numbers, and the numbers by element and port.
struct Numbered {
    inputs: Vec<Input>,
    places: Vec<InputService>,
    ids: Vec<Vec<InputId>>,
}

/// Numbers inputs so that those closer to the sources come first. Those of a group
/// are next to each other.
fn number_inputs(plan: &Plan, groups: &Groups) -> Numbered {
    let order = along_the_groups(plan, groups);
    let mut numbered = Numbered {
        inputs: Vec::new(),
        places: Vec::new(),
        ids: vec![Vec::new(); plan.elements.len()],
    };
    let (mut group, mut first) = (None, 0);
    for node in order {
        if group.replace(groups.representative(node)) != Some(groups.representative(node)) {
            first = numbered.inputs.len() as InputId;
        }
        for port in 0..plan.elements[node].inputs.len() {
            numbered.ids[node].push(numbered.inputs.len() as InputId);
            numbered.inputs.push(Input { node: node as u32, port: port as u32 });
            let (joint, single) = (groups.is_joint(node), groups.leads_on(node));
            numbered.places.push(InputService { first, joint, single });
        }
    }
    numbered
}

/// Connections of the elements of one worker.
pub(crate) struct Wiring {
    /// By element; all are empty still.
    pub(crate) runtimes: Vec<NodeRuntime>,
    /// By element.
    pub(crate) nodes: Vec<Node>,
    /// By number.
    pub(crate) inputs: Vec<Input>,
    /// By number.
    pub(crate) places: Vec<InputService>,
}

/// Connects the elements of one worker. No packet has more than `longest` bytes.
pub(crate) fn wire(
    plan: &Plan,
    placement: &Placement,
    worker: usize,
    longest: usize,
    stats: &WorkerStats,
    outputs: &mut Outputs,
) -> Wiring {
    let groups = Groups::new(plan);
    let Numbered { inputs, places, ids } = number_inputs(plan, &groups);
    let one_by_one = find_one_by_one(plan, &groups);
    let single_packets = outputs.limit() == 1;
    let here = |element: usize| placement.is_on(worker, element);
    let mut nodes: Vec<Node> = Vec::with_capacity(plan.elements.len());
    let mut runtimes = Vec::with_capacity(plan.elements.len());
    for (at, element) in plan.elements.iter().enumerate() {
        let mut node = Node::default();
        let mut runtime = NodeRuntime {
            element: None,
            stats: Arc::clone(stats.element(at)),
            outputs: Span::default(),
            next: NOWHERE,
            meets_again: false,
            stores: false,
            one_by_one: single_packets,
            counted: false,
            has_companions: false,
            keeps_pace: false,
            asks_for_room: false,
            keeps_step: false,
            is_independent: false,
            sifts: false,
            bound: SendLimit::Open,
        };
        if here(at) {
            for (port, targets) in element.targets.iter().enumerate() {
                let push = element.outputs[port] == Processing::Push;
                let to = targets.first().filter(|_| push);
                let to = to.map_or(NOWHERE, |target| ids[target.element][target.port]);
                let edge = outputs.add(to);
                if port == 0 {
                    runtime.outputs.first = edge as u32;
                    runtime.next = to;
                }
            }
            runtime.outputs.count = element.targets.len() as u32;
            let pulls = element.inputs.contains(&Processing::Pull);
            runtime.stores = !pulls && !element.inputs.is_empty();
            // Single packets keep their order by themselves.
            runtime.meets_again = !single_packets
                && (groups.meet_behind(plan, at) || groups.tasks_meet_behind(plan, at, false));
            runtime.one_by_one |= one_by_one[at];
            for (port, sources) in element.sources.iter().enumerate() {
                let pull = element.inputs[port] == Processing::Pull;
                let source = sources.first().filter(|_| pull);
                node.sources.push(source.map(|source| (source.element, source.port)));
            }
        }
        nodes.push(node);
        runtimes.push(runtime);
    }
    if !single_packets {
        number_copies(plan, &groups, &mut runtimes);
    }
    let limits = find_limits(plan, longest);
    let live = plan.is_live();
    let mut pulled = Vec::with_capacity(nodes.len());
    for (at, runtime) in runtimes.iter_mut().enumerate() {
        let of = Tasks { here: here(at), elsewhere: placement.others_of(at, worker) };
        connect_pulls(plan, at, &of, &mut nodes);
        connect_fulls(plan, at, &of, &mut nodes);
        if of.here {
            connect_limits(plan, at, &limits, &mut nodes);
        }
        let stores = if of.here { stores_pulled(plan, at) } else { Vec::new() };
        runtime.sifts = !live && !stores.is_empty() && may_lose_pulled(plan, at);
        runtime.one_by_one |= !live && of.here && misses_turns(plan, at);
        nodes[at].refills = nodes[at].limits.iter().any(|limit| stores.contains(&limit.element));
        connect_besides(plan, &stores, &mut nodes);
        pulled.push(stores);
    }
    if !single_packets {
        connect_paces(&pulled, &mut nodes);
        let companions = find_companions(plan, &groups, here);
        nodes.iter_mut().zip(companions).for_each(|(node, found)| node.companions = found);
        mark_observed(plan, &mut nodes);
    }
    if !live {
        if !single_packets {
            connect_pacing_peers(plan, &pulled, &mut nodes);
        }
        share_room(&mut nodes);
    }
    for (runtime, node) in runtimes.iter_mut().zip(&nodes) {
        runtime.bound = bound(node, &nodes);
        runtime.has_companions = !node.companions.is_empty();
        let is_read = |limit: &Limit| limit.store && !nodes[limit.element].pullers.here.is_empty();
        runtime.asks_for_room = live && node.limits.iter().any(is_read);
        runtime.keeps_pace = !(node.feeds.is_empty() && node.drains.is_empty());
        runtime.keeps_step = node.is_observed || !node.pacing_peers.is_empty();
    }
    Wiring { runtimes, nodes, inputs, places }
}

/// Returns the limit that is asked before the task of an element runs.
fn bound(node: &Node, nodes: &[Node]) -> SendLimit {
    match node.limits[..] {
        [] => SendLimit::Open,
        [Limit { element, copies: 1, store: true }] if !nodes[element].beside => {
            SendLimit::Store(element as u32)
        }
        _ => SendLimit::Limits,
    }
}

/// Divides the room of queues by the tasks that fill them, which take as many turns.
fn share_room(nodes: &mut [Node]) {
    for at in 0..nodes.len() {
        let mut limits = std::mem::take(&mut nodes[at].limits);
        for limit in limits.iter_mut().filter(|limit| limit.store) {
            limit.copies = limit.copies.saturating_mul(nodes[limit.element].pushers.len());
        }
        nodes[at].limits = limits;
    }
}

/// The workers an element's task is on.
struct Tasks {
    here: bool,
    elsewhere: Vec<usize>,
}

impl Tasks {
    fn add(&self, task: usize, to: &mut Listeners) {
        if self.here {
            to.here.push(task);
        }
        to.elsewhere.extend(self.elsewhere.iter().map(|worker| (*worker, task)));
    }
}

/// Registers `task` with everything it pulls from, to be woken.
fn connect_pulls(plan: &Plan, task: usize, of: &Tasks, nodes: &mut [Node]) {
    let element = &plan.elements[task];
    let pulls = element.inputs.contains(&Processing::Pull);
    if !pulls || element.outputs.contains(&Processing::Pull) {
        return;
    }
    let mut may_sleep = true;
    let mut seen = HashSet::new();
    let mut open = vec![task];
    while let Some(at) = open.pop() {
        let element = &plan.elements[at];
        let pulled = |port: &usize| element.inputs[*port] == Processing::Pull;
        let mut end = true;
        for port in (0..element.inputs.len()).filter(pulled) {
            for from in element.sources[port].iter().map(|source| source.element) {
                end = false;
                if seen.insert(from) {
                    of.add(task, &mut nodes[from].pullers);
                    open.push(from);
                }
            }
        }
        if end {
            may_sleep &= element.class.signals.empty;
        }
    }
    nodes[task].may_sleep = may_sleep;
}

/// Finds the elements behind `task` that say when they are full. As in Click
/// there are none when its packets may also come to an end that never is.
fn connect_fulls(plan: &Plan, task: usize, of: &Tasks, nodes: &mut [Node]) {
    let element = &plan.elements[task];
    let is_pushed = element.inputs.contains(&Processing::Push);
    if is_pushed || !element.outputs.contains(&Processing::Push) {
        return;
    }
    let mut seen = HashSet::new();
    let (mut open, mut fulls) = (vec![task], Vec::new());
    while let Some(at) = open.pop() {
        let element = &plan.elements[at];
        for (port, targets) in element.targets.iter().enumerate() {
            if element.outputs[port] != Processing::Push {
                continue;
            }
            for target in targets.iter().map(|target| target.element) {
                if !seen.insert(target) {
                    continue;
                }
                if plan.elements[target].class.signals.full {
                    fulls.push(target);
                } else if is_never_full(&plan.elements[target]) {
                    return;
                } else {
                    open.push(target);
                }
            }
        }
    }
    for target in fulls {
        of.add(task, &mut nodes[target].feeders);
        nodes[task].fulls.push(target);
    }
}

/// Returns true if packets pushed to an element without a signal are gone for the task that pushes:
/// they end there, or wait to be pulled. One that never lets go of a packet and says so (`Idle`) is
/// no reason to go on.
fn is_never_full(element: &PlanElement) -> bool {
    let idles = element.outputs.is_empty() && element.class.signals.empty;
    !element.outputs.contains(&Processing::Push) && !idles
}

/// By element: the elements behind it that limit how many packets may come at a time. Packets come
/// there once, or once by each way where an element on the way sends copies, and as often as one on
/// the way makes several of one.
fn find_limits(plan: &Plan, longest: usize) -> Vec<BTreeMap<usize, usize>> {
    let live = plan.is_live();
    let mut limits = vec![BTreeMap::new(); plan.elements.len()];
    // From the ends: the limits behind an element are known, but for cycles, by which other packets
    // come.
    for at in along_the_graph(plan).into_iter().rev() {
        let element = &plan.elements[at];
        let mut found = BTreeMap::new();
        let pushes = element.targets.iter().zip(&element.outputs);
        let pushes = pushes.filter(|(_, output)| **output == Processing::Push);
        for target in pushes.flat_map(|(targets, _)| targets).map(|target| target.element) {
            let own = (is_store(plan, target) || calls(plan, target)).then_some((target, 1));
            for (limit, copies) in
                limits[target].iter().map(|(at, copies)| (*at, *copies)).chain(own)
            {
                let all: &mut usize = found.entry(limit).or_default();
                *all = if element.class.copies != Copies::None {
                    all.saturating_add(copies)
                } else {
                    copies.max(*all)
                };
            }
        }
        if element.class.copies != Copies::None && !live && pushed_to(plan, at).contains(&at) {
            // It is unknown how often packets go round and are copied again. With packets from
            // outside it is unknown, too, how far the queue was emptied between two of them.
            found.values_mut().for_each(|copies| *copies = usize::MAX);
        }
        if !found.is_empty() {
            let times = match (element.class.multiplies)(plan, at, longest) {
                // With packets from outside it is unknown, too, which packets wait for which.
                usize::MAX if live => 1,
                times => times.max(1),
            };
            found.values_mut().for_each(|copies| *copies = copies.saturating_mul(times));
        }
        limits[at] = found;
    }
    limits
}

/// Returns true if packets pushed to an element wait there, to be pulled or to be sent.
fn is_store(plan: &Plan, element: usize) -> bool {
    let PlanElement { inputs, outputs, class, .. } = &plan.elements[element];
    inputs.contains(&Processing::Push)
        && (outputs.contains(&Processing::Pull) || class.signals.full)
}

/// Returns true if an element calls handlers of others.
fn calls(plan: &Plan, element: usize) -> bool {
    (plan.elements[element].class.calls)(plan, element)
}

/// The elements from where a task pulls packets that wait there.
fn stores_pulled(plan: &Plan, task: usize) -> Vec<usize> {
    let mut stores = Vec::new();
    if plan.elements[task].outputs.contains(&Processing::Pull) {
        return stores;
    }
    let (mut seen, mut open) = (HashSet::new(), vec![task]);
    while let Some(at) = open.pop() {
        let element = &plan.elements[at];
        let pulls = element.sources.iter().zip(&element.inputs);
        let pulls = pulls.filter(|(_, input)| **input == Processing::Pull);
        for from in pulls.flat_map(|(sources, _)| sources).map(|source| source.element) {
            if !seen.insert(from) {
            } else if is_store(plan, from) {
                stores.push(from);
            } else {
                open.push(from);
            }
        }
    }
    stores
}

/// Copies have one number, that of the buffer they share, or get theirs by that of the packet
/// when they are made. Where any of them are numbered, all are, and in front of where they
/// part: else those of a way where no ways meet would have
/// numbers in part, from another way.
fn number_copies(plan: &Plan, groups: &Groups, runtimes: &mut [NodeRuntime]) {
    let numbers =
        |at: usize, runtimes: &[NodeRuntime]| runtimes[at].meets_again || groups.is_joint(at);
    for (at, element) in plan.elements.iter().enumerate() {
        if element.class.copies != Copies::None {
            let behind = pushed_to(plan, at);
            let any = behind.iter().any(|at| numbers(*at, runtimes));
            runtimes[at].meets_again |= any;
        }
    }
}

/// Marks the elements where packets wait side by side for one task.
fn connect_besides(plan: &Plan, stores: &[usize], nodes: &mut [Node]) {
    if stores.len() > 1 && !plan.is_live() {
        stores.iter().for_each(|store| nodes[*store].beside = true);
    }
}

/// Lets tasks that fill a queue together, each out of another one, keep the pace at which packets
/// came: not to fill it in one go with packets that came to them in many turns.
fn connect_paces(pulled: &[Vec<usize>], nodes: &mut [Node]) {
    let mut paced = vec![false; nodes.len()];
    for (task, stores) in pulled.iter().enumerate() {
        let shared = |limit: &Limit| limit.store && nodes[limit.element].pushers.len() > 1;
        if !stores.is_empty() && nodes[task].limits.iter().any(shared) {
            stores.iter().for_each(|store| paced[*store] = true);
            nodes[task].drains.clone_from(stores);
        }
    }
    for node in nodes {
        let feeds = node.limits.iter().filter(|limit| limit.store && paced[limit.element]);
        node.feeds = feeds.map(|limit| limit.element).collect();
    }
}

/// Registers with a task the limits of how many packets it may send at a time, and with the
/// elements where packets wait the tasks that send them.
fn connect_limits(plan: &Plan, task: usize, limits: &[BTreeMap<usize, usize>], nodes: &mut [Node]) {
    if plan.elements[task].inputs.contains(&Processing::Push) {
        return;
    }
    let mut found = limits[task].clone();
    // Elements it pulls through may send packets elsewhere, and call.
    let (mut seen, mut open) = (HashSet::new(), vec![task]);
    while let Some(at) = open.pop() {
        let element = &plan.elements[at];
        let pulls = element.sources.iter().zip(&element.inputs);
        let pulls = pulls.filter(|(_, input)| **input == Processing::Pull);
        for from in pulls.flat_map(|(sources, _)| sources).map(|source| source.element) {
            if seen.insert(from) && !is_store(plan, from) {
                open.push(from);
                let own = calls(plan, from).then_some((from, 1));
                let behind = limits[from].iter().map(|(at, copies)| (*at, *copies));
                for (limit, copies) in behind.chain(own) {
                    let all = found.entry(limit).or_default();
                    *all = copies.max(*all);
                }
            }
        }
    }
    for (element, copies) in found {
        let store = is_store(plan, element);
        nodes[task].limits.push(Limit { element, copies, store });
        if store {
            nodes[element].pushers.push(task);
        }
    }
}
