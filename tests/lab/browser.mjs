// A headless Chromium, driven over its debugging pipe.
import {spawn} from 'node:child_process'
import {writeFileSync} from 'node:fs'

export class Browser {
  static async open(program, profile) {
    const browser = new Browser()
    Object.assign(browser, {n: 0, waits: new Map(), events: [], loaded: []})
    browser.process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
      '--disable-dev-shm-usage', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']})
    let rest = ''
    browser.process.stdio[4].on('data', data => {
      rest += data
      for (let at; (at = rest.indexOf('\0')) >= 0; rest = rest.slice(at + 1)) browser.hear(JSON.parse(rest.slice(0, at)))
    })
    const {targetInfos} = await browser.send('Target.getTargets')
    const {targetId} = targetInfos.find(({type}) => type === 'page')
    browser.session = (await browser.send('Target.attachToTarget', {targetId, flatten: true})).sessionId
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await browser.tell(`${domain}.enable`)
    await browser.size(1400, 900)
    return browser
  }

  hear(message) {
    if (!message.id) {
      this.events.push(message)
      if (message.method === 'Page.loadEventFired') this.loaded.splice(0).forEach(resolve => resolve())
      return
    }
    const [resolve, reject] = this.waits.get(message.id)
    this.waits.delete(message.id)
    if (message.error) reject(new Error(JSON.stringify(message.error)))
    else resolve(message.result)
  }

  send(method, params = {}, sessionId) {
    const id = ++this.n
    this.process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0')
    return new Promise((resolve, reject) => this.waits.set(id, [resolve, reject]))
  }

  tell(method, params) { return this.send(method, params, this.session) }
  size(width, height) { return this.tell('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false}) }

  async go(address) {
    const loaded = new Promise(resolve => this.loaded.push(resolve))
    await this.tell('Page.navigate', {url: 'about:blank'})
    await loaded
    const again = new Promise(resolve => this.loaded.push(resolve))
    await this.tell('Page.navigate', {url: address})
    await again
  }

  async run(expression) {
    const {result, exceptionDetails} = await this.tell('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true})
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text)
    return result.value
  }

  async until(expression, ms = 30000) {
    for (const end = Date.now() + ms; Date.now() < end; await new Promise(resolve => setTimeout(resolve, 10)))
      if (await this.run(expression)) return
    throw new Error(`never came: ${expression}`)
  }

  async key(key, modifiers = 0) { // 1 Alt, 2 Ctrl, 8 Shift
    const code = {Enter: 13, Tab: 9, ' ': 32, ArrowUp: 38, ArrowDown: 40, ArrowLeft: 37, ArrowRight: 39, Home: 36}[key] || key.toUpperCase().charCodeAt(0)
    const of = {key, modifiers, windowsVirtualKeyCode: code, code: key.length === 1 ? `Key${key.toUpperCase()}` : key, text: key === 'Enter' ? '\r' : key.length === 1 && !(modifiers & 3) ? key : undefined}
    await this.tell('Input.dispatchKeyEvent', {type: 'keyDown', ...of})
    await this.tell('Input.dispatchKeyEvent', {type: 'keyUp', ...of})
  }

  async picture(file) { writeFileSync(file, Buffer.from((await this.tell('Page.captureScreenshot')).data, 'base64')) }

  get errors() {
    return this.events.filter(({method, params}) => method === 'Runtime.exceptionThrown' || (method === 'Log.entryAdded' && params.entry.level === 'error'))
      .map(({params}) => params.exceptionDetails?.exception?.description || `${params.entry?.text} ${params.entry?.url}`)
  }

  requested() { return this.events.filter(({method}) => method === 'Network.requestWillBeSent').map(({params}) => params.request.url) }
  close() { this.process.kill('SIGKILL') }
}
