// Twelve tasks. The engine is the judge: a task is done when the numbers that it printed for the plan on the page say so. Each
// ends on a published run of the same kind, with what was measured.

import {make} from './look.js'
import {nearest} from './results.js'
import {change, state, view} from './state.js'

const on70b = {model: 'llama-3-70b', cluster: 'dgx-h100', gpus: '64', 'seq-len': '4096'}

// start: options; judge(json, plan, lab): whether it is done. run: the published row it ends on.
export const tasks = [
  {name: 'Find the bubble', start: {...on70b, tp: '8', pp: '8', 'global-batch': '16', zero: '1'},
    text: 'Eight stages and few micro-batches: ranks wait for the first and drain after the last. Grey on the timeline is that bubble. Bring it under 20 % without changing tp or pp.',
    hint: 'More micro-batches per step share one bubble: raise the global batch, or cut the stages into chunks.',
    judge: (json, plan) => plan.tp === 8 && plan.pp === 8 && json.memory.fits && json.bubble_fraction < 0.2, run: 'megatron-lm-2020'},
  {name: 'Make it fit', start: {...on70b, tp: '4', pp: '1', zero: '0', 'global-batch': '64'},
    text: '70B parameters with Adam take far more than one GPU has. The curve under the timeline shows what fills it. Make it fit on these 64 GPUs.',
    hint: 'tp and pp divide weights; ZeRO divides the optimizer’s states over dp; recomputation drops activations.',
    judge: json => json.memory.fits, run: 'llm-foundry'},
  {name: 'Cut the pipeline finer', start: {...on70b, tp: '8', pp: '8', 'global-batch': '32', zero: '1'},
    text: 'Interleaving gives each rank several chunks, so it starts sooner and waits less, and sends more. Reach a bubble under 15 % with the batch as it is.',
    hint: 'schedule interleaved, chunks 2, 5 or 10 (80 layers over 8 ranks).',
    judge: (json, plan) => plan.global_batch === 32 && plan.pp === 8 && json.memory.fits && json.bubble_fraction < 0.15, run: 'megatron-bridge'},
  {name: 'Split the backward', start: {...on70b, tp: '8', pp: '4', 'global-batch': '32', zero: '1'},
    text: 'A backward is two products: one the stage before waits for, one only the optimizer. Use a schedule that fills the bubble with the second, and see W on the timeline.',
    hint: 'zb-h1, zb-v or dualpipe-v.',
    judge: (json, plan) => /^(zb|v-|dualpipe)/.test(plan.schedule) && json.memory.fits && json.bubble_fraction < 0.12, run: 'vocabulary-parallel'},
  {name: 'Why does dp not overlap?', start: {...on70b, tp: '8', pp: '1', gpus: '64', zero: '1', 'micro-batch': '1', 'global-batch': '8', recompute: 'full'},
    text: 'Green at the end of the step is gradients that are summed after the last backward has nothing left to hide them. Bring exposed dp under 3 % of the step.',
    hint: 'More micro-batches per step: the sum is as long, the step longer. A larger global batch, or smaller buckets.',
    judge: json => json.breakdown_s.dp / json.step_time_s < 0.03 && json.memory.fits, run: 'ibm-fsdp'},
  {name: 'tp across nodes', start: {...on70b, tp: '16', pp: '2', zero: '1', 'global-batch': '64'},
    text: 'tp sums activations in every layer. Across nodes these sums run over NICs, a ninth of NVLink. Bring tp under 15 % of the step.',
    hint: 'Keep tp inside a node: 8 or fewer; let pp or dp cross nodes.',
    judge: json => json.breakdown_s.tp / json.step_time_s < 0.15 && json.memory.fits, run: 'megatron-lm-2020'},
  {name: 'Recompute less', start: {...on70b, tp: '8', pp: '4', zero: '1', 'global-batch': '64', recompute: 'full'},
    text: 'Full recomputation runs every forward twice. Keep it within memory with less of that: recomputed work under 5 % of the step.',
    hint: 'selective, or block with the first few layers of a stage; sequence parallel divides what is saved.',
    judge: json => json.memory.fits && json.breakdown_s.recompute / json.step_time_s < 0.05, run: 'nemo-docs'},
  {name: 'A long context', start: {model: 'llama-3-8b', cluster: 'dgx-h100', gpus: '32', tp: '8', 'seq-len': '131072', 'global-batch': '4', zero: '1', 'micro-batch': '1'},
    text: '131,072 tokens in one sequence. Make it fit and reach 30 % MFU.',
    hint: 'cp shares each sequence; sequence parallel and recomputation save what is left.',
    judge: json => json.memory.fits && json.mfu > 0.3, run: 'nemo-long'},
  {name: 'Experts on the wire', start: {model: 'deepseek-v3', cluster: 'h800', gpus: '256', pp: '8', ep: '32', zero: '1', 'global-batch': '512', 'seq-len': '4096', recompute: 'full'},
    text: 'Tokens travel to eight experts each and back, in every layer, over NICs where these are on other nodes. Bring exposed ep under 20 % of the step, on these GPUs.',
    hint: 'expert dispatch deepep sends a token once to each node that has any of its experts.',
    judge: json => json.memory.fits && json.breakdown_s.ep / json.step_time_s < 0.2, run: 'megatron-bridge-moe'},
  {name: 'Sharded over a slow network', start: {model: 'llama-2-13b', cluster: 'a100-pcie', gpus: '64', zero: '3', 'global-batch': '64', 'micro-batch': '1', 'seq-len': '2048', recompute: 'full'},
    text: 'ZeRO-3 gathers weights before every use; these nodes have PCIe and one NIC, and four fifths of the step are that. Reach 30 % MFU on the same GPUs.',
    hint: 'More tokens for each gather: larger micro-batches, and a larger batch to have room for them.',
    judge: json => json.memory.fits && json.mfu > 0.3, run: 'llm-foundry'},
  {name: 'Beat the published plan', start: {model: 'gpt3-175b', cluster: 'selene', framework: 'megatron-lm-2022', gpus: '1024', tp: '8', pp: '16', 'micro-batch': '1', 'global-batch': '1536', 'seq-len': '2048', recompute: 'full', zero: '0'},
    text: 'Megatron-LM’s run of GPT-3 on 1,024 A100s, plan as published. Make the same batch 10 % faster.',
    hint: 'Recomputation costs a third of the forward: what does sequence parallel with selective recomputation do? Chunks?',
    judge: (json, plan, lab) => plan.global_batch === 1536 && plan.gpus === 1024 && json.memory.fits && json.tokens_per_s > 1.1 * lab.task.before, run: 'megatron-lm-2020'},
  {name: 'The famous run', start: {model: 'llama-3.1-405b', cluster: 'llama3-h100', framework: 'llama3', gpus: '16384', tp: '8', pp: '16', chunks: '8', schedule: 'interleaved', zero: '1', 'seq-len': '8192', 'global-batch': '2048', 'sequence-parallel': 'on'},
    text: 'Llama 3 405B on 16,384 GPUs, with gradients not sharded: it does not fit. Make it fit and keep at least 42 % MFU; the paper reports 43 %.',
    hint: 'Shard gradients too.',
    judge: json => json.memory.fits && json.mfu > 0.42, run: 'mlperf'},
]

export const learnTab = {
  name: 'Learn',
  judges: true,
  async show(lab, element) {
    const done = new Set((state.view.done || '').split(',').filter(Boolean)), at = Number(state.view.task ?? -1), task = tasks[at]
    const start = async i => {
      await view({task: i})
      lab.task = null
      state.options = new Map()
      await change(tasks[i].start)
    }
    const list = make('div', {class: 'row', style: {gap: '4px'}}, ...tasks.map(({name}, i) => make('button', {text: `${done.has(String(i)) ? '✓ ' : ''}${i + 1} ${name}`, 'aria-pressed': String(i === at), onclick: () => start(i)})))
    element.replaceChildren(list)
    if (!task) return element.append(make('p', {text: 'Each task begins with a plan and ends when the engine says so.'}))
    if (lab.json) lab.task ??= {at, before: lab.json.tokens_per_s}
    const isDone = Boolean(lab.json && lab.plan && task.judge(lab.json, lab.plan, lab))
    if (isDone && !done.has(String(at))) { done.add(String(at)); await view({done: [...done].join(',')}); list.children[at].textContent = `✓ ${at + 1} ${task.name}` }
    const published = isDone ? lab.published?.rows.filter(({row}) => row.source === task.run) : null
    const row = published?.length ? nearest({rows: published}, lab.plan, lab.json, state.options.get('model'), state.options.get('cluster'))[0]?.row ?? published[0].row : null
    element.append(make('p', {text: task.text, style: {'max-width': '900px', margin: '8px 0 4px'}}),
      make('details', {}, make('summary', {text: 'Hint', style: {border: 'none', background: 'none', padding: '0'}}), make('div', {class: 'small', text: task.hint})),
      make('p', {id: 'verdict', class: isDone ? 'faster' : 'small', role: 'status', text: isDone ? 'Done: the engine agrees.' : lab.json ? 'Not yet.' : 'This plan cannot run.'}),
      isDone && tasks[at + 1] ? make('button', {text: `Next: ${tasks[at + 1].name}`, id: 'next-task', onclick: () => start(at + 1)}) : '',
      row ? make('div', {class: 'small'}, `A published run of the kind: ${row.model_name} on ${row.gpus} × ${row.cluster}, tp ${row.tp}, pp ${row.pp}, batch ${row.global_batch}: measured ${row.step_time_s} s a step. `,
        make('button', {text: 'Load it', onclick: () => lab.loadPublished(row)})) : '')
  },
}
