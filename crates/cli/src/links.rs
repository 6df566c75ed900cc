//! Says when the links of a command's ports are down, and when they come up: without one nothing
//! arrives, which looks like no traffic. A link is that of an interface, or to a peer that shares
//! memory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use linerate_port::{Follower, Leases, Link, PortInfo};
use serde_json::{Value, json};

use crate::output::Output;

/// How soon it is noticed that a command uses other ports.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A port's link, and what the port is called.
#[derive(Debug, Clone)]
pub(crate) struct PortLink {
    port: String,
    interface: Option<String>,
    link: Arc<Link>,
}

impl PortLink {
    /// That of an open port, where it has one.
    pub(crate) fn of(info: &PortInfo) -> Option<PortLink> {
        info.link.as_ref().map(|link| PortLink::new(info, link))
    }

    /// Those of the ports of a graph.
    pub(crate) fn of_graph(leases: &Leases) -> Vec<PortLink> {
        let links = leases.links();
        let comes_and_goes = links.iter().filter(|(info, _)| info.link.is_some());
        comes_and_goes.map(|(info, link)| PortLink::new(info, link)).collect()
    }

    fn new(info: &PortInfo, link: &Arc<Link>) -> PortLink {
        let (port, interface) = (info.uri.to_string(), info.interface.clone());
        PortLink { port, interface, link: Arc::clone(link) }
    }

    /// Whether it is up now.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// How it is now.
    pub(crate) fn news(&self) -> LinkNews {
        // First, since it says that there will be more to tell.
        let changes = self.link.changes();
        LinkNews {
            port: self.port.clone(),
            interface: self.interface.clone(),
            changes,
            detail: self.link.detail(),
            again: false,
        }
    }
}

/// What there is to tell of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkNews {
    port: String,
    interface: Option<String>,
    changes: u64,
    detail: String,
    /// Whether it has been otherwise meanwhile.
    again: bool,
}

impl LinkNews {
    pub(crate) fn is_up(&self) -> bool {
        !self.changes.is_multiple_of(2)
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let name = self.interface.as_ref().unwrap_or(&self.port);
        let state = match (self.is_up(), self.again) {
            (true, false) => "is up",
            (true, true) => "was down and is up again",
            (false, false) => "is down",
            (false, true) => "was up and is down again",
        };
        let colon = if self.detail.is_empty() { "" } else { ": " };
        format!("the link of {name} {state}{colon}{}", self.detail)
    }

    /// For machines, as something that happened.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.state();
        object["event"] = "link".into();
        object
    }

    /// For machines, as it is.
    pub(crate) fn state(&self) -> Value {
        json!({
            "port": self.port,
            "interface": self.interface,
            "up": self.is_up(),
            "changes": self.changes,
            "detail": self.detail,
        })
    }
}

/// What the thread that follows is told.
enum Told {
    Changed,
    Ended,
}

/// Links are followed as long as this lives.
#[derive(Debug)]
pub(crate) struct Following {
    thread: Option<(Sender<Told>, JoinHandle<()>)>,
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.thread.take() {
            let _ = tell.send(Told::Ended);
            let _ = thread.join();
        }
    }
}

/// Tells of the links of some ports: of those that are down at once, then of each change.
pub(crate) fn tell_of(links: Vec<PortLink>, output: Output) -> Following {
    follow(
        move || links.clone(),
        move |news| {
            output.line(&format!("linerate: {}", news.text()));
            if output.json {
                // Whoever reads may have gone, which ends the command elsewhere.
                let _ = output.object(&news.object());
            }
        },
    )
}

/// The same of ports that may be others later.
pub(crate) fn follow(
    links: impl Fn() -> Vec<PortLink> + Send + 'static,
    tell: impl Fn(&LinkNews) + Send + 'static,
) -> Following {
    let (changed, changes) = mpsc::channel();
    let follower: Arc<Follower> = {
        let changed = changed.clone();
        Arc::new(move || drop(changed.send(Told::Changed)))
    };
    let mut book = Book::default();
    book.look(&links(), &follower).iter().for_each(&tell);
    let watch = move || loop {
        if matches!(
            changes.recv_timeout(LOOK_AGAIN),
            Ok(Told::Ended) | Err(RecvTimeoutError::Disconnected)
        ) {
            return;
        }
        book.look(&links(), &follower).iter().for_each(&tell);
    };
    let thread = thread::Builder::new().name("links".into()).spawn(watch).ok();
    Following { thread: thread.map(|thread| (changed, thread)) }
}

/// What was told last of each link, by its place in memory: one port may be opened more than once.
#[derive(Default)]
struct Book(BTreeMap<usize, (Arc<Link>, u64)>);

impl Book {
    /// What is new of links in their present state. One that works from the start is nothing to tell,
    /// unless there is a peer to tell of; two of one interface are told of once.
    fn look(&mut self, links: &[PortLink], follower: &Arc<Follower>) -> Vec<LinkNews> {
        let place = |link: &PortLink| Arc::as_ptr(&link.link) as usize;
        // One that is opened again is still somebody's.
        self.0.retain(|_, (link, _)| Arc::strong_count(link) > 1);
        let mut news: Vec<LinkNews> = Vec::new();
        for link in links {
            let known = self.0.get(&place(link)).map(|(_, changes)| *changes);
            if known.is_none() {
                link.link.follow(follower);
            }
            let mut now = link.news();
            self.0.insert(place(link), (Arc::clone(&link.link), now.changes));
            let is_told = !link.link.is_closed()
                && match known {
                    None => !now.is_up() || !now.detail.is_empty(),
                    Some(before) => {
                        now.again = (now.changes - before).is_multiple_of(2);
                        before != now.changes
                    }
                };
            let is_twice = |told: &LinkNews| {
                now.interface.is_some()
                    && told.interface == now.interface
                    && told.is_up() == now.is_up()
            };
            if is_told && !news.iter().any(is_twice) {
                news.push(now);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use linerate_port::{Context, open};

    use super::*;

    /// A port whose link a second one on the same socket sets.
    fn port(context: &Context, role: &str) -> linerate_port::Port {
        let name = format!("memif:@links-{}?role={role}&wait=0", std::process::id());
        open(&name.parse().unwrap(), context).unwrap()
    }

    #[test]
    fn changes_are_told_once() {
        let options =
            linerate_memory::ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(options.create().unwrap());
        let server = port(&context, "server");
        let links = [PortLink::of(&server.info).unwrap()];
        let follower: Arc<Follower> = Arc::new(|| {});
        let mut book = Book::default();
        let mut look = |links: &[PortLink]| -> Vec<String> {
            book.look(links, &follower).iter().map(LinkNews::text).collect()
        };
        let texts = look(&links);
        assert!(texts[0].contains("is down: waiting for a client"), "{texts:?}");
        assert_eq!(look(&links), [""; 0]);
        let client = port(&context, "client");
        assert!(links[0].link.wait_up(Duration::from_secs(10)));
        assert!(look(&links)[0].contains("is up: "));
        drop(client);
        let again = port(&context, "client");
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while links[0].link.changes() < 3 && std::time::Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let texts = look(&links);
        assert!(texts[0].contains("was down and is up again: "), "{texts:?}");
        drop(again);
    }
}
