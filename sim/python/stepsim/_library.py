"""libstepsim by way of cffi, as its header declares it, and what both sides call the same things."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from cffi import FFI

if TYPE_CHECKING:
    from . import Prediction

_HERE = Path(__file__).resolve().parent
_SONAME = "libstepsim.so.0"


class Error(Exception):
    """What the command line would have said."""


class BadInput(Error, ValueError):
    """An option, a file or a value is wrong (exit status 2)."""


class Impossible(Error):
    """The plan cannot be run, or not be modelled (exit status 1)."""


class DoesNotFit(Impossible):
    """The plan needs more memory than there is; `prediction` has its numbers all the same."""

    def __init__(self, message: str, prediction: Prediction | None = None):
        super().__init__(message)
        self.prediction = prediction

    def __reduce__(self) -> Any:  # to another process, where the prediction is not
        return (DoesNotFit, (str(self),))


def _declarations() -> str:
    """The header without what is for the preprocessor and for C++."""
    lines, is_cpp = [], False
    for line in (_HERE / "stepsim.h").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            is_cpp = line.startswith("#ifdef __cplusplus")
        elif not is_cpp:
            lines.append(line)
    return "\n".join(lines)


def _files() -> Iterator[str]:
    """Where the library may be: as said, in the build folder, in the installation that this package is part of, or
    wherever the system looks."""
    if os.environ.get("STEPSIM_LIBRARY"):
        yield os.environ["STEPSIM_LIBRARY"]
        return
    yield str(_HERE.parent.parent / "library" / _SONAME)
    for folder in _HERE.parents:
        for place in ("lib", "lib/*-linux-*", "lib64"):
            yield from sorted(glob.glob(str(folder / place / _SONAME)))
    yield _SONAME


def _open() -> Any:
    tried = []
    for file in _files():
        if "/" in file and not os.path.exists(file):
            tried.append(f"{file}: no such file")
            continue
        try:
            return ffi.dlopen(file)
        except OSError as error:
            tried.append(str(error))
    raise ImportError("libstepsim is not found; STEPSIM_LIBRARY may name it. Tried: " + "; ".join(tried))


ffi = FFI()
ffi.cdef(_declarations())
lib: Any = _open()
FAILURE = ffi.typeof("StepsimFailure *")


def text_of(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def optional_text_of(pointer: Any) -> str | None:
    return text_of(pointer) if pointer else None


def _all(nth: Any) -> Iterator[Any]:
    i = 0
    while (found := nth(i)) != ffi.NULL:
        yield found
        i += 1


OPTIONS = {text_of(option.name): option for option in _all(lib.stepsim_option)}
"""Those of a plan, by their names on the command line."""
SWEEP_OPTIONS = {text_of(option.name): option for option in _all(lib.stepsim_sweep_option)}
COLUMNS = tuple(text_of(name) for name in _all(lib.stepsim_column))
"""The numbers of a prediction, and its plan's options."""
PLACES = {name: i for i, name in enumerate(COLUMNS)}


def value_of(cell: Any) -> Any:
    kind = cell.type
    if kind == lib.STEPSIM_REAL:
        return cell.real
    if kind == lib.STEPSIM_WHOLE:
        return cell.whole
    return text_of(cell.text) if kind == lib.STEPSIM_TEXT else None


def row_of(row: Any) -> dict[str, Any]:
    """As `stepsim sweep --csv` has it."""
    values: dict[str, Any] = {
        "status": text_of(row.status), "kind": optional_text_of(row.kind), "reason": optional_text_of(row.reason)}
    cells = row.cells
    for i, name in enumerate(COLUMNS):
        values[name] = value_of(cells[i])
    return values


def value_text(name: str, value: Any) -> str:
    """A value as its option takes it on the command line."""
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        value = value.tolist()
    if value is True or value is False:
        return "on" if value else "off"
    if isinstance(value, float):
        return repr(value) + ("B" if name in OPTIONS and text_of(OPTIONS[name].kind) == "bytes" else "")
    if isinstance(value, (list, tuple, range)):
        return ",".join(value_text(name, each) for each in value)
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    raise BadInput(f"--{name}: found a {type(value).__name__}, expected a number, a text or a list of some")


_REPEATED = {name for name, option in OPTIONS.items() if option.is_repeated}
_PLAIN = frozenset((bool, int, float, str))
_MOST_KNOWN = 10000
_known: dict[tuple[str, type, Any], Any] = {}  # made before: loops say the same of most options again and again


def _arguments_of(name: str, value: Any) -> list[Any]:
    name = name.replace("_", "-")
    texts = [value_text(name, each) for each in value] if name in _REPEATED and isinstance(value, (list, tuple)) else [
        value_text(name, value)]
    for text in texts:
        if "\0" in text:
            raise BadInput(f"--{name}: found a zero byte")
    return [ffi.new("char[]", encoded(f"{name}={text}")) for text in texts]


def arguments(options: Iterable[tuple[str, Any]]) -> tuple[Any, list[Any]]:
    """The list that the library takes, and what it points to."""
    kept = []
    for name, value in options:
        kind = type(value)
        if kind in _PLAIN:
            made = _known.get((name, kind, value))
            if made is None:
                made = _arguments_of(name, value)[0]
                if len(_known) >= _MOST_KNOWN:
                    _known.clear()
                _known[name, kind, value] = made
            kept.append(made)
        elif value is not None:
            kept += _arguments_of(name, value)
    kept.append(ffi.NULL)
    return ffi.new(_ARGUMENTS, kept), kept


_ARGUMENTS = ffi.typeof("char *[]")


def check(failure: Any, folder: str | None = None) -> None:
    """Raises what the library reports; `folder`: has files in folders, all of which nobody named."""
    if failure.status == 0:
        return
    message = text_of(failure.message)
    if folder is not None:
        message = re.sub(re.escape(folder) + "/[^/]*/", "", message)
    lib.stepsim_free(failure.message)
    raise (Impossible if failure.status == 1 else BadInput)(message)
