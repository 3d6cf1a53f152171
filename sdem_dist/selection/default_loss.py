"""What the default of a search is: ``loss="auto"`` is settled before settings are laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sklearn.base import clone

from sdem_dist.errors import SdemError
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.inputs.spec import Source

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator


def settled(
    estimator: EngineEstimator, X: object, y: object, source: Source, n_jobs: int | None, client: Client | None
) -> EngineEstimator:
    """Return a clone of an estimator with the loss that its ``loss="auto"`` stands for on these documents.

    Held-out documents decide it in a fit, and a search has none. So the estimator is fitted once, as it is, where its
    classes may overlap: where there are three or more. Otherwise "auto" is the hinge loss.

    Parameters
    ----------
    estimator : estimator
    X, y : as its `fit` takes them
    source : Source
        Of them.
    n_jobs : int or None
    client : distributed.Client or None
    """
    found = clone(estimator)
    if type(found) is not MultinomialNB or found.loss != "auto" or found.unlabelled is not None:
        return found
    loss = "hinge"
    if len(source.classes) > 2:
        try:
            loss = cast(str, clone(estimator).set_params(n_jobs=n_jobs).fit(X, y, client=client).loss_)
        except SdemError:
            raise
        except ValueError:  # the trials say what is wrong with the settings
            return found
    return found.set_params(loss=loss)
