//! `cargo xtask bench plan`: predictions of `linerate plan` for configurations it has never seen,
//! beside the rates they then reach. The configurations are those below, or [`public`] ones.

mod answer;
mod public;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use self::answer::{Answer, Row};
use super::ours;
use super::restore::{RestoreOnDrop, unique_name};

/// Configurations with their names; sources of packets are `FromDevice`.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("cross-connect", "FromDevice(a) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> ToPort(packet:b);"),
    (
        "check and count",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> Counter -> DecIPTTL
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToPort(packet:b);",
    ),
    (
        "filter",
        "FromDevice(a) -> CheckIPHeader(14)
         -> IPFilter(deny src net 10.0.0.0/8, deny src net 172.16.0.0/12, deny dst port 22, deny dst port 23,
                     deny icmp, allow udp, deny all)
         -> SetIPDSCP(10) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> ToPort(packet:b);",
    ),
    (
        "few routes",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader
         -> r :: StaticIPLookup(198.19.0.0/22 0, 198.19.4.0/22 1, 198.19.8.0/21 2);
         r[0], r[1], r[2] => Counter, Paint(1), Paint(2) => Null, Null, Null
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToPort(packet:b);",
    ),
    (
        "routes by tree",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader
         -> RadixIPLookup(0/0 192.168.0.1 0, 198.19.0.0/24 192.168.0.2 0, 198.19.1.0/24 192.168.0.3 0,
                          198.19.2.0/23 192.168.0.4 0, 198.19.4.0/22 192.168.0.5 0)
         -> IPGWOptions(192.168.0.254) -> FixIPSrc(192.168.0.254) -> DecIPTTL -> IPFragmenter(1500)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToPort(packet:b);",
    ),
    (
        "translation",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader
         -> IPRewriter(pattern 198.51.100.1 1024-65535# - - 0 0)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToPort(packet:b);",
    ),
    (
        "tunnel",
        "FromDevice(a) -> Strip(14) -> UDPIPEncap(192.168.0.1, 4789, 192.168.0.2, 4789)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Counter -> ToPort(packet:b);",
    ),
    (
        "VLAN",
        "FromDevice(a) -> VLANEncap(7) -> Counter -> VLANDecap -> EtherMirror -> ToPort(packet:b);",
    ),
    (
        "kinds",
        "FromDevice(a) -> kind :: Classifier(12/0806, 12/86dd, 12/0800, -);
         kind[0] -> Discard; kind[1] -> Discard; kind[3] -> Discard;
         kind[2] -> CheckIPHeader(14)
         -> of :: IPClassifier(tcp dst port 80, udp dst port 53, udp dst port 9, -);
         of[0] -> Discard; of[1] -> Discard; of[3] -> Discard;
         of[2] -> Paint(3) -> EtherMirror -> ToPort(packet:b);",
    ),
    (
        "checksums",
        "FromDevice(a) -> CheckIPHeader(14) -> SetIPAddress(192.168.0.7) -> SetIPDSCP(46) -> SetIPChecksum
         -> SetUDPChecksum -> ToPort(packet:b);",
    ),
    (
        "balancer",
        "FromDevice(a) -> CheckIPHeader(14) -> IPRateMonitor(PACKETS, 0, 1) -> s :: HashSwitch(30, 4);
         s[0] -> Counter -> ToPort(packet:b); s[1] -> EtherMirror -> ToPort(packet:c);",
    ),
    ("task", "FromDevice(a) -> Strip(14) -> CycleLoad(250) -> Unstrip(14) -> EtherMirror -> ToPort(packet:b);"),
    (
        "queue",
        "FromDevice(a) -> CheckIPHeader(14) -> Queue(2048) -> Unqueue -> EtherMirror -> ToPort(packet:b);",
    ),
    (
        "inspection",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> CheckUDPHeader -> IPRateMonitor(PACKETS, 0, 1)
         -> Unstrip(14) -> AverageCounter -> ToPort(packet:b);",
    ),
];

/// Arguments of `cargo xtask bench plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Results that have a calibration, to which is added what is measured: by default elements are
    /// measured first, about two minutes.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only configurations with one of these names, or with one of these texts in their path.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Configurations of others: a folder of .click files, or a file that names one in each line and
    /// behind it the variables it needs, as in `router.click LEFT=eth0`. Their devices are replaced by
    /// a capture of packets to and from the addresses they name.
    #[arg(long, value_name = "LIST")]
    public: Option<PathBuf>,
    /// How many seconds one of them may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    timeout: u32,
    /// How often each is run, in turns. The most it reaches counts: what else a machine does can
    /// only slow it down.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Something to be planned, and to be run then.
trait Planned {
    /// Its name.
    fn name(&self) -> String;

    /// Asks `linerate plan`, which adds to the calibration in a folder.
    fn ask(&self, linerate: &Path, dir: &Path) -> Result<Answer>;
}

/// One of ours: its name and the configuration.
impl Planned for (&str, &str) {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn ask(&self, linerate: &Path, dir: &Path) -> Result<Answer> {
        let mut command = Command::new(linerate);
        command.arg("plan").arg(dir).args(["-e", self.1]);
        answer::ask(&mut command)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let linerate = ours::linerate()?;
    let own = std::env::temp_dir().join(unique_name());
    let _undo = {
        let own = own.clone();
        RestoreOnDrop::by(move || drop(std::fs::remove_dir_all(own)))
    };
    let planned: Vec<Box<dyn Planned>> = match &args.public {
        None => CONFIGURATIONS.iter().map(|one| Box::new(*one) as Box<dyn Planned>).collect(),
        Some(list) => public::configurations(list, args.timeout)?,
    };
    let wanted = |one: &dyn Planned| {
        let name = one.name();
        args.only.is_empty() || args.only.iter().any(|only| name.contains(only.as_str()))
    };
    let planned: Vec<_> = planned.into_iter().filter(|one| wanted(&**one)).collect();
    if planned.is_empty() {
        bail!("there is no such configuration");
    }
    let dir = match &args.dir {
        Some(dir) => std::path::absolute(dir)?,
        None => {
            measure_elements(&linerate, &own)?;
            own
        }
    };
    let mut rows: Vec<Row> = Vec::new();
    for round in 1..=args.rounds {
        for (at, one) in planned.iter().enumerate() {
            let name = one.name();
            eprintln!("round {round} of {}: planning and measuring {name}", args.rounds);
            let answer = one.ask(&linerate, &dir)?;
            match rows.get_mut(at) {
                None => rows.push(Row { name, answer }),
                Some(row) if answer.is_better_than(&row.answer) => row.answer = answer,
                Some(_) => {}
            }
        }
    }
    answer::show(&rows, args.json);
    Ok(())
}

fn measure_elements(linerate: &Path, dir: &Path) -> Result<()> {
    let status = Command::new(linerate)
        .args(["lab", "run", "elements", "--dir"])
        .arg(dir)
        .stdout(Stdio::null())
        .status()
        .context("cannot run linerate")?;
    if !status.success() {
        bail!("the elements were not measured");
    }
    Ok(())
}
