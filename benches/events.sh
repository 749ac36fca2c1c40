#!/usr/bin/env bash
# Ten million events, as in BENCHMARKS.md: `noodl stats` of the table as CSV, packed and Parquet, `noodl learn`, and
# pandas reading and counting the same, in turns, three rounds. One JSON line for each run, with the seconds of the
# clock and of the cores. The table is made if it is not there, and takes 1 GB.
# Needs Python with numpy, pandas and pyarrow.
#
#   benches/events.sh [NOODL [PYTHON [FOLDER]]] > benches/runs/events.jsonl
set -euo pipefail
noodl=${1:-noodl}
python=${2:-python3}
folder=${3:-$(mktemp -d)}
here=$(dirname "$0")
csv=$folder/events.csv
if [ ! -e "$folder/events.parquet" ]; then
    "$python" "$here/events.py" 10000000 >"$csv"
    gzip -kf "$csv"
    "$python" -c 'import sys, pyarrow.csv as c, pyarrow.parquet as p; p.write_table(c.read_csv(sys.argv[1]), sys.argv[2])' \
        "$csv" "$folder/events.parquet"
fi
axes=(--feature 'month(time)' --row from --col to)

# What is measured, its round, and the command.
run() {
    local what=$1 round=$2 seconds user system peak
    shift 2
    /usr/bin/time -o "$folder/time" -f '%e %U %S %M' "$@" >"$folder/out" 2>&1
    read -r seconds user system peak <"$folder/time"
    echo "{\"what\":\"$what\",\"round\":$round,\"seconds\":$seconds,\"user\":$user,\"system\":$system,\"peak_mb\":$((peak / 1024))}"
}

# Reads the columns that matter and counts the mails of each month, sender and receiver, no more.
counted='
import sys, pandas as pd
how, file = sys.argv[1:]
kinds = {"from": "category", "to": "category"}
names = ["time", "from", "to"]
if how == "parquet":
    table = pd.read_parquet(file, columns=names, dtype_backend="pyarrow")
    table = table.astype(kinds)
elif how == "pyarrow":
    table = pd.read_csv(file, engine=how, usecols=names, dtype=kinds)
else:
    table = pd.read_csv(file, engine=how, usecols=names, dtype=kinds, parse_dates=["time"], date_format="ISO8601")
month = table["time"].to_numpy("datetime64[s]").astype("datetime64[M]").astype(int)
print(len(table.groupby([month, "from", "to"], observed=True, sort=False).size()))
'
cat "$folder"/events.* >/dev/null
for round in 1 2 3; do
    run "stats csv" $round "$noodl" stats "$csv" "${axes[@]}"
    run "pandas c" $round "$python" -c "$counted" c "$csv"
    run "pandas pyarrow" $round "$python" -c "$counted" pyarrow "$csv"
    run "stats csv.gz" $round "$noodl" stats "$csv.gz" "${axes[@]}"
    run "stats parquet" $round "$noodl" stats "$folder/events.parquet" "${axes[@]}"
    run "pandas parquet" $round "$python" -c "$counted" parquet "$folder/events.parquet"
    run "learn csv" $round "$noodl" learn "$csv" "${axes[@]}" --recipe log2,scale -o "$folder/model.safetensors"
done
