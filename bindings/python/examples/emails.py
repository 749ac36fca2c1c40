# %% [markdown]
# # Who wrote to whom, and when
#
# 38,131 e-mails of Enron, from November 1998 to June 2002, as a DataFrame of pandas. Which people were busy with each other in the same months?
# [The walkthrough](../enron.md) says where the tables come from, and compares the groups with the paper's.

# %%
import os
from pathlib import Path

import pandas as pd
import tensornoodl as tn

folder = Path(os.environ.get("NOODL_DATA", "."))
if not ((folder / "enron_emails.csv").is_file() and (folder / "enron_people.csv").is_file()):
    print("This example needs the tables of e-mails: set NOODL_DATA to the folder that has them (docs/enron.md says where they come from).")
    raise SystemExit

emails = pd.read_csv(folder / "enron_emails.csv", parse_dates=["time"])
people = pd.read_csv(folder / "enron_people.csv", index_col="id")
print(emails.head(3))

# %% [markdown]
# A cell of the tensor counts the e-mails of a month, a sender and a receiver. Mail to oneself is left out. Senders and receivers are the
# same people (`square`). Names (or addresses, where there is none) and what people did come from the second
# table; the model does not learn from either.

# %%
events = tn.from_events(
    emails,
    feature="month(time)",
    row="from",
    col="to",
    where="from!=@to",
    square=True,
    names=people["name"].fillna(people["email_local"]).to_dict(),
    groups=people["group4"].to_dict(),
)
months, senders, receivers = events.shape
print(f"{months} months x {senders} senders x {receivers} receivers")
print(f"{events.tally['used']} e-mails used, {events.tally['filtered']} filtered out")

# %% [markdown]
# The recipe is the paper's: logarithms of the counts, divided by the largest, and the mean of every pair taken off. The number of
# patterns is left to the data.

# %%
model = tn.TensorNOODL(recipe="log2,scale,center").fit(events)
explained = 1 - model.history_[-1]["fit"] ** 2
print(f"{model.n_patterns_} patterns explain {explained:.0%} of the energy")

figure = model.plot(top=8)
figure.savefig("emails.png")

# %% [markdown]
# Each pattern is a time when something happened: the Californian crisis in April 2001, the losses that came out in October, the weeks before
# the bankruptcy in November, and what came after it in January. Other seeds give two or three patterns, so we would not lean on
# the number ([more of this](../enron.md)). A number behind a name tells people of the same name apart.
#
# ## Groups
#
# Cliques that have nothing to do with each other were busy in the same months. So a pattern has several groups, each with the
# share of the pattern that it holds. What most of a group did was not learned from, and shows how pure a group is.

# %%
for pattern in range(model.n_patterns_):
    for group in model.groups(pattern):
        members = {name for name, _ in group.rows + group.cols}
        first = ", ".join(name for name, _ in group.rows[:3])
        print(f"pattern {pattern + 1}, {group.share:3.0%}: {len(members)} people, {group.others} not {group.known}; {first}")

# %% [markdown]
# Two of the twelve are all but pure: 14 people of the pipelines, and 16 traders with one other. The rest are mixed.
#
# ## All of it as a table
#
# `to_frame` has one value in each line, for whatever pandas can do with it: the strongest month of every pattern, say.

# %%
frame = model.to_frame()
features = frame[frame["axis"] == "feature"]
strongest = features.groupby("pattern")["value"].idxmax()
print(features.loc[strongest, ["pattern", "label", "value"]].to_string(index=False))

# %% [markdown]
# Or how much one person sent (`row`) and received (`col`) in each; below zero is less than in his other months.

# %%
person = frame[frame["label"] == "Jeff Dasovich"]
print(person.pivot(index="pattern", columns="axis", values="value").round(2))
