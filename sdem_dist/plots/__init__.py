"""Pictures of trainings and answers, with matplotlib: axes go in and come out.

``plots.history(clf.history_, "accuracy", axes)``, ``plots.confusion(clf.report(X, y))``, and so on. Without axes a new
figure of pyplot is made.
"""

from sdem_dist.plots.answers import confusion, reliability, words
from sdem_dist.plots.topics import topic, topics
from sdem_dist.plots.training import histories, history, learning_curve

__all__ = ["confusion", "histories", "history", "learning_curve", "reliability", "topic", "topics", "words"]
