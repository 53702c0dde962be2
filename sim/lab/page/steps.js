// A step as lanes of spans, from the engine's arrays (sim/report/arrays/step_arrays.h). Times are nanoseconds from the
// begin of the step.

// Streams that share a lane, top to bottom, and the colours of what they carry.
const laneOf = {
  compute: 'compute', tp: 'tp', cp: 'cp', ep: 'ep', dp: 'dp', copy: 'offload', copy_out: 'offload', host: 'host',
  send_f: 'pp', recv_f: 'pp', send_b: 'pp', recv_b: 'pp',
  send_f_back: 'pp', recv_f_back: 'pp', send_b_back: 'pp', recv_b_back: 'pp',
}
const laneNames = ['compute', 'tp', 'cp', 'ep', 'pp', 'dp', 'offload', 'host']

class Lane {
  constructor(rank, name) { Object.assign(this, {rank, name, n: 0}) }

  allocate() {
    this.start = new Float64Array(this.n)
    this.end = new Float64Array(this.n)
    this.kind = new Uint8Array(this.n)
    this.what = new Int32Array(this.n)
    this.ready = new Float64Array(this.n) // until then it waits for the others
    this.n = 0
  }

  add(start, end, kind, what, ready = start) {
    const i = this.n++
    this.start[i] = start
    this.end[i] = end
    this.kind[i] = kind
    this.what[i] = what
    this.ready[i] = Math.min(Math.max(ready, start), end)
  }

  finish() { // by start; most are already
    const start = this.start
    let isSorted = true
    for (let i = 1; i < this.n && isSorted; i++) isSorted = start[i - 1] <= start[i]
    if (!isSorted) {
      const order = Uint32Array.from(start.keys()).sort((a, b) => start[a] - start[b] || a - b)
      for (const name of ['start', 'end', 'kind', 'what', 'ready']) {
        const before = this[name]
        this[name] = before.slice()
        for (let i = 0; i < order.length; i++) this[name][i] = before[order[i]]
      }
    }
    this.reach = new Float64Array(this.n) // the latest end so far, to search in spans that overlap
    for (let i = 0, latest = 0; i < this.n; i++) this.reach[i] = latest = Math.max(latest, this.end[i])
    return this
  }

  // The first span that may reach beyond `time`.
  from(time) {
    let low = 0, high = this.reach.length
    while (low < high) {
      const middle = low + high >> 1
      if (this.reach[middle] <= time) low = middle + 1
      else high = middle
    }
    return low
  }

  at(time, slack) {
    let found = -1
    for (let i = this.from(time - slack); i < this.start.length && this.start[i] <= time + slack; i++)
      if (this.end[i] >= time - slack && (found < 0 || this.start[i] <= time)) found = i
    return found
  }
}

// Kinds of spans, by number: charges of the engine, then actions on the compute stream.
export class Step {
  constructor(arrays) {
    this.arrays = arrays
    const [begin, end] = arrays.window_ns
    Object.assign(this, {begin, length: end - begin, nRanks: arrays.rank_first.length})
    this.kinds = [...arrays.charges, 'F', 'B', 'I', 'W', 'overlap']
    const kind = Object.fromEntries(this.kinds.map((name, i) => [name, i]))
    const lanes = Array.from({length: this.nRanks * laneNames.length}, (_, i) => new Lane(Math.floor(i / laneNames.length), laneNames[i % laneNames.length]))
    this.kernels = Array.from({length: this.nRanks}, (_, rank) => new Lane(rank, 'kernels'))
    this.idle = Array.from({length: this.nRanks}, (_, rank) => new Lane(rank, 'idle'))
    const streams = Array.from(arrays.streams, name => laneNames.indexOf(laneOf[name] || 'host'))
    const kindOfLane = laneNames.map(name => kind[name] ?? kind.compute)
    const kindOfAction = Array.from(arrays.actions, name => kind[name] ?? kind.compute) // an optimizer's op is charged to the optimizer
    const visit = put => {
      for (let i = 0; i < arrays.op_rank.length; i++) {
        const start = arrays.op_start_ns[i] - begin, stop = arrays.op_end_ns[i] - begin, on = streams[arrays.op_stream[i]]
        if (stop > 0 && stop >= start && arrays.op_start_ns[i] >= 0)
          put(lanes[arrays.op_rank[i] * laneNames.length + on], start, stop, on === 0 ? kindOfAction[arrays.op_action[i]] : kindOfLane[on], i, on === 0 ? undefined : arrays.op_ready_ns[i] - begin)
      }
      for (let i = 0; i < arrays.kernel_op.length; i++) {
        const stop = arrays.kernel_end_ns[i] - begin, on = streams[arrays.kernel_stream[i]], rank = arrays.op_rank[arrays.kernel_op[i]]
        const of = arrays.kernel_charge[i] === kind.compute ? kindOfAction[arrays.op_action[arrays.kernel_op[i]]] : arrays.kernel_charge[i]
        if (stop > 0) put(on === 0 ? this.kernels[rank] : lanes[rank * laneNames.length + on], arrays.kernel_start_ns[i] - begin, stop, of, -1 - i)
      }
      for (let i = 0; i < arrays.idle_rank.length; i++)
        put(this.idle[arrays.idle_rank[i]], arrays.idle_start_ns[i] - begin, arrays.idle_end_ns[i] - begin, arrays.idle_charge[i], i)
    }
    const all = [...lanes, ...this.kernels, ...this.idle]
    visit(lane => { lane.n++ })
    for (const lane of all) lane.allocate()
    visit((lane, start, stop, of, what, ready) => lane.add(Math.max(start, 0), stop, of, what, ready))
    for (const lane of all) lane.finish()
    this.ranks = []
    for (let rank = 0; rank < this.nRanks; rank++)
      this.ranks.push(lanes.slice(rank * laneNames.length, (rank + 1) * laneNames.length).filter(({n}) => n > 0))
    this.laneNames = laneNames.filter(name => this.ranks.some(of => of.some(one => one.name === name)))
  }

  // What is drawn is what is reported: the share of the step that is bubble, summed over what the timeline draws.
  bubble() {
    const which = this.arrays.charges.indexOf('bubble')
    let sum = 0
    for (const idle of this.idle)
      for (let i = 0; i < idle.start.length; i++) if (idle.kind[i] === which) sum += idle.end[i] - idle.start[i]
    return this.length > 0 ? sum / this.nRanks / this.length : 0
  }

  rankName(rank) {
    const stages = this.stagesOf(rank)
    return stages.length === 1 ? `stage ${stages[0]}` : `pp ${this.arrays.rank_pp[rank]}`
  }

  stagesOf(rank) {
    this.stages ??= this.arrays.op_stage.reduce((all, stage, i) => {
      if (stage >= 0 && this.arrays.streams[this.arrays.op_stream[i]] === 'compute') all[this.arrays.op_rank[i]].add(stage)
      return all
    }, Array.from({length: this.nRanks}, () => new Set()))
    return [...this.stages[rank]].sort((a, b) => a - b)
  }

  // "F 3 · mb 5", "mlp_up", "reduce grad · reduce_scatter dp".
  name(what) {
    const a = this.arrays
    if (what < 0) return a.kernel_names[a.kernel_name[-1 - what]]
    const parts = [a.actions[a.op_action[what]] + (a.op_stage[what] >= 0 ? ` ${a.op_stage[what]}` : '')]
    if (a.op_micro_batch[what] >= 0) parts.push(`mb ${a.op_micro_batch[what]}`)
    if (a.op_layer[what] > 0) parts.push(`layer ${a.op_layer[what]}`)
    if (a.op_moves[what] >= 0) parts.push(a.moves[a.op_moves[what]])
    return parts.join(' · ')
  }

  rankOf(what) { return this.arrays.op_rank[what < 0 ? this.arrays.kernel_op[-1 - what] : what] }
  startOf(what) { return (what < 0 ? this.arrays.kernel_start_ns[-1 - what] : this.arrays.op_start_ns[what]) - this.begin }
  endOf(what) { return (what < 0 ? this.arrays.kernel_end_ns[-1 - what] : this.arrays.op_end_ns[what]) - this.begin }
  causeOf(what) { return what < 0 ? this.arrays.kernel_op[-1 - what] : this.arrays.op_cause[what] }

  // Time charged to each kind between two times, mean over ranks: ops and kernels that run, and what idle time waits for.
  totals(from, to) {
    const sums = new Float64Array(this.kinds.length)
    const add = lane => {
      for (let i = lane.from(from); i < lane.start.length && lane.start[i] < to; i++)
        sums[lane.kind[i]] += Math.max(0, Math.min(lane.end[i], to) - Math.max(lane.start[i], from))
    }
    for (let rank = 0; rank < this.nRanks; rank++) {
      add(this.idle[rank])
      for (const lane of this.ranks[rank]) if (lane.name === 'compute') add(lane)
    }
    return this.kinds.map((name, i) => [name, sums[i] / this.nRanks]).filter(([, ns]) => ns > 0)
  }

  // Changes of one rank's memory: times, and bytes by kind at each.
  memoryOf(rank) {
    const a = this.arrays, times = [], rows = []
    for (let i = 0; i < a.memory_rank.length; i++)
      if (a.memory_rank[i] === rank) {
        const row = a.memory_bytes.subarray(i * a.memory_bytes.columns, (i + 1) * a.memory_bytes.columns)
        times.push(a.memory_time_ns[i] - this.begin)
        rows.push(row)
      }
    return {times, rows}
  }

  linksOf(rank) {
    const a = this.arrays, times = [], rows = []
    for (let i = 0; i < a.link_rank.length; i++)
      if (a.link_rank[i] === rank) {
        times.push(a.link_time_ns[i] - this.begin)
        rows.push(a.link_used.subarray(i * a.links.length, (i + 1) * a.links.length))
      }
    return {times, rows}
  }

  fullestRank() {
    const a = this.arrays
    let most = -1, rank = 0
    for (let i = 0; i < a.memory_rank.length; i++) {
      let sum = 0
      for (let k = 0; k < a.memory_bytes.columns; k++) sum += a.memory_bytes[i * a.memory_bytes.columns + k]
      if (sum > most) { most = sum; rank = a.memory_rank[i] }
    }
    return {rank, bytes: most}
  }
}
