"""The command ``sdem``."""

import atexit
import errno
import gc
import io
import logging
import os
import re
import select
import signal
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

import click

from sdem_dist import __version__
from sdem_dist.counted import nearest, visible
from sdem_dist.errors import SdemError, reraise_interrupt

DISK_ERRORS = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO
_COMMANDS = {
    "demo": ("demo", "demo", "Run a demo on a small data set."),
    "ingest": ("ingest", "ingest", "Convert text files to a corpus on disk."),
    "inspect": ("inspect", "inspect_command", "Describe and verify a corpus or a model."),
    "train": ("train", "train", "Train a model on a corpus."),
    "tune": ("tune", "tune", "Tune hyperparameters by cross-validation, and train the best model."),
    "suspects": ("tune", "suspects", "List documents that are probably mislabelled."),
    "log": ("inspect", "log", "Show a timing breakdown of a training run."),
    "evaluate": ("evaluate", "evaluate", "Evaluate a model on labelled documents."),
    "predict": ("predict", "predict", "Predict labels, numbers or clusters."),
    "transform": ("predict", "transform", "Infer topic proportions of documents."),
    "calibrate": ("evaluate", "calibrate", "Calibrate prediction sets (predict --coverage)."),
    "explain": ("evaluate", "explain", "Explain a prediction, word by word."),
    "report": ("evaluate", "report", "Write an HTML report of a model's performance."),
    "export": ("inspect", "export", "Export a model to scikit-learn or ONNX."),
    "cluster": ("cluster", "cluster", "Create certificates, and show worker settings."),
    "help": ("options", "help_command", "Explain a command, or reader options (sdem help reading)."),
    "doctor": ("doctor", "doctor", "Check this machine or a cluster."),
    "warmup": ("warmup", "warmup", "Compile all kernels, once per machine."),
}
"""Commands in the order of the help: their module, their name in it, and their line in the help."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, so that ``sdem --help`` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        if name not in _COMMANDS:
            ctx.fail(f"No such command {name!r}. {nearest(name, _COMMANDS)}".rstrip(". "))
        module, attribute, _ = _COMMANDS[name]
        return cast(click.Command, getattr(import_module(f"sdem_dist.cli.{module}"), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, _, short) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; show errors and warnings of the package as messages, without code."""
        atexit.register(gc.freeze)  # skips the garbage collection at exit: a seventh of the time of a short command
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for characters that the encoding of the terminal lacks
        show, typed = warnings.showwarning, list(ctx.args)
        if sys.stderr.isatty():
            (log := logging.getLogger("sdem_dist.kernels.jit")).setLevel(logging.INFO)
            log.handlers = [logging.StreamHandler()]

        def showwarning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if category is UserWarning:
                click.echo(f"Warning: {visible(message)}", err=True)
            else:
                show(message, category, *where, **more)

        with warnings.catch_warnings():
            warnings.showwarning = showwarning
            try:
                with reraise_interrupt():
                    result = super().invoke(ctx)
                sys.stdout.flush()
                return result
            except click.ClickException as error:
                error.message = visible(error.message)  # type: ignore[misc]
                params = error.ctx.command.params if isinstance(error, click.UsageError) and error.ctx else ()
                if isinstance(error, click.NoSuchOption) and any(p.name == "settings" for p in params):
                    estimator_of = import_module("sdem_dist.cli.train").estimator_of
                    name = error.option_name.lstrip("-").replace("-", "_")
                    chosen = re.search(r"--estimator[ =](\w+)", " ".join([*typed, "--estimator MultinomialNB"]))
                    if chosen and name in estimator_of(chosen[1], {"settings": ()}).get_params(deep=False):
                        error.possibilities = [*(error.possibilities or ()), f"--set {name}=VALUE"]  # type: ignore[misc]
                elif isinstance(error, click.NoSuchOption) and re.match("--(no-)?label|--unl", error.option_name):
                    raise click.UsageError(f"{error.option_name}: this command reads no labels", error.ctx) from None
                elif isinstance(error, click.MissingParameter) and getattr(error.param, "nargs", 1) == -1:
                    error.param = [p for p in params if isinstance(p, click.Argument)][-1]
                raise
            except KeyboardInterrupt:  # commands add notes about the files that they leave behind
                click.echo(f"Interrupted{ctx.meta.get('remains', '')}.", err=True)
                raise SystemExit(128 + signal.SIGINT) from None
            except (SdemError, ValueError, ImportError) as error:  # also invalid settings, missing packages
                raise click.ClickException(visible(error)) from error
            except MemoryError as error:
                raise click.ClickException(f"not enough memory ({str(error) or 'MemoryError'})") from error
            except OSError as error:
                if error.filename is not None:
                    raise click.ClickException(visible(f"{error.filename}: {error.strerror}")) from error
                is_closed = False
                with suppress(OSError, ValueError):  # the stream may have no file descriptor
                    poll = select.poll()
                    poll.register(sys.stdout.fileno(), 0)
                    is_closed = any(event & select.POLLERR for _, event in poll.poll(0))
                if not (error.errno in DISK_ERRORS or (error.errno == errno.EPIPE and is_closed)):
                    raise
                # The contents of its buffer are dropped: Python would try to write them again at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if error.errno == errno.EPIPE:  # the reader closed the pipe
                    raise SystemExit(128 + signal.SIGPIPE) from None
                raise click.ClickException(f"the output cannot be written: {error.strerror or error}") from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="sdem_dist")
def main() -> None:
    """Train, tune, evaluate and explain generative models of documents, on one machine or on Dask.

    \b
    Demo, which needs no data:                sdem demo
    Files with lines of label TAB text:       sdem train posts.tsv posts.model
                                              sdem evaluate posts.model test.tsv
                                              sdem predict posts.model new.txt
    Data larger than memory:                  sdem ingest posts.tsv posts.zarr --held-out 0.1
                                              sdem train posts.zarr posts.model
                                              sdem evaluate posts.model posts.zarr-held-out
    """  # noqa: D301  the backspace tells click not to rewrap these lines
