// SPDX-License-Identifier: GPL-3.0-or-later
// Elements, and numbers as people read them. Data becomes text nodes and attributes only, never markup.
'use strict';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

/** Long names may break behind what separates their parts. */
function breakable(text) {
  return text.split(/(?<=::|\/|_|,)/).flatMap((part, i) => (i === 0 ? [part] : [el('wbr'), part]));
}

function byId(id) {
  return document.getElementById(id);
}

function count(value) {
  return Math.round(value).toLocaleString('en');
}

function numberOf(value, what) {
  return `${count(value)} ${what}${value === 1 ? '' : 's'}`;
}

function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let unit = 0;
  while (Math.abs(value) >= 1024 - (unit === 0 ? 0.5 : 0.05) && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 ? 0 : 1)} ${units[unit]}`;
}

/** With three digits that matter. */
function digits(value) {
  return Number(value.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 3 });
}

function duration(seconds) {
  if (seconds < 100) {
    return `${digits(seconds)} s`;
  }
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  let rest = Math.round(seconds);
  const text = [];
  for (const [length, unit] of parts) {
    if (rest >= length && text.length < 2) {
      text.push(`${Math.floor(rest / length)} ${unit}`);
      rest %= length;
    }
  }
  return text.join(' ');
}

function percent(share) {
  const value = share * 100;
  if (value === 0 || value === 100) {
    return `${value} %`;
  }
  if (value < 0.1) {
    return '< 0.1 %';
  }
  // 99.97 % is not 100 %.
  return `${value < 10 || value > 99 ? (Math.floor(value * 10) / 10).toFixed(1) : Math.round(value)} %`;
}
