// SPDX-License-Identifier: GPL-3.0-or-later
// The flame graph, by d3-flame-graph. A report may have millions of frames, and a screen has room for
// some hundred next to each other: what is narrower is left out until a zoom makes it wide enough.

const heatSteps = 5;
/** A frame that is a smaller part of what is zoomed to is left out. */
const narrowest = 1 / 400;

function buildFlame(model, measure) {
  const sums = sumUp(model, measure);
  const { tree, frames } = model;

  /** Children of all `members`, those of one function together. */
  function expand(flame, least) {
    const groups = new Map();
    for (const member of flame.members) {
      for (let node = tree.child[member]; node > 0; node = tree.sibling[node]) {
        const label = frames[tree.frame[node]].label;
        const group = groups.get(label) ?? { name: tree.labels[label], value: 0, suspect: 0, members: [], children: [], cut: false };
        groups.set(label, group);
        group.value += sums.all[node];
        group.suspect += sums.suspect[node];
        group.members.push(node);
      }
    }
    const live = [...groups.values()].filter((group) => group.value > 0);
    const wide = live.filter((group) => group.value >= least);
    flame.cut = wide.length < live.length;
    // What was there stays, for it may carry d3's marks of a zoom.
    const known = new Map(flame.children.map((child) => [child.name, child]));
    flame.children = wide.map((group) => known.get(group.name) ?? group).sort((a, b) => b.value - a.value);
    for (const child of flame.children) {
      expand(child, least);
    }
    flame.cut ||= flame.children.some((child) => child.cut);
  }

  const root = { name: 'all live memory', value: sums.all[0], suspect: sums.suspect[0], members: [0], children: [], cut: false };
  expand(root, root.value * narrowest);
  return { root, refine: (flame) => expand(flame, flame.value * narrowest) };
}

function heat(flame) {
  const share = flame.value === 0 ? 0 : flame.suspect / flame.value;
  return share === 0 ? 0 : Math.max(1, Math.min(heatSteps, Math.ceil(share * heatSteps)));
}

function heatLegend(judged) {
  const steps = Array.from({ length: heatSteps + 1 }, (_, i) => el('i', { style: `background:var(--heat-${i})` }));
  return judged ? ['Settled ', ...steps, ' leaking or growing'] : ['Young ', ...steps, ' expired'];
}

/** Frames can be reached and opened by keyboard, as by mouse. */
function makeAccessible(place) {
  const name = () => {
    for (const g of place.querySelectorAll('g.frame:not([tabindex])')) {
      g.setAttribute('tabindex', '0');
      g.setAttribute('role', 'button');
    }
  };
  new MutationObserver(name).observe(place, { childList: true, subtree: true });
  place.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      event.target.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    }
  });
}

/** Without the padding. */
function widthOf(place) {
  const style = getComputedStyle(place);
  return place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}

function showFlame(model) {
  const place = byId('graph');
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  let measure = 'bytes';
  let flame = null;
  let chart = null;

  /** What d3 would do within a quarter of a second. */
  const settle = () => {
    for (const g of place.querySelectorAll('g.frame')) {
      d3.select(g).select('rect').interrupt().attr('width', g.getAttribute('width'));
    }
  };
  const label = (d) => {
    const { name, value, suspect } = d.data;
    const amount = measure === 'bytes' ? bytes(value) : numberOf(value, 'block');
    const part = flame.root.value === 0 ? 0 : value / flame.root.value;
    const bad = suspect === 0 ? '' : `, ${percent(suspect / value)} of it suspect`;
    return `${name}: ${amount}, ${percent(part)} of all${bad}`;
  };
  const zoomed = (d) => {
    byId('unzoom').disabled = d.depth === 0;
    if (!d.data.cut) {
      if (calm) {
        settle();
      }
      return;
    }
    // There is room now for what was too narrow. d3 numbers the frames anew: no moving from old places.
    flame.refine(d.data);
    place.querySelectorAll('g').forEach((g) => g.remove());
    chart.transitionDuration(0).update(flame.root);
    settle();
    chart.transitionDuration(calm ? 0 : 350);
  };
  const draw = () => {
    place.replaceChildren();
    flame = buildFlame(model, measure);
    chart = flamegraph.default()
      .width(widthOf(place)).cellHeight(22).inverted(true).selfValue(false).sort(false)
      .transitionDuration(0).minFrameSize(1).resetHeightOnZoom(true)
      .setLabelHandler(label).setDetailsElement(byId('frame')).onClick(zoomed)
      .setColorMapper((d) => `var(--heat-${heat(d.data)})`);
    d3.select(place).datum(flame.root).call(chart);
    settle();
    chart.transitionDuration(calm ? 0 : 350);
    byId('unzoom').disabled = true;
  };

  byId('flame').hidden = false;
  byId('heat').replaceChildren(...heatLegend(model.judged));
  makeAccessible(place);
  draw();
  for (const button of document.querySelectorAll('[data-measure]')) {
    button.addEventListener('click', () => {
      measure = button.dataset.measure;
      for (const each of document.querySelectorAll('[data-measure]')) {
        each.setAttribute('aria-pressed', String(each === button));
      }
      draw();
    });
  }
  byId('unzoom').addEventListener('click', () => chart.resetZoom());
  let width = widthOf(place);
  new ResizeObserver(() => {
    if (widthOf(place) !== width && widthOf(place) > 0) {
      width = widthOf(place);
      chart.transitionDuration(0).width(width).update();
      settle();
      chart.transitionDuration(calm ? 0 : 350);
    }
  }).observe(place);
}
