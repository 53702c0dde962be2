// The right side: numbers, where the time goes, what would help, and what was measured nearby.

import {ask} from './engine.js'
import {bytes, change as changeText, chargeColours, make, number, seconds, share} from './look.js'
import {change, filesOf, optionsList, state} from './state.js'

export class ResultsPanel {
  constructor(element) {
    this.element = element
    this.parts = Object.fromEntries(['numbers', 'where', 'help', 'near'].map(name => [name, make('div', {class: 'of-step', id: `part-${name}`})]))
    element.append(this.parts.numbers, this.parts.where, this.parts.help, this.parts.near)
  }

  show(json) {
    this.json = json
    const memory = json.memory, training = json.training
    const big = (value, unit, title) => make('div', {title}, make('b', {text: value}), make('small', {text: unit}))
    this.parts.numbers.replaceChildren(
      make('div', {class: 'big'},
        big(seconds(json.step_time_s, 4), 'step time', 'one training step'),
        big(share(json.mfu), `MFU (${json.flops_convention})`, `model FLOPs over the GPUs' peak, counted as --flops ${json.flops_convention}`),
        big(number(json.tokens_per_s_per_gpu, 4), 'tokens/s per GPU'),
        big(number(json.tflops_per_gpu, 4), 'TFLOP/s per GPU'),
        big(share(json.bubble_fraction), 'bubble', 'mean over pipeline ranks'),
        big(memory.capacity_bytes ? share(memory.total_bytes / memory.capacity_bytes, 0) : bytes(memory.total_bytes),
          memory.fits ? 'of memory, fullest GPU' : 'of memory: does not fit', bytes(memory.total_bytes))),
      make('div', {class: 'small', id: 'interval', text: json.interval
        ? `${seconds(json.interval.low_s)} to ${seconds(json.interval.high_s)} in ${Math.round(json.interval.level * 10)} of 10 cases like this: ${json.interval.like}` : ''},
        json.interval && !state.options.has('framework') ? make('button', {text: 'choose one', id: 'choose-framework', style: {'min-height': '0', padding: '0 4px', 'margin-left': '4px'}, onclick: () => document.getElementById('pick-framework').focus()}) : null),
      make('div', {class: 'small', text: `${number(json.tokens_per_s)} tokens/s` + (training
        ? ` · ${number(training.days)} days, ${number(training.gpu_hours)} GPU-hours, $${number(training.dollars)} at $${number(training.dollars / training.gpu_hours)} a GPU-hour, for ${state.options.get('tokens')} tokens` : '')}),
      ...(memory.fits ? [] : [make('div', {class: 'wrong', id: 'misfit', text:
        `Does not fit: ${bytes(memory.total_bytes)} on rank ${memory.worst_rank}, of ${bytes(memory.capacity_bytes)}`})]),
      ...(json.warnings || []).map(text => make('div', {class: 'small', text: `⚠ ${typeof text === 'string' ? text : text.text || ''}`})))
    this.where(json)
  }

  where(json) {
    const entries = Object.entries(json.breakdown_s).filter(([, s]) => s > 0)
    const stack = make('div', {class: 'stack', role: 'img', 'aria-label': 'Shares of the step'})
    for (const [name, s] of entries) {
      const piece = make('span', {title: `${name}: ${seconds(s)}`})
      piece.style.setProperty('flex', `${1000 * s / json.step_time_s} 0 0`) // a sum below 1 would not fill the bar
      piece.style.setProperty('background', chargeColours[name])
      stack.append(piece)
    }
    const rows = entries.map(([name, s]) => {
      const swatch = make('i', {class: 'bar'})
      swatch.style.setProperty('display', 'inline-block')
      swatch.style.setProperty('width', '8px')
      swatch.style.setProperty('background', chargeColours[name])
      return make('tr', {'data-charge': name, 'data-seconds': s}, make('td', {}, swatch, ` ${name}${['tp', 'pp', 'cp', 'ep', 'dp'].includes(name) ? ', exposed' : ''}`), make('td', {class: 'number', text: seconds(s)}),
        make('td', {class: 'number', text: share(s / json.step_time_s, 2)}))
    })
    rows.push(make('tr', {}, make('td', {}, make('b', {text: 'step'})), make('td', {class: 'number'}, make('b', {text: seconds(entries.reduce((a, [, s]) => a + s, 0))})),
      make('td', {class: 'number', text: share(entries.reduce((a, [, s]) => a + s, 0) / json.step_time_s, 2)})))
    this.parts.where.replaceChildren(make('h2', {text: 'Where the time goes', title: 'communication counts where no computing hides it'}), stack, make('table', {}, ...rows))
  }

  // Plans one option away that are faster and fit, each predicted; a click takes it.
  help(explanation) {
    const isTask = state.view.tab === 'Learn' && state.view.task !== undefined // which is to be found without it
    const title = make('h2', {text: 'What would help'})
    if (!explanation) return this.parts.help.replaceChildren(title, make('div', {class: 'small', text: '…'}))
    const now = explanation.tokens_per_s, needsRoom = !this.json.memory.fits
    const better = explanation.sensitivity.filter(entry => !entry.impossible && entry.memory.fits && (needsRoom || entry.tokens_per_s > now * 1.001))
      .sort((a, b) => changesTraining(a) - changesTraining(b) || b.tokens_per_s - a.tokens_per_s)
    better.splice(0, better.length, ...better.filter(entry => !changesTraining(entry)).slice(0, 5), ...better.filter(changesTraining).slice(0, 2))
    const rows = better.map(entry => make('tr', {},
      make('td', {}, make('button', {text: `${entry.option.slice(2)} ${entry.from} → ${entry.to}`, title: changesTraining(entry) ? 'Take it: other numbers or another batch train otherwise' : 'Take it', 'data-help': entry.option.slice(2),
        onclick: () => take(entry)}), changesTraining(entry) ? ' *' : null),
      make('td', {class: `number ${entry.tokens_per_s > now ? 'faster' : 'slower'}`, text: changeText(entry.tokens_per_s / now - 1)})))
    const what = (explanation.faster || []).map(({what, step_time_s}) => [what, step_time_s]).sort((a, b) => a[1] - b[1]).slice(0, 2)
    const parts = [      rows.length ? make('table', {}, ...rows) : null,
      better.some(entry => !changesTraining(entry)) ? null : make('div', {class: 'small', id: 'no-next', text: `No option’s next value ${needsRoom ? 'makes it fit' : 'is faster'} by itself: “Plan search” below tries them together.`}),
      better.some(changesTraining) ? make('div', {class: 'small', text: '* trains otherwise'}) : null,
      make('div', {class: 'small', text: what.map(([name, s]) => `${name}: ${changeText(this.json.step_time_s / s - 1)} tokens/s`).join('; ')})].filter(Boolean)
    this.parts.help.replaceChildren(title, ...(isTask ? [make('details', {}, make('summary', {class: 'small', text: 'Show it: the task is to be found without'}), ...parts)] : parts))
  }

  async near(rows, signal, lab) {
    const title = make('h2', {text: 'Measured nearby'})
    if (!rows.length) return this.parts.near.replaceChildren(title, make('div', {class: 'small', text: 'No published step of a model this size is known.'}))
    const head = rows.head.join(','), text = [head, ...rows.map(row => row.line)].join('\n') + '\n'
    const answer = await ask({verb: 'validate', options: [['rows', '@rows']], files: {rows: text}, aside: true}, signal)
    const lines = readCsv(answer.text), of = Object.fromEntries((lines[0] || []).map((name, i) => [name, i]))
    const shown = lines.slice(1).map((line, i) => {
      const predicted = Number(line[of.predicted_step_time_s] || NaN), measured = Number(line[of.step_time_s])
      const error = predicted / measured - 1, row = rows[i].row
      const plan = ['tp', 'pp', 'cp', 'ep', 'dp'].filter(axis => Number(row[axis]) > 1).map(axis => `${axis} ${row[axis]}`).join(' ')
      const rate = row.global_batch * row.seq_len / row.gpus / measured
      return make('tr', {title: `${row.id}: ${seconds(measured)} a step, batch ${row.global_batch} × ${row.seq_len}; ${row.notes || row.source}`},
        make('td', {}, make('button', {class: 'link', text: `${row.model_name}, ${row.gpus} × ${row.cluster}`, title: 'Load this run', onclick: () => lab.loadPublished(row)})), make('td', {class: 'number', text: number(rate)}),
        make('td', {class: 'number', text: Number.isFinite(error) ? changeText(error) : '–'}), make('td', {class: 'small', text: plan}))
    })
    this.parts.near.replaceChildren(title, make('table', {}, make('tr', {class: 'small'}, make('td', {text: 'published run'}),
      make('td', {class: 'number', text: 'tokens/s/GPU'}), make('td', {class: 'number', text: 'we say', title: 'how much longer or shorter the step is that we predict'}), make('td', {text: 'plan'})), ...shown))
  }
}

// With another batch or format it is not the same training any more.
const changesTraining = ({option}) => ['--precision', '--recipe', '--global-batch', '--seq-len', '--train', '--freeze'].includes(option)

// The options of a neighbour that were changed, and those that follow from them.
export function take(entry) {
  const words = entry.options.match(/--\S+ \S+/g) || [], changes = {}
  const option = entry.option.slice(2)
  changes[option] = entry.to
  for (const word of words) {
    const [name, value] = word.slice(2).split(' ')
    if (state.options.has(name) && state.options.get(name) !== value) changes[name] = value
    if (name === 'schedule' || name === 'chunks') changes[name] = value
  }
  if (!words.some(word => word.startsWith('--chunks '))) changes.chunks = option === 'chunks' ? entry.to : null
  if (changes.dp && !state.options.has('dp')) delete changes.dp
  change(changes)
}

export function readCsv(text) {
  const lines = []
  let row = [], cell = '', quoted = false
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (quoted) {
      if (c === '"' && text[i + 1] === '"') { cell += '"'; i++ }
      else if (c === '"') quoted = false
      else cell += c
    } else if (c === '"') quoted = true
    else if (c === ',') { row.push(cell); cell = '' }
    else if (c === '\n') { row.push(cell); lines.push(row); row = []; cell = '' }
    else if (c !== '\r') cell += c
  }
  if (cell || row.length) { row.push(cell); lines.push(row) }
  return lines
}

// The published steps nearest to a plan: by size of the model, machine, GPUs and axes, each as a factor.
export function nearest(published, plan, json, model, cluster) {
  if (!published) return []
  const axes = ['tp', 'pp', 'cp', 'ep'], away = (a, b) => Math.abs(Math.log2(Math.max(1, a) / Math.max(1, b)))
  const flops = json.tflops_per_gpu / json.tokens_per_s_per_gpu * 1e12 / 6 // about the parameters that a token uses
  const scored = published.rows.map(({row, line}) => {
    const active = activeOf(row)
    let score = 2 * away(active, flops) + away(Number(row.gpus), plan.gpus) * 0.5 + (row.cluster === cluster ? 0 : 2)
    score += gpuOf(row.cluster) === gpuOf(cluster) ? 0 : 2
    for (const axis of axes) score += 0.7 * away(Number(row[axis] || 1), plan[axis])
    if ((Number(row.experts) > 0) !== (plan.experts > 0)) score += 3
    return {row, line, score, ratio: away(active, flops)}
  }).filter(({ratio}) => ratio < 2).sort((a, b) => a.score - b.score)
  const found = scored.slice(0, 4)
  found.head = published.head
  return found
}

const gpuOf = cluster => /(v100|a100|a800|h100|h800|h200|b200|b300|gb200|gb300|l40s)/.exec(cluster || '')?.[1]

// Roughly the parameters that a token passes, from a row's sizes.
function activeOf(row) {
  const n = name => Number(row[name] || 0), h = n('hidden'), experts = n('experts')
  const ffn = experts > 0 ? (n('moe_ffn_hidden') || n('ffn_hidden')) * Math.max(1, n('experts_per_token')) : n('ffn_hidden') || 4 * h
  const attention = h * h * (2 + 2 * (n('kv_heads') || n('heads')) / Math.max(1, n('heads')))
  return n('layers') * (attention + h * ffn * (n('gated') ? 3 : 2)) + h * n('vocab')
}
