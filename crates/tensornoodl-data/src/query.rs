//! What is made of a table: its axes, the value of a cell, and which events count.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::axis::Axis;
use crate::error::Error;
use crate::lookup::Lookup;

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

/// `type=to`, `points>=2`, `from!=@to`: numbers are compared as numbers, everything else as text; @ stands before a column.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(into = "String", try_from = "String")]
pub struct Filter {
    column: String,
    relation: Relation,
    /// A text, or a column.
    than: String,
    than_column: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Longer ones first: `<=` begins as `<` does.
const RELATIONS: [(Relation, &str); 6] = [
    (Relation::NotEqual, "!="),
    (Relation::AtMost, "<="),
    (Relation::AtLeast, ">="),
    (Relation::Equal, "="),
    (Relation::Less, "<"),
    (Relation::More, ">"),
];

impl FromStr for Filter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Filter, Error> {
        let first = text.find(['!', '<', '>', '=']);
        let found = first.and_then(|at| {
            let (column, rest) = text.split_at(at);
            let (relation, sign) = RELATIONS.iter().find(|known| rest.starts_with(known.1))?;
            // `==` and `>>` are none; a value that begins so stands after a blank.
            let than = &rest[sign.len()..];
            (!than.starts_with(['=', '<', '>', '!'])).then(|| (column.trim(), *relation, than.trim()))
        });
        match found {
            Some((column, relation, than)) if !column.is_empty() => {
                let (than, than_column) = match than.strip_prefix('@') {
                    Some(column) => (column, true),
                    None => (than, false),
                };
                Ok(Filter { column: column.into(), relation, than: than.into(), than_column })
            }
            _ => Err(Error::Axis {
                text: text.into(),
                rule: "a column, one of = != < <= > >=, and a value or @ and another column".into(),
            }),
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

impl From<Filter> for String {
    fn from(it: Filter) -> String {
        it.to_string()
    }
}

impl TryFrom<String> for Filter {
    type Error = Error;

    fn try_from(text: String) -> Result<Filter, Error> {
        text.parse()
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = RELATIONS.iter().find(|known| known.0 == self.relation).map_or("", |known| known.1);
        let before = match self.than_column {
            true => "@",
            // < and =5 are not <= and 5.
            false if self.than.starts_with('=') => " ",
            false => "",
        };
        write!(f, "{}{sign}{before}{}", self.column, self.than)
    }
}

impl Filter {
    /// The columns it reads.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = vec![self.column.as_str()];
        columns.extend(self.than_column.then_some(self.than.as_str()));
        columns
    }

    /// Whether an event with this field counts, and where two columns are compared, this other one.
    pub(crate) fn keeps(&self, text: &str, other: Option<&str>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let (text, than) = (text.trim(), other.unwrap_or(&self.than).trim());
        let order = match (text.parse::<f64>(), than.parse::<f64>()) {
            (Ok(x), Ok(y)) => x.partial_cmp(&y),
            _ => Some(text.cmp(than)),
        };
        match self.relation {
            Relation::Equal => order == Some(Equal),
            Relation::NotEqual => order != Some(Equal),
            Relation::Less => order == Some(Less),
            Relation::AtMost => matches!(order, Some(Less | Equal)),
            Relation::More => order == Some(Greater),
            Relation::AtLeast => matches!(order, Some(Greater | Equal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_values_are_read_and_written() {
        for text in ["type=to", "points>=2", "from!=@to", "a< =b", "a= =", "a=@"] {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.to_string(), text);
            assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
        }
        assert_ne!("a< =b".parse::<Filter>().unwrap(), "a<=b".parse().unwrap());
        for text in ["count", "sum(size)", "mean(a (b))"] {
            assert_eq!(text.parse::<Value>().unwrap().to_string(), text);
        }
        assert!("sum()".parse::<Value>().is_err() && "=b".parse::<Filter>().is_err());
    }
}
