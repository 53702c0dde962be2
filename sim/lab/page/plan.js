// The plan's fields: steppers and choices for what people change most, the rest folded away; each shows what its next
// value would do, from the engine's own sensitivities.

import {change as changeText, make} from './look.js'
import {change, onChange, state} from './state.js'

// Fields by group, and the values that a stepper goes through where doubling is not it.
const groups = [
  ['Parallelism', ['gpus', 'tp', 'pp', 'cp', 'ep', 'dp']],
  ['Pipeline', ['schedule', 'chunks', 'pipeline-layout']],
  ['Batch', ['micro-batch', 'global-batch', 'seq-len']],
  ['Memory', ['zero', 'recompute', 'sequence-parallel', 'offload-optimizer']],
  ['Numbers', ['precision', 'recipe', 'attention']],
  ['Run', ['tokens', 'price']],
]
const one = {zero: [0, 1, 2, 3]}
const shortNames = {
  gpus: 'GPUs', tp: 'tp', pp: 'pp', cp: 'cp', ep: 'ep', dp: 'dp', 'micro-batch': 'micro-batch', 'global-batch': 'global batch',
  'seq-len': 'sequence', zero: 'ZeRO', 'sequence-parallel': 'seq. parallel', 'pipeline-layout': 'layout',
  'offload-optimizer': 'offload optim.',
}

// What is written anew, though it is the same, is laid out anew.
function put(element, name, value) { if (element[name] !== value) element[name] = value }

export class PlanPanel {
  constructor(element, catalog) {
    this.element = element
    this.fields = Object.fromEntries(catalog.fields.map(field => [field.name, field]))
    this.catalog = catalog
    this.rows = {}
    for (const [title, names] of groups) {
      element.append(make('h2', {text: title}), make('div', {class: 'fields'}, ...names.map(name => this.row(name))))
    }
    const named = new Set(groups.flatMap(([, names]) => names).concat('framework'))
    const rest = catalog.fields.filter(({name}) => !named.has(name))
    this.more = make('details', {}, make('summary', {text: `All other options (${rest.length})`}),
      make('div', {class: 'fields'}, ...rest.map(({name}) => this.row(name))))
    element.append(make('div', {style: {height: '8px'}}), this.more, make('p', {class: 'wrong', id: 'plan-error', role: 'alert'}))
    onChange(() => this.fill())
  }

  fieldOf(name) {
    return this.fields[name] || {
      tokens: {name, kind: 'text', help: 'tokens to train on, e.g. 15.6T: days, GPU-hours, dollars'},
      price: {name, kind: 'text', help: 'price of a GPU-hour, e.g. 2.50 $/h'},
    }[name]
  }

  row(name) {
    const field = this.fieldOf(name), id = `field-${name}`
    const label = make('label', {for: id, text: shortNames[name] || name.replace(/-/g, ' '), title: `--${name}: ${field.help}`})
    const steps = field.kind === 'count'
    const input = field.choices && name !== 'pipeline-layout' ? this.select(field, id)
      : make('input', {id, autocomplete: 'off', spellcheck: 'false', 'aria-label': `${name}: ${field.help}`,
        onchange: event => this.set(name, event.target.value.trim()),
        onkeydown: event => this.keys(event, name, steps)})
    const row = make('div', {class: 'field', 'data-field': name}, label)
    const ahead = make('div', {class: 'ahead', id: `ahead-${name}`})
    if (steps) {
      row.append(make('span', {class: 'stepper'},
        make('button', {text: '−', title: 'The next smaller value', 'aria-label': `${name} smaller`, onclick: () => this.step(name, -1)}), input,
        make('button', {text: '+', title: 'The next larger value', 'aria-label': `${name} larger`, onclick: () => this.step(name, 1)})), ahead)
      ahead.append(make('span'), make('span'))
    } else {
      row.append(input)
      if (field.choices) row.append(ahead)
    }
    this.rows[name] = {row, input, ahead, field}
    return row
  }

  select(field, id) {
    const open = field.default ? `${field.default}` : 'as it comes'
    const select = make('select', {id, 'aria-label': `${field.name}: ${field.help}`, onchange: event => this.set(field.name, event.target.value)},
      make('option', {value: '', text: open}))
    for (const choice of field.choices) if (choice !== field.default) select.append(make('option', {value: choice, text: choice}))
    return select
  }

  keys(event, name, steps) {
    if (event.key === 'Enter') event.target.dispatchEvent(new Event('change'))
    if (!steps || !['ArrowUp', 'ArrowDown'].includes(event.key)) return
    event.preventDefault()
    this.step(name, event.key === 'ArrowUp' ? 1 : -1)
  }

  set(name, value) {
    if ((state.options.get(name) || '') === value) return
    const changes = {[name]: value || null}
    // GPUs stay what they are while their axes change: dp is what is left
    if (['tp', 'pp', 'cp', 'gpus'].includes(name) && state.options.has('gpus')) changes.dp = null
    if (name === 'dp' && value) changes.gpus = null
    change(changes)
  }

  current(name) { return Number(state.options.get(name) || this.plan?.[name.replace(/-/g, '_')] || this.fieldOf(name).default || 0) }

  next(name, by) {
    const now = this.current(name), field = this.fieldOf(name)
    const values = one[name]
    if (!Number.isFinite(now)) return null
    const to = values ? values[values.indexOf(now) + by] : by > 0 ? (now >= 1 ? now * 2 : 1) : now > 1 ? Math.floor(now / 2) : now
    if (to === undefined || to === now || (field.most !== undefined && to > field.most) || to < (field.least ?? 0)) return null
    return to
  }

  step(name, by) {
    const to = this.next(name, by)
    if (to !== null) this.set(name, String(to))
  }

  // What is typed, and what else is so: `plan` as the engine completed it.
  fill() {
    for (const [name, {row, input, field}] of Object.entries(this.rows)) {
      const typed = state.options.get(name)
      row.classList.toggle('set', typed !== undefined)
      if (document.activeElement === input && input.tagName === 'INPUT' && input.value.trim() === (typed || '')) continue
      const known = this.plan?.[name.replace(/-/g, '_')]
      if (input.tagName === 'SELECT') {
        if (typed && ![...input.options].some(option => option.value === typed)) input.append(make('option', {value: typed, text: typed}))
        const shown = typeof known === 'boolean' ? (known ? 'on' : 'off') : known
        put(input, 'value', typed && typed !== field.default ? typed : '')
        put(input.options[0], 'text', !typed && shown ? String(shown) : field.default || 'as it comes')
      } else {
        put(input, 'value', typed || '')
        put(input, 'placeholder', known !== undefined && known !== null ? String(known) : field.default || '')
      }
    }
  }

  // Outlines the fields that a message names.
  markNamed(message) {
    for (const [name, {row}] of Object.entries(this.rows))
      row.classList.toggle('named', new RegExp(`(^|[^\\w-])(--)?${name}( |=|:|,|$)`).test(message))
  }

  // From explain --json: what neighbours do. null: not known yet.
  showAhead(explanation) {
    const found = {}
    for (const entry of explanation?.sensitivity || []) (found[entry.option.slice(2)] ||= []).push(entry)
    const now = explanation && explanation.tokens_per_s
    for (const [name, {ahead, field}] of Object.entries(this.rows)) {
      if (!ahead.isConnected) continue
      const entries = found[name] || []
      const word = entry => {
        if (!entry) return make('span')
        const to = `--${name} ${entry.to}`
        if (entry.impossible) return make('span', {class: 'misfit', text: '∅', title: `${to}: ${entry.impossible}`})
        if (!entry.memory.fits) return make('span', {class: 'misfit', text: 'no room', title: `${to}: does not fit in memory`})
        const gain = entry.tokens_per_s / now - 1
        return make('span', {class: gain > 0.0005 ? 'faster' : gain < -0.0005 ? 'slower' : '',
          text: changeText(gain), title: `${to}: ${changeText(gain)} tokens/s`})
      }
      if (field.kind === 'count') {
        ahead.replaceChildren(word(entries.find(({from, to}) => Number(to) < Number(from))), word(entries.find(({from, to}) => Number(to) > Number(from))))
      } else {
        ahead.replaceChildren(...entries.slice(0, 2).map(entry => {
          const shown = word(entry)
          shown.style.setProperty('width', 'auto')
          shown.style.setProperty('margin-left', '6px')
          shown.textContent = `${entry.to} ${shown.textContent}`
          return shown
        }))
      }
    }
  }
}
