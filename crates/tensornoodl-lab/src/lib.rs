//! The laboratory of TensorNOODL: the methods that the paper compares with ([`methods`]) and the paper's experiments
//! ([`paper`]).
//!
//! The program `noodl-lab` of this crate runs them. Nothing that users install depends on this crate.

#![forbid(unsafe_code)]

pub mod methods;
pub mod paper;
