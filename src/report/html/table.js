// SPDX-License-Identifier: GPL-3.0-or-later
// The table of call stacks: sorted, filtered, and only as long as somebody wants to read it.

const pageSize = 200;

const columns = [
  { key: 'verdict', name: 'Verdict', first: -1, value: (s) => s.rank, tie: (s) => s.score },
  { key: 'where', name: 'Where', first: 1, value: (s) => placeText(s.frame).toLowerCase() },
  { key: 'bytes', name: 'Live', first: -1, numeric: true, value: (s) => s.live.bytes },
  { key: 'blocks', name: 'Blocks', first: -1, numeric: true, minor: true, value: (s) => s.live.blocks },
  { key: 'expired', name: 'Expired', first: -1, numeric: true, minor: true, value: (s) => s.old.bytes },
  { key: 'rate', name: 'Rate', first: -1, numeric: true, value: (s) => s.byteRate ?? -Infinity },
  { key: 'allocated', name: 'Allocated', first: -1, numeric: true, minor: true, value: (s) => s.alloc.bytes },
  { key: 'kept', name: 'Never freed', first: -1, numeric: true, minor: true, value: (s) => s.kept },
];

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Equals: as the report has them, worst first. */
function sorted(stacks, column, direction) {
  const tie = column.tie ?? ((s) => s.live.bytes);
  return [...stacks].sort((a, b) => direction * compare(column.value(a), column.value(b))
    || compare(tie(b), tie(a)) || b.order - a.order);
}

/** Which nodes have a matching frame in them or above them. */
function matchingNodes(model, text) {
  const { parent, frame } = model.tree;
  const frames = model.frames.map((each) => [each.full, each.module, lineText(each)]
    .some((part) => part.toLowerCase().includes(text)));
  const nodes = new Uint8Array(parent.length);
  for (let node = 1; node < parent.length; node += 1) {
    nodes[node] = nodes[parent[node]] | (frames[frame[node]] ? 1 : 0);
  }
  return nodes;
}

function cells(stack) {
  const rate = stack.byteRate === null || stack.byteRate <= 0 ? '–' : `${bytes(stack.byteRate)}/s`;
  return {
    bytes: bytes(stack.live.bytes), blocks: count(stack.live.blocks), expired: stack.old.blocks === 0 ? '–' : bytes(stack.old.bytes), rate,
    allocated: bytes(stack.alloc.bytes), kept: percent(stack.kept),
  };
}

/** A click on the row, or its button, opens what `make` makes, or closes it. Not made before: hundreds of backtraces are much to lay out. */
function openBy(tr, opener, more, make) {
  const toggle = () => {
    const opens = more.hidden;
    if (opens && more.firstChild.childElementCount === 0) {
      more.firstChild.append(make());
    }
    more.hidden = !opens;
    tr.classList.toggle('opened', opens);
    opener.setAttribute('aria-expanded', String(opens));
  };
  tr.addEventListener('click', () => {
    // A click that ends a selection of text is none.
    if (String(document.getSelection()) === '') {
      toggle();
    }
  });
}

function row(model, stack, index) {
  const id = `details-${index}`;
  const line = stack.frame === null ? '' : lineText(stack.frame) || stack.frame.module;
  const opener = el('button', { type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-controls': id },
    el('span', { class: 'name' }, ...breakable(placeText(stack.frame))),
    el('span', { class: 'line' }, `#${stack.id}`, ...(line === '' ? [] : breakable(` · ${line}`))));
  const text = cells(stack);
  // Roles as well, for browsers forget them where a phone's style makes a row of the table a grid.
  const tr = el('tr', { class: 'stack', role: 'row', 'data-id': stack.id });
  for (const column of columns) {
    if (column.key === 'verdict') {
      tr.append(el('td', { role: 'cell', class: 'c-verdict' },
        el('span', { class: `badge ${stack.verdict.replace(' ', '-')}`, title: stack.why || verdictWords[stack.verdict] }, stack.verdict)));
    } else if (column.key === 'where') {
      tr.append(el('th', { scope: 'row', role: 'rowheader', class: 'c-where' }, opener));
    } else {
      tr.append(el('td', { role: 'cell', class: `number c-${column.key}${column.minor ? ' minor' : ''}` }, text[column.key]));
    }
  }
  tr.append(el('td', { role: 'cell', class: 'c-trend' }, sparkline(stack, 110, 26)));
  const more = el('tr', { class: 'more-of', role: 'row', id, hidden: true }, el('td', { role: 'cell', colspan: columns.length + 1 }));
  openBy(tr, opener, more, () => details(model, stack));
  return [tr, more];
}

function headers(state, sortBy) {
  const buttons = columns.map((column) => {
    const button = el('button', { type: 'button' }, column.name, el('span', { class: 'arrow', 'aria-hidden': 'true' }));
    button.addEventListener('click', () => sortBy(column));
    return el('th', {
      scope: 'col', role: 'columnheader', 'data-key': column.key, 'aria-sort': 'none',
      class: `c-${column.key}${column.numeric ? ' number' : ''}${column.minor ? ' minor' : ''}`,
    }, button);
  });
  return [...buttons, el('th', { scope: 'col', role: 'columnheader', class: 'c-trend', title: 'Bytes still live, by when they were allocated; oldest on the left' },
    'Live by age')];
}

function verdictChips(model, state, show) {
  const counts = new Map();
  for (const stack of model.stacks) {
    counts.set(stack.verdict, (counts.get(stack.verdict) ?? 0) + 1);
  }
  const order = [...verdictNames].reverse().concat('expired', 'young').filter((name) => counts.has(name));
  if (order.length < 2) {
    return [];
  }
  return [null, ...order].map((verdict) => {
    const button = el('button', { type: 'button', 'aria-pressed': String(verdict === null) },
      verdict ?? 'all', el('span', { class: 'count' }, count(verdict === null ? model.stacks.length : counts.get(verdict))));
    button.addEventListener('click', () => {
      for (const each of button.parentNode.children) {
        each.setAttribute('aria-pressed', String(each === button));
      }
      state.verdict = verdict;
      show();
    });
    return button;
  });
}

function sumOf(stacks, key) {
  return stacks.reduce((sum, stack) => ({ blocks: sum.blocks + stack[key].blocks, bytes: sum.bytes + stack[key].bytes }),
    { blocks: 0, bytes: 0 });
}

/** Of all that match, not of the page that is shown, so that nobody has to add up. */
function sums(stacks) {
  const [live, old, alloc] = ['live', 'old', 'alloc'].map((key) => sumOf(stacks, key));
  const text = {
    where: `Sum of ${numberOf(stacks.length, 'call stack')}`, bytes: bytes(live.bytes), blocks: count(live.blocks),
    expired: old.blocks === 0 ? '–' : bytes(old.bytes), allocated: bytes(alloc.bytes),
  };
  return [...columns.map((column) => el(column.key === 'where' ? 'th' : 'td', {
    scope: column.key === 'where' ? 'row' : null, role: column.key === 'where' ? 'rowheader' : 'cell',
    class: `c-${column.key}${column.numeric ? ' number' : ''}${column.minor ? ' minor' : ''}`,
  }, text[column.key] ?? '')), el('td', { role: 'cell', class: 'c-trend' })];
}

/** What `live` has and no call stack of the page: the prompt's ignore or only has left it out. */
function hiddenText(model) {
  const shown = sumOf(model.stacks, 'live');
  const [blocks, size] = [model.live[0] - shown.blocks, model.live[1] - shown.bytes];
  return blocks <= 0 ? '' : `Not listed, hidden by ignore or only: ${bytes(size)} in ${numberOf(blocks, 'block')}.`;
}

function showTable(model) {
  const state = { column: columns[0], direction: -1, text: '', verdict: null, length: pageSize };
  const show = () => {
    const nodes = state.text === '' ? null : matchingNodes(model, state.text);
    const chosen = model.stacks.filter((stack) => (state.verdict === null || stack.verdict === state.verdict)
      && (nodes === null || nodes[stack.node] === 1));
    const order = sorted(chosen, state.column, state.direction);
    byId('rows').replaceChildren(...order.slice(0, state.length).flatMap((stack, i) => row(model, stack, i)));
    for (const th of byId('columns').querySelectorAll('[data-key]')) {
      const direction = state.direction === 1 ? 'ascending' : 'descending';
      th.setAttribute('aria-sort', th.dataset.key === state.column.key ? direction : 'none');
    }
    const shown = Math.min(state.length, order.length);
    byId('shown').textContent = shown === model.stacks.length ? '' : order.length === 0 ? 'No call stack matches.'
      : `${count(shown)} of ${numberOf(order.length, 'call stack')}${order.length < model.stacks.length ? ' that match' : ''}`;
    byId('more').hidden = shown === order.length;
    byId('sums').replaceChildren(...sums(chosen));
  };
  const again = () => {
    state.length = pageSize;
    show();
  };
  byId('columns').replaceChildren(...headers(state, (column) => {
    state.direction = state.column === column ? -state.direction : column.first;
    state.column = column;
    show();
  }));
  byId('verdicts').replaceChildren(...verdictChips(model, state, again));
  byId('filter').addEventListener('input', (event) => {
    state.text = event.target.value.trim().toLowerCase();
    again();
  });
  byId('more').addEventListener('click', () => {
    state.length += pageSize;
    show();
  });
  byId('hidden').textContent = hiddenText(model);
  byId('stacks').hidden = false;
  show();
}
