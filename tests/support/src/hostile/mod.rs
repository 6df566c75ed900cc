//! Hostile clients: a program under attack at one of its listeners while honest traffic passes beside it.
//!
//! A [`Listener`] names a listener of `linerate` and prepares a [`Case`]: the command that is
//! attacked, the [`Attack`]s, and the [`Honest`] clients of the same listener or of others of the
//! same process. A [`Trial`] starts the command between two hosts, sends paced and numbered
//! datagrams through it in both directions, runs the attacks in turn for as long as it is told, and
//! ends the command by SIGTERM while the attacks go on. Its [`Outcome`] has the lost datagrams, the
//! delays of the rest, the honest clients that were refused, the growth of the process, and its
//! end.
//!
//! Tests run a trial of some seconds and demand [`Outcome::faults`] to be empty; [`soak()`] measures for
//! minutes, with and without the attacks. Attacks run in threads of this process, in the network namespace of
//! the program, with the credentials that their [`AttackUser`] says: Linux keeps credentials per thread, and
//! `SO_PEERCRED` and permissions of files go by those of the thread that connects.
//!
//! To add a listener, write a module beside [`control`] and name it in [`LISTENERS`].

pub mod cluster;
pub mod connection;
pub mod control;
mod figures;
mod honest;
pub mod memif;
pub mod openflow;
mod scene;
mod soak;
mod traffic;
mod trial;
mod turn;
pub mod vhost;

use std::{fmt, path::PathBuf, process::Command, sync::Arc};

pub use connection::{Address, Connection};
pub use figures::{ClientFigures, Growth, Latency, Outcome, TrafficFigures};
pub use honest::Honest;
pub use scene::Scene;
pub use soak::{Phase, Plan, Soaked, soak};
pub use trial::{Trial, run};
pub use turn::{AttackUser, Turn};

use crate::Running;

/// A listener of the program and how it is attacked.
#[derive(Debug, Clone, Copy)]
pub struct Listener {
    /// Its name for `cargo xtask soak`.
    pub name: &'static str,
    /// One line for `cargo xtask soak --list`.
    pub summary: &'static str,
    /// Prepares the program, its honest clients and its attacks.
    pub prepare: fn(&Scene) -> Case,
}

/// Every listener that has a hostile client.
pub const LISTENERS: &[Listener] = &[
    control::RUN_TCP,
    control::RUN_TOKEN,
    control::RUN_UNIX,
    control::FORWARD_TCP,
    control::FORWARD_UNIX,
    control::GENERATE_UNIX,
    memif::MEMIF_SERVER,
    memif::MEMIF_CLIENT,
    vhost::VHOST_DEVICE,
    vhost::VHOST_DRIVER,
    openflow::SWITCH_TCP,
    openflow::SWITCH_INSECURE,
    openflow::SWITCH_UNIX,
    openflow::SWITCH_TLS,
    cluster::SHARING,
    cluster::ISOLATED,
    cluster::PCAP,
];

/// The listener of that name.
///
/// # Panics
///
/// When there is none.
#[must_use]
#[track_caller]
pub fn listener(name: &str) -> Listener {
    let found = LISTENERS.iter().find(|listener| listener.name == name);
    *found.unwrap_or_else(|| panic!("no listener `{name}` in `hostile::LISTENERS`"))
}

/// A command under attack, and the attacks.
pub struct Case {
    /// The command under test. It is started in the program's namespace, see [`Scene::linerate`].
    pub command: Command,
    /// Source of the honest traffic.
    pub traffic: Traffic,
    /// Clients that must be served all the time.
    pub honest: Vec<Box<dyn Honest>>,
    /// Attacks of the hostile client.
    pub attacks: Vec<Attack>,
    /// Bounds on the growth of the process.
    pub bounds: Growth,
    /// Attacks that take place at a time.
    pub lanes: usize,
    /// Programs that run beside the command, started before it.
    pub companions: Vec<Running>,
    /// Sockets that every user may connect to, once they are there: an administrator can make them so.
    pub open: Vec<PathBuf>,
}

impl Case {
    /// A command that joins the two ports of the scene, so that datagrams of the hosts pass through it.
    #[must_use]
    pub fn new(command: Command) -> Case {
        Case {
            command,
            traffic: Traffic::Through,
            honest: Vec::new(),
            attacks: Vec::new(),
            bounds: Growth::BOUNDS,
            lanes: 2,
            companions: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Opens a socket in the file system to every user.
    #[must_use]
    pub fn open(mut self, address: &Address) -> Case {
        if let Address::Unix(path) | Address::Packets(path) = address {
            self.open.push(path.clone());
        }
        self
    }

    /// Replaces the default bounds on the growth of the process.
    #[must_use]
    pub fn bounds(mut self, bounds: Growth) -> Case {
        self.bounds = bounds;
        self
    }

    /// Runs one attack at a time: the listener has one peer at a time.
    #[must_use]
    pub fn one_attack_at_a_time(mut self) -> Case {
        self.lanes = 1;
        self
    }

    /// Adds an honest client.
    #[must_use]
    pub fn honest(mut self, client: impl Honest + 'static) -> Case {
        self.honest.push(Box::new(client));
        self
    }

    /// Adds attacks.
    #[must_use]
    pub fn attacks(mut self, attacks: impl IntoIterator<Item = Attack>) -> Case {
        self.attacks.extend(attacks);
        self
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let honest: Vec<_> = self.honest.iter().map(|client| client.name()).collect();
        let mut shown = f.debug_struct("Case");
        shown.field("command", &self.command).field("traffic", &self.traffic);
        shown.field("honest", &honest).field("attacks", &self.attacks).finish_non_exhaustive()
    }
}

/// Source of the honest traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// The hosts send datagrams to each other through the program.
    Through,
    /// No datagrams pass the program: its honest clients are measured.
    None,
    /// The program is a generator and sends signed frames to [`Scene::HOSTS`]`[1]`, port
    /// [`Scene::DATAGRAMS`].
    Generated,
}

/// One thing that a hostile client does over and over.
#[derive(Clone)]
pub struct Attack {
    /// Its name in the figures.
    pub name: &'static str,
    /// The user that makes it.
    pub account: AttackUser,
    run: Arc<dyn Fn(&mut Turn<'_>) + Send + Sync>,
}

impl Attack {
    /// An attack. `run` is called for turns of some hundred milliseconds and more, in up to two
    /// threads at a time; it does its work until [`Turn::goes_on`] says no, counts its actions by
    /// [`Turn::count`], and never blocks for longer than some hundred milliseconds.
    pub fn new(
        name: &'static str,
        account: AttackUser,
        run: impl Fn(&mut Turn<'_>) + Send + Sync + 'static,
    ) -> Attack {
        Attack { name, account, run: Arc::new(run) }
    }
}

impl fmt::Debug for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attack").field("name", &self.name).field("account", &self.account).finish()
    }
}
