//! The bounds of one page of log rows.

use crate::port::LogRow;

/// A page under construction. It admits a limited number of rows and, after the first row, a limited number of bytes of
/// events.
pub(crate) struct Page {
    rows: Vec<LogRow>,
    max_rows: usize,
    bytes_left: usize,
}

impl Page {
    pub(crate) fn new(max_rows: usize, max_bytes: usize) -> Self {
        Self { rows: Vec::new(), max_rows, bytes_left: max_bytes }
    }

    /// Returns whether a row with this many bytes of events still fits.
    pub(crate) fn admits(&self, bytes: usize) -> bool {
        self.rows.len() < self.max_rows && (self.rows.is_empty() || bytes <= self.bytes_left)
    }

    /// Adds a row that is stored with this many bytes of events, whole or not.
    pub(crate) fn push(&mut self, row: LogRow, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.rows.push(row);
    }

    pub(crate) fn into_rows(self) -> Vec<LogRow> {
        self.rows
    }
}
