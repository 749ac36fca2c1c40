//! Online CP/PARAFAC factorization of a stream of sparse three-way tensors: Rambhatla, Li and Haupt,
//! "Provable Online CP/PARAFAC Decomposition of a Structured Tensor via Dictionary Learning" (2020).
//!
//! # The problem
//!
//! Step t brings a tensor of n features x J rows x K cols,
//!
//! ```text
//! Z(t) = sum_i A_i o B_i(t) o C_i(t),    i = 1 .. m
//! ```
//!
//! The dictionary A (n x m, dense, unit columns) stays the same. The factors B(t) and C(t) are sparse and new in each
//! step. All three are to be found while the tensors arrive. A fiber of Z, the n features at one place (row j, col
//! k), mixes the few patterns A_i whose B_ji and C_ki are both non-zero, and most fibers are zero. So the non-zero
//! fibers Y (n x p) obey Y = A X with sparse codes X. Row i of X, put back to its places, is the rank-one matrix B_i
//! C_i'.
//!
//! # The method
//!
//! | stage | for each tensor | here | in the paper |
//! | --- | --- | --- | --- |
//! | | collect the non-zero fibers Y | [`Tensor`] | mode-1-T, eq:dl |
//! | I | encode: sparse codes X with Y = A X | [`Learner::encode`] | alg:coeff_init, alg:coeff_iht |
//! | II | untangle the factors B and C, on demand | [`Codes::untangle`] | algo:KRP_algo |
//! | III | update: move A to explain Y - A X | [`Learner::learn`] | eq:emp_grad_est, eq:apx_grad |
//! | | discover patterns in what A does not explain | [`Learner::from_nothing`] | ours; the paper starts near A* |
//!
//! Start reading at `learner.rs`, Alg. 1 of the paper. Each stage has a folder of its name: `encode/`, `untangle/`,
//! `update/`, `discover/`. Folders import only from folders further down this list: `evaluate`, `learner`, `discover`,
//! `update`, `untangle`, `encode`, `parallel`, `data`, `linalg`.
//!
//! # Counts
//!
//! The paper's model has values with Gaussian noise. Tables of events are counts, and [`Learner::for_counts`] makes a
//! learner for them. It has the same stages with the Kullback-Leibler divergence in the place of squares, its patterns have
//! shares that add up to 1, and its codes are numbers of events. The guarantees of the paper hold for the exact model only.
//!
//! # Words
//!
//! | paper | here | note |
//! | --- | --- | --- |
//! | Z(t), t | tensor, step | |
//! | n, J, K | features, rows, cols | [`Shape`] |
//! | mode-1 fiber, (j, k) | fiber, [`Place`] | a fiber is one sample |
//! | A(t), A_i, m | [`Dictionary`], pattern, patterns | |
//! | X(t), S(t) | [`Codes`] | codes at their places are S |
//! | B(t), C(t) | row factor, col factor: [`Factors`] | |
//! | Y - A X | residual | the squared norm of a fiber or residual is its energy |
//! | eta_A, eta_x, tau | `eta_a`, `eta_x`, `tau` | [`Params`] |
//! | C, the constant | `code_floor` | C is a factor |
//! | R, delta_R | `iht_steps`, `code_tolerance` | |
//! | starred | `true_` | only in [`synthetic`], [`metrics`], [`recovery`] |
//! | | rank, team | processes or threads that share the fibers of a tensor: [`parallel`] |
//! | | evidence, significant, probation | of patterns that were found in the data: [`discover`] |
//!
//! # Example
//!
//! ```
//! use tensornoodl::{Dictionary, Learner, Params, Shape, Tensor};
//!
//! # fn main() -> Result<(), tensornoodl::Error> {
//! // Two patterns of length three, roughly known.
//! let start = Dictionary::from_columns(3, vec![1.0, 0.1, 0.0, 0.0, 0.1, 1.0])?;
//! let mut learner = Learner::new(start, Params::default())?;
//!
//! // Pattern (1, 0, 0) at rows 0 and 1 of col 2; pattern (0, 0, 1), twice as strong, at row 4, col 0.
//! let shape = Shape { features: 3, rows: 5, cols: 3 };
//! let tensor = Tensor::from_triplets(shape, &[(0, 0, 2, 1.0), (0, 1, 2, 1.0), (2, 4, 0, 2.0)])?;
//! let step = learner.learn(&tensor)?;
//! assert_eq!((step.fibers, step.activity.as_slice()), (3, [2, 1].as_slice()));
//! assert!(learner.dictionary().pattern(0)[1].abs() < 1e-10);
//!
//! // The rows that take part in pattern 0 are rows 0 and 1.
//! let factors = step.codes.untangle();
//! let rows: Vec<u32> = factors.rows.column(0).iter().map(|entry| entry.0).collect();
//! assert_eq!(rows, [0, 1]);
//! # Ok(())
//! # }
//! ```
//!
//! # The method in plain code
//!
//! The three stages with the paper's step, written with dense matrices and without anything that makes them fast. Tests
//! compare the learner with this code.
//!
//! ```rust,ignore
#![doc = include_str!("../tests/plain/method.rs")]
//! ```
//!
//! A step of the counts model, with the same stages:
//!
//! ```rust,ignore
#![doc = include_str!("../tests/plain/counts.rs")]
//! ```
//!
//! # Reproducibility and threads
//!
//! Results have the same bits for any number of threads, for any parts of a tensor, and for any number of ranks of a team
//! ([`parallel`]). Work is spread over the rayon pool that the call is made from.

#![forbid(unsafe_code)]

mod data;
pub mod discover;
mod encode;
mod error;
mod evaluate;
mod learner;
mod linalg;
pub mod parallel;
mod params;
mod shape;
mod stop;
mod surprise;
mod untangle;
mod update;

pub use data::codes::{Codes, SolverCounts};
pub use data::dictionary::Dictionary;
pub use data::sparse::Sparse;
pub use data::tensor::Tensor;
pub use discover::counts::groups::Groups;
pub use discover::params::DiscoverParams;
pub use discover::scale::Scale;
pub use error::Error;
pub use evaluate::{assumptions, count_assumptions, metrics, recovery, synthetic, synthetic_counts};
pub use learner::polish::Polish;
pub use learner::{ExactLearner, Learner, Returned, Step, Times};
pub use parallel::Team;
pub use params::{ModelKind, Params, Passes, Rule, Samples, Solver};
pub use shape::{Place, Shape};
pub use stop::Stop;
pub use surprise::{Excess, Surprise, significant};
pub use untangle::factors::Factors;

/// The README's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(test)]
mod golden;
