#!/usr/bin/python3
"""test_python.py STEPSIM DRAW_PLANS SOURCE: the Python package, against the command line (TAP)."""

import csv
import gc
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

try:
    import cffi  # noqa: F401
    import numpy
except ImportError as missing:
    print(f"1..0 # SKIP {missing} for {sys.executable} (Debian's packages python3-cffi and python3-numpy)")
    sys.exit(0)
try:
    import pandas
except ImportError:
    pandas = None

STEPSIM, DRAW_PLANS, SOURCE = sys.argv[1:4]
os.environ["STEPSIM_DATA"] = SOURCE
import stepsim  # noqa: E402, behind what it may lack

PLAN = {"gpus": 64, "tp": 8, "pp": 4, "global_batch": 64, "sequence_parallel": True}
WHAT = {"model": "llama-3-70b", "cluster": "dgx-h100"}


def run(*words):
    return subprocess.run([STEPSIM, *words], capture_output=True, text=True, encoding="utf-8", check=False)


def timeless(text):
    return re.sub(r'\n *"wall_s" : [^\n]*', "", text)


def drawn(first, n, *kind):
    lines = subprocess.run([DRAW_PLANS, SOURCE, str(first), str(n), *kind], capture_output=True, text=True, check=True)
    return [line.split() for line in lines.stdout.splitlines()]


def keywords(words):
    options = {}
    for name, value in zip(words[::2], words[1::2]):
        name = name[2:].replace("-", "_")
        if name == "slow_rank":
            options.setdefault(name, []).append(value)
        else:
            options[name] = value
    return options


def resident_bytes():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class CommandLine(unittest.TestCase):
    def test_drawn_plans_have_the_same_json_or_the_same_message(self):
        n_answers = n_messages = 0
        for words in drawn(0, 50):
            printed = run("simulate", *words, "--json")
            with self.subTest(" ".join(words)):
                try:
                    prediction = stepsim.predict(**keywords(words))
                except stepsim.Error as error:
                    self.assertEqual(f"stepsim: {error}\n", printed.stderr)
                    self.assertEqual(printed.returncode, 1 if isinstance(error, stepsim.Impossible) else 2)
                    n_messages += 1
                    continue
                self.assertEqual(timeless(prediction.json), timeless(printed.stdout))
                self.assertEqual(printed.returncode, 0 if prediction.fits else 1)
                self.assertEqual(prediction.step_time_s, prediction["step_time_s"])
                self.assertEqual(prediction.memory_peak_bytes, prediction["memory"]["peak_bytes"])
                n_answers += 1
        self.assertGreater(n_answers, 20)
        self.assertGreater(n_messages, 0)

    def test_a_sweep_has_the_rows_of_the_verb(self):
        for words in drawn(0, 3, "sweep"):
            printed = run("sweep", *words, "--csv", "-")
            rows = list(csv.DictReader(io.StringIO(printed.stdout)))
            swept = stepsim.sweep(**keywords(words))
            self.assertEqual(len(swept), len(rows))
            for ours, theirs in zip(swept, rows):
                self.assertEqual([*ours, "checksum"], list(theirs))
                for name, value in ours.items():
                    text = "" if value is None else value if isinstance(value, str) else repr(value)
                    if isinstance(value, float):
                        self.assertEqual(value, float(theirs[name]), name)
                    else:
                        self.assertEqual(text, theirs[name], name)

    def test_the_report_and_the_schedule_are_those_of_the_verbs(self):
        words = ["--model", "llama-3-70b", "--cluster", "dgx-h100", "--gpus", "64", "--tp", "8", "--pp", "4",
                 "--global-batch", "64", "--sequence-parallel", "on"]
        last = re.compile(r"events in [0-9.]+ [mu]?s")  # the wall clock's
        self.assertEqual(last.sub("", repr(stepsim.predict(**WHAT, **PLAN)) + "\n"),
                         last.sub("", run("simulate", *words).stdout))
        self.assertEqual(stepsim.schedule(schedule="zb-h1", pp=4, micro_batches=8),
                         json.loads(run("schedule", "--schedule", "zb-h1", "--pp", "4", "--micro-batches", "8",
                                        "--json").stdout))

    def test_the_trace_is_that_of_the_verb(self):
        with tempfile.TemporaryDirectory() as folder:
            stepsim.predict(**WHAT, **PLAN).save(Path(folder) / "own.npz")
            run("simulate", "--model", "llama-3-70b", "--cluster", "dgx-h100", "--gpus", "64", "--tp", "8", "--pp", "4",
                "--global-batch", "64", "--sequence-parallel", "on", "--trace", f"{folder}/verb.npz")
            self.assertEqual((Path(folder) / "own.npz").read_bytes(), (Path(folder) / "verb.npz").read_bytes())
            written = dict(numpy.load(Path(folder) / "own.npz"))
        arrays = stepsim.predict(**WHAT, **PLAN).arrays()
        self.assertEqual(list(arrays), list(written))
        for name, values in arrays.items():
            self.assertEqual(values.dtype, written[name].dtype)
            self.assertTrue(numpy.array_equal(values, written[name], equal_nan=values.dtype.kind == "f"), name)


class Answers(unittest.TestCase):
    def test_numbers_and_options_are_attributes(self):
        prediction = stepsim.predict(**WHAT, **PLAN)
        self.assertEqual((prediction.tp, prediction.dp, prediction.sequence_parallel), (8, 2, "on"))
        self.assertEqual(prediction.row["step_time_s"], prediction.step_time_s)
        self.assertIn("mfu", dir(prediction))
        with self.assertRaisesRegex(AttributeError, "did you mean step_time_s"):
            prediction.step_time  # noqa: B018
        self.assertAlmostEqual(sum(prediction["breakdown_s"].values()), prediction.step_time_s, places=6)

    def test_values_of_every_kind_are_what_the_option_takes(self):
        prediction = stepsim.predict(**WHAT, gpus=numpy.int64(64), tp=8, pp=4, schedule="auto", memory_cap=70e9,
                                     overlap_grad=False, micro_batch=None, jitter=0.01, slow_rank=["1=1.1", "9=1.2"])
        self.assertEqual((prediction.gpus, prediction.overlap_grad, prediction.jitter), (64, "off", 0.01))
        self.assertEqual(prediction.memory_cap_bytes, 70e9)

    def test_memory_and_timeline_are_arrays(self):
        prediction = stepsim.predict(**WHAT, **PLAN)
        memory, timeline = prediction.memory(), prediction.timeline()
        held = sum(values for name, values in memory.items() if name not in ("rank", "time_ns"))
        self.assertEqual(held.max(), prediction.memory_peak_bytes)
        self.assertEqual(len(timeline["start_ns"]), len(timeline["stream"]))
        self.assertIn("compute", timeline["stream"])
        with self.assertRaises(ValueError):
            timeline["start_ns"][0] = 1
        kept = prediction.arrays()["op_end_ns"]
        before = kept.sum()
        del prediction, memory, timeline
        gc.collect()
        stepsim.predict(**WHAT, **PLAN).arrays()
        self.assertEqual(kept.sum(), before)  # arrays stay when their prediction goes

    def test_a_notebook_shows_text_and_picture(self):
        prediction = stepsim.predict(**WHAT, **PLAN)
        shown = prediction._repr_html_()
        self.assertIn("llama-3-70b on 64", shown)
        if prediction._repr_svg_() is not None:
            self.assertIn("<svg", prediction._repr_svg_())
            self.assertIn("data:image/svg+xml;base64,", shown)

    def test_what_goes_to_another_process(self):
        found = stepsim.predict(model="gpt2", cluster="dgx-h100", gpus=8)
        self.assertEqual(pickle.loads(pickle.dumps(found.row)), found.row)
        with self.assertRaisesRegex(TypeError, "hand over its .row"):
            pickle.dumps(found)
        with self.assertRaises(stepsim.DoesNotFit) as raised:
            stepsim.predict(model="llama-3-70b", cluster="dgx-h100", gpus=8, must_fit=True)
        self.assertEqual(str(pickle.loads(pickle.dumps(raised.exception))), str(raised.exception))
        self.assertTrue("mfu" in found and "nothing" not in found)

    def test_a_plan_may_come_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan.yaml"
            plan.write_text("tp: 2\nzero: 1\n")
            described = stepsim.open("gpt2", "dgx-h100")
            found = described.predict(plan=str(plan), gpus=8)
            self.assertEqual((found.tp, found.zero), (2, 1))
            self.assertEqual(described.predict(plan=str(plan), gpus=8, tp=4).tp, 4)
            self.assertEqual(described.predict(gpus=8).tp, 1)
            with self.assertRaisesRegex(stepsim.BadInput, "nosuch.yaml"):
                described.predict(plan="nosuch.yaml", gpus=8)

    def test_descriptions_may_be_dicts_and_files(self):
        config = json.loads((Path(SOURCE) / "models/llama-3-70b.json").read_text())
        named = stepsim.predict(**WHAT, **PLAN)
        self.assertEqual(stepsim.predict(model=config, cluster={"base": "dgx-h100"}, **PLAN).step_time_s,
                         named.step_time_s)
        file = Path(SOURCE) / "models/llama-3-70b.json"
        self.assertEqual(stepsim.predict(model=file, cluster="dgx-h100", **PLAN).step_time_s, named.step_time_s)
        config["num_hidden_layers"] = 40
        self.assertLess(stepsim.predict(model=config, cluster="dgx-h100", **PLAN).step_time_s, named.step_time_s)
        rows = stepsim.sweep(model=[config, "llama-3-70b"], cluster="dgx-h100", gpus=64, tp=8, pp=[2, 4])
        self.assertEqual(len(rows), 4)
        with self.assertRaisesRegex(stepsim.BadInput, r"^model\.json"):  # not the name of a file that nobody made
            stepsim.predict(model={"model_type": "llama"}, cluster="dgx-h100")

    def test_a_file_that_has_changed_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "mine.json"
            config = json.loads((Path(SOURCE) / "models/gpt2.json").read_text())
            times = []
            for n_layers in (12, 24):
                file.write_text(json.dumps({**config, "n_layer": n_layers}))
                times.append(stepsim.predict(model=file, cluster="dgx-h100", gpus=8).step_time_s)
        self.assertLess(times[0], times[1])

    @unittest.skipIf(pandas is None, "no pandas")
    def test_rows_become_a_table(self):
        rows = stepsim.sweep(**WHAT, gpus=64, tp=[4, 8], pp="2..8*2")
        table = rows.to_pandas()
        self.assertEqual(len(table), 6)
        best = table[table.status == "ran"].sort_values("mfu").iloc[-1]
        self.assertEqual(best.mfu, max(row["mfu"] for row in rows if row["status"] == "ran"))
        self.assertEqual(len(stepsim.Rows().to_pandas()), 0)


class Mistakes(unittest.TestCase):
    def test_each_has_its_class_and_the_message_of_the_command_line(self):
        for options, kind, message in (
                ({"tpp": 8}, stepsim.BadInput, "unknown option --tpp; did you mean --tp?"),
                ({"tp": "x"}, stepsim.BadInput, '--tp: found "x", expected'),
                ({"tp": 8.5}, stepsim.BadInput, '--tp: found "8.5"'),
                ({"tp": {}}, stepsim.BadInput, "--tp: found a dict"),
                ({"schedule": "1f1b\0"}, stepsim.BadInput, "--schedule: found a zero byte"),
                ({"tp": [1, 2]}, stepsim.BadInput, '--tp: found "1,2"'),
                ({"tp": 3}, stepsim.Impossible, "gpus 64 is not a multiple of tp 3"),
                ({"pp": 1, "tp": 1, "must_fit": True}, stepsim.DoesNotFit, "the plan does not fit: "),
                ({"model": None}, stepsim.BadInput, "--model is missing"),
                ({"cluster": "dgx-h10"}, stepsim.BadInput, "did you mean")):
            with self.subTest(options), self.assertRaises(kind) as caught:
                stepsim.predict(**{**WHAT, **PLAN, **options})
            self.assertIn(message, str(caught.exception))
        self.assertFalse(issubclass(stepsim.Impossible, stepsim.BadInput))
        with self.assertRaises(stepsim.DoesNotFit) as caught:
            stepsim.predict(**WHAT, gpus=8, must_fit=True)
        self.assertGreater(caught.exception.prediction.memory_used, 1)
        with self.assertRaisesRegex(stepsim.BadInput, "unknown schedule"):
            stepsim.schedule(schedule="none", pp=4, micro_batches=8)
        with self.assertRaisesRegex(stepsim.BadInput, "expected a name ending"):
            stepsim.predict(**WHAT, **PLAN).save("step.txt")

    def test_nothing_is_printed(self):
        script = "\n".join((
            "import stepsim",
            "def said(function, **options):",
            "    try: function(**options)",
            "    except stepsim.Error: pass",
            "what = dict(model='gpt2', cluster='dgx-h100')",
            "for options in (dict(tp=3), dict(tpp=3), dict(gpus=8), dict(schedule='file:/nowhere'), dict(tokens='1T')):",
            "    said(stepsim.predict, **what, **options)",
            "said(stepsim.sweep, **what, gpus=[8, 16], tp='1..8*2')",
            "said(stepsim.sweep, **what, gpus=[8, 8])",
            "said(stepsim.schedule, pp=4, micro_batches=8, timeline='step.txt')",
            "said(stepsim.schedule, pp=4, micro_batches=8, trace='-')",
            "p = stepsim.predict(**what, gpus=8)",
            "p.json, p.text, p.arrays(), p._repr_html_()"))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_what_progress_raises_ends_a_sweep(self):
        def watch(n_done, n):
            self.assertLessEqual(n_done, n)
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            stepsim.sweep(**WHAT, gpus=1024, tp=[1, 2, 4, 8], pp=[1, 2, 4, 8], micro_batch="1..64", zero="0..3",
                          seq_len="1024..8192+64", prune=False, jobs=1, progress=watch)


class Many(unittest.TestCase):
    def test_ten_thousand_predictions_leave_nothing_behind(self):
        def predict_all(n):
            for i in range(n):
                try:
                    stepsim.predict(model="gpt2", cluster="dgx-h100", gpus=8, tp=1 << i % 3, micro_batch=1 + i % 7,
                                    zero=i % 5)
                except stepsim.BadInput:  # ZeRO-4
                    pass

        predict_all(1000)
        before = resident_bytes()
        predict_all(10000)
        self.assertLess(resident_bytes() - before, 2 << 20)  # 200 bytes of each

    def test_every_event_of_hundreds_leaves_nothing_behind(self):
        def ask_all(n):
            for i in range(n):
                prediction = stepsim.predict(model="gpt2", cluster="dgx-h100", gpus=8, micro_batch=1 + i % 7)
                prediction.arrays(), prediction.json, prediction.text

        ask_all(100)
        before = resident_bytes()
        ask_all(500)
        self.assertLess(resident_bytes() - before, 2 << 20)

    def test_threads_get_what_one_gets_alone(self):
        def times(into):
            into += [stepsim.predict(**WHAT, **PLAN, micro_batch=1 << i % 3).row for i in range(40)]

        alone, found = [], [[] for _ in range(4)]
        times(alone)
        threads = [threading.Thread(target=times, args=(into,)) for into in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for rows in found:
            self.assertEqual(rows, alone)


class Installed(unittest.TestCase):
    """As after `meson install --destdir stage`: 2 layers of 12 tell the installed model from that in the sources."""

    SAYS = "import stepsim; print(stepsim.predict(model='gpt2', cluster='dgx-h100', gpus=8).step_time_s)"

    def said(self, folder, **environment):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("STEPSIM_")}
        done = subprocess.run([sys.executable, "-c", self.SAYS], capture_output=True, text=True, check=False,
                              env={**plain, "PYTHONPATH": str(folder), **environment}, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return float(done.stdout)

    def test_an_installed_package_finds_its_library_and_its_data(self):
        package = Path(stepsim.__file__).parent
        library = package.parent.parent / "library" / "libstepsim.so.0"
        with tempfile.TemporaryDirectory() as folder:
            stage = Path(folder)
            installed = stage / os.environ["INSTALLED_LIBRARY"].lstrip("/")
            models = stage / os.environ["INSTALLED_DATA"].lstrip("/") / "models"
            for made in (installed, models):
                made.mkdir(parents=True)
            python = installed.parent / "python3" / "dist-packages"
            shutil.copytree(package, python / "stepsim")
            shutil.copy(library, installed)
            os.symlink(Path(SOURCE) / "topologies", models.parent / "topologies")
            config = json.loads((Path(SOURCE) / "models/gpt2.json").read_text())
            (models / "gpt2.json").write_text(json.dumps({**config, "n_layer": 2}))
            built = self.said(package.parent)
            self.assertLess(self.said(python), built)
            self.assertEqual(self.said(python, STEPSIM_LIBRARY=str(library)), built)


class Hints(unittest.TestCase):
    def test_options_are_those_of_the_command_line(self):
        import inspect

        shown = set(inspect.signature(stepsim.predict).parameters)
        helped = set(re.findall(r"^ +--([a-z0-9-]+)", run("simulate", "--help").stdout, re.M))
        files = {"trace", "timeline", "memory-plot", "link-plot", "plot", "html", "run-plot", "kernels", "dump",
                 "dump-after", "program", "json", "help"}
        helped = {name.replace("-", "_") for name in helped - files}
        self.assertLessEqual(shown - {"must_fit"}, helped)
        self.assertIn("tp", shown)
        hints = (Path(stepsim.__file__).parent / "_options.py").read_text()
        names = {}
        exec(hints, names)
        self.assertEqual(set(names["PlanOptions"].__annotations__), shown - {"model", "cluster", "must_fit"})
        self.assertIn("tensor-parallel size", stepsim.predict.__doc__)


class Tap(unittest.TextTestResult):
    n = 0

    def _line(self, test, word, note=""):
        Tap.n += 1
        print(f"{word} {Tap.n} - {test}{note}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(test, "ok", f" # SKIP {reason}")

    def addSubTest(self, test, subtest, problem):
        super().addSubTest(test, subtest, problem)
        if problem is not None:
            self._line(subtest, "not ok")

    def addFailure(self, test, problem):
        super().addFailure(test, problem)
        self._line(test, "not ok")

    def addError(self, test, problem):
        super().addError(test, problem)
        self._line(test, "not ok")


suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
result = unittest.TextTestRunner(verbosity=0, resultclass=Tap).run(suite)
print(f"1..{Tap.n}")
sys.exit(not result.wasSuccessful())
