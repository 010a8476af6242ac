// SPDX-License-Identifier: GPL-3.0-or-later
// Puts the page together.

function endText(reason) {
  const texts = {
    '': 'and still being watched', 'time': 'until the time was up', 'target-exit': 'until the process ended',
    'limit': 'until a limit was reached', 'error': 'until the watching failed',
  };
  return texts[reason] ?? 'until the user ended it';
}

function showAbout(model) {
  const { target, session } = model;
  const program = target.exe.slice(target.exe.lastIndexOf('/') + 1) || 'a process';
  document.title = `${program} ${target.pid}: memleax report`;
  const how = session.look ? 'looked at once' : `watched for ${duration(session.duration)}, ${endText(session.end)}`;
  byId('session').replaceChildren(el('b', { title: target.exe }, program), ` ${target.pid} · ${numberOf(target.threads, 'thread')} · ${how}`);
  const engine = session.look ? '' : `engine ${session.engine}, `;
  byId('made').textContent = `Made by memleax ${model.version} (${engine}${target.arch}). This page is whole: it fetches nothing.`;
  byId('facts').hidden = session.look;
  if (!session.look) {
    showFacts(model);
  }
}

function showFacts(model) {
  const { session, live, old } = model;
  const facts = [
    fact('Live', bytes(live[1]), numberOf(live[0], 'block')),
    fact(`of it expired (older than ${duration(session.expire)})`, bytes(old[1]), numberOf(old[0], 'block')),
    fact('of it younger', bytes(live[1] - old[1]), numberOf(live[0] - old[0], 'block')),
    fact('Allocations', count(session.allocs), session.reallocs ? `and ${numberOf(session.reallocs, 'reallocation')}` : ''),
    fact('Frees', count(session.frees), session.unknownFrees ? `${count(session.unknownFrees)} of older blocks` : ''),
  ];
  if (session.failed > 0) {
    facts.push(fact('Failed allocations', count(session.failed)));
  }
  if (session.unfollowed > 0) {
    facts.push(fact('Allocations not followed', count(session.unfollowed)));
  }
  if (session.doubleFrees > 0) {
    facts.push(fact('Double frees', count(session.doubleFrees)));
  }
  byId('facts').replaceChildren(...facts);
}

const model = readModel(byId('data').textContent);
showAbout(model);
if (model.stacks.length > 0) {
  showTable(model);
}
if (model.leaks !== undefined) {
  showLeaks(model);
}
if (model.unfollowed !== undefined) {
  showUnfollowed(model);
}
if (model.faults !== undefined) {
  showFaults(model);
}
if (model.probes !== undefined) {
  showProbes(model);
}
if (model.live[0] > 0 && model.stacks.length > 0) {
  showFlame(model);
}
showMemory(model);
document.documentElement.dataset.ready = 'yes';
