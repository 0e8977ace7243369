"""Accuracy or evenness: one knob

`lam` sets how much accuracy counts against evenness. A model of `moments` keeps sums, so the weights of all
groups can be chosen for any `lam`. From right to left: with a large `lam`, only the mean loss counts. With `lam=1`,
the default, the larger of the two losses in each class is minimised: the worst group gains ten points of accuracy,
at the cost of one point on average. A smaller `lam` gains nothing more. The rest of the gap is within its standard
errors, and forcing it down costs everybody, including the worst group.

Picture: accuracy, accuracy of the worst group, and gap over lam from .1 to 10; up to lam = 1 the worst group is at
.67 and the gap at .02, above it the worst group falls and the gap grows
"""

import matplotlib.pyplot as plt
import numpy as np

import faircil
from faircil import FairIncrementalClassifier


def people(rows, seed, minority):
    random = np.random.default_rng(seed)
    job, town = random.integers(4, size=rows), random.random(rows) < minority
    x = random.normal(size=(rows, 4))
    x[:, 0] += 2 * (job % 2)
    x[:, 1] += 2 * (job // 2)
    x[town, 0] += 1.5 * (job[town] // 2)  # in town, the first score means something else
    x[:, 2] += 2 * town
    return x, job, np.where(town, "town", "country")


x, job, home = people(3000, seed=1, minority=0.1)
test_x, test_job, test_home = people(8000, seed=2, minority=0.5)
lams = [0.1, 0.25, 0.5, 1, 2, 4, 10]
found = []
for lam in lams:
    model = FairIncrementalClassifier("moments", lam=lam, settings={"width": 300}, random_state=0)
    model.fit(x, job, sensitive_features=home)
    found.append(faircil.evaluate(test_job, model.predict(test_x), sensitive=test_home).values)
    one = found[-1]
    print(
        f"lam {lam:>4}: accuracy {one['accuracy']:.3f}, worst group {one['worst_group']:.3f}, "
        f"gap {one['eo_gap']:.3f}"
    )

figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for name, title in {
    "accuracy": "accuracy",
    "worst_group": "accuracy of the worst group",
    "eo_gap": "gap (eo_gap)",
}.items():
    axes.plot(lams, [one[name] for one in found], "o-", label=title)
axes.set(xscale="log", xlabel="lam: how much accuracy counts", ylim=(0, 1))
axes.legend()
figure.savefig("accuracy-or-evenness.png", dpi=150)
