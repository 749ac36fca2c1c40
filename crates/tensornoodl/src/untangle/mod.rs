//! Stage II: the row and col factors from the codes (algo:KRP_algo).

pub(crate) mod counts;
pub(crate) mod factors;
pub(crate) mod lanczos;
pub(crate) mod pair;
pub(crate) mod trilinear;
