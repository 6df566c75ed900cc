//! Reports when the links of a command's ports go down, and when they come up: without one nothing
//! arrives, which looks like no traffic. A link is that of an interface, or to a peer that shares
//! memory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use linerate_port::{Leases, Link, LinkObserver, PortInfo};
use serde_json::{Value, json};

use crate::output::Output;

/// Interval of looking for other ports of a command, or for another reason of a link that is down.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Least time between two reasons of a link that stays down: peers that are refused can make as many as they want.
const REASONS_APART: Duration = Duration::from_secs(1);

/// A port's link, with the names of the port.
#[derive(Debug, Clone)]
pub(crate) struct PortLink {
    port: String,
    interface: Option<String>,
    link: Arc<Link>,
}

impl PortLink {
    /// The link of an open port, where it has one.
    pub(crate) fn from_info(info: &PortInfo) -> Option<PortLink> {
        info.link.as_ref().map(|link| PortLink::new(info, link))
    }

    /// The links of the ports of a graph.
    pub(crate) fn of_graph(leases: &Leases) -> Vec<PortLink> {
        let links = leases.links();
        let comes_and_goes = links.iter().filter(|(info, _)| info.link.is_some());
        comes_and_goes.map(|(info, link)| PortLink::new(info, link)).collect()
    }

    fn new(info: &PortInfo, link: &Arc<Link>) -> PortLink {
        let (port, interface) = (info.uri.to_string(), info.interface.clone());
        PortLink { port, interface, link: Arc::clone(link) }
    }

    /// Returns true if it is up now.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Its present state.
    pub(crate) fn news(&self) -> LinkNews {
        // First, since it says that there will be more to tell.
        let changes = self.link.changes();
        LinkNews {
            port: self.port.clone(),
            interface: self.interface.clone(),
            changes,
            detail: self.link.detail(),
            again: false,
            stays: false,
        }
    }
}

/// News of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkNews {
    port: String,
    interface: Option<String>,
    changes: u64,
    detail: String,
    /// Set if it has changed and changed back meanwhile.
    again: bool,
    /// Set if only the reason is another.
    stays: bool,
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
            (false, false) if self.stays => "stays down",
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

/// A message to the thread that follows links.
enum Signal {
    Changed,
    Ended,
}

/// Links are followed as long as this lives.
#[derive(Debug)]
pub(crate) struct Following {
    thread: Option<(Sender<Signal>, JoinHandle<()>)>,
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.thread.take() {
            let _ = tell.send(Signal::Ended);
            let _ = thread.join();
        }
    }
}

/// Tells of the links of some ports: of those that are down at once, then of each change.
pub(crate) fn report_links(links: Vec<PortLink>, output: Output) -> Following {
    follow(
        move || links.clone(),
        move |news| {
            output.line(&format!("linerate: {}", news.text()));
            if output.json {
                // A reader that has gone ends the command elsewhere.
                let _ = output.object(&news.object());
            }
        },
    )
}

/// Follows the links of ports that may be others later.
pub(crate) fn follow(
    links: impl Fn() -> Vec<PortLink> + Send + 'static,
    tell: impl Fn(&LinkNews) + Send + 'static,
) -> Following {
    let (changed, changes) = mpsc::channel();
    let follower: Arc<LinkObserver> = {
        let changed = changed.clone();
        Arc::new(move || drop(changed.send(Signal::Changed)))
    };
    let mut table = LinkTable::default();
    table.look(&links(), &follower).iter().for_each(&tell);
    let watch = move || loop {
        if matches!(
            changes.recv_timeout(LOOK_AGAIN),
            Ok(Signal::Ended) | Err(RecvTimeoutError::Disconnected)
        ) {
            return;
        }
        table.look(&links(), &follower).iter().for_each(&tell);
    };
    let thread = thread::Builder::new().name("links".into()).spawn(watch).ok();
    Following { thread: thread.map(|thread| (changed, thread)) }
}

/// The last report of a link.
struct LinkRecord {
    link: Arc<Link>,
    changes: u64,
    detail: String,
    at: Instant,
}

/// Last news of each link, by its place in memory: one port may be opened more than once.
#[derive(Default)]
struct LinkTable(BTreeMap<usize, LinkRecord>);

impl LinkTable {
    /// News of links in their present state. A link that works from the start is none, unless it
    /// has a peer; two of one interface are reported once.
    fn look(&mut self, links: &[PortLink], follower: &Arc<LinkObserver>) -> Vec<LinkNews> {
        let place_of = |link: &Arc<Link>| Arc::as_ptr(link) as usize;
        let place = |link: &PortLink| place_of(&link.link);
        // A link that is opened again still has an owner.
        self.0.retain(|_, told| Arc::strong_count(&told.link) > 1);
        let mut news: Vec<LinkNews> = Vec::new();
        for link in links {
            let known = self.0.get(&place(link));
            if known.is_none() {
                link.link.follow(follower);
            }
            let mut now = link.news();
            let is_new = match known {
                None => !now.is_up() || !now.detail.is_empty(),
                Some(told) if told.changes == now.changes => {
                    now.stays = true;
                    let is_due = told.at.elapsed() >= REASONS_APART;
                    !now.is_up() && told.detail != now.detail && is_due
                }
                Some(told) => {
                    now.again = (now.changes - told.changes).is_multiple_of(2);
                    true
                }
            };
            if known.is_none() || is_new {
                let (changes, detail) = (now.changes, now.detail.clone());
                let link = Arc::clone(&link.link);
                self.0.insert(
                    place_of(&link),
                    LinkRecord { link, changes, detail, at: Instant::now() },
                );
            }
            let is_told = is_new && !link.link.is_closed();
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
        let links = [PortLink::from_info(&server.info).unwrap()];
        let follower: Arc<LinkObserver> = Arc::new(|| {});
        let mut table = LinkTable::default();
        let mut look = |links: &[PortLink]| -> Vec<String> {
            table.look(links, &follower).iter().map(LinkNews::text).collect()
        };
        let texts = look(&links);
        assert!(texts[0].contains("is down: waiting for a client"), "{texts:?}");
        assert_eq!(look(&links), [""; 0]);
        let stranger = format!("memif:@links-{}?id=7&wait=0", std::process::id());
        let _stranger = open(&stranger.parse().unwrap(), &context).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(20);
        let text = loop {
            if let Some(text) = look(&links).pop() {
                break text;
            }
            assert!(std::time::Instant::now() < until, "the refusal is not told");
            thread::sleep(Duration::from_millis(10));
        };
        assert!(text.contains("stays down: ") && text.contains("interface id 7"), "{text}");
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
