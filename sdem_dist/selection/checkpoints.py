"""The progress of a search in files of a folder: what it was asked for, and the scores of each setting and fold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from sdem_dist.engine.checkpoint import Json, check_run, identity
from sdem_dist.errors import ModelError
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.selection.metrics import Metric, Predictions, metrics_of, name_of
from sdem_dist.selection.trials import FoldScores, Search, Trial
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json
from sdem_dist.storage.places import place as to_place

KIND = "sdem-search"


def asked(search: Search) -> Json:
    """Return the settings that a resumed search must share, under names for people; none concerns the documents."""
    settings = {name: value for name, value in search.estimator.get_params().items() if name not in OF_THE_MACHINE}
    spaces = [search.space] if isinstance(search.space, Mapping) else search.space or []
    return identity(
        estimator=type(search.estimator).__name__,
        parameters=settings,
        space=[{name: "drawn by rvs" if hasattr(v, "rvs") else list(v) for name, v in part.items()} for part in spaces],
        sampler=search.sampler,
        metric="the default" if _is_default(search) else name_of(cast(Metric, search.metric)),
        halving=search.halving,
        **{
            "settings to try": search.n_trials,
            "folds": search.cv if isinstance(search.cv, int | np.integer) else "documents",
            "seed": search.random_state,
        },
    )


def _is_default(search: Search) -> bool:
    """Whether a search has its estimator's default metric, named or not; with several labels a named one may differ."""
    of_several = (False, True) if search.estimator.spec.label_sets else (False,)
    return search.metric is None or {metrics_of(search.estimator, of)[0] for of in of_several} == {search.metric}


class Checkpoints:
    """A folder with a file for each setting and fold.

    `undecided`: parameters of the estimator that are not compared: its documents, not read yet, may settle them.
    Raises ModelError: the folder has the search of an earlier run, and `resume` is false, or it was another search;
    or it cannot be made.
    """

    def __init__(self, folder: str | Path, search: Search, *, resume: bool, undecided: Collection[str] = ()) -> None:
        self.folder, self.documents = to_place(folder), ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"cannot keep checkpoints in {folder}: {error.strerror or error}") from error
        path, self._asked = self.folder / "search.sdem", asked(search)
        if path.exists() and not resume:
            raise ModelError(
                f"{folder} has an earlier search: resume it (resume=True, --resume), or choose another folder"
            )
        if path.exists():
            _, metadata = read_archive(path, KIND, [])
            then = cast(Json, metadata["run"])
            names = {*self._asked, *then} if then["estimator"] == self._asked["estimator"] else {"estimator"}
            check_run(path, _compared(self._asked, names, undecided), {"run": _compared(then, names, undecided)})
        elif not undecided:
            write_archive(path, KIND, {}, {"run": self._asked})

    def restored(self, trial: Trial, fold: int) -> FoldScores | None:
        """Return the scores of a setting on a fold, or None where it was not trained; its error, if any, is set.

        Raises ModelError: the file is damaged, or (`OtherRunError`) of other settings or documents.
        """
        path = self._file(trial, fold)
        if not path.exists():
            return None
        _, metadata = read_archive(path, KIND, [])
        check_run(path, self._run(trial), metadata)
        held: dict[str, Any] = cast("dict[str, Any]", from_json(metadata["fold"]))
        arrays, _ = read_archive(path, KIND, held["arrays"])
        trial.error = held["error"]
        predictions = Predictions(**arrays) if arrays else None
        return FoldScores(held["scores"], predictions, held["seconds"])

    def keep(self, trial: Trial, fold: int, scores: FoldScores) -> None:
        """Publish the scores of a setting on a fold, or its error."""
        columns = {} if scores.predictions is None else scores.predictions.columns()
        arrays = {name: column for name, column in columns.items() if column is not None}
        held = {"scores": scores.scores, "seconds": scores.seconds, "error": trial.error, "arrays": list(arrays)}
        write_archive(self._file(trial, fold), KIND, arrays, {"run": self._run(trial), "fold": to_json(held)})

    def _run(self, trial: Trial) -> Json:
        setting = {f"setting {trial.number}": identity(**trial.params)}
        return identity(asked=self._asked, documents=self.documents, **setting)

    def _file(self, trial: Trial, fold: int) -> Path:
        return self.folder / f"setting-{trial.number}-fold-{fold}.sdem"


def _compared(run: Json, names: Collection[str], undecided: Collection[str]) -> Json:
    """Return some of what was asked, but for some parameters of the estimator."""
    parameters = cast("dict[str, object]", run["parameters"])
    settled = {name: value for name, value in parameters.items() if name not in undecided}
    return {name: value for name, value in {**run, "parameters": settled}.items() if name in names}
