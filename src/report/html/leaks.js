// SPDX-License-Identifier: GPL-3.0-or-later
// What a look at the heap has found: blocks by what points to them.

// As LossClass has them.
const lossClasses = [
  { name: 'definitely lost', mood: 'lost', words: 'No chain of pointers leads to them.' },
  { name: 'indirectly lost', mood: 'lost', words: 'Only lost blocks point to them.' },
  { name: 'possibly lost', mood: 'growing', words: 'They are pointed into, but not at their first bytes.' },
  { name: 'still reachable', mood: 'settled', words: 'A chain of pointers leads to them.' },
];
const leakColumns = ['Class', 'Allocated at', 'Blocks', 'Bytes', 'Held by'];

function readRecord(model, byNode, row, order) {
  const [loss, size, blocks, allBytes, type, callstack, node, own, end, addresses, holders] = row;
  const place = byNode.get(node)?.own ?? own; // which knows more wrappers of allocators
  return {
    loss, size, blocks, bytes: allBytes, type: model.names[type], callstack, node, order, addresses, own: place,
    end: model.names[end],
    frame: model.frames[model.tree.frame[nodeAt(model, { node }, place)]] ?? null,
    holders: Array.from({ length: holders.length / 2 }, (_, i) => ({ name: model.names[holders[2 * i]], blocks: holders[2 * i + 1] })),
  };
}

function eachSize(record) {
  return record.size === 0 ? 'of different sizes' : `of ${numberOf(record.size, 'byte')} each`;
}

function leakFacts(record) {
  const { words } = lossClasses[record.loss];
  const holders = record.holders.map((holder) => el('li', {}, `${count(holder.blocks)} of ${count(record.blocks)} held by `,
    el('code', {}, ...breakable(holder.name))));
  const more = record.blocks > record.addresses.length ? ', …' : '';
  return [
    el('p', { class: 'why' }, el('b', {}, `${lossClasses[record.loss].name}: `), words,
      ` ${numberOf(record.blocks, 'block')} ${eachSize(record)}.`),
    holders.length === 0 ? null : el('ul', { class: 'holders' }, ...holders),
    record.addresses.length === 0 ? null
      : el('p', { class: 'addresses' }, 'At ', el('code', {}, record.addresses.map((each) => `0x${each}`).join(', ') + more)),
  ];
}

function leakDetails(model, record) {
  return el('div', { class: 'details' }, ...leakFacts(record).filter((each) => each !== null),
    record.callstack === 0 ? null : frameList(model, record));
}

/** Where it was allocated, if that was watched; else its size. */
function leakPlace(model, record) {
  const { frame, node } = record;
  const watched = model.session.look ? '' : 'not watched, ';
  const process = node === 0 ? '' : model.frames[model.tree.frame[node]].short; // of several, as all that is known
  const parts = record.callstack === 0
    ? [process, watched + eachSize(record)]
    : [`#${record.callstack}`, frame === null ? '' : lineText(frame) || frame.module];
  const name = record.callstack === 0 ? record.type || `${model.session.look ? 'type ' : ''}not known` : placeText(frame);
  const type = record.callstack !== 0 ? record.type : '';
  return { name, line: [...parts, type].filter((each) => each !== '').join(' · ') };
}

function leakRow(model, record) {
  const id = `leak-${record.order}`;
  const place = leakPlace(model, record);
  const { name, mood } = lossClasses[record.loss];
  const opener = el('button', { type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-controls': id },
    el('span', { class: 'name' }, ...breakable(place.name)), el('span', { class: 'line' }, ...breakable(place.line)));
  const most = record.holders[0];
  const holder = most === undefined ? '–' : `${most.blocks === record.blocks ? '' : `${count(most.blocks)}: `}${most.name}`;
  const tr = el('tr', { class: 'stack', role: 'row' },
    el('td', { role: 'cell', class: 'c-verdict' }, el('span', { class: `badge ${mood}`, title: lossClasses[record.loss].words }, name)),
    el('th', { scope: 'row', role: 'rowheader', class: 'c-where' }, opener),
    el('td', { role: 'cell', class: 'number' }, count(record.blocks)),
    el('td', { role: 'cell', class: 'number' }, bytes(record.bytes)),
    el('td', { role: 'cell', class: 'holder' }, ...breakable(holder)));
  const more = el('tr', { class: 'more-of', role: 'row', id, hidden: true }, el('td', { role: 'cell', colspan: leakColumns.length }));
  openBy(tr, opener, more, () => leakDetails(model, record));
  return [tr, more];
}

function leakChips(leaks, state, show) {
  const classes = lossClasses.map((each, loss) => ({ ...each, loss, records: leaks.filter((record) => record.loss === loss).length }))
    .filter((each) => each.records > 0);
  return classes.length < 2 ? [] : [{ name: 'all', loss: null, records: leaks.length }, ...classes].map((each) => {
    const button = el('button', { type: 'button', 'aria-pressed': String(each.loss === null) },
      each.name, el('span', { class: 'count' }, count(each.records)));
    button.addEventListener('click', () => {
      for (const other of button.parentNode.children) {
        other.setAttribute('aria-pressed', String(other === button));
      }
      state.loss = each.loss;
      state.length = pageSize;
      show();
    });
    return button;
  });
}

function showRecords(model, records) {
  const state = { loss: null, length: pageSize };
  const show = () => {
    const chosen = records.filter((record) => state.loss === null || record.loss === state.loss);
    const shown = Math.min(state.length, chosen.length);
    byId('leaks-rows').replaceChildren(...chosen.slice(0, shown).flatMap((record) => leakRow(model, record)));
    byId('leaks-shown').textContent = shown === chosen.length ? '' : `${count(shown)} of ${numberOf(chosen.length, 'record')}`;
    byId('leaks-more').hidden = shown === chosen.length;
  };
  byId('leaks-columns').replaceChildren(...leakColumns.map((name, i) => el('th',
    { scope: 'col', role: 'columnheader', class: i === 2 || i === 3 ? 'number' : null },
    model.session.look && i === 1 ? 'Type' : name)));
  byId('leaks-classes').replaceChildren(...leakChips(records, state, show));
  byId('leaks-more').addEventListener('click', () => {
    state.length += pageSize;
    show();
  });
  show();
}

/** Of rows of three: name, blocks, bytes. */
function showCounts(model, id, rows) {
  const lines = Array.from({ length: rows.length / 3 }, (_, i) => el('li', {},
    `${bytes(rows[3 * i + 2])} in ${numberOf(rows[3 * i + 1], 'block')}: `, el('code', {}, ...breakable(model.names[rows[3 * i]]))));
  byId(`${id}-list`).replaceChildren(...lines);
  byId(id).hidden = lines.length === 0;
}

/** Which blocks are classed: of one process, or of those of several that could be looked at. */
function leakScope(model) {
  const { processes, scope, unlisted } = model.leaks;
  const when = processes === 1 ? 'at one moment' : `of ${scope}, each at one moment`;
  return unlisted === ''
    ? `The whole heap ${when}${model.session.look ? '' : ', also of before the watching'}, by what points to its blocks`
    : `Only blocks that were watched, ${when}, by what points to them (${unlisted})`;
}

/** Of the processes that could not be looked at; `why` tells of the first. */
function leakRest({ known, processes, why }) {
  const others = processes - known;
  const because = why === '' ? '' : others === 1 ? `: ${why}` : `; of the first: ${why}`;
  return others === 0 ? '' : ` Nothing is said of any block of the other ${others === 1 ? 'one' : count(others)}${because}.`;
}

function showLeaks(model) {
  const { known, processes, why, pause, age, common, totals, types, holders, records } = model.leaks;
  const stood = pause <= 0 ? ''
    : processes === 1 ? ` The process stood still for ${digits(pause * 1000)} ms.` : ` The processes stood still for ${digits(pause * 1000)} ms in all.`;
  const looked = age < 1 ? '' : ` It was looked at ${digits(age)} s before this report; what was freed since is left out.`;
  byId('leaks-look').textContent = known > 0
    ? `${leakScope(model)}.${leakRest(model.leaks)}${stood}${looked}${common === '' ? '' : ` ${common[0].toUpperCase()}${common.slice(1)}.`}`
    : `Incomplete: ${why}. Nothing is said of any block.${stood}`;
  byId('leaks').hidden = false;
  for (const id of ['leaks-totals', 'leaks-classes', 'leaks-scroll']) {
    byId(id).hidden = known === 0 || (id !== 'leaks-totals' && records.length === 0);
  }
  if (known === 0) {
    return;
  }
  byId('leaks-totals').replaceChildren(...lossClasses.map(({ name }, i) => amountFact(name,
    { blocks: totals[2 * i], bytes: totals[2 * i + 1] })));
  showCounts(model, 'leaks-types', types);
  showCounts(model, 'leaks-holders', holders);
  const byNode = new Map(model.stacks.map((stack) => [stack.node, stack]));
  showRecords(model, records.map((row, order) => readRecord(model, byNode, row, order)));
}
