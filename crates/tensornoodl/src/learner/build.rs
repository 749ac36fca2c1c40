//! Constructors of a learner: from nothing, from patterns that were found, and from a first tensor.

use std::sync::Arc;

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::growth::Discovery;
use crate::discover::params::DiscoverParams;
use crate::discover::sample::sample;
use crate::discover::stable::find_stable;
use crate::discover::start::Start;
use crate::error::Error;
use crate::learner::common::Common;
use crate::learner::counts::Counts;
use crate::learner::exact::{Again, Exact};
use crate::learner::{Learner, Method};
use crate::parallel::team::{Team, agree};
use crate::params::{Params, Rule};
use crate::shape::Shape;
use crate::stop::Stop;

impl Learner {
    /// Makes a learner that starts without patterns and finds them in the data: at the first tensor, and whenever
    /// fibers show something new.
    ///
    /// `code_floor` and `tau` are in units of the smallest codes of the data. These units are found in the data as
    /// well.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range, [`Error::Shape`] for no features or too many.
    pub fn from_nothing(features: usize, params: Params, discover: DiscoverParams) -> Result<Learner, Error> {
        discover.check()?;
        Shape { features, rows: 1, cols: 1 }.check()?;
        let stop = discover.stop.clone();
        let discovery = Some(Discovery::new(features, discover));
        Learner::growing(Dictionary::empty(features), params, discovery, stop)
    }

    /// Makes a learner that starts with the patterns that were found in a tensor, in the units of that tensor.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range.
    pub fn from_start(start: &Start, params: Params, discover: DiscoverParams) -> Result<Learner, Error> {
        discover.check()?;
        let evidence: Vec<f64> = start.findings.iter().map(|finding| finding.evidence).collect();
        let features = start.dictionary.features();
        let stop = discover.stop.clone();
        let discovery = Some(Discovery::with_patterns(features, discover, start.scale, &evidence));
        Learner::growing(start.dictionary.clone(), params, discovery, stop)
    }

    /// Makes a learner of the exact model whose dictionary grows.
    fn growing(
        dictionary: Dictionary,
        params: Params,
        discovery: Option<Discovery>,
        stop: Stop,
    ) -> Result<Learner, Error> {
        params.check()?;
        let method = Method::Exact(Box::new(Exact::new(dictionary.patterns(), discovery)));
        Ok(Learner { common: Common { stop, ..Common::new(dictionary, params) }, method })
    }

    /// Makes a learner of the counts model, without patterns. It finds them in the data: at the first tensor, and along
    /// the stream.
    ///
    /// The number of patterns is `discover.max_patterns` if that equals `discover.min_patterns`, or otherwise as many as
    /// predict hidden cells significantly better than fewer do, up to `discover.max_patterns`. Of the other parameters,
    /// `params.passes` and `params.forgetting` apply.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range, [`Error::Shape`] for no features or too many.
    pub fn for_counts(features: usize, params: Params, discover: DiscoverParams) -> Result<Learner, Error> {
        params.check()?;
        discover.check()?;
        Shape { features, rows: 1, cols: 1 }.check()?;
        let stop = discover.stop.clone();
        let common = Common { stop, ..Common::new(Dictionary::empty(features), params) };
        Ok(Learner { common, method: Method::Counts(Box::new(Counts::new(features, discover))) })
    }

    /// Makes a learner with the patterns that [`find_stable`](crate::discover::find_stable) finds in a tensor. The
    /// ranks of the team have shares of this tensor.
    ///
    /// With `stream`, more tensors follow, and the learner takes up new patterns as they appear. With the paper's
    /// step ([`Rule::Paper`]), a learner that found patterns here takes up no further ones, and its parameters are in
    /// the units of the data.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range; without `stream`, [`Error::NoPattern`] or
    /// [`Error::NothingShared`] if there is no pattern; [`Error::Stopped`] if `discover.stop` ended the search; the
    /// error of another rank as [`Error::OtherRank`].
    pub fn from_tensor(
        team: Arc<dyn Team>,
        tensor: &Tensor<'_>,
        params: Params,
        discover: DiscoverParams,
        stream: bool,
    ) -> Result<Learner, Error> {
        agree(&*team, params.check())?;
        let (sample, left_out) = sample(&*team, tensor);
        // All ranks search the same fibers and find the same patterns, unless one of them is stopped.
        let learner = agree(&*team, Learner::from_sample(&sample, params, discover, stream || left_out));
        learner.map(|mut learner| {
            learner.join(team);
            learner
        })
    }

    fn from_sample(
        tensor: &Tensor<'_>,
        params: Params,
        discover: DiscoverParams,
        stream: bool,
    ) -> Result<Learner, Error> {
        let (found, min_length) = (find_stable(tensor, &discover)?, discover.min_length);
        let discover = DiscoverParams { min_length: found.min_length, ..discover };
        let again = stream.then_some(Again { min_length, little: 0 });
        if found.findings.is_empty() {
            let features = tensor.shape().features;
            return match (stream, discover.max_patterns) {
                (true, _) => Ok(Learner::from_nothing(features, params, discover)?.beginning(again)),
                (false, None) => Err(Error::NoPattern),
                (false, Some(_)) => Err(Error::NothingShared),
            };
        }
        if params.rule != Rule::Adaptive {
            return Learner::new(found.dictionary, params);
        }
        // A single tensor has shown all its patterns. A stream may bring more, and so may fibers outside the sample.
        let max_patterns = if stream { discover.max_patterns } else { Some(found.findings.len()) };
        let discover = DiscoverParams { min_patterns: 0, max_patterns, ..discover };
        Ok(Learner::from_start(&found, params, discover)?.beginning(again))
    }

    /// Makes a learner of the exact model begin again if its patterns explain little.
    fn beginning(mut self, again: Option<Again>) -> Learner {
        if let Method::Exact(exact) = &mut self.method {
            exact.again = again;
        }
        self
    }
}
