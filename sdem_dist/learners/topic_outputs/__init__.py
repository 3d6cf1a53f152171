"""What supervised topic models predict: a file for each kind of output."""

from sdem_dist.learners.topic_outputs.classes import Classes
from sdem_dist.learners.topic_outputs.counts import Counts
from sdem_dist.learners.topic_outputs.labels import Labels
from sdem_dist.learners.topic_outputs.ordered import Ordered
from sdem_dist.learners.topic_outputs.protocol import Seen, TopicOutput
from sdem_dist.learners.topic_outputs.targets import Targets
from sdem_dist.learners.topic_outputs.words import NoOutput

OUTPUTS: dict[str, TopicOutput] = {
    "classes": Classes(),
    "ordered": Ordered(),
    "labels": Labels(),
    "targets": Targets(),
    "counts": Counts(),
    "words": NoOutput(),
}

__all__ = ["OUTPUTS", "Seen", "TopicOutput"]
