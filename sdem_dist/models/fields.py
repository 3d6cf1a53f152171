"""What one array of a state is."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Field:
    """What one array of a state is; float64."""

    shape: tuple[int | None, ...] = ()  # None is any length; () is a number
    low: float = -np.inf  # least value
    finite: bool = True  # False lets infinities and NaN through

    def check(self, name: str, value: np.ndarray) -> None:
        """Raise ValueError, with the name, unless an array has the shape and dtype of the field."""
        fits = value.ndim == len(self.shape) and all(
            wanted in (None, n) for n, wanted in zip(value.shape, self.shape, strict=True)
        )
        if not fits or value.dtype != np.float64:
            shape = tuple("any" if n is None else n for n in self.shape)
            raise ValueError(
                f"array {name!r} must be float64 of shape {shape}, and is {value.dtype} of shape {value.shape}"
            )
        if self.finite and not np.isfinite(value).all():
            raise ValueError(f"array {name!r} holds a value that is not finite")
        if (value < self.low).any():
            raise ValueError(f"array {name!r} holds {value.min():.6g}, and its least value is {self.low:g}")
