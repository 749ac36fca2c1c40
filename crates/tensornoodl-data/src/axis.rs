//! What an axis of a tensor is made of: a column of a table, or something computed from columns.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use jiff::civil::{Date, DateTime};
use jiff::{Span, ToSpan};

use crate::error::Error;

/// An axis, as people write it: `sender`, `month(time)`, `bin(age,10)`, `grid(x,y,12x10)`.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(into = "String", try_from = "String")]
pub enum Axis {
    /// The labels of a column.
    Column(String),
    /// A part of the calendar or the clock.
    Time(Unit, String),
    /// Numbers, so wide at a time.
    Bin(String, f64),
    /// Points of a plane.
    Grid(Grid),
}

/// Parts of the calendar and the clock. Times are taken as they are written, whatever zone they name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A month of a year.
    Month,
    /// A week of a year. Weeks begin on Sunday, and a year begins a new one too, as in the paper's 27 weeks of a season.
    Week,
    /// A day.
    Day,
    /// An hour of the day.
    Hour,
    /// A day of the week, Monday first.
    Weekday,
    /// An hour of the week, from Monday's first.
    WeekHour,
}

const UNITS: [(Unit, &str); 6] = [
    (Unit::Month, "month"),
    (Unit::Week, "week"),
    (Unit::Day, "day"),
    (Unit::Hour, "hour"),
    (Unit::Weekday, "weekday"),
    (Unit::WeekHour, "weekhour"),
];

/// Cells of a plane, row by row from the lowest y; in a row from the lowest x.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Columns of the table.
    pub x: String,
    /// The other.
    pub y: String,
    /// Cells along x and along y.
    pub cells: (usize, usize),
    /// Lowest and highest x and y, where they are not those of the data. What lies outside is left out.
    pub bounds: Option<[(f64, f64); 2]>,
    /// Whether it is half a basketball court, in tenths of feet from the hoop: written `court(x,y,12x10)`.
    pub court: bool,
}

/// Half a court: baseline to midcourt is y.
const COURT: [(f64, f64); 2] = [(-250.0, 250.0), (-52.5, 417.5)];

impl Grid {
    /// Bounds of a grid that nothing lies in.
    const NOWHERE: [(f64, f64); 2] = [(0.0, 1.0); 2];

    /// The cell of a point within the bounds.
    pub(crate) fn cell(&self, [x, y]: [f64; 2]) -> usize {
        let [across, up] = self.bounds.unwrap_or(Grid::NOWHERE);
        let cell = |at: f64, (low, high): (f64, f64), cells: usize| {
            let share = if high > low { (at - low) / (high - low) } else { 0.0 };
            // The highest value belongs to the last cell.
            ((share * cells as f64) as usize).min(cells - 1)
        };
        cell(y, up, self.cells.1) * self.cells.0 + cell(x, across, self.cells.0)
    }

    /// Labels of all cells: where their centers are.
    pub(crate) fn labels(&self) -> Vec<String> {
        let ((across, up), bounds) = (self.cells, self.bounds.unwrap_or(Grid::NOWHERE));
        let center = |at: usize, (low, high): (f64, f64), cells: usize| {
            low + (high - low) * (at as f64 + 0.5) / cells as f64
        };
        // Digits enough to tell cells apart.
        let digits = |(low, high): (f64, f64), cells: usize| {
            (1.0 - ((high - low) / cells as f64).log10().floor()).clamp(1.0, 12.0) as usize
        };
        let (x_digits, y_digits) = (digits(bounds[0], across), digits(bounds[1], up));
        let label = |at: usize| {
            let (x, y) = (center(at % across, bounds[0], across), center(at / across, bounds[1], up));
            format!("{x:.x_digits$}:{y:.y_digits$}")
        };
        (0..across * up).map(label).collect()
    }
}

/// The most features that an axis may have: fibers are dense.
pub(crate) const MOST_FEATURES: usize = 1_000_000;

impl Axis {
    /// With the bounds of another grid that is the same but for them, if it has none of its own.
    pub fn with_bounds_of(self, other: &Axis) -> Axis {
        match (self, other) {
            (Axis::Grid(grid), Axis::Grid(other)) if grid.bounds.is_none() => {
                let like = Grid { bounds: other.bounds, ..grid.clone() };
                Axis::Grid(if like == *other { like } else { grid })
            }
            (axis, _) => axis,
        }
    }
}

impl FromStr for Axis {
    type Err = Error;

    fn from_str(text: &str) -> Result<Axis, Error> {
        let wrong = |rule: &str| Error::Axis { text: text.into(), rule: rule.into() };
        let text = text.trim();
        if let Some(name) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            return if name.is_empty() { Err(wrong("a column")) } else { Ok(Axis::Column(name.into())) };
        }
        let Some((function, rest)) = text.split_once('(') else {
            return if text.is_empty() { Err(wrong("a column")) } else { Ok(Axis::Column(text.into())) };
        };
        let inside = rest.strip_suffix(')').ok_or_else(|| wrong("closed by a parenthesis"))?;
        let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(wrong("complete between its commas"));
        }
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        match (function.trim(), &parts[..]) {
            ("bin", [column, width]) => {
                let width = number(width).filter(|width| *width > 0.0);
                let width = width.ok_or_else(|| wrong("bin(column,width) with a width above 0"))?;
                Ok(Axis::Bin((*column).into(), width))
            }
            ("grid" | "court", [x, y, cells, bounds @ ..]) => {
                let court = function.trim() == "court";
                let rule = "grid(x,y,12x10) or grid(x,y,12x10,lowest x:highest x,lowest y:highest y)";
                let count = |text: &str| text.parse().ok().filter(|count| (1..=1000).contains(count));
                let cells = cells.split_once('x').and_then(|(x, y)| Some((count(x)?, count(y)?)));
                let cells = cells.ok_or_else(|| wrong(rule))?;
                let range = |text: &str| {
                    let (low, high) = text.split_once(':')?;
                    Some((number(low)?, number(high)?)).filter(|(low, high)| low < high)
                };
                let bounds = match bounds {
                    [] => court.then_some(COURT),
                    [x, y] => {
                        Some([range(x).ok_or_else(|| wrong(rule))?, range(y).ok_or_else(|| wrong(rule))?])
                    }
                    _ => return Err(wrong(rule)),
                };
                Ok(Axis::Grid(Grid { x: (*x).into(), y: (*y).into(), cells, bounds, court }))
            }
            (name, [column]) if UNITS.iter().any(|unit| unit.1 == name) => {
                let unit = UNITS.iter().find(|unit| unit.1 == name).map_or(Unit::Day, |unit| unit.0);
                Ok(Axis::Time(unit, (*column).into()))
            }
            _ => Err(wrong(
                "a column, month(c), week(c), day(c), hour(c), weekday(c), weekhour(c), bin(c,width), grid(x,y,12x10) or \
                 court(x,y,12x10); a column whose name has parentheses goes in quotes",
            )),
        }
    }
}

impl From<Axis> for String {
    fn from(it: Axis) -> String {
        it.to_string()
    }
}

impl TryFrom<String> for Axis {
    type Error = Error;

    fn try_from(text: String) -> Result<Axis, Error> {
        text.parse()
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Quotes where the name alone would be read as something else.
            Axis::Column(name) if name.contains('(') || name.starts_with('"') || name.trim() != name => {
                write!(f, "\"{name}\"")
            }
            Axis::Column(name) => f.write_str(name),
            Axis::Time(unit, column) => {
                write!(
                    f,
                    "{}({column})",
                    UNITS.iter().find(|known| known.0 == *unit).map_or("", |known| known.1)
                )
            }
            Axis::Bin(column, width) => write!(f, "bin({column},{width})"),
            Axis::Grid(Grid { x, y, cells, bounds, court }) => {
                write!(f, "{}({x},{y},{}x{}", if *court { "court" } else { "grid" }, cells.0, cells.1)?;
                let usual = *court && *bounds == Some(COURT);
                for (low, high) in bounds.iter().filter(|_| !usual).flatten() {
                    write!(f, ",{low}:{high}")?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Axis {
    /// The columns it reads.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Axis::Column(column) | Axis::Time(_, column) | Axis::Bin(column, _) => vec![column],
            Axis::Grid(grid) => vec![&grid.x, &grid.y],
        }
    }
}

impl Unit {
    /// The number of the part that a time lies in: that of its first day since 1970 for parts of the calendar.
    pub(crate) fn number(self, time: DateTime) -> i64 {
        match self {
            Unit::Hour => time.hour().into(),
            Unit::Weekday => time.weekday().to_monday_zero_offset().into(),
            Unit::WeekHour => 24 * i64::from(time.weekday().to_monday_zero_offset()) + i64::from(time.hour()),
            Unit::Month | Unit::Week | Unit::Day => days(self.first_day(time.date())),
        }
    }

    /// The first day of the part of the calendar that a day lies in.
    fn first_day(self, date: Date) -> Date {
        match self {
            Unit::Month => date.first_of_month(),
            Unit::Week => {
                let since_sunday = i64::from(date.weekday().to_sunday_zero_offset());
                let sunday = date.saturating_sub(since_sunday.days());
                if sunday.year() < date.year() { date.first_of_year() } else { sunday }
            }
            _ => date,
        }
    }

    /// The number of the part that comes next.
    fn next(self, number: i64) -> i64 {
        let Some(date) = date(number) else { return number + 1 };
        match self {
            Unit::Month => days(date.last_of_month()) + 1,
            Unit::Week => {
                let sunday = days(date) + i64::from(7 - date.weekday().to_sunday_zero_offset());
                sunday.min(days(date.last_of_year()) + 1)
            }
            _ => number + 1,
        }
    }

    /// As people read it.
    pub(crate) fn label(self, number: i64) -> String {
        match (self, date(number)) {
            (Unit::Hour, _) => format!("{number:02}:00"),
            (Unit::Weekday, _) => weekday(number).into(),
            (Unit::WeekHour, _) => format!("{} {:02}:00", weekday(number / 24), number % 24),
            (Unit::Month, Some(date)) => format!("{:04}-{:02}", date.year(), date.month()),
            (Unit::Week, Some(date)) => date.strftime("%Y-W%U").to_string(),
            (_, Some(date)) => date.to_string(),
            (_, None) => number.to_string(),
        }
    }

    /// All parts from the first to the last; hours and weekdays are always all there.
    pub(crate) fn between(self, first: i64, last: i64) -> Vec<i64> {
        match self {
            Unit::Hour => (0..24).collect(),
            Unit::Weekday => (0..7).collect(),
            Unit::WeekHour => (0..7 * 24).collect(),
            _ => std::iter::successors(Some(first), |number| Some(self.next(*number)))
                .take_while(|number| *number <= last)
                .take(MOST_FEATURES + 1)
                .collect(),
        }
    }
}

fn weekday(number: i64) -> &'static str {
    const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    NAMES[number.rem_euclid(7) as usize]
}

const EPOCH: Date = jiff::civil::date(1970, 1, 1);

fn days(date: Date) -> i64 {
    // A difference of dates in days is always whole.
    date.since(EPOCH).map_or(0, |span| span.get_days().into())
}

/// The date so many days after 1 January 1970.
pub(crate) fn date(days: i64) -> Option<Date> {
    EPOCH.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// A time as tables have it: a date, or a date and a time of day. A zone is not looked at.
pub(crate) fn time(text: &str) -> Option<DateTime> {
    let text = text.trim();
    text.strip_suffix(['Z', 'z']).unwrap_or(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_read_and_written() {
        for text in [
            "sender",
            "\"sum (all)\"",
            "\" blank \"",
            "\"\"said\"\"",
            "month(time)",
            "week(date)",
            "day(d)",
            "hour(t)",
            "weekday(t)",
            "weekhour(t)",
            "court(x,y,12x10)",
            "bin(age,2.5)",
            "grid(x,y,12x10)",
            "grid(x,y,12x10,-250:250,-52.5:417.5)",
        ] {
            assert_eq!(text.parse::<Axis>().unwrap().to_string(), text);
        }
        assert_eq!(" month( time )".parse::<Axis>().unwrap().columns(), ["time"]);
        assert_eq!("grid(a, b, 2x3)".parse::<Axis>().unwrap().columns(), ["a", "b"]);
        for text in [
            "",
            "\"\"",
            "month(time",
            "year(time)",
            "month()",
            "bin(age)",
            "bin(age,0)",
            "bin(age,nan)",
            "grid(x,y)",
            "grid(x,y,0x3)",
            "grid(x,y,2x3,0:1)",
            "grid(x,y,2x3,1:0,0:1)",
            "month(a,b)",
        ] {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
    }

    #[test]
    fn parts_of_the_calendar() {
        let label = |unit: Unit, text: &str| unit.label(unit.number(time(text).unwrap()));
        assert_eq!(label(Unit::Month, "1998-11-13T09:07:00"), "1998-11");
        assert_eq!(label(Unit::Day, "1998-11-13 09:07"), "1998-11-13");
        assert_eq!(label(Unit::Hour, "1998-11-13 09:07:59.5Z"), "09:00");
        assert_eq!(label(Unit::Weekday, "2018-12-16"), "Sun");
        assert_eq!(label(Unit::WeekHour, "2018-12-16 17:20"), "Sun 17:00");
        // The paper's week 10 of the season 2018-19.
        assert_eq!(label(Unit::Week, "2018-12-16"), label(Unit::Week, "2018-12-22"));
        assert_ne!(label(Unit::Week, "2018-12-22"), label(Unit::Week, "2018-12-23"));
        // A week is split at 1 January.
        assert_ne!(label(Unit::Week, "2018-12-31"), label(Unit::Week, "2019-01-01"));
        assert_eq!(label(Unit::Week, "2019-01-01"), label(Unit::Week, "2019-01-05"));
        assert_eq!(label(Unit::Week, "2019-01-05"), "2019-W00");
        for text in ["", "yesterday", "2018-13-01", "2018-02-30", "13/11/1998"] {
            assert!(time(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_season_of_the_paper_has_27_weeks() {
        let number = |text: &str| Unit::Week.number(time(text).unwrap());
        let weeks = Unit::Week.between(number("2018-10-16"), number("2019-04-10"));
        assert_eq!(weeks.len(), 27);
        assert_eq!(Unit::Week.label(weeks[9]), Unit::Week.label(number("2018-12-16")));
        let months = Unit::Month.between(
            Unit::Month.number(time("1998-11-13").unwrap()),
            Unit::Month.number(time("2002-06-21").unwrap()),
        );
        assert_eq!((months.len(), Unit::Month.label(months[43])), (44, "2002-06".into()));
        assert_eq!(Unit::Day.between(0, 30).len(), 31);
        assert_eq!(Unit::Hour.between(3, 4).len(), 24);
    }

    /// Every day of ten years: parts follow each other without gap or overlap.
    #[test]
    fn parts_follow_each_other() {
        for unit in [Unit::Month, Unit::Week, Unit::Day] {
            let day = |days: i64| unit.number(date(days).unwrap().to_datetime(jiff::civil::Time::midnight()));
            for days in 10_000..13_650 {
                let (here, next) = (day(days), day(days + 1));
                assert!(next == here || next == unit.next(here), "{unit:?} {days}");
                assert!(here <= days && days < unit.next(here));
            }
        }
    }
}
