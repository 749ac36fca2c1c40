//! Dense linear algebra: the one place that knows faer.

pub(crate) mod dense;
