// SPDX-License-Identifier: GPL-3.0-or-later
// What is still live of the blocks of each interval, oldest on the left. An interval is about twice as
// long as the next younger, so that bars show bytes per second of it: a leak is level, a cache has its
// bars on the left only, and what is given back in time has them on the right.

function sparkline(stack, width, height) {
  const intervals = readIntervals(stack.times, stack.counts).filter((each) => each.end > each.begin);
  if (intervals.length === 0) {
    return el('span', { class: 'none' }, '–');
  }
  const span = intervals[intervals.length - 1].end - intervals[0].begin;
  const density = (each) => each.live.bytes / (each.end - each.begin);
  const most = Math.max(...intervals.map(density));
  const step = width / Math.max(intervals.length, 6);
  const bars = intervals.map((each, i) => {
    const tall = each.live.bytes === 0 ? 0 : Math.max(1.5, (density(each) / most) * (height - 2));
    return svg('rect', {
      x: (i * step).toFixed(1), y: (height - 1 - tall).toFixed(1), width: (step - 2).toFixed(1), height: tall.toFixed(1), rx: 1,
    });
  });
  const oldest = intervals[0];
  const says = `Still live by time of allocation, over ${duration(span)}; of the oldest interval `
    + `${bytes(oldest.live.bytes)} of ${bytes(oldest.alloc.bytes)}`;
  return svg('svg', {
    class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': says,
  }, svg('title', {}, says), svg('line', { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), ...bars);
}
