#!/bin/sh
# One point of a sweep of `linerate lab`, as a task of a Slurm job array.
#
#     linerate lab list burst --format json > specs.jsonl
#     sbatch --array=1-$(wc -l < specs.jsonl) slurm_array.sh specs.jsonl results
#     slurm_array.sh --collect results        (when all tasks have ended)
#
# Task N measures the spec in line N, with the machine for itself, and leaves its line in
# results/parts/N. A task that dies leaves nothing there and is queued again; one that has its
# line does nothing, so the same array can be submitted again to fill what is missing. Collecting
# writes the lines to results/points.jsonl.
#
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --ntasks=1
set -eu

if [ "$1" = --collect ]; then
    find "$2/parts" -type f ! -name '*.new*' -exec cat {} + > "$2/points.jsonl.new"
    mv "$2/points.jsonl.new" "$2/points.jsonl"
    exit
fi
specs=$1 folder=$2 task=$SLURM_ARRAY_TASK_ID
part=$folder/parts/$task
mkdir -p "$folder/parts"
[ -s "$part" ] && exit
# Renamed when it is whole: a line that is there is complete.
new=$part.new.$$
sed -n "${task}p" "$specs" | "${LINERATE:-linerate}" lab point - > "$new"
mv "$new" "$part"
