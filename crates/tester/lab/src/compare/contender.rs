//! Contenders: each is looked for on this machine and started between two interfaces.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

use super::{
    TurnError,
    network::{DEVICE, Network, TESTER},
    peers::{self, Programs, find},
    process::Process,
};

/// The layer at which a forwarder decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Nothing, or Ethernet addresses: frames go to some other host.
    Two,
    /// IP addresses: frames go to the router.
    Three,
}

/// A kind of forwarder.
#[derive(Clone, Debug)]
enum ForwarderType {
    /// `linerate forward` on this driver, or in shared memory.
    Ours(&'static str),
    /// A routing configuration on this driver.
    OurRouter(&'static str),
    /// testpmd on this driver of DPDK.
    Testpmd(&'static str),
    /// A router on DPDK's longest-prefix table.
    RteL3fwd,
    OpenVswitch,
    Pcap,
    LinuxBridge,
    LinuxForwarding,
}

/// All kinds, ours first.
const KINDS: [(&str, ForwarderType); 12] = [
    ("linerate forward xdp:", ForwarderType::Ours("xdp")),
    ("linerate forward packet:", ForwarderType::Ours("packet")),
    ("linerate run (router) xdp:", ForwarderType::OurRouter("xdp")),
    ("testpmd net_af_xdp", ForwarderType::Testpmd("net_af_xdp")),
    ("testpmd net_af_packet", ForwarderType::Testpmd("net_af_packet")),
    ("DPDK l3fwd-style net_af_xdp", ForwarderType::RteL3fwd),
    ("Open vSwitch userspace", ForwarderType::OpenVswitch),
    ("libpcap bridge", ForwarderType::Pcap),
    ("Linux bridge", ForwarderType::LinuxBridge),
    ("Linux forwarding", ForwarderType::LinuxForwarding),
    ("linerate forward memif:", ForwarderType::Ours(MEMIF)),
    ("testpmd net_memif", ForwarderType::Testpmd(peers::NET_MEMIF)),
];
/// The driver of those that are joined to the tester by memory instead of interfaces: by abstract
/// sockets in the network's namespace, called as its interfaces are.
const MEMIF: &str = "memif";

/// A forwarder this machine has.
#[derive(Clone, Debug)]
pub struct Contender {
    name: &'static str,
    kind: ForwarderType,
    /// The program `linerate`.
    own: PathBuf,
    /// The core forwarders of user space run on, and their main threads'.
    cores: [u32; 2],
    programs: Arc<Programs>,
}

/// The forwarders this machine has, and the names of those it has not, with the reason. `own` is
/// the program `linerate`, `core` the core that forwarders run on, `main` the one for the other
/// threads of their processes.
pub fn contenders(
    own: &Path,
    core: u32,
    main: u32,
) -> (Vec<Contender>, Vec<(&'static str, String)>) {
    let programs = Arc::new(Programs::default());
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (name, kind) in KINDS {
        let needed: &[(&str, &str)] = match &kind {
            ForwarderType::Testpmd(_) => &[("dpdk-testpmd", "dpdk")],
            ForwarderType::RteL3fwd => &[("gcc", "gcc"), ("pkg-config", "pkg-config")],
            ForwarderType::OpenVswitch => {
                &[("ovs-vswitchd", "openvswitch-switch"), ("ovsdb-server", "openvswitch-switch")]
            }
            ForwarderType::Pcap => &[("gcc", "gcc")],
            _ => &[],
        };
        let lacks = needed.iter().find(|(program, _)| find(program).is_none());
        let compiled = || match &kind {
            ForwarderType::RteL3fwd => programs.compile("rte_l3fwd").map(drop),
            ForwarderType::Pcap => programs.compile("pcap_forward").map(drop),
            _ => Ok(()),
        };
        let reason = match lacks {
            Some((program, package)) => {
                Some(format!("there is no {program} (Debian's package {package})"))
            }
            None => compiled().err(),
        };
        match reason {
            Some(reason) => missing.push((name, reason)),
            None => found.push(Contender {
                name,
                kind,
                own: own.to_owned(),
                cores: [core, main],
                programs: Arc::clone(&programs),
            }),
        }
    }
    (found, missing)
}

/// A running forwarder. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    // Ended in this order.
    processes: Vec<Process>,
    _files: Vec<peers::Files>,
    _folder: TempDir,
}

impl Running {
    /// Output of its first process that has ended, if one has.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.processes.iter_mut().find_map(Process::ended)
    }

    /// Output of its last process.
    pub(super) fn output(&self) -> String {
        self.processes.last().map_or(String::new(), Process::output)
    }
}

impl Contender {
    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The layer at which it decides; at the third, frames must be for the router.
    pub fn layer(&self) -> Layer {
        match self.kind {
            ForwarderType::OurRouter(_)
            | ForwarderType::RteL3fwd
            | ForwarderType::LinuxForwarding => Layer::Three,
            _ => Layer::Two,
        }
    }

    /// Returns true if it shares memory with the tester, which listens and must be there first.
    pub(super) fn shares_memory(&self) -> bool {
        matches!(self.kind, ForwarderType::Ours(MEMIF) | ForwarderType::Testpmd(peers::NET_MEMIF))
    }

    /// The tester's port on one of its sides, on this driver where it is an interface.
    pub(super) fn tester_port(&self, side: usize, driver: &str) -> String {
        if self.shares_memory() {
            format!("{MEMIF}:@{}?role=server", DEVICE[side])
        } else {
            format!("{driver}:{}", TESTER[side])
        }
    }

    /// Starts it between the device's interfaces. It may take a while until it
    /// forwards.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(&self, network: &Network) -> Result<Running, TurnError> {
        let started = (|| -> Result<Running, TurnError> {
            let folder = tempfile::tempdir()?;
            let mut running =
                Running { processes: Vec::new(), _files: Vec::new(), _folder: folder };
            self.start_in(network, &mut running)?;
            Ok(running)
        })();
        started
            .map_err(|error| TurnError::Start { name: self.name.into(), reason: error.to_string() })
    }

    fn start_in(&self, network: &Network, running: &mut Running) -> Result<(), TurnError> {
        let [core, main] = self.cores;
        let own = self.own.to_string_lossy();
        let sink = network.sink().to_string();
        let path = running._folder.path().to_owned();
        let mut start = |words: &[&str], variables: &[(&str, &str)]| -> io::Result<()> {
            let process = Process::start(network, &path, words, variables)?;
            running.processes.push(process);
            Ok(())
        };
        let core_text = core.to_string();
        match &self.kind {
            ForwarderType::Ours(driver) => {
                let name = if *driver == MEMIF { "@" } else { "" };
                let ports = DEVICE.map(|device| format!("{driver}:{name}{device}"));
                let words = [&own, "forward", "--quiet", "--idle", "poll", "--cores", &core_text];
                start(&[&words[..], &[&ports[0], &ports[1]]].concat(), &[])?;
            }
            ForwarderType::OurRouter(driver) => {
                let text = format!(
                    "FromPort({driver}:{}) -> Strip(14) -> CheckIPHeader \
                     -> RadixIPLookup(198.19.0.0/16 0) -> DecIPTTL \
                     -> EtherEncap(0x0800, {}, {sink}) -> ToPort({driver}:{})",
                    DEVICE[0],
                    network.router(),
                    DEVICE[1]
                );
                let words = [&own, "run", "--quiet", "--idle", "poll", "--cores", &core_text];
                start(&[&words[..], &["-e", &text]].concat(), &[])?;
            }
            ForwarderType::Testpmd(driver) => {
                let (prefix, eal) = peers::eal(driver, core, main);
                running._files.push(peers::Files::for_prefix(&prefix));
                let eal: Vec<&str> = eal.iter().map(String::as_str).collect();
                let own = [
                    "--",
                    "--nb-cores=1",
                    "--total-num-mbufs=16384",
                    "--burst=32",
                    "--forward-mode=io",
                    "--auto-start",
                ];
                start(&[&["dpdk-testpmd"], &eal[..], &own].concat(), &[])?;
            }
            ForwarderType::RteL3fwd => {
                let program = self.programs.compile("rte_l3fwd").map_err(io::Error::other)?;
                let (prefix, eal) = peers::eal("net_af_xdp", core, core);
                running._files.push(peers::Files::for_prefix(&prefix));
                let eal: Vec<&str> = eal.iter().map(String::as_str).collect();
                let own = ["--", "--next", &sink];
                let program = program.to_string_lossy();
                start(&[&[&*program], &eal[..], &own].concat(), &[])?;
            }
            ForwarderType::Pcap => {
                let program = self.programs.compile("pcap_forward").map_err(io::Error::other)?;
                // It polls; without an XDP program at the interface that takes
                // the kernel's merging of packets.
                network.inside(&["ethtool", "-K", DEVICE[0], "gro", "on"])?;
                let words = ["--a", DEVICE[0], "--b", DEVICE[1], "--ms", "3600000", "--core"];
                let program = program.to_string_lossy();
                let words = [&[&*program], &words[..], &[&core_text]].concat();
                start(&words, &[])?;
            }
            ForwarderType::OpenVswitch => peers::open_vswitch(network, &path, &mut start)?,
            ForwarderType::LinuxBridge => {
                network.ip(&["link", "add", "bridge0", "type", "bridge", "mcast_snooping", "0"])?;
                for device in DEVICE {
                    network.ip(&["link", "set", device, "master", "bridge0"])?;
                }
                network.ip(&["link", "set", "bridge0", "up"])?;
            }
            ForwarderType::LinuxForwarding => {
                network.inside(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
                for (device, address) in
                    DEVICE.into_iter().zip(["198.18.255.254/16", "198.19.255.254/16"])
                {
                    network.ip(&["address", "add", address, "dev", device])?;
                }
                let neighbour = ["neigh", "add", "198.19.0.1", "lladdr", &sink, "dev", DEVICE[1]];
                network.ip(&neighbour)?;
            }
        }
        Ok(())
    }
}
