// SPDX-License-Identifier: GPL-3.0-or-later
// Memory over time: a panel for what the process has resident and one for what we know to be live.
// Apart, because the first is often a hundred times the second. And, where they are known, panels of
// whose memory is short: the control group's, the machine's, and how long tasks waited for it.

/** Round numbers of bytes up to `most`, three or four of them. */
function byteTicks(most) {
  let step = 1;
  while (most / step > 4) {
    step *= 2;
  }
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

const BYTES = {
  text: bytes,
  ticks: byteTicks,
  least: 1,
  sum(begin, end) {
    return `${bytes(end)}, ${end < begin ? '−' : '+'}${bytes(Math.abs(end - begin))}`;
  },
};

const PERCENT = {
  text: (value) => `${digits(value)} %`,
  ticks: (most) => {
    const step = [0.25, 0.5, 1, 2, 5, 10, 25].find((each) => most / each <= 4) ?? 25;
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
  },
  least: 1,
  sum(begin, end, most) {
    return `${digits(most)} % at most`;
  },
};

/** At most `most` round times up to `end`. */
function timeTicks(end, most) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];
  const step = steps.find((each) => end / each <= most) ?? Math.ceil(end / most / 86400) * 86400;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}

function timeText(seconds) {
  const [length, unit] = seconds >= 86400 ? [86400, 'd'] : seconds >= 3600 ? [3600, 'h'] : seconds >= 60 ? [60, 'min'] : [1, 's'];
  return `${digits(seconds / length)} ${unit}`;
}

function drawPanel(place, samples, key, unit) {
  const width = place.clientWidth;
  const height = 190;
  const box = { left: 64, right: width - 22, top: 12, bottom: height - 26 };
  const most = Math.max(unit.least, ...samples.map((each) => each[key]));
  const x = d3.scaleLinear().domain([samples[0].time, Math.max(samples[samples.length - 1].time, samples[0].time + 1e-3)])
    .range([box.left, box.right]);
  const y = d3.scaleLinear().domain([0, most * 1.08]).range([box.bottom, box.top]);
  const points = samples.map((each) => `${x(each.time).toFixed(1)},${y(each[key]).toFixed(1)}`);
  const first = x(samples[0].time);
  const last = x(samples[samples.length - 1].time);

  const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
  for (const tick of unit.ticks(most)) {
    picture.append(svg('line', { class: 'grid', x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }),
      svg('text', { x: box.left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, unit.text(tick)));
  }
  for (const tick of timeTicks(samples[samples.length - 1].time, width / 90)) {
    picture.append(svg('text', { x: x(tick), y: height - 8, 'text-anchor': 'middle' }, timeText(tick)));
  }
  picture.append(svg('path', { class: 'area', d: `M${first},${box.bottom}L${points.join('L')}L${last},${box.bottom}Z` }),
    svg('polyline', { class: 'line', points: points.join(' ') }));
  const dot = svg('circle', { r: 4, class: 'dot', visibility: 'hidden' });
  picture.append(dot);
  place.replaceChildren(picture);
  return { x, y, dot };
}

function panel(samples, key, title, words, unit = BYTES) {
  const begin = samples[0][key];
  const end = samples[samples.length - 1][key];
  const sum = unit.sum(begin, end, Math.max(...samples.map((each) => each[key])));
  const readout = el('span', { class: 'now' }, sum);
  const place = el('div', { class: 'plot', role: 'img', 'aria-label': `${title}: from ${unit.text(begin)} to ${unit.text(end)}` });
  const figure = el('figure', { class: key }, el('figcaption', {}, el('b', {}, title), readout, el('small', {}, words)), place);
  let drawn = null;
  place.addEventListener('pointermove', (event) => {
    const time = drawn.x.invert(event.clientX - place.getBoundingClientRect().left);
    const near = samples[d3.bisector((each) => each.time).center(samples, time)];
    drawn.dot.setAttribute('cx', drawn.x(near.time));
    drawn.dot.setAttribute('cy', drawn.y(near[key]));
    drawn.dot.setAttribute('visibility', 'visible');
    readout.textContent = `${unit.text(near[key])} at ${duration(near.time)}`;
  });
  place.addEventListener('pointerleave', () => {
    drawn.dot.setAttribute('visibility', 'hidden');
    readout.textContent = sum;
  });
  new ResizeObserver(() => {
    if (place.clientWidth > 0) {
      drawn = drawPanel(place, samples, key, unit);
    }
  }).observe(place);
  return figure;
}

/** Of the time since the sample before: percent in which some task waited for memory. */
function waitedShares(samples, key) {
  return samples.slice(1).flatMap((each, i) => {
    const span = each.time - samples[i].time;
    return each[key] === null || samples[i][key] === null || span <= 0
      ? [] : [{ time: each.time, waited: Math.min(100, (each[key] - samples[i][key]) / (span * 1e4)) }];
  });
}

/** Whose memory is short: panels of the control group and of the machine. */
function shortagePanels(model) {
  const flat = model.shortage.samples;
  const samples = Array.from({ length: flat.length / 5 }, (_, i) => ({
    time: model.memory[3 * i], group: flat[5 * i], limit: flat[5 * i + 1], available: flat[5 * i + 2],
    groupStalled: flat[5 * i + 3], machineStalled: flat[5 * i + 4],
  }));
  const known = (key) => samples.filter((each) => each[key] !== null);
  const figures = [];
  const add = (list, key, title, words, unit) => {
    if (list.length >= 2) {
      figures.push(panel(list, key, title, words, unit));
    }
  };
  const limited = known('group');
  if (limited.length > 0) {
    add(limited, 'group', 'Control group', `of the ${bytes(limited[limited.length - 1].limit)} that its limit allows, without unused file cache`);
  }
  add(known('available'), 'available', 'Available', 'on the machine, without swapping');
  add(waitedShares(samples, 'groupStalled'), 'waited', 'Waiting, control group', 'time in which some task of it waited for memory', PERCENT);
  add(waitedShares(samples, 'machineStalled'), 'waited', 'Waiting, machine', 'time in which some task waited for memory', PERCENT);
  return figures;
}

function showMemory(model) {
  const samples = Array.from({ length: model.memory.length / 3 }, (_, i) => ({
    time: model.memory[3 * i], live: model.memory[3 * i + 1], rss: model.memory[3 * i + 2],
  }));
  if (samples.length < 2) {
    return;
  }
  const figures = [panel(samples, 'live', 'Live blocks', 'allocated since the watching began, not freed')];
  const resident = samples.filter((each) => each.rss > 0); // 0: could not be read
  if (resident.length >= 2) {
    figures.push(panel(resident, 'rss', 'Resident set', 'of the whole process, as the kernel counts it'));
  }
  if (model.shortage) {
    byId('shortage').textContent = `${model.shortage.verdict[0].toUpperCase()}${model.shortage.verdict.slice(1)}.`;
    figures.push(...shortagePanels(model));
  }
  byId('panels').replaceChildren(...figures);
  byId('memory').hidden = false;
}
