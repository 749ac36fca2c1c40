//! Benchmarks with criterion. They have their own crate outside the default members, because criterion would change
//! the features of dependencies, and `cargo test` and `cargo run` would build these twice.
