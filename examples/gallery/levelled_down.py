"""Two ways to close a gap

A system grants loans. Among people who should get one, it finds 85 % of the men and 65 % of the women. Two new versions
have the same small gap. One finds more women; the other finds fewer men. The gap alone does not distinguish them, so
audits compare with the previous version: a gap that closed because the better group fell is reported as *levelled
down*, with the probability that the fall is chance.

Picture: accuracy of women and men before, and in two new versions; in one the women rise, in the other the men fall
"""

import matplotlib.pyplot as plt
import numpy as np

import faircil

VERSIONS = {"before": (0.65, 0.85), "lifted up": (0.81, 0.83), "levelled down": (0.65, 0.67)}


def audited(women, men):
    random = np.random.default_rng(3)
    sex = random.choice(["F", "M"], 4000)
    right = random.random(4000) < np.where(sex == "F", women, men)
    truth = random.choice(["grant", "refuse"], 4000)
    other = np.where(truth == "grant", "refuse", "grant")
    predicted = np.where(right | (truth == "refuse"), truth, other)
    columns = {"sex": sex}
    return faircil.audit(truth, predicted, sensitive_features=columns, favoured=["grant"])


audits = {name: audited(*rates) for name, rates in VERSIONS.items()}
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for place, (name, audit) in enumerate(audits.items()):
    report = audit.report()
    (gap,) = report.find("eopp_gap")
    print(f"{name}: gap {gap.value:.2f}")
    for one in audit.levelled_down(audits["before"]):
        print(f"  levelled down: {one.better} fell from {one.better_before:.2f} to", end=" ")
        print(f"{one.better_after:.2f}; the probability that this is chance is {one.p_value:.0e}")
    rates = [r for r in report.rates if r.scope == ("sex",) and r.label == "grant"]
    for rate, shift, colour in zip(rates, (-0.2, 0.2), ("#e08a3c", "#2f7ed8"), strict=True):
        spread = [[rate.accuracy - rate.low], [rate.high - rate.accuracy]]
        axes.bar(place + shift, rate.accuracy, 0.4, yerr=spread, color=colour)
        axes.text(place + shift, 0.05, rate.attribute, ha="center", color="white", size=14)
axes.set(xticks=range(3), xticklabels=audits, ylabel="found, of those who should get a loan")
figure.savefig("levelled-down.png", dpi=150)
