// The order of a schedule, to be changed by hand: an action is dragged along its rank, or chosen and moved with the arrow
// keys. The engine judges: what is legal, its bubble and memory are those of the order as a file, on the page like any other
// plan. Orders are PyTorch's CSV: a row per rank, "0F3" is stage 0's forward of micro-batch 3.

import {ask} from './engine.js'
import {actionColours, make} from './look.js'
import {change, state} from './state.js'

const MOST_ACTIONS = 3000

export const editorTab = {
  name: 'Schedule editor',
  judges: true, // says what is wrong with a plan that cannot run, too
  async show(lab, element, signal) {
    const own = state.options.get('schedule') === 'file:@edited' ? state.files.schedule : null
    const plan = lab.plan || this.plan
    this.plan = plan
    if (!own && !plan) return
    let text = own
    if (!text) {
      const n = Math.round(plan.global_batch / plan.dp / plan.micro_batch), name = String(plan.schedule).replace(/^auto.*/, 'auto')
      const options = [['schedule', name], ['pp', String(plan.pp)], ['micro-batches', String(n)]]
      if (plan.chunks > 1 && ['interleaved', 'looped-bfs'].includes(name)) options.push(['chunks', String(plan.chunks)])
      const answer = await ask({verb: 'schedule', options, aside: true}, signal)
      if (!answer.text) return element.replaceChildren(make('div', {class: 'wrong', text: answer.errors}))
      text = answer.text
    }
    const rows = text.trim().split('\n').map(cells)
    if (rows.flat().length > MOST_ACTIONS) return element.replaceChildren(make('div', {class: 'small', text: `${rows.flat().length} actions are too many to edit by hand; try fewer micro-batches.`}))
    const table = make('div', {id: 'order', role: 'grid'})
    const error = document.getElementById('plan-error').textContent, wrong = own ? placesOf(error) : []
    const sends = !own && !state.options.has('overlap-p2p') && plan.overlap_p2p !== undefined ? {'overlap-p2p': plan.overlap_p2p ? 'on' : 'off'} : {} // as before the edit
    const apply = () => change({...sends, schedule: 'file:@edited', chunks: null}, {schedule: rows.map(row => row.join(',')).join('\n') + '\n'})
    element.replaceChildren(make('div', {class: 'row', style: {'margin-bottom': '4px'}},
      make('span', {class: 'small', text: own ? 'This order, as it was edited.' : 'Drag an action along its rank, or choose one and press Alt+← or Alt+→.'}),
      own ? make('button', {text: 'Back to a built-in schedule', onclick: () => change({schedule: null})}) : null,
      make('span', {class: own && error ? 'wrong' : 'small', id: 'order-says', text: own ? error || (lab.json ? `legal: bubble ${(100 * lab.json.bubble_fraction).toFixed(2)} %` : '') : ''})), table)
    const move = (rank, from, to) => {
      if (to < 0 || to >= rows[rank].length || to === from) return
      rows[rank].splice(to, 0, rows[rank].splice(from, 1)[0])
      this.focus = [rank, to]
      apply()
    }
    rows.forEach((row, rank) => {
      const line = make('div', {role: 'row', style: {display: 'flex', gap: '1px', 'margin-bottom': '1px'}}, make('span', {class: 'small', text: `pp ${rank}`, style: {width: '38px', flex: 'none'}}))
      row.forEach((action, i) => {
        const kind = /OVERLAP/.test(action) ? 'overlap' : /[FBIW]/.exec(action)?.[0]
        const chip = make('button', {text: action.replace(/^\d+/, ''), title: action, draggable: 'true', class: 'chip-action', role: 'gridcell'})
        const bad = wrong.some(([r, k]) => r === rank && k === i)
        for (const [name, value] of [['background', actionColours[kind] || '#8d949e'], ['color', '#fff'], ['border', bad ? '2px solid #d62828' : 'none'], ['padding', '0 3px'], ['min-height', '17px'], ['font-size', '10px'], ['flex', 'none']])
          chip.style.setProperty(name, value)
        chip.addEventListener('dragstart', event => { event.dataTransfer.setData('text/plain', `${rank},${i}`); event.dataTransfer.effectAllowed = 'move' })
        chip.addEventListener('dragover', event => event.preventDefault())
        chip.addEventListener('drop', event => {
          event.preventDefault()
          event.stopPropagation()
          const [fromRank, from] = event.dataTransfer.getData('text/plain').split(',').map(Number)
          if (fromRank === rank) move(rank, from, i)
        })
        chip.addEventListener('keydown', event => {
          const by = {ArrowLeft: -1, ArrowRight: 1}[event.key]
          if (!by) return
          event.preventDefault()
          if (event.altKey) move(rank, i, i + by)
          else (by < 0 ? chip.previousElementSibling : chip.nextElementSibling)?.focus()
        })
        line.append(chip)
        if (this.focus && this.focus[0] === rank && this.focus[1] === i) queueMicrotask(() => chip.focus())
      })
      table.append(line)
    })
    this.focus = null
  },
}

// A row's actions; commas inside parentheses do not part them.
function cells(line) {
  return line.match(/\([^)]*\)[^,]*|[^,]+/g) || []
}

// "row 1, column 5: …": ranks and places that the engine names.
function placesOf(error) {
  return [...error.matchAll(/(?:row |:)(\d+), column (\d+)/g)].map(([, row, column]) => [row - 1, column - 1])
}
