//! The dictionary grows: from nothing, and whenever fibers show what it does not explain.
//!
//! One tensor never shows every pattern, and a pattern that the dictionary lacks would pull its
//! neighbours away. So fibers that are not explained teach nothing (`update.rs`); they are pooled, and
//! searched for what they share (`search.rs`).

use crate::dictionary::Dictionary;
use crate::search::{Fibers, Null, Scale, Search};
use crate::tensor::Tensor;
use crate::update::Strangers;

/// Fibers that a search holds at a time, and that wait for others like them, at most.
const MOST_FIBERS: usize = 16_384;

/// Fibers that tell their usual noise.
const ENOUGH: usize = 50;

/// Fibers waiting to be explained, and what is known of the data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Growth {
    n: usize,
    seed: u64,
    /// None before the first pattern.
    pub(crate) scale: Option<Scale>,
    null: Null,
    pool: Fibers,
    /// Fibers that came since the last search, and how many it takes for the next.
    fresh: usize,
    patience: usize,
    /// Evidence of each pattern found, relative to the most that chance found.
    pub(crate) evidence: Vec<f64>,
}

impl Growth {
    pub(crate) fn new(n: usize, seed: u64) -> Growth {
        let (null, pool) = (Null::new(n, seed), Fibers::new(n));
        Growth { n, seed, scale: None, null, pool, fresh: 0, patience: 1, evidence: Vec::new() }
    }

    /// Number of fibers that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.pool.len()
    }

    /// The first patterns, from a whole tensor, column by column.
    pub(crate) fn start(&mut self, tensor: &Tensor<'_>) -> Vec<f64> {
        let p = tensor.fibers();
        let every = p.div_ceil(MOST_FIBERS).max(1);
        let mut sample = std::mem::replace(&mut self.pool, Fibers::new(self.n));
        (0..p).step_by(every).for_each(|fiber| sample.push(tensor.fiber(fiber)));
        self.null.add(&sample);
        let mut search = Search::new(self.n, Vec::new(), None, self.seed);
        let mut left = search.run(&sample, &mut self.null);
        if search.measure(&sample).is_some() {
            // The others; what they leave unexplained joins the sample.
            let others: Vec<usize> = (0..p).filter(|fiber| fiber % every != 0).collect();
            let mut more = Fibers::new(self.n);
            for some in others.chunks(MOST_FIBERS) {
                let mut fibers = Fibers::new(self.n);
                some.iter().for_each(|&fiber| fibers.push(tensor.fiber(fiber)));
                let mut unexplained = search.unexplained(&fibers);
                unexplained.truncate(MOST_FIBERS - more.len());
                more.take(&fibers, &unexplained);
            }
            sample.take(&more, &(0..more.len()).collect::<Vec<_>>());
            left = search.run(&sample, &mut self.null);
            self.scale = search.measure(&sample);
        }
        self.end(search, &sample, &left)
    }

    /// New patterns, from fibers that the dictionary does not explain.
    pub(crate) fn grow(&mut self, dictionary: &Dictionary, strangers: Strangers) -> Vec<f64> {
        self.listen(strangers.rests);
        let strangers = strangers.fibers;
        self.fresh += strangers.len();
        let mut pool = std::mem::replace(&mut self.pool, Fibers::new(self.n));
        pool.take(&strangers, &(0..strangers.len()).collect::<Vec<_>>());
        let oldest = pool.len().saturating_sub(MOST_FIBERS);
        self.pool.take(&pool, &(oldest..pool.len()).collect::<Vec<_>>());
        if self.fresh < self.patience || self.pool.len() < 2 {
            return Vec::new();
        }
        self.fresh = 0;
        self.null.add(&strangers);
        let known = dictionary.values().iter().map(|&a| a as f32).collect();
        let mut search = Search::new(self.n, known, self.scale, self.seed);
        let pool = std::mem::replace(&mut self.pool, Fibers::new(self.n));
        let left = search.run(&pool, &mut self.null);
        if self.scale.is_none() {
            self.scale = search.measure(&pool);
        }
        let found = self.end(search, &pool, &left);
        // Many that stay unexplained would be searched in vain again and again.
        self.patience = if found.is_empty() { 1 + self.pool.len() / 8 } else { 1 };
        found
    }

    /// The noise, from what is left of the fibers of a tensor.
    fn listen(&mut self, mut rests: Vec<f64>) {
        let middle = rests.len() / 2;
        if let Some(scale) = &mut self.scale && rests.len() >= ENOUGH {
            scale.noise = *rests.select_nth_unstable_by(middle, f64::total_cmp).1;
        }
    }

    /// Keeps what is left, and hands out what was found.
    fn end(&mut self, search: Search, fibers: &Fibers, left: &[usize]) -> Vec<f64> {
        self.pool = Fibers::new(self.n);
        self.pool.take(fibers, left);
        let found = search.found();
        let new = search.evidence.len() - found.len() / self.n;
        self.evidence.extend(search.evidence[new..].iter().map(|&e| e as f64));
        found
    }
}
