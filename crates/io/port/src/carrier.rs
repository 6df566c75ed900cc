//! The link of a port that is an interface of the kernel's: up while the interface is set up and its
//! other end is there.
//!
//! A thread for each such port waits for the kernel's notices, in the network namespace that the
//! port was opened in. An interface without notices is taken to be up.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Weak},
    thread::{self, JoinHandle},
};

use linerate_linux::interface::{LinkEvent, LinkMonitor, LinkState};
use rustix::{
    event::{PollFd, PollFlags, poll},
    pipe::{PipeFlags, pipe_with},
};

use crate::link::Link;

/// Watches until it is dropped.
struct Carrier {
    /// The end of a pipe: closed, it ends the thread that has the other.
    alive: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.alive = None;
        let Some(thread) = self.thread.take() else { return };
        // The thread itself may have been the last to look at the link.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// Says on `link` how that of an interface is, now and from now on. `moves`: whether the port works on when the
/// interface is moved to another network namespace, as that of a tap does.
pub(crate) fn watch(interface: &str, link: &Arc<Link>, moves: bool) {
    link.watch_by(None);
    let monitor = LinkMonitor::open().ok();
    let now = monitor
        .as_ref()
        .and_then(|monitor| monitor.known().find(|state| state.name == interface).cloned());
    let (Some(monitor), Some(now)) = (monitor, now) else { return link.set(true, "") };
    tell(link, &now);
    let Ok((ended, alive)) = pipe_with(PipeFlags::CLOEXEC) else { return };
    let told = Arc::downgrade(link);
    let follow = move || follow(monitor, now.index, &told, &ended, moves);
    if let Ok(thread) = thread::Builder::new().name("carrier".into()).spawn(follow) {
        let carrier = Carrier { alive: Some(alive), thread: Some(thread) };
        link.watch_by(Some(Box::new(carrier)));
    }
}

/// Follows the interface until the link is dropped, or the interface has gone.
fn follow(mut monitor: LinkMonitor, index: u32, link: &Weak<Link>, ended: &OwnedFd, moves: bool) {
    loop {
        let mut awaited =
            [PollFd::new(&monitor, PollFlags::IN), PollFd::new(ended, PollFlags::empty())];
        let _ = poll(&mut awaited, None);
        if awaited[1].revents().contains(PollFlags::HUP) {
            return;
        }
        while let Ok(Some(event)) = monitor.next_event() {
            let Some(link) = link.upgrade().filter(|_| event.state().index == index) else {
                continue;
            };
            match event {
                LinkEvent::Removed(_) => return link.set(false, "the interface has gone"),
                LinkEvent::Moved(_) if moves => {
                    return link
                        .set(true, "in another network namespace, where nothing is seen of it");
                }
                LinkEvent::Moved(_) => {
                    return link.set(false, "the interface has moved to another network namespace");
                }
                LinkEvent::Added(now) | LinkEvent::Changed { now, .. } => tell(&link, &now),
            }
        }
    }
}

fn tell(link: &Link, state: &LinkState) {
    let why = match (state.up, state.carrier) {
        (false, _) => format!("it is not set up (`ip link set {} up`)", state.name),
        (true, false) => "its other end is not connected or not set up".into(),
        (true, true) => String::new(),
    };
    link.set(state.running(), why);
}
