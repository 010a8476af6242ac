// SPDX-License-Identifier: GPL-3.0-or-later
// What is still live of the blocks of each interval, oldest on the left. Areas are bytes: intervals
// differ in length, and an old one that has kept much is what a leak looks like.

function sparkline(stack, width, height) {
  const intervals = readIntervals(stack.times, stack.counts).filter((each) => each.end > each.begin);
  if (intervals.length === 0) {
    return el('span', { class: 'none' }, '–');
  }
  const begin = intervals[0].begin;
  const span = intervals[intervals.length - 1].end - begin;
  const density = (each) => each.live.bytes / (each.end - each.begin);
  const most = Math.max(...intervals.map(density));
  const x = (time) => ((time - begin) / span) * width;
  const bars = intervals.filter((each) => each.live.bytes > 0).map((each) => {
    const tall = Math.max(1, (density(each) / most) * (height - 2));
    const wide = Math.max(1, x(each.end) - x(each.begin) - 1);
    return svg('rect', {
      x: x(each.begin).toFixed(1), y: (height - 1 - tall).toFixed(1), width: wide.toFixed(1), height: tall.toFixed(1), rx: 1,
    });
  });
  const oldest = intervals[0];
  const says = `Still live by time of allocation, over ${duration(span)}; of the oldest interval `
    + `${bytes(oldest.live.bytes)} of ${bytes(oldest.alloc.bytes)}`;
  return svg('svg', {
    class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': says,
  }, svg('title', {}, says), svg('line', { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), ...bars);
}
