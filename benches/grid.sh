#!/usr/bin/env bash
# Recovers all cells of the paper's grid, 45 cells x 3 seeds, with the paper's step. Prints one JSON line for each run, and a last line
# with the seconds of all runs. Uses the `noodl-lab` on the path, or the one given.
#
#   benches/grid.sh [NOODL_LAB] > benches/runs/grid.jsonl
set -euo pipefail
lab=${1:-noodl-lab}
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
        outcome=$("$lab" recover --quiet --json --strict --rule paper --eta-a $eta_a --seed $seed \
            --patterns "$patterns" --rows "$size" --cols "$size" --alpha "$alpha" --beta "$alpha" | tail -n 1)
        echo "{\"patterns\":$patterns,\"size\":$size,\"alpha\":$alpha,\"seed\":$seed,\"paper\":$paper,${outcome#\{}"
    done
done
echo "{\"type\":\"grid\",\"seconds\":$(($(date +%s) - begun))}"
