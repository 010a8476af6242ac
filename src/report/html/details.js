// SPDX-License-Identifier: GPL-3.0-or-later
// What a row of the table opens to: why, the account, the intervals, the whole backtrace.

function fact(name, value, note = '') {
  return el('div', {}, el('dt', {}, name), el('dd', {}, value, note === '' ? null : el('small', {}, note)));
}

function amountFact(name, amount) {
  return fact(name, bytes(amount.bytes), numberOf(amount.blocks, 'block'));
}

function account(stack) {
  const facts = [
    amountFact('Allocated', stack.alloc),
    amountFact('Freed', stack.free),
    ...(stack.aside.blocks === 0 ? [] : [amountFact('Set aside at a pause', stack.aside)]),
    amountFact('Live', stack.live),
    amountFact('of it expired', stack.old),
    amountFact('of it younger', stack.young),
    amountFact('Expired ever', stack.expired),
  ];
  if (stack.oldest !== null) {
    facts.push(fact('Oldest live block', duration(stack.oldest)));
  }
  if (stack.lifetime !== null) {
    const [least, mean, most] = stack.lifetime;
    facts.push(fact('Mean life of the freed', duration(mean), `${duration(least)} to ${duration(most)}`));
  }
  if (stack.blockRate !== null) {
    facts.push(fact('Comes to stay', `${bytes(stack.byteRate)}/s`, `${digits(stack.blockRate)} blocks/s`));
  }
  return el('dl', { class: 'account' }, ...facts);
}

function intervalTable(stack) {
  const intervals = readIntervals(stack.times, stack.counts);
  if (intervals.length === 0) {
    return null;
  }
  const heads = ['Allocated at', 'Allocated', 'Still live', 'Share'];
  const rows = intervals.map((each) => {
    const share = each.alloc.bytes === 0 ? 0 : each.live.bytes / each.alloc.bytes;
    return el('tr', {},
      el('th', { scope: 'row' }, `${duration(each.begin)} – ${duration(each.end)}`),
      el('td', {}, bytes(each.alloc.bytes)),
      el('td', {}, bytes(each.live.bytes)),
      el('td', {}, el('span', { class: 'bar' }, el('i', { style: `width:${(share * 100).toFixed(1)}%` })),
        each.alloc.bytes === 0 ? '–' : percent(share)));
  });
  return el('div', { class: 'intervals' }, el('h3', {}, 'What is left, by age'),
    el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))),
      el('tbody', {}, ...rows))));
}

function frameItem(frame, isOwn) {
  const unnamed = frame.moduleOffset === null ? '?' : `${frame.module}+0x${frame.moduleOffset}`;
  const where = [frame.module || 'no module', frame.offset === null ? '' : `+${frame.offset}`].join(' ').trim();
  return el('li', { class: isOwn ? 'own' : null },
    el('code', {}, ...breakable(frame.full || unnamed)),
    frame.inlined ? el('span', { class: 'tag' }, 'inlined') : null,
    el('span', { class: 'where' }, lineText(frame) === '' ? null : el('b', {}, lineText(frame)), where, ` 0x${frame.pc}`));
}

function frameList(model, stack) {
  const frames = backtrace(model, stack);
  const end = stack.end === '' ? null : el('p', { class: 'hint' }, `No further frames: ${stack.end}.`);
  if (frames.length === 0) {
    return el('div', { class: 'backtrace' }, el('h3', {}, 'Backtrace'), end ?? el('p', { class: 'hint' }, 'None.'));
  }
  return el('div', { class: 'backtrace' }, el('h3', {}, 'Backtrace, innermost first'),
    el('ol', {}, ...frames.map((frame, i) => frameItem(frame, i === stack.own))), end);
}

function details(model, stack) {
  return el('div', { class: 'details' },
    el('p', { class: 'why' }, el('b', {}, stack.judged ? `${stack.verdict}: ` : ''),
      stack.why || verdictWords[stack.verdict]),
    account(stack), frameList(model, stack), intervalTable(stack));
}
