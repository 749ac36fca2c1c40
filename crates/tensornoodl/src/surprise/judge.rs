//! Looks at all places of a step.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::data::dictionary::Dictionary;
use crate::discover::counts::hidden::CountFibers;
use crate::parallel::message;
use crate::parallel::team::{Team, rank_range};
use crate::shape::Place;
use crate::surprise::calibration::{SIZES, size};
use crate::surprise::past::{Margins, Past, Scores};
use crate::surprise::shape::{self, Effort, Patterns, Scratch, list_events};
use crate::surprise::total::{self, Exposure, Total};

/// A step lists at most this many surprises.
pub(crate) const MOST_LISTED: usize = 20;

/// The probability that a step in which nothing is unusual lists a surprise.
pub(crate) const FALSE_ALARM: f64 = 0.01;

/// Maximum number of places of each size from which laws are estimated in a step.
const SAMPLE: usize = 16;

/// Maximum number of places of each size from which p-values of totals are calibrated in a step.
const TOTALS: usize = 256;

/// The largest difference of log-likelihoods that one place contributes, so that no single place decides on a law.
const MOST_NATS: f64 = 4.0;

/// Maximum number of features that are named for a place.
const MOST_FEATURES: usize = 5;

/// Features are named whose excess makes the fiber less likely by this difference of log-likelihoods.
const LEAST_EXCESS: f64 = 2.0;

/// How unlikely the events at one place are in one step, given all earlier steps.
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

/// Sorts surprises, the smallest p-value first.
fn sort(surprises: &mut [Surprise]) {
    surprises.sort_by(|a, b| a.p().total_cmp(&b.p()).then(a.place.key().cmp(&b.place.key())));
}

/// The step whose places are judged.
pub(crate) struct Scene<'a> {
    /// The patterns before the step.
    pub(crate) dictionary: &'a Dictionary,
    /// The number of events that each pattern was learned from.
    pub(crate) pattern_events: &'a [f64],
    pub(crate) seed: u64,
    pub(crate) step: u64,
    /// The fibers of all ranks at places whose hash has `zeros` leading zero bits, ordered by place.
    pub(crate) fibers: &'a CountFibers,
    pub(crate) zeros: u32,
}

impl Scene<'_> {
    /// A random number generator for a place. It depends neither on threads nor on ranks.
    fn rng(&self, place: Place) -> ChaCha8Rng {
        let step = self.step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = self.seed.wrapping_mul(0xd1b5_4a32_d192_ed03);
        ChaCha8Rng::seed_from_u64(place.hash() ^ step.rotate_left(17) ^ seed.rotate_left(41))
    }
}

/// Whether all surprises are wanted, or those that are significant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// At most [`MOST_LISTED`] surprises whose p-value is below [`FALSE_ALARM`], divided by the number of p-values.
    Significant,
}

/// The result of looking at the places of a step.
pub(crate) struct Judgement {
    /// The worst come first.
    pub(crate) surprises: Vec<Surprise>,
    /// The events of the step, without the most extreme excess.
    pub(crate) events: f64,
    /// The scores of all laws, with those of this step.
    pub(crate) scores: Scores,
}

/// A place that is looked at.
struct Look<'a> {
    place: Place,
    fiber: &'a [(u32, f64)],
    total: Total,
}

/// Looks at the places of a step. All ranks of the team have the same past and scene, and get the same result.
pub(crate) fn judge(past: &Past, scene: &Scene<'_>, wanted: Wanted, team: &dyn Team) -> Judgement {
    let patterns = scene.dictionary.patterns();
    if past.is_empty() || patterns == 0 {
        let events = scene.fibers.events();
        return Judgement { surprises: Vec::new(), events, scores: past.scores.clone() };
    }
    let margins = Margins::of(past, patterns);
    let places = past.places_with(scene.fibers, scene.zeros);
    let exposure = Exposure { steps: past.steps, past: past.events, now: level(past, &margins, &places) };
    let looks = places.iter().filter_map(|&(place, fiber)| {
        let events = fiber.iter().fold(0.0, |sum, entry| sum + entry.1);
        let total = Total::new(past.total_before(&margins, place), events, exposure)?;
        Some(Look { place, fiber, total })
    });
    let looks: Vec<Look<'_>> = looks.collect();
    let judge = Judge {
        past,
        scene,
        margins: &margins,
        exposure,
        patterns: Patterns::new(scene.dictionary.features(), scene.dictionary.values()),
    };
    let scores = judge.scores(&looks);
    if std::env::var_os("LAWS").is_some() && scene.step % 8 == 1 { eprintln!("{} {:?} {:?} looks {} now {} {:?} {:?}", scene.step, scores.total_law(), scores.shape_law(), looks.len(), exposure.now, scores.total_calibration, scores.shape_calibration); }
    let limit = match wanted {
        Wanted::All => 1.0,
        Wanted::Significant => FALSE_ALARM / (2 * looks.len()).max(1) as f64,
    };
    let share = rank_range(team, looks.len() as u64);
    let own = &looks[share.start as usize..share.end as usize];
    let new = || Scratch::new(&judge.patterns);
    let surprise = |scratch: &mut Scratch, look: &Look<'_>| judge.surprise(look, &scores, limit, scratch);
    let mut own: Vec<Surprise> = own.par_iter().with_min_len(16).map_init(new, surprise).collect();
    if wanted == Wanted::Significant {
        own.retain(|surprise| surprise.p() < limit);
        sort(&mut own);
        own.truncate(MOST_LISTED);
    }
    let mut surprises = message::gather(team, own).concat();
    sort(&mut surprises);
    if wanted == Wanted::Significant {
        surprises.truncate(MOST_LISTED);
    }
    Judgement { surprises, events: exposure.now, scores }
}

/// Rounds of [`level`].
const LEVEL_ROUNDS: usize = 3;

/// Returns the number of events of a step to which all places are compared. A place that exceeds what is expected by far
/// does not make all others look small.
fn level(past: &Past, margins: &Margins, places: &[(Place, &[(u32, f64)])]) -> f64 {
    let expect = |&(place, fiber): &(Place, &[(u32, f64)])| {
        let before = past.total_before(margins, place);
        (fiber.iter().map(|entry| entry.1).sum::<f64>(), before.share.max(before.events.all / past.events.all))
    };
    let places: Vec<(f64, f64)> = places.iter().map(expect).collect();
    let mut level = places.iter().map(|place| place.0).sum::<f64>();
    for _ in 0..LEVEL_ROUNDS {
        level = places.iter().map(|&(events, share)| events.min(5.0 + 3.0 * level * share)).sum();
    }
    level.max(1e-9)
}

/// What is needed to judge places.
struct Judge<'a> {
    past: &'a Past,
    scene: &'a Scene<'a>,
    margins: &'a Margins,
    exposure: Exposure,
    patterns: Patterns,
}

impl Judge<'_> {
    /// Adds a sample of the places to the scores of the past.
    fn scores(&self, looks: &[Look<'_>]) -> Scores {
        let mut scores = self.past.scores.clone();
        let usual = |look: &Look<'_>| self.exposure.now * look.total.before.events.all / self.exposure.past.all;
        let sample = self.sample(looks.iter().collect(), usual, SAMPLE);
        let total = |look: &&Look<'_>| look.total.log_likelihoods(self.exposure);
        add_scores(&mut scores.totals, sample.par_iter().map(total).collect());
        let law = scores.total_law();
        let sample = self.sample(looks.iter().collect(), usual, TOTALS);
        let p_value = |look: &&Look<'_>| {
            let part = self.scene.rng(look.place).random::<f64>();
            (self.expected(look, &law), look.total.tails(&law, self.exposure).p_value(part))
        };
        scores.total_calibration.add(&sample.par_iter().map(p_value).collect::<Vec<_>>());

        let with_events = looks.iter().filter(|look| !look.fiber.is_empty()).collect();
        let sample = self.sample(with_events, |look| look.total.events, SAMPLE);
        let new = || Scratch::new(&self.patterns);
        let score = |laws: Vec<shape::Law>| -> Vec<Vec<f64>> {
            let shape = |scratch: &mut Scratch, look: &&Look<'_>| -> Vec<f64> {
                let events = list_events(look.fiber, &mut self.scene.rng(look.place));
                let before = self.shape_before(look, &law);
                scratch.load(&before);
                let urn = |law: &shape::Law| law.urn(&before, self.scene.pattern_events);
                laws.iter().map(|law| -urn(law).surprise(&self.patterns, &events, scratch)).collect()
            };
            sample.par_iter().map_init(new, shape).collect()
        };
        // One after the other: the dispersion under the prediction so far, then the prediction under that dispersion.
        let prediction = scores.shape_law().prediction;
        let laws = shape::Dispersion::all().into_iter().map(|dispersion| shape::Law { prediction, dispersion });
        add_scores(&mut scores.dispersions, score(laws.collect()));
        let dispersion = scores.shape_law().dispersion;
        let laws = shape::Prediction::all().into_iter().map(|prediction| shape::Law { prediction, dispersion });
        add_scores(&mut scores.predictions, score(laws.collect()));
        let shape_law = scores.shape_law();
        let p_value = |scratch: &mut Scratch, look: &&Look<'_>| {
            let before = self.shape_before(look, &law);
            (look.total.events, self.p_shape(look, &before, &shape_law, Effort::Calibrate, scratch))
        };
        scores.shape_calibration.add(&sample.par_iter().map_init(new, p_value).collect::<Vec<_>>());
        scores
    }

    /// A sample of the places, with at most `most` places of each size. It is another one in each step.
    fn sample<'l, 'f>(
        &self,
        mut looks: Vec<&'l Look<'f>>,
        events: impl Fn(&Look<'f>) -> f64,
        most: usize,
    ) -> Vec<&'l Look<'f>> {
        let turn = self.scene.step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        looks.sort_by_key(|look| look.place.hash().wrapping_mul(turn | 1));
        let mut counts = [0; SIZES];
        looks.retain(|look| {
            let count = &mut counts[size(events(look))];
            *count += 1;
            *count <= most
        });
        looks
    }

    /// The expected number of events of a place.
    fn expected(&self, look: &Look<'_>, law: &total::Law) -> f64 {
        law.expected(look.total.before, self.exposure)
    }

    fn shape_before(&self, look: &Look<'_>, law: &total::Law) -> shape::Before {
        self.past.shape_before(self.margins, look.place, self.expected(look, law))
    }

    /// The p-value of the shape of a place, which is not calibrated.
    fn p_shape(
        &self,
        look: &Look<'_>,
        before: &shape::Before,
        law: &shape::Law,
        effort: Effort,
        scratch: &mut Scratch,
    ) -> f64 {
        scratch.load(before);
        let mut rng = self.scene.rng(look.place);
        let events = list_events(look.fiber, &mut rng);
        let urn = law.urn(before, self.scene.pattern_events);
        urn.p_value(&self.patterns, &events, effort, scratch, &mut rng)
    }

    /// The surprise of a place. A p-value of its shape above `limit` may be rough.
    fn surprise(&self, look: &Look<'_>, scores: &Scores, limit: f64, scratch: &mut Scratch) -> Surprise {
        let (total_law, shape_law) = (scores.total_law(), scores.shape_law());
        let before = self.shape_before(look, &total_law);
        let (events, expected) = (look.total.events, before.expected);
        let p_total = look.total.tails(&total_law, self.exposure).p_value(0.5);
        let exponent = scores.shape_calibration.exponent(events);
        let effort = if limit < 1.0 { Effort::Below(limit.powf(1.0 / exponent)) } else { Effort::Exact };
        let p_shape = match look.fiber {
            [] => 1.0,
            _ => self.p_shape(look, &before, &shape_law, effort, scratch),
        };
        let urn = shape_law.urn(&before, self.scene.pattern_events);
        scratch.load(&before);
        let share = |feature: u32| urn.share(&self.patterns, feature, scratch);
        Surprise {
            place: look.place,
            events,
            expected,
            p_total: p_total.powf(scores.total_calibration.exponent(expected)),
            p_shape: p_shape.powf(exponent),
            features: too_many(look.fiber, expected.min(events), share),
        }
    }
}

/// The features of a fiber that are too many, if `events` events are expected, with these shares of the features.
fn too_many(fiber: &[(u32, f64)], events: f64, share: impl Fn(u32) -> f64) -> Vec<Excess> {
    let excess = |&(feature, y): &(u32, f64)| {
        let expected = (events * share(feature)).max(1e-300);
        let nats = if y > expected { y * (y / expected).ln() - (y - expected) } else { 0.0 };
        (nats, Excess { feature: feature as usize, events: y, expected })
    };
    let mut features: Vec<(f64, Excess)> = fiber.iter().map(excess).collect();
    features.retain(|feature| feature.0 > LEAST_EXCESS);
    features.sort_by(|a, b| b.0.total_cmp(&a.0));
    features.truncate(MOST_FEATURES);
    features.into_iter().map(|feature| feature.1).collect()
}

/// The number of places that scores remember.
const MEMORY: f64 = 2048.0;

/// Adds the log-likelihoods of places under each law, relative to the best law of each place.
fn add_scores(scores: &mut [f64], places: Vec<Vec<f64>>) {
    let kept = 1.0 - (places.len() as f64 / MEMORY).min(0.5);
    scores.iter_mut().for_each(|score| *score *= kept);
    for place in places {
        let best = place.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter_mut().zip(place).for_each(|(score, nats)| *score += (nats - best).max(-MOST_NATS));
    }
}
