// SPDX-License-Identifier: GPL-3.0-or-later
// What html_data.cpp wrote, by name. Numbers of nodes: 0 is the root, and a parent's is below its child's.

const verdictNames = ['too early', 'settled', 'plateau', 'growing', 'leaking', 'lost'];
const verdictWords = {
  'lost': 'Nothing points to some of its blocks any more.',
  'leaking': 'What it allocates stays, also from long ago.',
  'growing': 'It holds more and more, but not everything stays.',
  'plateau': 'It has filled up and stays as it is: most likely a cache.',
  'settled': 'What it allocated is given back in time.',
  'too early': 'It has not been watched for long enough.',
  'expired': 'Blocks of it are older than the threshold and still there.',
  'young': 'Its blocks are younger than the threshold.',
};

function less(a, b) {
  return { blocks: a.blocks - b.blocks, bytes: a.bytes - b.bytes };
}

function readFrame(names, row) {
  const [short, full, module, file, line, pc, offset, inlined, moduleOffset] = row;
  return {
    short: names[short], full: names[full], module: names[module], file: names[file],
    line, pc, offset, moduleOffset, inlined: inlined === 1, label: 0,
  };
}

function readIntervals(times, counts) {
  return Array.from({ length: counts.length / 4 }, (_, i) => ({
    begin: times[2 * i], end: times[2 * i + 1],
    alloc: { blocks: counts[4 * i], bytes: counts[4 * i + 1] },
    live: { blocks: counts[4 * i + 2], bytes: counts[4 * i + 3] },
  }));
}

function readStack(data, row, order) {
  const [id, node, own, end, judgement, numbers, lifetime, oldest, division, counts] = row;
  const pair = (i) => ({ blocks: numbers[2 * i], bytes: numbers[2 * i + 1] });
  const [alloc, free, live, expired, freeExpired] = [0, 1, 2, 3, 4].map(pair);
  // Set aside at a pause: neither live nor freed, as in the text report.
  const [aside, asideExpired] = [5, 6].map(pair);
  const old = less(less(expired, freeExpired), asideExpired);
  const known = less(alloc, aside);
  // Without verdicts, age is what there is to go by.
  const [rank, score, why, blockRate, byteRate] = judgement ?? [old.blocks > 0 ? 1 : 0, old.bytes, '', null, null];
  return {
    id, node, own, end: data.names[end], order, judged: judgement !== null, rank, score, why, blockRate, byteRate,
    verdict: judgement ? verdictNames[rank] : (rank === 1 ? 'expired' : 'young'),
    alloc, free, live, expired, freeExpired, aside, old, young: less(live, old), lifetime, oldest,
    times: data.divisions[division], counts,
    kept: known.blocks === 0 ? 0 : live.blocks / known.blocks,
    suspect: judgement ? rank >= 3 : old.blocks > 0,
    frame: null,
  };
}

/** The tree of all backtraces, with what is live in and below each node. */
function readTree(data, frames) {
  const size = data.tree.length / 2 + 1;
  const tree = {
    parent: new Int32Array(size), frame: new Int32Array(size).fill(-1),
    child: new Int32Array(size), sibling: new Int32Array(size),
  };
  for (let node = 1; node < size; node += 1) {
    tree.parent[node] = node - data.tree[2 * node - 2];
    tree.frame[node] = data.tree[2 * node - 1];
    const parent = tree.parent[node];
    tree.sibling[node] = tree.child[parent];
    tree.child[parent] = node;
  }
  // Frames of one function are one in the flame graph.
  const labels = new Map();
  tree.labels = [];
  for (const frame of frames) {
    const label = frame.short || (frame.module ? `[${frame.module}]` : '[unknown]');
    if (!labels.has(label)) {
      labels.set(label, tree.labels.length);
      tree.labels.push(label);
    }
    frame.label = labels.get(label);
  }
  return tree;
}

/** Sums of `measure` ("bytes" or "blocks") for each node, and the part of it that is suspect. */
function sumUp(model, measure) {
  const size = model.tree.parent.length;
  const all = new Float64Array(size);
  const suspect = new Float64Array(size);
  for (const stack of model.stacks) {
    all[stack.node] += stack.live[measure];
    if (stack.suspect) {
      suspect[stack.node] += stack.live[measure];
    }
  }
  for (let node = size - 1; node > 0; node -= 1) {
    all[model.tree.parent[node]] += all[node];
    suspect[model.tree.parent[node]] += suspect[node];
  }
  return { all, suspect };
}

/** Innermost first. */
function backtrace(model, stack) {
  const frames = [];
  for (let node = stack.node; node > 0; node = model.tree.parent[node]) {
    frames.push(model.frames[model.tree.frame[node]]);
  }
  return frames;
}

function nodeAt(model, stack, depth) {
  let node = stack.node;
  for (let i = 0; i < depth && node > 0; i += 1) {
    node = model.tree.parent[node];
  }
  return node;
}

function readModel(text) {
  const data = JSON.parse(text);
  const frames = data.frames.map((row) => readFrame(data.names, row));
  const model = { ...data, frames, tree: readTree(data, frames) };
  model.stacks = data.stacks.map((row, order) => readStack(data, row, order));
  for (const stack of model.stacks) {
    stack.frame = model.frames[model.tree.frame[nodeAt(model, stack, stack.own)]] ?? null;
  }
  model.judged = model.stacks.some((stack) => stack.judged);
  return model;
}

function placeText(frame) {
  if (frame === null) {
    return 'no backtrace';
  }
  return frame.short || (frame.module ? `${frame.module}+0x${frame.moduleOffset ?? frame.pc}` : `0x${frame.pc}`);
}

function lineText(frame) {
  return frame.file === '' ? '' : frame.file + (frame.line ? `:${frame.line}` : '');
}
