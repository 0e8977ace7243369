"""Accuracy and fairness of predictions: pure functions of arrays, no net and no stream needed."""

from faircil.metrics.classes import accuracy as accuracy
from faircil.metrics.classes import eer as eer
from faircil.metrics.classes import eer_task as eer_task
from faircil.metrics.classes import forgetting as forgetting
from faircil.metrics.evaluation import METRICS as METRICS
from faircil.metrics.evaluation import ClassAccuracy as ClassAccuracy
from faircil.metrics.evaluation import GroupAccuracy as GroupAccuracy
from faircil.metrics.evaluation import TaskMetrics as TaskMetrics
from faircil.metrics.evaluation import evaluate as evaluate
from faircil.metrics.groups import dp as dp
from faircil.metrics.groups import dp_predicted as dp_predicted
from faircil.metrics.groups import eo as eo
from faircil.metrics.groups import eo_gap as eo_gap
