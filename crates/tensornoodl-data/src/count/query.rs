//! What is made of a table: its axes, the value of a cell, and which events count.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::count::axis::Axis;
use crate::count::filter::Filter;
use crate::count::lookup::Lookup;
use crate::error::Error;

/// What is made of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// What a pattern extends over.
    pub feature: Axis,
    /// Who takes part.
    pub row: Axis,
    /// With whom.
    pub col: Axis,
    /// What makes a tensor of the stream; none: there is one tensor.
    pub step: Option<Axis>,
    /// What a cell holds.
    pub value: Value,
    /// A column: cells are divided by the number of its distinct values at their place.
    pub average_over: Option<String>,
    /// So many rows, those with most events.
    pub keep_rows: Option<usize>,
    /// Only these events.
    pub filters: Vec<Filter>,
    /// Whether rows and cols are the same people: then either axis has all of them.
    pub square: bool,
    /// Names for labels of rows and cols.
    pub names: Option<Lookup>,
    /// What labels of rows and cols belong to, to compare the groups that are found with.
    pub groups: Option<Lookup>,
}

/// What a cell holds.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(into = "String", try_from = "String")]
pub enum Value {
    /// How many events.
    Count,
    /// The sum of a column over them.
    Sum(String),
    /// The mean.
    Mean(String),
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Value, Error> {
        let of = |name: &str| {
            let inside = text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?.trim();
            (!inside.is_empty()).then(|| inside.to_owned())
        };
        match (text, of("sum"), of("mean")) {
            ("count", ..) => Ok(Value::Count),
            (_, Some(column), _) => Ok(Value::Sum(column)),
            (_, _, Some(column)) => Ok(Value::Mean(column)),
            _ => Err(Error::Axis { text: text.into(), rule: "count, sum(column) or mean(column)".into() }),
        }
    }
}

impl From<Value> for String {
    fn from(it: Value) -> String {
        it.to_string()
    }
}

impl TryFrom<String> for Value {
    type Error = Error;

    fn try_from(text: String) -> Result<Value, Error> {
        text.parse()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count => f.write_str("count"),
            Value::Sum(column) => write!(f, "sum({column})"),
            Value::Mean(column) => write!(f, "mean({column})"),
        }
    }
}

impl Query {
    /// Places are cells of a grid only in the end, when it is too late to tell what was averaged over there, or how busy
    /// each of them is.
    pub fn check(&self) -> Result<(), Error> {
        let grid = |axis: &Axis| matches!(axis, Axis::Grid(_));
        for axis in [&self.row, &self.col].into_iter().chain(&self.step).filter(|axis| grid(axis)) {
            if self.average_over.is_some() || (self.keep_rows.is_some() && *axis == self.row) {
                let rule = "no grid where values are averaged over a column or rows are kept by activity";
                return Err(Error::Axis { text: axis.to_string(), rule: rule.into() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written() {
        for text in ["count", "sum(size)", "mean(a (b))"] {
            assert_eq!(text.parse::<Value>().unwrap().to_string(), text);
        }
        assert!("sum()".parse::<Value>().is_err());
    }
}
