"""One thread of BLAS for results that must have the same bits everywhere."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS has one thread."""
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Find this process's libraries; look again only after new imports, since a search takes as long as a small fit."""
    return ThreadpoolController()
