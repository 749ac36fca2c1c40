//! What each place had in earlier steps, and what that leads to expect.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use crate::discover::counts::hidden::CountFibers;
use crate::encode::counts::FeatureRows;
use crate::shape::Place;
use crate::surprise::calibration::Calibration;
use crate::surprise::total::{Events, RECENT};
use crate::surprise::{shape, total};

/// Maximum number of cells (place and feature) whose past is kept. If there are more, a sample of the places is kept, and
/// only these are looked at.
const MOST_CELLS: usize = 1 << 18;

/// The weight of the features of a place in earlier steps, in events.
const MOST_EVENTS: f64 = 256.0;

/// The past of a stream of counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Past {
    /// Number of steps.
    pub(crate) steps: f64,
    /// Number of events of these steps.
    pub(crate) events: Events,
    /// Only places whose hash has this many leading zero bits are kept.
    zeros: u32,
    /// Number of patterns among which the events are divided.
    patterns: usize,
    /// The past of each place, by its key.
    places: BTreeMap<u64, Visits>,
    pub(crate) scores: Scores,
}

/// The log-likelihoods of the latest steps under all laws.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Scores {
    /// For each law of totals.
    pub(crate) totals: Vec<f64>,
    /// For each prediction of shapes.
    pub(crate) predictions: Vec<f64>,
    /// For each dispersion of shapes.
    pub(crate) dispersions: Vec<f64>,
    /// The calibration of p-values of totals.
    pub(crate) total_calibration: Calibration,
    /// The calibration of p-values of shapes.
    pub(crate) shape_calibration: Calibration,
}

impl Scores {
    fn new() -> Scores {
        Scores {
            totals: vec![0.0; total::Law::all().len()],
            predictions: vec![0.0; shape::Prediction::all().len()],
            dispersions: vec![0.0; shape::Dispersion::all().len()],
            total_calibration: Calibration::new(),
            shape_calibration: Calibration::new(),
        }
    }

    /// The most likely law of totals.
    pub(crate) fn total_law(&self) -> total::Law {
        total::Law::all()[best(&self.totals)]
    }

    /// The most likely law of shapes.
    pub(crate) fn shape_law(&self) -> shape::Law {
        let prediction = shape::Prediction::all()[best(&self.predictions)];
        shape::Law { prediction, dispersion: shape::Dispersion::all()[best(&self.dispersions)] }
    }

    /// Whether there is a score for every law. Scores from a file may fail this.
    fn is_sound(&self) -> bool {
        let new = Scores::new();
        self.total_calibration.is_sound()
            && self.shape_calibration.is_sound()
            && self.totals.len() == new.totals.len()
            && self.predictions.len() == new.predictions.len()
            && self.dispersions.len() == new.dispersions.len()
            && self.totals.iter().chain(&self.predictions).chain(&self.dispersions).all(|score| score.is_finite())
    }
}

/// Returns the position of the largest score, the first of equal ones.
fn best(scores: &[f64]) -> usize {
    (1..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
}

impl Visits {
    /// Takes the events of a step.
    fn add(&mut self, fiber: &[(u32, f64)]) {
        let total = |entries: &[(u32, f64)]| entries.iter().map(|entry| entry.1).sum::<f64>();
        self.times += 1.0;
        self.events.all += total(fiber);
        self.events.recent += total(fiber);
        self.features = add_entries(&self.features, fiber);
        let kept = (MOST_EVENTS / total(&self.features)).min(1.0);
        self.features.iter_mut().chain(&mut self.patterns).for_each(|entry| entry.1 *= kept);
    }
}

/// A step that becomes a part of the past.
pub(crate) struct NewStep<'a> {
    /// The fibers of all ranks at places whose hash has `zeros` leading zero bits, ordered by place.
    pub(crate) fibers: &'a CountFibers,
    pub(crate) zeros: u32,
    /// Number of events to which all places are compared.
    pub(crate) events: f64,
    /// The scores of all laws, with those of this step.
    pub(crate) scores: Scores,
    /// The patterns after the step.
    pub(crate) rows: &'a FeatureRows,
}

/// The past of one place.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Visits {
    /// Number of steps in which the place had events.
    times: f64,
    /// Number of events.
    events: Events,
    /// Number of events of each feature, of [`MOST_EVENTS`] at most: older events count less.
    features: Vec<(u32, f64)>,
    /// Number of these events of each pattern.
    patterns: Vec<(u32, f64)>,
}

impl Past {
    /// The past before the first step.
    pub(crate) fn new() -> Past {
        Past { steps: 0.0, events: Events::default(), zeros: 0, patterns: 0, places: BTreeMap::new(), scores: Scores::new() }
    }

    /// Whether there is no past.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() || self.events.all <= 0.0
    }

    /// Whether all parts fit together. A past from a file may fail this.
    pub(crate) fn is_sound(&self, features: usize, patterns: usize) -> bool {
        let positive = |value: f64| value.is_finite() && value >= 0.0;
        let entries = |entries: &[(u32, f64)], length: usize| {
            entries.is_sorted_by(|a, b| a.0 < b.0)
                && entries.iter().all(|&(i, x)| (i as usize) < length && x.is_finite() && x > 0.0)
        };
        let visits = |visits: &Visits| {
            positive(visits.times)
                && positive(visits.events.all)
                && positive(visits.events.recent)
                && !visits.features.is_empty()
                && entries(&visits.features, features)
                && entries(&visits.patterns, patterns)
        };
        positive(self.steps)
            && positive(self.events.all)
            && positive(self.events.recent)
            && self.zeros <= u64::BITS
            && self.patterns <= patterns
            && self.places.values().all(visits)
            && self.scores.is_sound()
    }

    fn keeps(&self, place: Place, zeros: u32) -> bool {
        place.hash().leading_zeros() >= self.zeros.max(zeros)
    }

    /// The places to look at, with their fibers, ordered by place: those with events, and those that had events before,
    /// as far as they are kept.
    pub(crate) fn places_with<'a>(&self, fibers: &'a CountFibers, zeros: u32) -> Vec<(Place, &'a [(u32, f64)])> {
        let with_events = fibers.places.iter().copied().zip(fibers.fibers.columns());
        let mut places: BTreeMap<u64, &'a [(u32, f64)]> =
            self.places.keys().map(|&key| (key, &[][..])).collect();
        places.extend(with_events.map(|(place, fiber)| (place.key(), fiber)));
        let places = places.into_iter().map(|(key, fiber)| (Place::from_key(key), fiber));
        places.filter(|place| self.keeps(place.0, zeros)).collect()
    }

    /// What is known about the total of a place.
    pub(crate) fn total_before(&self, margins: &Margins, place: Place) -> total::Before {
        let events = self.places.get(&place.key()).map_or(Events::default(), |visits| visits.events);
        let share = margins.events(place) * f64::from(self.zeros).exp2() / self.events.all;
        total::Before { events, share: share.max(1e-300) }
    }

    /// What is known about the shape of a place at which this many events are expected.
    pub(crate) fn shape_before(&self, margins: &Margins, place: Place, expected: f64) -> shape::Before {
        let Visits { times, features, patterns, .. } = self.places.get(&place.key()).cloned().unwrap_or_default();
        shape::Before { mix: margins.mix(place), times, features, patterns, expected }
    }

    /// Takes a step into the past, after a share of the past was forgotten.
    pub(crate) fn add(&mut self, step: NewStep<'_>, forgetting: f64) {
        let NewStep { fibers, zeros, events, scores, rows } = step;
        if rows.patterns() == 0 {
            return;
        }
        self.scores = scores;
        self.forget(forgetting);
        self.steps += 1.0;
        self.events.all += events;
        self.events.recent += events;
        let mut changed = Vec::new();
        for (place, fiber) in fibers.places.iter().zip(fibers.fibers.columns()) {
            if self.keeps(*place, zeros) {
                self.places.entry(place.key()).or_default().add(fiber);
                changed.push(place.key());
            }
        }
        self.drop_places(zeros);
        // All events are divided again if there are new patterns.
        if self.patterns != rows.patterns() {
            changed = self.places.keys().copied().collect();
        }
        self.divide(rows, &changed);
    }

    /// Divides the events of some places among the patterns.
    fn divide(&mut self, rows: &FeatureRows, keys: &[u64]) {
        self.patterns = rows.patterns();
        let margins = Margins::of(self, self.patterns);
        let divide = |key: &u64| {
            let visits = self.places.get(key)?;
            let mix = margins.mix(Place::from_key(*key));
            Some((*key, shape::divide(rows, &visits.features, &mix, &visits.patterns)))
        };
        let divided: Vec<(u64, Vec<(u32, f64)>)> = keys.par_iter().with_min_len(64).filter_map(divide).collect();
        for (key, patterns) in divided {
            self.places.entry(key).and_modify(|visits| visits.patterns = patterns);
        }
    }

    /// Forgets a share of the past, and more of the latest steps.
    fn forget(&mut self, share: f64) {
        let kept = 1.0 - share;
        self.steps *= kept;
        self.events.all *= kept;
        self.events.recent *= RECENT;
        for visits in self.places.values_mut() {
            visits.times *= kept;
            visits.events.all *= kept;
            visits.events.recent *= RECENT;
        }
    }

    /// Drops places that steps such as the last one do not have, and more until there are few enough cells.
    fn drop_places(&mut self, zeros: u32) {
        let cells = |places: &BTreeMap<u64, Visits>| places.values().map(|it| it.features.len()).sum::<usize>();
        let events = |places: &BTreeMap<u64, Visits>| places.values().map(|it| it.events.all).sum::<f64>();
        let mut least = self.zeros.max(zeros);
        while least > self.zeros || (cells(&self.places) > MOST_CELLS && self.zeros < u64::BITS) {
            let all = events(&self.places);
            self.places.retain(|&key, _| Place::from_key(key).hash().leading_zeros() >= least);
            // The events of a step are those of the places that are kept.
            let kept = events(&self.places) / all;
            self.events = Events { all: self.events.all * kept, recent: self.events.recent * kept };
            self.zeros = least;
            least += u32::from(cells(&self.places) > MOST_CELLS);
        }
    }
}

/// Adds two lists of entries, each ordered by index.
fn add_entries(a: &[(u32, f64)], b: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut entries = [a, b].concat();
    entries.sort_by_key(|entry| entry.0);
    entries.dedup_by(|later, entry| {
        let same = later.0 == entry.0;
        entry.1 += if same { later.1 } else { 0.0 };
        same
    });
    entries
}

/// The past of rows and cols, and of all places.
#[derive(Debug)]
pub(crate) struct Margins {
    rows: HashMap<u32, Vec<f64>>,
    cols: HashMap<u32, Vec<f64>>,
    /// For each pattern, the number of events.
    patterns: Vec<f64>,
    events: f64,
}

impl Margins {
    /// Adds up the past of all places, for this many patterns.
    pub(crate) fn of(past: &Past, patterns: usize) -> Margins {
        let (mut rows, mut cols) = (HashMap::new(), HashMap::new());
        let mut all = vec![0.5; patterns];
        for (&key, visits) in &past.places {
            let place = Place::from_key(key);
            let divided: f64 = visits.patterns.iter().map(|entry| entry.1).sum();
            let part = visits.events.all / divided.max(1e-300);
            let add = |sums: &mut Vec<f64>| visits.patterns.iter().for_each(|&(i, x)| sums[i as usize] += x * part);
            add(&mut all);
            add(rows.entry(place.row).or_insert_with(|| vec![0.0; patterns]));
            add(cols.entry(place.col).or_insert_with(|| vec![0.0; patterns]));
        }
        let events = all.iter().sum();
        Margins { rows, cols, patterns: all, events }
    }

    /// The number of events that row and col lead to expect at a place in all earlier steps. A row that is not known is
    /// like the mean of all rows, and so is a col.
    fn events(&self, place: Place) -> f64 {
        let part = |lines: &HashMap<u32, Vec<f64>>, line: u32, i: usize| {
            lines.get(&line).map_or(self.patterns[i] / lines.len().max(1) as f64, |events| events[i])
        };
        let both = |i: usize| part(&self.rows, place.row, i) * part(&self.cols, place.col, i) / self.patterns[i];
        // Something may happen anywhere.
        (0..self.patterns.len()).map(both).sum::<f64>() + 0.5 / (self.rows.len() * self.cols.len()).max(1) as f64
    }

    /// The mix of patterns that row and col lead to expect at a place: shares that add up to 1. One event is added to each
    /// row and col, and divided as all events are.
    fn mix(&self, place: Place) -> Vec<f64> {
        let part = |events: Option<&Vec<f64>>, i: usize| {
            events.map_or(0.0, |events| events[i]) + self.patterns[i] / self.events
        };
        let (row, col) = (self.rows.get(&place.row), self.cols.get(&place.col));
        let both = |i: usize| part(row, i) * part(col, i) / self.patterns[i];
        let mut mix: Vec<f64> = (0..self.patterns.len()).map(both).collect();
        let sum: f64 = mix.iter().sum();
        mix.iter_mut().for_each(|share| *share /= sum);
        mix
    }
}
