//! Hidden cells: the part of the data that a number of patterns is judged by.
//!
//! Features and places are divided into folds by hashes. In rotation r, the cells of a fiber are hidden whose features are
//! in the fold of its place, counted r folds further. Hidden cells are missing, not zero. A fit sees all other cells, and
//! is judged by the hidden ones. Because hidden cells come in folds, their part of a pattern is a table of folds x
//! patterns, and the cost of a fit is linear in the number of cells that are not empty.

use crate::data::sparse::Sparse;
use crate::discover::outliers::far;
use crate::shape::Place;

/// Maximum number of folds: a tenth of the cells is hidden.
const MAX_FOLDS: usize = 10;

/// Fibers of counts at their places.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CountFibers {
    /// The events of each fiber (n x p).
    pub(crate) fibers: Sparse,
    /// The place of each fiber.
    pub(crate) places: Vec<Place>,
}

impl CountFibers {
    /// No fibers, of n features.
    pub(crate) fn new(features: usize) -> CountFibers {
        CountFibers { fibers: Sparse::new(features), places: Vec::new() }
    }

    /// No fibers, of n features, with memory for this many fibers and cells.
    pub(crate) fn with_capacity(features: usize, fibers: usize, cells: usize) -> CountFibers {
        let matrix = Sparse::with_capacity(features, fibers, cells);
        CountFibers { fibers: matrix, places: Vec::with_capacity(fibers) }
    }

    /// The number of fibers.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds the fibers of another part.
    pub(crate) fn append(&mut self, other: &CountFibers) {
        self.fibers.append(&other.fibers);
        self.places.extend_from_slice(&other.places);
    }

    /// Orders the fibers by place.
    pub(crate) fn sort(&mut self) {
        if !self.places.is_sorted_by_key(|place| place.key()) {
            let mut order: Vec<usize> = (0..self.len()).collect();
            order.sort_by_key(|&at| self.places[at].key());
            self.fibers = self.fibers.gather(&order);
            self.places = order.iter().map(|&at| self.places[at]).collect();
        }
    }

    /// The number of events of each fiber.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = f64> {
        self.fibers.columns().map(|fiber| fiber.iter().map(|entry| entry.1).sum())
    }

    /// These fibers, with as many events of outliers as the largest other fibers may have.
    pub(crate) fn bounded(self) -> CountFibers {
        let far = far(self.sizes().collect());
        if self.sizes().all(|events| events <= far) {
            return self;
        }
        let mut fibers = Sparse::with_capacity(self.fibers.rows(), self.len(), self.fibers.nnz());
        for (fiber, events) in self.fibers.columns().zip(self.sizes()) {
            let weight = (far / events).min(1.0);
            fibers.push(&fiber.iter().map(|&(feature, y)| (feature, weight * y)).collect::<Vec<_>>());
        }
        CountFibers { fibers, places: self.places }
    }

    /// The number of events of all fibers.
    pub(crate) fn events(&self) -> f64 {
        self.fibers.columns().flatten().map(|entry| entry.1).sum()
    }
}

/// Fibers, some of whose cells are hidden.
pub(crate) struct HiddenCells {
    /// Number of features.
    pub(crate) features: usize,
    /// Number of folds; 1 if nothing is hidden.
    pub(crate) folds: usize,
    /// The fold of each feature.
    pub(crate) feature_folds: Vec<usize>,
    /// For each fiber, the fold of features that is hidden in it. None if nothing is hidden.
    pub(crate) hidden_folds: Option<Vec<usize>>,
    /// The cells of each fiber: those that are seen, then those that are hidden.
    entries: Vec<(u32, f64)>,
    /// For each fiber, where its cells start, and where its hidden cells start. The last entry is the end.
    starts: Vec<(usize, usize)>,
    /// For each fiber, the number of its events, estimated from those that are seen.
    pub(crate) events: Vec<f64>,
    /// The share of each feature in the events that are seen of all fibers.
    pub(crate) mean: Vec<f64>,
}

/// Returns a hash of a number and a seed: the finalizer of SplitMix64.
fn hash(number: u64, seed: u64) -> u64 {
    let mut hash = number ^ seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// The number of folds for this many features, and so the number of rotations that hide different cells.
pub(crate) fn folds(features: usize) -> usize {
    features.clamp(1, MAX_FOLDS)
}

impl HiddenCells {
    /// Hides nothing.
    pub(crate) fn none(fibers: &CountFibers) -> HiddenCells {
        HiddenCells::new(fibers, vec![0; fibers.fibers.rows()], None, 1)
    }

    /// Hides the cells of one rotation (counts:hidden). Different rotations below [`folds`] hide different cells.
    pub(crate) fn rotation(fibers: &CountFibers, seed: u64, rotation: usize) -> HiddenCells {
        let n = fibers.fibers.rows();
        let folds = folds(n);
        // Folds have the same number of features, up to one.
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&feature| hash(feature as u64, seed));
        let mut feature_folds = vec![0; n];
        order.iter().enumerate().for_each(|(at, &feature)| feature_folds[feature] = at % folds);
        let fold = |place: &Place| (hash(place.hash(), seed) % folds as u64) as usize;
        let hidden = fibers.places.iter().map(|place| (fold(place) + rotation) % folds).collect();
        HiddenCells::new(fibers, feature_folds, Some(hidden), folds)
    }

    fn new(
        fibers: &CountFibers,
        feature_folds: Vec<usize>,
        hidden_folds: Option<Vec<usize>>,
        folds: usize,
    ) -> HiddenCells {
        let n = fibers.fibers.rows();
        let mut entries = Vec::with_capacity(fibers.fibers.nnz());
        let mut starts = Vec::with_capacity(fibers.len() + 1);
        let mut sums = vec![0.0; n];
        for (at, column) in fibers.fibers.columns().enumerate() {
            let is_hidden = |entry: &&(u32, f64)| {
                hidden_folds.as_ref().is_some_and(|folds| folds[at] == feature_folds[entry.0 as usize])
            };
            let start = entries.len();
            entries.extend(column.iter().filter(|entry| !is_hidden(entry)));
            starts.push((start, entries.len()));
            entries[start..].iter().for_each(|&(feature, y)| sums[feature as usize] += y);
            entries.extend(column.iter().filter(is_hidden));
        }
        starts.push((entries.len(), entries.len()));
        let total: f64 = sums.iter().sum();
        // Half an event is spread over all features, so that no share is zero.
        let mean: Vec<f64> = sums.iter().map(|sum| (sum + 0.5 / n as f64) / (total + 0.5)).collect();
        let mut hidden_share = vec![0.0; folds];
        if hidden_folds.is_some() {
            feature_folds.iter().zip(&mean).for_each(|(fold, share)| hidden_share[*fold] += share);
        }
        let mut cells = HiddenCells {
            features: n,
            folds,
            feature_folds,
            hidden_folds,
            entries,
            starts,
            events: Vec::new(),
            mean,
        };
        let events = |fiber: usize| {
            let seen: f64 = cells.seen(fiber).iter().map(|entry| entry.1).sum();
            (seen / (1.0 - hidden_share[cells.fold(fiber)]).max(0.05)).max(1e-9)
        };
        cells.events = (0..fibers.len()).map(events).collect();
        cells
    }

    /// The number of fibers.
    pub(crate) fn fibers(&self) -> usize {
        self.starts.len() - 1
    }

    /// The fold that is hidden in a fiber, or 0 if nothing is hidden.
    pub(crate) fn fold(&self, fiber: usize) -> usize {
        self.hidden_folds.as_ref().map_or(0, |folds| folds[fiber])
    }

    /// The cells of a fiber that are seen.
    pub(crate) fn seen(&self, fiber: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[fiber].0..self.starts[fiber].1]
    }

    /// The cells of a fiber that are hidden.
    pub(crate) fn hidden(&self, fiber: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[fiber].1..self.starts[fiber + 1].0]
    }
}
