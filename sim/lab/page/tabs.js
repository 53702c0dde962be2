// The strip below: other plans beside this one.

import {ask} from './engine.js'
import {bytes, change as changeText, css, make, number, seconds, share} from './look.js'
import {change, filesOf, optionsList, state, view} from './state.js'

const questionOf = (options, more = {}) => ({verb: 'simulate', options: optionsList(options), files: filesOf(options), ...more})

function withChanges(changes) {
  const options = new Map(state.options)
  for (const [name, value] of Object.entries(changes)) value === null ? options.delete(name) : options.set(name, String(value))
  return options
}

// What a plan does, in a word, for cells: {json} or {why}.
async function trial(changes, signal) {
  const answer = await ask(questionOf(withChanges(changes), {aside: true}), signal)
  return answer.json ? {json: answer.json} : {why: answer.errors}
}

// --- A/B -------------------------------------------------------------------------------------------------------------

export const abTab = {
  name: 'A/B',
  async show(lab, element, signal) {
    const pinned = state.view.pin
    element.replaceChildren(make('div', {class: 'row'},
      make('button', {id: 'pin', text: pinned ? 'Pin this plan instead' : 'Pin this plan as A', onclick: async () => { state.pinnedFiles = filesOf(state.options); await view({pin: optionsText()}); lab.pinned() }}),
      pinned ? make('button', {text: 'Let go of A', onclick: async () => { await view({pin: null}); lab.pinned() }}) : null,
      make('span', {class: 'small', text: pinned ? 'A is the pinned plan, B the one on the left; both are drawn on one axis.' : 'Pin a plan, then change it: both are drawn on one axis, with what differs.'})))
    if (pinned && lab.pinnedAnswer && !lab.pinnedAnswer.json) element.append(make('div', {class: 'wrong', text: `A: ${lab.pinnedAnswer.errors}`}))
    if (!pinned || !lab.json || !lab.pinnedAnswer?.json) return
    const a = lab.pinnedAnswer.json, b = lab.json
    const rows = [['step time', a.step_time_s, b.step_time_s, seconds], ['tokens/s per GPU', a.tokens_per_s_per_gpu, b.tokens_per_s_per_gpu, number],
      ['MFU', a.mfu, b.mfu, share], ['bubble fraction', a.bubble_fraction, b.bubble_fraction, share], ['memory', a.memory.total_bytes, b.memory.total_bytes, bytes],
      ...Object.keys(b.breakdown_s).filter(k => a.breakdown_s[k] || b.breakdown_s[k]).map(k => [k, a.breakdown_s[k], b.breakdown_s[k], seconds])]
    const before = lab.pinnedOptions, names = new Set([...before.keys(), ...state.options.keys()])
    const differ = [...names].filter(name => before.get(name) !== state.options.get(name) || state.pinnedFiles[name] !== filesOf(state.options)[name])
    element.append(make('div', {class: 'row'},
      make('table', {id: 'ab', style: {width: 'auto'}}, make('tr', {}, ...['', 'A', 'B', 'B − A'].map(text => make('th', {class: 'number', text}))),
        ...rows.map(([name, x, y, show]) => make('tr', {}, make('td', {text: name}), make('td', {class: 'number', text: show(x)}), make('td', {class: 'number', text: show(y)}),
          make('td', {class: 'number', text: show === share ? `${y < x ? '−' : '+'}${(100 * Math.abs(y - x)).toFixed(1)} points` : x ? changeText(y / x - 1) : show(y - x)})))),
      make('table', {style: {width: 'auto'}}, make('tr', {}, ...['option', 'A', 'B'].map(text => make('th', {text}))),
        ...differ.map(name => make('tr', {}, make('td', {text: name}), make('td', {text: before.get(name) ?? '–'}), make('td', {text: state.options.get(name) ?? '–'}))))))
  },
}

export const optionsText = () => new URLSearchParams(optionsList()).toString()
export const optionsOf = text => new Map(new URLSearchParams(text))

// --- map -------------------------------------------------------------------------------------------------------------

const axisValues = {
  tp: [1, 2, 4, 8, 16], pp: [1, 2, 4, 8, 16, 32], cp: [1, 2, 4, 8, 16], ep: [1, 2, 4, 8, 16, 32, 64], zero: [0, 1, 2, 3], chunks: [1, 2, 4, 8, 16],
  'micro-batch': [1, 2, 4, 8, 16], recompute: ['none', 'selective', 'full'], schedule: ['1f1b', 'interleaved', 'zb-h1', 'zb-v', 'v-half', 'dualpipe-v'],
  'global-batch': null, gpus: null, 'seq-len': [2048, 4096, 8192, 16384, 32768, 65536, 131072], precision: ['bf16', 'fp8', 'mxfp8'],
}

function valuesOf(name, plan) {
  if (axisValues[name]) return axisValues[name]
  const now = Number(plan?.[name.replace(/-/g, '_')] || 8)
  return [1 / 4, 1 / 2, 1, 2, 4].map(factor => Math.max(1, Math.round(now * factor)))
}

function axisChoice(value, onchange) {
  const select = make('select', {onchange: event => onchange(event.target.value), 'aria-label': 'axis of the map'})
  for (const name of Object.keys(axisValues)) select.append(make('option', {value: name, text: name, selected: name === value}))
  return select
}

export const mapTab = {
  name: 'Map',
  async show(lab, element, signal) {
    const [x, y] = (state.view.map || 'tp,pp').split(',')
    const again = async changes => { await view({map: changes}); lab.showTab() }
    const xs = valuesOf(x, lab.plan), ys = valuesOf(y, lab.plan)
    const say = make('span', {class: 'small'}), table = make('table', {id: 'map', style: {width: 'auto'}})
    element.replaceChildren(make('div', {class: 'row', style: {'margin-bottom': '4px'}}, make('label', {text: 'across '}, axisChoice(x, name => again(`${name},${y}`))),
      make('label', {text: 'down '}, axisChoice(y, name => again(`${x},${name}`))), say), table)
    table.append(make('tr', {}, make('th', {text: `${y} \\ ${x}`}), ...xs.map(value => make('th', {class: 'number', text: value}))))
    const cells = []
    for (const down of ys) {
      const row = make('tr', {}, make('th', {class: 'number', text: down}))
      for (const across of xs) {
        const isHere = [[x, across], [y, down]].every(([name, value]) => String(lab.plan?.[name.replace(/-/g, '_')]) === String(value))
        const cell = make('td', {class: `number cell${isHere ? ' here' : ''}`, text: '·', tabindex: '0', role: 'button'})
        const changes = {[x]: across, [y]: down}
        if (!('dp' in changes) && state.options.has('gpus')) changes.dp = null
        const load = () => change(changes)
        cell.addEventListener('click', load)
        cell.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); load() } })
        cell.style.setProperty('padding', '2px 8px')
        cell.style.setProperty('border', '1px solid var(--line)')
        cells.push({cell, changes, label: `${x} ${across}, ${y} ${down}`})
        row.append(cell)
      }
      table.append(row)
    }
    let done = 0
    await Promise.all(cells.map(async one => {
      let {json, why} = await trial(one.changes, signal)
      if (!json && (state.options.has('chunks') || state.options.has('schedule'))) { // of another pipeline
        const changes = {chunks: null, schedule: null, ...one.changes}, other = await trial(changes, signal)
        if (other.json) { json = other.json; one.label += ', chunks and schedule left out'; Object.assign(one.changes, changes) }
      }
      one.json = json
      one.cell.textContent = json ? (json.memory.fits ? share(json.mfu) : 'memory') : '–'
      one.cell.title = json ? `${one.label}: ${seconds(json.step_time_s)}, ${share(json.mfu)} MFU, ${bytes(json.memory.total_bytes)}${json.memory.fits ? '' : ': does not fit'}` : `${one.label}: ${why}`
      one.cell.classList.toggle('small', !json || !json.memory.fits)
      say.textContent = `${++done} of ${cells.length}; MFU (– impossible, memory: does not fit; bold the best, framed this plan); a click loads the plan`
    }))
    const best = Math.max(...cells.map(({json}) => json?.memory.fits ? json.tokens_per_s_per_gpu : 0))
    for (const {cell, json} of cells) {
      if (!json?.memory.fits) continue
      const part = json.tokens_per_s_per_gpu / best
      cell.style.setProperty('background', `color-mix(in srgb, var(--accent) ${Math.round(55 * part ** 3)}%, var(--panel))`)
      if (part === 1) cell.style.setProperty('font-weight', '700')
    }
  },
}

// --- scaling ---------------------------------------------------------------------------------------------------------

export const scalingTab = {
  name: 'Scaling',
  needsPlan: true,
  async show(lab, element, signal) {
    const weak = state.view.scaling !== 'strong', plan = lab.plan
    if (!plan) return element.replaceChildren()
    const say = make('span', {class: 'small', text: weak ? 'GPUs and batch grow together' : 'the batch stays'})
    const choice = make('select', {'aria-label': 'weak or strong scaling', onchange: async event => { await view({scaling: event.target.value}); lab.showTab() }},
      make('option', {value: 'weak', text: 'weak', selected: weak}), make('option', {value: 'strong', text: 'strong', selected: !weak}))
    const base = plan.tp * plan.pp * plan.cp, counts = []
    for (let dp = Math.max(1, 2 ** Math.floor(Math.log2(plan.dp / 16))); dp <= plan.dp * 4; dp *= 2) counts.push(dp)
    const canvas = make('canvas', {id: 'scaling', role: 'img', 'aria-label': 'tokens per second per GPU by GPUs', style: {width: '560px', height: '150px'}})
    const table = make('table', {style: {width: 'auto'}})
    element.replaceChildren(make('div', {class: 'row', style: {'margin-bottom': '4px'}}, choice, say), make('div', {class: 'row'}, canvas, table))
    const points = await Promise.all(counts.map(async dp => {
      const changes = {dp, gpus: dp * base, 'global-batch': weak ? Math.max(1, Math.round(plan.global_batch / plan.dp * dp)) : plan.global_batch}
      const {json, why} = await trial(changes, signal)
      return {gpus: dp * base, json, why, changes}
    }))
    const good = points.filter(({json}) => json)
    table.append(make('tr', {}, ...['GPUs', 'step', 'MFU', 'bubble', 'dp exposed'].map(text => make('th', {class: 'number', text}))),
      ...points.map(({gpus, json, why, changes}) => make('tr', {class: 'cell', onclick: () => change(changes), title: why || 'load this plan'},
        ...(json ? [number(gpus), seconds(json.step_time_s), share(json.mfu), share(json.bubble_fraction), seconds(json.breakdown_s.dp)] : [number(gpus), '–', '', '', '']).map(text => make('td', {class: 'number', text})))))
    plotLine(canvas, good.map(({gpus, json}) => [gpus, json.tokens_per_s_per_gpu]), 'GPUs', 'tokens/s per GPU')
  },
}

// Points joined, x on a logarithmic axis from the first to the last, y from 0.
export function plotLine(canvas, points, xName, yName, marks = []) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
  canvas.width = width * scale
  canvas.height = height * scale
  const c = canvas.getContext('2d')
  c.setTransform(scale, 0, 0, scale, 0, 0)
  c.font = '11px system-ui, "DejaVu Sans", sans-serif'
  const all = [...points, ...marks]
  if (!all.length) return
  const xs = all.map(p => p[0]), low = Math.min(...xs), high = Math.max(...xs), top = Math.max(...all.map(p => p[1])) * 1.08
  const xOf = x => 52 + (high > low ? Math.log(x / low) / Math.log(high / low) : 0.5) * (width - 80), yOf = y => height - 20 - y / top * (height - 32)
  c.strokeStyle = css('--line')
  c.strokeRect(46.5, 6.5, width - 60, height - 26)
  c.fillStyle = css('--faint')
  c.fillText(yName, 52, 17)
  for (const y of [0, top / 2, top]) c.fillText(number(y, 2), 4, yOf(y) + 4)
  points.forEach(([x]) => c.fillText(number(x), xOf(x) - 10, height - 7))
  c.strokeStyle = c.fillStyle = css('--accent')
  c.beginPath()
  points.forEach(([x, y], i) => c[i ? 'lineTo' : 'moveTo'](xOf(x), yOf(y)))
  c.stroke()
  for (const [x, y] of points) { c.beginPath(); c.arc(xOf(x), yOf(y), 3, 0, 7); c.fill() }
}

// --- search ----------------------------------------------------------------------------------------------------------

const axes = ['tp', 'pp', 'cp', 'ep', 'expert-tp', 'chunks', 'schedule', 'micro-batch', 'zero', 'recompute', 'sequence-parallel', 'dp']

export const searchTab = {
  name: 'Plan search',
  needsPlan: true,
  async show(lab, element, signal) {
    if (!lab.plan) return element.replaceChildren()
    const what = state.view.objective || 'tokens_per_s'
    const choice = make('select', {'aria-label': 'objective', onchange: async event => { await view({objective: event.target.value}); lab.showTab() }},
      ...['tokens_per_s', 'cost', 'mfu'].map(value => make('option', {value, text: {tokens_per_s: 'fastest', cost: 'cheapest', mfu: 'highest MFU'}[value], selected: value === what})))
    const out = make('div', {class: 'small', text: 'searching…'})
    element.replaceChildren(make('div', {class: 'row', style: {'margin-bottom': '4px'}}, choice,
      make('span', {class: 'small', text: `the best plans for this model, cluster, GPUs and batch; searched: ${axes.join(', ')}; all other options as they are`})), out)
    const options = withChanges(Object.fromEntries(axes.map(name => [name, null])))
    options.set('gpus', String(lab.plan.gpus))
    options.set('global-batch', String(lab.plan.global_batch))
    if (!options.has('seq-len')) options.set('seq-len', String(lab.plan.seq_len))
    options.set('objective', what)
    options.set('top', '8')
    for (const name of ['steps', 'fold', 'jitter', 'seed', 'rank-map', 'gpu-hours', 'mtbf']) options.delete(name)
    const answer = await ask({verb: 'plan', options: optionsList(options), files: filesOf(options), aside: true}, signal)
    if (!answer.json) { out.textContent = answer.errors; out.className = 'wrong'; return }
    const json = answer.json, plans = [json.best, ...json.runners_up], losers = json.losers
    const load = entry => change(Object.fromEntries(axes.filter(name => name !== 'dp').map(name => [name, valueOf(entry, name)]).concat([['dp', null], ['gpus', entry.plan.gpus]])))
    out.className = 'row'
    out.replaceChildren(make('table', {id: 'plans', style: {width: 'auto'}},
      make('tr', {}, ...['', 'plan', 'step', 'MFU', 'memory'].map(text => make('th', {text}))),
      ...plans.map((entry, i) => make('tr', {}, make('td', {}, make('button', {text: 'Load', onclick: () => load(entry)})),
        make('td', {text: entry.options.replace(/--(gpus|global-batch|seq-len) \S+ ?/g, '').replace(/--/g, '')}), make('td', {class: 'number', text: seconds(entry.step_time_s)}),
        make('td', {class: 'number', text: share(entry.mfu)}), make('td', {class: 'number', text: bytes(entry.memory.total_bytes)}),
        make('td', {class: 'small', text: json.recommended?.rank === i ? `recommended: the simplest of ${json.recommended.tied.length} that predictions cannot tell apart` : ''})))),
      make('div', {class: 'small'}, make('div', {text: `${number(json.search.configurations)} configurations: ${number(losers.impossible)} impossible, ${number(losers.out_of_memory)} without room, `
        + `${number(losers.beaten_by_bound)} beaten by a bound, ${number(json.search.simulated)} simulated; the others are copies of these.`}),
        ...(losers.impossible_reasons || []).slice(0, 4).map(({reason, count}) => make('div', {text: `${number(count)}: ${reason}`}))))
  },
}

function valueOf(entry, name) {
  const found = new RegExp(`--${name} (\\S+)`).exec(entry.options)
  return found ? found[1] : null
}
