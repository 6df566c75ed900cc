//! A sweep on a cluster and in a job array gives the points of a plain loop.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use linerate_test_support::{programs::require_python, require, wait_until};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::support::{LINERATE, Scratch, TIMEOUT};

const SWEEP: usize = 16;

/// The interpreter with the packages of the adapters.
#[track_caller]
fn interpreter() -> PathBuf {
    require_python(&["distributed"], "python3-distributed")
}

fn adapter(name: &str) -> String {
    format!("{}/../../adapters/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Points that take a while, so that there is a half way.
fn specs() -> Vec<String> {
    (0..SWEEP)
        .map(|point| {
            format!(r#"{{"kind": "forward", "burst": {}, "duration_ms": 200}}"#, 1 + point)
        })
        .collect()
}

/// The keys in a file of points, each of which must be there once.
#[track_caller]
fn keys(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["outcome"], "measured", "{record}");
        assert!(keys.insert(record["key"].as_str().unwrap().to_owned()), "twice: {record}");
    }
    keys
}

/// The points of a plain loop over the specs.
fn plain_loop(scratch: &Scratch) -> BTreeSet<String> {
    let folder = scratch.file("loop");
    for spec in specs() {
        let line = ["lab", "point", &spec, "--dir", &folder];
        let output = Command::new(LINERATE).args(line).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let found = keys(&Path::new(&folder).join("points.jsonl"));
    assert_eq!(found.len(), SWEEP);
    found
}

/// A program that is killed when dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn distributed(scratch: &Scratch, module: &str, words: &[&str]) -> KillOnDrop {
    let log = fs::File::create(scratch.file(&format!("{module}.log"))).unwrap();
    let mut command = Command::new(interpreter());
    command.args(["-m", &format!("distributed.cli.{module}")]).args(words);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    KillOnDrop(command.spawn().unwrap())
}

/// One of two workers is killed when half of the points are there.
#[test]
#[ignore = "needs root"]
fn dask_with_a_worker_killed_gives_the_points_of_a_loop() {
    require("dask-worker");
    let scratch = Scratch::new();
    let cluster = scratch.file("cluster.json");
    let words =
        ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", &cluster];
    let _scheduler = distributed(&scratch, "dask_scheduler", &words);
    let up = wait_until(
        || fs::read_to_string(&cluster).is_ok_and(|text| text.contains("address")),
        TIMEOUT,
    );
    assert!(up, "{:?}", fs::read_to_string(scratch.file("dask_scheduler.log")));
    let folder = scratch.file("work");
    let words = [
        "--scheduler-file",
        &cluster,
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--local-directory",
        &folder,
    ];
    let mut workers: Vec<KillOnDrop> =
        (0..2).map(|_| distributed(&scratch, "dask_worker", &words)).collect();
    let address: Value = serde_json::from_str(&fs::read_to_string(&cluster).unwrap()).unwrap();

    let file = scratch.file("specs.jsonl");
    let expected = plain_loop(&scratch);
    // As `linerate lab list` prints them: every field is there.
    let looped = fs::read_to_string(Path::new(&scratch.file("loop")).join("points.jsonl")).unwrap();
    let spec = |line| serde_json::from_str::<Value>(line).unwrap()["spec"].to_string() + "\n";
    fs::write(&file, looped.lines().map(spec).collect::<String>()).unwrap();
    let results = scratch.file("dask");
    let points = Path::new(&results).join("points.jsonl");
    let sweep = || {
        let mut command = Command::new(interpreter());
        command.arg(adapter("dask_sweep.py")).args([&file, &results]);
        command.args(["--scheduler", address["address"].as_str().unwrap(), "--command", LINERATE]);
        KillOnDrop(command.spawn().unwrap())
    };
    let mut running = sweep();
    let lines = || fs::read_to_string(&points).map_or(0, |text| text.lines().count());
    assert!(wait_until(|| lines() >= SWEEP / 2, TIMEOUT), "{} points", lines());
    assert!(lines() < SWEEP, "it was over before a worker could be killed");
    drop(workers.pop());
    let mut status = None;
    let ended = wait_until(
        || {
            status = running.0.try_wait().unwrap();
            status.is_some()
        },
        TIMEOUT,
    );
    assert!(ended && status.unwrap().success(), "{status:?}");
    assert_eq!(keys(&points), expected);

    // Broken off in the middle of a line, it is taken up where it was.
    let text = fs::read_to_string(&points).unwrap();
    fs::write(&points, &text[..text.len() - 20]).unwrap();
    assert!(sweep().0.wait().unwrap().success());
    assert_eq!(keys(&points), expected);
}

/// The tasks of an array, one of which dies at first.
#[test]
#[ignore = "measures, alone"]
fn a_job_array_gives_the_points_of_a_loop() {
    let scratch = Scratch::new();
    let file = scratch.file("specs.jsonl");
    fs::write(&file, specs().join("\n") + "\n").unwrap();
    let results = scratch.file("slurm");
    let task = |number: usize| {
        let mut command = Command::new(adapter("slurm_array.sh"));
        command.args([&file, &results]).env("LINERATE", LINERATE);
        command.env("SLURM_ARRAY_TASK_ID", number.to_string());
        command
    };
    let parts = Path::new(&results).join("parts");
    let left = || {
        let entries = fs::read_dir(&parts).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    // It tells when it begins to measure.
    let (program, begun) = (scratch.file("linerate"), scratch.file("begun"));
    fs::write(&program, format!("#!/bin/sh\n: > {begun}\nexec {LINERATE} \"$@\"\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut dying = task(3).env("LINERATE", &program).spawn().unwrap();
    assert!(wait_until(|| Path::new(&begun).exists(), TIMEOUT));
    dying.kill().unwrap();
    dying.wait().unwrap();
    assert!(left().is_empty(), "{:?}", left());
    // One that came to nothing is no result.
    let void = r#"{"outcome":"void","reason":"held up"}"#;
    fs::write(parts.join("5"), void.to_owned() + "\n").unwrap();
    // Nor is the file of one that was killed while it wrote.
    fs::write(parts.join("6.new.1a2B3c"), "{").unwrap();
    // The array is submitted, and once more: finished points stay.
    for _ in 0..2 {
        for number in 1..=SWEEP {
            let output = task(number).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
    let collect = Command::new(adapter("slurm_array.sh")).args(["--collect", &results]).status();
    assert!(collect.unwrap().success());
    assert_eq!(keys(&Path::new(&results).join("points.jsonl")), plain_loop(&scratch));
    assert_eq!(left().len(), SWEEP, "{:?}", left());
}

/// Runs Python with the functions of the sweep.
fn python(text: &str) -> Command {
    let mut command = Command::new(interpreter());
    let folder = format!("{}/../../adapters", env!("CARGO_MANIFEST_DIR"));
    let text =
        format!("import sys; sys.path.insert(0, {folder:?}); from dask_sweep import *\n{text}");
    command.args(["-B", "-c", &text]).stdin(Stdio::null());
    command
}

#[test]
#[ignore = "needs root"]
fn lines_without_a_point_or_spec_are_named() {
    require("dask-worker");
    let scratch = Scratch::new();
    let (specs, results) = (scratch.file("specs.jsonl"), scratch.file("results"));
    fs::create_dir_all(&results).unwrap();
    let points = Path::new(&results).join("points.jsonl");
    let good = r#"{"spec": {"kind": "load", "cycles": 1}, "outcome": "measured", "reason": null}"#;
    for (kept, wanted, part) in [
        (format!("{good}\n{{\"key\": \n{good}\n"), "{}\n", "points.jsonl, line 2, is no point"),
        (format!("{good}\n{{}}\n{good}\n"), "{}\n", "points.jsonl, line 2, is no point"),
        (String::new(), "{}\n\nnot JSON\n", "specs.jsonl, line 3, is no spec"),
    ] {
        fs::write(&points, &kept).unwrap();
        fs::write(&specs, wanted).unwrap();
        let mut sweep = Command::new(interpreter());
        sweep.arg(adapter("dask_sweep.py")).args([
            &specs,
            &results,
            "--scheduler",
            "tcp://[::1]:1",
        ]);
        let output = sweep.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part) && !said.contains("Traceback"), "{said}");
        assert_eq!(fs::read_to_string(&points).unwrap(), kept, "nothing is lost");
    }
}

/// The measuring process keeps the lock when the worker that started it is killed.
#[test]
#[ignore = "needs root"]
fn a_device_stays_locked_while_it_is_measured() {
    let scratch = Scratch::new();
    let lock = scratch.file("device.lock");
    let program =
        r#"["sh", "-c", "touch \"$0.begun\"; while [ ! -e \"$0.end\" ]; do sleep 0.01; done""#;
    let mut worker = KillOnDrop(
        python(&format!("measure({program}, {lock:?}], '{{}}', {lock:?})")).spawn().unwrap(),
    );
    assert!(wait_until(|| Path::new(&format!("{lock}.begun")).exists(), TIMEOUT));
    worker.0.kill().unwrap();
    worker.0.wait().unwrap();
    let free = || {
        let file = fs::File::open(&lock).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    assert!(!free(), "another worker could measure beside it");
    fs::write(format!("{lock}.end"), "").unwrap();
    assert!(wait_until(free, TIMEOUT));
}

/// A lock of another user's, in a folder where the kernel guards files.
#[test]
#[ignore = "needs root"]
fn users_share_a_lock() {
    let scratch = Scratch::new();
    let folder = scratch.file("shared");
    fs::create_dir_all(&folder).unwrap();
    let lock = format!("{folder}/device.lock");
    let make = format!("os.chmod({folder:?}, 0o1777); open_lock({lock:?})");
    assert!(python(&make).status().unwrap().success());
    let parent = Path::new(&folder).parent().unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
    let take = format!(
        "os.setgid(65534); os.setuid(65534); fcntl.flock(open_lock({lock:?}), fcntl.LOCK_EX)"
    );
    let output = python(&take).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
