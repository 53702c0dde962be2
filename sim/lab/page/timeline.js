// The step drawn: a band of lanes for each recorded rank, and under it memory and links on the same axis.
//
// A lane is painted as one row of pixels, by walking its spans once, and the row is copied down its height: the cost of a
// frame is the spans in view plus the pixels, whatever overlaps, so that 100,000 events move at the display's rate.

import {Step} from './steps.js'
import {actionColours, bytes, chargeColours, css, linkColours, memoryColours, number, rgba, seconds} from './look.js'

const LEFT = 74 // px, for the ranks' names
const KERNELS_FROM = 2 // px of a mean kernel, from which kernels are drawn
const weights = {compute: 3, tp: 1, cp: 1, ep: 1, pp: 1, dp: 1, offload: 1, host: 0.7}

export class Timeline {
  constructor(canvases, say, tip, {onZoom} = {}) {
    Object.assign(this, {canvases, say, tip, onZoom, steps: [], from: 0, to: 1, rank: 0, scroll: 0, chosen: null, hover: null})
    this.frames = []
    this.showsCritical = false
    const canvas = canvases.timeline
    canvas.addEventListener('wheel', event => this.wheel(event), {passive: false})
    canvas.addEventListener('pointerdown', event => this.down(event))
    canvas.addEventListener('pointermove', event => this.move(event))
    canvas.addEventListener('pointerup', event => this.up(event))
    canvas.addEventListener('pointerleave', () => { this.hover = null; this.tip.hidden = true; this.draw() })
    canvas.addEventListener('dblclick', () => this.whole())
    canvas.addEventListener('keydown', event => this.key(event))
    for (const name of ['memory', 'links']) {
      canvases[name].addEventListener('pointermove', event => this.tellCurve(name, event))
      canvases[name].addEventListener('pointerleave', () => { this.tip.hidden = true })
    }
    new ResizeObserver(() => this.draw()).observe(canvas)
    this.paint()
  }

  paint() { // colours by kind, in the current theme
    this.colours = null
    this.draw()
  }

  // One step, or two to be compared on one axis: [{step, title, capacity}].
  show(steps) {
    this.steps = steps
    this.length = Math.max(...steps.map(({step}) => step.length), 1)
    if (!(this.to > this.from && this.from >= 0 && this.to <= 1)) { this.from = 0; this.to = 1 }
    const first = steps[0]?.step
    if (first) {
      this.rank = Math.min(this.rank, first.nRanks - 1)
      if (!this.hasChosenRank) this.rank = first.fullestRank().rank
      this.memory = null
    }
    this.chosen = this.hover = null
    this.draw()
  }

  whole() { this.from = 0; this.to = 1; this.scroll = 0; this.zoomed() }

  zoomed() {
    const width = Math.min(1, Math.max(this.to - this.from, 20 / this.length))
    this.from = Math.min(Math.max(0, this.from), 1 - width)
    this.to = this.from + width
    this.onZoom?.(this.from, this.to)
    this.draw()
  }

  zoom(factor, at = 0.5) {
    const middle = this.from + at * (this.to - this.from), width = (this.to - this.from) * factor
    this.from = middle - at * width
    this.to = middle + (1 - at) * width
    this.zoomed()
  }

  pan(share) {
    const by = share * (this.to - this.from)
    this.from += by
    this.to += by
    this.zoomed()
  }

  place(event) { // in CSS px of the canvas
    const box = this.canvases.timeline.getBoundingClientRect()
    return {x: event.clientX - box.left, y: event.clientY - box.top, width: box.width, height: box.height}
  }

  wheel(event) {
    event.preventDefault()
    const {x, width} = this.place(event)
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / width)
    else if (event.altKey) { this.scroll += event.deltaY; this.draw() }
    else this.zoom(Math.exp(event.deltaY * 0.0018), Math.min(1, Math.max(0, (x - LEFT) / (width - LEFT))))
  }

  down(event) {
    this.canvases.timeline.setPointerCapture?.(event.pointerId)
    const at = this.place(event)
    this.drag = {...at, from: this.from, to: this.to, scroll: this.scroll, moved: false, brush: event.shiftKey}
  }

  move(event) {
    const at = this.place(event), drag = this.drag
    if (!drag) return this.look(at, event)
    drag.moved ||= Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > 3
    if (!drag.moved) return
    if (drag.brush) { this.brush = [this.timeAt(drag.x, at.width), this.timeAt(at.x, at.width)].sort((a, b) => a - b); return this.draw() }
    const by = (at.x - drag.x) / (at.width - LEFT) * (drag.to - drag.from)
    this.from = drag.from - by
    this.to = drag.to - by
    this.scroll = drag.scroll - (at.y - drag.y)
    this.zoomed()
  }

  up(event) {
    const drag = this.drag
    this.drag = null
    if (drag?.brush && this.brush) return this.tellBrush(event)
    if (!drag || drag.moved) return
    this.brush = null
    const found = this.find(this.place(event))
    if (found) this.choose(found)
  }

  choose(found) {
    this.chosen = found
    if (this.rank !== found.rank) { this.rank = found.rank; this.hasChosenRank = true; this.memory = null }
    this.say.textContent = this.tell(found)
    this.draw()
  }

  timeAt(x, width) { return (this.from + (x - LEFT) / (width - LEFT) * (this.to - this.from)) * this.length }
  xOf(time, width) { return LEFT + (time / this.length - this.from) / (this.to - this.from) * (width - LEFT) }

  // The bands in CSS px: [{view, rank, top, height, lanes: [{lane, top, height}]}].
  bands(height) {
    const bands = [], all = this.steps.reduce((n, {step}) => n + step.nRanks, 0)
    if (!all) return bands
    const room = height - 18 - (this.steps.length - 1) * 16, each = Math.max(13, Math.min(120, room / all))
    const total = each * all + (this.steps.length - 1) * 16
    this.scroll = Math.min(Math.max(0, this.scroll), Math.max(0, total - (height - 18)))
    let top = -this.scroll
    this.steps.forEach(({step}, view) => {
      if (view > 0) top += 16
      for (let rank = 0; rank < step.nRanks; rank++, top += each) {
        const names = step.laneNames, sum = names.reduce((all, name) => all + weights[name], 0)
        const inner = each - (each > 20 ? 4 : 2), lanes = []
        let at = top + 1
        for (const name of names) {
          const tall = inner * weights[name] / sum
          lanes.push({name, lane: step.ranks[rank].find(lane => lane.name === name), top: at, height: tall})
          at += tall
        }
        bands.push({view, step, rank, top, height: each, lanes})
      }
    })
    return bands
  }

  look(at, event) {
    const found = this.find(at)
    this.hover = found
    this.tip.hidden = !found
    if (found) {
      this.tip.textContent = this.tell(found)
      this.placeTip(event)
    }
    this.draw()
  }

  placeTip(event) {
    this.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - this.tip.offsetWidth - 8)}px`
    this.tip.style.top = `${Math.min(event.clientY + 16, innerHeight - this.tip.offsetHeight - 8)}px`
  }

  find({x, y, width, height}) {
    const band = this.bands(height).find(band => y >= band.top && y < band.top + band.height)
    if (!band || x < LEFT) return null
    const time = this.timeAt(x, width), slack = (this.to - this.from) * this.length / (width - LEFT)
    const row = band.lanes.find(({top, height: tall}) => y >= top && y < top + tall)
    if (!row) return null
    const {step, rank, view} = band
    if (row.name === 'compute' && this.seesKernels(step, width) && y > row.top + row.height * 0.45) {
      const i = step.kernels[rank].at(time, slack)
      if (i >= 0) return {step, view, rank, what: step.kernels[rank].what[i]}
    }
    const i = row.lane ? row.lane.at(time, slack) : -1
    if (i >= 0) return {step, view, rank, what: row.lane.what[i]}
    const gap = row.name === 'compute' ? step.idle[rank].at(time, slack) : -1
    return gap >= 0 ? {step, view, rank, gap} : null
  }

  tell({step, rank, what, gap}) {
    const where = `${step.rankName(rank)} (rank ${step.arrays.rank_first[rank]})`
    if (gap !== undefined) {
      const idle = step.idle[rank]
      return `idle: ${step.kinds[idle.kind[gap]]}\n${where} · ${seconds((idle.end[gap] - idle.start[gap]) * 1e-9)}`
    }
    const a = step.arrays, start = step.startOf(what), end = step.endOf(what)
    const lines = [step.name(what), `${where} · ${seconds((end - start) * 1e-9)} from ${seconds(start * 1e-9)}`]
    if (what < 0) return [...lines, `part of ${step.name(step.causeOf(what))}`].join('\n')
    if (Number.isFinite(a.op_bytes[what])) lines.push(bytes(a.op_bytes[what]))
    if (a.op_flops[what] > 0) lines.push(`${number(a.op_flops[what] / 1e12)} TFLOP, ${number(a.op_flops[what] / (end - start) / 1e3)} TFLOP/s`)
    const waits = a.op_ready_ns[what] - step.begin - start
    if (waits > 0) lines.push(`waits ${seconds(waits * 1e-9)} for the others`)
    const cause = step.causeOf(what)
    lines.push(cause < 0 ? 'follows: the host' : `follows: ${step.name(cause)}` +
      (a.op_rank[cause] === rank ? '' : ` of ${step.rankName(a.op_rank[cause])}`))
    if (a.op_critical[what]) lines.push('on the critical path')
    return lines.join('\n')
  }

  tellBrush(event) {
    const [from, to] = this.brush, step = this.steps[0].step
    const lines = step.totals(from, to).map(([name, ns]) => `${name}: ${seconds(ns * 1e-9)} (${(100 * ns / (to - from)).toFixed(1)} %)`)
    this.tip.textContent = [`${seconds((to - from) * 1e-9)}, mean over ranks`, ...lines].join('\n')
    this.say.textContent = this.tip.textContent
    this.tip.hidden = false
    this.placeTip(event)
    this.draw()
  }

  key(event) {
    const moves = {
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
      '+': () => this.zoom(0.7), '=': () => this.zoom(0.7), '-': () => this.zoom(1 / 0.7), Home: () => this.whole(),
      ArrowUp: () => this.chooseRank(this.rank - 1), ArrowDown: () => this.chooseRank(this.rank + 1),
      '.': () => this.next(1), ',': () => this.next(-1), w: () => this.toCause(),
      Escape: () => { this.chosen = this.brush = null; this.tip.hidden = true; this.draw() },
    }
    if (!(event.key in moves) || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    moves[event.key]()
  }

  chooseRank(rank) {
    const step = this.steps[0]?.step
    if (!step) return
    this.rank = Math.min(Math.max(0, rank), step.nRanks - 1)
    this.hasChosenRank = true
    this.memory = this.chosen = null
    this.say.textContent = `${step.rankName(this.rank)}, rank ${step.arrays.rank_first[this.rank]}`
    this.draw()
  }

  next(by) { // the next op of the chosen one's lane, into view
    const step = this.steps[0]?.step
    if (!step) return
    const {rank, what} = this.chosen?.what >= 0 && this.chosen.view === 0 ? this.chosen : {rank: this.rank, what: -1}
    const lane = step.ranks[rank].find(lane => what >= 0 && lane.what.includes(what)) || step.ranks[rank][0]
    if (!lane || !lane.what.length) return
    const at = what >= 0 ? lane.what.indexOf(what) + by : by > 0 ? 0 : lane.what.length - 1
    this.bring({step, view: 0, rank, what: lane.what[Math.min(Math.max(0, at), lane.what.length - 1)]})
  }

  toCause() {
    const cause = this.chosen?.what !== undefined ? this.chosen.step.causeOf(this.chosen.what) : -1
    if (cause >= 0) this.bring({...this.chosen, what: cause, rank: this.chosen.step.arrays.op_rank[cause]})
  }

  bring(found) {
    const start = found.step.startOf(found.what) / this.length, end = found.step.endOf(found.what) / this.length
    if (start < this.from || end > this.to) {
      const width = Math.max(this.to - this.from, (end - start) * 1.5)
      this.from = (start + end) / 2 - width / 2
      this.to = this.from + width
    }
    this.choose(found)
    this.zoomed()
  }

  seesKernels(step, width) {
    const n = step.arrays.kernel_op.length / Math.max(1, step.nRanks)
    return n > 0 && step.length / n / this.length / (this.to - this.from) * (width - LEFT) >= KERNELS_FROM
  }

  draw() {
    if (this.isDue) return
    this.isDue = true
    requestAnimationFrame(() => {
      this.isDue = false
      const began = performance.now()
      this.drawTimeline()
      this.drawCurves()
      this.frames.push(performance.now() - began)
      if (this.frames.length > 600) this.frames.shift()
    })
  }

  context(name) {
    const canvas = this.canvases[name], scale = devicePixelRatio || 1
    const width = canvas.clientWidth, height = canvas.clientHeight
    const w = Math.max(1, Math.round(width * scale)), h = Math.max(1, Math.round(height * scale))
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h }
    const c = canvas.getContext('2d')
    c.setTransform(scale, 0, 0, scale, 0, 0)
    c.font = '11px system-ui, "DejaVu Sans", sans-serif'
    return {c, width, height, scale, w, h}
  }

  coloursOf(step) {
    this.colours ??= new Map()
    const key = step.kinds.join()
    if (!this.colours.has(key)) this.colours.set(key, Uint32Array.from(step.kinds, kind => rgba(actionColours[kind] || chargeColours[kind] || '#8d949e')))
    return this.colours.get(key)
  }

  // Fill `row` with a lane's spans. `pale`: as a background.
  paintRow(row, lane, colours, left, pxPerNs, fromNs, isPale, critical) {
    const w = row.length
    if (this.cover?.length !== w) [this.cover, this.tint] = [new Float32Array(w), new Uint32Array(w)]
    const {cover, tint} = this // of spans that are thinner than a pixel
    let thinFrom = w, thinTo = 0
    for (let i = lane.from(fromNs); i < lane.start.length; i++) {
      const a = left + (lane.start[i] - fromNs) * pxPerNs
      if (a >= w) break
      if (critical && (lane.what[i] < 0 || !critical[lane.what[i]])) continue
      const b = left + (lane.end[i] - fromNs) * pxPerNs
      const x0 = Math.max(left, Math.round(a)), x1 = Math.min(w, Math.max(Math.round(b), Math.round(a) + 1))
      const colour = critical ? this.criticalColour : isPale ? pale(colours[lane.kind[i]], this.isDark) : colours[lane.kind[i]]
      if (b - a < 1 && !critical) {
        const x = Math.max(left, Math.floor(a))
        cover[x] += b - a
        tint[x] = colour
        thinFrom = Math.min(thinFrom, x)
        thinTo = Math.max(thinTo, x + 1)
        continue
      }
      const waits = isPale || critical ? x0 : Math.min(x1, Math.round(left + (lane.ready[i] - fromNs) * pxPerNs))
      for (let x = x0; x < waits; x++) row[x] = pale(colour, this.isDark)
      for (let x = Math.max(x0, waits); x < x1; x++) row[x] = colour
      if (!isPale && !critical && x1 - x0 > 4 && a >= left) row[x0] = shade(colour)
    }
    for (let x = thinFrom; x < thinTo; x++) if (cover[x] > 0) { row[x] = mix(row[x], tint[x], Math.min(1, Math.max(0.15, cover[x]))); cover[x] = 0 }
  }

  drawTimeline() {
    const {c, width, height, scale, w, h} = this.context('timeline')
    this.isDark = document.documentElement.dataset.theme === 'dark'
    this.criticalColour = rgba(this.isDark ? '#ff6b6b' : '#c1121f')
    const back = rgba(css('--panel') || '#ffffff')
    const image = c.createImageData(w, h), pixels = new Uint32Array(image.data.buffer)
    pixels.fill(back)
    const left = Math.round(LEFT * scale), fromNs = this.from * this.length
    const pxPerNs = (w - left) / ((this.to - this.from) * this.length)
    const bands = this.bands(height), row = new Uint32Array(w)
    const copyDown = (top, tall) => {
      const y0 = Math.max(0, Math.round(top * scale)), y1 = Math.min(h - Math.round(18 * scale), Math.round((top + tall) * scale))
      for (let y = y0; y < y1; y++) pixels.set(row, y * w)
    }
    for (const band of bands) {
      if (band.top > height || band.top + band.height < 0) continue
      const colours = this.coloursOf(band.step), seesKernels = this.seesKernels(band.step, width)
      for (const {name, lane, top, height: tall} of band.lanes) {
        row.fill(back)
        if (name === 'compute') this.paintRow(row, band.step.idle[band.rank], colours, left, pxPerNs, fromNs, true)
        if (lane) this.paintRow(row, lane, colours, left, pxPerNs, fromNs)
        copyDown(top, tall)
        if (name === 'compute' && seesKernels) {
          this.paintRow(row, band.step.kernels[band.rank], colours, left, pxPerNs, fromNs)
          copyDown(top + tall * 0.45, tall * 0.55)
        }
        if (this.showsCritical && lane) {
          row.fill(back)
          const under = Math.max(2, tall * 0.14)
          const seen = new Uint32Array(w)
          this.paintRow(seen, lane, colours, left, pxPerNs, fromNs, false, band.step.arrays.op_critical)
          const y0 = Math.max(0, Math.round((top + tall - under) * scale)), y1 = Math.min(h - Math.round(18 * scale), Math.round((top + tall) * scale))
          for (let y = y0; y < y1; y++) for (let x = left; x < w; x++) if (seen[x]) pixels[y * w + x] = seen[x]
        }
      }
    }
    c.putImageData(image, 0, 0)
    this.drawWords(c, bands, width, height)
    if (bands.length) this.drawAxis(c, width, height)
    this.drawMarks(c, bands, width, height)
  }

  drawWords(c, bands, width, height) {
    c.textBaseline = 'middle'
    let last = -99
    bands.forEach((band, k) => {
      const middle = band.top + band.height / 2
      if (band.view > 0 && (k === 0 || bands[k - 1].view !== band.view)) {
        c.fillStyle = css('--text')
        c.fillText(this.steps[band.view].title, LEFT, band.top - 8)
      }
      if (middle < 4 || middle > height - 22 || middle - last < 11) return
      last = middle
      c.fillStyle = band.rank === this.rank && band.view === 0 ? css('--accent') : css('--faint')
      c.fillText(band.step.rankName(band.rank), 4, middle, LEFT - 8)
    })
    for (const band of bands) {
      const row = band.lanes.find(({name}) => name === 'compute')
      if (!row?.lane || row.height < 11 || row.top < 0 || row.top > height - 30) continue
      const lane = row.lane, kernels = this.seesKernels(band.step, width)
      const tall = kernels ? row.height * 0.45 : row.height
      if (tall < 10) continue
      c.fillStyle = '#ffffff'
      let last = -1e9 // where the last word ended
      for (let i = lane.from(this.from * this.length); i < lane.start.length && lane.start[i] < this.to * this.length; i++) {
        const x0 = Math.max(LEFT, this.xOf(lane.start[i], width)), x1 = Math.min(width, this.xOf(lane.end[i], width))
        if (x1 - x0 < 22 || x0 < last) continue
        const a = band.step.arrays, op = lane.what[i]
        const word = x1 - x0 > 90 ? band.step.name(op) : op >= 0 && a.op_micro_batch[op] >= 0 ? String(a.op_micro_batch[op]) : ''
        if (word) c.fillText(word, x0 + 4, row.top + tall / 2, x1 - x0 - 6)
        last = x1
      }
    }
  }

  drawAxis(c, width, height) {
    const span = (this.to - this.from) * this.length, rough = span / Math.max(2, (width - LEFT) / 110)
    const power = 10 ** Math.floor(Math.log10(rough)), each = [1, 2, 5, 10].find(k => k * power >= rough) * power
    const digits = Math.max(4, Math.ceil(Math.log10(this.to * this.length / each)) + 1) // ticks beside each other differ
    c.fillStyle = css('--faint')
    c.strokeStyle = css('--line')
    c.beginPath()
    for (let t = Math.ceil(this.from * this.length / each) * each; t <= this.to * this.length; t += each) {
      const x = this.xOf(t, width)
      c.moveTo(x + 0.5, height - 17)
      c.lineTo(x + 0.5, height - 13)
      if (x < width - 40) c.fillText(seconds(Number((t * 1e-9).toPrecision(12)), digits), x + 2, height - 7)
    }
    c.stroke()
  }

  drawMarks(c, bands, width, height) {
    const rowOf = ({step, view, rank, what}) => {
      const band = bands.find(band => band.view === view && band.rank === rank)
      const op = what < 0 ? step.causeOf(what) : what
      const row = band?.lanes.find(({lane}) => lane && lane.what.includes(what)) || band?.lanes.find(({lane}) => lane && lane.what.includes(op))
      return row && {x0: Math.max(LEFT, this.xOf(step.startOf(what), width)), x1: this.xOf(step.endOf(what), width), ...row}
    }
    const found = this.hover || this.chosen
    if (this.chosen?.what !== undefined) {
      const at = rowOf(this.chosen)
      if (at) { c.strokeStyle = css('--text'); c.lineWidth = 2; c.strokeRect(at.x0, at.top, Math.max(2, at.x1 - at.x0), at.height); c.lineWidth = 1 }
    }
    if (found?.what >= 0) {
      const cause = found.step.causeOf(found.what), own = rowOf(found)
      const other = cause >= 0 ? rowOf({...found, what: cause, rank: found.step.arrays.op_rank[cause]}) : null
      if (own && other) {
        c.strokeStyle = css('--text')
        c.setLineDash([3, 2])
        c.beginPath()
        c.moveTo(Math.min(other.x1, width), other.top + other.height / 2)
        c.lineTo(own.x0, own.top + own.height / 2)
        c.stroke()
        c.setLineDash([])
      }
    }
    if (this.brush) {
      c.fillStyle = 'rgba(0,114,178,.15)'
      const a = this.xOf(this.brush[0], width), b = this.xOf(this.brush[1], width)
      c.fillRect(a, 0, b - a, height - 18)
    }
  }

  curves() { // of the chosen rank
    const {step, capacity, reserved} = this.steps[0]
    this.memory ??= {...step.memoryOf(this.rank), links: step.linksOf(this.rank), capacity, reserved: reserved || 0}
    return this.memory
  }

  drawCurves() {
    if (!this.steps.length) {
      for (const name of ['memory', 'links']) {
        const {c, width, height} = this.context(name)
        c.clearRect(0, 0, width, height)
      }
      return
    }
    const {step} = this.steps[0], {times, rows, links, capacity, reserved} = this.curves()
    this.drawMemory(step, times, rows, capacity, reserved)
    this.drawLinks(step, links)
  }

  frame(name, title, top, unit) {
    const {c, width, height} = this.context(name)
    c.clearRect(0, 0, width, height)
    c.textBaseline = 'middle'
    c.fillStyle = css('--faint')
    c.fillText(title, 4, 8, LEFT - 8)
    c.fillText(unit(top), 4, 22, LEFT - 8)
    c.strokeStyle = css('--line')
    c.strokeRect(LEFT + 0.5, 2.5, width - LEFT - 1, height - 5)
    return {c, width, height, yOf: value => height - 3 - Math.min(value / top, 1.02) * (height - 8)}
  }

  // Steps of a curve, thinned to the pixels: the most that is held in each.
  walk(times, n, width, visit) {
    const fromNs = this.from * this.length, toNs = this.to * this.length
    let i = 0, high = n
    while (i < high) { const middle = i + high >> 1; if (times[middle] <= fromNs) i = middle + 1; else high = middle }
    for (i = Math.max(0, i - 1); i < n && times[i] < toNs; i++)
      visit(i, Math.max(LEFT, this.xOf(times[i], width)), Math.min(width, i + 1 < n ? this.xOf(times[i + 1], width) : width))
  }

  // `reserved`: what context and libraries take besides, the same all the time.
  drawMemory(step, times, rows, capacity, reserved) {
    let most = 0
    const sums = rows.map(row => { const sum = row.reduce((a, b) => a + b, reserved); most = Math.max(most, sum); return sum })
    const top = Math.max(most, capacity || 0) * 1.04 || 1
    const {c, width, yOf} = this.frame('memory', `memory, ${step.rankName(this.rank)}`, top, () => `peak ${bytes(most)}`)
    const kinds = step.arrays.memory_kinds
    const columns = Array.from({length: kinds.length}, () => new Float32Array(Math.ceil(width) + 1))
    const total = new Float32Array(Math.ceil(width) + 1)
    this.walk(times, times.length, width, (i, x0, x1) => {
      for (let x = Math.floor(x0); x < Math.max(Math.floor(x0) + 1, Math.ceil(x1)); x++)
        if (sums[i] >= total[x]) { total[x] = sums[i]; kinds.forEach((_, k) => { columns[k][x] = rows[i][k] }) }
    })
    const under = new Float32Array(total.length).fill(reserved)
    c.fillStyle = css('--line')
    c.fillRect(LEFT + 1, yOf(reserved), width - LEFT - 2, yOf(0) - yOf(reserved))
    c.font = '9px system-ui, "DejaVu Sans", sans-serif'
    kinds.filter((_, k) => rows.some(row => row[k] > 0)).forEach((kind, k) => {
      c.fillStyle = memoryColours[kind] || '#8d949e'
      c.fillRect(4, 33 + 11 * k, 7, 7)
      c.fillStyle = css('--faint')
      c.fillText(kind, 14, 37 + 11 * k, LEFT - 18)
    })
    c.font = '11px system-ui, "DejaVu Sans", sans-serif'
    kinds.forEach((kind, k) => {
      c.fillStyle = memoryColours[kind] || '#8d949e'
      c.beginPath()
      for (let x = LEFT + 1; x < width - 1; x++) {
        const y = yOf(under[x] + columns[k][x]), y0 = yOf(under[x])
        if (y0 - y > 0.01) c.rect(x, y, 1, y0 - y)
        under[x] += columns[k][x]
      }
      c.fill()
    })
    if (capacity) {
      const y = yOf(capacity)
      c.strokeStyle = most > capacity ? '#d62828' : css('--text')
      c.setLineDash([5, 3])
      c.beginPath()
      c.moveTo(LEFT, y)
      c.lineTo(width, y)
      c.stroke()
      c.setLineDash([])
      const word = most > capacity ? `${bytes(most)}: does not fit in ${bytes(capacity)}` : `capacity ${bytes(capacity)}`
      c.fillStyle = css('--panel')
      c.fillRect(LEFT + 3, y + 2, c.measureText(word).width + 6, 13)
      c.fillStyle = most > capacity ? css('--bad') : css('--faint')
      c.fillText(word, LEFT + 6, y + 9)
    }
  }

  drawLinks(step, {times, rows}) {
    const {c, width, yOf} = this.frame('links', 'links in use', 1, () => '100 %')
    const names = step.arrays.links
    names.forEach((name, k) => {
      const mean = new Float32Array(Math.ceil(width) + 1) // over the time of a pixel
      this.walk(times, times.length, width, (i, x0, x1) => {
        for (let x = Math.floor(x0); x < x1; x++) mean[x] += rows[i][k] * (Math.min(x + 1, x1) - Math.max(x, x0))
      })
      c.strokeStyle = linkColours[k % linkColours.length]
      c.lineWidth = 1.3
      c.beginPath()
      for (let x = LEFT + 1; x < width - 1; x++) c[x === LEFT + 1 ? 'moveTo' : 'lineTo'](x, yOf(mean[x]))
      c.stroke()
      c.lineWidth = 1
      c.fillStyle = linkColours[k % linkColours.length]
      c.fillText(name, 4, 36 + 12 * k, LEFT - 8)
    })
    if (!names.length) { c.fillStyle = css('--faint'); c.fillText('no link is used', LEFT + 6, 12) }
  }

  tellCurve(name, event) {
    if (!this.steps.length) return
    const {step} = this.steps[0], canvas = this.canvases[name], box = canvas.getBoundingClientRect()
    const time = this.timeAt(event.clientX - box.left, box.width), of = name === 'memory' ? this.curves() : this.curves().links
    let i = of.times.findIndex(at => at > time)
    i = (i < 0 ? of.times.length : i) - 1
    if (i < 0 || event.clientX - box.left < LEFT) { this.tip.hidden = true; return }
    const labels = name === 'memory' ? step.arrays.memory_kinds : step.arrays.links
    const lines = [...of.rows[i]].map((value, k) => `${labels[k]}: ${name === 'memory' ? bytes(value) : (100 * value).toFixed(0) + ' %'}`)
    if (name === 'memory') lines.push(`context and libraries: ${bytes(of.reserved)}`, `in all: ${bytes([...of.rows[i]].reduce((a, b) => a + b, of.reserved))}`)
    this.tip.textContent = [`${step.rankName(this.rank)} at ${seconds(time * 1e-9, 4)}`, ...lines].join('\n')
    this.tip.hidden = false
    this.placeTip(event)
  }
}

function shade(colour) { // a darker edge
  const part = shift => ((colour >>> shift & 255) * 0.6) << shift
  return (255 << 24 | part(16) | part(8) | part(0)) >>> 0
}

function mix(under, over, part) {
  const at = shift => ((under >>> shift & 255) * (1 - part) + (over >>> shift & 255) * part) << shift
  return (255 << 24 | at(16) & 0xff0000 | at(8) & 0xff00 | at(0) & 255) >>> 0
}

export function pale(colour, isDark) { // toward the background
  const mix = shift => (((colour >>> shift & 255) * 0.42 + (isDark ? 28 : 255) * 0.58) & 255) << shift
  return (255 << 24 | mix(16) | mix(8) | mix(0)) >>> 0
}

export {Step}
