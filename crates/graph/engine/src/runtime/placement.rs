//! Placement of elements on workers.

/// A replica's part of an element's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replica {
    /// The worker it is on.
    pub worker: usize,
    /// Its number among the replicas of the element.
    pub index: usize,
    /// Replicas there are.
    pub count: usize,
    /// Whether packets are pushed to it here.
    pub pushed: bool,
    /// Whether packets are pulled from it here.
    pub pulled: bool,
}

impl Replica {
    /// The only one.
    pub const ONLY: Replica = Replica { worker: 0, index: 0, count: 1, pushed: true, pulled: true };
}

/// Placement of each element's work on the workers.
#[derive(Debug)]
pub(crate) struct Placement {
    /// By worker and element.
    reached: Vec<Vec<Reachability>>,
}

/// A worker's part of an element, and how packets come to it there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reachability {
    pub(crate) present: bool,
    pub(crate) pushed: bool,
    pub(crate) pulled: bool,
}

impl Placement {
    /// Placement by what each worker and element reaches.
    pub(crate) fn new(reached: Vec<Vec<Reachability>>) -> Placement {
        Placement { reached }
    }

    /// Returns true if a worker has a replica of an element.
    pub(crate) fn is_on(&self, worker: usize, element: usize) -> bool {
        self.reached[worker][element].present
    }

    /// The workers that have a replica of an element.
    pub(crate) fn workers_of(&self, element: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.reached.len()).filter(move |worker| self.reached[*worker][element].present)
    }

    /// The parts of an element, one per worker that has one.
    pub(crate) fn parts(&self, element: usize) -> Vec<Replica> {
        (0..self.reached.len()).filter_map(|worker| self.replica(worker, element)).collect()
    }

    /// The workers besides `worker` that have a replica of an element.
    pub(crate) fn others_of(&self, element: usize, worker: usize) -> Vec<usize> {
        self.workers_of(element).filter(|other| *other != worker).collect()
    }

    /// Returns a worker's part of an element's work.
    pub(crate) fn replica(&self, worker: usize, element: usize) -> Option<Replica> {
        let Reachability { present, pushed, pulled } = self.reached[worker][element];
        present.then(|| Replica {
            worker,
            index: self.workers_of(element).position(|at| at == worker).unwrap_or(0),
            count: self.workers_of(element).count(),
            pushed,
            pulled,
        })
    }
}
