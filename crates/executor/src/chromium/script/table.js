// Rows and cells of a table, as texts.

const CELL_LIMIT = 100_000;

const tableRows = getter(HTMLTableElement.prototype, "rows");
const rowCells = getter(HTMLTableRowElement.prototype, "cells");
const columnSpan = getter(HTMLTableCellElement.prototype, "colSpan");
const rowSpan = getter(HTMLTableCellElement.prototype, "rowSpan");

const rowsWithRoles = (table) => {
  const own = (selector, roles) => (element, owner) =>
    [...within(element, selector)].filter(
      (found) => roles.has(roleOf(found)) && tableOf(found) === owner,
    );
  const rows = own("tr,[role=row]", new Set(["row"]))(table, table);
  const cells = own("td,th,[role]", new Set(["cell", "gridcell", "columnheader", "rowheader"]));
  return rows.map((row) => cells(row, table).map((cell) => ({ cell, columns: 1, rows: 1 })));
};

const rowsOf = (element) => {
  if (!isHtml(element, "table")) return rowsWithRoles(element);
  return [...tableRows(element)].map((row) =>
    [...rowCells(row)].map((cell) => ({ cell, columns: columnSpan(cell), rows: rowSpan(cell), row })),
  );
};

/**
 * A list of rows, each a list of texts; what is not rendered is left out. A cell that spans several columns or rows stands
 * in each of them, so that a column is the same index in every row.
 */
const table = (handle) =>
  withElement(handle, (element) => {
    const role = roleOf(element);
    if (!isHtml(element, "table") && role !== "table" && role !== "grid" && role !== "treegrid") {
      return { reason: "not a table" };
    }
    const answer = [];
    let spans = [];
    let count = 0;
    for (const cells of rowsOf(element)) {
      const shown = cells.filter(({ cell }) => isRendered(cell));
      if (shown.length === 0 && cells.length > 0) continue;
      const row = [];
      const next = [];
      const put = (text, rows) => {
        count += 1;
        if (count > CELL_LIMIT) throw new Error(`a table of more than ${CELL_LIMIT} cells`);
        if (rows > 1) next[row.length] = { text, rows: rows - 1 };
        row.push(text);
      };
      const takeSpans = () => {
        for (let span = spans[row.length]; span !== undefined; span = spans[row.length]) put(span.text, span.rows);
      };
      for (const { cell, columns, rows } of shown) {
        takeSpans();
        const text = textOf(cell);
        // A span of 0 rows reaches to the end of its section; no table is longer than this.
        for (let column = 0; column < columns; column += 1) put(text, rows === 0 ? CELL_LIMIT : rows);
      }
      takeSpans();
      spans = next;
      answer.push(row);
    }
    return answer;
  });
