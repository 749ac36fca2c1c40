# %% [markdown]
# # Recover planted patterns
#
# This example plants 150 patterns, draws a stream of tensors from them, and learns the patterns back. The learner is given neither a first guess of the patterns nor their number. The rows and cols that take part in each pattern are drawn anew for every tensor.

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
# The first tensor is enough to find all patterns and their number. The following tensors reduce the error to the last digit of a double. The error is relative, over all patterns, after the best matching of order and sign, which no method can determine.
#
# `match` needs the true patterns. Without them, two numbers tell how well the model fits. `fit` is the relative error of a tensor. The share of a pattern that its leading group of rows and cols holds is 1 if the data follows the model, and 0 if the pattern is not in this tensor.

# %%
codes = model.transform(tensor)
rows, cols, share = model.factors()
print(codes)
print(f"error of the codes {match.error_codes(codes, planted.codes(8)):.1e}")
print(f"fit {model.history_[-1]['fit']:.1e}")
print(f"row factors {rows.shape}, col factors {cols.shape}, least share {share[share > 0].min():.3f}")

# %% [markdown]
# The figure shows the error after each tensor:

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.semilogy(range(1, 9), errors, "o-", color="#0b6e99")
axes.set(xlabel="tensors seen", ylabel="error of the patterns")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("recovery.png")
