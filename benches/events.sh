#!/usr/bin/env bash
# Benchmark of a table of ten million events, as in BENCHMARKS.md: `noodl stats` on CSV, compressed CSV and Parquet, `noodl learn`,
# and pandas, which reads and counts the same table. The commands run alternately, in three rounds. Each run prints one JSON line with
# its wall-clock and CPU seconds. The table is created if it does not exist, and takes 1 GB.
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

# Runs and measures a command. Arguments: a name, the round, the command.
run() {
    local what=$1 round=$2 seconds user system peak
    shift 2
    /usr/bin/time -o "$folder/time" -f '%e %U %S %M' "$@" >"$folder/out" 2>&1
    read -r seconds user system peak <"$folder/time"
    echo "{\"what\":\"$what\",\"round\":$round,\"seconds\":$seconds,\"user\":$user,\"system\":$system,\"peak_mb\":$((peak / 1024))}"
}

# Reads only the columns that are needed, and counts the mails of each month, sender and receiver.
count_with_pandas='
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
# Load the files into the page cache.
cat "$folder"/events.* >/dev/null
for round in 1 2 3; do
    run "stats csv" $round "$noodl" stats "$csv" "${axes[@]}"
    run "pandas c" $round "$python" -c "$count_with_pandas" c "$csv"
    run "pandas pyarrow" $round "$python" -c "$count_with_pandas" pyarrow "$csv"
    run "stats csv.gz" $round "$noodl" stats "$csv.gz" "${axes[@]}"
    run "stats parquet" $round "$noodl" stats "$folder/events.parquet" "${axes[@]}"
    run "pandas parquet" $round "$python" -c "$count_with_pandas" parquet "$folder/events.parquet"
    run "learn csv" $round "$noodl" learn "$csv" "${axes[@]}" --recipe log2,scale -o "$folder/model.safetensors"
done
