// What a collective sends, step by step, from what `stepsim collective --steps-of` prints: GPUs in a circle, each with its
// chunks, filled by how many ranks' parts are summed in them, and this step's sends as arrows.

import {css, make} from './look.js'

// [{step, phase, sends: [{from, to, chunk}], states: ['1121', …]}] of the printed lines.
export function stepsOf(text) {
  return text.split('\n').map(line => /^ *(\d+) +([a-z-]+) +(.*?) *\|(.*)$/.exec(line)).filter(Boolean).map(([, step, phase, sends, states]) => ({
    step: Number(step), phase, states: states.trim().split(/\s+/),
    sends: [...sends.matchAll(/(\d+)>(\d+) (\w+)/g)].map(([, from, to, chunks]) => ({from: Number(from), to: Number(to), chunks})),
  }))
}

export function collectiveView(title, text, colour) {
  const steps = stepsOf(text), canvas = make('canvas', {id: 'collective', role: 'img'}), say = make('span', {class: 'small', 'aria-live': 'polite'})
  if (!steps.length) return make('div', {class: 'small', text})
  canvas.style.setProperty('width', '360px')
  canvas.style.setProperty('height', '120px')
  const slider = make('input', {type: 'range', min: 0, max: steps.length - 1, value: 0, 'aria-label': 'step of the collective', oninput: () => show()})
  const play = make('button', {text: '▶', title: 'Play', 'aria-label': 'play the steps', onclick: () => {
    clearInterval(timer)
    slider.value = 0
    show()
    timer = setInterval(() => { // ends by itself when it leaves the page
      if (!canvas.isConnected || Number(slider.value) >= steps.length - 1) return clearInterval(timer)
      slider.value = Number(slider.value) + 1
      show()
    }, 700)
  }})
  let timer
  function show() {
    const {step, phase, sends} = steps[Number(slider.value)]
    say.textContent = step === 0 ? `${title}: ${steps.length - 1} steps; each GPU has its own part of every chunk`
      : `step ${step} of ${steps.length - 1}, ${phase}: ${sends.map(({from, to, chunks}) => `${from} → ${to} chunk ${chunks}`).slice(0, 4).join(', ')}${sends.length > 4 ? ', …' : ''}`
    paint(canvas, steps, Number(slider.value), colour)
  }
  requestAnimationFrame(show)
  return make('div', {id: 'collective-view'}, make('div', {class: 'row'}, play, slider, say), canvas)
}

function paint(canvas, steps, at, colour) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
  canvas.width = width * scale
  canvas.height = height * scale
  const c = canvas.getContext('2d'), {states, sends} = steps[at], n = states.length
  c.setTransform(scale, 0, 0, scale, 0, 0)
  c.font = '10px system-ui, "DejaVu Sans", sans-serif'
  c.textAlign = 'center'
  const turn = n === 2 ? 0.75 : 0 // two stand side by side
  const place = i => [width / 2 + (width / 2 - 44) * Math.sin(2 * Math.PI * (i / n + turn)), height / 2 - 6 - (height / 2 - 20) * Math.cos(2 * Math.PI * (i / n + turn))]
  c.strokeStyle = c.fillStyle = colour
  c.lineWidth = 2
  for (const {from, to, chunks} of sends) {
    const [x0, y0] = place(from), [x1, y1] = place(to), long = Math.hypot(x1 - x0, y1 - y0) || 1, ux = (x1 - x0) / long, uy = (y1 - y0) / long
    const gap = Math.min(38, long / 3), [ax, ay, bx, by] = [x0 + ux * gap, y0 + uy * gap, x1 - ux * gap, y1 - uy * gap]
    c.beginPath()
    c.moveTo(ax, ay)
    c.lineTo(bx, by)
    c.lineTo(bx - 6 * ux + 3 * uy, by - 6 * uy - 3 * ux)
    c.moveTo(bx, by)
    c.lineTo(bx - 6 * ux - 3 * uy, by - 6 * uy + 3 * ux)
    c.stroke()
    c.fillText(chunks, (ax + bx) / 2 + 8 * uy, (ay + by) / 2 - 8 * ux + 3)
  }
  c.lineWidth = 1
  states.forEach((state, i) => {
    const [x, y] = place(i), wide = Math.min(12, 56 / state.length), left = x - wide * state.length / 2
    for (let k = 0; k < state.length; k++) { // a chunk: how much of the sum it has
      const part = state[k] === '*' ? 1 : state[k] === '.' ? 0 : Number(state[k]) / n
      c.fillStyle = css('--panel')
      c.fillRect(left + k * wide, y - 9, wide, 18)
      c.fillStyle = colour
      c.fillRect(left + k * wide, y + 9 - 18 * part, wide, 18 * part)
      c.strokeStyle = css('--line')
      c.strokeRect(left + k * wide + 0.5, y - 8.5, wide - 1, 17)
    }
    c.fillStyle = css('--text')
    c.fillText(String(i), x, y + 20)
  })
}
