//! The fibers of the latest steps, added up by place.

use std::collections::VecDeque;

use crate::data::sparse::Sparse;
use crate::discover::counts::hidden::CountFibers;
use crate::shape::Place;

/// Minimum number of steps in the pool, as far as there are as many.
const MIN_STEPS: usize = 6;

/// Minimum number of events for each feature in the pool, as far as there are as many.
const EVENTS_PER_FEATURE: f64 = 128.0;

/// Maximum number of cells in the pool that are not empty. If there are more, a sample of the places is kept.
pub(crate) const MAX_CELLS: usize = 1 << 17;

/// How many tests are made while all events of the pool are replaced.
pub(crate) const TESTS_PER_POOL: f64 = 6.0;

/// The fibers of the latest steps.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pool {
    features: usize,
    /// The latest steps: number and fibers.
    pub(crate) steps: VecDeque<(u64, CountFibers)>,
    /// Whether the pool has all fibers of all steps so far.
    complete: bool,
    /// Only places whose hash has this many leading zero bits are kept.
    pub(crate) zeros: u32,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(features: usize) -> Pool {
        Pool { features, steps: VecDeque::new(), complete: true, zeros: 0 }
    }

    /// Whether all parts fit together. A pool from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize) -> bool {
        let sound = |fibers: &CountFibers| {
            fibers.fibers.rows() == features
                && fibers.fibers.is_sound()
                && fibers.fibers.cols() == fibers.places.len()
                && fibers.fibers.columns().flatten().all(|entry| entry.1 > 0.0)
        };
        self.features == features && self.zeros <= u64::BITS && self.steps.iter().all(|step| sound(&step.1))
    }

    /// n, the number of features.
    pub(crate) fn features(&self) -> usize {
        self.features
    }

    /// Forgets all fibers.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.complete = false;
    }

    /// Whether the pool has all fibers of all steps so far.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The last step, 0 if there is none.
    pub(crate) fn last_step(&self) -> u64 {
        self.steps.back().map_or(0, |step| step.0)
    }

    /// The number of events in the pool.
    pub(crate) fn events(&self) -> f64 {
        self.steps.iter().map(|step| step.1.events()).sum()
    }

    /// Adds the fibers of a step, and drops the oldest steps that are not needed any more. Fibers are ordered by place.
    pub(crate) fn add(&mut self, step: u64, fibers: CountFibers) {
        let sampled = keep_places(&fibers, self.zeros);
        self.complete &= sampled.len() == fibers.len();
        self.steps.push_back((step, sampled));
        let enough = EVENTS_PER_FEATURE * self.features as f64;
        let mut events = self.events();
        while self.steps.len() > MIN_STEPS {
            let oldest = self.steps[0].1.events();
            if events - oldest < enough {
                break;
            }
            events -= oldest;
            self.steps.pop_front();
            self.complete = false;
        }
        while self.cells() > MAX_CELLS && self.zeros < u64::BITS {
            self.zeros += 1;
            self.complete = false;
            for step in &mut self.steps {
                step.1 = keep_places(&step.1, self.zeros);
            }
        }
    }

    fn cells(&self) -> usize {
        self.steps.iter().map(|step| step.1.fibers.nnz()).sum()
    }

    /// The fibers of each step, from the oldest to the latest.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &CountFibers> {
        self.steps.iter().map(|step| &step.1)
    }

    /// The fibers of all steps, added up by place and ordered by place.
    pub(crate) fn fibers(&self) -> CountFibers {
        self.fibers_before(u64::MAX)
    }

    /// The fibers of all steps before `step`, added up by place and ordered by place.
    pub(crate) fn fibers_before(&self, step: u64) -> CountFibers {
        let mut cells: Vec<(u64, u32, f64)> = Vec::with_capacity(self.cells());
        for (_, step) in self.steps.iter().take_while(|own| own.0 < step) {
            for (place, column) in step.places.iter().zip(step.fibers.columns()) {
                cells.extend(column.iter().map(|&(feature, y)| (place.key(), feature, y)));
            }
        }
        // The sort is stable, so that the events of a cell are added in the order of the steps.
        cells.sort_by_key(|cell| (cell.0, cell.1));
        let mut pooled = CountFibers::new(self.features);
        for fiber in cells.chunk_by(|a, b| a.0 == b.0) {
            let sum = |cell: &[(u64, u32, f64)]| (cell[0].1, cell.iter().map(|part| part.2).sum());
            let column: Vec<(u32, f64)> = fiber.chunk_by(|a, b| a.1 == b.1).map(sum).collect();
            pooled.fibers.push(&column);
            pooled.places.push(Place::from_key(fiber[0].0));
        }
        pooled
    }
}

/// The fibers at places whose hash has at least this many leading zero bits.
pub(crate) fn keep_places(fibers: &CountFibers, zeros: u32) -> CountFibers {
    if zeros == 0 {
        return fibers.clone();
    }
    let kept: Vec<usize> =
        (0..fibers.len()).filter(|&at| fibers.places[at].hash().leading_zeros() >= zeros).collect();
    let matrix: Sparse = fibers.fibers.gather(&kept);
    CountFibers { fibers: matrix, places: kept.iter().map(|&at| fibers.places[at]).collect() }
}
