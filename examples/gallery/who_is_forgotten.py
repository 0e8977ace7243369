"""Who is forgotten

Ten handwritten digits are learned two at a time. After each task, the accuracy of every digit that was learned so
far is measured on test images. A net that is only trained on the new digits (`finetune`) forgets all others
immediately. With replay (`er`) the mean is much better, but some digits still lose more than others. `moments` keeps
sums over all rows ever seen, so it forgets nothing; its accuracy falls only because ten digits are harder to
distinguish than two.

Picture: three panels with one line for each digit, its accuracy over five tasks; the lines of finetune drop to 0,
those of er spread, those of moments stay near 1
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from faircil import FairIncrementalClassifier

x, y = load_digits(return_X_y=True)
x, test_x, y, test_y = train_test_split(x, y, test_size=0.4, random_state=0, stratify=y)
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for panel, method in zip(panels, ["finetune", "er", "moments"], strict=True):
    model = FairIncrementalClassifier(method, measure="eer", random_state=0)
    accuracy = np.full((5, 10), np.nan)  # after each task, of each digit
    for task in range(5):
        rows = y // 2 == task
        model.partial_fit(x[rows], y[rows])
        right = model.predict(test_x) == test_y
        for digit in range(2 * task + 2):
            accuracy[task, digit] = right[test_y == digit].mean()
    panel.plot(range(1, 6), accuracy, marker="o", markersize=3)
    panel.set(title=method, xlabel="task", xticks=range(1, 6))
    last = accuracy[-1]
    print(f"{method:>8}: mean {last.mean():.2f}, worst digit {last.argmin()} {last.min():.2f}")
panels[0].set_ylabel("accuracy of a digit")
figure.savefig("who-is-forgotten.png", dpi=150)
