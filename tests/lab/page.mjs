// The lab's page in a browser: node page.mjs CHROMIUM STEPSIM FOLDER [edits|bench]. TAP on standard output.
import {execFileSync, spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdirSync, readFileSync} from 'node:fs'
import {Browser} from './browser.mjs'

const [chromium, stepsim, folder, edits = '40'] = process.argv.slice(2)
const isBench = edits === 'bench'
mkdirSync(folder, {recursive: true})
const lab = spawn(stepsim, ['lab', '--port', '0', '--no-browser'], {stdio: ['ignore', 'pipe', 'inherit']})
const base = String((await once(lab.stdout, 'data'))[0]).trim()
const browser = await Browser.open(chromium, `${folder}/profile`)

let n = 0, failed = 0
async function test(name, body) {
  try {
    await body()
    console.log(`ok ${++n} - ${name}`)
  } catch (error) {
    failed++
    console.log(`not ok ${++n} - ${name}\n# ${String(error.message).replace(/\n/g, '\n# ')}`)
  }
}
function check(is, what) { if (!is) throw new Error(what) }
function near(a, b, what) { check(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b)), `${what}: ${a}, expected ${b}`) }

// The numbers, the drawing and the neighbours stand, all of the state that is in the address.
const stands = `!document.body.classList.contains('computing') && !document.body.classList.contains('old') && (lab.explanation !== null || !lab.json)`
const settle = () => browser.until(`window.lab?.planPanel && ${stands}`)
async function open(hash) { await browser.go(base + hash); await settle() }
async function set(name, value) { await browser.run(`lab.planPanel.set(${JSON.stringify(name)}, ${JSON.stringify(value)})`); await settle() }
async function tab(name) { await browser.run(`[...document.querySelectorAll('#tabs button')].find(({textContent}) => textContent === ${JSON.stringify(name)}).click()`) }

const small = '#model=llama-3-8b&cluster=dgx-h100&gpus=32&tp=2&pp=4&zero=1&global-batch=32&seq-len=4096'

// mulberry32: the same edits every time
let seed = 20261129
function random() {
  seed = seed + 0x6d2b79f5 | 0
  let t = Math.imul(seed ^ seed >>> 15, 1 | seed)
  t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t
  return ((t ^ t >>> 14) >>> 0) / 4294967296
}
const pick = list => list[Math.floor(random() * list.length)]
const changes = {
  tp: ['1', '2', '4', '8'], pp: ['1', '2', '4', '8'], cp: ['1', '2'], gpus: ['16', '32', '64', '256'], 'micro-batch': ['1', '2', '4', ''], zero: ['0', '1', '2', '3'],
  'global-batch': ['32', '64', '128'], 'seq-len': ['2048', '4096', '8192'], schedule: ['1f1b', 'gpipe', 'zb-h1', 'interleaved', 'zb-v', ''], recompute: ['none', 'selective', 'full', ''],
  'sequence-parallel': ['on', 'off'], precision: ['bf16', 'fp8'], chunks: ['2', ''], framework: ['megatron-core', 'pytorch-fsdp', ''], dp: ['2', ''], tokens: ['1T', ''],
}

function commandLine(words) {
  try {
    return {out: execFileSync(stepsim, words, {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']}), errors: ''}
  } catch (error) {
    return {out: error.stdout, errors: error.stderr.trim().replace(/^stepsim: /, '')}
  }
}
const withoutWall = text => JSON.stringify(JSON.parse(text), (key, value) => key === 'wall_s' ? undefined : value)

async function checkState(what) {
  const page = await browser.run(`({json: lab.json && JSON.stringify(lab.json), errors: document.getElementById('plan-error').textContent, options: [...location.hash.slice(1).split('&')].filter(part => !part.startsWith('view.')),
    step: document.querySelector('#part-numbers b')?.textContent, bubble: lab.step?.bubble(), rows: [...document.querySelectorAll('#part-where [data-seconds]')].map(({dataset}) => Number(dataset.seconds)),
    spans: lab.step ? lab.step.length : null, drawn: document.getElementById('timeline-title').textContent})`)
  const words = page.options.map(part => { const at = part.indexOf('='); return `--${decodeURIComponent(part.slice(0, at))}=${decodeURIComponent(part.slice(at + 1))}` })
  const said = commandLine(['simulate', ...words, '--json'])
  if (!said.out) {
    check(page.json === null && page.errors === said.errors, `${what}: the page says "${page.errors}", the command "${said.errors}"`)
    check(page.bubble === undefined || page.bubble === null, `${what}: a step is drawn of a plan that cannot run`)
    return
  }
  const json = JSON.parse(said.out)
  check(page.json && withoutWall(page.json) === withoutWall(said.out), `${what}: the page's numbers differ from the command's`)
  near(page.bubble, json.bubble_fraction, `${what}: the drawn bubble`)
  near(page.spans * 1e-9, json.step_time_s, `${what}: the drawn step`)
  near(page.rows.reduce((a, b) => a + b, 0), json.step_time_s, `${what}: the bars' sum`)
  check(page.drawn.includes(page.step), `${what}: the timeline is titled ${page.drawn}, the step is ${page.step}`)
}

if (isBench) {
  // every edit to a plan that was not asked for before: answers are kept
  for (const [name, hash, batch] of [['70B on 256 GPUs', '#model=llama-3-70b&cluster=dgx-h100&gpus=256&tp=8&pp=4&zero=1&global-batch=256&view.tab=A%2FB', 8], ['405B on 16,384 GPUs', '#view.tab=A%2FB', 128]]) {
    await open(hash)
    const numbers = [], steps = []
    for (let i = 0; i < 40; i++) {
      await set(i % 2 ? 'zero' : 'global-batch', i % 2 ? String(i % 4 === 1 ? 2 : 1) : String(batch * (16 + i)))
      const [a, b] = await browser.run(`[Number(document.body.dataset.numbersMs), Number(document.body.dataset.stepMs)]`)
      numbers.push(a)
      steps.push(b)
    }
    await browser.run(`(async () => { lab.timeline.frames = []; for (let i = 0; i < 200; i++) { lab.timeline.zoom(i < 100 ? 0.95 : 1 / 0.95, 0.4); await new Promise(requestAnimationFrame) } })()`)
    const frames = await browser.run('lab.timeline.frames'), spans = await browser.run('lab.step.arrays.op_rank.length + lab.step.arrays.kernel_op.length')
    const of = (list, share) => [...list].sort((a, b) => a - b)[Math.floor(share * (list.length - 1))].toFixed(1)
    console.log(`${name}: edit to numbers median ${of(numbers, 0.5)} ms, p95 ${of(numbers, 0.95)} ms; to the drawing median ${of(steps, 0.5)} ms; a frame of ${spans} spans median ${of(frames, 0.5)} ms, p95 ${of(frames, 0.95)} ms`)
  }
} else {
  await test('the first page is a published run and fits', async () => {
    await open('')
    await checkState('at first')
    check(await browser.run('lab.json.memory.fits'), 'it does not fit')
  })
  await test(`${edits} seeded edits: the page says what the command line says`, async () => {
    await open(small)
    for (let i = 0; i < Number(edits); i++) {
      const name = pick(Object.keys(changes)), value = pick(changes[name])
      await set(name, value)
      await checkState(`edit ${i}, ${name} ${value}`)
    }
  })
  await test('no number is shown of an older state', async () => {
    await open(small)
    const stale = await browser.run(`(async () => {
      const found = []
      for (const [name, value] of Object.entries({tp: '4', pp: '2', zero: '2', 'micro-batch': '2', 'global-batch': '64', 'seq-len': '8192', recompute: 'full', precision: 'fp8'})) {
        lab.planPanel.set(name, value)
        if (!document.body.classList.contains('computing') || !document.body.classList.contains('old') || lab.json || lab.plan) found.push(name)
        while (!(${stands})) await new Promise(resolve => setTimeout(resolve, 5))
      }
      return found
    })()`)
    check(stale.length === 0, `not marked as computing after ${stale}`)
    for (let i = 0; i < 12; i++) await browser.run(`lab.planPanel.set('tp', '${[1, 2, 4, 8][i % 4]}')`) // faster than answers come
    await settle()
    await checkState('after a burst of edits')
  })
  await test('a link opens what it was copied from, a file of the user\'s included', async () => {
    await open(small)
    const config = readFileSync(new URL('../../models/llama-2-7b.json', import.meta.url), 'utf8')
    await browser.run(`lab.takeFile('model', 'my own.json', ${JSON.stringify(config)})`)
    await settle()
    await browser.until(`location.hash.includes('file.model=')`)
    const [address, json] = await browser.run('[location.href, JSON.stringify(lab.json)]')
    await browser.go(address)
    await settle()
    check(withoutWall(await browser.run('JSON.stringify(lab.json)')) === withoutWall(json), 'another step')
    check((await browser.run('location.href')) === address, 'another address')
  })
  await test('undo goes back and redo forth', async () => {
    await open(small)
    const before = await browser.run('location.hash')
    await set('tp', '4')
    const after = await browser.run('location.hash')
    await browser.run('document.activeElement.blur()')
    await browser.key('z', 2)
    await browser.until(`location.hash === ${JSON.stringify(before)}`)
    await settle()
    await checkState('undone')
    await browser.key('z', 10)
    await browser.until(`location.hash === ${JSON.stringify(after)}`)
    await settle()
    await checkState('redone')
  })
  await test('quick steps through the history end on what the address says', async () => {
    await open(small)
    for (const tp of [2, 4, 8, 1, 2, 4, 8]) await set('tp', String(tp))
    for (const steps of ['back back', 'back forward', 'back back back forward forward', 'forward back forward back', 'back back back']) {
      await browser.run(`(async () => { for (const step of '${steps}'.split(' ')) { history[step](); await new Promise(resolve => setTimeout(resolve, 4)) } })()`)
      await new Promise(resolve => setTimeout(resolve, 300))
      await settle()
      check(await browser.run(`location.hash.includes('tp=' + lab.json.plan.tp + '&')`), steps)
    }
  })
  await test('keys alone change the plan and walk the timeline', async () => {
    await open(small)
    await browser.run(`document.getElementById('field-tp').focus()`)
    await browser.key('ArrowUp')
    await browser.until(`location.hash.includes('tp=4')`)
    await settle()
    await checkState('by keys')
    await browser.run(`document.getElementById('timeline').focus()`)
    await browser.key('.')
    await browser.until(`/^F 0 · mb 0/.test(document.getElementById('timeline-say').textContent)`)
    await browser.key('ArrowDown')
    await browser.until(`/rank/.test(document.getElementById('timeline-say').textContent)`)
    await browser.key('+')
    await browser.until('lab.timeline.to - lab.timeline.from < 1')
    await browser.key('Home')
    await browser.until('lab.timeline.to === 1 && lab.timeline.from === 0')
    const unreached = await browser.run(`[...document.querySelectorAll('button, select, input, summary, canvas[tabindex]')].filter(element => element.offsetParent && element.tabIndex < 0).map(({id, textContent}) => id || textContent)`)
    check(unreached.length === 0, `not reached by Tab: ${unreached}`)
    const unnamed = await browser.run(`[...document.querySelectorAll('button, select, input')].filter(element => element.offsetParent && !element.textContent.trim() && !element.getAttribute('aria-label') && !element.labels?.length).length`)
    check(unnamed === 0, `${unnamed} controls have no name`)
  })
  await test('every tab fills, a click on the map loads a plan', async () => {
    await open(small)
    for (const [name, filled] of [['Map', `document.querySelectorAll('#map td').length > 9 && ![...document.querySelectorAll('#map td')].some(({textContent}) => textContent === '·')`], ['Scaling', `document.querySelectorAll('#tab tr').length > 3`],
      ['Plan search', `document.querySelectorAll('#plans tr').length > 3`], ['Ranks', `/rank 0 · node0.gpu0/.test(document.getElementById('rank-say')?.textContent) && document.querySelector('#collective-view input')`], ['Schedule editor', `document.querySelectorAll('#order button').length === 4 * 2 * 8`], ['Learn', `document.querySelectorAll('#tab button').length >= 12`]]) {
      await tab(name)
      await browser.until(filled)
      await browser.picture(`${folder}/tab-${name.replace(/\W/g, '-')}.png`)
    }
    await tab('Map')
    await browser.until(`[...document.querySelectorAll('#map td')].every(({textContent}) => textContent !== '·')`)
    await browser.run(`[...document.querySelectorAll('#map td')].find(({title}) => title.startsWith('tp 8, pp 2')).click()`)
    await browser.until(`location.hash.includes('tp=8') && location.hash.includes('pp=2')`)
    await settle()
    await checkState('from the map')
  })
  await test('two plans stand on one axis, with what differs', async () => {
    await open(small + '&view.tab=A%2FB')
    await browser.until(`document.getElementById('pin')`)
    await browser.run(`document.getElementById('pin').click()`)
    await browser.until('lab.pinnedStep')
    await set('schedule', 'zb-h1')
    await browser.until(`lab.timeline.steps.length === 2 && /schedule/.test(document.getElementById('tab').textContent)`)
    const [a, b] = await browser.run(`lab.timeline.steps.map(({step}) => step.length)`)
    check(a > 0 && b > 0 && a !== b, `steps of ${a} and ${b} ns`)
  })
  await test('a pinned plan keeps its own file, and what its tab shows goes with the plan', async () => {
    const config = JSON.parse(readFileSync(new URL('../../models/llama-2-7b.json', import.meta.url), 'utf8'))
    const takeLayers = async layers => {
      await browser.run(`lab.takeFile('model', 'mine-${layers}.json', ${JSON.stringify(JSON.stringify({...config, num_hidden_layers: layers}))})`)
      await settle()
      return browser.run('lab.json.step_time_s')
    }
    await open(small + '&view.tab=A%2FB')
    const first = await takeLayers(32)
    await browser.until(`document.getElementById('pin')`)
    await browser.run(`document.getElementById('pin').click()`)
    await browser.until('lab.pinnedStep')
    const second = await takeLayers(16)
    await browser.until(`document.getElementById('ab')`)
    const of = () => browser.run('[lab.pinnedAnswer.json.step_time_s, lab.json.step_time_s]')
    check(String(await of()) === String([first, second]), `pinned and now ${await of()}, expected ${[first, second]}`)
    await browser.until(`location.hash.includes('pin.model=')`)
    await browser.go(await browser.run('location.href'))
    await settle()
    await browser.until('lab.pinnedAnswer')
    check(String(await of()) === String([first, second]), `opened again: pinned and now ${await of()}, expected ${[first, second]}`)
    await browser.until(`document.getElementById('ab')`)
    await set('tp', '3')
    await browser.until(`!document.body.classList.contains('tab-old')`)
    check(!await browser.run(`document.getElementById('ab')`), 'a plan that cannot run has numbers beside A')
  })
  await test('odd values and links cut short', async () => {
    await open(small)
    await set('tp', '16k')
    await browser.run(`document.querySelector('[data-field=tp] button').click()`)
    check((await browser.run('location.hash')).includes('tp=16k'), 'a step from no number')
    await browser.run(`for (const button of document.querySelectorAll('#export-menu button')) button.click()`) // nothing to write
    await browser.go(`${base}#model=@mine&cluster=dgx-h100&tp=%E0%A4%A&file.model=eNpVy`)
    await settle()
    await browser.until(`/found no file/.test(document.getElementById('plan-error').textContent)`)
    await browser.go(`${base}${small}&model=@../../x y&a;b=1&file.model=q1ZKyS9LVbJSUCqpLEhVqgUA`)
    await settle()
    const command = await browser.run(`import('./state.js').then(({commandOf}) => commandOf())`)
    check(command.includes('--model ./-..-x-y.json') && command.includes(`'--a;b' 1`), command)
    browser.events = browser.events.filter(({params}) => !/status of 400/.test(params.entry?.text)) // refused, as they should be
  })
  await test('what would help stands after an option that it does not take', async () => {
    await open(small)
    await browser.until(`document.querySelectorAll('#part-help tr').length > 0`)
    await set('tokens', '1T')
    await browser.until(`document.querySelectorAll('#part-help tr').length > 0`, 3000)
  })
  await test('the bar of where the time goes is full, and its parts are the shares', async () => {
    await open(small) // below a second
    const [whole, parts, shares] = await browser.run(`(() => { const stack = document.querySelector('#part-where .stack'); return [stack.clientWidth, [...stack.children].map(part => part.getBoundingClientRect().width),
      [...document.querySelectorAll('#part-where [data-seconds]')].map(({dataset}) => Number(dataset.seconds) / lab.json.step_time_s)] })()`)
    check(parts.every((wide, i) => Math.abs(wide - whole * shares[i]) < 1), `parts of ${parts} px of ${whole} px, shares ${shares}`)
  })
  await test('where a step is not taken apart, the page says why', async () => {
    await browser.go(`${base}${small}&seq-lengths=lognormal:800%2B1&batching=packed&view.tab=Scaling`)
    await browser.until(`/not taken apart/.test(document.getElementById('no-plan')?.textContent) && /not taken apart/.test(document.getElementById('tab').textContent)`)
  })
  await test('a deep zoom is kept in the address', async () => {
    await open(small)
    await browser.run('for (let i = 0; i < 100; i++) lab.timeline.zoom(0.5, 0.3)')
    await browser.until(`location.hash.includes('view.zoom=')`)
    const before = await browser.run('[lab.timeline.from, lab.timeline.to]')
    await browser.go(await browser.run('location.href'))
    await settle()
    const after = await browser.run('[lab.timeline.from, lab.timeline.to]')
    check(before.every((x, i) => Math.abs(x - after[i]) < 1e-11), `${before} became ${after}`)
  })
  await test('undo shows the tab that it names', async () => {
    await open(small + '&view.tab=Map')
    await set('tp', '4')
    await tab('Ranks')
    await browser.until(`document.getElementById('ranks')`)
    await browser.run('history.back()')
    await browser.until(`document.getElementById('map')`)
    check(await browser.run(`document.querySelector('#tabs [aria-selected=true]').textContent`) === 'Map', 'another tab is marked')
  })
  await test('an edited order is judged by the engine', async () => {
    await open(small + '&view.tab=Schedule%20editor')
    await browser.until(`document.querySelectorAll('#order button').length > 0`)
    const move = (rank, i, key) => browser.run(`(() => { const chip = document.querySelectorAll('#order > div')[${rank}].querySelectorAll('button')[${i}]; chip.focus(); chip.dispatchEvent(new KeyboardEvent('keydown', {key: '${key}', altKey: true, bubbles: true})) })()`)
    await move(3, 1, 'ArrowLeft') // the first backward before its forward
    await browser.until(`/stands before|gets stuck/.test(document.getElementById('order-says')?.textContent)`)
    await browser.run('history.back()')
    await browser.until(`!location.hash.includes('schedule=')`)
    await settle()
  })
  await test('tasks end when the engine agrees', async () => {
    const solutions = [{'global-batch': '128'}, {tp: '8', pp: '4', zero: '1', recompute: 'full'}, {chunks: '5'}, {schedule: 'zb-v'}, {'global-batch': '64'}, {tp: '8', pp: '4'},
      {recompute: 'selective', 'sequence-parallel': 'on'}, {cp: '4', 'sequence-parallel': 'on', recompute: 'full'}, {'expert-dispatch': 'deepep'}, {'micro-batch': '4', 'global-batch': '256'},
      {recompute: 'selective', 'sequence-parallel': 'on'}, {zero: '2'}]
    await open('#view.tab=Learn')
    await browser.until(`document.querySelectorAll('#tab button').length >= 12`)
    for (const [i, solution] of solutions.entries()) {
      await browser.run(`[...document.querySelectorAll('#tab button')].find(({textContent}) => textContent.replace(/^✓ /, '').startsWith('${i + 1} ')).click()`)
      await browser.until(`/Not yet/.test(document.getElementById('verdict')?.textContent) && ${stands} && lab.task?.at === ${i}`)
      await browser.run(`lab.planPanel.set(${Object.entries(solution).map(pair => pair.map(text => JSON.stringify(text)).join(', ')).join('); lab.planPanel.set(')})`)
      await settle()
      await browser.until(`/Done/.test(document.getElementById('verdict')?.textContent)`)
    }
  })
  await test('published runs that tasks end on load as they ran', async () => {
    const rows = JSON.parse(await browser.run(`JSON.stringify(lab.published.rows.filter((_, i) => i % 97 === 5).map(({row}) => row))`)), off = []
    for (const row of rows) {
      await browser.run(`lab.loadPublished(${JSON.stringify(row)})`)
      await browser.until(`!document.body.classList.contains('computing')`, 60000) // what would help takes longer
      const step = await browser.run('lab.json?.step_time_s')
      check(step, `${row.id}: ${await browser.run(`document.getElementById('plan-error').textContent`)}`)
      off.push(Math.abs(step / row.step_time_s - 1))
    }
    off.sort((a, b) => a - b)
    check(rows.length > 8 && off[Math.floor(off.length / 2)] < 0.1, `${rows.length} runs, off by ${off}`)
  })
  await test('a recording opens beside the prediction', async () => {
    const trace = `${folder}/recorded.json`
    execFileSync(stepsim, ['simulate', '--model', 'gpt2', '--cluster', 'dgx-h100', '--gpus', '4', '--pp', '2', '--global-batch', '8', '--trace', trace])
    await open(small)
    await browser.run(`lab.dropped(new File([${JSON.stringify(readFileSync(trace, 'utf8'))}], 'recorded.json'))`)
    await browser.until(`document.querySelectorAll('#recording tr').length > 4`)
  })
  await test('a step written as a page shows the same, from a file', async () => {
    const file = `${folder}/step.html`
    const {out} = commandLine(['simulate', '--model', 'llama-3-8b', '--cluster', 'dgx-h100', '--gpus', '16', '--tp', '2', '--pp', '2', '--html', file, '--json'])
    await browser.go(`file://${file}`)
    await settle()
    check(withoutWall(await browser.run('JSON.stringify(lab.json)')) === withoutWall(out), 'another step')
    near(await browser.run('lab.step.bubble()'), JSON.parse(out).bubble_fraction, 'its bubble')
  })
  for (const [width, height, theme] of [[1400, 900, 'light'], [1400, 900, 'dark'], [390, 844, 'light']])
    await test(`${width} × ${height}, ${theme}: nothing is cut off`, async () => {
      await browser.size(width, height)
      await open(`${small}&view.theme=${theme}&view.tab=Map`)
      const [wide, tall] = await browser.run('[document.documentElement.scrollWidth, document.documentElement.scrollHeight]')
      check(wide <= width, `${wide} px wide`)
      if (width > 900) check(tall <= height, `${tall} px tall`)
      await browser.picture(`${folder}/page-${width}-${theme}.png`)
      await browser.size(1400, 900)
    })
  await test('nothing was asked of any other host, and nothing went wrong', async () => {
    const foreign = browser.requested().filter(address => !address.startsWith(base) && !/^(data|blob|file|about):/.test(address))
    check(foreign.length === 0, foreign.join(' '))
    check(browser.errors.length === 0, browser.errors.slice(0, 5).join('\n'))
  })
  console.log(`1..${n}`)
}
browser.close()
lab.kill('SIGTERM')
await once(lab, 'exit')
process.exit(failed > 0 ? 1 : 0)
