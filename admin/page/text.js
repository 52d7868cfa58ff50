// Numbers and times in a readable form. All content goes into the page as text, never as markup.

const thin = '\u202f';

// el makes an element with a class and children; strings become text.
export function el(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

// set writes text only if it changed, so a selection stays.
export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, yes) {
  if (node.hidden === yes) node.hidden = !yes;
}

export function number(n) {
  if (n >= 1e9) return trim(n / 1e9) + 'G';
  if (n >= 1e6) return trim(n / 1e6) + 'M';
  if (n >= 1e4) return trim(n / 1e3) + 'k';
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : trim(n);
}

function trim(n) {
  return n >= 100 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, '');
}

// span is a duration in milliseconds.
export function span(ms) {
  if (ms < 1) return ms === 0 ? '0' : Math.max(ms, 0.01).toFixed(2) + thin + 'ms';
  if (ms < 10) return ms.toFixed(1) + thin + 'ms';
  if (ms < 1000) return ms.toFixed(0) + thin + 'ms';
  if (ms < 10000) return (ms / 1000).toFixed(1) + thin + 's';
  return long(ms);
}

// long is a duration in whole seconds and up.
export function long(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return s + thin + 's';
  if (s < 7200) return Math.floor(s / 60) + thin + 'min';
  if (s < 172800) return Math.floor(s / 3600) + thin + 'h ' + Math.floor(s % 3600 / 60) + thin + 'min';
  return Math.floor(s / 86400) + thin + 'days';
}

export function plural(n, one, many) {
  return number(n) + ' ' + (n === 1 ? one : many);
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false});
}

// encoded is a key as a part of an address, from its bytes in hex.
export function encoded(hex) {
  return hex.replace(/../g, pair => {
    const c = String.fromCharCode(parseInt(pair, 16));
    return /[A-Za-z0-9:._~-]/.test(c) ? c : '%' + pair;
  });
}
