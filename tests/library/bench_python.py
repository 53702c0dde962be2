#!/usr/bin/python3
"""bench_python.py BENCH_LIBRARY SOURCE [N]: the same N plans (10,000), each predicted once, in Python and by a loop in
C over the library, in turn: seconds of a processor, and their ratio."""

import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

bench_library, source = sys.argv[1:3]
n_plans = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
os.environ["STEPSIM_DATA"] = source
try:
    import stepsim
except ImportError as missing:
    print(f"{missing} for {sys.executable}")
    sys.exit(77)

N_ROUNDS = 5
AXES = {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "micro_batch": [1, 2, 4], "zero": [0, 1, 2, 3],
        "recompute": ["none", "selective", "full"], "seq_len": [4096, 8192], "global_batch": [256, 512, 1024],
        "overlap_grad": [True, False], "precision": ["bf16", "fp8"]}
plans = [dict(zip(AXES, values), gpus=128) for values in itertools.product(*AXES.values())]
random.Random(1).shuffle(plans)
plans = plans[:n_plans]


def in_python():
    sum_s = 0.0
    from_s = time.process_time()
    for plan in plans:
        try:
            sum_s += stepsim.predict(model="llama-3-70b", cluster="dgx-h100", **plan).step_time_s
        except stepsim.Error:
            pass
    return time.process_time() - from_s, sum_s


with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    for plan in plans:
        texts = {name: {True: "on", False: "off"}[value] if isinstance(value, bool) else value
                 for name, value in plan.items()}
        print(*(f"{name.replace('_', '-')}={value}" for name, value in texts.items()), file=file)
    file.flush()

    def in_c():
        printed = subprocess.run([bench_library, "llama-3-70b", "dgx-h100", file.name], capture_output=True, text=True,
                                 check=True)
        n, seconds, sum_s = printed.stdout.split()
        assert int(n) == len(plans)
        return float(seconds), float(sum_s)

    c_s, python_s, ratios = [], [], []
    for i in range(N_ROUNDS):
        own = (in_python, in_c) if i % 2 else (in_c, in_python)
        first, second = own[0](), own[1]()
        (c, c_sum), (python, python_sum) = (second, first) if i % 2 else (first, second)
        assert c_sum == python_sum, (c_sum, python_sum)
        c_s.append(c), python_s.append(python), ratios.append(python / c)
print(f"{len(plans)} predictions, medians of {N_ROUNDS}: C {statistics.median(c_s):.3f} s, "
      f"Python {statistics.median(python_s):.3f} s, ratio {statistics.median(ratios):.3f} "
      f"({min(ratios):.3f} to {max(ratios):.3f})")
