"""How sure is a gap?

A system is right for 85 % of one group and for 75 % of the other, in both of its classes: a true gap of .10. How
much of that does an audit see in a sample of people? With 40 or 100 people the interval begins at 0, and the observed
gap can be anything: .06, .19. Even with 600 people it can be small by chance. From 1,500 on, it is well beyond what
chance alone would show (the grey band). A gate that allows a gap of at most .05 decides by the interval, so it says
"cannot tell" until the data suffices.

Picture: the observed gap with its 95 % interval for samples of 40 to 10,000 people; the intervals shrink around the
true gap of .10, and the band of chance shrinks to 0
"""

import matplotlib.pyplot as plt
import numpy as np

import faircil

sizes = [40, 100, 250, 600, 1500, 4000, 10000]
found = []
for size in sizes:
    random = np.random.default_rng(7)
    group, truth = random.choice(["a", "b"], size), random.integers(2, size=size)
    right = random.random(size) < np.where(group == "a", 0.85, 0.75)
    predicted = np.where(right, truth, 1 - truth)
    audit = faircil.audit(truth, predicted, sensitive_features={"group": group})
    (gap,) = audit.report().find("eo_gap")
    verdict = audit.gate(["eo_gap>0.05"]).decision.words
    print(
        f"{size:>6} people: {gap.value:.2f}, {gap.low:.2f} to {gap.high:.2f}; at most .05? {verdict}"
    )
    found.append(gap)

value, low, high, chance = np.array([(g.value, g.low, g.high, g.floor_high) for g in found]).T
figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
axes.fill_between(sizes, 0, chance, color="#dddddd", label="what chance shows, in 95 % of cases")
axes.vlines(sizes, low, high, color="#2f7ed8", linewidth=3, label="95 % interval")
axes.plot(sizes, value, "o", color="#14406f", label="observed")
axes.axhline(0.10, color="#d9480f", linestyle="--", label="true gap")
axes.set(xscale="log", xlabel="people in the audit", ylabel="eo_gap", ylim=0)
axes.legend()
figure.savefig("how-sure-is-a-gap.png", dpi=150)
