#!/bin/sh
# One point of a sweep of `linerate lab`, as a task of a Slurm job array.
#
#     linerate lab list burst --format json > specs.jsonl
#     sbatch --array=1-$(wc -l < specs.jsonl) slurm_array.sh specs.jsonl results
#     slurm_array.sh --collect results        (when all tasks have ended)
#
# Task N measures the spec in line N, with the machine for itself, and leaves its line in
# results/parts/N. A task that dies leaves nothing there and is queued again; one that has its
# figures does nothing, so the same array can be submitted again to fill what is missing.
# Collecting writes the lines to results/points.jsonl.
#
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --ntasks=1
set -eu

if [ $# -ne 2 ]; then
    echo "usage: slurm_array.sh SPECS FOLDER, or slurm_array.sh --collect FOLDER" >&2
    exit 2
fi
folder=$2
# Files are renamed when they are whole: what has its name is complete.
new=
trap 'rm -f "$new"' EXIT
trap 'exit 143' HUP INT TERM

if [ "$1" = --collect ]; then
    new=$(mktemp "$folder/points.jsonl.new.XXXXXX")
    find "$folder/parts" -type f -name '*[0-9]' ! -name '*.*' -exec cat {} + > "$new"
    chmod a+r "$new"
    mv "$new" "$folder/points.jsonl"
    # Of tasks that were killed while they wrote.
    find "$folder/parts" -type f -name '*.new.*' -exec rm -f {} +
    exit
fi
specs=$1 task=${SLURM_ARRAY_TASK_ID:?is not set: this is for sbatch --array}
part=$folder/parts/$task
mkdir -p "$folder/parts"
if grep -qs '"outcome":"measured"' "$part"; then
    exit
fi
# Nothing is made before there is a result: measuring is what takes long, and is killed.
line=$(sed -n "${task}p" "$specs" | "${LINERATE:-linerate}" lab point -)
new=$(mktemp "$part.new.XXXXXX")
chmod a+r "$new"
printf '%s\n' "$line" > "$new"
mv "$new" "$part"
