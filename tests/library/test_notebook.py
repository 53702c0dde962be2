#!/usr/bin/python3
"""test_notebook.py NOTEBOOK PAGE: the notebook runs, cell by cell, and so do the blocks of the page (TAP)."""

import contextlib
import importlib.util
import io
import os
import random
import re
import sys
import tempfile
import types
from pathlib import Path

os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # the kernel's debugger has nothing to say
try:
    import ipykernel  # noqa: F401
    import nbclient
    import nbformat
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    import stepsim  # noqa: F401
except ImportError as missing:
    print(f"1..0 # SKIP {missing} for {sys.executable} (Debian's packages python3-cffi, python3-numpy, python3-pandas, "
          "python3-nbclient and python3-ipykernel)")
    sys.exit(0)

notebook, page = Path(sys.argv[1]), Path(sys.argv[2])


def stand_in_for_optuna():
    """As far as the page uses it: draws each value, and keeps the best."""

    class TrialPruned(Exception):
        pass

    class Trial:
        def suggest_categorical(self, name, values):
            return random.choice(values)

    class Study:
        best_value = None

        def optimize(self, function, n_trials):
            for _ in range(n_trials):
                try:
                    value = function(Trial())
                except TrialPruned:
                    continue
                if self.best_value is None or value > self.best_value:
                    self.best_value = value

    module = types.ModuleType("optuna")
    module.TrialPruned, module.create_study = TrialPruned, lambda direction: Study()
    return module


if importlib.util.find_spec("optuna") is None:
    sys.modules["optuna"] = stand_in_for_optuna()
n = n_failed = 0


def result(ok, name, why=""):
    global n, n_failed
    n += 1
    n_failed += not ok
    print(f"{'ok' if ok else 'not ok'} {n} - {name}")
    for line in [] if ok else str(why).splitlines():
        print(f"# {line}")


def shown(cell):
    return "".join(output.get("text", "") + "".join(map(str, output.get("data", {}).values()))
                   for output in cell.get("outputs", []))


with tempfile.TemporaryDirectory() as folder:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "HOME"):
        os.environ[name] = folder
    cells = nbformat.read(notebook, as_version=4)
    result(all(not cell.get("outputs") for cell in cells.cells), "the notebook is kept without outputs")
    place = {"metadata": {"path": folder}}
    kernel = nbclient.NotebookClient(cells, timeout=100, kernel_name="python3", resources=place)
    try:
        kernel.execute()
        result(True, "every cell runs")
    except nbclient.exceptions.CellExecutionError as error:
        result(False, "every cell runs", error)
    code = [cell for cell in cells.cells if cell.cell_type == "code"]
    result("llama-3-70b on 64" in shown(code[0]), "a prediction shows itself as text", shown(code[0])[:500])
    result("<img" in shown(code[0]) or "<svg" in shown(code[0]), "and as a picture", shown(code[0])[:500])
    told = shown(code[-1])
    result("Impossible: " in told and "DoesNotFit: " in told and "BadInput: " in told, "mistakes are told", told)

    names = {}
    os.chdir(folder)
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        first = block.strip().splitlines()[0]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, str(page), "exec"), names)
            result(True, f"the page: {first}")
        except Exception as error:  # noqa: BLE001, whatever it is
            result(False, f"the page: {first}", repr(error))
    os.chdir("/")
    result(names.get("study") is not None and 0 < names["study"].best_value < 1, "the page's search finds a plan")
print(f"1..{n}")
sys.exit(n_failed > 0)
