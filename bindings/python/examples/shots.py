# %% [markdown]
# # Shot charts, week by week
#
# The data is every shot of two NBA seasons: the player, the opponent, the date, and the position on the court. The questions are which zones of the court belong together, who shoots from them, and which players are similar. [The walkthrough](../nba.md) says where the tables come from, and which conclusions the data does not support.

# %%
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensornoodl as tn

folder = Path(os.environ.get("NOODL_DATA", "."))
before, season = (folder / f"nba_{years}_shots.csv.gz" for years in ("2017-18", "2018-19"))
if not (before.is_file() and season.is_file()):
    print("This example needs the tables of shots: set NOODL_DATA to the folder that has them (docs/nba.md says where they come from).")
    raise SystemExit

# %% [markdown]
# `from_events` can also read a table from a file, compressed or not. A pattern extends over the 120 cells of half a court. Rows are the 100 players with the most shots, and cols are the teams that they played against. Two games in a week count as one.
#
# The season before is one tensor, which gives the start. Counts follow the model only roughly and have no true number of patterns, so we ask for seven patterns, as in the paper. `fit` is the relative error, and 1 - fit² is the share of the energy that is explained.

# %%
axes: dict[str, Any] = {
    "feature": "court(loc_x,loc_y,12x10)",
    "row": "player",
    "col": "opponent",
    "average_over": "game",
    "keep_rows": 100,
}
start = tn.TensorNOODL(7, recipe="log2,center").fit(tn.from_events(before, **axes))
print(f"{start.n_patterns_} patterns explain {1 - start.history_[0]['fit'] ** 2:.0%} of the season before")

# %% [markdown]
# The next season is a stream: with `step`, the table gives one tensor for every week. `init` continues from the learned patterns and uses the same recipe.

# %%
weeks = tn.from_events(season, step="week(date)", **axes)
print(f"{len(weeks)} weeks of {weeks.shape}: {weeks.tally['used']} of {weeks.tally['events']} shots")

model = tn.TensorNOODL(init=start)
for week in weeks.steps:
    model.partial_fit(weeks[week])
    record = model.history_[-1]
    if model.n_steps_ % 9 == 1 or model.n_steps_ == len(weeks):
        print(f"{record['step']}: {record['fibers']} pairs, {1 - record['fit'] ** 2:.0%} explained")

# %% [markdown]
# The figure shows the patterns on the court, and the players and teams that take part in them most over the season:

# %%
figure = model.plot(top=8)
figure.savefig("shots.png")

# %% [markdown]
# ## Similar players
#
# `factors(t)` returns the row factors of a week: how much each player takes part in each pattern. A week has only a few games, so we add the factors up over the season. Players are similar if their sums point in the same direction.

# %%
total = np.sum([model.factors(t)[0] for t in range(model.n_steps_)], axis=0)
length = np.linalg.norm(total, axis=1, keepdims=True)
profile = np.divide(total, length, where=length > 0, out=np.zeros_like(total))
players = model.row_labels_
for player in ("Stephen Curry", "James Harden", "Andre Drummond", "Giannis Antetokounmpo"):
    cosine = profile @ profile[players.index(player)]
    nearest = [at for at in np.argsort(-cosine) if players[at] != player][:4]
    print(f"{player}: " + ", ".join(f"{players[at]} {cosine[at]:.2f}" for at in nearest))

# %% [markdown]
# Players who shoot from behind the 3-point line are close to other shooters, and players who score at the rim are close to each other. Do not rely on single names: seven patterns explain half of the energy, one group of players and teams holds only a part of each pattern, and another `random_state` gives seven other patterns. Of the seeds 1 to 4, one keeps Deandre Ayton beside Andre Drummond; two put Bojan Bogdanovic there, who is not a big man.
