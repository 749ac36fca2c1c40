//! Queries: how a table is counted into tensors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::count::axis::Axis;
use crate::count::filter::Filter;
use crate::count::lookup::Lookup;
use crate::error::Error;

/// How a table is counted into tensors: the axes, the value of a cell, and which rows count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// The axis that a pattern extends over.
    pub feature: Axis,
    /// The axis of the rows, for example senders.
    pub row: Axis,
    /// The axis of the cols, for example receivers.
    pub col: Axis,
    /// The axis that divides the table into the tensors of a stream. None for a single tensor.
    pub step: Option<Axis>,
    /// The value of a cell.
    pub value: Value,
    /// A column. Each cell is divided by the number of distinct values of this column at the place of the cell.
    pub average_over: Option<String>,
    /// Number of row labels to keep, those with most events. None to keep all.
    pub keep_rows: Option<usize>,
    /// The largest number of features. None for 1,000,000; if the features are times or bins, then None is for 10,000, or
    /// for ten times the number of labels that have events if that is more. Models do not keep it.
    #[serde(skip)]
    pub max_features: Option<usize>,
    /// Conditions that a row of the table must meet to count.
    pub filters: Vec<Filter>,
    /// Whether rows and cols are the same people. If so, both axes have the same labels: the union of the labels of
    /// both.
    pub square: bool,
    /// Names for the labels of rows and cols.
    pub names: Option<Lookup>,
    /// Known groups of the labels of rows and cols, to compare with the groups that are found.
    pub groups: Option<Lookup>,
}

impl Query {
    /// Checks that the parts of the query fit together.
    ///
    /// # Errors
    /// [`Error::Axis`] if the step, row or col axis is a grid and the query averages over a column, or if the row
    /// axis is a grid and the query keeps the rows with most events. The cell of a point is known only at the end,
    /// when it is too late to average or to choose.
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

/// The value of a cell, written `count`, `sum(column)` or `mean(column)`.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(into = "String", try_from = "String")]
pub enum Value {
    /// The number of events.
    Count,
    /// The sum of a column over the events.
    Sum(String),
    /// The mean of a column over the events.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_and_written() {
        for text in ["count", "sum(size)", "mean(a (b))"] {
            assert_eq!(text.parse::<Value>().unwrap().to_string(), text);
        }
        assert!("sum()".parse::<Value>().is_err());
    }
}
