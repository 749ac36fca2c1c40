//! Stage I: the sparse codes of every fiber (alg:coeff_init, alg:coeff_iht).
//!
//! ```text
//! waves.rs    all fibers of a tensor, read once, in waves of blocks
//! block.rs    one block of fibers, each coded by the cheapest method that proves its code
//! fiber.rs    one fiber: least squares on a support, and the proof that it is the limit of the iteration
//! iht.rs      one fiber: the iteration, for fibers whose proof fails
//! gram.rs     inner products of patterns
//! screen.rs   cheap approximations of A'y with error bounds
//! counts.rs   one fiber of counts: expectation-maximization, and a test of each pattern
//! ```

pub(crate) mod block;
pub(crate) mod counts;
pub(crate) mod fiber;
pub(crate) mod gram;
pub(crate) mod iht;
pub(crate) mod screen;
pub(crate) mod waves;
