# %% [markdown]
# # A pattern that appears late
#
# Streams change. Here 20 patterns generate the stream, and two more join at tensor 9. The model is not told about them. It learns from one tensor at a time, as data would arrive, and a callback reports new patterns.

# %%
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import tensornoodl as tn

planted = tn.Planted(features=100, patterns=22, rows=60, cols=60, alpha=0.1, beta=0.1, late=2, late_step=9)
usual, late = planted.patterns[:20], planted.patterns[20:]
errors: list[tuple[float, float]] = []


def tell(record: dict[str, Any]) -> None:
    if record["found"]:
        print(f"tensor {record['step']}: {record['found']} new, {record['patterns']} patterns now")


def learn(model: tn.TensorNOODL, first: int, last: int) -> None:
    for t in range(first, last + 1):
        model.partial_fit(planted.tensor(t))
        found = model.components_
        errors.append((tn.match(found, usual).error, tn.match(found, late).error))


model = tn.TensorNOODL(callback=tell)
learn(model, 1, 8)
print(f"{model.n_patterns_} patterns after {model.n_steps_} tensors")

# %% [markdown]
# The patterns of the first tensor start the model, so the callback does not report them as new. We stop here, as if the machine had to be turned off. The file contains everything that is needed to continue, and no tensor. The callback is not saved.

# %%
before = model.components_
model.save("stream.safetensors")

model = tn.load("stream.safetensors").set_params(callback=tell)
learn(model, 9, 14)
print(f"{model.n_patterns_} patterns after {model.n_steps_} tensors")

# %% [markdown]
# Both new patterns are found in the first tensor that contains them. Fibers that the known patterns do not explain are excluded from the update and searched separately, so the other 20 patterns change only by rounding errors:

# %%
moved = np.abs(model.components_[:20] - before).max()
print(f"the 20 patterns moved by {moved:.1e}")
print(f"error of all {model.n_patterns_}: {tn.match(model.components_, planted.patterns).error:.1e}")

# %% [markdown]
# `history_` has a record for every step, including the steps before the model was saved. `fit` is the relative error of a tensor with the patterns that were known when it arrived. A jump in `fit` shows that something new has appeared, and it can be seen without the true patterns.

# %%
for record in model.history_[7:11]:
    print(f"tensor {record['step']:>2}: {record['fibers']} fibers, {record['patterns']} patterns, fit {record['fit']:.1e}")

# %% [markdown]
# The figure shows the number of patterns and their errors after each tensor. Before the two late patterns are found, their error is the distance to the nearest known patterns.

# %%
steps = [int(record["step"]) for record in model.history_]
figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 4.2), layout="constrained", height_ratios=(1, 2))
above.step(steps, [record["patterns"] for record in model.history_], where="mid", color="#0b6e99")
above.set(ylabel="patterns", yticks=[20, 22], ylim=(19.5, 22.5))
for values, label, color in zip(zip(*errors), ("the 20 usual ones", "the 2 late ones"), ("#0b6e99", "#c2571a")):
    below.semilogy(steps, values, "o-", markersize=4, color=color, label=label)
below.set(xlabel="tensor", ylabel="error", xticks=steps)
below.legend(frameon=False)
for axes in (above, below):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("stream.png")
