//! Synthetic tensors of counts with known factors: Poisson streams.
//!
//! ```text
//! x_i  = events B_ji C_ki    the expected number of events of pattern i at row j and col k; B and C are sparse
//! y_f ~ Poisson((A x)_f)     the events of feature f; A_fi >= 0, sum_f A_fi = 1
//! ```
//!
//! As in [`synthetic`](crate::synthetic), A is drawn once, B(t) and C(t) are drawn for every step, and all random
//! numbers of a tensor depend only on (seed, step) and on the place of the fiber.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Gamma, Poisson};

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::data::tensor::Tensor;
use crate::error::Error;
use crate::evaluate::synthetic::{PlantedTensor, draw_factor, khatri_rao};
use crate::linalg::vector::add_scaled;
use crate::params::{Above, AtLeast, AtMost, within};
use crate::shape::{Place, Shape};

/// Sizes and distributions of a stream of synthetic tensors of counts.
#[derive(Debug, Clone, PartialEq)]
pub struct CountPlan {
    /// Number of features, n, at least 1.
    pub features: usize,
    /// Number of patterns, m, at least 1.
    pub patterns: usize,
    /// Number of rows, J, at least 1.
    pub rows: usize,
    /// Number of cols, K, at least 1.
    pub cols: usize,
    /// Probability that an entry of B is non-zero, alpha in (0, 1].
    pub alpha: f64,
    /// Probability that an entry of C is non-zero, beta in (0, 1].
    pub beta: f64,
    /// Mean number of events that a pattern has in a fiber that shows it, in [1e-3, 1e6]. The non-zero entries of B and
    /// of C are uniform between 1/2 and 3/2.
    pub events: f64,
    /// Concentration of the Dirichlet distribution that patterns are drawn from, in [0.01, 1000]. A pattern has few
    /// large shares if it is small, and nearly equal shares if it is large.
    pub concentration: f64,
    /// Over-dispersion d in [0, 100]: a count with mean l has the variance l + d l^2 (negative binomial). With 0 counts
    /// are Poisson.
    pub dispersion: f64,
    /// Whether all tensors have the factors of step 1. Otherwise B and C are drawn for every step.
    pub same_factors: bool,
    /// Number of late patterns: the last `late` patterns are in no tensor before step `late_step`.
    pub late: usize,
    /// The first step with the late patterns. Steps count from 1.
    pub late_step: u64,
    /// Number of patterns that end: the first `gone` patterns are in no tensor from step `gone_step` on.
    pub gone: usize,
    /// The first step without the patterns that end.
    pub gone_step: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for CountPlan {
    /// A small stream: 5 patterns of 40 features in tensors of 30 x 30 places, with 60 events for each code.
    fn default() -> Self {
        CountPlan {
            features: 40,
            patterns: 5,
            rows: 30,
            cols: 30,
            alpha: 0.2,
            beta: 0.2,
            events: 60.0,
            concentration: 0.3,
            dispersion: 0.0,
            same_factors: false,
            late: 0,
            late_step: 1,
            gone: 0,
            gone_step: 1,
            seed: 42,
        }
    }
}

impl CountPlan {
    /// Checks the range of every field. [`PlantedCounts::new`] calls this function.
    ///
    /// # Errors
    /// [`Error::Parameter`] for the first field outside its range.
    pub fn check(&self) -> Result<(), Error> {
        let longest = u32::MAX as f64;
        within("n", self.features as f64, AtLeast(1.0), AtMost(longest))?;
        within("patterns", self.patterns as f64, AtLeast(1.0), AtMost(longest))?;
        within("rows", self.rows as f64, AtLeast(1.0), AtMost(longest))?;
        within("cols", self.cols as f64, AtLeast(1.0), AtMost(longest))?;
        within("alpha", self.alpha, Above(0.0), AtMost(1.0))?;
        within("beta", self.beta, Above(0.0), AtMost(1.0))?;
        within("events", self.events, AtLeast(1e-3), AtMost(1e6))?;
        within("concentration", self.concentration, AtLeast(0.01), AtMost(1000.0))?;
        within("dispersion", self.dispersion, AtLeast(0.0), AtMost(100.0))?;
        within("late", self.late as f64, AtLeast(0.0), AtMost(self.patterns as f64))?;
        within("gone", self.gone as f64, AtLeast(0.0), AtMost(self.patterns as f64))
    }

    /// The random number generator for one purpose. Purposes never share random numbers.
    fn rng(&self, purpose: Purpose) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(match purpose {
            Purpose::Dictionary => 0,
            Purpose::Factors(step) => 2 * step,
            Purpose::Events(step) => 2 * step + 1,
        });
        rng
    }
}

/// The use of a random number generator.
enum Purpose {
    Dictionary,
    /// B and C of a step, from 1.
    Factors(u64),
    /// The events of a step, from 1.
    Events(u64),
}

/// A stream of synthetic tensors of counts: the true dictionary, and a tensor for every step.
#[derive(Debug, Clone)]
pub struct PlantedCounts {
    plan: CountPlan,
    true_dictionary: Dictionary,
}

impl PlantedCounts {
    /// Draws the true dictionary: columns from a Dirichlet distribution, with sum 1.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a field of the plan is outside its range.
    pub fn new(plan: CountPlan) -> Result<PlantedCounts, Error> {
        plan.check()?;
        let mut rng = plan.rng(Purpose::Dictionary);
        // A tiny part is added to every share, because tiny draws underflow, and a pattern must not be zero.
        let mut share = || 1e-9 + draw_gamma(&mut rng, plan.concentration);
        let values = (0..plan.features * plan.patterns).map(|_| share()).collect();
        let true_dictionary = Dictionary::with_unit_sums(plan.features, values);
        Ok(PlantedCounts { plan, true_dictionary })
    }

    /// The plan of the stream.
    pub fn plan(&self) -> &CountPlan {
        &self.plan
    }

    /// The true dictionary A*, whose columns add up to 1.
    pub fn true_dictionary(&self) -> &Dictionary {
        &self.true_dictionary
    }

    /// Draws the tensor of a step. Steps count from 1. Fibers without events are left out. The true codes are the
    /// expected numbers of events x, and the true row factor contains the factor `events`.
    pub fn tensor(&self, step: u64) -> PlantedTensor {
        let plan = &self.plan;
        let (n, m) = (plan.features, plan.patterns);
        let mut rng = plan.rng(Purpose::Factors(if plan.same_factors { 1 } else { step }));
        let present = |i: usize| {
            (step >= plan.late_step || i < m - plan.late) && (step < plan.gone_step || i >= plan.gone)
        };
        let value = |rng: &mut ChaCha8Rng| 0.5 + rng.random::<f64>();
        let true_rows =
            draw_factor(&mut rng, (plan.rows, m), plan.alpha, present, |rng| plan.events * value(rng));
        let true_cols = draw_factor(&mut rng, (plan.cols, m), plan.beta, present, value);
        let (all_places, all_codes) = khatri_rao(&true_rows, &true_cols, |_| true);

        let (mut places, mut codes, mut fibers) = (Vec::new(), Sparse::new(m), Sparse::new(n));
        let mut rng = plan.rng(Purpose::Events(step));
        let mut expected = vec![0.0; n];
        for (&place, code) in all_places.iter().zip(all_codes.columns()) {
            expected.fill(0.0);
            code.iter()
                .for_each(|&(i, x)| add_scaled(&mut expected, x, self.true_dictionary.pattern(i as usize)));
            rng.set_word_pos(self.word(place));
            let counts = (0..).zip(&expected).map(|(feature, l)| (feature, self.draw_count(&mut rng, *l)));
            let fiber: Vec<(u32, f64)> = counts.filter(|entry| entry.1 > 0.0).collect();
            if !fiber.is_empty() {
                places.push(place);
                codes.push(code);
                fibers.push(&fiber);
            }
        }
        let shape = Shape { features: n, rows: plan.rows, cols: plan.cols };
        let tensor = Tensor::trusted_sparse(shape, fibers, places);
        let true_codes = Codes::new(codes, &tensor);
        PlantedTensor { tensor, true_codes, true_rows, true_cols }
    }

    /// Where the random numbers of a place start. A place has more of them than its fiber usually needs.
    fn word(&self, place: Place) -> u128 {
        let index = u128::from(place.col) * self.plan.rows as u128 + u128::from(place.row);
        index * 64 * self.plan.features as u128
    }

    /// Draws a count with this mean.
    fn draw_count(&self, rng: &mut ChaCha8Rng, mean: f64) -> f64 {
        let d = self.plan.dispersion;
        let rate = if d > 0.0 { mean * d * draw_gamma(rng, 1.0 / d) } else { mean };
        Poisson::new(rate).map_or(0.0, |poisson| rng.sample(poisson))
    }
}

/// Draws from a Gamma distribution with unit scale.
fn draw_gamma(rng: &mut ChaCha8Rng, shape: f64) -> f64 {
    Gamma::new(shape, 1.0).map_or(0.0, |gamma| rng.sample(gamma))
}
