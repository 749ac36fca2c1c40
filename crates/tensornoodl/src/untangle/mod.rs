//! Stage II: the row and col factors from the codes (algo:KRP_algo).

pub(crate) mod factors;
pub(crate) mod lanczos;
