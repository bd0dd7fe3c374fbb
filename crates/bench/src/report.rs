//! Figures beside their aims, as tables or as JSON.

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::Options;
use crate::disk::Disk;

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

/// How a figure is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Whole numbers.
    Count,
    /// Two decimals.
    Exact,
    Milliseconds,
    Microseconds,
    /// Two decimals.
    ExactMicroseconds,
    Mebibytes,
    /// A share of something else.
    Ratio,
    Percent,
}

#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    Figure { value: f64, unit: Unit, aim: Option<Aim> },
}

#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Default)]
pub(crate) struct Section {
    title: String,
    tables: Vec<Table>,
    notes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Report {
    machine: Vec<(&'static str, String)>,
    sections: Vec<Section>,
}

impl Aim {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(aim) => value >= aim,
            Self::AtMost(aim) => value <= aim,
        }
    }
}

impl Cell {
    pub(crate) fn new(value: f64, unit: Unit) -> Self {
        Self::Figure { value, unit, aim: None }
    }

    pub(crate) fn at_least(self, aim: f64) -> Self {
        self.aiming(Some(Aim::AtLeast(aim)))
    }

    pub(crate) fn at_most(self, aim: f64) -> Self {
        self.aiming(Some(Aim::AtMost(aim)))
    }

    pub(crate) fn aiming(self, aim: Option<Aim>) -> Self {
        match self {
            Self::Figure { value, unit, .. } => Self::Figure { value, unit, aim },
            text @ Self::Text(_) => text,
        }
    }

    fn written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Figure { value, unit, aim: None } => unit.written(*value),
            Self::Figure { value, unit, aim: Some(aim) } => {
                let (sign, bound) = match aim {
                    Aim::AtLeast(bound) => ('≥', bound),
                    Aim::AtMost(bound) => ('≤', bound),
                };
                let verdict = if aim.is_met(*value) { "met" } else { "missed" };
                format!("{} ({sign} {} {verdict})", unit.written(*value), unit.written(*bound))
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Unit {
    fn written(self, value: f64) -> String {
        match self {
            Self::Count => grouped(value),
            Self::Exact => format!("{value:.2}"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::Microseconds => format!("{value:.0} µs"),
            Self::ExactMicroseconds => format!("{value:.2} µs"),
            Self::Mebibytes => format!("{value:.1} MiB"),
            Self::Ratio => format!("{value:.2}×"),
            Self::Percent => format!("{value:.0} %"),
        }
    }
}

/// A whole number with a mark at each thousand.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut written = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<&'static str>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    fn print(&self) {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::written).collect()).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain(self.columns.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
        };
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.enumerate().map(|(column, cell)| {
                let gap = width(column).saturating_sub(cell.chars().count());
                format!("{}{cell}", " ".repeat(gap))
            });
            println!("  {}", padded.collect::<Vec<_>>().join("  "));
        };
        line(&mut self.columns.iter().copied());
        for row in &rows {
            line(&mut row.iter().map(String::as_str));
        }
    }
}

impl Section {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    pub(crate) fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn print(&self) {
        println!("\n{}", self.title);
        for table in &self.tables {
            table.print();
        }
        for note in &self.notes {
            println!("  {note}");
        }
    }
}

impl Report {
    /// `answers`: who answers the daemon's tasks.
    pub(crate) fn new(options: &Options, disk: &Disk, answers: (&'static str, String)) -> Self {
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let machine = vec![
            ("folder", disk.path.display().to_string()),
            ("file system", disk.kind.clone()),
            ("processors", processors.to_string()),
            (
                "measured",
                format!(
                    "{} s after {} s of warm-up",
                    options.window().as_secs(),
                    options.warm_up().as_secs()
                ),
            ),
            ("durability", "synchronous=FULL, write-ahead log, one database".to_owned()),
            answers,
        ];
        Self::of_machine(machine, !options.json)
    }

    /// The report of a benchmark that measures no daemon.
    pub(crate) fn of_machine(machine: Vec<(&'static str, String)>, print: bool) -> Self {
        if print {
            for (name, value) in &machine {
                println!("{name:>12}  {value}");
            }
        }
        Self { machine, sections: Vec::new() }
    }

    pub(crate) fn add(&mut self, section: Section, print: bool) {
        if print {
            section.print();
        }
        self.sections.push(section);
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Figure { value, aim: None, .. } => serializer.serialize_f64(*value),
            Self::Figure { value, aim: Some(aim), .. } => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("value", value)?;
                match aim {
                    Aim::AtLeast(bound) => map.serialize_entry("at_least", bound)?,
                    Aim::AtMost(bound) => map.serialize_entry("at_most", bound)?,
                }
                map.serialize_entry("met", &aim.is_met(*value))?;
                map.end()
            }
        }
    }
}

/// One row, by the names of the columns.
struct Named<'a>(&'a [&'static str], &'a [Cell]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1))
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| Named(&self.columns, row)))
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut section = serializer.serialize_struct("Section", 3)?;
        section.serialize_field("title", &self.title)?;
        section.serialize_field("tables", &self.tables)?;
        section.serialize_field("notes", &self.notes)?;
        section.end()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_map(None)?;
        for (name, value) in &self.machine {
            report.serialize_entry(name, value)?;
        }
        report.serialize_entry("sections", &self.sections)?;
        report.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: &Cell, expected: &str) {
        assert_eq!(cell.written(), expected);
    }

    #[test]
    fn figures_stand_beside_their_aims() {
        check(&Cell::new(1_234_567.4, Unit::Count), "1,234,567");
        check(&Cell::new(999.0, Unit::Count), "999");
        check(&Cell::new(7_312.0, Unit::Count).at_least(7_000.0), "7,312 (≥ 7,000 met)");
        check(&Cell::new(6_999.0, Unit::Count).at_least(7_000.0), "6,999 (≥ 7,000 missed)");
        check(&Cell::new(20.004, Unit::Milliseconds).at_most(20.0), "20.00 ms (≤ 20.00 ms missed)");
        check(&Cell::from("-").at_most(1.0), "-");
    }

    #[test]
    fn json_names_the_columns() {
        let mut table = Table::new(["callers", "runs/s"]);
        table.row([Cell::new(64.0, Unit::Count), Cell::new(8_000.0, Unit::Count).at_least(7_000.0)]);
        let written = serde_json::to_value(&table).unwrap_or_default();
        let expected = serde_json::json!([
            { "callers": 64.0, "runs/s": { "value": 8_000.0, "at_least": 7_000.0, "met": true } }
        ]);
        assert_eq!(written, expected);
    }
}
