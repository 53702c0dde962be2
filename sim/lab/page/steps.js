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
  constructor(rank, name) { Object.assign(this, {rank, name, list: []}) }

  finish() { // by start; what runs beside another on the lane's streams lies under it
    this.list.sort((a, b) => a[0] - b[0])
    const n = this.list.length
    this.start = new Float64Array(n); this.end = new Float64Array(n); this.kind = new Uint8Array(n); this.what = new Int32Array(n)
    this.list.forEach((span, i) => { [this.start[i], this.end[i], this.kind[i], this.what[i]] = span })
    let latest = 0
    this.reach = Float64Array.from(this.end, end => (latest = Math.max(latest, end))) // to search in spans that overlap
    delete this.list
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
    const lanes = new Map()
    const lane = (rank, name) => {
      const key = `${rank} ${name}`
      if (!lanes.has(key)) lanes.set(key, new Lane(rank, name))
      return lanes.get(key)
    }
    const streams = arrays.streams.map(name => laneOf[name] || 'host')
    for (let i = 0; i < arrays.op_rank.length; i++) {
      const start = arrays.op_start_ns[i], stop = arrays.op_end_ns[i]
      if (stop <= begin || start < 0 || stop < start) continue
      const on = streams[arrays.op_stream[i]], action = arrays.actions[arrays.op_action[i]]
      const of = kind[on === 'compute' ? action : on] ?? kind.compute // an optimizer's op is charged to the optimizer
      lane(arrays.op_rank[i], on).list.push([Math.max(start - begin, 0), stop - begin, of, i])
    }
    this.kernels = []
    for (let rank = 0; rank < this.nRanks; rank++) this.kernels.push(new Lane(rank, 'kernels'))
    for (let i = 0; i < arrays.kernel_op.length; i++) {
      const start = arrays.kernel_start_ns[i] - begin, stop = arrays.kernel_end_ns[i] - begin
      if (stop <= 0) continue
      const rank = arrays.op_rank[arrays.kernel_op[i]], on = streams[arrays.kernel_stream[i]]
      const into = on === 'compute' ? this.kernels[rank] : lane(rank, on)
      into.list.push([Math.max(start, 0), stop, arrays.kernel_charge[i], -1 - i])
    }
    this.idle = []
    for (let rank = 0; rank < this.nRanks; rank++) this.idle.push(new Lane(rank, 'idle'))
    for (let i = 0; i < arrays.idle_rank.length; i++)
      this.idle[arrays.idle_rank[i]].list.push(
        [arrays.idle_start_ns[i] - begin, arrays.idle_end_ns[i] - begin, arrays.idle_charge[i], i])
    for (const one of [...this.kernels, ...this.idle]) one.finish()
    this.ranks = []
    for (let rank = 0; rank < this.nRanks; rank++)
      this.ranks.push(laneNames.map(name => lanes.get(`${rank} ${name}`)).filter(Boolean).map(one => one.finish()))
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
