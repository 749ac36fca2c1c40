//! The methods that the paper compares with, each in a correct and fast form.
//!
//! | | codes | dictionary | |
//! | --- | --- | --- | --- |
//! | [`Noodl`] | limit of iterative hard thresholding | gradient step, adaptive or the paper's | this project |
//! | [`Matrix`] | as for [`Noodl`] | as for [`Noodl`]; fibers have no places, so B and C do not exist | Rambhatla, Li, Haupt 2019 |
//! | [`Arora`] | one hard threshold of A'y | the paper's gradient, with or without bias | Arora, Ge, Ma, Moitra 2015 |
//! | [`Mairal`] | Lasso | block coordinate descent on accumulated moments | Mairal, Bach, Ponce, Sapiro 2009 |
//!
//! These four learn from one tensor after the other and start from the same A(0). Codes of [`Arora`] and [`Mairal`]
//! are also recovered afterwards by the [`lasso`], as the paper does it. Methods for one tensor as a whole: [`als()`]
//! (CP-ALS, Orth-ALS), [`power()`] (tensor power with clustering, truncated power) and [`fu()`] (groups of people
//! with weights of months).

mod als;
mod arora;
mod cp;
mod fu;
pub mod lasso;
pub(crate) mod linear;
mod mairal;
mod method;
mod noodl;
mod power;

pub use als::{Als, als};
pub use arora::Arora;
pub use cp::Cp;
pub use fu::{Entry, Fu, FuFit, fu, fu_from};
pub use mairal::Mairal;
pub use method::Method;
pub use noodl::{Matrix, Noodl};
pub use power::{Power, power};
