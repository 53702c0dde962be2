#!/usr/bin/env python3
"""Times of a calibrated GPU file beside those of programs that are not stepreal, on the same GPU.

    crosscheck.py products  GPU_FILE                 its matrix products, by PyTorch in CUDA graphs and under CUPTI
    crosscheck.py attention GPU_FILE                 its causal attention, by PyTorch's scaled_dot_product_attention
    crosscheck.py fp8       GPU_FILE                 products in fp8 (torch._scaled_mm) beside its bf16 ones
    crosscheck.py kernels   GPU_FILE KERNELS NCU     one step under Nsight Compute: NCU is the output of ncu --csv with
                                                     gpu__time_duration.sum, KERNELS that of stepsim simulate --kernels
    crosscheck.py stack     CONFIG                   a training step of that Llama in plain PyTorch, eager or compiled

--parse reads the files, says what would be timed and needs no PyTorch. --csv FILE appends a row per comparison: what,
shape, us by stepreal (of `stack`: --predicted), by whom else, us by it; shapes that FILE has are
not timed again. A graph replays products back to back, so no
event and no launch lies between them; operands change from product to product, so that none is left in the L2 cache.

Exit status: 0 done, 1 failed, 2 bad usage or input, 69 what it needs is not here, 75 --seconds ran out before the end.
"""
import argparse
import csv
import json
import math
import random
import re
import statistics
import sys
import time

NOT_HERE, OUT_OF_TIME = 69, 75
L2_BYTES = 300e6  # operands of products in turn exceed twice this: L2 caches have 50 to 126 MB
LEAST_US = 2000  # of products between two events, beside which the events' own time is small
REPLAYS = 7


class BadInput(Exception):
    pass


class Results:
    """Rows of the CSV file, those of an earlier run included, and their summary."""

    def __init__(self, file):
        self.ratios, self.shapes, self.file = {}, set(), None
        if not file:
            return
        self.file = open(file, "a+", newline="", encoding="utf-8")
        self.file.seek(0)
        for row in csv.reader(self.file):
            try:
                what, shape, ours_us, by, theirs_us = row
                self.note(what, shape, float(ours_us or 0), by, float(theirs_us))
            except ValueError:  # cut off
                continue

    def note(self, what, shape, ours_us, by, theirs_us):
        self.shapes.add((what, shape))
        if ours_us:
            self.ratios.setdefault((what, by), []).append((ours_us / theirs_us, shape))

    def add(self, what, shape, ours_us, by, theirs_us):
        self.note(what, shape, ours_us, by, theirs_us)
        if self.file:
            csv.writer(self.file).writerow([what, shape, f"{ours_us:.5g}" if ours_us else "", by, f"{theirs_us:.5g}"])
            self.file.flush()

    def lacks(self, what, shape):
        return (what, shape) not in self.shapes

    def say(self):
        for (what, by), ratios in self.ratios.items():
            worst = max(ratios, key=lambda r: abs(math.log(r[0])))
            print(f"{what}: stepreal / {by}: median {statistics.median(r for r, _ in ratios):.3f} of {len(ratios)}; "
                  f"worst {worst[0]:.2f} ({worst[1]})")


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.n_left_out = 0

    def in_time(self, items):
        """The items that there is time to begin."""
        for item in items:
            if time.monotonic() >= self.end:
                self.n_left_out += 1
            else:
                yield item

    def status(self):
        if self.n_left_out:
            print(f"{self.n_left_out} left out: no time is left")
        return OUT_OF_TIME if self.n_left_out else 0


def read(file):
    try:
        with open(file, encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput(f"{file}: {problem}") from None


# --- what is compared ---

class Entry(dict):
    """A line of a GPU file's measured products or attention: its fields as text."""

    def number(self, key):
        return int(self[key])

    def us(self):
        return float(self["time"].split()[0])

    def shape(self):
        return " ".join(f"{key} {value}" for key, value in self.items() if key != "time")


def entries(file):
    """(products, attention) of a GPU file as stepreal calibrate writes it: an entry per line, {key: value, …}."""
    products, attention = [], []
    for number, line in enumerate(read(file).splitlines(), 1):
        found = re.fullmatch(r"\s*- \{(number: .*, time: [0-9.e+-]+ us)\}", line)
        if not found:
            continue
        fields = [field.split(": ", 1) for field in found[1].split(", ")]
        if any(len(field) != 2 for field in fields):
            raise BadInput(f"{file}:{number}: expected {{key: value, …}}")
        entry = Entry(fields)
        (products if "layout" in entry else attention).append(entry)
    if not products:
        raise BadInput(f"{file}: no measured products in it; expected a GPU file that stepreal calibrate wrote")
    return products, attention


def shuffled(items):
    """In an order that represents all of them however early time runs out."""
    items = list(items)
    random.Random(1).shuffle(items)
    return items


def wanted_products(file):
    return shuffled(e for e in entries(file)[0] if e["batch"] == "1")


def wanted_attention(file):
    return shuffled(e for e in entries(file)[1] if "keys" not in e and "v_head_dim" not in e)


def wanted_fp8(file):
    """Forward products, whose operands are laid out as fp8 needs them, of at least 10 GFLOP."""
    def flops(e):
        return 2.0 * e.number("m") * e.number("n") * e.number("k")
    return [e for e in wanted_products(file)
            if e["number"] == "bf16" and e["layout"] == "tn" and e["accumulate"] == "no" and flops(e) >= 1e10][:24]


# --- PyTorch ---

class Torch:
    """PyTorch on the GPU; on the CPU, with --device cpu, calls are timed by the clock on the wall."""

    def __init__(self, device):
        try:
            import torch
        except ImportError as problem:
            raise SystemExit(not_here(f"no PyTorch here: {problem}")) from None
        if device == "cuda" and not torch.cuda.is_available():
            raise SystemExit(not_here(f"PyTorch {torch.__version__} finds no GPU here"))
        self.torch, self.device = torch, device
        if device == "cuda":  # graphs are captured on it, and a backward runs on its forward's stream
            self.stream = torch.cuda.Stream()
            torch.cuda.set_stream(self.stream)
        self.numbers = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

    def randn(self, *sizes, number=None):
        return self.torch.randn(*sizes, device=self.device, dtype=number or self.torch.float32)

    def synchronize(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def warm_up(self, seconds):
        """Until the clock is what it is under load."""
        if self.device != "cuda":
            return
        a = self.randn(8192, 8192, number=self.torch.bfloat16)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                a @ a
            self.torch.cuda.synchronize()

    def wall_us(self, call):
        self.synchronize()
        start = time.perf_counter()
        call()
        self.synchronize()
        return (time.perf_counter() - start) * 1e6

    def graph_us(self, calls):
        """One call, in the median of replays of a graph of these in turn."""
        for call in calls:
            call()
        once_us = min(self.wall_us(calls[0]) for _ in range(2))
        if self.device != "cuda":
            return once_us
        cuda = self.torch.cuda
        n = max(len(calls), min(200, int(LEAST_US / max(once_us, 5)) + 1))
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=self.stream):
            for i in range(n):
                calls[i % len(calls)]()
        times_us = []
        for _ in range(REPLAYS + 1):
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times_us.append(start.elapsed_time(end) * 1e3 / n)
        return statistics.median(times_us[1:])

    def cupti_us(self, calls):
        """The kernels of one call, as CUPTI timed them."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            for call in calls * 4:
                call()
            self.synchronize()
        on_gpu = self.torch.autograd.DeviceType.CUDA
        return sum(e.self_device_time_total for e in profile.key_averages() if e.device_type == on_gpu) / (4 * len(calls))

    def product_calls(self, e):
        """(functions that multiply other operands each, what they are)"""
        torch, number = self.torch, self.numbers[e["number"]]
        m, n, k = e.number("m"), e.number("n"), e.number("k")
        a = self.randn(k, m, number=number).t() if e["layout"] == "nt" else self.randn(m, k, number=number)
        n_places = max(1, min(16, int(L2_BYTES // (2 * (n * k + m * n))))) if self.device == "cuda" else 1
        adds = e["accumulate"] == "yes"

        def call(in_place):
            b = self.randn(n, k, number=number).t() if e["layout"] == "tn" else self.randn(k, n, number=number)
            c = torch.zeros(m, n, device=self.device, dtype=torch.float32 if adds else number)
            if not adds:
                return lambda: torch.mm(a, b, out=c)
            if number == torch.float32:
                return lambda: torch.addmm(c, a, b, out=c)
            if in_place:
                return lambda: torch.addmm(c, a, b, out_dtype=torch.float32, out=c)
            return lambda: torch.addmm(c, a, b, out_dtype=torch.float32)

        try:
            calls = [call(True) for _ in range(n_places)]
            calls[0]()
            return calls, "a PyTorch graph"
        except (RuntimeError, TypeError):
            if not adds:
                raise
        return [call(False) for _ in range(n_places)], "a PyTorch graph; not in place"

    def attention_call(self, e):
        torch, number = self.torch, self.numbers[e["number"]]
        size = (1, e.number("batch"), e.number("seq_len"), e.number("head_dim"))
        q, k, v = (self.randn(*size, number=number).requires_grad_(e["backward"] == "yes") for _ in range(3))
        attend = torch.nn.functional.scaled_dot_product_attention
        if e["backward"] == "no":
            return lambda: attend(q, k, v, is_causal=True)
        out = attend(q, k, v, is_causal=True)
        gradient = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)

    def cudnn_attention(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        return sdpa_kernel(SDPBackend.CUDNN_ATTENTION if self.device == "cuda" else SDPBackend.MATH)


def not_here(text):
    print(text)
    return NOT_HERE


def time_all(what, items, compare, options, deadline, results):
    """Calls compare(PyTorch, item) for each that has no result yet; one that PyTorch cannot do is said, the others go
    on. Returns 1 if it can do none."""
    print(f"{len(items)} of {what}")
    if options.parse:
        return 0
    t = Torch(options.device)
    t.torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # as stepreal's products
    t.warm_up(options.warm_up)
    items = [e for e in items if results.lacks(what, e.shape())]
    n_failed = 0
    for e in deadline.in_time(items):
        try:
            compare(t, e)
        except (RuntimeError, TypeError, AttributeError) as problem:
            n_failed += 1
            print(f"{what} {e.shape()}: left out: {str(problem).splitlines()[0][:120]}")
    return int(n_failed == len(items) > 0)


def run_products(options, deadline, results):
    items = wanted_products(options.files[0])
    under_cupti = set(e.shape() for e in items[:12]) if options.device == "cuda" else set()

    def compare(t, e):
        calls, by = t.product_calls(e)
        results.add("product", e.shape(), e.us(), by, t.graph_us(calls))
        if e.shape() in under_cupti:
            results.add("product", e.shape(), e.us(), by + "; its kernels by CUPTI", t.cupti_us(calls))

    return time_all("product", items, compare, options, deadline, results)


def run_attention(options, deadline, results):
    def compare(t, e):
        with t.cudnn_attention():
            results.add("attention", e.shape(), e.us(), "a PyTorch graph of cuDNN", t.graph_us([t.attention_call(e)]))

    return time_all("attention", wanted_attention(options.files[0]), compare, options, deadline, results)


def run_fp8(options, deadline, results):
    def compare(t, e):
        m, n, k = e.number("m"), e.number("n"), e.number("k")
        narrow, one = t.torch.float8_e4m3fn, t.torch.ones((), device=t.device)
        a, b = t.randn(m, k).to(narrow), t.randn(n, k).to(narrow).t()
        us = t.graph_us([lambda: t.torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=t.torch.bfloat16,
                                                    use_fast_accum=True)])
        results.add("product in fp8", e.shape(), e.us(), "torch._scaled_mm; stepreal in bf16", us)

    return time_all("product in fp8", wanted_fp8(options.files[0]), compare, options, deadline, results)


# --- a step under Nsight Compute ---

# Kernels of a step of a Llama by the items they belong to: name, items of stepsim, kernels of the GPU (searched in
# order).
GROUPS = [
    ("products", None, r"nvjet|gemm|cutlass|xmma|splitK|gemv|cublas"),
    ("attention", r"attention(\.backward)?$", r"cudnn|sdpa|fmha|flash"),
    ("norms", r"(final_)?norm", r"\b(norm_|sum_chunks|add_chunks)"),
    ("rope", r"rope", r"\brope"),
    ("gates", r"(silu|gelu)", r"\bactivation_"),
    ("residuals", r"residual", r"\badd\b"),
    ("loss", r"loss", r"\bloss_(?!scale)"),
    ("embedding", r"embedding", r"\b(embedding_|link_tokens)"),
]
NS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def ncu_kernels(file):
    """[(name, us)] in the order they ran."""
    lines = [line for line in read(file).splitlines() if line.startswith('"')]
    kernels = []
    for row in csv.DictReader(lines):
        if row.get("Metric Name") != "gpu__time_duration.sum":
            continue
        try:
            kernels.append((row["Kernel Name"],
                            float(row["Metric Value"].replace(",", "")) * NS[row["Metric Unit"]] * 1e-3))
        except (KeyError, ValueError, AttributeError) as problem:
            raise BadInput(f"{file}: a row without a kernel's time: {problem}") from None
    if not kernels:
        raise BadInput(f"{file}: no kernel's gpu__time_duration.sum in it")
    return kernels


def step_items(file, n_layers):
    """[(name, shape of a product or None, us)] of a micro-batch, from what stepsim simulate --kernels prints."""
    section, sections = None, {}
    for line in read(file).splitlines():
        heading = re.match(r"  (embedding|layer|head) ([FB]): ", line)
        item = re.match(r"    (\S+)\s+(?:(\S.*?)\s{2,})?([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)(\s|$)", line)
        if heading:
            section = sections.setdefault(heading[1] + heading[2], [])
        elif item and section is not None:
            shape = item[2] if re.search(r" (TN|NN|NT)$", item[2] or "") else None
            section.append((item[1], shape, float(item[5])))
    missing = [s for s in ("embeddingF", "layerF", "headF", "headB", "layerB", "embeddingB") if s not in sections]
    if missing:
        raise BadInput(f"{file}: found no {', '.join(missing)}; expected the output of stepsim simulate --kernels")
    return (sections["embeddingF"] + n_layers * sections["layerF"] + sections["headF"] + sections["headB"] +
            n_layers * sections["layerB"] + sections["embeddingB"])


def group_of_kernel(name):
    return next((group for group, _, pattern in GROUPS if re.search(pattern, name)), None)


def group_of_item(name, shape):
    if shape:
        return "products"
    return next((group for group, pattern, _ in GROUPS if pattern and re.match(pattern, name)), None)


def in_order(kernels, items):
    """Products one by one, if as many ran as the step has; the second kernel of a split product counts to the first."""
    ours, theirs = [i for i in items if i[1]], []
    for name, us in kernels:
        if group_of_kernel(name) != "products":
            continue
        if re.search("splitK.*reduce", name, re.I) and theirs:
            theirs[-1] += us
        else:
            theirs.append(us)
    return list(zip(ours, theirs)) if len(ours) == len(theirs) else []


def run_kernels(options, deadline, results):
    entries(options.files[0])  # is it a calibrated one?
    items, kernels = step_items(options.files[1], options.layers), ncu_kernels(options.files[2])
    pairs = in_order(kernels, items)
    print(f"{len(kernels)} kernels under ncu, {len(items)} items of a step; "
          f"{len(pairs) or 'no'} products of the one are those of the other")
    if options.parse:
        return 0
    if not results.lacks("sum of a step", GROUPS[0][0]):
        return 0
    for (name, shape, ours_us), theirs_us in pairs:
        results.add("product of a step", f"{name} {shape}", ours_us, "ncu", theirs_us)
    for group, _, _ in GROUPS:
        ours_us = sum(us for name, shape, us in items if group_of_item(name, shape) == group)
        theirs_us = sum(us for name, us in kernels if group_of_kernel(name) == group)
        if ours_us and theirs_us:
            results.add("sum of a step", group, ours_us, "ncu", theirs_us)
    return 0


# --- a training step of plain PyTorch ---

def llama(t, config):
    """A Llama as torchtitan writes it: separate linears for q, k, v, gate and up; RMSNorm; rotary positions."""
    torch, nn, functional = t.torch, t.torch.nn, t.torch.nn.functional
    hidden, n_heads, n_kv = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    dim = hidden // n_heads

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            x32 = x.float()
            return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight

    def rotate(x, turn):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn[:, None, :]).flatten(3).type_as(x)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq, self.wo = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
            self.wk, self.wv = (nn.Linear(hidden, n_kv * dim, bias=False) for _ in range(2))
            self.w1, self.w3 = (nn.Linear(hidden, config["intermediate_size"], bias=False) for _ in range(2))
            self.w2 = nn.Linear(config["intermediate_size"], hidden, bias=False)
            self.norm1, self.norm2 = Norm(), Norm()

        def forward(self, x, turn):
            batch, length, _ = x.shape
            y = self.norm1(x)
            q = rotate(self.wq(y).view(batch, length, n_heads, dim), turn)
            k = rotate(self.wk(y).view(batch, length, n_kv, dim), turn)
            v = self.wv(y).view(batch, length, n_kv, dim)
            k, v = (z.repeat_interleave(n_heads // n_kv, dim=2) if n_kv < n_heads else z for z in (k, v))
            y = functional.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=True)
            x = x + self.wo(y.transpose(1, 2).reshape(batch, length, hidden))
            y = self.norm2(x)
            return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(config["vocab_size"], hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(config["num_hidden_layers"]))
            self.norm, self.head = Norm(), nn.Linear(hidden, config["vocab_size"], bias=False)

        def forward(self, tokens, targets):
            x, length = self.words(tokens), tokens.shape[1]
            rates = 1e4 ** (-torch.arange(0, dim, 2, device=x.device).float() / dim)
            angles = torch.outer(torch.arange(length, device=x.device).float(), rates)
            turn = torch.polar(torch.ones_like(angles), angles)
            for layer in self.layers:
                x = layer(x, turn)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    with torch.device(t.device):
        return Llama().to(torch.bfloat16)


def run_stack(options, deadline, results):
    try:
        config = json.loads(read(options.files[0]))
        sizes = [config[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads",
                                         "num_key_value_heads", "intermediate_size", "vocab_size")]
    except (ValueError, KeyError) as problem:
        raise BadInput(f"{options.files[0]}: not a Llama's config.json: {problem}") from None
    shape = f"hidden {sizes[0]}; {sizes[1]} layers; {options.tokens} tokens; {options.micro_batches} micro-batches"
    print(f"a step of plain PyTorch, {options.mode}: {shape}")
    if options.parse or not results.lacks("step of a framework", f"{shape}; {options.mode}"):
        return 0
    t = Torch(options.device)
    torch = t.torch
    model = llama(t, config)
    if options.mode == "compiled":
        for layer in model.layers:
            layer.compile()  # one graph serves all
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=t.device == "cuda")
    tokens = torch.randint(0, config["vocab_size"], (options.micro_batches, 1, options.tokens + 1), device=t.device)

    def passes():
        for micro_batch in tokens:
            (model(micro_batch[:, :-1], micro_batch[:, 1:]) / options.micro_batches).backward()

    def update():
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times = []
    for _ in deadline.in_time(range(3 + options.steps)):
        times.append((t.wall_us(passes), t.wall_us(update)))
    timed = times[3:]
    if not timed:
        print("no step was timed")
        return OUT_OF_TIME
    step_us = statistics.median(a + b for a, b in timed)
    results.add("step of a framework", f"{shape}; {options.mode}", options.predicted * 1e6, "plain PyTorch", step_us)
    print(f"{step_us / 1e3:.2f} ms in the median of {len(timed)}, of which update "
          f"{statistics.median(b for _, b in timed) / 1e3:.2f} ms; weights, gradients and moments in bf16")
    return 0


RUNS = {"products": (run_products, 1), "attention": (run_attention, 1), "fp8": (run_fp8, 1),
        "kernels": (run_kernels, 3), "stack": (run_stack, 1)}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=RUNS)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--parse", action="store_true", help="only say what would be compared")
    parser.add_argument("--csv", metavar="FILE", help="append rows to it")
    parser.add_argument("--seconds", type=float, default=120, help="begin nothing after these (default 120)")
    parser.add_argument("--warm-up", type=float, default=1, metavar="SECONDS", help="of large products (default 1)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--layers", type=int, default=2, help="kernels: layers of the model (default 2)")
    parser.add_argument("--tokens", type=int, default=2048, help="stack: tokens of a sequence (default 2048)")
    parser.add_argument("--micro-batches", type=int, default=4, help="stack: of one sequence each (default 4)")
    parser.add_argument("--steps", type=int, default=8, help="stack: steps that are timed (default 8)")
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager")
    parser.add_argument("--predicted", type=float, default=0, metavar="SECONDS", help="stack: what stepsim predicts")
    options = parser.parse_args()
    if len(options.files) != RUNS[options.what][1]:
        parser.error(f"{options.what}: found {len(options.files)} files, expected {RUNS[options.what][1]}")
    return options


def main():
    options = parse_options()
    deadline = Deadline(options.seconds)
    try:
        results = Results(options.csv)
        status = RUNS[options.what][0](options, deadline, results)
    except (BadInput, OSError) as problem:
        print(f"crosscheck.py: {problem}", file=sys.stderr)
        return 2
    results.say()
    return int(status) or deadline.status()


if __name__ == "__main__":
    sys.exit(main())
