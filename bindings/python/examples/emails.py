# %% [markdown]
# # Who wrote to whom, and when
#
# The data is 38,131 e-mails of Enron, from November 1998 to June 2002, as a pandas DataFrame. The question is which people were busy with each other in the same months. [The walkthrough](../enron.md) says where the tables come from, and compares the groups with those of the paper.

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
# A cell of the tensor counts the e-mails of one month, one sender and one receiver. Mail to oneself is left out. Senders and receivers are the same people, so both axes get the same labels (`square`). The second table gives each person's name (or address, where the name is missing) and unit (Legal, Pipeline, Executive or Trading). The model learns from neither.

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
# The recipe is the paper's: the logarithm of each count, divided by the largest value, minus the mean of each pair over the months. These values are not counts any more, so the exact model is used, which is that of the paper; without the recipe it would be the model for counts. The number of patterns is determined from the data.

# %%
model = tn.TensorNOODL(recipe="log2,scale,center").fit(events)
explained = 1 - model.history_[-1]["fit"] ** 2
print(f"the {model.model_} model, because {model.model_reason_}")
print(f"{model.n_patterns_} patterns explain {explained:.0%} of the energy")

figure = model.plot(top=8)
figure.savefig("emails.png")

# %% [markdown]
# Each pattern is a period in which something happened: the Californian crisis in April 2001, the publication of the losses in October, the weeks before the bankruptcy in November, and the time after it in January. Other seeds give two or three patterns, so the number is not certain ([details](../enron.md)). A number in parentheses behind a name distinguishes people of the same name.
#
# ## Groups
#
# Several groups of people without contact to each other were busy in the same months. A pattern therefore has several groups, and each group holds a share of the pattern. The model does not learn from the units, so the most frequent unit of a group, and the number of members outside that unit, show how pure the group is.

# %%
for pattern in range(model.n_patterns_):
    for group in model.groups(pattern):
        members = {name for name, _ in group.rows + group.cols}
        first = ", ".join(name for name, _ in group.rows[:3])
        print(f"pattern {pattern + 1}, {group.share:3.0%}: {len(members)} people, {group.others} not {group.known}; {first}")

# %% [markdown]
# Two of the twelve groups are nearly pure: 14 people of the pipelines, and 16 people of whom all but one are traders. The other groups are mixed.
#
# ## The model as a table
#
# `to_frame` returns the model as a DataFrame with one value in each row. For example, pandas can find the strongest month of every pattern:

# %%
frame = model.to_frame()
features = frame[frame["axis"] == "feature"]
strongest = features.groupby("pattern")["value"].idxmax()
print(features.loc[strongest, ["pattern", "label", "value"]].to_string(index=False))

# %% [markdown]
# The next cell shows how much one person sent (`row`) and received (`col`) in each pattern. A negative value means less than in the person's other months.

# %%
person = frame[frame["label"] == "Jeff Dasovich"]
print(person.pivot(index="pattern", columns="axis", values="value").round(2))
