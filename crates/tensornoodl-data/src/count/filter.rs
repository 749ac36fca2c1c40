//! Filters: conditions on the fields of a row.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A condition on the fields of a row, written `type=to`, `points>=2` or `from!=@to`, where `@` marks a column.
///
/// Two numbers are compared as numbers, anything else as text.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(into = "String", try_from = "String")]
pub struct Filter {
    column: String,
    relation: Relation,
    /// The text on the right-hand side, or the name of a column.
    right: String,
    /// Whether the right-hand side is a column.
    right_is_column: bool,
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

/// The signs of the relations. Longer signs come first, because `<=` starts with `<`.
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
            let (column, relation_and_right) = text.split_at(at);
            let (relation, sign) = RELATIONS.iter().find(|(_, sign)| relation_and_right.starts_with(sign))?;
            // `==` and `>>` are not relations. A value that starts with such a character is written after a blank.
            let right = &relation_and_right[sign.len()..];
            (!right.starts_with(['=', '<', '>', '!'])).then(|| (column.trim(), *relation, right.trim()))
        });
        match found {
            Some((column, relation, right)) if !column.is_empty() => {
                let (right, right_is_column) = match right.strip_prefix('@') {
                    Some(column) => (column, true),
                    None => (right, false),
                };
                Ok(Filter { column: column.into(), relation, right: right.into(), right_is_column })
            }
            _ => Err(Error::Axis {
                text: text.into(),
                rule: "a column, one of = != < <= > >=, and a value or @ and another column".into(),
            }),
        }
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
        let separator = match self.right_is_column {
            true => "@",
            // Without the blank, `< =5` would become `<=5`.
            false if self.right.starts_with('=') => " ",
            false => "",
        };
        write!(f, "{}{sign}{separator}{}", self.column, self.right)
    }
}

impl Filter {
    /// Returns the columns that the filter reads.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = vec![self.column.as_str()];
        columns.extend(self.right_is_column.then_some(self.right.as_str()));
        columns
    }

    /// Whether a row with this field meets the condition. `other` is the field of the second column, if the filter
    /// has one.
    pub(crate) fn keeps(&self, text: &str, other: Option<&str>) -> bool {
        let (text, right) = (text.trim(), other.unwrap_or(&self.right).trim());
        let order = match (text.parse::<f64>(), right.parse::<f64>()) {
            (Ok(x), Ok(y)) => x.partial_cmp(&y),
            _ => Some(text.cmp(right)),
        };
        match self.relation {
            Relation::Equal => order == Some(Ordering::Equal),
            Relation::NotEqual => order != Some(Ordering::Equal),
            Relation::Less => order == Some(Ordering::Less),
            Relation::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Relation::More => order == Some(Ordering::Greater),
            Relation::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_parsed_and_written() {
        for text in ["type=to", "points>=2", "from!=@to", "a< =b", "a= =", "a=@"] {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.to_string(), text);
            assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
        }
        assert_ne!("a< =b".parse::<Filter>().unwrap(), "a<=b".parse().unwrap());
        assert!("=b".parse::<Filter>().is_err());
    }
}
