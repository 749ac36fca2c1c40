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
        let mut left = search.run(&sample, &null);
        let mut scale = search.measure(&sample);
        // The others; what they leave unexplained joins the sample.
        let others: Vec<usize> = (0..p).filter(|fiber| fiber % every != 0).collect();
        let mut more = Fibers::new(n);
        for some in others.chunks(SAMPLE) {
            let mut fibers = Fibers::new(n);
            some.iter().for_each(|&fiber| fibers.push(tensor.fiber(fiber)));
            more.take(&fibers, &search.unexplained(&fibers));
        }
        let few: Vec<usize> = (0..more.len().min(SAMPLE)).collect();
        sample.take(&more, &few);
        if scale.is_some() {
            left = search.run(&sample, &null);
            scale = search.measure(&sample);
        }
        let left = left.len();
        let code_floor = scale.map_or(1.0, |scale| scale.code);
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
