"""Who gets an answer?

A model that is allowed to say "I do not know" leaves its least certain predictions to people. A single threshold
withholds more predictions from one group than from another, and the gain in accuracy can go to groups that were
already served well. So look at both numbers, for each group, before you set a threshold.

Picture: share of answers and accuracy of the answers over the share that is withheld, for two groups; the smaller
group gets fewer answers
"""

import matplotlib.pyplot as plt
import numpy as np

from faircil import FairIncrementalClassifier
from faircil.counts import answers_by_group


def people(rows, seed):
    random = np.random.default_rng(seed)
    group, y = (random.random(rows) < 0.25).astype(int), random.integers(3, size=rows)
    distance = np.where(group == 1, 0.7, 1.2)  # of the classes: the minority is harder to tell
    centres = distance * [np.cos(2.1 * y), np.sin(2.1 * y)]
    return random.normal(centres.T, 0.6), y, group


x, y, group = people(2000, seed=1)
model = FairIncrementalClassifier("moments", settings={"width": 200}, random_state=0)
model.fit(x, y, sensitive_features=group)
test_x, test_y, test_group = people(6000, seed=2)
probability, predicted = model.predict_proba(test_x).max(axis=1), model.predict(test_x)

withheld = [0, 0.1, 0.2, 0.3, 0.4]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for value, name in enumerate(["majority", "minority"]):
    answered, accuracy = [], []
    for share in withheld:
        groups = answers_by_group(test_y, predicted, probability, share, test_group)
        own = [one for one in groups if one.attribute == value]  # one for each class
        answered.append(sum(one.answered for one in own) / sum(one.n for one in own))
        accuracy.append(np.mean([one.answered_accuracy for one in own]))
    left.plot(withheld, answered, "o-", label=name)
    right.plot(withheld, accuracy, "o-", label=name)
    print(
        f"{name}: {answered[2]:.0%} answered, {accuracy[2]:.0%} right instead of {accuracy[0]:.0%}"
    )
left.set(xlabel="withheld, of all predictions", title="share of people who get an answer")
right.set(xlabel="withheld, of all predictions", title="accuracy of the answers")
left.legend()
figure.savefig("who-gets-an-answer.png", dpi=150)
