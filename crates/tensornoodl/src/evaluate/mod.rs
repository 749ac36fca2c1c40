//! Evaluation of the method: planted streams, errors against the truth, the recovery experiment, and the assumptions
//! of the theory and of the counts model.

pub mod assumptions;
pub mod count_assumptions;
pub mod metrics;
pub mod recovery;
pub mod synthetic;
pub mod synthetic_counts;
