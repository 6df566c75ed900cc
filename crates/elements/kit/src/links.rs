//! The links of the ports of a graph, for elements that act when one goes down.
//!
//! Elements on ports say what the link of theirs is when they have opened it ([`Links`]); an element
//! with a port of its own behind each of its inputs and outputs, as a switch, follows them
//! ([`Followed`]): it looks at one flag per frame, which is set when a link has changed.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use linerate_graph::{Make, World};
use linerate_port::{Follower, Link};

/// The links of a graph's ports, by the element that is on the port.
#[derive(Default)]
pub struct Links {
    elements: Mutex<HashMap<usize, Known>>,
}

/// What there is to know of an element that somebody follows, or that is on a port.
#[derive(Default)]
struct Known {
    link: Option<Arc<Link>>,
    followers: Vec<Arc<Follower>>,
}

impl Links {
    /// An element has opened a port with this link.
    pub fn opened(world: &World, element: usize, link: &Arc<Link>) {
        let all = world.common::<Links>();
        let mut elements = all.elements.lock().expect("no panic while held");
        let known = elements.entry(element).or_default();
        known.link = Some(Arc::clone(link));
        for follower in &known.followers {
            link.follow(follower);
            follower();
        }
    }

    /// Tells a follower of the links of an element, now or when there is one.
    fn follow(&self, element: usize, follower: &Arc<Follower>) {
        let mut elements = self.elements.lock().expect("no panic while held");
        let known = elements.entry(element).or_default();
        known.followers.push(Arc::clone(follower));
        if let Some(link) = &known.link {
            link.follow(follower);
            follower();
        }
    }

    fn link(&self, element: usize) -> Option<Arc<Link>> {
        let elements = self.elements.lock().expect("no panic while held");
        elements.get(&element)?.link.clone()
    }
}

/// The links behind the inputs and outputs of an element that is being made: input and output of the
/// same number are one port.
pub struct Followed {
    all: Arc<Links>,
    /// Set when there may be something new.
    news: Arc<AtomicBool>,
    /// Number of the port, element, and changes of its link that were seen, once there was one.
    seen: Vec<(usize, usize, Option<u64>)>,
}

impl Followed {
    /// Those of the ports that packets of an input come from, and that packets of an output go to,
    /// where there is one way between.
    pub fn new(make: &Make<'_>) -> Followed {
        let plan = make.plan();
        let all = make.world.common::<Links>();
        let news = Arc::new(AtomicBool::new(false));
        let follower: Arc<Follower> = {
            let news = Arc::clone(&news);
            // Release: pairs with the acquire of who looks at the links then.
            Arc::new(move || news.store(true, Ordering::Release))
        };
        let mut seen = Vec::new();
        for port in 0..make.inputs().max(make.outputs()) {
            let origin = plan.origin(make.element(), port);
            let ends = origin.into_iter().chain(plan.destination(make.element(), port));
            for element in ends {
                all.follow(element, &follower);
                seen.push((port, element, None));
            }
        }
        Followed { all, news, seen }
    }

    /// Whether it is time to ask which went [`down`](Followed::down).
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed)
    }

    /// The ports whose links went down since this was asked last, also those that are up again.
    #[cold]
    pub fn down(&mut self) -> Vec<usize> {
        self.news.swap(false, Ordering::Acquire);
        let mut down = Vec::new();
        for (port, element, seen) in &mut self.seen {
            let Some(link) = self.all.link(*element) else { continue };
            let now = link.changes();
            let before = seen.replace(now);
            // Odd is up. What happened before it was seen first is nobody's business here.
            let went_down = now.is_multiple_of(2) || before.is_some_and(|before| now - before > 1);
            if before != Some(now) && went_down {
                down.push(*port);
            }
        }
        down.dedup();
        down
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("seen", &self.seen).finish_non_exhaustive()
    }
}
