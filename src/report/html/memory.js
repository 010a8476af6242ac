// SPDX-License-Identifier: GPL-3.0-or-later
// Memory over time: a panel for what the process has resident and one for what we know to be live.
// Apart, because the first is often a hundred times the second.

/** Round numbers of bytes up to `most`, three or four of them. */
function byteTicks(most) {
  let step = 1;
  while (most / step > 4) {
    step *= 2;
  }
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

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

function drawPanel(place, samples, key) {
  const width = place.clientWidth;
  const height = 190;
  const box = { left: 64, right: width - 22, top: 12, bottom: height - 26 };
  const most = Math.max(1, ...samples.map((each) => each[key]));
  const x = d3.scaleLinear().domain([samples[0].time, Math.max(samples[samples.length - 1].time, samples[0].time + 1e-3)])
    .range([box.left, box.right]);
  const y = d3.scaleLinear().domain([0, most * 1.08]).range([box.bottom, box.top]);
  const points = samples.map((each) => `${x(each.time).toFixed(1)},${y(each[key]).toFixed(1)}`);
  const first = x(samples[0].time);
  const last = x(samples[samples.length - 1].time);

  const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
  for (const tick of byteTicks(most)) {
    picture.append(svg('line', { class: 'grid', x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }),
      svg('text', { x: box.left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, bytes(tick)));
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

function panel(samples, key, title, words) {
  const begin = samples[0][key];
  const end = samples[samples.length - 1][key];
  const change = end - begin;
  const sum = `${bytes(end)}, ${change < 0 ? '−' : '+'}${bytes(Math.abs(change))}`;
  const readout = el('span', { class: 'now' }, sum);
  const place = el('div', { class: 'plot', role: 'img', 'aria-label': `${title}: from ${bytes(begin)} to ${bytes(end)}` });
  const figure = el('figure', { class: key }, el('figcaption', {}, el('b', {}, title), readout, el('small', {}, words)), place);
  let drawn = null;
  place.addEventListener('pointermove', (event) => {
    const time = drawn.x.invert(event.clientX - place.getBoundingClientRect().left);
    const near = samples[d3.bisector((each) => each.time).center(samples, time)];
    drawn.dot.setAttribute('cx', drawn.x(near.time));
    drawn.dot.setAttribute('cy', drawn.y(near[key]));
    drawn.dot.setAttribute('visibility', 'visible');
    readout.textContent = `${bytes(near[key])} at ${duration(near.time)}`;
  });
  place.addEventListener('pointerleave', () => {
    drawn.dot.setAttribute('visibility', 'hidden');
    readout.textContent = sum;
  });
  new ResizeObserver(() => {
    if (place.clientWidth > 0) {
      drawn = drawPanel(place, samples, key);
    }
  }).observe(place);
  return figure;
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
  byId('panels').replaceChildren(...figures);
  byId('memory').hidden = false;
}
