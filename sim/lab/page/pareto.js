// Many plans of one model, cluster and batch at once: tokens/s against memory, and the front of those that no other beats
// in both.

import {ask} from './engine.js'
import {bytes, css, make, number, seconds, share} from './look.js'
import {change, filesOf, optionsList, state} from './state.js'

const space = [['tp', [1, 2, 4, 8]], ['pp', [1, 2, 4, 8, 16]], ['zero', [0, 1, 3]], ['recompute', ['none', 'selective', 'full']], ['micro-batch', [1, 2, 4]]]

export function plansOf(plan) {
  let all = [{}]
  for (const [name, values] of space) all = all.flatMap(one => values.map(value => ({...one, [name]: value})))
  return all.filter(one => plan.gpus % (one.tp * one.pp * plan.cp) === 0 && !(one.zero === 3 && one.pp > 1) &&
    plan.global_batch % (one['micro-batch'] * plan.gpus / (one.tp * one.pp * plan.cp)) === 0)
}

export function frontOf(points) { // by memory; each with more tokens/s than all that take less
  let best = 0
  return [...points].sort((a, b) => a.memory - b.memory || b.rate - a.rate).filter(({rate}) => rate > best && (best = rate))
}

export const paretoTab = {
  name: 'Pareto',
  needsPlan: true,
  async show(lab, element, signal) {
    if (!lab.plan) return element.replaceChildren()
    const plans = plansOf(lab.plan), points = []
    const say = make('span', {class: 'small'}), progress = make('progress', {max: plans.length, value: 0})
    const canvas = make('canvas', {id: 'pareto', role: 'img', tabindex: '0', 'aria-label': 'tokens per second per GPU against memory of many plans'})
    for (const [name, value] of [['width', '620px'], ['height', '160px'], ['cursor', 'pointer']]) canvas.style.setProperty(name, value)
    const list = make('table', {style: {width: 'auto'}})
    element.replaceChildren(make('div', {class: 'row'}, progress, say), make('div', {class: 'row'}, canvas, list))
    const load = point => change({...point.changes, dp: null, gpus: lab.plan.gpus, 'global-batch': lab.plan.global_batch, schedule: null, chunks: null})
    let nearest = null
    const draw = () => { drawPoints(canvas, points, nearest); listFront(list, points, load) }
    let done = 0, drawn = 0
    await Promise.all(plans.map(async changes => {
      const options = new Map(state.options)
      for (const name of ['dp', 'schedule', 'chunks', 'pipeline-layout']) options.delete(name)
      for (const [name, value] of Object.entries({...changes, gpus: lab.plan.gpus, 'global-batch': lab.plan.global_batch})) options.set(name, String(value))
      const {json} = await ask({verb: 'simulate', options: optionsList(options), files: filesOf(options), aside: true}, signal)
      if (json) points.push({changes, json, memory: json.memory.total_bytes, rate: json.tokens_per_s_per_gpu, fits: json.memory.fits})
      progress.value = ++done
      say.textContent = `${done} of ${plans.length} plans; a click loads one`
      if (performance.now() - drawn > 120 || done === plans.length) { drawn = performance.now(); draw() }
    }))
    canvas.onpointermove = event => {
      const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top
      nearest = points.reduce((best, point) => Math.hypot(point.x - x, point.y - y) < Math.hypot((best?.x ?? 1e9) - x, (best?.y ?? 1e9) - y) ? point : best, null)
      draw()
      if (nearest) say.textContent = wordsOf(nearest)
    }
    canvas.onclick = () => nearest && load(nearest)
  },
}

const wordsOf = ({changes, json}) => `${Object.entries(changes).map(([name, value]) => `${name} ${value}`).join(', ')}: ${seconds(json.step_time_s)}, ${share(json.mfu)} MFU, ${bytes(json.memory.total_bytes)}${json.memory.fits ? '' : ': does not fit'}`

function listFront(list, points, load) {
  const front = frontOf(points.filter(({fits}) => fits)).slice(-6).reverse()
  list.replaceChildren(make('tr', {}, ...['on the front', 'tokens/s/GPU', 'memory'].map(text => make('th', {text}))), ...front.map(point => make('tr', {},
    make('td', {}, make('button', {text: Object.entries(point.changes).map(([name, value]) => `${name} ${value}`).join(' '), onclick: () => load(point)})),
    make('td', {class: 'number', text: number(point.rate, 4)}), make('td', {class: 'number', text: bytes(point.memory)}))))
}

function drawPoints(canvas, points, nearest) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
  canvas.width = width * scale
  canvas.height = height * scale
  const c = canvas.getContext('2d')
  c.setTransform(scale, 0, 0, scale, 0, 0)
  c.font = '11px system-ui, "DejaVu Sans", sans-serif'
  if (!points.length) return
  const capacity = points[0].json.memory.capacity_bytes || 1, most = capacity * 1.6
  const top = Math.max(...points.map(({rate}) => rate)) * 1.08
  for (const point of points) {
    point.x = 50 + Math.min(point.memory, most) / most * (width - 60)
    point.y = height - 20 - point.rate / top * (height - 28)
  }
  c.strokeStyle = css('--line')
  c.strokeRect(50.5, 4.5, width - 60, height - 24)
  const edge = 50 + capacity / most * (width - 60)
  c.setLineDash([5, 3])
  c.beginPath(); c.moveTo(edge, 4); c.lineTo(edge, height - 20); c.stroke()
  c.setLineDash([])
  c.fillStyle = css('--faint')
  c.fillText(`capacity ${bytes(capacity)}`, edge + 4, 16)
  c.fillText('tokens/s per GPU', 56, 16)
  c.fillText(number(top, 2), 4, 12)
  c.fillText('memory of the fullest GPU', width / 2 - 50, height - 6)
  for (const point of points) {
    c.fillStyle = point.fits ? css('--accent') : css('--line')
    c.beginPath(); c.arc(point.x, point.y, point === nearest ? 5 : 2.5, 0, 7); c.fill()
  }
  c.strokeStyle = css('--good')
  c.beginPath()
  frontOf(points.filter(({fits}) => fits)).forEach((point, i) => c[i ? 'lineTo' : 'moveTo'](point.x, point.y))
  c.stroke()
}
