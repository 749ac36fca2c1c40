//! Axes: how an axis of a tensor is made from the columns of a table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::count::calendar::{UNITS, Unit, Width};
use crate::count::grid::{COURT, Grid};
use crate::error::Error;

/// An axis of a tensor, written `sender`, `month(time)`, `every(time,20min)`, `bin(age,10)` or `grid(x,y,12x10)`.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(into = "String", try_from = "String")]
pub enum Axis {
    /// The labels of a column.
    Column(String),
    /// Units of the calendar or the clock, from a column of times.
    Time(Unit, String),
    /// Bins of a column of numbers, with the width of a bin.
    Bin(String, f64),
    /// Cells of a grid, from two columns of coordinates.
    Grid(Grid),
}

/// The largest number of labels of the feature axis. Fibers are dense, so every feature takes memory in every fiber.
pub(crate) const MAX_FEATURES: usize = 1_000_000;

impl Axis {
    /// Returns the columns that the axis reads.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Axis::Column(column) | Axis::Time(_, column) | Axis::Bin(column, _) => vec![column],
            Axis::Grid(grid) => vec![&grid.x, &grid.y],
        }
    }

    /// Returns whether the labels of a feature axis are complete between the first and the last that occur.
    pub(crate) fn is_filled(&self) -> bool {
        match self {
            Axis::Time(unit, _) => {
                matches!(unit, Unit::Month | Unit::Week | Unit::Day | Unit::Every(_))
            }
            Axis::Bin(..) => true,
            Axis::Column(_) | Axis::Grid(_) => false,
        }
    }

    /// Returns a grid without bounds with the bounds of `other`, if both grids are otherwise equal. Returns any other
    /// axis as it is.
    pub fn with_bounds_of(self, other: &Axis) -> Axis {
        match (self, other) {
            (Axis::Grid(grid), Axis::Grid(other)) if grid.bounds.is_none() => {
                let bounded = Grid { bounds: other.bounds, ..grid.clone() };
                Axis::Grid(if bounded == *other { bounded } else { grid })
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
        if let Some(name) = text.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            return if name.is_empty() { Err(wrong("a column")) } else { Ok(Axis::Column(name.into())) };
        }
        let Some((function, arguments)) = text.split_once('(') else {
            return if text.is_empty() { Err(wrong("a column")) } else { Ok(Axis::Column(text.into())) };
        };
        let arguments = arguments.strip_suffix(')').ok_or_else(|| wrong("closed by a parenthesis"))?;
        let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
        if arguments.iter().any(|argument| argument.is_empty()) {
            return Err(wrong("complete between its commas"));
        }
        let function = function.trim();
        let unit = UNITS.iter().find(|unit| unit.1 == function);
        match (function, &arguments[..], unit) {
            ("bin", [column, width], _) => {
                let width = number(width).filter(|width| *width > 0.0);
                let width = width.ok_or_else(|| wrong("bin(column,width) with a width above 0"))?;
                Ok(Axis::Bin((*column).into(), width))
            }
            ("every", [column, width], _) => {
                let width = Width::parse(width);
                let width = width
                    .ok_or_else(|| wrong("every(column,width) with a width such as 30s, 20min, 2h or 7d"))?;
                Ok(Axis::Time(Unit::Every(width), (*column).into()))
            }
            ("slot", [column, width], _) => {
                let width = Width::parse(width).filter(|width| width.divides_a_day());
                let rule = "slot(column,width) with a width that divides a day, such as 30s, 20min or 2h";
                Ok(Axis::Time(Unit::Slot(width.ok_or_else(|| wrong(rule))?), (*column).into()))
            }
            ("grid" | "court", [x, y, cells, bounds @ ..], _) => {
                let rule = "grid(x,y,12x10) or grid(x,y,12x10,lowest x:highest x,lowest y:highest y)";
                let grid = parse_grid([x, y], cells, bounds, function == "court");
                grid.map(Axis::Grid).ok_or_else(|| wrong(rule))
            }
            (_, [column], Some((unit, _))) => Ok(Axis::Time(*unit, (*column).into())),
            _ => Err(wrong(
                "a column, month(c), week(c), day(c), hour(c), weekday(c), weekhour(c), every(c,20min), slot(c,20min), \
                 bin(c,width), grid(x,y,12x10) or court(x,y,12x10); a column whose name has parentheses goes in quotes",
            )),
        }
    }
}

/// Parses the arguments of a grid: its columns, its numbers of cells and its bounds.
fn parse_grid([x, y]: [&str; 2], cells: &str, bounds: &[&str], court: bool) -> Option<Grid> {
    let count = |text: &str| text.parse().ok().filter(|count| (1..=1000).contains(count));
    let (across, up) = cells.split_once('x')?;
    let cells = (count(across)?, count(up)?);
    let range = |text: &str| {
        let (low, high) = text.split_once(':')?;
        Some((number(low)?, number(high)?)).filter(|(low, high)| low < high)
    };
    let bounds = match bounds {
        [] => court.then_some(COURT),
        [x, y] => Some([range(x)?, range(y)?]),
        _ => return None,
    };
    Some(Grid { x: x.into(), y: y.into(), cells, bounds, court })
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
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
            // Without quotes, such a name would be parsed as something else.
            Axis::Column(name) if name.contains('(') || name.starts_with('"') || name.trim() != name => {
                write!(f, "\"{name}\"")
            }
            Axis::Column(name) => f.write_str(name),
            Axis::Time(Unit::Every(width), column) => write!(f, "every({column},{width})"),
            Axis::Time(Unit::Slot(width), column) => write!(f, "slot({column},{width})"),
            Axis::Time(unit, column) => {
                let name = UNITS.iter().find(|known| known.0 == *unit).map_or("", |known| known.1);
                write!(f, "{name}({column})")
            }
            Axis::Bin(column, width) => write!(f, "bin({column},{width})"),
            Axis::Grid(Grid { x, y, cells, bounds, court }) => {
                write!(f, "{}({x},{y},{}x{}", if *court { "court" } else { "grid" }, cells.0, cells.1)?;
                let is_default = *court && *bounds == Some(COURT);
                for (low, high) in bounds.iter().filter(|_| !is_default).flatten() {
                    write!(f, ",{low}:{high}")?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_parsed_and_written() {
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
            "every(t,20min)",
            "every(t,7d)",
            "slot(t,30s)",
            "slot(t,1d)",
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
            "every(t)",
            "every(t,20)",
            "every(t,0min)",
            "slot(t)",
            "slot(t,7min)",
            "slot(t,2d)",
        ] {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
    }
}
