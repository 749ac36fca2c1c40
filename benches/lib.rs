//! A crate of its own, outside the default ones, so that `cargo test` and `cargo run` build the same
//! dependencies with the same features: criterion would add some.
