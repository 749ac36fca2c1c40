//! Stage I: the sparse codes of every fiber (alg:coeff_init, alg:coeff_iht).

pub(crate) mod fiber;
pub(crate) mod gram;
pub(crate) mod iht;
pub(crate) mod screen;
pub(crate) mod waves;
