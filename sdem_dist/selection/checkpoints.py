"""The progress of a search in files of a folder: settings, their states, and the folds' predictions."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from sdem_dist.engine.checkpoint import Json, check_run, identity
from sdem_dist.errors import ModelError
from sdem_dist.inputs.spec import OF_THE_MACHINE
from sdem_dist.learners.several import state_of
from sdem_dist.models.word_counts import SdemState
from sdem_dist.selection.metrics import metrics_of, name_of
from sdem_dist.selection.packed import PARTS, packed, unpacked
from sdem_dist.selection.predicted import Metric, Predicted
from sdem_dist.selection.schedule import AUTO
from sdem_dist.selection.settings import Search
from sdem_dist.selection.side_by_side import Documents, Place, SideBySide, halving_of
from sdem_dist.selection.trials import Trial
from sdem_dist.storage.archive import read_archive, write_archive
from sdem_dist.storage.encoding import from_json, to_json
from sdem_dist.storage.places import place as to_place

KIND = "sdem-search"
_FIELDS = ("scores", "log_likelihood", "lengths")
_WORDS = tuple(f"words_{part}" for part in PARTS)
_HELD = ("alive", "n_epochs", "epochs", "temperature", "seconds", "dropped", "bracket", "error")


def asked(search: Search) -> Json:
    """Return the settings that a resumed search must share, under names for people; none concerns the documents."""
    settings = {name: value for name, value in search.estimator.get_params().items() if name not in OF_THE_MACHINE}
    spaces = [search.space] if isinstance(search.space, Mapping) else search.space or []
    drawn = "drawn by rvs"
    return identity(
        estimator=type(search.estimator).__name__,
        parameters=settings,
        space=[{name: drawn if hasattr(v, "rvs") else list(v) for name, v in part.items()} for part in spaces],
        sampler=search.sampler,
        metric="the default" if _is_default(search) else name_of(cast(Metric, search.metric)),
        halving=halving_of(search.estimator, search.halving),
        **{
            "settings to try": search.n_trials,
            "epochs in all": search.total_epochs,
            "epochs of a setting": search.max_epochs,
            "folds": search.cv if isinstance(search.cv, int | np.integer) else "documents",
            "seed": search.random_state,
        },
    )


def _is_default(search: Search) -> bool:
    """Whether a search has its estimator's default metric, named or not; with several labels a named one may differ."""
    of_several = (False, True) if search.estimator.spec.label_sets else (False,)
    return search.metric is None or {metrics_of(search.estimator, of)[0] for of in of_several} == {search.metric}


def path_of(folder: str | Path, search: Search, *, resume: bool, undecided: Collection[str] = ()) -> Path:
    """Return the file of a folder, which is made.

    `undecided`: parameters of the estimator that are not compared: its documents, not read yet, may settle them.
    Raises ModelError: the folder has the search of an earlier run, and `resume` is false, or it was another search;
    or it cannot be made.
    """
    folder = to_place(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cannot keep checkpoints in {folder}: {error.strerror or error}") from error
    path = folder / "search.sdem"
    if path.exists() and not resume:
        raise ModelError(f"{folder} has an earlier search: resume it (resume=True, --resume), or choose another folder")
    if path.exists():
        _, metadata = read_archive(path, KIND, [])
        now, then = asked(search), cast(Json, cast(Json, metadata["run"])["asked"])
        compared = {"estimator"}  # others have other parameters
        if now["estimator"] == then["estimator"]:
            open_yet = {"halving"} if search.halving == AUTO and "unlabelled" in undecided else set()
            compared = {*now, *then} - open_yet
        check_run(path, _compared(now, compared, undecided), {"run": _compared(then, compared, undecided)})
    return path


def _compared(asked: Json, names: Collection[str], undecided: Collection[str]) -> Json:
    """Return some of what was asked, but for some parameters of the estimator."""
    given = cast("dict[str, object]", asked["parameters"])
    settled = {name: value for name, value in given.items() if name not in undecided}
    return {name: value for name, value in {**asked, "parameters": settled}.items() if name in names}


def write(path: Path, run: Json, epoch: int, trials: list[Trial], side: SideBySide) -> None:
    """Publish the progress of a search after an epoch."""

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        for place, state in side.states():
            words = {f"words_{part}": of for part, of in packed(state.words, side.starts[place]).items()}
            for name, value in {**state._asdict(), **words}.items():
                if name != "words":
                    yield f"state_{place.trial}_{place.fold}_{name}", np.asarray(value)
        for trial in trials:
            for name, scores in trial.scores.items():
                yield f"scores_{trial.number}_{_plain(name)}", scores
            if trial.found is not None:
                for name in _FIELDS:
                    yield f"found_{trial.number}_{name}", getattr(trial.found, name)

    write_archive(path, KIND, arrays(), {"run": run, "epoch": epoch, "trials": to_json(list(map(_held, trials)))})


def _held(trial: Trial) -> dict[str, object]:
    """Return what is kept of a setting beside its arrays."""
    return {**{name: getattr(trial, name) for name in _HELD}, "scores": list(trial.scores)} | {
        "found": trial.found is not None
    }


def read(path: Path, run: Json, trials: list[Trial], documents: Documents, side: SideBySide) -> int:
    """Take up a search where it stood; return the epochs that it has run.

    Raises ModelError: the file is damaged, or (`OtherRunError`) of a search with other settings or of another corpus.
    """
    _, metadata = read_archive(path, KIND, [])
    check_run(path, run, metadata)
    held: list[dict[str, Any]] = from_json(metadata["trials"])
    numbered = [(trial.number, of) for trial, of in zip(trials, held, strict=True)]
    names = [f"found_{i}_{name}" for i, of in numbered if of["found"] for name in _FIELDS]
    names += [f"scores_{i}_{_plain(name)}" for i, of in numbered for name in of["scores"]]
    under_way = sorted({side.model_of(i) for i, of in numbered if of["alive"]})
    places = [Place(i, fold) for i in under_way for fold in range(documents.n_folds)]
    names += [f"state_{p.trial}_{p.fold}_{name}" for p in places for name in (*SdemState._fields[1:], *_WORDS)]
    arrays, _ = read_archive(path, KIND, names)
    for trial, of in zip(trials, held, strict=True):
        for name in _HELD:
            setattr(trial, name, of[name])
        trial.scores = {name: arrays[f"scores_{trial.number}_{_plain(name)}"] for name in of["scores"]}
        if of["found"]:
            found = documents.predicted(*(arrays[f"found_{trial.number}_{name}"] for name in _FIELDS))
            trial.found = found._replace(decides=trial.decides)
    side.restore({place: _state(arrays, place, side.starts[place]) for place in places})
    return int(metadata["epoch"])


def _state(arrays: Mapping[str, np.ndarray], place: Place, start: np.ndarray) -> SdemState:
    of = {name: arrays[f"state_{place.trial}_{place.fold}_{name}"] for name in (*SdemState._fields[1:], *_WORDS)}
    words = unpacked({part: of[f"words_{part}"] for part in PARTS}, start)
    return state_of((words, *(of[name] for name in SdemState._fields[1:])))


class Fitted:
    """Settings that are fitted one by one, each kept in a file: what is there is not fitted again.

    What is known of the documents, such as their labels, is the same of all settings, and in the first one's file.

    `path`: of the first setting; None keeps nothing. `run`: what a resumed search must have been asked for.
    """

    def __init__(self, path: Path | None, run: Json) -> None:
        self._path, self._run = path, run
        self._of_documents: dict[str, np.ndarray] = {}

    def restored(self, trial: Trial) -> bool:
        """Return whether a setting had been fitted for more epochs than it has; it then has the next results again.

        Raises ModelError: the file is damaged, or (`OtherRunError`) of a search with other settings or of other
        documents, or another setting was drawn in this one's place.
        """
        if self._path is None or not (path := self._file(self._path, trial, trial.trained)).exists():
            return False
        _, metadata = read_archive(path, KIND, [])
        check_run(path, self._asked(trial), metadata)
        of: dict[str, Any] = from_json(metadata["trial"])
        names = [f"scores_{_plain(name)}" for name in of["scores"]] + [f"found_{name}" for name in of["arrays"]]
        arrays, _ = read_archive(path, KIND, names)
        for name in _HELD:
            setattr(trial, name, of[name])
        trial.scores = {name: arrays[f"scores_{_plain(name)}"] for name in of["scores"]}
        if of["found"]:
            found = self._of_documents | {name: arrays[f"found_{name}"] for name in of["arrays"]}
            trial.found = Predicted(**found, decides=trial.decides)
            self._know(found)
        return True

    def keep(self, trial: Trial, before: int) -> None:
        """Publish a setting that has been fitted; it had been trained for so many epochs before."""
        if self._path is None:
            return
        found = {} if trial.found is None else trial.found._asdict()
        found = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
        new = {name: value for name, value in found.items() if name not in self._of_documents}
        arrays = {f"scores_{_plain(name)}": scores for name, scores in trial.scores.items()}
        arrays |= {f"found_{name}": value for name, value in new.items()}
        held = to_json({**_held(trial), "arrays": list(new)})
        write_archive(self._file(self._path, trial, before), KIND, arrays, {"run": self._asked(trial), "trial": held})
        self._know(found)

    def _know(self, found: dict[str, np.ndarray]) -> None:
        self._of_documents |= {name: value for name, value in found.items() if name != "scores"}

    def _asked(self, trial: Trial) -> Json:
        return {**self._run, f"setting {trial.number}": identity(**trial.params)}

    @staticmethod
    def _file(path: Path, trial: Trial, before: int) -> Path:
        number, after = (f"-{trial.number}" if trial.number else ""), (f"-after-{before}" if before else "")
        return path.with_stem(f"{path.stem}{number}{after}")


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
