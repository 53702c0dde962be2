// From the address to the engine to the page. An edit changes the address; each change asks the engine three things, and
// what comes back for an older address is dropped: numbers first, then the arrays that are drawn, then what neighbours do.

import {ask, askOfRecording, frozen} from './engine.js'
import {actionColours, change as changeOf, chargeColours, make, number, rgba, seconds, share} from './look.js'
import {PlanPanel} from './plan.js'
import {nearest, readCsv, ResultsPanel} from './results.js'
import {change, commandOf, filesOf, listen, onChange, optionsList, planOptions, readAddress, setOrder, state, view, addressOf} from './state.js'
import {editorTab} from './editor.js'
import {learnTab} from './learn.js'
import {paretoTab} from './pareto.js'
import {ranksTab} from './ranks.js'
import {abTab, mapTab, optionsOf, scalingTab, searchTab} from './tabs.js'
import {pale, Step, Timeline} from './timeline.js'

const $ = id => document.getElementById(id)
const tabs = [mapTab, abTab, scalingTab, paretoTab, searchTab, ranksTab, editorTab, learnTab]

class Lab {
  async start() {
    this.catalog = frozen ? frozen.catalog : await (await fetch('catalog.json')).json()
    setOrder(this.catalog.fields.map(({name}) => name))
    if (frozen || !await readAddress(location.hash)) {
      state.options = new Map(this.catalog.start.options)
      state.files = this.catalog.start.files
      if (!frozen) history.replaceState(null, '', await addressOf())
    }
    document.documentElement.dataset.theme = state.view.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')
    this.machine()
    this.planPanel = new PlanPanel($('plan'), this.catalog)
    this.results = new ResultsPanel($('results'))
    this.timeline = new Timeline({timeline: $('timeline'), memory: $('memory'), links: $('links')}, $('timeline-say'), $('tip'),
      {onZoom: (from, to) => this.keepZoom(from, to)})
    if (state.view.zoom) [this.timeline.from, this.timeline.to] = state.view.zoom.split(',').map(Number)
    this.buttons()
    this.tabBar()
    if (frozen) this.freeze()
    else fetch('published.csv').then(response => response.text()).then(text => { this.published = readPublished(text); this.near() })
    onChange(() => this.changed())
    listen()
    await this.changed()
  }

  freeze() {
    for (const id of ['plan', 'machine', 'part-help']) $(id).inert = true
    for (const id of ['strip', 'undo', 'redo', 'copy-link']) $(id).hidden = true
    document.title = $('bar').querySelector('h1').textContent = 'stepsim: a predicted step'
  }

  machine() {
    const pick = (name, names, title) => {
      const select = make('select', {id: `pick-${name}`, 'aria-label': title, onchange: event => this.picked(name, event.target.value)})
      for (const [value, text] of names) select.append(make('option', {value, text}))
      $('machine').append(make('label', {}, make('span', {text: name}), select))
      return select
    }
    const same = list => list.map(name => [name, name])
    this.picks = {
      model: pick('model', [...same(this.catalog.models), ['', 'a file…']], 'model'),
      cluster: pick('cluster', [...same(this.catalog.clusters), ['words', 'in words…'], ['', 'a file…']], 'cluster'),
      framework: pick('framework', [['-', 'none'], ...same(this.catalog.frameworks)], 'framework'),
    }
  }

  async picked(name, value) {
    if (name === 'framework') return change({framework: value === '-' ? null : value})
    if (value === 'words') {
      this.fillPicks()
      value = prompt('GPUs of a node and their kind, NICs', '8x h100, 400 Gb/s x 8')
      return value ? change({[name]: value}) : undefined
    }
    if (value) return change({[name]: value})
    this.fillPicks()
    const file = await chooseFile(name === 'model' ? '.json' : '.yaml,.yml')
    if (file) this.takeFile(name, file.name, await file.text())
  }

  takeFile(option, name, text) {
    change({[option]: `@${name.replace(/\.[^.]*$/, '').replace(/[^\w.-]/g, '-') || option}`}, {[option]: text})
  }

  fillPicks() {
    for (const [name, select] of Object.entries(this.picks)) {
      const value = state.options.get(name) ?? (name === 'framework' ? '-' : '')
      if (![...select.options].some(option => option.value === value)) select.prepend(make('option', {value, text: value}))
      select.value = value
    }
  }

  // The numbers, the drawing and the neighbours of the state as it is now.
  async changed() {
    this.stop?.abort()
    this.tabStop?.abort()
    clearTimeout(this.nearSoon)
    this.stop = new AbortController()
    const signal = this.stop.signal, options = optionsList(), files = filesOf(state.options), began = performance.now()
    document.body.classList.add('computing', 'old', 'tab-old')
    this.json = this.plan = this.explanation = this.noPlan = null
    this.fillPicks()
    this.planPanel.fill()
    this.planPanel.showAhead(null)
    this.results.parts.help.replaceChildren()
    this.results.parts.near.replaceChildren()
    this.tabBar()
    const question = {verb: 'simulate', options, files}
    const apart = ['rank-map', 'fold'] // explain takes no map; folded or not, numbers are the same
    try {
      const numbers = await ask(question, signal) // alone: the others would take processors from it
      this.showNumbers(numbers, performance.now() - began)
      await Promise.all([
        ask({...question, writes: 'npz'}, signal).then(answer => this.showStep(answer, performance.now() - began)),
        ask({verb: 'explain', options: planOptions().filter(([name]) => !apart.includes(name)), files, aside: true}, signal).then(answer => this.showExplanation(answer)),
        state.view.pin ? this.askPinned(signal) : null,
      ])
      if (numbers.json && !frozen) this.nearSoon = setTimeout(() => this.near(), 200) // not while edits follow each other
      if (!frozen) await this.showTab()
    } catch (error) {
      if (error.name !== 'AbortError') this.say(`The lab does not answer: ${error.message}`)
    }
  }

  showNumbers(answer, ms) {
    $('plan-error').textContent = answer.json ? '' : answer.errors
    this.lastMs = ms
    if (!answer.json) {
      this.results.json = null
      for (const part of Object.values(this.results.parts)) part.replaceChildren()
      this.results.parts.numbers.replaceChildren(make('p', {class: 'wrong', text: answer.errors}))
      document.body.classList.remove('computing')
      $('timeline-title').textContent = 'No step'
      $('no-step').textContent = answer.errors
      this.planPanel.markNamed(answer.errors)
      return
    }
    this.json = answer.json
    this.results.show(answer.json)
    if (this.explanation) this.results.help(this.explanation) // it came first
    else if (this.noPlan) this.sayNoPlan()
    document.body.classList.remove('computing')
    document.body.dataset.numbersMs = ms.toFixed(1)
    this.planPanel.markNamed('')
    $('timeline-title').textContent = `${seconds(answer.json.step_time_s, 4)} · bubble ${share(answer.json.bubble_fraction)}${answer.json.memory.fits ? '' : ' · does not fit'}`
  }

  showStep(answer, ms) {
    document.body.classList.remove('old')
    this.step = answer.arrays ? new Step(answer.arrays) : null
    document.body.dataset.stepMs = ms.toFixed(1)
    const memory = answer.json?.memory
    this.capacity = memory?.capacity_bytes
    this.reserved = memory ? memory.total_bytes - memory.peak_bytes : 0
    if (!answer.arrays && this.json) $('no-step').textContent = `The step is not drawn: ${answer.errors}`
    else if (this.json) $('no-step').textContent = ''
    this.drawn = answer.json
    this.drawSteps()
    this.legend()
  }

  drawSteps() {
    const steps = []
    if (this.step) steps.push({step: this.step, title: 'B: this plan', capacity: this.capacity, reserved: this.reserved})
    if (this.step && state.view.pin && this.pinnedStep) steps.push({step: this.pinnedStep, title: 'A: pinned', capacity: this.capacity})
    this.timeline.show(steps)
  }

  async askPinned(signal) {
    this.pinnedOptions = optionsOf(state.view.pin)
    const answer = await ask({verb: 'simulate', options: optionsList(this.pinnedOptions), files: filesOf(this.pinnedOptions, state.pinnedFiles), writes: 'npz'}, signal)
    this.pinnedAnswer = answer
    this.pinnedStep = answer.arrays ? new Step(answer.arrays) : null
    this.drawSteps()
  }

  async pinned() {
    const stop = this.stop
    if (state.view.pin) await this.askPinned(stop.signal).catch(error => { if (!stop.signal.aborted) this.say(error.message) })
    else this.pinnedStep = this.pinnedAnswer = null
    this.drawSteps()
    this.showTab()
  }

  showExplanation(answer) {
    this.explanation = answer.json
    this.plan = answer.json?.plan || null
    this.planPanel.plan = this.plan
    this.planPanel.fill()
    this.planPanel.showAhead(answer.json)
    this.noPlan = answer.json ? null : answer.errors
    if (this.json && answer.json) this.results.help(answer.json)
    else if (this.json) this.sayNoPlan()
  }

  sayNoPlan() { this.results.parts.help.replaceChildren(make('div', {class: 'small', id: 'no-plan', text: `What would help is not known: ${this.noPlan}`})) }

  near() {
    if (!this.published || !this.plan || !this.json) return
    const rows = nearest(this.published, this.plan, this.json, state.options.get('model'), state.options.get('cluster'))
    this.results.near(rows, this.stop.signal, this).catch(() => {})
  }

  legend() {
    if (!this.step) return $('legend').replaceChildren()
    const swatch = (name, colour) => {
      const mark = make('i')
      mark.style.setProperty('background', colour)
      return make('span', {}, mark, name)
    }
    const drawn = new Set(this.step.ranks.flatMap(lanes => lanes.map(({name}) => name)).concat('bubble', 'optimizer'))
    const leftOut = this.step.arrays.kernel_op.length === 0 && this.drawn?.breakdown_s.compute > 0
    if (!leftOut) drawn.add('recompute')
    const isDark = document.documentElement.dataset.theme === 'dark', hex = colour => '#' + [0, 8, 16].map(shift => (colour >>> shift & 255).toString(16).padStart(2, '0')).join('')
    const seen = new Set(Object.keys(this.drawn?.breakdown_s || {}).filter(name => this.drawn.breakdown_s[name] > 0 && drawn.has(name) && name !== 'compute' && name !== 'host'))
    const split = this.step.arrays.actions.length && this.step.ranks.some(lanes => lanes.some(lane => lane.kind.includes(this.step.kinds.indexOf('W'))))
    $('legend').replaceChildren(swatch('F', actionColours.F), swatch(split ? 'I' : 'B', split ? actionColours.I : actionColours.B),
      ...(split ? [swatch('W', actionColours.W)] : []),
      ...[...seen].map(name => swatch(name, name === 'bubble' ? hex(pale(rgba(chargeColours[name]), isDark)) : chargeColours[name])),
      leftOut ? make('span', {id: 'left-out', text: 'kernels not drawn', title: 'Kernels, and tp inside blocks, are too many to draw. With fewer micro-batches there are fewer; the sums on the right count them all'}) : '')
  }

  buttons() {
    $('undo').onclick = () => history.back()
    $('redo').onclick = () => history.forward()
    $('copy-link').onclick = () => this.copy(location.href, 'Link copied')
    $('copy-command').onclick = () => this.copy(commandOf(), 'Command copied')
    $('theme').onclick = async () => {
      const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'
      document.documentElement.dataset.theme = theme
      await view({theme})
      this.timeline.paint()
      this.legend()
      this.showTab()
    }
    $('zoom-out').onclick = () => this.timeline.whole()
    $('show-critical').onchange = event => { this.timeline.showsCritical = event.target.checked; this.timeline.draw() }
    $('help').onclick = () => this.keys()
    const entries = [['Timeline as PNG', () => this.exportPng()], ['Spans as CSV', () => this.exportCsv()], ['Numbers as JSON', () => this.exportJson()]]
    if (!frozen) entries.push(['Timeline as SVG', () => this.exportWritten('svg')], ['Trace for Perfetto', () => this.exportWritten('json')], ['One page (HTML)', () => this.exportWritten('html')])
    if (!frozen) entries.push(['Open a trace…', async () => this.dropped(await chooseFile('.json,.gz,.sqlite'))])
    for (const [text, run] of entries) $('export-menu').append(make('button', {role: 'menuitem', text, onclick: () => { $('export').open = false; run() }}))
    document.addEventListener('keydown', event => {
      const typing = ['INPUT', 'SELECT', 'TEXTAREA'].includes(document.activeElement?.tagName)
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'z' && !typing && !frozen) { event.preventDefault(); history[event.shiftKey ? 'forward' : 'back']() }
      if (event.key === '?' && !typing) this.keys()
      if (event.key === 'c' && !typing && !event.ctrlKey) { $('show-critical').click() }
    })
    document.addEventListener('dragover', event => event.preventDefault())
    document.addEventListener('drop', event => { event.preventDefault(); this.dropped(event.dataTransfer.files[0]) })
  }

  async dropped(file) {
    if (!file) return
    if (/\.(ya?ml)$/.test(file.name)) return this.takeFile('cluster', file.name, await file.text())
    if (/config.*\.json$/.test(file.name) && file.size < 1e6) return this.takeFile('model', file.name, await file.text())
    this.say(`Reading ${file.name}…`)
    const answer = await askOfRecording(file, this.stop.signal)
    this.recording = {name: file.name, answer}
    answer.errors = answer.errors.replace(/recording(\.\w+)+/g, file.name)
    this.say(answer.json ? `${file.name} is beside the prediction, below` : answer.errors)
    if (answer.json) { await view({tab: 'Recording'}); this.tabBar(); this.showTab() }
  }

  keys() {
    const rows = [['Tab', 'from control to control'], ['↑ ↓ in a number', 'the next value'], ['← →', 'move along the step'], ['+ − Home', 'zoom; whole step'],
      ['↑ ↓ on the timeline', 'another rank: memory and links are its'], ['. ,', 'the next or previous op'], ['w', 'what the chosen op followed'], ['c', 'critical path'],
      ['wheel, drag, Shift+drag', 'zoom, move, sum up a stretch'], ['Ctrl+Z, Ctrl+Shift+Z', 'undo, redo']]
    const words = [['F B I W', 'forward, backward; or input gradients and weight gradients apart'], ['mb', 'micro-batch'], ['F 3 · mb 5', 'forward of stage 3, micro-batch 5'],
      ['pale', 'a collective or transfer that waits for the others'], ['under a stepper', 'tokens/s with its next value; ∅ impossible, no room: does not fit'], ['exposed', 'communication that no computing hides: only that is in “Where the time goes”']]
    $('keys').replaceChildren(make('h2', {text: 'Keys'}), make('table', {}, ...rows.map(([key, text]) => make('tr', {}, make('td', {}, make('b', {text: key})), make('td', {text})))),
      make('h2', {text: 'Words'}), make('table', {}, ...words.map(([word, text]) => make('tr', {}, make('td', {}, make('b', {text: word})), make('td', {text})))),
      make('button', {text: 'Close', autofocus: true, onclick: () => $('keys').close()}))
    $('keys').showModal()
  }

  tabBar() {
    if (frozen) return
    const all = this.recording ? [...tabs, recordingTab] : tabs
    $('tabs').replaceChildren(...all.map(tab => make('button', {role: 'tab', text: tab.name, 'aria-selected': String(tab === this.tabNow()),
      onclick: async () => { await view({tab: tab.name}); this.tabBar(); this.showTab() }})))
  }

  // A published row as a plan. Models that are not shipped travel as a file of their sizes.
  async loadPublished(row) {
    const changes = Object.fromEntries([...state.options.keys()].map(name => [name, null]))
    for (const name of this.catalog.fields.map(field => field.name)) {
      const value = row[name.replace(/-/g, '_')]
      if (value) changes[name] = value
    }
    // of models with experts a row's columns say too little; their own files say all
    const name = row.model_name.replace(/[^\w.-]+/g, '-'), shipped = row.experts && this.catalog.models.includes(name.toLowerCase())
    const files = shipped ? {} : {model: JSON.stringify(configOf(row), null, 1)}
    Object.assign(changes, {model: shipped ? name.toLowerCase() : `@${name}`, cluster: row.cluster, framework: this.catalog.framework_files[row.read_as] || row.read_as || row.framework || null})
    const options = new Map(Object.entries(changes).filter(([, value]) => value)), answer = await ask({verb: 'simulate', options: optionsList(options), files})
    if (/--overlap-\w+ on and --framework/.test(answer.errors)) // the row asks for what its framework never does
      changes['overlap-grad'] = changes['overlap-param'] = null
    await change(changes, files)
  }

  tabNow() { return [...tabs, recordingTab].find(({name}) => name === state.view.tab) || tabs[0] }

  async showTab() {
    this.tabStop?.abort()
    this.tabStop = new AbortController()
    document.body.classList.remove('tab-old')
    try {
      const tab = this.tabNow()
      if (this.json && tab.needsPlan && this.noPlan) $('tab').replaceChildren(make('div', {class: 'small', text: this.noPlan}))
      else if (this.json || tab.judges || tab === abTab) await tab.show(this, $('tab'), this.tabStop.signal)
      else $('tab').replaceChildren(make('div', {class: 'small', text: document.body.classList.contains('computing') ? '…' : 'No step: see the plan'}))
    } catch (error) {
      if (error.name !== 'AbortError') $('tab').replaceChildren(make('div', {class: 'wrong', text: error.message}))
    }
  }

  keepZoom(from, to) {
    clearTimeout(this.zoomTimer)
    this.zoomTimer = setTimeout(() => view({zoom: from === 0 && to === 1 ? null : `${Number(from.toFixed(12))},${Number(to.toFixed(12))}`}), 300)
  }

  async copy(text, done) {
    try {
      await navigator.clipboard.writeText(text)
      this.say(done)
    } catch {
      $('keys').replaceChildren(make('h2', {text: 'Copy this'}), make('textarea', {rows: 6, cols: 60, id: 'to-copy'}), make('button', {text: 'Close', onclick: () => $('keys').close()}))
      $('to-copy').value = text
      $('keys').showModal()
      $('to-copy').select()
    }
  }

  say(text) {
    $('note').textContent = text
    $('note').classList.add('shown')
    clearTimeout(this.noteTimer)
    this.noteTimer = setTimeout(() => $('note').classList.remove('shown'), 2500)
  }

  // "llama-3-70b-256-trace.json": named after what it is of.
  fileName(what) {
    const model = (state.options.get('model') || 'step').replace(/^@/, ''), gpus = state.options.get('gpus') || this.plan?.gpus
    return [model, gpus, what].filter(Boolean).join('-').replace(/[^\w.-]+/g, '-')
  }

  exportPng() {
    const canvases = ['timeline', 'memory', 'links'].map($), out = document.createElement('canvas')
    out.width = canvases[0].width
    const scale = devicePixelRatio || 1, head = Math.round(40 * scale)
    out.height = canvases.reduce((sum, {height}) => sum + height, head)
    const c = out.getContext('2d')
    c.fillStyle = getComputedStyle(document.body).backgroundColor
    c.fillRect(0, 0, out.width, out.height)
    c.fillStyle = getComputedStyle(document.body).color
    c.font = `${13 * scale}px system-ui, sans-serif`
    c.fillText(`${optionsList().map(option => option.join(' ')).join(', ')}: ${$('timeline-title').textContent}`, 6 * scale, 16 * scale, out.width - 12 * scale)
    let x = 6 * scale
    c.font = `${11 * scale}px system-ui, sans-serif`
    for (const entry of $('legend').children) {
      const mark = entry.querySelector('i')
      if (mark) { c.fillStyle = mark.style.background; c.fillRect(x, 24 * scale, 10 * scale, 10 * scale); x += 13 * scale }
      c.fillStyle = getComputedStyle(document.body).color
      c.fillText(entry.textContent, x, 33 * scale)
      x += c.measureText(entry.textContent).width + 10 * scale
    }
    let y = head
    for (const canvas of canvases) { c.drawImage(canvas, 0, y); y += canvas.height }
    out.toBlob(blob => save(blob, this.fileName('timeline.png')))
  }

  exportCsv() {
    const step = this.step
    if (!step) return this.say('There is no step to write')
    const a = step.arrays, lines = ['rank,stream,name,start_ns,end_ns,bytes,critical']
    for (let i = 0; i < a.op_rank.length; i++)
      lines.push([a.rank_first[a.op_rank[i]], a.streams[a.op_stream[i]], `"${step.name(i)}"`, step.startOf(i), step.endOf(i), Number.isFinite(a.op_bytes[i]) ? a.op_bytes[i] : '', a.op_critical[i]].join(','))
    save(new Blob([lines.join('\n') + '\n'], {type: 'text/csv'}), this.fileName('spans.csv'))
  }

  async exportWritten(writes) {
    const answer = await ask({verb: 'simulate', options: optionsList(), files: filesOf(state.options), writes})
    if (answer.written) save(new Blob([answer.written]), this.fileName({svg: 'timeline.svg', json: 'trace.json', html: 'step.html'}[writes]))
    else this.say(answer.errors)
  }

  exportJson() {
    if (!this.json) return this.say('There is no step to write')
    save(new Blob([JSON.stringify(this.json, null, 2)], {type: 'application/json'}), this.fileName('numbers.json'))
  }
}

// A profiler's recording beside the prediction: who does what for how long, and its own timeline.
const recordingTab = {
  name: 'Recording',
  async show(lab, element) {
    const {name, answer} = lab.recording || {}
    if (!answer?.json) return
    const step = answer.json.ranks[0].step, said = lab.json?.breakdown_s, sum = names => said && names.reduce((all, of) => all + said[of], 0)
    const gpus = lab.plan?.gpus, ranks = answer.json.ranks.length
    const rows = [['step', step.step_s, lab.json?.step_time_s], ['computing', step.computing_s, sum(['compute', 'recompute', 'optimizer'])],
      ['communicating alone, its waits too', step.communicating_s - step.communicating_hidden_s, sum(['tp', 'pp', 'cp', 'ep', 'dp'])],
      ['idle, host, other', step.idle_s + step.copying_s, sum(['bubble', 'host', 'other', 'offload'])]]
    const table = make('table', {id: 'recording', style: {width: 'auto'}}, make('tr', {}, ...[name, 'recorded', 'predicted', ''].map(text => make('th', {class: 'number', text}))),
      ...rows.map(([what, recorded, predicted]) => make('tr', {}, make('td', {text: what}), make('td', {class: 'number', text: seconds(recorded)}),
        make('td', {class: 'number', text: seconds(predicted ?? NaN)}), make('td', {class: 'number', text: recorded && predicted ? changeOf(predicted / recorded - 1) : ''}))),
      ...Object.entries(answer.json.ranks[0].kinds).filter(([, s]) => s > 0).map(([what, s]) => make('tr', {class: 'small'}, make('td', {text: what}), make('td', {class: 'number', text: seconds(s)}))))
    const picture = answer.written && make('img', {alt: `timeline of ${name}`, src: URL.createObjectURL(new Blob([answer.written], {type: 'image/svg+xml'}))})
    picture?.style.setProperty('max-width', '900px')
    element.replaceChildren(make('div', {class: 'small', text: `${name}: ${ranks} rank${ranks > 1 ? 's' : ''} recorded, beside the plan on the left${gpus ? ` on ${number(gpus)} GPUs` : ''}: they compare if it is that run's plan and model.`}),
      make('div', {class: 'row', style: {'flex-wrap': 'nowrap'}}, table, picture))
  },
}

// A row's sizes as the config.json that --model reads.
function configOf(row) {
  const n = name => row[name] ? Number(row[name]) : undefined, gated = row.gated === '1'
  const config = {model_type: n('experts') ? 'mixtral' : gated ? 'llama' : 'gpt2', hidden_size: n('hidden'), num_hidden_layers: n('layers'), num_attention_heads: n('heads'),
    num_key_value_heads: n('kv_heads') ?? n('heads'), intermediate_size: n('ffn_hidden') || 4 * n('hidden'), vocab_size: n('vocab'), max_position_embeddings: n('seq_len'), tie_word_embeddings: row.tied === '1'}
  if (n('experts')) Object.assign(config, {num_local_experts: n('experts'), num_experts_per_tok: n('experts_per_token'), intermediate_size: n('moe_ffn_hidden') || n('ffn_hidden')})
  if (n('mtp_layers')) config.num_nextn_predict_layers = n('mtp_layers')
  if (!gated && !n('experts')) Object.assign(config, {n_embd: n('hidden'), n_layer: n('layers'), n_head: n('heads'), n_positions: n('seq_len'), n_inner: n('ffn_hidden') || 4 * n('hidden')})
  return config
}

function save(blob, name) {
  const link = make('a', {href: URL.createObjectURL(blob), download: name})
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

function chooseFile(accept) {
  return new Promise(resolve => {
    const input = make('input', {type: 'file', accept, onchange: () => resolve(input.files[0]), oncancel: () => resolve(null)})
    input.click()
  })
}

function readPublished(text) {
  const lines = text.split('\n').filter(Boolean), head = readCsv(lines[0] + '\n')[0]
  return {head, rows: lines.slice(1).map(line => ({line, row: Object.fromEntries(readCsv(line + '\n')[0].map((cell, i) => [head[i], cell]))})).filter(({row}) => row.step_time_s)}
}

const lab = new Lab()
window.lab = lab
lab.start().catch(error => lab.say(`The page could not start: ${error.message}`))
