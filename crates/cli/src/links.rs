//! Says when the links of a command's interfaces are down, and when they come up: without one
//! nothing arrives, which looks like no traffic.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    thread::{self, JoinHandle},
};

use linerate_host::interface::{LinkMonitor, LinkState};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
};
use serde_json::{Value, json};

use crate::output::Output;

/// How soon it is noticed that a command uses other interfaces.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// What there is to tell of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkNews {
    interface: String,
    /// Why packets do not pass; `None` when they do.
    down: Option<String>,
}

impl LinkNews {
    /// For people.
    pub(crate) fn text(&self) -> String {
        match &self.down {
            Some(why) => format!("the link of {} is down: {why}", self.interface),
            None => format!("the link of {} is up", self.interface),
        }
    }

    /// For machines.
    pub(crate) fn object(&self) -> Value {
        json!({ "event": "link", "interface": self.interface, "up": self.down.is_none() })
    }
}

/// Links are followed as long as this lives.
#[derive(Debug)]
pub(crate) struct Following {
    /// The end of a pipe: closed, it ends the thread that has the other.
    alive: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tells of the links of some interfaces: of those that are down at once, then of each change.
pub(crate) fn tell_of(interfaces: impl IntoIterator<Item = String>, output: Output) -> Following {
    let interfaces: BTreeSet<String> = interfaces.into_iter().collect();
    follow(
        move || interfaces.clone(),
        move |news| {
            output.line(&format!("linerate: {}", news.text()));
            if output.json {
                // Whoever reads may have gone, which ends the command elsewhere.
                let _ = output.object(&news.object());
            }
        },
    )
}

/// The same of interfaces that may be others later. What cannot be followed is not told of.
pub(crate) fn follow(
    interfaces: impl Fn() -> BTreeSet<String> + Send + 'static,
    tell: impl Fn(&LinkNews) + Send + 'static,
) -> Following {
    let opened = LinkMonitor::open().ok().zip(pipe_with(PipeFlags::CLOEXEC).ok());
    let Some((mut monitor, (ended, alive))) = opened else {
        return Following { alive: None, thread: None };
    };
    let mut told = Told::default();
    told.look(&interfaces(), &monitor).iter().for_each(&tell);
    let watch = move || loop {
        let mut awaited =
            [PollFd::new(&monitor, PollFlags::IN), PollFd::new(&ended, PollFlags::empty())];
        let _ = poll(&mut awaited, Some(&LOOK_AGAIN));
        if awaited[1].revents().contains(PollFlags::HUP) {
            return;
        }
        while let Ok(Some(_)) = monitor.next_event() {}
        told.look(&interfaces(), &monitor).iter().for_each(&tell);
    };
    let thread = thread::Builder::new().name("links".into()).spawn(watch).ok();
    Following { alive: Some(alive), thread }
}

/// What was told last of each link.
#[derive(Debug, Default)]
struct Told(BTreeMap<String, Option<String>>);

impl Told {
    fn look(&mut self, interfaces: &BTreeSet<String>, monitor: &LinkMonitor) -> Vec<LinkNews> {
        let known = monitor.known().filter(|link| interfaces.contains(&link.name));
        self.news(known.map(|link| (link.name.clone(), why_down(link))).collect())
    }

    /// What is new of links in their present state. One that has gone is another's to tell of,
    /// and one that works from the start is nothing to tell.
    fn news(&mut self, now: BTreeMap<String, Option<String>>) -> Vec<LinkNews> {
        let changed = now.iter().filter(|(name, down)| match self.0.get(*name) {
            Some(before) => before != *down,
            None => down.is_some(),
        });
        let news = changed
            .map(|(interface, down)| LinkNews { interface: interface.clone(), down: down.clone() });
        let news = news.collect();
        self.0 = now;
        news
    }
}

/// Why packets do not pass a link; `None` when they do.
fn why_down(link: &LinkState) -> Option<String> {
    if !link.up {
        return Some(format!("it is not set up (`ip link set {} up`)", link.name));
    }
    (!link.carrier).then(|| "its other end is not connected or not set up".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once() {
        let mut told = Told::default();
        let mut texts = |states: &[(&str, Option<&str>)]| -> Vec<String> {
            let now = states.iter().map(|(name, down)| ((*name).into(), down.map(Into::into)));
            told.news(now.collect()).iter().map(LinkNews::text).collect()
        };
        let down = Some("why");
        assert_eq!(texts(&[("a", None), ("b", down)]), ["the link of b is down: why"]);
        assert_eq!(texts(&[("a", None), ("b", down)]), [""; 0]);
        assert_eq!(texts(&[("a", down), ("b", None)]).len(), 2);
        // Gone, and back as it should be.
        assert_eq!(texts(&[("b", None)]), [""; 0]);
        assert_eq!(texts(&[("a", None), ("b", None)]), [""; 0]);
    }
}
