// Line charts of the last five minutes, drawn as SVG so that the style sheet colours them.

import {clock, el, set} from './text.js';

const seconds = 300, height = 150, left = 52, right = 6, top = 8, bottom = 20;
const space = 'http://www.w3.org/2000/svg';

function svg(tag, attributes, className) {
  const e = document.createElementNS(space, tag);
  for (const name in attributes) e.setAttribute(name, attributes[name]);
  if (className) e.setAttribute('class', className);
  return e;
}

// Chart draws one or two lines. lines: [{name, of: sample => number or null}], format: value => text, least: the smallest top of the scale.
export class Chart {
  constructor(figure, title, lines, format, least, none) {
    this.figure = figure;
    this.title = title;
    this.lines = lines;
    this.format = format;
    this.least = least;
    this.none = none;
    this.at = null; // the time under the pointer
    this.samples = [];
    const caption = el('figcaption', '', el('span', 'title', title));
    this.keys = lines.map((line, i) => {
      const value = el('b', '', '–');
      caption.append(el('span', i ? 'key second' : 'key', line.name, value));
      return value;
    });
    this.svg = svg('svg', {role: 'img'});
    figure.replaceChildren(caption, this.svg);
    this.svg.addEventListener('pointermove', e => this.point(e));
    this.svg.addEventListener('pointerleave', () => { this.at = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  point(e) {
    const box = this.svg.getBoundingClientRect();
    const inside = Math.min(Math.max((e.clientX - box.left - left) / (box.width - left - right), 0), 1);
    this.at = this.end() - (1 - inside) * seconds * 1000;
    this.draw();
  }

  end() { return this.samples.length ? this.samples[this.samples.length - 1].at : Date.now(); }

  update(samples) {
    this.samples = samples;
    this.draw();
  }

  // under is the sample next to the pointer, or the last.
  under() {
    if (this.at === null || !this.samples.length) return this.samples[this.samples.length - 1];
    return this.samples.reduce((a, b) => Math.abs(b.at - this.at) < Math.abs(a.at - this.at) ? b : a);
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width || document.hidden) return;
    const end = this.end(), from = end - seconds * 1000;
    this.shown = this.samples.filter(s => s.at >= from); // of a proxy that was late, samples go further back
    const values = this.lines.flatMap(line => this.shown.map(line.of)).filter(v => v !== null);
    const ceiling = nice(Math.max(this.least, ...values));
    const x = at => left + (at - from) / (seconds * 1000) * (width - left - right);
    const y = v => top + (1 - v / ceiling) * (height - top - bottom);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = Math.round(y(ceiling * share));
      parts.push(svg('line', {x1: left, x2: width - right, y1: at, y2: at}, 'grid'));
      parts.push(label(left - 8, at + 4, this.format(ceiling * share), 'end'));
    }
    for (const minute of width < 460 ? [4, 2, 0] : [5, 4, 3, 2, 1, 0]) {
      const at = x(end - minute * 60000);
      parts.push(label(at, height - 4, minute ? `−${minute} min` : 'now', minute === 5 ? 'start' : minute ? 'middle' : 'end'));
    }
    this.lines.forEach((line, i) => parts.push(...this.path(line, i, x, y)));
    if (!values.length) parts.push(label((left + width) / 2, (height - bottom) / 2 + 8, this.none, 'middle', 'none'));
    const sample = this.under();
    if (this.at !== null && sample) parts.push(svg('line', {x1: x(sample.at), x2: x(sample.at), y1: top, y2: height - bottom}, 'cross'));
    this.svg.replaceChildren(...parts);
    this.tell(sample);
  }

  // path draws a line with a gap for each missing value; a lone point becomes a dot.
  path(line, i, x, y) {
    let d = '', area = '', start = null, last = null;
    const close = () => { if (start !== null) area += `V${y(0)}H${x(start)}Z`; };
    for (const s of this.shown) {
      const v = line.of(s);
      if (v === null || last !== null && s.at - last > 5000) { close(); start = null; }
      last = s.at;
      if (v === null) continue;
      const point = `${x(s.at).toFixed(1)} ${y(v).toFixed(1)}`;
      d += start === null ? `M${point}h.01` : `L${point}`;
      area += start === null ? `M${point}` : `L${point}`;
      if (start === null) start = s.at;
    }
    close();
    const parts = [svg('path', {d}, i ? 'line second' : 'line')];
    if (!i) parts.unshift(svg('path', {d: area}, 'area'));
    return parts;
  }

  tell(sample) {
    const texts = this.lines.map(line => sample && line.of(sample) !== null ? this.format(line.of(sample)) : '–');
    texts.forEach((text, i) => set(this.keys[i], text));
    const when = this.at !== null && sample ? ' at ' + clock(sample.at) : ' now';
    this.svg.setAttribute('aria-label', `${this.title}${when}: ` + this.lines.map((line, i) => `${line.name} ${texts[i]}`).join(', '));
    this.figure.querySelector('.title').textContent = this.at !== null && sample ? `${this.title}, ${clock(sample.at)}` : this.title;
  }
}

function label(x, y, text, anchor, className) {
  const e = svg('text', {x, y, 'text-anchor': anchor}, className);
  e.textContent = text;
  return e;
}

// nice is the next 1, 2 or 5 times a power of ten.
function nice(v) {
  const power = 10 ** Math.floor(Math.log10(v));
  for (const step of [1, 2, 5, 10]) if (v <= step * power * 1.0001) return step * power;
  return v;
}
