//! Prerequisites of other projects' programs: compilers, files, databases.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use linerate_linux::machine::Memory;
use tempfile::TempDir;

use super::{
    TurnError,
    network::{DEVICE, Network, run},
};

/// Programs compiled on this machine, for this machine.
const SOURCES: [(&str, &str); 2] = [
    ("pcap_forward", include_str!("../../../../../bench/peers/pcap_forward.c")),
    ("rte_l3fwd", include_str!("../../../../../bench/peers/rte_l3fwd.c")),
];
const HEADER: &str = include_str!("../../../../../bench/peers/common.h");

/// Directories of system programs that a user's `PATH` may lack.
const SYSTEM: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// Huge pages a program of DPDK needs here, and their size.
const PAGES: u64 = 128;
const PAGE: u64 = 2 << 20;
/// DPDK's files.
const RUNTIME: &str = "/var/run/dpdk";

/// The path of a program, if it is installed.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Programs that are compiled once per run.
#[derive(Debug, Default)]
pub(super) struct Programs {
    compiled: Mutex<Compiled>,
}

/// The folder of the compiled programs, and each one's path or the compiler's error.
#[derive(Debug, Default)]
struct Compiled {
    folder: Option<TempDir>,
    programs: BTreeMap<&'static str, Result<PathBuf, String>>,
}

impl Programs {
    /// Compiles a program unless that was done; returns where it is, or why it
    /// cannot be compiled.
    pub(super) fn compile(&self, name: &'static str) -> Result<PathBuf, String> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let Compiled { folder, programs } = &mut *compiled;
        let answer = programs.entry(name).or_insert_with(|| {
            let made = match folder.take() {
                Some(folder) => folder,
                None => tempfile::tempdir().map_err(|error| error.to_string())?,
            };
            compile(name, folder.insert(made).path())
        });
        answer.clone()
    }
}

fn compile(name: &str, folder: &Path) -> Result<PathBuf, String> {
    let (_, source) = SOURCES.iter().find(|(known, _)| *known == name).ok_or("no such program")?;
    let file = folder.join(name).with_extension("c");
    let written =
        fs::write(&file, source).and_then(|()| fs::write(folder.join("common.h"), HEADER));
    written.map_err(|error| error.to_string())?;
    let (compiling, linking) = if name.starts_with("rte_") {
        (pkg_config("--cflags")?, pkg_config("--libs")?)
    } else {
        (Vec::new(), vec!["-lpcap".to_owned()])
    };
    let program = folder.join(name);
    let output = Command::new("gcc")
        .args(["-std=gnu11", "-w"])
        .args(compiling)
        // After the packaged flags, which choose an old processor.
        .args(["-O3", "-march=native"])
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .args(linking)
        .output()
        .map_err(|error| format!("cannot start gcc: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = || said.lines().find(|line| line.contains("error")).unwrap_or("gcc failed");
    let library = if name.starts_with("rte_") { "libdpdk-dev" } else { "libpcap-dev" };
    let failed = || format!("it cannot be compiled (Debian's package {library}?): {}", reason());
    output.status.success().then_some(program).ok_or_else(failed)
}

/// Flags for DPDK.
fn pkg_config(kind: &str) -> Result<Vec<String>, String> {
    let output = Command::new("pkg-config").args([kind, "libdpdk"]).output();
    let output = output.ok().filter(|output| output.status.success());
    let output = output.ok_or("pkg-config knows no libdpdk (Debian's package libdpdk-dev)")?;
    let flags = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

/// The driver of DPDK's that shares memory with the tester.
pub(super) const NET_MEMIF: &str = "net_memif";

/// Arguments of DPDK's environment for two interfaces on this driver, and the
/// name of its files. Huge pages are used where enough are free; none are
/// reserved.
pub(super) fn eal(driver: &str, core: u32, main: u32) -> (String, Vec<String>) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let prefix =
        format!("linerate-compare-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let cores = if core == main { core.to_string() } else { format!("{main},{core}") };
    let mut arguments = vec![
        format!("-l{cores}"),
        format!("--main-lcore={main}"),
        "--no-pci".into(),
        "--no-telemetry".into(),
        format!("--file-prefix={prefix}"),
    ];
    let memory: &[&str] =
        if free_huge_pages() >= PAGES { &["--in-memory"] } else { &["--no-huge", "-m256"] };
    arguments.extend(memory.iter().map(ToString::to_string));
    for (port, device) in DEVICE.iter().enumerate() {
        arguments.push(if driver == NET_MEMIF {
            format!("--vdev={driver}{port},role=client,id=0,socket={device},socket-abstract=yes")
        } else {
            format!("--vdev={driver}{port},iface={device}")
        });
    }
    (prefix, arguments)
}

fn free_huge_pages() -> u64 {
    let sizes = Memory::inspect().huge_pages;
    sizes.iter().find(|pages| pages.size == PAGE).map_or(0, |pages| pages.free)
}

/// Files of a DPDK process that it does not remove when it is killed. Dropping
/// this does.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
}

impl Files {
    pub(super) fn for_prefix(prefix: &str) -> Files {
        Files { path: Path::new(RUNTIME).join(prefix) }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Nothing there when it kept all its bookkeeping in memory; the folder
        // above stays if other processes have files in it.
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_dir(RUNTIME);
    }
}

/// Starts Open vSwitch with its datapath in user space, and one flow from the
/// first interface to the second.
pub(super) fn open_vswitch(
    network: &Network,
    folder: &Path,
    start: &mut impl FnMut(&[&str], &[(&str, &str)]) -> io::Result<()>,
) -> Result<(), TurnError> {
    let name = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let (here, database, socket) = (name(""), name("conf.db"), name("db.sock"));
    let here = here.trim_end_matches('/');
    let variables = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"].map(|variable| (variable, here));
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    run("ovsdb-tool", &["create", &database, schema])?;
    let remote = format!("--remote=punix:{socket}");
    let control = format!("--unixctl={}", name("db.ctl"));
    start(&["ovsdb-server", &database, &remote, &control], &variables)?;
    let remote = format!("unix:{socket}");
    let control = format!("--unixctl={}", name("switch.ctl"));
    start(&["ovs-vswitchd", &remote, &control, "--disable-system"], &variables)?;
    let database = format!("--db={remote}");
    let set = |words: &[&str]| network.inside(&[&["ovs-vsctl", &database], words].concat());
    // Both wait until the daemons answer.
    set(&["--retry", "--no-wait", "init"])?;
    set(&[
        "--retry",
        "--timeout=15",
        "add-br",
        "br0",
        "--",
        "set",
        "bridge",
        "br0",
        "datapath_type=netdev",
        "fail_mode=secure",
        "--",
        "add-port",
        "br0",
        DEVICE[0],
        "--",
        "set",
        "interface",
        DEVICE[0],
        "ofport_request=1",
        "--",
        "add-port",
        "br0",
        DEVICE[1],
        "--",
        "set",
        "interface",
        DEVICE[1],
        "ofport_request=2",
    ])?;
    let bridge = format!("unix:{}", name("br0.mgmt"));
    network.inside(&["ovs-ofctl", "add-flow", &bridge, "in_port=1,actions=output:2"])?;
    Ok(())
}
