//! Reads files into tensors for TensorNOODL, and keeps models in files.
//!
//! A table is read with [`table::read`] and counted as a [`Query`] says; the result, [`Events`], has the tensors and
//! their labels. A [`Recipe`] prepares a tensor, and a [`Model`] learns from it. A tensor in the format of FROSTT can
//! also be read without labels:
//!
//! ```
//! use tensornoodl_data::{Recipe, tns};
//!
//! # fn main() -> Result<(), tensornoodl_data::Error> {
//! let text = "# month sender receiver e-mails\n1 1 2 4\n2 1 2 1\n1 3 1 2\n";
//! let entries = tns::read(text.as_bytes(), "mail.tns", &tns::Layout::default())?;
//! let tensor = entries.tensor()?;
//! assert_eq!((tensor.shape().to_string().as_str(), tensor.fibers()), ("2 x 3 x 2", 2));
//!
//! let recipe: Recipe = "log2,scale".parse()?;
//! let tensor = recipe.apply(tensor)?;
//! assert_eq!(tensor.values(), [2.0 / 3.0, 0.0, 1.0, 1.0 / 3.0]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

// From the bottom to the top: error, memory, files, lock, input, count, model. A module imports only from modules below it.
mod count;
mod error;
pub mod files;
mod input;
mod lock;
pub mod memory;
mod model;

pub use count::axis::Axis;
pub use count::calendar::{Unit, Width};
pub use count::counter::Counter;
pub use count::events::Events;
pub use count::filter::Filter;
pub use count::grid::Grid;
pub use count::labels::{Labels, align};
pub use count::lookup::Lookup;
pub use count::query::{Query, Value};
pub use count::recipe::{Action, Recipe};
pub use count::stretch::{Far, Stretch};
pub use count::table;
pub use count::tally::Tally;
pub use error::Error;
pub use input::row::At;
pub use input::tns::{self, Entries};
pub use lock::Lock;
pub use model::card::{Card, Record};
pub use model::choice::{ModelChoice, check_recipe, is_count, model_name};
pub use model::damping::{ChosenRecipe, RecipeChoice};
pub use model::errors::error_text;
pub use model::evidence::{Evidence, Rung};
pub use model::groups::{Group, Known, MEMBER, MEMBER_OF_COUNTS};
pub use model::identity::{Archived, Identity};
pub use model::learn::Model;
pub use model::stability::{Repeat, Stability};
pub use model::surprising::{Surprising, SurprisingFeature};
pub use model::verdict::{Fall, Unseen, Warning, WarningKind};

/// Reads tables in memory, which come as Apache Arrow record batches.
pub mod arrow {
    pub use crate::count::table::read_batches as read;
}
