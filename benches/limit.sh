#!/usr/bin/env bash
# Runs `noodl-lab bench limit` for the cells of BENCHMARKS.md, with 1 and 2 threads. Prints one JSON line for each step. Uses the
# `noodl-lab` on the path, or the one given.
#
#   benches/limit.sh [NOODL_LAB] > benches/runs/limit.jsonl
set -euo pipefail
lab=${1:-noodl-lab}
for threads in 1 2; do
    for cell in "600 500 0.05" "450 300 0.05" "150 300 0.01" "150 100 0.01"; do
        read -r patterns size alpha <<<"$cell"
        "$lab" bench limit --json --threads $threads --features 300 --patterns "$patterns" --rows "$size" \
            --cols "$size" --alpha "$alpha" --repeats 9
    done
done
