#!/usr/bin/env python3
"""Runs a sweep of `linerate lab` points on a Dask cluster.

    linerate lab list burst --format json > specs.jsonl
    dask_sweep.py --scheduler tcp://host:8786 specs.jsonl results/

Each line of the first file is the whole spec of a point; each becomes a task that runs
`linerate lab point SPEC` on some worker, and its line is appended to
results/points.jsonl as soon as it is there. Specs that have figures there are not
run again, so a sweep that was broken off goes on when it is started again.

Only one point is measured on a machine at a time, whoever asks for it: the task
holds a lock file of the machine, and what measures holds it too, if the worker
dies meanwhile. Devices that do not disturb each other can have locks of their own
(--lock). A task whose worker dies is given to another, as often as the scheduler's
setting distributed.scheduler.allowed-failures says (3).
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys

LOCK = "/tmp/linerate-lab.lock"


def canonical(spec):
    return json.dumps(spec, sort_keys=True)


def open_lock(path):
    """Opens a lock file, which may be another user's."""
    # To read: that is enough to lock it. Made only when it is missing, because
    # kernels refuse to make a file of somebody else's again in /tmp.
    for flags in (0, os.O_CREAT | os.O_EXCL, 0):
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags, 0o644)
        except (FileNotFoundError, FileExistsError) as error:
            failure = error
    raise failure


def measure(command, text, lock):
    """Measures a point on this machine, alone; returns its line."""
    held = open_lock(lock)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [*command, "lab", "point", text], capture_output=True, text=True, pass_fds=[held]
        )
    finally:
        os.close(held)
    if done.returncode != 0:
        raise RuntimeError(f"{text}: {done.stderr.strip()}")
    return done.stdout.strip()


def result(record):
    """What came of a point, and why it has no figures."""
    return record["outcome"], record["reason"]


def read_known(points, path):
    """Results by spec, the last one of each. A torn last line is cut off."""
    known = {}
    end = 0
    for number, line in enumerate(points, 1):
        if not line.endswith(b"\n"):
            break
        try:
            record = json.loads(line)
            known[canonical(record["spec"])] = result(record)
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"dask_sweep: {path}, line {number}, is no point: {error!r}")
        end += len(line)
    points.truncate(end)
    return known


def read_specs(path):
    """Lines of specs by spec, each once."""
    specs = {}
    with open(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                specs.setdefault(canonical(json.loads(line)), line.strip())
            except ValueError as error:
                sys.exit(f"dask_sweep: {path}, line {number}, is no spec: {error}")
    return specs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("specs", help="file of specs, one JSON object a line")
    parser.add_argument("folder", help="where points.jsonl is, or is to be")
    parser.add_argument("--scheduler", required=True, help="the cluster's address")
    parser.add_argument("--command", nargs="+", default=["linerate"], help="the program on workers")
    parser.add_argument(
        "--lock", default=LOCK, help=f"the file on workers that is locked meanwhile [{LOCK}]"
    )
    args = parser.parse_args()

    specs = read_specs(args.specs)
    os.makedirs(args.folder, exist_ok=True)
    path = os.path.join(args.folder, "points.jsonl")
    with open(path, "ab+") as points:
        # As `linerate lab run` does: one of them at a time adds points.
        try:
            fcntl.flock(points, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"dask_sweep: {args.folder} is in use: another process adds points to it")
        points.seek(0)
        known = read_known(points, path)
        todo = [
            text for spec, text in specs.items() if known.get(spec, [None])[0] != "measured"
        ]
        failed = 0
        from distributed import Client, as_completed

        with Client(args.scheduler) as client:
            commands, locks = [args.command] * len(todo), [args.lock] * len(todo)
            tasks = client.map(measure, commands, todo, locks, pure=False)
            for task in as_completed(tasks):
                if task.status != "finished":
                    failed += 1
                    print(f"dask_sweep: {task.exception()}", file=sys.stderr)
                    continue
                record = json.loads(task.result())
                # The same want of figures is not noted twice.
                if known.get(canonical(record["spec"])) != result(record):
                    points.write(task.result().encode() + b"\n")
                    points.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"dask_sweep: {error}")
