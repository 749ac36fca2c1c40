#!/usr/bin/env bash
# The paper's whole grid, 45 cells x 3 seeds, with the paper's step: one JSON line for each run, and
# the seconds of all at the end. Runs the `noodl` on the path, or the one given.
#
#   benches/grid.sh [NOODL] > benches/runs/grid.jsonl
set -euo pipefail
noodl=${1:-noodl}
cells=$(dirname "$0")/../crates/tensornoodl/tests/paper.csv
begun=$(date +%s)
tail -n +2 "$cells" | while IFS=, read -r alpha size patterns paper; do
    case "$patterns,$alpha,$size" in
        50,0.005,100) eta_a=5 ;;
        50,*) eta_a=20 ;;
        150,* | 300,*) eta_a=40 ;;
        *) eta_a=50 ;;
    esac
    for seed in 42 26 91; do
        outcome=$("$noodl" recover --quiet --json --strict --step paper --eta-a $eta_a --seed $seed \
            --patterns "$patterns" --rows "$size" --cols "$size" --alpha "$alpha" --beta "$alpha" | tail -n 1)
        echo "{\"patterns\":$patterns,\"size\":$size,\"alpha\":$alpha,\"seed\":$seed,\"paper\":$paper,${outcome#\{}"
    done
done
echo "{\"type\":\"grid\",\"seconds\":$(($(date +%s) - begun))}"
