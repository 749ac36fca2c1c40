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
        let all = fibers.len();
        let sampled = keep_places(fibers, self.zeros);
        self.complete &= sampled.len() == all;
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
                let all = std::mem::replace(&mut step.1, CountFibers::new(self.features));
                step.1 = keep_places(all, self.zeros);
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
        let steps: Vec<&CountFibers> =
            self.steps.iter().take_while(|own| own.0 < step).map(|own| &own.1).collect();
        // Place, step and number of each fiber.
        let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(steps.iter().map(|own| own.len()).sum());
        for (own, step) in steps.iter().zip(0..) {
            order.extend(own.places.iter().zip(0..).map(|(place, at)| (place.key(), step, at)));
        }
        order.sort_unstable();
        let most = steps.iter().map(|own| own.fibers.nnz()).sum();
        let mut pooled = CountFibers::with_capacity(self.features, order.len(), most);
        let mut cells: Vec<(u32, f64)> = Vec::new();
        for fibers in order.chunk_by(|a, b| a.0 == b.0) {
            let columns = fibers.iter().map(|&(_, step, at)| steps[step as usize].fibers.column(at as usize));
            cells.clear();
            columns.for_each(|column| cells.extend_from_slice(column));
            // The sort is stable, so that the events of a cell are added in the order of the steps.
            cells.sort_by_key(|cell| cell.0);
            cells.dedup_by(|next, sum| {
                let same = next.0 == sum.0;
                sum.1 += if same { next.1 } else { 0.0 };
                same
            });
            pooled.fibers.push(&cells);
            pooled.places.push(Place::from_key(fibers[0].0));
        }
        pooled
    }
}

/// The fibers at places whose hash has at least this many leading zero bits.
pub(crate) fn keep_places(fibers: CountFibers, zeros: u32) -> CountFibers {
    if zeros == 0 {
        return fibers;
    }
    let kept: Vec<usize> =
        (0..fibers.len()).filter(|&at| fibers.places[at].hash().leading_zeros() >= zeros).collect();
    let matrix: Sparse = fibers.fibers.gather(&kept);
    CountFibers { fibers: matrix, places: kept.iter().map(|&at| fibers.places[at]).collect() }
}
