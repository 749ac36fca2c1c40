//! The choice of a model: counts or exact.

use std::fmt;
use std::str::FromStr;

use tensornoodl::ModelKind;

use crate::count::events::Events;
use crate::count::query::{Query, Value};
use crate::count::recipe::Recipe;
use crate::error::Error;

/// Which model a table is learned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelChoice {
    /// The counts model if the cells count events, otherwise the exact model.
    #[default]
    Auto,
    /// The given model.
    Given(ModelKind),
}

/// The names of the models.
const NAMES: [(ModelKind, &str); 2] = [(ModelKind::Counts, "counts"), (ModelKind::Exact, "exact")];

/// The name of a model, as in `--model`.
pub fn model_name(kind: ModelKind) -> &'static str {
    NAMES.iter().find(|known| known.0 == kind).map_or("", |known| known.1)
}

impl FromStr for ModelChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<ModelChoice, Error> {
        let known = NAMES.iter().find(|known| known.1 == text).map(|known| ModelChoice::Given(known.0));
        let auto = (text == "auto").then_some(ModelChoice::Auto);
        let rule = "auto, counts or exact".to_owned();
        known.or(auto).ok_or(Error::Tensor(tensornoodl::Error::Parameter {
            name: "model",
            value: text.into(),
            rule,
        }))
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelChoice::Auto => "auto",
            ModelChoice::Given(kind) => model_name(*kind),
        })
    }
}

impl ModelChoice {
    /// Returns the model for a query and a recipe, and the reason as the end of a sentence that begins with "because".
    pub fn resolve(self, query: &Query, recipe: &Recipe) -> (ModelKind, String) {
        let kind = match self {
            ModelChoice::Given(kind) => return (kind, "it was asked for".into()),
            ModelChoice::Auto => ModelKind::Exact,
        };
        match (&query.value, &query.average_over) {
            (Value::Count, None) if recipe.keeps_counts() => {
                (ModelKind::Counts, "the cells count events".into())
            }
            (Value::Count, None) => (kind, format!("the recipe {recipe} makes other values of the counts")),
            (Value::Count, Some(column)) => (kind, format!("the counts are averaged over {column}")),
            (value, _) => (kind, format!("the cells hold {value}, which need not count anything")),
        }
    }
}

/// Checks that a model takes the values that a recipe makes.
///
/// # Errors
/// [`tensornoodl::Error::Parameter`] if it is the counts model, and the recipe makes other values of the counts.
pub fn check_recipe(kind: ModelKind, recipe: &Recipe) -> Result<(), tensornoodl::Error> {
    if kind == ModelKind::Exact || recipe.keeps_counts() {
        return Ok(());
    }
    Err(tensornoodl::Error::Parameter {
        name: "recipe",
        value: recipe.to_string(),
        rule: "made of log2, sqrt and presence with the counts model; --model exact takes all recipes".into(),
    })
}

/// Returns whether a value can be a number of events: whole and not negative.
pub fn is_count(value: f64) -> bool {
    value >= 0.0 && value.fract() == 0.0
}

impl Events {
    /// Checks that all cells can be numbers of events: whole and not negative. `file` is the name of the table.
    ///
    /// # Errors
    /// [`Error::NotACount`] with the first cell that cannot.
    pub fn check_counts(&self, file: &str) -> Result<(), Error> {
        match self.cells.iter().find(|cell| !is_count(cell.1)) {
            None => Ok(()),
            Some(&([_, row, col, feature], value)) => Err(Error::NotACount {
                file: file.to_owned(),
                value,
                feature: self.features.names[feature as usize].clone(),
                row: self.rows.names[row as usize].clone(),
                col: self.cols.names[col as usize].clone(),
            }),
        }
    }
}
