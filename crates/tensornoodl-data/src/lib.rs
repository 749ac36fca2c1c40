//! Files in, tensors out.
//!
//! A file is read line by line into [`Entries`]; a [`Recipe`] names what is done to them before anyone learns.
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

pub mod arrow;
mod axis;
mod cut;
mod error;
mod events;
pub mod files;
mod labels;
mod lookup;
mod model;
mod npy;
mod parquet;
mod query;
mod recipe;
pub mod table;
pub mod tns;

pub use axis::{Axis, Grid, Unit};
pub use error::Error;
pub use events::{At, Counter, Events, Tally};
pub use labels::{Labels, align};
pub use lookup::Lookup;
pub use model::{Card, Group, Known, MEMBER, Model, Record};
pub use query::{Filter, Query, Value};
pub use recipe::{Action, Recipe};

use tensornoodl::{Shape, Tensor};

/// Entries of one tensor, as a file has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries {
    shape: Shape,
    /// (feature, row, col, value).
    values: Vec<(usize, usize, usize, f64)>,
    fibers: usize,
}

impl Entries {
    /// The smallest shape that holds all of them.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of places that have entries.
    pub fn fibers(&self) -> usize {
        self.fibers
    }

    /// About how many bytes the tensor takes.
    pub fn bytes(&self) -> f64 {
        8.0 * self.shape.features as f64 * self.fibers as f64
    }

    /// The tensor. Entries at the same position are added.
    pub fn tensor(&self) -> Result<Tensor<'static>, Error> {
        Ok(Tensor::from_triplets(self.shape, &self.values)?)
    }
}
