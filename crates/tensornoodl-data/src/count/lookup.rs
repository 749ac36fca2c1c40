//! A second table that knows more of labels: names for numbers, or the department of a person.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::input::csv;
use crate::input::open::open;

/// `people.csv(id,name)`: the labels are in one column of a CSV file, what is known of them in another.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(into = "String", try_from = "String")]
pub struct Lookup {
    file: String,
    /// The column with the labels, and that with what is known of them.
    columns: [String; 2],
}

impl FromStr for Lookup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Lookup, Error> {
        let parts = text.strip_suffix(')').and_then(|text| {
            let (file, columns) = text.rsplit_once('(')?;
            let (label, known) = columns.split_once(',')?;
            Some([file, label, known].map(str::trim))
        });
        match parts {
            Some([file, label, known]) if ![file, label, known].contains(&"") => {
                Ok(Lookup { file: file.into(), columns: [label.into(), known.into()] })
            }
            _ => Err(Error::Axis {
                text: text.into(),
                rule: "a CSV file and two of its columns, such as people.csv(id,name)".into(),
            }),
        }
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({},{})", self.file, self.columns[0], self.columns[1])
    }
}

impl From<Lookup> for String {
    fn from(it: Lookup) -> String {
        it.to_string()
    }
}

impl TryFrom<String> for Lookup {
    type Error = Error;

    fn try_from(text: String) -> Result<Lookup, Error> {
        text.parse()
    }
}

impl Lookup {
    /// What is known of each label. Empty fields are not.
    pub fn read(&self) -> Result<BTreeMap<String, String>, Error> {
        let file = &self.file;
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let input = open(Path::new(file))?;
        csv::rows(input, 0, file, &self.columns, &mut |fields, at| {
            let (label, text) = (fields[0].trim(), fields[1].trim());
            if text.is_empty() {
                return Ok(());
            }
            match known.insert(label.into(), text.into()) {
                Some(before) if before != text => Err(Error::Field {
                    file: file.clone(),
                    line: at.line,
                    column: self.columns[0].clone(),
                    value: label.chars().take(40).collect(),
                    rule: format!("there once: it is {before} above and {text} here"),
                }),
                _ => Ok(()),
            }
        })?;
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_is_a_file_and_two_columns() {
        let lookup: Lookup = "my people (old).csv( id , full name )".parse().unwrap();
        assert_eq!(lookup.to_string(), "my people (old).csv(id,full name)");
        for wrong in ["", "people.csv", "people.csv()", "people.csv(id)", "(id,name)", "people.csv(,name)"] {
            let error = wrong.parse::<Lookup>().unwrap_err().to_string();
            assert!(error.contains("people.csv(id,name)"), "{error}");
        }
    }
}
