//! Filters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

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
    fn filters_are_read_and_written() {
        for text in ["type=to", "points>=2", "from!=@to", "a< =b", "a= =", "a=@"] {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.to_string(), text);
            assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
        }
        assert_ne!("a< =b".parse::<Filter>().unwrap(), "a<=b".parse().unwrap());
        assert!("=b".parse::<Filter>().is_err());
    }
}
