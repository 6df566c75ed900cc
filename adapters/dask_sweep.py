#!/usr/bin/env python3
"""Runs a sweep of `linerate lab` points on a Dask cluster.

    linerate lab list burst --format json > specs.jsonl
    dask_sweep.py --scheduler tcp://host:8786 specs.jsonl results/

Each line of the first file is the whole spec of a point; each becomes a task that runs
`linerate lab point SPEC` on some worker, and its line is appended to
results/points.jsonl as soon as it is there. Specs that have a line there are not
run again, so a sweep that was broken off goes on when it is started again.

Only one point is measured on a machine at a time, whoever asks for it: the task
holds a lock file of the machine. A task whose worker dies is given to another, as
often as the scheduler's setting distributed.scheduler.allowed-failures says (3).
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


def measure(command, text):
    """Measures a point on this machine, alone; returns its line."""
    with open(LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([*command, "lab", "point", text], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{text}: {done.stderr.strip()}")
    return done.stdout.strip()


def known(path):
    """Specs that have a line. A torn last line is cut off, to be measured again."""
    specs = set()
    if not os.path.exists(path):
        return specs
    with open(path, "rb+") as points:
        end = 0
        for line in points:
            if not line.endswith(b"\n"):
                break
            specs.add(canonical(json.loads(line)["spec"]))
            end += len(line)
        points.truncate(end)
    return specs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("specs", help="file of specs, one JSON object a line")
    parser.add_argument("folder", help="where points.jsonl is, or is to be")
    parser.add_argument("--scheduler", required=True, help="the cluster's address")
    parser.add_argument("--command", nargs="+", default=["linerate"], help="the program on workers")
    args = parser.parse_args()

    from distributed import Client, as_completed

    os.makedirs(args.folder, exist_ok=True)
    path = os.path.join(args.folder, "points.jsonl")
    done = known(path)
    with open(args.specs) as specs:
        texts = [line.strip() for line in specs if line.strip()]
    todo = [text for text in texts if canonical(json.loads(text)) not in done]
    failed = 0
    with Client(args.scheduler) as client, open(path, "a") as points:
        tasks = client.map(measure, [args.command] * len(todo), todo, pure=False)
        for task in as_completed(tasks):
            if task.status == "finished":
                points.write(task.result() + "\n")
                points.flush()
            else:
                failed += 1
                print(f"dask_sweep: {task.exception()}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
