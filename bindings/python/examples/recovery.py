# %% [markdown]
# # What was planted comes back
#
# We plant 150 patterns, draw a stream of tensors from them, and learn them back from nothing: no pattern is given, and not how many
# there are. Every tensor has other rows and cols in the patterns.

# %%
import matplotlib.pyplot as plt
import tensornoodl as tn

planted = tn.Planted(features=300, patterns=150, rows=100, cols=100, alpha=0.05, beta=0.05)
model = tn.TensorNOODL()
errors = []
for t in range(1, 9):
    tensor = planted.tensor(t)
    model.partial_fit(tensor)
    match = tn.match(model.components_, planted.patterns)
    errors.append(match.error)
    right = match.same_support(model.transform(tensor), planted.codes(t))
    print(f"tensor {t}: {model.n_patterns_} patterns, error {match.error:.1e}, every code in its place: {right}")

# %% [markdown]
# One tensor is enough to find all of them here, and their number; the next ones bring the error down to the last digit of a double.
# It is relative, over all patterns, up to their order and sign, which nobody can know.
#
# `match` needs the truth. Where it is not known, two numbers say how well the model fits: `fit` is the relative error of a
# tensor, and the share of a pattern that one group of rows and cols holds is 1 if the model is right (0: not in this tensor).

# %%
codes = model.transform(tensor)
rows, cols, share = model.factors()
print(codes)
print(f"error of the codes {match.error_codes(codes, planted.codes(8)):.1e}")
print(f"fit {model.history_[-1]['fit']:.1e}")
print(f"row factors {rows.shape}, col factors {cols.shape}, least share {share[share > 0].min():.3f}")

# %% [markdown]
# The error after each tensor:

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.semilogy(range(1, 9), errors, "o-", color="#0b6e99")
axes.set(xlabel="tensors seen", ylabel="error of the patterns")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("recovery.png")
