//! Lookup tables: a second table with names or groups for labels.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::input::csv;
use crate::input::open::open;
use crate::input::row::bad_field;

/// A CSV file and two of its columns, written `people.csv(id,name)`: the first column has labels, the second a name or
/// a group for each label.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(into = "String", try_from = "String")]
pub struct Lookup {
    file: String,
    /// The column of the labels, and the column of their names or groups.
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
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        Path::new(&self.file)
    }

    /// Reads the name or the group of each label. Rows with an empty second column are skipped.
    ///
    /// # Errors
    /// If the file cannot be read, a column is missing, or two rows say different things of one label.
    pub fn read(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let input = open(self.path())?;
        csv::rows(input, 0, &self.file, &self.columns, &mut |fields, at| {
            let (label, text) = (fields[0].trim(), fields[1].trim());
            if text.is_empty() {
                return Ok(());
            }
            match known.insert(label.into(), text.into()) {
                Some(before) if before != text => {
                    let rule = format!("unique: it is {before} above and {text} here");
                    Err(bad_field(label, &self.columns[0], at, &rule))
                }
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
