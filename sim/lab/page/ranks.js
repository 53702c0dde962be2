// Which GPU is which rank, who is in a group with it, what a collective sends step by step, and what each rank of a dp group
// holds of the states.

import {collectiveView} from './collective.js'
import {ask} from './engine.js'
import {bytes, css, make, memoryColours, number} from './look.js'
import {planOptions, state, view} from './state.js'

const MOST_RANKS = 32768
const axisColours = {tp: '#e69f00', pp: '#cc79a7', dp: '#009e73', cp: '#56b4e9', ep: '#d55e00'}

// Options as one text, for `topology --plan`.
const planText = () => planOptions().filter(([name]) => name !== 'cluster' && !/^(file:)?@/.test(state.options.get(name)))
  .map(([name, value]) => `--${name} ${/^[\w.+:-]+$/.test(value) ? value : `'${value}'`}`).join(' ')

export const ranksTab = {
  name: 'Ranks',
  needsPlan: true,
  async show(lab, element, signal) {
    if (!lab.plan) return element.replaceChildren()
    if (lab.plan.gpus > MOST_RANKS) return element.replaceChildren(make('div', {class: 'small', text: `More than ${number(MOST_RANKS)} ranks are not drawn.`}))
    element.replaceChildren(make('div', {class: 'small', text: '…'}))
    const cluster = state.options.get('cluster'), inline = /^@/.test(cluster)
    const answer = await ask({verb: 'topology', options: [['cluster', cluster], ['plan', planText()]], files: inline ? {cluster: state.files.cluster} : {}, aside: true}, signal)
    if (!answer.json) return element.replaceChildren(make('div', {class: 'wrong', text: answer.errors}))
    const grid = answer.json.grid, kinds = grid.groups.map(({kind}) => kind)
    this.kind = kinds.includes(state.view.group) ? state.view.group : kinds[0]
    this.rank = Math.min(Number(state.view.rank || 0), grid.ranks.length - 1)
    const canvas = make('canvas', {id: 'ranks', tabindex: '0', role: 'img', 'aria-label': 'ranks on GPUs; arrow keys choose one'})
    const say = make('div', {id: 'rank-say', 'aria-live': 'polite'}), steps = make('div', {id: 'collective-steps'})
    const shards = make('canvas', {id: 'shards', role: 'img', 'aria-label': 'what each rank of a dp group holds'})
    for (const [name, value] of [['width', '230px'], ['height', '120px']]) shards.style.setProperty(name, value)
    const choice = make('select', {'aria-label': 'kind of group', onchange: async event => { await view({group: event.target.value}); this.kind = event.target.value; paint() }},
      ...kinds.map(kind => make('option', {value: kind, text: `${kind} groups`, selected: kind === this.kind})))
    element.replaceChildren(make('div', {class: 'row', style: {'flex-wrap': 'nowrap'}}, make('div', {}, choice, canvas), make('div', {}, say, shards), steps))
    const perNode = answer.json.gpus_per_node, draw = () => drawGrid(canvas, grid, perNode, this)
    const paint = async () => {
      const found = grid.groups.find(({kind}) => kind === this.kind), group = found?.groups.find(({ranks}) => ranks.includes(this.rank))
      this.members = new Set(group?.ranks || [])
      const at = grid.ranks[this.rank]
      say.replaceChildren(make('b', {text: `rank ${this.rank} · ${at.gpu}`}), make('div', {text: ['pp', 'dp', 'tp', 'cp', 'ep'].map(axis => `${axis} ${at[axis]}`).join(', ')}),
        make('div', {class: 'small', text: group ? `${this.kind} group of ${group.ranks.length}: ranks ${listOf(group.ranks)}; over ${group.over.join(', ')}; ${bytes(found.rate_Bps)}/s at its narrowest` : ''}))
      draw()
      drawShards(shards, lab, grid, this.rank)
      const n = Math.min(8, group?.ranks.length || 1)
      if (n < 2) return steps.replaceChildren()
      const op = opOf(this.kind, lab.plan)
      if (!op) return steps.replaceChildren(make('div', {class: 'small', text: `${this.kind}: ${this.kind === 'pp' ? 'activations are sent from each stage to the next' : 'each rank sends each other its tokens'}`}))
      const shown = await ask({verb: 'collective', options: [['steps-of', 'ring'], ['gpus', String(n)], ['op', op]], aside: true}, signal).catch(() => null)
      if (!shown) return // another tab, or another plan
      steps.replaceChildren(collectiveView(`${op.replace('_', '-')} in a ring of ${n}${group.ranks.length > n ? ` of its ${group.ranks.length} ranks` : ''}`, shown.text || shown.errors, axisColours[this.kind] || '#0072b2'))
    }
    const choose = async rank => { this.rank = Math.max(0, Math.min(grid.ranks.length - 1, rank)); await view({rank: this.rank}); paint() }
    canvas.onclick = event => {
      const box = canvas.getBoundingClientRect(), found = this.cellAt?.(event.clientX - box.left, event.clientY - box.top)
      if (found !== undefined && found >= 0) choose(found)
    }
    canvas.onkeydown = event => {
      const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: perNode, ArrowUp: -perNode}[event.key]
      if (by) { event.preventDefault(); choose(this.rank + by) }
    }
    paint()
  },
}

// What a group of this kind does first with its ring. undefined: no such collective.
function opOf(kind, plan) {
  return {tp: plan.sequence_parallel ? 'all_gather' : 'all_reduce', dp: plan.zero > 0 ? 'reduce_scatter' : 'all_reduce', cp: 'all_gather'}[kind]
}

function listOf(ranks) {
  const by = ranks.length > 1 ? ranks[1] - ranks[0] : 1
  return ranks.length > 3 && ranks.every((rank, i) => rank === ranks[0] + i * by) ? `${ranks[0]} to ${ranks.at(-1)} by ${by}`
    : ranks.length > 10 ? `${ranks.slice(0, 10).join(', ')}, …` : ranks.join(', ')
}

function drawGrid(canvas, grid, perNode, tab) {
  const n = grid.ranks.length, nodes = Math.ceil(n / perNode), size = n <= 64 ? 22 : n <= 256 ? 14 : n <= 2048 ? 9 : 4
  const inRow = Math.max(1, Math.floor(680 / (perNode * size + 8))), rows = Math.ceil(nodes / inRow)
  const width = Math.min(inRow, nodes) * (perNode * size + 8), height = rows * (size + 6) + 4, scale = devicePixelRatio || 1
  canvas.style.setProperty('width', `${width}px`)
  canvas.style.setProperty('height', `${height}px`)
  canvas.width = width * scale
  canvas.height = height * scale
  const c = canvas.getContext('2d')
  c.setTransform(scale, 0, 0, scale, 0, 0)
  c.font = '10px system-ui, "DejaVu Sans", sans-serif'
  c.textBaseline = 'middle'
  const place = new Map()
  const cells = grid.ranks.map(({gpu}, rank) => {
    const [, node, slot] = /node(\d+)\/gpu(\d+)/.exec(gpu) || [0, Math.floor(rank / perNode), rank % perNode]
    const x = Number(node) % inRow * (perNode * size + 8) + 3 + Number(slot) * size, y = Math.floor(Number(node) / inRow) * (size + 6) + 3
    place.set(`${node}/${slot}`, rank)
    return [x, y]
  })
  c.strokeStyle = css('--line')
  for (let node = 0; node < nodes; node++) c.strokeRect(node % inRow * (perNode * size + 8) + 1.5, Math.floor(node / inRow) * (size + 6) + 1.5, perNode * size + 2, size + 2)
  const colour = axisColours[tab.kind] || '#0072b2'
  cells.forEach(([x, y], rank) => {
    const lit = tab.members?.has(rank)
    c.fillStyle = rank === tab.rank ? css('--text') : lit ? colour : css('--panel')
    c.fillRect(x + 0.5, y + 0.5, size - 1, size - 1)
    if (size >= 14) { c.fillStyle = rank === tab.rank ? css('--panel') : css('--faint'); c.fillText(String(rank), x + 2, y + size / 2, size - 3) }
  })
  tab.cellAt = (x, y) => cells.findIndex(([left, top]) => x >= left && x < left + size && y >= top && y < top + size)
}

// Columns: ranks that shard the states together (eight at most); of each kind the part that this rank holds, in its place.
function drawShards(canvas, lab, grid, rank) {
  const memory = lab.json?.memory, plan = lab.plan
  if (!memory || !plan) return
  const dp = Math.max(1, plan.zero_ranks || plan.dp * plan.cp), n = Math.min(dp, 8), scale = devicePixelRatio || 1
  const width = canvas.clientWidth, height = canvas.clientHeight
  canvas.width = width * scale
  canvas.height = height * scale
  const c = canvas.getContext('2d')
  c.setTransform(scale, 0, 0, scale, 0, 0)
  c.font = '10px system-ui, "DejaVu Sans", sans-serif'
  const own = grid.ranks[rank].dp % n, kinds = [['weights', 3], ['gradients', 2], ['optimizer', 1]], tall = (height - 26) / kinds.length
  c.fillStyle = css('--faint')
  c.fillText(`ZeRO-${plan.zero}: ${n} of ${dp} ranks that share states`, 2, 10)
  kinds.forEach(([kind, from], k) => {
    const top = 16 + k * tall, sharded = plan.zero >= from
    for (let i = 0; i < n; i++) {
      const x = 2 + i * (width - 4) / n, wide = (width - 4) / n - 3
      c.strokeStyle = css('--line')
      c.strokeRect(x + 0.5, top + 0.5, wide, tall - 4)
      c.fillStyle = memoryColours[kind]
      if (sharded) c.fillRect(x + 1, top + 1 + i * (tall - 5) / n, wide - 1, (tall - 5) / n)
      else c.fillRect(x + 1, top + 1, wide - 1, tall - 5)
      if (i === own) { c.strokeStyle = css('--text'); c.strokeRect(x - 0.5, top - 0.5, wide + 2, tall - 2) }
    }
  })
  c.fillStyle = css('--faint')
  c.fillText(kinds.map(([kind]) => `${kind} ${bytes(memory[`${kind}_bytes`])}`).join('  '), 2, height - 2, width - 4)
}
