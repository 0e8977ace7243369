"""A shortcut, and a model that does not take it

Four jobs follow from two test scores. Height says nothing about a job, but it reveals the sex, and in the
records most nurses are women and most welders are men. Logistic regression uses the height and fails people who
differ from the majority in their job. `moments` weights the groups so that the shortcut does not pay. Both get the
same three columns; the sex is used in training only. The bars have 95 % intervals from an audit.

Picture: accuracy of women and men in each of four jobs, for logistic regression and for moments; with logistic
regression the bars of a job differ by about .25, with moments by less than .1
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import faircil
from faircil import FairIncrementalClassifier

JOBS, WOMEN = ["cook", "nurse", "lawyer", "welder"], [0.8, 0.9, 0.2, 0.1]


def people(rows, seed, women=WOMEN):
    random = np.random.default_rng(seed)
    number = np.repeat(range(4), rows)
    female = random.random(4 * rows) < np.array(women)[number]
    logic = random.normal(40 + 25 * (number >= 2), 13)
    language = random.normal(40 + 25 * np.isin(number, [1, 2]), 13)
    height = random.normal(np.where(female, 166, 179), 6)
    x = np.column_stack([logic, language, height])
    return x, np.array(JOBS)[number], np.where(female, "F", "M")


x, job, sex = people(300, seed=1)
test_x, test_job, test_sex = people(1000, seed=2, women=[0.5] * 4)
plain = LogisticRegression(max_iter=1000).fit(x, job)
fair = FairIncrementalClassifier("moments", random_state=0).fit(x, job, sensitive_features=sex)

figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
models = {"logistic regression": plain, "moments": fair}
for panel, (name, model) in zip(panels, models.items(), strict=True):
    audit = faircil.audit(test_job, model.predict(test_x), sensitive_features={"sex": test_sex})
    report = audit.report()
    for shift, value, colour in ((-0.2, "F", "#e08a3c"), (0.2, "M", "#2f7ed8")):
        rates = {r.label: r for r in report.rates if r.scope == ("sex",) and r.attribute == value}
        heights = np.array([rates[label].accuracy for label in JOBS])
        spread = [
            heights - [rates[label].low for label in JOBS],
            [rates[label].high for label in JOBS] - heights,
        ]
        panel.bar(np.arange(4) + shift, heights, 0.4, yerr=spread, color=colour, label=value)
    panel.set(title=name, xticks=range(4), xticklabels=JOBS)
    (gap,) = report.find("eo_gap")
    print(f"{name}: eo_gap {gap.value:.2f}, from {gap.low:.2f} to {gap.high:.2f}")
panels[0].set(ylabel="accuracy", ylim=(0, 1))
panels[0].legend(title="sex", ncols=2)
figure.savefig("a-shortcut.png", dpi=150)
