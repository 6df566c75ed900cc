//! Open vSwitch, its datapath in user space: with DPDK's ports, or with ports of type `dummy`, which are
//! no interfaces and need no privileges.
//!
//! Debian's program with DPDK would take the place of the one without, which other measurements use:
//! so its package is only unpacked, into the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::{FORWARDING_CORE, MAIN_CORE, Memory, Process};
use crate::bench::restore::{RestoreOnDrop, unique_name};
use crate::shell;

/// The package, and its program.
const PACKAGE: &str = "openvswitch-switch-dpdk";
const PROGRAM: &str = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// Programs and the table of contents of its database, of a package that is installed.
const TOOLS: [&str; 4] = ["ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-appctl"];
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Seconds for it to answer.
const TIMEOUT: &str = "--timeout=20";

/// Whether its tools and the programs named besides are installed; else which one is not.
fn require(programs: &[&str]) -> Result<()> {
    let mut needed = TOOLS.iter().chain(programs);
    match needed.find(|program| linerate_test_support::programs::find(program).is_none()) {
        None => Ok(()),
        Some(program) => {
            bail!("Open vSwitch is not available: no {program}: cargo xtask peers installs it")
        }
    }
}

/// The program with DPDK, if it can be had here; else why not.
pub(crate) fn provide() -> Result<PathBuf> {
    require(&[])?;
    let installed = Path::new("/").join(PROGRAM);
    if installed.exists() {
        return Ok(installed);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = PathBuf::from(target).join("peers").join(PACKAGE);
    let program = folder.join(PROGRAM);
    if !program.exists() {
        fs::create_dir_all(&folder)?;
        eprintln!("unpacking the Debian package {PACKAGE} into {}", folder.display());
        let unpack = format!(
            "apt-get --quiet download {PACKAGE} && dpkg-deb --extract {PACKAGE}_*.deb . && rm {PACKAGE}_*.deb"
        );
        shell::output(Command::new("sh").args(["-ec", &unpack]).current_dir(&folder))
            .with_context(|| format!("Open vSwitch is not available: no package {PACKAGE}"))?;
    }
    Ok(program.canonicalize()?)
}

/// A port of DPDK's, by its name and devargs, and how many queues it has.
#[derive(Debug)]
pub(crate) struct DpdkPort {
    pub(crate) devargs: String,
    pub(crate) queues: u32,
}

/// The folder and the database of one, to which its daemon comes.
#[derive(Debug)]
struct Base {
    _database: Process,
    folder: PathBuf,
    _undo: RestoreOnDrop,
}

impl Base {
    fn start() -> Result<Base> {
        let folder = std::env::temp_dir().join(unique_name());
        fs::create_dir(&folder)?;
        let undo = {
            let folder = folder.clone();
            RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
        };
        let name = |file: &str| folder.join(file).to_string_lossy().into_owned();
        shell::output(Command::new("ovsdb-tool").args(["create", &name("conf.db"), SCHEMA]))?;
        let mut database = command(&folder, Path::new("ovsdb-server"));
        database
            .arg(name("conf.db"))
            .arg(format!("--remote=punix:{}", name("db.sock")))
            .arg(format!("--unixctl={}", name("db.ctl")));
        let database = Process::spawn(&mut database, None)?;
        let base = Base { _database: database, folder, _undo: undo };
        // Only the command that waits for its database is repeated; the rest waits for the switch.
        base.set(&["--retry", "--no-wait", TIMEOUT, "init"])?;
        Ok(base)
    }

    fn name(&self, file: &str) -> String {
        self.folder.join(file).to_string_lossy().into_owned()
    }

    /// Runs `ovs-vsctl`.
    fn set(&self, words: &[&str]) -> Result<()> {
        let mut command = command(&self.folder, Path::new("ovs-vsctl"));
        command.arg(format!("--db=unix:{}", self.name("db.sock"))).args(words);
        shell::output(&mut command).map(drop)
    }

    /// Starts the daemon; `prefix` names the DPDK files it makes, if it does.
    fn daemon(&self, program: &Path, words: &[&str], prefix: Option<&str>) -> Result<Process> {
        let mut daemon = command(&self.folder, program);
        daemon
            .arg(format!("unix:{}", self.name("db.sock")))
            .arg(format!("--unixctl={}", self.name("switch.ctl")))
            .arg("--disable-system")
            .args(words);
        Process::spawn(&mut daemon, prefix)
    }
}

/// A program set up to keep its files in a folder.
fn command(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
        command.env(variable, folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// One that switches as it does unless told otherwise: by learning.
#[derive(Debug)]
pub(crate) struct OpenVswitch {
    // They end in this order.
    daemon: Process,
    base: Base,
}

impl OpenVswitch {
    /// With a server at each of these abstract sockets.
    pub(crate) fn start(program: &Path, memory: &Memory, sockets: &[String]) -> Result<Self> {
        let port = |(number, socket): (usize, &String)| DpdkPort {
            devargs: format!(
                "net_memif{number},role=server,id=0,socket={socket},socket-abstract=yes"
            ),
            // Its worker sends by its second queue, which a client has to have: so each has two.
            queues: 2,
        };
        let ports: Vec<_> = sockets.iter().enumerate().map(port).collect();
        Self::with_ports(program, memory, &ports, &[])
    }

    /// With these ports, numbered from 1 on, and more settings (`other_config:…`).
    pub(crate) fn with_ports(
        program: &Path,
        memory: &Memory,
        ports: &[DpdkPort],
        settings: &[&str],
    ) -> Result<Self> {
        let base = Base::start()?;
        let prefix = unique_name();
        let (pages, more) = if memory.is_huge() {
            ("other_config:dpdk-socket-mem=512", "--in-memory")
        } else {
            ("other_config:dpdk-alloc-mem=512", "--no-huge")
        };
        let (forwards, main) = (1 << FORWARDING_CORE, 1 << MAIN_CORE);
        base.set(&[
            "--no-wait",
            "set",
            "Open_vSwitch",
            ".",
            "other_config:dpdk-init=true",
            &format!("other_config:pmd-cpu-mask={forwards:x}"),
            &format!("other_config:dpdk-lcore-mask={main:x}"),
            pages,
            &format!(
                "other_config:dpdk-extra=--no-pci --no-telemetry --file-prefix={prefix} {more}"
            ),
        ])?;
        if !settings.is_empty() {
            base.set(&[&["--no-wait", "set", "Open_vSwitch", "."][..], settings].concat())?;
        }
        let daemon = base.daemon(program, &[], Some(&prefix))?;
        let bridge = ["--", "set", "bridge", "br0", "datapath_type=netdev"];
        let add = ["--retry", TIMEOUT, "add-br", "br0"];
        base.set(&[&add[..], &bridge].concat()).context("Open vSwitch does not start with DPDK")?;
        for (number, port) in ports.iter().enumerate() {
            let name = format!("p{number}");
            let device = format!("options:dpdk-devargs={}", port.devargs);
            let queues = format!("options:n_rxq={}", port.queues);
            let asked = format!("ofport_request={}", number + 1);
            let add = [TIMEOUT, "add-port", "br0", &name, "--", "set", "Interface", &name];
            base.set(&[&add[..], &["type=dpdk", &device, &queues, &asked]].concat())?;
        }
        Ok(OpenVswitch { daemon, base })
    }

    /// The installed program without DPDK, with so many ports to nowhere, numbered from 1 on, and no flows.
    pub(crate) fn without_dpdk(ports: u32) -> Result<Self> {
        require(&["ovs-vswitchd", "ovs-ofctl"])?;
        let base = Base::start()?;
        let daemon = base.daemon(Path::new("ovs-vswitchd"), &["--enable-dummy"], None)?;
        let bridge = ["datapath_type=dummy", "fail_mode=secure"];
        let add = ["--retry", TIMEOUT, "add-br", "br0", "--", "set", "bridge", "br0"];
        base.set(&[&add[..], &bridge].concat()).context("Open vSwitch does not start")?;
        for number in 1..=ports {
            let (name, asked) = (format!("p{number}"), format!("ofport_request={number}"));
            let add = [TIMEOUT, "add-port", "br0", &name, "--", "set", "Interface", &name];
            base.set(&[&add[..], &["type=dummy", &asked]].concat())?;
        }
        Ok(OpenVswitch { daemon, base })
    }

    /// Its daemon.
    pub(crate) fn process(&self) -> &Process {
        &self.daemon
    }

    /// The OpenFlow address of its bridge.
    pub(crate) fn bridge(&self) -> String {
        format!("unix:{}", self.base.name("br0.mgmt"))
    }

    /// Has it these flows, of a file in the syntax of its own client, and no others.
    pub(crate) fn set_flows(&self, file: &Path) -> Result<()> {
        let bridge = self.bridge();
        for words in [&["del-flows", &bridge][..], &["add-flows", &bridge, &file.to_string_lossy()]]
        {
            shell::output(Command::new("ovs-ofctl").args(words))?;
        }
        Ok(())
    }

    /// Cycles its worker has spent in rounds with packets, for each packet that it did something
    /// with, and the number of these, since it began to count. Packets it could not decide at that
    /// moment it drops.
    pub(crate) fn cycles(&self) -> Result<(f64, u64)> {
        cycles(&self.ask("dpif-netdev/pmd-stats-show")?)
    }

    fn ask(&self, command: &str) -> Result<String> {
        let control = self.base.name("switch.ctl");
        let mut asked = Command::new("ovs-appctl");
        shell::output(asked.arg("-t").arg(control).arg(command))
            .context("Open vSwitch does not answer: has it died?")
    }

    /// Begins to count anew.
    pub(crate) fn clear(&self) -> Result<()> {
        self.ask("dpif-netdev/pmd-stats-clear").map(drop)
    }

    /// The part of its time that its worker had packets, and those it received, since it began to
    /// count.
    pub(crate) fn busy(&self) -> Result<(f64, u64)> {
        busy(&self.ask("dpif-netdev/pmd-stats-show")?)
    }

    /// Waits until its worker looks at its ports.
    pub(crate) fn settle(&self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.ask("dpif-netdev/pmd-rxq-show")?.contains("p0") {
            ensure!(Instant::now() < until, "Open vSwitch has no worker at its ports");
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Reads the statistics of its worker: `processing cycles: N (P%)`, `packets received: N`.
fn busy(text: &str) -> Result<(f64, u64)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.with_context(|| format!("no {name} in: {text}"))
    };
    let packets = field("packets received:")?.trim().parse()?;
    let share = field("processing cycles:")?;
    let percent = share.split(['(', '%']).nth(1).context("no percentage")?;
    Ok((percent.trim().parse::<f64>()? / 100.0, packets))
}

/// `processing cycles: N (P%)` for each of `packets received: N` but for `miss with failed upcall: N`.
fn cycles(text: &str) -> Result<(f64, u64)> {
    let (_, received) = busy(text)?;
    let dropped =
        text.lines().find_map(|line| line.trim().strip_prefix("miss with failed upcall:"));
    let packets = received.saturating_sub(dropped.map_or(Ok(0), |count| count.trim().parse())?);
    let cycles = text.lines().find_map(|line| line.trim().strip_prefix("processing cycles:"));
    let cycles = cycles.and_then(|rest| rest.split_whitespace().next());
    let cycles: f64 = cycles.context("no processing cycles")?.parse()?;
    Ok((cycles / packets as f64, packets))
}

#[cfg(test)]
mod tests {
    use super::{busy, cycles};

    #[test]
    fn what_its_worker_did_is_read() {
        let text = "pmd thread numa_id 0 core_id 1:\n  packets received: 6546400\n  idle cycles: \
             218438924 (5.49%)\n  processing cycles: 3760036630 (94.51%)\nmain thread:\n  packets \
             received: 0\n";
        let (share, packets) = busy(text).expect("its figures");
        assert!((share - 0.9451).abs() < 1e-9 && packets == 6_546_400);
        let (each, _) = cycles(text).expect("its cycles");
        assert!((each - 574.36).abs() < 0.01, "{each}");
        let text = text.replace("  idle", "  miss with failed upcall: 546400\n  idle");
        let (each, packets) = cycles(&text).expect("its cycles");
        assert!((each - 626.67).abs() < 0.01 && packets == 6_000_000, "{each} of {packets}");
        assert!(busy("pmd thread").is_err());
    }
}
