//! Looks at all places of a step.

use std::collections::{BTreeMap, HashMap};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::discover::counts::hidden::CountFibers;
use crate::encode::counts::{CountCoder, expected};
use crate::parallel::message;
use crate::parallel::team::{Team, rank_range};
use crate::shape::Place;
use crate::surprise::past::{History, Past, StepFibers};
use crate::surprise::shape::{self, Cell};
use crate::surprise::total::{self, Before};

/// At most this many surprises of a step are significant.
const MOST_LISTED: usize = 20;

/// The probability that a step in which nothing is unusual has a significant surprise.
const FALSE_ALARM: f64 = 0.01;

/// Laws are estimated from at most this many places of a step, and from further steps until there are as many.
const SAMPLE: usize = 256;

/// The largest difference of log-likelihoods that one place contributes, so that no single place decides on a law.
const MOST_NATS: f64 = 4.0;

/// Maximum number of features that are named for a place.
const MOST_FEATURES: usize = 5;

/// Features are named whose excess makes the fiber less likely by this difference of log-likelihoods.
const LEAST_EXCESS: f64 = 2.0;

/// How unlikely the events at one place are in one step, given the steps before it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Surprise {
    /// The place.
    pub place: Place,
    /// Number of events. 0 if the place has none, although events were expected.
    pub events: f64,
    /// Expected number of events.
    pub expected: f64,
    /// The p-value of the number of events: the probability that it is as far above or below what is expected.
    pub p_total: f64,
    /// The p-value of the features of the events, given their number. 1 if there are no events.
    pub p_shape: f64,
    /// The features that are too many, the most striking first; 5 at most.
    pub features: Vec<Excess>,
}

/// A feature that is too many at a place.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Excess {
    /// The feature.
    pub feature: usize,
    /// Number of events with this feature.
    pub events: f64,
    /// Expected number of them. If the place has fewer events than expected, it is the number expected among these.
    pub expected: f64,
}

impl Surprise {
    /// The smaller one of the two p-values.
    pub fn p(&self) -> f64 {
        self.p_total.min(self.p_shape)
    }
}

/// Returns the surprises that are significant, among all surprises of a step, the worst first. There are at most 20.
///
/// Their smaller p-value, times the number of all p-values of the step, is below 0.01: a step in which nothing is
/// unusual has one with a probability of 1 %.
pub fn significant(all: &[Surprise]) -> &[Surprise] {
    let limit = FALSE_ALARM / (2 * all.len()).max(1) as f64;
    let count = all.iter().take_while(|surprise| surprise.p() < limit).count();
    &all[..count.min(MOST_LISTED)]
}

/// The shape of a place: the events and the steps of its past, the expected number of events, and its cells with
/// events.
type Shaped = ([f64; 3], Vec<(Cell, f64)>);

/// What places are judged by.
pub(crate) struct Judge<'a> {
    /// Codes under the patterns before the step.
    pub(crate) coder: &'a CountCoder,
    /// The share of each feature in all events.
    pub(crate) mean: &'a [f64],
    pub(crate) seed: u64,
    /// The number of the step.
    pub(crate) step: u64,
}

/// A step, and what was known before it.
struct Moment {
    past: Past,
    looks: Vec<Look>,
}

/// A place that is looked at.
struct Look {
    place: Place,
    fiber: Vec<(u32, f64)>,
    events: f64,
    before: Before,
}

impl Moment {
    /// Looks at the fibers of a step.
    fn new(past: Past, counts: &CountFibers) -> Moment {
        let mut places: BTreeMap<u64, Vec<(u32, f64)>> =
            past.places().map(|it| (it.key(), Vec::new())).collect();
        let with_events = counts.places.iter().zip(counts.fibers.columns());
        places.extend(with_events.map(|(place, fiber)| (place.key(), fiber.to_vec())));
        let look = |(key, fiber): (u64, Vec<(u32, f64)>)| {
            let place = Place::from_key(key);
            let own = past.history(place).map_or(0.0, |history| history.events);
            let (all, steps, share) = (past.events, past.steps, past.share(place));
            let before = Before { events: own, all, steps, share, now: 0.0 };
            Look { place, events: fiber.iter().fold(0.0, |sum, entry| sum + entry.1), fiber, before }
        };
        let mut looks: Vec<Look> = places.into_iter().map(look).collect();
        let now = level(&looks);
        looks.iter_mut().for_each(|look| look.before.now = now);
        looks.retain(|look| look.events > 0.0 || look.before.is_usual());
        Moment { past, looks }
    }

    /// A sample of the places: half of it are those with the longest past.
    fn sample(&self) -> Vec<(&Past, &Look)> {
        let mut sample: Vec<&Look> = self.looks.iter().collect();
        sample.sort_by(|a, b| b.before.events.total_cmp(&a.before.events));
        let rest = sample.len().min(SAMPLE / 2);
        sample[rest..].sort_by_key(|look| look.place.hash());
        sample.truncate(SAMPLE);
        sample.into_iter().map(|look| (&self.past, look)).collect()
    }
}

/// Returns the number of events of a step to which all places are compared. A place that exceeds what is expected by
/// far does not make all others look small.
fn level(looks: &[Look]) -> f64 {
    let mut level = looks.iter().map(|look| look.events).sum::<f64>();
    for _ in 0..3 {
        let usual = |look: &Look| level * look.before.share.max(look.before.events / look.before.all);
        level = looks.iter().map(|look| look.events.min(5.0 + 3.0 * usual(look))).sum();
    }
    level.max(1e-9)
}

/// Returns the choices that make all observations most likely. Each choice climbs from its start in turn, twice; the
/// last two also climb together, because more of one may stand for less of the other. `nats` returns the
/// log-likelihood of each observation.
fn most_likely<const N: usize>(
    choices: [(&[f64], usize); N],
    nats: impl Fn([f64; N]) -> Vec<f64>,
) -> [f64; N] {
    let direction = |up: usize, down: usize| -> [isize; N] {
        std::array::from_fn(|at| isize::from(at == up) - isize::from(at == down))
    };
    let singles = (0..N).flat_map(|at| [direction(at, N), direction(N, at)]);
    let directions: Vec<_> = singles.chain([direction(N - 1, N - 2), direction(N - 2, N - 1)]).collect();
    let law = |at: [usize; N]| std::array::from_fn(|choice| choices[choice].0[at[choice]]);
    let mut at = choices.map(|choice| choice.1);
    let mut best = nats(law(at));
    // Both rounds look at many of the same laws.
    let mut known: HashMap<[usize; N], Vec<f64>> = HashMap::from([(at, best.clone())]);
    for direction in directions.iter().chain(&directions) {
        loop {
            let next = std::array::from_fn(|choice| at[choice].wrapping_add_signed(direction[choice]));
            if (0..N).any(|choice| next[choice] >= choices[choice].0.len()) {
                break;
            }
            let other = known.entry(next).or_insert_with(|| nats(law(next)));
            let gain =
                other.iter().zip(&best).map(|(a, b)| (a - b).clamp(-MOST_NATS, MOST_NATS)).sum::<f64>();
            if gain <= 0.0 {
                break;
            }
            (at, best) = (next, other.clone());
        }
    }
    law(at)
}

/// The number of uniform p-values that are added to those of a step before they are calibrated.
const UNIFORM: usize = 32;

/// The share of p-values that a calibration looks at.
const TYPICAL: f64 = 0.1;

/// Raises the p-values of shapes, of places of about the same size, to the power at which a tenth of them is below a
/// tenth, if more are. Shapes vary in more ways than the law knows, and what is usual in a step is no surprise.
fn calibrate(mut places: Vec<&mut Surprise>) {
    // Each size is four times as large as the one before.
    let size = |place: &Surprise| (place.events.log2() / 2.0) as u32;
    places.sort_by_key(|place| size(place));
    for places in places.chunk_by_mut(|a, b| size(a) == size(b)) {
        let uniform = (0..UNIFORM).map(|at| (at as f64 + 0.5) / UNIFORM as f64);
        let mut all: Vec<f64> = places.iter().map(|place| place.p_shape).chain(uniform).collect();
        all.sort_unstable_by(f64::total_cmp);
        let typical = all[(TYPICAL * all.len() as f64) as usize];
        let power = (TYPICAL.ln() / typical.ln()).min(1.0);
        places.iter_mut().for_each(|place| place.p_shape = place.p_shape.powf(power));
    }
}

impl Judge<'_> {
    /// Looks at the places of a step, after `steps` of the pool. The fibers of the step are those of all ranks at
    /// places whose hash has `zeros` leading zero bits; so are the steps. All ranks of the team call this together,
    /// and get all surprises, the worst first.
    pub(crate) fn judge(
        &self,
        steps: &[StepFibers],
        fibers: &CountFibers,
        zeros: u32,
        team: &dyn Team,
    ) -> Vec<Surprise> {
        if steps.is_empty() || self.coder.rows().patterns() == 0 {
            return Vec::new();
        }
        let now = Moment::new(Past::new(self.coder, steps, zeros), fibers);
        let mut moments = Vec::new();
        let mut count = now.looks.len();
        for at in (1..steps.len()).rev() {
            if count >= SAMPLE {
                break;
            }
            moments.push(Moment::new(Past::new(self.coder, &steps[..at], zeros), &steps[at].counts));
            count += moments.last().map_or(0, |moment| moment.looks.len());
        }
        moments.push(now);
        let (total_law, shape_law) = self.laws(&moments);
        let Some(Moment { past, looks }) = moments.last() else { return Vec::new() };
        let share = rank_range(team, looks.len() as u64);
        let own = &looks[share.start as usize..share.end as usize];
        let judge = |look: &Look| self.surprise(past, look, &total_law, &shape_law);
        let own: Vec<Surprise> = own.par_iter().with_min_len(16).map(judge).collect();
        let mut surprises = message::gather(team, own).concat();
        calibrate(surprises.iter_mut().filter(|it| it.events > 0.0).collect());
        surprises.sort_by(|a, b| a.p().total_cmp(&b.p()).then(a.place.key().cmp(&b.place.key())));
        surprises
    }

    /// The laws that make the totals and shapes of some steps most likely.
    fn laws(&self, moments: &[Moment]) -> (total::Law, shape::Law) {
        let sample: Vec<(&Past, &Look)> = moments.iter().flat_map(Moment::sample).collect();
        let total = |choice: [f64; 3]| -> Vec<f64> {
            let law = total::Law::new(choice);
            sample
                .par_iter()
                .with_min_len(64)
                .map(|(_, look)| law.log_likelihood(&look.before, look.events))
                .collect()
        };
        let total = total::Law::new(most_likely(total::Law::CHOICES, total));
        let shape = |(past, look): &(&Past, &Look)| {
            let features: Vec<usize> = look.fiber.iter().map(|entry| entry.0 as usize).collect();
            let counts = look.fiber.iter().map(|entry| entry.1);
            let cells: Vec<(Cell, f64)> = self.cells(past, look, &features).into_iter().zip(counts).collect();
            ([look.before.events, look.before.steps, total.predict(&look.before).mean], cells)
        };
        let with_events = sample.par_iter().with_min_len(16).filter(|(_, look)| look.events > 0.0);
        let sample: Vec<Shaped> = with_events.map(shape).collect();
        let shape = |choice: [f64; 5]| -> Vec<f64> {
            let law = shape::Law::new(choice);
            let nats = |([events, steps, expected], cells): &Shaped| {
                law.urn(*events, *steps, *expected).log_likelihood(cells)
            };
            sample.par_iter().with_min_len(16).map(nats).collect()
        };
        (total, shape::Law::new(most_likely(shape::Law::CHOICES, shape)))
    }

    /// What is known about some features at a place, given by increasing number.
    fn cells(&self, past: &Past, look: &Look, features: &[usize]) -> Vec<Cell> {
        let rows = self.coder.rows();
        let padded = |mix: &[f64]| {
            let mut padded = mix.to_vec();
            padded.resize(rows.stride(), 0.0);
            padded
        };
        let nothing = History::default();
        let history = past.history(look.place).unwrap_or(&nothing);
        let (by_place, by_lines) = (padded(&history.mix), padded(&past.mix(look.place)));
        let mut own = history.features.iter().peekable();
        let cell = |&feature: &usize| {
            while own.next_if(|entry| (entry.0 as usize) < feature).is_some() {}
            let events = own.peek().filter(|entry| entry.0 as usize == feature).map_or(0.0, |entry| entry.1);
            let row = rows.row(feature);
            Cell {
                own: if events > 0.0 { events / history.events } else { 0.0 },
                by_place: expected(row, &by_place),
                by_lines: expected(row, &by_lines),
                mean: self.mean[feature],
            }
        };
        features.iter().map(cell).collect()
    }

    /// The surprise of a place.
    fn surprise(&self, past: &Past, look: &Look, total: &total::Law, shape: &shape::Law) -> Surprise {
        let (events, expected) = (look.events, total.predict(&look.before).mean);
        let mut surprise = Surprise {
            place: look.place,
            events,
            expected,
            p_total: total.tails(&look.before, events).p_value(),
            p_shape: 1.0,
            features: Vec::new(),
        };
        if events > 0.0 {
            let cells = self.cells(past, look, &(0..self.mean.len()).collect::<Vec<_>>());
            let urn = shape.urn(look.before.events, look.before.steps, expected);
            surprise.p_shape = urn.p_value(&cells, &look.fiber, &mut self.rng(look.place));
            let expected = |feature: usize| expected.min(events) * urn.share(&cells[feature]);
            surprise.features = too_many(&look.fiber, expected);
        }
        surprise
    }

    /// A random number generator for a place. It depends neither on threads nor on ranks.
    fn rng(&self, place: Place) -> ChaCha8Rng {
        let step = self.step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = self.seed.wrapping_mul(0xd1b5_4a32_d192_ed03);
        ChaCha8Rng::seed_from_u64(place.hash() ^ step.rotate_left(17) ^ seed.rotate_left(41))
    }
}

/// The features of a fiber that are too many, with these expected numbers of events.
fn too_many(fiber: &[(u32, f64)], expected: impl Fn(usize) -> f64) -> Vec<Excess> {
    let excess = |&(feature, events): &(u32, f64)| {
        let expected = expected(feature as usize).max(1e-300);
        let nats =
            if events > expected { events * (events / expected).ln() - (events - expected) } else { 0.0 };
        (nats, Excess { feature: feature as usize, events, expected })
    };
    let mut features: Vec<(f64, Excess)> = fiber.iter().map(excess).collect();
    features.retain(|feature| feature.0 > LEAST_EXCESS);
    features.sort_by(|a, b| b.0.total_cmp(&a.0));
    features.truncate(MOST_FEATURES);
    features.into_iter().map(|feature| feature.1).collect()
}
