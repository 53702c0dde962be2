// Colours and numbers as people read them.

// Of what time is charged to, by the engine's names; Okabe and Ito's palette.
export const chargeColours = {
  compute: '#0072b2', recompute: '#9e9ac8', tp: '#e69f00', pp: '#cc79a7', cp: '#f0a6c8', ep: '#d55e00', dp: '#009e73',
  bubble: '#c9ccd1', optimizer: '#f0e442', host: '#444a52', offload: '#8b5a2b', other: '#8d949e',
}
// Of ops on the compute stream: forward, input and weight gradients told apart by lightness.
export const actionColours = {F: '#5fa8d6', B: '#0072b2', I: '#2b8ac4', W: '#004e7c', overlap: '#1b6fa3'}
export const memoryColours = {
  weights: '#0072b2', gradients: '#56b4e9', optimizer: '#f0e442', activations: '#e69f00', buffers: '#8d949e',
}
export const linkColours = ['#0072b2', '#8b5a2b', '#cc79a7', '#009e73', '#f0e442', '#56b4e9', '#e69f00', '#8d949e', '#444a52']

export function rgba(colour) { // as one number of an ImageData row
  const n = parseInt(colour.slice(1), 16)
  return (255 << 24 | (n & 255) << 16 | (n >> 8 & 255) << 8 | n >> 16) >>> 0
}

export const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

export function seconds(s, digits = 3) {
  if (s === null || !Number.isFinite(s)) return '–'
  const size = Math.abs(s)
  if (size === 0) return '0'
  const [unit, scale] = size < 1e-6 ? ['ns', 1e9] : size < 1e-3 ? ['µs', 1e6] : size < 1 ? ['ms', 1e3] : ['s', 1]
  return `${number(s * scale, digits)} ${unit}`
}

export function number(x, digits = 3) {
  if (x === null || !Number.isFinite(x)) return '–'
  const size = Math.abs(x)
  if (size >= Math.min(1000, 10 ** digits)) return Math.round(x).toLocaleString('en')
  return x === 0 ? '0' : Number.isInteger(x) ? String(x) : x.toPrecision(digits)
}

export function bytes(b) {
  if (b === null || !Number.isFinite(b)) return '–'
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let i = 0
  while (Math.abs(b) >= 1000 && i < units.length - 1) { b /= 1000; i++ }
  return `${i ? number(b) : b} ${units[i]}`
}

export const share = (x, digits = 1) => x === null ? '–' : `${(100 * x).toFixed(digits)} %`
export const change = x => `${x > 0.0005 ? '+' : x < -0.0005 ? '−' : ''}${(100 * Math.abs(x)).toFixed(Math.abs(x) < 0.1 ? 1 : 0)} %`

// An element: make('div', {class: 'x', onclick: f, text: 'y'}, children…).
export function make(tag, traits = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(traits)) {
    if (value === undefined || value === null || value === false) continue
    if (name === 'text') element.textContent = value
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (name === 'style') for (const [key, of] of Object.entries(value)) element.style.setProperty(key, of)
    else element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.filter(child => child !== null && child !== undefined))
  return element
}
