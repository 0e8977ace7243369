"""The price of parity

A trained model predicts one class more often for one group than for another. Post-processing changes the predictions,
not the model: among all rules whose rates differ by at most ε between groups, it takes the most accurate one.
It needs the group of every person. The curve shows the price where classes really are distributed differently:
equal rates then mean wrong predictions, and the closer the rates get, the more each step costs.

Picture: accuracy over the largest difference of rates; accuracy falls as the difference is forced towards 0
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from faircil import EpsilonFair

CHANCES = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])  # of three classes, in two groups


def people(rows, seed):
    random = np.random.default_rng(seed)
    group = random.integers(2, size=rows)
    y = (random.random(rows)[:, None] > CHANCES[group].cumsum(axis=1)).sum(axis=1)
    return random.normal(1.5 * np.eye(3)[y]), y, group


x, y, group = people(3000, seed=1)
pool_x, _, pool_group = people(3000, seed=2)  # no labels are needed here
test_x, test_y, test_group = people(20000, seed=3)
model = LogisticRegression().fit(x, y)

gaps, accuracies = [], []
for epsilon in (0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15):
    rule = EpsilonFair(epsilon).fit(model.predict_proba(pool_x), pool_group)
    predicted = rule.predict(model.predict_proba(test_x), test_group)
    rates = [np.bincount(predicted[test_group == g], minlength=3) for g in (0, 1)]
    gap = abs(rates[0] / rates[0].sum() - rates[1] / rates[1].sum()).max()
    gaps.append(gap)
    accuracies.append((predicted == test_y).mean())
    print(f"ε = {epsilon:.2f}: rates differ by {gap:.2f}, accuracy {accuracies[-1]:.3f}")

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.plot(gaps, accuracies, "o-")
axes.set(xlabel="largest difference of rates between the groups", ylabel="accuracy", xlim=0)
figure.savefig("the-price-of-parity.png", dpi=150)
