// Questions to the engine: verbs of stepsim with options. An answer is kept under its question, since the same question
// has the same answer to the last bit.

// A page that was written by `simulate --html` has its answers inside, and no engine.
export const frozen = JSON.parse(document.getElementById('frozen')?.textContent || 'null')

const kept = new Map()
const MOST_KEPT = 600

function textOf(bytes) {
  return new TextDecoder().decode(bytes)
}

// {status, json, text, errors, written, arrays}: json null unless the verb printed an object, written the bytes of
// the file that was asked for, arrays what they hold if they are arrays. Throws AbortError if `signal` ends it.
export async function ask(question, signal) {
  if (frozen) return answerOf(question)
  const key = JSON.stringify({...question, aside: undefined})
  if (kept.has(key) && !question.writes) return kept.get(key)
  const answer = await post('run', JSON.stringify(question), {'Content-Type': 'application/json'}, signal)
  signal?.throwIfAborted()
  if (!question.writes && answer.status < 124) { // neither late nor killed
    kept.set(key, answer)
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value)
  }
  return answer
}

export function askOfRecording(file, signal) {
  return post('trace', file, {'Content-Type': 'application/octet-stream', 'X-Name': encodeURIComponent(file.name)}, signal)
}

// A browser drops what has just been asked when it goes back in its history, without a word to `signal`: asked again.
async function send(path, request, times = 3) {
  try {
    const response = await fetch(path, request)
    return [response, new Uint8Array(await response.arrayBuffer())]
  } catch (error) {
    if (request.signal?.aborted || times === 1) throw error
    await new Promise(resolve => setTimeout(resolve, 50))
    return send(path, request, times - 1)
  }
}

async function post(path, body, headers, signal) {
  const [response, bytes] = await send(path, {method: 'POST', body, signal, headers: {...headers, 'X-Stepsim-Lab': '1'}})
  if (!response.ok) return {status: 2, json: null, text: '', errors: textOf(bytes), arrays: null}
  const head = new DataView(bytes.buffer, 0, 16)
  const [status, out, errors, arrays] = [0, 4, 8, 12].map(at => head.getUint32(at, true))
  const text = textOf(bytes.subarray(16, 16 + out))
  return {
    status, text,
    json: text.startsWith('{') ? JSON.parse(text) : null,
    errors: status === 124 ? 'This took longer than the lab waits.'
      : textOf(bytes.subarray(16 + out, 16 + out + errors)).replace(/^stepsim: /, '').replace(/\/\S*?stepsim-lab-[^/]+\/[^/]+\//g, '').trim(),
    written: arrays > 0 ? bytes.slice(16 + out + errors) : null,
    arrays: arrays > 0 && textOf(bytes.subarray(16 + out + errors, 18 + out + errors)) === 'PK' ? readArrays(bytes.buffer, 16 + out + errors) : null,
  }
}

function answerOf({verb, writes}) {
  const json = {simulate: frozen.numbers, explain: frozen.explanation}[verb] || null
  const arrays = json && writes === 'npz' ? readArrays(Uint8Array.from(atob(frozen.arrays), c => c.charCodeAt(0)).buffer) : null
  return {status: json ? 0 : 2, json, text: '', errors: json ? '' : 'This page has no engine.', arrays}
}

// The arrays of numpy's .npz, stored without compression, from `at` on: {name: typed array, or list of texts}, with
// `columns` of those that have two dimensions.
export function readArrays(buffer, at = 0) {
  const view = new DataView(buffer), arrays = {}
  while (view.getUint32(at, true) === 0x04034b50) {
    const size = view.getUint32(at + 22, true), nameLength = view.getUint16(at + 26, true)
    const name = textOf(new Uint8Array(buffer, at + 30, nameLength)).replace(/\.npy$/, '')
    const start = at + 30 + nameLength + view.getUint16(at + 28, true)
    arrays[name] = readArray(buffer, view, start)
    at = start + size
  }
  return arrays
}

function readArray(buffer, view, at) {
  const headLength = view.getUint16(at + 8, true), data = at + 10 + headLength
  const head = textOf(new Uint8Array(buffer, at + 10, headLength))
  const type = /'descr': '([^']*)'/.exec(head)[1]
  const shape = /'shape': \(([^)]*)\)/.exec(head)[1].split(',').filter(x => x.trim()).map(Number)
  const n = shape.reduce((a, b) => a * b, 1)
  if (type[1] === 'U') return readTexts(view, data, n, Number(type.slice(2)))
  const numbers = readNumbers(buffer, data, n, type)
  if (shape.length > 1) numbers.columns = shape[1]
  return numbers
}

function readTexts(view, at, n, width) {
  const texts = []
  for (let i = 0; i < n; i++) {
    let text = ''
    for (let k = 0; k < width; k++) {
      const code = view.getUint32(at + 4 * (i * width + k), true)
      if (code) text += String.fromCodePoint(code)
    }
    texts.push(text)
  }
  return texts
}

function readNumbers(buffer, at, n, type) {
  const kinds = {'<i4': Int32Array, '<i2': Int16Array, '|u1': Uint8Array, '<f8': Float64Array, '<f4': Float32Array}
  if (type === '<i8') { // nanoseconds, exact as doubles up to 104 days
    const halves = new Uint32Array(buffer.slice(at, at + 8 * n)), numbers = new Float64Array(n)
    for (let i = 0; i < n; i++) numbers[i] = (halves[2 * i + 1] | 0) * 4294967296 + halves[2 * i]
    return numbers
  }
  const Kind = kinds[type]
  return new Kind(buffer.slice(at, at + n * Kind.BYTES_PER_ELEMENT))
}
