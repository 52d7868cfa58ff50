// A table that can be sorted by any column and shows a page of its rows at a time: every list of
// the page is one. Updates keep the rows, so focus, selection and open details stay. All content is
// set as text, never as markup.

import {el, number, set, show} from './text.js';

const size = 25; // rows of a page, of every table

// The table calls the function in after when it has drawn its rows. more is set while there are rows
// that have not been asked for: Next calls it on the last page, and it returns when they are there.
//
// Columns are {name, label, of, fill, className}: of returns the value to sort by, fill
// writes the cell (by default the value of of), label precedes it on a phone. A column without of
// cannot be sorted by.
export class Table {
  constructor(root, {caption, columns, id, sort, down, className = ''}) {
    this.root = root;
    this.columns = columns;
    this.id = id;
    this.page = 0;
    this.sort = sort;
    this.down = Boolean(down);
    this.rows = new Map();
    this.list = [];
    this.more = null;
    const heads = columns.map((column, i) => this.head(column, i));
    this.heads = heads;
    this.body = role(el('tbody'), 'rowgroup');
    this.table = role(el('table', className, el('caption', 'hidden', caption),
      role(el('thead', '', role(el('tr', '', ...heads), 'row')), 'rowgroup'), this.body), 'table');
    this.empty = el('p', 'empty');
    this.where = el('span', 'hint');
    this.back = button('Previous', () => this.turn(-1));
    this.forth = button('Next', () => this.turn(1));
    this.pager = el('div', 'pager', this.back, this.where, this.forth);
    this.pager.setAttribute('role', 'group');
    this.pager.setAttribute('aria-label', 'Pages of ' + caption);
    root.replaceChildren(this.table, this.empty, this.pager);
    this.mark();
    this.update([]);
  }

  head(column, i) {
    const e = role(el('th', column.className || ''), 'columnheader');
    e.scope = 'col';
    if (!column.of) {
      e.append(el('span', column.hidden ? 'hidden' : '', column.name));
      return e;
    }
    e.append(button(column.name, () => {
      this.down = this.sort === i ? !this.down : Boolean(column.down);
      this.sort = i;
      this.page = 0;
      this.mark();
      this.draw();
    }));
    return e;
  }

  mark() {
    this.heads.forEach((e, i) => {
      if (!this.columns[i].of) return;
      if (i === this.sort) e.setAttribute('aria-sort', this.down ? 'descending' : 'ascending');
      else e.removeAttribute('aria-sort');
    });
  }

  async turn(by) {
    const most = this.pages() - 1;
    if (by > 0 && this.page >= most) {
      if (!this.more) return;
      this.forth.disabled = true;
      const whole = this.list.length % size === 0;
      await this.more();
      if (!whole) by = 0; // the new rows begin on this page
    }
    this.page += by;
    this.draw();
    if (by < 0 ? this.back.disabled : this.forth.disabled) (by < 0 ? this.forth : this.back).focus();
  }

  // update shows list; without rows it shows the text none.
  update(list, none) {
    this.list = list;
    if (none !== undefined) set(this.empty, none);
    this.draw();
  }

  pages() { return Math.max(Math.ceil(this.list.length / size), 1); }

  // visible lists the rows on this page with their cells.
  visible() { return this.shown.map(row => [row, this.rows.get(this.id(row)).cells]); }

  draw() {
    const {of} = this.columns[this.sort], sign = this.down ? -1 : 1;
    const sorted = [...this.list].sort((a, b) => sign * compare(of(a), of(b)) || compare(this.id(a), this.id(b)));
    const pages = this.pages();
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const from = this.page * size;
    this.shown = sorted.slice(from, from + size);
    show(this.table, sorted.length > 0);
    show(this.empty, !sorted.length);
    show(this.pager, pages > 1 || this.more !== null);
    const all = number(sorted.length) + (this.more ? ' so far' : '');
    set(this.where, sorted.length ? `${number(from + 1)} to ${number(from + this.shown.length)} of ${all}` : 'none so far');
    this.back.disabled = this.page === 0;
    this.forth.disabled = this.page === pages - 1 && !this.more;
    this.place();
    if (this.after) this.after();
  }

  // place puts the rows in their order, and moves only the rows that are out of place.
  place() {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const rows = new Map();
    for (const row of this.shown) {
      const id = this.id(row), kept = this.rows.get(id) || this.row();
      this.columns.forEach((column, i) => this.fill(column, kept.cells[i], row));
      rows.set(id, kept);
    }
    for (const [id, kept] of this.rows) if (rows.get(id) !== kept) kept.tr.remove();
    let at = this.body.firstChild;
    for (const {tr} of rows.values()) {
      if (tr === at) at = at.nextSibling;
      else this.body.insertBefore(tr, at);
    }
    this.rows = rows;
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true});
  }

  row() {
    const cells = this.columns.map(column => {
      const e = role(el('td', column.className || ''), 'cell');
      if (column.label) e.dataset.label = column.label;
      return e;
    });
    return {cells, tr: role(el('tr', '', ...cells), 'row')};
  }

  fill(column, cell, row) {
    if (column.fill) column.fill(cell, row);
    else set(cell, String(column.of(row)));
  }
}

// fold is a line that opens a list. Open stays open while its lines change.
export function fold(cell, line, items) {
  if (!cell.fold) {
    cell.fold = {line: el('span'), list: el('ul'), plain: el('span')};
    cell.fold.details = el('details', '', el('summary', '', cell.fold.line), cell.fold.list);
    cell.append(cell.fold.plain, cell.fold.details);
  }
  const f = cell.fold;
  set(items.length ? f.line : f.plain, line);
  show(f.plain, !items.length);
  show(f.details, items.length > 0);
  items.forEach((text, i) => {
    if (!f.list.children[i]) f.list.append(el('li'));
    set(f.list.children[i], text);
  });
  while (f.list.children.length > items.length) f.list.lastChild.remove();
}

export function button(text, pressed, className) {
  const e = el('button', className || '', text);
  e.type = 'button';
  e.addEventListener('click', pressed);
  return e;
}

// role sets a role that the tag already implies: a phone shows tables as blocks, which removes it.
function role(e, name) {
  e.setAttribute('role', name);
  return e;
}

function compare(a, b) { return a < b ? -1 : a > b ? 1 : 0; }
