#!/usr/bin/env bash
# Runs `noodl-lab bench ranks` for the cells of docs/cluster.md: two ranks of one thread each, which communicate through shared memory or
# TCP. Prints one JSON line for each run. Uses the `noodl-lab` on the path, or the one given; it must have been built with MPI.
#
#   benches/ranks.sh [NOODL_LAB] > benches/runs/ranks.jsonl
set -euo pipefail
lab=${1:-noodl-lab}
run() {
    mpirun --bind-to none -n 2 "${@:4}" "$lab" bench ranks --json --threads 1 --repeats 9 --patterns "$1" --rows "$2" --cols "$2" --alpha "$3"
}
run 600 500 0.05
run 300 300 0.05
run 150 300 0.01
run 600 500 0.05 --mca btl tcp,self
