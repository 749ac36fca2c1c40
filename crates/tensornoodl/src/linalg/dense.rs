//! The names of the other files, for imports that still use this path.

pub(crate) use crate::linalg::decompose::{Cholesky, eigen, largest_singular_value};
pub(crate) use crate::linalg::product::{add_product, transposed_product};
pub(crate) use crate::linalg::vector::{add_scaled, dot, to_single};
