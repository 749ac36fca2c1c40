//! Patterns from nothing: how a dictionary is found in data, and how it grows along a stream.
//!
//! ```text
//! search.rs        patterns that unexplained fibers share, tested against chance
//! pursuit.rs       orthogonal matching pursuit: the code of one fiber during a search
//! null.rs          the null model: what the same search finds in fibers without patterns
//! spectrum.rs      the covariance of fibers
//! composites.rs    patterns that turn out to be sums of two
//! simpler.rs       patterns that others replace with fewer codes
//! unit_fibers.rs   fibers as the search sees them: unit length, single precision
//! scale.rs         the units of the data
//! outliers.rs      a few fibers that are far larger than all others
//! unexplained.rs   fibers of a tensor that the dictionary does not explain
//! growth.rs        a dictionary that grows along a stream; probation of new patterns
//! sample.rs        a sample of the fibers of all ranks, for the first search
//! start.rs         all patterns of one tensor
//! held_out.rs      patterns of one half of the data, tested on the other half
//! stable.rs        the patterns of data that follows the model only roughly
//! evidence.rs      evidence for a number of patterns
//! trilinear.rs     the patterns of one dense tensor without negative values
//! pairs.rs         the pairwise start that the paper refers to, for comparison
//! counts/          patterns of counts: their number, and new ones along a stream
//! ```

pub(crate) mod composites;
pub(crate) mod counts;
pub(crate) mod evidence;
pub(crate) mod growth;
pub(crate) mod held_out;
pub(crate) mod null;
pub(crate) mod outliers;
pub mod pairs;
pub(crate) mod params;
pub(crate) mod pursuit;
pub(crate) mod sample;
pub(crate) mod scale;
pub(crate) mod search;
pub(crate) mod simpler;
pub(crate) mod spectrum;
pub(crate) mod stable;
pub(crate) mod start;
pub(crate) mod trilinear;
pub(crate) mod unexplained;
pub(crate) mod unit_fibers;

pub use counts::SIGNIFICANCE;
pub use counts::damping::{PresenceScore, TableComparison, compare_tables};
pub use counts::groups::Groups;
pub use counts::ladder::Rung;
pub use evidence::{Evidence, Repeat, evidence};
pub use held_out::HeldOut;
pub use params::DiscoverParams;
pub use scale::Scale;
pub use stable::{energy_floor, find_stable};
pub use start::{Finding, Start, find, search_bytes};
