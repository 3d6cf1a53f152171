"""Events of a fit for scikit-learn's callbacks, such as its ``ProgressBar``. Since scikit-learn 1.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sdem_dist.engine.events import EpochEnded, Event, LanesEnded, RoundEnded, StageEnded, StageStarted

if TYPE_CHECKING:
    Method = TypeVar("Method", bound=Callable[..., Any])

    class CallbackSupportMixin:
        """Gives estimators `set_callbacks`."""

        def set_callbacks(self, *callbacks: object) -> Any:
            """Take the callbacks of the next fits."""

        def _init_callback_context(self, *, max_subtasks: int | None) -> Any: ...

    def with_callbacks(method: Method) -> Method:
        """Return a fit after which callbacks are closed, whatever happens."""

    CALLER: int
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks

        CALLER = 3
        """Stack level of who called `fit`, for warnings: scikit-learn's wrapper stands between."""
    except ImportError:  # scikit-learn before 1.9 has none

        class CallbackSupportMixin:
            """Nothing."""

        def with_callbacks(method):
            """Return the method itself."""
            return method

        CALLER = 2


class Tasks:
    """Tells scikit-learn's callbacks of a fit: its tasks are the stages, and theirs the epochs.

    A callback that returns True when an epoch ends, ends its stage.
    """

    may_stop = True

    def __init__(self, estimator: CallbackSupportMixin, X: object, y: object) -> None:
        self._data = {"X": X, "y": y}
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._stage: Any = None
        self._epoch: Any = None
        self._of = {"estimator": estimator}
        self._fit.call_on_fit_task_begin(**self._of, **self._data)

    def __call__(self, event: Event) -> bool:
        """Tell of a stage or an epoch, and return whether a callback asks to stop after it."""
        if isinstance(event, StageStarted):
            stage = self._fit.subcontext(task_name=event.stage, max_subtasks=event.n_epochs - event.epoch)
            self._stage = stage.call_on_fit_task_begin(**self._of)
        elif isinstance(event, EpochEnded):
            epoch, self._epoch = self._epoch, None
            return bool(epoch.call_on_fit_task_end(**self._of))
        elif isinstance(event, StageEnded):
            self._stage.call_on_fit_task_end(**self._of)
        elif isinstance(event, LanesEnded | RoundEnded) and self._epoch is None:
            self._epoch = self._stage.subcontext(task_name="epoch").call_on_fit_task_begin(**self._of)
        return False

    def fitted(self, estimator: CallbackSupportMixin) -> None:
        """Tell that the fit is over; callbacks that score get a copy of the model."""
        self._fit.call_on_fit_task_end(estimator=estimator, **self._data, reconstruction_attributes=dict)


def tasks_of(estimator: CallbackSupportMixin, X: object, y: object) -> list[Tasks]:
    """Return the adapter for the callbacks set for an estimator, or for one that it is a part of; else nothing."""
    has_callbacks = hasattr(estimator, "_skl_callbacks") or hasattr(estimator, "_parent_callback_ctx")
    return [Tasks(estimator, X, y)] if has_callbacks else []
