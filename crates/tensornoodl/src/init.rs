//! The start from data: a dictionary, its size and the scale of the codes.

use crate::dictionary::Dictionary;
use crate::search::{Fibers, Null, Search};
use crate::tensor::Tensor;

/// Fibers that a search holds at a time.
const SAMPLE: usize = 16_384;

/// What data says of its patterns before anything is learned.
#[derive(Debug, Clone)]
pub struct Start {
    /// A(0); none if no pattern was found.
    pub dictionary: Option<Dictionary>,
    /// Evidence of each pattern, relative to the most that chance found.
    pub evidence: Vec<f64>,
    /// Fibers looked at, and those that stay unexplained.
    pub fibers: usize,
    pub unexplained: usize,
    /// Code floor
    pub code_floor: f64,
}

impl Start {
    /// Looks for patterns in a tensor.
    pub fn find(tensor: &Tensor<'_>, seed: u64) -> Start {
        let n = tensor.shape().features;
        let p = tensor.fibers();
        let every = p.div_ceil(SAMPLE).max(1);
        let mut sample = Fibers::new(n);
        (0..p).step_by(every).for_each(|fiber| sample.push(tensor.fiber(fiber)));
        let null = Null::new(&sample, seed);
        let mut search = Search::new(n, Vec::new(), seed);
        let mut left = search.run(&sample, &null).len();
        if every > 1 {
            // The others; what they leave unexplained joins the sample.
            let mut rest = 0;
            let others: Vec<usize> = (0..p).filter(|fiber| fiber % every != 0).collect();
            for some in others.chunks(SAMPLE) {
                let mut fibers = Fibers::new(n);
                some.iter().for_each(|&fiber| fibers.push(tensor.fiber(fiber)));
                for at in search.unexplained(&fibers) {
                    if rest < SAMPLE {
                        sample.values.extend_from_slice(fibers.get(at));
                        rest += 1;
                    }
                }
            }
            if rest > 0 {
                left = search.run(&sample, &null).len();
            }
        }
        // Codes in units of the data.
        let mut lengths = Vec::new();
        (0..p).step_by(every).for_each(|fiber| {
            let y = tensor.fiber(fiber);
            let square = crate::dense::dot(y, y);
            if square > 0.0 {
                lengths.push(square.sqrt());
            }
        });
        let mut sizes: Vec<f64> = Vec::new();
        for (fiber, code, _) in search.codes(&sample) {
            if fiber < lengths.len() {
                sizes.extend(code.iter().map(|(_, x)| x.abs() as f64 * lengths[fiber]));
            }
        }
        sizes.sort_by(f64::total_cmp);
        let code_floor = sizes.get(sizes.len() / 100).copied().unwrap_or(1.0);
        let values = search.patterns.iter().map(|&a| a as f64).collect();
        Start {
            dictionary: Dictionary::from_columns(n, values).ok(),
            evidence: search.evidence.iter().map(|&e| e as f64).collect(),
            fibers: p,
            unexplained: left,
            code_floor,
        }
    }
}
