"""How long a training step takes, and where its time and memory go.

    import stepsim
    p = stepsim.predict(model="llama-3-70b", cluster="dgx-h100", gpus=64, tp=8, pp=4, global_batch=128)
    p.step_time_s, p.mfu, p.memory_total_bytes      # every column of `stepsim sweep --csv`
    p["breakdown_s"]["tp"]                          # everything that `stepsim simulate --json` prints
    p                                               # in a notebook: the report and the timeline

Options are those of the command line, with underscores; True and False stand for on and off. A model or a cluster is a
name, a file, or a dict with what such a file says.
"""

from __future__ import annotations

import base64
import difflib
import html
import inspect
import json
import os
import tempfile
import threading
from collections import OrderedDict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Union

from ._library import COLUMNS, FAILURE, OPTIONS, PLACES, SWEEP_OPTIONS, BadInput, DoesNotFit, Error, Impossible
from ._library import arguments, check, encoded, ffi, lib, optional_text_of, row_of, text_of, value_of, value_text

if TYPE_CHECKING:
    import numpy
    import pandas
    from typing_extensions import Unpack

    from ._options import PlanOptions, SweepOptions

__all__ = ["BadInput", "Description", "DoesNotFit", "Error", "Impossible", "Prediction", "Rows", "open", "predict",
           "schedule", "sweep"]
__version__ = text_of(lib.stepsim_version())

Described = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A model or a cluster: a name, a file, or what such a file says."""


# --- what is described ---


@contextmanager
def _files_of(**described: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The same with files in place of dicts, and the folder of those."""
    with tempfile.TemporaryDirectory(prefix="stepsim-") as folder:

        def file_of(what: str, value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [file_of(what, each) for each in value]
            if not isinstance(value, Mapping):
                return value
            name = Path(str(value.get("name") or value.get("_name_or_path") or what)).name
            suffix = ".json" if what == "model" else ".yaml"  # of which JSON is a part
            place = Path(tempfile.mkdtemp(dir=folder)) / (name + suffix)
            place.write_text(json.dumps({**value, "name": name}, indent=1), encoding="utf-8")
            return str(place)

        yield {what: file_of(what, value) for what, value in described.items()}, folder


class Description:
    """A model and a cluster, read once: what is learned from a plan makes the next ones quicker to predict."""

    def __init__(self, model: Described | None, cluster: Described | None):
        failure = ffi.new(FAILURE)
        with _files_of(model=model, cluster=cluster) as (files, folder):
            names = [ffi.NULL if files[what] is None else encoded(value_text(what, files[what]))
                     for what in ("model", "cluster")]
            self._c = ffi.gc(lib.stepsim_open(*names, failure), lib.stepsim_close)
            check(failure, folder)

    def predict(self, *, must_fit: bool = False, **options: Unpack[PlanOptions]) -> Prediction:
        """One step of a plan. One that does not fit is predicted all the same, unless it must."""
        listed, kept = arguments(options.items())
        failure = ffi.new(FAILURE)
        predicted = lib.stepsim_predict(self._c, listed, failure)
        del kept
        check(failure)
        prediction = Prediction(predicted)
        if must_fit and not prediction.fits:
            raise DoesNotFit(prediction.misfit or "", prediction)
        return prediction


def open(model: Described, cluster: Described) -> Description:  # noqa: A001, as gzip.open
    """A model and a cluster, for many plans."""
    return Description(model, cluster)


# --- predictions ---


class Prediction:
    """A step as predicted. Its numbers, and its plan's options as they were completed, are attributes: those in
    dir(). What needs every event of the step, as text, JSON, arrays and pictures do, is made when it is asked for."""

    __slots__ = ("_c", "_parsed", "__weakref__")

    def __init__(self, predicted: Any):
        self._c = ffi.gc(predicted, lib.stepsim_prediction_free)
        self._parsed: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        place = PLACES.get(name)
        if place is not None:
            return value_of(lib.stepsim_row(self._c).cells[place])
        near = difflib.get_close_matches(name, COLUMNS, 1)
        raise AttributeError(f"a prediction has no {name}" + (f"; did you mean {near[0]}?" if near else ""))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *COLUMNS]

    @property
    def row(self) -> dict[str, Any]:
        """All numbers, as a row of `stepsim sweep --csv`."""
        return row_of(lib.stepsim_row(self._c))

    @property
    def fits(self) -> bool:
        """In memory: of GPUs, and of hosts and drives where the plan uses these."""
        return self.misfit is None

    @property
    def misfit(self) -> str | None:
        """Why it does not fit."""
        return optional_text_of(lib.stepsim_misfit(self._c))

    def _ask(self, function: Any, *words: Any) -> Any:
        failure = ffi.new(FAILURE)
        answer = function(self._c, *words, failure)
        check(failure)
        return answer

    @property
    def json(self) -> str:
        """What `stepsim simulate --json` prints."""
        return text_of(self._ask(lib.stepsim_json))

    def __getitem__(self, key: str) -> Any:
        """A member of that object."""
        if self._parsed is None:
            self._parsed = json.loads(self.json)
        return self._parsed[key]

    def __contains__(self, key: str) -> bool:
        return key in json.loads(self.json)

    __iter__ = None  # it has members, but is no sequence of them

    def __reduce__(self) -> Any:
        raise TypeError("a prediction stays in its process: hand over its .row or .json")

    def arrays(self) -> dict[str, numpy.ndarray]:
        """Every event: the arrays of `stepsim simulate --trace FILE.npz`. Not to be written to."""
        import numpy

        n = ffi.new("size_t *")
        listed = self._ask(lib.stepsim_arrays, n)
        return {text_of(listed[i].name): self._array(numpy, listed[i]) for i in range(n[0])}

    def _array(self, numpy: Any, array: Any) -> Any:
        kind = numpy.dtype(text_of(array.type))
        shape = (array.n_rows, array.n_columns) if array.n_columns else (array.n_rows,)
        n_bytes = array.n_rows * max(array.n_columns, 1) * kind.itemsize
        if n_bytes == 0:
            return numpy.empty(shape, kind)
        owner = ffi.gc(ffi.cast("char *", array.values), lambda _, prediction=self._c: None)  # which stays with it
        made = numpy.frombuffer(ffi.buffer(owner, n_bytes), kind).reshape(shape)
        made.flags.writeable = False
        return made

    def timeline(self) -> dict[str, numpy.ndarray]:
        """What ran when: a dict of arrays with one value for each operation, for pandas.DataFrame(); `stream`, `action`
        and `moves` are names."""
        import numpy

        all_arrays = self.arrays()
        events = {name[len("op_"):]: values for name, values in all_arrays.items() if name.startswith("op_")}
        for name, words in (("stream", "streams"), ("action", "actions"), ("moves", "moves")):
            known = numpy.append(all_arrays[words], "")  # −1 is the last: nothing
            events[name] = known[events[name]]
        return events

    def memory(self) -> dict[str, numpy.ndarray]:
        """What each simulated rank holds over the step: `rank`, `time_ns`, and a column of bytes of each kind."""
        all_arrays = self.arrays()
        held = {"rank": all_arrays["memory_rank"], "time_ns": all_arrays["memory_time_ns"]}
        for i, kind in enumerate(all_arrays["memory_kinds"]):
            held[str(kind)] = all_arrays["memory_bytes"][:, i]
        return held

    @property
    def text(self) -> str:
        """What `stepsim simulate` prints."""
        return text_of(self._ask(lib.stepsim_text))

    @property
    def svg(self) -> str:
        """The timeline, as a picture (needs gnuplot)."""
        return text_of(self._ask(lib.stepsim_svg))

    def save(self, file: str | os.PathLike[str]) -> None:
        """The trace (.json for Perfetto, .npz for numpy) or the timeline (.svg, .png, .pdf)."""
        self._ask(lib.stepsim_write, os.fsencode(file))

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_svg_(self) -> str | None:
        try:
            return self.svg
        except Error:  # no gnuplot, or nothing that takes time: there is the text
            return None

    def _repr_html_(self) -> str:
        picture = self._repr_svg_()
        text = f'<pre style="white-space:pre-wrap">{html.escape(self.text)}</pre>'
        if picture is None:
            return text
        encoded = base64.b64encode(picture.encode()).decode()  # apart, as names within pictures are the same in all
        return f'{text}<img alt="timeline" style="width:100%" src="data:image/svg+xml;base64,{encoded}">'


class _Known(threading.local):
    """Descriptions that a thread has opened, the last used last."""

    MOST = 8

    def __init__(self) -> None:
        self.all: OrderedDict[Any, Description] = OrderedDict()

    def get(self, model: Any, cluster: Any) -> Description:
        key = (_key(model), _key(cluster), os.getcwd())
        found = self.all.pop(key, None) or Description(model, cluster)
        self.all[key] = found
        if len(self.all) > self.MOST:
            self.all.popitem(last=False)
        return found


def _key(described: Any) -> Any:
    """Equal for what reads the same: a file that has changed is another one."""
    if isinstance(described, Mapping):
        return json.dumps(described)
    try:
        status = os.stat(described)
    except (OSError, TypeError, ValueError):  # a name
        return described
    return described, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_known = _Known()


def predict(*, model: Described | None = None, cluster: Described | None = None, must_fit: bool = False,
            **options: Unpack[PlanOptions]) -> Prediction:
    """One step of a plan. Raises BadInput and Impossible, each with the message of the command line; where the plan
    must fit, also DoesNotFit.

    Model and cluster are read again when their files change, but not when files that these name do: see open()."""
    return _known.get(model, cluster).predict(must_fit=must_fit, **options)


# --- many ---


class Rows(list):
    """Dicts, one for each configuration, with the columns of `stepsim sweep --csv`."""

    def to_pandas(self) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame(list(self), columns=list(self[0]) if self else None)


def sweep(*, model: Any = None, cluster: Any = None, progress: Callable[[int, int], Any] | None = None,
          **options: Unpack[SweepOptions]) -> Rows:
    """Every configuration of a space: options take lists, or texts as on the command line ("1..16*2"). `progress` is
    called with how many are done, of how many, and ends the sweep if it raises something."""
    raised: list[BaseException] = []

    @ffi.callback("int(int64_t, int64_t, void *)", onerror=lambda kind, value, trace: raised.append(value) or 0)
    def watch(n_done: int, n: int, _: Any) -> int:
        if progress is not None:
            progress(n_done, n)
        return 1

    failure = ffi.new(FAILURE)
    with _files_of(model=model, cluster=cluster) as (files, folder):
        listed, kept = arguments([*files.items(), *options.items()])
        swept = ffi.gc(lib.stepsim_sweep(listed, watch, ffi.NULL, failure), lib.stepsim_sweep_free)
        del kept
        if raised:
            lib.stepsim_free(failure.message)
            raise raised[0]
        check(failure, folder)
    rows = Rows()
    while (row := lib.stepsim_sweep_row(swept, len(rows))) != ffi.NULL:
        rows.append({"config": row.index, **row_of(row)})
    return rows


def schedule(**options: Any) -> dict[str, Any]:
    """An order of a pipeline alone, with options as `stepsim schedule` takes them: what its --json prints."""
    listed, kept = arguments(options.items())
    failure = ffi.new(FAILURE)
    answer = ffi.gc(lib.stepsim_schedule(listed, failure), lib.stepsim_free)
    del kept
    check(failure)
    return json.loads(text_of(answer))


# --- what help() and notebooks show ---


def _describe(function: Any, options: Mapping[str, Any]) -> None:
    names = [name for name in options if name not in ("model", "cluster")]
    own = [parameter for parameter in inspect.signature(function).parameters.values()
           if parameter.kind is not parameter.VAR_KEYWORD]
    taken = [inspect.Parameter(name.replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
    function.__signature__ = inspect.Signature([*own, *taken])
    lines = [f"    {name.replace('-', '_')}: {text_of(options[name].help)}" for name in names]
    function.__doc__ = "\n".join([function.__doc__ or "", "", "Options:", *lines])


_describe(predict, OPTIONS)
_describe(Description.predict, OPTIONS)
_describe(sweep, SWEEP_OPTIONS)
