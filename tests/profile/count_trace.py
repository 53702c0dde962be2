"""count_trace.py STEPSIM FILE: what `stepsim trace FILE --json` sums up, counted again from the file alone. Prints what
differs by more than a microsecond."""
import collections, decimal, gzip, json, re, subprocess, sys

stepsim, file = sys.argv[1:]
text = subprocess.run([stepsim, "trace", file, "--json", "--kernels", "1000000000"], capture_output=True, check=True)
told = json.loads(text.stdout)
events = json.load(gzip.open(file), parse_float=decimal.Decimal)["traceEvents"]
events = [e for e in events if e.get("ph") == "X"]

def ns(us):
    return int(round(decimal.Decimal(us) * 1000))

def of_category(*names):
    return [e for e in events if str(e.get("cat")).lower() in names]

def what(e):
    if e["cat"].lower() != "kernel":
        return "copying"
    return "communicating" if re.search("nccl|all_?reduce", e["name"].lower()) else "computing"

launched = {e["args"]["correlation"]: ns(e["ts"]) for e in of_category("cuda_runtime", "cuda_driver")
            if "correlation" in e.get("args", {})}
Ran = collections.namedtuple("Ran", "begin end what stream issued name")
ran = [Ran(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), what(e), e["args"]["stream"],
           launched.get(e["args"].get("correlation"), -1), e["name"])
       for e in of_category("kernel", "gpu_memcpy", "gpu_memset")]

# A step lasts from the first kernel that was issued in its mark, on the stream that computes most, to the next one's.
computed = collections.Counter()
for r in ran:
    computed[r.stream] += (r.end - r.begin) * (r.what == "computing")
main = [r for r in ran if r.what == "computing" and r.stream == computed.most_common(1)[0][0]]
steps, outer = [], 0
for e in sorted(of_category("user_annotation"), key=lambda e: (ns(e["ts"]), -ns(e["dur"]))):
    begin, end = ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])
    mine = [r for r in main if begin <= r.issued < end]
    if e["name"].startswith(("ProfilerStep#", "execute_context_")) and end > outer and mine:
        steps.append((min(r.begin for r in mine), max(r.end for r in mine)))
        outer = end
begin, end = (steps[0][0], steps[-1][1]) if steps else (min(r.begin for r in ran), max(r.end for r in ran))
n_steps = max(len(steps), 1)
if told["ranks"][0]["steps"] and not steps:  # found by repetition, which is not repeated here: as far as they reach
    lengths = [ns(decimal.Decimal(str(s["step_s"])) * 1000000) for s in told["ranks"][0]["steps"]]
    end, n_steps = max(r.end for r in ran), len(lengths)
    begin = end - sum(lengths)

ran = [r._replace(begin=max(r.begin, begin), end=min(r.end, end)) for r in ran]
ran = [r for r in ran if r.begin < r.end]

def covered(*whats, stream=None):
    """Nanoseconds in which at least one of each of them ran."""
    edges = sorted((at, change, r.what) for r in ran if r.what in whats and stream in (None, r.stream)
                   for at, change in ((r.begin, 1), (r.end, -1)))
    running, total, before = collections.Counter(), 0, 0
    for at, change, which in edges:
        total += (at - before) * all(running[w] > 0 for w in whats)
        running[which] += change
        before = at
    return total

def union():
    total, reached = 0, begin
    for r in sorted(ran):
        total += max(r.end - max(r.begin, reached), 0)
        reached = max(reached, r.end)
    return total

wrong = []

def same(name, seconds, nanoseconds):
    if abs(seconds * 1e9 - nanoseconds) > 1000:
        wrong.append(f"{name}: stepsim {seconds * 1e6:.3f} us, counted {nanoseconds / 1000:.3f} us")

rank = told["ranks"][0]
same("step", rank["step"]["step_s"] * n_steps, end - begin)
for which in "computing", "communicating", "copying":
    same(which, rank["step"][which + "_s"] * n_steps, covered(which))
    for stream in rank["streams"]:
        same(f"{which} on stream {stream['stream']}", stream[which + "_s"] * n_steps,
             covered(which, stream=stream["stream"]))
same("hidden", rank["step"]["communicating_hidden_s"] * n_steps, covered("computing", "communicating"))
same("idle", rank["step"]["idle_s"] * n_steps, end - begin - union())
for kind, which in ("copies", "copying"), ("collectives", "communicating"):
    same(kind, rank["kinds"][kind] * n_steps, sum(r.end - r.begin for r in ran if r.what == which))
times, counts = collections.Counter(), collections.Counter()
for r in ran:
    times[r.name] += r.end - r.begin
    counts[r.name] += 1
for kernel in told["kernels"]:
    same(kernel["name"][:60], kernel["total_s"], times.pop(kernel["name"], 0))
    if kernel["count"] != counts[kernel["name"]]:
        wrong.append(f"{kernel['name'][:60]}: stepsim {kernel['count']}, counted {counts[kernel['name']]}")
same("kernels that stepsim does not list", 0, sum(times.values()))
same("collectives, row by row", sum(c["total_s"] for c in told["collectives"]),
     sum(r.end - r.begin for r in ran if r.what == "communicating"))
print(f"{n_steps} steps, {len(ran)} activities, {union() / 1e6:.3f} ms busy")
print("\n".join(wrong[:20]))
sys.exit(len(wrong) > 0)
