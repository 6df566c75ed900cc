//! Findings about several kinds of machine.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{source::tests::Fixture, *};

const ALL_AVAILABLE: Facilities = Facilities {
    xdp_socket: Access::Available,
    xdp_program: Access::Available,
    packet_socket: Access::Available,
    tun_device: Access::Available,
};

/// A server of two processors with eight cores and two threads each, set up
/// for packets: cores isolated, huge pages, performance governor.
fn tuned_server() -> Vec<(&'static str, &'static str)> {
    let mut files = vec![
        ("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6134 CPU @ 3.20GHz\n\
             flags\t\t: fpu vme tsc msr constant_tsc arch_perfmon nonstop_tsc cpuid\n\n\
             processor\t: 1\nmodel name\t: Intel(R) Xeon(R) Gold 6134 CPU @ 3.20GHz\n\
             flags\t\t: fpu vme tsc msr constant_tsc arch_perfmon nonstop_tsc cpuid\n",
        ),
        ("/sys/devices/system/cpu/online", "0-31\n"),
        ("/sys/devices/system/cpu/isolated", "2-7,18-23\n"),
        ("/sys/devices/system/cpu/nohz_full", "2-7,18-23\n"),
        ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,16\n"),
        ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,17\n"),
        ("/sys/devices/system/cpu/cpu16/topology/thread_siblings_list", "0,16\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/level", "1\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/type", "Instruction\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/size", "64K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index2/level", "2\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index2/type", "Unified\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index2/size", "1024K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index3/level", "3\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index3/type", "Unified\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index3/size", "25344K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-7,16-23\n"),
        ("/sys/devices/system/node/node0/cpulist", "0-7,16-23\n"),
        (
            "/sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal:       98661372 kB\nNode 0 MemFree:  1 kB\n",
        ),
        ("/sys/devices/system/node/node1/cpulist", "8-15,24-31\n"),
        ("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       99050268 kB\n"),
        ("/sys/devices/system/node/possible", "0-1\n"),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        (
            "/proc/meminfo",
            "MemTotal:       197711640 kB\nMemFree:        9 kB\nMemAvailable:   181000000 kB\n",
        ),
        ("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "4\n"),
        ("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "4\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1000\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "0\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        (
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size [advise] never deny force\n",
        ),
        (
            "/proc/self/status",
            "Name:\tlinerate\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-1,8-17,24-31\n",
        ),
        ("/proc/self/uid_map", "         0          0 4294967295\n"),
        (
            "/proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
                               Max locked memory         8388608              8388608              bytes     \n",
        ),
        ("/proc/sys/user/max_user_namespaces", "771234\n"),
        ("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
        ("/sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
        ("/sys/class/dmi/id/product_name", "PowerEdge R640\n"),
        ("/proc/1/cgroup", "0::/init.scope\n"),
    ];
    files.sort_unstable();
    files
}

/// A virtual machine of two cores as it comes, root.
fn plain_vm() -> Vec<(&'static str, &'static str)> {
    vec![
        ("/proc/sys/kernel/osrelease", "6.18.44\n"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu tsc constant_tsc nonstop_tsc hypervisor\n",
        ),
        ("/sys/devices/system/cpu/online", "0-1\n"),
        ("/sys/devices/system/cpu/isolated", "\n"),
        ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n"),
        ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1\n"),
        ("/sys/devices/system/node/node0/cpulist", "0-1\n"),
        (
            "/proc/meminfo",
            "MemTotal:       24684092 kB\nMemAvailable:   24340460 kB\nHugePages_Total:       0\n",
        ),
        ("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
        ("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        (
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size advise [never] deny force\n",
        ),
        // All but CAP_SYS_RESOURCE.
        ("/proc/self/status", "CapEff:\t000001fffeffffff\nCpus_allowed_list:\t0-1\n"),
        ("/proc/self/uid_map", "0 0 4294967295\n"),
        (
            "/proc/self/limits",
            "Max locked memory         8388608              8388608              bytes\n",
        ),
        ("/proc/sys/user/max_user_namespaces", "96365\n"),
        ("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
    ]
}

/// An unprivileged container: little of `/proc`, nothing of `/sys`.
fn bare_container() -> Vec<(&'static str, &'static str)> {
    vec![
        ("/.dockerenv", ""),
        ("/proc/sys/kernel/osrelease", "4.15.0-213-generic\n"),
        ("/proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n\nprocessor\t: 2\n"),
        (
            "/proc/meminfo",
            "MemTotal:       8000000 kB\nMemAvailable:   4000000 kB\nHugePages_Total:     512\nHugePages_Free:        7\nHugepagesize:       2048 kB\n",
        ),
        ("/sys/fs/cgroup/memory.max", "30000000\n"),
        ("/proc/self/status", "CapEff:\t0000000000002000\nCpus_allowed_list:\t2\n"),
        ("/proc/self/uid_map", "0 100000 65536\n"),
        (
            "/proc/self/limits",
            "Max locked memory         65536                65536                bytes\n",
        ),
        ("/proc/sys/user/max_user_namespaces", "0\n"),
    ]
}

/// An Arm board: no flags, no time stamp counter, ondemand governor.
fn board() -> Vec<(&'static str, &'static str)> {
    vec![
        ("/proc/sys/kernel/osrelease", "6.1.21-v8+\n"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n",
        ),
        ("/sys/devices/system/cpu/online", "0-3\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "ondemand\n"),
        ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"),
        ("/proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\n"),
        (
            "/proc/self/limits",
            "Max locked memory         unlimited            unlimited            bytes\n",
        ),
        ("/proc/sys/user/max_user_namespaces", "14000\n"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n"),
    ]
}

fn machine(files: &[(&'static str, &str)], access: &Facilities) -> Machine {
    Machine::read(&Fixture::new(files), access.clone())
}

fn by_name(machine: &Machine) -> BTreeMap<&'static str, Finding> {
    machine.findings().into_iter().map(|finding| (finding.name, finding)).collect()
}

fn troubles(machine: &Machine) -> Vec<(&'static str, Status)> {
    let mut troubles: Vec<_> =
        machine.findings().iter().map(|finding| (finding.name, finding.status)).collect();
    troubles.retain(|(_, status)| *status != Status::Ok);
    troubles
}

#[test]
fn a_tuned_server_has_nothing_to_improve() {
    let machine = machine(&tuned_server(), &ALL_AVAILABLE);
    assert_eq!(troubles(&machine), []);
    let cpu = &machine.cpu;
    assert_eq!(cpu.online.len(), 32);
    assert_eq!((cpu.l1, cpu.l2, cpu.l3), (Some(32 << 10), Some(1 << 20), Some(25344 << 10)));
    assert_eq!(cpu.siblings, [[0, 16], [1, 17]]);
    assert_eq!(cpu.nodes[1].memory, Some(99_050_268 << 10));
    assert_eq!(machine.host.virtual_machine, None);
    assert_eq!(machine.host.container, None);
    let findings = by_name(&machine);
    for (name, value) in [
        ("kernel", "6.8.0-45-generic"),
        ("processor", "Intel(R) Xeon(R) Gold 6134 CPU @ 3.20GHz"),
        ("cores", "32 online, 20 for this process: 0,1,8-17,24-31, 2 threads per physical core"),
        ("caches", "L1d 32 KiB, L2 1 MiB, L3 24.7 MiB shared by 16 cores"),
        ("time stamp counter", "invariant; kernel clock tsc"),
        ("frequency scaling", "performance"),
        ("isolated cores", "2-7,18-23, without timer ticks"),
        ("numa", "node 0: cores 0-7,16-23, 94 GiB; node 1: cores 8-15,24-31, 94.4 GiB"),
        ("huge pages", "2 MiB: 1000 of 1024 free; 1 GiB: 4 of 4 free"),
        ("memory lock limit", "8 MiB, not binding with CAP_IPC_LOCK"),
    ] {
        assert_eq!(findings[name].value, value, "{name}");
    }
    assert_eq!(worker_cores(cpu, Some(0), 3), [2, 3, 4]);
}

#[test]
fn a_virtual_machine_as_it_comes() {
    let machine = machine(&plain_vm(), &ALL_AVAILABLE);
    assert_eq!(
        troubles(&machine),
        [
            ("virtualisation", Status::Degraded),
            ("isolated cores", Status::Degraded),
            ("huge pages", Status::Degraded),
            ("transparent huge pages", Status::Degraded),
        ]
    );
    let findings = by_name(&machine);
    for (name, remedy) in [
        (
            "isolated cores",
            "add isolcpus=1 nohz_full=1 rcu_nocbs=1 to the kernel command line and reboot",
        ),
        (
            "huge pages",
            "echo 128 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ),
        (
            "transparent huge pages",
            "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
    ] {
        assert_eq!(findings[name].remedy.as_deref(), Some(remedy), "{name}");
    }
    assert_eq!(findings["virtualisation"].value, "virtual machine (kind not reported)");
    assert_eq!(findings["frequency scaling"].value, "not adjustable here");
    assert_eq!(findings["caches"].value, "not reported");
}

#[test]
fn a_container_with_little_in_it() {
    let access = Facilities {
        xdp_socket: Access::Available,
        xdp_program: Access::NotPermitted,
        packet_socket: Access::Available,
        tun_device: Access::Unsupported,
    };
    let machine = machine(&bare_container(), &access);
    assert_eq!(
        troubles(&machine),
        [
            ("kernel", Status::Missing),
            ("cores", Status::Degraded),
            ("isolated cores", Status::Degraded),
            ("memory", Status::Degraded),
            ("huge pages", Status::Degraded),
            ("transparent huge pages", Status::Degraded),
            ("memory lock limit", Status::Degraded),
            ("capabilities", Status::Missing),
            ("user namespaces", Status::Degraded),
            ("xdp programs", Status::Missing),
            ("tun device", Status::Missing),
        ]
    );
    let findings = by_name(&machine);
    assert_eq!(findings["cores"].value, "3 online, 1 for this process: 2");
    assert_eq!(findings["memory"].value, "7.6 GiB, available 3.8 GiB, container limit 28.6 MiB");
    assert_eq!(findings["huge pages"].value, "2 MiB: 7 of 512 free");
    assert_eq!(findings["virtualisation"].value, "container (docker)");
    assert_eq!(findings["capabilities"].value, "CAP_NET_RAW (in a user namespace)");
    assert_eq!(
        findings["tun device"].remedy.as_deref(),
        Some("start the container with --device /dev/net/tun --cap-add NET_ADMIN")
    );
    assert_eq!(
        findings["xdp programs"].remedy.as_deref(),
        Some("run linerate as root outside of the user namespace")
    );
    assert_eq!(worker_cores(&machine.cpu, None, 2), [2]);
}

#[test]
fn an_arm_board_without_privileges() {
    let denied = Facilities {
        xdp_socket: Access::NotPermitted,
        xdp_program: Access::NotPermitted,
        packet_socket: Access::NotPermitted,
        tun_device: Access::Available,
    };
    let machine = machine(&board(), &denied);
    let findings = by_name(&machine);
    assert_eq!(findings["processor"].value, "implementer 0x41 part 0xd08");
    assert_eq!(findings["time stamp counter"].status, Status::Ok);
    assert_eq!(findings["frequency scaling"].value, "governor ondemand, performance");
    assert_eq!(findings["frequency scaling"].status, Status::Degraded);
    assert_eq!(findings["numa"].value, "not reported: taken as one node");
    assert_eq!(findings["memory lock limit"].value, "unlimited");
    assert_eq!(findings["capabilities"].value, "none");
    assert_eq!(findings["user namespaces"].status, Status::Degraded);
    let program = std::env::current_exe().unwrap();
    assert_eq!(
        findings["capabilities"].remedy.as_deref(),
        Some(&*format!(
            "sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock,cap_sys_nice+ep {}",
            program.display()
        ))
    );
    assert_eq!(findings["xdp programs"].remedy, findings["capabilities"].remedy);
}

#[test]
fn virtual_machines_are_told_from_real_ones() {
    for (vendor, product, flags, virtual_machine) in [
        (
            "QEMU",
            "Standard PC (Q35 + ICH9, 2009)",
            "hypervisor",
            Some("QEMU Standard PC (Q35 + ICH9, 2009)"),
        ),
        ("Amazon EC2", "c5n.large", "hypervisor", Some("Amazon EC2 c5n.large")),
        ("Amazon EC2", "c5n.metal", "tsc", None),
        (
            "Microsoft Corporation",
            "Virtual Machine",
            "hypervisor",
            Some("Microsoft Corporation Virtual Machine"),
        ),
        ("Supermicro", "SYS-1029P", "tsc", None),
        ("Supermicro", "SYS-1029P", "hypervisor", Some("Supermicro SYS-1029P")),
    ] {
        let info = format!("flags\t: fpu {flags}\n");
        let machine = machine(
            &[
                ("/sys/class/dmi/id/sys_vendor", vendor),
                ("/sys/class/dmi/id/product_name", product),
                ("/proc/cpuinfo", &info),
            ],
            &ALL_AVAILABLE,
        );
        assert_eq!(machine.host.virtual_machine.as_deref(), virtual_machine, "{product}");
    }
}

#[test]
fn kernels_are_judged_by_their_version() {
    for (release, status) in [
        ("4.15.0-213-generic", Status::Missing),
        ("4.19.0", Status::Degraded),
        ("5.10.0-30-amd64", Status::Degraded),
        ("6.2.0", Status::Degraded),
        ("6.3.0-rc1", Status::Ok),
        ("10.0", Status::Ok),
        ("odd", Status::Ok),
    ] {
        let machine = machine(&[("/proc/sys/kernel/osrelease", release)], &ALL_AVAILABLE);
        assert_eq!(by_name(&machine)["kernel"].status, status, "{release}");
    }
}

#[test]
fn nothing_at_all_is_still_judged() {
    let machine = machine(&[], &ALL_AVAILABLE);
    let findings = by_name(&machine);
    assert_eq!(findings.len(), machine.findings().len(), "names are unique");
    assert_eq!(findings["cores"].value, "not reported");
    assert_eq!(findings["memory"].value, "not reported, available not reported");
    assert_eq!(findings["capabilities"].status, Status::Degraded);
}

#[test]
fn every_finding_that_is_not_ok_has_a_consequence() {
    let denied = Facilities {
        xdp_socket: Access::Failed("out of luck".into()),
        xdp_program: Access::Unsupported,
        packet_socket: Access::Unsupported,
        tun_device: Access::NotPermitted,
    };
    for files in [tuned_server(), plain_vm(), bare_container(), board(), vec![]] {
        let machine = machine(&files, &denied);
        for finding in machine.findings() {
            assert_eq!(finding.status == Status::Ok, finding.consequence.is_none(), "{finding:?}");
            if finding.status == Status::Ok {
                assert_eq!(finding.remedy, None, "{finding:?}");
            }
        }
    }
}

#[test]
fn findings_and_facts_serialize() {
    let machine = machine(&plain_vm(), &ALL_AVAILABLE);
    let facts = serde_json::to_value(&machine).unwrap();
    assert_eq!(facts["cpu"]["online"], serde_json::json!([0, 1]));
    assert_eq!(facts["memory"]["lock_limit"]["bytes"], 8_388_608);
    assert_eq!(facts["access"]["xdp_socket"], "available");
    assert_eq!(facts["privilege"]["capabilities"][0], "CAP_NET_RAW");
    let findings = serde_json::to_value(machine.findings()).unwrap();
    assert_eq!(findings[1]["name"], "virtualisation");
    assert_eq!(findings[1]["status"], "degraded");
    assert_eq!(findings[0].get("remedy"), None);
}

#[test]
fn this_machine_is_as_the_kernel_reports_it() {
    let machine = Machine::inspect();
    let uname = rustix::system::uname();
    assert_eq!(machine.host.kernel.as_deref(), uname.release().to_str().ok());
    let allowed = rustix::thread::sched_getaffinity(None).unwrap().count();
    assert_eq!(machine.cpu.allowed.len(), allowed as usize);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    assert_eq!(machine.memory.lock_limit, limit.map_or(Limit::Unlimited, Limit::Bytes));
    let system = rustix::system::sysinfo();
    let total = system.totalram as u64 * u64::from(system.mem_unit);
    assert_eq!(machine.memory.total.unwrap(), total);
}

proptest! {
    #[test]
    fn no_file_contents_panic(texts in prop::collection::vec("[-0-9a-z:, \n\t\\[\\]]{0,60}|\\PC{0,20}", 45)) {
        let files: Vec<_> = tuned_server()
            .iter()
            .zip(&texts)
            .map(|((path, _), text)| (*path, text.as_str()))
            .collect();
        let machine = machine(&files, &ALL_AVAILABLE);
        prop_assert_eq!(machine.findings().len(), by_name(&machine).len());
        worker_cores(&machine.cpu, Some(0), 4);
    }

    #[test]
    fn no_change_of_a_file_panics(at in 0usize..50, cut in 0usize..200, insert in "[-0-9a-z:, \n\t]{0,20}") {
        let files = tuned_server();
        let (path, text) = files[at % files.len()];
        let cut = cut.min(text.len());
        // All fixtures are ASCII, so any byte is a border.
        let changed = format!("{}{insert}{}", &text[..cut], &text[cut..]);
        let mut files = files;
        files.retain(|(other, _)| *other != path);
        let mut files: Vec<(&str, &str)> = files;
        files.push((path, &changed));
        machine(&files, &ALL_AVAILABLE).findings();
    }
}
