//! Links of the ports of a graph, for elements that act when one goes down.
//!
//! Elements on ports register their link when they have opened it ([`Links`]); an element with a
//! port of its own behind each of its inputs and outputs, as a switch, follows them
//! ([`LinkWatcher`]): it looks at one flag per frame, which is set when a link has changed.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use linerate_graph::{BuildContext, ElementBuilder};
use linerate_port::{Link, LinkObserver};

/// The links of a graph's ports, by the element that is on the port.
#[derive(Default)]
pub struct Links {
    elements: Mutex<HashMap<usize, LinkEntry>>,
}

/// Link and followers of an element that is followed, or that is on a port.
#[derive(Default)]
struct LinkEntry {
    /// The link, and its changes when it was opened.
    link: Option<(Arc<Link>, u64)>,
    followers: Vec<Arc<LinkObserver>>,
}

impl Links {
    /// An element has opened a port with this link.
    pub fn opened(world: &BuildContext, element: usize, link: &Arc<Link>) {
        world.common::<Links>().put(element, link);
    }

    /// As `opened`, for a graph's links that are at hand.
    pub fn put(&self, element: usize, link: &Arc<Link>) {
        let mut elements = self.elements.lock().expect("no panic while held");
        let known = elements.entry(element).or_default();
        known.link = Some((Arc::clone(link), link.changes()));
        for follower in &known.followers {
            link.follow(follower);
            follower();
        }
    }

    /// Tells a follower of the links of an element, now or when there is one.
    fn follow(&self, element: usize, follower: &Arc<LinkObserver>) {
        let mut elements = self.elements.lock().expect("no panic while held");
        let known = elements.entry(element).or_default();
        known.followers.push(Arc::clone(follower));
        if let Some((link, _)) = &known.link {
            link.follow(follower);
            follower();
        }
    }

    fn link(&self, element: usize) -> Option<(Arc<Link>, u64)> {
        let elements = self.elements.lock().expect("no panic while held");
        elements.get(&element)?.link.clone()
    }
}

/// The links behind the inputs and outputs of an element that is being made: input and output of the
/// same number are one port.
pub struct LinkWatcher {
    all: Arc<Links>,
    /// Set when there may be something new.
    news: Arc<AtomicBool>,
    /// Number of the port, element, and changes of its link that were seen, once there was one.
    seen: Vec<(usize, usize, Option<u64>)>,
}

impl LinkWatcher {
    /// Those of the ports that packets of an input come from, and that packets of an output go to,
    /// where there is one way between.
    pub fn new(make: &ElementBuilder<'_>) -> LinkWatcher {
        let (plan, at) = (make.plan(), make.element());
        let ends = (0..make.inputs().max(make.outputs())).flat_map(|port| {
            let ends = [plan.origin(at, port), plan.destination(at, port)];
            ends.into_iter().flatten().map(move |element| (port, element))
        });
        LinkWatcher::for_elements(make.world.common::<Links>(), ends)
    }

    /// Those of some elements, each of which is on the port of this number.
    pub fn for_elements(
        all: Arc<Links>,
        ends: impl IntoIterator<Item = (usize, usize)>,
    ) -> LinkWatcher {
        let news = Arc::new(AtomicBool::new(false));
        let follower: Arc<LinkObserver> = {
            let news = Arc::clone(&news);
            // Release: pairs with the acquire of the element that looks at the links then.
            Arc::new(move || news.store(true, Ordering::Release))
        };
        let mut seen = Vec::new();
        for (port, element) in ends {
            all.follow(element, &follower);
            seen.push((port, element, None));
        }
        LinkWatcher { all, news, seen }
    }

    /// Returns true if it is time to ask which went [`down`](LinkWatcher::down).
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
            let Some((link, opened)) = self.all.link(*element) else { continue };
            let now = link.changes();
            let before = seen.replace(now);
            // Odd is up. Changes before it was opened do not count; those since do, however late
            // the follower has something to do.
            let went_down = now.is_multiple_of(2) || now - before.unwrap_or(opened) > 1;
            if before != Some(now) && went_down {
                down.push(*port);
            }
        }
        down.dedup();
        down
    }

    /// The ports with a link that is down.
    pub fn unlinked(&self) -> impl Iterator<Item = usize> {
        let known = self.seen.iter();
        known
            .filter_map(|(port, element, _)| (!self.all.link(*element)?.0.is_up()).then_some(*port))
    }

    /// The ports that have a link, and whether it is up: that of the way out where there are two.
    pub fn states(&self) -> impl Iterator<Item = (usize, bool)> {
        let known = self.seen.iter();
        known.filter_map(|(port, element, _)| Some((*port, self.all.link(*element)?.0.is_up())))
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl fmt::Debug for LinkWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkWatcher").field("seen", &self.seen).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_went_down_before_the_first_look_are_told_of() {
        let all = Arc::new(Links::default());
        let mut followed =
            LinkWatcher::for_elements(Arc::clone(&all), [(4, 0), (5, 1), (6, 2), (7, 3)]);
        assert!(!followed.has_news());
        let links = [0, 1, 2].map(|_| Arc::new(Link::new("")));
        let flap = |link: &Link| (link.set(false, ""), link.set(true, "")).1;
        // Before they were opened.
        links.iter().for_each(|link| link.set(true, ""));
        flap(&links[0]);
        links.iter().zip(0..).for_each(|(link, element)| all.put(element, link));
        assert!(followed.has_news());
        flap(&links[1]);
        links[2].set(false, "");
        assert_eq!(followed.down(), [5, 6]);
        assert_eq!(followed.unlinked().collect::<Vec<_>>(), [6]);
        assert!(!followed.has_news() && followed.down().is_empty());
        links[2].set(true, "");
        assert!(followed.has_news() && followed.down().is_empty());
        assert_eq!(followed.unlinked().count(), 0);
        flap(&links[2]);
        assert_eq!(followed.down(), [6]);
    }
}
