"""Discriminative training of generative models over corpora of any size, on Dask."""

# Names in __init__.pyi and modules such as `plots` are imported at first use, so that `import sdem_dist` is fast.

from importlib import import_module
from importlib.util import find_spec

from sdem_dist.catalogue import PUBLIC

__version__ = "0.2.0"
__all__ = sorted(PUBLIC)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    if name.isidentifier() and not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    from sdem_dist.counted import nearest

    raise AttributeError(f"module 'sdem_dist' has no attribute {name!r}. {nearest(name, PUBLIC)}".rstrip(". "))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
