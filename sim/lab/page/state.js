// The state is the address: #model=llama-3-8b&cluster=@mine&tp=8&file.cluster=…, options as on the command line. A value
// that begins with @ is a file of the user's, whose text travels in the address too, deflated, in base64url.
// Keys that begin with `view.` are the page's own: tab, theme, pinned plan. `pin.` are files of the pinned plan.

export const state = {options: new Map(), files: {}, pinnedFiles: {}, view: {}}
const listeners = []

export function onChange(listener) { listeners.push(listener) }
function tell() { for (const listener of listeners) listener() }

// Options in the order of the catalog, which is that of `stepsim simulate --help`.
let order = []
export function setOrder(names) { order = ['model', 'cluster', ...names] }
export function optionsList(options = state.options) {
  return [...options].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]))
}

// Of the plan alone, without what is said of a run of weeks.
export const planOptions = () => optionsList().filter(([name]) => order.includes(name))

export function filesOf(options, known = state.files) {
  const files = {}
  for (const [name, value] of options) if (/^(file:)?@/.test(value) && Object.hasOwn(known, name)) files[name] = known[name]
  return files
}

// The address is written after the state has changed: files are deflated first. One after the other.
let written = Promise.resolve()
function write(way, options) {
  written = written.then(async () => {
    const address = await addressOf(options)
    if (location.protocol !== 'file:') history[way](null, '', address)
  })
  return written
}

// `changes` {option: value, or null to leave it out}; `files` {option: text}.
export function change(changes, files = {}) {
  const options = new Map(state.options)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') options.delete(name)
    else options.set(name, String(value))
  }
  Object.assign(state.files, files)
  state.options = options
  const done = write('pushState', options)
  tell()
  return done
}

export function view(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete state.view[name]
    else state.view[name] = value
  }
  return write('replaceState', state.options)
}

const plain = text => encodeURIComponent(text).replace(/%(2B|2C|3A|40|3D|20)/g, (all, code) =>
  ({'2B': '+', '2C': ',', '3A': ':', '40': '@', '3D': '=', '20': '%20'})[code])

export async function addressOf(options = state.options) {
  const parts = optionsList(options).map(([name, value]) => `${name}=${plain(value)}`)
  for (const [name, text] of Object.entries(filesOf(options))) parts.push(`file.${name}=${await deflate(text)}`)
  if (state.view.pin) for (const [name, text] of Object.entries(state.pinnedFiles)) parts.push(`pin.${name}=${await deflate(text)}`)
  for (const [name, value] of Object.entries(state.view)) parts.push(`view.${name}=${plain(value)}`)
  return '#' + parts.join('&')
}

// From an address; FALSE if it names nothing. What cannot be read of it, since it was cut short or mistyped, is left out.
export async function readAddress(hash) {
  const options = new Map(), files = {}, pinnedFiles = {}, seen = {}
  for (const part of hash.replace(/^#/, '').split('&').filter(Boolean)) {
    const at = part.indexOf('='), value = part.slice(at + 1)
    if (at < 1) continue
    try {
      const name = decodeURIComponent(part.slice(0, at))
      if (name.startsWith('file.')) files[name.slice(5)] = await inflate(value)
      else if (name.startsWith('pin.')) pinnedFiles[name.slice(4)] = await inflate(value)
      else if (name.startsWith('view.')) seen[name.slice(5)] = decodeURIComponent(value)
      else options.set(name, decodeURIComponent(value))
    } catch { /* left out */ }
  }
  state.view = seen
  state.pinnedFiles = pinnedFiles
  if (options.size === 0) return false
  Object.assign(state, {options, files})
  return true
}

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer())
}

async function deflate(text) {
  const bytes = await through(new CompressionStream('deflate-raw'), new TextEncoder().encode(text))
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')
}

async function inflate(text) {
  const binary = atob(text.replace(/-/g, '+').replace(/_/g, '/'))
  const bytes = Uint8Array.from(binary, c => c.charCodeAt(0))
  return new TextDecoder().decode(await through(new DecompressionStream('deflate-raw'), bytes))
}

export function listen() {
  window.addEventListener('popstate', async () => { if (await readAddress(location.hash)) tell() })
}

// The line that prints the same bytes. Files of the user's are written by it first, in a folder of their own.
export function commandOf(options = state.options, verb = 'simulate') {
  const quote = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`
  const suffixes = {model: 'json', cluster: 'yaml', framework: 'yaml', schedule: 'csv', 'rank-map': 'txt'}
  let before = ''
  const words = optionsList(options).map(([name, value]) => {
    const inline = /^(file:)?@(.*)$/s.exec(value)
    if (!inline || !Object.hasOwn(state.files, name)) return `${quote(`--${name}`)} ${quote(value)}`
    const file = `${inline[2].replace(/[^\w.-]/g, '-').replace(/^\.+/, '') || name}.${suffixes[name] || 'txt'}` // in this folder
    const text = state.files[name]
    let end = 'END_OF_FILE'
    while (text.includes(end)) end += '_'
    before += `cat >./${file} <<'${end}'\n${text}${text.endsWith('\n') ? '' : '\n'}${end}\n`
    return `${quote(`--${name}`)} ${inline[1] || './'}${file}`
  })
  return `${before}stepsim ${verb} ${words.join(' ')} --json`
}
