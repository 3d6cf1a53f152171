"""Pictures of trainings and answers, with matplotlib: axes go in and come out.

``plots.history(clf.history_, "accuracy", axes)``, ``plots.confusion(clf.report(X, y))``, and so on. Without axes a new
figure of pyplot is made.
"""

from sdem_dist.plots.answers import confusion, reliability, topic, topics, words
from sdem_dist.plots.training import histories, history, learning_curve, points

__all__ = [
    "confusion",
    "histories",
    "history",
    "learning_curve",
    "points",
    "reliability",
    "topic",
    "topics",
    "words",
]
