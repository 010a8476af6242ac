// SPDX-License-Identifier: GPL-3.0-or-later
// What is counted by call stack and has no blocks: allocations that were not followed, page faults and probes.

/** `row` begins with the numbers that html_data.cpp's place_of() wrote. */
function readPlace(model, row) {
  const [node, own, end] = row;
  const place = { node, own, end: model.names[end] };
  return { ...place, frame: model.frames[model.tree.frame[nodeAt(model, place, own)]] ?? null };
}

/** `cells`: of the columns behind the place, as { text, number }. */
function eventRow(model, id, place, cells) {
  const line = place.frame === null ? place.end : lineText(place.frame) || place.frame.module;
  const opener = el('button', { type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-controls': id },
    el('span', { class: 'name' }, ...breakable(placeText(place.frame))), el('span', { class: 'line' }, ...breakable(line)));
  const tr = el('tr', { class: 'stack', role: 'row' },
    el('th', { scope: 'row', role: 'rowheader', class: 'c-where' }, opener),
    ...cells.map(({ text, number }) => el('td', { role: 'cell', class: number ? 'number' : 'holder' }, ...(number ? [text] : breakable(text)))));
  const more = el('tr', { class: 'more-of', role: 'row', id, hidden: true }, el('td', { role: 'cell', colspan: cells.length + 1 }));
  openBy(tr, opener, more, () => el('div', { class: 'details' }, frameList(model, place)));
  return [tr, more];
}

/** A table of `columns`, as long as somebody wants to read it; `cellsOf` makes the cells of a row. */
function showEvents(model, id, columns, rows, cellsOf) {
  let length = pageSize;
  const show = () => {
    const shown = Math.min(length, rows.length);
    byId(`${id}-rows`).replaceChildren(...rows.slice(0, shown).flatMap((row, i) => eventRow(model, `${id}-${i}`, row.place, cellsOf(row))));
    byId(`${id}-shown`).textContent = shown === rows.length ? '' : `${count(shown)} of ${numberOf(rows.length, 'call stack')}`;
    byId(`${id}-more`).hidden = shown === rows.length;
  };
  byId(`${id}-columns`).replaceChildren(...columns.map(({ name, number }) => el('th',
    { scope: 'col', role: 'columnheader', class: number ? 'number' : null }, name)));
  byId(`${id}-more`).addEventListener('click', () => {
    length += pageSize;
    show();
  });
  byId(`${id}-table`).hidden = rows.length === 0;
  byId(id).hidden = false;
  show();
}

function showUnfollowed(model) {
  const rows = model.unfollowed.map((row) => ({ place: readPlace(model, row), calls: row[3], size: row[4], why: model.names[row[5]] }));
  showEvents(model, 'unfollowed', [{ name: 'Where' }, { name: 'Calls', number: true }, { name: 'Bytes', number: true }, { name: 'Why' }], rows,
    (row) => [{ text: count(row.calls), number: true }, { text: bytes(row.size), number: true }, { text: row.why }]);
}

function showFaults(model) {
  const { totals, resident, stacks } = model.faults;
  byId('faults-totals').textContent = `${totals}.`;
  byId('faults-resident').textContent = resident === null ? '' : `Still there: ${resident}.`;
  byId('faults-resident').hidden = resident === null;
  const rows = stacks.map((row) => {
    const [, , , minor, major, still, touched] = row;
    return { place: readPlace(model, row), minor, major, still, touched: touched.map((each) => model.names[each]).join(', ') };
  });
  const columns = [{ name: 'Where' }, { name: 'Minor', number: true }, { name: 'Major', number: true },
    ...(resident === null ? [] : [{ name: 'Still there', number: true }]), { name: 'Touched' }];
  showEvents(model, 'faults', columns, rows, (row) => [{ text: count(row.minor), number: true }, { text: count(row.major), number: true },
    ...(resident === null ? [] : [{ text: bytes(row.still ?? 0), number: true }]), { text: row.touched }]);
}

function showProbes(model) {
  byId('probes-lines').replaceChildren(...model.probes.map(([, line]) => el('li', {}, ...breakable(line))));
  const rows = model.probes.flatMap(([probe, , stacks]) => stacks.map((row) => ({ place: readPlace(model, row), calls: row[3], probe })));
  showEvents(model, 'probes', [{ name: 'Where' }, { name: 'Calls', number: true }, { name: 'Probe' }], rows,
    (row) => [{ text: count(row.calls), number: true }, { text: row.probe }]);
}
