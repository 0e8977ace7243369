"""Forget a person, exactly

Forty people ask to be forgotten. The model subtracts them from its sums and solves again, which takes a moment. The
same model, fitted without them from the beginning, is the reference. The probabilities of the two agree; those of
the model before forgetting differ. Only the rows to be removed are needed.

Picture: probabilities for 500 test rows against those of a model that never saw the people; after forgetting all
points lie on the diagonal, before they lie off it
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from faircil import FairIncrementalClassifier

x, y = load_digits(return_X_y=True)
writer = np.random.default_rng(0).choice(["left-handed", "right-handed"], len(y))
stay, leave, test = slice(0, 1000), slice(1000, 1040), slice(1200, 1700)
settings = {"width": 200, "ridge": 0.1}


def fitted(rows):
    model = FairIncrementalClassifier("moments", settings=settings, random_state=0)
    return model.fit(x[rows], y[rows], sensitive_features=writer[rows])


# The first rows fix the random features; so all three models see those first.
never = fitted(stay)
model = fitted(stay)
model.partial_fit(x[leave], y[leave], sensitive_features=writer[leave])
before = model.predict_proba(x[test])
model.forget(x[leave], y[leave], sensitive_features=writer[leave])
after, reference = model.predict_proba(x[test]), never.predict_proba(x[test])
print(f"largest difference before forgetting: {abs(before - reference).max():.2f}")
print(f"largest difference after forgetting:  {abs(after - reference).max():.0e}")

figure, axes = plt.subplots(figsize=(5.5, 4.6), layout="constrained")
true = np.arange(500), y[test]
axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
axes.plot(reference[true], before[true], "o", markersize=3, color="#e08a3c", label="before")
axes.plot(reference[true], after[true], "o", markersize=2, color="#2f7ed8", label="after")
axes.set(xlabel="probability of the right digit, never learned them", ylabel="this model")
axes.legend(title="forgetting 40 people")
figure.savefig("forget-a-person.png", dpi=150)
