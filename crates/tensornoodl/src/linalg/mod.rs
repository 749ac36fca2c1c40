//! Linear algebra on plain column-major slices: the one folder that knows faer, and one small Cholesky without it.

pub(crate) mod decompose;
pub(crate) mod product;
pub(crate) mod small;
pub(crate) mod vector;
