//! What the steps of the pool lead to expect at a place.
//!
//! ```text
//! h, E         the events of the place and of all places in the past
//! x            the mix of patterns that the place had
//! r_ji, c_ki   the events of pattern i in row j and in col k; w_i in all
//! u            = sum_i r_ji c_ki / w_i / E, the share of the place in all events, as far as row and col tell
//! ```

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use crate::discover::counts::hidden::CountFibers;
use crate::encode::counts::CountCoder;
use crate::shape::Place;

/// A number of events that is spread over all places: something may happen anywhere.
const ANYWHERE: f64 = 0.5;

/// The past of all places.
pub(crate) struct Past {
    /// Number of steps.
    pub(crate) steps: f64,
    /// E, the number of events.
    pub(crate) events: f64,
    /// The number of places for each one whose past is kept.
    part: f64,
    places: BTreeMap<u64, History>,
    /// r, c and w: for each row, for each col and for all, the events of each pattern.
    rows: HashMap<u32, Vec<f64>>,
    cols: HashMap<u32, Vec<f64>>,
    patterns: Vec<f64>,
}

/// The past of one place.
#[derive(Default)]
pub(crate) struct History {
    /// h, the number of events.
    pub(crate) events: f64,
    /// The number of events of each feature, by increasing feature.
    pub(crate) features: Vec<(u32, f64)>,
    /// x, the share of each pattern in the events.
    pub(crate) mix: Vec<f64>,
}

/// The fibers of a step: as they were learned from, and as counts that were not damped.
pub(crate) struct StepFibers {
    pub(crate) learned: CountFibers,
    pub(crate) counts: CountFibers,
}

impl Past {
    /// Adds up these steps, where 1 of 2^`zeros` places is kept.
    pub(crate) fn new(coder: &CountCoder, steps: &[StepFibers], zeros: u32) -> Past {
        let mut cells: Vec<(u64, u32, f64, f64)> = Vec::new();
        for step in steps {
            let columns = step.learned.fibers.columns().zip(step.counts.fibers.columns());
            for (place, (learned, counts)) in step.counts.places.iter().zip(columns) {
                let both = learned.iter().zip(counts);
                cells.extend(both.map(|(learned, count)| (place.key(), count.0, learned.1, count.1)));
            }
        }
        // The sort is stable, so that the events of a cell are added in the order of the steps.
        cells.sort_by_key(|cell| (cell.0, cell.1));
        let m = coder.rows().patterns();
        let history = |cells: &&[(u64, u32, f64, f64)]| -> (u64, History) {
            let (mut learned, mut features) = (Vec::new(), Vec::<(u32, f64)>::new());
            for cell in cells.chunk_by(|a, b| a.1 == b.1) {
                learned.push((cell[0].1, cell.iter().map(|part| part.2).sum()));
                features.push((cell[0].1, cell.iter().map(|part| part.3).sum()));
            }
            let mut mix = coder.soft(Place::from_key(cells[0].0), &learned);
            mix.truncate(m);
            let total: f64 = mix.iter().sum();
            mix.iter_mut().for_each(|x| *x /= total);
            (cells[0].0, History { events: features.iter().map(|entry| entry.1).sum(), features, mix })
        };
        let places: Vec<&[(u64, u32, f64, f64)]> = cells.chunk_by(|a, b| a.0 == b.0).collect();
        let places: Vec<(u64, History)> = places.par_iter().with_min_len(64).map(history).collect();

        let (mut rows, mut cols) = (HashMap::new(), HashMap::new());
        let mut patterns = vec![ANYWHERE / m as f64; m];
        for (key, history) in &places {
            let place = Place::from_key(*key);
            let add = |sums: &mut Vec<f64>| {
                sums.iter_mut().zip(&history.mix).for_each(|(sum, x)| *sum += x * history.events);
            };
            add(&mut patterns);
            add(rows.entry(place.row).or_insert_with(|| vec![0.0; m]));
            add(cols.entry(place.col).or_insert_with(|| vec![0.0; m]));
        }
        Past {
            steps: steps.len() as f64,
            events: patterns.iter().sum(),
            part: f64::from(zeros).exp2(),
            places: places.into_iter().collect(),
            rows,
            cols,
            patterns,
        }
    }

    /// The places with events, ordered by place.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.places.keys().map(|key| Place::from_key(*key))
    }

    /// The past of a place. None if it had no events.
    pub(crate) fn history(&self, place: Place) -> Option<&History> {
        self.places.get(&place.key())
    }

    /// u, the share of a place in all events that its row and col lead to expect. A row or col that is not known is
    /// like the mean of all.
    pub(crate) fn share(&self, place: Place) -> f64 {
        let line = |lines: &HashMap<u32, Vec<f64>>, at: u32, i: usize| {
            lines.get(&at).map_or(self.patterns[i] / lines.len() as f64, |events| events[i])
        };
        let both =
            |i: usize| line(&self.rows, place.row, i) * line(&self.cols, place.col, i) / self.patterns[i];
        let anywhere = ANYWHERE / (self.rows.len() * self.cols.len()) as f64;
        ((0..self.patterns.len()).map(both).sum::<f64>() * self.part + anywhere) / self.events
    }

    /// The mix of patterns that row and col lead to expect at a place: shares that add up to 1. One event with the
    /// mix of all events is added to each row and col.
    pub(crate) fn mix(&self, place: Place) -> Vec<f64> {
        let line = |events: Option<&Vec<f64>>, i: usize| {
            events.map_or(0.0, |events| events[i]) + self.patterns[i] / self.events
        };
        let (row, col) = (self.rows.get(&place.row), self.cols.get(&place.col));
        let both = |i: usize| line(row, i) * line(col, i) / self.patterns[i];
        let mut mix: Vec<f64> = (0..self.patterns.len()).map(both).collect();
        let sum: f64 = mix.iter().sum();
        mix.iter_mut().for_each(|share| *share /= sum);
        mix
    }
}
